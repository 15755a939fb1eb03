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
{{- $name := include "warmpath.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
  {{- fail (printf "%s can't be a Service's name, which begins with a letter: set fullnameOverride" $name) -}}
{{- end -}}
{{- $labels := include "warmpath.podLabels" . | fromYaml -}}
{{- $selected := $engines.matchLabels -}}
{{- range $key, $value := $engines.matchLabels -}}
  {{- if ne (get $labels $key | toString) $value -}}{{- $selected = false -}}{{- end -}}
{{- end -}}
{{- if $selected -}}
  {{- fail "engines.matchLabels selects the picker's own pods, which would be picked as engines: choose a label that podLabels and commonLabels don't give them" -}}
{{- end -}}
{{- include "warmpath.checks.flags" . -}}
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

{{/* Flags that other objects of the chart depend on are values. */}}
{{- define "warmpath.checks.flags" -}}
{{- $flags := .Values.flags -}}
{{- $own := dict
  "grpc-port" (list 9002 "it is fixed")
  "grpc-health-port" (list 9003 "it is fixed")
  "metrics-port" (list 9090 "it is fixed")
  "pool-namespace" (list .Release.Namespace "install into the pool's namespace")
  "ha-enable-leader-election" (list (eq (include "warmpath.leads" .) "true") "set leaderElection.enabled")
  "metrics-endpoint-auth" (list .Values.metricsAuth.enabled "set metricsAuth.enabled")
  "drain-timeout" (list (printf "%ds" (int .Values.shutdown.drainSeconds)) "set shutdown.drainSeconds") -}}
{{- if include "warmpath.standalone" . -}}
  {{- $_ := set $own "secure-serving" (list false "Envoy speaks without TLS to the picker beside it") -}}
{{- else if eq .Values.provider.name "istio" -}}
  {{- $_ := set $own "secure-serving" (list .Values.tls.enabled "set tls.enabled") -}}
{{- end -}}
{{- range $flag, $rule := $own -}}
  {{- $value := get (default dict $flags) $flag -}}
  {{- if and (hasKey (default dict $flags) $flag) (not (kindIs "invalid" $value)) (ne (include "warmpath.text" $value) (include "warmpath.text" (first $rule))) -}}
    {{- fail (printf "flags.%s: the rest of the chart has it as %s; %s" $flag (include "warmpath.text" (first $rule)) (last $rule)) -}}
  {{- end -}}
{{- end -}}
{{- end -}}
