//! Anchors elsewhere: programs and servers, which have their time and no more.

use std::process::Stdio;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;
use url::Url;

use super::AnchorError;
use crate::outbound;
use crate::secret::Secret;

/// A program and its arguments.
pub(super) fn split(words: &[String]) -> (&str, &[String]) {
    words.split_first().map_or(("", &[]), |(program, arguments)| (program, arguments))
}

/// Eight digits that stand for these words; nothing for none.
pub(super) fn distinct<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let mut words = words.into_iter().peekable();
    if words.peek().is_none() {
        return String::new();
    }
    let hash = words.fold(Sha256::new(), |hash, it| hash.chain_update(it).chain_update([0])).finalize();
    hash.iter().take(4).fold("#".to_owned(), |text, it| format!("{text}{it:02x}"))
}

pub(super) async fn feed(words: &[String], note: &str, limit: Duration) -> Result<(), AnchorError> {
    let (program, arguments) = split(words);
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(AnchorError::Command)?;
    let done = async {
        if let Some(mut input) = child.stdin.take() {
            let _ = input.write_all(note.as_bytes()).await; // what counts is how it ends
        }
        child.wait().await.map_err(AnchorError::Command)
    };
    let status = tokio::time::timeout(limit, done).await.map_err(|_| AnchorError::TimedOut)??;
    if status.success() { Ok(()) } else { Err(AnchorError::Status(status)) }
}

pub(super) async fn put(url: &Url, token: Option<&Secret>, note: &str, limit: Duration) -> Result<(), AnchorError> {
    let client = outbound::client(limit).map_err(AnchorError::Unreachable)?;
    let mut request = client.put(url.clone()).header("content-type", "text/plain; charset=utf-8");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {}", token.reveal()));
    }
    let failed = |it: reqwest::Error| {
        if it.is_timeout() { AnchorError::TimedOut } else { AnchorError::Unreachable(it.without_url()) }
    };
    // Its answer's body is nobody's: the status says it all.
    let status = request.body(note.to_owned()).send().await.map_err(failed)?.status();
    if status.is_success() { Ok(()) } else { Err(AnchorError::Answered(status.as_u16())) }
}

#[cfg(test)]
mod tests {
    use super::super::{Anchor, LIMIT};
    use super::*;

    const NOTE: &str = "example.com/log\n1\nhash\n\n\u{2014} example.com/log signature\n";

    fn command(words: &[&str]) -> Anchor {
        Anchor::command(words.iter().map(|it| (*it).to_owned())).unwrap()
    }

    async fn fails(anchor: Anchor, limit: Duration) -> String {
        let error = anchor.take(NOTE, limit).await.unwrap_err();
        assert!(!format!("{error:?}").contains("hunter2"));
        error.to_string()
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_command_that_fails_or_is_none_is_told_apart_from_one_that_hangs() {
        assert_eq!(fails(command(&["sh", "-c", "exit 3"]), LIMIT).await, "the command ended with exit status: 3");
        // Whether it read the checkpoint, too, only its end says.
        assert_eq!(fails(command(&["false"]), LIMIT).await, "the command ended with exit status: 1");
        assert_eq!(
            fails(command(&["sh", "-c", "kill $$"]), LIMIT).await,
            "the command ended with signal: 15 (SIGTERM)"
        );
        assert_eq!(fails(command(&["/no/such/program"]), LIMIT).await, "the command cannot be run");
        command(&["true"]).take(NOTE, LIMIT).await.unwrap();
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_command_that_hangs_is_ended() {
        let directory = tempfile::tempdir().unwrap();
        let held = directory.path().join("held");
        assert!(std::process::Command::new("mkfifo").arg(&held).status().unwrap().success());
        // Whoever reads the other side comes to its end when nobody holds it any more.
        let script = format!("exec 3> '{}'; exec sleep 1000", held.display());
        let released = tokio::task::spawn_blocking(move || std::fs::read(held));
        let hangs = command(&["sh", "-c", &script]);
        assert_eq!(fails(hangs, Duration::from_secs(2)).await, "it took longer than 10 s");
        let released = tokio::time::timeout(LIMIT, released).await.expect("it is ended").unwrap();
        assert_eq!(released.unwrap(), b"");
    }

    #[tokio::test]
    async fn a_server_that_takes_the_connection_and_says_nothing_has_its_time_and_no_more() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/log", silent.local_addr().unwrap());
        let secret = Secret::from("hunter2".to_owned());
        let told = fails(Anchor::put(&url).unwrap().with_token(secret), Duration::from_millis(100));
        let told = tokio::time::timeout(LIMIT / 2, told).await.expect("it has 100 ms");
        assert_eq!(told, "it took longer than 10 s");
    }

    #[test]
    fn only_https_and_this_machine_itself_are_servers_to_hand_over_to() {
        for url in ["https://log.example/x", "http://127.0.0.1:1/", "http://[::1]/", "http://localhost/"] {
            assert!(Anchor::put(url).is_some(), "{url}");
        }
        for url in
            ["http://log.example/x", "http://10.0.0.1/", "http://localhost.example/", "ftp://localhost/", "x", ""]
        {
            assert!(Anchor::put(url).is_none(), "{url}");
        }
    }

    #[test]
    fn no_two_anchors_have_one_name_and_no_secret_is_in_it() {
        let put = |url: &str| Anchor::put(url).unwrap().name();
        let names = [
            command(&["sh"]).name(),
            command(&["sh", "-c", "a hunter2"]).name(),
            command(&["sh", "-c a", "hunter2"]).name(),
            put("https://log.example/a"),
            put("https://log.example:444/a"),
            put("https://log.example/b"),
            put("https://log.example/b?key=hunter2"),
            put("https://log.example/b?key=hunter3"),
            Anchor::file("a").name(),
        ];
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        assert!(!names.iter().any(|it| it.contains("hunter")), "{names:?}");
        assert_eq!((&*names[0], &*names[3], &*names[4]), ("command:sh", "put:log.example/a", "put:log.example:444/a",));
    }
}
