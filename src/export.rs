//! The log, sent elsewhere: in order, at least once, going on where it was. Nothing is ever left out: what the other side
//! does not take holds up what comes behind it, and shows.

mod beside;
mod cloudevents;
mod file;
mod form;
mod ocsf;
mod otel;
mod webhook;

use std::io::{self, Write};

pub(crate) use self::beside::{Checkpoints, beside, is_of_database, with};
pub(crate) use self::file::{FileSink, sync_directory};
pub(crate) use self::form::Form;
pub(crate) use self::webhook::Webhook;
use crate::store::op::Export as Step;
use crate::store::{LogReader, Store, StoreError};

/// The most bytes of events that are handed over at once; one event is always.
const MAX_BYTES: usize = 1024 * 1024;

/// An event with its place and hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) seq: i64,
    /// The bytes that were hashed.
    pub(crate) body: String,
    /// Lower-case hexadecimal.
    pub(crate) leaf: String,
}

/// Some consecutive events in the form that was asked for.
#[derive(Debug)]
pub(crate) struct Batch {
    first: i64,
    last: i64,
    /// One line an event, without its end.
    lines: Vec<String>,
}

/// Why an export does not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    /// The database cannot be read or written now.
    #[error("the database is not available")]
    Store(#[from] StoreError),
    /// What was to go out has left the database.
    #[error("events up to {0} have left the database")]
    Detached(i64),
    /// The log has a hole there that nobody accounts for.
    #[error("event {0} is missing, and has not left for an archive")]
    Missing(i64),
    /// A row of the log has no event in it.
    #[error("event {0} is no event")]
    NoEvent(i64),
    /// Somebody else uses the same cursor.
    #[error("the cursor was moved or forgotten by somebody else")]
    Moved,
    /// The other side has not taken it, or nobody knows.
    #[error("{0}")]
    Sink(#[from] SinkError),
}

impl ExportError {
    /// Whether the cursor stays where it is for it, until somebody sees to it.
    fn is_held_up(&self) -> bool {
        match self {
            Self::Detached(_) | Self::Missing(_) | Self::NoEvent(_) | Self::Sink(_) => true,
            Self::Store(_) | Self::Moved => false,
        }
    }
}

/// Why the other side has not taken what it was given, as far as is known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SinkError {
    /// It cannot be written.
    #[error("it cannot be written: {0}")]
    Io(#[source] io::Error),
    /// Nobody reads any more.
    #[error("nobody reads any more")]
    Gone,
    /// The file does not go on from where the export does.
    #[error("{0}")]
    Unfit(String),
    /// Never the client's own text, which carries the URL.
    #[error("{0}")]
    Unreachable(&'static str),
    /// What it answered, by its status alone.
    #[error("status {0}")]
    Answered(u16),
}

impl SinkError {
    /// Whether it may be taken later.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Answered(_) => true,
            Self::Io(_) | Self::Gone | Self::Unfit(_) => false,
        }
    }
}

/// Where events go.
pub(crate) enum Sink {
    /// Something that is written and flushed.
    Stream(Box<dyn Write + Send>),
    File(FileSink),
    Webhook(Webhook),
}

impl Sink {
    /// Returns when the other side has it, for certain.
    async fn take(&mut self, form: Form, batch: &Batch) -> Result<(), SinkError> {
        match self {
            Self::Stream(out) => {
                let written = out.write_all(Form::text(&batch.lines).as_bytes()).and_then(|()| out.flush());
                written.map_err(|it| {
                    if it.kind() == io::ErrorKind::BrokenPipe { SinkError::Gone } else { SinkError::Io(it) }
                })
            }
            Self::File(file) => file.append(&Form::text(&batch.lines)).map_err(SinkError::Io),
            Self::Webhook(webhook) => webhook.send(form, batch).await,
        }
    }

    /// Where to, without secrets.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Stream(_) => "stdout".into(),
            Self::File(file) => format!("file:{}", file.path().display()),
            Self::Webhook(webhook) => webhook.name(),
        }
    }
}

/// An export that is on its way.
pub(crate) struct Exporter<'a> {
    pub(crate) log: LogReader,
    /// The cursor that is moved, if there is one, and the store that has it.
    pub(crate) cursor: Option<(&'a Store, String)>,
    pub(crate) form: Form,
    /// `source` of CloudEvents.
    pub(crate) source: String,
    pub(crate) sink: Sink,
    /// The last event that the other side has.
    pub(crate) at: i64,
    /// The last one that it is to get, if that is not the end of the log.
    pub(crate) until: i64,
    /// The most events that are handed over at once.
    pub(crate) portion: usize,
}

impl Exporter<'_> {
    /// Hands over all that there is by now; how many events.
    ///
    /// # Errors
    /// With what was handed over until then in [`Self::at`]; that an attempt failed is on record, too.
    pub(crate) async fn round(&mut self) -> Result<u64, ExportError> {
        let mut count = 0;
        loop {
            let batch = match self.hand_over().await {
                Ok(Some(batch)) => batch,
                Ok(None) => return Ok(count),
                Err(error) => return Err(self.stopped(error).await),
            };
            self.advance(batch.last).await?;
            count += u64::try_from(batch.lines.len()).unwrap_or(0);
        }
    }

    /// What comes next, once the other side has it.
    async fn hand_over(&mut self) -> Result<Option<Batch>, ExportError> {
        let rows = self.log.exported(self.at, self.until, self.portion).await?;
        self.check_next(self.at, rows.first().map(|it| it.0)).await?;
        let Some(batch) = self.batch(rows)? else { return Ok(None) };
        self.sink.take(self.form, &batch).await?;
        Ok(Some(batch))
    }

    /// Whether the log goes on right behind a place, as far as it is to go out: never a silent gap.
    ///
    /// # Errors
    /// If something is missing there, or has left.
    pub(crate) async fn check(&self, after: i64) -> Result<(), ExportError> {
        let rows = self.log.exported(after, self.until, 1).await?;
        self.check_next(after, rows.first().map(|it| it.0)).await
    }

    /// The same, with the first event behind it that is to go out.
    async fn check_next(&self, after: i64, next: Option<i64>) -> Result<(), ExportError> {
        if next == Some(after + 1) || after >= self.until {
            return Ok(());
        }
        let next = match next {
            None if self.until < i64::MAX => self.log.exported(after, i64::MAX, 1).await?.first().map(|it| it.0),
            next => next,
        };
        // What has left is in an archive, and not in this export.
        let gone = self.log.detached().await?.min(next.map_or(i64::MAX, |it| it - 1));
        match next {
            _ if gone > after => Err(ExportError::Detached(gone)),
            Some(next) if next > after + 1 => Err(ExportError::Missing(after + 1)),
            Some(_) | None => Ok(()),
        }
    }

    fn batch(&self, rows: Vec<(i64, String, String)>) -> Result<Option<Batch>, ExportError> {
        let (mut batch, mut bytes) = (Batch { first: 0, last: self.at, lines: Vec::new() }, 0);
        for (seq, body, leaf) in rows {
            let line = if seq == batch.last + 1 {
                self.form.line(&Entry { seq, body, leaf }, &self.source).ok_or(ExportError::NoEvent(seq))
            } else {
                Err(ExportError::Missing(batch.last + 1))
            };
            let line = match line {
                Ok(line) => line,
                Err(_) if !batch.lines.is_empty() => break, // what is before it goes out first
                Err(error) => return Err(error),
            };
            bytes += line.len();
            if bytes > MAX_BYTES && !batch.lines.is_empty() {
                break;
            }
            if batch.lines.is_empty() {
                batch.first = seq;
            }
            batch.last = seq;
            batch.lines.push(line);
        }
        Ok((!batch.lines.is_empty()).then_some(batch))
    }

    /// The other side has everything up to there.
    pub(crate) async fn advance(&mut self, to: i64) -> Result<(), ExportError> {
        if let Some((store, name)) = &self.cursor {
            let step = Step::Move { name: name.clone(), from: self.at, to, sink: self.sink.name() };
            if !store.export(step).await? {
                // A commit that nobody could be sure of is done again: then it is where it was to be.
                let found = self.log.cursors(Some(name)).await?;
                if found.first().is_none_or(|it| it.seq != to) {
                    return Err(ExportError::Moved);
                }
            }
        }
        self.at = to;
        Ok(())
    }

    /// What is to be told of what holds it up, which is on record then.
    async fn stopped(&self, error: ExportError) -> ExportError {
        let Some((store, name)) = self.cursor.as_ref().filter(|_| error.is_held_up()) else { return error };
        let step = Step::Stop { name: name.clone(), from: self.at, failure: error.to_string() };
        match store.export(step).await {
            Ok(true) => error,
            Ok(false) => ExportError::Moved,
            Err(error) => error.into(),
        }
    }
}
