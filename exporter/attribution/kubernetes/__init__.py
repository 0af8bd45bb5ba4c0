"""Pods and their GPUs, by the kubelet's pod resources, its log directories and the API server."""
