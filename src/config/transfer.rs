//! The section `[transfer]`, and the timers that zones may have of their own.
//!
//! Invariant: the lower bound of a timer is never above the upper one.
//!
//! Cost: O(text).

use crate::transfer::{Limits, TimerBounds};
use settings::fields::{Fields, put};
use settings::read::{Reader, shorten};
use settings::schema::{Kind, Table, key};
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

/// `[transfer]`
pub static TRANSFER: Table<TransferSection> = Table {
    path: "[transfer]",
    help: "Timers and limits of all transfers",
    keys: &[&[
        key("refresh_min", r#""5s""#, "shortest time between polls")
            .takes(Kind::PositiveDuration(|transfer, span| transfer.timers.refresh_min = span)),
        key("refresh_max", r#""1d""#, "longest time between polls")
            .takes(Kind::PositiveDuration(|transfer, span| transfer.timers.refresh_max = span)),
        key("retry_min", r#""2s""#, "shortest time to the next try after a failure")
            .takes(Kind::PositiveDuration(|transfer, span| transfer.timers.retry_min = span)),
        key("retry_max", r#""1m""#, "longest time to the next try after a failure")
            .takes(Kind::PositiveDuration(|transfer, span| transfer.timers.retry_max = span)),
        key("expire_min", r#""1m""#, "shortest life of a zone without contact")
            .takes(Kind::PositiveDuration(|transfer, span| transfer.timers.expire_min = span)),
        key("expire_max", r#""60d""#, "longest life of a zone without contact")
            .takes(Kind::PositiveDuration(|transfer, span| transfer.timers.expire_max = span)),
        key(
            "regress_after",
            r#""5m""#,
            "how long all primaries must have had an older serial before it is believed; at most half of EXPIRE",
        )
        .takes(Kind::DurationWithin(REGRESS, |transfer, span| transfer.timers.regress_after = span)),
        key("regress_after_silence", r#""1d""#, "the same while one of them is silent; at most half of EXPIRE")
            .takes(Kind::DurationWithin(REGRESS, |transfer, span| transfer.timers.regress_after_silence = span)),
        key("connect_timeout", r#""5s""#, "SOA poll, and TCP connection")
            .takes(Kind::PositiveDuration(|transfer, span| transfer.limits.connect_timeout = span)),
        key("message_timeout", r#""15s""#, "from one complete message to the next")
            .takes(Kind::PositiveDuration(|transfer, span| transfer.limits.message_timeout = span)),
        key("total_timeout", r#""10m""#, "a whole transfer")
            .takes(Kind::PositiveDuration(|transfer, span| transfer.limits.total_timeout = span)),
        key("min_rate_bytes", r#""1KiB""#, "bytes a second a transfer must keep up; 0 for none")
            .takes(Kind::Size(|transfer, rate| transfer.limits.min_rate_bytes = rate)),
        // Five times a zone of a million records of CNS; what it becomes in memory is bounded by the budget.
        key("max_bytes", r#""256MiB""#, "largest transfer")
            .takes(Kind::PositiveSize(|transfer, most| transfer.limits.max_bytes = most)),
        key("max_records", "5000000", "most records in a transfer, and in a zone")
            .takes(Kind::Number(1..=u64::MAX, |transfer, most| transfer.limits.max_records = most)),
        key("max_messages", "1000000", "most messages in a transfer")
            .takes(Kind::Number(1..=u64::MAX, |transfer, most| transfer.limits.max_messages = most)),
        key("shrink_share", "0.5", "a zone that shrinks below this share must be confirmed; 0 for never")
            .takes(Kind::Share(|transfer, share| transfer.limits.shrink_share = share)),
        key("confirm_after", r#""10s""#, "pause before the confirming transfer")
            .takes(Kind::Duration(|transfer, pause| transfer.limits.confirm_after = pause)),
        // A quarter of what NSD takes from everybody together, and enough for 20,000 zones within three minutes where a
        // transfer takes 200 ms.
        key("transfers_per_primary", "25", "transfers at once from one address and port")
            .takes(Kind::Count(10_000, |transfer, most| transfer.limits.per_primary = most)),
        // Each night at half past four.
        key("audit", r#""0 30 4 * * *""#, "when all zones are transferred in full, UTC")
            .takes(Kind::Own("cron, \"never\" or false", |r, key, node, transfer| {
                put(&mut transfer.audit, read_audit(r, key, node))
            })),
    ]],
};

/// Reads `[transfer]`; absent keys give defaults.
pub fn read_transfer(reader: &mut Reader<'_>, root: &Fields<'_>) -> TransferSection {
    let mut section = TransferSection::default();
    let fields = TRANSFER.read_section(reader, root, &mut section);
    check_timers(reader, &fields, &section.timers, TRANSFER.path);
    section
}

impl Default for TransferSection {
    fn default() -> TransferSection {
        let none = Duration::ZERO;
        let timers = TimerBounds {
            refresh_min: none,
            refresh_max: none,
            retry_min: none,
            retry_max: none,
            expire_min: none,
            expire_max: none,
            regress_after: none,
            regress_after_silence: none,
        };
        let limits = Limits {
            connect_timeout: none,
            message_timeout: none,
            total_timeout: none,
            min_rate_bytes: 0,
            max_bytes: 0,
            max_records: 0,
            max_messages: 0,
            shrink_share: 0.0,
            confirm_after: none,
            per_primary: 0,
        };
        let mut section = TransferSection { timers, limits, audit: None };
        TRANSFER.set_defaults(&mut section);
        section
    }
}

impl Default for TimerBounds {
    fn default() -> TimerBounds {
        TransferSection::default().timers
    }
}

impl Default for Limits {
    fn default() -> Limits {
        TransferSection::default().limits
    }
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
    reader.refuse(node.at, format!("\"{key}\" {fault}: \"{}\"; {advice}", shorten(text)))
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

/// Permitted range of the time that older serials must last: three refreshes take a second, and no zone of CNS lives
/// longer than 30 days.
pub const REGRESS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(30 * 24 * 3600);

/// Reports bounds that a table has the wrong way round. Bounds that are both inherited were judged where they are written.
pub fn check_timers(reader: &mut Reader<'_>, fields: &Fields<'_>, bounds: &TimerBounds, place: &str) {
    for (low_key, low, high_key, high) in [
        ("refresh_min", bounds.refresh_min, "refresh_max", bounds.refresh_max),
        ("retry_min", bounds.retry_min, "retry_max", bounds.retry_max),
        ("expire_min", bounds.expire_min, "expire_max", bounds.expire_max),
    ] {
        if let Some(entry) = fields.landed(high_key).or(fields.landed(low_key))
            && low > high
        {
            let [low, high] = [low, high].map(format_duration);
            let advice = "lower the one or raise the other";
            let message = format!("{place} has \"{low_key}\" {low} above \"{high_key}\" {high}; {advice}");
            reader.error(entry.node.at, message);
        }
    }
}
