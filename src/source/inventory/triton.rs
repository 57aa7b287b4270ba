//! The feeder of a Triton datacenter: instances from VMAPI, compute nodes from CNAPI, networks from NAPI, accounts from
//! UFDS or a file.
//!
//! Everything is listed at the start, after each beginning of the change feed, and every few minutes; between, the feed
//! tells which instances have changed, and these are asked for. What a listing lacks is asked for singly, and is gone
//! only if the service says that it does not exist, or that it was destroyed.
//!
//! Invariants: an answer counts only if its request began after that of the last answer about the same element; a failure
//! removes nothing, and what failed is asked for until it is answered; a listing is complete when each of its instances,
//! and everything that they need, was told or definitely denied; a service is asked for at most ten
//! elements at once, and one that does not answer delays no other.
//!
//! Parts: `plan` what to do, `services` the calls, `call_error` their faults, `elements` their JSON, `changefeed` the
//! feed's connection, `frames` its frames, `queue` what is asked for singly, `accounts` the file of accounts, `ufds` the
//! searches of the directory, `changelog` its change log, `follower` the steps in order, `sightings` what is known of
//! each element, `identity` the name by which VMAPI knows the feeder.
//!
//! Cost: a listing a request for 1,000 instances; a change one request; every two seconds one for the compute nodes, and
//! each minute one for 1,000 networks; every five seconds one for the change log, and one for each account in the time
//! between two listings.

mod accounts;
mod call_error;
mod changefeed;
pub mod changelog;
pub mod elements;
mod follower;
pub mod frames;
pub mod identity;
pub mod plan;
mod queue;
mod services;
mod sightings;
pub mod ufds;

pub use plan::{AccountsPlan, TritonPlan, TrustPlan, UfdsPlan};

use crate::source::inventory::feeder::{Event, Failure, Feed, Feeder};
use follower::Follower;
use inventory::model::{Key, Uuid};
use services::Services;
use std::sync::Arc;

/// Feeder of one datacenter.
pub struct TritonFeeder {
    plan: TritonPlan,
    instance: Uuid,
    known: Vec<Key>,
}

impl TritonFeeder {
    /// Makes a feeder. `instance` is the same as at the last start; `known` are the elements that are kept from then, which
    /// the feeder asks for where the first listing lacks them.
    pub fn new(plan: TritonPlan, instance: Uuid, known: Vec<Key>) -> TritonFeeder {
        TritonFeeder { plan, instance, known }
    }
}

impl Feeder for TritonFeeder {
    async fn run(self, feed: Feed) {
        match Services::new(&self.plan) {
            Ok(services) => Follower::new(self.plan, Arc::new(services), self.instance, self.known, feed).run().await,
            Err(error) => {
                feed.tell(Event::Failed { failure: Failure::new("request", error), again: None }).await;
                // Only another configuration helps, and that has another feeder.
                std::future::pending().await
            }
        }
    }
}

#[cfg(test)]
mod tests;
