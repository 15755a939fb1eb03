//! A whole set-up: engines, the picker that knows them, an Envoy before them. In: a form of gateway and engines; out:
//! a port for clients. All of it is gone when dropped.

use std::net::SocketAddr;

use super::client::{Reply, ask};
use super::envoy::{Envoy, Form};
use super::picker::Picker;
use super::program::folder;

/// Where chats go.
pub const CHAT: &str = "/v1/chat/completions";

/// Envoy and picker.
pub struct Stage {
    /// The picker.
    pub picker: Picker,
    /// Where clients go.
    pub port: u16,
    /// The gateway.
    pub envoy: Envoy,
}

impl Stage {
    /// With full-duplex bodies and no model directory.
    pub fn start(test: &str, form: Form, engines: &[SocketAddr]) -> Self {
        Self::start_with(test, form, engines, &[], |config| config)
    }

    /// With flags for the picker and a change of Envoy's configuration.
    pub fn start_with(
        test: &str,
        form: Form,
        engines: &[SocketAddr],
        flags: &[&str],
        edit: impl Fn(String) -> String,
    ) -> Self {
        let folder = folder(test);
        let picker = Picker::start(engines, flags, &folder);
        let ports: Vec<u16> = engines.iter().map(SocketAddr::port).collect();
        let envoy = Envoy::start(form, picker.port, &ports, edit, &folder);
        Self { picker, port: envoy.port, envoy }
    }

    /// A POST of JSON through Envoy.
    pub fn post(&self, path: &str, body: &str) -> Reply {
        ask(self.port, "POST", path, &[("content-type", "application/json")], body.as_bytes())
    }
}

/// A chat of one message.
pub fn chat(model: &str, content: &str) -> String {
    serde_json::json!({ "model": model, "max_tokens": 4, "messages": [{ "role": "user", "content": content }] })
        .to_string()
}

/// The same, streamed, with usage at its end.
pub fn streamed_chat(model: &str, content: &str) -> String {
    let messages = serde_json::json!([{ "role": "user", "content": content }]);
    let options = serde_json::json!({ "include_usage": true });
    serde_json::json!({ "model": model, "max_tokens": 4, "messages": messages, "stream": true, "stream_options": options }).to_string()
}
