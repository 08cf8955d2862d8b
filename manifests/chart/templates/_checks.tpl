{{- /* What a schema cannot compare. Empty, or the end of rendering. The scheduler refuses the same as it starts; here no pod fails. */ -}}
{{- define "dra-scheduler.checks" -}}
{{- $given := (.Values.kubeSchedulerConfiguration | default .Values.config).leaderElection | default dict -}}
{{- $text := dict -}}
{{- $seconds := dict -}}
{{- range $name, $default := dict "leaseDuration" "15s" "renewDeadline" "10s" "retryPeriod" "2s" -}}
{{- $_ := set $text $name (get $given $name | default $default | toString) -}}
{{- $_ := set $seconds $name (include "dra-scheduler.seconds" (get $text $name)) -}}
{{- end -}}
{{- if not (or (eq (toString $given.leaderElect) "false") (has "" (values $seconds))) -}}
{{- if le (float64 $seconds.leaseDuration) (float64 $seconds.renewDeadline) -}}
{{- fail (printf "leaderElection: leaseDuration is %s, and must be longer than renewDeadline, which is %s" $text.leaseDuration $text.renewDeadline) -}}
{{- end -}}
{{- if le (float64 $seconds.renewDeadline) (mulf $seconds.retryPeriod 1.2) -}}
{{- fail (printf "leaderElection: renewDeadline is %s, and must be longer than 1.2 times retryPeriod, which is %s" $text.renewDeadline $text.retryPeriod) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The seconds of "2m30s" or 15. Empty for all else, which the scheduler names as it starts. */ -}}
{{- define "dra-scheduler.seconds" -}}
{{- if regexMatch "^[0-9]+(\\.[0-9]+)?$" . -}}
{{- . -}}
{{- else if regexMatch "^([0-9]+(\\.[0-9]+)?(h|ms|m|s))+$" . -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+(h|ms|m|s)" . -1 -}}
{{- $unit := regexFind "[a-z]+" . -}}
{{- $sum = addf $sum (mulf (trimSuffix $unit .) (get (dict "h" 3600 "m" 60 "s" 1 "ms" 0.001) $unit)) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}
{{- end -}}
