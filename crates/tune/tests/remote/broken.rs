//! Storages that break one part of the contract each, and the check that names it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use pavlov_tune::Result;
use pavlov_tune::storage::{Object, Storage, check_storage, open};

/// What a [`Broken`] does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    GetFindsAnything,
    HeadFindsAnything,
    GetFileFindsAnything,
    GetFileLeavesAnEmptyFile,
    GetCutsOff,
    GetLosesEmptyObjects,
    ListsNeighbours,
    HeadForgetsChecksums,
    GetFileLosesObjects,
    GetFileGivesOtherContent,
    GetFileLeavesLitter,
    PutFileIgnoresChecksums,
    DeleteKeeps,
}

/// A directory with one fault.
#[derive(Debug)]
struct Broken {
    inner: Arc<dyn Storage>,
    fault: Fault,
}

impl Broken {
    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }
}

impl Storage for Broken {
    fn url(&self) -> &str {
        self.inner.url()
    }

    fn put(&self, path: &str, bytes: Vec<u8>) -> Result<()> {
        self.inner.put(path, bytes)
    }

    fn put_file(&self, path: &str, file: &Path, crc32c: u32) -> Result<()> {
        if self.has(Fault::PutFileIgnoresChecksums) {
            return self.inner.put(path, fs::read(file).unwrap());
        }
        self.inner.put_file(path, file, crc32c)
    }

    fn get(&self, path: &str) -> Result<Option<Vec<u8>>> {
        let mut found = self.inner.get(path)?;
        match self.fault {
            Fault::GetFindsAnything => found = found.or(Some(Vec::new())),
            Fault::GetCutsOff => found = found.map(|bytes| bytes[..bytes.len().min(5)].to_vec()),
            Fault::GetLosesEmptyObjects => found = found.filter(|bytes| !bytes.is_empty()),
            _ => {}
        }
        Ok(found)
    }

    fn get_file(&self, path: &str, file: &Path) -> Result<bool> {
        let found = self.inner.get_file(path, file)?;
        match self.fault {
            Fault::GetFileFindsAnything => return Ok(true),
            Fault::GetFileLeavesAnEmptyFile if !found => fs::write(file, "").unwrap(),
            Fault::GetFileLosesObjects => return Ok(false),
            Fault::GetFileGivesOtherContent if found => fs::write(file, "other").unwrap(),
            Fault::GetFileLeavesLitter => fs::write(file.with_extension("part"), "").unwrap(),
            _ => {}
        }
        Ok(found)
    }

    fn head(&self, path: &str) -> Result<Option<Object>> {
        let found = self.inner.head(path)?;
        Ok(match self.fault {
            Fault::HeadFindsAnything => found.or(Some(Object { path: path.into(), bytes: 0, crc32c: None })),
            Fault::HeadForgetsChecksums => found.map(|object| Object { crc32c: None, ..object }),
            _ => found,
        })
    }

    fn list(&self, prefix: &str) -> Result<Vec<Object>> {
        if self.has(Fault::ListsNeighbours) {
            let all = self.inner.list("")?.into_iter();
            return Ok(all.filter(|object| object.path.starts_with(prefix)).collect());
        }
        self.inner.list(prefix)
    }

    fn delete(&self, path: &str) -> Result<()> {
        if self.has(Fault::DeleteKeeps) { Ok(()) } else { self.inner.delete(path) }
    }
}

#[test]
fn a_storage_that_breaks_one_part_of_the_contract_is_refused_for_that_part() {
    let faults = [
        (Fault::GetFindsAnything, "`get` finds what was never put"),
        (Fault::HeadFindsAnything, "`head` finds what was never put"),
        (Fault::GetFileFindsAnything, "`get_file` finds what was never put"),
        (Fault::GetFileLeavesAnEmptyFile, "`get_file` leaves a file for what was never put"),
        (Fault::GetCutsOff, "dir/a: 14 bytes were put, 5 other ones read"),
        (Fault::GetLosesEmptyObjects, "dir/sub/odd name +%=#.json: `get` does not find what was put"),
        (Fault::ListsNeighbours, "`list(\"dir\")` gives ["),
        (Fault::HeadForgetsChecksums, "`head` gives Some("),
        (Fault::GetFileLosesObjects, "`get_file` does not find what was put"),
        (Fault::GetFileGivesOtherContent, "`get_file` of dir/file gives other content"),
        (Fault::GetFileLeavesLitter, "`get_file` leaves files beside the one it was asked for"),
        (
            Fault::PutFileIgnoresChecksums,
            "`put_file` takes a file that is not the one its checksum was made of",
        ),
        (Fault::DeleteKeeps, "`list(\"\")` gives ["),
    ];
    for (fault, said) in faults {
        let dir = tempfile::tempdir().unwrap();
        let inner = open(&format!("file://{}/below", dir.path().display())).unwrap();
        let error = check_storage(&Broken { inner, fault }).expect_err("a fault").to_string();
        assert!(error.contains(said), "{fault:?}: {error}");
    }
}
