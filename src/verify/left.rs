//! What has left the database: whether the log says so, and what archives have of it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use super::VerifyError;
use super::archive::{Archive, Archived};
use super::database::stored_peaks;
use super::given::Given;
use super::hash::{Tree, leaf};
use super::report::{Detached, FindingKind, Findings, number};
use super::tiles::Tiles;
use super::walk::Walk;
use crate::store::Evidence;

/// By the last event that says how far the log was detached.
#[derive(Default)]
pub(super) struct Left {
    /// The last event that is missing since it left; everything before it is, too.
    through: u64,
    /// The place of the event that says so, and what it says.
    said: Option<(i64, Said)>,
}

#[derive(Deserialize)]
struct Event {
    data: Said,
}

#[derive(Deserialize)]
struct Said {
    through: u64,
    #[serde(default)]
    root: String,
    #[serde(default)]
    archive: String,
    #[serde(default)]
    digest: String,
}

impl Left {
    pub(super) async fn find(evidence: &mut Evidence) -> Result<Self, VerifyError> {
        let Some((seq, body)) = evidence.detached().await? else { return Ok(Self::default()) };
        let event = body.and_then(|it| serde_json::from_slice::<Event>(&it).ok());
        let Some(Event { data }) = event else { return Ok(Self::default()) };
        let first = evidence.rows(0, 1).await?.first().map_or(0, |it| u64::try_from(it.seq).unwrap_or(0));
        Ok(Self { through: data.through.min(first.saturating_sub(1)), said: Some((seq, data)) })
    }

    pub(super) fn through(&self) -> u64 {
        self.through
    }

    /// What left must end with a checkpoint that counts, of the tree that the event names.
    pub(super) async fn check(&self, evidence: &mut Evidence, walk: &mut Walk, start: u64) -> Result<(), VerifyError> {
        let Some((seq, said)) = self.said.as_ref().filter(|_| self.through > start) else { return Ok(()) };
        if !walk.marks().iter().any(|it| it.head.size == said.through) {
            let told = "what is detached does not end with a checkpoint";
            walk.findings.told(said.through, FindingKind::Checkpoint, told);
        }
        // A tree that is not whole is told elsewhere.
        if let Ok(peaks) = stored_peaks(evidence, said.through).await {
            let root = Tree::of(said.through, &peaks).map(|it| BASE64_STANDARD.encode(it.root()));
            if root.as_ref() != Some(&said.root) {
                walk.findings.at_number(*seq, FindingKind::Tree);
            }
        }
        Ok(())
    }

    /// Holds every line of every archive against the tree; against the rows where there is none yet.
    pub(super) async fn archived(
        &self,
        evidence: &mut Evidence,
        findings: &mut Findings,
        given: &Given,
        start: u64,
    ) -> Result<Archived, VerifyError> {
        let mut archived = Archived::default();
        for path in &given.archives {
            let (mut archive, mut tiles) = (Archive::open(path)?, None);
            while let Some(line) = archive.next(findings)? {
                let tiles = tiles.get_or_insert_with(|| Tiles::from(line.seq - 1));
                let expected = match tiles.at(line.seq - 1, evidence).await? {
                    Some(hash) => Some(hash),
                    None => row(evidence, line.seq).await?,
                };
                match expected {
                    Some(hash) if hash == line.hash => {}
                    Some(_) => findings.told(line.seq, FindingKind::Edited, archive.name()),
                    None => findings.told(line.seq, FindingKind::Inserted, archive.name()),
                }
            }
            archived.add(&archive);
        }
        // What is still there of what may leave is in the archives already.
        let said = self.said.as_ref().map_or(0, |it| it.1.through);
        let (from, through) = given.part.unwrap_or((start + 1, if given.are_all { said } else { start }));
        archived.check(from, through, findings);
        Ok(archived)
    }

    /// What is behind the start.
    pub(super) fn report(&self, start: u64) -> Option<Detached> {
        let (event, said) = self.said.as_ref().filter(|_| self.through > start)?;
        let (archive, digest) = (said.archive.clone(), said.digest.clone());
        Some(Detached { seq: number(start + 1), through: number(self.through), event: *event, archive, digest })
    }
}

async fn row(evidence: &mut Evidence, seq: u64) -> Result<Option<super::hash::Hash>, VerifyError> {
    let rows = evidence.rows(number(seq - 1), 1).await?;
    let row = rows.into_iter().next().filter(|it| it.seq == number(seq));
    Ok(row.map(|it| leaf(it.body.as_deref().unwrap_or_default())))
}
