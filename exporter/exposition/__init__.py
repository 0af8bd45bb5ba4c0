"""What one pass publishes, and how it becomes the text Prometheus reads."""
