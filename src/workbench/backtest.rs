//! What another set would have decided of the calls on record, beside what was decided.

use serde_json::{Value, json};

use super::Recorded;
use super::change::{Changes, Side, Standing, surely};
use super::judge::judge;
use super::trail::{Again, Forecasts, Known, Replay, Replaying};
use crate::policy::{Forecast, PolicySet};
use crate::store::StoreError;

/// What a candidate would have decided otherwise.
#[derive(Debug)]
pub(crate) struct Backtest {
    pub(crate) replay: Replay,
    pub(crate) changes: Changes,
}

/// # Errors
/// If the store cannot be read; or, inside, a fault of the engine: what it could not rewrite.
pub(crate) async fn backtest(
    candidate: &PolicySet,
    replaying: &Replaying<'_>,
    progress: &mut dyn FnMut(usize),
) -> Result<Result<Backtest, String>, StoreError> {
    let forecasts = match Forecasts::new(candidate, &replaying.core.registry) {
        Ok(forecasts) => forecasts,
        Err(what) => return Ok(Err(what)),
    };
    let mut ask = |record: &Recorded, known: &Known| match known {
        Known::All(question) => {
            let ruling = judge(candidate, question).ruling;
            against(record, &Standing::of(&ruling), Side::of(&ruling))
        }
        Known::Early { identity, capability } => {
            let forecast = forecasts.of(capability, identity, record.at);
            forecast.map_or(Again::Open, |it| before_input(record, &it))
        }
    };
    let mut changes = Changes::default();
    let replay = replaying.run(&mut changes, progress, &mut ask).await?;
    Ok(Ok(Backtest { replay, changes }))
}

fn against(record: &Recorded, now: &Standing, after: Side) -> Again {
    let Some(then) = Standing::on_record(record) else { return Again::Open };
    match then.change_to(now) {
        None => Again::Same,
        Some(class) => Again::Changed(class, Side::new(then.to_string(), &record.policies), after),
    }
}

/// What is certain whatever the input was.
fn before_input(record: &Recorded, forecast: &Forecast) -> Again {
    if let Some(now) = Standing::certain(&forecast.outlook) {
        return against(record, &now, Side::foretold(forecast));
    }
    let changed = Standing::on_record(record).and_then(|it| {
        let class = surely(&it, &forecast.outlook, record.presented)?;
        Some(Again::Changed(class, Side::new(it.to_string(), &record.policies), Side::foretold(forecast)))
    });
    changed.unwrap_or(Again::Open)
}

impl Backtest {
    /// For machines.
    pub(crate) fn json(&self, candidate: &PolicySet) -> Value {
        let Self { replay, changes } = self;
        json!({
            "candidate": &**candidate.hash(),
            "replay": replay,
            "counts": changes.counts,
            "changes": changes.listed,
            "more": changes.count() - changes.listed.len(),
        })
    }
}
