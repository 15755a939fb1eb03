{{/* What values can't be together. The schema has seen to the rest. */}}
{{- define "warmpath.checks" -}}
{{- $engines := .Values.engines -}}
{{- $standalone := include "warmpath.standalone" . -}}
{{- if $standalone -}}
  {{- $sources := 0 -}}
  {{- if $engines.matchLabels -}}{{- $sources = add1 $sources -}}{{- end -}}
  {{- if $engines.selector -}}{{- $sources = add1 $sources -}}{{- end -}}
  {{- if $engines.endpoints -}}{{- $sources = add1 $sources -}}{{- end -}}
  {{- if ne (int $sources) 1 -}}
    {{- fail "mode standalone needs exactly one of engines.matchLabels, engines.selector and engines.endpoints: it says who serves" -}}
  {{- end -}}
  {{- if and .Values.envoy.failOpen $engines.selector -}}
    {{- fail "envoy.failOpen needs engines.matchLabels or engines.endpoints: a Service of the engines can't be made of a selector with sets" -}}
  {{- end -}}
{{- else -}}
  {{- if or $engines.selector $engines.endpoints -}}
    {{- fail "engines.selector and engines.endpoints are for mode standalone; a pool has engines.matchLabels" -}}
  {{- end -}}
  {{- if and .Values.inferencePool.create (not $engines.matchLabels) -}}
    {{- fail "engines.matchLabels is empty: it says which pods the InferencePool selects (or set inferencePool.create to false)" -}}
  {{- end -}}
{{- end -}}
{{- if and $engines.endpoints (eq (toString .Values.leaderElection.enabled) "true") -}}
  {{- fail "leaderElection.enabled can't be true with engines.endpoints: several pickers of fixed endpoints all serve" -}}
{{- end -}}
{{- if and $engines.tls.enabled (not $engines.tls.insecureSkipVerify) $engines.tls.ca.configMap $engines.tls.ca.secret -}}
  {{- fail "engines.tls.ca is either a ConfigMap or a Secret" -}}
{{- end -}}
{{- if and (eq (toString .Values.podDisruptionBudget.enabled) "true") (include "warmpath.leads" .) -}}
  {{- fail "podDisruptionBudget.enabled can't be true with leader election: one pod is ready by design, and no node that it is on could be drained" -}}
{{- end -}}
{{- if gt (int .Values.provider.gke.healthCheck.timeoutSec) (int .Values.provider.gke.healthCheck.checkIntervalSec) -}}
  {{- fail "provider.gke.healthCheck.timeoutSec is more than checkIntervalSec, which Google refuses" -}}
{{- end -}}
{{- if and .Values.httpRoute.create (not .Values.httpRoute.parentRefs) -}}
  {{- fail "httpRoute.parentRefs is empty: it names the gateway that the route is for" -}}
{{- end -}}
{{- if and .Values.metricsAuth.enabled (ne (toString .Values.monitoring.monitor.enabled) "false") (not .Values.monitoring.monitor.tokenSecret.name) -}}
  {{- if include "warmpath.hasApi" (dict "root" . "apis" (list "monitoring.coreos.com/v1")) -}}
    {{- fail "metricsAuth.enabled needs monitoring.monitor.tokenSecret.name: the token that Prometheus shows" -}}
  {{- end -}}
{{- end -}}
{{- end -}}
