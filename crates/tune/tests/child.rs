//! Tests that need a process of their own: to die, to hit limits, to have other environment variables.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs one ignored test of this binary in its own process, `prefix` being shell commands before it.
pub(crate) fn in_child(test: &str, home: &Path, prefix: &str) -> Output {
    Command::new("sh")
        .args(["-c", &format!("{prefix}\nexec \"$0\" --exact --ignored --nocapture {test}")])
        .arg(std::env::current_exe().unwrap())
        .env("PAVLOV_TEST_HOME", home)
        .output()
        .unwrap()
}

/// In the child: the directory that `in_child` was given.
pub(crate) fn child_home() -> PathBuf {
    std::env::var_os("PAVLOV_TEST_HOME").expect("run by another test").into()
}
