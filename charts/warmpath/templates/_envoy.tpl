{{/* Mode standalone: Envoy's configuration and container. A client's request goes to ext_proc, the picker at 127.0.0.1, and from
     there to the address in the header that the picker sets. */}}

{{- define "warmpath.envoy" -}}
{{- $envoy := .Values.envoy -}}
{{- $connections := int $envoy.maxConnections -}}
{{- $requests := int $envoy.maxRequests -}}
{{- $address := printf "address: %q%s" $envoy.bindAddress (ternary ", ipv4_compat: true" "" (eq $envoy.bindAddress "::")) -}}
# Shown to this pod only; the listener `stats` lets out what Prometheus and the kubelet need.
admin: { address: { socket_address: { address: 127.0.0.1, port_value: 9901 } } }
overload_manager:
  resource_monitors:
  - name: envoy.resource_monitors.global_downstream_max_connections
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig
      max_active_downstream_connections: {{ $connections }}
static_resources:
  listeners:
  - name: clients
    address: { socket_address: { {{ $address }}, port_value: 8080 } }
    per_connection_buffer_limit_bytes: {{ int $envoy.bufferLimitBytes }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: clients
          codec_type: AUTO
          generate_request_id: true
          use_remote_address: true
          # Against clients that send their headers one by one, and no bound on the rest: an answer may take minutes.
          request_headers_timeout: 10s
          stream_idle_timeout: {{ $envoy.idleTimeout }}
          common_http_protocol_options: { idle_timeout: 3600s }
          http2_protocol_options: { max_concurrent_streams: 1000 }
          # Where a request goes only the picker says.
          early_header_mutation_extensions:
          - name: envoy.http.early_header_mutation.header_mutation
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation
              mutations:
              - remove: x-gateway-destination-endpoint
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              {{- if $envoy.failOpen }}
              - match: { prefix: "/", headers: [ { name: x-gateway-destination-endpoint, present_match: true } ] }
                route: { cluster: picked, timeout: {{ $envoy.requestTimeout }}, idle_timeout: {{ $envoy.idleTimeout }} }
              # Not picked for: the picker couldn't be asked.
              - match: { prefix: "/" }
                route:
                  cluster: engines
                  timeout: {{ $envoy.requestTimeout }}
                  idle_timeout: {{ $envoy.idleTimeout }}
                  retry_policy: { retry_on: "connect-failure,refused-stream", num_retries: 2 }
              {{- else }}
              - match: { prefix: "/" }
                route: { cluster: picked, timeout: {{ $envoy.requestTimeout }}, idle_timeout: {{ $envoy.idleTimeout }} }
              {{- end }}
          http_filters:
          - name: envoy.filters.http.ext_proc
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor
              grpc_service: { envoy_grpc: { cluster_name: picker } }
              failure_mode_allow: {{ $envoy.failOpen }}
              message_timeout: {{ $envoy.messageTimeout }}
              # Bodies go to the picker part by part and are kept nowhere twice. Full duplex wants trailers sent too.
              processing_mode:
                request_header_mode: SEND
                response_header_mode: SEND
                request_body_mode: FULL_DUPLEX_STREAMED
                response_body_mode: FULL_DUPLEX_STREAMED
                request_trailer_mode: SEND
                response_trailer_mode: SEND
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
  - name: stats
    ignore_global_conn_limit: true
    address: { socket_address: { {{ $address }}, port_value: 9902 } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: stats
          request_headers_timeout: 10s
          common_http_protocol_options: { idle_timeout: 60s }
          route_config:
            virtual_hosts:
            - name: stats
              domains: ["*"]
              routes:
              - { match: { path: /ready }, route: { cluster: admin } }
              - { match: { path: /stats/prometheus }, route: { cluster: admin } }
          http_filters:
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
  clusters:
  # Wherever the header says.
  - name: picked
    type: ORIGINAL_DST
    lb_policy: CLUSTER_PROVIDED
    connect_timeout: 2s
    per_connection_buffer_limit_bytes: {{ int $envoy.bufferLimitBytes }}
    original_dst_lb_config: { use_http_header: true, http_header_name: x-gateway-destination-endpoint }
    circuit_breakers: { thresholds: [ { max_connections: {{ $requests }}, max_pending_requests: {{ $requests }}, max_requests: {{ $requests }} } ] }
    {{- include "warmpath.envoy.upstream" . | nindent 4 }}
  {{- if $envoy.failOpen }}
  - name: engines
    type: STRICT_DNS
    lb_policy: LEAST_REQUEST
    connect_timeout: 2s
    per_connection_buffer_limit_bytes: {{ int $envoy.bufferLimitBytes }}
    circuit_breakers: { thresholds: [ { max_connections: {{ $requests }}, max_pending_requests: {{ $requests }}, max_requests: {{ $requests }} } ] }
    {{- include "warmpath.envoy.upstream" . | nindent 4 }}
    load_assignment:
      cluster_name: engines
      endpoints:
      - lb_endpoints:
        {{- if .Values.engines.endpoints }}
        {{- range .Values.engines.endpoints }}
        - { endpoint: { address: { socket_address: { address: {{ .address | quote }}, port_value: {{ int .port }} } } } }
        {{- end }}
        {{- else }}
        {{- $host := printf "%s-engines.%s.svc" (include "warmpath.fullname" .) .Release.Namespace }}
        {{- range .Values.engines.targetPorts }}
        - { endpoint: { address: { socket_address: { address: {{ $host }}, port_value: {{ int . }} } } } }
        {{- end }}
        {{- end }}
  {{- end }}
  # A stream for each request under way, until its answer ends: Envoy's own limit of 1024 would refuse the next.
  - name: picker
    type: STATIC
    connect_timeout: 1s
    circuit_breakers: { thresholds: [ { max_connections: {{ $requests }}, max_pending_requests: {{ $requests }}, max_requests: {{ $requests }} } ] }
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: { http2_protocol_options: {} }
    # Known to be gone it isn't asked: a stream that only fails once parts of a body were sent to it can't fail open any more.
    common_lb_config: { healthy_panic_threshold: { value: 0 } }
    health_checks:
    - grpc_health_check: { service_name: readiness }
      interval: 1s
      no_traffic_interval: 1s
      timeout: 1s
      unhealthy_threshold: 2
      healthy_threshold: 1
    load_assignment:
      cluster_name: picker
      endpoints:
      - lb_endpoints:
        - { endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 9002 } } } }
  - name: admin
    type: STATIC
    connect_timeout: 1s
    load_assignment:
      cluster_name: admin
      endpoints:
      - lb_endpoints:
        - { endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 9901 } } } }
{{- end -}}

{{/* How engines are called: HTTP/1.1 or h2c, plain or by TLS. */}}
{{- define "warmpath.envoy.upstream" -}}
{{- $tls := .Values.engines.tls -}}
typed_extension_protocol_options:
  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
    "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
    explicit_http_config: { {{ ternary "http2_protocol_options" "http_protocol_options" (eq .Values.engines.appProtocol "kubernetes.io/h2c") }}: {} }
{{- if $tls.enabled }}
transport_socket:
  name: envoy.transport_sockets.tls
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    common_tls_context:
      {{- if $tls.clientCertificateSecret }}
      tls_certificates:
      - certificate_chain: { filename: /etc/warmpath/engines-client/tls.crt }
        private_key: { filename: /etc/warmpath/engines-client/tls.key }
      {{- end }}
      validation_context:
        {{- if $tls.insecureSkipVerify }}
        trust_chain_verification: ACCEPT_UNTRUSTED
        {{- else }}
        trusted_ca: { filename: {{ default "/etc/ssl/certs/ca-certificates.crt" (include "warmpath.enginesCa" .) }} }
        {{- end }}
{{- end }}
{{- end -}}

{{- define "warmpath.envoy.container" -}}
{{- $root := .root -}}
{{- $sleep := .sleep -}}
{{- with .root.Values.envoy }}
- name: envoy
  image: {{ include "warmpath.image" (dict "image" .image "tag" "") | quote }}
  imagePullPolicy: {{ .image.pullPolicy }}
  command: [/usr/local/bin/envoy]
  args: [--config-path, /etc/envoy/envoy.yaml, --disable-hot-restart, --concurrency, {{ include "warmpath.text" .concurrency | quote }}, --log-level, {{ .logLevel | quote }}]
  ports:
  - name: http
    containerPort: 8080
  - name: envoy-stats
    containerPort: 9902
  readinessProbe:
    httpGet: {path: /ready, port: envoy-stats}
    periodSeconds: 2
    failureThreshold: 2
  livenessProbe:
    httpGet: {path: /ready, port: envoy-stats}
    initialDelaySeconds: 10
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 6
  {{- if gt (int $sleep) 0 }}
  lifecycle:
    # Envoy ends at once when it is told to: what is under way is served before that.
    preStop:
      sleep:
        seconds: {{ $sleep }}
  {{- end }}
  resources:
    {{- toYaml .resources | nindent 4 }}
  securityContext:
    {{- toYaml $root.Values.securityContext | nindent 4 }}
  volumeMounts:
  - name: envoy
    mountPath: /etc/envoy
    readOnly: true
  {{- with include "warmpath.engines.mounts" $root | trim }}
  {{- . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}
