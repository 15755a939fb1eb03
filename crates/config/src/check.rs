//! From what was typed to what it means: references, duplicates, bounds, defaults. Text in, [`Config`] or the first
//! [`Error`] out. No file is opened here.

mod plugins;

use std::time::Duration;

use pick::Weighted;

use crate::config::{Baseline, Blocks, Config, Holdout, Model, OVERDUE, Trust, Warning};
use crate::error::Error;
use crate::place::{Path, find};
use crate::plugin_types::Job;
use crate::raw::{self, ApiVersion, Raw};
use crate::twice;

/// The largest block, in tokens, that is believed.
const MAX_BLOCK_TOKENS: u32 = 65_536;
/// Engines are not asked more often than this.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

const NO_FLOW_CONTROL: &str = "no effect: requests are never queued; those of negative priority are answered with 429 while every endpoint is saturated";
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
    check.parsers(&raw)?;
    check.saturation(&raw)?;
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
                ("flowControl", true) => NO_FLOW_CONTROL,
                ("flowControl", false) => continue,
                _ => "no effect here",
            };
            self.warn(&Path::root("featureGates").index(at), message);
        }
        if let Some(key) = raw.flow_control.as_ref().and_then(raw::FlowControl::without_effect) {
            self.warn(&Path::root("flowControl").key(key), NO_FLOW_CONTROL);
        }
    }

    /// Which APIs are parsed isn't for the file to say; only that none is.
    fn parsers(&mut self, raw: &Raw) -> Result<(), Error> {
        let (handler, old) = (Path::root("requestHandler").key("parsers"), Path::root("parser"));
        let listed = raw.request_handler.iter().flat_map(|handler| handler.parsers.iter().flatten());
        let mut parsers: Vec<_> = listed.enumerate().map(|(at, parser)| (handler.index(at), parser)).collect();
        if parsers.is_empty() {
            parsers = raw.parser.iter().map(|parser| (old.clone(), parser)).collect();
        }
        let mut unread = !parsers.is_empty();
        for (path, parser) in &parsers {
            let path = path.key("pluginRef");
            let (_, job) = self.reference(raw, &parser.plugin_ref, &path, Job::is_parser, "a parser")?;
            unread &= job == Job::Passthrough;
        }
        if let Some((path, _)) = parsers.first().filter(|_| unread) {
            self.config.load_only = true;
            self.warn(path, "prompts are left unread: passthrough-parser is the only parser");
        }
        Ok(())
    }

    /// The detector that is referred to, else the one that is called by its type's name, as llm-d has it.
    fn saturation(&mut self, raw: &Raw) -> Result<(), Error> {
        const NAME: &str = "utilization-detector";
        let flow = raw.flow_control.as_ref().and_then(|flow| flow.saturation_detector.as_ref());
        let path = match flow {
            Some(_) => Path::root("flowControl").key("saturationDetector"),
            None => Path::root("saturationDetector"),
        };
        let typed = flow.or(raw.saturation_detector.as_ref());
        let name = typed.and_then(|detector| detector.plugin_ref.as_deref()).unwrap_or(NAME);
        if name == NAME && !raw.plugins.iter().flatten().any(|plugin| plugin.name() == NAME) {
            return Ok(());
        }
        let is_detector = |job| job == Job::UtilizationDetector;
        let (at, _) = self.reference(raw, name, &path.key("pluginRef"), is_detector, "a saturation detector")?;
        let parameters = Path::root("plugins").index(at).key("parameters");
        self.config.policy.saturation = self.utilization_detector(&parameters)?;
        Ok(())
    }

    // ---- the profile ----

    fn profile(&mut self, raw: &Raw) -> Result<(), Error> {
        let profiles = raw.scheduling_profiles.as_deref().unwrap_or_default();
        let path = Path::root("schedulingProfiles");
        let scorers = match profiles {
            [] => self.declared(raw)?,
            [profile] => self.referred(raw, profile, &path.index(0))?,
            [_, _, ..] => {
                let message = "there is one profile only: prefill/decode disaggregation isn't done yet.";
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

    /// Without a profile every declared scorer counts once, and every filter, as llm-d has it.
    fn declared(&mut self, raw: &Raw) -> Result<Vec<Weighted>, Error> {
        let mut scorers = Vec::new();
        for (at, plugin) in raw.plugins.iter().flatten().enumerate() {
            let parameters = Path::root("plugins").index(at).key("parameters");
            match plugin.kind.job {
                Job::MaxScorePicker => self.config.policy.endpoints = self.max_score_picker(&parameters)?,
                job if job.is_filter() => self.config.labelled.extend(self.labelled(job, &parameters)?),
                job => scorers.extend(job.scorer().map(|scorer| Weighted { scorer, weight: 1.0 })),
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
            let fits = |job: Job| job.scorer().is_some() || job.is_filter() || job.is_picker() || job == Job::Adapters;
            let wanted = "a scorer, a filter or a picker";
            let (declared, job) = self.reference(raw, &part.plugin_ref, &path, fits, wanted)?;
            let parameters = Path::root("plugins").index(declared).key("parameters");
            match job.scorer() {
                Some(scorer) => {
                    let weight = part.weight.map_or(1.0, |weight| weight.0);
                    match scorers.iter_mut().find(|weighted| weighted.scorer == scorer) {
                        Some(same) => same.weight += weight,
                        None => scorers.push(Weighted { scorer, weight }),
                    }
                }
                None if job.is_filter() => self.config.labelled.extend(self.labelled(job, &parameters)?),
                None if !job.is_picker() => {}
                None if picker.is_some() => return Err(self.error(&path, "a profile has one picker.")),
                None => picker = Some(parameters),
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
            let is_source = |job| matches!(job, Job::MetricsDataSource | Job::NotificationSource);
            self.reference(raw, &source.plugin_ref, &path.key("pluginRef"), is_source, "a data source")?;
            for (at, extractor) in source.extractors.iter().flatten().enumerate() {
                let path = path.key("extractors").index(at).key("pluginRef");
                let is_extractor = |job| matches!(job, Job::CoreMetricsExtractor | Job::PreciseProducer);
                self.reference(raw, &extractor.plugin_ref, &path, is_extractor, "an extractor")?;
            }
        }
        if let Some(discovery) = &layer.discovery {
            let path = path.key("discovery").key("pluginRef");
            let is_file = |job| job == Job::FileDiscovery;
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
        if let Some(header) = ours.tell_decision_if {
            self.config.tell_decision_if = Some(self.header(&header, &path.key("tell_decision_if"))?);
        }
        self.config.load_only = ours.load_only.unwrap_or(self.config.load_only);
        self.config.shadow = ours.shadow.unwrap_or_default();
        self.config.holdout = ours.holdout.map(|holdout| Holdout {
            share: holdout.share.0,
            baseline: match holdout.baseline {
                raw::Baseline::Random => Baseline::Random,
                raw::Baseline::Load => Baseline::Load,
            },
        });
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
