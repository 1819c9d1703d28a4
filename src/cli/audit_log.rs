//! `audit checkpoint`, `audit verify`, `audit prove`, `audit export`, `audit retain`, `audit key`: the log as evidence.

mod args;
mod checkpoint;
mod export;
mod files;
mod key;
mod prove;
mod retain;
mod verify;

pub(super) use args::LogCommand;
use args::{Export, ExportCommand, KeyCommand, RetainCommand};

use super::args::Format;
use super::failure::Failure;
use super::screen::Answer;

pub(super) async fn run(command: LogCommand) -> Result<Answer, Failure> {
    match command {
        LogCommand::Checkpoint(args) => checkpoint::run(args).await,
        LogCommand::Verify(args) => verify::run(args).await,
        LogCommand::Prove(args) => prove::run(args).await,
        LogCommand::Export(args) => export::run(*args).await,
        LogCommand::Retain(args) => retain::run(*args).await,
        LogCommand::Key(args) => match args.command {
            KeyCommand::New(args) => key::new(&args),
            KeyCommand::Show(args) => key::show(&args),
            KeyCommand::Rotate(args) => key::rotate(&args),
        },
    }
}

impl LogCommand {
    pub(super) fn format(&self) -> &Format {
        match self {
            Self::Checkpoint(it) => &it.format,
            Self::Verify(it) => &it.format,
            Self::Prove(it) => &it.format,
            Self::Export(it) => it.format(),
            Self::Retain(it) => match &it.command {
                Some(RetainCommand::Status { format, .. }) => format,
                None => &it.format,
            },
            Self::Key(it) => match &it.command {
                KeyCommand::New(it) => &it.format,
                KeyCommand::Show(it) | KeyCommand::Rotate(it) => &it.format,
            },
        }
    }
}

impl Export {
    fn format(&self) -> &Format {
        match &self.command {
            Some(ExportCommand::Status { format, .. } | ExportCommand::Forget { format, .. }) => format,
            None => &self.format,
        }
    }
}
