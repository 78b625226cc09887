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

/// A test that runs in a process of its own, whose results root is below [`child_home`].
macro_rules! apart {
    ($(fn $name:ident() $body:block)*) => {$(
        #[test]
        fn $name() {
            $crate::child::run_apart(concat!(module_path!(), "::", stringify!($name), "::inner"));
        }

        mod $name {
            use super::*;

            #[test]
            #[ignore = "run by the test of its name, in a process of its own"]
            fn inner() $body
        }
    )*};
}
pub(crate) use apart;

pub(crate) fn run_apart(path: &str) {
    let home = tempfile::tempdir().unwrap();
    let (_, test) = path.split_once("::").unwrap();
    let root = format!("export PAVLOV_RESULTS_DIR='{}'", home.path().join("work").display());
    let output = in_child(test, home.path(), &root);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
