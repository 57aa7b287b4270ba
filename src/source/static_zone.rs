//! Zones of our own: the source that has nobody to ask.
//!
//! What the configuration says is news once, when it is read; [`news`] makes the update, which is published together
//! with the plan of all zones. The task answers whoever wants the zone to be looked at.
//!
//! Cost: O(records) for each reading of the configuration.

use crate::metrics::unix_seconds;
use crate::source::shell::{Facilities, Handle, Shared, SourceKind};
use crate::source::{News, Update};
use crate::static_zone::{StaticZonePlan, build};
use crate::zone::{Zone, ZoneError};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// The kind of source that has its records from the configuration.
pub struct Configured;

/// Status of a zone that is made of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Own")]
pub struct StaticZoneStatus {
    /// Time at which the configuration was read that has it.
    pub configured: i64,
    /// Records in the configuration and those that follow from it.
    pub configured_records: usize,
    pub openstack: Vec<ServiceStatus>,
}

/// A service and its endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ServiceStatus {
    #[serde(rename = "type")]
    pub kind: String,
    pub url: String,
}

/// Takes a plan that has been read just now. Must be called within a tokio runtime.
pub fn start(plan: StaticZonePlan, facilities: Facilities) -> Handle<Configured> {
    let service = |offer: &crate::static_zone::openstack::Offer| ServiceStatus {
        kind: offer.kind.to_string(),
        url: offer.endpoint.to_string(),
    };
    let status = StaticZoneStatus {
        configured: unix_seconds(SystemTime::now()),
        configured_records: plan.records.len(),
        openstack: plan.offers.iter().map(service).collect(),
    };
    Handle::start(Shared::new(plan, status, facilities, Configured))
}

impl SourceKind for Configured {
    type Plan = StaticZonePlan;
    type Status = StaticZoneStatus;

    async fn run(shared: Arc<Shared<Configured>>) {
        loop {
            tokio::select! {
                () = shared.inbox.rung() => {}
                () = shared.facilities.updates.closed() => return,
            }
            let answer = "is made of the configuration; \"aggregator reload\" reads it again";
            shared.inbox.take().answer(&Ok(answer.to_owned()));
        }
    }

    fn log_panic() {
        tracing::error!("a zone's task has panicked and is started again; please report what the log says");
    }
}

/// Makes the update that a plan means for a zone of which `base` is known.
pub fn news(plan: &StaticZonePlan, base: Option<Arc<Zone>>) -> Result<Update, ZoneError> {
    // Serials have 32 bits, which is what is left of the time in any case (RFC 1982).
    let now = unix_seconds(SystemTime::now()) as u32;
    let loaded = build(plan, base.as_ref(), now)?;
    let news = if base.is_some() && loaded.touched.is_empty() {
        News::Current
    } else {
        News::Load { loaded: Box::new(loaded), base }
    };
    Ok(Update { news: vec![(plan.zone.clone(), news)], refreshed: Instant::now(), published: None })
}
