//! The command `pavlov`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pavlov::cli::main()
}
