{{/* Combinations that cannot work, each refused with one line. */}}

{{- define "gpu-exporter.validate" -}}
{{- $v := .Values -}}
{{- range $name, $ours := .Files.Get "files/names-of-other-charts.yaml" | fromYaml -}}
{{- $at := $v -}}
{{- range splitList "." $name }}{{ $at = ternary (get $at .) nil (and (kindIs "map" $at) (hasKey (default (dict) $at) .)) }}{{ end -}}
{{- if not (kindIs "invalid" $at) -}}
{{- fail (printf "%s: this chart calls it %s" $name $ours) -}}
{{- end -}}
{{- end -}}
{{- $user := include "gpu-exporter.runAsUser" . -}}
{{- $nonRoot := or (eq (toString (dig "runAsNonRoot" false $v.podSecurityContext)) "true") (eq (toString (dig "runAsNonRoot" false $v.containerSecurityContext)) "true") -}}
{{- if and $v.attribution.pods.enabled (or (ne $user "0") $nonRoot) -}}
{{- fail "attribution.pods.enabled needs uid 0, because the kubelet's pod-resources directory is root's (no capability is needed): set security.runAsUser=auto without runAsNonRoot, or attribution.pods.enabled=false" -}}
{{- end -}}
{{- if and $v.attribution.pods.labels (not (include "gpu-exporter.callsApi" .)) -}}
{{- fail "attribution.pods.labels needs attribution.pods.enabled=true and attribution.pods.api=true: the kubelet's socket does not tell labels" -}}
{{- end -}}
{{- if and (or $v.nodeHealth.condition $v.nodeHealth.taint $v.nodeHealth.events) (not (include "gpu-exporter.callsApi" .)) -}}
{{- fail "nodeHealth needs attribution.pods.enabled=true and attribution.pods.api=true: without them the pod has no token for the API server" -}}
{{- end -}}
{{- if and $v.nodeHealth.admissionPolicy (semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version) -}}
{{- fail "nodeHealth.admissionPolicy needs Kubernetes 1.30: older API servers do not know the node of a token" -}}
{{- end -}}
{{- if and $v.progress.socketHostPath (not $v.attribution.processes.enabled) -}}
{{- fail "progress.socketHostPath needs attribution.processes.enabled=true: without hostPID no report has an owner, and each is dropped" -}}
{{- end -}}
{{- if and $v.progress.socketHostPath (eq $user "65534") (kindIs "string" $v.security.runAsUser) -}}
{{- fail "progress.socketHostPath needs uid 0, because the kubelet makes that directory for root: set attribution.pods.enabled=true, or security.runAsUser to 0 or to the directory's owner" -}}
{{- end -}}
{{- if and $v.nvidia.migMonitorDevices (not (include "gpu-exporter.isAdmin" .)) -}}
{{- fail "nvidia.migMonitorDevices needs security.addCapabilities=[SYS_ADMIN]: the NVIDIA toolkit refuses to start the container without it" -}}
{{- end -}}
{{- if and $v.nccl.ras.enabled (not $v.attribution.processes.enabled) -}}
{{- fail "nccl.ras.enabled needs attribution.processes.enabled=true: a job is asked in the network of its processes" -}}
{{- end -}}
{{- if and $v.nccl.ras.enabled (not $v.nccl.ras.enterNetworks) (not $v.hostNetwork) -}}
{{- fail "nccl.ras.enabled without nccl.ras.enterNetworks needs hostNetwork=true: only jobs on the node's own network can be asked then" -}}
{{- end -}}
{{- if and (include "gpu-exporter.isAdmin" .) (eq (toString (dig "allowPrivilegeEscalation" "" $v.containerSecurityContext)) "false") -}}
{{- fail "containerSecurityContext.allowPrivilegeEscalation=false cannot be had with SYS_ADMIN (which nccl.ras.enterNetworks adds, too) or security.privileged: the API server refuses it" -}}
{{- end -}}
{{- if and $v.gpuOperator.waitForToolkit $v.driver.hostPath -}}
{{- fail "gpuOperator.waitForToolkit waits for the container toolkit, and driver.hostPath does without it: set one of them" -}}
{{- end -}}
{{- $surge := toString (default 0 (dig "rollingUpdate" "maxSurge" 0 $v.updateStrategy)) -}}
{{- if and (or $v.hostNetwork $v.podSpec.hostNetwork $v.hostPort) (eq $v.updateStrategy.type "RollingUpdate") (not (has $surge (list "0" "0%"))) -}}
{{- fail "updateStrategy.rollingUpdate.maxSurge cannot be had with hostNetwork or hostPort: the port of the old pod keeps the new one from starting, and the upgrade would never end" -}}
{{- end -}}
{{- if and (eq $v.updateStrategy.type "RollingUpdate") (has $surge (list "0" "0%")) (has (toString (dig "rollingUpdate" "maxUnavailable" 1 $v.updateStrategy)) (list "0" "0%")) -}}
{{- fail "updateStrategy.rollingUpdate.maxUnavailable=0 needs maxSurge: an upgrade could replace no pod, and the API server refuses it" -}}
{{- end -}}
{{- if and $v.hostPort $v.hostNetwork (ne (int64 $v.hostPort) (int64 $v.port)) -}}
{{- fail "hostPort must be the port itself with hostNetwork: the API server refuses another" -}}
{{- end -}}
{{- if and $v.service.nodePort (ne $v.service.type "NodePort") -}}
{{- fail "service.nodePort needs service.type=NodePort" -}}
{{- end -}}
{{- range $v.dashboards.include -}}
{{- $names := list -}}
{{- range $path, $_ := (index $.Subcharts "rules-and-dashboards").Files.Glob "dashboards/*.json" }}{{ $names = append $names (base $path | trimSuffix ".json") }}{{ end -}}
{{- include "gpu-exporter.validateName" (list "dashboards.include" "dashboard" . $names) -}}
{{- end -}}
{{- if and $v.runtimeClass.create (not $v.runtimeClass.name) -}}
{{- fail "runtimeClass.create needs runtimeClass.name" -}}
{{- end -}}
{{- range $kind := list "requests" "limits" -}}
{{- range $resource, $_ := dig $kind (dict) $v.resources -}}
{{- if hasPrefix "nvidia.com/" $resource -}}
{{- fail (printf "resources.%s must not ask for %s: it would take a GPU from its users, and every GPU is visible without" $kind $resource) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "gpu-exporter.validateWeb" . -}}
{{- include "gpu-exporter.validateMonitors" . -}}
{{- include "gpu-exporter.validateAlerts" . -}}
{{- include "gpu-exporter.validateCluster" . -}}
{{- end -}}

{{- define "gpu-exporter.validateWeb" -}}
{{- $web := .Values.web -}}
{{- if and $web.existingSecret (or $web.tls.existingSecret $web.basicAuth.password $web.basicAuth.passwordHash) -}}
{{- fail "web.existingSecret holds the whole web configuration: leave web.tls.existingSecret, web.basicAuth.password and web.basicAuth.passwordHash empty" -}}
{{- end -}}
{{- if and $web.existingSecret (not (or $web.tls.enabled $web.basicAuth.enabled)) -}}
{{- fail "web.existingSecret needs web.tls.enabled or web.basicAuth.enabled to say what it holds: probes and monitors depend on it" -}}
{{- end -}}
{{- if and $web.basicAuth.enabled (not $web.existingSecret) (gt (len $web.basicAuth.password) 72) -}}
{{- fail "web.basicAuth.password has more than the 72 bytes that bcrypt takes" -}}
{{- end -}}
{{- if and $web.basicAuth.passwordHash (not $web.basicAuth.password) -}}
{{- fail "web.basicAuth.passwordHash needs web.basicAuth.password, which the monitors send" -}}
{{- end -}}
{{- end -}}

{{- define "gpu-exporter.validateMonitors" -}}
{{- $v := .Values -}}
{{- $service := include "gpu-exporter.makes" (list . "serviceMonitor") -}}
{{- if and $service (include "gpu-exporter.makes" (list . "podMonitor")) -}}
{{- fail "serviceMonitor.enabled and podMonitor.enabled would scrape everything twice: set one of them" -}}
{{- end -}}
{{- if and $service (not $v.service.enabled) -}}
{{- fail "serviceMonitor.enabled needs service.enabled=true; without a service use podMonitor.enabled" -}}
{{- end -}}
{{- $secured := or $v.web.tls.enabled $v.web.basicAuth.enabled -}}
{{- $home := include "gpu-exporter.namespace" . -}}
{{- range $name := list "serviceMonitor" "podMonitor" -}}
{{- $monitor := index $v $name -}}
{{- $made := include "gpu-exporter.makes" (list $ $name) -}}
{{- $longer := gt (include "gpu-exporter.milliseconds" $monitor.scrapeTimeout | int64) (include "gpu-exporter.milliseconds" $monitor.interval | int64) -}}
{{- if and $made $monitor.interval $longer -}}
{{- fail (printf "%s.scrapeTimeout=%s is longer than its interval of %s: the Prometheus operator would leave the monitor out" $name $monitor.scrapeTimeout $monitor.interval) -}}
{{- end -}}
{{- if and $made $secured (ne (default $home $monitor.namespace) $home) -}}
{{- fail (printf "%s.namespace must be the release's with web.tls or web.basicAuth: a monitor reads secrets of its own namespace only" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* An alert that waits reads its own last evaluation, and Prometheus finds a series for five minutes after its last sample. */}}
{{- define "gpu-exporter.validateAlerts" -}}
{{- $alerts := .Values.prometheusRule.alerts -}}
{{- $made := include "gpu-exporter.makes" (list . "prometheusRule") -}}
{{- $rarely := ge (include "gpu-exporter.milliseconds" $alerts.interval | int64) 300000 -}}
{{- if and $made $alerts.enabled $rarely -}}
{{- fail (printf "prometheusRule.alerts.interval=%s must be shorter than 5m: what alerts stood on when a node fell silent would be forgotten" $alerts.interval) -}}
{{- end -}}
{{- $known := include "gpu-exporter.packed" (list . "rules/alert-values.yaml") | fromYaml -}}
{{- range $alert, $given := $alerts.rules -}}
{{- include "gpu-exporter.validateName" (list "prometheusRule.alerts.rules" "alert" $alert (keys $known)) -}}
{{- include "gpu-exporter.validateParameters" (list (printf "prometheusRule.alerts.rules.%s" $alert) $given (get $known $alert)) -}}
{{- end -}}
{{- $owners := list -}}
{{- range $alert, $settings := $known -}}
{{- if hasKey $settings "except" }}{{ $owners = append $owners $alert }}{{ end -}}
{{- end -}}
{{- range $index, $given := $alerts.overrides -}}
{{- $place := printf "prometheusRule.alerts.overrides[%d]" $index -}}
{{- include "gpu-exporter.validateName" (list (printf "%s.alert" $place) "alert to owners" $given.alert $owners) -}}
{{- include "gpu-exporter.validatePatterns" (list (printf "%s.where" $place) $given.where) -}}
{{- include "gpu-exporter.validateParameters" (list $place (omit $given "alert" "where") (omit (get $known $given.alert) "enabled")) -}}
{{- end -}}
{{- end -}}

{{/* A name is one of those known: a list of its place, what it names, the name, and all known. The nearest is the hint:
the one with most pairs of letters of the name, for the length of both. */}}
{{- define "gpu-exporter.validateName" -}}
{{- $name := index . 2 -}}
{{- $known := index . 3 | sortAlpha -}}
{{- if not (has $name $known) -}}
{{- $nearest := "" -}}
{{- $most := 0 -}}
{{- range $each := $known -}}
{{- $pairs := 0 -}}
{{- range $at := until (sub (len $name) 1 | max 0 | int) -}}
{{- if contains (substr $at (add $at 2 | int) $name | lower) (lower $each) }}{{ $pairs = add $pairs 1 }}{{ end -}}
{{- end -}}
{{- $score := div (mul 1000 $pairs) (add (len $name) (len $each)) -}}
{{- if gt $score $most }}{{ $most = $score }}{{ $nearest = $each }}{{ end -}}
{{- end -}}
{{- fail (printf "%s: there is no %s %s%s" (index . 0) (index . 1) $name (ternary (printf "; did you mean %s?" $nearest) (ternary (printf ": known are %s" (join ", " $known)) "" (lt (len $known) 16)) (ne $nearest ""))) -}}
{{- end -}}
{{- end -}}

{{/* Parameters of an alert are of the kind of their default: a list of their place, what is given, and the defaults. */}}
{{- define "gpu-exporter.validateParameters" -}}
{{- $place := index . 0 -}}
{{- $known := index . 2 -}}
{{- range $key, $value := index . 1 -}}
{{- include "gpu-exporter.validateName" (list $place "parameter" $key (keys $known)) -}}
{{- $default := get $known $key -}}
{{- $isText := kindIs "string" $value -}}
{{- $duration := `^([0-9]+y)?([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$` -}}
{{- $number := `^[0-9]+(\.[0-9]+)?$` -}}
{{- $needed := "" -}}
{{- if and (not (kindIs "string" $default)) (ne $key "enabled") -}}
{{- if $isText }}{{ $needed = "number" }}{{ end -}}
{{- else if regexMatch $duration (toString $default) -}}
{{- if not (and $isText (regexMatch $duration (toString $value))) -}}
{{- $needed = "duration" -}}
{{- else if not (or (regexMatch "[1-9]" $value) (has $key (list "for" "keepFiringFor"))) -}}
{{- $needed = "duration longer than none" -}}
{{- end -}}
{{- else if regexMatch $number (toString $default) -}}
{{- if and $isText (not (regexMatch $number $value)) }}{{ $needed = "number" }}{{ end -}}
{{- else if and (kindIs "string" $default) (not $isText) -}}
{{- $needed = "text" -}}
{{- end -}}
{{- if $needed -}}
{{- fail (printf "%s.%s=%v must be a %s, such as %v" $place $key $value $needed $default) -}}
{{- end -}}
{{- include "gpu-exporter.validatePatterns" (list (printf "%s.%s" $place $key) (toString $value)) -}}
{{- end -}}
{{- end -}}

{{/* Every pattern in a piece of PromQL is one: of a list of the value's name and the text. */}}
{{- define "gpu-exporter.validatePatterns" -}}
{{- $name := index . 0 -}}
{{- range regexFindAll `[=!]~ *"(?:[^"\\]|\\.)*"` (index . 1) -1 -}}
{{- $pattern := regexReplaceAll `^[^"]*"` . "" | trimSuffix `"` | replace `\"` `"` | replace `\\` `\` -}}
{{- if not (regexMatch (printf "(?:%s)|" $pattern) "") -}}
{{- fail (printf "%s: %s is no regular expression: Prometheus would load no rule" $name .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Of a duration as Prometheus writes them, such as 1m30s. */}}
{{- define "gpu-exporter.milliseconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 "w" 604800000 "y" 31536000000 -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9]+[a-z]+" . -1 -}}
{{- $sum = add $sum (mul (regexFind "[0-9]+" . | int64) (get $units (regexFind "[a-z]+" .))) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}
