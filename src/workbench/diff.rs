//! Two policy sets, and what is decided otherwise by the second one: in cases, in the matrix, and of what was asked for
//! real.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use super::change::{About, Change, Changes, Class, Side, Standing, of_forecasts, surely};
use super::judge::{Ruling, judge};
use super::matrix::{Cell, matrix};
use super::suite::{Planned, Suite};
use super::trail::{Again, Forecasts, Known, Replay, Replaying};
use super::{Recorded, World};
use crate::actor::Surface;
use crate::clock::Timestamp;
use crate::policy::{Differences, Forecast, Outlook, PolicySet};
use crate::store::StoreError;

/// Two sets for the same capabilities.
#[derive(Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) old: &'a PolicySet,
    pub(crate) new: &'a PolicySet,
}

/// What the second set does otherwise.
pub(crate) struct Diff<'a> {
    pair: Pair<'a>,
    pub(crate) policies: Differences,
    pub(crate) changes: Changes,
    pub(crate) asked: Asked,
    /// What became of the trail, if that was asked.
    pub(crate) replay: Option<Replay>,
}

/// How many questions both sets were asked.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Asked {
    pub(crate) cases: usize,
    pub(crate) matrix: usize,
}

impl<'a> Diff<'a> {
    pub(crate) fn new(pair: Pair<'a>) -> Self {
        let policies = pair.new.said().differences(pair.old.said());
        Self { pair, policies, changes: Changes::default(), asked: Asked::default(), replay: None }
    }

    /// The cases beside the new set, and those beside the old one that the new one has not, by file and name.
    pub(crate) fn cases(&mut self, old: Option<&Suite>, new: Option<&Suite>) {
        let (old, new) = (old.map_or(&[][..], Suite::cases), new.map_or(&[][..], Suite::cases));
        let known: BTreeSet<_> = new.iter().map(|it| (&it.file, &it.name)).collect();
        let gone = old.iter().filter(|it| !known.contains(&(&it.file, &it.name)));
        let all: Vec<&Planned> = new.iter().chain(gone).collect();
        self.asked.cases = all.len();
        for Planned { file, line, name, asked, .. } in all {
            let (before, after) = (asked.ruling(self.pair.old), asked.ruling(self.pair.new));
            let about = About::Case { file: file.clone(), line: *line, name: name.clone() };
            if let Some((class, before, after)) = of_rulings(&before, &after) {
                self.changes.push(Change { class, about, before, after, input: None });
            }
        }
    }

    /// Everybody of the world's cast, for every capability, on these surfaces.
    ///
    /// # Errors
    /// As for [`matrix`].
    pub(crate) fn matrix(&mut self, world: &World, surfaces: &[Surface], now: Timestamp) -> Result<(), String> {
        let before = matrix(self.pair.old, world, surfaces, now)?;
        let after = matrix(self.pair.new, world, surfaces, now)?;
        self.asked.matrix = after.len();
        for (before, after) in before.into_iter().zip(after) {
            let Some(class) = self.of_forecasts(&before.forecast, &after.forecast) else { continue };
            let before = Side::foretold(&before.forecast);
            let Cell { surface, capability, actor, forecast } = after;
            let (about, after) = (About::Matrix { surface, capability, actor }, Side::foretold(&forecast));
            self.changes.push(Change { class, about, before, after, input: None });
        }
        Ok(())
    }

    fn of_forecasts(&self, before: &Forecast, after: &Forecast) -> Option<Class> {
        of_forecasts(before, after).or_else(|| (!self.is_alike(before, after)).then_some(Class::Unclear))
    }

    /// Whether it is the same of every input: the outlook is, and if it depends on the input the policies behind it are.
    fn is_alike(&self, before: &Forecast, after: &Forecast) -> bool {
        let depends = matches!(after.outlook, Outlook::Approval(_) | Outlook::Sometimes(_));
        let mut behind = before.policies.iter().chain(&after.policies);
        before.outlook == after.outlook && !(depends && behind.any(|it| self.policies.has(&it.id)))
    }

    /// What was asked for real.
    ///
    /// # Errors
    /// If the store cannot be read; or, inside, a fault of the engine: what it could not rewrite.
    pub(crate) async fn trail(
        &mut self,
        replaying: &Replaying<'_>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Result<(), String>, StoreError> {
        let registry = &replaying.core.registry;
        let forecasts =
            Forecasts::new(self.pair.old, registry).and_then(|old| Ok((old, Forecasts::new(self.pair.new, registry)?)));
        let (old, new) = match forecasts {
            Ok(both) => both,
            Err(what) => return Ok(Err(what)),
        };
        let mut changes = std::mem::take(&mut self.changes);
        let mut ask = |record: &Recorded, known: &Known| match known {
            Known::All(question) => {
                let (before, after) = (judge(self.pair.old, question).ruling, judge(self.pair.new, question).ruling);
                of_rulings(&before, &after)
                    .map_or(Again::Same, |(class, before, after)| Again::Changed(class, before, after))
            }
            Known::Early { identity, capability } => {
                let of = |it: &Forecasts<'_>| it.of(capability, identity, record.at);
                of(&old).zip(of(&new)).map_or(Again::Open, |(old, new)| self.again(record, &old, &new))
            }
        };
        let replay = replaying.run(&mut changes, progress, &mut ask).await;
        self.changes = changes;
        self.replay = Some(replay?);
        Ok(Ok(()))
    }

    /// What is certain whatever the input was.
    fn again(&self, record: &Recorded, before: &Forecast, after: &Forecast) -> Again {
        let class = match (Standing::certain(&before.outlook), Standing::certain(&after.outlook)) {
            (Some(one), Some(two)) => match one.change_to(&two) {
                Some(class) => Some(class),
                None => return Again::Same,
            },
            (Some(one), None) => surely(&one, &after.outlook, record.presented),
            (None, Some(two)) => surely(&two, &before.outlook, record.presented).map(Class::turned),
            (None, None) => None,
        };
        match class {
            Some(class) => Again::Changed(class, Side::foretold(before), Side::foretold(after)),
            None if self.is_alike(before, after) => Again::Same,
            None => Again::Open,
        }
    }

    /// Policies that say something else, and are behind no decision that changed.
    pub(crate) fn neutral(&self) -> Vec<&String> {
        self.policies.all().filter(|it| !self.changes.policies.contains(*it)).collect()
    }

    /// For machines.
    pub(crate) fn json(&self) -> Value {
        json!({
            "old": &**self.pair.old.hash(),
            "new": &**self.pair.new.hash(),
            "schemaChanged": self.schema_changed(),
            "policies": {
                "added": self.policies.added,
                "removed": self.policies.removed,
                "changed": self.policies.changed,
                "neutral": self.neutral(),
            },
            "asked": self.asked,
            "replay": self.replay,
            "counts": self.changes.counts,
            "changes": self.changes.listed,
            "more": self.changes.count() - self.changes.listed.len(),
        })
    }

    /// Whether the application's types are others.
    pub(crate) fn schema_changed(&self) -> bool {
        self.pair.old.schema_text() != self.pair.new.schema_text()
    }
}

fn of_rulings(before: &Ruling, after: &Ruling) -> Option<(Class, Side, Side)> {
    let class = Standing::of(before).change_to(&Standing::of(after))?;
    Some((class, Side::of(before), Side::of(after)))
}
