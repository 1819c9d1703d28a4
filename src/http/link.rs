//! A connection with patience: the head of a request must come in time, and answers must be taken in time.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// How long, and how much, is still read of a client that was answered before it had sent everything. Without that the
/// machine would reset the connection, and the answer would be lost.
const LINGER: (Duration, usize) = (Duration::from_secs(1), 4 << 20);

/// Between requests.
const IDLE: u8 = 0;
/// The first byte of a head is here, the last one is not.
const HEAD: u8 = 1;
/// A request is being answered.
const BUSY: u8 = 2;

/// Where a connection stands: what the side that answers tells the side that reads.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    phase: AtomicU8,
    unread: AtomicBool,
}

impl Pulse {
    /// A head is complete. `has_body`: something follows it.
    pub(super) fn busy(&self, has_body: bool) {
        self.phase.store(BUSY, Ordering::Release);
        self.unread.store(has_body, Ordering::Release);
    }

    /// All of the body was read.
    pub(super) fn was_read(&self) {
        self.unread.store(false, Ordering::Release);
    }

    /// The answer is made.
    pub(super) fn idle(&self) {
        self.phase.store(IDLE, Ordering::Release);
    }
}

/// One deadline, counted from when it is first looked at.
#[derive(Debug)]
struct Deadline {
    length: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    fn new(length: Duration) -> Self {
        Self { length, timer: None }
    }

    fn forget(&mut self) {
        self.timer = None;
    }

    fn poll(&mut self, task: &mut Context<'_>) -> Poll<()> {
        let length = self.length;
        self.timer.get_or_insert_with(|| Box::pin(sleep(length))).as_mut().poll(task)
    }
}

/// The stream and its deadlines.
#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    pulse: Arc<Pulse>,
    head: Deadline,
    write: Deadline,
    linger: Deadline,
    lingered: usize,
}

impl Link {
    pub(super) fn new(stream: TcpStream, pulse: Arc<Pulse>, head: Duration, write: Duration) -> Self {
        let (head, write, linger) = (Deadline::new(head), Deadline::new(write), Deadline::new(LINGER.0));
        Self { stream, pulse, head, write, linger, lingered: 0 }
    }

    /// A client that takes nothing is given up.
    fn patient<T>(&mut self, task: &mut Context<'_>, written: Poll<Result<T>>) -> Poll<Result<T>> {
        if written.is_ready() {
            self.write.forget();
            return written;
        }
        ready!(self.write.poll(task));
        Poll::Ready(Err(Error::from(ErrorKind::TimedOut)))
    }
}

impl AsyncRead for Link {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let this = &mut *self;
        let read = Pin::new(&mut this.stream).poll_read(task, buffer);
        let more = buffer.filled().len() > before;
        if more && this.pulse.phase.compare_exchange(IDLE, HEAD, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            this.head.forget();
        }
        // Looked at even when a byte came: one a second is no head in time.
        if this.pulse.phase.load(Ordering::Acquire) == HEAD && this.head.poll(task).is_ready() {
            return Poll::Ready(Err(Error::from(ErrorKind::TimedOut)));
        }
        read
    }
}

impl AsyncWrite for Link {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(task, bytes);
        self.patient(task, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(task, parts);
        self.patient(task, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_shutdown(task))?;
        let this = &mut *self;
        let mut waste = [0; 8 * 1024];
        while this.pulse.unread.load(Ordering::Acquire) && this.lingered < LINGER.1 {
            if this.linger.poll(task).is_ready() {
                break;
            }
            let mut buffer = ReadBuf::new(&mut waste);
            match ready!(Pin::new(&mut this.stream).poll_read(task, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => this.lingered += buffer.filled().len(),
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}
