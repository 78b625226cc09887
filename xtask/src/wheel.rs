//! The Python package of `python/`: its wheel, installed and tested.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::python::Making;
use crate::steps;

/// Builds the wheel, installs it for that Python, checks its types and runs its tests.
pub(crate) fn wheel(root: &Path, python: &Path) -> Result<()> {
    let package = root.join("python");
    let target = steps::built("", "")?;
    let program = |name: &str| Command::new(python.with_file_name(name));

    let wheels = steps::fresh("wheels", "")?;
    let mut build = program("maturin");
    // Of the dev profile: it says what is true of the release, and is built in a fraction of the time.
    build
        .args(["build", "--quiet", "--locked", "--profile", "dev", "--compatibility", "linux", "--out"])
        .arg(&wheels);
    steps::run(build.current_dir(&package).env("CARGO_TARGET_DIR", &target))?;
    install(python, &wheels)?;

    steps::run(program("mypy").current_dir(&package).arg("--cache-dir").arg(target.join("mypy")))?;
    // Beside the checkout, so that the installed package is meant and not its sources.
    steps::run(program("stubtest").arg("pavlov_rl._native").current_dir(&wheels))?;
    steps::run(program("pytest").args(["-q", "-p", "no:cacheprovider"]).arg(package.join("tests")))
}

/// Installs the wheel, which was built, for every version of Python that it promises to run on, and trains a few steps there.
pub(crate) fn wheel_in_every_python(root: &Path, pythons: Vec<(&str, Option<Making>)>) -> Result<()> {
    let wheels = steps::built("wheels", "")?;
    for (version, python) in pythons {
        let Some(python) = python else {
            println!(
                "== LEFT OUT: Python {version} is not on this machine; nothing says that the package runs there"
            );
            continue;
        };
        let python = python.made()?;
        install(&python, &wheels)?;
        // Beside the checkout, so that the installed package is meant and not its sources.
        let mut program = Command::new(&python);
        program.current_dir(&wheels).arg(root.join("python/tests/every_python.py"));
        steps::run(&mut program).map_err(|error| format!("Python {version}: {error}"))?;
    }
    Ok(())
}

/// Lets Ray Tune train the trainable of the package, whose wheel was built.
pub(crate) fn wheel_in_ray(root: &Path, python: &Path) -> Result<()> {
    install(python, &steps::built("wheels", "")?)?;
    for what in ["asha", "pbt", "refused"] {
        // In a directory with a short path: Ray opens Unix sockets below it, whose paths have 107 bytes at most.
        let home = env::temp_dir().join(format!("pavlov-{what}-{}", std::process::id()));
        fs::create_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
        let mut tune = Command::new(python);
        tune.arg(root.join("tests/ray/tune.py")).arg(what).arg(&home);
        let ended =
            steps::run(tune.env("PAVLOV", steps::built("debug", "pavlov")?).env_remove("RAY_ADDRESS"));
        steps::emptied(home)?;
        ended?;
    }
    Ok(())
}

/// Installs the only wheel in `wheels`.
fn install(python: &Path, wheels: &Path) -> Result<()> {
    let mut install = Command::new(python);
    install.args([
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--no-deps",
        "--force-reinstall",
    ]);
    steps::run(install.arg(only_wheel(wheels)?))
}

/// The only wheel in a directory.
fn only_wheel(directory: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(|error| format!("{}: {error}", directory.display()))?;
    let paths = entries.into_iter().map(|entry| entry.path());
    let wheels: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "whl")).collect();
    match wheels.as_slice() {
        [wheel] => Ok(wheel.clone()),
        _ => Err(format!("{} has {} wheels instead of one", directory.display(), wheels.len())),
    }
}
