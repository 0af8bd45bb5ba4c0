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

{{/* "yes" where annotations of the service take the place of a monitor. They name no password and no certificate authority. */}}
{{- define "gpu-exporter.annotated" -}}
{{- $v := .Values -}}
{{- $automatic := list $v.monitoring.enabled $v.serviceMonitor.enabled $v.podMonitor.enabled | uniq | join "" | eq "auto" -}}
{{- if and $automatic $v.service.enabled (not (include "gpu-exporter.web.on" .)) (not (include "gpu-exporter.makes" (list . "serviceMonitor"))) -}}yes{{- end -}}
{{- end -}}

{{/* "yes" where a label selector matches, from (list SELECTOR LABELS). */}}
{{- define "gpu-exporter.matches" -}}
{{- $selector := index . 0 -}}
{{- $labels := index . 1 -}}
{{- $fits := true -}}
{{- range $key, $value := default (dict) $selector.matchLabels -}}
{{- if ne (toString (get $labels $key)) $value -}}{{- $fits = false -}}{{- end -}}
{{- end -}}
{{- range default (list) $selector.matchExpressions -}}
{{- $there := hasKey $labels .key -}}
{{- $in := and $there (has (get $labels .key) (default (list) .values)) -}}
{{- if not (get (dict "In" $in "NotIn" (not $in) "Exists" $there "DoesNotExist" (not $there)) .operator) -}}{{- $fits = false -}}{{- end -}}
{{- end -}}
{{- if $fits -}}yes{{- end -}}
{{- end -}}

{{/*
JSON of how Prometheus selects a part, from (list $ "serviceMonitor"). `labels` are its own, and those that the selector of the
cluster's Prometheus asks for; a label that was given stays. Where several select by different labels, none is added. `by` is the
Prometheus that reads the part, `url` its first pod, where the test can ask that. `known` is false where the cluster may not be
asked, or has no Prometheus object. `missing` are the labels of each that does not read it, `namespaces` those that one reads.
*/}}
{{- define "gpu-exporter.selection" -}}
{{- $root := index . 0 -}}
{{- $part := index $root.Values (index . 1) -}}
{{- $field := ternary "rule" (index . 1) (eq (index . 1) "prometheusRule") -}}
{{- $namespace := default (include "gpu-exporter.namespace" $root) $part.namespace -}}
{{- $labels := default (dict) $part.labels -}}
{{- $all := (include "gpu-exporter.metadata" (dict "root" $root "name" "x" "labels" $labels) | fromYaml).labels -}}
{{- $items := list -}}
{{- $monitoring := $root.Values.monitoring -}}
{{- if and (eq $monitoring.operator "prometheus") (not $monitoring.apiVersion) (include "gpu-exporter.connected" $root) -}}
{{- if or ($root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1/Prometheus") (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "prometheuses.monitoring.coreos.com") -}}
{{- $items = default (list) (lookup "monitoring.coreos.com/v1" "Prometheus" "" "").items -}}
{{- end -}}
{{- end -}}
{{- $home := dict -}}
{{- with $items -}}{{- $home = mergeOverwrite (dict "kubernetes.io/metadata.name" $namespace) (dig "metadata" "labels" (dict) (lookup "v1" "Namespace" "" $namespace)) -}}{{- end -}}
{{- $by := dict -}}
{{- $offers := dict -}}
{{- $missing := list -}}
{{- $namespaces := list -}}
{{- range $items -}}
{{- $selector := get .spec (printf "%sSelector" $field) -}}
{{- $places := get .spec (printf "%sNamespaceSelector" $field) -}}
{{- if kindIs "map" $selector -}}
{{- if not (ternary (include "gpu-exporter.matches" (list (ternary $places (dict) (kindIs "map" $places)) $home)) (eq .metadata.namespace $namespace) (kindIs "map" $places)) -}}
{{- $namespaces = append $namespaces .metadata.namespace -}}
{{- else if include "gpu-exporter.matches" (list $selector $all) -}}
{{- $by = . -}}
{{- else if $selector.matchLabels -}}
{{- $pairs := list -}}
{{- range $key, $value := $selector.matchLabels -}}{{- $pairs = append $pairs (printf "%s=%s" $key $value) -}}{{- end -}}
{{- $missing = append $missing (join "," $pairs) | uniq -}}
{{- $_ := set $offers (join "," $pairs) . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (not $by) (eq (len $missing) 1) -}}
{{- $offer := get $offers (first $missing) -}}
{{- $selector := get $offer.spec (printf "%sSelector" $field) -}}
{{- if include "gpu-exporter.matches" (list $selector (merge (dict) $all $selector.matchLabels)) -}}
{{- $labels = merge (dict) $labels $selector.matchLabels -}}
{{- $by = $offer -}}
{{- end -}}
{{- end -}}
{{- $name := "" -}}
{{- $url := "" -}}
{{- with $by -}}
{{- $name = printf "%s/%s" .metadata.namespace .metadata.name -}}
{{- if not (or .spec.listenLocal (dig "web" "tlsConfig" nil .spec) (gt (int .spec.shards) 1) (and (hasKey .spec "replicas") (eq (int .spec.replicas) 0))) -}}
{{- $url = printf "http://prometheus-%s-0.%s.%s.svc:9090%s" .metadata.name (default "prometheus-operated" .spec.serviceName) .metadata.namespace (default "" .spec.routePrefix | trimSuffix "/") -}}
{{- end -}}
{{- end -}}
{{- dict "labels" $labels "known" (gt (len $items) 0) "by" $name "url" $url "missing" $missing "namespaces" $namespaces | toJson -}}
{{- end -}}

{{/* What is on, what is off, and the next command. */}}
{{- define "gpu-exporter.monitoring.notes" -}}
{{- $root := . -}}
{{- $on := list -}}
{{- $off := list -}}
{{- $sets := list -}}
{{- $why := "" -}}
{{- $home := "NAMESPACE" -}}
{{- $ofPrometheus := and (eq .Values.monitoring.operator "prometheus") (not .Values.monitoring.apiVersion) -}}
{{- range $part := list "serviceMonitor" "podMonitor" "prometheusRule" -}}
{{- if include "gpu-exporter.makes" (list $root $part) -}}
{{- $name := ternary "rules" (include "gpu-exporter.kind" (list $root $part) | splitList "|" | last) (eq $part "prometheusRule") -}}
{{- $found := include "gpu-exporter.selection" (list $root $part) | fromJson -}}
{{- $state := "" -}}
{{- if $found.by -}}
{{- $home = splitList "/" $found.by | first -}}
{{- $state = printf " (read by Prometheus %s)" $found.by -}}
{{- else if $found.missing -}}
{{- $state = printf " (not selected: label %s is missing)" (join ", or " $found.missing) -}}
{{- range first $found.missing | splitList "," -}}
{{- $pair := splitn "=" 2 . -}}
{{- $sets = append $sets (printf "%s.labels.%s=%s" $part ($pair._0 | replace "." "\\.") $pair._1) -}}
{{- end -}}
{{- $why = "the label that your Prometheus selects by" -}}
{{- else if $found.namespaces -}}
{{- $state = printf " (not selected: no Prometheus reads namespace %s)" (default (include "gpu-exporter.namespace" $root) (index $root.Values $part).namespace) -}}
{{- $sets = append $sets (printf "%s.namespace=%s" $part (first $found.namespaces)) -}}
{{- $why = "a namespace that your Prometheus reads" -}}
{{- else if $found.known -}}
{{- $state = " (not selected by any Prometheus)" -}}
{{- $why = default "none" $why -}}
{{- else if and $ofPrometheus (not (hasKey $found.labels "release")) -}}
{{- $state = " (without label release)" -}}
{{- $sets = append $sets (printf "%s.labels.release=STACK" $part) -}}
{{- $why = "for kube-prometheus-stack, release STACK: it selects by this label" -}}
{{- end -}}
{{- $on = append $on (printf "%s%s" $name $state) -}}
{{- end -}}
{{- end -}}
{{- if include "gpu-exporter.annotated" . -}}{{- $on = append $on "scrape annotations of the Service" -}}{{- end -}}
{{- if not (or (include "gpu-exporter.makes" (list . "serviceMonitor")) (include "gpu-exporter.makes" (list . "podMonitor"))) -}}{{- $off = append $off "monitor" -}}{{- end -}}
{{- if not (include "gpu-exporter.makes" (list . "prometheusRule")) -}}
{{- $off = append $off "rules" -}}
{{- else -}}
{{- if not .Values.prometheusRule.recordings }}{{ $off = append $off "recordings" }}{{ end -}}
{{- if not .Values.prometheusRule.alerts.enabled }}{{ $off = append $off "alerts" }}{{ end -}}
{{- end -}}
{{- if include "gpu-exporter.makes" (list . "dashboards") -}}{{- $on = append $on "dashboards" -}}{{- else -}}{{- $off = append $off "dashboards" -}}{{- end -}}
{{- $upgrade := printf "helm upgrade %s CHART -n %s --reset-then-reuse-values" .Release.Name .Release.Namespace -}}
{{- $next := printf "kubectl -n %s port-forward service/prometheus-operated 9090 # of Prometheus; then ask http://localhost:9090 for gpu_exporter_build_info" $home -}}
{{- if not $ofPrometheus -}}
{{- $next = "query gpu_exporter_build_info: one series for each node with a pod" -}}
{{- end -}}
{{- if $sets -}}
{{- /* All of them are texts: of true or 5, --set makes what the schema refuses. */ -}}
{{- $next = printf "%s --set-string '%s' # %s" $upgrade (join "," $sets) $why -}}
{{- else if $why -}}
{{- $next = "kubectl get prometheuses -A -o yaml # serviceMonitorSelector and ruleSelector are not set, or ask for labels by expressions" -}}
{{- end -}}
{{- $part := ternary "serviceMonitor" "podMonitor" .Values.service.enabled -}}
{{- if not (has "monitor" $off) -}}
{{- else if and (include "gpu-exporter.connected" .) (not (.Capabilities.APIVersions.Has (include "gpu-exporter.kind" (list . $part) | replace "|" "/"))) -}}
{{- $next = printf "%s %s/blob/main/docs/how-to/prometheus-grafana.md#without-the-operator" (ternary "add rules and dashboards:" "add a scrape job:" (include "gpu-exporter.annotated" . | eq "yes")) .Chart.Home -}}
{{- else -}}
{{- $next = printf "%s --set monitoring.enabled=true,%s.enabled=auto" $upgrade $part | trimSuffix (printf ",%s.enabled=auto" (ternary $part "-" (eq (toString (index .Values $part).enabled) "auto"))) -}}
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
