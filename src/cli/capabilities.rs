//! `capabilities list|show`; `snapshot|check` are in `drift`.

use serde::Deserialize;
use serde_json::{Value, json};

use super::actors::identity;
use super::args::{Capabilities, CapabilitiesCommand, View};
use super::drift;
use super::exit::{Exit, Side};
use super::failure::Failure;
use super::open::{Database, Session, registry};
use super::place::Where;
use super::remote::Asked;
use super::screen::{Answer, STRONG, facts, plain, pretty, table};
use crate::builder::Role;
use crate::capability::Governed;
use crate::{Descriptor, Error, ErrorCode, Filter, RequiresApproval, Surface};

pub(super) async fn run(args: Capabilities) -> Result<Answer, Failure> {
    match args.command {
        CapabilitiesCommand::List { view, tags } => list(&view, tags).await,
        CapabilitiesCommand::Show { capability, view } => show(&view, &capability).await,
        CapabilitiesCommand::Snapshot(args) => drift::snapshot(&args),
        CapabilitiesCommand::Check(args) => drift::check(&args),
    }
}

async fn list(view: &View, tags: Vec<String>) -> Result<Answer, Failure> {
    let place = find(view)?;
    if let (Where::Database(_), None) = (&place, &view.who.actor) {
        let (registry, filter) = (registry()?, Filter::tags(tags));
        let all: Vec<_> = registry.all().iter().filter(|it| filter.matches(it)).collect();
        let rows: Vec<_> = all.iter().map(|it| operator_row(it)).collect();
        let text = table(&["capability", "effect", "risk", "exposed on", "description"], &rows);
        return Ok(Answer::list(&all.iter().map(|it| operator_json(it)).collect::<Vec<_>>(), text));
    }
    let (listed, side) = listed(place, view, tags, None).await?;
    Ok(match listed {
        Ok(all) if all.is_empty() => Answer::list(&all, "This actor could get nothing allowed here.\n"),
        Ok(all) => {
            let rows: Vec<_> = all.iter().map(actor_row).collect();
            Answer::list(&all, table(&["capability", "effect", "risk", "approval", "description"], &rows))
        }
        Err(error) => Answer::refused(&error, side),
    })
}

async fn show(view: &View, id: &str) -> Result<Answer, Failure> {
    let place = find(view)?;
    if let (Where::Database(_), None) = (&place, &view.who.actor) {
        let registry = registry()?;
        return Ok(registry.get(id).map_or_else(|| Answer::refused(&missing(id), Side::Database), |it| whole(it)));
    }
    let (found, side) = listed(place, view, Vec::new(), Some(id)).await?;
    Ok(match found.map(|all| all.into_iter().find(|it| *it.id == *id)) {
        Ok(Some(it)) => {
            let text = about(&it.id, &it.description, &actor_row(&it), &it.input_schema);
            Answer::new(Exit::Done, &it, text)
        }
        Ok(None) => Answer::refused(&missing(id), side),
        Err(error) => Answer::refused(&error, side),
    })
}

fn find(view: &View) -> Result<Where, Failure> {
    view.place.find(&[("--actor", view.who.actor.is_some()), ("--surface", view.surface.is_some())])
}

/// What an actor could get allowed. Looking is on record.
async fn listed(
    place: Where,
    view: &View,
    tags: Vec<String>,
    id: Option<&str>,
) -> Result<(Asked<Vec<Descriptor>>, Side), Failure> {
    match place {
        Where::Server(server) => {
            let tags = tags.into_iter().map(|it| ("tag", Some(it)));
            let query: Vec<_> = tags.chain([("id", id.map(str::to_owned))]).collect();
            let found = server.get::<Listing>(&["v1", "capabilities"], &query).await?;
            Ok((found.map(|it| it.capabilities), Side::Server))
        }
        Where::Database(db) => {
            let filter = id.map_or_else(|| Filter::tags(tags), |id| Filter::all().ids([id]));
            let identity = identity(view.who.actor.as_deref())?;
            let session = Session::open(&db, &view.place, Role::Looks, Database::Existing).await?;
            let caller = session.caller(identity, view.surface.unwrap_or(Surface::Direct));
            let listed = caller.capabilities(filter).await;
            session.close().await;
            Ok((listed, Side::Database))
        }
    }
}

/// What a server answers.
#[derive(Deserialize)]
struct Listing {
    capabilities: Vec<Descriptor>,
}

/// The same answer for what is not there and what is not shown (INV-7).
fn missing(id: &str) -> Error {
    let message = format!("There is no capability `{id}`.");
    Error { code: ErrorCode::CapabilityNotFound, message, retryable: false, details: Vec::new() }
}

fn operator_row(it: &Governed) -> Vec<String> {
    let surfaces: Vec<_> = it.meta.expose.iter().map(|it| it.as_str()).collect();
    let surfaces = if surfaces.is_empty() { "nowhere (staged)".into() } else { surfaces.join(" ") };
    let (effect, risk) = (it.side_effect.as_str().into(), it.risk.as_str().into());
    vec![it.id.to_string(), effect, risk, surfaces, it.meta.description.clone()]
}

fn operator_json(it: &Governed) -> Value {
    json!({
        "id": it.id,
        "description": it.meta.description,
        "inputSchema": it.input_schema,
        "outputSchema": it.output_schema,
        "sideEffect": it.side_effect,
        "risk": it.risk,
        "tags": it.meta.tags,
        "expose": it.meta.expose,
        "toolName": it.tool_name,
        "errors": it.meta.errors,
    })
}

fn actor_row(it: &Descriptor) -> Vec<String> {
    let approval = match it.requires_approval {
        RequiresApproval::Always => "always",
        RequiresApproval::Sometimes => "sometimes",
        RequiresApproval::Never => "never",
    };
    let (effect, risk) = (it.side_effect.as_str().into(), it.risk.as_str().into());
    vec![it.id.to_string(), effect, risk, approval.into(), it.description.clone()]
}

fn whole(it: &Governed) -> Answer {
    let about = about(&it.id, &it.meta.description, &operator_row(it), &it.input_schema);
    let text = format!("{about}output schema\n{}\n", plain(&pretty(&it.output_schema)));
    Answer::new(Exit::Done, &operator_json(it), text)
}

fn about(id: &str, description: &str, row: &[String], input_schema: &Value) -> String {
    let shown = facts(&[("effect", row[1].clone()), ("risk", row[2].clone()), ("shown or gated", row[3].clone())]);
    let schema = plain(&pretty(input_schema));
    format!("{STRONG}{}{STRONG:#}\n{}\n{shown}input schema\n{schema}\n", plain(id), plain(description))
}
