//! Points in time as people write them: `2026-11-21T06:00:00Z` (RFC 3339), and the calendar behind that.
//!
//! Moments are written in UTC and whole seconds; any offset is read. Years before 1970 do not occur.
//!
//! Cost: O(text).

use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use toml::value::{Datetime, Offset};

/// Reads date, time and offset (RFC 3339 section 5.6); none for anything less, and before 1970.
pub fn parse_timestamp(text: &str) -> Option<SystemTime> {
    let Datetime { date: Some(date), time: Some(time), offset: Some(offset) } = text.parse().ok()? else { return None };
    let offset_minutes = match offset {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    let day = NaiveDate::from_ymd_opt(date.year.into(), date.month.into(), date.day.into())?;
    let midnight = u64::try_from(day.and_time(NaiveTime::MIN).and_utc().timestamp()).ok()?;
    // A leap second is the first one of the next minute.
    let second = i64::from(time.second.unwrap_or(0));
    let of_day = i64::from(time.hour) * 3600 + (i64::from(time.minute) - offset_minutes) * 60 + second;
    Some(UNIX_EPOCH + Duration::from_secs(midnight.checked_add_signed(of_day)?))
}

/// Writes a moment in UTC, a fraction of a second left out.
pub fn format_timestamp(moment: SystemTime) -> String {
    calendar(moment).format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The date and time of a moment in UTC; a moment before 1970 counts as 1970.
pub fn calendar(moment: SystemTime) -> DateTime<Utc> {
    let seconds = moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    i64::try_from(seconds).ok().and_then(DateTime::from_timestamp_secs).unwrap_or(DateTime::<Utc>::MAX_UTC)
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
            assert_eq!((format_timestamp(moment).as_str(), parse_timestamp(text)), (text, Some(moment)));
        }
        let noon = parse_timestamp("2026-03-01T12:00:00Z");
        assert_eq!(parse_timestamp("2026-03-01T14:00:00+02:00"), noon);
        assert_eq!(parse_timestamp("2026-03-01 06:30:00-05:30"), noon);
        for text in
            ["", "2026-03-01", "12:00:00", "2026-03-01T12:00:00", "2026-02-30T12:00:00Z", "1969-12-31T12:00:00Z"]
        {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }
}
