//! An allocator that counts, for the programs that say what a step allocates. A program includes this file as a module.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

thread_local! {
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
}

static OF_PROCESS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        OF_THREAD.set(OF_THREAD.get() + 1);
        OF_PROCESS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often this thread has allocated.
#[allow(dead_code, reason = "a program uses one of the two")]
pub(crate) fn allocations_of_thread() -> u64 {
    OF_THREAD.get()
}

/// How often all threads have allocated.
#[allow(dead_code, reason = "a program uses one of the two")]
pub(crate) fn allocations_of_process() -> u64 {
    OF_PROCESS.load(Ordering::Relaxed)
}
