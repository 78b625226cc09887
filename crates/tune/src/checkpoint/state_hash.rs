//! The hash of the state that a checkpoint holds, chained to the checkpoint that was written before it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{METADATA, Manifest, ManifestFile, list, read_manifest};
use crate::base::files::parent;

/// Hashes of a checkpoint's state, in hexadecimal digits.
///
/// Two runs of the same settings and seed have the same hashes, whenever and wherever they ran: the file with times and
/// measured speeds, `metadata.json`, does not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateHash {
    /// SHA-256 of the paths, sizes and contents of all files that the trainable wrote, in the order of their paths.
    pub state: String,
    /// SHA-256 of the `chain` of the checkpoint numbered `after`, if there is one, and of `state`.
    pub chain: String,
    /// Number of the checkpoint that was written before this one into the same directory. `None`: this is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

impl StateHash {
    /// Hashes the files in `dir`, which will be the checkpoint `final_dir` with this number.
    pub(super) fn of(dir: &Path, files: &[ManifestFile], final_dir: &Path, number: u64) -> io::Result<Self> {
        let state = state(dir, files)?;
        let before = written_before(final_dir, number);
        let (after, hash) = before.map_or((None, None), |manifest| (manifest.number, manifest.hash));
        let chain = chain(hash.as_ref().map(|hash| hash.chain.as_str()), &state);
        Ok(Self { state, chain, after })
    }
}

/// The manifest with the highest number below `number` beside `final_dir`, whose own manifest does not count: it will be
/// replaced. Later iterations are read first, so that a run with many checkpoints reads one manifest per save.
fn written_before(final_dir: &Path, number: u64) -> Option<Manifest> {
    let mut newest: Option<Manifest> = None;
    let found = list(parent(final_dir)).unwrap_or_default().into_iter().rev();
    for (_, path) in found.filter(|(_, path)| path != final_dir) {
        let Ok(manifest) = read_manifest(&path) else { continue };
        let Some(other) = manifest.number.filter(|other| *other < number) else { continue };
        if other + 1 == number {
            return Some(manifest);
        }
        if newest.as_ref().is_none_or(|newest| newest.number < manifest.number) {
            newest = Some(manifest);
        }
    }
    newest
}

/// The hash of the state in `dir`: see [`StateHash::state`].
///
/// # Errors
/// Fails if a file cannot be read.
pub(super) fn state(dir: &Path, files: &[ManifestFile]) -> io::Result<String> {
    let mut hash = Sha256::new();
    for file in files.iter().filter(|file| file.path != METADATA) {
        hash.update((file.path.len() as u64).to_le_bytes());
        hash.update(&file.path);
        hash.update(file.bytes.to_le_bytes());
        let mut content = File::open(dir.join(&file.path))?;
        let mut part = vec![0; 1 << 16];
        loop {
            match content.read(&mut part)? {
                0 => break,
                read => hash.update(&part[..read]),
            }
        }
    }
    Ok(hex(hash))
}

/// The chain of a checkpoint with this state, after a checkpoint with the chain `previous`.
pub fn chain(previous: Option<&str>, state: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(previous.unwrap_or_default());
    hash.update(state);
    hex(hash)
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Error, Result};
    use crate::checkpoint::{name, write};

    fn save(home: &Path, iteration: u64, state: &str, time: &str) -> Result<StateHash> {
        let dir = write(&home.join(name(iteration)), "Counter", |to| {
            let write =
                |file: &str, text: &str| std::fs::write(to.join(file), text).map_err(Error::io("write", to));
            write("state", state)?;
            write(METADATA, time)
        })?;
        Ok(read_manifest(&dir)?.hash.expect("a hash"))
    }

    #[test]
    fn times_do_not_count_and_every_checkpoint_follows_the_one_before() {
        let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let hashes = |home: &Path, time: &str| ["a", "b"].map(|state| save(home, 1, state, time).unwrap());
        assert_eq!(hashes(one.path(), "1 s"), hashes(two.path(), "2 s"));
        let first = save(one.path(), 2, "c", "3 s").unwrap();
        let second = save(one.path(), 3, "c", "4 s").unwrap();
        assert_eq!(first.state, second.state);
        assert_ne!(first.chain, second.chain);
        assert_eq!(second.chain, chain(Some(&first.chain), &second.state));
        // A checkpoint does not follow the one that it replaces.
        let again = save(one.path(), 3, "c", "5 s").unwrap();
        assert_eq!((again.after, &again.chain), (second.after, &second.chain));
    }
}
