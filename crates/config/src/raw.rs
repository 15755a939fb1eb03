//! The file as typed. Wrong types and unknown keys end here; what the keys mean together is for the checks.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};

use crate::duration::Span;
use crate::error::unknown;
use crate::plugin_types::Type;
use crate::scalar;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Raw {
    pub(crate) api_version: ApiVersion,
    #[allow(dead_code, reason = "reading it is the check")]
    pub(crate) kind: Kind,
    pub(crate) feature_gates: Option<Vec<Gate>>,
    pub(crate) plugins: Option<Vec<Plugin>>,
    pub(crate) scheduling_profiles: Option<Vec<Profile>>,
    pub(crate) data_layer: Option<DataLayer>,
    pub(crate) flow_control: Option<FlowControl>,
    pub(crate) request_handler: Option<RequestHandler>,
    pub(crate) saturation_detector: Option<OptionalReference>,
    pub(crate) parser: Option<Reference>,
    pub(crate) warmpath: Option<Warmpath>,
}

/// Which name of the schema is used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ApiVersion {
    Current,
    Deprecated,
}

impl<'de> Deserialize<'de> for ApiVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::text(deserializer, |typed| match typed {
            "llm-d.ai/v1alpha1" => Ok(Self::Current),
            "inference.networking.x-k8s.io/v1alpha1" => Ok(Self::Deprecated),
            other => Err(format!("`{other}` isn't known; write `llm-d.ai/v1alpha1`.")),
        })
    }
}

/// What kind of file this is.
#[derive(Debug)]
pub(crate) struct Kind;

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::text(deserializer, |typed| match typed {
            "EndpointPickerConfig" => Ok(Self),
            other => Err(format!("`{other}` isn't it; write `EndpointPickerConfig`.")),
        })
    }
}

/// A feature gate: `name`, `name=true` or `name=false`.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) name: &'static str,
    pub(crate) on: bool,
}

impl<'de> Deserialize<'de> for Gate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const KNOWN: [&str; 4] = ["flowControl", "haPopulateNonLeaderDatastore", "dataLayer", "prepareDataPlugins"];
        scalar::text(deserializer, |text| {
            let (typed, on) = match text.split_once('=') {
                None => (text, true),
                Some((name, "true")) => (name, true),
                Some((name, "false")) => (name, false),
                Some((_, other)) => return Err(format!("`{other}` is neither true nor false.")),
            };
            let name = KNOWN.into_iter().find(|name| *name == typed);
            Ok(Self { name: name.ok_or_else(|| unknown("feature gate", typed, &KNOWN))?, on })
        })
    }
}

/// A declared plugin. Its parameters are read again once its type is known.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Plugin {
    pub(crate) name: Option<String>,
    #[serde(rename = "type")]
    pub(crate) kind: Type,
    #[allow(dead_code, reason = "read again by type")]
    pub(crate) parameters: Option<IgnoredAny>,
}

impl Plugin {
    /// What others refer to it by.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(self.kind.known.name)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Profile {
    #[allow(dead_code, reason = "there is one profile, whatever its name")]
    pub(crate) name: String,
    pub(crate) plugins: Option<Vec<ProfilePlugin>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ProfilePlugin {
    pub(crate) plugin_ref: String,
    pub(crate) weight: Option<Weight>,
}

/// What a scorer counts for: 0 to [`pick::Weighted::MAX`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weight(pub(crate) f64);

impl<'de> Deserialize<'de> for Weight {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::number(deserializer, |weight| {
            if (0.0..=pick::Weighted::MAX).contains(&weight) {
                return Ok(Self(weight));
            }
            Err(format!("a weight is a number from 0 to {}, not {weight}.", pick::Weighted::MAX))
        })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct DataLayer {
    pub(crate) inject_defaults: Option<bool>,
    pub(crate) sources: Option<Vec<Source>>,
    pub(crate) discovery: Option<Reference>,
    pub(crate) peer_discovery: Option<Reference>,
    pub(crate) cross_replica_syncer_plugin_ref: Option<String>,
    pub(crate) cross_replica_sync_interval: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Source {
    pub(crate) plugin_ref: String,
    pub(crate) extractors: Option<Vec<Reference>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Reference {
    pub(crate) plugin_ref: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct OptionalReference {
    pub(crate) plugin_ref: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct RequestHandler {
    pub(crate) parsers: Option<Vec<Reference>>,
}

/// All but the detector is without effect.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct FlowControl {
    pub(crate) saturation_detector: Option<OptionalReference>,
    max_bytes: Option<IgnoredAny>,
    max_requests: Option<IgnoredAny>,
    #[serde(rename = "defaultRequestTTL")]
    default_request_ttl: Option<IgnoredAny>,
    #[serde(rename = "noEndpointRequestTTL")]
    no_endpoint_request_ttl: Option<IgnoredAny>,
    default_priority_band: Option<IgnoredAny>,
    default_negative_priority_band: Option<IgnoredAny>,
    priority_bands: Option<IgnoredAny>,
    usage_limit_policy_plugin_ref: Option<IgnoredAny>,
    enable_eviction: Option<IgnoredAny>,
}

impl FlowControl {
    /// The first key that is without effect.
    pub(crate) fn without_effect(&self) -> Option<&'static str> {
        let keys = [
            ("maxBytes", self.max_bytes),
            ("maxRequests", self.max_requests),
            ("defaultRequestTTL", self.default_request_ttl),
            ("noEndpointRequestTTL", self.no_endpoint_request_ttl),
            ("defaultPriorityBand", self.default_priority_band),
            ("defaultNegativePriorityBand", self.default_negative_priority_band),
            ("priorityBands", self.priority_bands),
            ("usageLimitPolicyPluginRef", self.usage_limit_policy_plugin_ref),
            ("enableEviction", self.enable_eviction),
        ];
        keys.into_iter().find(|(_, typed)| typed.is_some()).map(|(key, _)| key)
    }
}

/// What is ours alone.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Warmpath {
    pub(crate) models: Option<Vec<Model>>,
    pub(crate) scorers: Option<Vec<Scorer>>,
    pub(crate) block_size_tokens: Option<u32>,
    pub(crate) default_capacity_blocks: Option<u32>,
    pub(crate) stale_after: Option<Span>,
    pub(crate) scrape: Option<Scrape>,
    pub(crate) tenant_header: Option<String>,
    pub(crate) tell_decision_if: Option<String>,
    pub(crate) load_only: Option<bool>,
    pub(crate) holdout: Option<Holdout>,
    pub(crate) shadow: Option<bool>,
    pub(crate) trust: Option<Vec<Said>>,
    pub(crate) trust_request_chat_template: Option<bool>,
    pub(crate) max_body_bytes: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) aliases: Vec<String>,
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) revision: String,
    #[serde(default)]
    pub(crate) adapters: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scorer {
    #[serde(rename = "type")]
    pub(crate) kind: ScorerName,
    pub(crate) weight: Option<Weight>,
}

/// Requests that are picked for by something plain, to be compared with.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Holdout {
    pub(crate) share: Share,
    #[serde(default)]
    pub(crate) baseline: Baseline,
}

/// A number from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share(pub(crate) f64);

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::number(deserializer, |share| {
            let good = (0.0..=1.0).contains(&share);
            if good { Ok(Self(share)) } else { Err(format!("a share is a number from 0 to 1, not {share}.")) }
        })
    }
}

/// The plain way of picking.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Baseline {
    #[default]
    Random,
    Load,
}

/// Something that a client may say of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Objective,
    FairnessId,
    Session,
    ModelRewrite,
}

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const KNOWN: [&str; 4] = ["objective", "fairness_id", "session", "model_rewrite"];
        scalar::text(deserializer, |typed| match typed {
            "objective" => Ok(Self::Objective),
            "fairness_id" => Ok(Self::FairnessId),
            "session" => Ok(Self::Session),
            "model_rewrite" => Ok(Self::ModelRewrite),
            other => Err(unknown("thing to trust", other, &KNOWN)),
        })
    }
}

/// A scorer by our own name.
#[derive(Debug)]
pub(crate) struct ScorerName(pub(crate) pick::Scorer);

impl<'de> Deserialize<'de> for ScorerName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar::text(deserializer, |typed| {
            let known = pick::Scorer::ALL.map(pick::Scorer::name);
            pick::Scorer::named(typed).map(Self).ok_or_else(|| unknown("scorer", typed, &known))
        })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Scrape {
    pub(crate) interval: Option<Span>,
    pub(crate) idle_interval: Option<Span>,
    pub(crate) timeout: Option<Span>,
}
