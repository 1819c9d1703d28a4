//! Telling the story to people.

use serde_json::Value;

use super::script::{Act, Scene};
use super::step::Step;
use crate::cli::audit::shown;
use crate::cli::screen::{ERROR, FAINT, GOOD, HINT, STRONG, WARNING, plain};

pub(super) fn opening() -> String {
    format!(
        "\n{STRONG}The support desk{STRONG:#}\n\n\
        Acme's support desk lets AI agents work with its own procedures: search orders, refund them, write to\n\
        customers. Countersign stands in between. An agent can only ask; the engine decides by the desk's policies,\n\
        has a person agree where they say so, runs a call at most once, and keeps a record of everything.\n\n\
        {STRONG}dana{STRONG:#} works in support, {STRONG}priya{STRONG:#} is a manager, \
        {STRONG}nightly{STRONG:#} is a scheduled job. The agents speak in their names.\n"
    )
}

/// What is asked.
pub(super) fn before(number: usize, scene: &Scene) -> String {
    let asks = match scene.act {
        Act::Call { actor, capability, input, key } => {
            let key = key.map(|it| format!("  {FAINT}key {it}{FAINT:#}")).unwrap_or_default();
            format!("{} asks for {STRONG}{capability}{STRONG:#} {input}{key}", actor.unwrap_or("nobody"))
        }
        Act::Approve { actor, kind } => format!("{actor} approves the request as {STRONG}{kind}{STRONG:#}"),
        Act::Resume { actor } => format!("{actor} {STRONG}resumes{STRONG:#} the request"),
    };
    format!("\n{HINT}{number:>2}. {}{HINT:#}\n    {}\n    > {asks}\n", scene.name, scene.tale)
}

/// What the engine answers, and why.
pub(super) fn after(scene: &Scene, step: &Step) -> String {
    format!("    < {}\n    {FAINT}{}{FAINT:#}\n", answer(&step.outcome), scene.moral)
}

fn answer(outcome: &Value) -> String {
    let text = |it: &Value| plain(it.as_str().unwrap_or_default());
    match &*text(&outcome["status"]) {
        "completed" => {
            let replayed = if outcome["replayed"] == true { " (replayed)" } else { "" };
            format!("{GOOD}completed{GOOD:#}{replayed} {}", plain(&outcome["output"].to_string()))
        }
        "approval_required" => {
            let reasons = outcome["approval"]["reasons"].as_array().into_iter().flatten().map(&text);
            format!("{WARNING}approval required{WARNING:#}: {}", reasons.collect::<Vec<_>>().join(" "))
        }
        "approved" => format!("{GOOD}approved{GOOD:#}"),
        _ => {
            let error = &outcome["error"];
            let details = error["details"].as_array().into_iter().flatten();
            let details: String = details.map(|it| format!("\n      {}", detail(it))).collect();
            format!("{ERROR}{}{ERROR:#}: {}{details}", text(&error["code"]), text(&error["message"]))
        }
    }
}

fn detail(it: &Value) -> String {
    let text = |name: &str| it[name].as_str().map(plain);
    match (text("path"), text("keyword")) {
        (Some(path), Some(keyword)) => {
            let nearest = text("nearest").map(|it| format!(", did you mean `{it}`?")).unwrap_or_default();
            format!("at {}: {keyword}{nearest}", if path.is_empty() { "the root" } else { &path })
        }
        _ => plain(&it.to_string()),
    }
}

/// The trail, and how it ended.
pub(super) fn closing(trail: &[(i64, String)], wrong: Option<&str>) -> String {
    let table = shown(trail);
    let end = match wrong {
        None => format!(
            "{GOOD}Every step came out as told.{GOOD:#} Now try it yourself, on a database that stays:\n  \
            countersign invoke orders.refund --actor dana --input \
            '{{\"orderId\":\"ord_42\",\"amountCents\":64900,\"reason\":\"Cracked.\"}}'\n  \
            countersign approvals list\n  \
            countersign audit list\n"
        ),
        Some(wrong) => {
            format!("{ERROR}error:{ERROR:#} {}\n  {HINT}next:{HINT:#} report it, with this output\n", plain(wrong))
        }
    };
    format!(
        "\n{STRONG}The record{STRONG:#}\nIds, hashes and times, never what was in a call: this is what an auditor reads.\n\n{table}\n{end}"
    )
}
