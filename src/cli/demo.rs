//! `demo`: the whole story, on a temporary database. It is a story that checks itself: a step that comes out otherwise
//! ends the command with an error.

mod script;
mod step;
mod teller;

use std::time::Duration;

use serde_json::{Value, json};

use super::args::Demo;
use super::audit::numbered;
use super::exit::Exit;
use super::failure::Failure;
use super::screen::{Answer, print};
use crate::Engine;
use crate::builder::Role;
use crate::demo::{self, Desk};
use crate::store::{EventFilter, StoreError};

use script::SCENES;
use step::{Stage, Step};

/// How many events are read at once.
const PAGE: usize = 500;

pub(super) async fn run(args: Demo) -> Result<Answer, Failure> {
    let directory = tempfile::tempdir().map_err(|error| {
        Failure::could_not_run(format!("no temporary directory: {error}"), "make room in it, or set TMPDIR to another")
    })?;
    let url = format!("sqlite:{}", directory.path().join("demo.db").display());
    let built = demo::builder().database(url).role(Role::Visits).build().await;
    let engine = built.map_err(|error| Failure::of_engine(&error))?;
    let tells = !args.format.json;
    if tells {
        print(&teller::opening());
    }
    let (steps, wrong) = play(&engine, tells).await;
    let trail = trail(&engine).await;
    engine.shutdown(Duration::from_secs(5)).await;
    let trail = trail.map_err(|error| {
        Failure::could_not_run(format!("the trail cannot be read: {error}"), "run `countersign demo` again")
    })?;
    let wrong = wrong.or_else(|| step::check_trail(&steps, &trail).err());
    let json = json!({
        "steps": steps.iter().map(|it| json!({"name": it.name, "outcome": it.outcome})).collect::<Vec<Value>>(),
        "trail": trail.iter().map(|(seq, body)| json!(numbered(*seq, body))).collect::<Vec<Value>>(),
    });
    let text = teller::closing(&trail, wrong.as_deref());
    let exit = if wrong.is_none() { Exit::Done } else { Exit::Failed };
    if let Some(wrong) = wrong.filter(|_| !tells) {
        super::screen::print_error(&format!("error: {wrong}\n  next: report it, with this output\n"));
    }
    Ok(Answer::new(exit, &json, text))
}

/// Plays every scene, whatever becomes of it; the first wrong outcome is the second part.
async fn play(engine: &Engine<Desk>, tells: bool) -> (Vec<Step>, Option<String>) {
    let (mut stage, mut wrong) = (Stage::new(engine), None);
    for (number, scene) in (1..).zip(&SCENES) {
        if tells {
            print(&teller::before(number, scene));
        }
        let step = stage.play(scene).await;
        let checked = step::check(scene, &step, stage.steps());
        if tells {
            print(&teller::after(scene, &step));
        }
        if let Err(what) = checked {
            wrong = wrong.or_else(|| Some(format!("step `{}`: {what}", scene.name)));
        }
        stage.keep(step);
    }
    (stage.into_steps(), wrong)
}

/// Every event, in order.
async fn trail(engine: &Engine<Desk>) -> Result<Vec<(i64, String)>, StoreError> {
    let (mut filter, mut all) = (EventFilter::default(), Vec::new());
    loop {
        let page = engine.core.store.events(&filter, PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(all) };
        filter.after_seq = *last;
        all.extend(page);
    }
}
