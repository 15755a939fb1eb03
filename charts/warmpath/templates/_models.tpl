{{/* Models' files: volumes, mounts and init containers. The model at place N is mounted at /models/N. */}}

{{- define "warmpath.models.mounts" -}}
{{- range $at, $model := .Values.models }}
{{- with $model.files }}
- name: model-{{ $at }}
  mountPath: /models/{{ $at }}
  readOnly: true
  {{- $subPath := "" }}
  {{- with .image }}{{ $subPath = .subPath }}{{ end }}
  {{- with .persistentVolumeClaim }}{{ $subPath = .subPath }}{{ end }}
  {{- with $subPath }}
  subPath: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "warmpath.models.volumes" -}}
{{- range $at, $model := .Values.models }}
{{- with $model.files }}
- name: model-{{ $at }}
  {{- if .image }}
  image:
    reference: {{ .image.reference | quote }}
    pullPolicy: {{ default "IfNotPresent" .image.pullPolicy }}
  {{- else if .persistentVolumeClaim }}
  persistentVolumeClaim:
    claimName: {{ .persistentVolumeClaim.claimName | quote }}
    readOnly: true
  {{- else if .volume }}
  {{- toYaml .volume | nindent 2 }}
  {{- else }}
  emptyDir:
    sizeLimit: 256Mi
  {{- end }}
{{- with .bundle }}
- name: model-{{ $at }}-bundle
  projected:
    sources:
    {{- range .configMaps }}
    - configMap:
        name: {{ . | quote }}
    {{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "warmpath.models.initContainers" -}}
{{- $root := . }}
{{- range $at, $model := .Values.models }}
{{- with $model.files }}
{{- if or .bundle .download }}
- name: model-{{ $at }}
  image: {{ $root.Values.modelFiles.image | quote }}
  imagePullPolicy: {{ $root.Values.modelFiles.pullPolicy }}
  command: [/bin/sh, -c]
  args:
  - {{ $root.Files.Get (ternary "files/unpack.sh" "files/download.sh" (not (not .bundle))) | quote }}
  env:
  - name: REQUIRED
    value: {{ $root.Values.modelFiles.required | quote }}
  {{- with .download }}
  - name: URL
    value: {{ trimSuffix "/" .url | quote }}
  - name: ATTEMPTS
    value: {{ include "warmpath.text" $root.Values.modelFiles.attempts | quote }}
  {{- with .tokenSecret }}
  - name: TOKEN
    valueFrom:
      secretKeyRef:
        name: {{ .name | quote }}
        key: {{ default "token" .key | quote }}
  {{- end }}
  {{- end }}
  volumeMounts:
  - name: model-{{ $at }}
    mountPath: /files
  {{- if .bundle }}
  - name: model-{{ $at }}-bundle
    mountPath: /bundle
    readOnly: true
  {{- end }}
  securityContext:
    {{- toYaml $root.Values.securityContext | nindent 4 }}
  resources:
    {{- toYaml $root.Values.modelFiles.resources | nindent 4 }}
{{- else if .initContainer }}
- name: model-{{ $at }}
  {{- $made := omit .initContainer "volumeMounts" }}
  {{- if not (hasKey $made "securityContext") }}{{ $_ := set $made "securityContext" $root.Values.securityContext }}{{ end }}
  {{- toYaml $made | nindent 2 }}
  volumeMounts:
  - name: model-{{ $at }}
    mountPath: /models/{{ $at }}
  {{- with .initContainer.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
