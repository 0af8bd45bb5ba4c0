"""The interface to whatever answers for the GPUs, and the NVML driver behind it."""
