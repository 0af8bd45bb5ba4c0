"""Contents of one cycle, and the text Prometheus reads of it."""
