//! `policy explain`: why a call comes out as it does.

mod look;
mod there;

use serde::Deserialize as _;
use serde_json::{Value, json};

use self::look::{Asked, Explained, exit};
use super::super::actors::supposed;
use super::super::failure::Failure;
use super::super::open::{Database, Session, registry, text};
use super::super::place::Where;
use super::super::screen::{Answer, STRONG, WARNING, facts, plain};
use super::args::Explain;
use super::set::{file, loaded, world};
use super::told::shown;
use crate::Surface;
use crate::builder::Role;
use crate::caller::JsonInput;
use crate::clock::Clock;
use crate::policy::PolicySet;
use crate::workbench::{Asked as Posed, Cast, Question, Recorded, Word, World, explain, one_case, recorded};

/// Only what is on record needs a database.
pub(super) async fn run(args: Explain) -> Result<Answer, Failure> {
    match (args.place.find(&[])?, &args.execution) {
        (Where::Server(server), _) => there::run(&server, &args).await,
        (Where::Database(db), Some(id)) => on_record(&db, &args, id).await,
        (Where::Database(_), None) => supposed_call(&args),
    }
}

fn supposed_call(args: &Explain) -> Result<Answer, Failure> {
    let world = world(registry()?, &args.actors)?;
    let set = loaded(args.place.policies.as_deref(), &world.registry)?;
    let question = match &args.file {
        Some(path) => {
            let file = file(path)?;
            let asked = one_case(&file, &world).map_err(Failure::of_cases)?;
            match asked {
                Posed::Call(question) => *question,
                Posed::Manage(_) => {
                    let next = "leave `manage` out, or put it among the cases of `policy test`";
                    return Err(Failure::invalid(format!("`{}` describes no call", path.display()), next));
                }
            }
        }
        None => from_flags(args, &world)?,
    };
    let explanation = explain(&set, &question, &world.cast);
    of_call(&explanation.json_of(&question, &set))
}

/// A call and its explanation, whoever explained it.
fn of_call(json: &Value) -> Result<Answer, Failure> {
    let (Ok(asked), Ok(explained)) = (Asked::deserialize(json), Explained::deserialize(json)) else {
        let next = "see that client and server are of the same version; `--json` shows it as it is";
        return Err(Failure::could_not_run("the explanation is written in another way than this version reads", next));
    };
    Ok(Answer::new(exit(&explained.word()), json, asked.text(&explained) + &explained.whole()))
}

fn from_flags(args: &Explain, world: &World) -> Result<Question, Failure> {
    let next = "name one of dana, priya, omar, nightly, anonymous, or a JSON file: `--actor NAME|FILE`";
    let name = args.who.actor.as_deref().ok_or_else(|| Failure::could_not_run("there is no actor", next))?;
    let mut identity = supposed(name)?.on(args.surface.unwrap_or(Surface::Direct));
    if let Some(tenant) = &args.tenant {
        identity = identity.tenant(tenant.as_str());
    }
    if let Some(client) = &args.client {
        identity = identity.client(client);
    }
    if !identity.is_sound() {
        let next = "write 1 to 512 bytes without control characters, or leave it out";
        return Err(Failure::invalid("no call has such a tenant or client", next));
    }
    let id = args.capability.as_deref().unwrap_or_default();
    let capability = world.capability(id).map_err(|it| Failure::could_not_run(it.what, it.help))?;
    let now = args.now.unwrap_or_else(|| Clock::System.now());
    let approved = args.approved.iter().cloned().collect();
    let covers = (!args.approved.is_empty()).then(|| Question::approved(approved, now));
    let input = JsonInput::text(text("--input", &args.input)?);
    let capability = std::sync::Arc::clone(capability);
    Ok(Question { identity, capability, input, now, covers, entities: Vec::new() })
}

async fn on_record(db: &str, args: &Explain, id: &str) -> Result<Answer, Failure> {
    let cast = world(registry()?, &args.actors)?.cast;
    let session = Session::open(db, &args.place, Role::Looks, Database::Existing).await?;
    let found = recorded(session.core(), id).await;
    let set = std::sync::Arc::clone(&session.core().policies.current().set);
    session.close().await;
    let found = found.map_err(|it| Failure::of_trail(&it))?;
    let Some((record, question)) = found else {
        let next = "look for its id on the trail: `countersign audit list`";
        return Err(Failure::could_not_run(format!("there is no execution `{}` on record", plain(id)), next));
    };
    Ok(replayed(&set, &record, question.as_ref(), &cast))
}

fn replayed(set: &PolicySet, record: &Recorded, question: Option<&Question>, cast: &Cast) -> Answer {
    let replay = question.map(|it| explain(set, it, cast).json());
    let policies: Vec<_> = record.policies.iter().filter_map(|it| set.told(&it.id)).collect();
    let gone: Vec<&str> = record.policies.iter().map(|it| &*it.id).filter(|id| set.place(id).is_none()).collect();
    let json = json!({
        "record": record.json(),
        "policyHash": &**set.hash(),
        "sameSet": of_this_set(set, record),
        "policies": policies,
        "gone": gone,
        "replay": replay,
    });
    let notes = notes(set, record, &gone);
    let head = format!("{}{notes}", record_text(record));
    let (word, text) = if let Some(it) = replay.and_then(|it| Explained::deserialize(it).ok()) {
        let word = it.word();
        let is = if record.word.as_ref() == Some(&word) { "the same again" } else { "otherwise today" };
        let replay = format!("\nreplayed with what is stored of it: {}, {is}\n{}", it.headline(), it.whole());
        (record.word.clone().unwrap_or(word), head + &replay)
    } else {
        let shown: String = policies.iter().map(shown).collect();
        (record.word.clone().unwrap_or(Word::Failed), format!("{head}{NOT_KEPT}{shown}"))
    };
    Answer::new(exit(&word), &json, text)
}

const NOT_KEPT: &str = "what policies saw is not kept: events hold hashes only, so this is what is on record, with the policies\n\
    as they are written today; a capability with `decision_record` keeps more\n";

/// What of today's set is not what decided.
fn notes(set: &PolicySet, record: &Recorded, gone: &[&str]) -> String {
    let mut notes = Vec::new();
    if !of_this_set(set, record) {
        let hash = &**set.hash();
        notes.push(format!("another policy set decided; what follows is what today's says ({hash})"));
    }
    notes.extend(gone.iter().map(|id| format!("`{}` is not in today's set", plain(id))));
    notes.into_iter().map(|it| format!("{WARNING}note{WARNING:#}: {it}\n")).collect::<Vec<_>>().concat()
}

fn of_this_set(set: &PolicySet, record: &Recorded) -> bool {
    record.policy_hash.as_deref().is_none_or(|it| *it == **set.hash())
}

fn record_text(record: &Recorded) -> String {
    let actor = record.actor.as_ref().map_or_else(|| "nobody".into(), |it| format!("{} ({})", it.id, it.kind.as_str()));
    let mut rows = vec![
        ("decided", record.word.as_ref().map_or_else(|| "not at all".into(), ToString::to_string)),
        ("at", record.at.to_string()),
        ("actor", format!("{actor}, tenant {}", record.tenant)),
        ("capability", record.capability.as_ref().map_or_else(|| "none".into(), ToString::to_string)),
        ("surface", record.surface.as_str().to_owned()),
    ];
    rows.extend(record.client.as_ref().map(|it| ("client", it.0.clone())));
    rows.extend(record.policy_hash.as_ref().map(|it| ("policy set", it.clone())));
    let errors: Vec<_> = record.errors.iter().map(|it| format!("{}: {}", it.policy, it.kind)).collect();
    if !errors.is_empty() {
        rows.push(("errors", errors.join("\n")));
    }
    format!("{STRONG}{}{STRONG:#}\n{}", plain(&record.execution), facts(&rows))
}
