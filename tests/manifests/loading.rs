//! Reading manifests: everything that can be said, and everything that is wrong, at once.

use countersign::Filter;
use countersign::manifest::ManifestSettings;

use super::{Files, app, dana, guarded, manifest};

const WHOLE: &str = r#"
id = "orders.refund"
description = "Refund an order, fully or in part. Check eligibility first."
expose = ["direct", "http", "mcp"]
side_effect = "write"
risk = "high"
tags = ["orders", "money"]
tool_name = "refund-order"
timeout = "5s"
idempotent = true
decision_record = true
run_on_approval = false
input_schema_file = "refund.schema.json"
output_schema = '{"type": "object", "properties": {"refundId": {"type": "string"}, "gatewayRef": {"type": "string"}}}'

[retry]
max_attempts = 2

[errors]
NOT_ELIGIBLE = "The order cannot be refunded."

[idempotency]
ttl = "7d"
store_output = false

[approval]
type = "manager"
quorum = 2
expires_in = "48h"

[redact]
output = ["/gatewayRef"]
display = ["/note"]

[handler]
kind = "http"
url = "https://app.example/procedures/refund"
sign = { file = "keys/signing" }
"#;

const SCHEMA: &str = r#"{
    "type": "object", "additionalProperties": false, "required": ["orderId"],
    "properties": {"orderId": {"type": "string"}, "note": {"type": "string"}}
}"#;

fn settings() -> ManifestSettings {
    guarded().endpoints(["https://app.example", "http://app.internal:8080"])
}

#[tokio::test]
async fn a_manifest_says_all_that_a_builder_can() {
    let files = Files::of(&[
        ("refund.toml", WHOLE),
        ("refund.schema.json", SCHEMA),
        ("keys/signing", &format!("{}\n", super::SECRET)),
        ("notes.txt", "not a manifest"),
    ]);
    let app = app(files.load(&settings()).unwrap()).await;
    let listed = app.on_behalf_of(dana()).capabilities(Filter::all()).await.unwrap();
    insta::assert_json_snapshot!(listed, @r#"
    [
      {
        "id": "orders.refund",
        "description": "Refund an order, fully or in part. Check eligibility first.",
        "inputSchema": {
          "type": "object",
          "additionalProperties": false,
          "required": [
            "orderId"
          ],
          "properties": {
            "orderId": {
              "type": "string"
            },
            "note": {
              "type": "string"
            }
          }
        },
        "sideEffect": "write",
        "risk": "high",
        "tags": [
          "money",
          "orders"
        ],
        "requiresApproval": "always"
      }
    ]
    "#);
}

/// Files with all that can be wrong in them.
fn broken() -> Files {
    Files::of(&[
        (
            "a.toml",
            r#"
id = "orders.refund"
descripton = "Misspelt."
expose = ["direct", "web"]
side_effect = "writes"
timeout = 30
idempotent = "yes"
input_schema = { type = "object" }
input_schema_file = "x.json"
output_schema_file = "nowhere.json"
retry = { attempts = 2 }
errors = { NOT_ELIGIBLE = 7 }
approval = { kind = "manager", expires_in = "2 days" }
redact = ["/a"]
resource = { entity = "Order" }

[handler]
kind = "http"
url = "https://app.example@evil.example/x"
sign = "whsec_canary"
headers = { Host = "x", X-Api-Key = "canary", x-region = "eu", X-Region = "us", "X Y" = "z", X-B = { env = "TWO_LINES" } }
extra = 1
"#,
        ),
        ("b.toml", "id = \"orders.refund\nrisk = \"low\"\nrisk = \"high\"\n[handler"),
        ("c.toml", &manifest("orders.list", "read", "kind = \"magic\"")),
        ("d.toml", ""),
        ("e.TOML", ""),
        ("f.toml/nothing", ""),
    ])
}

#[test]
fn every_problem_of_every_file_is_told_at_once() {
    insta::assert_snapshot!(broken().problems(&settings()), @r#"
    e.TOML: its name does not end in `.toml`; rename it, in small letters
    f.toml: it is not a regular file; make it a readable text file, or remove it
    a.toml:1: `description`: it is missing; say what it does and when to use it
    a.toml:1: `risk`: it is missing; write one of `low`, `medium`, `high`, `critical`
    a.toml:3: `descripton`: there is no such field; did you mean `description`?
    a.toml:4: `expose`: it lists what is no surface; there are: `direct`, `http`, `mcp`, `workflow`, `test`
    a.toml:5: `side_effect`: there is no such word; write one of `none`, `read`, `write`, `destructive`, `external`
    a.toml:6: `timeout`: it must be a time with its unit: `500ms`, `30s`, `5m`, `24h` or `7d`; correct it
    a.toml:7: `idempotent`: it must be `true` or `false`; correct it
    a.toml:9: `input_schema_file`: `input_schema` says it too; keep one of the two
    a.toml:10: `output_schema_file`: it cannot be read (entity not found); name a file of JSON, from the manifests' directory
    a.toml:11: `retry.max_attempts`: it is missing; say how many additional attempts there may be: `max_attempts = 2`
    a.toml:11: `retry.attempts`: there is no such field; remove it; there are: max_attempts
    a.toml:12: `errors.NOT_ELIGIBLE`: it must be a string; write the sentence that callers read
    a.toml:13: `approval.type`: it is missing; name the type of the approval: `manager`
    a.toml:13: `approval.expires_in`: it must be a time with its unit: `500ms`, `30s`, `5m`, `24h` or `7d`; correct it
    a.toml:13: `approval.kind`: there is no such field; remove it; there are: required, type, quorum, expires_in
    a.toml:14: `redact`: it must be a table; write it as `{ .. }`
    a.toml:15: `resource.id`: it is missing; say where in the input its id is: `/orderId`
    a.toml:19: `handler.url`: it names a user; remove what is before the `@`; credentials come from `bearer` or `headers`, by reference
    a.toml:19: `handler.url`: its origin is not one that procedures may be at; add it to `endpoints` of `[capabilities]`, exactly so: `https://evil.example`
    a.toml:20: `handler.sign`: a secret is never written into a manifest; say where the secret is: `{ env = "NAME" }` or `{ file = "PATH" }`
    a.toml:21: `handler.headers.Host`: this header belongs to the engine or to the protocol; remove it
    a.toml:21: `handler.headers.X Y`: it is not the name of a header; write it as `X-Region`
    a.toml:21: `handler.headers.X-Api-Key`: it looks like a secret, which is never written into a manifest; say where the secret is: `{ env = "NAME" }` or `{ file = "PATH" }`
    a.toml:21: `handler.headers.X-B`: its secret is not the value of a header; use visible ASCII characters
    a.toml:21: `handler.headers.x-region`: this header is there twice; keep one of them; letters of any size are the same
    a.toml:22: `handler.extra`: there is no such field; remove it; there are: kind, url, sign, bearer, headers
    b.toml:1: it is not TOML: invalid basic string, expected `"`; correct it
    b.toml:3: it is not TOML: duplicate key; correct it
    b.toml:4: it is not TOML: unclosed table, expected `]`; correct it
    c.toml:13: `handler.kind`: there is no such word; write one of `http`, `command`
    d.toml:1: `id`: it is missing; give it an id: `orders.refund`
    d.toml:1: `side_effect`: it is missing; write one of `none`, `read`, `write`, `destructive`, `external`
    d.toml:1: `description`: it is missing; say what it does and when to use it
    d.toml:1: `risk`: it is missing; write one of `low`, `medium`, `high`, `critical`
    d.toml:1: `input_schema`: it is missing; write a JSON Schema as `input_schema = { .. }`, or name its file with `input_schema_file`
    d.toml:1: `output_schema`: it is missing; write a JSON Schema as `output_schema = { .. }`, or name its file with `output_schema_file`
    d.toml:1: `handler`: it is missing; say where the procedure is: `[handler]` with `kind = "http"` or `"command"`
    "#);
}

#[test]
fn what_registration_refuses_is_told_with_file_line_and_field() {
    let http = "kind = \"http\"\nurl = \"https://app.example/x\"\nsign = { env = \"SIGNING_KEY\" }";
    let base = manifest("things.change", "write", http);
    let mut told = String::new();
    for (from, to) in [
        ("id = \"things.change\"", "id = \"Things change\""),
        ("id = \"things.change\"", "id = \"invoke\""),
        ("\"For tests.\"", "\" \""),
        ("risk =", "tags = [\"A b\"]\nrisk ="),
        ("risk =", "tool_name = \"a b\"\nrisk ="),
        ("timeout = \"20s\"", "timeout = \"25h\""),
        ("risk =", "retry = { max_attempts = 2 }\nrisk ="),
        ("risk =", "idempotent = true\nretry = { max_attempts = 11 }\nrisk ="),
        ("risk =", "idempotency = { ttl = \"0s\" }\nrisk ="),
        ("side_effect = \"write\"", "side_effect = \"none\"\nidempotency = { on_reads = true }"),
        ("risk =", "approval = { type = \"a b\" }\nrisk ="),
        ("risk =", "approval = { type = \"manager\", quorum = 17 }\nrisk ="),
        ("risk =", "approval = { type = \"manager\", expires_in = \"31d\" }\nrisk ="),
        ("risk =", "idempotency = { ttl = \"1h\" }\napproval = { type = \"manager\", expires_in = \"2h\" }\nrisk ="),
        ("TOO_LATE =", "too_late ="),
        ("TOO_LATE =", "TIMEOUT ="),
        ("{ type = \"object\", additionalProperties = true }", "{ type = \"object\" }"),
        ("output_schema = {}", "output_schema = { type = \"objekt\" }"),
        ("output_schema = {}", "output_schema = { format = \"luhn\" }"),
        ("risk =", "redact = { output = [\"nothing\"] }\nrisk ="),
        ("risk =", "redact = { display = [\"nothing\"] }\nrisk ="),
        ("risk =", "resource = { entity = \"Order\", id = \"/orderId\" }\nrisk ="),
    ] {
        assert!(base.contains(from), "{from}");
        let text = base.replacen(from, to, 1);
        told += &Files::of(&[("a.toml", &text)]).problems(&settings());
        told.push('\n');
    }
    insta::assert_snapshot!(told, @r#"
    a.toml:2: `id`: the id is not a dot path; use lower-case letters, digits, `_` and single dots, at most 128: `orders.refund`
    a.toml:2: `id`: the id is reserved: it is a group of actions in policies; choose another id
    a.toml:3: `description`: it has no description; say with `description` what it does and when to use it
    a.toml:6: `tags`: the tag `A b` is not legal; use 1 to 64 lower-case letters, digits, `_` and `-`
    a.toml:6: `tool_name`: the tool name `a b` is not legal; give it one of 1 to 128 letters, digits, `_`, `-` and `.` with `tool_name`
    a.toml:7: `timeout`: the timeout is out of bounds; choose 1 ms to 24 h
    a.toml:6: `retry.max_attempts`: a write that is not idempotent is retried; remove `retries`, or declare with `idempotent` that running twice with one key is running once
    a.toml:7: `retry.max_attempts`: it has more than 10 retries; choose 0 to 10
    a.toml:6: `idempotency.ttl`: the ttl of idempotency keys is out of bounds; choose 1 s to 366 d
    a.toml:6: `idempotency.on_reads`: it uses idempotency keys, but has no effect; remove `on_reads`: a computation has nothing that a key could protect
    a.toml:6: `approval.type`: the approval type `a b` is not legal; use 1 to 64 letters, digits, `_`, `-` and `.`: `manager`
    a.toml:6: `approval.quorum`: the quorum of the approval is out of bounds; choose 1 to 16 people
    a.toml:1: `idempotency.ttl`: its idempotency keys are forgotten before its approvals expire; raise the ttl in `idempotency` to the approval's `expires_in` at least
    a.toml:6: `approval.expires_in`: the life of the approval is out of bounds; choose 1 s to 30 d with `expires_in`
    a.toml:6: `idempotency.ttl`: its idempotency keys are forgotten before its approvals expire; raise the ttl in `idempotency` to the approval's `expires_in` at least
    a.toml:8: `errors`: the error code `too_late` is not legal; use 1 to 64 capital letters, digits and `_`, a letter first: `NOT_ELIGIBLE`
    a.toml:8: `errors`: the error code `TIMEOUT` is one of the engine's own; choose another code: callers could not tell the two apart
    a.toml:9: `input_schema`: input schema: the root does not say whether undeclared members are allowed; close it with `"additionalProperties": false`, or open it with `true`
    a.toml:10: `output_schema`: output schema: `/type`: "objekt" is not valid under any of the schemas listed in the 'anyOf' keyword; correct it; JSON Schema 2020-12 says what is allowed there
    a.toml:10: `output_schema`: output schema: unknown format `luhn`, which would check nothing; use a format of JSON Schema 2020-12, or `pattern`
    a.toml:6: `redact.output`: `redact_output`: `nothing` is no path: it does not start with `/`; write a JSON Pointer, `/customer/email`, with `*` for every member or element
    a.toml:6: `redact.display`: `redact_display`: `nothing` is no path: it does not start with `/`; write a JSON Pointer, `/customer/email`, with `*` for every member or element
    a.toml:6: `resource.id`: its resource's id is at `/orderId`, where no string must be; name a required string member of the input, as a JSON Pointer: `/orderId`
    "#);
}

#[test]
fn two_files_with_one_id_are_told_with_both() {
    let http = "kind = \"http\"\nurl = \"https://app.example/x\"\nsign = { env = \"SIGNING_KEY\" }";
    let text = manifest("orders.list", "read", http);
    let files = Files::of(&[("a.toml", &text), ("b.toml", &text)]);
    insta::assert_snapshot!(files.problems(&settings()), @r#"
    b.toml:2: `id`: `orders.list` is the id of `a.toml:2` too; rename one of them
    "#);
}

#[test]
fn secrets_are_where_they_are_said_to_be_or_the_manifest_is_refused() {
    let mut told = String::new();
    for line in [
        "sign = { env = \"NOT_SET\" }",
        "sign = { env = \"SHORT_KEY\" }",
        "sign = { file = \"nowhere\" }",
        "sign = { env = \"A\", file = \"b\" }",
        "sign = {}",
        "sign = { env = 7 }",
        "sign = { value = \"canary\" }",
        "",
        "sign = { env = \"SIGNING_KEY\" }\nbearer = \"canary\"",
        "sign = { env = \"SIGNING_KEY\" }\nheaders = { X-Trace = \"Bearer canary\" }",
        "sign = { env = \"SIGNING_KEY\" }\nheaders = { Authorization = \"canary\" }",
    ] {
        let http = format!("kind = \"http\"\nurl = \"https://app.example/x\"\n{line}");
        told += &Files::of(&[("a.toml", manifest("things.change", "write", &http))]).problems(&settings());
        told.push('\n');
    }
    assert!(!told.contains("canary"), "{told}");
    insta::assert_snapshot!(told, @r#"
    a.toml:15: `handler.sign`: the environment variable `NOT_SET` is not set, or empty; put the secret there
    a.toml:15: `handler.sign`: the secret is not 24 to 64 bytes in Base64; make one with `echo whsec_$(openssl rand -base64 32)`
    a.toml:15: `handler.sign`: the file `nowhere` cannot be read; put the secret there
    a.toml:15: `handler.sign.file`: `env` says it too; keep one of the two
    a.toml:15: `handler.sign`: it says nowhere where the secret is; say where the secret is: `{ env = "NAME" }` or `{ file = "PATH" }`
    a.toml:15: `handler.sign.env`: it must be a string; correct it
    a.toml:15: `handler.sign.value`: there is no such field; remove it; there are: env, file
    a.toml:12: `handler.sign`: it is missing; name the secret that the endpoint checks signatures by: `sign = { env = "NAME" }`
    a.toml:16: `handler.bearer`: a secret is never written into a manifest; say where the secret is: `{ env = "NAME" }` or `{ file = "PATH" }`
    a.toml:16: `handler.headers.X-Trace`: it looks like a secret, which is never written into a manifest; say where the secret is: `{ env = "NAME" }` or `{ file = "PATH" }`
    a.toml:16: `handler.headers.Authorization`: it looks like a secret, which is never written into a manifest; say where the secret is: `{ env = "NAME" }` or `{ file = "PATH" }`
    "#);
}

#[test]
fn a_secret_never_goes_over_the_network_unencrypted() {
    let http = "kind = \"http\"\nurl = \"http://app.internal:8080/x\"\nsign = { env = \"SIGNING_KEY\" }";
    let listed = Files::of(&[("a.toml", manifest("things.change", "write", http))]);
    assert!(listed.load(&settings()).is_ok(), "an origin that is listed may be plain http");
    let secret = format!("{http}\nbearer = {{ env = \"API_TOKEN\" }}");
    let files = Files::of(&[("a.toml", manifest("things.change", "write", &secret))]);
    insta::assert_snapshot!(files.problems(&settings()), @r#"
    a.toml:16: `handler.bearer`: a secret would go over the network unencrypted; give the endpoint an `https` address
    "#);
}

#[test]
fn commands_name_what_is_there_and_have_a_guard() {
    let mut told = String::new();
    for line in [
        "",
        "program = \"nowhere\"",
        "program = \"cat\"",
        "program = \"a.toml\"",
        "program = \"/bin\"",
        "program = \"/bin/cat\"\ncwd = \"nowhere\"",
        "program = \"/bin/cat\"\nargs = [\"--api-key=canary\", \"a\\u0000b\"]",
        "program = \"/bin/cat\"\nargs = \"-u\"",
        "program = \"/bin/cat\"\nenv = [\"A=B\"]",
        "program = \"/bin/cat\"\nenv = [\"LANG\"]\nsecrets = { LANG = { env = \"API_TOKEN\" }, KEY = \"canary\" }",
        "program = \"/bin/cat\"\nenv = [\"TRACEPARENT\"]\nsecrets = { TRACEPARENT = { env = \"API_TOKEN\" } }",
        "program = \"/bin/cat\"\nshell = true",
    ] {
        let command = format!("kind = \"command\"\n{line}");
        told += &Files::of(&[("a.toml", manifest("things.change", "write", &command))]).problems(&settings());
        told.push('\n');
    }
    let command = manifest("things.change", "write", "kind = \"command\"\nprogram = \"/bin/cat\"");
    let files = Files::of(&[("a.toml", command)]);
    told += &files.problems(&ManifestSettings::default());
    told.push('\n');
    told += &files.problems(&ManifestSettings::default().guard("/nowhere/countersign"));
    assert!(!told.contains("canary"), "{told}");
    insta::assert_snapshot!(told, @r#"
    a.toml:12: `handler.program`: it is missing; name the program: `program = "./refund"`
    a.toml:14: `handler.program`: there is no such program; name an executable file, absolute or from the manifests' directory; no search path is used
    a.toml:14: `handler.program`: there is no such program; name an executable file, absolute or from the manifests' directory; no search path is used
    a.toml:14: `handler.program`: it is not an executable file; name an executable file, absolute or from the manifests' directory; no search path is used
    a.toml:14: `handler.program`: it is not an executable file; name an executable file, absolute or from the manifests' directory; no search path is used
    a.toml:15: `handler.cwd`: there is no such directory; name one, absolute or from the manifests' directory
    a.toml:15: `handler.args`: an argument looks like a secret, and everybody sees arguments; hand it over in the environment, by reference: `secrets = { NAME = { file = "PATH" } }`
    a.toml:15: `handler.args`: an argument holds a NUL; remove it
    a.toml:15: `handler.args`: it must be a list of strings; correct it
    a.toml:15: `handler.env`: it lists what is no name of a variable; use letters, digits and `_`
    a.toml:16: `handler.secrets.KEY`: a secret is never written into a manifest; say where the secret is: `{ env = "NAME" }` or `{ file = "PATH" }`
    a.toml:16: `handler.secrets.LANG`: `handler.env` passes it on too; keep one of the two
    a.toml:15: `handler.env`: the engine sets `TRACEPARENT` itself; remove it
    a.toml:16: `handler.secrets.TRACEPARENT`: the engine sets this variable itself; remove it
    a.toml:15: `handler.shell`: there is no such field; remove it; there are: kind, program, args, env, secrets, cwd
    a.toml:12: `handler`: nothing would end the command if this process died; name the `countersign` binary with `guard` of `[capabilities]`
    [capabilities] guard: there is no such program; name the `countersign` binary, or a program of your own that calls `manifest::guard`
    a.toml:12: `handler`: nothing would end the command if this process died; name the `countersign` binary with `guard` of `[capabilities]`
    "#);
}

#[test]
fn a_directory_that_is_not_there_is_a_problem_and_an_empty_one_is_not() {
    let files = Files::new();
    assert_eq!(files.load(&settings()).map(|it| it.len()).unwrap(), 0);
    let gone = files.path().join("gone");
    let problems = countersign::manifest::load::<()>(&gone, &settings(), &super::env).map(|it| it.len()).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].what, "it cannot be read (entity not found)");
}

#[cfg(unix)]
#[test]
fn pipes_and_endless_files_are_no_manifests() {
    let files = Files::new();
    let made = std::process::Command::new("mkfifo").arg(files.path().join("pipe.toml")).status().unwrap();
    assert!(made.success());
    std::os::unix::fs::symlink("/dev/zero", files.path().join("zero.toml")).unwrap();
    files.write("long.toml", &"#".repeat((1 << 20) + 1));
    insta::assert_snapshot!(files.problems(&settings()), @r#"
    long.toml: it has more than 1 MiB; make it a readable text file, or remove it
    pipe.toml: it is not a regular file; make it a readable text file, or remove it
    zero.toml: it is not a regular file; make it a readable text file, or remove it
    "#);
}

#[test]
fn settings_take_no_unknown_keys() {
    let taken: ManifestSettings =
        toml::from_str("directory = \"capabilities\"\nendpoints = [\"https://app.example\"]\nguard = \"/bin/c\"")
            .unwrap();
    assert_eq!(taken.endpoints, ["https://app.example"]);
    assert!(toml::from_str::<ManifestSettings>("endpoint = []").is_err());
}
