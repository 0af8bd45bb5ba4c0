{{/* The rules of the site's prices and budgets, as `gpu-exporter report --format rules` writes them. */}}

{{- define "gpu-exporter.prices" -}}
{{- $arms := list -}}
{{- range $row := .Values.prices.prices -}}
{{- $matchers := list -}}
{{- range $name := list "cluster" "model" "profile" "pool" -}}
{{- with get $row $name -}}{{- $matchers = append $matchers (printf "%s=%s" $name (quote .)) -}}{{- end -}}
{{- end -}}
{{- $value := printf "0 * profile:gpu_info:group{%s} + %s" (join ", " $matchers) (toString .per_gpu_hour) -}}
{{- with .from -}}
{{- $value = printf "%s and on () vector(time()) >= %s" $value (include "gpu-exporter.day" .) -}}
{{- end -}}
{{- with .to -}}
{{- $value = printf "%s and on () vector(time()) < %s" $value (include "gpu-exporter.day" .) -}}
{{- end -}}
{{- $arms = append $arms $value -}}
{{- end -}}
groups:
- name: gpu-prices
  interval: 4m
  rules:
  - record: profile:gpu_info:group
    expr: group by (cluster, model, profile, pool) (last_over_time(cluster_state:gpu_owner_gpu_seconds:increase[35d]) or gpu_owner_since_timestamp_seconds) or group by (cluster, model) (gpu_info)
  - record: gpu:price_per_hour
    expr: {{ printf "max by (cluster, model, profile, pool) (%s)" (default "vector(0) > 0" (join " or " $arms)) | quote }}
    labels: {currency: {{ default "USD" .Values.prices.currency | quote }}}
{{- $teams := dict -}}
{{- range $team, $owners := .Values.prices.teams -}}
{{- range $owners -}}{{- $_ := set $teams . $team -}}{{- end -}}
{{- end -}}
{{- range $owner, $team := $teams }}
  - record: team:gpu_site_team:group
    expr: vector(1)
    labels: {team: {{ quote $owner }}, site_team: {{ quote $team }}}
{{- end }}
{{- if .Values.prices.budgets }}
{{- range default (list 0.8 1.0) .Values.prices.budget_thresholds }}
  - alert: GpuTeamBudget
    expr: max without (instance, pod) (gpu_accounting_month_cost / (gpu_accounting_month_budget > 0)) >= {{ . }}
    labels: {severity: info, audience: owner, threshold: {{ printf "%.0f%%" (mulf . 100) | quote }}}
    annotations:
      summary: {{ "{{ $labels.team }} has spent {{ $value | humanizePercentage | reReplaceAll `([.].*)?%` ` %` }} of its GPU budget of the month" | quote }}
      description: {{ "See its jobs: `gpu-exporter report --month YYYY-MM --team {{ $labels.team }} --by job`." | quote }}
      runbook_url: https://github.com/gpu-exporter/gpu-exporter/blob/main/docs/how-to/account-teams.md#when-gputeambudget-fires
{{- end }}
{{- end }}
{{- end -}}

{{/* Unix seconds of the begin of a day in UTC. */}}
{{- define "gpu-exporter.day" -}}
{{- mustToDate "2006-01-02T15:04:05Z07:00" (printf "%sT00:00:00Z" .) | unixEpoch -}}
{{- end -}}
