//! The files in `deploy/example` are what the picker takes.

use std::process::Command;

use super::program::root;

#[test]
fn the_shipped_configuration_is_accepted() {
    let file = root().join("deploy/example/config.yaml");
    let output =
        Command::new(env!("CARGO_BIN_EXE_epp")).arg("check-config").arg(file).output().expect("epp can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
