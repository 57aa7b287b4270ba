//! The section `[transfer]`, and the timers that zones may have of their own.
//!
//! Invariant: the lower bound of a timer is never above the upper one.
//!
//! Cost: O(text).

use crate::config::schema;
use crate::transfer::{Limits, TimerBounds};
use settings::read::{Fields, Reader, shorten};
use settings::tree::{Node, Value};
use settings::units::format_duration;
use std::ops::RangeInclusive;
use std::time::Duration;
use tokio_cron_scheduler::Job;

/// Settings of `[transfer]`.
pub struct TransferSection {
    pub timers: TimerBounds,
    pub limits: Limits,
    pub audit: Option<String>,
}

/// Reads `[transfer]`; absent keys give defaults.
pub fn read_transfer(reader: &mut Reader<'_>, root: &Fields<'_>) -> TransferSection {
    let mut section = TransferSection {
        timers: TimerBounds::default(),
        limits: Limits::default(),
        // Each night at half past four.
        audit: Some("0 30 4 * * *".to_string()),
    };
    let Some(entry) = root.entry("transfer") else { return section };
    let table = &schema::TRANSFER;
    let Some(fields) = Fields::new(reader, &entry.node, table, table.path) else { return section };
    section.timers = read_timers(reader, &fields, section.timers, table.path);
    let limits = &mut section.limits;
    for (key, slot) in [
        ("connect_timeout", &mut limits.connect_timeout),
        ("message_timeout", &mut limits.message_timeout),
        ("total_timeout", &mut limits.total_timeout),
    ] {
        *slot = fields.read(reader, key, Reader::positive_duration).unwrap_or(*slot);
    }
    let per_primary = fields.read(reader, "transfers_per_primary", |r, key, node| r.count(key, node, 10_000));
    limits.per_primary = per_primary.unwrap_or(limits.per_primary);
    limits.confirm_after = fields.read(reader, "confirm_after", Reader::duration).unwrap_or(limits.confirm_after);
    limits.shrink_share = fields.read(reader, "shrink_share", Reader::share).unwrap_or(limits.shrink_share);
    limits.min_rate_bytes = fields.read(reader, "min_rate_bytes", Reader::size).unwrap_or(limits.min_rate_bytes);
    limits.max_bytes = fields.read(reader, "max_bytes", positive_size).unwrap_or(limits.max_bytes);
    for (key, slot) in [("max_records", &mut limits.max_records), ("max_messages", &mut limits.max_messages)] {
        *slot = fields.read(reader, key, |r, key, node| r.integer(key, node, 1..=u64::MAX)).unwrap_or(*slot);
    }
    section.audit = fields.read(reader, "audit", read_audit).unwrap_or(section.audit);
    section
}

/// Reads a size above zero.
fn positive_size(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<u64> {
    let size = reader.size(key, node)?;
    if size == 0 {
        reader.error(node.at, format!("\"{key}\" cannot be zero; write for example \"1GiB\""));
    }
    (size > 0).then_some(size)
}

/// Reads the audit schedule; the inner option is none when it is switched off.
fn read_audit(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Option<String>> {
    let wanted = "six fields (second minute hour day month weekday) such as \"0 30 4 * * *\", or \"never\"";
    let text = match &node.value {
        Value::Boolean(false) => return Some(None),
        Value::Text(text) if text == "never" => return Some(None),
        Value::Text(text) => text,
        _ => return reader.wrong_type(key, node, wanted),
    };
    let fault = match check_cron(text) {
        Ok(()) => return Some(Some(text.clone())),
        Err(fault) => fault,
    };
    let advice = match text.split_whitespace().count() {
        5 => format!("write the second in front, \"0 {}\"", shorten(text)),
        _ => format!("write {wanted}"),
    };
    reader.error(node.at, format!("\"{key}\" {fault}: \"{}\"; {advice}", shorten(text)));
    None
}

/// Has the scheduler read the expression that it will run.
fn check_cron(text: &str) -> Result<(), &'static str> {
    let job = Job::new(text, |_, _| {}).and_then(|mut job| job.job_data());
    match job {
        // The scheduler's own mark for "no next time".
        Ok(data) if data.next_tick == 0 => Err("never comes due"),
        Ok(_) => Ok(()),
        Err(_) => Err("is no cron expression"),
    }
}

//--- Timers ---

/// The lower and upper key of each timer.
const TIMER_KEYS: [(&str, &str); 3] =
    [("refresh_min", "refresh_max"), ("retry_min", "retry_max"), ("expire_min", "expire_max")];

/// Permitted range of the time that older serials must last: three refreshes take a second, and no zone of CNS lives
/// longer than 30 days.
const REGRESS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(30 * 24 * 3600);

/// Reads the bounds that a table gives over those it inherits.
pub fn read_timers(reader: &mut Reader<'_>, fields: &Fields<'_>, inherited: TimerBounds, place: &str) -> TimerBounds {
    let mut bounds = inherited;
    let slots = [
        (&mut bounds.refresh_min, &mut bounds.refresh_max),
        (&mut bounds.retry_min, &mut bounds.retry_max),
        (&mut bounds.expire_min, &mut bounds.expire_max),
    ];
    for ((low_key, high_key), (low, high)) in TIMER_KEYS.into_iter().zip(slots) {
        let mut read = |key: &str, slot: &mut Duration| {
            let value = fields.read(reader, key, Reader::positive_duration);
            *slot = value.unwrap_or(*slot);
            value.and(fields.entry(key)).map(|entry| entry.node.at)
        };
        let (low_at, high_at) = (read(low_key, low), read(high_key, high));
        // Bounds that are both inherited were judged where they are written.
        if let Some(at) = high_at.or(low_at)
            && *low > *high
        {
            let (low, high) = (format_duration(*low), format_duration(*high));
            reader.error(
                at,
                format!(
                    "{place} has \"{low_key}\" {low} above \"{high_key}\" {high}; lower the one or raise the other"
                ),
            );
        }
    }
    for (key, slot) in
        [("regress_after", &mut bounds.regress_after), ("regress_after_silence", &mut bounds.regress_after_silence)]
    {
        *slot = fields.read(reader, key, read_regress).unwrap_or(*slot);
    }
    bounds
}

/// Reads how long older serials must last.
pub fn read_regress(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Duration> {
    let duration = reader.duration(key, node)?;
    if !REGRESS.contains(&duration) {
        let [given, least, most] = [duration, *REGRESS.start(), *REGRESS.end()].map(format_duration);
        reader.error(node.at, format!("\"{key}\" cannot be {given}; write \"{least}\" to \"{most}\""));
        return None;
    }
    Some(duration)
}
