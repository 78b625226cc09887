//! `cargo xtask executed`: counts the lines of the engine, the trainer and the algorithms that one default iteration executes between
//! `plan.next()` and its return.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::Result;
use crate::steps;

const ALGORITHMS: [&str; 3] = ["PPO", "DQN", "SAC"];
const FOLDERS: [&str; 3] = ["crates/learn/src", "crates/trainer/src", "algorithms/src"];
/// Says that cargo calls this program in place of the compiler.
const AS_COMPILER: &str = "PAVLOV_XTASK_IS_COMPILER";

/// Builds `benches/executed` with counters, runs it for each algorithm, and prints lines and files; of one algorithm those of
/// each file, too.
pub(crate) fn executed(root: &Path, only: Option<&str>) -> Result<()> {
    if let Some(unknown) = only.filter(|only| !ALGORITHMS.contains(only)) {
        return Err(format!("{unknown} is none of {}", ALGORITHMS.join(", ")));
    }
    let profdata = tool("llvm-profdata")?;
    let cov = tool("llvm-cov")?;
    let folder = steps::fresh("executed", "")?;
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for algorithm in ALGORITHMS.iter().filter(|name| only.is_none_or(|only| only == **name)) {
        let raw = folder.join(algorithm).with_extension("profraw");
        let program = run(root, algorithm, &raw)?;
        let merged = raw.with_extension("profdata");
        steps::run(Command::new(&profdata).args(["merge", "-sparse", "-o"]).args([&merged, &raw]))?;
        let mut export = Command::new(&cov);
        export.args(["export", "-format=lcov", "-instr-profile"]).args([&merged, &program]);
        let files = of_files(root, &steps::output_of(&mut export)?)?;
        println!("{algorithm}: {} lines in {} files", files.values().sum::<usize>(), files.len());
        if only.is_some() {
            files.iter().for_each(|(file, lines)| println!("{lines:6} {file}"));
        }
    }
    Ok(())
}

/// Runs one iteration; the counters go to the file `raw`. The answer is the program's own file.
fn run(root: &Path, algorithm: &str, raw: &Path) -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    // The tests' selection: their dependencies need not be built again.
    let tests = ["--workspace", "--features", "parquet,storage"];
    let mut command = steps::cargo_command(root, &["bench", "--profile", "dev", "--bench", "executed"]);
    command.args(tests).arg("--");
    command.arg(algorithm).env("LLVM_PROFILE_FILE", raw);
    command.env("RUSTC_WORKSPACE_WRAPPER", own).env(AS_COMPILER, "1");
    Ok(PathBuf::from(steps::output_of(&mut command)?.trim()))
}

/// Whether cargo calls this program in place of the compiler, which [`compile`] is for.
pub(crate) fn is_compiler() -> bool {
    std::env::var_os(AS_COMPILER).is_some()
}

/// Runs the compiler that `arguments` begin with, and lets it count what is executed.
pub(crate) fn compile(arguments: &[&str]) -> ExitCode {
    let Some((compiler, arguments)) = arguments.split_first() else { return ExitCode::FAILURE };
    let counting = ["-C", "instrument-coverage", "--cfg", "executed"];
    match Command::new(compiler).args(arguments).args(counting).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// One of LLVM's programs, from the folder that `LLVM_BIN` names or from the toolchain.
fn tool(name: &str) -> Result<PathBuf> {
    let folder = match std::env::var_os("LLVM_BIN") {
        Some(folder) => PathBuf::from(folder),
        None => {
            let libraries = steps::output_of(Command::new("rustc").args(["--print", "target-libdir"]))?;
            Path::new(libraries.trim()).with_file_name("bin")
        }
    };
    let tool = folder.join(name);
    if tool.exists() {
        return Ok(tool);
    }
    Err(format!(
        "{} is not there; `rustup component add llvm-tools` brings it, or LLVM_BIN names the folder of LLVM 19 or later",
        tool.display()
    ))
}

/// How many lines of each file were executed, by what `llvm-cov` wrote. Lines without code do not count.
fn of_files(root: &Path, report: &str) -> Result<BTreeMap<String, usize>> {
    let mut files = BTreeMap::new();
    let mut file = None;
    for line in report.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            let name = Path::new(path).strip_prefix(root).ok().and_then(Path::to_str);
            let name = name.filter(|name| FOLDERS.iter().any(|folder| name.starts_with(folder)));
            file = match name {
                Some(name) => Some((name.to_owned(), steps::read(Path::new(path))?)),
                None => None,
            };
        }
        let counted = line.strip_prefix("DA:").and_then(|line| line.split_once(','));
        if let (Some((name, text)), Some((number, count))) = (&file, counted)
            && count != "0"
            && number.parse().is_ok_and(|number: usize| has_code(text.lines().nth(number - 1)))
        {
            *files.entry(name.clone()).or_default() += 1;
        }
    }
    Ok(files)
}

fn has_code(line: Option<&str>) -> bool {
    line.map(str::trim).is_some_and(|line| !line.is_empty() && !line.starts_with("//"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executed_lines_with_code_count_and_other_folders_do_not() {
        let root = std::env::temp_dir().join(format!("pavlov-executed-{}", std::process::id()));
        let file = root.join("crates/trainer/src/one.rs");
        steps::write(&file, "fn f() {\n    // Why.\n    g();\n    h();\n}\n").unwrap();
        let of = |path: &Path| {
            format!("SF:{}\nDA:1,2\nDA:2,2\nDA:3,2\nDA:4,0\nDA:5,2\nend_of_record\n", path.display())
        };
        let report = of(&file) + &of(&root.join("envs/src/two.rs"));
        let found = of_files(&root, &report);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found.unwrap(), BTreeMap::from([("crates/trainer/src/one.rs".to_owned(), 3)]));
    }
}
