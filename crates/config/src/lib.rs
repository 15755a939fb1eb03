//! What the operator said: an `EndpointPickerConfig` as typed in, a checked [`Config`] out, or an [`Error`] that says
//! which line is wrong, what is wrong there and what was probably meant.
//!
//! What was typed (`Raw`) and what was checked ([`Config`]) are two types; nothing later may fail for the config's
//! sake. The schema is llm-d's, so that its files work; what is ours alone stands under one key, `warmpath:`.
//!
//! This crate never knows how anything is carried out: it opens no file and no socket, and it hands over engines'
//! metric names as plain data.

mod check;
mod config;
mod duration;
pub mod endpoints;
mod error;
mod labelled;
mod metric;
mod place;
mod plugin;
mod plugin_types;
mod raw;
mod scalar;
mod twice;

pub use config::{
    Baseline, Blocks, ClientCertificate, Config, Engine, Engines, FileDiscovery, Holdout, Limits, Model, Scheme,
    Scrape, Tls, Trust, Warning,
};
pub use duration::parse_duration;
pub use error::Error;
pub use labelled::{Labelled, Values};
pub use metric::Metric;
pub use plugin_types::{Done, PLUGIN_TYPES, PluginType};
