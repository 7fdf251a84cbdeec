//! Prefetching: a hint that memory will be accessed soon.
//!
//! A translation layer's tables are larger than the processor's caches, and each request touches a random entry. A
//! caller that knows the next entry early prefetches it, so that cache misses overlap. The hint changes no result. On
//! architectures without an implementation it does nothing.

/// Prefetches element `at` of `slice`. Does nothing if `at` is out of range.
#[inline(always)]
pub fn prefetch<T>(slice: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(element) = slice.get(at) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the address is that of a live element, and a prefetch has no effect that the program can see.
        #[allow(unsafe_code)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(element).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, at);
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_hint_out_of_range_is_ignored() {
        super::prefetch(&[1, 2, 3], 2);
        super::prefetch(&[1, 2, 3], usize::MAX);
        super::prefetch::<u64>(&[], 0);
    }
}
