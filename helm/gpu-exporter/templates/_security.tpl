{{/* What the pod may do, and which Pod Security level that is. */}}

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

{{/* Reasons that need a namespace at level privileged, one a line. */}}
{{- define "gpu-exporter.privilegedReasons" -}}
{{- $v := .Values -}}
{{- if $v.attribution.processes.enabled }}
process attribution (hostPID, host cgroups)
{{- end }}
{{- if $v.attribution.pods.enabled }}
pod attribution (host paths {{ $v.attribution.pods.kubeletDir }}/pod-resources{{ with $v.attribution.pods.logsDir }}, {{ . }}{{ end }})
{{- end }}
{{- with include "gpu-exporter.stateHostPath" . }}
known faults (host path {{ . }}, written to)
{{- end }}
{{- if $v.hostNetwork }}
host network
{{- end }}
{{- if $v.gpuOperator.waitForToolkit }}
waiting for the toolkit (host path {{ $v.gpuOperator.validationsDir }})
{{- end }}
{{- if $v.attribution.slurm.mappingHostPath }}
Slurm mapping (host path {{ $v.attribution.slurm.mappingHostPath }})
{{- end }}
{{- if $v.progress.hostPath }}
progress (host path {{ $v.progress.hostPath }})
{{- end }}
{{- with $v.progress.socketHostPath }}
progress socket (host path {{ . }}, written to)
{{- end }}
{{- if $v.driver.hostPath }}
driver (host path {{ $v.driver.hostPath }})
{{- end }}
{{- if $v.nvidia.devicesAsMount }}
devices as a mount (host path /dev/null)
{{- end }}
{{- range $v.extraVolumes }}
{{- if .hostPath }}
extraVolumes (host path {{ .hostPath.path }})
{{- end }}
{{- end }}
{{- range list "hostPID" "hostIPC" "hostNetwork" }}
{{- if get $v.podSpec . }}
podSpec.{{ . }}
{{- end }}
{{- end }}
{{- $context := include "gpu-exporter.mergedContext" . | fromYaml }}
{{- if $context.privileged }}
privileged container
{{- end }}
{{- if eq (dig "seccompProfile" "type" "" $context) "Unconfined" }}
seccomp profile Unconfined
{{- end }}
{{- range dig "capabilities" "add" (list) $context }}
{{- if not (has . (include "gpu-exporter.baselineCapabilities" $ | fromJsonArray)) }}
capability {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* What level baseline lets a pod add. */}}
{{- define "gpu-exporter.baselineCapabilities" -}}
{{- toJson (list "AUDIT_WRITE" "CHOWN" "DAC_OVERRIDE" "FOWNER" "FSETID" "KILL" "MKNOD" "NET_BIND_SERVICE" "SETFCAP" "SETGID" "SETPCAP" "SETUID" "SYS_CHROOT") -}}
{{- end -}}

{{/* What counts for the container: its own context over the pod's. */}}
{{- define "gpu-exporter.mergedContext" -}}
{{- $pod := include "gpu-exporter.podSecurityContext" . | fromYaml -}}
{{- toYaml (mergeOverwrite $pod (include "gpu-exporter.containerSecurityContext" . | fromYaml)) -}}
{{- end -}}

{{- define "gpu-exporter.podSecurityLevel" -}}
{{- $context := include "gpu-exporter.mergedContext" . | fromYaml -}}
{{- $root := or (not $context.runAsNonRoot) (eq (toString $context.runAsUser) "0") -}}
{{- $profiled := has (dig "seccompProfile" "type" "" $context) (list "RuntimeDefault" "Localhost") -}}
{{- $added := without (dig "capabilities" "add" (list) $context) "NET_BIND_SERVICE" -}}
{{- if trim (include "gpu-exporter.privilegedReasons" .) -}}
privileged
{{- else if or $root $context.allowPrivilegeEscalation $added (not $profiled) -}}
baseline
{{- else -}}
restricted
{{- end -}}
{{- end -}}
