//! Model servers: their metrics pages in, [`fleet::Load`]s out, and the loop that reads them into a [`fleet::Fleet`].
//!
//! The only crate with engines' metric names: each engine is a [`Dialect`], names as data. Nothing is made up: what a
//! page doesn't say is unknown, and a page that is none is a failed reading.
//!
//! This crate never knows Kubernetes or Envoy.

mod dialect;
mod event;
mod page;
mod scraper;
mod target;

pub use dialect::{CacheNames, Dialect, Dialects, Series};
pub use event::{Event, Reason, Trouble};
pub use page::{NotMetrics, parse};
pub use scraper::{Pace, Scraper};
pub use target::{ClientCertificate, Target, TargetError, Tls};
