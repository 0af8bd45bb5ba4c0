{{/* What ServiceMonitor and PodMonitor share, from (dict "root" $ "monitor" .Values.serviceMonitor). */}}

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
{{- if or $monitor.nodeLabels $monitor.relabelings }}
relabelings:
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
metricRelabelings:
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "gpu-exporter.monitor" -}}
{{- $root := .root -}}
{{- $home := include "gpu-exporter.namespace" $root -}}
{{- $namespace := default $home .monitor.namespace -}}
{{- $endpoint := include "gpu-exporter.monitor.endpoint" . | fromYaml -}}
apiVersion: monitoring.coreos.com/v1
kind: {{ .kind }}
metadata:
  {{- include "gpu-exporter.metadata" (dict "root" $root "name" (include "gpu-exporter.nameIn" (dict "root" $root "namespace" $namespace)) "namespace" $namespace "labels" .monitor.labels "annotations" .monitor.annotations) | nindent 2 }}
{{- $spec := dict "jobLabel" "app.kubernetes.io/name" -}}
{{- if ne $namespace $home }}{{ $_ := set $spec "namespaceSelector" (dict "matchNames" (list $home)) }}{{ end -}}
{{- $_ := set $spec "selector" (dict "matchLabels" (include "gpu-exporter.selectorLabels" $root | fromYaml)) -}}
{{- $_ := set $spec .endpoints (list (mergeOverwrite $endpoint .monitor.endpoint)) }}
spec:
  {{- mergeOverwrite $spec .monitor.spec | toYaml | nindent 2 }}
{{- end -}}
