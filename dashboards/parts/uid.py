"""The dashboards' uids. Links and bookmarks hold them: they never change."""

FLEET = "gpu-fleet"
NODE = "gpu-node"
GPU = "gpu-device"
KUBERNETES = "gpu-workload-kubernetes"
SLURM = "gpu-workload-slurm"
WASTE = "gpu-waste"
HEALTH = "gpu-health"
THROUGHPUT = "gpu-throughput"
EXPORTER = "gpu-exporter"

TAG = "gpu-exporter"
"""On every dashboard; the drop-down of dashboards finds its entries by it."""
