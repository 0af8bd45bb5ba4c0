"""What training and serving programs report of themselves, through small files they leave in a directory."""
