//! Ctrl-C, for commands that go on until then.

use super::failure::Failure;

/// Comes to its end at the first Ctrl-C from now on.
pub(super) fn interrupted() -> Result<impl Future<Output = ()>, Failure> {
    let mut signal = signal().map_err(|error| {
        Failure::could_not_run(format!("Ctrl-C cannot be waited for: {error}"), "try again with fewer open files")
    })?;
    Ok(async move {
        signal.recv().await;
    })
}

#[cfg(unix)]
fn signal() -> std::io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
}

#[cfg(windows)]
fn signal() -> std::io::Result<tokio::signal::windows::CtrlC> {
    tokio::signal::windows::ctrl_c()
}
