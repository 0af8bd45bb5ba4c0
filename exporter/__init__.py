"""Prometheus exporter for NVIDIA GPUs: every GPU second has an owner and a cause."""

__version__ = "0.1.0"
