{{/* Which Pod Security level the pods are at, by the whole spec that the cluster gets: what values hand on counts as well. */}}

{{/* The pod's spec with all that is merged over it. */}}
{{- define "gpu-exporter.wholePodSpec" -}}
{{- $spec := include "gpu-exporter.podSpec" . | fromYaml -}}
{{- if hasKey $spec "Error" -}}
{{- fail $spec.Error -}}
{{- end -}}
{{- toYaml (mergeOverwrite $spec (deepCopy .Values.podSpec)) -}}
{{- end -}}

{{/* Its containers, as JSON; fromJsonArray. */}}
{{- define "gpu-exporter.wholeContainers" -}}
{{- toJson (concat (default (list) .initContainers) (default (list) .containers)) -}}
{{- end -}}

{{/* Reasons that need a namespace at level privileged, one a line. */}}
{{- define "gpu-exporter.privilegedReasons" -}}
{{- $v := .Values -}}
{{- $spec := include "gpu-exporter.wholePodSpec" . | fromYaml -}}
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
{{- range (default (dict) $v.podSpec).volumes }}
{{- if .hostPath }}
podSpec.volumes (host path {{ .hostPath.path }})
{{- end }}
{{- end }}
{{- range list "hostPID" "hostIPC" "hostNetwork" }}
{{- if get $v.podSpec . }}
podSpec.{{ . }}
{{- end }}
{{- end }}
{{- include "gpu-exporter.contextReasons" (list "" (default (dict) $spec.securityContext)) }}
{{- range include "gpu-exporter.wholeContainers" $spec | fromJsonArray }}
{{- if ne .name "wait-for-toolkit" }}
{{- $owner := ternary "" (printf " of container %s" .name) (eq .name "gpu-exporter") }}
{{- include "gpu-exporter.contextReasons" (list $owner (default (dict) .securityContext)) }}
{{- include "gpu-exporter.hostReasons" (list $owner .) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Lists what level baseline forbids of a security context. Takes its owner and the context. */}}
{{- define "gpu-exporter.contextReasons" -}}
{{- $owner := index . 0 }}
{{- $context := index . 1 }}
{{- if $context.privileged }}
privileged container{{ trimPrefix " of container" $owner }}
{{- end }}
{{- if eq (toString (default (dict) $context.seccompProfile).type) "Unconfined" }}
seccomp profile Unconfined{{ $owner }}
{{- end }}
{{- if eq (toString (default (dict) $context.appArmorProfile).type) "Unconfined" }}
AppArmor profile Unconfined{{ $owner }}
{{- end }}
{{- $selinux := default (dict) $context.seLinuxOptions }}
{{- if or $selinux.user $selinux.role (not (has (default "" $selinux.type) (list "" "container_t" "container_init_t" "container_kvm_t" "container_engine_t"))) }}
SELinux options{{ $owner }}
{{- end }}
{{- if ne (default "Default" $context.procMount) "Default" }}
procMount {{ $context.procMount }}{{ $owner }}
{{- end }}
{{- range $context.sysctls }}
{{- if not (has .name (include "gpu-exporter.safeSysctls" . | splitList " ")) }}
sysctl {{ .name }}
{{- end }}
{{- end }}
{{- range (default (dict) $context.capabilities).add }}
{{- if not (has . (include "gpu-exporter.baselineCapabilities" $ | fromJsonArray)) }}
capability {{ . }}{{ $owner }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Lists ports of the host, and hosts that the kubelet is sent to. Takes their owner and the container. */}}
{{- define "gpu-exporter.hostReasons" -}}
{{- $owner := index . 0 }}
{{- $container := index . 1 }}
{{- range $container.ports }}
{{- if .hostPort }}
host port {{ .hostPort }}{{ $owner }}
{{- end }}
{{- end }}
{{- $lifecycle := default (dict) $container.lifecycle }}
{{- range list $container.livenessProbe $container.readinessProbe $container.startupProbe $lifecycle.postStart $lifecycle.preStop }}
{{- $handler := default (dict) . }}
{{- with default (default (dict) $handler.tcpSocket).host (default (dict) $handler.httpGet).host }}
probe of host {{ . }}{{ $owner }}
{{- end }}
{{- end }}
{{- end -}}

{{/* What level baseline lets a pod add. */}}
{{- define "gpu-exporter.baselineCapabilities" -}}
{{- toJson (list "AUDIT_WRITE" "CHOWN" "DAC_OVERRIDE" "FOWNER" "FSETID" "KILL" "MKNOD" "NET_BIND_SERVICE" "SETFCAP" "SETGID" "SETPCAP" "SETUID" "SYS_CHROOT") -}}
{{- end -}}

{{/* What level baseline lets a pod set of the kernel: those that are the pod's own. */}}
{{- define "gpu-exporter.safeSysctls" -}}
kernel.shm_rmid_forced net.ipv4.ip_local_port_range net.ipv4.ip_unprivileged_port_start net.ipv4.tcp_syncookies net.ipv4.ping_group_range net.ipv4.ip_local_reserved_ports net.ipv4.tcp_keepalive_time net.ipv4.tcp_fin_timeout net.ipv4.tcp_keepalive_intvl net.ipv4.tcp_keepalive_probes net.ipv4.tcp_rmem net.ipv4.tcp_wmem
{{- end -}}

{{/* Volumes and containers that level restricted forbids, by name. */}}
{{- define "gpu-exporter.baselineReasons" -}}
{{- $spec := . -}}
{{- range $spec.volumes -}}
{{- if not (or (eq (len .) 1) (hasKey . "configMap") (hasKey . "csi") (hasKey . "downwardAPI") (hasKey . "emptyDir") (hasKey . "ephemeral") (hasKey . "persistentVolumeClaim") (hasKey . "projected") (hasKey . "secret") (hasKey . "image")) }}
volume {{ .name }}
{{- end -}}
{{- end -}}
{{- range include "gpu-exporter.wholeContainers" $spec | fromJsonArray -}}
{{- $own := default (dict) .securityContext -}}
{{- $context := mergeOverwrite (dict) (deepCopy (default (dict) $spec.securityContext)) (deepCopy $own) -}}
{{- $root := or (not $context.runAsNonRoot) (eq (toString $context.runAsUser) "0") -}}
{{- $profiled := has (default (dict) $context.seccompProfile).type (list "RuntimeDefault" "Localhost") -}}
{{- $capabilities := default (dict) $own.capabilities -}}
{{- $dropped := has "ALL" (default (list) $capabilities.drop) -}}
{{- $added := without (default (list) $capabilities.add) "NET_BIND_SERVICE" -}}
{{- $escalates := ne (toString $own.allowPrivilegeEscalation) "false" -}}
{{- if or $root $escalates $added (not $dropped) (not $profiled) }}
container {{ .name }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gpu-exporter.podSecurityLevel" -}}
{{- if trim (include "gpu-exporter.privilegedReasons" .) -}}
privileged
{{- else if trim (include "gpu-exporter.baselineReasons" (include "gpu-exporter.wholePodSpec" . | fromYaml)) -}}
baseline
{{- else -}}
restricted
{{- end -}}
{{- end -}}
