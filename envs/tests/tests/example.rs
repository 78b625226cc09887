//! Programs of `envs/examples/` that the live tests talk to.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// The program `name`, which Cargo builds beside the tests: target/debug/deps/tests-... and target/debug/examples/...
///
/// `cargo test --test tests` does not build it; one that is older than its sources is refused.
pub(crate) fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.ancestors().nth(2).unwrap().join("examples").join(name);
    let way_out = "`cargo test -p pavlov-envs` without `--test` builds it";
    assert!(program.exists(), "{} is missing; {way_out}", program.display());
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let changed = last_change(&here.join("src")).max(last_change(&here.join(format!("examples/{name}.rs"))));
    let built = fs::metadata(&program).unwrap().modified().unwrap();
    assert!(built >= changed, "{} is older than the sources of this crate; {way_out}", program.display());
    program
}

/// Of a file, or of all files in a folder.
fn last_change(path: &Path) -> SystemTime {
    match fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| last_change(&entry.unwrap().path())).max().unwrap(),
        Err(_) => fs::metadata(path).unwrap().modified().unwrap(),
    }
}
