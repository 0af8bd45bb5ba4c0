"""Which pod holds which GPU: the kubelet's pod resources, its log directories, the API server."""
