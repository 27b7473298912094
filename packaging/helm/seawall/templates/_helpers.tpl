{{- define "seawall.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "seawall.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "seawall.labels" -}}
{{ include "seawall.selector" . }}
app.kubernetes.io/component: {{ .Values.form }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "seawall.image" -}}
{{- $repository := required "image.repository: name the image that packaging/image.sh made" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end }}

{{- define "seawall.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "seawall.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{/* The seawall.yml: what the values say, with the socket that the probes ask, and the metrics. */}}
{{- define "seawall.config" -}}
{{- if not .Values.config -}}
{{- fail "config: write the seawall.yml there, with a vault and databases" -}}
{{- end -}}
{{- $added := dict -}}
{{- if ne .Values.form "cronjob" -}}
{{- $_ := set $added "socket" (dict "path" "/tmp/seawall.sock") -}}
{{- if .Values.metrics.enabled -}}
{{- $_ := set $added "metrics-addr" (printf "0.0.0.0:%d" (int .Values.metrics.port)) -}}
{{- end -}}
{{- end -}}
{{- toYaml (mergeOverwrite (deepCopy .Values.config) $added) -}}
{{- end }}

{{/* What each container of Seawall's has. */}}
{{- define "seawall.container" -}}
image: {{ include "seawall.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {{- toYaml .Values.securityContext | nindent 2 }}
resources: {{- toYaml .Values.resources | nindent 2 }}
env:
  - name: SEAWALL_CONFIG
    value: /etc/seawall/seawall.yml
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.credentials.existingSecret }}
envFrom:
  - secretRef: { name: {{ . }} }
{{- end }}
volumeMounts:
  - { name: config, mountPath: /etc/seawall, readOnly: true }
  - { name: state, mountPath: /var/lib/seawall }
  - { name: scratch, mountPath: /tmp }
  {{- if .Values.credentials.filesFromSecret }}
  - { name: secrets, mountPath: /etc/seawall-secrets, readOnly: true }
  {{- end }}
  {{- if eq .Values.form "sidecar" }}
  - { name: data, mountPath: {{ .Values.sidecar.data.mountPath }} }
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* A process that protects. It answers on its control socket once every database was opened. */}}
{{- define "seawall.process" -}}
args: [replicate]
{{- if .Values.metrics.enabled }}
ports:
  - { name: metrics, containerPort: {{ .Values.metrics.port }} }
{{- end }}
startupProbe:
  exec: { command: [seawall, info] }
  {{- toYaml .Values.startupProbe | nindent 2 }}
livenessProbe:
  exec: { command: [seawall, info] }
  {{- toYaml .Values.livenessProbe | nindent 2 }}
{{- end }}

{{- define "seawall.pod" -}}
serviceAccountName: {{ include "seawall.serviceAccount" . }}
automountServiceAccountToken: false
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The volumes of a pod, without those that a StatefulSet claims. */}}
{{- define "seawall.volumes" -}}
- name: config
  configMap: { name: {{ include "seawall.name" . }} }
- name: scratch
  emptyDir: { sizeLimit: {{ .Values.scratch.sizeLimit }} }
{{- with .Values.credentials.filesFromSecret }}
- name: secrets
  secret: { secretName: {{ . }}, defaultMode: 0440 }
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
