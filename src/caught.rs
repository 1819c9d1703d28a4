//! The application's own code may panic; an execution must have its end all the same (INV-13).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

/// A panic, which the runtime has reported already. Its payload may be anything, so it is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the application's code panicked")]
pub(crate) struct Panicked;

/// Runs the application's code. What it was about to do to its own state is its own affair, as in any thread.
pub(crate) fn caught<T>(code: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|_| Panicked)
}

/// As [`caught`], for a future. After a panic it is not polled again.
pub(crate) async fn caught_async<T>(code: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut code = std::pin::pin!(code);
    std::future::poll_fn(|task| match caught(|| code.as_mut().poll(task)) {
        Ok(poll) => poll.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}
