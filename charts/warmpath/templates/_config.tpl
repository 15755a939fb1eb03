{{/* The EndpointPickerConfig, as YAML. */}}
{{- define "warmpath.config" -}}
{{- if and .Values.config (kindIs "string" .Values.config) -}}
{{- .Values.config -}}
{{- else if .Values.config -}}
{{- toYaml .Values.config -}}
{{- else -}}
{{- include "warmpath.policy" . -}}
{{- end -}}
{{- end -}}

{{/* The same of the values, with the names of llm-d where it has them. */}}
{{- define "warmpath.policy" -}}
{{- $policy := .Values.policy -}}
{{- $engines := .Values.engines -}}
{{- $source := dict "path" $engines.metrics.path "scheme" (ternary "https" "http" $engines.tls.enabled) -}}
{{- with $engines.metrics.port -}}{{- $_ := set $source "port" (int .) -}}{{- end -}}
{{- if $engines.tls.enabled -}}
  {{- $_ := set $source "insecureSkipVerify" $engines.tls.insecureSkipVerify -}}
  {{- with include "warmpath.enginesCa" . -}}{{- $_ := set $source "caCertPath" . -}}{{- end -}}
  {{- if $engines.tls.clientCertificateSecret -}}
    {{- $_ := set $source "clientCertPath" "/etc/warmpath/engines-client/tls.crt" -}}
    {{- $_ := set $source "clientKeyPath" "/etc/warmpath/engines-client/tls.key" -}}
  {{- end -}}
{{- end -}}
{{- $plugins := list
  (dict "type" "prefix-cache-scorer")
  (dict "type" "queue-scorer")
  (dict "type" "kv-cache-utilization-scorer")
  (dict "type" "metrics-data-source" "parameters" $source)
  (dict "type" "core-metrics-extractor" "parameters" (dict "defaultEngine" $engines.type)) -}}
{{- $profile := dict "name" "default" "plugins" (list
  (dict "pluginRef" "prefix-cache-scorer" "weight" $policy.weights.prefix)
  (dict "pluginRef" "queue-scorer" "weight" $policy.weights.waiting)
  (dict "pluginRef" "kv-cache-utilization-scorer" "weight" $policy.weights.kvUsage)) -}}
{{- $layer := dict "sources" (list (dict "pluginRef" "metrics-data-source" "extractors" (list (dict "pluginRef" "core-metrics-extractor")))) -}}
{{- $ours := dict "load_only" $policy.loadOnly -}}
{{- $scorers := list -}}
{{- range $type, $weight := dict "running" $policy.weights.running "in_flight" $policy.weights.inFlight "spare" $policy.weights.spare -}}
  {{- if $weight -}}{{- $scorers = append $scorers (dict "type" $type "weight" $weight) -}}{{- end -}}
{{- end -}}
{{- with $scorers -}}{{- $_ := set $ours "scorers" . -}}{{- end -}}
{{- $models := list -}}
{{- range $at, $model := .Values.models -}}
  {{- $made := dict "name" $model.name "path" (printf "/models/%d" $at) -}}
  {{- range $key := list "aliases" "adapters" "revision" -}}
    {{- with get $model $key -}}{{- $_ := set $made $key . -}}{{- end -}}
  {{- end -}}
  {{- $models = append $models $made -}}
{{- end -}}
{{- with $models -}}{{- $_ := set $ours "models" . -}}{{- end -}}
{{- range $theirs, $key := dict "block_size_tokens" "blockSizeTokens" "default_capacity_blocks" "defaultCapacityBlocks" "tenant_header" "tenantHeader" "trust" "trust" "trust_request_chat_template" "trustRequestChatTemplate" "holdout" "holdout" "shadow" "shadow" "stale_after" "staleAfter" "max_body_bytes" "maxBodyBytes" -}}
  {{- $value := get $policy $key -}}
  {{- if not (kindIs "invalid" $value) -}}{{- $_ := set $ours $theirs $value -}}{{- end -}}
{{- end -}}
{{- $scrape := dict -}}
{{- range $theirs, $key := dict "interval" "interval" "idle_interval" "idleInterval" "timeout" "timeout" -}}
  {{- with get $policy.scrape $key -}}{{- $_ := set $scrape $theirs . -}}{{- end -}}
{{- end -}}
{{- with $scrape -}}{{- $_ := set $ours "scrape" . -}}{{- end -}}
{{- toYaml (dict
  "apiVersion" "llm-d.ai/v1alpha1"
  "kind" "EndpointPickerConfig"
  "plugins" $plugins
  "schedulingProfiles" (list $profile)
  "dataLayer" $layer
  "warmpath" $ours) -}}
{{- end -}}

{{/* What of the config a picker takes up at its start only: all but load_only, which is read again while it runs. */}}
{{- define "warmpath.configAtStart" -}}
{{- regexReplaceAll "(?m)^\\s*load_only:.*$" (include "warmpath.config" .) "" -}}
{{- end -}}

{{/* The file of the engines' CA in the containers, where there is one. */}}
{{- define "warmpath.enginesCa" -}}
{{- $tls := .Values.engines.tls -}}
{{- if and $tls.enabled (not $tls.insecureSkipVerify) (or $tls.ca.configMap $tls.ca.secret) -}}
{{- printf "/etc/warmpath/engines-ca/%s" $tls.ca.key -}}
{{- end -}}
{{- end -}}

{{/* Fixed endpoints, in the form of the picker's endpoints file. */}}
{{- define "warmpath.endpoints" -}}
endpoints:
{{- $namespace := .Release.Namespace }}
{{- range .Values.engines.endpoints }}
- name: {{ .name | quote }}
  namespace: {{ $namespace | quote }}
  address: {{ .address | quote }}
  port: {{ include "warmpath.text" .port | quote }}
{{- end }}
{{- end -}}

{{/* The picker's arguments, as a list in YAML: one word each, a flag with its value by `=`. */}}
{{- define "warmpath.args" -}}
{{- $flags := dict
  "config-file" "/etc/warmpath/config/config.yaml"
  "grpc-port" 9002
  "grpc-health-port" 9003
  "metrics-endpoint-auth" .Values.metricsAuth.enabled
  "metrics-port" 9090
  "drain-timeout" (printf "%ds" (int .Values.shutdown.drainSeconds))
  "log-decisions" .Values.logging.decisions
  "v" .Values.logging.level
  "zap-encoder" "json" -}}
{{- if include "warmpath.standalone" . -}}
  {{- $_ := set $flags "secure-serving" false -}}
  {{- if .Values.engines.endpoints -}}
    {{- $_ := set $flags "endpoints-file" "/etc/warmpath/config/endpoints.yaml" -}}
  {{- else -}}
    {{- $pairs := list -}}
    {{- range $key, $value := .Values.engines.matchLabels -}}
      {{- $pairs = append $pairs (printf "%s=%s" $key $value) -}}
    {{- end -}}
    {{- $_ := set $flags "endpoint-selector" (default (join "," $pairs) .Values.engines.selector) -}}
    {{- $ports := list -}}
    {{- range .Values.engines.targetPorts -}}{{- $ports = append $ports (int .) -}}{{- end -}}
    {{- $_ := set $flags "endpoint-target-ports" (join "," $ports) -}}
    {{- $_ := set $flags "pool-namespace" .Release.Namespace -}}
  {{- end -}}
{{- else -}}
  {{- $_ := set $flags "secure-serving" .Values.tls.enabled -}}
  {{- $_ := set $flags "pool-name" (include "warmpath.pool" .) -}}
  {{- $_ := set $flags "pool-namespace" .Release.Namespace -}}
  {{- if and .Values.tls.enabled .Values.tls.secretName -}}
    {{- $_ := set $flags "cert-path" "/etc/warmpath/tls" -}}
  {{- end -}}
{{- end -}}
{{- if include "warmpath.leads" . -}}{{- $_ := set $flags "ha-enable-leader-election" true -}}{{- end -}}
{{- range $name, $value := .Values.flags -}}{{- $_ := set $flags $name $value -}}{{- end -}}
{{- range $name, $value := $flags -}}
{{- if not (kindIs "invalid" $value) }}
- {{ printf "--%s=%s" $name (include "warmpath.text" $value) | quote }}
{{- end -}}
{{- end -}}
{{- range .Values.extraArgs }}
- {{ include "warmpath.text" . | quote }}
{{- end -}}
{{- end -}}
