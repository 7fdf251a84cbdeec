//! Analytic results about drives, used in studies.
//!
//! Knows equations and nothing of the simulator. Studies have their values in `[derived]`; a test compares the
//! two.

use std::collections::BTreeMap;

/// Mean number of busy channels with `depth` requests outstanding on `channels` channels. Each request goes to a
/// channel drawn uniformly and takes the channel for the same time. All channels work in lock step: a step ends one
/// request of each busy channel, and as many new ones are drawn. Exact: the stationary distribution of the Markov chain
/// over the sorted numbers of waiting requests.
///
/// Sources: the chain is that of interleaved memories, D. P. Bhandarkar, "Analysis of Memory Interference in
/// Multiprocessors", IEEE Trans. Computers C-24(9), 1975; F. Baskett and A. J. Smith, "Interference in Multiprocessor
/// Computer Systems with Interleaved Memory", CACM 19(6), 1976.
pub fn busy_channels(channels: u32, depth: u32) -> f64 {
    let placed = |states, requests| (0..requests).fold(states, |states, _| throw(states));
    let begin = placed(BTreeMap::from([(vec![0; channels.max(1) as usize], 1.0)]), depth);
    let number: BTreeMap<&[u32], usize> = begin.keys().enumerate().map(|(at, state)| (&**state, at)).collect();
    let steps: Vec<Vec<(usize, f64)>> = begin
        .keys()
        .map(|state| {
            let left: Vec<u32> = state.iter().map(|waiting| waiting.saturating_sub(1)).collect();
            let ended = depth - left.iter().sum::<u32>();
            placed(BTreeMap::from([(left, 1.0)]), ended)
                .into_iter()
                .map(|(to, chance)| (number[&*to], chance))
                .collect()
        })
        .collect();
    let mut now: Vec<f64> = begin.values().copied().collect();
    loop {
        let mut next = vec![0.0; now.len()];
        for (chance, step) in now.iter().zip(&steps) {
            for &(to, share) in step {
                next[to] += chance * share;
            }
        }
        let change: f64 = now.iter().zip(&next).map(|(now, next)| (now - next).abs()).sum();
        now = next;
        if change < 1e-12 {
            break;
        }
    }
    let busy = begin.keys().map(|state| state.iter().filter(|&&waiting| waiting > 0).count());
    now.iter().zip(busy).map(|(chance, busy)| chance * busy as f64).sum()
}

/// Adds a request on a uniformly drawn channel. States are sorted, the fullest channel first.
fn throw(states: BTreeMap<Vec<u32>, f64>) -> BTreeMap<Vec<u32>, f64> {
    let mut next = BTreeMap::new();
    for (state, chance) in states {
        let mut first = 0;
        while first < state.len() {
            let alike = state[first..].iter().take_while(|&&waiting| waiting == state[first]).count();
            let mut more = state.clone();
            more[first] += 1;
            *next.entry(more).or_default() += chance * alike as f64 / state.len() as f64;
            first += alike;
        }
    }
    next
}

/// Write amplification of greedy garbage collection under uniformly random writes of single pages, with many blocks of
/// `pages` pages and `alpha` physical pages per page that the host rewrites.
///
/// Van Houdt's mean-field model (SIGMETRICS 2013, doi 10.1145/2494232.2465543) in the limit of ever more choices, which
/// Desnoyers (SYSTOR 2012) solved before. Let `m` be the mean number of valid pages of a victim, and
/// `c = (pages - m) alpha / pages`. Blocks lose their pages one by one: `w[i] = 1 / (i c)` of them have `i`, down to the
/// count `k` at which they are collected, and `w[k+1] = p / ((k+1) c)`, where `p` is the share of victims with `k`
/// instead of `k + 1`.
/// That the shares sum to 1 is linear in `p`; one `k` gives a `p` from 0 to 1.
pub fn greedy_waf(pages: u32, alpha: f64) -> Option<f64> {
    let b = f64::from(pages);
    let passed = |k: u32| (k + 2..=pages).map(|i| 1.0 / f64::from(i)).sum::<f64>();
    let solved = (0..pages).find_map(|k| {
        let p = (f64::from(pages - k - 1) * alpha / b - passed(k)) / (1.0 / f64::from(k + 1) - alpha / b);
        (-1e-9..=1.0 + 1e-9).contains(&p).then(|| f64::from(k + 1) - p)
    });
    solved.map(|m| b / (b - m))
}

/// Writes per second of one thread that writes one page after another, each in `write_us`, and after every `every`
/// writes waits `flush_us` for a flush.
pub fn flushed_writes_per_s(write_us: f64, flush_us: f64, every: u32) -> f64 {
    let writes = f64::from(every);
    writes * 1e6 / (writes * write_us + flush_us)
}

/// Time to program consecutive pages from a buffer into an idle drive that stripes them over channels first: a page
/// takes its channel for `transfer_us`, then its die for `program_us`; a die accepts the next page when it has
/// programmed the last.
pub fn write_out_us(channels: u32, ways: u32, transfer_us: f64, program_us: f64, pages: u32) -> f64 {
    let mut bus = 0.0;
    let mut dies = vec![0.0; ways.max(1) as usize];
    for page in 0..pages.div_ceil(channels.max(1)) {
        let die = &mut dies[(page % ways.max(1)) as usize];
        bus = f64::max(bus, *die) + transfer_us;
        *die = bus + program_us;
    }
    dies.into_iter().fold(0.0, f64::max)
}

/// Physical pages per page in use, if the host uses the share `used` of its capacity and the rest is trimmed.
pub fn alpha_trimmed(over_provisioning: f64, used: f64) -> f64 {
    (1.0 + over_provisioning) / used
}

/// As [`alpha_trimmed`], but the rest was written once: it fills blocks of its own that are never collected.
pub fn alpha_untrimmed(over_provisioning: f64, used: f64) -> f64 {
    (over_provisioning + used) / used
}

/// Rate of random reads over a working set, relative to the rate with every map page cached. `cached` is the share of
/// the working set whose map pages fit into the device's memory: with LRU and uniform reads it is also the hit
/// probability. A miss reads a map page before the page itself, on dies that do nothing else.
///
/// Source: the closed form of the study `hpb-iozone`, as fitted there: with one more read per miss, all five published
/// cells are met within half a per cent.
pub fn map_bound(cached: f64) -> f64 {
    1.0 / (2.0 - cached.clamp(0.0, 1.0))
}

/// As [`map_bound`], with HPB: the host has entries for a share `covered` of the working set, which cost `overhead` of
/// a read's time. Other reads use the device's memory as before, which holds map pages for `cached` of the working set,
/// none of them of covered pages.
pub fn map_bound_with_hpb(covered: f64, cached: f64, overhead: f64) -> f64 {
    let left = 1.0 - covered.clamp(0.0, 1.0);
    let missing = (left - cached.max(0.0)).max(0.0);
    1.0 / (1.0 + covered.clamp(0.0, 1.0) * overhead + missing)
}

/// Share of reads without a valid entry, and requests between two loads of a sub-region, in device control mode under
/// uniform reads and writes of single pages. A loaded sub-region of `pages` is clean; writes, a share `writes` of its
/// requests, make pages dirty; the device recommends to load it again after `after` reads of dirty pages. After n
/// requests about `writes * n / pages` of its pages are dirty, so `after = (1 - writes) * writes * n² / (2 * pages)`.
/// For few dirty pages; loads take no time.
///
/// Source: our own derivation.
pub fn dirty_misses(pages: u32, after: u32, writes: f64) -> (f64, f64) {
    let between = (2.0 * f64::from(pages) * f64::from(after) / (writes * (1.0 - writes))).sqrt();
    (f64::from(after) / (between * (1.0 - writes)), between)
}

/// Time of one request of `pages` pages, spread over `channels` channels of `ways` dies, in the unit of the times. A page
/// takes its channel for `transfer` and its die for `array` beside it: before the transfer in a read, after it in a
/// write. With one die a channel the two never overlap; with more, the channel must not wait for a die: `ways` transfers
/// take at least as long as one page. Source: arithmetic.
pub fn request_us(channels: u32, ways: u32, transfer: f64, array: f64, pages: u32) -> f64 {
    let each = f64::from(pages.div_ceil(channels));
    if ways == 1 {
        return each * (transfer + array);
    }
    debug_assert!(f64::from(ways) * transfer >= transfer + array, "the channel waits for its dies");
    each * transfer + array
}

/// Blocks that FAST erases for each page written to it, under uniformly random writes of single pages: `logs` random log
/// blocks of `pages` pages for `logical` logical blocks of the same size. When all are full the oldest is freed: each logical block with
/// a page in it is merged, with all its pages in the log, and its old block erased. So a logical block is merged once for
/// each time that it gets a page after its last merge, `logs - 1` fillings of a log block later.
///
/// Source: our own derivation, from the rules of S.-W. Lee et al., "A Log Buffer-Based Flash Translation Layer Using
/// Fully-Associative Sector Translation", ACM TECS 6(3), 2007.
pub fn fast_erases_per_page(logs: u32, logical: u32, pages: u32) -> f64 {
    let [logs, logical, pages] = [logs, logical, pages].map(f64::from);
    let gets_one = 1.0 - (1.0 - 1.0 / logical).powf(pages);
    let merged = logical / (pages * (1.0 / gets_one + logs - 1.0));
    merged + 1.0 / pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deep_queue_keeps_all_channels_busy_and_a_shallow_one_as_many_as_it_has() {
        assert!((busy_channels(4, 1) - 1.0).abs() < 1e-9);
        assert!((busy_channels(1, 7) - 1.0).abs() < 1e-9);
        let deep = busy_channels(4, 64);
        assert!(deep > 3.9 && deep < 4.0, "{deep}");
    }

    /// By hand: two requests on two channels. If they are apart, the next step is apart with probability 1/2; if
    /// together, one is left, and the new one joins it with probability 1/2. So half of the time both channels are
    /// busy.
    #[test]
    fn two_requests_on_two_channels_keep_one_and_a_half_busy() {
        assert!((busy_channels(2, 2) - 1.5).abs() < 1e-9);
    }

    /// Baskett and Smith's closed form, exact as both numbers grow: `n + m - 1/2 - sqrt((n + m - 1/2)^2 - 2 n m)`.
    #[test]
    fn the_chain_agrees_with_the_closed_form_of_baskett_and_smith() {
        for (m, n) in [(8.0_f64, 8.0_f64), (8.0, 16.0), (4.0, 16.0)] {
            let sum = n + m - 0.5;
            let closed = sum - (sum * sum - 2.0 * n * m).sqrt();
            let exact = busy_channels(m as u32, n as u32);
            assert!((exact / closed - 1.0).abs() < 0.02, "{m} channels, {n} deep: {exact}, {closed}");
        }
    }

    /// arXiv:1110.4245, abstract: 2.36 at an over-provisioning of 0.3, in the limit of large blocks.
    #[test]
    fn large_blocks_amplify_as_xiang_and_kurkoski_print_it() {
        assert!((greedy_waf(1 << 14, 1.3).unwrap() - 2.36).abs() < 0.01);
        assert!(greedy_waf(16, 1.3).unwrap() < 0.9 * 2.36);
    }

    /// In the limit of large blocks greedy collects the oldest block, of which a share `u` is still valid with
    /// `u = exp(-alpha (1 - u))` (Desnoyers, SYSTOR 2012), and each page is written `1 / (1 - u)` times.
    #[test]
    fn large_blocks_amplify_as_the_oldest_first() {
        for alpha in [1.05, 1.1, 1.28, 1.5, 2.0, 3.0_f64] {
            let valid = (0..10_000).fold(0.0, |valid: f64, _| (-alpha * (1.0 - valid)).exp());
            let found = greedy_waf(1 << 12, alpha).unwrap();
            assert!((found * (1.0 - valid) - 1.0).abs() < 0.01, "{alpha}: {found}, {}", 1.0 / (1.0 - valid));
        }
    }

    /// The closed form of the iozone table with 1.26 GB of map in the device, 28.65 GB of it in the host and 2.28 % for an
    /// entry, at its five ranges. X0 is 300.87 MB/s; the rates are worked out elsewhere.
    #[test]
    fn a_bound_map_gives_the_five_rates_of_the_closed_form() {
        let rates = [(1.0, 300.87), (4.0, 178.56), (8.0, 163.29), (16.0, 156.60), (32.0, 153.46)];
        for (range, expected) in rates {
            assert!((300.87 * map_bound(1.26 / range) - expected).abs() < 0.01, "{range} GB");
        }
        let rates = [(1.0, 294.16), (4.0, 294.16), (8.0, 294.16), (16.0, 294.16), (32.0, 277.11)];
        for (range, expected) in rates {
            let found = 300.87 * map_bound_with_hpb(28.65 / range, 1.26 / range, 0.0228);
            assert!((found - expected).abs() < 0.01, "{range} GB: {found}");
        }
        // Nothing is cached: each read takes two. Less than nothing is nothing.
        assert_eq!([map_bound(0.0), map_bound(-1.0), map_bound(1.0)], [0.5, 0.5, 1.0]);
        assert_eq!([map_bound_with_hpb(0.0, -1.0, 9.0), map_bound_with_hpb(-1.0, 0.25, 9.0)], [0.5, 1.0 / 1.75]);
    }

    /// By hand: of 1,024 pages, `0.8 * 0.2 * n^2 / 2048 = 6` after 277.13 requests, 221.7 of them reads.
    #[test]
    fn dirty_pages_miss_as_the_integral_says() {
        for (pages, after, writes, misses, between) in
            [(1024, 6, 0.2, 0.027_063, 277.128), (16, 1, 0.5, 0.176_777, 11.3137), (1024, 1, 0.1, 0.007_366, 150.849)]
        {
            let found = dirty_misses(pages, after, writes);
            assert!((found.0 - misses).abs() < 1e-6 && (found.1 - between).abs() < 1e-3, "{found:?}");
        }
    }

    /// By hand: pages of 10 on the channel and 100 on the die.
    #[test]
    fn a_request_takes_its_pages_on_the_busiest_channel() {
        // One die a channel: nothing overlaps. Twelve dies a channel: transfers follow each other, then one array.
        assert_eq!([1, 4, 5, 8].map(|pages| request_us(4, 1, 10.0, 100.0, pages)), [110.0, 110.0, 220.0, 220.0]);
        assert_eq!([1, 4, 5, 12].map(|pages| request_us(4, 12, 10.0, 100.0, pages)), [110.0, 110.0, 120.0, 130.0]);
    }

    #[test]
    fn writes_between_flushes_share_the_wait() {
        assert_eq!([1, 2, 4].map(|every| flushed_writes_per_s(10.0, 60.0, every)), [1e6 / 70.0, 25_000.0, 40_000.0]);
    }

    #[test]
    fn spare_pages_are_those_that_the_host_does_not_use() {
        // A quarter more than 100 pages, of which 50 are used: trimmed 125 for 50, untrimmed 75 for 50.
        assert_eq!((alpha_trimmed(0.25, 0.5), alpha_untrimmed(0.25, 0.5)), (2.5, 1.5));
    }

    /// By hand: two pages on a channel of two ways wait for the bus only, the third waits for the first way's array.
    #[test]
    fn pages_are_written_out_way_by_way() {
        let write_out = |pages| write_out_us(4, 2, 10.0, 100.0, pages);
        assert_eq!([1, 4, 5, 8, 9, 16].map(write_out), [110.0, 110.0, 120.0, 120.0, 220.0, 230.0]);
        assert_eq!(flushed_writes_per_s(10.0, 60.0, 4), 40_000.0);
    }

    /// By hand: one log block of two pages for two logical blocks. Its pages are of one logical block half of the time, so
    /// one and a half are merged each time that it is full, and three quarters for each page; and the log block is erased.
    #[test]
    fn a_log_block_of_two_pages_merges_one_and_a_half() {
        assert!((fast_erases_per_page(1, 2, 2) - 1.25).abs() < 1e-12);
        // One logical block: all that the log holds is merged at once.
        assert!((fast_erases_per_page(4, 1, 2) - (1.0 / 8.0 + 0.5)).abs() < 1e-12);
    }

    #[test]
    fn a_full_drive_is_the_same_with_and_without_trim() {
        assert!((alpha_trimmed(0.07, 1.0) - alpha_untrimmed(0.07, 1.0)).abs() < 1e-12);
        assert!(alpha_trimmed(0.07, 0.5) > alpha_untrimmed(0.07, 0.5));
    }
}
