//! The HTTP API over real sockets.

mod audit;
mod harness;
mod metrics;
mod openapi;
mod policies;
mod routes;
mod stream;
