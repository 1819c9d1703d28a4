//! Watches everything that is logged, on any thread, for markers that must not be there (INV-9).

use std::fmt::Write as _;
use std::sync::{Mutex, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// What every marker in an input begins with.
pub(crate) const CANARY: &str = "canary-";

/// Everything that was logged anywhere in this process, at any level, with a marker in it.
static LOGGED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Watches all logs of the process from now on.
pub(crate) fn watch_logs() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Watch).unwrap());
}

/// What was logged with this text in it.
pub(crate) fn logged(text: &str) -> Vec<String> {
    let logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    logged.iter().filter(|it| it.contains(text)).cloned().collect()
}

/// Keeps what has a marker in it, so that a whole test run fits.
struct Watch;

impl Watch {
    fn keep(line: String) {
        if line.contains(CANARY) || line.contains("countersign-watch") {
            LOGGED.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }
}

impl Subscriber for Watch {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(String::new());
        span.record(&mut line);
        Self::keep(line.0);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut line = Line(String::new());
        values.record(&mut line);
        Self::keep(line.0);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(format!("{} {}", event.metadata().target(), event.metadata().level()));
        event.record(&mut line);
        Self::keep(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        write!(self.0, " {field}={value}").unwrap();
        let mut cause = value.source();
        while let Some(it) = cause {
            write!(self.0, ": {it}").unwrap();
            cause = it.source();
        }
    }
}

#[test]
fn the_watch_sees_what_is_logged() {
    watch_logs();
    tracing::trace!(value = "countersign-watch-itself", "seen");
    assert_eq!(logged("countersign-watch-itself").len(), 1);
}
