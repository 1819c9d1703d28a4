//! The workbench against the engine.

#![cfg(feature = "testing")]

mod entities;
mod live;
mod trail;
