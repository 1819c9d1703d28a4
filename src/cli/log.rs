//! What is logged, where, and in which form. What looks like a secret is masked: causes are texts of others.

use std::io::{self, Write};

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

use super::failure::Failure;
use crate::config::{LogFormat, LogSettings};
use crate::masking;

/// What takes spans elsewhere.
pub(super) type SpanLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// The variable that says what is logged, in the syntax of `tracing_subscriber::EnvFilter`.
const LOG: &str = "COUNTERSIGN_LOG";

/// For a command that comes and goes: by default only what the operator must see to, and nothing that breaks into the
/// demo's story.
pub(super) fn init(verbose: u8, is_story: bool) -> Result<(), Failure> {
    let quiet = if is_story { "off" } else { "error,sqlx=off" };
    start(filter(verbose, quiet)?, LogFormat::Text, None);
    Ok(())
}

/// For a server: `-v` and the variable count before its settings, and those before `info`.
pub(super) fn init_server(verbose: u8, settings: &LogSettings, spans: Option<SpanLayer>) -> Result<(), Failure> {
    let level = settings.level.as_deref().unwrap_or("info,sqlx=warn");
    start(filter(verbose, level)?, settings.format, spans);
    Ok(())
}

/// Whether settings hold a log filter.
pub(super) fn check(settings: &LogSettings) -> Result<(), String> {
    let level = settings.level.as_deref().unwrap_or_default();
    EnvFilter::try_new(level).map(drop).map_err(|error| format!("`{level}` is no log filter: {error}"))
}

#[expect(clippy::disallowed_methods, reason = "the environment is read by the command line only")]
fn filter(verbose: u8, default: &str) -> Result<EnvFilter, Failure> {
    let default = match verbose {
        0 => default,
        1 => "info,sqlx=warn", // causes of failed calls, too
        2 => "debug,sqlx=warn",
        3.. => "trace",
    };
    let wanted = std::env::var(LOG).ok().filter(|it| !it.is_empty());
    let (text, from) = wanted.as_deref().map_or((default, "`[log] level`"), |it| (it, "`COUNTERSIGN_LOG`"));
    EnvFilter::try_new(text).map_err(|error| {
        let next = format!("set it to a level, `{LOG}=info` or `level = \"info\"`, or to nothing");
        Failure::could_not_run(format!("{from} holds no log filter: {error}"), next)
    })
}

/// To standard error. The filter is about logs: spans go elsewhere whatever is logged.
fn start(filter: EnvFilter, format: LogFormat, spans: Option<SpanLayer>) {
    let all = tracing_subscriber::registry().with(spans);
    let log = fmt::layer().with_writer(|| Masked(anstream::stderr()));
    // Refused only if a logger is there already: then that one logs.
    let _ = match format {
        LogFormat::Text => all.with(log.with_filter(filter)).try_init(),
        LogFormat::Json => {
            all.with(log.json().flatten_event(true).with_span_list(false).with_filter(filter)).try_init()
        }
    };
}

/// Writes lines without what looks like a secret. Each line comes in one piece.
struct Masked<W>(W);

impl<W: Write> Write for Masked<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.0.write_all(masking::text(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_without_its_secrets() {
        let mut written = Masked(Vec::new());
        let line = "ERROR cause=\"no answer from postgres://app:hunter2@db.test\" token=abc\n";
        written.write_all(line.as_bytes()).unwrap();
        let shown = String::from_utf8(written.0).unwrap();
        assert_eq!(shown, "ERROR cause=\"no answer from postgres://[masked]@db.test\" token=[masked]\n");
    }
}
