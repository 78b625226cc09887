//! Gymnasium's own checks, and the real environments step by step beside ours, in one Python process.

use std::{path::Path, process::Command};

use crate::{example::example, py::python};

#[test]
#[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
fn gymnasium_accepts_the_environments_and_its_own_are_equal_to_the_bit() {
    let python = python();
    let server = example("serve");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live_gymnasium.py");
    let output = Command::new(&python).arg(script).arg(server).output();
    let output = output.unwrap_or_else(|error| panic!("PAVLOV_TEST_PYTHON={python}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).ends_with("all equal\n"), "{}", text(&output.stdout));
}
