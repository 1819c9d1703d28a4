//! What operators count: metrics of this process, in the Prometheus text format.

use prometheus_client::registry::Registry;

/// The metrics of one engine.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    registry: Registry,
}

impl Meters {
    /// All of them, as text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}
