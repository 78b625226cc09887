//! `pavlov doctor`: checks what this machine offers, one line per check, with a remedy if something is missing; or says why
//! a run does not learn.

mod line;
mod ray;
mod run;
#[cfg_attr(not(feature = "torch"), path = "no_torch.rs")]
mod torch;

use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use self::line::{Line, Status};
use self::ray::ray;
use super::output::{print_json, print_table};

/// Check this machine, or say why a run does not learn
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  pavlov doctor\n  pavlov doctor runs/first\n  pavlov doctor runs/seed0 runs/seed1 runs/seed2\n\n\
                  Without a run it checks Rust, the C++ compiler, libtorch, CUDA and Ray, and exits with 1 if something is \
                  broken that pavlov needs to run. With runs it prints a line for each number that keeps a run from \
                  learning, with the setting to change."
)]
pub(super) struct DoctorArgs {
    /// Run directories of `pavlov train`, or a sweep's directory, of which each trial is a run
    #[arg(value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Print a JSON list of objects
    #[arg(long)]
    json: bool,
}

/// What this process knows of libtorch: the library file, its version, and the lines about it.
struct Found {
    lib: Option<PathBuf>,
    version: Option<String>,
    lines: Vec<Line>,
}

pub(super) fn doctor(args: &DoctorArgs) -> anyhow::Result<()> {
    if !args.runs.is_empty() {
        return run::examine(&args.runs, args.json);
    }
    let Found { lib, version, lines } = torch::found();
    let lines = [rust()].into_iter().chain(lines).chain([cores()]);
    let lines: Vec<Line> = lines.chain(ray(lib.as_deref(), version.as_deref())).collect();
    if args.json {
        print_json(&lines)?;
    } else {
        let row = |line: &Line| {
            let status = format!("{:?}", line.status).to_lowercase();
            let found =
                line.remedy.iter().fold(line.found.clone(), |text, remedy| format!("{text}; {remedy}"));
            vec![status, line.what.to_owned(), found]
        };
        print_table(&lines.iter().map(row).collect::<Vec<_>>())?;
    }
    match lines.iter().find(|line| line.status == Status::Broken) {
        None => Ok(()),
        Some(line) => anyhow::bail!("{} is broken: {}", line.what, line.found),
    }
}

/// Returns the first line that `program --version` prints; `None` if it cannot be run or fails.
fn version_of(program: &str) -> Option<String> {
    let output =
        Command::new(program).arg("--version").output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned())
}

fn rust() -> Line {
    match version_of("rustc") {
        Some(version) => Line::ok("Rust", version),
        None => Line::bad(
            "Rust",
            Status::Warn,
            "no rustc on the PATH",
            "needed to build programs with pavlov, not to run this command: https://rustup.rs",
        ),
    }
}

fn cores() -> Line {
    match std::thread::available_parallelism() {
        Ok(cores) => Line::ok("cores", format!("{cores} that this process may use")),
        Err(error) => Line::bad("cores", Status::Warn, error.to_string(), "set num_workers yourself"),
    }
}
