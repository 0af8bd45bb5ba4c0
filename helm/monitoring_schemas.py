"""Write the Prometheus operator's schemas as JSON to a directory, in an environment that has its models."""

import json
import sys
from importlib import import_module
from pathlib import Path

# By name, because the type checkers run where the models are not installed.
v1 = import_module("cloudcoil.models.prometheus_operator.v1")
directory = Path(sys.argv[1])
directory.mkdir(parents=True, exist_ok=True)
for model in (v1.ServiceMonitor, v1.PodMonitor, v1.PrometheusRule):
    (directory / f"{model.__name__}.json").write_text(json.dumps(model.model_json_schema(by_alias=True)))
