//! Child processes: run one, or a row of them that are announced, timed and stop at the first failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Result;

/// `cargo ARGUMENTS` in `root`, not yet started.
pub(crate) fn cargo_command(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(arguments);
    command
}

/// Runs `cargo ARGUMENTS` in `root`.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Result<()> {
    run(&mut cargo_command(root, arguments))
}

/// Runs `command` to its end; its output is ours.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status =
        command.status().map_err(|error| format!("`{}` did not start: {error}", line_of(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status})", line_of(command))) }
}

/// Runs `command` to its end and returns what it wrote to standard output.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("`{}` did not start: {error}", line_of(command)))?;
    if !output.status.success() {
        return Err(format!("`{}` failed ({})", line_of(command), output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("`{}`: {error}", line_of(command)))
}

/// The program `name` that cargo built next to this one, in `debug` or in `release`.
pub(crate) fn built(profile: &str, name: &str) -> Result<PathBuf> {
    let here = std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    let target =
        here.ancestors().nth(2).ok_or_else(|| format!("{} is in no target directory", here.display()))?;
    Ok(target.join(profile).join(name))
}

/// The directory `purpose/name` beside the built programs, without what an earlier call left there.
pub(crate) fn fresh(purpose: &str, name: &str) -> Result<PathBuf> {
    emptied(built(purpose, name)?)
}

/// A directory of which nothing is left.
pub(crate) fn emptied(directory: PathBuf) -> Result<PathBuf> {
    match fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", directory.display()))
        }
        _ => Ok(directory),
    }
}

/// The text of a file.
pub(crate) fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

/// Writes a file, and makes the directory that it lies in.
pub(crate) fn write(file: &Path, text: &str) -> Result<()> {
    let made = file.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(file, text)).map_err(|error| format!("{}: {error}", file.display()))
}

/// `command` as one would type it.
fn line_of(command: &Command) -> String {
    let quoted = |text: &std::ffi::OsStr| {
        let text = text.to_string_lossy().into_owned();
        if text.contains(' ') { format!("'{text}'") } else { text }
    };
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), quoted(value?))));
    let words = std::iter::once(command.get_program()).chain(command.get_args()).map(quoted);
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

/// A row of steps; each prints its name before and its time after.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// Names and seconds of the steps that passed.
    done: Vec<(String, f64)>,
    begun: Option<Instant>,
}

impl Steps {
    /// Runs `command` under the name `name`.
    pub(crate) fn run(&mut self, name: &str, command: &mut Command) -> Result<()> {
        self.step(name, || run(command))
    }

    /// Runs `work` under the name `name`; the error gets the name too.
    pub(crate) fn step<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let begun = Instant::now();
        self.begun.get_or_insert(begun);
        println!("== {name}");
        let value = work().map_err(|error| format!("{name}: {error}"))?;
        let seconds = begun.elapsed().as_secs_f64();
        println!("== {name}: ok, {seconds:.0} s\n");
        self.done.push((name.to_owned(), seconds));
        Ok(value)
    }

    /// Prints the time of each step, and the line that only a complete row reaches.
    pub(crate) fn finish(self) {
        let seconds = self.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        self.done.iter().for_each(|(name, seconds)| println!("{seconds:>6.0} s  {name}"));
        println!("all {} steps passed in {:.1} min", self.done.len(), seconds / 60.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_names_itself_and_the_command_that_repeats_it() {
        let mut steps = Steps::default();
        let error =
            steps.run("arithmetic", Command::new("test").args(["1 + 1", "=", "3"]).env("LC_ALL", "C"));
        let error = error.unwrap_err();
        assert!(error.starts_with("arithmetic: `LC_ALL=C test '1 + 1' = 3` failed"), "{error}");
        assert!(steps.done.is_empty());
    }
}
