//! Markdown tables of what was measured: medians with the smallest and the largest value.
//!
//! Cost: O(values log values).

use std::fmt;
use std::time::Duration;

/// The values of all rounds of one measurement.
#[derive(Clone, Debug, Default)]
pub struct Figures(Vec<Duration>);

impl Figures {
    /// Adds the value of a round.
    pub fn push(&mut self, value: Duration) {
        self.0.push(value);
        self.0.sort_unstable();
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The smallest value that so many of a hundred values do not exceed.
    pub fn percentile(&self, percent: usize) -> Option<Duration> {
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0.get(rank.checked_sub(1)?).copied()
    }

    /// The percentiles that tables of many values show: half of them, 99 of 100, all.
    pub fn spread(&self) -> [String; 3] {
        [50, 99, 100].map(|percent| self.percentile(percent).map_or("–".into(), |time| milliseconds(time) + " ms"))
    }

    /// The value in the middle, or half way between the two there.
    pub fn median(&self) -> Option<Duration> {
        let (upper, lower) = (self.0.get(self.0.len() / 2)?, self.0.get(self.0.len().checked_sub(1)? / 2)?);
        Some((*upper + *lower) / 2)
    }
}

/// Median (smallest to largest, number of rounds).
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(median), [first, ..], [.., last]) = (self.median(), &self.0[..], &self.0[..]) else {
            return f.write_str("–");
        };
        let [median, first, last] = [median, *first, *last].map(milliseconds);
        write!(f, "**{median} ms** ({first} … {last}; {})", self.0.len())
    }
}

/// Milliseconds with three digits that mean something.
fn milliseconds(time: Duration) -> String {
    let time = time.as_secs_f64() * 1000.0;
    let digits = if time < 9.995 { 2 } else { usize::from(time < 99.95) };
    format!("{time:.digits$}")
}

/// The value in the middle, or half way between the two there; zero of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    (sorted[last / 2] + sorted[sorted.len() / 2]) / 2.0
}

/// A table in the making.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads.
    pub fn new(heads: &[&str]) -> Table {
        Table { rows: vec![heads.iter().map(|head| head.to_string()).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The row that was added last, as a line.
    pub fn last(&self) -> String {
        self.rows.last().map_or_else(String::new, |row| line(row))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, row) in self.rows.iter().enumerate() {
            f.write_str(&line(row))?;
            if index == 0 {
                writeln!(f, "|{}", "---:|".repeat(row.len()))?;
            }
        }
        Ok(())
    }
}

/// A row as a line.
fn line(row: &[String]) -> String {
    format!("| {} |\n", row.join(" | "))
}

/// A number with separators between thousands.
pub fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// KiB as MiB.
pub fn mebibytes(kibibytes: u64) -> String {
    format!("{} MiB", (kibibytes + 512) / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    pub fn medians_and_extremes_in_three_digits() {
        let mut figures = Figures::default();
        assert_eq!(figures.to_string(), "–");
        [5_000, 1, 30_120].into_iter().map(Duration::from_micros).for_each(|value| figures.push(value));
        assert_eq!(figures.to_string(), "**5.00 ms** (0.00 … 30.1; 3)");
        figures.push(Duration::from_millis(1500));
        assert_eq!(figures.to_string(), "**17.6 ms** (0.00 … 1500; 4)");
        assert_eq!(figures.spread(), ["5.00 ms", "1500 ms", "1500 ms"]);
        assert_eq!(Figures::default().spread(), ["–"; 3]);
    }

    #[test]
    fn the_middle_of_numbers() {
        assert_eq!([median(&[]), median(&[3.0, 1.0]), median(&[5.0, 1.0, 2.0])], [0.0, 2.0, 2.0]);
    }

    #[test]
    fn a_table_is_markdown() {
        let mut table = Table::new(&["a", "b"]);
        table.row(vec![thousands(1_000_000), thousands(999)]);
        assert_eq!(table.to_string(), "| a | b |\n|---:|---:|\n| 1,000,000 | 999 |\n");
        assert_eq!(mebibytes(2047), "2 MiB");
    }
}
