//! `audit prove`: one event with its way to a signed root.

use serde_json::json;

use super::args::Prove;
use super::files::{database, open, rewrite};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::screen::{Answer, facts};
use crate::ledger::{LedgerError, prove};
use crate::store::LogReader;

/// The event's text, from the archive or from the database.
async fn body(args: &Prove, log: &LogReader) -> Result<Option<String>, Failure> {
    let Some(path) = &args.archive else {
        let bodies = log.bodies(args.seq - 1, 1).await.map_err(|it| Failure::of_trail(&it))?;
        return Ok(bodies.into_iter().find(|(seq, _)| *seq == args.seq).map(|it| it.1));
    };
    let found = crate::verify::event_of(std::io::BufReader::new(open(path)?), args.seq);
    found.map_err(|it| Failure::could_not_run(format!("`{}` cannot be read: {it}", path.display()), "name an archive"))
}

pub(super) async fn run(args: Prove) -> Result<Answer, Failure> {
    let log = LogReader::open(&database(&args.db.db)?);
    let Some(body) = body(&args, &log).await? else {
        let detached = log.detached().await.map_err(|it| Failure::of_trail(&it))?;
        let (cause, next) = if let Some(archive) = &args.archive {
            let next = "name the archive that has it: `countersign audit retain status`";
            (format!("event {} is not in `{}`", args.seq, archive.display()), next)
        } else if args.seq > detached {
            (format!("there is no event {}", args.seq), "see which events there are: `countersign audit list`")
        } else {
            let next = "name its archive: `--archive FILE`; `countersign audit retain status` says which one that is";
            (format!("event {} has left the database", args.seq), next)
        };
        return Err(Failure::could_not_run(cause, next));
    };
    let seq = u64::try_from(args.seq).unwrap_or(0);
    let proof = match prove(&log, seq, &body).await {
        Ok(Some(proof)) => proof,
        Ok(None) => {
            let next = "sign one: `countersign audit checkpoint`";
            return Err(Failure::could_not_run(format!("no checkpoint covers event {} yet", args.seq), next));
        }
        Err(error @ LedgerError::Refused(_)) => {
            let next = "look into it: `countersign audit verify`";
            return Err(Failure::could_not_run(error.to_string(), next));
        }
        Err(error) => return Err(Failure::could_not_run(error.to_string(), "see to the database, then try again")),
    };
    let json = json!({"seq": seq, "proof": proof, "entry": body});
    let text = match &args.out {
        None => proof,
        Some(path) => {
            rewrite(path, &proof, "c2sp.org/tlog-proof@v1\n")?;
            facts(&[("proof", path.display().to_string()), ("of event", seq.to_string())])
        }
    };
    Ok(Answer::new(Exit::Done, &json, text))
}
