//! The picture of a flame graph: frames above those that called them, as wide as the time they took.

use std::fmt::Write as _;

use sim::flame::Work;

use super::{BUSES, DIES, Frame, FrameKind, Graph};
use crate::report::drive::span;

/// Width of the drawing, and its margin, in pixels.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
/// Height of a frame.
const ROW: f64 = 18.0;
/// Room above the frames for the title, and below for the legend.
const ABOVE: f64 = 64.0;
const BELOW: f64 = 46.0;
/// Width of a letter of a label, of which the font is `monospace`.
const LETTER: f64 = 7.3;
/// Frames that are narrower are left out: the folded text has them.
const NARROWEST: f64 = 0.1;

/// Draws a graph.
pub fn svg(graph: &Graph, title: &str) -> String {
    let total: u64 = graph.threads.iter().map(Frame::total_ns).sum();
    let rows = 1 + graph.threads.iter().map(depth).max().unwrap_or(0);
    let height = ABOVE + ROW * rows as f64 + BELOW;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"12\">\n\
         <style>rect{{stroke:white;stroke-width:.5}}text{{pointer-events:none}}g:hover>rect{{stroke:black;stroke-width:1}}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"{0}\" y=\"22\" text-anchor=\"middle\" font-size=\"16\">{1}</text>\n\
         <text x=\"{0}\" y=\"40\" text-anchor=\"middle\">{2}</text>\n",
        WIDTH / 2.0,
        escaped(title),
        escaped(&caption(graph, total)),
    );
    let floor = ABOVE + ROW * (rows - 1) as f64;
    let mut drawing = Drawing { text: &mut text, total, floor, scale: (WIDTH - 2.0 * MARGIN) / total.max(1) as f64 };
    if total > 0 {
        drawing.rect((0.0, 0), total, ("all", FrameKind::Thread), "");
        let mut from = 0;
        for thread in &graph.threads {
            drawing.frame(from, 1, thread, "");
            from += thread.total_ns();
        }
    }
    legend(&mut text, graph, height - 18.0);
    text + "</svg>\n"
}

fn depth(frame: &Frame) -> usize {
    1 + frame.above.iter().map(depth).max().unwrap_or(0)
}

/// What the graph shows, in a line.
fn caption(graph: &Graph, total: u64) -> String {
    if total == 0 {
        return "nothing took time in this run".to_owned();
    }
    let of_drive = graph.threads.iter().any(|thread| [DIES, BUSES, "requests"].contains(&&*thread.name));
    let mut said = if of_drive {
        let each = graph.threads.iter().map(|thread| match &*thread.name {
            DIES => format!("work of all dies by cause: {}", span(thread.total_ns() as f64)),
            BUSES => format!("of all buses: {}", span(thread.total_ns() as f64)),
            _ => format!("latency of all requests by part: {}", span(thread.total_ns() as f64)),
        });
        each.collect::<Vec<_>>().join("; ")
    } else {
        format!("virtual time by thread, operation and cause: {}", span(total as f64))
    };
    let idle: Vec<_> = graph.idle.iter().map(|(name, ns)| format!("{name} {}", span(*ns as f64))).collect();
    if !idle.is_empty() {
        let _ = write!(said, "; idle, not drawn: {}", idle.join(", "));
    }
    said
}

struct Drawing<'a> {
    text: &'a mut String,
    total: u64,
    /// Upper edge of the lowest row.
    floor: f64,
    /// Pixels of a nanosecond.
    scale: f64,
}

impl Drawing<'_> {
    /// Draws a frame that begins at `from` nanoseconds, and those above it.
    fn frame(&mut self, from: u64, row: usize, frame: &Frame, below: &str) {
        let total = frame.total_ns();
        if total as f64 * self.scale < NARROWEST {
            return;
        }
        let stack = if below.is_empty() { frame.name.clone() } else { format!("{below}; {}", frame.name) };
        self.rect((from as f64, row), total, (&frame.name, frame.kind), &stack);
        let mut from = from;
        for above in &frame.above {
            self.frame(from, row + 1, above, &stack);
            from += above.total_ns();
        }
    }

    fn rect(&mut self, (from, row): (f64, usize), ns: u64, (name, kind): (&str, FrameKind), stack: &str) {
        let (x, width) = (MARGIN + from * self.scale, ns as f64 * self.scale);
        let y = self.floor - ROW * row as f64;
        let percent = 100.0 * ns as f64 / self.total as f64;
        let _ = write!(
            self.text,
            "<g><title>{}: {}, {percent:.2} % of all{}{}</title><rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{ROW}\" fill=\"{}\"/>",
            escaped(name),
            span(ns as f64),
            if stack.is_empty() { "" } else { "\n" },
            escaped(stack),
            colour(kind),
        );
        let letters = ((width - 6.0) / LETTER).max(0.0) as usize;
        let label = match name.chars().count() {
            count if count <= letters => name.to_owned(),
            _ if letters < 3 => String::new(),
            _ => name.chars().take(letters - 2).chain("..".chars()).collect(),
        };
        if !label.is_empty() {
            let _ = write!(self.text, "<text x=\"{:.1}\" y=\"{}\">{}</text>", x + 3.0, y + 13.0, escaped(&label));
        }
        self.text.push_str("</g>\n");
    }
}

fn colour(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Thread => "#d4d4d4",
        FrameKind::Operation => "#9fc5e8",
        FrameKind::Share => "#cfe2f3",
        // Neighbours differ a little.
        FrameKind::Cause(cause) => ["#f2b8a0", "#f6c7a8", "#eeb0b0"][cause as usize % 3],
        FrameKind::Part => "#f6c7a8",
        FrameKind::Work(Work::Processor) => "#b4a7d6",
        FrameKind::Work(Work::Read) => "#93c47d",
        FrameKind::Work(Work::Program) => "#f6b26b",
        FrameKind::Work(Work::Erase) => "#e06666",
        FrameKind::Work(Work::Transfer) => "#ffe599",
        FrameKind::Work(Work::Busy) => "#a2a2a2",
        FrameKind::Work(Work::Wait) => "#e8e8e8",
    }
}

/// The colours that the graph has.
fn legend(text: &mut String, graph: &Graph, y: f64) {
    let mut found: Vec<(&str, &str)> = Vec::new();
    graph.threads.iter().for_each(|thread| collect(&mut found, thread));
    let order = ["thread", "operation", "cause", "part of the latency"].into_iter().chain(Work::ALL.map(Work::name));
    let mut x = MARGIN;
    for name in order {
        let Some((_, colour)) = found.iter().find(|(of, _)| *of == name) else { continue };
        let _ = write!(text, "<rect x=\"{x:.1}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>", y - 10.0);
        let _ = writeln!(text, "<text x=\"{:.1}\" y=\"{y}\">{name}</text>", x + 16.0);
        x += 36.0 + LETTER * name.chars().count() as f64;
    }
}

fn collect<'a>(found: &mut Vec<(&'a str, &'a str)>, frame: &Frame) {
    let name = match frame.kind {
        FrameKind::Thread => "thread",
        FrameKind::Operation | FrameKind::Share => "operation",
        FrameKind::Cause(_) => "cause",
        FrameKind::Part => "part of the latency",
        FrameKind::Work(work) => work.name(),
    };
    if !found.iter().any(|(known, _)| *known == name) {
        found.push((name, colour(frame.kind)));
    }
    frame.above.iter().for_each(|above| collect(found, above));
}

/// Text as SVG has it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(name: &str, kind: FrameKind, own_ns: u64, above: Vec<Frame>) -> Frame {
        Frame { name: name.to_owned(), kind, own_ns, above }
    }

    /// Value of an attribute of each rectangle with a title.
    fn of(text: &str, attribute: &str) -> Vec<String> {
        let value = |frame: &str| {
            let rect = frame.split_once("<rect")?.1;
            Some(rect.split_once(&format!(" {attribute}=\""))?.1.split_once('"')?.0.to_owned())
        };
        text.split("<g>").skip(1).filter_map(value).collect()
    }

    #[test]
    fn frames_are_as_wide_as_their_time_and_stand_on_those_that_called_them() {
        let work = |work: Work, ns| frame(work.name(), FrameKind::Work(work), ns, Vec::new());
        let write = frame("a <write>", FrameKind::Operation, 0, vec![work(Work::Program, 500), work(Work::Erase, 250)]);
        let threads = vec![
            frame("writer", FrameKind::Thread, 0, vec![write]),
            frame("UBI", FrameKind::Thread, 0, vec![frame("erase", FrameKind::Operation, 250, Vec::new())]),
        ];
        let graph = Graph { threads, idle: vec![("UBI".to_owned(), 2_000_000_000)] };
        let text = svg(&graph, "a & b");
        // 1,180 pixels are 1,000 ns. Four rows: all, threads, operations, work.
        assert_eq!(of(&text, "width"), ["1180.0", "885.0", "885.0", "590.0", "295.0", "295.0", "295.0"]);
        assert_eq!(of(&text, "x"), ["10.0", "10.0", "10.0", "10.0", "600.0", "895.0", "895.0"]);
        assert_eq!(of(&text, "y"), ["118", "100", "82", "64", "64", "100", "82"]);
        assert!(
            text.contains("<title>erase: 250 ns, 25.00 % of all\nwriter; a &lt;write&gt;; erase</title>"),
            "{text}"
        );
        assert!(text.contains(">a &amp; b</text>") && text.contains("idle, not drawn: UBI 2.00 s<"), "{text}");
        let legend: Vec<_> = text.lines().filter(|line| line.starts_with("<rect x")).collect();
        assert_eq!(legend.len(), 4, "{legend:?}");
    }

    #[test]
    fn a_run_in_which_nothing_takes_time_is_a_drawing_too() {
        let text = svg(&Graph::default(), "t");
        assert!(text.contains("nothing took time") && text.ends_with("</svg>\n") && !text.contains("NaN"), "{text}");
    }

    #[test]
    fn narrow_frames_have_no_label_and_the_narrowest_are_left_out() {
        let part = |name: &str, ns| frame(name, FrameKind::Part, ns, Vec::new());
        let parts = vec![part("controller", 9_990_000), part("link of the host", 9_950), part("die", 50)];
        let text = svg(&Graph { threads: vec![frame("requests", FrameKind::Thread, 0, parts)], idle: Vec::new() }, "t");
        assert_eq!(of(&text, "width"), ["1180.0", "1180.0", "1178.8", "1.2"]);
        assert_eq!(text.matches(">link").count(), 1, "only in the title: {text}");
    }
}
