//! The HTTP API over real sockets.

mod harness;
mod routes;
