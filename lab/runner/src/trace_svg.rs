//! Pictures of a trace as one SVG: offset over time, reads and writes apart, as source 004 shows them.
//!
//! Each device has two pictures on the same axes. A bar stands where requests begin, as high as the longest of them is
//! long where that is more than a point. Bars are black on white, so that a print has them. The file is bounded in size:
//! the cells of a picture are joined until all bars are at most [`MOST_BARS`].

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use sim::seam::BlockOp;
use workload::trace::pattern::{Axis, DevicePattern, Picture};

use crate::report::grouped;
use crate::trace_report::Trace;

/// Most bars of all pictures; one takes 25 bytes at most.
pub const MOST_BARS: usize = 60_000;
/// Size of the drawing's inner part, in pixels.
const PLOT: (f64, f64) = (640.0, 240.0);
/// Room left of the plot, right of it, above and below.
const ROOM: [f64; 4] = [84.0, 20.0, 40.0, 44.0];
/// Least and most width of a bar, and of the height of one that is no longer than a point.
const BAR: (f64, f64) = (1.0, 3.0);

/// A bar: place in the plot and size, in tenths of a pixel. `y` is its upper edge.
#[derive(Clone, Copy, Debug)]
struct Bar {
    x: u32,
    y: u32,
    height: u32,
    width: u32,
}

/// Time and offsets that a picture spans.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: f64,
    to: f64,
}

impl Span {
    /// Place of a value in a plot of `size` pixels.
    fn place(&self, value: f64, size: f64) -> f64 {
        (value - self.from) / (self.to - self.from) * size
    }
}

/// A unit of an axis: its name, and how much of the trace's it is.
type Unit = (&'static str, f64);

/// Draws the pictures of every device that has one.
pub fn svg(trace: &Trace<'_>) -> String {
    let drawn: Vec<_> =
        trace.pattern.devices().filter_map(|(number, it)| Some((number, it, it.picture.as_ref()?))).collect();
    let [left, right, above, below] = ROOM;
    let (width, each) = (left + PLOT.0 + right, above + PLOT.1 + below);
    let height = 30.0 + each * 2.0 * drawn.len().max(1) as f64;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"black\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"{left}\" y=\"20\" font-size=\"14\" font-weight=\"bold\">{}</text>\n",
        escaped(&Path::new(trace.name).file_name().map_or(trace.name.into(), |name| name.to_string_lossy()))
    );
    let mut top = 30.0;
    let budget = MOST_BARS / (2 * drawn.len()).max(1);
    for &(number, device, picture) in &drawn {
        let name = if drawn.len() > 1 { format!("device {number}, ") } else { String::new() };
        for op in [BlockOp::Read, BlockOp::Write] {
            let _ = writeln!(text, "<g transform=\"translate({left} {})\">", top + above);
            let _ = writeln!(text, "<text x=\"0\" y=\"-10\">{name}{}</text>", caption(device, op));
            plot(&mut text, picture, op, budget);
            text.push_str("</g>\n");
            top += each;
        }
    }
    if drawn.is_empty() {
        let _ = writeln!(text, "<text x=\"{left}\" y=\"60\">The trace has no request with an address.</text>");
    }
    text + "</svg>\n"
}

/// Text as SVG has it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// What stands above a picture.
fn caption(device: &DevicePattern, op: BlockOp) -> String {
    let of = device.load.op(op);
    let mut said = format!("{}s: {} requests", op.name(), grouped(of.requests));
    if let Some(mean) = of.mean_bytes() {
        let _ = write!(said, ", {:.1} KiB on average", mean / 1024.0);
    }
    if op == BlockOp::Write
        && let (Some(sequential), Some(continued)) = (device.segments.seg_seq(), device.segments.seg_cont())
    {
        let _ = write!(said, "; SegSeq {:.1} %, SegCont {:.1} %", 100.0 * sequential, 100.0 * continued);
    }
    said
}

/// Frame, axes and bars of one operation.
fn plot(text: &mut String, picture: &Picture, op: BlockOp, budget: usize) {
    let Some((time, offset)) = spans(picture) else { return };
    let (width, height) = PLOT;
    let mut joined = 0;
    let mut bars = bars(picture, op, (time, offset), joined);
    while bars.len() > budget {
        joined += 1;
        bars = self::bars(picture, op, (time, offset), joined);
    }
    text.push_str("<path d=\"");
    for Bar { x, y, height, width } in bars {
        let px = |tenths: u32| f64::from(tenths) / 10.0;
        let _ = write!(text, "M{} {}h{}v{}h-{}z", px(x), px(y), px(width), px(height), px(width));
    }
    text.push_str("\"/>\n");
    let _ = writeln!(text, "<path d=\"M0 0V{height}H{width}V0z\" fill=\"none\" stroke=\"black\"/>");
    let seconds: Unit = if time.to >= 1e9 { ("s", 1e9) } else { ("ms", 1e6) };
    for (at, label) in ticks(time, seconds.1) {
        let x = time.place(at, width);
        let _ = writeln!(text, "<path d=\"M{x:.1} {height}v5\" stroke=\"black\"/>");
        let _ = writeln!(text, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", height + 18.0);
    }
    let _ = writeln!(
        text,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">time ({})</text>",
        width / 2.0,
        height + 34.0,
        seconds.0
    );
    let (mib, gib) = ((1u64 << 20) as f64, (1u64 << 30) as f64);
    let bytes: Unit = if offset.to >= 8.0 * gib { ("GiB", gib) } else { ("MiB", mib) };
    for (at, label) in ticks(offset, bytes.1) {
        let y = height - offset.place(at, height);
        let _ = writeln!(text, "<path d=\"M0 {y:.1}h-5\" stroke=\"black\"/>");
        let _ = writeln!(text, "<text x=\"-8\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", y + 4.0);
    }
    let _ = writeln!(
        text,
        "<text transform=\"translate(-64 {}) rotate(-90)\" text-anchor=\"middle\">offset ({})</text>",
        height / 2.0,
        bytes.0
    );
}

/// Time in nanoseconds and offsets in bytes that a picture spans: from its first cell with a read or write to its last.
fn spans(picture: &Picture) -> Option<(Span, Span)> {
    let (time, offset) = picture.axes()?;
    let data = || picture.cells().filter(|(_, _, cell)| cell.reads + cell.writes > 0);
    let ends = |of: fn(&(usize, usize)) -> usize| {
        let places = || data().map(|(column, row, _)| of(&(column, row)));
        Some((places().min()?, places().max()? + 1))
    };
    let ((left, right), (low, high)) = (ends(|place| place.0)?, ends(|place| place.1)?);
    let span = |axis: Axis, from, to| Span { from: begin(axis, from, 0), to: begin(axis, to, 0) };
    Some((span(time, left, right), span(offset, low, high)))
}

/// Where a cell begins, once `joined` times two beside each other became one.
fn begin(axis: Axis, index: usize, joined: u32) -> f64 {
    ((axis.base + index as u64) >> joined) as f64 * 2f64.powi((axis.shift + joined) as i32)
}

/// Bars of an operation, in order; `joined` times two cells beside each other become one.
fn bars(picture: &Picture, op: BlockOp, (time, offset): (Span, Span), joined: u32) -> Vec<Bar> {
    let Some((columns, rows)) = picture.axes() else { return Vec::new() };
    let tenths = |px: f64| (10.0 * px).round() as u32;
    let px = |axis: Axis, span: Span, size: f64| 2f64.powi((axis.shift + joined) as i32) / (span.to - span.from) * size;
    let (column_px, row_px) = (px(columns, time, PLOT.0), px(rows, offset, PLOT.1));
    let width = tenths(column_px.clamp(BAR.0, BAR.1));
    // Of bars that begin in one place, the highest covers the others.
    let mut bars: BTreeMap<(u32, u32), Bar> = BTreeMap::new();
    for (column, row, cell) in picture.cells() {
        let (count, longest) = match op {
            BlockOp::Read => (cell.reads, cell.longest_read),
            _ => (cell.writes, cell.longest_write),
        };
        if count == 0 {
            continue;
        }
        let x = time.place(begin(columns, column, joined), PLOT.0).max(0.0);
        let foot = offset.place(begin(rows, row, joined), PLOT.1).max(0.0);
        let long = f64::from(longest) / (offset.to - offset.from) * PLOT.1;
        let height = long.max(row_px.clamp(BAR.0, BAR.1)).min(PLOT.1 - foot);
        let bar = Bar { x: tenths(x), y: tenths(PLOT.1 - foot - height), height: tenths(height), width };
        let kept = bars.entry((bar.x, tenths(foot))).or_insert(bar);
        if kept.height < bar.height {
            *kept = bar;
        }
    }
    bars.into_values().collect()
}

/// Round values of an axis, with their labels in units of `unit`: some five of them.
fn ticks(span: Span, unit: f64) -> Vec<(f64, String)> {
    let (from, to) = (span.from / unit, span.to / unit);
    let rough = (to - from) / 5.0;
    let power = 10f64.powi(rough.log10().floor() as i32);
    let step = [1.0, 2.0, 5.0, 10.0].map(|it| it * power).into_iter().find(|&step| step >= rough).unwrap_or(rough);
    let digits = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    let first = (from / step).ceil() as i64;
    let values = (first..).map(|number| number as f64 * step).take_while(|&value| value <= to).take(12);
    values.map(|value| (value * unit, format!("{value:.digits$}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Ns;
    use workload::trace::pattern::PatternOptions;
    use workload::trace::{Format, Notes, Pattern, TraceRecord};

    const MIB: u64 = 1 << 20;

    fn drawn(name: &str, records: impl Iterator<Item = TraceRecord>) -> String {
        let mut pattern = Pattern::new(PatternOptions { pictures: 4, ..PatternOptions::default() });
        records.for_each(|record| pattern.add(&record));
        let notes = Notes::default();
        svg(&Trace { name, format: Format::Msr, why: "told", notes: &notes, pattern: &pattern })
    }

    #[test]
    fn known_requests_stand_where_arithmetic_puts_them() {
        // Cells of the picture are powers of two: these are 256 columns of 2^27 ns and 128 rows of 2^19 bytes.
        let second = 1 << 30;
        let text = drawn(
            "a <b> & c",
            [
                TraceRecord::new(Ns(0), BlockOp::Read, 0, 4096),
                TraceRecord::new(Ns(second), BlockOp::Write, 16 * MIB, 8 * MIB),
                TraceRecord::new(Ns(31 * second), BlockOp::Write, 0, 4096),
                TraceRecord::new(Ns(32 * second - 1), BlockOp::Read, 64 * MIB - 4096, 4096),
            ]
            .into_iter(),
        );
        // 32 * 2^30 ns are 640 pixels wide, 64 MiB are 240 pixels high: 3.75 pixels a MiB.
        let plots: Vec<&str> = text.split("<g transform").skip(1).collect();
        let [reads, writes] = plots[..] else { panic!("{text}") };
        assert!(reads.contains("reads: 2 requests, 4.0 KiB on average</text>"), "{reads}");
        assert!(writes.contains("writes: 2 requests, 4098.0 KiB on average; SegSeq "), "{writes}");
        // The first read is in the lower left corner. The write of 8 MiB is 30 pixels high; its foot is 16 MiB up.
        assert!(reads.contains("d=\"M0 238.1h2.5v1.9h-2.5z"), "{reads}");
        assert!(writes.contains("d=\"M20 150h2.5v30h-2.5z"), "{writes}");
        assert!(writes.contains("M620 238.1h"), "{writes}");
        // 34.36 seconds, 64 MiB: steps of 10 and of 20.
        let labels = |plot: &str| -> Vec<String> {
            let of = |line: &str| Some(line.strip_suffix("</text>")?.rsplit_once('>')?.1.to_owned());
            plot.lines().filter(|line| line.starts_with("<text x") && line.contains("anchor")).filter_map(of).collect()
        };
        let axes = ["0", "10", "20", "30", "time (s)", "0", "20", "40", "60"];
        assert_eq!((labels(reads), labels(writes)), (axes.map(String::from).to_vec(), axes.map(String::from).to_vec()));
        assert!(text.contains("a &lt;b&gt; &amp; c</text>") && text.contains("offset (MiB)"), "{text}");
    }

    #[test]
    fn a_drawing_stays_small_however_long_the_trace_and_repeats_to_the_byte() {
        let mut rng = sim::Seed(3).stream("test/trace-svg");
        let records: Vec<_> = (0..1_000_000)
            .map(|i: u64| {
                let op = if i.is_multiple_of(2) { BlockOp::Read } else { BlockOp::Write };
                let mut record = TraceRecord::new(Ns(i * 1000), op, rng.below(1 << 36), 4096);
                record.device = (i / 2 % 5) as u32;
                record
            })
            .collect();
        let text = drawn("random", records.iter().copied());
        assert!((200_000..=2_000_000).contains(&text.len()), "{} bytes", text.len());
        assert!(text == drawn("random", records.iter().copied()));
        assert_eq!(text.matches("<g transform").count(), 8, "four devices have pictures");
    }

    #[test]
    fn an_empty_trace_and_one_of_flushes_are_drawings_too() {
        let empty = drawn("empty", std::iter::empty());
        let flushes = drawn("flushes", std::iter::once(TraceRecord::new(Ns(5), BlockOp::Flush, 0, 0)));
        assert!(empty.contains("no request") && flushes.ends_with("</svg>\n"), "{flushes}");
        let trims = drawn("trims", std::iter::once(TraceRecord::new(Ns(5), BlockOp::Trim, 0, 4096)));
        assert!(trims.contains("writes: 0 requests</text>"), "{trims}");
    }
}
