//! How requests for a decision look.

use super::super::exit::{Exit, Side};
use super::super::screen::{Answer, GOOD, HINT, STRONG, WARNING, facts, plain, pretty, table};
use crate::{ApprovalState, ApprovalView, Decided, Error, Requirement, Verdict};

/// What is told of each.
pub(super) const HEADINGS: [&str; 6] = ["approval", "status", "capability", "requester", "needs", "expires"];

/// Some of them, and whether there are more.
pub(super) fn listed(all: &[ApprovalView], has_more: bool) -> Answer {
    let Some(last) = all.last() else { return Answer::list(all, "There are no such requests.\n") };
    let rows: Vec<_> = all.iter().map(row).collect();
    let hint = if has_more {
        format!("{HINT}there are more:{HINT:#} `--before {}`, or a larger `--limit`\n", last.id)
    } else {
        String::new()
    };
    Answer::list(all, table(&HEADINGS, &rows) + &hint)
}

pub(super) fn row(it: &ApprovalView) -> Vec<String> {
    vec![
        it.id.to_string(),
        it.status.as_str().into(),
        it.capability_id.to_string(),
        format!("{}@{}", it.requester.id, it.tenant),
        needs(it).join(", "),
        it.expires_at.to_string(),
    ]
}

/// `manager 0 of 1`.
fn needs(view: &ApprovalView) -> Vec<String> {
    let progress = |it: &Requirement| format!("{} {} of {}", it.kind, have(view, it), it.quorum);
    view.requirements.iter().map(progress).collect()
}

pub(super) fn have(view: &ApprovalView, requirement: &Requirement) -> usize {
    view.decisions.iter().filter(|it| it.kind == requirement.kind && it.verdict == Verdict::Approve).count()
}

/// What an approver needs to know before deciding: who, what exactly, why, how far it is.
pub(super) fn whole(view: &ApprovalView, side: Side) -> String {
    let style = if view.status == ApprovalState::Approved { GOOD } else { WARNING };
    let issuer = |it: &Option<String>| it.as_ref().map(|it| format!(", vouched for by {it}")).unwrap_or_default();
    let requester = &view.requester;
    let decisions = view.decisions.iter().map(|it| {
        let (who, how) = (&it.approver.id, it.verdict.as_str());
        format!("{who} said {how} for {} via {} at {}{}", it.kind, it.via, it.at, issuer(&it.approver.issuer))
    });
    let decisions: Vec<_> = decisions.collect();
    let mut rows = vec![
        (
            "capability",
            format!("{} (effect {}, risk {})", view.capability_id, view.side_effect.as_str(), view.risk.as_str()),
        ),
        ("asked by", format!("{} ({}){}", requester.id, requester.kind.as_str(), issuer(&requester.issuer))),
        ("for", format!("tenant {}, over {}", view.tenant, view.surface.as_str())),
        ("why", view.reasons.join("\n")),
        ("needs", needs(view).join("\n")),
        ("decisions", if decisions.is_empty() { "none yet".into() } else { decisions.join("\n") }),
        ("asked at", view.requested_at.to_string()),
        ("expires", view.expires_at.to_string()),
        ("input hash", view.input_hash.clone()),
    ];
    rows.extend(view.client.clone().map(|it| ("client", it)));
    rows.extend(view.execution_id.as_ref().map(|it| ("run as", it.to_string())));
    let input = view.input.as_ref().map_or_else(|| "(not kept any more)".to_owned(), |it| plain(&pretty(it)));
    let next = match view.status {
        ApprovalState::Pending => format!("next: countersign approvals approve {}{}\n", view.id, side.actor()),
        ApprovalState::Approved => match side {
            Side::Database => {
                format!("next: countersign approvals resume {} --actor {}\n", view.id, plain(&requester.id))
            }
            Side::Server => format!("next: countersign approvals resume {}, by who asked for it\n", view.id),
        },
        ApprovalState::Rejected | ApprovalState::Expired | ApprovalState::Withdrawn | ApprovalState::Consumed => {
            String::new()
        }
    };
    let status = view.status.as_str();
    format!(
        "{STRONG}{}{STRONG:#} {style}{status}{style:#}\n{}exactly this will run:\n{input}\n{next}",
        view.id,
        facts(&rows)
    )
}

pub(super) fn settled(done: Result<Decided, Error>, side: Side) -> Answer {
    match done {
        Ok(decided) => {
            let next = match decided.status {
                ApprovalState::Approved => {
                    format!("  next: countersign approvals resume {}{}\n", decided.id, side.actor())
                }
                ApprovalState::Pending => "  next: others must agree too\n".into(),
                ApprovalState::Rejected
                | ApprovalState::Expired
                | ApprovalState::Withdrawn
                | ApprovalState::Consumed => String::new(),
            };
            let text = format!("{GOOD}{}{GOOD:#} {}\n{next}", decided.status.as_str(), decided.id);
            let done = format!("{} {}", decided.status.as_str(), decided.id);
            Answer::new(Exit::Done, &decided, text).having_done(done)
        }
        Err(error) => Answer::refused(&error, side),
    }
}
