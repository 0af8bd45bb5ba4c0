"""Names of containers that run without Kubernetes, from the state files of their engines."""
