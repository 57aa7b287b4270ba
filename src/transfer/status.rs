//! Status of one zone's way in, for operators.
//!
//! Invariant: written only by the zone's task, read by anyone. Times are Unix seconds, for people and for JSON.
//!
//! Cost: O(primaries), and a few transfers that are remembered.

use crate::metrics::{TransferCounts, unix_seconds};
use crate::timestamp::format_timestamp;
use crate::transfer::guard::Held;
use crate::transfer::plan::ZonePlan;
use crate::transfer::progress::Running;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::name::Name;
use wire::serial::Serial;

/// Activity of the zone's task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Activity {
    #[default]
    Idle,
    Polling,
    /// Waiting until the primary has fewer of our polls or transfers under way.
    Queued,
    /// For its turn to replace the whole zone, because there is no room for several at a time.
    Waiting,
    Transferring,
    Publishing,
}

impl Activity {
    /// Describes what a zone waits for, if it waits.
    pub fn describe_wait(self) -> Option<&'static str> {
        match self {
            Activity::Queued => Some("waits for other polls or transfers from the primary"),
            Activity::Waiting => Some("waits for room in memory"),
            Activity::Idle | Activity::Polling | Activity::Transferring | Activity::Publishing => None,
        }
    }
}

/// Status of one primary.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "Primary")]
pub struct PrimaryStatus {
    pub address: SocketAddr,
    /// True if it is reached by TLS.
    pub tls: bool,
    /// Serial in its last SOA answer or zone transfer.
    pub announced: Option<Serial>,
    /// Result of the last attempt, in words.
    pub result: String,
    /// Time at which it last confirmed the zone or sent it.
    pub success: Option<i64>,
    /// Failed attempts since.
    pub failures: u32,
    /// Set where CNS may have stopped announcing changes to us; none for other primaries.
    pub silence: Option<SilenceStatus>,
    /// Label of the last failure, so that the log tells each failure once.
    #[serde(skip)]
    pub reason: Option<&'static str>,
}

impl PrimaryStatus {
    /// Where it is, and over what it is reached if that is not plain TCP.
    pub fn place(&self) -> String {
        format!("{}{}", self.address, if self.tls { " over TLS" } else { "" })
    }
}

/// A version that waits for confirmation because it has lost most names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "HeldTransfer")]
pub struct HeldStatus {
    pub serial: Serial,
    /// Names with records; for a catalog the zones that it lists.
    pub names: u64,
    pub served_names: u64,
    /// For a catalog: the number of zones that would leave.
    pub leaving: Option<usize>,
    /// True if it is adopted at the word of an operator only.
    pub needs_operator: bool,
}

impl From<&Held> for HeldStatus {
    fn from(held: &Held) -> HeldStatus {
        let leaving = held.leaving.as_ref();
        HeldStatus {
            serial: held.serial,
            names: held.names,
            served_names: held.served_names,
            leaving: leaving.map(|leaving| leaving.zones.len()),
            needs_operator: leaving.is_some_and(|leaving| leaving.needs_operator),
        }
    }
}

impl HeldStatus {
    /// In words.
    pub fn describe(&self) -> String {
        let HeldStatus { serial, names, served_names, leaving, needs_operator } = *self;
        match leaving {
            None => format!("serial {serial} held back: {names} names instead of {served_names}"),
            Some(leaving) => {
                let of = format!("serial {serial} held back: {leaving} of {served_names} listed zones would leave");
                if needs_operator { format!("{of}, retransfer --accept lets them go") } else { of }
            }
        }
    }
}

/// Older serials that the zone may go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct RegressionStatus {
    /// The newest of them.
    pub serial: Serial,
    /// Time at which every answer was older for the first time.
    pub since: i64,
    /// Time at which the newest of them is adopted, if nothing else is heard.
    pub until: i64,
    /// True if a primary is silent, which makes that later.
    pub partial: bool,
}

impl RegressionStatus {
    /// In words.
    pub fn describe(&self) -> String {
        let RegressionStatus { serial, since, until, partial } = *self;
        let [since, until] = [since, until].map(|seconds| {
            let seconds = u64::try_from(seconds).unwrap_or(0);
            format_timestamp(UNIX_EPOCH + Duration::from_secs(seconds))
        });
        let all = if partial { "all primaries that answer are" } else { "all primaries are" };
        format!(
            "{all} older than our copy since {since}; serial {serial} is adopted at {until}, or now by retransfer --accept"
        )
    }
}

/// Records whose removal was in doubt, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct DoubtStatus {
    /// Questions that primaries were asked.
    pub questions: u64,
    /// Records that stayed because a primary still had them.
    pub vetoed: u64,
    /// Records that stay at the moment because no primary answers for them.
    pub records: u64,
}

/// Transfers that are remembered for each zone.
const REMEMBERED: usize = 32;

/// A transfer that was tried.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "Transfer")]
pub struct TransferNote {
    /// Time of its end.
    pub at: i64,
    /// `axfr` or `ixfr`.
    #[schemars(extend("enum" = ["axfr", "ixfr"]))]
    pub kind: &'static str,
    /// `ok`, or why not, as the metrics label it.
    pub result: &'static str,
    /// Records of the zone; 0 for a failure.
    pub records: u64,
    /// Octets received; 0 for a failure.
    pub bytes: u64,
    pub milliseconds: u64,
}

/// Status of a zone that is transferred.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "Primaries")]
pub struct Status {
    pub zone: Name,
    pub activity: Activity,
    /// The transfer that is received at the moment.
    pub running: Option<Running>,
    /// In configuration order.
    pub primaries: Vec<PrimaryStatus>,
    /// Refreshes in a row that failed at every primary.
    pub failures: u32,
    pub next_refresh: Option<i64>,
    pub held: Option<HeldStatus>,
    pub doubts: DoubtStatus,
    /// Refreshes in a row in which every answer had a serial older than ours.
    pub older_answers: u32,
    /// Older serials that the zone may go back to; until then our copy is kept against them.
    #[serde(rename = "setback")]
    pub regression: Option<RegressionStatus>,
    /// The last transfers, oldest first; too many for every overview.
    #[serde(skip)]
    pub transfers: VecDeque<TransferNote>,
    /// Transfers that were published; shown beside those to secondaries.
    #[serde(skip)]
    pub received: TransferCounts,
}

impl Status {
    /// The status before anything has happened.
    pub fn new(plan: &ZonePlan) -> Status {
        let primaries = plan.primaries.iter().map(|primary| PrimaryStatus {
            address: primary.address,
            tls: primary.tls.is_some(),
            announced: None,
            result: "not tried yet".to_owned(),
            success: None,
            failures: 0,
            silence: None,
            reason: None,
        });
        Status { zone: plan.zone.clone(), primaries: primaries.collect(), ..Status::default() }
    }

    /// Goes on to what the zone's task does next.
    pub fn turn_to(&mut self, activity: Activity) {
        (self.activity, self.running) = (activity, None);
    }

    /// Remembers a transfer in place of the oldest.
    pub fn remember(&mut self, note: TransferNote) {
        if self.transfers.len() == REMEMBERED {
            self.transfers.pop_front();
        }
        self.transfers.push_back(note);
    }
}

/// A time so long ago as Unix seconds.
pub fn unix_before(age: Duration) -> i64 {
    SystemTime::now().checked_sub(age).map_or(0, unix_seconds)
}

/// The silence of a CNS, as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct SilenceStatus {
    /// Until when it is assumed, and its zones are polled every 10 s; none while it is not.
    pub until: Option<i64>,
    /// True if CNS' time is still to be started by a transfer.
    pub owed: bool,
    /// Questions at our own serial that were answered, since the start.
    pub questions: u64,
    /// Time of the last of them.
    pub asked: Option<i64>,
}

/// A time from now as Unix seconds.
pub fn unix_after(delay: Duration) -> i64 {
    SystemTime::now().checked_add(delay).map_or(i64::MAX, unix_seconds)
}
