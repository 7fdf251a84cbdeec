//! What a run records: a trace of a guest's requests, or the calls of UBI.

use std::io;
use std::path::Path;

use runner::run::{UbiDoes, UbiEvent};
use runner::subject::Subject;
use workload::trace::{TraceRecord, TraceWriter};

use crate::error::CliError;
use crate::output::{NewFile, Overwrite, Sink};
use crate::trace::convert::format_of_ending;

/// Files of a run's recordings, where they are wanted.
#[derive(Clone, Copy, Default)]
pub struct Paths<'a> {
    /// The trace of a drive's requests that the user wants; the file name's ending selects the format.
    pub trace: Option<&'a Path>,
    /// The trace that a run on a drive keeps with its results.
    pub kept: Option<&'a Path>,
    /// The calls of UBI on raw flash, as CSV.
    pub ubi: Option<&'a Path>,
}

/// Recordings that are being written.
pub struct Logs<'a> {
    traces: Vec<(&'a Path, TraceWriter<Sink<'a>>)>,
    ubi: Option<NewFile<'a>>,
    failed: Option<CliError>,
}

fn unwritable(path: &Path, error: io::Error) -> CliError {
    error.downcast::<CliError>().unwrap_or_else(|error| CliError::write(path, &error))
}

impl<'a> Logs<'a> {
    /// Begins the recordings.
    /// Errors: a recording that the device does not have; a file that cannot be made.
    pub fn create(paths: Paths<'a>, subject: &Subject, overwrite: &'a Overwrite) -> Result<Logs<'a>, CliError> {
        let traces = match (paths.trace, subject) {
            (Some(path), Subject::Flash(_)) => {
                let help = "leave --trace out; --ubi-log records what UBI does there";
                return Err(CliError::input(path, "a trace of requests to raw flash, which has none", help));
            }
            (None, Subject::Flash(_)) => Vec::new(),
            (_, Subject::Drive(_) | Subject::Ubiblock(_)) => {
                let one = |path: &'a Path| {
                    let sink = Sink(NewFile::create(path, overwrite)?);
                    let writer = TraceWriter::new(sink, format_of_ending(path)?);
                    Ok((path, writer.map_err(|error| unwritable(path, error))?))
                };
                paths.trace.into_iter().chain(paths.kept).map(one).collect::<Result<_, CliError>>()?
            }
        };
        let ubi = match (paths.ubi, subject) {
            (None, _) => None,
            (Some(path), Subject::Drive(_)) => {
                let help = "leave --ubi-log out; --trace records the requests";
                return Err(CliError::input(path, "the calls of UBI on a drive, which has none", help));
            }
            (Some(path), Subject::Ubiblock(_)) => {
                let help = "leave --ubi-log out; --trace records the requests, and the metrics count what UBI does";
                return Err(CliError::input(
                    path,
                    "the calls of Linux's UBI on a ubiblock, whose UBI is nandlab's",
                    help,
                ));
            }
            (Some(path), Subject::Flash(raw)) if !raw.has_ubi() => {
                let help = "leave --ubi-log out, or put JFFS2 on UBI with fs.jffs2.on = 'ubi'";
                return Err(CliError::input(path, "the calls of UBI on a flash without UBI", help));
            }
            (Some(path), Subject::Flash(_)) => {
                let mut file = NewFile::create(path, overwrite)?;
                file.write(b"ns,process,call,volume,leb,peb,offset,bytes\n")?;
                Some(file)
            }
        };
        Ok(Logs { traces, ubi, failed: None })
    }

    /// Whether a trace is wanted, and whether UBI's calls are.
    pub fn wanted(&self) -> (bool, bool) {
        (!self.traces.is_empty(), self.ubi.is_some())
    }

    /// Records a request. A failure is kept for the end.
    pub fn request(&mut self, record: &TraceRecord) {
        for (path, writer) in self.traces.iter_mut().filter(|_| self.failed.is_none()) {
            if let Err(error) = writer.write(record) {
                self.failed = Some(unwritable(path, error));
                return;
            }
        }
    }

    /// Records a call of UBI or an erasure. A failure is kept for the end.
    pub fn ubi(&mut self, event: &UbiEvent<'_>) {
        let (Some(file), None) = (&mut self.ubi, &self.failed) else { return };
        if let Err(error) = file.write(line(event).as_bytes()) {
            self.failed = Some(error);
        }
    }

    /// Ends the recordings.
    /// Errors: one that could not be written.
    pub fn finish(self) -> Result<(), CliError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        for (path, writer) in self.traces {
            let (Sink(file), _) = writer.finish().map_err(|error| unwritable(path, error))?;
            file.finish()?;
        }
        self.ubi.map_or(Ok(()), NewFile::finish)
    }
}

/// A line of the recording of UBI's calls. A process whose name has a comma or a quote keeps its letters only.
fn line(event: &UbiEvent<'_>) -> String {
    let process: String =
        String::from_utf8_lossy(event.process).chars().filter(|c| !c.is_control() && !",\"".contains(*c)).collect();
    let ns = event.at.0;
    match event.what {
        UbiDoes::Call(call) => {
            let (op, volume, leb) = (call.op.name(), call.volume, call.leb);
            format!("{ns},{process},{op},{volume},{leb},,{},{}\n", call.offset, call.bytes)
        }
        UbiDoes::Erase(peb) => format!("{ns},{process},erase,,,{},,\n", peb.0),
    }
}

#[cfg(test)]
mod tests {
    use guest::protocol::{UbiCall, UbiOp};
    use sim::{Ns, Peb};

    use super::*;

    #[test]
    fn a_line_has_the_columns_of_its_heading() {
        let event = |what| UbiEvent { at: Ns(7), process: b"a,\"b\"", what };
        let call = UbiCall { op: UbiOp::Change, volume: 1, leb: 2, offset: 0, bytes: 3 };
        assert_eq!(line(&event(UbiDoes::Call(call))), "7,ab,change,1,2,,0,3\n");
        assert_eq!(line(&event(UbiDoes::Erase(Peb(9)))), "7,ab,erase,,,9,,\n");
    }
}
