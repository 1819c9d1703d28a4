//! The spans and metrics of a server, for the collector that its configuration names. Only builds with the feature `otel` can
//! send them.

use std::time::Duration;

use super::super::log::SpanLayer;
use crate::config::Config;
use crate::demo::Desk;
use crate::{Engine, Problem};

/// How long the last spans may take to arrive when the server stops.
const LAST: Duration = Duration::from_secs(5);

/// Where they go, if anywhere.
pub(super) struct Spans(Option<Way>);

#[cfg(feature = "otel")]
type Way = crate::telemetry::Export;

#[cfg(not(feature = "otel"))]
type Way = std::convert::Infallible;

impl Spans {
    #[cfg(feature = "otel")]
    pub(super) fn open(config: &Config) -> Result<Self, Vec<Problem>> {
        crate::telemetry::otlp(&config.telemetry, config.base(), &super::settings::variable).map(Self)
    }

    #[cfg(not(feature = "otel"))]
    pub(super) fn open(config: &Config) -> Result<Self, Vec<Problem>> {
        if config.telemetry.endpoint.is_none() {
            return Ok(Self(None));
        }
        let next = "build with `--features otel`, or remove it";
        Err(vec![Problem::new("telemetry.endpoint", "cannot be used: this build sends no telemetry", next)])
    }

    /// What collects them.
    #[cfg(feature = "otel")]
    pub(super) fn layer(&self) -> Option<SpanLayer> {
        self.0.as_ref().map(|it| Box::new(it.layer()) as SpanLayer)
    }

    #[cfg(not(feature = "otel"))]
    pub(super) fn layer(&self) -> Option<SpanLayer> {
        match &self.0 {
            Some(never) => match *never {},
            None => None,
        }
    }

    /// And the metrics of this engine.
    #[cfg(feature = "otel")]
    pub(super) fn measure(mut self, engine: &Engine<Desk>) -> Self {
        if let Some(way) = &mut self.0 {
            way.measure(engine);
        }
        self
    }

    #[cfg(not(feature = "otel"))]
    pub(super) fn measure(self, _: &Engine<Desk>) -> Self {
        self
    }

    /// Sends the last ones.
    pub(super) async fn close(self) {
        match self.0 {
            #[cfg(feature = "otel")]
            Some(way) => way.close(LAST).await,
            #[cfg(not(feature = "otel"))]
            Some(never) => {
                let _ = LAST;
                match never {}
            }
            None => {}
        }
    }
}
