{{/* What the pod may do. */}}

{{/* "pods" where pod attribution is on, else nothing: templates ask for the text. */}}
{{- define "gpu-exporter.callsApi" -}}
{{- if and .Values.attribution.pods.enabled .Values.attribution.pods.api }}yes{{ end -}}
{{- end -}}

{{/* All that are added, as JSON; fromJsonArray. Other pods' networks are entered with two. */}}
{{- define "gpu-exporter.capabilities" -}}
{{- $entering := and .Values.nccl.ras.enabled .Values.nccl.ras.enterNetworks -}}
{{- toJson (uniq (concat (default (list) .Values.security.addCapabilities) (ternary (list "SYS_ADMIN" "SYS_PTRACE") (list) $entering))) -}}
{{- end -}}

{{- define "gpu-exporter.isAdmin" -}}
{{- if or .Values.security.privileged (has "SYS_ADMIN" (include "gpu-exporter.capabilities" . | fromJsonArray)) }}yes{{ end -}}
{{- end -}}

{{/* Where faults are kept on the host; nothing where the pod needs no host path otherwise, or is not root. */}}
{{- define "gpu-exporter.stateHostPath" -}}
{{- if .Values.attribution.pods.enabled -}}{{- .Values.state.hostPath -}}{{- end -}}
{{- end -}}

{{/* 0, a number, or nothing where the cluster assigns it. */}}
{{- define "gpu-exporter.runAsUser" -}}
{{- $user := .Values.security.runAsUser -}}
{{- if not (kindIs "string" $user) -}}
{{- /* As text a number of seven digits and more is 1e+06. */ -}}
{{- int64 $user -}}
{{- else if eq $user "auto" -}}
{{- ternary "0" "65534" .Values.attribution.pods.enabled -}}
{{- end -}}
{{- end -}}

{{/* "yes" on OpenShift, which assigns a user to each pod without constraints of its own, and refuses every other. */}}
{{- define "gpu-exporter.assignsUsers" -}}
{{- if or .Values.openshift.scc (eq (toString .Values.security.runAsUser) "cluster") }}yes{{ end -}}
{{- end -}}

{{- define "gpu-exporter.podSecurityContext" -}}
{{- $context := dict -}}
{{- with .Values.security.seccomp -}}
{{- $_ := set $context "seccompProfile" (dict "type" .) -}}
{{- end -}}
{{- toYaml (mergeOverwrite $context .Values.podSecurityContext) -}}
{{- end -}}

{{- define "gpu-exporter.containerSecurityContext" -}}
{{- $security := .Values.security -}}
{{- $capabilities := dict "drop" (list "ALL") -}}
{{- with include "gpu-exporter.capabilities" . | fromJsonArray -}}
{{- $_ := set $capabilities "add" . -}}
{{- end -}}
{{- $context := dict "readOnlyRootFilesystem" true "capabilities" $capabilities -}}
{{- if $security.privileged -}}
{{- $_ := set $context "privileged" true -}}
{{- end -}}
{{- if not (include "gpu-exporter.isAdmin" .) -}}
{{- /* The API server refuses it beside SYS_ADMIN. */ -}}
{{- $_ := set $context "allowPrivilegeEscalation" false -}}
{{- end -}}
{{- $user := include "gpu-exporter.runAsUser" . -}}
{{- if $user -}}
{{- $_ := set $context "runAsUser" (int64 $user) -}}
{{- $_ := set $context "runAsGroup" (int64 $user) -}}
{{- end -}}
{{- if ne $user "0" -}}
{{- $_ := set $context "runAsNonRoot" true -}}
{{- end -}}
{{- toYaml (mergeOverwrite $context .Values.containerSecurityContext) -}}
{{- end -}}
