//! `cargo xtask test`: everything that CI runs, the quick checks first.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::bench::stems;
use crate::demo;
use crate::outside::outside;
use crate::python::python_with;
use crate::setup::{self, Kind};
use crate::steps::{self, Steps, cargo_command};
use crate::vector_code::no_masked_stores;
use crate::wheel::wheel;

/// What is off by default, with every backend of `storage`.
const FEATURES: &str = "--features parquet,storage,pavlov-storage/gcs,pavlov-storage/azure";

/// The build without libtorch.
const LIGHT: &str =
    "-p pavlov -p pavlov-trainer -p pavlov-algorithms --no-default-features --features pavlov/cli";

/// Runs all steps up to the first that fails.
pub(crate) fn test(root: &Path, with_ray: bool) -> Result<()> {
    let cargo = |arguments: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        cargo_command(root, &arguments)
    };
    let mut steps = Steps::default();
    steps.step("libtorch", || setup::setup(root, Kind::Cpu))?;
    steps.step("format", || format(root))?;
    steps.run("lints", &mut cargo(&format!("clippy --workspace --all-targets {FEATURES} -- -D warnings")))?;
    steps.run(
        "documentation",
        cargo(&format!("doc --workspace --no-deps --document-private-items {FEATURES}"))
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    // A path that does not exist: nothing may look for libtorch.
    let without = |arguments: &str| {
        let mut command = cargo(arguments);
        command.env("LIBTORCH", root.join(".no-libtorch"));
        command
    };
    steps.run("documentation without libtorch", &mut without("check --workspace --features doc-only"))?;
    steps.run(
        "lints of the build without libtorch",
        &mut without(&format!("clippy {LIGHT} --all-targets -- -D warnings")),
    )?;
    let tests = "test -p pavlov --no-default-features --features cli --test light";
    steps.run("tests of the build without libtorch", &mut without(tests))?;

    let python = steps.step("python", || test_python(root))?;
    steps.run(
        "tests",
        cargo("test --workspace --features parquet,storage").env("PAVLOV_TEST_PYTHON", &python),
    )?;
    // Tests whose names begin with `child_` are parts of others, and those with `long_` take minutes.
    // They start its examples, which `--test` alone does not build.
    steps.run("examples of environments", &mut cargo("build -p pavlov-envs --examples"))?;
    let tests = "test -p pavlov-envs --test tests --test allocations -- --ignored --skip child_ --skip long_";
    steps.run("tests of environments with Python", cargo(tests).env("PAVLOV_TEST_PYTHON", python))?;
    if with_ray {
        let python = steps.step("python with Ray", || ray_python(root))?;
        // A cluster takes seconds of the whole machine.
        let mut ray = cargo(
            "test --workspace --features parquet,storage --test tests -- --ignored ray:: --skip ::child_ --test-threads 2",
        );
        steps.run("tests with Ray", ray.env("PAVLOV_TEST_RAY_PYTHON", python))?;
    } else {
        println!(
            "== LEFT OUT: the tests with Ray (--without ray); nothing says that workers on a cluster and trials of Ray Tune work\n"
        );
    }
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
    outside(root, &mut steps)?;
    steps.step("adapter for gymnasium-rs", || adapter(root))?;
    steps.step("Python package", || wheel(root))?;
    steps.step("demo", || demo::demo(root, true))?;
    steps.step("vector code", no_masked_stores)?;
    steps.finish();
    if !with_ray {
        println!("LEFT OUT: the tests with Ray");
    }
    Ok(())
}

/// Runs what finds most mistakes of an everyday change in minutes: format, lints and unit tests.
pub(crate) fn quick(root: &Path) -> Result<()> {
    let cargo = |arguments: &str| cargo_command(root, &arguments.split(' ').collect::<Vec<_>>());
    let mut steps = Steps::default();
    steps.step("libtorch", || setup::setup(root, Kind::Cpu))?;
    steps.step("format", || format(root))?;
    steps.run("lints", &mut cargo(&format!("clippy --workspace --all-targets {FEATURES} -- -D warnings")))?;
    // The selection of the whole run, so that what is compiled here is used again there.
    steps.run("unit tests", &mut cargo("test --workspace --features parquet,storage --lib --bins"))?;
    steps.finish();
    println!("Format, lints and unit tests only: `cargo xtask test` runs everything");
    Ok(())
}

/// Checks the format of all packages, those outside the workspace too: a wrong space is found in seconds and not after
/// everything else.
fn format(root: &Path) -> Result<()> {
    for package in ["", "adapters/gymnasium-rs", "python"] {
        steps::run(&mut cargo_command(&root.join(package), &["fmt", "--all", "--check"]))?;
    }
    Ok(())
}

/// PAVLOV_TEST_PYTHON if it is set, or else the Python of `target/test-venv`, made as `.ci/requirements.txt` says.
fn test_python(root: &Path) -> Result<PathBuf> {
    if let Some(python) = env::var_os("PAVLOV_TEST_PYTHON") {
        return Ok(python.into());
    }
    // With torch, so that an exported policy is loaded by the real one.
    let make = |venv: &Path| {
        let mut make = Command::new("bash");
        make.arg(root.join("tests/python_with_torch.sh")).arg(venv);
        make
    };
    python_with(&root.join(".ci/requirements.txt"), &steps::built("test-venv", "")?, make)
}

/// PAVLOV_TEST_RAY_PYTHON if it is set, or else the Python of `target/ray-venv`, made as `.ci/ray-requirements.txt` says.
fn ray_python(root: &Path) -> Result<PathBuf> {
    if let Some(python) = env::var_os("PAVLOV_TEST_RAY_PYTHON") {
        return Ok(python.into());
    }
    let make = |venv: &Path| {
        let mut make = Command::new("python3");
        make.args(["-m", "venv", "--clear"]).arg(venv);
        make
    };
    python_with(&root.join(".ci/ray-requirements.txt"), &steps::built("ray-venv", "")?, make)
}

/// Lints, tests and trains with `adapters/gymnasium-rs`, which has a lock file of its own.
fn adapter(root: &Path) -> Result<()> {
    let adapter = root.join("adapters/gymnasium-rs");
    let target = steps::built("", "")?;
    for arguments in [
        "clippy --quiet --all-targets --all-features -- -D warnings",
        "test --quiet",
        "run --quiet --features train --example train_ppo",
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        steps::run(cargo_command(&adapter, &arguments).env("CARGO_TARGET_DIR", &target))?;
    }
    Ok(())
}
