{{/* Names and labels. */}}

{{- define "warmpath.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* A label of the DNS, as a Service takes it: releases may have dots. At most 46 characters, so that what is put behind it still
     fits, and a Deployment's name can be told from those of its pods (which are cut off at 58, five that are drawn aside). */}}
{{- define "warmpath.fullname" -}}
{{- $name := .Values.fullnameOverride -}}
{{- if not $name -}}
  {{- $name = .Release.Name -}}
  {{- if not (contains (include "warmpath.name" .) $name) -}}
    {{- $name = printf "%s-%s" $name (include "warmpath.name" .) -}}
  {{- end -}}
{{- end -}}
{{- regexReplaceAll "-+$" ($name | replace "." "-" | trunc 46) "" -}}
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

{{/* Labels, each once: the chart's own, by which objects find each other, go before those of values. (dict "root" $ "component"
     COMPONENT "labels" MAP), the latter two optional. */}}
{{- define "warmpath.labels" -}}
{{- $own := include "warmpath.selectorLabels" .root | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/version" .root.Chart.AppVersion -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- with .component -}}{{- $_ := set $own "app.kubernetes.io/component" . -}}{{- end -}}
{{- toYaml (merge $own (deepCopy (default dict .labels)) (deepCopy (default dict .root.Values.commonLabels))) -}}
{{- end -}}

{{/* Labels of the picker's pods. */}}
{{- define "warmpath.podLabels" -}}
{{- $own := include "warmpath.selectorLabels" . | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/component" "picker" -}}
{{- toYaml (merge $own (deepCopy (default dict .Values.podLabels)) (deepCopy (default dict .Values.commonLabels))) -}}
{{- end -}}

{{/* metadata of an object: (dict "root" $ "name" NAME "component" COMPONENT "labels" MAP "annotations" MAP), all but root optional. */}}
{{- define "warmpath.metadata" -}}
metadata:
  name: {{ default (include "warmpath.fullname" .root) .name | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "warmpath.labels" . | nindent 4 }}
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
