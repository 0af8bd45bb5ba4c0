// For users of Prometheus mixins: (import 'gpu-exporter/dashboards/mixin.libsonnet') has the usual three fields.
local rules = {
  recording: std.parseYaml(importstr '../deploy/prometheus/rules/gpu-recording.yaml'),
  alerts: std.parseYaml(importstr '../deploy/prometheus/rules/gpu-alerts.yaml'),
};

{
  grafanaDashboards+:: {
    'gpu-fleet.json': import 'json/fleet.json',
    'gpu-node.json': import 'json/node.json',
    'gpu-device.json': import 'json/gpu.json',
    'gpu-workload-kubernetes.json': import 'json/workload-kubernetes.json',
    'gpu-workload-slurm.json': import 'json/workload-slurm.json',
    'gpu-job.json': import 'json/job.json',
    'gpu-waste.json': import 'json/waste.json',
    'gpu-showback.json': import 'json/showback.json',
    'gpu-capacity.json': import 'json/capacity.json',
    'gpu-health.json': import 'json/health.json',
    'gpu-throughput.json': import 'json/throughput.json',
    'gpu-exporter.json': import 'json/exporter.json',
  },
  prometheusRules+:: rules.recording,
  prometheusAlerts+:: rules.alerts,
}
