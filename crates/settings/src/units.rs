//! Durations (`"30s"`) and sizes (`"64MiB"`) as text, both ways.
//!
//! Cost: O(text).

use std::time::Duration;

/// The longest duration a file may ask for: ten years, far below what overflows a clock.
pub const MAX_DURATION: Duration = Duration::from_secs(3650 * 24 * 3600);

/// Units of time in milliseconds, largest first.
const TIME_UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Units of size in bytes, largest first.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1000),
    ("B", 1),
];

/// Reads a number and a unit, such as `10s`, or several from the largest unit to the smallest, such as `1h30m`, which
/// is how times that have passed are shown.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (mut rest, mut units, mut millis) = (text, &TIME_UNITS[..], 0u64);
    loop {
        let digits = rest.find(|character: char| !character.is_ascii_digit())?;
        let end =
            rest[digits..].find(|character: char| character.is_ascii_digit()).map_or(rest.len(), |at| digits + at);
        let unit = rest[digits..end].trim_matches(' ');
        let place = units.iter().position(|(name, _)| *name == unit)?;
        millis = parse_digits(&rest[..digits])?.checked_mul(units[place].1)?.checked_add(millis)?;
        (rest, units) = (&rest[end..], &units[place + 1..]);
        if rest.is_empty() {
            return Some(Duration::from_millis(millis));
        }
    }
}

/// Reads one number and one unit, such as `64MiB`; a bare number counts bytes.
pub fn parse_size(text: &str) -> Option<u64> {
    let Some(split) = text.find(|character: char| !character.is_ascii_digit()) else {
        return parse_digits(text);
    };
    let unit = text[split..].trim_start_matches(' ');
    let (_, factor) = SIZE_UNITS.iter().find(|(name, _)| *name == unit)?;
    parse_digits(&text[..split])?.checked_mul(*factor)
}

/// Writes a duration in the largest unit that needs no fraction.
pub fn format_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis == 0 {
        return "0s".to_string();
    }
    let (unit, factor) = TIME_UNITS
        .into_iter()
        .find(|(_, factor)| millis.is_multiple_of(u128::from(*factor)))
        .expect("every duration is a multiple of one millisecond");
    format!("{}{unit}", millis / u128::from(factor))
}

/// Writes a size in the largest binary unit that needs no fraction.
pub fn format_size(bytes: u64) -> String {
    let binary = SIZE_UNITS.into_iter().filter(|(unit, _)| unit.ends_with("iB"));
    match binary.into_iter().find(|(_, factor)| bytes != 0 && bytes.is_multiple_of(*factor)) {
        Some((unit, factor)) => format!("{}{unit}", bytes / factor),
        None => format!("{bytes}B"),
    }
}

/// Reads digits only: no sign, no separators.
fn parse_digits(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_numbers_with_units() {
        for (text, millis) in [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("2h", 7_200_000), ("0s", 0)] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
            assert_eq!(format_duration(Duration::from_millis(millis)), text);
        }
        for (text, secs) in [("30 d", 30 * 86_400), ("1h30m", 5400), ("1d 2h 5s", 93_605), ("0h10s", 10)] {
            assert_eq!(parse_duration(text), Some(Duration::from_secs(secs)), "{text}");
        }
        for text in [
            "",
            "s",
            "10",
            "10x",
            "-1s",
            "1.5h",
            "30m1h",
            "1h1h",
            "1h30",
            "h30m",
            "10S",
            "+5s",
            "99999999999999999999s",
            "１s",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_bytes_or_have_a_unit() {
        for (text, bytes) in [("1024", 1024), ("64MiB", 64 << 20), ("1GB", 1_000_000_000), ("1kB", 1000), ("0", 0)] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "1.5GiB", "64 M", "99999999TiB", "1e9"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
        assert_eq!(format_size(1 << 30), "1GiB");
        assert_eq!(format_size(1000), "1000B");
    }
}
