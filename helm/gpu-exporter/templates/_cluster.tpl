{{/*
What would fail after minutes with its reason in events alone is refused here with one line. `lookup` answers nothing
where there is no cluster to ask (helm template, GitOps that renders), and then nothing is said.
*/}}

{{- define "gpu-exporter.connected" -}}
{{- if .Values.checkCluster -}}
{{- if or (lookup "v1" "Namespace" "" (include "gpu-exporter.namespace" .)) (lookup "v1" "Namespace" "" "kube-system") -}}yes{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gpu-exporter.validateCluster" -}}
{{- if include "gpu-exporter.connected" . -}}
{{- include "gpu-exporter.validateNamespace" . -}}
{{- include "gpu-exporter.validateLimits" . -}}
{{- include "gpu-exporter.validateClasses" . -}}
{{- include "gpu-exporter.validateKinds" . -}}
{{- include "gpu-exporter.validateNodes" . -}}
{{- end -}}
{{- end -}}

{{- define "gpu-exporter.validateNamespace" -}}
{{- $name := include "gpu-exporter.namespace" . -}}
{{- $namespace := lookup "v1" "Namespace" "" $name -}}
{{- $enforced := dig "metadata" "labels" "pod-security.kubernetes.io/enforce" "privileged" (default (dict) $namespace) -}}
{{- $level := include "gpu-exporter.podSecurityLevel" . -}}
{{- $rank := dict "restricted" 0 "baseline" 1 "privileged" 2 -}}
{{- if gt (int (get $rank $level)) (int (get $rank $enforced)) -}}
{{- $reasons := include "gpu-exporter.privilegedReasons" . | trim | splitList "\n" | join ", " | replace "  " " " | default "its user or security context" -}}
{{- fail (printf "namespace %s enforces Pod Security level %s and would refuse every pod, which needs %s (%s): kubectl label namespace %s pod-security.kubernetes.io/enforce=%s --overwrite, or switch those values off" $name $enforced $level $reasons $name $level) -}}
{{- end -}}
{{- end -}}

{{/*
The API server refuses each pod that a LimitRange or a ResourceQuota forbids, and says so in events of the DaemonSet alone.
A quota with scopes is for some pods only, and is left out.
*/}}
{{- define "gpu-exporter.validateLimits" -}}
{{- $name := include "gpu-exporter.namespace" . -}}
{{- $requests := default (dict) .Values.resources.requests -}}
{{- $limits := default (dict) .Values.resources.limits -}}
{{- $filled := dict -}}
{{- $requested := dict -}}
{{- $nodes := include "gpu-exporter.nodes" (dict "root" . "items" (default (list) (lookup "v1" "Node" "" "").items)) | fromYaml -}}
{{- $pods := max 1 (ternary (len $nodes.fit) 1 (and .Values.gpuNodesOnly (not .Values.affinity))) -}}
{{- range (lookup "v1" "LimitRange" $name "").items -}}
{{- $range := .metadata.name -}}
{{- range default (list) (default (dict) .spec).limits -}}
{{- if eq (default "" .type) "Container" -}}
{{- $filled = merge $filled (default (dict) .default) (default (dict) .max) -}}
{{- $requested = merge $requested (default (dict) .defaultRequest) (default (dict) .min) -}}
{{- range $resource, $least := default (dict) .min -}}
{{- $asked := get $requests $resource -}}
{{- if and (hasKey $requests $resource) (lt (include "gpu-exporter.milli" $asked | int64) (include "gpu-exporter.milli" $least | int64)) -}}
{{- fail (printf "LimitRange %s of namespace %s asks for %s of %s at least, and would refuse every pod, which requests %v: set resources.requests.%s=%s" $range $name (toString $least) $resource $asked $resource (toString $least)) -}}
{{- end -}}
{{- end -}}
{{- range $resource, $most := default (dict) .max -}}
{{- if and (hasKey $limits $resource) (gt (include "gpu-exporter.milli" (get $limits $resource) | int64) (include "gpu-exporter.milli" $most | int64)) -}}
{{- fail (printf "LimitRange %s of namespace %s allows %s of %s at most, and would refuse every pod, whose limit is %v: set resources.limits.%s=%s, if that is enough" $range $name (toString $most) $resource (get $limits $resource) $resource (toString $most)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range (lookup "v1" "ResourceQuota" $name "").items -}}
{{- $spec := default (dict) .spec -}}
{{- if not (or $spec.scopes $spec.scopeSelector) -}}
{{- $quota := .metadata.name -}}
{{- $status := default (dict) .status -}}
{{- range $counted, $hard := default (dict) $spec.hard -}}
{{- $resource := $counted | trimPrefix "requests." | trimPrefix "limits." -}}
{{- $kind := ternary "limits" "requests" (hasPrefix "limits." $counted) -}}
{{- /* A pod without a request has its limit as one. */ -}}
{{- $own := ternary $limits (merge (dict) $requests $limits) (eq $kind "limits") -}}
{{- $isMissing := and (has $resource (list "cpu" "memory")) (not (hasKey $own $resource)) (not (hasKey $filled $resource)) -}}
{{- if and $isMissing (not (and (eq $kind "requests") (hasKey $requested $resource))) -}}
{{- fail (printf "ResourceQuota %s of namespace %s counts %s, and would refuse every pod, which has none: set resources.%s.%s" $quota $name $counted $kind $resource) -}}
{{- end -}}
{{- $each := ternary 1 (get $own $resource) (has $counted (list "pods" "count/pods")) -}}
{{- $used := dig "used" $counted "0" $status -}}
{{- $left := sub (include "gpu-exporter.milli" $hard | int64) (include "gpu-exporter.milli" $used | int64) | max 0 -}}
{{- if and $.Release.IsInstall $each (gt (mul (include "gpu-exporter.milli" $each | int64) $pods) $left) -}}
{{- fail (printf "ResourceQuota %s of namespace %s has %s=%v with %v in use, and this release needs %d times %v: raise it, or install into another namespace" $quota $name $counted $hard $used $pods $each) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Thousandths of a quantity such as 100m, 0.5, 1e3 or 256Mi, as far as an integer holds them. */}}
{{- define "gpu-exporter.milli" -}}
{{- $text := toString . -}}
{{- $unit := regexFind "[A-Za-z]*$" $text -}}
{{- $factor := get (dict "n" 1e-6 "u" 1e-3 "m" 1.0 "" 1e3 "k" 1e6 "M" 1e9 "G" 1e12 "T" 1e15 "P" 1e18 "E" 1e21 "Ki" 1024e3 "Mi" 1048576e3 "Gi" 1073741824e3 "Ti" 1099511627776e3 "Pi" 1125899906842624e3 "Ei" 1152921504606846976e3) $unit -}}
{{- minf 9e18 (mulf (regexFind "^[0-9.]+([eE][0-9]+)?" $text | float64) (default 1e3 $factor)) | int64 -}}
{{- end -}}

{{- define "gpu-exporter.validateClasses" -}}
{{- $v := .Values -}}
{{- if and $v.runtimeClass.name (not $v.runtimeClass.create) (not (lookup "node.k8s.io/v1" "RuntimeClass" "" $v.runtimeClass.name)) -}}
{{- $there := list -}}
{{- range (lookup "node.k8s.io/v1" "RuntimeClass" "" "").items -}}
{{- $there = append $there .metadata.name -}}
{{- end -}}
{{- fail (printf "runtimeClass.name=%s: the cluster has no such RuntimeClass (it has: %s), and no pod would be made: set one of those, runtimeClass.create=true, or \"\" where the driver is injected by default" $v.runtimeClass.name (default "none" (join ", " $there))) -}}
{{- end -}}
{{- if and $v.priorityClassName (not (lookup "scheduling.k8s.io/v1" "PriorityClass" "" $v.priorityClassName)) -}}
{{- fail (printf "priorityClassName=%s: the cluster has no such PriorityClass, and no pod would be made" $v.priorityClassName) -}}
{{- end -}}
{{- end -}}

{{- define "gpu-exporter.validateKinds" -}}
{{- $v := .Values -}}
{{- $api := .Capabilities.APIVersions -}}
{{- $asked := list (list "dashboards.grafanaOperator.enabled" (and (include "gpu-exporter.makes" (list . "dashboards")) $v.dashboards.grafanaOperator.enabled) "grafana.integreatly.org/v1beta1/GrafanaDashboard" "the Grafana operator") (list "verticalPodAutoscaler.enabled" $v.verticalPodAutoscaler.enabled "autoscaling.k8s.io/v1/VerticalPodAutoscaler" "the vertical pod autoscaler") (list "openshift.scc" $v.openshift.scc "security.openshift.io/v1/SecurityContextConstraints" "OpenShift") -}}
{{- $operator := ternary "the VictoriaMetrics operator" "the Prometheus operator" (eq $v.monitoring.operator "victoriametrics") -}}
{{- range $part := list "prometheusRule" "podMonitor" "serviceMonitor" -}}
{{- $asked = prepend $asked (list (printf "%s.enabled" $part) (include "gpu-exporter.makes" (list $ $part)) (include "gpu-exporter.kind" (list $ $part) | replace "|" "/") $operator) -}}
{{- end -}}
{{- range $asked -}}
{{- /* Discovery may lag behind a custom resource that was just made: the definition itself has the last word. */ -}}
{{- $part := splitList "/" (index . 2) -}}
{{- $definition := printf "%ss.%s" (lower (index $part 2) | trimSuffix "s") (index $part 0) -}}
{{- if and (index . 1) (not ($api.Has (index . 2))) (not (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $definition)) -}}
{{- fail (printf "%s: the cluster does not know %s: install %s first, or set it to false" (index . 0) (index . 2) (index . 3)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gpu-exporter.validateNodes" -}}
{{- $v := .Values -}}
{{- $items := default (list) (lookup "v1" "Node" "" "").items -}}
{{- $image := include "gpu-exporter.image" . -}}
{{- if and (not (contains "/" $image)) (ne $v.image.pullPolicy "Never") -}}
{{- $there := false -}}
{{- range $items -}}
{{- $images := dig "status" "images" (list) . -}}
{{- /* A kubelet names its fifty largest images alone, and this is a small one. */ -}}
{{- if ge (len $images) 50 -}}{{- $there = true -}}{{- end -}}
{{- /* What containerd and CRI-O make of a name without a registry; Docker leaves it. */ -}}
{{- $home := ternary "localhost/" "docker.io/library/" (hasPrefix "cri-o:" (dig "status" "nodeInfo" "containerRuntimeVersion" "" .)) -}}
{{- range $images -}}
{{- $names := default (list) .names -}}
{{- if or (has $image $names) (has (printf "%s%s" $home $image) $names) -}}{{- $there = true -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $there -}}
{{- fail (printf "image.registry is empty and no node has %s: build the image (deploy/container), push it to a registry your nodes can pull from, and set image.registry" $image) -}}
{{- end -}}
{{- end -}}
{{- if and $v.gpuNodesOnly (not $v.affinity) -}}
{{- $nodes := include "gpu-exporter.nodes" (dict "root" . "items" $items) | fromYaml -}}
{{- if and .Release.IsInstall $nodes.missed -}}
{{- $some := $nodes.missed | join " " -}}
{{- fail (printf "these nodes offer NVIDIA GPUs and have none of the labels that gpuNodesOnly looks for, so they would get no pod: kubectl label node %s nvidia.com/gpu.present=true, or set affinity" $some) -}}
{{- end -}}
{{- /* Who names a directory may know of a kubelet with a --root-dir of its own. */ -}}
{{- if and $v.attribution.pods.enabled (eq (trimSuffix "/" $v.attribution.pods.kubeletDir) "/var/lib/kubelet") -}}
{{- range $dir, $node := $nodes.kubelets -}}
{{- fail (printf "attribution.pods.kubeletDir=%s: the kubelet of node %s keeps its files in %s" $v.attribution.pods.kubeletDir $node $dir) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
