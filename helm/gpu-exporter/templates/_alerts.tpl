{{/* The alert groups: marks `<Alert.key>` replaced by values, the alerts that are switched off left out. */}}
{{- define "gpu-exporter.alerts" -}}
{{- $alerts := .Values.prometheusRule.alerts -}}
{{- $values := mergeOverwrite (.Files.Get "files/rules/alert-values.yaml" | fromYaml) $alerts.rules -}}
{{- $jobs := default (printf ".*%s.*" (include "gpu-exporter.name" .)) $alerts.jobs -}}
{{- $text := .Files.Get "files/rules/gpu-alerts.yaml" | replace "<jobs>" $jobs | replace "<runbooks>" $alerts.runbooks | replace "<interval>" $alerts.interval -}}
{{- range $alert, $settings := $values -}}
{{- range $key, $value := $settings -}}
{{- $text = replace (printf "<%s.%s>" $alert $key) (toString $value) $text -}}
{{- end -}}
{{- end -}}
{{- $groups := list -}}
{{- range (fromYaml $text).groups -}}
{{- $kept := list -}}
{{- range $rule := .rules -}}
{{- if (get $values $rule.alert).enabled -}}
{{- if eq (default "" $rule.keep_firing_for) "0s" }}{{ $_ := unset $rule "keep_firing_for" }}{{ end -}}
{{- $_ := set $rule "labels" (mergeOverwrite (dict) $alerts.labels $rule.labels) -}}
{{- $kept = append $kept $rule -}}
{{- end -}}
{{- end -}}
{{- if $kept -}}
{{- $groups = append $groups (dict "name" .name "interval" .interval "rules" $kept) -}}
{{- end -}}
{{- end -}}
{{- toYaml (dict "groups" $groups) -}}
{{- end -}}
