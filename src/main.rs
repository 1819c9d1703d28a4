//! The `countersign` binary.

fn main() -> std::process::ExitCode {
    if std::env::args_os().nth(1).is_some_and(|it| it == countersign::manifest::GUARD) {
        return countersign::manifest::guard(); // before anything else: one is started for every command
    }
    countersign::cli::main()
}
