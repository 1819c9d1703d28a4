//! The HTTP API over real sockets.

pub(crate) mod harness;
mod routes;
