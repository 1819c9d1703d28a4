//! `policy matrix`, `who-can`, `what-can`.

use serde_json::{Value, json};

use super::Shell;

fn shown(arguments: &[&str]) -> String {
    let ran = Shell::new().run(&[&["policy"], arguments].concat());
    assert_eq!((ran.code, &*ran.err), (0, ""), "{arguments:?}");
    ran.out
}

#[test]
fn the_matrix_has_a_table_a_surface() {
    insta::assert_snapshot!(shown(&["matrix"]));
}

#[test]
fn the_matrix_is_the_same_in_every_layout() {
    let some = ["matrix", "--actors", "dana,nightly", "--surface", "direct"];
    let layout = |it: &str| shown(&[&some[..], &["--format", it]].concat());
    insta::assert_snapshot!(layout("markdown"));
    insta::assert_snapshot!(layout("csv"));
    let json: Value = serde_json::from_str(&layout("json")).unwrap();
    assert_eq!(json, serde_json::from_str::<Value>(&shown(&[&some[..], &["--json"]].concat())).unwrap());
    let words: Vec<&str> = json.as_array().unwrap().iter().map(|it| it["outcome"].as_str().unwrap()).collect();
    let csv = layout("csv");
    let in_csv: Vec<&str> = csv.lines().skip(1).map(|it| it.split(',').nth(3).unwrap()).collect();
    assert_eq!(words, in_csv);
    assert_eq!(
        json[8],
        json!({
            "surface": "direct", "capability": "orders.refund", "actor": "dana", "outcome": "sometimes",
            "types": ["manager"], "errors": [], "policies": [
                {"id": "refunds-over-500-need-a-manager", "effect": "gate", "place": "approvals.cedar:4"},
                {"id": "refunds-stay-below-5000", "effect": "forbid", "place": "limits.cedar:3"},
                {"id": "support-works-at-the-desk", "effect": "permit", "place": "support.cedar:3"},
            ],
        })
    );
}

#[test]
fn who_can_and_what_can_say_by_which_policies() {
    let commands = [
        &["who-can", "orders.refund", "--surface", "direct"][..],
        &["who-can", "messages.send", "--surface", "mcp"],
        &["who-can", "orders.purge"],
        &["what-can", "nightly"],
        &["what-can", "dana", "--surface", "http"],
        &["what-can", "anonymous"],
    ];
    let told = commands.iter().map(|it| format!("$ countersign policy {}\n{}\n", it.join(" "), shown(it)));
    insta::assert_snapshot!(told.collect::<Vec<_>>().concat());
}

#[test]
fn actors_come_from_files_and_time_is_given() {
    let shell = Shell::new();
    shell.write(
        "p/a.cedar",
        r#"@id("day") permit (principal in Role::"day", action == Action::"orders.search", resource)
when { context.now < datetime("2026-06-01") };
@id("errs") forbid (principal is Service, action == Action::"orders.search", resource)
when { context.now.toTime().toMilliseconds() * 9223372036854775807 > 1 };
@id("people") permit (principal, action == Countersign::Action::"approve", resource);"#,
    );
    shell.write("kim.json", r#"{"id": "kim", "kind": "user", "roles": ["day"], "issuer": "https://id.example"}"#);
    shell.write("bot.json", r#"{"id": "bot", "kind": "service", "roles": ["day"]}"#);
    let on = |time: &str| {
        let who = ["policy", "who-can", "orders.search", "--actors", "kim.json,bot.json", "--surface", "direct"];
        let ran = shell.run(&[&who[..], &["--policies", "p", "--json", "--now", time]].concat()).json();
        ran.as_array().unwrap().iter().map(|it| it["outcome"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(on("2026-05-31T12:00:00Z"), ["failed", "allow"]);
    assert_eq!(on("2026-06-01T12:00:00Z"), ["failed", "deny"]);
}

#[test]
fn what_is_not_there_is_said() {
    let shell = Shell::new();
    for (arguments, message) in [
        (&["who-can", "orders.refnd"][..], "did you mean `orders.refund`?"),
        (&["what-can", "dan"], "no actor and no file is called `dan`"),
        (&["matrix", "--surface", "pigeon"], "it is one of direct"),
        (&["matrix", "--policies", "missing"], "there is no directory `missing`"),
    ] {
        let ran = shell.run(&[&["policy"], arguments].concat());
        assert_eq!(ran.code, 5, "{arguments:?}");
        assert!(ran.err.contains(message), "{}", ran.err);
    }
}
