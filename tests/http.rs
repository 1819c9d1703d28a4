//! The HTTP API over real sockets.

mod audit;
mod canary;
mod deciding;
mod guarding;
pub(crate) mod harness;
mod log;
mod metrics;
mod noise;
mod openapi;
mod policies;
mod routes;
mod same;
mod stopping;
mod stream;
mod waiting;
mod wire;
