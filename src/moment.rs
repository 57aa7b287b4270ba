//! Points in time as people write them: `2026-11-21T06:00:00Z` (RFC 3339), and the calendar behind that.
//!
//! Moments are written in UTC and whole seconds; any offset is read. Years before 1970 do not occur.
//!
//! Cost: O(years since 1970).

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use toml::value::{Datetime, Offset};

/// Seconds of a day.
const DAY: u64 = 86_400;
/// The days of the months, in a year of 365 days.
const MONTHS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// Reads date, time and offset (RFC 3339 section 5.6); none for anything less, and before 1970.
pub fn parse_moment(text: &str) -> Option<SystemTime> {
    let Datetime { date: Some(date), time: Some(time), offset: Some(offset) } = text.parse().ok()? else { return None };
    let offset_minutes = match offset {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    let year = u64::from(date.year);
    let years: u64 = (1970..year).map(days_in_year).sum();
    let months: u64 = (1..u64::from(date.month)).map(|month| days_in_month(year, month)).sum();
    let days = (year >= 1970).then(|| years + months + u64::from(date.day) - 1)?;
    let second = u64::from(time.second.unwrap_or(0));
    let seconds = days * DAY + u64::from(time.hour) * 3600 + u64::from(time.minute) * 60 + second;
    let seconds = seconds.checked_add_signed(-60 * offset_minutes)?;
    Some(UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Writes a moment in UTC, a fraction of a second left out.
pub fn format_moment(moment: SystemTime) -> String {
    let seconds = moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let ((year, month, day), of_day) = (date(seconds / DAY), seconds % DAY);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a day counted from 1970-01-01 in the Gregorian calendar.
pub fn date(mut day: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    while day >= days_in_year(year) {
        day -= days_in_year(year);
        year += 1;
    }
    let mut month = 1;
    while day >= days_in_month(year, month) {
        day -= days_in_month(year, month);
        month += 1;
    }
    (year, month, day + 1)
}

/// 365 or 366.
fn days_in_year(year: u64) -> u64 {
    MONTHS.iter().sum::<u64>() + u64::from(is_leap(year))
}

/// 28 to 31.
fn days_in_month(year: u64, month: u64) -> u64 {
    MONTHS[(month - 1) as usize] + u64::from(month == 2 && is_leap(year))
}

/// Returns true if a year has a 29th of February.
fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_go_both_ways() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2015-10-01T03:24:00Z", 1_443_669_840),
            ("2024-02-29T23:59:59Z", 1_709_251_199),
            ("2024-12-31T23:59:59Z", 1_735_689_599),
            ("2026-03-01T12:00:00Z", 1_772_366_400),
        ] {
            let moment = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!((format_moment(moment).as_str(), parse_moment(text)), (text, Some(moment)));
        }
        let noon = parse_moment("2026-03-01T12:00:00Z");
        assert_eq!(parse_moment("2026-03-01T14:00:00+02:00"), noon);
        assert_eq!(parse_moment("2026-03-01 06:30:00-05:30"), noon);
        for text in
            ["", "2026-03-01", "12:00:00", "2026-03-01T12:00:00", "2026-02-30T12:00:00Z", "1969-12-31T12:00:00Z"]
        {
            assert_eq!(parse_moment(text), None, "{text}");
        }
    }
}
