//! Fields of one line: numbers without floating point, words, and faults with their column.

use crate::trace::error::quoted;

/// A fault in a line.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::trace) struct Fault {
    /// Column in bytes, from 0.
    pub column: usize,
    pub found: String,
    pub expected: &'static str,
}

/// A cursor over the fields of a line. Fields are separated by commas, with or without blanks around them, or by
/// blanks.
#[derive(Clone, Debug)]
pub(in crate::trace) struct Fields<'a> {
    line: &'a [u8],
    at: usize,
    comma: bool,
    first: bool,
}

const fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

impl<'a> Fields<'a> {
    /// Fields separated by commas.
    pub fn comma(line: &'a [u8]) -> Fields<'a> {
        Fields { line, at: 0, comma: true, first: true }
    }

    /// Fields separated by blanks.
    pub fn blank(line: &'a [u8]) -> Fields<'a> {
        Fields { line, at: 0, comma: false, first: true }
    }

    fn skip_blanks(&mut self) {
        while self.line.get(self.at).is_some_and(|&byte| is_blank(byte)) {
            self.at += 1;
        }
    }

    /// Moves to the beginning of the next field.
    fn begin(&mut self, expected: &'static str) -> Result<(), Fault> {
        if self.comma && !self.first {
            if self.line.get(self.at) != Some(&b',') {
                return Err(self.fault(self.at, expected));
            }
            self.at += 1;
        }
        self.first = false;
        self.skip_blanks();
        if !self.comma && self.at == self.line.len() {
            return Err(self.fault(self.at, expected));
        }
        Ok(())
    }

    /// Checks the end of a field: blanks, then a comma or the end of the line; or a blank or the end.
    fn finish(&mut self, began: usize, expected: &'static str) -> Result<(), Fault> {
        match self.line.get(self.at) {
            None => Ok(()),
            Some(b',') if self.comma => Ok(()),
            Some(&byte) if is_blank(byte) => {
                self.skip_blanks();
                match self.line.get(self.at) {
                    Some(&byte) if self.comma && byte != b',' => Err(self.fault(began, expected)),
                    _ => Ok(()),
                }
            }
            Some(_) => Err(self.fault(began, expected)),
        }
    }

    /// The fault of the field that begins at `column`.
    fn fault(&self, column: usize, expected: &'static str) -> Fault {
        let rest = &self.line[column..];
        let end = rest.iter().position(|&byte| byte == b',' && self.comma || is_blank(byte) && !self.comma);
        let found = match &rest[..end.unwrap_or(rest.len())] {
            b"" if rest.is_empty() => "the end of the line".to_owned(),
            field => quoted(field),
        };
        Fault { column, found, expected }
    }

    /// Reads digits; `None` beyond 64 bits. Also returns their number.
    fn digits(&mut self) -> (Option<u64>, usize) {
        let began = self.at;
        let mut value: u64 = 0;
        while let Some(digit) = self.line.get(self.at).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
            // 19 digits always fit.
            if self.at - began < 19 {
                value = value * 10 + u64::from(digit);
            } else {
                let end = self.line[began..].iter().position(|byte| !byte.is_ascii_digit());
                self.at = end.map_or(self.line.len(), |end| began + end);
                let text = std::str::from_utf8(&self.line[began..self.at]).unwrap_or_default();
                return (text.parse().ok(), self.at - began);
            }
            self.at += 1;
        }
        (Some(value), self.at - began)
    }

    /// A whole number of 64 bits.
    pub fn number(&mut self, expected: &'static str) -> Result<u64, Fault> {
        self.begin(expected)?;
        let began = self.at;
        match self.digits() {
            (Some(value), 1..) => self.finish(began, expected).map(|()| value),
            _ => Err(self.fault(began, expected)),
        }
    }

    /// A whole number of 64 bits, converted by `map`.
    pub fn checked<T>(&mut self, expected: &'static str, map: impl FnOnce(u64) -> Option<T>) -> Result<T, Fault> {
        let before = self.clone();
        map(self.number(expected)?).ok_or_else(|| before.fault_of_next(expected))
    }

    /// The fault of the next field.
    pub fn fault_of_next(mut self, expected: &'static str) -> Fault {
        match self.begin(expected) {
            Ok(()) => self.fault(self.at, expected),
            Err(fault) => fault,
        }
    }

    /// A whole number of 32 bits.
    pub fn number32(&mut self, expected: &'static str) -> Result<u32, Fault> {
        self.checked(expected, |value| u32::try_from(value).ok())
    }

    /// A number with or without a decimal point, times 10^`places`, rounded down. `needs_point` refuses a whole number.
    pub fn decimal(&mut self, places: u32, expected: &'static str, needs_point: bool) -> Result<u64, Fault> {
        self.begin(expected)?;
        let began = self.at;
        let (Some(whole), whole_digits) = self.digits() else { return Err(self.fault(began, expected)) };
        let mut fraction: u64 = 0;
        let mut kept = 0;
        let mut has_point = false;
        if self.line.get(self.at) == Some(&b'.') {
            has_point = true;
            self.at += 1;
            while let Some(byte) = self.line.get(self.at).filter(|byte| byte.is_ascii_digit()) {
                if kept < places {
                    fraction = fraction * 10 + u64::from(byte - b'0');
                    kept += 1;
                }
                self.at += 1;
            }
        }
        if whole_digits == 0 || needs_point && !has_point {
            return Err(self.fault(began, expected));
        }
        fraction *= 10u64.pow(places - kept);
        let value = whole.checked_mul(10u64.pow(places)).and_then(|whole| whole.checked_add(fraction));
        match value {
            Some(value) => self.finish(began, expected).map(|()| value),
            None => Err(self.fault(began, expected)),
        }
    }

    /// A word; empty between two adjacent commas.
    pub fn word(&mut self, expected: &'static str) -> Result<&'a [u8], Fault> {
        self.begin(expected)?;
        let rest = &self.line[self.at..];
        let end = rest.iter().position(|&byte| if self.comma { byte == b',' } else { is_blank(byte) });
        let word = &rest[..end.unwrap_or(rest.len())];
        self.at += word.len();
        Ok(word.trim_ascii_end())
    }

    /// A decimal number, or `None` if the field is empty.
    pub fn optional(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<u64, Fault>,
        expected: &'static str,
    ) -> Result<Option<u64>, Fault> {
        let mut probe = self.clone();
        probe.begin(expected)?;
        if matches!(probe.line.get(probe.at), None | Some(b',')) {
            *self = probe;
            return Ok(None);
        }
        read(self).map(Some)
    }

    /// Whether the line has no more fields.
    pub fn is_done(&mut self) -> bool {
        self.skip_blanks();
        self.at == self.line.len()
    }

    /// Checks that the line has no more fields.
    pub fn done(&mut self) -> Result<(), Fault> {
        if self.is_done() { Ok(()) } else { Err(self.fault(self.at, "the end of the line")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_reach_up_to_64_bits() {
        let read = |text: &str| Fields::comma(text.as_bytes()).number("a number").ok();
        assert_eq!(read("0"), Some(0));
        assert_eq!(read(" 4294967296 ,"), Some(1 << 32));
        assert_eq!(read("18446744073709551615"), Some(u64::MAX));
        assert_eq!(read("00000000000000000000000000001"), Some(1));
        for bad in ["18446744073709551616", "99999999999999999999", "", "-1", "1x", "1 2", "x"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn decimals_are_exact() {
        let read = |text: &str| Fields::comma(text.as_bytes()).decimal(9, "seconds", false).ok();
        assert_eq!(read("1455592804.409113"), Some(1_455_592_804_409_113_000));
        assert_eq!(read("0.0000000019"), Some(1));
        assert_eq!(read("7"), Some(7_000_000_000));
        assert_eq!(read("7."), Some(7_000_000_000));
        for bad in [".5", "", "1e3", "18446744074.0", "-0.1", "1.2.3"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_fault_names_its_column_and_what_stands_there() {
        let mut fields = Fields::comma(b"12, abc,7");
        assert_eq!(fields.number("a time"), Ok(12));
        let fault = fields.number("an offset in bytes").expect_err("abc is no number");
        assert_eq!((fault.column, &fault.found[..], fault.expected), (4, "\"abc\"", "an offset in bytes"));
        let mut fields = Fields::comma(b"12");
        fields.number("a time").expect("12 is a number");
        assert_eq!(fields.number("an offset").expect_err("nothing follows").found, "the end of the line");
    }

    #[test]
    fn fields_parted_by_blanks_may_have_many() {
        let mut fields = Fields::blank(b"  12\t 34   R ");
        assert_eq!(fields.number("a").and_then(|_| fields.number("b")), Ok(34));
        assert_eq!(fields.word("c"), Ok(&b"R"[..]));
        assert_eq!(fields.done(), Ok(()));
        assert!(fields.word("d").is_err());
    }
}
