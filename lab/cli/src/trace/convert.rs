//! `nandlab trace convert`: writes a trace in another format, and reports what that cannot hold.

use std::io;
use std::path::{Path, PathBuf};

use runner::report::grouped;
use serde_json::{Value, json};
use workload::trace::{Format, Lost, Notes, ReadOptions, TraceWriter};

use super::input;
use crate::Outcome;
use crate::error::CliError;
use crate::output::{self, NewFile, Overwrite, Sink};

/// Arguments of `nandlab trace convert`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace, plain or in gzip; - for standard input
    input: PathBuf,
    /// The new trace; its file name's ending selects the format, unless --to is given
    output: PathBuf,
    /// Format of the input: msr, systor, tencent, alibaba, spc, disksim, disksim-ms, blkparse, blktrace, iolog2, iolog3
    /// or ntrace [default: detected]
    #[arg(long, value_parser = input::format_named)]
    from: Option<Format>,
    /// Format of the new trace: one of the formats of --from [default: by the file name's ending]
    #[arg(long, value_parser = input::format_named)]
    to: Option<Format>,
    /// Number that means a read in the input [default: the format's own; tencent: 0, disksim: 1]
    #[arg(long, value_name = "0|1", value_parser = clap::value_parser!(u8).range(0..=1))]
    read_opcode: Option<u8>,
    /// Keep only this device, as `nandlab trace info` names it
    #[arg(long, value_name = "N|MAJOR,MINOR", value_parser = input::device)]
    device: Option<u32>,
    /// Overwrite the output if it exists
    #[arg(long)]
    force: bool,
    /// Print one JSON document with what was written, and what the format could not hold
    #[arg(long)]
    json: bool,
}

/// Runs the command.
/// Errors: a trace that cannot be read; a file name whose ending selects no format; a file that cannot be written.
pub fn run(args: Args) -> Result<Outcome, CliError> {
    let format = target_format(&args)?;
    let overwrite = Overwrite::new(args.force, [&*args.input]);
    overwrite.permit(&args.output)?;
    let options = ReadOptions { read_opcode: args.read_opcode };
    let mut opened = input::open(&args.input, args.from, options)?;
    let from = opened.reader.format();
    let unwritable =
        |error: io::Error| error.downcast::<CliError>().unwrap_or_else(|error| CliError::write(&args.output, &error));
    let sink = Sink(NewFile::create(&args.output, &overwrite)?);
    let mut writer = TraceWriter::new(sink, format).map_err(unwritable)?;
    let mut written = 0u64;
    loop {
        let next = opened.reader.next_record();
        match next.map_err(|error| input::failed(&args.input, &error, Some(from)))? {
            Some(record) if args.device.is_none_or(|device| device == record.device) => {
                writer.write(&record).map_err(unwritable)?;
                written += 1;
            }
            Some(_) => {}
            None => break,
        }
    }
    opened.bar.finish_and_clear();
    let (Sink(file), lost) = writer.finish().map_err(unwritable)?;
    file.finish()?;
    let written = written - lost.dropped;
    let notes = opened.reader.notes();
    if args.json {
        output::print_json("nandlab/trace-convert/1", &document(written, from, format, notes, &lost, &args.output))?;
    } else {
        output::print(&summary(written, from, format, notes, &lost, &args.output))?;
    }
    Ok(Outcome::Done)
}

fn target_format(args: &Args) -> Result<Format, CliError> {
    args.to.map_or_else(|| format_of_ending(&args.output), Ok)
}

/// The format of a trace to write, by the ending of its name.
/// Errors: no format has that ending.
pub fn format_of_ending(path: &Path) -> Result<Format, CliError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Format::from_ending(&name).ok_or_else(|| {
        let names = Format::ALL.map(Format::name).join(", ");
        CliError::input(
            path,
            "found a name whose ending belongs to no format, expected .ntrace, .spc, .blkparse, .blktrace or .iolog",
            format!("give another name; `nandlab trace convert` has --to with one of {names}"),
        )
    })
}

fn document(written: u64, from: Format, to: Format, notes: &Notes, lost: &Lost, path: &Path) -> Value {
    json!({
        "file": path.display().to_string(),
        "from": from.name(),
        "to": to.name(),
        "records": written,
        "notes": {
            "out_of_order": notes.out_of_order,
            "skipped": notes.skipped.iter().map(|(what, count)| json!({"what": what, "count": count})).collect::<Vec<_>>(),
            "cut": notes.cut.map(|cut| json!({"byte": cut.byte, "records": cut.records})),
        },
        "lost": {"dropped": lost.dropped, "times": lost.times, "ranges": lost.ranges, "fields": lost.fields},
    })
}

fn summary(written: u64, from: Format, to: Format, notes: &Notes, lost: &Lost, path: &Path) -> String {
    let mut text = format!("{} records from {} to {}: {}\n", grouped(written), from.name(), to.name(), path.display());
    if let Some(cut) = notes.cut {
        text.push_str(&format!("note: the trace is cut off at byte {}; what is before it is written\n", cut.byte));
    }
    for (count, what) in [
        (notes.out_of_order, "were before the record before them and were raised to its time"),
        (lost.dropped, "were left out: the format has no such requests"),
        (lost.times, "have times that were rounded down"),
        (lost.ranges, "have ranges that were rounded outward to sectors"),
        (lost.fields, "lost a latency, a process or force unit access, which the format does not hold"),
    ] {
        if count > 0 {
            text.push_str(&format!("note: {} records {what}\n", grouped(count)));
        }
    }
    for (what, count) in &notes.skipped {
        text.push_str(&format!("note: left out {} {what}\n", grouped(*count)));
    }
    text
}
