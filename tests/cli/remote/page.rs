//! What docs/command-line.md has people type works, and what it says of routes is so.

use super::super::page::follow;
use super::{Served, Shell};

const PAGE: &str = include_str!("../../../docs/command-line.md");

#[test]
fn the_commands_of_the_page_work() {
    let shell = Shell::new();
    let served = Served::demo(&shell);
    shell.write("dana.token", "demo-dana\n");
    shell.write("priya.token", "demo-priya\n");
    let page = PAGE.replace("https://countersign.example", served.url());
    assert_eq!(follow(&shell, &page), 8);
}

#[test]
fn the_page_names_every_command_without_a_route() {
    let (_, line) = PAGE.split_once("These have no route, and say so: ").unwrap();
    let line = line.split_once(".\n").unwrap().0.replace("\n  ", " ");
    let commands: Vec<&str> = line.split(", ").map(|it| it.trim_matches('`')).collect();
    assert_eq!(commands.len(), 6);
    for command in commands {
        let more: &[&str] = match command {
            "policy publish" => &["."],
            "policy rollback" => &["123456"],
            "policy backtest" => &["current", "--since", "2026-01-01"],
            "notifications" => &["list"],
            "comments" => &["erase", "--person", "priya"],
            _ => &[],
        };
        let words: Vec<&str> = command.split(' ').collect();
        let ran = Shell::new().run(&[&words, more, &["--server", "http://127.0.0.1:9"]].concat());
        assert_eq!((ran.code, ran.err.starts_with("error: a server ")), (5, true), "{command}: {}", ran.err);
    }
}
