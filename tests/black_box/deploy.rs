//! The rest of `deploy`: the image's recipe against the binary that it carries, the release script against stand-ins of its
//! tools, and examples against the chart. Nothing is built, pushed or signed here.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::helm::{EVERYTHING, Release};
use super::program::{folder, root};

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The recipe's instructions, each on one line.
fn dockerfile() -> Vec<String> {
    let text = read("deploy/image/Dockerfile").replace("\\\n", " ");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The instructions of a stage, by its name.
fn stage(called: &str) -> Vec<String> {
    let all = dockerfile();
    let ending = format!(" AS {called}");
    let at = all.iter().position(|line| line.starts_with("FROM ") && line.ends_with(&ending)).expect("a stage");
    let rest = all[at + 1..].iter().take_while(|line| !line.starts_with("FROM "));
    std::iter::once(&all[at]).chain(rest).cloned().collect()
}

#[test]
fn the_image_is_what_charts_and_kserve_expect() {
    let epp = stage("epp");
    assert_eq!(
        dockerfile().iter().rfind(|line| line.starts_with("FROM ")),
        epp.first(),
        "the last stage is what is built"
    );
    for expected in [
        "USER 65532:65532",
        "EXPOSE 9002 9003 9090",
        "ENTRYPOINT [\"/app/epp\"]",
        "COPY --from=sleep /usr/bin/sleep /bin/sleep",
    ] {
        assert!(epp.iter().any(|line| line == expected), "no {expected} in {epp:#?}");
    }
    assert!(!epp.iter().any(|line| line.starts_with("RUN ")), "nothing can be run for a foreign architecture");
    // One Debian for all: what is linked and copied finds the libraries that it was made for.
    assert!(stage("build")[0].contains("-bookworm") && stage("sleep")[0].contains("bookworm"));
    assert!(epp[0].contains("/cc-debian12:nonroot"), "{}", epp[0]);
    let wanted =
        read("Cargo.toml").lines().find_map(|line| line.strip_prefix("rust-version = ").map(|v| v.replace('"', "")));
    assert!(stage("build")[0].contains(&format!("rust:{}-", wanted.expect("a version"))), "{}", stage("build")[0]);
}

#[test]
fn the_image_is_built_by_the_builder_itself_and_once_for_what_platforms_share() {
    // A `syntax` line has the builder fetch and run another image, by a tag that moves.
    let text = read("deploy/image/Dockerfile");
    assert!(!text.lines().any(|line| line.replace(' ', "").starts_with("#syntax=")), "a front end from elsewhere");
    // What stands below the platform's name is done again for each platform.
    let build = stage("build");
    let at = build.iter().position(|line| line == "ARG TARGETARCH").expect("the platform's name");
    for shared in ["RUN apt-get ", "RUN cargo install ", "COPY . ."] {
        assert!(build[..at].iter().any(|line| line.starts_with(shared)), "{shared}: once for each platform");
    }
    assert!(build[at..].iter().any(|line| line.contains("cargo auditable build")), "{build:#?}");
}

#[test]
fn nothing_is_asked_of_the_image_that_is_not_in_it() {
    // No shell, no tools: only the program itself and the kubelet's own pause.
    for manifest in ["deploy/manifests/gateway.yaml", "deploy/manifests/standalone.yaml", "deploy/kind/engines.yaml"] {
        let mut seen = 0;
        for object in &Release::read(&read(manifest)).objects {
            for container in object["spec"]["template"]["spec"]["containers"].as_sequence().into_iter().flatten() {
                let image = container["image"].as_str().expect("an image");
                if !["/epp:", "warmpath-lab:"].iter().any(|ours| image.contains(ours)) {
                    continue;
                }
                if let Some(command) = container["command"].as_sequence() {
                    assert_eq!(command, &["/app/epp"], "{manifest}");
                }
                for hook in ["preStop", "postStart"] {
                    assert!(container["lifecycle"][hook]["exec"].is_null(), "{manifest}: {container:#?}");
                }
                for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
                    assert!(container[probe]["exec"].is_null(), "{manifest}: {container:#?}");
                }
                seen += 1;
            }
        }
        assert!(seen > 0, "{manifest} has no container of ours");
    }
}

#[test]
fn the_image_is_built_of_files_that_there_are() {
    let ignore = read("deploy/image/Dockerfile.dockerignore");
    let kept: BTreeSet<&str> = ignore.lines().filter_map(|line| line.strip_prefix('!')).collect();
    for kept in &kept {
        assert!(root().join(kept).exists(), "{kept}");
    }
    for line in dockerfile().iter().filter(|line| line.starts_with("COPY ") && !line.contains("--from=")) {
        let source = line.split(' ').nth(1).expect("a source");
        assert!(root().join(source).exists(), "{line}");
        assert!(
            source == "." || kept.contains(source.split('/').next().expect("a folder")),
            "{line}: left out of the context"
        );
    }
    // Every crate's manifest, and what its targets name, is in the context.
    assert!(kept.contains("crates") && kept.contains("tests") && kept.contains("Cargo.lock"));
}

#[test]
fn the_images_base_has_every_library_that_its_programs_need() {
    // What gcr.io/distroless/cc-debian12 has of the C world: glibc and libgcc.
    let base = ["linux-vdso.so.1", "libc.so.6", "libm.so.6", "libgcc_s.so.1", "libdl.so.2", "libpthread.so.0"];
    for program in [env!("CARGO_BIN_EXE_epp"), "/bin/sleep"] {
        let output = Command::new("ldd").arg(program).output().expect("ldd can be run");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let names =
            text.lines().filter_map(|line| line.split_whitespace().next()).filter(|name| !name.starts_with('/'));
        let missing: Vec<&str> = names.filter(|name| !base.contains(name)).collect();
        assert!(missing.is_empty(), "{program}: {missing:?}");
    }
}

/// A repository that is ready to be released, and tools that only write down how they were called.
fn ready(test: &str) -> (PathBuf, PathBuf) {
    let folder = folder(test);
    let (repository, tools) = (folder.join("repository"), folder.join("tools"));
    for part in ["deploy", "charts/warmpath"] {
        fs::create_dir_all(repository.join(part)).expect("a folder can be made");
    }
    fs::create_dir_all(&tools).expect("a folder can be made");
    for file in ["Cargo.toml", "charts/warmpath/Chart.yaml", "deploy/release.sh"] {
        fs::copy(root().join(file), repository.join(file)).expect("a file can be copied");
    }
    fs::write(repository.join("CHANGELOG.md"), "## [0.1.0]\n").expect("a file can be written");
    fs::write(repository.join(".gitignore"), "target\n").expect("a file can be written");
    for args in [&["init", "--quiet"][..], &["add", "."], &["commit", "--quiet", "-m", "x"], &["tag", "v0.1.0"]] {
        let mut git = Command::new("git");
        git.args([
            "-c",
            "user.name=x",
            "-c",
            "user.email=x@example.com",
            "-c",
            "commit.gpgsign=false",
            "-c",
            "tag.gpgsign=false",
        ]);
        assert!(git.current_dir(&repository).args(args).status().expect("git can be run").success(), "{args:?}");
    }
    for tool in ["docker", "syft", "cosign", "helm"] {
        let file = tools.join(tool);
        // As buildx and Helm say what they pushed.
        let said = match tool {
            "docker" => {
                r#"printf '{\n  "containerimage.descriptor": {\n    "digest": "sha256:d"\n  },\n  "containerimage.digest": "sha256:abc"\n}\n' >target/release-files/image.json"#
            }
            "helm" => {
                r#"[ "$1" != push ] || printf 'Pushed: ghcr.io/warmpath/charts/warmpath:0.1.0\nDigest: sha256:def\n' >&2"#
            }
            _ => "",
        };
        let script = format!("#!/bin/sh\necho {tool} \"$@\" >>\"$CALLS\"\n{said}\nexit 0\n");
        fs::write(&file, script).expect("a tool can be written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a tool can be run");
    }
    (repository, tools)
}

fn release(repository: &Path, tools: &Path, arguments: &[&str]) -> (Output, String) {
    let calls = tools.join("calls");
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap_or_default());
    let mut script = Command::new("sh");
    script.arg("deploy/release.sh").args(arguments).current_dir(repository).env("PATH", path).env("CALLS", &calls);
    let output = script.output().expect("sh can be run");
    (output, fs::read_to_string(calls).unwrap_or_default())
}

#[test]
fn a_release_signs_and_describes_just_what_it_pushed() {
    let (repository, tools) = ready("release");
    let (output, calls) = release(&repository, &tools, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let calls: Vec<&str> = calls.lines().collect();
    let first_words: Vec<String> =
        calls.iter().map(|call| call.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "docker buildx",
        "syft scan",
        "cosign attest",
        "syft scan",
        "cosign attest",
        "cosign sign",
        "helm package",
        "helm push",
        "cosign sign",
    ];
    assert_eq!(first_words, expected);
    assert!(calls[0].contains("--platform linux/amd64,linux/arm64") && calls[0].contains("--push"), "{}", calls[0]);
    for call in &calls[1..6] {
        assert!(call.contains("ghcr.io/warmpath/epp@sha256:abc"), "a tag that may move: {call}");
    }
    assert!(calls[8].ends_with(" ghcr.io/warmpath/charts/warmpath@sha256:def"), "the chart: {}", calls[8]);
    // The address is matched from its beginning, lest anyone's who has it somewhere within is taken for ours.
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(r"-identity-regexp '^https://github\.com/warmpath/warmpath/'"), "{said}");
}

#[test]
fn what_is_not_ready_is_not_released() {
    let (repository, tools) = ready("release-refused");
    let refused = |why: &str| {
        let (output, calls) = release(&repository, &tools, &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why) && calls.is_empty(), "{said}{calls}");
    };
    fs::write(repository.join("left"), "over").expect("a file can be written");
    refused("the work tree has changes");
    fs::remove_file(repository.join("left")).expect("a file can be removed");
    let chart = repository.join("charts/warmpath/Chart.yaml");
    let text = fs::read_to_string(&chart).expect("a file can be read");
    fs::write(&chart, text.replace("appVersion: 0.1.0", "appVersion: 0.2.0")).expect("a file can be written");
    refused("appVersion isn't 0.1.0");
    fs::write(&chart, text).expect("a file can be written");
    // Nothing is called where one only looks.
    let (output, calls) = release(&repository, &tools, &["--dry-run"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && calls.is_empty() && said.contains("+ cosign sign "), "{said}{calls}");
}

#[test]
fn examples_are_strict_yaml_that_the_chart_takes() {
    let mut seen = 0;
    for directory in ["deploy/gateways", "deploy/kind"] {
        for entry in fs::read_dir(root().join(directory)).expect("examples").flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            let text = read(&format!("{directory}/{file}"));
            if file == "cluster.yaml" {
                // kind's own, which has a name of another kind.
                serde_yaml::from_str::<serde_yaml::Value>(&text).expect("YAML");
            } else if file.ends_with("values.yaml") {
                Release::render(&text, &EVERYTHING);
            } else if file.ends_with(".yaml") {
                assert!(!Release::read(&text).objects.is_empty(), "{file}");
            } else {
                continue;
            }
            seen += 1;
        }
    }
    assert_eq!(seen, 10);
}
