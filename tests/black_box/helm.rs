//! The chart, rendered by a real Helm. In: values as YAML and the APIs that the cluster has; out: objects, read as strictly as
//! an API server reads them, or Helm's refusal.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize as _;
use serde_yaml::Value;

use super::program::{root, target};

/// What every release needs that says nothing else.
pub const ENGINES: &str = "engines: {matchLabels: {app: vllm}}\n";

/// A cluster with everything that the chart has pieces for.
pub const EVERYTHING: [&str; 5] = [
    "monitoring.coreos.com/v1",
    "networking.istio.io/v1",
    "gateway.networking.k8s.io/v1",
    "grafana.integreatly.org/v1beta1",
    "llm-d.ai/v1alpha2",
];

/// A rendered release.
pub struct Release {
    /// Its objects, in Helm's order.
    pub objects: Vec<Value>,
}

impl Release {
    /// Renders the chart as the release `warmpath` in the namespace `inference`; Helm's words where it refuses.
    pub fn try_render(values: &str, apis: &[&str]) -> Result<Self, String> {
        Self::try_render_in("warmpath", "inference", values, apis)
    }

    /// The same as a release of that name.
    pub fn try_render_as(release: &str, values: &str, apis: &[&str]) -> Result<Self, String> {
        Self::try_render_in(release, "inference", values, apis)
    }

    /// The same of values that are right.
    #[track_caller]
    pub fn render_as(release: &str, values: &str, apis: &[&str]) -> Self {
        Self::try_render_as(release, values, apis).unwrap_or_else(|refusal| panic!("{values}\n{refusal}"))
    }

    /// The same in another namespace, of values that are right.
    #[track_caller]
    pub fn render_in(namespace: &str, values: &str, apis: &[&str]) -> Self {
        Self::try_render_in("warmpath", namespace, values, apis).unwrap_or_else(|refusal| panic!("{values}\n{refusal}"))
    }

    fn try_render_in(release: &str, namespace: &str, values: &str, apis: &[&str]) -> Result<Self, String> {
        let mut arguments = vec!["template", release, "charts/warmpath", "--namespace", namespace];
        arguments.extend(apis.iter().flat_map(|api| ["--api-versions", api]));
        helm(&arguments, values).map(|text| Self::read(&text))
    }

    /// The same of values that are right.
    #[track_caller]
    pub fn render(values: &str, apis: &[&str]) -> Self {
        Self::try_render(values, apis).unwrap_or_else(|refusal| panic!("{values}\n{refusal}"))
    }

    /// Objects of a text of YAML: a key that stands twice, an object without a kind, or one that stands twice is an error.
    #[track_caller]
    pub fn read(text: &str) -> Self {
        let documents = serde_yaml::Deserializer::from_str(text);
        let documents =
            documents.map(|document| Value::deserialize(document).unwrap_or_else(|e| panic!("{e}\n{text}")));
        let objects: Vec<Value> = documents.filter(|document| !document.is_null()).collect();
        let kinds = text.lines().filter(|line| line.starts_with("kind: ")).count();
        assert_eq!(objects.len(), kinds, "an object that isn't one document\n{text}");
        let mut seen = BTreeSet::new();
        for object in &objects {
            assert!(object["apiVersion"].is_string(), "no apiVersion: {object:?}");
            assert!(seen.insert((kind(object), name(object))), "{} {} stands twice", kind(object), name(object));
        }
        Self { objects }
    }

    /// All objects of a kind.
    pub fn all<'a>(&'a self, of: &str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |object| kind(object) == of)
    }

    /// The only object of a kind.
    #[track_caller]
    pub fn the(&self, of: &str) -> &Value {
        let found: Vec<&Value> = self.all(of).collect();
        assert_eq!(found.len(), 1, "{of}s");
        found[0]
    }

    /// The object of that kind and name.
    #[track_caller]
    pub fn named(&self, of: &str, called: &str) -> &Value {
        self.all(of).find(|object| name(object) == called).unwrap_or_else(|| panic!("no {of} {called}"))
    }

    /// The kinds that there are.
    pub fn kinds(&self) -> BTreeSet<String> {
        self.objects.iter().map(kind).map(str::to_owned).collect()
    }

    /// The picker's pod.
    pub fn pod(&self) -> &Value {
        &self.the("Deployment")["spec"]["template"]
    }

    /// A container of it.
    #[track_caller]
    pub fn container(&self, called: &str) -> &Value {
        let containers = self.pod()["spec"]["containers"].as_sequence().expect("containers");
        containers.iter().find(|container| container["name"] == called).unwrap_or_else(|| panic!("no {called}"))
    }

    /// The picker's arguments.
    pub fn args(&self) -> Vec<String> {
        texts(&self.container("epp")["args"])
    }

    /// The same for a picker outside of a cluster: at these ports of ext_proc, health and metrics, its configuration in `folder`.
    pub fn args_at(&self, [grpc, health, metrics]: [u16; 3], folder: &Path) -> Vec<String> {
        let at = |arg: String| match arg.split_once('=') {
            Some(("--grpc-port", _)) => format!("--grpc-port={grpc}"),
            Some(("--grpc-health-port", _)) => format!("--grpc-health-port={health}"),
            Some(("--metrics-port", _)) => format!("--metrics-port={metrics}"),
            _ => arg.replace("/etc/warmpath/config", &folder.display().to_string()),
        };
        self.args().into_iter().map(at).collect()
    }

    /// A file of a ConfigMap of the release.
    pub fn file(&self, of: &str, file: &str) -> String {
        self.named("ConfigMap", of)["data"][file].as_str().expect("a file").to_owned()
    }
}

/// An object's kind.
#[track_caller]
pub fn kind(object: &Value) -> &str {
    object["kind"].as_str().expect("a kind")
}

/// An object's name.
#[track_caller]
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().expect("a name")
}

/// A list of texts.
#[track_caller]
pub fn texts(list: &Value) -> Vec<String> {
    let list = list.as_sequence().expect("a list");
    list.iter().map(|item| item.as_str().expect("a text").to_owned()).collect()
}

/// What Helm prints, run at the repository's root with these values; its words where it refuses.
pub fn helm(arguments: &[&str], values: &str) -> Result<String, String> {
    let home = target().join("tmp/helm-home");
    let mut command = Command::new(binary());
    // What a person has set up for Helm is of no account here.
    command.env("HELM_CONFIG_HOME", &home).env("HELM_CACHE_HOME", &home).env("HELM_DATA_HOME", &home);
    command.env_remove("KUBECONFIG").current_dir(root()).args(arguments).args(["--values", "-"]);
    let helm = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = helm.spawn().expect("helm can be run");
    child.stdin.take().expect("a pipe").write_all(values.as_bytes()).expect("helm reads its values");
    let output = child.wait_with_output().expect("helm ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// `$HELM_BIN`, or the one that `cargo xtask helm` fetched.
fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("HELM_BIN") {
        return named.into();
    }
    let fetched = target().join("tools/kubernetes/helm/helm");
    assert!(fetched.is_file(), "there is no Helm: `cargo xtask test` fetches one, or set HELM_BIN");
    fetched
}
