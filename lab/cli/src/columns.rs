//! Tables as CSV and as Parquet, with the names of things and not their numbers.

use std::fmt::Write;
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

/// The values of a column. An absent number is NaN: an empty cell in CSV, and NaN in Parquet.
pub enum Column {
    /// Whole numbers.
    Int(Vec<i64>),
    /// Numbers.
    Double(Vec<f64>),
    /// Texts.
    Text(Vec<String>),
}

/// The columns of a table; all have the same length.
pub struct Columns {
    name: &'static str,
    columns: Vec<(String, Column)>,
}

impl Columns {
    /// No columns yet.
    pub fn new(name: &'static str) -> Columns {
        Columns { name, columns: Vec::new() }
    }

    /// Name of the table.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Adds a column.
    pub fn with(mut self, name: impl Into<String>, column: Column) -> Columns {
        self.columns.push((name.into(), column));
        self
    }

    /// As [`with`](Self::with), of whole numbers.
    pub fn int(self, name: impl Into<String>, values: impl Iterator<Item = i64>) -> Columns {
        self.with(name, Column::Int(values.collect()))
    }

    /// The table as CSV (RFC 4180) with a line of headings.
    pub fn csv(&self) -> String {
        let mut text = String::new();
        line(&mut text, self.columns.iter().map(|(name, _)| name.clone()));
        for row in 0..self.rows() {
            line(&mut text, self.columns.iter().map(|(_, column)| cell(column, row)));
        }
        text
    }

    fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| match column {
            Column::Int(values) => values.len(),
            Column::Double(values) => values.len(),
            Column::Text(values) => values.len(),
        })
    }

    /// The table as a Parquet file in memory. The schema follows from the columns, so writing cannot fail.
    pub fn parquet(&self) -> Vec<u8> {
        let mut schema = format!("message {} {{", self.name);
        for (name, column) in &self.columns {
            let kind = match column {
                Column::Int(_) => "int64",
                Column::Double(_) => "double",
                Column::Text(_) => "binary",
            };
            let string = if matches!(column, Column::Text(_)) { " (STRING)" } else { "" };
            let _ = write!(schema, " required {kind} {}{string};", column_name(name));
        }
        schema += " }";
        let schema = Arc::new(parse_message_type(&schema).expect("the schema is well formed"));
        let properties = Arc::new(WriterProperties::builder().set_created_by("nandlab".to_owned()).build());
        let mut bytes = Vec::new();
        self.fill(&mut bytes, schema, properties).expect("columns fit the schema, and memory takes every byte");
        bytes
    }

    fn fill(
        &self,
        bytes: &mut Vec<u8>,
        schema: parquet::schema::types::TypePtr,
        properties: Arc<WriterProperties>,
    ) -> Result<(), parquet::errors::ParquetError> {
        let mut file = SerializedFileWriter::new(bytes, schema, properties)?;
        let mut group = file.next_row_group()?;
        for (_, column) in &self.columns {
            let Some(mut writer) = group.next_column()? else { break };
            match column {
                Column::Int(values) => writer.typed::<Int64Type>().write_batch(values, None, None)?,
                Column::Double(values) => writer.typed::<DoubleType>().write_batch(values, None, None)?,
                Column::Text(values) => {
                    let texts: Vec<ByteArray> = values.iter().map(|text| text.as_str().into()).collect();
                    writer.typed::<ByteArrayType>().write_batch(&texts, None, None)?
                }
            };
            writer.close()?;
        }
        group.close()?;
        file.close()?;
        Ok(())
    }
}

/// A name that Parquet's schema language takes: dots become underscores.
fn column_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

fn cell(column: &Column, row: usize) -> String {
    match column {
        Column::Int(values) => values[row].to_string(),
        Column::Double(values) if values[row].is_finite() => values[row].to_string(),
        Column::Double(_) => String::new(),
        Column::Text(values) => values[row].clone(),
    }
}

/// Appends a line of CSV (RFC 4180).
pub fn line(text: &mut String, cells: impl Iterator<Item = String>) {
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            text.push(',');
        }
        if cell.contains([',', '"', '\n', '\r']) {
            let _ = write!(text, "\"{}\"", cell.replace('"', "\"\""));
        } else {
            text.push_str(&cell);
        }
    }
    text.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Columns {
        Columns::new("t")
            .with("op", Column::Text(vec!["read".into(), "a, \"b\"".into()]))
            .int("latency_ns", [7, 8].into_iter())
            .with("write.iops", Column::Double(vec![0.5, f64::NAN]))
    }

    #[test]
    fn csv_quotes_what_needs_it_and_leaves_absent_cells_empty() {
        // RFC 4180, sections 2.5 to 2.7.
        assert_eq!(table().csv(), "op,latency_ns,write.iops\r\nread,7,0.5\r\n\"a, \"\"b\"\"\",8,\r\n");
    }

    #[test]
    fn parquet_begins_and_ends_with_its_magic_number() {
        let bytes = table().parquet();
        assert_eq!((&bytes[..4], &bytes[bytes.len() - 4..]), (&b"PAR1"[..], &b"PAR1"[..]));
    }
}
