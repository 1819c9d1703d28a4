//! The `countersign` binary.

fn main() -> std::process::ExitCode {
    countersign::cli::main()
}
