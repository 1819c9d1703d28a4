//! Nothing of what procedures are told or say is in a log or on the record (INV-9).

use serde_json::json;

use super::peer::{Peer, Reply};
use super::{Files, fate, guarded, invoke, manifest};
use crate::logs::{logged, watch_logs};

const REPLIES: [Reply; 6] = [
    Reply::Answer("200 OK", "application/json", r#"{"status":"completed","output":"canary-mf-output"}"#),
    Reply::Answer("422 No", "application/json", r#"{"status":"failed","code":"canary-mf-code"}"#),
    Reply::Answer(
        "422 No",
        "application/json",
        r#"{"status":"failed","code":"TOO_LATE","message":"canary-mf-message"}"#,
    ),
    Reply::Answer("500 No", "text/html", "<h1>canary-mf-error</h1>"),
    Reply::Bytes(
        "HTTP/1.1 200 canary-mf-reason\r\nx-canary-mf-name: canary-mf-value\r\nlocation: canary-mf-place\r\n\r\n",
    ),
    Reply::Bytes("canary-mf-no-http\r\n"),
];

const SCRIPTS: [&str; 4] = [
    "cat >&2; echo canary-mf-garbage",
    "cat; echo canary-mf-complaint >&2; exit 3",
    r#"cat >/dev/null; echo '{"status":"completed","output":"canary-mf-output"}'"#,
    "exec canary-mf-no-program",
];

#[tokio::test]
async fn inv_9_no_log_at_any_level_and_no_event_holds_what_was_said() {
    watch_logs();
    let mut trails = String::new();
    let mut seen = Vec::new();
    for reply in &REPLIES {
        let peer = Peer::new(std::slice::from_ref(reply)).await;
        let handler = format!(
            "kind = \"http\"\nurl = \"{}/canary-mf-path?q=canary-mf-query\"\nsign = {{ env = \"SIGNING_KEY\" }}\n\
             bearer = {{ env = \"API_TOKEN\" }}\nheaders = {{ X-Other = {{ env = \"API_TOKEN\" }} }}",
            peer.origin
        );
        let app = Files::of(&[("a.toml", manifest("things.change", "write", &handler))]);
        let app = app.app(&guarded().endpoints([&peer.origin])).await;
        let outcome = invoke(&app, "things.change", json!({"canary-mf-member": "canary-mf-input"})).await;
        seen.push(fate(&app, &outcome).await);
        trails += &serde_json::to_string(&app.trail().await).unwrap();
    }
    for script in SCRIPTS {
        let handler = format!(
            "kind = \"command\"\nprogram = \"/bin/bash\"\nargs = ['-c', '''{script}''']\nenv = [\"LANG\"]\n\
             secrets = {{ KEY = {{ env = \"API_TOKEN\" }} }}"
        );
        let files = Files::of(&[("a.toml", manifest("things.change", "write", &handler))]);
        let app = files.app(&guarded()).await;
        let outcome = invoke(&app, "things.change", json!({"canary-mf-member": "canary-mf-input"})).await;
        seen.push(fate(&app, &outcome).await);
        trails += &serde_json::to_string(&app.trail().await).unwrap();
    }
    assert!(trails.contains("capability.failed") && !trails.contains("canary-mf"), "{trails}");
    assert_eq!(logged("canary-mf"), [""; 0]);
    // Callers see what is theirs: an output, and the message of an error that is declared.
    let shown: Vec<_> = seen.iter().filter(|it| it.contains("canary-mf")).collect();
    assert_eq!(
        shown,
        [
            "completed \"canary-mf-output\"",
            "EXECUTION_FAILED (canary-mf-message), executed unknown: failed",
            "completed \"canary-mf-output\"",
        ]
    );
}
