//! Python environments with given packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::steps::{self, read, write};

/// The Python of `venv` with these packages. It is made by `make` unless it has them.
pub(crate) fn python_with(
    requirements: &Path,
    venv: &Path,
    make: impl Fn(&Path) -> Command,
) -> Result<PathBuf> {
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
