//! What the chart renders, run: the picker with the rendered arguments and config behind a real Envoy with the rendered one,
//! and the scripts that bring models' files in. Only addresses and folders are others than in a pod.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use serde_yaml::Value;

use super::client::{Reply, ask, page};
use super::helm::Release;
use super::metrics::Page;
use super::program::{Program, folder, free_port, root, wait_until};
use super::stage::chat;
use super::{envoy, lab, promql};

/// A pod of mode standalone: its two containers on this machine.
struct Pod {
    clients: u16,
    stats: u16,
    picker: Program,
    _envoy: Program,
    _engines: Vec<lab::Engine>,
}

impl Pod {
    /// With two engines at fixed endpoints, and more values.
    fn start(test: &str, values: &str) -> Self {
        let folder = folder(test);
        let engines: Vec<lab::Engine> = (0..2).map(|_| lab::Engine::start(&folder)).collect();
        let endpoints: String = engines
            .iter()
            .map(|e| format!("  - {{name: {}, address: 127.0.0.1, port: {}}}\n", e.name(), e.address.port()))
            .collect();
        let model = "models: [{name: qwen3, files: {volume: {emptyDir: {}}}}]\n";
        let release =
            Release::render(&format!("mode: standalone\nengines:\n  endpoints:\n{endpoints}{model}{values}"), &[]);
        for file in ["config.yaml", "endpoints.yaml"] {
            let text = release.file("warmpath", file).replace("/models/0", &lab::model_dir().display().to_string());
            fs::write(folder.join(file), text).expect("a file can be written");
        }
        let (grpc, health, metrics) = (free_port(), free_port(), free_port());
        let args = release.args_at([grpc, health, metrics], &folder);
        let mut picker = Program::start(
            "epp",
            Command::new(env!("CARGO_BIN_EXE_epp")).args(args).arg("--bind-address=127.0.0.1"),
            &folder,
        );
        let read = || {
            page(metrics, "/metrics").is_some_and(|page| Page::read(&page).sum("llm_d_epp_ready_endpoints", &[]) == 2.0)
        };
        picker.wait_until("both engines were read", read);
        let (clients, stats, admin) = (free_port(), free_port(), free_port());
        let mut config = release.file("warmpath-envoy", "envoy.yaml");
        config = config.replace("address: \"::\", ipv4_compat: true", "address: 127.0.0.1");
        for (shipped, here) in [(8080, clients), (9901, admin), (9902, stats), (9002, grpc)] {
            config = config.replace(&format!("port_value: {shipped} "), &format!("port_value: {here} "));
        }
        fs::write(folder.join("envoy.yaml"), config).expect("a config can be written");
        let mut command = Command::new(envoy::binary());
        command.arg("-c").arg(folder.join("envoy.yaml")).args([
            "--disable-hot-restart",
            "--concurrency",
            "1",
            "--log-level",
            "warn",
        ]);
        let mut envoy = Program::start("envoy", &mut command, &folder);
        envoy.wait_until("it is ready", || page(stats, "/ready").is_some());
        let pod = Self { clients, stats, picker, _envoy: envoy, _engines: engines };
        wait_until("Envoy knows that the picker is there", || pod.healthy_pickers() == 1.0);
        pod
    }

    fn healthy_pickers(&self) -> f64 {
        let page = page(self.stats, "/stats/prometheus").expect("statistics");
        Page::read(&page).sum("envoy_cluster_membership_healthy", &["envoy_cluster_name=\"picker\""])
    }

    fn ask(&self, headers: &[(&str, &str)]) -> Reply {
        let mut all = vec![("content-type", "application/json")];
        all.extend(headers);
        let body = chat(lab::MODEL, &"The same beginning. ".repeat(20));
        ask(self.clients, "POST", "/v1/chat/completions", &all, body.as_bytes())
    }
}

/// Where nobody listens: a request that goes there fails.
const ELSEWHERE: [(&str, &str); 1] = [("x-gateway-destination-endpoint", "127.0.0.1:1")];

#[test]
fn a_standalone_release_serves_warm_and_fails_open_where_it_is_told_to() {
    let mut pod = Pod::start("chart-open", "envoy: {failOpen: true}\n");
    let first = pod.ask(&[]);
    assert_eq!(first.status, 200, "{}", first.text());
    for _ in 0..4 {
        let again = pod.ask(&ELSEWHERE);
        assert_eq!(again.status, 200, "a client says where to");
        assert_eq!(again.header("x-engine-id"), first.header("x-engine-id"), "the warm one");
    }
    pod.picker.kill();
    wait_until("Envoy knows that the picker is gone", || pod.healthy_pickers() == 0.0);
    for headers in [&[][..], &ELSEWHERE] {
        assert_eq!(pod.ask(headers).status, 200, "without the picker");
    }
    let page = page(pod.stats, "/stats/prometheus").expect("statistics");
    assert!(Page::read(&page).sum("envoy_http_ext_proc_failure_mode_allowed", &[]) >= 2.0, "{page}");
    alerts_ask_for_what_is_there(&page);
    assert_eq!(ask(pod.stats, "POST", "/quitquitquit", &[], b"").status, 404, "only statistics are let out");
}

fn alerts_ask_for_what_is_there(page: &str) {
    let rules = fs::read_to_string(root().join("charts/warmpath/files/envoy-alerts.yaml")).expect("alerts");
    let rules: Value = serde_yaml::from_str(&rules).expect("YAML");
    let rules = rules["groups"]
        .as_sequence()
        .expect("groups")
        .iter()
        .flat_map(|group| group["rules"].as_sequence().expect("rules"));
    for series in rules.flat_map(|rule| promql::series(rule["expr"].as_str().expect("a query"))) {
        assert!(page.lines().any(|line| line.starts_with(&format!("# TYPE {series} "))), "no {series} in\n{page}");
    }
}

#[test]
fn a_standalone_release_refuses_without_its_picker_where_it_is_not() {
    let mut pod = Pod::start("chart-closed", "");
    assert_eq!(pod.ask(&ELSEWHERE).status, 200);
    pod.picker.kill();
    for headers in [&[][..], &ELSEWHERE] {
        let refused = pod.ask(headers).status;
        assert!([500, 503].contains(&refused), "{refused}");
    }
}

/// A script of the chart, its folders exchanged for some of ours.
fn script(name: &str, folder: &Path, environment: &[(&str, &str)]) -> Output {
    let text = fs::read_to_string(root().join("charts/warmpath/files").join(name)).expect("a script");
    let place = |text: String, from: &str| text.replace(&format!("{from}/"), &format!("{}{from}/", folder.display()));
    let text = place(place(text, "/bundle"), "/files").replace("-C /files", &format!("-C {}/files", folder.display()));
    Command::new("sh").args(["-c", &text]).envs(environment.iter().copied()).output().expect("sh can be run")
}

#[test]
fn a_bundle_of_config_maps_is_the_models_directory_again() {
    let folder = folder("chart-bundle");
    for part in ["model/additional_chat_templates", "bundle", "files"] {
        fs::create_dir_all(folder.join(part)).expect("a folder can be made");
    }
    // Too much for one ConfigMap, and nothing that packs well.
    let noise: String =
        (0_u64..160_000).map(|n| format!("{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17))).collect();
    let files = [
        ("tokenizer.json", noise.as_str()),
        ("tokenizer_config.json", "{}"),
        ("additional_chat_templates/tool_use.jinja", "x"),
    ];
    for (file, text) in files {
        fs::write(folder.join("model").join(file), text).expect("a file can be written");
    }
    let mut bundle = Command::new(root().join("deploy/tokenizer-bundle.sh"));
    let output = bundle.arg(folder.join("model")).arg("qwen3").output().expect("sh can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let maps = Release::read(&String::from_utf8(output.stdout).expect("UTF-8")).objects;
    assert!(maps.len() > 1, "one ConfigMap");
    for map in &maps {
        for (part, packed) in map["binaryData"].as_mapping().expect("data") {
            let bytes = base64(packed.as_str().expect("base64"));
            assert!(bytes.len() < 1 << 20, "a ConfigMap takes no more");
            fs::write(folder.join("bundle").join(part.as_str().expect("a name")), bytes)
                .expect("a part can be written");
        }
    }
    let unpacked = script("unpack.sh", &folder, &[("REQUIRED", "true")]);
    assert!(unpacked.status.success(), "{}", String::from_utf8_lossy(&unpacked.stderr));
    for (file, text) in files {
        assert_eq!(fs::read_to_string(folder.join("files").join(file)).expect("a file"), text, "{file}");
    }
    // A part that is missing: the picker starts all the same, unless it must not, and it is said.
    fs::remove_file(folder.join(format!("bundle/part-aa{}", if maps.len() > 2 { 'c' } else { 'b' }))).expect("a part");
    fs::remove_dir_all(folder.join("files")).expect("a folder");
    fs::create_dir(folder.join("files")).expect("a folder can be made");
    for (required, succeeds) in [("false", true), ("true", false)] {
        let output = script("unpack.sh", &folder, &[("REQUIRED", required)]);
        assert_eq!(output.status.success(), succeeds);
        assert!(String::from_utf8_lossy(&output.stderr).contains("WARMPATH: NO TOKENIZER"));
        assert!(!folder.join("files/tokenizer.json").exists(), "half a tokenizer");
    }
}

fn base64(text: &str) -> Vec<u8> {
    let mut decode = Command::new("base64");
    decode.arg("-d").stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = decode.spawn().expect("base64 can be run");
    let mut input = child.stdin.take().expect("a pipe");
    let text = text.to_owned();
    let writer = thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("base64 ends");
    writer.join().expect("no panic").expect("base64 reads");
    output.stdout
}

/// A server of files, which wants a token; anything else is what `missing` says.
fn files_server(files: &'static [(&'static str, &'static str)], missing: &'static str) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head);
            let path = head.split(' ').nth(1).unwrap_or_default();
            let found = files.iter().find(|(name, _)| path == format!("/main/{name}"));
            let (status, body) = match found {
                _ if !head.contains("Authorization: Bearer abc\r\n") => ("401 Unauthorized", "no"),
                Some((_, text)) => ("200 OK", *text),
                None => (missing, "no"),
            };
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    port
}

fn download(test: &str, port: u16, environment: &[(&str, &str)]) -> (Output, PathBuf) {
    let folder = folder(test);
    fs::create_dir_all(folder.join("files")).expect("a folder can be made");
    let url = format!("http://127.0.0.1:{port}/main");
    let mut all = vec![("URL", url.as_str()), ("ATTEMPTS", "0")];
    all.extend(environment);
    (script("download.sh", &folder, &all), folder.join("files"))
}

#[test]
fn a_models_files_are_downloaded_whole_or_not_at_all() {
    const FILES: &[(&str, &str)] =
        &[("tokenizer.json", "{}"), ("tokenizer_config.json", "[]"), ("chat_template.jinja", "x")];
    let port = files_server(FILES, "404 Not Found");
    let (output, files) = download("chart-download", port, &[("TOKEN", "abc"), ("REQUIRED", "true")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (name, text) in FILES {
        assert_eq!(fs::read_to_string(files.join(name)).expect("a file"), *text);
    }
    assert!(!files.join("config.json").exists() && !files.join("config.json.part").exists());
    // A wrong token, and a server that can't say whether there is a template.
    let failing = files_server(FILES, "503 Service Unavailable");
    for (port, token) in [(port, "wrong"), (failing, "abc")] {
        for (required, succeeds) in [("false", true), ("true", false)] {
            let (output, files) = download("chart-download-fails", port, &[("TOKEN", token), ("REQUIRED", required)]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), succeeds, "{said}");
            assert!(said.contains("WARMPATH: NO TOKENIZER") && !said.contains(token), "{said}");
            assert!(!files.join("tokenizer.json").exists());
        }
    }
}

#[test]
fn neither_prompts_nor_credentials_are_logged() {
    let secrets = ["MARKER-PROMPT", "MARKER-TOKEN", "MARKER-KEY", "MARKER-BROKEN"];
    for level in [2, 5] {
        let pod = Pod::start("chart-logs", &format!("logging: {{level: {level}}}\nflags: {{strict-requests: true}}\n"));
        let headers = [
            ("content-type", "application/json"),
            ("authorization", "Bearer MARKER-TOKEN"),
            ("x-api-key", "MARKER-KEY"),
        ];
        let post = |path: &str, body: &str| ask(pod.clients, "POST", path, &headers, body.as_bytes()).status;
        assert_eq!(post("/v1/chat/completions", &chat(lab::MODEL, "MARKER-PROMPT")), 200);
        assert_eq!(post("/v1/chat/completions", &chat("MARKER-less", "MARKER-PROMPT")), 404);
        for broken in [
            "{\"messages\": [{\"role\": \"user\", \"content\": \"MARKER-BROKEN",
            "{\"model\": \"qwen3\", \"messages\": \"MARKER-BROKEN\"}",
        ] {
            assert_eq!(post("/v1/chat/completions", broken), 400);
        }
        wait_until("the decisions are logged", || {
            pod.picker.log().matches("\"decision\"").count() >= 1 || pod.picker.log().len() > 1000
        });
        let log = pod.picker.log();
        let found: Vec<&str> = secrets.into_iter().filter(|secret| log.contains(secret)).collect();
        assert_eq!(found, Vec::<&str>::new(), "at level {level}\n{log}");
    }
}
