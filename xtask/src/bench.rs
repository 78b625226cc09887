//! `cargo xtask bench`: runs the programs `benches/*.rs`, which measure, one after the other, optimised.

use std::fs;
use std::path::Path;

use crate::Result;
use crate::steps;

/// Runs the programs `names`, or all of them.
pub(crate) fn bench(root: &Path, names: &[&str]) -> Result<()> {
    let all = stems(&root.join("benches"), "rs")?;
    let chosen = if names.is_empty() { all.clone() } else { names.iter().map(|&name| name.into()).collect() };
    for name in &chosen {
        if !all.contains(name) {
            return Err(format!("benches/ has no {name}.rs; it has {}", all.join(", ")));
        }
        steps::cargo(root, &["bench", "--quiet", "--bench", name])?;
    }
    Ok(())
}

/// The names of the files `*.EXTENSION` in `directory`, without it, sorted.
pub(crate) fn stems(directory: &Path, extension: &str) -> Result<Vec<String>> {
    let entries = fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut stems: Vec<String> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    stems.sort();
    Ok(stems)
}
