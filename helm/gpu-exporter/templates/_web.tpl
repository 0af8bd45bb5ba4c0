{{/* TLS and basic auth: what is made, what is kept from the last release, and what the monitors send. */}}

{{- define "gpu-exporter.web.on" -}}
{{- if or .Values.web.tls.enabled .Values.web.basicAuth.enabled }}yes{{ end -}}
{{- end -}}

{{- define "gpu-exporter.web.secretName" -}}
{{- default (printf "%s-web" (include "gpu-exporter.fullname" .)) .Values.web.existingSecret -}}
{{- end -}}

{{- define "gpu-exporter.web.serverName" -}}
{{- default (printf "%s.%s.svc" (include "gpu-exporter.fullname" .) (include "gpu-exporter.namespace" .)) .Values.web.tls.serverName -}}
{{- end -}}

{{/*
Fills .Values.madeWeb with the secret's contents, once a render: the DaemonSet's checksum and the Secret must see the
same random values. What the cluster already has is kept, so that an upgrade changes nothing by itself.
*/}}
{{- define "gpu-exporter.web.make" -}}
{{- if not (hasKey .Values "madeWeb") -}}
{{- $found := lookup "v1" "Secret" (include "gpu-exporter.namespace" .) (include "gpu-exporter.web.secretName" .) -}}
{{- $old := dict -}}
{{- range $key, $value := default (dict) (get (default (dict) $found) "data") -}}
{{- $_ := set $old $key (b64dec $value) -}}
{{- end -}}
{{- $made := dict -}}
{{- if .Values.web.tls.enabled -}}
{{- include "gpu-exporter.web.makeTls" (dict "root" . "old" $old "made" $made) -}}
{{- end -}}
{{- if .Values.web.basicAuth.enabled -}}
{{- include "gpu-exporter.web.makeAuth" (dict "root" . "old" $old "made" $made) -}}
{{- end -}}
{{- $_ := set $made "web-config.yaml" (include "gpu-exporter.web.config" (dict "root" . "made" $made)) -}}
{{- $_ := set .Values "madeWeb" $made -}}
{{- end -}}
{{- end -}}

{{- define "gpu-exporter.web.makeTls" -}}
{{- if not .root.Values.web.tls.existingSecret -}}
{{- $name := include "gpu-exporter.web.serverName" .root -}}
{{- if and (hasKey .old "tls.crt") (hasKey .old "tls.key") (hasKey .old "ca.crt") (eq (get .old "server-name") $name) -}}
{{- range $key := list "tls.crt" "tls.key" "ca.crt" "server-name" -}}
{{- $_ := set $.made $key (get $.old $key) -}}
{{- end -}}
{{- else -}}
{{- $authority := genCA "gpu-exporter" 3650 -}}
{{- $pair := genSignedCert $name nil (list $name) 3650 $authority -}}
{{- $_ := set .made "tls.crt" $pair.Cert -}}
{{- $_ := set .made "tls.key" $pair.Key -}}
{{- $_ := set .made "ca.crt" $authority.Cert -}}
{{- $_ := set .made "server-name" $name -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gpu-exporter.web.makeAuth" -}}
{{- $auth := .root.Values.web.basicAuth -}}
{{- $password := default (default (randAlphaNum 32) (get .old "password")) $auth.password -}}
{{- $hash := $auth.passwordHash -}}
{{- if not $hash -}}
{{- $same := and (get .old "password-hash") (eq (get .old "password") $password) -}}
{{- $hash = ternary (get .old "password-hash") (bcrypt $password) (not (not $same)) -}}
{{- end -}}
{{- $_ := set .made "username" $auth.username -}}
{{- $_ := set .made "password" $password -}}
{{- $_ := set .made "password-hash" $hash -}}
{{- end -}}

{{- define "gpu-exporter.web.config" -}}
{{- $config := dict -}}
{{- if .root.Values.web.tls.enabled -}}
{{- $dir := ternary "/etc/gpu-exporter/tls/" "" (ne .root.Values.web.tls.existingSecret "") -}}
{{- $_ := set $config "tls_server_config" (dict "cert_file" (printf "%stls.crt" $dir) "key_file" (printf "%stls.key" $dir)) -}}
{{- end -}}
{{- if .root.Values.web.basicAuth.enabled -}}
{{- $_ := set $config "basic_auth_users" (dict .made.username (get .made "password-hash")) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{- define "gpu-exporter.web.scheme" -}}
{{- ternary "HTTPS" "HTTP" .Values.web.tls.enabled -}}
{{- end -}}

{{/* scheme, tlsConfig and basicAuth of a monitor's endpoint. */}}
{{- define "gpu-exporter.web.monitor" -}}
{{- $web := .Values.web -}}
{{- $secret := include "gpu-exporter.web.secretName" . -}}
{{- if $web.tls.enabled }}
scheme: https
tlsConfig:
  serverName: {{ include "gpu-exporter.web.serverName" . | quote }}
  {{- if $web.tls.insecureSkipVerify }}
  insecureSkipVerify: true
  {{- else if and $web.tls.existingSecret $web.tls.caKey }}
  ca: {secret: {name: {{ quote $web.tls.existingSecret }}, key: {{ quote $web.tls.caKey }}}}
  {{- else if not $web.tls.existingSecret }}
  ca: {secret: {name: {{ quote $secret }}, key: {{ default "ca.crt" $web.tls.caKey | quote }}}}
  {{- end }}
{{- end }}
{{- if $web.basicAuth.enabled }}
basicAuth:
  username: {name: {{ quote $secret }}, key: username}
  password: {name: {{ quote $secret }}, key: password}
{{- end }}
{{- end -}}
