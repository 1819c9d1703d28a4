//! What a test says about governance. Each failure tells what was expected, what there was, where, and the trail.

use std::fmt::Write as _;
use std::panic::Location;

use serde_json::Value;

use super::TestApp;
use crate::actor::{Identity, Surface};
use crate::capability::Filter;
use crate::outcome::{ErrorCode, Outcome};

/// Where a database keeps what it has not written into its one file yet.
const FILES: [&str; 2] = ["", "-wal"];

impl<C: Send + Sync + 'static> TestApp<C> {
    /// A call ran, now or before.
    ///
    /// # Panics
    /// Else, with the trail.
    #[track_caller]
    pub fn assert_completed(&self, outcome: &Outcome) -> impl Future<Output = ()> {
        let holds = matches!(outcome, Outcome::Completed { .. });
        self.assert_that(holds, "an outcome", "completed".into(), told(outcome))
    }

    /// A call ran and this is its output, as the caller got it.
    ///
    /// # Panics
    /// Else, with the trail.
    #[track_caller]
    pub fn assert_output(&self, outcome: &Outcome, expected: &Value) -> impl Future<Output = ()> {
        let holds = outcome.output().is_some_and(|it| **it == *expected);
        self.assert_that(holds, "an output", expected.to_string(), told(outcome))
    }

    /// A call ended with this code.
    ///
    /// # Panics
    /// Else, with the trail.
    #[track_caller]
    pub fn assert_refused(&self, outcome: &Outcome, code: ErrorCode) -> impl Future<Output = ()> {
        let holds = outcome.error().is_some_and(|it| it.code == code);
        self.assert_that(holds, "an outcome", code.as_str().into(), told(outcome))
    }

    /// A call waits for people, for exactly these types of approval.
    ///
    /// # Panics
    /// Else, with the trail.
    #[track_caller]
    pub fn assert_needs(&self, outcome: &Outcome, types: &[&str]) -> impl Future<Output = ()> {
        let mut wanted = types.to_vec();
        wanted.sort_unstable();
        let holds = outcome.approval().is_some_and(|it| it.types == wanted);
        self.assert_that(holds, "the gates of a call", format!("approvals of {wanted:?}"), told(outcome))
    }

    /// Somebody sees exactly these capabilities on a surface, in the order of registration. Looking is not on record.
    ///
    /// # Panics
    /// Else, with the trail.
    #[track_caller]
    pub fn assert_exposed(
        &self,
        surface: Surface,
        identity: impl Into<Identity>,
        capabilities: &[&str],
    ) -> impl Future<Output = ()> {
        let (identity, at) = (identity.into().on(surface), Location::caller());
        let expected = format!("{capabilities:?}");
        async move {
            let (_, listed) = self.engine().core.visible(&identity, &Filter::all()).await;
            let listed = listed.map(|all| all.iter().map(|it| it.id.to_string()).collect::<Vec<_>>());
            let actual = listed.map_or_else(|refused| refused.face().to_string(), |it| format!("{it:?}"));
            if actual != expected {
                let who = identity.actor().map_or("nobody", |it| &it.id);
                self.fail(&format!("what `{who}` sees on {}", surface.as_str()), &expected, &actual, at).await;
            }
        }
    }

    /// Exactly these attempts reached their handlers, in order: `orders.refund #1`.
    ///
    /// # Panics
    /// Else, with the trail.
    #[track_caller]
    pub fn assert_effects(&self, expected: &[&str]) -> impl Future<Output = ()> {
        let actual = self.effects();
        let holds = actual == expected;
        self.assert_that(holds, "what reached a handler", format!("{expected:?}"), format!("{actual:?}"))
    }

    /// An execution left exactly these events, by their types and in order.
    ///
    /// # Panics
    /// Else, with the trail.
    #[track_caller]
    pub fn assert_recorded(&self, outcome: &Outcome, types: &[&str]) -> impl Future<Output = ()> {
        let (execution, at, expected) = (outcome.execution_id().clone(), Location::caller(), format!("{types:?}"));
        async move {
            let trail = self.trail_of(&execution).await;
            let actual: Vec<_> = trail.entries().iter().map(|it| &*it.kind).collect();
            let actual = format!("{actual:?}");
            if actual != expected {
                self.fail(&format!("the events of {execution}"), &expected, &actual, at).await;
            }
        }
    }

    /// A text that went in is nowhere: in none of these outcomes, in no event, and nowhere in the bytes of the database,
    /// where stored inputs and outcomes are sealed. Only what approvers wrote in comments is kept as it is.
    ///
    /// # Panics
    /// If it is somewhere, with the places; if the database cannot be read, or the text has less than 8 bytes, which
    /// would be found by chance.
    #[track_caller]
    pub fn assert_nowhere(&self, canary: &str, outcomes: &[&Outcome]) -> impl Future<Output = ()> {
        assert!(canary.len() >= 8, "a canary of less than 8 bytes is found by chance");
        let shown = outcomes.iter().filter(|it| told(it).contains(canary));
        let mut places: Vec<_> = shown.map(|it| format!("the outcome of {}", it.execution_id())).collect();
        let (canary, at) = (canary.to_owned(), Location::caller());
        async move {
            let entries = self.trail().await.entries().to_vec();
            for (place, entry) in entries.iter().enumerate() {
                if serde_json::to_string(entry).is_ok_and(|it| it.contains(&canary)) {
                    places.push(format!("event {}, {}", place + 1, entry.kind));
                }
            }
            places.extend(self.files_with(canary.as_bytes()));
            if !places.is_empty() {
                self.fail(&format!("`{canary}`"), "nowhere", &places.join("; "), at).await;
            }
        }
    }

    /// The database's files that have these bytes.
    #[expect(clippy::expect_used, reason = "a test that cannot read its database has failed")]
    fn files_with(&self, wanted: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        for end in FILES {
            let mut path = self.place().database().into_os_string();
            path.push(end);
            let bytes = match std::fs::read(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && !end.is_empty() => continue,
                read => read.expect("the database is readable"),
            };
            if bytes.windows(wanted.len()).any(|it| it == wanted) {
                found.push(format!("the database's bytes (test.db{end})"));
            }
        }
        found
    }

    #[track_caller]
    fn assert_that(
        &self,
        holds: bool,
        what: &'static str,
        expected: String,
        actual: String,
    ) -> impl Future<Output = ()> {
        let at = Location::caller();
        async move {
            if !holds {
                self.fail(what, &expected, &actual, at).await;
            }
        }
    }

    #[expect(clippy::panic, reason = "a test fails by panicking")]
    async fn fail(&self, what: &str, expected: &str, actual: &str, at: &Location<'_>) {
        let mut text =
            format!("{what}: not as expected, at {at}\n  expected: {expected}\n  actual:   {actual}\n  trail:\n");
        for line in self.trail().await.without_policies().to_string().lines() {
            let _ = writeln!(text, "    {line}"); // into a String: cannot fail
        }
        panic!("{text}");
    }
}

fn told(outcome: &Outcome) -> String {
    serde_json::to_string(outcome).unwrap_or_default()
}
