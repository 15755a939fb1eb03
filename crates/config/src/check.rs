//! From what was typed to what it means: references, duplicates, bounds, defaults. Text in, [`Config`] or the first
//! [`Error`] out. No file is opened here.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use pick::{Scorer, Weighted};
use serde::Deserialize;

use crate::config::{
    Blocks, ClientCertificate, Config, Engine, Engines, FileDiscovery, Model, OVERDUE, Scrape, Trust, Warning,
};
use crate::error::Error;
use crate::place::{Path, find, read_at};
use crate::plugin::{self, Type};
use crate::raw::{self, ApiVersion, Raw};
use crate::twice;

/// The largest block, in tokens, that is believed.
const MAX_BLOCK_TOKENS: u32 = 65_536;
/// Engines are not asked more often than this.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

const IN_TOKENS: &str = "no effect: blocks are counted in tokens, blockSizeTokens";

/// Reads and checks `text`.
pub(crate) fn config(text: &str) -> Result<Config, Error> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Err(Error::whole("the file is empty; it begins with `apiVersion: llm-d.ai/v1alpha1`."));
    }
    twice::refuse(text)?;
    let raw: Raw = serde_yaml::from_str(text)?;
    let mut check = Check { text, config: Config::default() };
    check.without_effect(&raw);
    check.plugins(&raw)?;
    check.profile(&raw)?;
    check.data_layer(&raw)?;
    check.warmpath(raw.warmpath.unwrap_or_default())?;
    Ok(check.config)
}

/// The config in the making.
struct Check<'t> {
    text: &'t str,
    config: Config,
}

impl<'t> Check<'t> {
    fn error(&self, path: &Path, message: impl Into<String>) -> Error {
        Error::at(self.text, path, message)
    }

    fn warn(&mut self, path: &Path, message: impl Into<String>) {
        let line = find(self.text, path).map(|(line, _)| line);
        self.config.warnings.push(Warning { line, path: path.to_string(), message: message.into() });
    }

    /// Warns of a key that is accepted and does nothing, if it is there.
    fn warn_if<T>(&mut self, there: Option<T>, path: &Path, message: &str) {
        if there.is_some() {
            self.warn(path, message);
        }
    }

    fn without_effect(&mut self, raw: &Raw) {
        if raw.api_version == ApiVersion::Deprecated {
            self.warn(&Path::root("apiVersion"), "this name is deprecated: write llm-d.ai/v1alpha1");
        }
        for (at, gate) in raw.feature_gates.iter().flatten().enumerate() {
            let message = match (gate.name, gate.on) {
                ("flowControl", true) => "no effect: flow control comes later, requests are never held or shed",
                ("flowControl", false) => continue,
                _ => "no effect here",
            };
            self.warn(&Path::root("featureGates").index(at), message);
        }
        let flow = "no effect: flow control comes later, requests are never held or shed";
        self.warn_if(raw.flow_control, &Path::root("flowControl"), flow);
        self.warn_if(raw.saturation_detector, &Path::root("saturationDetector"), flow);
        let parsers = "no effect: every API that is known is parsed without being asked";
        self.warn_if(raw.request_handler, &Path::root("requestHandler"), parsers);
        self.warn_if(raw.parser, &Path::root("parser"), parsers);
    }

    // ---- plugins ----

    fn plugins(&mut self, raw: &Raw) -> Result<(), Error> {
        let plugins = raw.plugins.as_deref().unwrap_or_default();
        for (at, plugin) in plugins.iter().enumerate() {
            let path = Path::root("plugins").index(at);
            if plugins[..at].iter().any(|earlier| earlier.name() == plugin.name()) {
                let named = plugin.name.is_some();
                return Err(self.error(
                    &path.key(if named { "name" } else { "type" }),
                    format!("there is a plugin named `{}` already.", plugin.name()),
                ));
            }
            let many = matches!(plugin.kind, Type::Scorer(_) | Type::MaxScorePicker);
            if !many && plugins[..at].iter().any(|earlier| earlier.kind == plugin.kind) {
                return Err(self.error(&path.key("type"), format!("only one {} is taken.", plugin.kind.name())));
            }
            self.plugin(raw, plugin.kind, &path.key("parameters"))?;
        }
        Ok(())
    }

    fn plugin(&mut self, raw: &Raw, kind: Type, path: &Path) -> Result<(), Error> {
        match kind {
            Type::Scorer(Scorer::Prefix) => self.prefix_cache_scorer(raw, path),
            Type::Scorer(Scorer::InFlight) => self.active_request_scorer(path),
            Type::Scorer(_) | Type::SingleProfileHandler => self.parameters::<plugin::NoParameters>(path).map(drop),
            Type::MaxScorePicker => self.max_score_picker(path).map(drop),
            Type::MetricsDataSource => self.metrics_data_source(path),
            Type::CoreMetricsExtractor => self.core_metrics_extractor(path),
            Type::ApproxPrefixCacheProducer => self.producer(self.parameters(path)?, path),
            Type::FileDiscovery => self.file_discovery(path).map(drop),
        }
    }

    fn parameters<P: Deserialize<'t> + Default>(&self, path: &Path) -> Result<P, Error> {
        Ok(read_at::<Option<P>>(self.text, path)?.flatten().unwrap_or_default())
    }

    fn prefix_cache_scorer(&mut self, raw: &Raw, path: &Path) -> Result<(), Error> {
        let p: plugin::PrefixCacheScorer = self.parameters(path)?;
        if let Some(name) = &p.prefix_match_info_producer_name {
            let path = path.key("prefixMatchInfoProducerName");
            self.reference(raw, name, &path, |kind| kind == Type::ApproxPrefixCacheProducer, "a producer of prefixes")?;
        }
        let whole = "no effect: the score is the share of the prompt's blocks that an endpoint holds";
        self.warn_if(p.match_length_weight.filter(|w| *w != 0.0), &path.key("matchLengthWeight"), whole);
        self.warn_if(p.match_length_scale_tokens, &path.key("matchLengthScaleTokens"), whole);
        self.warn_if(p.hash_block_size, &path.key("hashBlockSize"), IN_TOKENS);
        self.producer(p.producer(), path)
    }

    fn active_request_scorer(&mut self, path: &Path) -> Result<(), Error> {
        let p: plugin::ActiveRequestScorer = self.parameters(path)?;
        let plain = "no effect: the fewest requests under way score 1, the most 0";
        self.warn_if(p.idle_threshold.filter(|n| *n != 0), &path.key("idleThreshold"), plain);
        self.warn_if(p.max_busy_score.filter(|s| *s != 1.0), &path.key("maxBusyScore"), plain);
        let always = "no effect: what is under way is always counted";
        self.warn_if(p.in_flight_load_producer_name, &path.key("inFlightLoadProducerName"), always);
        Ok(())
    }

    fn max_score_picker(&self, path: &Path) -> Result<usize, Error> {
        let p: plugin::MaxScorePicker = self.parameters(path)?;
        match p.max_num_of_endpoints {
            Some(0) => Err(self.error(&path.key("maxNumOfEndpoints"), "at least 1 endpoint must be named.")),
            n => Ok(n.unwrap_or(1)),
        }
    }

    fn metrics_data_source(&mut self, path: &Path) -> Result<(), Error> {
        let p: plugin::MetricsDataSource = self.parameters(path)?;
        if p.port == Some(0) {
            return Err(self.error(&path.key("port"), "a port is 1 to 65535."));
        }
        if let Some(page) = p.path.as_deref().filter(|page| !page.starts_with('/')) {
            return Err(self.error(&path.key("path"), format!("`{page}` doesn't begin with a `/`.")));
        }
        let client = match (p.client_cert_path, p.client_key_path) {
            (None, None) => None,
            (Some(certificate), Some(key)) => {
                Some(ClientCertificate { certificate: certificate.into(), key: key.into() })
            }
            (Some(_), None) => return Err(self.error(&path.key("clientCertPath"), "it needs `clientKeyPath` too.")),
            (None, Some(_)) => return Err(self.error(&path.key("clientKeyPath"), "it needs `clientCertPath` too.")),
        };
        let Scrape { tls, interval, .. } = &mut self.config.scrape;
        tls.skip_verify = p.insecure_skip_verify.unwrap_or(tls.skip_verify);
        tls.ca = p.ca_cert_path.map(PathBuf::from);
        tls.client = client;
        *interval = p.interval.map_or(*interval, |span| span.0);
        self.config.scrape.scheme = p.scheme.unwrap_or(self.config.scrape.scheme);
        self.config.scrape.path = p.path;
        self.config.scrape.port = p.port;
        if self.config.scrape.tls.skip_verify && self.config.scrape.tls.ca.is_some() {
            self.warn(&path.key("caCertPath"), "no effect while insecureSkipVerify isn't false");
        }
        self.at_least(p.interval.map(|_| path.key("interval")), MIN_INTERVAL, |config| &mut config.scrape.interval);
        Ok(())
    }

    fn core_metrics_extractor(&mut self, path: &Path) -> Result<(), Error> {
        let p: plugin::CoreMetricsExtractor = self.parameters(path)?;
        if let Some(key) = p.engine_label_key.filter(|key| !key.is_empty()) {
            self.config.engines.label_keys = vec![key];
        }
        for (at, engine) in p.engine_configs.into_iter().flatten().enumerate() {
            self.engine(engine, &path.key("engineConfigs").index(at))?;
        }
        if let Some(default) = p.default_engine.filter(|name| !name.is_empty()) {
            let custom = self.config.engines.custom.iter().map(|engine| engine.name.as_str());
            let known: Vec<&str> = Engines::BUILT_IN.into_iter().chain(custom).collect();
            if !known.contains(&default.as_str()) {
                let message = format!("there is no engine `{default}`; known are {}.", known.join(", "));
                return Err(self.error(&path.key("defaultEngine"), message).suggest(&default, known));
            }
            self.config.engines.default = default;
        }
        Ok(())
    }

    fn engine(&mut self, engine: plugin::EngineConfig, path: &Path) -> Result<(), Error> {
        if engine.name.is_empty() || engine.name == "default" {
            return Err(self.error(&path.key("name"), "an engine needs a name, and `default` is taken."));
        }
        if self.config.engines.custom.iter().any(|other| other.name == engine.name) {
            return Err(self.error(&path.key("name"), format!("engine `{}` is there already.", engine.name)));
        }
        let unread = "no effect: it isn't read";
        self.warn_if(engine.lora_loaded_spec, &path.key("loraLoadedSpec"), unread);
        self.warn_if(engine.lora_gpu_loaded_spec, &path.key("loraGPULoadedSpec"), unread);
        self.warn_if(engine.lora_gpu_slots_spec, &path.key("loraGPUSlotsSpec"), unread);
        self.warn_if(engine.custom_metrics, &path.key("customMetrics"), unread);
        let or = |label: String, default: &str| if label.is_empty() { default.to_string() } else { label };
        self.config.engines.custom.push(Engine {
            name: engine.name,
            waiting: engine.queued_requests_spec.0,
            running: engine.running_requests_spec.0,
            kv_usage: engine.kv_usage_spec.0,
            lora: engine.lora_spec.0,
            cache_info: engine.cache_info_spec.0,
            block_size_label: or(engine.cache_block_size_label_name, "block_size"),
            num_blocks_label: or(engine.cache_num_blocks_label_name, "num_gpu_blocks"),
            block_size: engine.cache_block_size_spec.0,
            num_blocks: engine.cache_num_blocks_spec.0,
        });
        Ok(())
    }

    fn producer(&mut self, p: plugin::ApproxPrefixCacheProducer, path: &Path) -> Result<(), Error> {
        let Blocks { size, capacity } = self.config.blocks;
        self.config.blocks.size = self.block_size(p.block_size_tokens, &path.key("blockSizeTokens"), size)?;
        self.config.blocks.capacity =
            self.positive(p.lru_capacity_per_server, &path.key("lruCapacityPerServer"), capacity)?;
        let tuned = "no effect: an engine's own block size and capacity always go before these";
        self.warn_if(p.auto_tune.filter(|on| !on), &path.key("autoTune"), tuned);
        let whole = "no effect: whole prompts are matched";
        self.warn_if(p.max_prefix_tokens_to_match, &path.key("maxPrefixTokensToMatch"), whole);
        self.warn_if(p.max_prefix_blocks_to_match, &path.key("maxPrefixBlocksToMatch"), whole);
        self.warn_if(p.block_size, &path.key("blockSize"), IN_TOKENS);
        Ok(())
    }

    fn block_size(&self, typed: Option<u32>, path: &Path, default: NonZeroU32) -> Result<NonZeroU32, Error> {
        if typed.is_some_and(|tokens| tokens > MAX_BLOCK_TOKENS) {
            return Err(self.error(path, format!("a block has at most {MAX_BLOCK_TOKENS} tokens.")));
        }
        self.positive(typed, path, default)
    }

    fn positive(&self, typed: Option<u32>, path: &Path, default: NonZeroU32) -> Result<NonZeroU32, Error> {
        match typed {
            None => Ok(default),
            Some(n) => NonZeroU32::new(n).ok_or_else(|| self.error(path, "it must be at least 1.")),
        }
    }

    fn file_discovery(&self, path: &Path) -> Result<FileDiscovery, Error> {
        let Some(p) = read_at::<Option<plugin::FileDiscovery>>(self.text, path)?.flatten() else {
            return Err(self.error(path, "file-discovery needs `parameters` with a `path`."));
        };
        if p.path.is_empty() {
            return Err(self.error(&path.key("path"), "the path is empty."));
        }
        Ok(FileDiscovery { path: p.path.into(), watch: p.watch_file })
    }

    /// The declared plugin called `name`, of a kind that fits.
    fn reference(
        &self,
        raw: &Raw,
        name: &str,
        path: &Path,
        fits: impl Fn(Type) -> bool,
        wanted: &str,
    ) -> Result<(usize, Type), Error> {
        let plugins = raw.plugins.as_deref().unwrap_or_default();
        match plugins.iter().enumerate().find(|(_, plugin)| plugin.name() == name) {
            Some((at, plugin)) if fits(plugin.kind) => Ok((at, plugin.kind)),
            Some((_, plugin)) => Err(self.error(path, format!("`{name}` is a {}, not {wanted}.", plugin.kind.name()))),
            None => Err(self
                .error(path, format!("no plugin named `{name}` is declared under `plugins`."))
                .suggest(name, plugins.iter().map(raw::Plugin::name))),
        }
    }

    // ---- the profile ----

    fn profile(&mut self, raw: &Raw) -> Result<(), Error> {
        let profiles = raw.scheduling_profiles.as_deref().unwrap_or_default();
        let path = Path::root("schedulingProfiles");
        let scorers = match profiles {
            [] => self.declared(raw)?,
            [profile] => self.referred(raw, profile, &path.index(0))?,
            [_, _, ..] => {
                let message = "there is one profile only; prefill and decode apart come later.";
                return Err(self.error(&path.index(1), message));
            }
        };
        if !scorers.is_empty() {
            self.config.policy.scorers = scorers;
        } else if !profiles.is_empty() {
            self.warn(
                &path.index(0),
                "the profile has no scorer; the default ones are taken (prefix 3, queue 2, KV 2)",
            );
        }
        Ok(())
    }

    /// Without a profile every declared scorer counts once, as llm-d has it.
    fn declared(&mut self, raw: &Raw) -> Result<Vec<Weighted>, Error> {
        let mut scorers = Vec::new();
        for (at, plugin) in raw.plugins.iter().flatten().enumerate() {
            match plugin.kind {
                Type::Scorer(scorer) => scorers.push(Weighted { scorer, weight: 1.0 }),
                Type::MaxScorePicker => {
                    let parameters = Path::root("plugins").index(at).key("parameters");
                    self.config.policy.endpoints = self.max_score_picker(&parameters)?;
                }
                _ => {}
            }
        }
        Ok(scorers)
    }

    fn referred(&mut self, raw: &Raw, profile: &raw::Profile, path: &Path) -> Result<Vec<Weighted>, Error> {
        let mut scorers: Vec<Weighted> = Vec::new();
        let mut picker = None;
        let parts = profile.plugins.as_deref().unwrap_or_default();
        for (at, part) in parts.iter().enumerate() {
            let path = path.key("plugins").index(at).key("pluginRef");
            if parts[..at].iter().any(|earlier| earlier.plugin_ref == part.plugin_ref) {
                return Err(self.error(&path, format!("`{}` is in this profile already.", part.plugin_ref)));
            }
            let fits = |kind| matches!(kind, Type::Scorer(_) | Type::MaxScorePicker);
            let (declared, kind) = self.reference(raw, &part.plugin_ref, &path, fits, "a scorer or a picker")?;
            match kind {
                Type::Scorer(scorer) => {
                    let weight = part.weight.map_or(1.0, |weight| weight.0);
                    match scorers.iter_mut().find(|weighted| weighted.scorer == scorer) {
                        Some(same) => same.weight += weight,
                        None => scorers.push(Weighted { scorer, weight }),
                    }
                }
                _ if picker.is_some() => return Err(self.error(&path, "a profile has one picker.")),
                _ => picker = Some(Path::root("plugins").index(declared).key("parameters")),
            }
        }
        if let Some(parameters) = picker {
            self.config.policy.endpoints = self.max_score_picker(&parameters)?;
        }
        Ok(scorers)
    }

    // ---- the data layer ----

    fn data_layer(&mut self, raw: &Raw) -> Result<(), Error> {
        let Some(layer) = &raw.data_layer else { return Ok(()) };
        let path = Path::root("dataLayer");
        for (at, source) in layer.sources.iter().flatten().enumerate() {
            let path = path.key("sources").index(at);
            let is_source = |kind| kind == Type::MetricsDataSource;
            self.reference(raw, &source.plugin_ref, &path.key("pluginRef"), is_source, "a data source")?;
            for (at, extractor) in source.extractors.iter().flatten().enumerate() {
                let path = path.key("extractors").index(at).key("pluginRef");
                let is_extractor = |kind| kind == Type::CoreMetricsExtractor;
                self.reference(raw, &extractor.plugin_ref, &path, is_extractor, "an extractor")?;
            }
        }
        if let Some(discovery) = &layer.discovery {
            let path = path.key("discovery").key("pluginRef");
            let is_file = |kind| kind == Type::FileDiscovery;
            let (at, _) = self.reference(raw, &discovery.plugin_ref, &path, is_file, "a discovery")?;
            self.config.discovery = Some(self.file_discovery(&Path::root("plugins").index(at).key("parameters"))?);
        }
        if layer.inject_defaults == Some(false) && layer.sources.as_ref().is_none_or(Vec::is_empty) {
            self.warn(&path.key("injectDefaults"), "no effect: engines are read all the same");
        }
        if layer.peer_discovery.is_some() {
            return Err(self.error(&path.key("peerDiscovery"), "pickers that know each other come later."));
        }
        if layer.cross_replica_syncer_plugin_ref.is_some() {
            let path = path.key("crossReplicaSyncerPluginRef");
            return Err(self.error(&path, "pickers that know each other come later."));
        }
        let alone = "no effect: pickers that know each other come later";
        self.warn_if(layer.cross_replica_sync_interval, &path.key("crossReplicaSyncInterval"), alone);
        Ok(())
    }

    // ---- warmpath ----

    fn warmpath(&mut self, ours: raw::Warmpath) -> Result<(), Error> {
        let path = Path::root("warmpath");
        self.models(ours.models.unwrap_or_default(), &path.key("models"))?;
        self.scorers(ours.scorers.unwrap_or_default(), &path.key("scorers"))?;
        let Blocks { size, capacity } = self.config.blocks;
        self.config.blocks = Blocks {
            size: self.block_size(ours.block_size_tokens, &path.key("block_size_tokens"), size)?,
            capacity: self.positive(ours.default_capacity_blocks, &path.key("default_capacity_blocks"), capacity)?,
        };
        if let Some(header) = ours.tenant_header {
            self.config.tenant_header = Some(self.header(&header, &path.key("tenant_header"))?);
        }
        self.config.load_only = ours.load_only.unwrap_or_default();
        self.config.trust_request_chat_template = ours.trust_request_chat_template.unwrap_or_default();
        if let Some(trusted) = ours.trust {
            let has = |said| trusted.contains(&said);
            self.config.trust = Trust {
                objective: has(raw::Said::Objective),
                fairness_id: has(raw::Said::FairnessId),
                session: has(raw::Said::Session),
                model_rewrite: has(raw::Said::ModelRewrite),
            };
        }
        if let Some(bytes) = ours.max_body_bytes {
            let limit = usize::try_from(bytes).ok().filter(|n| *n > 0);
            let path = path.key("max_body_bytes");
            self.config.limits.max_body_bytes = limit.ok_or_else(|| self.error(&path, "it must be at least 1."))?;
        }
        self.scrape(ours.scrape.unwrap_or_default(), &path.key("scrape"))?;
        self.stale_after(ours.stale_after.map(|span| span.0), &path.key("stale_after"));
        Ok(())
    }

    fn models(&mut self, models: Vec<raw::Model>, path: &Path) -> Result<(), Error> {
        let mut taken: Vec<String> = Vec::new();
        for (at, model) in models.into_iter().enumerate() {
            let path = path.index(at);
            let lists = [("aliases", &model.aliases), ("adapters", &model.adapters)];
            let places = lists
                .iter()
                .flat_map(|(key, names)| names.iter().enumerate().map(|(at, name)| (path.key(key).index(at), name)));
            for (place, name) in std::iter::once((path.key("name"), &model.name)).chain(places) {
                if name.is_empty() {
                    return Err(self.error(&place, "the name is empty."));
                }
                if taken.contains(name) {
                    return Err(self.error(&place, format!("the name `{name}` is taken by an entry before it.")));
                }
                taken.push(name.clone());
            }
            if model.path.is_empty() {
                return Err(self.error(&path.key("path"), "the path is empty."));
            }
            let raw::Model { name, aliases, path, revision, adapters } = model;
            self.config.models.push(Model { name, aliases, path: path.into(), revision, adapters });
        }
        Ok(())
    }

    fn scorers(&mut self, scorers: Vec<raw::Scorer>, path: &Path) -> Result<(), Error> {
        for (at, added) in scorers.into_iter().enumerate() {
            let scorer = added.kind.0;
            if self.config.policy.scorers.iter().any(|weighted| weighted.scorer == scorer) {
                let message = format!("`{}` has a weight already; change it there.", scorer.name());
                return Err(self.error(&path.index(at).key("type"), message));
            }
            let weight = added.weight.map_or(1.0, |weight| weight.0);
            self.config.policy.scorers.push(Weighted { scorer, weight });
        }
        Ok(())
    }

    fn header(&self, name: &str, path: &Path) -> Result<String, Error> {
        let good = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(good) {
            return Err(self.error(path, format!("`{name}` is no header name.")));
        }
        Ok(name.to_ascii_lowercase())
    }

    fn scrape(&mut self, scrape: raw::Scrape, path: &Path) -> Result<(), Error> {
        if let Some(span) = scrape.interval {
            self.config.scrape.interval = span.0;
            self.at_least(Some(path.key("interval")), MIN_INTERVAL, |config| &mut config.scrape.interval);
        }
        if let Some(span) = scrape.timeout {
            if span.0.is_zero() {
                return Err(self.error(&path.key("timeout"), "it must be longer than nothing."));
            }
            self.config.scrape.timeout = span.0;
        }
        if let Some(span) = scrape.idle_interval {
            self.config.scrape.idle_interval = span.0;
        }
        let interval = self.config.scrape.interval;
        let typed = scrape.idle_interval.map(|_| path.key("idle_interval"));
        self.at_least(typed, interval, |config| &mut config.scrape.idle_interval);
        Ok(())
    }

    /// How old a reading may be: what passes between two of an idle endpoint, and `stale_after` more. A limit that a
    /// healthy engine can miss, one shorter than a reading may take, is raised.
    fn stale_after(&mut self, typed: Option<Duration>, path: &Path) {
        self.config.policy.stale_after = typed.unwrap_or(OVERDUE);
        let least = self.config.scrape.timeout.max(self.config.scrape.interval);
        self.at_least(typed.map(|_| path.clone()), least, |config| &mut config.policy.stale_after);
        self.config.policy.stale_after += self.config.scrape.idle_interval;
    }

    /// Raises a duration to `least`; says so if it was typed at `path`.
    fn at_least(&mut self, path: Option<Path>, least: Duration, which: impl Fn(&mut Config) -> &mut Duration) {
        let value = which(&mut self.config);
        if *value >= least {
            return;
        }
        let message = format!("{:?} is too short; raised to {least:?}", *value);
        *value = least;
        if let Some(path) = path {
            self.warn(&path, message);
        }
    }
}
