//! `cargo xtask bits`: trains the cases of `benches/bits` with an older revision and with the checkout, and compares their
//! hashes.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::steps;

/// Builds and runs the checkout's `benches/bits` in `revision` and in the checkout; an error if a line differs. What
/// `options` says goes to the program.
///
/// Without a revision it is where this branch left `main`, or the one before the last if that is the last.
pub(crate) fn bits(root: &Path, revision: Option<&str>, options: &[&str]) -> Result<()> {
    let revision = match revision {
        Some(revision) => commit(root, revision)?,
        None => {
            let left = git(root, &["merge-base", "HEAD", "main"]).map(|found| found.trim().to_owned());
            let head = commit(root, "HEAD")?;
            left.ok().filter(|left| *left != head).map_or_else(|| commit(root, "HEAD~1"), Ok)?
        }
    };
    let tree = steps::fresh("bits", "revision")?;
    let path = tree.to_str().ok_or_else(|| format!("{} is not UTF-8", tree.display()))?;
    // Forced: a call that was interrupted leaves its registration.
    git(root, &["worktree", "add", "--quiet", "--force", "--detach", path, &revision])?;
    let before =
        prepare(root, &tree).and_then(|()| run(&tree, &steps::built("bits", "build")?, options, None));
    let removed = git(root, &["worktree", "remove", "--force", path]);
    let before = before?;
    let now = run(root, &steps::built("", "")?, options, None)?;
    removed?;

    let differences = differences(&before, &now);
    differences.iter().for_each(|line| println!("{line}"));
    if differences.is_empty() {
        println!("{} lines, all as in {revision}", now.lines().count());
        return Ok(());
    }
    Err(format!("{} lines differ (- {revision}, + the checkout)", differences.len()))
}

/// Vector instructions that the fused engine can be held to with the environment variable `PAVLOV_SIMD`, and whether this
/// processor has them.
fn widths() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let vectors = [
        ("avx512", is_x86_feature_detected!("avx512f")),
        ("avx2", is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let vectors: [(&'static str, bool); 0] = [];
    vectors.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).chain(["scalar"]).collect()
}

/// Runs the checkout's `benches/bits` with the processor's widest vectors and with each narrower kind, down to one number
/// at a time; an error if a line differs.
pub(crate) fn bits_of_widths(root: &Path, options: &[&str]) -> Result<()> {
    let target = steps::built("", "")?;
    let widest = run(root, &target, options, None)?;
    let mut count = 0;
    for width in widths() {
        let differences = differences(&widest, &run(root, &target, options, Some(width))?);
        differences.iter().for_each(|line| println!("{line}"));
        println!("{width}: {} of {} lines differ", differences.len().div_ceil(2), widest.lines().count());
        count += differences.len();
    }
    if count == 0 { Ok(()) } else { Err("the bits depend on the vectors".into()) }
}

/// Runs the checkout's `benches/bits` with libtorch and in the build without; an error if a line of the fused engine differs.
pub(crate) fn bits_of_light(root: &Path, options: &[&str]) -> Result<()> {
    let with = run(root, &steps::built("", "")?, options, None)?;
    let mut light = bench(root, &["--no-default-features"], options);
    // Nothing may look for libtorch.
    light.env("CARGO_TARGET_DIR", steps::built("", "")?).env("LIBTORCH", root.join(".no-libtorch"));
    let light = steps::output_of(&mut light)?;
    let fused =
        |text: &str| text.lines().filter(|line| line.contains(" fused ")).map(str::to_owned).collect();
    let [with, light]: [Vec<String>; 2] = [fused(&with), fused(&light)];
    let (refused, computed): (Vec<_>, Vec<_>) =
        light.iter().zip(&with).partition(|(light, _)| light.contains(REFUSED));
    let joined = |lines: Vec<&String>| lines.into_iter().map(|line| format!("{line}\n")).collect::<String>();
    let [found, wanted] = [
        joined(computed.iter().map(|(light, _)| *light).collect()),
        joined(computed.iter().map(|(_, with)| *with).collect()),
    ];
    let differences = differences(&wanted, &found);
    differences.iter().for_each(|line| println!("{line}"));
    let missing = with.len().abs_diff(light.len());
    if differences.is_empty() && missing == 0 && !computed.is_empty() {
        println!("{} lines as with libtorch; {} need libtorch", computed.len(), refused.len());
        return Ok(());
    }
    Err(format!("{} lines differ and {missing} are missing (- with libtorch, + without)", differences.len()))
}

/// What stands in every refusal of the build without libtorch.
const REFUSED: &str = "the default feature `torch`";

/// Puts the checkout's program into the tree of an older revision.
fn prepare(root: &Path, tree: &Path) -> Result<()> {
    // Where it was one file until now; cargo takes either, but not both.
    let _ = fs::remove_file(tree.join("benches/bits.rs"));
    copy_folder(&root.join("benches/bits"), &tree.join("benches/bits"))?;
    let manifest = tree.join("Cargo.toml");
    let failed = |error| format!("{}: {error}", manifest.display());
    let mut text = fs::read_to_string(&manifest).map_err(failed)?;
    if !text.contains("name = \"bits\"") {
        text.push_str("\n[[bench]]\nname = \"bits\"\nharness = false\n");
        fs::write(&manifest, text).map_err(failed)?;
    }
    Ok(())
}

/// Copies the files of a folder without folders.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let failed = |error| format!("{}: {error}", from.display());
    fs::create_dir_all(to).map_err(failed)?;
    for file in fs::read_dir(from).map_err(failed)? {
        let file = file.map_err(failed)?;
        fs::copy(file.path(), to.join(file.file_name())).map_err(failed)?;
    }
    Ok(())
}

/// What the program prints in `tree`, built in `target`, with the vector instructions `width`. Each tree has its own: cargo tells packages by their place in
/// the workspace, so it would take those of the one for those of the other.
fn run(tree: &Path, target: &Path, options: &[&str], width: Option<&str>) -> Result<String> {
    let mut command = bench(tree, &[], options);
    command.env("CARGO_TARGET_DIR", target);
    if let Some(width) = width {
        command.env("PAVLOV_SIMD", width);
    }
    steps::output_of(&mut command)
}

/// `cargo bench` of the program in `tree`, built with these flags of cargo.
fn bench(tree: &Path, flags: &[&str], options: &[&str]) -> Command {
    let mut command = steps::cargo_command(tree, &["bench", "--bench", "bits"]);
    command.args(flags).arg("--").args(options);
    command
}

/// The lines that are not in both, in pairs where they stand at the same place.
fn differences(before: &str, now: &str) -> Vec<String> {
    let mut before = before.lines();
    let mut now = now.lines();
    let mut differences = Vec::new();
    loop {
        let pair = (before.next(), now.next());
        if pair == (None, None) {
            return differences;
        }
        if pair.0 != pair.1 {
            differences.extend(pair.0.map(|line| format!("- {line}")));
            differences.extend(pair.1.map(|line| format!("+ {line}")));
        }
    }
}

/// The full name of a revision.
fn commit(root: &Path, revision: &str) -> Result<String> {
    let found = git(root, &["rev-parse", "--verify", "--quiet", &format!("{revision}^{{commit}}")])
        .map_err(|error| format!("there is no revision {revision}: {error}"))?;
    Ok(found.trim().to_owned())
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    steps::output_of(Command::new("git").current_dir(root).args(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_differ_are_shown_and_missing_ones_count() {
        assert_eq!(differences("a 1\nb 2\nc 3\n", "a 1\nb 5\n"), ["- b 2", "+ b 5", "- c 3"]);
        assert!(differences("a 1\n", "a 1\n").is_empty());
    }
}
