//! What a libtorch directory holds, and which one the tch of the lock file wants.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;

/// Each tch is written against one PyTorch; newest first.
pub(crate) const PAIRS: [(&str, &str); 2] = [("0.26.0", "2.13.0"), ("0.24.0", "2.11.0")];

/// The versions of tch and of the PyTorch that it was written against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) tch: String,
    pub(crate) torch: &'static str,
}

impl Wanted {
    /// Reads the version of tch from the text of `Cargo.lock`.
    pub(crate) fn from_lock(lock: &str) -> Result<Wanted> {
        let tch = lock
            .split("[[package]]")
            .find_map(|package| {
                package
                    .lines()
                    .any(|line| line == "name = \"tch\"")
                    .then(|| value_of(package, "version = "))?
            })
            .ok_or("Cargo.lock names no tch; restore it from the repository")?;
        let Some((_, torch)) = PAIRS.iter().find(|(known, _)| *known == tch) else {
            return Err(format!(
                "Cargo.lock holds tch {tch}, whose PyTorch is not known here; run `{}`, or set LIBTORCH yourself \
                 and build without this command",
                update_command(PAIRS[0].0)
            ));
        };
        Ok(Wanted { tch: tch.to_owned(), torch })
    }

    /// Says how `found`, a version of PyTorch that does not fit, can be used nevertheless.
    pub(crate) fn way_out(&self, found: &str) -> String {
        match PAIRS.iter().find(|(_, torch)| *torch == found) {
            Some((tch, _)) => format!("to use it, run `{}` and then this command again", update_command(tch)),
            None => {
                let supported: Vec<_> = PAIRS.iter().map(|(_, torch)| *torch).collect();
                format!("PyTorch {} can be used, {found} cannot", supported.join(" and "))
            }
        }
    }
}

fn update_command(tch: &str) -> String {
    format!("cargo update -p tch --precise {tch}")
}

/// The text between the quotes that follow `key` at the start of a line.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.trim_matches('"'))
}

/// A directory with `include/` and `lib/`, as LIBTORCH wants it.
#[derive(Debug)]
pub(crate) struct Libtorch {
    pub(crate) directory: PathBuf,
    pub(crate) version: String,
    pub(crate) cuda: bool,
}

impl Libtorch {
    /// Looks into `directory`; a relative one is taken from here.
    pub(crate) fn open(directory: &Path) -> Result<Libtorch> {
        let lacks = |what: &str| format!("{} is no libtorch: it has no {what}", directory.display());
        let directory =
            directory.canonicalize().map_err(|error| format!("{}: {error}", directory.display()))?;
        let lib = directory.join("lib");
        if !lib.join("libtorch_cpu.so").exists() && !lib.join("libtorch_cpu.dylib").exists() {
            return Err(lacks("lib/libtorch_cpu.so"));
        }
        let version =
            ["include/torch/headeronly/version.h", "include/torch/csrc/api/include/torch/version.h"]
                .iter()
                .filter_map(|header| fs::read_to_string(directory.join(header)).ok())
                .find_map(|header| version_in_header(&header))
                .ok_or_else(|| lacks("include/torch/headeronly/version.h"))?;
        Ok(Libtorch { cuda: lib.join("libtorch_cuda.so").exists(), directory, version })
    }
}

fn version_in_header(header: &str) -> Option<String> {
    let part = |name: &str| {
        header.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some("#define") && words.next() == Some(name)).then(|| words.next())?
        })
    };
    let [major, minor, patch] =
        ["MAJOR", "MINOR", "PATCH"].map(|name| part(&format!("TORCH_VERSION_{name}")));
    Some(format!("{}.{}.{}", major?, minor?, patch?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_file_of_this_checkout_names_a_tch_with_a_known_pytorch() {
        let wanted = Wanted::from_lock(include_str!("../../Cargo.lock")).unwrap();
        assert!(PAIRS.contains(&(wanted.tch.as_str(), wanted.torch)));
    }

    #[test]
    fn a_pytorch_of_another_supported_tch_is_answered_with_the_command_that_switches() {
        let wanted = Wanted { tch: "0.26.0".into(), torch: "2.13.0" };
        assert!(wanted.way_out("2.11.0").contains("`cargo update -p tch --precise 0.24.0`"));
        assert!(wanted.way_out("2.4.1").contains("PyTorch 2.13.0 and 2.11.0 can be used, 2.4.1 cannot"));
    }

    #[test]
    fn an_unknown_tch_is_refused_with_the_command_back() {
        let lock = "[[package]]\nname = \"tch\"\nversion = \"0.99.0\"\n";
        let error = Wanted::from_lock(lock).unwrap_err();
        assert!(error.contains("tch 0.99.0") && error.contains("--precise 0.26.0"), "{error}");
    }

    // As in torch/headeronly/version.h of the 2.13.0 wheel.
    #[test]
    fn the_version_is_read_from_the_header() {
        let header = "#pragma once\n#define TORCH_VERSION_MAJOR 2\n\n#define TORCH_VERSION_MINOR 13\n\
                      #define TORCH_VERSION_PATCH 0\n";
        assert_eq!(version_in_header(header).as_deref(), Some("2.13.0"));
        assert_eq!(version_in_header("#define TORCH_VERSION_MAJOR 2\n"), None);
    }
}
