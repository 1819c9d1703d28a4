//! The HTTP API over real sockets.

mod deciding;
mod guarding;
pub(crate) mod harness;
mod noise;
mod routes;
mod same;
mod stopping;
mod waiting;
mod wire;
