//! The workbench against the engine.

mod live;
