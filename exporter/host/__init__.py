"""Processes and cgroups of the host: reading is one function, understanding another, roots are arguments."""
