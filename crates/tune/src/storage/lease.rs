//! The lease on a URL, which keeps two drivers from running there at the same time: the object `driver.json`.
//!
//! Object storage has no locks, so the lease is a heartbeat: the driver rewrites the object every [`BEAT`]. A second driver
//! watches it for longer than that before it takes over, unless the first driver ran on the same machine and its process is
//! gone. Before each heartbeat, a driver reads the object; if another driver has taken over, it uploads nothing from then
//! on. Two drivers that take over within the same second notice each other only at their first heartbeat.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use serde::{Deserialize, Serialize};

use super::Storage;
use crate::base::{Error, Result, node};

pub(crate) const DRIVER: &str = "driver.json";
const BEAT: Duration = Duration::from_secs(15);

/// Tokens of the leases that this process holds.
static HELD: Mutex<BTreeSet<u128>> = Mutex::new(BTreeSet::new());

/// Exclusive right of a driver to write to a URL. Dropping it releases the lease.
#[derive(Debug)]
pub(crate) struct Lease {
    storage: Arc<dyn Storage>,
    token: u128,
    lost: Arc<AtomicBool>,
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Holder {
    host: String,
    pid: u32,
    /// Identifies the machine to which `pid` belongs; empty if that cannot be determined.
    machine: String,
    token: u128,
    beat: u64,
}

impl Lease {
    /// Takes the lease and starts its heartbeat thread. Blocks while it watches whether another driver is still running.
    ///
    /// # Errors
    /// Returns [`Error::Experiment`] if another driver is running, and [`Error::Storage`] if the storage cannot be used.
    pub(crate) fn take(storage: Arc<dyn Storage>) -> Result<Self> {
        Self::take_with(storage, BEAT)
    }

    fn take_with(storage: Arc<dyn Storage>, every: Duration) -> Result<Self> {
        if let Some(other) = read(&*storage)? {
            refuse_if_alive(&*storage, &other, every)?;
        }
        let own = Holder {
            host: node::hostname().into(),
            pid: std::process::id(),
            machine: machine(),
            token: rand::random(),
            beat: 0,
        };
        write(&*storage, &own)?;
        held().insert(own.token);
        let mut lease =
            Lease { token: own.token, lost: Arc::default(), thread: None, storage: storage.clone() };
        let (stop, stopped) = bounded(0);
        let lost = lease.lost.clone();
        let thread = thread::Builder::new()
            .name("heartbeat".into())
            .spawn(move || {
                let mut own = own;
                while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                    match read(&*storage) {
                        Ok(Some(other)) if other.token != own.token => {
                            tracing::warn!("{}: {}", storage.url(), taken_over(&other));
                            lost.store(true, Ordering::SeqCst);
                            return;
                        }
                        Ok(_) => {
                            own.beat += 1;
                            // A failed heartbeat may be ignored: a later read finds out if another driver took over.
                            let _ = write(&*storage, &own);
                        }
                        Err(_) => {}
                    }
                }
            })
            .map_err(Error::other)?;
        lease.thread = Some((stop, thread));
        Ok(lease)
    }

    /// Checks that no other driver has taken over the lease.
    ///
    /// # Errors
    /// Returns [`Error::Storage`] if another driver has taken over.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.lost.load(Ordering::SeqCst) {
            return Ok(());
        }
        let reason = "another driver has taken over, see driver.json there".into();
        Err(Error::Storage { url: self.storage.url().into(), action: "write", reason, transient: false })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        held().remove(&self.token);
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            let _ = thread.join();
        }
        // If the storage cannot be reached now, the next driver notices the missing heartbeat.
        if matches!(read(&*self.storage), Ok(Some(driver)) if driver.token == self.token) {
            let _ = self.storage.delete(DRIVER);
        }
    }
}

fn held() -> std::sync::MutexGuard<'static, BTreeSet<u128>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refuse_if_alive(storage: &dyn Storage, other: &Holder, every: Duration) -> Result<()> {
    let own_machine = !other.machine.is_empty() && other.machine == machine();
    let is_own_process = own_machine && other.pid == std::process::id();
    let is_alive = match is_own_process {
        true => held().contains(&other.token),
        false if own_machine && !Path::new("/proc").join(other.pid.to_string()).exists() => false,
        false => {
            let patience = every * 3;
            tracing::warn!(
                "{}: process {} on {} ran this and has not said that it ended; watching for {patience:.0?} whether \
                 it is alive",
                storage.url(),
                other.pid,
                other.host
            );
            shows_life(storage, other, patience)?
        }
    };
    if !is_alive {
        return Ok(());
    }
    let reason = format!("process {} on {} is running it; stop that first", other.pid, other.host);
    Err(Error::experiment(Path::new(storage.url()), reason))
}

fn shows_life(storage: &dyn Storage, other: &Holder, patience: Duration) -> Result<bool> {
    let until = Instant::now() + patience;
    while Instant::now() < until {
        thread::sleep(patience / 30);
        match read(storage)? {
            None => return Ok(false),
            Some(now) if now != *other => return Ok(true),
            Some(_) => {}
        }
    }
    Ok(false)
}

fn taken_over(other: &Holder) -> String {
    format!("process {} on {} has taken over; nothing is uploaded any more", other.pid, other.host)
}

/// Reads the lease. An unreadable one counts as absent, since leases are always written whole.
fn read(storage: &dyn Storage) -> Result<Option<Holder>> {
    Ok(storage.get(DRIVER)?.and_then(|text| serde_json::from_slice(&text).ok()))
}

fn write(storage: &dyn Storage, driver: &Holder) -> Result<()> {
    storage.put(DRIVER, serde_json::to_vec(driver).map_err(Error::other)?)
}

/// Hostname, boot id and PID namespace, which together tell to which machine a process id belongs.
fn machine() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if boot.is_empty() || space.as_os_str().is_empty() {
        String::new()
    } else {
        format!("{} {} {}", node::hostname(), boot.trim(), space.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(20);

    fn storage(dir: &Path) -> Arc<dyn Storage> {
        super::super::open(&format!("file://{}", dir.display())).unwrap()
    }

    fn elsewhere(beat: u64) -> Holder {
        Holder { host: "elsewhere".into(), pid: 7, machine: "elsewhere 1 2".into(), token: 1, beat }
    }

    /// Takes the lease of `other` while it shows life, and returns the error.
    fn refused_while_it_beats(other: &Holder) -> String {
        let dir = tempfile::tempdir().unwrap();
        let there = storage(dir.path());
        write(&*there, other).unwrap();
        let beating = there.clone();
        let mut now = other.clone();
        let thread = thread::spawn(move || {
            for _ in 0..10 {
                thread::sleep(EVERY);
                now.beat += 1;
                write(&*beating, &now).unwrap();
            }
        });
        let message = Lease::take_with(there, EVERY).unwrap_err().to_string();
        thread.join().unwrap();
        message
    }

    #[test]
    fn a_second_driver_is_refused_until_the_first_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let first = Lease::take_with(storage(dir.path()), EVERY).unwrap();
        let message = Lease::take_with(storage(dir.path()), EVERY).unwrap_err().to_string();
        assert!(message.ends_with("is running it; stop that first"), "{message}");
        drop(first);
        assert_eq!(storage(dir.path()).list("").unwrap(), []);
        Lease::take_with(storage(dir.path()), EVERY).unwrap();
    }

    #[test]
    fn a_driver_elsewhere_that_shows_no_life_is_taken_over_and_one_that_does_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let there = storage(dir.path());
        write(&*there, &elsewhere(0)).unwrap();
        let first = Lease::take_with(there.clone(), EVERY).unwrap();
        first.check().unwrap();
        drop(first);
        let message = refused_while_it_beats(&elsewhere(0));
        assert!(message.ends_with("process 7 on elsewhere is running it; stop that first"), "{message}");
    }

    #[test]
    fn the_number_of_a_process_says_something_on_its_own_machine_only() {
        // No process here has the first number, and this one has the second.
        for pid in [u32::MAX, std::process::id()] {
            let message = refused_while_it_beats(&Holder { pid, ..elsewhere(0) });
            assert!(message.contains("on elsewhere is running it"), "{message}");
        }
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let here = |pid| Holder { pid, machine: machine(), ..elsewhere(0) };
        let message = refused_while_it_beats(&here(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(message.contains("is running it"), "{message}");
        // A process that has ended is not watched: that would take three minutes here.
        let dir = tempfile::tempdir().unwrap();
        let there = storage(dir.path());
        write(&*there, &here(child.id())).unwrap();
        Lease::take_with(there, Duration::from_secs(60)).unwrap().check().unwrap();
    }

    #[test]
    fn a_driver_shows_life_as_long_as_it_holds_the_lease() {
        let dir = tempfile::tempdir().unwrap();
        let there = storage(dir.path());
        let lease = Lease::take_with(there.clone(), EVERY).unwrap();
        let beat = || read(&*there).unwrap().expect("the lease").beat;
        let deadline = Instant::now() + Duration::from_secs(10);
        while beat() < 2 && Instant::now() < deadline {
            thread::sleep(EVERY);
        }
        assert!(beat() >= 2);
        lease.check().unwrap();
    }

    #[test]
    fn a_driver_that_was_taken_over_may_not_write() {
        let dir = tempfile::tempdir().unwrap();
        let there = storage(dir.path());
        let lease = Lease::take_with(there.clone(), EVERY).unwrap();
        write(&*there, &elsewhere(3)).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while lease.check().is_ok() && Instant::now() < deadline {
            thread::sleep(EVERY);
        }
        let message = lease.check().unwrap_err().to_string();
        assert!(message.ends_with("another driver has taken over, see driver.json there"), "{message}");
        drop(lease);
        assert_eq!(read(&*there).unwrap(), Some(elsewhere(3)));
    }
}
