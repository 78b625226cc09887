//! `cargo xtask setup`: finds libtorch or provides it, and makes `.libtorch` in the checkout point to it.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::libtorch::{Libtorch, Wanted};
use crate::steps;

/// Which libtorch is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Whatever is found; the small one if none is.
    Cpu,
    /// One with libtorch_cuda.so.
    Cuda,
}

const PROVIDE: &str = include_str!("provide_libtorch.py");
const PROVIDE_MUJOCO: &str = include_str!("provide_mujoco.py");
/// That of `.ci/requirements.txt`, so that environments in Python and here give the same numbers.
const MUJOCO: &str = "3.17.0";

/// Prints where the torch package lies, without the second that importing it takes.
const FIND_TORCH: &str = "import importlib.util as u\ns = u.find_spec('torch')\n\
                          print(s.submodule_search_locations[0] if s and s.submodule_search_locations else '')";

/// Looks for libtorch in LIBTORCH, then in the Python environment, then in the user's cache, which it fills if
/// need be; points `.libtorch` to it.
pub(crate) fn setup(root: &Path, kind: Kind) -> Result<()> {
    let lock = root.join("Cargo.lock");
    let lock = fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    let wanted = Wanted::from_lock(&lock)?;
    let (found, origin) = match from_variable(root, &wanted, kind)? {
        Some(found) => (found, "LIBTORCH".to_owned()),
        None => match from_python(&wanted, kind) {
            Some((found, python)) => (found, format!("the PyTorch of {python}")),
            None => (provided(&wanted, kind)?, "the cache".to_owned()),
        },
    };
    let changed = point_link(&root.join(".libtorch"), &found.directory)?;
    if changed {
        // Its build script does not notice that another libtorch lies behind the same path.
        for profile in ["dev", "release"] {
            steps::cargo(root, &["clean", "--quiet", "--package", "torch-sys", "--profile", profile])?;
        }
    }
    let cuda = if found.cuda { "with CUDA" } else { "CPU only" };
    println!("libtorch {} ({cuda}) for tch {}, from {origin}", found.version, wanted.tch);
    println!("  .libtorch -> {}", found.directory.display());
    if changed {
        println!("  a program outside this checkout finds it through its own .cargo/config.toml:");
        println!("    [env]\n    LIBTORCH = \"{}\"", found.directory.display());
    }
    Ok(())
}

/// LIBTORCH, if the user set it: `.cargo/config.toml` sets it too, to `.libtorch`, when the user has not.
fn from_variable(root: &Path, wanted: &Wanted, kind: Kind) -> Result<Option<Libtorch>> {
    let Some(directory) = env::var_os("LIBTORCH").map(PathBuf::from) else { return Ok(None) };
    let is_ours = directory.file_name() == Some(OsStr::new(".libtorch"))
        && directory.parent().and_then(|parent| parent.canonicalize().ok()) == root.canonicalize().ok();
    if is_ours {
        return Ok(None);
    }
    let found =
        Libtorch::open(&directory).map_err(|error| format!("LIBTORCH: {error}; correct it or unset it"))?;
    if found.version != wanted.torch && env::var_os("LIBTORCH_BYPASS_VERSION_CHECK").is_none() {
        return Err(format!(
            "LIBTORCH is {} with libtorch {}, but tch {} wants {}; {}, or unset LIBTORCH",
            directory.display(),
            found.version,
            wanted.tch,
            wanted.torch,
            wanted.way_out(&found.version)
        ));
    }
    if kind == Kind::Cuda && !found.cuda {
        return Err(format!(
            "LIBTORCH is {}, which has no lib/libtorch_cuda.so; unset it or leave out --cuda",
            directory.display()
        ));
    }
    Ok(Some(found))
}

/// The torch of the active virtual environment, or else of `python3`, and that interpreter.
fn from_python(wanted: &Wanted, kind: Kind) -> Option<(Libtorch, String)> {
    let environment = env::var_os("VIRTUAL_ENV").map(|path| PathBuf::from(path).join("bin/python"));
    for python in environment.into_iter().chain([PathBuf::from("python3")]) {
        let Ok(answer) = Command::new(&python).args(["-c", FIND_TORCH]).output() else { continue };
        let directory = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        if directory.is_empty() {
            continue;
        }
        let python = python.display().to_string();
        match Libtorch::open(Path::new(&directory)) {
            Ok(found) if found.version != wanted.torch => println!(
                "note: {python} has PyTorch {}, tch {} wants {}; {}",
                found.version,
                wanted.tch,
                wanted.torch,
                wanted.way_out(&found.version)
            ),
            Ok(found) if kind == Kind::Cuda && !found.cuda => {
                println!("note: {python} has PyTorch {} without CUDA", found.version);
            }
            Ok(found) => return Some((found, python)),
            Err(error) => println!("note: the torch of {python} cannot be used: {error}"),
        }
    }
    None
}

/// The libtorch in the user's cache, put there if it is missing.
fn provided(wanted: &Wanted, kind: Kind) -> Result<Libtorch> {
    let (kind, size) = match kind {
        Kind::Cpu => ("cpu", "0.54 GB"),
        Kind::Cuda => ("cuda", "3 GB"),
    };
    let directory = cache_directory()?.join(format!("libtorch-{}-{kind}", wanted.torch));
    if let Ok(found) = Libtorch::open(&directory.join("torch")) {
        return Ok(found);
    }
    println!(
        "no libtorch {} on this machine: downloading it into {} ({size})",
        wanted.torch,
        directory.display()
    );
    let status =
        Command::new("python3").args(["-c", PROVIDE, wanted.torch, kind]).arg(&directory).status().map_err(
            |error| format!("python3 is needed to download libtorch ({error}); install Python 3 with pip"),
        )?;
    if !status.success() {
        return Err(format!("libtorch {} was not provided; the reason is above", wanted.torch));
    }
    Libtorch::open(&directory.join("torch"))
}

/// Puts libmujoco into the user's cache, where the environments look for it last.
pub(crate) fn mujoco(version: Option<&str>) -> Result<()> {
    let version = version.unwrap_or(MUJOCO);
    let directory = cache_directory()?.join(format!("mujoco-{version}"));
    let status =
        Command::new("python3").args(["-c", PROVIDE_MUJOCO, version]).arg(&directory).status().map_err(
            |error| format!("python3 is needed to download MuJoCo ({error}); install Python 3 with pip"),
        )?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("MuJoCo {version} was not provided; the reason is above"))
    }
}

/// `$XDG_CACHE_HOME/pavlov`, or `~/.cache/pavlov`.
fn cache_directory() -> Result<PathBuf> {
    let set = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("pavlov"))
        .ok_or_else(|| "neither XDG_CACHE_HOME nor HOME is an absolute path; set one of them".to_owned())
}

/// Makes `link` a symbolic link to `target`; true if it pointed elsewhere or was not there.
fn point_link(link: &Path, target: &Path) -> Result<bool> {
    if link.canonicalize().is_ok_and(|there| there == target) {
        return Ok(false);
    }
    if link.symlink_metadata().is_ok_and(|there| !there.is_symlink()) {
        return Err(format!("{} is in the way: it is no symbolic link; move it away", link.display()));
    }
    let fresh = link.with_extension(std::process::id().to_string());
    std::os::unix::fs::symlink(target, &fresh)
        .and_then(|()| fs::rename(&fresh, link))
        .map_err(|error| format!("cannot make {}: {error}", link.display()))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_replaced_when_it_points_elsewhere_and_left_alone_when_not() {
        let directory = env::temp_dir().join(format!("pavlov-xtask-link-{}", std::process::id()));
        for name in ["one", "two"] {
            fs::create_dir_all(directory.join(name)).unwrap();
        }
        let directory = directory.canonicalize().unwrap();
        let link = directory.join("link");
        assert_eq!(point_link(&link, &directory.join("one")), Ok(true));
        assert_eq!(point_link(&link, &directory.join("one")), Ok(false));
        assert_eq!(point_link(&link, &directory.join("two")), Ok(true));
        assert_eq!(link.canonicalize().unwrap(), directory.join("two"));
        assert!(
            point_link(&directory.join("one"), &directory.join("two")).unwrap_err().contains("in the way")
        );
        fs::remove_dir_all(directory).unwrap();
    }
}
