//! Whom credentials stand for, table by table.

mod statics;

use super::*;
use crate::testing::START;

/// An [`Auth`] of a configuration, whose clock stands at [`START`] until the test moves it.
async fn open(text: &str) -> Result<Auth, Vec<Problem>> {
    Auth::open(&settings(text), Path::new("/nonexistent"), Clock::manual(START)).await
}

fn settings(text: &str) -> AuthSettings {
    toml::from_str::<crate::config::Config>(text).unwrap().auth
}

/// What is wrong, one line each.
fn told(problems: &[Problem]) -> String {
    let lines: Vec<_> = problems.iter().map(|it| format!("{}: {}; {}", it.at, it.what, it.fix)).collect();
    lines.join("\n")
}
