//! Flags and config file, joined and checked: what serving takes. Flags go before the file.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use cluster::{Candidate, Scope, TargetPorts};
use config::{Config, Scheme};
use envoy::Terms;

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
    /// What the pool is called in metrics.
    pub(crate) pool: String,
    /// What is insisted on of TLS.
    pub(crate) terms: Terms,
    /// Who sees the metrics.
    pub(crate) metrics: MetricsAccess,
    /// What was typed and can't be done as it says.
    pub(crate) warnings: Vec<String>,
}

/// Who sees the metrics, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetricsAccess {
    /// Whom the API server lets; otherwise everybody.
    pub(crate) by_review: bool,
    /// By TLS, with the certificate in that directory.
    pub(crate) certificate: Option<PathBuf>,
    /// Who shows a certificate that one in this file has signed.
    pub(crate) clients: Option<PathBuf>,
}

/// The pool's name in metrics, where nothing gives one.
const POOL: &str = "default";
/// Engines are not asked more often than this.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

impl Settings {
    /// Reads the config file, if any.
    pub(crate) fn read(flags: &Flags) -> anyhow::Result<Self> {
        let mut config = read_config(flags)?;
        let file = flags.config_file.clone().map(|path| (path, config.clone()));
        let (terms, mut warnings) =
            flags::terms(flags.tls_min_version.as_deref(), &flags.tls_cipher_suites).map_err(anyhow::Error::msg)?;
        reading(flags, &mut config, &mut warnings);
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
        let metrics = metrics_access(flags, &source)?;
        let pool_name = flags.pool_name.clone().or_else(|| match source {
            Source::Cluster(Scope::Pods { .. }) => {
                election::deployment(&std::env::var("POD_NAME").ok()?).map(str::to_owned)
            }
            Source::Cluster(Scope::Pool { .. }) | Source::File { .. } => None,
        });
        let pool = pool_name.unwrap_or_else(|| POOL.to_owned());
        Ok(Self { config, source, candidate, file, pool, terms, metrics, warnings })
    }
}

/// How engines are read.
fn reading(flags: &Flags, config: &mut Config, warnings: &mut Vec<String>) {
    let scrape = &mut config.scrape;
    if let Some(interval) = flags.refresh_metrics_interval {
        if interval < MIN_INTERVAL {
            warnings.push(format!("--refresh-metrics-interval={interval:?} is too short; raised to {MIN_INTERVAL:?}"));
        }
        scrape.interval = interval.max(MIN_INTERVAL);
        scrape.idle_interval = scrape.idle_interval.max(scrape.interval);
    }
    match flags.model_server_metrics_scheme.as_deref() {
        Some("https") => scrape.scheme = Scheme::Https,
        Some(_) => scrape.scheme = Scheme::Http,
        None => {}
    }
    if let Some(path) = &flags.model_server_metrics_path {
        let slash = if path.starts_with('/') { "" } else { "/" };
        scrape.path = Some(format!("{slash}{path}"));
    }
    if let Some(port) = flags.model_server_metrics_port {
        scrape.port = Some(port).filter(|port| *port > 0);
    }
    if let Some(skip) = flags.model_server_metrics_https_insecure_skip_verify {
        scrape.tls.skip_verify = skip;
    }
    if let Some(age) = flags.metrics_staleness_threshold {
        config.policy.stale_after = age + config.scrape.idle_interval;
    }
}

/// Refuses, as llm-d does, what would look guarded and not be.
fn metrics_access(flags: &Flags, source: &Source) -> anyhow::Result<MetricsAccess> {
    let is_cluster = matches!(source, Source::Cluster(_));
    let access = MetricsAccess {
        by_review: flags.metrics_endpoint_auth.unwrap_or(is_cluster),
        certificate: flags.metrics_cert_dir.clone(),
        clients: flags.metrics_client_ca_file.clone(),
    };
    anyhow::ensure!(
        access.clients.is_none() || access.certificate.is_some(),
        "--metrics-client-ca-file takes --metrics-cert-dir too"
    );
    anyhow::ensure!(
        access.certificate.is_none() || access.clients.is_some() || access.by_review,
        "--metrics-cert-dir alone hides the metrics from nobody: set --metrics-client-ca-file or --metrics-endpoint-auth"
    );
    Ok(access)
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
    // As with llm-d, the pool's name beside a discovery in the config is but a name.
    let only_named = flags.endpoints_file.is_none() && file.is_some();
    match (file, flags.pool_name.as_ref().filter(|_| !only_named), &flags.endpoint_selector) {
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
