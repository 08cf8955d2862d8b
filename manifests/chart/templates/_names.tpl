{{- define "dra-scheduler.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "dra-scheduler.labels" -}}
app.kubernetes.io/name: dra-scheduler
app.kubernetes.io/part-of: dra-scheduler
{{- end -}}

{{- define "dra-scheduler.selector" -}}
app: {{ include "dra-scheduler.fullname" . }}
{{- end -}}

{{- define "dra-scheduler.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dra-scheduler.priorityClassName" -}}
{{- .Values.priorityClass.name | default (.Values.priorityClass.create | ternary (include "dra-scheduler.fullname" .) "") -}}
{{- end -}}

{{- /* The first name that pods can ask for. */ -}}
{{- define "dra-scheduler.schedulerName" -}}
{{- $profiles := (.Values.kubeSchedulerConfiguration | default .Values.config).profiles | default list -}}
{{- (first ($profiles | default (list dict))).schedulerName | default "dra-scheduler" -}}
{{- end -}}

{{- define "dra-scheduler.config" -}}
{{- if .Values.kubeSchedulerConfiguration -}}
{{ toYaml .Values.kubeSchedulerConfiguration }}
---
{{ toYaml (omit .Values.config "profiles" "leaderElection") }}
{{- else -}}
{{ toYaml .Values.config }}
{{- end -}}
{{- end -}}

{{- define "dra-scheduler.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "dra-scheduler.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}
