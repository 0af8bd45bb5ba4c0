"""Faults that stay until they are fixed, and the GPUs a node should have."""
