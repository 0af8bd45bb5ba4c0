{{/* "yes" where the pod of `helm test` is made: where there is a service to ask, and, by default, a cluster. */}}
{{- define "gpu-exporter.test.made" -}}
{{- $enabled := .Values.test.enabled -}}
{{- if eq (toString $enabled) "auto" }}{{ $enabled = include "gpu-exporter.connected" . }}{{ end -}}
{{- if and .Values.service.enabled $enabled }}yes{{ end -}}
{{- end -}}

{{/* Not the DaemonSet's: its controller deletes strangers that match its selector. */}}
{{- define "gpu-exporter.test.labels" -}}
app.kubernetes.io/name: {{ printf "%s-test" (include "gpu-exporter.name" . | trunc 58) | quote }}
app.kubernetes.io/instance: {{ quote .Release.Name }}
{{- end -}}

{{/* JSON of the Prometheus that should scrape the monitor, and its name for that; empty where there is none to ask. */}}
{{- define "gpu-exporter.test.pool" -}}
{{- $root := . -}}
{{- $made := dict -}}
{{- range $part := list "serviceMonitor" "podMonitor" -}}
{{- if include "gpu-exporter.makes" (list $root $part) -}}
{{- $url := $root.Values.test.prometheusUrl -}}
{{- if eq $url "auto" -}}{{- $url = (include "gpu-exporter.selection" (list $root $part) | fromJson).url -}}{{- end -}}
{{- $namespace := default (include "gpu-exporter.namespace" $root) (index $root.Values $part).namespace -}}
{{- $name := include "gpu-exporter.nameIn" (dict "root" $root "namespace" $namespace) -}}
{{- if $url -}}{{- $made = dict "url" (trimSuffix "/" $url) "pool" (printf "%s/%s/%s/0" $part $namespace $name) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $made -}}
{{- end -}}

{{/* The pod of `helm test`: asks the service for the metrics and Prometheus for its targets, at Pod Security level restricted. */}}
{{- define "gpu-exporter.test.podSpec" -}}
restartPolicy: Never
automountServiceAccountToken: false
enableServiceLinks: false
nodeSelector: {kubernetes.io/os: linux}
{{- /* Every node may have a taint for its GPUs; one that is not ready has one that evicts, too. */}}
tolerations:
- {operator: Exists, effect: NoSchedule}
{{- with .root.Values.tolerations }}
{{ toYaml . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- if not (include "gpu-exporter.assignsUsers" .root) }}
  runAsUser: 65534
  runAsGroup: 65534
  {{- end }}
  seccompProfile: {type: RuntimeDefault}
{{- with include "gpu-exporter.imagePullSecrets" .root }}
imagePullSecrets:
  {{- . | nindent 2 }}
{{- end }}
containers:
- name: scrape
  image: {{ default (include "gpu-exporter.image" .root) .root.Values.test.image | quote }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [python3, -c]
  args:
  - |
    {{- .root.Files.Get "files/test/scrape.py" | nindent 4 }}
  env:
  - {name: URL, value: {{ quote .url }}}
  {{- with include "gpu-exporter.test.pool" .root | fromJson }}
  - {name: PROMETHEUS, value: {{ quote .url }}}
  - {name: POOL, value: {{ quote .pool }}}
  {{- end }}
  {{- if .root.Values.web.basicAuth.enabled }}
  - name: USERNAME
    valueFrom: {secretKeyRef: {name: {{ include "gpu-exporter.web.secretName" .root | quote }}, key: username}}
  - name: PASSWORD
    valueFrom: {secretKeyRef: {name: {{ include "gpu-exporter.web.secretName" .root | quote }}, key: password}}
  {{- end }}
  resources: {requests: {cpu: "0", memory: "0"}, limits: {memory: 64Mi}}
  securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end -}}
