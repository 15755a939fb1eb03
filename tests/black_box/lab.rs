//! Stand-in engines of the laboratory: real processes that reuse what a vLLM would reuse. In: a model's directory and
//! a cache's size; out: an address, and a process that can be killed and started again in the same place.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::client::page;
use super::program::{Program, beside_the_picker, free_port, root};

/// The name that every engine serves its model by.
pub const MODEL: &str = "qwen3";

/// One engine.
pub struct Engine {
    /// Where it listens.
    pub address: SocketAddr,
    program: Option<Program>,
    folder: PathBuf,
}

impl Engine {
    /// Starts one and waits until it is healthy.
    pub fn start(folder: &Path) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let mut engine = Self { address, program: None, folder: folder.to_path_buf() };
        engine.start_again();
        engine
    }

    /// As an out-of-memory kill: at once, its connections with it.
    pub fn kill(&mut self) {
        self.program = None;
    }

    /// In the same place, with an empty cache.
    pub fn start_again(&mut self) {
        let port = self.address.port();
        let mut command = Command::new(beside_the_picker("lab"));
        command.arg("engine").arg("--model").arg(model_dir()).args(["--served-model-name", MODEL]);
        command.args(["--port", &port.to_string(), "--enable-prompt-tokens-details"]);
        command.args(["--engine-name", &self.name()]);
        let mut program = Program::start(&self.name(), &mut command, &self.folder);
        program.wait_until("it is healthy", || page(port, "/health").is_some());
        self.program = Some(program);
    }

    /// What it calls itself in `x-engine-id`.
    pub fn name(&self) -> String {
        format!("engine-{}", self.address.port())
    }
}

/// The model that the repository carries.
pub fn model_dir() -> PathBuf {
    root().join("tests/fixtures/qwen3")
}

/// The picker's flag for that model.
pub fn model_flag() -> String {
    format!("--model={MODEL}={}", model_dir().display())
}
