"""What a metric family is, and how counters are carried over resets of their source."""
