//! Checks a whole file system: every node that the index points to, files and directories against each other, LEB
//! properties against what is in the LEBs, and the master node against both.
//!
//! Of a file system that was not unmounted cleanly, the journal counts for files and directories; LEB properties are those
//! of the last commit, and are compared with the index of that commit.

mod files;
mod space;

use sim::seam::LebVolume;
use sim::{Cx, Lnum};

use super::error::{Result, UbifsError};
use super::read::Reader;

/// Most findings that are kept.
const MOST: usize = 10_000;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Known, and no damage.
    Note,
    /// Linux goes on, but something is not as it should be.
    Warning,
    /// Data are lost, or structures contradict each other.
    Error,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A node of the index.
    Index,
    /// A node that the index points to.
    Node,
    /// Files, directories and attributes against each other.
    Files,
    /// LEB properties.
    Space,
    /// The master node.
    Master,
    /// The journal.
    Journal,
}

impl Class {
    /// Name of the class in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Index => "index",
            Class::Node => "node",
            Class::Files => "files",
            Class::Space => "space",
            Class::Master => "master",
            Class::Journal => "journal",
        }
    }
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub class: Class,
    /// LEB and offset, if it is at one place.
    pub place: Option<(Lnum, u32)>,
    /// What was found, and what was expected.
    pub what: String,
}

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In the order in which they were found.
    pub findings: Vec<Finding>,
    /// Findings that are not kept, since they are too many.
    pub more: u64,
    /// Inodes, those of extended attributes included.
    pub inodes: u64,
    /// Nodes that the index points to.
    pub leaves: u64,
    /// Nodes of the index.
    pub index_nodes: u64,
}

impl Report {
    fn find(&mut self, severity: Severity, class: Class, place: Option<(u32, u32)>, what: impl Into<String>) {
        if self.findings.len() == MOST {
            self.more += 1;
            return;
        }
        let place = place.map(|(lnum, offset)| (Lnum(lnum), offset));
        self.findings.push(Finding { severity, class, place, what: what.into() });
    }

    /// An error of a node: its place is in the error.
    fn damage(&mut self, class: Class, error: &UbifsError) {
        let place = match error {
            UbifsError::Node { lnum, offset, .. }
            | UbifsError::Corrupt { lnum, offset, .. }
            | UbifsError::Data { lnum, offset, .. } => Some((lnum.0, *offset)),
            _ => None,
        };
        let text = error.to_string();
        // The place is printed before what was found.
        let what = match (&place, text.split_once(": ")) {
            (Some(_), Some((_, what))) => what.to_owned(),
            _ => text,
        };
        self.find(Severity::Error, class, place, what);
    }

    /// Whether something is an error.
    pub fn has_errors(&self) -> bool {
        self.more > 0 || self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }
}

impl<V: LebVolume> Reader<V> {
    /// Checks everything. Reads every node that is in use.
    /// Errors: the volume's.
    pub fn check(&mut self, cx: &mut Cx) -> Result<Report> {
        let mut report = Report::default();
        let is_unclean = self.mounted().is_unclean;
        if is_unclean {
            let journal = &self.mounted().journal;
            let what = format!(
                "not unmounted cleanly: {} nodes of the journal were replayed from {} LEBs, {} orphans removed, the sizes of \
                 {} files corrected",
                journal.nodes,
                journal.buds.len(),
                self.mounted().orphans.len(),
                journal.sizes.len()
            );
            report.find(Severity::Note, Class::Journal, None, what);
        }
        files::check(self, cx, &mut report)?;
        space::check(self, cx, &mut report)?;
        Ok(report)
    }
}
