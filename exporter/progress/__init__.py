"""Progress that programs report, through a socket or through files in a folder."""
