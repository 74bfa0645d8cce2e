{{- define "trunkline.labels" -}}
app.kubernetes.io/name: trunkline
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "trunkline.name" -}}
{{- if contains "trunkline" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-trunkline{{ end }}
{{- end }}

{{- define "trunkline.container" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- define "trunkline.pod" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "trunkline.config" -}}
{{- $name := include "trunkline.name" . }}
{{- $nats := .Values.nats.urls }}
{{- if .Values.nats.enabled }}
{{- $nats = list }}
{{- range $i := until 3 }}{{ $nats = append $nats (printf "nats://%s-nats-%d.%s-nats:4222" $name $i $name) }}{{ end }}
{{- end }}
{{- $cluster := merge (dict "nats" $nats "secret" "${file:/run/secrets/trunkline/cluster}") (deepCopy (default dict .Values.cluster)) }}
{{- with .Values.nats.clusterName }}{{ $_ := set $cluster "name" . }}{{ end }}
{{- $store := .Values.postgresql.url }}
{{- if .Values.postgresql.enabled }}
{{- $store = printf "postgresql://trunkline:${file:/run/secrets/trunkline/postgresql}@%s-postgresql:5432/trunkline" $name }}
{{- end }}
{{- if $store }}{{ $_ := set $cluster "store" $store }}{{ end }}
{{- $config := deepCopy .Values.config }}
{{- $listen := deepCopy (default dict $config.listen) }}
{{- $hosts := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) }}
{{- if .Values.ingress.enabled }}{{ $hosts = append $hosts .Values.ingress.host }}{{ end }}
{{- $_ := set $listen "allowedHosts" (concat $hosts (default list $listen.allowedHosts)) }}
{{- $_ := set $config "listen" $listen }}
{{- $_ := set $config "cluster" $cluster }}
{{- if .Values.metrics.enabled }}
{{- $metrics := dict "listen" "0.0.0.0:9464" }}
{{- if .Values.metrics.token }}{{ $_ := set $metrics "token" "${file:/run/secrets/trunkline/metrics}" }}{{ end }}
{{- $_ := set $config "metrics" $metrics }}
{{- end }}
{{- if .Values.tls.secretName }}
{{- $_ := set $config "tls" (dict "cert" "/run/secrets/tls/tls.crt" "key" "/run/secrets/tls/tls.key") }}
{{- end }}
{{- toYaml $config }}
{{- end }}
