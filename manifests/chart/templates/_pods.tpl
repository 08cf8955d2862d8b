{{- /* What the scheduler's pod and the page's have in common. */ -}}
{{- define "dra-scheduler.volumeMounts" -}}
- name: config
  mountPath: /etc/dra-scheduler
  readOnly: true
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "dra-scheduler.volumes" -}}
- name: config
  configMap:
    name: {{ include "dra-scheduler.fullname" . }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
