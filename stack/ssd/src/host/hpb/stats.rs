//! Counters of the host's HPB driver.

/// Counters, named as in sysfs (`hpb_stats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostStats {
    /// Reads sent as HPB READ.
    pub hit_cnt: u64,
    /// Reads short enough for HPB READ that were sent without an entry.
    pub miss_cnt: u64,
    /// Responses with a recommendation.
    pub rcmd_noti_cnt: u64,
    /// Activations that the device recommended, and in host control mode those that the host decided.
    pub rcmd_active_cnt: u64,
    /// Inactivations that the device recommended or the host decided.
    pub rcmd_inactive_cnt: u64,
    /// Sub-regions loaded (HPB READ BUFFER).
    pub map_req_cnt: u64,
    /// Commands that inactivate one or all regions (HPB WRITE BUFFER). In Linux's code, but not in its ABI text.
    pub umap_req_cnt: u64,
    /// Reads preceded by a pre-request with their entries. Not in sysfs.
    pub pre_requests: u64,
}

impl HostStats {
    /// Names and values, as in sysfs.
    pub const fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("hit_cnt", self.hit_cnt),
            ("miss_cnt", self.miss_cnt),
            ("rcmd_noti_cnt", self.rcmd_noti_cnt),
            ("rcmd_active_cnt", self.rcmd_active_cnt),
            ("rcmd_inactive_cnt", self.rcmd_inactive_cnt),
            ("map_req_cnt", self.map_req_cnt),
            ("umap_req_cnt", self.umap_req_cnt),
        ]
    }

    /// Share of the reads eligible for HPB READ that were sent as such; `None` if there were none.
    pub fn hit_rate(&self) -> Option<f64> {
        let all = self.hit_cnt + self.miss_cnt;
        (all > 0).then(|| self.hit_cnt as f64 / all as f64)
    }
}
