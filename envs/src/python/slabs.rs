//! The memory that parent and workers share, and the offsets of the arrays ("slabs") in it.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, RawFd},
    ptr,
};

use memmap2::{MmapOptions, MmapRaw};
#[cfg(target_os = "linux")]
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::DType;

/// Makes an anonymous file in memory: it is freed with its last user, and never appears in `/dev/shm`.
#[cfg(target_os = "linux")]
pub(super) fn anonymous_file(name: &str) -> io::Result<File> {
    Ok(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?.into())
}

/// Makes a file in the system's folder of temporary files that has no name any more: the system frees it when the last
/// process that has it open ends.
#[cfg(not(target_os = "linux"))]
pub(super) fn anonymous_file(name: &str) -> io::Result<File> {
    static MADE: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = MADE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("{name}-{}-{number}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Shared memory that other processes write too. Its bytes are only copied in and out, never borrowed.
#[derive(Debug)]
pub(super) struct Memory {
    file: File,
    map: MmapRaw,
}

impl Memory {
    pub(super) fn new(size: usize) -> io::Result<Self> {
        let file = anonymous_file("pavlov-slabs")?;
        file.set_len(size as u64)?;
        // Sealed where the system can, so that no worker can shrink the memory while the others use it.
        #[cfg(target_os = "linux")]
        fcntl_add_seals(&file, SealFlags::SHRINK)?;
        let map = MmapOptions::new().len(size).map_raw(&file)?;
        Ok(Self { file, map })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    pub(super) fn size(&self) -> usize {
        self.map.len()
    }

    #[allow(unsafe_code)]
    pub(super) fn read(&self, at: usize, out: &mut [u8]) {
        assert!(at + out.len() <= self.map.len(), "the slabs end at {}", self.map.len());
        // SAFETY: the range lies in the map, which lives as long as `self` and cannot shrink; `out` is not part of it,
        // because nothing borrows from the map. A worker that writes at the same time makes the bytes wrong, not
        // invalid: every bit pattern is a `u8`.
        unsafe { ptr::copy_nonoverlapping(self.map.as_ptr().add(at), out.as_mut_ptr(), out.len()) }
    }

    /// Reads flags, which are bytes that Python wrote: any byte but 0 is true.
    pub(super) fn read_flags(&self, at: usize, out: &mut [bool]) {
        const CHUNK: usize = 256;
        let mut bytes = [0; CHUNK];
        for (i, flags) in out.chunks_mut(CHUNK).enumerate() {
            let bytes = &mut bytes[..flags.len()];
            self.read(at + i * CHUNK, bytes);
            flags.iter_mut().zip(bytes).for_each(|(flag, byte)| *flag = *byte != 0);
        }
    }

    #[allow(unsafe_code)]
    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.map.len(), "the slabs end at {}", self.map.len());
        // SAFETY: as in `read`.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.map.as_mut_ptr().add(at), bytes.len()) }
    }
}

/// Widths and scalar types of the rows in shared memory. A row is a copy, or an agent of one copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowLayout {
    pub(super) num_envs: usize,
    pub(super) num_workers: usize,
    pub(super) obs_width: usize,
    pub(super) obs_dtype: DType,
    pub(super) act_width: usize,
    pub(super) act_dtype: DType,
    /// Number of actions in a mask; 0 without masks.
    pub(super) num_masked: usize,
    pub(super) num_infos: usize,
}

impl RowLayout {
    pub(super) fn obs_bytes(&self) -> usize {
        self.obs_width * self.obs_dtype.size()
    }

    pub(super) fn act_bytes(&self) -> usize {
        self.act_width * self.act_dtype.size()
    }
}

/// Number of bytes of one worker in [`Offsets::callers`].
pub(super) const CALLER_BYTES: usize = size_of::<[i64; 3]>();

/// Offset of each array in the shared memory, in bytes.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(super) struct Offsets {
    pub(super) obs: usize,
    pub(super) final_obs: usize,
    pub(super) actions: usize,
    /// Rewards as `f64`, as Python gives them.
    pub(super) rewards: usize,
    pub(super) terminated: usize,
    pub(super) truncated: usize,
    /// Whether each agent is in the episode; used by environments of several agents only.
    pub(super) alive: usize,
    /// Whether each agent acts in the next step; used by environments of several agents only.
    pub(super) acting: usize,
    pub(super) seeds: usize,
    pub(super) masks: usize,
    /// Action masks at the last states of the episodes that ended in the last step.
    pub(super) final_masks: usize,
    /// Values of `info`, `[num_infos, num_envs]` of `f64`.
    pub(super) infos: usize,
    /// Two `i64` per worker: the row that it works on (-1: none), and 1 while it resets that row.
    pub(super) at: usize,
    /// Three `i64` per worker, for [`Turns`](super::turns::Turns): the caller's thread, the core on which the worker wakes
    /// it when done, and a number above those of all cores; zeros if the step is not taken in turns.
    pub(super) callers: usize,
}

impl Offsets {
    /// Places the arrays one after the other, aligned to cache lines; returns their offsets and their total size.
    pub(super) fn new(rows: &RowLayout) -> (Self, usize) {
        const CACHE_LINE: usize = 64;
        let mut end = 0;
        let mut slab = |bytes: usize| {
            let start = end;
            end = (start + bytes).next_multiple_of(CACHE_LINE);
            start
        };
        let n = rows.num_envs;
        let offsets = Self {
            obs: slab(n * rows.obs_bytes()),
            final_obs: slab(n * rows.obs_bytes()),
            actions: slab(n * rows.act_bytes()),
            rewards: slab(n * 8),
            terminated: slab(n),
            truncated: slab(n),
            alive: slab(n),
            acting: slab(n),
            seeds: slab(n * 8),
            masks: slab(n * rows.num_masked),
            final_masks: slab(n * rows.num_masked),
            infos: slab(n * rows.num_infos * 8),
            at: slab(rows.num_workers * 16),
            callers: slab(rows.num_workers * CALLER_BYTES),
        };
        (offsets, end)
    }
}
