//! The choice: an [`Ask`] and its [`Candidate`]s in, a [`Decision`] with every part of every score out.
//!
//! A pure function and its parts. This crate never knows a clock, sockets, locks, protobuf, YAML or logs.
