//! `policy explain` through a server: by its active policies. Without `--actor` it is about the token's own call.

use serde_json::{Map, Value, json};

use super::super::super::actors::supposed;
use super::super::super::exit::Side;
use super::super::super::failure::Failure;
use super::super::super::open::text;
use super::super::super::remote::Server;
use super::super::super::screen::Answer;
use super::super::args::Explain;
use super::of_call;
use crate::canonical;

pub(super) async fn run(server: &Server, args: &Explain) -> Result<Answer, Failure> {
    let foreign = [
        ("--execution", args.execution.is_some()),
        ("--file", args.file.is_some()),
        ("--actors", !args.actors.is_empty()),
    ];
    if let Some((flag, _)) = foreign.iter().find(|it| it.1) {
        let next = "describe the call by flags, or work on the server's database: `--db URL`";
        return Err(Failure::could_not_run(format!("a server explains without `{flag}`"), next));
    }
    let question = question(args)?;
    match server.post::<Value>(&["v1", "policies", "explain"], question.to_string()).await? {
        Ok(json) => of_call(&json),
        Err(error) => Ok(Answer::refused(&error, Side::Server)),
    }
}

fn question(args: &Explain) -> Result<Value, Failure> {
    let input = canonical::parse(&text("--input", &args.input)?).map_err(|faults| {
        let fault = faults.all.first().map_or("not JSON", |it| it.kind.keyword());
        Failure::invalid(format!("the input cannot be taken: {fault}"), "give JSON, each member once")
    })?;
    let mut question = Map::from_iter([("capability".to_owned(), json!(args.capability)), ("input".to_owned(), input)]);
    if let Some(name) = &args.who.actor {
        question.insert("actor".into(), actor(name)?);
    }
    let approved: Map<_, _> = args.approved.iter().map(|(kind, people)| (kind.clone(), json!(people))).collect();
    let told = [
        ("surface", args.surface.map(|it| json!(it))),
        ("client", args.client.as_ref().map(|it| json!(it))),
        ("tenant", args.tenant.as_ref().map(|it| json!(it))),
        ("at", args.now.map(|it| json!(it))),
        ("approved", (!approved.is_empty()).then(|| json!(approved))),
    ];
    question.extend(told.into_iter().filter_map(|(name, it)| Some((name.to_owned(), it?))));
    Ok(Value::Object(question))
}

/// Somebody in whose name nothing is done, described.
fn actor(name: &str) -> Result<Value, Failure> {
    let identity = supposed(name)?;
    let mut actor = json!({"tenant": identity.tenant_name()});
    if let Some(it) = identity.actor() {
        actor["id"] = json!(it.id);
        actor["kind"] = json!(it.kind);
        actor["roles"] = json!(it.roles);
        actor["scopes"] = json!(it.scopes);
        actor["attributes"] = json!(it.attributes);
        if let Some(issuer) = &it.issuer {
            actor["issuer"] = json!(issuer);
        }
    }
    Ok(actor)
}
