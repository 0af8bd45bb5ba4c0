"""The threads of the process, each run by one runner that notices when it fails."""
