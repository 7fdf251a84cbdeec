//! How much memory a piece of work takes: an allocator that counts, for each thread, what is held.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn book(bytes: isize) {
    // A thread that is going away has no counters left, and nobody asks.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: every call is handed on unchanged to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        book(layout.size() as isize);
        // SAFETY: the caller keeps `GlobalAlloc`'s contract, which is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        book(layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        book(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        book(new_size as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, new_size) }
    }
}

/// Runs `work` and panics if at any time it held more than `times` × `input_bytes` + `fixed` bytes beyond what was held
/// before. What it returns counts, what it was given does not.
pub fn bounded<T>(input_bytes: usize, times: usize, fixed: usize, work: impl FnOnce() -> T) -> T {
    let before = HELD.get();
    PEAK.set(before);
    let done = work();
    let taken = usize::try_from(PEAK.get() - before).unwrap_or(0);
    let allowed = times * input_bytes + fixed;
    assert!(taken <= allowed, "{taken} bytes held for {input_bytes} bytes of input; {allowed} are allowed");
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_at_once_counts() {
        bounded(100, 1, 0, || (0..10).for_each(|_| drop(vec![0u8; 100])));
        let over = std::panic::catch_unwind(|| bounded(100, 1, 0, || vec![0u8; 101]));
        assert!(over.is_err());
    }
}
