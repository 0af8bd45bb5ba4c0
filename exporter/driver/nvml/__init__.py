"""The real driver: NVML through NVIDIA's own binding. Nothing outside this package knows ctypes or pynvml."""

from exporter.driver.nvml.driver import NvmlDriver

__all__ = ["NvmlDriver"]
