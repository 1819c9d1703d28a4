//! Commands through a server: the same answers as from a database, and every way in which a server is none.

mod fake;
mod following;
mod page;
mod places;
mod same;

use super::serve::Served;
use super::{Ran, Shell};

const SMALL: &str = r#"{"orderId":"ord_42","amountCents":4900,"reason":"Scratched."}"#;
const LARGE: &str = r#"{"orderId":"ord_42","amountCents":64900,"reason":"Cracked."}"#;
const SEARCH: &str = r#"{"query":"lamp"}"#;

/// Asks a server in somebody's name.
fn ask(shell: &Shell, url: &str, name: &str, arguments: &[&str]) -> Ran {
    shell.run(&[arguments, &["--server", url, "--token", &format!("demo-{name}")]].concat())
}
