"""What training and serving programs report of themselves: through a socket, or through files in a folder."""
