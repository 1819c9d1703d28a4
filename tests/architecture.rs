//! Dependencies point one way. What the map in docs/ARCHITECTURE.md says, the `use` lines must bear out.

use std::path::{Path, PathBuf};

/// Every source file with its text, without its comments.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let name = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
                let text = std::fs::read_to_string(&path).unwrap();
                let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default(); // a file's tests come last
                let code = text.lines().map(|it| it.split("//").next().unwrap_or_default());
                found.push((name, code.collect::<Vec<_>>().join("\n")));
            }
        }
    }
    found.sort();
    found
}

/// Whether the code uses a path that begins so: `sqlx::..`, as a word of its own.
fn uses(code: &str, path: &str) -> bool {
    code.match_indices(path).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|it| it.is_alphanumeric() || matches!(it, '_' | ':'))
    })
}

/// Files that use a path although they are in none of the places that may.
fn trespassers(path: &str, places: &[&str]) -> Vec<String> {
    let at_home =
        |name: &str| places.iter().any(|place| name == format!("{place}.rs") || name.starts_with(&format!("{place}/")));
    sources().into_iter().filter(|(name, code)| !at_home(name) && uses(code, path)).map(|(name, _)| name).collect()
}

#[test]
fn each_dependency_has_one_user() {
    for (path, places) in [
        ("sqlx::", &["store"][..]),
        ("cedar_policy", &["policy", "stage/policy"]),
        ("jsonschema::", &["schema"]),
        ("serde_saphyr::", &["workbench"]),
        ("aes_gcm::", &["store/seal"]),
        ("SystemTime", &["clock"]),
        ("Instant::now", &["clock"]),
        ("std::time::Instant", &["clock"]),
        ("std::env::", &["cli", "main"]),
        ("notify::", &["policies/watch"]),
        ("clap::", &["cli", "main"]),
        ("axum::", &["http"]),
        ("hyper::", &["http"]),
        ("hyper_util::", &["http"]),
        ("http_body_util::", &["http"]),
        ("tower::", &["http"]),
        ("tower_http::", &["http"]),
        ("utoipa::", &["http"]),
        ("jsonwebtoken::", &["auth"]),
        ("subtle::", &["auth"]),
        ("rustls::", &["outbound"]),
        ("reqwest::", &["outbound", "notifications", "auth", "manifest", "ledger", "export", "telemetry", "cli"]),
        ("opentelemetry", &["telemetry", "manifest"]),
        ("prost::", &["telemetry"]),
        ("tracing_opentelemetry::", &["telemetry", "manifest"]),
        ("tracing_subscriber::", &["telemetry", "cli"]),
        ("tlog_tiles::", &["ledger"]),
        ("signed_note::", &["ledger"]),
        ("ed25519_dalek::", &["ledger", "verify"]),
        ("indicatif::", &["cli"]),
        ("prometheus_client::", &["meters"]),
        ("toml::", &["config", "manifest"]),
        ("rustix::", &["manifest", "cli"]),
        ("getrandom::", &["id"]),
        ("uuid::", &["id"]),
        ("tempfile::", &["testing", "cli", "demo"]),
    ] {
        let found: Vec<_> = trespassers(path, places).into_iter().filter(|it| !it.contains("tests")).collect();
        assert_eq!(found, Vec::<String>::new(), "only {places:?} may use `{path}`");
    }
}

#[test]
fn the_heart_knows_no_surface_and_stages_no_engine() {
    let below =
        ["stage", "pipeline", "policy", "schema", "store", "trail", "rejection", "registry", "resource", "workbench"];
    let above = ["crate::cli", "crate::config", "crate::demo", "crate::drift", "crate::http", "crate::testing"];
    let engine = ["crate::engine", "crate::builder::Engine"];
    for (name, code) in sources() {
        let heart = below.iter().any(|it| name == format!("{it}.rs") || name.starts_with(&format!("{it}/")));
        for path in above.iter().chain(&engine).filter(|_| heart && !name.contains("test")) {
            assert!(!uses(&code, path), "{name} uses `{path}`");
        }
    }
}

#[test]
fn what_verifies_shares_nothing_with_what_writes() {
    let theirs = [
        "crate::audit",
        "crate::canonical",
        "crate::clock",
        "crate::ledger",
        "crate::trail",
        "tlog_tiles::",
        "signed_note::",
        "serde_json_canonicalizer::",
    ];
    let of = |place: &str| {
        let files = sources()
            .into_iter()
            .filter(move |it| it.0 == format!("{place}.rs") || it.0.starts_with(&format!("{place}/")));
        files.collect::<Vec<_>>()
    };
    for (name, code) in of("verify") {
        for path in theirs {
            assert!(!uses(&code, path), "{name} uses `{path}`");
        }
    }
    for (name, code) in of("ledger").into_iter().chain(of("audit")).chain(of("store")) {
        assert!(!uses(&code, "crate::verify"), "{name} uses what verifies it");
    }
}

#[test]
fn stages_never_call_each_other() {
    // A stage names the proofs that it takes; it calls no other stage's function.
    let entrances = [
        "actor::require(",
        "exposure::find(",
        "schema::validate(",
        "policy::decide(",
        "approval::settle(",
        "idempotency::begin(",
        "handler::run(",
        "output::check(",
        "redaction::apply(",
        "record::finish(",
    ];
    for (name, code) in sources().into_iter().filter(|(name, _)| name.starts_with("stage/")) {
        for entrance in entrances {
            assert!(!code.contains(entrance), "{name} calls `{entrance}..)`");
        }
    }
}

#[test]
fn the_search_finds_what_is_there() {
    assert!(!trespassers("sqlx::", &[]).is_empty() && uses("use sqlx::query;", "sqlx::"));
    assert!(!uses("my_sqlx::query", "sqlx::"));
}
