//! Lines of the report about libtorch, and what building with it needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::line::{Line, Status};
use super::{Found, version_of};
use crate::torch;

/// Looks at the libtorch that this process runs.
pub(super) fn found() -> Found {
    let lib = loaded_from("libtorch_cpu");
    let version = lib.as_deref().and_then(version_beside);
    let lines = vec![
        compiler(),
        libtorch(lib.as_deref()),
        pytorch(version.as_deref()),
        arithmetic(),
        cuda(lib.as_deref()),
        threads(),
    ];
    Found { lib, version, lines }
}

fn compiler() -> Line {
    let asked = std::env::var("CXX").ok();
    let found = asked.as_deref().into_iter().chain(["c++", "g++", "clang++"]).find_map(version_of);
    match found {
        Some(version) => Line::ok("C++ compiler", version),
        None => Line::bad(
            "C++ compiler",
            Status::Warn,
            "none on the PATH",
            "needed to build programs with pavlov: install g++ or clang, or set CXX",
        ),
    }
}

/// Returns the path from which this process loaded `library`; `None` where `/proc/self/maps` does not say it.
fn loaded_from(library: &str) -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    path_in_maps(&maps, library)
}

fn path_in_maps(maps: &str, library: &str) -> Option<PathBuf> {
    let path_of = |line: &str| Some(PathBuf::from(&line[line.find('/')?..]));
    maps.lines().filter_map(path_of).find(|path| {
        path.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            name.strip_prefix(library)
                .is_some_and(|rest| rest.starts_with(".so") || rest.starts_with(".dylib"))
        })
    })
}

fn libtorch(lib: Option<&Path>) -> Line {
    let Some(lib) = lib else {
        return Line::bad(
            "libtorch",
            Status::Warn,
            "it runs, but this system does not say from where",
            "nothing to do; on Linux /proc/self/maps tells",
        );
    };
    match version_beside(lib) {
        Some(version) => Line::ok("libtorch", format!("{version}, {}", lib.display())),
        None => Line::bad(
            "libtorch",
            Status::Warn,
            format!("{}, of unknown version: its headers are not beside it", lib.display()),
            "needed to build programs with pavlov: `cargo xtask setup` provides them",
        ),
    }
}

/// Reads the version of libtorch from the headers that belong to the library file `lib`.
fn version_beside(lib: &Path) -> Option<String> {
    let root = lib.parent()?.parent()?;
    let header = ["include/torch/headeronly/version.h", "include/torch/csrc/api/include/torch/version.h"]
        .iter()
        .find_map(|header| fs::read_to_string(root.join(header)).ok())?;
    let part = |name: &str| {
        let line = header.lines().find(|line| line.starts_with(&format!("#define TORCH_VERSION_{name} ")))?;
        line.split_whitespace().nth(2)
    };
    Some(format!("{}.{}.{}", part("MAJOR")?, part("MINOR")?, part("PATCH")?))
}

/// Versions of tch, each with the version of PyTorch that it needs; newest first. `xtask` has a copy of this list, because
/// the two crates cannot share code.
const PAIRS: [(&str, &str); 2] = [("0.26.0", "2.13.0"), ("0.24.0", "2.11.0")];

/// Reports whether the PyTorch of the user's Python is, or could be, the libtorch in use.
fn pytorch(libtorch: Option<&str>) -> Line {
    let environment = std::env::var_os("VIRTUAL_ENV").map(|path| PathBuf::from(path).join("bin/python"));
    let pythons = environment.into_iter().chain([PathBuf::from("python3")]);
    // The current directory is removed from the path, so that its files are not run.
    let ask = "import sys; sys.path[:] = [place for place in sys.path if place]\n\
               import importlib.metadata as m; print(m.version('torch'))";
    let found = pythons.into_iter().find_map(|python| {
        let output = Command::new(python).args(["-c", ask]).output().ok().filter(|o| o.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    });
    pytorch_line(found.as_deref(), libtorch)
}

fn pytorch_line(found: Option<&str>, libtorch: Option<&str>) -> Line {
    const WHAT: &str = "PyTorch";
    let Some(found) = found else { return Line::ok(WHAT, "none for Python; none is needed") };
    // A local version such as 2.13.0+cpu counts as 2.13.0.
    let plain = found.split('+').next().unwrap_or(found);
    if Some(plain) == libtorch {
        return Line::ok(WHAT, format!("{found}, the version of libtorch"));
    }
    let found = format!("{found} for Python, which is not the version of libtorch");
    let remedy = match PAIRS.iter().find(|(_, torch)| *torch == plain) {
        Some((tch, _)) => format!(
            "nothing to do, unless both are to be one: `cargo update -p tch --precise {tch}`, then `cargo xtask setup`"
        ),
        None => {
            let supported = PAIRS.map(|(_, torch)| torch).join(" and ");
            format!("nothing to do; PyTorch {supported} could serve both")
        }
    };
    Line { what: WHAT, status: Status::Ok, found, remedy: Some(remedy) }
}

/// Checks that libtorch computes a gradient: d/dx x^2 at 3 is 6.
fn arithmetic() -> Line {
    let gradient = || -> Result<f64, torch::TchError> {
        let x = torch::Tensor::from_slice(&[3.0_f64]).set_requires_grad(true);
        (&x * &x).f_sum(torch::Kind::Double)?.f_backward()?;
        x.f_grad()?.f_double_value(&[0])
    };
    let remedy = "libtorch and the tch that this program was built with do not fit: `cargo xtask setup`, then build again";
    match gradient() {
        Ok(6.0) => Line::ok("gradients", "libtorch computes and differentiates"),
        Ok(wrong) => Line::bad("gradients", Status::Broken, format!("d/dx x^2 at 3 gave {wrong}"), remedy),
        Err(error) => Line::bad("gradients", Status::Broken, error.to_string(), remedy),
    }
}

fn cuda(lib: Option<&Path>) -> Line {
    if torch::Cuda::is_available() {
        return Line::ok(
            "CUDA",
            format!("{} GPU(s); --set num_gpus=1 learns on the first", torch::Cuda::device_count()),
        );
    }
    let built_with = torch::utils::has_cuda()
        || lib.and_then(Path::parent).is_some_and(|dir| dir.join("libtorch_cuda.so").exists());
    let driver = Path::new("/proc/driver/nvidia/version").exists();
    match (built_with, driver) {
        (_, false) => Line::ok("CUDA", "not used: this machine has no NVIDIA driver; the CPU does the work"),
        (false, true) => Line::bad(
            "CUDA",
            Status::Warn,
            "not used: this libtorch is built without it",
            "`cargo xtask setup --cuda`, then build again",
        ),
        (true, true) => Line::bad(
            "CUDA",
            Status::Warn,
            "not used: libtorch has it and a driver is there, but no GPU answers",
            "look at nvidia-smi and CUDA_VISIBLE_DEVICES; the driver may be older than libtorch's CUDA",
        ),
    }
}

fn threads() -> Line {
    let inside = torch::get_num_threads();
    let between = torch::get_num_interop_threads();
    Line::ok(
        "threads",
        format!(
            "libtorch would use {inside} inside an operation and {between} between; a run uses 1 per worker and 1 to learn"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_in_the_memory_map_by_its_whole_name() {
        let maps = "7f00-7f01 r--p 0 08:01 12    /opt/torch lib/libtorch_cpu_extra.so\n\
                    7f02-7f03 r-xp 0 08:01 13    /opt/torch lib/libtorch_cpu.so\n\
                    7f04-7f05 rw-p 0 00:00 0     [heap]\n";
        let found = path_in_maps(maps, "libtorch_cpu");
        assert_eq!(found.as_deref(), Some(Path::new("/opt/torch lib/libtorch_cpu.so")));
        assert_eq!(path_in_maps("7f04-7f05 rw-p 0 00:00 0 [heap]\n", "libtorch_cpu"), None);
    }

    #[test]
    fn another_pytorch_is_answered_with_the_command_that_makes_both_one() {
        let remedy = |found| pytorch_line(Some(found), Some("2.13.0")).remedy;
        assert_eq!(remedy("2.13.0+cpu"), None);
        assert!(remedy("2.11.0").unwrap().contains("`cargo update -p tch --precise 0.24.0`"));
        assert!(remedy("2.4.1").unwrap().contains("PyTorch 2.13.0 and 2.11.0 could serve both"));
    }

    #[test]
    fn the_pairs_are_those_of_the_set_up() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/xtask/src/libtorch.rs");
        let xtask = fs::read_to_string(file).expect("the workspace");
        let pairs = format!("PAIRS: [(&str, &str); {}] = {PAIRS:?};", PAIRS.len());
        assert!(xtask.contains(&pairs), "{pairs}");
    }
}
