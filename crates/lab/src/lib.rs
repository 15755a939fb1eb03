//! The laboratory. In: flags; out: stand-in engines over HTTP ([`serve`]), or a workload's measurements ([`load`]).
//! The engines stand on [`model`], which knows virtual time only. Never knows Envoy's protocol or Kubernetes.

mod draw;
pub mod flags;
pub mod load;
pub mod model;
pub mod model_dir;
pub mod serve;
pub mod words;
