{{/* Names and labels. */}}

{{- define "gpu-exporter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The service bears it: a release may have dots and begin with a digit, a service (before Kubernetes 1.36) not. */}}
{{- define "gpu-exporter.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
{{- $name = include "gpu-exporter.name" . -}}
{{- $name = ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | replace "." "-" -}}
{{- if not (regexMatch "^[a-z]" $name) }}{{ $name = printf "gpu-%s" $name }}{{ end -}}
{{- end -}}
{{- $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "gpu-exporter.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{/* Name of an object that may lie in another namespace, or in none: two releases of one name must not meet there. */}}
{{- define "gpu-exporter.nameIn" -}}
{{- $home := include "gpu-exporter.namespace" .root -}}
{{- if eq .namespace $home -}}
{{- include "gpu-exporter.fullname" .root -}}
{{- else -}}
{{- printf "%s-%s" $home (include "gpu-exporter.fullname" .root) | trimAll "-" -}}
{{- end -}}
{{- end -}}

{{- define "gpu-exporter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gpu-exporter.name" . | quote }}
app.kubernetes.io/instance: {{ quote .Release.Name }}
{{- end -}}

{{/* A text that a label may have: not the "+" of a build's version. */}}
{{- define "gpu-exporter.labelValue" -}}
{{- . | replace "+" "_" | trunc 63 | trimAll "-_." -}}
{{- end -}}

{{- define "gpu-exporter.chartLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | include "gpu-exporter.labelValue" }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ include "gpu-exporter.labelValue" .Chart.AppVersion | quote }}
app.kubernetes.io/component: exporter
{{- end -}}

{{/* `metadata` of an object, from (dict "root" $ "name" ... "namespace" ... "labels" ... "annotations" ...). */}}
{{- define "gpu-exporter.metadata" -}}
{{- $own := include "gpu-exporter.selectorLabels" .root | fromYaml -}}
{{- $chart := include "gpu-exporter.chartLabels" .root | fromYaml -}}
{{- $labels := mergeOverwrite (dict) $chart .root.Values.commonLabels (default (dict) .labels) $own -}}
{{- $annotations := mergeOverwrite (dict) .root.Values.commonAnnotations (default (dict) .annotations) -}}
name: {{ quote .name }}
{{- with .namespace }}
namespace: {{ quote . }}
{{- end }}
labels:
  {{- toYaml $labels | nindent 2 }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Not the exporters' labels: their service and their DaemonSet select by them. */}}
{{- define "gpu-exporter.accounting.labels" -}}
app.kubernetes.io/name: {{ printf "%s-accounting" (include "gpu-exporter.name" . | trunc 52) | quote }}
app.kubernetes.io/instance: {{ quote .Release.Name }}
{{- end -}}

{{- define "gpu-exporter.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "gpu-exporter.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "gpu-exporter.image" -}}
{{- $image := .Values.image -}}
{{- with default $image.registry (dig "imageRegistry" "" (default (dict) .Values.global)) }}{{ . }}/{{ end }}{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default (replace "+" "_" .Chart.AppVersion) $image.tag }}{{ end }}
{{- end -}}

{{/* Of the chart and of an umbrella chart, which may give plain names. */}}
{{- define "gpu-exporter.imagePullSecrets" -}}
{{- $all := list -}}
{{- range concat (default (list) .Values.imagePullSecrets) (default (list) (dig "imagePullSecrets" (list) (default (dict) .Values.global))) -}}
{{- $all = append $all (ternary (dict "name" .) . (kindIs "string" .)) -}}
{{- end -}}
{{- if $all -}}
{{- toYaml ($all | uniq) -}}
{{- end -}}
{{- end -}}
