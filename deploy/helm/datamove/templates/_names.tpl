{{- define "datamove.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains "datamove" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-datamove" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* labels takes a list: the context, and a component. */}}
{{- define "datamove.labels" -}}
{{- $ := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $.Chart.Name $.Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ $.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $.Release.Service }}
app.kubernetes.io/part-of: datamove
{{ include "datamove.selector" . }}
{{- with $.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "datamove.selector" -}}
{{- $ := index . 0 -}}
app.kubernetes.io/name: {{ $.Chart.Name }}
app.kubernetes.io/instance: {{ $.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "datamove.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* seLinux is what pods that have directories of their node are to SELinux. */}}
{{- define "datamove.seLinux" -}}
{{- with .Values.seLinuxOptions }}
seLinuxOptions: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* placing takes the values of a component: where its pods may be. Our programs are for Linux. */}}
{{- define "datamove.placing" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
nodeSelector: {{- toYaml (merge (deepCopy .nodeSelector) (dict "kubernetes.io/os" "linux")) | nindent 2 }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "datamove.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* healthy takes the path that says whether there is anything to ask for: how the kubelet asks the port http. A start may take ten minutes, as of a ledger after a power cut. */}}
{{- define "datamove.healthy" -}}
startupProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 2
  failureThreshold: 300
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: {{ . }}, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
{{- end -}}

{{/* secretVolumes and secretMounts take a list of names of Secrets. */}}
{{- define "datamove.secretVolumes" -}}
{{- range . }}
- name: secret-{{ . }}
  secret: {secretName: {{ . }}, defaultMode: 0400}
{{- end }}
{{- end -}}

{{- define "datamove.secretMounts" -}}
{{- range . }}
- {name: secret-{{ . }}, mountPath: /run/secrets/datamove/{{ . }}, readOnly: true}
{{- end }}
{{- end -}}
