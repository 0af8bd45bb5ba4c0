{{/* Which objects for Prometheus and Grafana are made, and what the notes say about them. */}}

{{/* "version|kind" of a part, from (list $ "serviceMonitor"), in the words of the operator that reads it. */}}
{{- define "gpu-exporter.kind" -}}
{{- $monitoring := (index . 0).Values.monitoring -}}
{{- $kinds := dict "serviceMonitor" "ServiceMonitor" "podMonitor" "PodMonitor" "prometheusRule" "PrometheusRule" "dashboards" "ServiceMonitor" -}}
{{- $version := "monitoring.coreos.com/v1" -}}
{{- if eq $monitoring.operator "victoriametrics" -}}
{{- $kinds = dict "serviceMonitor" "VMServiceScrape" "podMonitor" "VMPodScrape" "prometheusRule" "VMRule" "dashboards" "VMServiceScrape" -}}
{{- $version = "operator.victoriametrics.com/v1beta1" -}}
{{- end -}}
{{- printf "%s|%s" (default $version $monitoring.apiVersion) (get $kinds (index . 1)) -}}
{{- end -}}

{{/*
"yes" where a part is made, from (list $ "serviceMonitor"). A part that is `auto` follows `monitoring.enabled`; where that
is `auto` too, the kinds that the cluster knows decide. Grafana's sidecar has no kind: it comes with the operator's stack.
*/}}
{{- define "gpu-exporter.makes" -}}
{{- $root := index . 0 -}}
{{- $part := index . 1 -}}
{{- $v := $root.Values -}}
{{- $enabled := (index $v $part).enabled -}}
{{- if eq (toString $enabled) "auto" -}}
{{- $enabled = $v.monitoring.enabled -}}
{{- if eq (toString $enabled) "auto" -}}
{{- $enabled = $root.Capabilities.APIVersions.Has (include "gpu-exporter.kind" (list $root $part) | replace "|" "/") -}}
{{- end -}}
{{- /* One monitor, not two: the ServiceMonitor where there is a service. */ -}}
{{- if and (eq $part "serviceMonitor") (or (not $v.service.enabled) (eq (toString $v.podMonitor.enabled) "true")) -}}
{{- $enabled = false -}}
{{- end -}}
{{- if and (eq $part "podMonitor") (or $v.service.enabled (ne (toString $v.serviceMonitor.enabled) "auto")) -}}
{{- $enabled = false -}}
{{- end -}}
{{- end -}}
{{- if $enabled -}}yes{{- end -}}
{{- end -}}

{{/* What is on, what is off, and the next command. */}}
{{- define "gpu-exporter.monitoring.notes" -}}
{{- $root := . -}}
{{- $on := list -}}
{{- $off := list -}}
{{- $unlabelled := list -}}
{{- $byLabel := eq .Values.monitoring.operator "prometheus" -}}
{{- range $part := list "serviceMonitor" "podMonitor" "prometheusRule" -}}
{{- if include "gpu-exporter.makes" (list $root $part) -}}
{{- $labelled := or (not $byLabel) (hasKey (index $root.Values $part).labels "release") -}}
{{- $name := ternary "rules" (include "gpu-exporter.kind" (list $root $part) | splitList "|" | last) (eq $part "prometheusRule") -}}
{{- $on = append $on (printf "%s%s" $name (ternary "" " (without label release)" $labelled)) -}}
{{- if not $labelled -}}{{- $unlabelled = append $unlabelled (printf "%s.labels.release=STACK" $part) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if not (or (include "gpu-exporter.makes" (list . "serviceMonitor")) (include "gpu-exporter.makes" (list . "podMonitor"))) -}}{{- $off = append $off "monitor" -}}{{- end -}}
{{- if not (include "gpu-exporter.makes" (list . "prometheusRule")) -}}{{- $off = append $off "rules" -}}{{- end -}}
{{- if include "gpu-exporter.makes" (list . "dashboards") -}}{{- $on = append $on "dashboards" -}}{{- else -}}{{- $off = append $off "dashboards" -}}{{- end -}}
{{- $upgrade := printf "helm upgrade %s CHART -n %s --reset-then-reuse-values --set" .Release.Name .Release.Namespace -}}
{{- $next := "kubectl -n NAMESPACE port-forward service/prometheus-operated 9090 # of Prometheus; then ask http://localhost:9090 for gpu_exporter_build_info" -}}
{{- if $unlabelled -}}
{{- $next = printf "%s %s # for kube-prometheus-stack, release STACK: it selects by this label" $upgrade (join "," $unlabelled) -}}
{{- end -}}
{{- if has "monitor" $off -}}
{{- $next = printf "%s monitoring.enabled=true" $upgrade -}}
{{- end -}}
Monitoring on:  {{ default "nothing" (join ", " $on) }}
Monitoring off: {{ default "nothing" (join ", " $off) }}
Next: {{ $next }}
{{- end -}}

{{/* A file of the subchart: a list of the root and its path. Only a packed chart has them. */}}
{{- define "gpu-exporter.packed" -}}
{{- $text := (index (index . 0).Subcharts "rules-and-dashboards").Files.Get (index . 1) -}}
{{- if not $text -}}
{{- fail "this folder is the chart's source, without rules and dashboards: `make chart` writes the chart to build/gpu-exporter" -}}
{{- end -}}
{{- $text -}}
{{- end -}}
