//! One datacenter of the demonstration by itself, for servers in other processes, containers and machines.
//!
//! It plays its own part of the script and leaves out that of the others, in the same time: three of them that are
//! started together show what the demonstration shows. Which part that is, the number at the end of the zone's first
//! label tells, as in `us-west-2`.
//!
//! Invariant: the present version is announced in every beat, as CNS repeats its announcements until it is asked for
//! the serial; while the datacenter is away it says nothing. Cost: O(records) for a change.

use super::script::{SITES, Script};
use super::site::{Site, first_label};
use super::{DemoError, daemon, log};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval_at};
use wire::name::Name;

/// Time between two steps of the script.
const BEAT: Duration = Duration::from_secs(3);

/// A datacenter alone.
#[derive(Clone, Debug)]
pub struct PrimaryPlan {
    pub zone: Name,
    pub listen: SocketAddr,
    /// Secondaries to notify of changes.
    pub notify: Vec<SocketAddr>,
    /// Time to play; without it, until the process is asked to end.
    pub limit: Option<Duration>,
}

/// Plays until the process is asked to end, or until the time is over.
pub async fn play(plan: PrimaryPlan) -> Result<(), DemoError> {
    let end = daemon::end_signal().map_err(DemoError::Start)?;
    // Kept, because a filter that is dropped can no longer be changed.
    let _log = log::start("info", false, None)?;
    let number = number_of(&plan.zone);
    let mut site = Site::start(plan.zone, number, plan.listen).await?;
    tracing::info!(zone = %site.origin(), address = %site.address(), serial = site.serial().0, "primary of a datacenter");
    tokio::select! {
        () = change(&mut site, usize::from(number), &plan.notify) => {}
        () = end => {}
        () = tokio::time::sleep(plan.limit.unwrap_or(Duration::MAX)) => {}
    }
    Ok(())
}

/// Changes the datacenter as the script says, for ever.
async fn change(site: &mut Site, number: usize, secondaries: &[SocketAddr]) {
    let mut script = Script::default();
    let mut beat = interval_at(tokio::time::Instant::now() + BEAT, BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        let step = script.next();
        script.advance();
        if step.site == number {
            let what = site.apply(step.change);
            tracing::info!(zone = %site.origin(), serial = site.serial().0, "{what}");
        }
        for secondary in secondaries {
            // A secondary that cannot be reached polls.
            if let Err(error) = site.announce(*secondary).await {
                tracing::debug!(%secondary, %error, "not announced");
            }
        }
    }
}

/// The part that a zone plays: the number at the end of its first label, from one on; the first without one.
fn number_of(zone: &Name) -> u8 {
    let label = first_label(zone);
    let digits = label.trim_start_matches(|c: char| !c.is_ascii_digit());
    let digits = digits.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    let number: usize = digits.parse().unwrap_or(1);
    // Below the number of sites, so that it fits.
    (number.saturating_sub(1) % SITES) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_is_in_the_name() {
        let number = |zone: &str| number_of(&Name::parse(zone).unwrap());
        assert_eq!(["us-west-1.x", "us-west-2.x", "dc3.x", "4.x"].map(number), [0, 1, 2, 0]);
        assert_eq!(["x", "dc-0", "1a.x", "999999999999999999999.x"].map(number), [0; 4]);
    }
}
