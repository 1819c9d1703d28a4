//! Flags of the server, and of what goes before one.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Configured, Format};
use crate::ActorKind;
use crate::config::LogFormat;

#[derive(Debug, Args)]
pub(in crate::cli) struct Serve {
    #[command(flatten)]
    pub(in crate::cli) config: Configured,
    /// Where to listen, instead of what is configured (default 127.0.0.1:8080); port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    pub(in crate::cli) listen: Option<SocketAddr>,
    /// The database, instead of the one that is configured (default sqlite:countersign.db)
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) db: Option<String>,
    /// The demo application, without any file, on loopback, with the tokens demo-dana, demo-priya, demo-omar, demo-nightly
    #[arg(long, conflicts_with = "config")]
    pub(in crate::cli) demo: bool,
    /// How log lines look, instead of what is configured: text or json
    #[arg(long, value_name = "FORMAT", value_parser = log_format)]
    pub(in crate::cli) log_format: Option<LogFormat>,
    #[command(flatten)]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Init {
    /// Where to write; it is made if it is not there
    #[arg(value_name = "DIR", default_value = ".")]
    pub(in crate::cli) dir: PathBuf,
    #[command(flatten)]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Doctor {
    #[command(flatten)]
    pub(in crate::cli) config: Configured,
    /// The database, instead of the one that is configured
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) db: Option<String>,
    /// Ask the server that runs here whether it is ready, and look at nothing else
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "db"])]
    pub(in crate::cli) running: Option<url::Url>,
    #[command(flatten)]
    pub(in crate::cli) format: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Token {
    #[command(subcommand)]
    pub(in crate::cli) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum TokenCommand {
    /// Make one: it is shown once, with what the configuration has of it
    New(TokenNew),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TokenNew {
    /// What people call the token (default: the id)
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) name: Option<String>,
    /// The id of the actor that it stands for (default: the name)
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) id: Option<String>,
    /// What the actor is: user, service, automation or anonymous
    #[arg(long, value_name = "KIND", value_parser = kind, default_value = "user")]
    pub(in crate::cli) kind: ActorKind,
    /// A role that policies see; more than once
    #[arg(long = "role", value_name = "ROLE")]
    pub(in crate::cli) roles: Vec<String>,
    /// A scope of the token; more than once
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(in crate::cli) scopes: Vec<String>,
    /// Whose data the calls are about (default: `default`)
    #[arg(long, value_name = "TENANT")]
    pub(in crate::cli) tenant: Option<String>,
    /// It is a person's own, who may decide approvals with it
    #[arg(long)]
    pub(in crate::cli) human: bool,
    /// Put the block at the end of this configuration, too
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) append: Option<PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) format: Format,
}

fn kind(text: &str) -> Result<ActorKind, String> {
    let found = ActorKind::ALL.into_iter().find(|it| it.as_str() == text);
    found.ok_or_else(|| "it is one of user, service, automation, anonymous".to_owned())
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("it is text or json".to_owned()),
    }
}
