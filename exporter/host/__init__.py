"""What the host says of processes and cgroups: reading is one function, understanding another, roots are arguments."""
