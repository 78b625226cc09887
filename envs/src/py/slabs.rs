//! The memory that parent and workers share, and where everything lies in it.

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, RawFd},
    ptr,
};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::DType;

/// An anonymous file in memory: gone with its last user, never seen in `/dev/shm`.
pub(super) fn anonymous_file(name: &str) -> io::Result<File> {
    Ok(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?.into())
}

/// Bytes that other processes write too. They are only copied in and out, never borrowed.
#[derive(Debug)]
pub(super) struct Memory {
    file: File,
    map: MmapRaw,
}

impl Memory {
    pub(super) fn new(size: usize) -> io::Result<Self> {
        let file = anonymous_file("pavlov-slabs")?;
        file.set_len(size as u64)?;
        // No worker can take the memory away from under the others.
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

    /// Flags are bytes that Python wrote: anything but 0 is true.
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

/// Bytes of one row of observations and of actions, and what else there is per row. Rows are copies, or the agents of
/// one copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowLayout {
    pub(super) num_envs: usize,
    pub(super) num_workers: usize,
    pub(super) obs_width: usize,
    pub(super) obs_dtype: DType,
    pub(super) act_width: usize,
    pub(super) act_dtype: DType,
    /// Actions in the mask; 0 when there is none.
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

/// Of one worker in [`Offsets::callers`].
pub(super) const CALLER_BYTES: usize = size_of::<[i64; 3]>();

/// Where the slabs begin, in bytes.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(super) struct Offsets {
    pub(super) obs: usize,
    pub(super) final_obs: usize,
    pub(super) actions: usize,
    /// `f64`, as Python gives them.
    pub(super) rewards: usize,
    pub(super) terminated: usize,
    pub(super) truncated: usize,
    /// Which agents are in the episode; of agents only.
    pub(super) alive: usize,
    pub(super) seeds: usize,
    pub(super) masks: usize,
    /// Of the last states of the episodes that ended in the last step.
    pub(super) final_masks: usize,
    /// `[num_infos, num_envs]` of `f64`.
    pub(super) infos: usize,
    /// Two `i64` per worker: the row it is at (-1: none), and 1 while it resets that row.
    pub(super) at: usize,
    /// Three `i64` per worker, for [`Turns`](super::turns::Turns): the thread that it is to wake on a core when it is done,
    /// that core, and a number above those of all cores; zeros when it takes no turns.
    pub(super) callers: usize,
}

impl Offsets {
    /// Lays the slabs out one after the other; gives their common size too.
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
