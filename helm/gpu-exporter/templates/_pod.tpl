{{/* The pod: arguments, environment, mounts, probes. */}}

{{- define "gpu-exporter.args" -}}
{{- $v := .Values -}}
- --web.listen-address=:{{ int64 $v.port }}
- --web.telemetry-path={{ $v.web.telemetryPath }}
{{- if include "gpu-exporter.web.on" . }}
- --web.config.file=/etc/gpu-exporter/web/web-config.yaml
{{- end }}
{{- if $v.config }}
- --config.file=/etc/gpu-exporter/config/config.yaml
{{- end }}
- --driver.exit-after={{ $v.driver.exitAfter }}
{{- if $v.attribution.processes.enabled }}
- --path.cgroupfs=/host/sys/fs/cgroup
{{- else }}
{{- $more := dig "collectors" "disable" list (default dict $v.config) }}
- --collectors.disable={{ join "," (concat (list "processes") (ternary $more (list $more) (kindIs "slice" $more))) }}
{{- end }}
- --attribution.kubernetes={{ ternary "on" "off" $v.attribution.pods.enabled }}
{{- if $v.attribution.pods.enabled }}
{{- if $v.attribution.pods.api }}
- --attribution.kubernetes.api
{{- end }}
{{- with $v.attribution.pods.labels }}
- {{ printf "--attribution.kubernetes.pod-labels=%s" (join "," .) | quote }}
{{- end }}
{{- end }}
- --attribution.slurm={{ $v.attribution.slurm.mode }}
{{- if not (include "gpu-exporter.ownScontrol" .) }}
- --slurm.scontrol=
{{- end }}
{{- if $v.attribution.slurm.mappingHostPath }}
- --attribution.slurm.mapping-dir=/host/slurm-mapping
{{- end }}
{{- if $v.progress.hostPath }}
- --progress.dir=/host/progress
{{- end }}
{{- if $v.progress.socketHostPath }}
- --progress.socket=/host/progress-socket/progress.sock
{{- end }}
- --state.dir=/var/lib/gpu-exporter
{{- if $v.nccl.ras.enabled }}
- --nccl.ras
{{- end }}
{{- $health := list (ternary "condition" "" $v.nodeHealth.condition) (ternary "events" "" $v.nodeHealth.events) }}
{{- with $v.nodeHealth.taint }}
{{- $health = append $health (printf "taint:%s" .) }}
{{- end }}
{{- with compact $health }}
- --kubernetes.node-health={{ join "," . }}
{{- end }}
{{- with $v.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The image has no scontrol, and a Slurm that is found would be asked in vain for ever: only one that is given is. */}}
{{- define "gpu-exporter.ownScontrol" -}}
{{- if dig "slurm" "scontrol" "" .Values.config }}yes{{ end -}}
{{- range .Values.extraEnv }}{{ if eq .name "GPU_EXPORTER_SLURM_SCONTROL" }}yes{{ end }}{{ end -}}
{{- end -}}

{{/* What `extraEnv` names as well is left to it: a server-side apply, Helm 4's and Argo CD's, refuses a name given twice. */}}
{{- define "gpu-exporter.env" -}}
{{- $given := dict -}}
{{- range .Values.extraEnv }}{{ $_ := set $given .name true }}{{ end -}}
{{- $all := list -}}
{{- range (include "gpu-exporter.ownEnv" . | fromYaml).rows -}}
{{- if not (hasKey $given .name) }}{{ $all = append $all . }}{{ end -}}
{{- end -}}
{{- toYaml (concat $all (default (list) .Values.extraEnv)) -}}
{{- end -}}

{{- define "gpu-exporter.ownEnv" -}}
{{- $v := .Values -}}
rows:
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
{{- if not $v.nvidia.devicesAsMount }}
{{- with $v.nvidia.visibleDevices }}
- {name: NVIDIA_VISIBLE_DEVICES, value: {{ quote . }}}
{{- end }}
{{- else }}
- {name: NVIDIA_VISIBLE_DEVICES, value: /var/run/nvidia-container-devices}
{{- end }}
{{- with $v.nvidia.driverCapabilities }}
- {name: NVIDIA_DRIVER_CAPABILITIES, value: {{ quote . }}}
{{- end }}
{{- with $v.nvidia.migMonitorDevices }}
- {name: NVIDIA_MIG_MONITOR_DEVICES, value: {{ quote . }}}
{{- end }}
{{- if $v.driver.hostPath }}
- {name: LD_LIBRARY_PATH, value: {{ quote $v.driver.libraryPath }}}
{{- end }}
{{- end -}}

{{/* Host paths, one row each: name, path on the host, path in the container, type. */}}
{{- define "gpu-exporter.hostPaths" -}}
{{- $v := .Values -}}
rows:
{{- if $v.attribution.pods.enabled }}
{{- /* Made where it is missing: a kubelet that lives elsewhere costs attribution, not the pod. */}}
- [pod-resources, {{ printf "%s/pod-resources" $v.attribution.pods.kubeletDir | quote }}, /var/lib/kubelet/pod-resources, DirectoryOrCreate]
{{- with $v.attribution.pods.logsDir }}
- [pod-logs, {{ quote . }}, /var/log/pods, DirectoryOrCreate]
{{- end }}
{{- end }}
{{- if $v.attribution.processes.enabled }}
- [cgroups, /sys/fs/cgroup, /host/sys/fs/cgroup, Directory]
{{- end }}
{{- with $v.attribution.slurm.mappingHostPath }}
{{- /* Below /run it is gone after each boot, until a first job's prolog makes it. */}}
- [slurm-mapping, {{ quote . }}, /host/slurm-mapping, DirectoryOrCreate]
{{- end }}
{{- with $v.progress.hostPath }}
- [progress, {{ quote . }}, /host/progress, DirectoryOrCreate]
{{- end }}
{{- with $v.progress.socketHostPath }}
- [progress-socket, {{ quote . }}, /host/progress-socket, DirectoryOrCreate]
{{- end }}
{{- with $v.driver.hostPath }}
- [driver, {{ quote . }}, {{ quote $v.driver.mountPath }}, Directory]
{{- end }}
{{- if $v.nvidia.devicesAsMount }}
- [nvidia-devices, /dev/null, /var/run/nvidia-container-devices/all, CharDevice]
{{- end }}
{{- end -}}

{{- define "gpu-exporter.volumes" -}}
{{- range (include "gpu-exporter.hostPaths" . | fromYaml).rows }}
- name: {{ index . 0 }}
  hostPath: {path: {{ index . 1 | quote }}, type: {{ index . 3 }}}
{{- end }}
- name: state
{{- with include "gpu-exporter.stateHostPath" . }}
  hostPath: {path: {{ quote . }}, type: DirectoryOrCreate}
{{- else }}
  emptyDir: {}
{{- end }}
{{- if .Values.gpuOperator.waitForToolkit }}
- name: validations
  hostPath: {path: {{ quote .Values.gpuOperator.validationsDir }}, type: DirectoryOrCreate}
{{- end }}
{{- if .Values.config }}
- name: config
  configMap: {name: {{ include "gpu-exporter.fullname" . }}-config}
{{- end }}
{{- if include "gpu-exporter.web.on" . }}
- name: web
  secret: {secretName: {{ include "gpu-exporter.web.secretName" . | quote }}}
{{- end }}
{{- if and .Values.web.tls.enabled .Values.web.tls.existingSecret }}
- name: tls
  secret: {secretName: {{ quote .Values.web.tls.existingSecret }}}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "gpu-exporter.volumeMounts" -}}
- {name: state, mountPath: /var/lib/gpu-exporter}
{{- range (include "gpu-exporter.hostPaths" . | fromYaml).rows }}
- {name: {{ index . 0 }}, mountPath: {{ index . 2 | quote }}{{ if ne (index . 0) "progress-socket" }}, readOnly: true{{ end }}{{ if eq (index . 0) "driver" }}, mountPropagation: HostToContainer{{ end }}}
{{- end }}
{{- if .Values.config }}
- {name: config, mountPath: /etc/gpu-exporter/config, readOnly: true}
{{- end }}
{{- if include "gpu-exporter.web.on" . }}
- {name: web, mountPath: /etc/gpu-exporter/web, readOnly: true}
{{- end }}
{{- if and .Values.web.tls.enabled .Values.web.tls.existingSecret }}
- {name: tls, mountPath: /etc/gpu-exporter/tls, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A probe from (dict "root" $ "path" ... "timing" ... "override" ...). With basic auth only the port can be tested. */}}
{{- define "gpu-exporter.probe" -}}
{{- $default := .timing -}}
{{- $handlers := pick .override "httpGet" "tcpSocket" "exec" "grpc" -}}
{{- if or (hasKey .override "httpGet") (not (or $handlers .root.Values.web.basicAuth.enabled)) -}}
{{- $_ := set $default "httpGet" (dict "path" .path "port" "metrics" "scheme" (include "gpu-exporter.web.scheme" .root)) -}}
{{- else if not $handlers -}}
{{- $_ := set $default "tcpSocket" (dict "port" "metrics") -}}
{{- end -}}
{{- toYaml (mergeOverwrite $default .override) -}}
{{- end -}}

{{- define "gpu-exporter.container" -}}
{{- $v := .Values -}}
name: gpu-exporter
image: {{ include "gpu-exporter.image" . }}
imagePullPolicy: {{ $v.image.pullPolicy }}
args:
  {{- include "gpu-exporter.args" . | nindent 2 }}
env:
  {{- include "gpu-exporter.env" . | nindent 2 }}
{{- with $v.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
terminationMessagePolicy: FallbackToLogsOnError
ports:
- {name: metrics, containerPort: {{ int64 $v.port }}{{ with int64 $v.hostPort }}, hostPort: {{ . }}{{ end }}, protocol: TCP}
{{- with $v.lifecycle }}
lifecycle:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.startupProbe }}
startupProbe:
  {{- include "gpu-exporter.probe" (dict "root" $ "path" "/-/healthy" "timing" (dict "periodSeconds" 5 "failureThreshold" 12) "override" .) | nindent 2 }}
{{- end }}
{{- if kindIs "map" $v.livenessProbe }}
livenessProbe:
  {{- include "gpu-exporter.probe" (dict "root" . "path" "/-/healthy" "timing" (dict "initialDelaySeconds" 5 "periodSeconds" 20 "timeoutSeconds" 5 "failureThreshold" 3) "override" $v.livenessProbe) | nindent 2 }}
{{- end }}
{{- if kindIs "map" $v.readinessProbe }}
readinessProbe:
  {{- include "gpu-exporter.probe" (dict "root" . "path" "/-/ready" "timing" (dict "periodSeconds" 5 "timeoutSeconds" 3) "override" $v.readinessProbe) | nindent 2 }}
{{- end }}
resources:
  {{- toYaml $v.resources | nindent 2 }}
securityContext:
  {{- include "gpu-exporter.containerSecurityContext" . | nindent 2 }}
{{- with trim (include "gpu-exporter.volumeMounts" .) }}
volumeMounts:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Ends once the GPU Operator's validator has left its mark; without it, whoever starts first gets no driver. */}}
{{- define "gpu-exporter.waitForToolkit" -}}
name: wait-for-toolkit
image: {{ include "gpu-exporter.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
command: [python3, -c]
args:
- |
  {{- .Files.Get "files/wait_for_toolkit.py" | nindent 2 }}
env:
- {name: NVIDIA_VISIBLE_DEVICES, value: void}
resources: {requests: {cpu: "0", memory: "0"}, limits: {memory: 64Mi}}
securityContext:
  {{- include "gpu-exporter.containerSecurityContext" . | nindent 2 }}
volumeMounts:
- {name: validations, mountPath: /run/nvidia/validations, readOnly: true, mountPropagation: HostToContainer}
{{- end -}}

{{- define "gpu-exporter.podSpec" -}}
{{- $v := .Values -}}
serviceAccountName: {{ include "gpu-exporter.serviceAccountName" . | quote }}
automountServiceAccountToken: {{ ternary "true" "false" (eq (include "gpu-exporter.callsApi" .) "yes") }}
enableServiceLinks: false
{{- if $v.attribution.processes.enabled }}
hostPID: true
{{- end }}
{{- if $v.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- with $v.runtimeClass.name }}
runtimeClassName: {{ quote . }}
{{- end }}
{{- with include "gpu-exporter.priorityClassName" . }}
priorityClassName: {{ quote . }}
{{- end }}
terminationGracePeriodSeconds: {{ int64 $v.terminationGracePeriodSeconds }}
{{- with include "gpu-exporter.imagePullSecrets" . }}
imagePullSecrets:
  {{- . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "gpu-exporter.podSecurityContext" . | nindent 2 }}
{{- with $v.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "gpu-exporter.affinity" . }}
affinity:
  {{- . | nindent 2 }}
{{- end }}
tolerations:
  {{- include "gpu-exporter.tolerations" . | nindent 2 }}
{{- if or $v.initContainers $v.gpuOperator.waitForToolkit }}
initContainers:
{{- if $v.gpuOperator.waitForToolkit }}
- {{ include "gpu-exporter.waitForToolkit" . | nindent 2 | trim }}
{{- end }}
{{- with $v.initContainers }}
{{ toYaml . }}
{{- end }}
{{- end }}
containers:
- {{ include "gpu-exporter.container" . | nindent 2 | trim }}
{{- with $v.extraContainers }}
{{ toYaml . }}
{{- end }}
{{- with trim (include "gpu-exporter.volumes" .) }}
volumes:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}
