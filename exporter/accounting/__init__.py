"""Exact accounting on the node: one row per allocation and hour, and counters of owners, kept over restarts."""
