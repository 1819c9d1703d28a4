//! The story itself: who asks for what, what must come of it, and what it teaches.

use crate::ErrorCode;

/// One step.
pub(super) struct Scene {
    pub(super) name: &'static str,
    /// What happens, for people.
    pub(super) tale: &'static str,
    pub(super) act: Act,
    pub(super) expect: Expect,
    /// Why it comes out like this, for people.
    pub(super) moral: &'static str,
}

/// What is done.
pub(super) enum Act {
    Call {
        actor: Option<&'static str>,
        capability: &'static str,
        input: &'static str,
        key: Option<&'static str>,
    },
    /// Approves what was last asked for, for this type.
    Approve {
        actor: &'static str,
        kind: &'static str,
    },
    /// Runs what was last asked for.
    Resume {
        actor: &'static str,
    },
}

/// What must come of it.
pub(super) enum Expect {
    Completed,
    /// The same output as that step's, from its record.
    ReplayOf(&'static str),
    Waiting,
    Approved,
    /// The output names who agreed.
    ApprovedBy(&'static str),
    /// The output lacks these members.
    Without(&'static [&'static str]),
    Refused(ErrorCode),
    /// Refused with the paths of what is wrong.
    WithPaths(ErrorCode),
    /// Refused with this sentence and nothing more.
    Silent(ErrorCode, &'static str),
    /// Refused exactly as that step, but for the name asked for and the execution id.
    Like(&'static str),
}

const REFUND: &str = r#"{"orderId": "ord_42", "amountCents": 4900, "reason": "Arrived scratched."}"#;
const KEY: Option<&str> = Some("ticket-1183");

const fn call(actor: &'static str, capability: &'static str, input: &'static str) -> Act {
    Act::Call { actor: Some(actor), capability, input, key: None }
}

const fn keyed(input: &'static str) -> Act {
    Act::Call { actor: Some("dana"), capability: "orders.refund", input, key: KEY }
}

/// The steps, in order.
pub(super) const SCENES: [Scene; 19] = [
    Scene {
        name: "search",
        tale: "A customer writes that her lamp arrived scratched. Dana's agent looks the order up.",
        act: call("dana", "orders.search", r#"{"query": "lamp"}"#),
        expect: Expect::Completed,
        moral: "A policy permits support to search. Omar of the other tenant would find his own orders only.",
    },
    Scene {
        name: "small-refund",
        tale: "The agent refunds $49. It sends a key along, a promise that calls with this key are one call.",
        act: keyed(REFUND),
        expect: Expect::Completed,
        moral: "Below $500 nobody needs to be asked. The gateway's reference stays inside.",
    },
    Scene {
        name: "small-refund-again",
        tale: "The answer got lost on its way, so the agent sends the same call once more.",
        act: keyed(REFUND),
        expect: Expect::ReplayOf("small-refund"),
        moral: "The key is known: the recorded answer comes back, and the customer is paid once.",
    },
    Scene {
        name: "key-reused",
        tale: "Confused, the agent uses the key again, for another amount.",
        act: keyed(r#"{"orderId": "ord_42", "amountCents": 5900, "reason": "Arrived scratched."}"#),
        expect: Expect::Refused(ErrorCode::IdempotencyKeyReused),
        moral: "One key, one call. The other input is not even stored.",
    },
    Scene {
        name: "large-refund",
        tale: "The scratch turns out to be a crack. The agent asks for $649.",
        act: call(
            "dana",
            "orders.refund",
            r#"{"orderId": "ord_42", "amountCents": 64900, "reason": "Base is cracked."}"#,
        ),
        expect: Expect::Waiting,
        moral: "A gate in the policies: above $500 a manager must agree. Nothing has run yet.",
    },
    Scene {
        name: "self-approval",
        tale: "The agent tries to approve it in Dana's name.",
        act: Act::Approve { actor: "dana", kind: "manager" },
        expect: Expect::Refused(ErrorCode::ApprovalSelfApproval),
        moral: "Nobody approves their own request, whatever the policies say.",
    },
    Scene {
        name: "approve",
        tale: "Priya, a manager, reads exactly what will run, and agrees.",
        act: Act::Approve { actor: "priya", kind: "manager" },
        expect: Expect::Approved,
        moral: "Deciding runs nothing. Her decision binds this input, this requester, and one run.",
    },
    Scene {
        name: "resume",
        tale: "Dana's agent resumes.",
        act: Act::Resume { actor: "dana" },
        expect: Expect::ApprovedBy("priya"),
        moral: "The stored input went through every stage again, and ran. The handler was told who agreed.",
    },
    Scene {
        name: "resume-again",
        tale: "It worked so well that the agent resumes once more.",
        act: Act::Resume { actor: "dana" },
        expect: Expect::Refused(ErrorCode::ApprovalConsumed),
        moral: "One approval, one run. Of twenty at the same time one would have run, too.",
    },
    Scene {
        name: "too-large",
        tale: "For another customer the agent wants $5,000 back.",
        act: call("dana", "orders.refund", r#"{"orderId": "ord_7", "amountCents": 500000, "reason": "Wrong colour."}"#),
        expect: Expect::Refused(ErrorCode::PolicyDenied),
        moral: "A plain forbid. No approval lifts it, so nobody is asked for one.",
    },
    Scene {
        name: "bad-input",
        tale: "The agent writes the amount as a text, and misspells a member.",
        act: call(
            "dana",
            "orders.refund",
            r#"{"orderId": "ord_42", "amountCents": "49 dollars", "reasn": "Arrived late."}"#,
        ),
        expect: Expect::WithPaths(ErrorCode::InputInvalid),
        moral: "It learns where it went wrong. What it sent is not repeated, here or in the record.",
    },
    Scene {
        name: "unknown",
        tale: "The agent makes a capability up.",
        act: call("dana", "orders.teleport", "{}"),
        expect: Expect::Refused(ErrorCode::CapabilityNotFound),
        moral: "There is none. Even so, that somebody asked is on record.",
    },
    Scene {
        name: "staged",
        tale: "It guesses well: this one is registered, but exposed nowhere yet.",
        act: call("dana", "orders.purge", r#"{"olderThanDays": 3650}"#),
        expect: Expect::Like("unknown"),
        moral: "The answer is the same, so guessing teaches nothing.",
    },
    Scene {
        name: "hidden",
        tale: "And this one is exposed, but a policy hides it from support.",
        act: call("dana", "reports.export", r#"{"month": "2026-06"}"#),
        expect: Expect::Like("unknown"),
        moral: "The same again. Only the record tells the three apart: unknown, not_exposed, hidden.",
    },
    Scene {
        name: "anonymous",
        tale: "Somebody who did not sign in wants to search the orders.",
        act: call("anonymous", "orders.search", r#"{"query": "lamp"}"#),
        expect: Expect::Refused(ErrorCode::PolicyDenied),
        moral: "No policy permits it, and what is not permitted is denied.",
    },
    Scene {
        name: "no-actor",
        tale: "A call arrives with nobody behind it at all.",
        act: Act::Call { actor: None, capability: "orders.search", input: r#"{"query": "lamp"}"#, key: None },
        expect: Expect::Refused(ErrorCode::Unauthenticated),
        moral: "Anonymous is somebody; this is nobody. It is refused before anything is looked up.",
    },
    Scene {
        name: "redacted",
        tale: "Dana's agent looks the customer up, to write to her.",
        act: call("dana", "customers.get", r#"{"customerId": "cus_7"}"#),
        expect: Expect::Without(&["email", "phone"]),
        moral: "The handler returned her e-mail address and telephone number. They never left.",
    },
    Scene {
        name: "handler-fails",
        tale: "An old order is in the archive, and the archive does not answer.",
        act: call("dana", "orders.get", r#"{"orderId": "ord_13"}"#),
        expect: Expect::Silent(ErrorCode::ExecutionFailed, "The operation failed."),
        moral: "The handler's error named a host and a password. The engine wrote neither of them anywhere: only the application knows what may be written down.",
    },
    Scene {
        name: "timeout",
        tale: "At night a job exports a whole month, which takes far too long.",
        act: call("nightly", "reports.export", r#"{"month": "2026-06", "extent": "full"}"#),
        expect: Expect::Refused(ErrorCode::Timeout),
        moral: "Every run has a deadline. The handler was told to stop, and did.",
    },
];
