"""Write the Prometheus operator's schemas as JSON to a directory, in an environment that has its models."""

import json
import sys
from pathlib import Path

from cloudcoil.models.prometheus_operator import v1

directory = Path(sys.argv[1])
directory.mkdir(parents=True, exist_ok=True)
for model in (v1.ServiceMonitor, v1.PodMonitor, v1.PrometheusRule):
    (directory / f"{model.__name__}.json").write_text(json.dumps(model.model_json_schema(by_alias=True)))
