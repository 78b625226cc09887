//! Tests that run in a process of their own, with a results root of their own.

use crate::child::in_child;

/// A test that runs in a process of its own, whose results root is below [`child_home`](crate::child::child_home).
macro_rules! apart {
    ($(fn $name:ident() $body:block)*) => {$(
        #[test]
        fn $name() {
            $crate::apart::run_apart(concat!(module_path!(), "::", stringify!($name), "::inner"));
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
