"""The HTTP side: metrics, health, status page. It renders what the sampler published and never calls the driver."""
