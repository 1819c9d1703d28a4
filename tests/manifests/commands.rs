//! Procedures that are commands: what they get, what their ends come to, and that nothing of them outlives a call, its
//! deadline, or the engine itself.

use std::fmt::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use countersign::testing::TestApp;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::{Files, dana, fate, guarded, invoke, manifest};

/// A manifest whose command is a script.
fn script(effect: &str, text: &str) -> String {
    scripted(effect, text, "")
}

fn scripted(effect: &str, text: &str, more: &str) -> String {
    let handler = format!("kind = \"command\"\nprogram = \"/bin/bash\"\nargs = ['-c', '''{text}''']\n{more}");
    manifest("things.change", effect, &handler)
}

async fn app_of(text: String) -> (Files, TestApp<()>) {
    let files = Files::of(&[("a.toml", text)]);
    let app = files.app(&guarded()).await;
    (files, app)
}

/// A command that answers with all it was told.
const ECHO: &str = r#"read -r line; printf '{"status":"completed","output":%s}' "$line""#;

#[tokio::test]
async fn a_command_reads_the_input_and_who_asked_and_writes_its_answer() {
    let (_files, app) = app_of(script("write", ECHO)).await;
    let outcome = invoke(&app, "things.change", json!({"n": 1, "text": "a\nb \u{1F980}"})).await;
    let output = outcome.output().unwrap_or_else(|| panic!("{outcome:?}"));
    let mut told = serde_json::to_value(output).unwrap();
    let deadline = std::mem::replace(&mut told["invocation"]["deadline"], "[time]".into());
    assert!(serde_json::from_value::<countersign::Timestamp>(deadline).is_ok());
    insta::assert_json_snapshot!(told, @r#"
    {
      "input": {
        "n": 1,
        "text": "a\nb 🦀"
      },
      "invocation": {
        "executionId": "exe-1",
        "capabilityId": "things.change",
        "surface": "direct",
        "tenant": "default",
        "actor": {
          "id": "dana",
          "kind": "user",
          "roles": [
            "support"
          ],
          "scopes": [],
          "attributes": {}
        },
        "idempotencyKey": "0qBF2VMLnI9Ay-SEFrNI6iUlwoe_rWA_bwr0SB6-c-U",
        "attempt": 1,
        "fence": 1,
        "deadline": "[time]"
      }
    }
    "#);
}

#[tokio::test]
async fn the_environment_is_what_the_manifest_passes_on_and_nothing_else() {
    let names = r#"printf '{"status":"completed","output":"%s in %s, %s"}' "$(env | cut -d= -f1 | sort | tr '\n' ' ')" "${PWD##*/}" "$KEY""#;
    let more = "env = [\"LANG\", \"NOT_SET\"]\nsecrets = { KEY = { env = \"API_TOKEN\" } }\ncwd = \"place\"";
    let files = Files::of(&[("a.toml", &*scripted("write", names, more)), ("place/x", "")]);
    let app = files.app(&guarded()).await;
    let seen = fate(&app, &invoke(&app, "things.change", json!({})).await).await;
    // The shell itself adds three.
    assert_eq!(seen, "completed \"KEY LANG PWD SHLVL _  in place, canary-mf-token\"");
}

/// Scripts, and what they do.
const ENDS: [(&str, &str); 22] = [
    ("completed", r#"echo '{"status":"completed","output":{"n":1}}'"#),
    ("completed, output null", r#"echo '{"status":"completed","output":null}'"#),
    ("declared", r#"echo '{"status":"failed","code":"TOO_LATE","message":"Come back tomorrow."}'"#),
    ("undeclared", r#"echo '{"status":"failed","code":"OTHER"}'"#),
    ("forbidden", r#"echo '{"status":"forbidden"}'"#),
    ("nothing happened", r#"echo '{"status":"not_executed"}'"#),
    ("exit 75", "echo half an ans; exit 75"),
    ("exit 1", r#"echo '{"status":"not_executed"}'; exit 1"#),
    ("exit 255", "exit 255"),
    ("killed", "kill -9 $$"),
    ("terminated", "kill $$"),
    ("silence", "exit 0"),
    ("garbage", "echo done"),
    ("two answers", r#"echo '{"status":"not_executed"}{"status":"not_executed"}'"#),
    ("a flood", "yes"),
    ("a flood of one line", r"head -c 2000000 /dev/zero | tr '\0' x; sleep 1000"),
    ("a flood of complaints", r#"head -c 5000000 /dev/zero >&2; echo '{"status":"completed","output":1}'"#),
    ("its pipes closed", "exec 0<&- 1>&- 2>&-; exit 75"),
    ("stdin closed", r#"exec 0<&-; echo '{"status":"completed","output":1}'"#),
    ("a child left behind", r#"sleep 1000 & echo '{"status":"completed","output":1}'"#),
    ("a child in a group of its own", r#"setsid sleep 3 & echo '{"status":"completed","output":1}'"#),
    ("a child that ignores it all", r#"(trap "" TERM HUP INT; sleep 1000) & echo '{"status":"completed","output":1}'"#),
];

#[tokio::test]
async fn only_an_answer_or_exit_code_75_says_that_nothing_happened() {
    let mut rows = String::new();
    for (name, text) in ENDS {
        let mut fates = Vec::new();
        for effect in ["write", "read"] {
            let (_files, app) = app_of(script(effect, text)).await;
            let outcome = invoke(&app, "things.change", json!({})).await;
            fates.push(fate(&app, &outcome).await);
        }
        let _ = writeln!(rows, "{name:30} {:66} {}", fates[0], fates[1]);
    }
    insta::assert_snapshot!(rows, @r#"
    completed                      completed {"n":1}                                                  completed {"n":1}
    completed, output null         completed null                                                     completed null
    declared                       EXECUTION_FAILED (Come back tomorrow.), executed unknown: failed   EXECUTION_FAILED (Come back tomorrow.), executed no: failed
    undeclared                     EXECUTION_FAILED, executed unknown: failed                         EXECUTION_FAILED, executed no: failed
    forbidden                      FORBIDDEN, executed unknown: failed                                FORBIDDEN, executed no: failed
    nothing happened               EXECUTION_FAILED, retryable, executed no: not_executed             EXECUTION_FAILED, retryable, executed no: failed
    exit 75                        EXECUTION_FAILED, retryable, executed no: not_executed             EXECUTION_FAILED, retryable, executed no: failed
    exit 1                         EXECUTION_FAILED, executed unknown: unknown                        EXECUTION_FAILED, executed no: failed
    exit 255                       EXECUTION_FAILED, executed unknown: unknown                        EXECUTION_FAILED, executed no: failed
    killed                         EXECUTION_FAILED, executed unknown: unknown                        EXECUTION_FAILED, executed no: failed
    terminated                     EXECUTION_FAILED, executed unknown: unknown                        EXECUTION_FAILED, executed no: failed
    silence                        EXECUTION_FAILED, executed unknown: unknown                        EXECUTION_FAILED, executed no: failed
    garbage                        EXECUTION_FAILED, executed unknown: unknown                        EXECUTION_FAILED, executed no: failed
    two answers                    EXECUTION_FAILED, executed unknown: unknown                        EXECUTION_FAILED, executed no: failed
    a flood                        EXECUTION_FAILED, executed unknown: unknown                        EXECUTION_FAILED, executed no: failed
    a flood of one line            EXECUTION_FAILED, executed unknown: unknown                        EXECUTION_FAILED, executed no: failed
    a flood of complaints          completed 1                                                        completed 1
    its pipes closed               EXECUTION_FAILED, retryable, executed no: not_executed             EXECUTION_FAILED, retryable, executed no: failed
    stdin closed                   completed 1                                                        completed 1
    a child left behind            completed 1                                                        completed 1
    a child in a group of its own  completed 1                                                        completed 1
    a child that ignores it all    completed 1                                                        completed 1
    "#);
}

#[tokio::test]
async fn an_input_that_nobody_reads_and_an_output_of_the_same_size_pass() {
    let text = "x".repeat(900_000);
    let (_files, app) = app_of(script("write", r#"echo '{"status":"completed","output":1}'"#)).await;
    let outcome = invoke(&app, "things.change", json!({"text": text})).await;
    assert_eq!(fate(&app, &outcome).await, "completed 1");
    let (_files, app) = app_of(script("write", ECHO)).await;
    let outcome = invoke(&app, "things.change", json!({"text": text})).await;
    assert_eq!(outcome.output().and_then(|it| it["input"]["text"].as_str()).map(str::len), Some(text.len()));
}

#[tokio::test]
async fn what_cannot_be_started_did_not_happen() {
    let files = Files::of(&[("a.toml", script("write", "true").replace("/bin/bash", "./bash"))]);
    let program = files.path().join("bash");
    std::fs::copy("/bin/bash", &program).unwrap();
    let guard = files.path().join("guard");
    std::fs::copy(env!("CARGO_BIN_EXE_countersign"), &guard).unwrap();
    let app = files.app(&guarded()).await;
    let guardless = files.app(&guarded().guard(&guard)).await;
    std::fs::remove_file(program).unwrap();
    std::fs::remove_file(guard).unwrap();
    for app in [app, guardless] {
        let outcome = invoke(&app, "things.change", json!({})).await;
        assert_eq!(fate(&app, &outcome).await, "EXECUTION_FAILED, retryable, executed no: not_executed");
    }
}

/// Holds a connection open for as long as a process lives that has it, and says when there is none any more.
pub(super) struct Alive(TcpListener);

/// The processes that a script has started.
pub(super) struct Family {
    command: u32,
    guard: u32,
    stream: BufReader<TcpStream>,
}

impl Alive {
    pub(super) async fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// What a script begins with: descriptor 3 is the connection, which its children have too. The input comes when the
    /// guard has told the engine which group it guards.
    pub(super) fn up(&self) -> String {
        format!("read -r _; exec 3<>/dev/tcp/127.0.0.1/{}; echo $$ $PPID >&3; ", self.0.local_addr().unwrap().port())
    }

    /// Waits until the script has begun. One that was ended before it could speak is nobody.
    pub(super) async fn family(&self) -> Family {
        let begun = async {
            loop {
                let mut stream = BufReader::new(self.0.accept().await.unwrap().0);
                let mut line = String::new();
                let read = stream.read_line(&mut line).await;
                if read.is_ok() && line.ends_with('\n') {
                    let ids: Vec<u32> = line.split_whitespace().map(|it| it.parse().unwrap()).collect();
                    return Family { command: ids[0], guard: ids[1], stream };
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), begun).await.expect("it begins")
    }
}

impl Family {
    /// Says a line to whoever of them reads.
    pub(super) async fn go_on(&mut self) {
        tokio::io::AsyncWriteExt::write_all(self.stream.get_mut(), b"go on\n").await.unwrap();
    }

    /// Waits until the last of them is gone.
    pub(super) async fn is_gone(&mut self) {
        let mut rest = Vec::new();
        let end = self.stream.read_to_end(&mut rest);
        // Whoever is killed may reset the connection.
        let _ = tokio::time::timeout(Duration::from_secs(30), end).await.expect("they all end");
    }
}

/// A child and a grandchild beside the command; none of them obeys.
const STUBBORN: &str = "trap '' TERM; (sleep 1000; true) & (sleep 1000 & sleep 1000; true) & sleep 1000; true";

#[tokio::test]
async fn at_the_deadline_the_whole_group_is_killed() {
    let alive = Alive::new().await;
    let (_files, app) = app_of(script("write", &(alive.up() + STUBBORN))).await;
    let running = app.on_behalf_of(dana()).invoke("things.change", json!({})).start();
    let mut family = alive.family().await;
    app.clock().advance(Duration::from_secs(20));
    let advance = async {
        loop {
            app.clock().advance(Duration::from_millis(100)); // the grace, once it has begun
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let outcome = tokio::select! {
        outcome = running => outcome,
        () = advance => unreachable!(),
    };
    assert_eq!(fate(&app, &outcome).await, "TIMEOUT, executed unknown: unknown");
    family.is_gone().await;
    // That it was killed says no more about what it did before.
    app.engine().shutdown(Duration::from_mins(1)).await;
    let events = countersign::testing::stored_events(app.place().database()).await;
    assert!(matches!(events.last().unwrap().1.kind, countersign::EventKind::Cancelled { .. }), "{events:?}");
}

#[tokio::test]
async fn a_command_that_obeys_may_still_say_that_nothing_happened() {
    let alive = Alive::new().await;
    let obeys = r#"trap 'echo "{\"status\":\"not_executed\"}"; exit 0' TERM; sleep 1000 & echo ready >&3; wait"#;
    let (_files, app) = app_of(script("write", &(alive.up() + obeys))).await;
    for cancels in [false, true] {
        let running = app.on_behalf_of(dana()).invoke("things.change", json!({})).start();
        let mut family = alive.family().await;
        family.stream.read_line(&mut String::new()).await.unwrap();
        if cancels {
            running.cancel();
        } else {
            app.clock().advance(Duration::from_secs(20));
        }
        let expected = if cancels {
            "CANCELLED, executed no: not_executed"
        } else {
            "TIMEOUT, retryable, executed no: not_executed"
        };
        assert_eq!(fate(&app, &running.await).await, expected);
        family.is_gone().await;
    }
}

#[tokio::test]
async fn after_a_call_neither_command_nor_guard_is_left_nor_a_trace_of_them() {
    let tell = r#"sleep 1000 & printf '{"status":"completed","output":[%s,%s,%s]}' $$ $PPID $!"#;
    let (_files, app) = app_of(script("write", tell)).await;
    let outcome = invoke(&app, "things.change", json!({})).await;
    let ids: Vec<u64> = serde_json::from_value(json!(outcome.output())).unwrap();
    let left: Vec<_> = ids.iter().filter(|it| std::path::Path::new(&format!("/proc/{it}")).exists()).collect();
    assert_eq!((ids.len(), left), (3, vec![]), "not even a zombie");
}

#[tokio::test]
async fn a_guard_that_is_killed_leaves_no_command_behind() {
    let alive = Alive::new().await;
    let (_files, app) = app_of(script("write", &(alive.up() + STUBBORN))).await;
    let running = app.on_behalf_of(dana()).invoke("things.change", json!({})).start();
    let mut family = alive.family().await;
    kill(&family.guard.to_string());
    assert_eq!(fate(&app, &running.await).await, "EXECUTION_FAILED, executed unknown: unknown");
    family.is_gone().await;
    assert_ne!(family.command, family.guard);
}

#[tokio::test]
async fn a_guard_ends_by_its_lifeline_and_by_no_gentle_signal() {
    let alive = Alive::new().await;
    let (_files, app) =
        app_of(script("write", &(alive.up() + "read -r _ <&3; echo '{\"status\":\"completed\",\"output\":1}'"))).await;
    let running = app.on_behalf_of(dana()).invoke("things.change", json!({})).start();
    let mut family = alive.family().await;
    for signal in ["-TERM", "-INT", "-HUP"] {
        assert!(Command::new("kill").args([signal, &family.guard.to_string()]).status().unwrap().success());
    }
    family.go_on().await;
    assert_eq!(fate(&app, &running.await).await, "completed 1");
}

pub(super) fn kill(process: &str) {
    assert!(Command::new("kill").args(["-KILL", process]).status().unwrap().success());
}

/// One of these tests in a process of its own, with its order in a variable.
pub(super) fn victim(test: &str, variable: &str, order: impl AsRef<std::ffi::OsStr>) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("manifests::{test}"), "--nocapture"])
        .env(variable, order)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The victim's side: this very test, run in a process of its own.
#[test]
fn a_victim_runs_a_command() {
    let Ok(text) = std::env::var("COUNTERSIGN_COMMAND_VICTIM") else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome: Value = runtime.block_on(async {
        let (_files, app) = app_of(text).await;
        json!(invoke(&app, "things.change", json!({})).await)
    });
    println!("{outcome}");
}

#[tokio::test]
async fn exe_10_a_command_dies_with_an_engine_that_is_killed() {
    let alive = Alive::new().await;
    let order = script("write", &(alive.up() + STUBBORN));
    let mut victim = victim("commands::a_victim_runs_a_command", "COUNTERSIGN_COMMAND_VICTIM", order);
    let mut family = alive.family().await;
    kill(&victim.id().to_string());
    victim.wait().unwrap();
    family.is_gone().await;
}

#[test]
fn a_guard_without_an_order_runs_nothing_and_ends() {
    for order in ["", "{\"program\":\"/bin/true\"", "nonsense\n", "{}\n"] {
        let mut guard = Command::new(env!("CARGO_BIN_EXE_countersign"))
            .arg(countersign::manifest::GUARD)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut guard.stdin.take().unwrap(), order.as_bytes()).unwrap();
        let ended = guard.wait_with_output().unwrap();
        assert_eq!((ended.status.code(), ended.stdout), (Some(0), vec![]), "{order}");
    }
}
