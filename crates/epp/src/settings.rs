//! Flags and config file, joined and checked: what serving takes. Flags go before the file.

use std::path::PathBuf;

use anyhow::Context as _;
use cluster::{Candidate, Scope, TargetPorts};
use config::Config;

use crate::discovery::Source;
use crate::election;
use crate::flags::{self, Flags};

/// What serving takes.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The config file's say, with the flags' over it.
    pub(crate) config: Config,
    /// Where the endpoints come from.
    pub(crate) source: Source,
    /// Whether this is one of several replicas of which one leads.
    pub(crate) candidate: Option<Candidate>,
    /// The config file, if there is one, and what stood in it, without the flags.
    pub(crate) file: Option<(PathBuf, Config)>,
}

impl Settings {
    /// Reads the config file, if any.
    pub(crate) fn read(flags: &Flags) -> anyhow::Result<Self> {
        let mut config = read_config(flags)?;
        let file = flags.config_file.clone().map(|path| (path, config.clone()));
        if let Some(age) = flags.metrics_staleness_threshold {
            config.policy.stale_after = age + config.scrape.idle_interval;
        }
        if let Some(interval) = flags.refresh_metrics_interval {
            config.scrape.interval = interval.max(std::time::Duration::from_millis(50));
            config.scrape.idle_interval = config.scrape.idle_interval.max(config.scrape.interval);
        }
        if let Some(bytes) = flags.max_body_bytes {
            config.limits.max_body_bytes = bytes;
        }
        for flag in &flags.model {
            let (mut names, path) = flags::model_flag(flag).map_err(anyhow::Error::msg)?;
            let aliases = names.split_off(1);
            let name = names.remove(0);
            config.models.retain(|model| model.name != name);
            config.models.push(config::Model { name, aliases, path, revision: String::new(), adapters: Vec::new() });
        }
        let source = source(flags, &config)?;
        let candidate = match &source {
            _ if !flags.ha_enable_leader_election => None,
            Source::Cluster(scope) => Some(election::candidate(scope)?),
            Source::File { .. } => {
                anyhow::bail!(
                    "--ha-enable-leader-election is for endpoints from Kubernetes: an endpoints file has no lease"
                )
            }
        };
        Ok(Self { config, source, candidate, file })
    }
}

/// The one source that is named.
fn source(flags: &Flags, config: &Config) -> anyhow::Result<Source> {
    let namespace = || {
        let said = flags.pool_namespace.clone().or_else(|| std::env::var("NAMESPACE").ok());
        said.filter(|said| !said.is_empty()).unwrap_or_else(|| "default".to_owned())
    };
    let file = match (&flags.endpoints_file, &config.discovery) {
        (Some(path), _) => Some(Source::File { path: path.clone(), watch: true }),
        (None, Some(discovery)) => Some(Source::File { path: discovery.path.clone(), watch: discovery.watch }),
        (None, None) => None,
    };
    match (file, &flags.pool_name, &flags.endpoint_selector) {
        (Some(file), None, None) => Ok(file),
        (None, Some(name), None) => Ok(Source::Cluster(Scope::Pool {
            name: name.clone(),
            namespace: namespace(),
            group: flags.pool_group.clone(),
        })),
        (None, None, Some(selector)) => {
            let ports =
                TargetPorts::new(flags.endpoint_target_ports.iter().copied()).context("--endpoint-target-ports")?;
            Ok(Source::Cluster(Scope::Pods { namespace: namespace(), selector: selector.clone(), ports }))
        }
        (None, None, None) => anyhow::bail!(
            "no endpoints are named: give --pool-name NAME, --endpoint-selector SELECTOR with --endpoint-target-ports, \
             --endpoints-file FILE, or dataLayer.discovery with the plugin file-discovery in the config file"
        ),
        _ => anyhow::bail!("endpoints can come from one source only: a pool, a selector, or a file"),
    }
}

fn read_config(flags: &Flags) -> anyhow::Result<Config> {
    let (text, name) = match (&flags.config_file, &flags.config_text) {
        (Some(path), _) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("config file {}", path.display()))?;
            (text, path.display().to_string())
        }
        (None, Some(text)) => (text.clone(), "--config-text".to_owned()),
        (None, None) => return Ok(Config::default()),
    };
    Config::read(&text).with_context(|| name)
}
