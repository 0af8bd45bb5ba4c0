{{/* What ServiceMonitor and PodMonitor share, from (dict "root" $ "monitor" .Values.serviceMonitor). VictoriaMetrics' operator
has the same fields, but for the names of relabelings and metadata. */}}

{{- define "gpu-exporter.monitor.endpoint" -}}
{{- $monitor := .monitor -}}
port: metrics
path: {{ quote .root.Values.web.telemetryPath }}
honorLabels: {{ $monitor.honorLabels }}
{{- with $monitor.interval }}
interval: {{ . }}
{{- end }}
{{- with $monitor.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- include "gpu-exporter.web.monitor" .root }}
{{- $ofVictoria := eq .root.Values.monitoring.operator "victoriametrics" }}
{{- if and $ofVictoria $monitor.attachMetadata }}
attach_metadata: {{ toJson $monitor.attachMetadata }}
{{- end }}
{{- if or $monitor.nodeLabels $monitor.relabelings }}
{{ ternary "relabelConfigs" "relabelings" $ofVictoria }}:
{{- if $monitor.nodeLabels }}
- {action: replace, sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: node}
- {action: replace, sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: instance}
- {action: labeldrop, regex: pod|namespace|container}
{{- end }}
{{- with $monitor.relabelings }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- with $monitor.metricRelabelings }}
{{ ternary "metricRelabelConfigs" "metricRelabelings" $ofVictoria }}:
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "gpu-exporter.monitor" -}}
{{- $root := .root -}}
{{- $home := include "gpu-exporter.namespace" $root -}}
{{- $namespace := default $home .monitor.namespace -}}
{{- $endpoint := include "gpu-exporter.monitor.endpoint" . | fromYaml -}}
{{- $kind := include "gpu-exporter.kind" (list $root .part) | splitList "|" -}}
apiVersion: {{ index $kind 0 }}
kind: {{ index $kind 1 }}
metadata:
  {{- include "gpu-exporter.metadata" (dict "root" $root "name" (include "gpu-exporter.nameIn" (dict "root" $root "namespace" $namespace)) "namespace" $namespace "labels" (include "gpu-exporter.selection" (list $root .part) | fromJson).labels "annotations" .monitor.annotations) | nindent 2 }}
{{- $spec := dict "jobLabel" .monitor.jobLabel -}}
{{- if and .monitor.attachMetadata (ne $root.Values.monitoring.operator "victoriametrics") }}{{ $_ := set $spec "attachMetadata" .monitor.attachMetadata }}{{ end -}}
{{- if ne $namespace $home }}{{ $_ := set $spec "namespaceSelector" (dict "matchNames" (list $home)) }}{{ end -}}
{{- $_ := set $spec "selector" (dict "matchLabels" (include "gpu-exporter.selectorLabels" $root | fromYaml)) -}}
{{- $_ := set $spec .endpoints (list (mergeOverwrite $endpoint .monitor.endpoint)) }}
spec:
  {{- mergeOverwrite $spec .monitor.spec | toYaml | nindent 2 }}
{{- end -}}
