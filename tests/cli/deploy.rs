//! What `docs/operating.md` and `docs/deploy` have people type and copy.

use std::path::Path;
use std::process::Command;

use countersign::config::Config;

use super::Shell;
use super::page::follow;
use super::serve::Served;

const OPERATING: &str = include_str!("../../docs/operating.md");
const NOTES: &str = include_str!("../../docs/deploy/README.md");
const UNIT: &str = include_str!("../../docs/deploy/countersign.service");
const CONTAINER: &str = include_str!("../../docs/deploy/Containerfile");

#[test]
fn the_page_about_operating_works_from_an_empty_directory() {
    assert!(follow(&Shell::new(), OPERATING) > 5, "the commands are gone");
}

/// Every command of `countersign` in a block for a shell.
fn commands(page: &str) -> Vec<Vec<&str>> {
    let blocks = page.split("```sh\n").skip(1).filter_map(|it| it.split("```").next());
    let lines = blocks.flat_map(str::lines).filter_map(|it| it.strip_prefix("countersign "));
    lines.map(|it| it.split(' ').collect()).collect()
}

/// Whether the binary takes these words. It does nothing with them.
fn is_taken(words: &[&str]) -> bool {
    Shell::new().run(&[words, &["--help"]].concat()).code == 0
}

#[test]
fn every_command_of_the_pages_is_one() {
    let all: Vec<_> = [OPERATING, NOTES].iter().flat_map(|it| commands(it)).collect();
    assert!(all.len() >= 3, "{all:?}");
    for command in all {
        assert!(is_taken(&command), "{command:?}");
    }
    assert!(!is_taken(&["serve", "--frobnicate"]) && !is_taken(&["serve", "--listen", "x"]), "it takes anything");
}

#[test]
fn the_table_has_every_key_with_its_default() {
    let rows = OPERATING.lines().filter_map(|it| it.strip_prefix("| `")?.split_once("` | "));
    let mut variables = Vec::new();
    for (key, rest) in rows {
        let default = rest.split(" | ").next().unwrap().trim_matches('`');
        let name = key.to_uppercase().replace('.', "__");
        let default = match default {
            "none" if key.ends_with("listen") => "127.0.0.1:1",
            "none" if key.ends_with("directory") => "capabilities",
            "none" => "[]",
            "the demo's own" => "policies",
            other => other,
        };
        variables.push((format!("COUNTERSIGN_{name}"), default.to_owned()));
    }
    assert_eq!(variables.len(), 21, "{variables:?}");
    let set = Config::read(None, variables).unwrap();
    let plain = Config::read(None, []).unwrap();
    assert_eq!(format!("{:?}", set.http), format!("{:?}", plain.http));
    assert_eq!((set.log.format, set.log.level.as_deref()), (plain.log.format, Some("info")));
    // Each key of the section is in the table.
    let problems = Config::read(None, [("COUNTERSIGN_HTTP__XXXXXXXXXX".to_owned(), "1".to_owned())]).unwrap_err();
    let known: Vec<&str> = problems[0].fix.split('`').skip(1).step_by(2).collect();
    assert!(known.len() > 5 && known.iter().all(|it| OPERATING.contains(&format!("`http.{it}`"))), "{known:?}");
}

/// The value of a key of the unit. It is there once.
fn of_unit(key: &str) -> &'static str {
    let mut found = UNIT.lines().filter_map(|it| it.strip_prefix(key)?.strip_prefix('='));
    let value = found.next().unwrap_or_else(|| panic!("{key}"));
    assert_eq!(found.next(), None, "{key}");
    value
}

#[test]
fn the_unit_starts_what_the_binary_takes() {
    let words: Vec<&str> = of_unit("ExecStart").split(' ').collect();
    assert_eq!(words[0], "/usr/local/bin/countersign");
    assert!(is_taken(&words[1..]), "{words:?}");
    assert!(words.contains(&"sqlite:/var/lib/countersign/countersign.db"), "it has the state directory");
    assert_eq!((of_unit("StateDirectory"), of_unit("WorkingDirectory")), ("countersign", "/var/lib/countersign"));
    for (key, value) in [
        ("DynamicUser", "yes"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("CapabilityBoundingSet", ""),
        ("UMask", "0077"),
        ("KillMode", "mixed"),
    ] {
        assert_eq!(of_unit(key), value, "{key}");
    }
    // Requests and executions may take the default each, and the records their five seconds.
    let seconds: u64 = of_unit("TimeoutStopSec").trim_end_matches('s').parse().unwrap();
    let patience = Config::read(None, []).unwrap().http.shutdown_timeout.as_secs();
    assert!(seconds > 2 * patience + 10, "{seconds}");
}

/// systemd itself has nothing to say about it, where it is there to ask.
#[test]
fn the_unit_is_one() {
    let shell = Shell::new();
    // The binary is not where a service has it.
    let unit = UNIT.replace("/usr/local/bin/countersign", env!("CARGO_BIN_EXE_countersign"));
    shell.write("countersign.service", &unit);
    let asked = Command::new("systemd-analyze").arg("verify").arg(shell.path().join("countersign.service")).output();
    let Ok(asked) = asked else {
        eprintln!("THERE IS NO SYSTEMD: THE UNIT IS NOT VERIFIED");
        return;
    };
    let told = String::from_utf8_lossy(&asked.stderr).into_owned();
    let about_it: Vec<&str> = told.lines().filter(|it| it.contains("countersign.service")).collect();
    assert_eq!(about_it, [""; 0]);
    for line in UNIT.lines().filter(|it| !it.is_empty() && !it.starts_with(['#', '['])) {
        assert!(line.split_once('=').is_some_and(|(key, _)| key.chars().all(char::is_alphanumeric)), "{line}");
    }
}

/// The words of a list in the container file.
fn list(instruction: &str) -> Vec<String> {
    let line = CONTAINER.lines().find(|it| it.starts_with(instruction)).unwrap();
    serde_json::from_str(&line[line.find('[').unwrap()..]).unwrap()
}

#[test]
fn the_container_file_names_what_there_is() {
    for line in CONTAINER.lines().filter_map(|it| it.strip_prefix("COPY ")).filter(|it| !it.starts_with("--from")) {
        let words: Vec<&str> = line.split(' ').collect();
        for path in &words[..words.len() - 1] {
            assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(path).exists(), "{path}");
        }
    }
    let rust = concat!("rust:", env!("CARGO_PKG_RUST_VERSION"));
    assert!(CONTAINER.contains(rust), "the toolchain is {rust}");
    assert_eq!(list("ENTRYPOINT"), ["/usr/local/bin/countersign"]);
    for words in [&list("CMD")[..], &list("HEALTHCHECK")[1..]] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert!(is_taken(&words), "{words:?}");
    }
    let variables = CONTAINER.lines().filter_map(|it| it.strip_prefix("ENV ")?.split_once('='));
    let variables: Vec<(String, String)> = variables.map(|(name, value)| (name.into(), value.into())).collect();
    let config = Config::read(None, variables).unwrap();
    assert_eq!(config.database.as_deref(), Some("sqlite:/var/lib/countersign/countersign.db"));
    assert_eq!(config.http.listen, "0.0.0.0:8080".parse().unwrap());
    let user = CONTAINER.lines().find_map(|it| it.strip_prefix("USER ")).unwrap();
    assert!(user != "0" && user != "root", "{user}");
}

#[test]
fn the_notes_settings_are_settings() {
    let shell = Shell::new();
    let blocks: Vec<&str> = NOTES.split("```toml\n").skip(1).map(|it| it.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 1);
    for block in blocks {
        shell.write("c.toml", block);
        assert!(Config::read(Some(&shell.path().join("c.toml")), []).is_ok(), "{block}");
    }
}

/// A backup of a database in use, by the notes' own commands, is whole.
#[test]
fn a_backup_by_the_notes_is_whole() {
    let block = NOTES.split("```sh\n").find(|it| it.starts_with("sqlite3")).unwrap().split("```").next().unwrap();
    let shell = Shell::new();
    let served = Served::demo(&shell);
    let search = r#"{"input":{"query":"lamp"}}"#;
    assert_eq!(served.ask("POST /v1/capabilities/orders.search/invoke", "demo-dana", search).0, 200);
    let Ok(there) = Command::new("sqlite3").arg("--version").output() else {
        eprintln!("THERE IS NO SQLITE3: THE BACKUP IS NOT TRIED");
        return;
    };
    assert!(there.status.success());
    let ran = Command::new("sh").arg("-ec").arg(block).current_dir(shell.path()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let list = |db: &str| shell.run(&["audit", "list", "--json", "--db", db]);
    let (own, kept) = (list("sqlite:countersign.db"), list("sqlite:backup.db"));
    assert_eq!((kept.code, own.out), (0, kept.out));
    assert_eq!(
        shell
            .run(&[
                "invoke",
                "orders.search",
                "--actor",
                "dana",
                "--input",
                r#"{"query":"lamp"}"#,
                "--db",
                "sqlite:backup.db"
            ])
            .code,
        0
    );
}
