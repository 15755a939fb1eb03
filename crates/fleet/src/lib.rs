//! Who can serve: endpoints, what was last read of their load, and what we ourselves have under way there.
//!
//! In: members (from a file or a cluster), readings (from engines), bookings (from picks). Out: immutable [`View`]s.
//! One writer, the [`Fleet`]; readers hold a [`View`] and never lock.
//!
//! This crate never knows Kubernetes, HTTP or scoring. It has the nouns that everybody shares and is the smallest crate.

mod averages;
mod booking;
mod fleet;
mod load;
mod member;

pub use averages::{Averages, Spread, averages};
pub use booking::{Booking, Books, Mark};
pub use fleet::{Changes, Endpoint, Fleet, Read, View};
pub use load::{Adapters, Cache, Counters, Load, Reading, Standing};
pub use member::{EndpointId, Member};
