//! `faulty:///dir`: the storage `file:///dir`, which can be told to fail and to look at itself after each change.
//!
//! For tests that run in a process of their own: there is one such storage in it.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pavlov_tune::storage::{self, Object, Storage};
use pavlov_tune::{Error, Result};

/// Asked before each call, with its name and the object's path: the reason to refuse it, and whether that may pass.
type Refuses = Box<dyn FnMut(&str, &str) -> Option<(String, bool)> + Send>;
/// Told after each change.
type Changed = Box<dyn FnMut(&str, &str) + Send>;

static REFUSES: Mutex<Option<Refuses>> = Mutex::new(None);
static CHANGED: Mutex<Option<Changed>> = Mutex::new(None);
/// Files that were uploaded.
pub(crate) static FILES: AtomicU64 = AtomicU64::new(0);

/// Registers the scheme.
pub(crate) fn url(dir: &Path) -> String {
    storage::register("faulty", |url| {
        let inner = storage::open(&url.replacen("faulty", "file", 1))?;
        Ok(Arc::new(Faulty { url: url.into(), inner }))
    });
    format!("faulty://{}", dir.display())
}

pub(crate) fn refuse(refuses: impl FnMut(&str, &str) -> Option<(String, bool)> + Send + 'static) {
    *REFUSES.lock().unwrap() = Some(Box::new(refuses));
}

pub(crate) fn come_up() {
    *REFUSES.lock().unwrap() = None;
}

pub(crate) fn watch(changed: impl FnMut(&str, &str) + Send + 'static) {
    *CHANGED.lock().unwrap() = Some(Box::new(changed));
}

pub(crate) fn look_away() {
    *CHANGED.lock().unwrap() = None;
}

#[derive(Debug)]
struct Faulty {
    url: String,
    inner: Arc<dyn Storage>,
}

impl Faulty {
    fn ask(&self, action: &'static str, path: &str) -> Result<()> {
        let refusal = REFUSES.lock().unwrap().as_mut().and_then(|refuses| refuses(action, path));
        match refusal {
            None => Ok(()),
            Some((reason, transient)) => {
                Err(Error::Storage { url: format!("{}/{path}", self.url), action, reason, transient })
            }
        }
    }

    /// Makes one change and has it looked at; no other change comes in between.
    fn change(&self, action: &'static str, path: &str, make: impl FnOnce() -> Result<()>) -> Result<()> {
        self.ask(action, path)?;
        let mut changed = CHANGED.lock().unwrap();
        make()?;
        if let Some(changed) = changed.as_mut() {
            changed(action, path);
        }
        Ok(())
    }
}

impl Storage for Faulty {
    fn url(&self) -> &str {
        &self.url
    }

    fn put(&self, path: &str, bytes: Vec<u8>) -> Result<()> {
        self.change("put", path, || self.inner.put(path, bytes))
    }

    fn put_file(&self, path: &str, file: &Path, crc32c: u32) -> Result<()> {
        self.change("put_file", path, || {
            self.inner.put_file(path, file, crc32c)?;
            FILES.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
    }

    fn get(&self, path: &str) -> Result<Option<Vec<u8>>> {
        self.ask("get", path)?;
        self.inner.get(path)
    }

    fn get_file(&self, path: &str, file: &Path) -> Result<bool> {
        self.ask("get_file", path)?;
        self.inner.get_file(path, file)
    }

    fn head(&self, path: &str) -> Result<Option<Object>> {
        self.ask("head", path)?;
        self.inner.head(path)
    }

    fn list(&self, prefix: &str) -> Result<Vec<Object>> {
        self.ask("list", prefix)?;
        self.inner.list(prefix)
    }

    fn delete(&self, path: &str) -> Result<()> {
        self.change("delete", path, || self.inner.delete(path))
    }
}
