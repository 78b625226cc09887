//! The programs of the README and of the first pages, built and run where no setting of this checkout reaches them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::steps::{self, Steps, cargo_command, read, write};

/// The pages whose programs are run, in this order: the first saves what a later one loads.
const PAGES: [&str; 3] = ["README.md", "docs/start.md", "docs/sweeps.md"];

/// The program that is the command `pavlov`.
pub(crate) const COMMAND: &str = "command_of_ones_own";

/// Builds and runs the programs of the pages, with optimisation as the pages tell users to.
pub(crate) fn outside(root: &Path, steps: &mut Steps) -> Result<()> {
    let outside = Outside::new(root)?;
    steps.step("programs of the pages", || outside.run())?;
    outside.remove()
}

/// A package outside of the checkout: the manifest and the build script of `docs/install.md`, the programs of [`PAGES`].
#[derive(Debug)]
struct Outside {
    package: PathBuf,
    programs: Vec<String>,
}

impl Outside {
    /// Writes the package.
    fn new(root: &Path) -> Result<Self> {
        let package = env::temp_dir().join(format!("pavlov-outside-{}", std::process::id()));
        let install = read(&root.join("docs/install.md"))?;
        let libtorch = env::var("LIBTORCH").unwrap_or_else(|_| root.join(".libtorch").display().to_string());
        let manifest =
            printed(&install, "toml", "# Cargo.toml")?.replace("../pavlov", &root.display().to_string());
        let header = "[package]\nname = \"outside\"\nedition = \"2024\"\n\n[workspace]\n\n";
        write(&package.join("Cargo.toml"), &format!("{header}{manifest}"))?;
        // The versions that the workspace was tested with.
        write(&package.join("Cargo.lock"), &read(&root.join("Cargo.lock"))?)?;
        let config = printed(&install, "toml", "# .cargo/config.toml")?;
        write(
            &package.join(".cargo/config.toml"),
            &config.replace("/the/path/that/setup/printed", &libtorch),
        )?;
        write(&package.join("build.rs"), printed(&install, "rust,no_run", "// build.rs")?)?;
        let mut programs = Vec::new();
        for page in PAGES {
            for text in blocks(&read(&root.join(page))?, "rust,no_run") {
                let name = format!("program_{}", programs.len());
                write(&package.join(format!("src/bin/{name}.rs")), text)?;
                programs.push(name);
            }
        }
        // The command, as a program of a user's own has it.
        let command = "fn main() -> std::process::ExitCode {\n    pavlov::cli::main()\n}\n";
        write(&package.join(format!("src/bin/{COMMAND}.rs")), command)?;
        Ok(Self { package, programs })
    }

    /// Builds the programs and runs each to its end.
    fn run(&self) -> Result<()> {
        // The checkout's own settings for C++ and C. Crates that need not be fast are optimised less than a user's own build
        // does, which saves minutes.
        let fast = ["pavlov", "pavlov-algorithms", "pavlov-envs", "pavlov-learn", "pavlov-trainer"]
            .map(|name| (name, 3));
        let settings = [("torch-sys", 1), ("zstd-sys", 0), ("\"*\"", 1)].into_iter().chain(fast);
        let mut build = cargo_command(&self.package, &["build", "--quiet", "--release"]);
        for (package, level) in settings {
            build.args(["--config", &format!("profile.release.package.{package}.opt-level={level}")]);
        }
        clear(&mut build).env("CARGO_TARGET_DIR", steps::built("", "")?);
        for name in ["CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
            build.envs(env::var_os(name).map(|value| (name, value)));
        }
        steps::run(&mut build)?;
        for name in &self.programs {
            let mut program = Command::new(steps::built("release", name)?);
            clear(&mut program).env("PAVLOV_RESULTS_DIR", self.package.join("results"));
            let said = steps::output_of(program.current_dir(&self.package))?;
            print!("{said}");
            if let Some(checkpoint) = said.lines().find_map(|line| line.strip_prefix("saved in ")) {
                self.name_run(Path::new(checkpoint))?;
            }
        }
        Ok(())
    }

    /// Moves the run of that checkpoint to `runs/first`, where the next program looks for it.
    fn name_run(&self, checkpoint: &Path) -> Result<()> {
        let first = steps::emptied(self.package.join("runs/first"))?;
        let run = checkpoint.parent().ok_or_else(|| format!("{} lies in no run", checkpoint.display()))?;
        let moved = fs::create_dir_all(self.package.join("runs")).and_then(|()| fs::rename(run, &first));
        moved.map_err(|error| format!("{} to {}: {error}", run.display(), first.display()))
    }

    /// Removes the package and what its programs have written.
    fn remove(self) -> Result<()> {
        fs::remove_dir_all(&self.package).map_err(|error| format!("{}: {error}", self.package.display()))
    }
}

/// The blocks of a page in that language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("```{language}\n");
    page.split(&opening).skip(1).filter_map(|block| block.split("```").next()).collect()
}

/// The block that begins with `first`.
fn printed<'a>(page: &'a str, language: &str, first: &str) -> Result<&'a str> {
    blocks(page, language)
        .into_iter()
        .find(|block| block.starts_with(first))
        .ok_or_else(|| format!("docs/install.md has no block `{language}` that begins with `{first}`"))
}

/// Leaves nothing in the environment of `command` but PATH and HOME.
fn clear(command: &mut Command) -> &mut Command {
    command.env_clear().envs(["PATH", "HOME"].iter().filter_map(|name| Some((name, env::var_os(name)?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_print_a_whole_package_with_programs_to_run() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let outside = Outside::new(root).unwrap();
        assert!(outside.programs.len() >= 4, "{outside:?}");
        let written = |file: &str| read(&outside.package.join(file)).unwrap();
        assert!(written("Cargo.toml").contains(&format!("path = \"{}\"", root.display())));
        assert!(!written(".cargo/config.toml").contains("/the/path/"));
        assert!(written("build.rs").contains("fn main()"));
        outside.remove().unwrap();
    }
}
