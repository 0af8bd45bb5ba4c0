"""The command line: one module per subcommand, and the assembly of the parts they start."""
