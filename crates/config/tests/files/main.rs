//! Whole files in, what is understood of them out, as text.

mod llm_d;
mod understood;

use config::Config;
use understood::understood;

#[track_caller]
fn check(yaml: &str, expected: &str) {
    assert_eq!(understood(yaml), expected.trim_end(), "\n{yaml}");
}

/// `body` after the two lines that every file begins with.
#[track_caller]
fn check_body(body: &str, expected: &str) {
    check(&format!("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n{body}"), expected);
}

const DEFAULT: &str = "policy prefix*3 waiting*2 kv_usage*2";

#[test]
fn llm_ds_default_file_gives_its_weights() {
    // The defaults that llm-d-router's charts install (Apache-2.0).
    check(
        "\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: metrics-data-source
- type: core-metrics-extractor
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: queue-scorer
    weight: 2
  - pluginRef: kv-cache-utilization-scorer
    weight: 2
  - pluginRef: prefix-cache-scorer
    weight: 3
dataLayer:
  sources:
  - pluginRef: metrics-data-source
    extractors:
    - pluginRef: core-metrics-extractor
",
        "policy waiting*2 kv_usage*2 prefix*3",
    );
}

#[test]
fn the_old_name_of_the_schema_is_taken_with_a_warning() {
    check(
        "apiVersion: inference.networking.x-k8s.io/v1alpha1\nkind: EndpointPickerConfig\n",
        &format!("{DEFAULT}\nwarning line 1: apiVersion: this name is deprecated: write llm-d.ai/v1alpha1"),
    );
}

#[test]
fn the_old_parameters_of_the_prefix_scorer_are_taken() {
    // The form of the gateway-api-inference-extension's guides before the producer was split off (Apache-2.0).
    check_body(
        "\
plugins:
- type: prefix-cache-scorer
  parameters:
    hashBlockSize: 64
    maxPrefixBlocksToMatch: 256
    lruCapacityPerServer: 1000
",
        "\
policy prefix*1
blocks 16 tokens, 1000 blocks
warning line 6: plugins[0].parameters.hashBlockSize: no effect: blocks are counted in tokens, blockSizeTokens
warning line 7: plugins[0].parameters.maxPrefixBlocksToMatch: no effect: whole prompts are matched",
    );
}

#[test]
fn without_scorers_the_default_profile_counts() {
    assert_eq!(Config::read("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig"), Ok(Config::default()));
    check_body("plugins:\nschedulingProfiles:\n", DEFAULT);
    check_body(
        "plugins:\n- type: max-score-picker\n  parameters: {maxNumOfEndpoints: 3}\n",
        &format!("{DEFAULT}\nendpoints 3"),
    );
    check_body(
        "plugins:\n- type: max-score-picker\nschedulingProfiles:\n- name: default\n  plugins:\n  - pluginRef: max-score-picker\n",
        &format!(
            "{DEFAULT}\nwarning line 6: schedulingProfiles[0]: the profile has no scorer; the default ones are taken \
             (prefix 3, queue 2, KV 2)"
        ),
    );
}

#[test]
fn without_a_profile_every_declared_scorer_counts_once() {
    check_body("plugins:\n- type: queue-scorer\n- type: active-request-scorer\n", "policy waiting*1 in_flight*1");
}

#[test]
fn names_refer_to_plugins_and_weights_default_to_one() {
    check_body(
        "\
plugins:
- {name: q, type: queue-scorer}
- {name: q2, type: queue-scorer}
- {name: r, type: running-requests-size-scorer}
- {name: pick, type: max-score-picker, parameters: {maxNumOfEndpoints: 2}}
- type: single-profile-handler
schedulingProfiles:
- name: any
  plugins:
  - {pluginRef: q, weight: 0.5}
  - {pluginRef: q2, weight: 2}
  - {pluginRef: r}
  - {pluginRef: pick}
",
        "policy waiting*2.5 running*1\nendpoints 2",
    );
}

#[test]
fn what_is_ours_stands_under_one_key() {
    check_body(
        "\
warmpath:
  models:
  - name: Qwen/Qwen3-8B
    aliases: [qwen]
    path: /models/qwen3
    revision: abc
    adapters: [sql, math]
  scorers:
  - {type: spare, weight: 0.5}
  - {type: in_flight}
  block_size_tokens: 32
  default_capacity_blocks: 1000
  stale_after: 3s
  scrape: {interval: 100ms, idle_interval: 10s, timeout: 1s500ms}
  tenant_header: X-Tenant
  tell_decision_if: X-Staff
  load_only: true
  holdout: {share: 0.02, baseline: load}
  shadow: true
  trust: [objective, model_rewrite]
  trust_request_chat_template: true
  max_body_bytes: 1000000
",
        r#"
policy prefix*3 waiting*2 kv_usage*2 spare*0.5 in_flight*1
stale after 13s
model Qwen/Qwen3-8B ["qwen"] /models/qwen3 "abc" ["sql", "math"]
scrape Http None None every 100ms/10s within 1.5s
blocks 32 tokens, 1000 blocks
tenant x-tenant
tell x-staff
load only
holdout 0.02 Load
shadow true
trust Trust { objective: true, fairness_id: false, session: false, model_rewrite: true }
templates of requests
body 1000000 bytes"#
            .trim_start(),
    );
}

#[test]
fn data_sources_and_engines_are_taken_from_llm_ds_keys() {
    check_body(
        r#"plugins:
- type: metrics-data-source
  parameters:
    scheme: https
    path: /m
    port: 9400
    insecureSkipVerify: false
    caCertPath: /ca.pem
    clientCertPath: /c.pem
    clientKeyPath: /k.pem
    interval: 1s
- type: core-metrics-extractor
  parameters:
    defaultEngine: mine
    engineLabelKey: engine
    engineConfigs:
    - name: mine
      queuedRequestsSpec: waiting_requests{kind="llm"}
      runningRequestsSpec: ""
      kvUsageSpec: kv
      cacheInfoSpec: cache
      cacheBlockSizeLabelName: tokens
      loraGPUSlotsSpec: slots
- type: approx-prefix-cache-producer
  parameters: {blockSizeTokens: 64, lruCapacityPerServer: 5, autoTune: false, maxPrefixTokensToMatch: 1}
- type: file-discovery
  parameters: {path: /endpoints.yaml, watchFile: true}
dataLayer:
  discovery:
    pluginRef: file-discovery
"#,
        r#"
policy prefix*3 waiting*2 kv_usage*2
discovery /endpoints.yaml watch true
scrape Https Some("/m") Some(9400) every 1s/5s within 1s
tls skip false ca Some("/ca.pem") client true
engines mine by ["engine"]
engine mine waiting_requests/kind=llm - kv - cache - - tokens num_gpu_blocks
blocks 64 tokens, 5 blocks
warning line 25: plugins[1].parameters.engineConfigs[0].loraGPUSlotsSpec: no effect: it isn't read
warning line 27: plugins[2].parameters.autoTune: no effect: an engine's own block size and capacity always go before these
warning line 27: plugins[2].parameters.maxPrefixTokensToMatch: no effect: whole prompts are matched"#
            .trim_start(),
    );
}

#[test]
fn declared_but_unused_discovery_discovers_nothing() {
    check_body("plugins:\n- type: file-discovery\n  parameters: {path: /e}\n", DEFAULT);
}

#[test]
fn what_has_no_effect_is_said() {
    check_body(
        "\
featureGates: [flowControl, haPopulateNonLeaderDatastore=false, flowControl=false]
flowControl: {maxRequests: 5}
plugins:
- type: prefix-cache-scorer
  parameters: {matchLengthWeight: 0.5}
- type: active-request-scorer
  parameters:
    idleThreshold: 2
    maxBusyScore: 1.0
",
        "\
policy prefix*1 in_flight*1
warning line 3: featureGates[0]: no effect: requests are never queued; those of negative priority are answered with 429 while \
         every endpoint is saturated
warning line 3: featureGates[1]: no effect here
warning line 4: flowControl.maxRequests: no effect: requests are never queued; those of negative priority are answered with 429 while \
         every endpoint is saturated
warning line 7: plugins[0].parameters.matchLengthWeight: no effect: the score is the share of the prompt's blocks that \
         an endpoint holds
warning line 10: plugins[1].parameters.idleThreshold: no effect: the fewest requests under way score 1, the most 0",
    );
}

#[test]
fn from_when_on_endpoints_are_saturated_is_for_the_detector_to_say() {
    let near = "near: when an endpoint is saturated; objectives of negative priority are answered with 429 while every endpoint \
                is, and not from the mean of all on, and one whose metrics are too old doesn't count as saturated";
    let said =
        format!("{DEFAULT}\nsaturated from 7 waiting, 0.95 of the KV cache\nwarning line 4: plugins[0].type: {near}");
    let detector =
        "plugins:\n- type: utilization-detector\n  parameters: {queueDepthThreshold: 7, kvCacheUtilThreshold: 0.95}\n";
    check_body(detector, &said);
    check_body(&format!("{detector}saturationDetector: {{pluginRef: utilization-detector}}\n"), &said);
    let named = detector.replace("type:", "name: d\n  type:");
    check_body(
        &format!("{named}flowControl: {{saturationDetector: {{pluginRef: d}}}}\n"),
        &said.replace("line 4", "line 5"),
    );
    check_body("saturationDetector: {pluginRef: utilization-detector}\n", DEFAULT);
    check_body(
        "flowControl: {saturationDetector: {pluginRef: d}}\n",
        "line 3, column 47: flowControl.saturationDetector.pluginRef: no plugin named `d` is declared under `plugins`.",
    );
    check_body(
        "plugins:\n- type: utilization-detector\n  parameters: {headroom: 0.2, metricsStalenessThreshold: 1s}\n",
        &format!(
            "{DEFAULT}\nwarning line 4: plugins[0].type: {near}\nwarning line 5: plugins[0].parameters.headroom: no effect: it is \
             about choosing an endpoint, and saturated ones are told apart by their scores\nwarning line 5: \
             plugins[0].parameters.metricsStalenessThreshold: no effect: `warmpath.stale_after` says how long a reading is \
             believed"
        ),
    );
    let of = |parameters: &str| format!("plugins:\n- type: utilization-detector\n  parameters: {{{parameters}}}\n");
    check_body(
        &of("queueDepthThreshold: 0"),
        "line 5, column 37: plugins[0].parameters.queueDepthThreshold: it must be at least 1.",
    );
    check_body(
        &of("kvCacheUtilThreshold: 1.5"),
        "line 5, column 38: plugins[0].parameters.kvCacheUtilThreshold: it is a share: more than 0, and at most 1.",
    );
}

#[test]
fn filters_of_a_profile_leave_out_endpoints_by_their_labels() {
    let plugins = r#"plugins:
- {name: a, type: label-selector-filter, parameters: {matchLabels: {app: vllm}, matchExpressions: [
    {key: zone, operator: In, values: [a, b]}, {key: zone, operator: NotIn, values: [c]},
    {key: gpu, operator: Exists}, {key: old, operator: DoesNotExist}]}}
- {name: b, type: by-label, parameters: {label: tier, validValues: [x], allowsNoLabel: true}}
- {name: c, type: by-label, parameters: {label: unused, validValues: [x]}}
"#;
    let said = "only app is vllm\nonly zone is a or b\nonly zone isn't c, or missing\nonly a label gpu\nonly no label old\n\
                only tier is x, or missing";
    let profile = "schedulingProfiles:\n- name: default\n  plugins: [{pluginRef: a}, {pluginRef: b}]\n";
    check_body(
        &format!("{plugins}{profile}"),
        &format!(
            "{DEFAULT}\n{said}\nwarning line 10: schedulingProfiles[0]: the profile has no scorer; the default ones are taken \
             (prefix 3, queue 2, KV 2)"
        ),
    );
    check_body(plugins, &format!("{DEFAULT}\n{said}\nonly unused is x"));
    check_body(
        "plugins:\n- type: label-selector-filter\n  parameters: {matchExpressions: [{key: a, operator: In}]}\n",
        "line unknown: plugins[0].parameters.matchExpressions[0].values: it needs values.",
    );
    check_body(
        "plugins:\n- type: by-label\n  parameters: {label: a}\n",
        "line 5, column 15: plugins[0].parameters: it needs a `label`, and `validValues` or `allowsNoLabel`.",
    );
}

#[test]
fn prompts_are_left_unread_where_nothing_but_the_passthrough_parser_is_wanted() {
    let handler = |parsers: &str| {
        format!(
            "plugins:\n- type: passthrough-parser\n- type: openai-parser\nrequestHandler: {{parsers: [{parsers}]}}\n"
        )
    };
    let parsed = "warning line 5: plugins[1].type: no effect: every API that is known is parsed without being asked";
    let unread = "prompts are left unread: passthrough-parser is the only parser";
    check_body(
        &handler("{pluginRef: passthrough-parser}"),
        &format!("{DEFAULT}\nload only\n{parsed}\nwarning line 6: requestHandler.parsers[0]: {unread}"),
    );
    check_body(
        &handler("{pluginRef: openai-parser}, {pluginRef: passthrough-parser}"),
        &format!("{DEFAULT}\n{parsed}"),
    );
    check_body(
        "plugins:\n- type: passthrough-parser\nparser: {pluginRef: passthrough-parser}\nwarmpath: {load_only: false}\n",
        &format!("{DEFAULT}\nwarning line 5: parser: {unread}"),
    );
}

#[test]
fn a_limit_that_a_healthy_engine_can_miss_is_raised() {
    check_body(
        "warmpath:\n  stale_after: 200ms\n",
        &format!("{DEFAULT}\nstale after 6s\nwarning line 4: warmpath.stale_after: 200ms is too short; raised to 1s"),
    );
    check_body(
        "warmpath:\n  scrape:\n    interval: 10ms\n    idle_interval: 20ms\n",
        &format!(
            "{DEFAULT}\nstale after 2.05s\nscrape Http None None every 50ms/50ms within 1s\n\
             warning line 5: warmpath.scrape.interval: 10ms is too short; raised to 50ms\n\
             warning line 6: warmpath.scrape.idle_interval: 20ms is too short; raised to 50ms"
        ),
    );
    check_body(
        "warmpath: {scrape: {interval: 8s}}\n",
        &format!("{DEFAULT}\nstale after 16s\nscrape Http None None every 8s/8s within 1s"),
    );
}

#[test]
fn unknown_keys_are_refused_with_their_line() {
    check_body(
        "plugin: []\n",
        "line 3, column 1: plugin: unknown key; known are apiVersion, kind, featureGates, plugins, schedulingProfiles, \
         dataLayer, flowControl, requestHandler, saturationDetector, parser, warmpath. Did you mean `plugins`?",
    );
    check_body(
        "plugins:\n- type: queue-scorer\n  params: {}\n",
        "line 5, column 3: plugins[0].params: unknown key; known are name, type, parameters.",
    );
    check_body(
        "plugins:\n- type: queue-scorer\n  parameters:\n    depth: 5\n",
        "line 6, column 5: plugins[0].parameters.depth: unknown key; none is taken here.",
    );
    check_body(
        "plugins:\n- type: max-score-picker\n- type: approx-prefix-cache-producer\n  parameters:\n    # tokens\n    \
         blocksizeTokens: 5\n",
        "line 8, column 5: plugins[1].parameters.blocksizeTokens: unknown key; known are blockSizeTokens, \
         lruCapacityPerServer, autoTune, maxPrefixTokensToMatch, maxPrefixBlocksToMatch, blockSize. Did you mean \
         `blockSizeTokens`?",
    );
    check_body(
        "warmpath:\n  scrape:\n    idleInterval: 5s\n",
        "line 5, column 5: warmpath.scrape.idleInterval: unknown key; known are interval, idle_interval, timeout. Did \
         you mean `idle_interval`?",
    );
}

#[test]
fn other_plugin_types_are_refused_by_name() {
    check_body(
        "plugins:\n- name: a\n  type: queue-scorrer\n",
        "line 5, column 9: plugins[0].type: unknown plugin type `queue-scorrer`. Did you mean `queue-scorer`?",
    );
    check_body(
        "plugins:\n- type: weighted-random-picker\n",
        "line 4, column 9: plugins[0].type: plugin type `weighted-random-picker` isn't supported: `max-score-picker` is the \
         nearest: equals are in random order.",
    );
    check_body(
        "plugins:\n- type: prefill-filter\n",
        "line 4, column 9: plugins[0].type: plugin type `prefill-filter` isn't supported: prefill/decode disaggregation isn't \
         done yet; `decode-filter` with `single-profile-handler`, for pods that do both, is the nearest.",
    );
    check_body(
        "plugins:\n- type: something\n",
        "line 4, column 9: plugins[0].type: unknown plugin type `something`; known are prefix-cache-scorer, queue-scorer, \
         kv-cache-utilization-scorer, running-requests-size-scorer, active-request-scorer, max-score-picker, \
         single-profile-handler, decode-filter, label-selector-filter, by-label-selector, by-label, metrics-data-source, \
         core-metrics-extractor, approx-prefix-cache-producer, file-discovery, utilization-detector, no-hit-lru-scorer, \
         lora-affinity-scorer, precise-prefix-cache-producer, precise-prefix-cache-scorer, vllmhttp-parser, \
         sglanghttp-parser, token-producer, tokenizer, inflight-load-producer, endpoint-notification-source, \
         openai-parser, anthropic-parser, passthrough-parser.",
    );
}

#[test]
fn references_must_be_declared_and_fit() {
    let profile = "schedulingProfiles:\n- name: default\n  plugins:\n";
    check_body(
        &format!("plugins:\n- type: queue-scorer\n{profile}  - pluginRef: queue-score\n"),
        "line 8, column 16: schedulingProfiles[0].plugins[0].pluginRef: no plugin named `queue-score` is declared under \
         `plugins`. Did you mean `queue-scorer`?",
    );
    check_body(
        &format!("plugins:\n- type: metrics-data-source\n{profile}  - pluginRef: metrics-data-source\n"),
        "line 8, column 16: schedulingProfiles[0].plugins[0].pluginRef: `metrics-data-source` is a metrics-data-source, \
         not a scorer, a filter or a picker.",
    );
    check_body(
        &format!("plugins:\n- type: queue-scorer\n{profile}  - pluginRef: queue-scorer\n  - pluginRef: queue-scorer\n"),
        "line 9, column 16: schedulingProfiles[0].plugins[1].pluginRef: `queue-scorer` is in this profile already.",
    );
    check_body(
        &format!(
            "plugins:\n- {{name: a, type: max-score-picker}}\n- {{name: b, type: max-score-picker}}\n{profile}  - \
             pluginRef: a\n  - pluginRef: b\n"
        ),
        "line 10, column 16: schedulingProfiles[0].plugins[1].pluginRef: a profile has one picker.",
    );
    check_body(
        "dataLayer:\n  discovery:\n    pluginRef: file-discovery\n",
        "line 5, column 16: dataLayer.discovery.pluginRef: no plugin named `file-discovery` is declared under `plugins`.",
    );
    check_body(
        "plugins:\n- type: queue-scorer\ndataLayer:\n  sources:\n  - pluginRef: queue-scorer\n",
        "line 7, column 16: dataLayer.sources[0].pluginRef: `queue-scorer` is a queue-scorer, not a data source.",
    );
    check_body(
        "dataLayer: {crossReplicaSyncerPluginRef: x}\n",
        "line 3, column 42: dataLayer.crossReplicaSyncerPluginRef: pickers that know each other come later.",
    );
    check_body(
        "plugins:\n- type: prefix-cache-scorer\n  parameters: {prefixMatchInfoProducerName: p}\n",
        "line 5, column 45: plugins[0].parameters.prefixMatchInfoProducerName: no plugin named `p` is declared under \
         `plugins`.",
    );
}

#[test]
fn nothing_is_declared_twice() {
    check_body(
        "plugins:\n- type: queue-scorer\n- type: queue-scorer\n",
        "line 5, column 9: plugins[1].type: there is a plugin named `queue-scorer` already.",
    );
    check_body(
        "plugins:\n- {name: a, type: queue-scorer}\n- {name: a, type: prefix-cache-scorer}\n",
        "line 5, column 10: plugins[1].name: there is a plugin named `a` already.",
    );
    check_body(
        "plugins:\n- type: single-profile-handler\n- {name: b, type: single-profile-handler}\n",
        "line 5, column 19: plugins[1].type: only one single-profile-handler is taken.",
    );
    check_body(
        "schedulingProfiles:\n- name: decode\n  plugins: []\n- name: prefill\n  plugins: []\n",
        "line 6, column 3: schedulingProfiles[1]: there is one profile only: prefill/decode disaggregation isn't done \
         yet.",
    );
    check_body("kind: EndpointPickerConfig\n", "line 3, column 1: the key `kind` stands here twice.");
    check_body(
        "plugins:\n- type: queue-scorer\n  parameters:\n  type: queue-scorer\n",
        "line 6, column 3: plugins[0]: the key `type` stands here twice.",
    );
    check_body(
        "warmpath:\n  models:\n  - {name: a, path: /a, aliases: [b]}\n  - {name: c, path: /c, adapters: [d, b]}\n",
        "line 6, column 39: warmpath.models[1].adapters[1]: the name `b` is taken by an entry before it.",
    );
    check_body(
        "warmpath:\n  scorers:\n  - {type: waiting, weight: 1}\n",
        "line 5, column 12: warmpath.scorers[0].type: `waiting` has a weight already; change it there.",
    );
}

#[test]
fn wrong_values_are_refused_with_their_line() {
    let weighted = |weight: &str| {
        format!(
            "plugins:\n- type: queue-scorer\nschedulingProfiles:\n- name: d\n  plugins:\n  - pluginRef: queue-scorer\n    weight: {weight}\n"
        )
    };
    let at = "line 9, column 13: schedulingProfiles[0].plugins[0].weight:";
    check_body(&weighted("-1"), &format!("{at} a weight is a number from 0 to 1000000, not -1."));
    check_body(&weighted(".nan"), &format!("{at} a weight is a number from 0 to 1000000, not NaN."));
    check_body(&weighted(".inf"), &format!("{at} a weight is a number from 0 to 1000000, not inf."));
    check_body(&weighted("much"), &format!("{at} invalid type: string \"much\", expected a number."));
    check_body(
        "warmpath:\n  scrape:\n    interval: 200\n",
        "line 5, column 15: warmpath.scrape.interval: invalid type: integer `200`, expected a duration with its unit, as \
         200ms, 2s or 1m30s.",
    );
    check_body(
        "warmpath:\n  stale_after: 2 sec\n",
        "line 4, column 16: warmpath.stale_after: `2 sec` is no duration: write it with its unit, as 200ms, 2s or 1m30s.",
    );
    check_body(
        "warmpath:\n  scrape: {timeout: 0s}\n",
        "line 4, column 21: warmpath.scrape.timeout: it must be longer than nothing.",
    );
    check_body(
        "warmpath:\n  block_size_tokens: 0\n",
        "line 4, column 22: warmpath.block_size_tokens: it must be at least 1.",
    );
    check_body(
        "warmpath:\n  block_size_tokens: 70000\n",
        "line 4, column 22: warmpath.block_size_tokens: a block has at most 65536 tokens.",
    );
    check_body(
        "warmpath:\n  max_body_bytes: 0\n",
        "line 4, column 19: warmpath.max_body_bytes: it must be at least 1.",
    );
    check_body(
        "warmpath:\n  holdout: {share: 2}\n",
        "line 4, column 20: warmpath.holdout.share: a share is a number from 0 to 1, not 2.",
    );
    check_body(
        "warmpath:\n  tell_decision_if: \"\"\n",
        "line 4, column 21: warmpath.tell_decision_if: `` is no header name.",
    );
    check_body(
        "warmpath:\n  tenant_header: \"x tenant\"\n",
        "line 4, column 18: warmpath.tenant_header: `x tenant` is no header name.",
    );
    check_body(
        "warmpath:\n  scorers:\n  - type: queue\n",
        "line 5, column 11: warmpath.scorers[0].type: unknown scorer `queue`; known are prefix, waiting, kv_usage, \
         running, in_flight, spare.",
    );
    check_body("warmpath:\n  models:\n  - name: a\n", "line 5, column 5: warmpath.models[0]: missing field `path`.");
    check_body(
        "plugins:\n- type: max-score-picker\n  parameters: {maxNumOfEndpoints: 0}\n",
        "line 5, column 35: plugins[0].parameters.maxNumOfEndpoints: at least 1 endpoint must be named.",
    );
    check_body(
        "plugins:\n- type: metrics-data-source\n  parameters:\n    scheme: ftp\n",
        "line 6, column 13: plugins[0].parameters.scheme: `ftp` is neither http nor https.",
    );
    check_body(
        "plugins:\n- type: metrics-data-source\n  parameters:\n    path: metrics\n",
        "line 6, column 11: plugins[0].parameters.path: `metrics` doesn't begin with a `/`.",
    );
    check_body(
        "plugins:\n- type: core-metrics-extractor\n  parameters:\n    defaultEngine: vlm\n",
        "line 6, column 20: plugins[0].parameters.defaultEngine: there is no engine `vlm`; known are vllm, sglang, \
         trtllm-serve, triton-tensorrt-llm, triton. Did you mean `vllm`?",
    );
    check_body(
        "plugins:\n- type: core-metrics-extractor\n  parameters:\n    engineConfigs:\n    - name: x\n      kvUsageSpec: \"a{b\"\n",
        "line 8, column 20: plugins[0].parameters.engineConfigs[0].kvUsageSpec: not a metric: the `{` isn't closed by a \
         `}` at the end.",
    );
    check_body(
        "plugins:\n- type: file-discovery\n",
        "line unknown: plugins[0].parameters: file-discovery needs `parameters` with a `path`.",
    );
    check_body(
        "featureGates: [flowcontrol]\n",
        "line 3, column 16: featureGates[0]: unknown feature gate `flowcontrol`. Did you mean `flowControl`?",
    );
}

#[test]
fn what_is_no_such_file_is_refused() {
    check("# only a comment\n", "line unknown: the file is empty; it begins with `apiVersion: llm-d.ai/v1alpha1`.");
    check("kind: EndpointPickerConfig\n", "line 1, column 1: missing field `apiVersion`.");
    check(
        "apiVersion: v1\nkind: ConfigMap\n",
        "line 1, column 13: apiVersion: `v1` isn't known; write `llm-d.ai/v1alpha1`.",
    );
    check(
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfigs\n",
        "line 2, column 7: kind: `EndpointPickerConfigs` isn't it; write `EndpointPickerConfig`.",
    );
    check_body("plugins: {}\n", "line 3, column 10: plugins: invalid type: map, expected a sequence.");
    check_body(
        "plugins:\n- testing 1 2 3\n",
        "line 4, column 3: plugins[0]: invalid type: string \"testing 1 2 3\", expected struct Plugin.",
    );
    check_body("plugins: [\n", "line 4, column 1: did not find expected node content, while parsing a flow node.");
}

#[test]
fn json_is_read_too() {
    check(
        r#"{"apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig", "plugins": [{"type": "queue-scorer"}]}"#,
        "policy waiting*1",
    );
}

/// What is known at a place under `warmpath`, by what is said of something that isn't.
fn known(at: &str) -> Vec<String> {
    let text = format!("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nwarmpath: {at}\n");
    let error = Config::read(&text).expect_err("nobody knows it").to_string();
    let (_, names) = error.split_once("known are ").unwrap_or_else(|| panic!("{at}: {error}"));
    names.trim_end_matches('.').split(", ").map(str::to_owned).collect()
}

#[test]
fn each_key_of_ours_is_in_the_documentation() {
    let page = include_str!("../../../../docs/configuration.md");
    let mut keys: Vec<String> = Vec::new();
    for (place, at) in [
        ("warmpath.", "{unheard_of: 1}"),
        ("warmpath.models[].", "{models: [{unheard_of: 1}]}"),
        ("warmpath.scorers[].", "{scorers: [{unheard_of: 1}]}"),
        ("warmpath.scrape.", "{scrape: {unheard_of: 1}}"),
    ] {
        keys.extend(known(at).into_iter().map(|key| format!("{place}{key}")));
    }
    let rows = || page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name);
    for key in &keys {
        assert_eq!(rows().filter(|row| row == key).count(), 1, "rows of {key}");
    }
    let unheard_of: Vec<&str> =
        rows().filter(|row| row.starts_with("warmpath.") && !keys.iter().any(|key| key == row)).collect();
    assert_eq!(unheard_of, Vec::<&str>::new());
    for scorer in known("{scorers: [{type: unheard_of}]}") {
        assert!(rows().any(|row| row == scorer), "no row of the scorer {scorer}");
    }
    for word in known("{trust: [unheard_of]}") {
        assert!(
            page.lines().any(|line| line.starts_with("The words of") && line.contains(&format!("`{word}`"))),
            "{word}"
        );
    }
}

#[test]
fn the_documentations_example_says_all_keys_and_is_read() {
    let page = include_str!("../../../../docs/configuration.md");
    let (_, rest) = page.split_once("```yaml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let config = Config::read(example).expect("well formed");
    assert_eq!(config.warnings, []);
    let default = Config::default();
    assert_eq!((config.blocks, config.limits, config.trust), (default.blocks, default.limits, default.trust));
    assert_eq!((&config.scrape, config.policy.stale_after), (&default.scrape, default.policy.stale_after));
    for key in known("{unheard_of: 1}") {
        assert!(example.contains(&format!("  {key}:")), "{key}");
    }
}

/// What is known of a type's parameters, by what is said of one that isn't.
fn parameters(of: &str) -> Vec<String> {
    let text = format!(
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{{type: {of}, parameters: {{unheard_of: 1}}}}]\n"
    );
    let error = Config::read(&text).err().map(|error| error.to_string()).unwrap_or_default();
    let names = error.split_once("known are ").map_or("", |(_, names)| names).trim_end_matches('.');
    names.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn each_plugin_type_is_in_the_documentation_as_the_code_has_it() {
    let page = include_str!("../../../../docs/configuration.md");
    let (_, rest) = page.split_once("<!-- plugin types -->\n").expect("the table's begin");
    let (table, _) = rest.split_once("<!-- end -->").expect("its end");
    let mut expected = "| type | parameters | done | what |\n|---|---|---|---|\n".to_owned();
    for config::PluginType { name, done, what, .. } in config::PLUGIN_TYPES {
        let parameters: Vec<String> = parameters(name).iter().map(|name| format!("`{name}`")).collect();
        expected += &format!("| `{name}` | {} | {} | {what} |\n", parameters.join(", "), done.as_str());
    }
    assert!(table == expected, "docs/configuration.md should say:\n{expected}");
}
