{{/* The alert groups: marks `<Alert.key>` replaced by values, the alerts that are switched off left out. The nodes of an
incident are muted since GpuIncident tells of them: without it there are none. */}}
{{- define "gpu-exporter.alerts" -}}
{{- $alerts := .Values.prometheusRule.alerts -}}
{{- $values := mergeOverwrite (include "gpu-exporter.packed" (list . "rules/alert-values.yaml") | fromYaml) $alerts.rules -}}
{{- $marked := include "gpu-exporter.packed" (list . "rules/gpu-alerts.yaml") | replace "<runbooks>" (include "gpu-exporter.runbooks" .) | replace "<interval>" $alerts.interval | replace "<slowInterval>" $alerts.slowInterval -}}
{{- $text := $marked -}}
{{- range $alert, $settings := $values -}}
{{- range $key, $value := $settings -}}
{{- $text = replace (printf "<%s.%s>" $alert $key) (toString $value) $text -}}
{{- end -}}
{{- end -}}
{{- $groups := list -}}
{{- range (fromYaml $text).groups -}}
{{- $kept := list -}}
{{- range $rule := .rules -}}
{{- if $rule.record -}}
{{- $kept = append $kept $rule -}}
{{- else if and (get $values $rule.alert).enabled (or (ne $rule.alert "GpuIncidentNode") (get $values "GpuIncident").enabled) -}}
{{- $others := list -}}
{{- $more := list -}}
{{- range $alerts.overrides -}}
{{- if eq .alert $rule.alert -}}
{{- $own := include "gpu-exporter.alertOverride" (dict "marked" $marked "override" . "values" (get $values .alert)) | fromYaml -}}
{{- $_ := set $own "expr" (printf "(\n%s\n)\nand on (cluster, workload) last_over_time(gpu_workload_info{%s}[10m])" (trimSuffix "\n" $own.expr) .where) -}}
{{- if $others }}{{ $_ := set $own "expr" (include "gpu-exporter.alertWithout" (list $own.expr $others)) }}{{ end -}}
{{- $others = append $others (printf "last_over_time(gpu_workload_info{%s}[10m])" .where) -}}
{{- $more = append $more $own -}}
{{- end -}}
{{- end -}}
{{- if $others }}{{ $_ := set $rule "expr" (include "gpu-exporter.alertWithout" (list $rule.expr $others)) }}{{ end -}}
{{- range $each := prepend $more $rule -}}
{{- if eq (default "" $each.keep_firing_for) "0s" }}{{ $_ := unset $each "keep_firing_for" }}{{ end -}}
{{- $_ := set $each "labels" (mergeOverwrite (dict) $alerts.labels $each.labels) -}}
{{- with $alerts.grafanaUrl }}{{ $_ := set $each.annotations "dashboard" (print (trimSuffix "/" .) $each.annotations.dashboard) -}}{{ end -}}
{{- if $.Values.runbooks.baseUrl }}{{ $_ := set $each.annotations "runbook_url" (print $.Values.runbooks.baseUrl $each.labels.runbook) -}}
{{- else if not $.Values.service.enabled }}{{ $_ := set $each.annotations "runbook_url" (regexReplaceAll `^.*else }}(.*){{ end }}$` $each.annotations.runbook_url "${1}") }}{{ end -}}
{{- $_ := set $each "annotations" (mergeOverwrite (dict) $alerts.annotations $each.annotations) -}}
{{- $kept = append $kept $each -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $kept -}}
{{- $groups = append $groups (dict "name" .name "interval" .interval "rules" $kept) -}}
{{- end -}}
{{- end -}}
{{- toYaml (dict "groups" $groups) -}}
{{- end -}}

{{/* Where the exporters of this release serve their runbooks, to whoever can reach the Service. */}}
{{- define "gpu-exporter.runbooks" -}}
{{- printf "%s://%s.%s.svc:%d/runbooks/" (include "gpu-exporter.web.scheme" . | lower) (include "gpu-exporter.fullname" .) (include "gpu-exporter.namespace" .) (int64 .Values.port) -}}
{{- end -}}

{{/* One alert with the values of an override in place of its own. */}}
{{- define "gpu-exporter.alertOverride" -}}
{{- $override := .override -}}
{{- $text := .marked -}}
{{- range $key, $value := mergeOverwrite (dict) .values (dict "except" "workload=\"-\"") (omit $override "alert" "where") -}}
{{- $text = replace (printf "<%s.%s>" $override.alert $key) (toString $value) $text -}}
{{- end -}}
{{- range (fromYaml $text).groups -}}
{{- range .rules -}}
{{- if eq (default "" .alert) $override.alert }}{{ toYaml . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* An expression without the workloads of others: a list of it and of them. */}}
{{- define "gpu-exporter.alertWithout" -}}
{{- printf "(\n%s\n)\nunless on (cluster, workload) (%s)" (trimSuffix "\n" (index . 0)) (join " or " (index . 1)) -}}
{{- end -}}
