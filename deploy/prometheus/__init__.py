"""Recording rules and alerts, declared in Python and written as YAML by `python -m deploy.prometheus.generate`."""
