//! Leaving a stage out, swapping two, forging a proof or opening a stored outcome elsewhere does not compile.
//!
//! Each proof is one edit of a copy of the crate's source, or a program that uses its public API, that the compiler must
//! refuse, for the reason named. It takes
//! a minute or two, so it runs only where `COUNTERSIGN_PROOFS=1`, as `.ci/run` sets it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is done, in which file, by which edit, and what the compiler says.
struct Proof {
    name: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
    code: &'static str,
}

const fn pipeline(name: &'static str, from: &'static str, to: &'static str, code: &'static str) -> Proof {
    Proof { name, file: "pipeline.rs", from, to, code }
}

const PROOFS: [Proof; 19] = [
    pipeline("leave the actor out", "actor::require(trail.at(Stage::Actor), call)?", "call", "E0308"),
    pipeline(
        "leave exposure out",
        "exposure::find(trail.at(Stage::Resolve), identified.clone(), &self.registry, policies)?",
        "identified.clone()",
        "E0308",
    ),
    pipeline(
        "leave the schema out",
        "schema::validate(trail.at(Stage::Schema), exposed, &self.store)?",
        "exposed",
        "E0308",
    ),
    pipeline(
        "leave policy out",
        "budget.within(pin!(policy::decide(trail.at(Stage::Policy), valid, &self.resources))).await?",
        "valid",
        "E0308",
    ),
    pipeline(
        "swap schema and policy",
        "schema::validate(trail.at(Stage::Schema), exposed, &self.store)?",
        "budget.within(pin!(policy::decide(trail.at(Stage::Policy), exposed, &self.resources))).await?",
        "E0308",
    ),
    pipeline(
        "begin without a grant",
        "idempotency::begin(trail, grant, &self.store)",
        "idempotency::begin(trail, permit, &self.store)",
        "E0308",
    ),
    pipeline(
        "run what is only answered",
        "Approval::Granted(grant) => grant,",
        "Approval::Known(known) => known,",
        "E0308",
    ),
    pipeline(
        "forge a grant",
        "Approval::Granted(grant) => grant,",
        "Approval::Granted(grant) => Grant { slot: None, ..grant },",
        "E0451",
    ),
    pipeline(
        "run without a beginning",
        "self.perform(trail, &begun, body)",
        "self.perform(trail, &identified, body)",
        "E0308",
    ),
    pipeline(
        "begin twice",
        "let ended = self.perform(",
        "let _ = idempotency::begin(trail, grant, &self.store).await; let ended = self.perform(",
        "E0382",
    ),
    pipeline(
        "leave a claim behind",
        "self.perform(trail, &begun, body).await;",
        "self.perform(trail, &begun, body).await?;",
        "E0277",
    ),
    pipeline(
        "end twice",
        "match record::finish(trail, begun, ended, &self.store, &self.clock).await? {",
        "let _ = record::finish(trail, begun, Ok(Output::default()), &self.store, &self.clock).await; \
         match record::finish(trail, begun, ended, &self.store, &self.clock).await? {",
        "E0382",
    ),
    pipeline(
        "forge a record",
        "return Ok(self.abandon(recorded, late)),",
        "return Ok(Recorded(self.abandon(recorded, late).into_outcome())),",
        "E0423",
    ),
    pipeline(
        "leave the output check out",
        "let checked = output::check(trail.at(Stage::Output), begun, raw)?;",
        "let checked = raw;",
        "E0308",
    ),
    pipeline(
        "leave redaction out",
        "redaction::apply(trail.at(Stage::Redaction), begun, checked)",
        "Ok(checked)",
        "E0308",
    ),
    pipeline(
        "forge an output",
        "let checked = output::check(trail.at(Stage::Output), begun, raw)?;",
        "let checked = output::check(trail.at(Stage::Output), begun, raw)?;
        if begun.agent().attempt == 0 {
            let text = serde_json::value::RawValue::NULL.to_owned().into();
            return Ok(Output { text, value: serde_json::Value::Null });
        }",
        "E0451",
    ),
    pipeline(
        "enter a stage unnamed",
        "schema::validate(trail.at(Stage::Schema), exposed, &self.store)?",
        "schema::validate(exposed, &self.store)?",
        "E0061",
    ),
    Proof {
        name: "open a stored outcome outside of redaction",
        file: "stage/record.rs",
        from: "let text = stored.ok_or(Rejection::Internal(\"a settled key without an outcome\"))?;",
        to: "let text = Stored::from_store(stored.ok_or(Rejection::Internal(\"nothing\"))?).0;",
        code: "E0616",
    },
    pipeline(
        "forge a permit",
        "budget.within(pin!(policy::decide(trail.at(Stage::Policy), valid, &self.resources))).await?",
        "Permit { valid, presented: None, gates: None, policies: Vec::new(), entities: Default::default() }",
        "E0451",
    ),
];

/// A program outside of the crate, and what the compiler says of it.
struct Outside {
    name: &'static str,
    code: &'static str,
    program: &'static str,
}

/// What nobody outside can make, name or take apart.
const OUTSIDE: [Outside; 9] = [
    Outside { name: "name a stage", code: "E0603", program: "use countersign::stage::policy; fn main() {}" },
    Outside { name: "name a proof", code: "E0432", program: "use countersign::Recorded; fn main() {}" },
    Outside { name: "name the pipeline", code: "E0603", program: "use countersign::pipeline::Core; fn main() {}" },
    Outside {
        name: "reach into an engine",
        code: "E0616",
        program: "fn take(it: &countersign::Engine) { let _ = &it.core; } fn main() {}",
    },
    Outside {
        name: "make a caller",
        code: "E0451",
        program: "fn make(it: countersign::Caller, who: countersign::Identity) -> countersign::Caller {
            countersign::Caller { identity: std::sync::Arc::new(who), ..it } } fn main() {}",
    },
    Outside {
        name: "claim a surface",
        code: "E0624",
        program: "fn claim(it: &countersign::Gateway, who: countersign::Identity) {
            let _ = it.caller(who, countersign::Surface::Http); } fn main() {}",
    },
    Outside {
        name: "forge an output",
        code: "E0451",
        program: "fn forge(it: countersign::Output) -> countersign::Output {
            countersign::Output { value: loop {}, ..it } } fn main() {}",
    },
    Outside {
        name: "forge a governed invocation",
        code: "E0624",
        program: "fn main() { let _ = countersign::Invocation::<()>::governed; }",
    },
    Outside {
        name: "say that an agent was behind it",
        code: "E0639",
        program: "fn say(it: countersign::AgentInvocationInfo) -> countersign::AgentInvocationInfo {
            countersign::AgentInvocationInfo { attempt: 2, ..it } } fn main() {}",
    },
];

#[test]
fn no_stage_can_be_skipped() {
    if std::env::var("COUNTERSIGN_PROOFS").as_deref() != Ok("1") {
        return eprintln!("SKIPPED: the compile proofs run with COUNTERSIGN_PROOFS=1");
    }
    let copy = copy();
    let mut wrong = inside(&copy);
    wrong.extend(outside(&copy));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Programs that use the public API, each of which must be refused for its own reason.
fn outside(copy: &Path) -> Vec<String> {
    let file = copy.join("examples/outside.rs");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let mut wrong = Vec::new();
    fs::write(&file, "use countersign::Engine; fn take(_: &Engine) {} fn main() { let _ = take; }").unwrap();
    let (compiles, said) = check(copy, &["--example", "outside"]);
    assert!(compiles, "an honest program compiles:\n{said}");
    for Outside { name, code, program } in &OUTSIDE {
        fs::write(&file, program).unwrap();
        let (compiles, said) = check(copy, &["--example", "outside"]);
        if compiles || !said.contains(&format!("error[{code}]")) {
            wrong.push(format!("{name}: not refused with {code}:\n{said}"));
        }
    }
    wrong
}

/// Edits of the crate itself, each of which must be refused for its own reason.
fn inside(copy: &Path) -> Vec<String> {
    let (compiles, said) = check(copy, &["--lib"]);
    assert!(compiles, "the copy compiles as it is:\n{said}");
    let mut wrong = Vec::new();
    for proof in &PROOFS {
        let file = copy.join("src").join(proof.file);
        let before = fs::read_to_string(&file).unwrap();
        assert_eq!(before.matches(proof.from).count(), 1, "{}: the source reads differently by now", proof.name);
        fs::write(&file, before.replacen(proof.from, proof.to, 1)).unwrap();
        let (compiles, said) = check(copy, &["--lib"]);
        fs::write(&file, before).unwrap();
        if compiles {
            wrong.push(format!("{}: it compiles", proof.name));
        } else if !said.contains(&format!("error[{}]", proof.code)) {
            wrong.push(format!("{}: refused, but not with {}:\n{said}", proof.name, proof.code));
        }
    }
    wrong
}

/// Whether a part of the copy compiles, and what the compiler says.
fn check(copy: &Path, part: &[&str]) -> (bool, String) {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(copy).env("CARGO_TARGET_DIR", target().join("build")).env_remove("RUSTFLAGS");
    command.args(["check", "--quiet", "--offline", "--no-default-features", "--features", "sqlite"]).args(part);
    let done = command.output().unwrap();
    (done.status.success(), format!("{}\n{}", done.status, String::from_utf8_lossy(&done.stderr)))
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/proofs")
}

/// The crate without its tests, in a workspace of its own.
fn copy() -> PathBuf {
    let (from, to) = (Path::new(env!("CARGO_MANIFEST_DIR")), target().join("copy"));
    let _ = fs::remove_dir_all(&to);
    copy_all(&from.join("src"), &to.join("src"));
    fs::copy(from.join("Cargo.lock"), to.join("Cargo.lock")).unwrap();
    let mut kept = String::from("[workspace]\n");
    let mut keep = true;
    for line in fs::read_to_string(from.join("Cargo.toml")).unwrap().lines() {
        if line.starts_with('[') {
            let left_out = ["[dev-dependencies]", "[[test]]", "[[bench]]", "[[example]]"];
            keep = !left_out.contains(&line);
        }
        if keep {
            kept += line;
            kept += "\n";
        }
    }
    fs::write(to.join("Cargo.toml"), kept).unwrap();
    to
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}
