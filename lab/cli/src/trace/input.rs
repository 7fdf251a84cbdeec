//! Reads traces from files: opening, gzip, and errors with the file's name.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::Path;
use std::time::Duration;

use flate2::bufread::MultiGzDecoder;
use indicatif::{ProgressBar, ProgressStyle};
use workload::trace::{self, Format, ReadOptions, TraceError, TraceReader};

use crate::error::CliError;

/// A reader of a file or of standard input.
pub type FileReader = TraceReader<Box<dyn Read>>;

/// An open trace.
pub struct Opened {
    /// Reader of its records.
    pub reader: FileReader,
    /// How its format was recognized.
    pub why: String,
    /// Progress bar of reading, on a terminal.
    pub bar: ProgressBar,
}

/// The format with this name, for `--format`, `--from` and `--to`.
pub fn format_named(name: &str) -> Result<Format, String> {
    let names = Format::ALL.map(Format::name).join(", ");
    Format::from_name(name).ok_or_else(|| format!("expected one of {names}"))
}

/// The device of `--device`: a number, or a major and minor number as in `8,0`.
pub fn device(text: &str) -> Result<u32, String> {
    let expected = "expected a number, or a major and minor number as 259,0";
    text.parse().ok().or_else(|| trace::device_of(text)).ok_or_else(|| expected.to_owned())
}

/// How a device is written for `--device`.
pub fn device_name(device: u32) -> String {
    trace::device_numbers(device).unwrap_or_else(|| device.to_string())
}

/// Opens `path`, or standard input for `-`; decompresses gzip.
/// Errors: the file cannot be read; its format is neither given nor detected.
pub fn open(path: &Path, format: Option<Format>, options: ReadOptions) -> Result<Opened, CliError> {
    let (raw, len): (Box<dyn Read>, u64) = if path == Path::new("-") {
        (Box::new(io::stdin()), 0)
    } else {
        let file = File::open(path).map_err(|error| CliError::read(path, &error))?;
        let len = file.metadata().map_or(0, |metadata| metadata.len());
        (Box::new(file), len)
    };
    let bar = progress(len);
    let mut raw = BufReader::with_capacity(1 << 17, bar.wrap_read(raw));
    let is_gzip = raw.fill_buf().map_err(|error| CliError::read(path, &error))?.starts_with(b"\x1f\x8b");
    let input: Box<dyn Read> = if is_gzip { Box::new(MultiGzDecoder::new(raw)) } else { Box::new(raw) };
    let packed = if is_gzip { "in gzip, " } else { "" };
    match format {
        Some(format) => {
            let reader = TraceReader::new(input, format, options);
            Ok(Opened { reader, why: format!("{packed}as the command line says"), bar })
        }
        None => {
            let (reader, detected) = TraceReader::detect(input, options).map_err(|error| failed(path, &error, None))?;
            Ok(Opened { reader, why: format!("{packed}{}", detected.why), bar })
        }
    }
}

fn progress(bytes: u64) -> ProgressBar {
    if bytes == 0 || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent:>3} % {bytes_per_sec} {eta} left") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Makes the bar of a trace show a message instead of bytes per second.
pub fn show_message(bar: &ProgressBar) {
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent:>3} % {msg} {eta} left") {
        bar.set_style(style);
    }
}

/// Converts an error of the trace. `format` is the one that was read.
pub fn failed(path: &Path, error: &TraceError, format: Option<Format>) -> CliError {
    match error {
        TraceError::Read { error, .. } if is_bad_gzip(error) => CliError::input(
            path,
            format!("found damaged or incomplete gzip data ({error}), expected a whole file"),
            "unpack what there is with `gzip -dc FILE | nandlab trace info -`, or fetch the file again",
        ),
        TraceError::Read { error, .. } => CliError::read(path, error),
        TraceError::Malformed { .. } => {
            let help = match format {
                Some(format) => format!("the trace is read as {}: {}; see --format", format.name(), format.shape()),
                None => "see --format".to_owned(),
            };
            CliError::input(path, error.to_string(), help)
        }
        TraceError::Unrecognised { .. } => {
            CliError::input(path, error.to_string(), "name its format with --format, or unpack it first")
        }
    }
}

fn is_bad_gzip(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof)
}
