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
{{- $own := and .Values.priorityClass.create (not (include "dra-scheduler.observes" .)) -}}
{{- .Values.priorityClass.name | default ($own | ternary (include "dra-scheduler.fullname" .) "") -}}
{{- end -}}

{{- /* The first name that pods can ask for. */ -}}
{{- define "dra-scheduler.schedulerName" -}}
{{- $profiles := (.Values.kubeSchedulerConfiguration | default .Values.config).profiles | default list -}}
{{- (first ($profiles | default (list dict))).schedulerName | default "dra-scheduler" -}}
{{- end -}}

{{- /* The leases that it may hold, as a JSON list: one for all, or one for each scheduler name. */ -}}
{{- define "dra-scheduler.leaseNames" -}}
{{- $given := .Values.kubeSchedulerConfiguration | default .Values.config -}}
{{- $names := compact (list ($given.leaderElection | default dict).resourceName) -}}
{{- if not $names -}}
{{- range ($given.profiles | default (list dict)) -}}
{{- $names = append $names (.schedulerName | default "dra-scheduler") -}}
{{- end -}}
{{- end -}}
{{- .Values.leaseNames | default $names | toJson -}}
{{- end -}}

{{- /* "off" where no pod is to be removed for another one; values of an older chart (--reuse-values) do not say. */ -}}
{{- define "dra-scheduler.preemption" -}}
{{- if and .Values.preemption (not .Values.preemption.enabled) -}}off{{- end -}}
{{- end -}}

{{- /* A configuration without the plugin that preempts, in any profile. */ -}}
{{- define "dra-scheduler.withoutPreemption" -}}
{{- $profiles := list -}}
{{- range (.profiles | default (list dict)) -}}
{{- $plugins := .plugins | default dict -}}
{{- range $point, $set := $plugins -}}
{{- range (($set | default dict).enabled | default list) -}}
{{- if eq .name "DefaultPreemption" -}}
{{- fail (printf "preemption.enabled is false, but a profile enables DefaultPreemption (plugins.%s)" $point) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $multi := $plugins.multiPoint | default dict -}}
{{- $names := list -}}
{{- range ($multi.disabled | default list) -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- if not (or (has "*" $names) (has "DefaultPreemption" $names)) -}}
{{- $off := append ($multi.disabled | default list) (dict "name" "DefaultPreemption") -}}
{{- $multi = merge (dict "disabled" $off) $multi -}}
{{- end -}}
{{- $profiles = append $profiles (merge (dict "plugins" (merge (dict "multiPoint" $multi) $plugins)) .) -}}
{{- end -}}
{{ toYaml (merge (dict "profiles" $profiles) .) }}
{{- end -}}

{{- define "dra-scheduler.config" -}}
{{- $given := .Values.kubeSchedulerConfiguration | default .Values.config -}}
{{- if include "dra-scheduler.observes" . -}}
{{ toYaml .Values.config }}
{{- else if include "dra-scheduler.preemption" . -}}
{{ include "dra-scheduler.withoutPreemption" $given }}
{{- else -}}
{{ toYaml $given }}
{{- end -}}
{{- if and .Values.kubeSchedulerConfiguration (not (include "dra-scheduler.observes" .)) }}
---
{{ toYaml (omit .Values.config "profiles" "leaderElection") }}
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
