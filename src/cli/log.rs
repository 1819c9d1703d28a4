//! What is logged, where, and in which form.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use super::failure::Failure;
use crate::config::{LogFormat, LogSettings};

/// The variable that says what is logged, in the syntax of `tracing_subscriber::EnvFilter`.
const LOG: &str = "COUNTERSIGN_LOG";

/// For a command that comes and goes: by default only what the operator must see to, and nothing that breaks into the
/// demo's story.
pub(super) fn init(verbose: u8, is_story: bool) -> Result<(), Failure> {
    let quiet = if is_story { "off" } else { "error,sqlx=off" };
    start(filter(verbose, quiet)?, LogFormat::Text);
    Ok(())
}

/// For a server: `-v` and the variable count before its settings, and those before `info`.
pub(super) fn init_server(verbose: u8, settings: &LogSettings) -> Result<(), Failure> {
    let level = settings.level.as_deref().unwrap_or("info,sqlx=warn");
    start(filter(verbose, level)?, settings.format);
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

/// To standard error.
fn start(filter: EnvFilter, format: LogFormat) {
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(anstream::stderr);
    let log = log.with_span_events(FmtSpan::NONE);
    // Refused only if a logger is there already: then that one logs.
    let _ = match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().flatten_event(true).with_span_list(false).try_init(),
    };
}
