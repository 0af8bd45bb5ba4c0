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
{{- $on := contains "workload:gpu_owner:first" $rule.expr | ternary "(cluster, workload)" "(cluster, user, workload_namespace)" -}}
{{- range $alerts.overrides -}}
{{- if eq .alert $rule.alert -}}
{{- $own := include "gpu-exporter.alertOverride" (dict "marked" $marked "override" . "values" (get $values .alert)) | fromYaml -}}
{{- $selected := include "gpu-exporter.alertSelected" (list $on .where) -}}
{{- $_ := set $own "expr" (printf "(\n%s\n)\nand on %s %s" (trimSuffix "\n" $own.expr) $on $selected) -}}
{{- if $others }}{{ $_ := set $own "expr" (include "gpu-exporter.alertWithout" (list $own.expr $on $others)) }}{{ end -}}
{{- $others = append $others $selected -}}
{{- $more = append $more $own -}}
{{- end -}}
{{- end -}}
{{- if $others }}{{ $_ := set $rule "expr" (include "gpu-exporter.alertWithout" (list $rule.expr $on $others)) }}{{ end -}}
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

{{/* What the selector of an override selects: workloads, or all that are owners of such a workload. */}}
{{- define "gpu-exporter.alertSelected" -}}
{{- $where := index . 1 -}}
{{- if eq (index . 0) "(cluster, workload)" -}}
{{- printf "last_over_time(gpu_workload_info{%s}[10m])" $where -}}
{{- else -}}
{{- printf "(max by (cluster, user) (last_over_time(gpu_workload_info{%s,user!=\"\"}[1d]))" $where -}}
{{- printf " or max by (cluster, workload_namespace) (last_over_time(gpu_workload_info{%s,user=\"\",workload_namespace!=\"\"}[1d])))" $where -}}
{{- end -}}
{{- end -}}

{{/* An expression without what others are about: a list of it, the labels to match by, and what is left out. */}}
{{- define "gpu-exporter.alertWithout" -}}
{{- printf "(\n%s\n)\nunless on %s (%s)" (trimSuffix "\n" (index . 0)) (index . 1) (join " or " (index . 2)) -}}
{{- end -}}
