//! Tables for a terminal. None is wider than it, and no heading is cut: long headings and texts take several lines, and
//! columns that find no room go to a second table below, after those that name its rows.

use std::io;

use terminal_size::{Width, terminal_size_of};

/// Columns of the output where it is no terminal and `COLUMNS` says nothing.
const OF_A_PIPE: usize = 100;
/// Spaces between columns.
const GAP: usize = 2;
/// Narrowest column of text.
const LEAST_TEXT: usize = 20;

/// Columns of the terminal, or of the environment variable `COLUMNS`; `None` in a pipe.
fn known_width() -> Option<usize> {
    let given = || std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let of_terminal = terminal_size_of(io::stdout()).map(|(Width(columns), _)| usize::from(columns));
    of_terminal.or_else(given).filter(|&columns| columns > 0)
}

/// Width for tables of numbers: that of the terminal, or 100 in a pipe.
pub fn width() -> usize {
    known_width().unwrap_or(OF_A_PIPE)
}

/// Width for tables with text at the end of their rows: that of the terminal. In a pipe a row is one line, for `grep`.
pub fn text_width() -> usize {
    known_width().unwrap_or(usize::MAX)
}

/// A table: headings and rows. A column of words is flush left, one with numbers flush right.
#[derive(Clone, Debug, Default)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Text below a row, by the row's number.
    notes: Vec<(usize, String)>,
    /// Whether the last column is text.
    text_last: bool,
    /// Leading columns that name a row; a table below repeats them. 0 is 1.
    names: usize,
}

impl Table {
    /// A table with these headings.
    pub fn new<T: Into<String>>(head: impl IntoIterator<Item = T>) -> Table {
        Table { head: head.into_iter().map(Into::into).collect(), ..Table::default() }
    }

    /// Makes the last column text, which is broken into lines where the table would be too wide.
    pub fn text_last(mut self) -> Table {
        self.text_last = true;
        self
    }

    /// Sets the number of leading columns that name a row.
    pub fn named_by(mut self, columns: usize) -> Table {
        self.names = columns;
        self
    }

    /// Adds a row; cells that it lacks are empty.
    pub fn row(&mut self, mut cells: Vec<String>) {
        cells.resize(self.head.len(), String::new());
        self.rows.push(cells);
    }

    /// Adds a text below the last row.
    pub fn note(&mut self, text: String) {
        self.notes.push((self.rows.len(), text));
    }

    /// The lines, each at most `width` columns wide if no single word is wider.
    pub fn print(&self, width: usize) -> String {
        let columns = self.head.len();
        let cell_widths: Vec<usize> = (0..columns).map(|column| self.widest(column)).collect();
        let sum = |widths: &[usize]| widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        let mut widths: Vec<usize> = (0..columns).map(|at| cell_widths[at].max(length(&self.head[at]))).collect();
        if self.text_last && columns > 1 && sum(&widths) > width {
            let others = sum(&widths[..columns - 1]) + GAP;
            widths[columns - 1] = width.saturating_sub(others).max(LEAST_TEXT).min(widths[columns - 1]);
        }
        if sum(&widths) > width {
            let narrow: Vec<usize> = (0..columns)
                .map(|at| match self.text_last && at == columns - 1 {
                    true => widths[at],
                    false => cell_widths[at].max(longest_word(&self.head[at])),
                })
                .collect();
            // Headings take several lines if all columns then find room, or one alone would not.
            let all_fit = sum(&narrow) <= width;
            for at in 0..columns {
                if all_fit || at == 0 || narrow[0] + GAP + widths[at] > width {
                    widths[at] = narrow[at];
                }
            }
        }
        if sum(&widths) > width && widths[0] > LEAST_TEXT {
            let others = sum(&widths[1..]) + GAP;
            let words = self.rows.iter().map(|row| longest_word(&row[0])).max().unwrap_or(0);
            widths[0] = width.saturating_sub(others).max(LEAST_TEXT).max(words).min(widths[0]);
        }
        let mut text = String::new();
        let names = self.names.clamp(1, columns.max(1));
        let mut from = names;
        loop {
            let mut to = from;
            while to < columns && (to == from || sum(&widths[..names]) + sum(&widths[from..=to]) + GAP <= width) {
                to += 1;
            }
            self.block(&mut text, &widths, from..to, width);
            if to >= columns {
                return text;
            }
            text.push('\n');
            from = to;
        }
    }

    /// Whether a column is flush left. The first one may name its rows with words that begin with a digit.
    fn is_words(&self, column: usize) -> bool {
        let mut cells = self.rows.iter().map(|row| row[column].as_str()).filter(|cell| !cell.is_empty());
        let begins = |cell: &str| cell.trim_start_matches(['-', '+']).starts_with(|c: char| c.is_ascii_digit());
        match column {
            _ if self.text_last && column == self.head.len() - 1 => true,
            0 => cells.any(|cell| cell.replace(',', "").parse::<f64>().is_err()),
            _ => !cells.any(begins),
        }
    }

    fn widest(&self, column: usize) -> usize {
        self.rows.iter().map(|row| length(&row[column])).max().unwrap_or(0)
    }

    /// Prints the columns that name the rows, and those of `range`. Notes stand in the first block only.
    fn block(&self, text: &mut String, widths: &[usize], range: std::ops::Range<usize>, width: usize) {
        let names = self.names.clamp(1, self.head.len().max(1));
        let columns: Vec<usize> = (0..names).chain(range.clone()).collect();
        if self.head.iter().any(|head| !head.is_empty()) {
            *text += &self.line(&self.head, &columns, widths, true);
        }
        for (number, row) in (1..).zip(&self.rows) {
            *text += &self.line(row, &columns, widths, false);
            for (_, note) in self.notes.iter().filter(|(row, _)| *row == number && range.start == names) {
                wrapped(note, width.saturating_sub(4)).iter().for_each(|part| *text += &format!("    {part}\n"));
            }
        }
    }

    fn line(&self, cells: &[String], columns: &[usize], widths: &[usize], is_head: bool) -> String {
        let broken: Vec<Vec<String>> = columns.iter().map(|&at| wrapped(&cells[at], widths[at])).collect();
        let height = broken.iter().map(Vec::len).max().unwrap_or(0);
        let mut text = String::new();
        for number in 0..height {
            let mut out = String::new();
            for (&at, lines) in columns.iter().zip(&broken) {
                // A heading stands right above its column.
                let shift = if is_head { height - lines.len() } else { 0 };
                let cell = number.checked_sub(shift).and_then(|number| lines.get(number)).map_or("", String::as_str);
                let space = " ".repeat(widths[at].saturating_sub(length(cell)));
                out += &" ".repeat(if at > 0 { GAP } else { 0 });
                out += &if self.is_words(at) { format!("{cell}{space}") } else { format!("{space}{cell}") };
            }
            text += out.trim_end();
            text.push('\n');
        }
        text
    }
}

/// Number of characters.
fn length(text: &str) -> usize {
    text.chars().count()
}

fn longest_word(text: &str) -> usize {
    text.split(' ').map(length).max().unwrap_or(0)
}

/// Breaks a text at spaces into lines of at most `width` characters; a longer word has a line of its own.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    if length(text) <= width {
        return vec![text.to_owned()];
    }
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if length(line) + 1 + length(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["", "requests each second", "MB/s", "a heading of several words"]);
        table.row(["write", "1,234,567", "57.1", "1"].map(str::to_owned).to_vec());
        table.row(["random read", "13", "0.8", "2.50 ms"].map(str::to_owned).to_vec());
        table
    }

    #[test]
    fn a_table_that_fits_has_one_line_for_its_headings() {
        let shown = "             requests each second  MB/s  a heading of several words\n\
                     write                   1,234,567  57.1                           1\n\
                     random read                    13   0.8                     2.50 ms\n";
        assert_eq!(table().print(80), shown);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_every_heading_is_whole() {
        for width in 24..90 {
            let text = table().print(width);
            assert!(text.lines().all(|line| length(line) <= width), "{width}:\n{text}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let found = words(&text);
            for head in table().head.iter().chain(table().rows.iter().flatten()) {
                assert!(words(head).iter().all(|word| found.contains(word)), "{width}: {head}:\n{text}");
            }
        }
    }

    #[test]
    fn every_column_that_names_a_row_is_repeated() {
        let mut table = Table::new(["policy", "spare", "reads", "writes"]).named_by(2);
        table.row(["greedy", "7", "100", "50"].map(str::to_owned).to_vec());
        assert_eq!(
            table.print(20),
            "policy  spare  reads\ngreedy      7    100\n\npolicy  spare  writes\ngreedy      7      50\n"
        );
    }

    #[test]
    fn a_text_at_the_end_is_broken_before_the_columns_are_parted() {
        let mut table = Table::new(["name", "runs", "question"]).text_last();
        table
            .row(["ssd-ncq", "4", "What does a deeper queue gain a drive of one channel?"].map(str::to_owned).to_vec());
        let shown = "name     runs  question\n\
                     ssd-ncq     4  What does a deeper queue\n               gain a drive of one\n               channel?\n";
        assert_eq!(table.print(40), shown);
    }

    #[test]
    fn a_note_stands_below_its_row() {
        let mut table = Table::new(["claim", "ours"]);
        table.row(vec!["a".to_owned(), "1".to_owned()]);
        table.note("why: it is so".to_owned());
        table.row(vec!["b".to_owned(), "2".to_owned()]);
        assert_eq!(table.print(40), "claim  ours\na         1\n    why: it is so\nb         2\n");
    }
}
