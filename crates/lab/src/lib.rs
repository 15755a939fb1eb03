//! The laboratory. In: flags; out: stand-in engines over HTTP ([`serve`]), or a workload's measurements ([`load`]).
//! Both stand on [`model`], an engine in virtual time. Never knows Envoy's protocol or Kubernetes.

pub mod flags;
pub mod model;
