//! `serve`: the HTTP API, until a signal ends it.

mod announce;
mod signals;
mod spans;
mod tokens;

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::application::{Application, application, gateway};
use super::args::Serve;
use super::exit::Exit;
use super::failure::Failure;
use super::log;
use super::policy::render;
use super::screen::{Answer, print, print_error};
use super::settings;
use crate::auth::Auth;
use crate::clock::Clock;
use crate::config::Config;
use crate::demo::Desk;
use crate::http::{HttpSettings, Server, serve_metrics};
use crate::{BuildError, Engine, LogTree, Problem, policy};

use announce::Announcement;
use signals::Signals;
use spans::Spans;
use tokens::DemoToken;

/// What is served, checked as far as that goes without a database.
struct Ready {
    config: Config,
    application: Application,
    auth: Auth,
    log: LogTree,
    /// The demo's own tokens, to be shown.
    tokens: Vec<DemoToken>,
}

pub(super) async fn run(args: Serve, verbose: u8) -> Result<Answer, Failure> {
    let json = args.format.json;
    let config = configured(&args).map_err(|it| settings::unfit(&it))?;
    let spans = Spans::open(&config).map_err(|it| settings::unfit(&it))?;
    log::init_server(verbose, &config.log, spans.layer())?;
    log_panics();
    let Ready { config, application, auth, log, tokens } = ready(config, args.demo).await?;
    let signals = Signals::new()?; // what asks to stop is heard from here on
    let listener = bind(config.http.listen).await?;
    let metrics = match config.metrics.listen {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    let announcement = Announcement {
        address: local(&listener)?,
        metrics: metrics.as_ref().map(local).transpose()?,
        database: config.database_url(),
        name: application.name.clone(),
        tokens,
    };
    let built = application.builder(&config, &auth).log_tree(log).build_with_notes().await;
    let (engine, notes) = built.map_err(|it| unbuilt(&it, &config))?;
    for note in notes.iter().filter(|_| !json) {
        print_error(&render(note));
    }
    let _ = print(&if json { announcement.json() } else { announcement.text() }); // nobody reads: it serves all the same
    tracing::info!(address = %announcement.address, database = announcement.database, "listening");
    drop(announcement); // and with it the demo's tokens
    let spans = spans.measure(&engine);
    let stop = CancellationToken::new();
    let serving = serve(&engine, auth, &config.http, listener, metrics, &stop);
    let answer = until_stopped(serving, &stop, signals).await;
    spans.close().await;
    answer
}

/// Serves until told to stop, finishes what runs, and records the rest.
async fn serve(
    engine: &Engine<Desk>,
    auth: Auth,
    settings: &HttpSettings,
    listener: TcpListener,
    metrics: Option<TcpListener>,
    stop: &CancellationToken,
) {
    let gateway = gateway(engine);
    let alone = async {
        if let Some(listener) = metrics {
            serve_metrics(gateway.clone(), settings, listener, stop.cancelled()).await;
        }
    };
    let server = Server::new(gateway.clone(), auth, settings.clone());
    tokio::join!(server.serve(listener, stop.cancelled()), alone);
    engine.shutdown(settings.shutdown_timeout).await;
}

/// The first signal stops it in good order, the second at once.
async fn until_stopped(
    serving: impl Future<Output = ()>,
    stop: &CancellationToken,
    mut signals: Signals,
) -> Result<Answer, Failure> {
    let mut serving = std::pin::pin!(serving);
    let signal = tokio::select! {
        () = &mut serving => {
            return Err(Failure::could_not_run("the server ended by itself", "see the log, and start it again"));
        }
        signal = signals.next() => signal,
    };
    tracing::info!(signal, "stopping: what runs is finished or recorded");
    stop.cancel();
    tokio::select! {
        () = &mut serving => {
            tracing::info!("stopped");
            Ok(Answer::silent(Exit::Done))
        }
        signal = signals.next() => {
            tracing::warn!(signal, "stopped at once: what still ran is settled by the next process");
            Ok(Answer::silent(Exit::Failed))
        }
    }
}

/// The configuration with the flags over it.
fn configured(args: &Serve) -> Result<Config, Vec<Problem>> {
    let mut config =
        if args.demo { settings::read_environment()? } else { settings::read(args.config.config.as_deref())? };
    if let Some(address) = args.listen {
        config.http.listen = address;
    }
    if let Some(format) = args.log_format {
        config.log.format = format;
    }
    if let Some(url) = &args.db {
        config.set_database(url);
    }
    Ok(config)
}

/// Checks everything that needs no database, and tells every problem at once.
async fn ready(mut config: Config, is_demo: bool) -> Result<Ready, Failure> {
    let tokens = tokens::of_demo(&mut config, is_demo)?;
    let mut problems: Vec<Problem> = config.database_path().err().into_iter().collect();
    let application = application(&config).map_err(|it| problems.extend(it)).ok();
    let auth = Auth::open(&config.auth, config.base(), Clock::System).await.map_err(|it| problems.extend(it)).ok();
    let log = config.audit.open(config.base(), &settings::variable).map_err(|it| problems.extend(it.problems)).ok();
    match (application, auth, log) {
        (Some(application), Some(auth), Some(log)) if problems.is_empty() => {
            Ok(Ready { config, application, auth, log, tokens })
        }
        _ => Err(settings::unfit(&problems)),
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let next = "stop what listens there, or name another with `--listen ADDR:PORT` (port 0 takes a free one)";
        Failure::could_not_run(format!("`{address}` cannot be listened on: {error}"), next)
    })
}

/// Where it really listens.
fn local(listener: &TcpListener) -> Result<SocketAddr, Failure> {
    listener.local_addr().map_err(|error| {
        let next = "name another with `--listen ADDR:PORT`";
        Failure::could_not_run(format!("the address that is listened on is not known: {error}"), next)
    })
}

/// Policies are wrong in themselves, whatever the database: their own report says more.
fn unbuilt(error: &BuildError, config: &Config) -> Failure {
    let Ok(application) = application(config) else { return Failure::of_engine(error) };
    let source = application.policies.clone();
    match application.registry().map(|registry| policy::load(&source, &registry)) {
        Ok(Err(problems)) => Failure::of_policies(problems),
        Ok(Ok(_)) | Err(_) => Failure::of_engine(error),
    }
}

/// Where a task panicked is logged; what it said is not, for it may hold what nobody should read.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "a task panicked");
    }));
}
