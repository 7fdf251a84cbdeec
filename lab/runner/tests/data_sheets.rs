//! Random rates of the drives beside those of their data sheets: the table of docs/design/ssd.md, row by row.

use runner::run::Prepared;

/// A row of the table.
struct Row<'a> {
    part: &'a str,
    is_read: bool,
    depth: u32,
    published: f64,
    model: f64,
    kind: &'a str,
}

fn number(text: &str) -> f64 {
    text.replace(',', "").parse().unwrap_or_else(|_| panic!("{text:?} is a number"))
}

fn rows(page: &str) -> Vec<Row<'_>> {
    let table = page.split("| part | 4 KiB, random | depth |").nth(1).expect("the table is there");
    let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let row = |line| {
        let cells: Vec<&str> = str::split(line, '|').map(str::trim).collect();
        Row {
            part: cells[1].trim_matches('`'),
            is_read: cells[2] == "read",
            depth: cells[3].parse().expect("a depth"),
            published: number(cells[4]),
            model: number(cells[5]),
            kind: cells[6],
        }
    };
    lines.map(row).collect()
}

/// Requests a second. The drive is full, with blocks of few pages; before the reads, its SLC cache is emptied. Writes
/// are as many as the least write buffer holds.
fn rate(row: &Row) -> f64 {
    let (rw, op) = if row.is_read { ("randread", "read") } else { ("randwrite", "write") };
    let (ramp_s, seconds, requests) = if row.is_read { (1.0, 0.05, 0) } else { (0.0, 0.0, 4_000) };
    let text = format!(
        "title = 't'\n[ssd]\npart = '{}'\nblocks = 64\npages = 96\n[precondition]\nkind = 'sequential'\n\
         [workload]\nrw = '{rw}'\nblock_bytes = 4096\ndepth = {}\nramp_s = {ramp_s}\nseconds = {seconds}\n\
         requests = {requests}\n",
        row.part, row.depth
    );
    let found = Prepared::resolve(&text, &[]).unwrap().run(None, &mut |_| ()).unwrap();
    let drive = found.drive().unwrap();
    drive.op(op).unwrap().count as f64 / (drive.measured_ns as f64 / 1e9)
}

#[test]
fn random_rates_are_those_of_the_table_and_what_is_calibrated_fits() {
    let page = include_str!("../../../docs/design/ssd.md");
    let rows = rows(page);
    let mut wrong = Vec::new();
    for row in &rows {
        let ours = rate(row);
        let line = format!("{} {} {}: {ours:.0}, published {}", row.part, row.is_read, row.depth, row.published);
        println!("{line}");
        let fits = row.kind != "calibrated" || (ours / row.published - 1.0).abs() < 0.02;
        if (ours / row.model - 1.0).abs() > 0.005 || !fits {
            wrong.push(format!("{line}, in the table {} ({})", row.model, row.kind));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(rows.iter().any(|row| row.kind == "calibrated") && rows.iter().any(|row| row.kind == "judged"));
}
