//! Arithmetic over measures of runs: `(read.iops(on) / read.iops(off) - 1) * 100`.
//!
//! Numbers, measures, `+ - * /` and parentheses, with the usual precedence; operators of the same precedence associate
//! to the left. A measure is a name of letters, digits, `_`, `-` and `.`, followed by the id of a run in parentheses; an id
//! may contain anything but parentheses. The meaning of a measure is not known here.

/// Longest text in bytes; it bounds the depth of nesting, and so the use of the stack.
const MOST_BYTES: usize = 2_000;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression<'a> {
    /// A constant.
    Number(f64),
    /// A measure of a run.
    Measure {
        /// Name of the measure.
        what: &'a str,
        /// Id of the run.
        run: &'a str,
    },
    /// Two expressions and the operator between them: `+`, `-`, `*` or `/`.
    Two(Box<Expression<'a>>, char, Box<Expression<'a>>),
}

impl<'a> Expression<'a> {
    /// Parses an expression. Errors: what is wrong with the text.
    pub fn parse(text: &'a str) -> Result<Expression<'a>, String> {
        if text.len() > MOST_BYTES {
            return Err(format!("an expression of {} bytes; {MOST_BYTES} at most", text.len()));
        }
        let mut reader = Reader { text, rest: text.trim_start() };
        let whole = reader.sum()?;
        if reader.rest.is_empty() { Ok(whole) } else { Err(reader.wrong()) }
    }

    /// Evaluates the expression; `measure` returns the value of a measure for a run.
    /// Errors: those of `measure`.
    pub fn value(&self, measure: &dyn Fn(&str, &str) -> Result<f64, String>) -> Result<f64, String> {
        Ok(match self {
            Expression::Number(number) => *number,
            Expression::Measure { what, run } => measure(what, run)?,
            Expression::Two(left, operator, right) => {
                let (left, right) = (left.value(measure)?, right.value(measure)?);
                match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ => left / right,
                }
            }
        })
    }

    /// Ids of the runs in it, in the order of the text.
    pub fn runs(&self) -> Vec<&'a str> {
        self.measures().into_iter().map(|(_, run)| run).collect()
    }

    /// The measures in it, with their runs, in the order of the text.
    pub fn measures(&self) -> Vec<(&'a str, &'a str)> {
        match self {
            Expression::Number(_) => Vec::new(),
            Expression::Measure { what, run } => vec![(what, run)],
            Expression::Two(left, _, right) => [left.measures(), right.measures()].concat(),
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn sum(&mut self) -> Result<Expression<'a>, String> {
        let mut left = self.product()?;
        while let Some(operator) = self.one_of("+-") {
            left = Expression::Two(Box::new(left), operator, Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expression<'a>, String> {
        let mut left = self.term()?;
        while let Some(operator) = self.one_of("*/") {
            left = Expression::Two(Box::new(left), operator, Box::new(self.term()?));
        }
        Ok(left)
    }

    fn term(&mut self) -> Result<Expression<'a>, String> {
        if self.one_of("(").is_some() {
            let inner = self.sum()?;
            return if self.one_of(")").is_some() { Ok(inner) } else { Err(self.wrong()) };
        }
        let sign = usize::from(self.rest.starts_with('-'));
        // A name may hold `-`, a number not: `guest.mark.files-made_s(run)`.
        let is_name = self.rest[sign..].starts_with(|c: char| c.is_ascii_alphabetic());
        let in_word = |c: char| c.is_ascii_alphanumeric() || "._".contains(c) || (is_name && c == '-');
        let end = self.rest[sign..].find(|c| !in_word(c)).map_or(self.rest.len(), |at| sign + at);
        let (word, behind) = self.rest.split_at(end);
        if let Some((run, rest)) = behind.strip_prefix('(').and_then(|behind| behind.split_once(')'))
            && word.starts_with(|c: char| c.is_ascii_alphabetic())
            && !run.contains('(')
        {
            self.rest = rest.trim_start();
            return Ok(Expression::Measure { what: word, run });
        }
        let number = word.parse().map_err(|_| self.wrong())?;
        self.rest = behind.trim_start();
        Ok(Expression::Number(number))
    }

    fn one_of(&mut self, characters: &str) -> Option<char> {
        let first = self.rest.chars().next().filter(|first| characters.contains(*first))?;
        self.rest = self.rest[first.len_utf8()..].trim_start();
        Some(first)
    }

    fn wrong(&self) -> String {
        match self.rest {
            "" => format!("`{}` ends too soon: expected a measure of a run or a number", self.text),
            rest => format!("`{}`: `{rest}` is neither a measure of a run nor a number", self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fake measure: the length of its name times the number in the run's id.
    fn value(text: &str) -> f64 {
        let measure = |what: &str, run: &str| Ok(what.len() as f64 * run.parse::<f64>().unwrap());
        Expression::parse(text).unwrap().value(&measure).unwrap()
    }

    #[test]
    fn products_come_before_sums_and_the_left_before_the_right() {
        assert_eq!(value("2 + 3 * 4 - 6 / 2 / 3"), 13.0);
        assert_eq!(value("(2 + 3) * (4 - 6)"), -10.0);
        assert_eq!(value("-2.5 - -1"), -1.5);
        assert_eq!((value("7-2-1"), value("7-a(2)"), value("1.5-.5")), (4.0, 5.0, 1.0));
        assert_eq!(value("(ab(10) / a(5) - 1) * 100"), 300.0);
    }

    #[test]
    fn the_name_of_a_run_may_hold_operators_blanks_and_commas() {
        assert_eq!(value("a-b(10)-a(5)-ab-cd.e(2)-3"), 30.0 - 5.0 - 14.0 - 3.0);
        let text = "late_waf(a - b, 8 x 4) / read.mb_s(grid/1/0.5/on)";
        assert_eq!(Expression::parse(text).unwrap().runs(), ["a - b, 8 x 4", "grid/1/0.5/on"]);
    }

    #[test]
    fn a_text_that_nests_without_end_is_refused() {
        let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!(value(&nested(900)), 1.0);
        assert!(Expression::parse(&nested(100_000)).unwrap_err().contains("2000 at most"));
    }

    #[test]
    fn what_is_no_expression_is_shown() {
        for (text, shown) in [
            ("", "ends too soon"),
            ("waf(a) /", "ends too soon"),
            ("(waf(a)", "ends too soon"),
            ("waf a", "`waf a` is neither"),
            ("waf(a) waf(b)", "`waf(b)` is neither"),
            ("waf(a) / speed", "`speed` is neither"),
            ("waf(a", "`waf(a` is neither"),
        ] {
            assert!(Expression::parse(text).unwrap_err().contains(shown), "{text}: {:?}", Expression::parse(text));
        }
    }
}
