//! Counters of the driver.

/// Counters by the names that sysfs gives them (`hpb_stats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostStats {
    /// Reads sent as HPB READ.
    pub hit_cnt: u64,
    /// Reads short enough for that, and sent without an entry all the same.
    pub miss_cnt: u64,
    /// Responses with an advice.
    pub rcmd_noti_cnt: u64,
    /// Activations advised, and in host control mode decided.
    pub rcmd_active_cnt: u64,
    /// Inactivations advised or decided.
    pub rcmd_inactive_cnt: u64,
    /// Sub-regions loaded (HPB READ BUFFER).
    pub map_req_cnt: u64,
    /// Commands to inactivate a region, or all (HPB WRITE BUFFER). Not in the ABI text, but in the code.
    pub umap_req_cnt: u64,
    /// Reads preceded by their entries. Not in sysfs.
    pub pre_requests: u64,
}

impl HostStats {
    /// Names and values, as sysfs has them.
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

    /// Share of the reads that could have been HPB READs and were.
    pub fn hit_rate(&self) -> Option<f64> {
        let all = self.hit_cnt + self.miss_cnt;
        (all > 0).then(|| self.hit_cnt as f64 / all as f64)
    }
}
