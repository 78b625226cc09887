//! The virtual environments of Python that the tests use.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

use crate::Result;
use crate::steps::{self, read, write};

/// The versions that `requires-python` of the package promises.
const PROMISED: [&str; 5] = ["3.10", "3.11", "3.12", "3.13", "3.14"];

/// The Pythons of `cargo xtask test`, which are made while cargo compiles: pip waits for the network most of the time.
#[derive(Debug)]
pub(crate) struct Pythons {
    /// What the tests compare with.
    pub(crate) test: Making,
    /// Ray.
    pub(crate) ray: Making,
    /// What builds the Python package and what its tests compare with.
    pub(crate) wheel: Making,
    /// One of each version that the package promises to run on; None where the machine does not have it.
    pub(crate) promised: Vec<(&'static str, Option<Making>)>,
    /// Qt's browser.
    pub(crate) browser: Making,
}

impl Pythons {
    /// Begins to make all of them; Ray's only if it is asked for.
    pub(crate) fn start(root: &Path, with_ray: bool) -> Self {
        Self {
            wheel: Making::start(root, wheel_python),
            promised: promised_pythons(root),
            browser: Making::start(root, browser_python),
            test: Making::start(root, test_python),
            ray: if with_ray { Making::start(root, ray_python) } else { Making(None) },
        }
    }
}

/// A Python that a thread makes.
#[derive(Debug)]
pub(crate) struct Making(Option<JoinHandle<Result<PathBuf>>>);

impl Making {
    fn start(root: &Path, make: impl FnOnce(&Path) -> Result<PathBuf> + Send + 'static) -> Self {
        let root = root.to_owned();
        Self(Some(thread::spawn(move || make(&root))))
    }

    /// Waits for the Python and returns its path.
    pub(crate) fn made(self) -> Result<PathBuf> {
        let making = self.0.ok_or("this Python was not asked for")?;
        making.join().map_err(|_| "the thread that made this Python panicked".to_owned())?
    }
}

/// The Python of `target/wheel-venv`, made as `python/requirements-test.txt` says.
pub(crate) fn wheel_python(root: &Path) -> Result<PathBuf> {
    python_with(&root.join("python/requirements-test.txt"), &steps::built("wheel-venv", "")?, venv)
}

/// The virtual environments `target/python-3.N-venv`, made as `.ci/every-python-requirements.txt` says, of the versions that
/// the package promises to run on.
pub(crate) fn promised_pythons(root: &Path) -> Vec<(&'static str, Option<Making>)> {
    let making = |version: &'static str| {
        let interpreter = interpreter(version)?;
        Some(Making::start(root, move |root| {
            let requirements = root.join(".ci/every-python-requirements.txt");
            let directory = steps::built(&format!("python-{version}-venv"), "")?;
            python_with(&requirements, &directory, |directory| venv_of(&interpreter, directory))
        }))
    };
    PROMISED.into_iter().map(|version| (version, making(version))).collect()
}

/// A Python of that version: the one in `PATH`, or else one of pyenv's.
fn interpreter(version: &str) -> Option<PathBuf> {
    let name = format!("python{version}");
    let mut found = vec![PathBuf::from(&name)];
    if let Some(home) = env::var_os("HOME") {
        let versions = fs::read_dir(Path::new(&home).join(".pyenv/versions")).into_iter().flatten().flatten();
        found.extend(versions.map(|version| version.path().join("bin").join(&name)));
    }
    let works = |python: &PathBuf| {
        // pyenv's own `python3.N` is there, and fails, without that version.
        let mut probe = Command::new(python);
        probe.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    };
    found.into_iter().find(works)
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
    python_with(&root.join(".ci/ray-requirements.txt"), &steps::built("ray-venv", "")?, venv)
}

/// Makes the virtual environment `target/browser-venv` with the packages of `.ci/browser-requirements.txt`; returns its Python.
fn browser_python(root: &Path) -> Result<PathBuf> {
    python_with(&root.join(".ci/browser-requirements.txt"), &steps::built("browser-venv", "")?, venv)
}

/// Returns the command that makes an empty virtual environment of Python in `directory`.
fn venv(directory: &Path) -> Command {
    venv_of(Path::new("python3"), directory)
}

/// As [`venv`], of that Python.
fn venv_of(python: &Path, directory: &Path) -> Command {
    let mut make = Command::new(python);
    make.args(["-m", "venv", "--clear"]).arg(directory);
    make
}

/// The Python of `venv` with these packages. It is made by `make` unless it has them.
fn python_with(requirements: &Path, venv: &Path, make: impl Fn(&Path) -> Command) -> Result<PathBuf> {
    let wanted = read(requirements)?;
    let python = venv.join("bin/python");
    let installed = venv.join("requirements.txt");
    if fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return Ok(python);
    }
    println!("installing {} into {}: this takes minutes, once", requirements.display(), venv.display());
    steps::run(&mut make(venv))
        .map_err(|error| format!("{error}; on Debian and Ubuntu it needs the package python3-venv"))?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--requirement"]);
    steps::run(install.arg(requirements))?;
    write(&installed, &wanted)?;
    Ok(python)
}
