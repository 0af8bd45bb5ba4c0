"""Options: how one is declared, and how flags, environment and file become a configuration."""
