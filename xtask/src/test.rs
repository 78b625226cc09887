//! `cargo xtask test`: everything that CI runs, the quick checks first.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::Result;
use crate::bench::stems;
use crate::demo;
use crate::outside::{COMMAND, outside};
use crate::python::{Making, Pythons};
use crate::setup::{self, Kind};
use crate::steps::{self, Steps, cargo_command};
use crate::vector_code::no_masked_stores;
use crate::wheel::{wheel, wheel_in_every_python, wheel_in_ray};

/// What is off by default, with every backend of `storage`, for a machine without libtorch.
const FEATURES: &str = "--features parquet,storage,pavlov-storage/gcs,pavlov-storage/azure,doc-only";

/// All that has tests in Rust.
const WHOLE: &str = "--workspace --exclude pavlov-python --features parquet,storage";

/// The build without libtorch, and the Python package that is made of it.
const LIGHT: &str = "-p pavlov -p pavlov-learn -p pavlov-trainer -p pavlov-algorithms -p pavlov-report -p pavlov-serve -p pavlov-python --no-default-features --features pavlov/cli";

/// Runs all steps up to the first that fails.
pub(crate) fn test(root: &Path, with_ray: bool) -> Result<()> {
    let cargo = |arguments: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        cargo_command(root, &arguments)
    };
    let pythons = Pythons::start(root, with_ray);
    let mut steps = Steps::default();
    steps.step("format", || format(root))?;
    steps.run("lints", &mut lints(root))?;
    // As on docs.rs, and after the lints, which have looked at the same dependencies.
    steps.run(
        "documentation",
        without_libtorch(root, &format!("doc --workspace --no-deps --document-private-items {FEATURES}"))
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    steps.run(
        "lints of the build without libtorch",
        &mut without_libtorch(root, &format!("clippy {LIGHT} --lib --bins --test light -- -D warnings")),
    )?;
    // With the Python package, whose wheel is made of the same compiled crates.
    let tests = "test -p pavlov -p pavlov-python --no-default-features --features pavlov/cli --test light";
    steps.run("tests of the build without libtorch", &mut without_libtorch(root, tests))?;
    let python = steps.step("Python for the package", || pythons.wheel.made())?;
    steps.step("Python package", || wheel(root, &python))?;
    steps.step("Python package in every Python", || wheel_in_every_python(root, pythons.promised))?;

    steps.step("libtorch", || setup::setup(root, Kind::Cpu))?;
    let python = steps.step("Python", || pythons.test.made())?;
    steps.run("tests", cargo(&format!("test {WHOLE}")).env("PAVLOV_TEST_PYTHON", &python))?;
    // Tests of environments start their examples, which are built with the whole workspace, as the tests: another
    // selection has other features, and much is compiled again.
    steps.run("examples, built", &mut cargo(&format!("build {WHOLE} --examples")))?;
    steps.step("tests of environments with Python", || {
        for name in ["tests", "allocations"] {
            let mut test = Command::new(test_program(root, "envs", name)?);
            // Tests whose names begin with `child_` are parts of others, and those with `long_` take minutes.
            test.args(["--ignored", "--skip", "child_", "--skip", "long_"]);
            steps::run(test.current_dir(root.join("envs")).env("PAVLOV_TEST_PYTHON", &python))?;
        }
        Ok(())
    })?;
    steps.step("pages in a browser", || pages_in_browser(root, pythons.browser))?;
    if with_ray {
        let python = steps.step("Python with Ray", || pythons.ray.made())?;
        // A cluster takes seconds of the whole machine.
        let mut ray =
            cargo(&format!("test {WHOLE} --test tests -- --ignored ray:: --skip ::child_ --test-threads 2"));
        steps.run("tests with Ray", ray.env("PAVLOV_TEST_RAY_PYTHON", &python))?;
        steps.step("the Python package in Ray Tune", || wheel_in_ray(root, &python))?;
    } else {
        println!(
            "== LEFT OUT: the tests with Ray (--without ray); nothing says that workers on a cluster and trials of Ray Tune work\n"
        );
    }
    steps.step("examples", || examples(root))?;
    outside(root, &mut steps)?;
    steps.step("adapter for gymnasium-rs", || adapter(root))?;
    // With the command that was built beside the programs of the pages: `cargo xtask demo` would compile everything once more.
    steps.step("demo", || demo::run(&steps::built("release", COMMAND)?, true))?;
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
    steps.run("lints", &mut lints(root))?;
    // The selection of the whole run, so that what is compiled here is used again there.
    steps.run("unit tests", &mut cargo(&format!("test {WHOLE} --lib --bins")))?;
    steps.finish();
    println!("Format, lints and unit tests only: `cargo xtask test` runs everything");
    Ok(())
}

/// The lints of everything in the workspace. They need no libtorch, so they do not wait for its wrapper in C++.
fn lints(root: &Path) -> Command {
    without_libtorch(root, &format!("clippy --workspace --all-targets {FEATURES} -- -D warnings"))
}

/// Returns the command `cargo ARGUMENTS` with a path of libtorch that does not exist, so that the command fails if it looks there.
fn without_libtorch(root: &Path, arguments: &str) -> Command {
    let mut command = cargo_command(root, &arguments.split(' ').collect::<Vec<_>>());
    command.env("LIBTORCH", root.join(".no-libtorch"));
    command
}

/// Checks the format of all packages, the one outside the workspace too: a wrong space is found in seconds and not after
/// everything else.
fn format(root: &Path) -> Result<()> {
    for package in ["", "crates/gymnasium-rs"] {
        steps::run(&mut cargo_command(&root.join(package), &["fmt", "--all", "--check"]))?;
    }
    Ok(())
}

/// Opens pages of reports in Qt's browser. A machine without the libraries that Qt needs leaves it out.
fn pages_in_browser(root: &Path, python: Making) -> Result<()> {
    let starts = |python: &PathBuf| {
        let mut probe = Command::new(python);
        probe.args([
            "-c",
            "from PyQt6.QtWidgets import QApplication; import PyQt6.QtWebEngineWidgets; QApplication([])",
        ]);
        steps::output_of(probe.env("QT_QPA_PLATFORM", "offscreen")).map(drop)
    };
    let ready = python.made().and_then(|python| starts(&python).map(|()| python));
    let python = match ready {
        Ok(python) => python,
        Err(error) => {
            println!("== LEFT OUT: pages in a browser, since Qt's does not start here: {error}");
            return Ok(());
        }
    };
    let mut test = Command::new(test_program(root, "", "tests")?);
    test.args(["--ignored", "in_a_browser"]).env("PAVLOV_TEST_BROWSER_PYTHON", python);
    steps::run(test.current_dir(root))
}

/// Runs every example to its end, two at a time: most of them use one core.
fn examples(root: &Path) -> Result<()> {
    let results = steps::fresh("examples", "results")?;
    let mut names = Vec::new();
    for folder in ["examples", "crates/learn/examples", "crates/tune/examples"] {
        names.extend(stems(&root.join(folder), "rs")?);
    }
    let waiting = Mutex::new(names);
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let run = || -> Result<()> {
        while let Some(name) = next() {
            let begun = Instant::now();
            let mut example = Command::new(steps::built("debug", &format!("examples/{name}"))?);
            example.current_dir(root).env("PAVLOV_RESULTS_DIR", &results);
            let said = steps::output_of(&mut example)?;
            println!("example {name}, {:.0} s:\n{said}", begun.elapsed().as_secs_f64());
        }
        Ok(())
    };
    thread::scope(|scope| {
        let other = scope.spawn(run);
        run().and(other.join().map_err(|_| "the thread that runs examples panicked".to_owned())?)
    })
}

/// The program of the integration tests `name` of the package in `folder`, as the step "tests" built it.
fn test_program(root: &Path, folder: &str, name: &str) -> Result<PathBuf> {
    let arguments = format!("test {WHOLE} --quiet --no-run --message-format json --test {name}");
    let built = steps::output_of(&mut cargo_command(root, &arguments.split(' ').collect::<Vec<_>>()))?;
    let manifest = root.join(folder).join("Cargo.toml");
    built
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["manifest_path"].as_str() == manifest.to_str())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .ok_or_else(|| format!("cargo built no tests {name} of {}", manifest.display()))
}

/// Lints and tests `crates/gymnasium-rs`, which has a lock file of its own. Its example that trains is type-checked only: running it would
/// compile the trainer once more.
fn adapter(root: &Path) -> Result<()> {
    let adapter = root.join("crates/gymnasium-rs");
    let target = steps::built("", "")?;
    for arguments in
        ["clippy --quiet --workspace --all-targets --all-features -- -D warnings", "test --quiet --workspace"]
    {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        steps::run(cargo_command(&adapter, &arguments).env("CARGO_TARGET_DIR", &target))?;
    }
    Ok(())
}
