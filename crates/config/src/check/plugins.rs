//! What is declared under `plugins`: names, types, and each type's parameters.

use std::num::NonZeroU32;
use std::path::PathBuf;

use pick::{Saturation, Scorer};
use serde::Deserialize;

use super::{Check, IN_TOKENS, MAX_BLOCK_TOKENS, MIN_INTERVAL};
use crate::config::{Blocks, ClientCertificate, Engine, Engines, FileDiscovery, Scrape};
use crate::error::Error;
use crate::labelled::{Labelled, Values};
use crate::place::{Path, read_at};
use crate::plugin::{self, Operator};
use crate::plugin_types::{Done, Job, Type};
use crate::raw::{self, Raw};

impl<'t> Check<'t> {
    pub(super) fn plugins(&mut self, raw: &Raw) -> Result<(), Error> {
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
            let Type { known, job } = plugin.kind;
            if !job.may_repeat() && plugins[..at].iter().any(|earlier| earlier.kind.job == job) {
                return Err(self.error(&path.key("type"), format!("only one {} is taken.", known.name)));
            }
            match known.done {
                Done::Near => self.warn(&path.key("type"), format!("near: {}", known.what)),
                Done::Anyway if job != Job::Passthrough => {
                    self.warn(&path.key("type"), format!("no effect: {}", known.what));
                }
                Done::Anyway | Done::Exact | Done::Not => {}
            }
            self.plugin(raw, job, &path.key("parameters"))?;
        }
        Ok(())
    }

    fn plugin(&mut self, raw: &Raw, job: Job, path: &Path) -> Result<(), Error> {
        match job {
            Job::Scorer(Scorer::Prefix) => self.prefix_cache_scorer(raw, path),
            Job::Scorer(Scorer::InFlight) => self.active_request_scorer(path),
            Job::Scorer(_) | Job::Adapters | Job::SingleProfileHandler | Job::RoleFilter => {
                self.parameters::<plugin::NoParameters>(path).map(drop)
            }
            Job::PreciseScorer | Job::PreciseProducer => self.precise(path),
            Job::NoHitLru => self.no_hit_lru(raw, path),
            Job::MaxScorePicker => self.max_score_picker(path).map(drop),
            Job::LabelSelectorFilter | Job::LabelFilter => self.labelled(job, path).map(drop),
            Job::UtilizationDetector => {
                self.unused_of_the_detector(path)?;
                self.utilization_detector(path).map(drop)
            }
            Job::MetricsDataSource => self.metrics_data_source(path),
            Job::CoreMetricsExtractor => self.core_metrics_extractor(path),
            Job::ApproxProducer => self.producer(self.parameters(path)?, path),
            Job::FileDiscovery => self.file_discovery(path).map(drop),
            Job::Parser | Job::Passthrough | Job::NotificationSource | Job::Anyway => Ok(()),
        }
    }

    fn parameters<P: Deserialize<'t> + Default>(&self, path: &Path) -> Result<P, Error> {
        Ok(read_at::<Option<P>>(self.text, path)?.flatten().unwrap_or_default())
    }

    fn prefix_cache_scorer(&mut self, raw: &Raw, path: &Path) -> Result<(), Error> {
        let p: plugin::PrefixCacheScorer = self.parameters(path)?;
        if let Some(name) = &p.prefix_match_info_producer_name {
            let path = path.key("prefixMatchInfoProducerName");
            self.prefixes(raw, name, &path)?;
        }
        let whole = "no effect: the score is the share of the prompt's blocks that an endpoint holds";
        self.warn_if(p.match_length_weight.filter(|w| *w != 0.0), &path.key("matchLengthWeight"), whole);
        self.warn_if(p.match_length_scale_tokens, &path.key("matchLengthScaleTokens"), whole);
        self.warn_if(p.hash_block_size, &path.key("hashBlockSize"), IN_TOKENS);
        self.producer(p.producer(), path)
    }

    fn prefixes(&self, raw: &Raw, name: &str, path: &Path) -> Result<(), Error> {
        let is_producer = |job| matches!(job, Job::ApproxProducer | Job::PreciseProducer);
        self.reference(raw, name, path, is_producer, "a producer of prefixes").map(drop)
    }

    fn precise(&mut self, path: &Path) -> Result<(), Error> {
        let p: plugin::PrecisePrefixCache = self.parameters(path)?;
        let typed = p.token_processor_config.and_then(|tokens| tokens.block_size_tokens);
        let path = path.key("tokenProcessorConfig").key("blockSizeTokens");
        self.config.blocks.size = self.block_size(typed, &path, self.config.blocks.size)?;
        Ok(())
    }

    fn no_hit_lru(&mut self, raw: &Raw, path: &Path) -> Result<(), Error> {
        let p: plugin::NoHitLru = self.parameters(path)?;
        match &p.prefix_match_info_producer_name {
            Some(name) => self.prefixes(raw, name, &path.key("prefixMatchInfoProducerName")),
            None => Ok(()),
        }
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

    /// What a declared filter requires of labels.
    pub(super) fn labelled(&self, job: Job, path: &Path) -> Result<Vec<Labelled>, Error> {
        match job {
            Job::RoleFilter => Ok(vec![Labelled::decodes()]),
            Job::LabelFilter => {
                let p: plugin::LabelFilter = self.parameters(path)?;
                if p.label.is_empty() || (p.valid_values.is_empty() && !p.allows_no_label) {
                    return Err(self.error(path, "it needs a `label`, and `validValues` or `allowsNoLabel`."));
                }
                Ok(vec![Labelled { key: p.label, may_be: Values::In(p.valid_values), or_missing: p.allows_no_label }])
            }
            _ => self.selector(path),
        }
    }

    fn selector(&self, path: &Path) -> Result<Vec<Labelled>, Error> {
        let p: plugin::LabelSelector = self.parameters(path)?;
        let is = |(key, value)| Labelled { key, may_be: Values::In(vec![value]), or_missing: false };
        let mut all: Vec<Labelled> = p.match_labels.into_iter().map(is).collect();
        for (at, plugin::Expression { key, operator, values }) in p.match_expressions.into_iter().enumerate() {
            let path = path.key("matchExpressions").index(at).key("values");
            let takes_values = matches!(operator, Operator::In | Operator::NotIn);
            if takes_values == values.is_empty() {
                let message = if takes_values { "it needs values." } else { "there are no values to this operator." };
                return Err(self.error(&path, message));
            }
            let (may_be, or_missing) = match operator {
                Operator::In => (Values::In(values), false),
                Operator::NotIn => (Values::NotIn(values), true),
                Operator::Exists => (Values::NotIn(values), false),
                Operator::DoesNotExist => (Values::In(values), true),
            };
            all.push(Labelled { key, may_be, or_missing });
        }
        Ok(all)
    }

    fn unused_of_the_detector(&mut self, path: &Path) -> Result<(), Error> {
        let p: plugin::UtilizationDetector = self.parameters(path)?;
        if p.headroom.is_some_and(|headroom| headroom.is_nan() || headroom < 0.0) {
            return Err(self.error(&path.key("headroom"), "it can't be less than 0."));
        }
        let filter = "no effect: it is about choosing an endpoint, and saturated ones are told apart by their scores";
        self.warn_if(p.headroom.filter(|headroom| *headroom != 0.0), &path.key("headroom"), filter);
        let stale = "no effect: `warmpath.stale_after` says how long a reading is believed";
        self.warn_if(p.metrics_staleness_threshold, &path.key("metricsStalenessThreshold"), stale);
        Ok(())
    }

    /// From when on an endpoint is saturated.
    pub(super) fn utilization_detector(&self, path: &Path) -> Result<Saturation, Error> {
        let p: plugin::UtilizationDetector = self.parameters(path)?;
        let default = Saturation::default();
        if p.queue_depth_threshold == Some(0) {
            return Err(self.error(&path.key("queueDepthThreshold"), "it must be at least 1."));
        }
        if p.kv_cache_util_threshold.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
            let path = path.key("kvCacheUtilThreshold");
            return Err(self.error(&path, "it is a share: more than 0, and at most 1."));
        }
        Ok(Saturation {
            waiting: p.queue_depth_threshold.map_or(default.waiting, |waiting| waiting as f64),
            kv_usage: p.kv_cache_util_threshold.unwrap_or(default.kv_usage),
        })
    }

    pub(super) fn max_score_picker(&self, path: &Path) -> Result<usize, Error> {
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

    pub(super) fn block_size(&self, typed: Option<u32>, path: &Path, default: NonZeroU32) -> Result<NonZeroU32, Error> {
        if typed.is_some_and(|tokens| tokens > MAX_BLOCK_TOKENS) {
            return Err(self.error(path, format!("a block has at most {MAX_BLOCK_TOKENS} tokens.")));
        }
        self.positive(typed, path, default)
    }

    pub(super) fn positive(&self, typed: Option<u32>, path: &Path, default: NonZeroU32) -> Result<NonZeroU32, Error> {
        match typed {
            None => Ok(default),
            Some(n) => NonZeroU32::new(n).ok_or_else(|| self.error(path, "it must be at least 1.")),
        }
    }

    pub(super) fn file_discovery(&self, path: &Path) -> Result<FileDiscovery, Error> {
        let Some(p) = read_at::<Option<plugin::FileDiscovery>>(self.text, path)?.flatten() else {
            return Err(self.error(path, "file-discovery needs `parameters` with a `path`."));
        };
        if p.path.is_empty() {
            return Err(self.error(&path.key("path"), "the path is empty."));
        }
        Ok(FileDiscovery { path: p.path.into(), watch: p.watch_file })
    }

    /// The declared plugin called `name`, of a kind that fits.
    pub(super) fn reference(
        &self,
        raw: &Raw,
        name: &str,
        path: &Path,
        fits: impl Fn(Job) -> bool,
        wanted: &str,
    ) -> Result<(usize, Job), Error> {
        let plugins = raw.plugins.as_deref().unwrap_or_default();
        match plugins.iter().enumerate().find(|(_, plugin)| plugin.name() == name) {
            Some((at, plugin)) if fits(plugin.kind.job) => Ok((at, plugin.kind.job)),
            Some((_, plugin)) => {
                Err(self.error(path, format!("`{name}` is a {}, not {wanted}.", plugin.kind.known.name)))
            }
            None => Err(self
                .error(path, format!("no plugin named `{name}` is declared under `plugins`."))
                .suggest(name, plugins.iter().map(raw::Plugin::name))),
        }
    }
}
