{{/* The picker's certificate, and what engines' certificates are verified by. */}}

{{- define "warmpath.tls.mounts" -}}
{{- if and (not (include "warmpath.standalone" .)) .Values.tls.enabled .Values.tls.secretName }}
- name: tls
  mountPath: /etc/warmpath/tls
  readOnly: true
{{- end }}
{{- include "warmpath.engines.mounts" . }}
{{- end -}}

{{- define "warmpath.engines.mounts" -}}
{{- if include "warmpath.enginesCa" . }}
- name: engines-ca
  mountPath: /etc/warmpath/engines-ca
  readOnly: true
{{- end }}
{{- if and .Values.engines.tls.enabled .Values.engines.tls.clientCertificateSecret }}
- name: engines-client
  mountPath: /etc/warmpath/engines-client
  readOnly: true
{{- end }}
{{- end -}}

{{- define "warmpath.tls.volumes" -}}
{{- if and (not (include "warmpath.standalone" .)) .Values.tls.enabled .Values.tls.secretName }}
- name: tls
  secret:
    secretName: {{ .Values.tls.secretName | quote }}
{{- end }}
{{- if include "warmpath.enginesCa" . }}
- name: engines-ca
  {{- if .Values.engines.tls.ca.configMap }}
  configMap:
    name: {{ .Values.engines.tls.ca.configMap | quote }}
  {{- else }}
  secret:
    secretName: {{ .Values.engines.tls.ca.secret | quote }}
  {{- end }}
{{- end }}
{{- if and .Values.engines.tls.enabled .Values.engines.tls.clientCertificateSecret }}
- name: engines-client
  secret:
    secretName: {{ .Values.engines.tls.clientCertificateSecret | quote }}
{{- end }}
{{- end -}}
