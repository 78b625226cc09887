//! `cargo xtask test`: everything that CI runs, the quick checks first.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::bench::stems;
use crate::demo;
use crate::setup::{self, Kind};
use crate::steps::{self, Steps, cargo_command};

/// What is off by default, with every backend of `storage`.
const FEATURES: &str = "--features parquet,storage,pavlov-storage/gcs,pavlov-storage/azure";

/// Runs all steps up to the first that fails.
pub(crate) fn test(root: &Path) -> Result<()> {
    let cargo = |arguments: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        cargo_command(root, &arguments)
    };
    let mut steps = Steps::default();
    steps.step("libtorch", || setup::setup(root, Kind::Cpu))?;
    steps.run("format", &mut cargo("fmt --all --check"))?;
    steps.run("lints", &mut cargo(&format!("clippy --workspace --all-targets {FEATURES} -- -D warnings")))?;
    steps.run(
        "documentation",
        cargo(&format!("doc --workspace --no-deps --document-private-items {FEATURES}"))
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    // A path that does not exist: nothing may look for libtorch.
    steps.run(
        "without libtorch",
        cargo("check --workspace --features doc-only").env("LIBTORCH", root.join(".no-libtorch")),
    )?;

    let python = steps.step("python", || test_python(root))?;
    steps.run(
        "tests",
        cargo("test --workspace --features parquet,storage").env("PAVLOV_TEST_PYTHON", python),
    )?;
    // With the whole workspace, as the tests: another selection has other features, and tch is compiled again.
    steps.run("examples", &mut cargo("build --workspace --features parquet,storage --examples"))?;
    let results = steps::fresh("examples", "results")?;
    for folder in ["examples", "tune/examples"] {
        for example in stems(&root.join(folder), "rs")? {
            let program = steps::built("debug", &format!("examples/{example}"))?;
            let mut run = Command::new(program);
            run.current_dir(root).env("PAVLOV_RESULTS_DIR", &results);
            steps.run(&format!("example {example}"), &mut run)?;
        }
    }
    steps.step("outside program", || outside(root))?;
    steps.step("adapter for gymnasium-rs", || adapter(root))?;
    steps.step("demo", || demo::demo(root, true))?;
    steps.finish();
    Ok(())
}

/// PAVLOV_TEST_PYTHON if it is set, or else the Python of `target/test-venv`, made as `.ci/requirements.txt` says.
fn test_python(root: &Path) -> Result<PathBuf> {
    if let Some(python) = env::var_os("PAVLOV_TEST_PYTHON") {
        return Ok(python.into());
    }
    let requirements = root.join(".ci/requirements.txt");
    let wanted = read(&requirements)?;
    let venv = steps::built("test-venv", "")?;
    let python = venv.join("bin/python");
    let installed = venv.join("requirements.txt");
    if fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return Ok(python);
    }
    // With torch, so that an exported policy is loaded by the real one.
    steps::run(Command::new("bash").arg(root.join("tests/python_with_torch.sh")).arg(&venv))
        .map_err(|error| format!("{error}; on Debian and Ubuntu it needs the package python3-venv"))?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--requirement"]);
    steps::run(install.arg(&requirements))?;
    write(&installed, &wanted)?;
    Ok(python)
}

/// Builds and runs `tests/outside`, and builds the programs of the README, where no setting of this checkout reaches it.
fn outside(root: &Path) -> Result<()> {
    let program = env::temp_dir().join(format!("pavlov-outside-{}", std::process::id()));
    let manifest = read(&root.join("tests/outside/Cargo.toml"))?;
    write(&program.join("Cargo.toml"), &manifest.replace("../..", &root.display().to_string()))?;
    for file in ["build.rs", "src/main.rs"] {
        write(&program.join(file), &read(&root.join("tests/outside").join(file))?)?;
    }
    for (number, text) in programs(&read(&root.join("README.md"))?).enumerate() {
        write(&program.join(format!("src/bin/readme_{number}.rs")), text)?;
    }
    // The versions that the workspace was tested with.
    write(&program.join("Cargo.lock"), &read(&root.join("Cargo.lock"))?)?;
    // What the README tells a user to write.
    let libtorch = env::var("LIBTORCH").unwrap_or_else(|_| root.join(".libtorch").display().to_string());
    write(&program.join(".cargo/config.toml"), &format!("[env]\nLIBTORCH = \"{libtorch}\"\n"))?;

    let mut build = cargo_command(&program, &["build", "--quiet"]);
    clear(&mut build).env("CARGO_TARGET_DIR", steps::built("", "")?);
    for name in ["CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
        build.envs(env::var_os(name).map(|value| (name, value)));
    }
    steps::run(&mut build)?;
    steps::run(clear(&mut Command::new(steps::built("debug", "outside")?)))?;
    fs::remove_dir_all(&program).map_err(|error| format!("{}: {error}", program.display()))
}

/// The Rust blocks of a page, without its build script.
fn programs(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("```rust,no_run\n").skip(1).filter_map(|block| block.split("```").next());
    blocks.filter(|block| !block.starts_with("// build.rs"))
}

/// Lints, tests and trains with `adapters/gymnasium-rs`, which has a lock file of its own.
fn adapter(root: &Path) -> Result<()> {
    let adapter = root.join("adapters/gymnasium-rs");
    let target = steps::built("", "")?;
    for arguments in [
        "fmt --check",
        "clippy --quiet --all-targets --all-features -- -D warnings",
        "test --quiet",
        "run --quiet --features train --example train_ppo",
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        steps::run(cargo_command(&adapter, &arguments).env("CARGO_TARGET_DIR", &target))?;
    }
    Ok(())
}

/// Leaves nothing in the environment of `command` but PATH and HOME.
fn clear(command: &mut Command) -> &mut Command {
    command.env_clear().envs(["PATH", "HOME"].iter().filter_map(|name| Some((name, env::var_os(name)?))))
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

fn write(file: &Path, text: &str) -> Result<()> {
    let made = file.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(file, text)).map_err(|error| format!("{}: {error}", file.display()))
}
