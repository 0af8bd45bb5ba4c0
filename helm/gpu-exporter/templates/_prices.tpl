{{/* The rule that records the site's prices, as `gpu-exporter report --format rules` writes it. */}}

{{- define "gpu-exporter.prices" -}}
{{- $arms := list -}}
{{- range .Values.prices.prices -}}
{{- if not (or .pool .profile) -}}
{{- $value := toString .per_gpu_hour -}}
{{- if .model -}}
{{- $value = printf "vector(%s)" $value -}}
{{- else -}}
{{- $value = printf "0 * group by (model) (gpu_info) + %s" $value -}}
{{- end -}}
{{- with .from -}}
{{- $value = printf "%s and on () vector(time()) >= %s" $value (include "gpu-exporter.day" .) -}}
{{- end -}}
{{- with .to -}}
{{- $value = printf "%s and on () vector(time()) < %s" $value (include "gpu-exporter.day" .) -}}
{{- end -}}
{{- if .model -}}
{{- $value = printf "label_replace(%s, \"model\", %s, \"\", \"\")" $value (.model | replace "$" "$$" | quote) -}}
{{- else if or .from .to -}}
{{- $value = printf "(%s)" $value -}}
{{- end -}}
{{- $arms = append $arms $value -}}
{{- end -}}
{{- end -}}
groups:
- name: gpu-prices
  interval: 1m
  rules:
  - record: gpu:price_per_hour
    expr: {{ printf "max by (model) (%s)" (default "vector(0) > 0" (join " or " $arms)) | quote }}
    labels: {currency: {{ default "USD" .Values.prices.currency | quote }}}
{{- end -}}

{{/* Unix seconds of the begin of a day in UTC. */}}
{{- define "gpu-exporter.day" -}}
{{- mustToDate "2006-01-02T15:04:05Z07:00" (printf "%sT00:00:00Z" .) | unixEpoch -}}
{{- end -}}
