{{- /* "on" where the release observes beside other schedulers; values of an older chart (--reuse-values) do not say. */ -}}
{{- define "dra-scheduler.observes" -}}
{{- if eq (.Values.mode | default "schedule") "observe" -}}on{{- end -}}
{{- end -}}

{{- /* One that observes is enough: each has answers of its own age, and would say each event. */ -}}
{{- define "dra-scheduler.replicas" -}}
{{- if include "dra-scheduler.observes" . -}}1{{- else -}}{{- int .Values.replicas -}}{{- end -}}
{{- end -}}

{{- /* As a YAML list. The page is on loopback, where no review of who reads is needed; metrics are for whom the NetworkPolicy lets in. */ -}}
{{- define "dra-scheduler.args" -}}
{{- $args := list "run" "--config" "/etc/dra-scheduler/config.yaml" -}}
{{- if include "dra-scheduler.observes" . -}}
{{- $args = list "observe" "--config" "/etc/dra-scheduler/config.yaml" "--authorization-always-allow-paths" "/healthz,/readyz,/livez,/metrics" -}}
{{- if .Values.kubeSchedulerConfiguration -}}
{{- $args = concat $args (list "--kube-scheduler-config" "/etc/dra-scheduler/kube-scheduler.yaml") -}}
{{- end -}}
{{- if (.Values.observe | default dict).events -}}
{{- $args = append $args "--events" -}}
{{- end -}}
{{- end -}}
{{- concat $args .Values.extraArgs | toYaml -}}
{{- end -}}
