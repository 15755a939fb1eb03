{{/* Names and labels. */}}

{{- define "warmpath.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 50 characters, so that what is put behind it still fits. */}}
{{- define "warmpath.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "warmpath.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "warmpath.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "warmpath.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "warmpath.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "warmpath.pool" -}}
{{- default .Release.Name .Values.inferencePool.name -}}
{{- end -}}

{{- define "warmpath.selectorLabels" -}}
app.kubernetes.io/name: {{ include "warmpath.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "warmpath.labels" -}}
{{ include "warmpath.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* metadata of an object: (dict "root" $ "name" NAME "component" COMPONENT "labels" MAP "annotations" MAP), all but root optional. */}}
{{- define "warmpath.metadata" -}}
metadata:
  name: {{ default (include "warmpath.fullname" .root) .name | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "warmpath.labels" .root | nindent 4 }}
    {{- with .component }}
    app.kubernetes.io/component: {{ . }}
    {{- end }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* An image: a digest goes before a tag. (dict "image" MAP "tag" DEFAULT) */}}
{{- define "warmpath.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (default .tag .image.tag) -}}
{{- end -}}
{{- end -}}

{{/* A scalar as text. Whole numbers of a values file are floating-point to Helm, which would print 1000000 as 1e+06. */}}
{{- define "warmpath.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}
{{- printf "%.0f" . -}}
{{- else -}}
{{- toString . -}}
{{- end -}}
{{- end -}}

{{/* Environment variables whose plain values may be numbers and booleans. */}}
{{- define "warmpath.env" -}}
{{- range . }}
- name: {{ .name | quote }}
  {{- if hasKey . "valueFrom" }}
  valueFrom:
    {{- toYaml .valueFrom | nindent 4 }}
  {{- else }}
  value: {{ include "warmpath.text" .value | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* "true" where one of several pickers leads. */}}
{{- define "warmpath.leads" -}}
{{- $asked := toString .Values.leaderElection.enabled -}}
{{- if or (eq $asked "true") (and (eq $asked "auto") (gt (int .Values.replicas) 1) (not .Values.engines.endpoints)) -}}
true
{{- end -}}
{{- end -}}

{{/* "true" where the picker asks the API server for anything, and needs a token for it. */}}
{{- define "warmpath.asksApi" -}}
{{- if or (not .Values.engines.endpoints) .Values.metricsAuth.enabled -}}
true
{{- end -}}
{{- end -}}

{{/* "true" where the cluster has one of these APIs. (dict "root" $ "apis" LIST) */}}
{{- define "warmpath.hasApi" -}}
{{- $root := .root -}}
{{- range .apis -}}
{{- if $root.Capabilities.APIVersions.Has . -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether something whose API may be missing is wanted: "true" or nothing; fails where it was asked for outright and can't be.
     (dict "root" $ "enabled" auto|true|false "value" NAME-OF-THE-VALUE "group" GROUP/VERSION "kind" KIND "of" WHOSE-IT-IS) */}}
{{- define "warmpath.wanted" -}}
{{- $asked := toString .enabled -}}
{{- $has := include "warmpath.hasApi" (dict "root" .root "apis" (list .group (printf "%s/%s" .group .kind))) -}}
{{- if and (eq $asked "true") (not $has) -}}
{{- fail (printf "%s is true, but this cluster has no %s of %s: install %s first, or set %s to auto or false (with `helm template`, say --api-versions %s)" .value .kind .group .of .value .group) -}}
{{- else if and (ne $asked "false") $has -}}
true
{{- end -}}
{{- end -}}

{{/* "true" where the picker's pods have an Envoy. */}}
{{- define "warmpath.standalone" -}}
{{- if eq .Values.mode "standalone" -}}true{{- end -}}
{{- end -}}
