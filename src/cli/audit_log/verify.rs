//! `audit verify`: what is wrong with the log, if anything is.

use std::fmt::Write as _;
use std::io::BufReader;
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};

use super::args::Verify;
use super::files::{beside, database, open, read, read_text, rewrite};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::screen::{Answer, ERROR, GOOD, HINT, WARNING, table};
use crate::verify::{self, Finding, Given, GivenError, Proved, Report, VerifyError};

/// From how many events on a bar is shown, on a terminal.
const LONG: u64 = 50_000;

pub(super) async fn run(args: Verify) -> Result<Answer, Failure> {
    let mut given = keys(&args)?;
    for path in &args.checkpoints {
        given = given.checkpoints(&read_text(path)?);
    }
    for path in &args.anchors {
        given = given.anchor(&path.display().to_string(), &read_text(path)?);
    }
    for path in &args.archives {
        open(path)?;
        given = given.archive(path);
    }
    if let Some(path) = &args.from {
        given = given.from(&read_text(path)?).map_err(|it| unfit(path, it))?;
    }
    if let Some(path) = &args.proof {
        return proof(&args, path, &given);
    }
    let bar = Bar::new();
    let report = match &args.export {
        Some(path) if path.as_os_str() == "-" => {
            verify::export(std::io::stdin().lock(), &given, &mut |done, all| bar.show(done, all))
        }
        Some(path) => verify::export(BufReader::new(open(path)?), &given, &mut |done, all| bar.show(done, all)),
        None => {
            let path = database(&args.db.db)?;
            let anchor = beside(&path, ".checkpoints");
            if args.anchors.is_empty() && anchor.is_file() {
                given = given.anchor(&anchor.display().to_string(), &read_text(&anchor)?);
            }
            verify::database(&path, &given, &mut |done, all| bar.show(done, all)).await
        }
    };
    bar.clear();
    let report = report.map_err(|it| could_not(&it))?;
    if let (Some(path), Some(verified)) = (&args.save, report.verified()) {
        rewrite(path, verified, "countersign verified v1\n")?;
    }
    Ok(told(&report))
}

fn keys(args: &Verify) -> Result<Given, Failure> {
    let mut given = Given::new();
    for key in &args.keys {
        let path = Path::new(key);
        given = match given.clone().keys(key) {
            Ok(given) => given,
            Err(_) => given.keys(&read_text(path)?).map_err(|it| unfit(path, it))?,
        };
    }
    for path in &args.rotations {
        given = given.rotations(&read_text(path)?).map_err(|it| unfit(path, it))?;
    }
    Ok(given)
}

fn unfit(path: &Path, error: GivenError) -> Failure {
    Failure::could_not_run(format!("`{}`: {error}", path.display()), "name the right file")
}

fn could_not(error: &VerifyError) -> Failure {
    let cause = std::error::Error::source(error).map(|it| format!(": {it}")).unwrap_or_default();
    Failure::could_not_run(format!("{error}{cause}"), "see to what you named, then verify again")
}

fn proof(args: &Verify, path: &Path, given: &Given) -> Result<Answer, Failure> {
    let entry = args.entry.as_deref().map(read).transpose()?;
    let proved = verify::proof(&read_text(path)?, entry.as_deref(), given).map_err(|it| could_not(&it))?;
    let Proved { ok, seq, size, origin, signed, entry, .. } = &proved;
    let event: serde_json::Value = serde_json::from_slice(entry).unwrap_or_default();
    let json = serde_json::json!({
        "ok": ok, "seq": seq, "size": size, "origin": origin, "signatures": signed, "event": event,
    });
    let text = if *ok {
        let what = crate::cli::screen::pretty(&event);
        let origin = crate::cli::screen::plain(origin);
        format!("{GOOD}ok:{GOOD:#} event {seq} of {origin}, in a checkpoint of {size}\n{}{what}\n", unsigned(*signed))
    } else {
        format!("{ERROR}not proved:{ERROR:#} this is not what the checkpoint signs, or no known key signed that\n")
    };
    Ok(Answer::new(if *ok { Exit::Done } else { Exit::Failed }, &json, text))
}

fn unsigned(signatures: bool) -> String {
    if signatures {
        return String::new();
    }
    format!("{WARNING}signatures were not checked:{WARNING:#} name the log's public key with `--key`\n")
}

fn told(report: &Report) -> Answer {
    let Report { ok, events, covered, uncovered, detached, archived, signatures, findings, more, .. } = report;
    let mut text = String::new();
    let _ = if *ok {
        writeln!(text, "{GOOD}ok:{GOOD:#} {events} events are what was recorded; checkpoints cover {covered}")
    } else {
        let count = u64::try_from(findings.len()).unwrap_or(u64::MAX).saturating_add(*more);
        writeln!(text, "{ERROR}NOT what was recorded:{ERROR:#} {count} findings in {events} events")
    }; // into a String: cannot fail
    text.push_str(&unsigned(*signatures));
    if let Some(span) = detached {
        let (archive, event) = (crate::cli::screen::plain(&span.archive), span.event);
        let _ = writeln!(
            text,
            "{HINT}detached:{HINT:#} {} to {}, the last of them to `{archive}`: event {event} says so",
            span.seq, span.through
        );
        if archived.is_none() {
            text.push_str("  their hashes are in the tree; to check the events, name all archives: `--archive FILE`\n");
        }
    }
    if let Some(span) = archived {
        let _ = writeln!(text, "{HINT}archives:{HINT:#} {} to {} were read", span.seq, span.through);
    }
    if let Some(span) = uncovered {
        let _ = writeln!(
            text,
            "{HINT}not covered yet:{HINT:#} {} to {}, younger than the last checkpoint",
            span.seq, span.through
        );
    }
    if !findings.is_empty() {
        let rows: Vec<_> = findings.iter().map(row).collect();
        text.push_str(&table(&["seq", "kind", "about"], &rows));
    }
    if *more > 0 {
        let _ = writeln!(text, "and {more} more");
    }
    Answer::new(if *ok { Exit::Done } else { Exit::Failed }, report, text)
}

fn row(finding: &Finding) -> Vec<String> {
    let Finding { seq, kind, through, detail, .. } = finding;
    let place = through.map_or_else(|| seq.to_string(), |it| format!("{seq}..{it}"));
    vec![place, kind.to_string(), detail.clone().unwrap_or_default()]
}

/// On standard error, if that is a terminal, and only for what takes time.
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::no_length();
        // The template is a constant; the bar without it would do, too.
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {human_pos}/{human_len} {eta}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    pub(super) fn clear(&self) {
        self.0.finish_and_clear();
    }

    pub(super) fn show(&self, done: u64, all: u64) {
        if all >= LONG || done >= LONG {
            if all > 0 {
                self.0.set_length(all);
            }
            self.0.set_position(done);
        }
    }
}
