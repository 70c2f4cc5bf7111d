//! The `duduclaw` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The TLS of every client in this process; nobody has installed another yet.
    let _ = rustls::crypto::ring::default_provider().install_default();
    duduclaw::cli::main()
}
