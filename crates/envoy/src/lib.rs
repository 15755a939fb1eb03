//! envoy
