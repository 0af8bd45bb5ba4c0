"""Faults that stay until they are mended, and the GPUs a node should have."""
