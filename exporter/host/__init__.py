"""What the host shows of processes and cgroups: reading is one function, understanding another, roots are arguments."""
