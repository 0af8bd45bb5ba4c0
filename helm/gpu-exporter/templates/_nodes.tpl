{{/* Where the pods run: labels of GPU nodes, pauses of the GPU Operator, taints, priority. */}}

{{/* Labels that some tool or cloud gives to GPU nodes, one row each: key, operator, value. Any of them will do. */}}
{{- define "gpu-exporter.gpuLabels" -}}
rows:
- [nvidia.com/gpu.present, In, "true"]
- [feature.node.kubernetes.io/pci-10de.present, In, "true"]
- [feature.node.kubernetes.io/pci-0300_10de.present, In, "true"]
- [feature.node.kubernetes.io/pci-0302_10de.present, In, "true"]
- [feature.node.kubernetes.io/cpu-model.vendor_id, In, NVIDIA]
- [cloud.google.com/gke-accelerator, Exists, ""]
- [k8s.amazonaws.com/accelerator, Exists, ""]
- [karpenter.k8s.aws/instance-gpu-manufacturer, In, nvidia]
- [eks.amazonaws.com/instance-gpu-manufacturer, In, nvidia]
- [kubernetes.azure.com/accelerator, In, nvidia]
{{- end -}}

{{/*
Expressions that no longer hold while the GPU Operator wants the driver for itself: the DaemonSet's controller then takes
the pod away. Nodes without these labels fit. `client` is the label for programs that are not the operator's (26.7 and
newer); older ones only pause their own, of which dcgm-exporter is the one most like this.
*/}}
{{- define "gpu-exporter.pauses" -}}
{{- $paused := list "paused-for-driver-upgrade" "paused-for-mig-change" "paused-for-vgpu-change" "paused-for-mig-change_paused-for-driver-upgrade" "paused-for-vgpu-change_paused-for-driver-upgrade" -}}
rows:
- {key: nvidia.com/gpu.deploy.client, operator: NotIn, values: {{ append $paused "false" | toJson }}}
- {key: nvidia.com/gpu.deploy.dcgm-exporter, operator: NotIn, values: {{ $paused | toJson }}}
{{- end -}}

{{/*
Terms of a node affinity are alternatives. The operator labels each of its nodes `nvidia.com/gpu.present`, so the pauses
stand in that term alone and the other terms leave its nodes out. Terms of the user's own each get the pauses.
*/}}
{{- define "gpu-exporter.affinity" -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- $node := default (dict) $affinity.nodeAffinity -}}
{{- $terms := default (list) (default (dict) $node.requiredDuringSchedulingIgnoredDuringExecution).nodeSelectorTerms -}}
{{- $others := list -}}
{{- if and .Values.gpuNodesOnly (not .Values.affinity) -}}
{{- range (include "gpu-exporter.gpuLabels" . | fromYaml).rows -}}
{{- $expression := dict "key" (index . 0) "operator" (index . 1) -}}
{{- if eq (index . 1) "In" -}}
{{- $_ := set $expression "values" (list (index . 2)) -}}
{{- end -}}
{{- if $terms -}}
{{- $others = append $others (dict "matchExpressions" (list $expression (dict "key" "nvidia.com/gpu.present" "operator" "NotIn" "values" (list "true")))) -}}
{{- else -}}
{{- $terms = list (dict "matchExpressions" (list $expression)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if .Values.gpuOperator.followPauses -}}
{{- $pauses := (include "gpu-exporter.pauses" . | fromYaml).rows -}}
{{- $all := list -}}
{{- range (default (list (dict)) $terms) -}}
{{- $all = append $all (merge (dict "matchExpressions" (concat (default (list) .matchExpressions) $pauses)) .) -}}
{{- end -}}
{{- $terms = $all -}}
{{- end -}}
{{- $terms = concat $terms $others -}}
{{- if $terms -}}
{{- $_ := set $node "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) -}}
{{- $_ := set $affinity "nodeAffinity" $node -}}
{{- end -}}
{{- if $affinity -}}
{{- toYaml $affinity -}}
{{- end -}}
{{- end -}}

{{- define "gpu-exporter.tolerations" -}}
{{- if .Values.tolerations -}}
{{- toYaml .Values.tolerations -}}
{{- else if and .Values.gpuNodesOnly (not .Values.affinity) -}}
- {operator: Exists}
{{- else -}}
- {key: nvidia.com/gpu, operator: Exists}
{{- end -}}
{{- if .Values.nodeHealth.taint }}
- {key: gpu-exporter/gpu-unhealthy, operator: Exists}
{{- end -}}
{{- end -}}

{{- define "gpu-exporter.priorityClassName" -}}
{{- if .Values.priorityClassName -}}
{{- .Values.priorityClassName -}}
{{- else if .Values.priorityClass.create -}}
{{- /* Names that begin with "system-", as a namespace may, are the cluster's own. */ -}}
{{- $made := include "gpu-exporter.nameIn" (dict "root" . "namespace" "") -}}
{{- /* The API server refuses a change of the policy, so each policy has an object of its own. */ -}}
{{- $suffix := ternary "-nonpreempting" "" (eq .Values.priorityClass.preemptionPolicy "Never") -}}
{{- default (printf "%s%s%s" (ternary "gpu-" "" (hasPrefix "system-" $made)) $made $suffix) .Values.priorityClass.name -}}
{{- end -}}
{{- end -}}

{{/*
What the cluster says of its nodes, from a list of them: `fit` have one of the labels above, `missed` offer an NVIDIA
device and have none, `kubelets` keep the kubelet's directory elsewhere (by directory). `nodeSelector` counts too.
*/}}
{{- define "gpu-exporter.nodes" -}}
{{- $root := .root -}}
{{- $labels := (include "gpu-exporter.gpuLabels" $root | fromYaml).rows -}}
{{- $fit := list -}}
{{- $missed := list -}}
{{- $kubelets := dict -}}
{{- range .items -}}
{{- $node := . -}}
{{- $own := default (dict) $node.metadata.labels -}}
{{- $selected := true -}}
{{- range $key, $value := $root.Values.nodeSelector -}}
{{- if ne (toString (get $own $key)) $value -}}{{- $selected = false -}}{{- end -}}
{{- end -}}
{{- $labelled := false -}}
{{- range $labels -}}
{{- if and (hasKey $own (index . 0)) (or (eq (index . 1) "Exists") (eq (get $own (index . 0)) (index . 2))) -}}{{- $labelled = true -}}{{- end -}}
{{- end -}}
{{- $offers := false -}}
{{- range $resource, $amount := dig "status" "capacity" (dict) $node -}}
{{- if and (or (hasPrefix "nvidia.com/gpu" $resource) (hasPrefix "nvidia.com/mig-" $resource)) (ne (toString $amount) "0") -}}{{- $offers = true -}}{{- end -}}
{{- end -}}
{{- if and $labelled $selected -}}
{{- $fit = append $fit $node.metadata.name -}}
{{- $version := dig "status" "nodeInfo" "kubeletVersion" "" $node -}}
{{- if hasKey $own "microk8s.io/cluster" -}}{{- $_ := set $kubelets "/var/snap/microk8s/common/var/lib/kubelet" $node.metadata.name -}}{{- end -}}
{{- if contains "+k0s" $version -}}{{- $_ := set $kubelets "/var/lib/k0s/kubelet" $node.metadata.name -}}{{- end -}}
{{- else if and $offers $selected -}}
{{- $missed = append $missed $node.metadata.name -}}
{{- end -}}
{{- end -}}
{{- toYaml (dict "fit" $fit "missed" $missed "kubelets" $kubelets) -}}
{{- end -}}

{{/* Names of the nodes of `fit` on which the scheduler finds no room: no place for one more pod, or too little of what ours requests. */}}
{{- define "gpu-exporter.crowded" -}}
{{- $fit := .fit -}}
{{- $own := .selector -}}
{{- $resources := .root.Values.resources -}}
{{- /* A pod without a request has its limit as one. */ -}}
{{- $needs := merge (dict "pods" 1) (default (dict) $resources.requests) (default (dict) $resources.limits) -}}
{{- $used := dict -}}
{{- range (lookup "v1" "Pod" "" "").items -}}
{{- $pod := . -}}
{{- $node := dig "spec" "nodeName" "" $pod -}}
{{- $isOwn := eq (dig "metadata" "labels" "app.kubernetes.io/instance" "" $pod) $own -}}
{{- if and (has $node $fit) (not $isOwn) (not (has (dig "status" "phase" "" $pod) (list "Succeeded" "Failed"))) -}}
{{- range $resource, $_ := $needs -}}
{{- $sum := ternary 1000 0 (eq $resource "pods") -}}
{{- range $pod.spec.containers -}}
{{- $sum = add $sum (include "gpu-exporter.milli" (dig "resources" "requests" $resource "0" .) | int64) -}}
{{- end -}}
{{- $key := printf "%s/%s" $node $resource -}}
{{- $_ := set $used $key (add $sum (default 0 (get $used $key))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $crowded := list -}}
{{- range (lookup "v1" "Node" "" "").items -}}
{{- $node := . -}}
{{- range $resource, $amount := $needs -}}
{{- $there := dig "status" "allocatable" $resource "" $node -}}
{{- $left := sub (include "gpu-exporter.milli" (default "0" $there) | int64) (default 0 (get $used (printf "%s/%s" $node.metadata.name $resource))) -}}
{{- if and $there (has $node.metadata.name $fit) (lt $left (include "gpu-exporter.milli" $amount | int64)) -}}
{{- $crowded = append $crowded $node.metadata.name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- uniq $crowded | join ", " -}}
{{- end -}}
