//! Schedule of the audits, which transfer every source zone in full.
//!
//! Cost: O(zones) for each audit.

use super::sources::Sources;
use crate::config::Config;
use crate::schedule::{self, Schedule};
use crate::source::{Wake, WakeKind};
use std::time::{Duration, SystemTime};
use wire::name::Name;

/// The longest time over which an audit is spread.
const AUDIT_SPREAD: Duration = Duration::from_secs(600);

/// Starts the audit's schedule, which wakes every source.
///
/// Replicas that share a configuration must not ask a primary for everything in the same second, nor one replica all
/// primaries: each zone waits for its own part of a tenth of the time to the next audit, always the same.
pub async fn start_schedule(config: &Config, sources: &Sources) -> Result<Schedule, String> {
    let (sources, server, expression) = (sources.clone(), config.server_name.clone(), config.audit.clone());
    let runtime = tokio::runtime::Handle::current();
    let audit = move || {
        let next = expression.as_deref().and_then(schedule::next_run);
        let pause = next.and_then(|next| next.duration_since(SystemTime::now()).ok()).unwrap_or_default();
        let spread = (pause / 10).min(AUDIT_SPREAD);
        for zone in sources.main_zones() {
            let sources = sources.clone();
            let delay = spread.mul_f64(part_of(&server, &zone));
            runtime.spawn(async move {
                tokio::time::sleep(delay).await;
                if let Some(source) = sources.lock().get(&zone) {
                    source.wake(Wake { kind: WakeKind::Audit, done: None });
                }
            });
        }
    };
    Schedule::start(config.audit.as_deref(), audit).await.map_err(|error| error.to_string())
}

/// A number from 0 to 1 that is always the same for a server and a zone.
pub fn part_of(server: &Name, zone: &Name) -> f64 {
    f64::from(server.stable_hash().rotate_left(16) ^ zone.stable_hash()) / f64::from(u32::MAX)
}
