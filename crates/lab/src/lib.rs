//! The laboratory. In: flags; out: stand-in engines over HTTP ([`serve`]), a workload's measurements ([`load`]), or which
//! policy serves a traffic best ([`compare`]). The engines stand on [`model`], which knows virtual time only; a fleet of them
//! under a [`policy`] and a [`traffic`] is [`sim`]. Never knows Envoy's protocol or Kubernetes.

pub mod compare;
mod draw;
pub mod flags;
pub mod load;
pub mod model;
pub mod model_dir;
pub mod policy;
pub mod serve;
pub mod sim;
pub mod traffic;
pub mod words;
