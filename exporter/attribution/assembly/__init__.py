"""The options of the sources of owners, and the attribution that they ask for."""
