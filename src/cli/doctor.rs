//! `doctor`: looks at everything that a server needs, and says of each what to do. Changes nothing.

mod database;
mod files;
mod finding;
mod ledger;
mod network;
mod running;

use super::application::application;
use super::args::Doctor;
use super::exit::Exit;
use super::failure::Failure;
use super::log;
use super::screen::{Answer, table};
use super::settings;
use crate::auth::Auth;
use crate::clock::Clock;
use crate::config::Config;
use crate::{Problem, policy};

use finding::{Finding, Rank};

pub(super) async fn run(args: Doctor) -> Result<Answer, Failure> {
    if let Some(url) = &args.running {
        return Ok(answer(&running::look(url).await));
    }
    let mut findings = Vec::new();
    match settings::read(args.config.config.as_deref()) {
        Ok(mut config) => {
            if let Some(url) = &args.db {
                config.set_database(url);
            }
            let place =
                config.file().map_or("no file: defaults and the environment".into(), |it| it.display().to_string());
            findings.push(Finding::good("configuration", place));
            look(&config, &mut findings).await;
        }
        Err(problems) => findings.extend(problems.into_iter().map(|it| Finding::problem("configuration", it))),
    }
    Ok(answer(&findings))
}

/// Everything that a configuration that can be read leads to.
async fn look(config: &Config, findings: &mut Vec<Finding>) {
    if let Err(what) = log::check(&config.log) {
        findings.push(Finding::bad("configuration", what, "write a level, `level = \"info\"`"));
    }
    files::look(config, findings);
    let latest = database::look(config, findings).await;
    policies(config, findings);
    auth(config, findings).await;
    network::clocks(config, latest, findings).await;
    network::collector(config, findings).await;
    network::address("listen", config.http.listen, findings).await;
    if let Some(address) = config.metrics.listen {
        network::address("metrics", address, findings).await;
    }
}

/// Whether capabilities and policies load.
fn policies(config: &Config, findings: &mut Vec<Finding>) {
    let application = match application(config) {
        Ok(application) => application,
        Err(problems) => return findings.extend(problems.into_iter().map(|it| Finding::problem("capabilities", it))),
    };
    let (source, name) = (application.policies.clone(), application.name.clone());
    let registry = match application.registry() {
        Ok(registry) => registry,
        Err(problems) => return findings.extend(problems.into_iter().map(|it| Finding::problem("capabilities", it))),
    };
    let count = registry.all().len();
    findings.push(Finding::good("capabilities", format!("{count} of {name}")));
    match policy::load(&source, &registry) {
        Ok((set, notes)) => {
            findings.push(Finding::good("policies", format!("{} files load", set.files())));
            findings.extend(notes.iter().map(|it| Finding::of_policy(Rank::Note, it)));
        }
        Err(problems) => findings.extend(
            problems.iter().map(|it| Finding::of_policy(if it.is_fatal() { Rank::Problem } else { Rank::Note }, it)),
        ),
    }
}

/// Whether anybody's credentials would be taken, and whether they can be verified.
async fn auth(config: &Config, findings: &mut Vec<Finding>) {
    let (tokens, issuers) = (config.auth.tokens.len(), config.auth.issuers.len());
    match Auth::open(&config.auth, config.base(), Clock::System).await {
        Ok(auth) if auth.is_empty() && config.file().is_some() => findings.push(Finding::problem(
            "credentials",
            Problem::new(
                "[auth]",
                "nobody's credentials are known, so nobody could call",
                "make a token: `countersign token new --id NAME --role ROLE --append countersign.toml`",
            ),
        )),
        Ok(auth) if auth.is_empty() && !config.http.listen.ip().is_loopback() => findings.push(Finding::bad(
            "credentials",
            format!("there are none, and the demo's are for loopback only, not {}", config.http.listen),
            "write a configuration: `countersign init`",
        )),
        Ok(auth) if auth.is_empty() => {
            findings.push(Finding::good("credentials", "none: the demo makes its own"));
        }
        Ok(auth) => {
            let people = config.auth.tokens.iter().filter(|it| it.human).count();
            let what = format!("{tokens} tokens, {people} of them people's own; {issuers} issuers");
            findings.push(Finding::good("credentials", what));
            findings.extend(auth.keys().iter().map(network::keys));
        }
        Err(problems) => findings.extend(problems.into_iter().map(|it| Finding::problem("credentials", it))),
    }
}

fn answer(findings: &[Finding]) -> Answer {
    let problems = findings.iter().filter(|it| it.rank == Rank::Problem).count();
    let rows: Vec<_> = findings.iter().map(Finding::row).collect();
    let verdict = match problems {
        0 => "nothing stands in the way\n".to_owned(),
        1 => "1 problem\n".to_owned(),
        more => format!("{more} problems\n"),
    };
    let json = serde_json::json!({"ok": problems == 0, "findings": findings});
    let exit = if problems == 0 { Exit::Done } else { Exit::Failed };
    Answer::new(exit, &json, table(&["check", "state", "what", "next"], &rows) + &verdict)
}
