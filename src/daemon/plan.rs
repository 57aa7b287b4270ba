//! Plans that the parts of the server get from a configuration: the keeper's plan, and the permitted senders of NOTIFY.
//!
//! Cost: O(configuration).

use super::restore::Remains;
use super::sources::{SourcePlan, own_news};
use crate::acl::{Access, Host, Prefix, Rule};
use crate::budget;
use crate::config::Config;
use crate::cookie::Secrets;
use crate::keeper::{self, Plan, PlanChanges};
use crate::metrics::Metrics;
use crate::publish::{Identity, Published};
use crate::rate_limit::RateLimit;
use crate::serve::notify::Announcers;
use crate::source::inventory::InventoryPlan;
use crate::source::zookeeper::TreePlan;
use crate::tap;
use crate::trace;
use crate::transfer;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Returns the servers that may announce changes of each zone: its primaries, and those that the configuration adds.
pub fn announcers(config: &Config) -> Announcers {
    let access = |plan: &transfer::ZonePlan| {
        let host = |address: IpAddr| Rule { prefix: Some(Prefix::host(address)), key: None, channel: None, host: None };
        let primaries = plan.primaries.iter().map(|primary| match &primary.key {
            // Who signs with a primary's key speaks for it, from wherever; its address alone says nothing then.
            Some(key) => Rule { prefix: None, key: Some(key.name.clone()), channel: None, host: None },
            None => host(primary.address.ip()),
        });
        Access { rules: primaries.chain(plan.notify_from.iter().copied().map(host)).collect() }
    };
    let mut announcers = Announcers::default();
    for plan in config.transferred() {
        announcers.add(&plan.origin, &plan.zone, access(plan));
        let primaries = plan.primaries.iter().map(|primary| primary.address.ip());
        let addresses = primaries.chain(plan.notify_from.iter().copied());
        announcers.add_peers(addresses.clone());
        if plan.is_member() {
            announcers.add_askers(&plan.origin, &plan.zone, addresses);
        }
    }
    announcers
}

/// Bits of the widest prefixes of `allow_transfer` that count as secondaries: whoever lets wide parts of the Internet
/// transfer a zone does not know them.
const WIDEST: [u8; 2] = [8, 16];

/// Returns who has no rate limit beside those that the configuration exempts: primaries, those who announce for them,
/// secondaries, and resolvers whose EDNS Client Subnet is believed. They are known by their addresses alone.
pub fn peers(config: &Config) -> Vec<Prefix> {
    let zones = config.zones.iter();
    let sources = zones.flat_map(|plan| {
        let primaries = plan.primaries.iter().map(|primary| primary.address.ip());
        primaries.chain(plan.notify_from.iter().copied()).map(Prefix::host)
    });
    let rules = config.outgoing.values().flat_map(|outgoing| &outgoing.access.rules);
    let is_narrow = |prefix: &Prefix| prefix.length() >= WIDEST[usize::from(prefix.address().is_ipv6())];
    let secondaries = rules.filter_map(|rule| rule.prefix).filter(is_narrow);
    sources.chain(secondaries).chain(config.client_subnet_from.iter().copied()).collect()
}

/// The hosts that may transfer zones in force, by name.
fn secondary_hosts(config: &Config) -> impl Iterator<Item = &Host> {
    let rules = config.outgoing.values().flat_map(|outgoing| &outgoing.access.rules);
    rules.filter_map(|rule| rule.host.as_ref())
}

/// Hands the keeper the zones and regions of a configuration and waits until they are published.
pub async fn publish_plan(
    keeper: &keeper::KeeperHandle,
    config: &Config,
    remains: Remains,
    published: &Published,
    metrics: &Arc<Metrics>,
) -> Option<PlanChanges> {
    let name = config.server_name.to_string();
    let identity = Identity {
        name: name.trim_end_matches('.').to_owned(),
        version: format!("aggregator {}", env!("CARGO_PKG_VERSION")),
    };
    let running = published.tap.as_ref();
    let tap = tap::start(&config.tap, &identity.name, &identity.version, running, metrics);
    // The collector of before has a moment for what is left.
    let traces = || trace::follow(config.traces.as_ref(), &identity.name, metrics);
    if let Err(error) = tokio::task::block_in_place(traces) {
        tracing::error!(%error, "traces of changes stay as they were");
    }
    let zones = SourcePlan::all(config).flat_map(|plan| plan.zones().map(move |zone| (zone.clone(), plan.lifetime())));
    let refusing = config.trees.iter().filter(|plan| plan.binder_compat).flat_map(TreePlan::all_zones);
    let (done, changes) = oneshot::channel();
    let outgoing = config.outgoing.iter().map(|(zone, outgoing)| (zone.clone(), Arc::new(outgoing.clone())));
    let plan = Plan {
        identity,
        keys: Arc::new(config.keys.clone()),
        subnet_from: config.client_subnet_from.clone().into(),
        zones: zones.collect(),
        regions: config.regions.clone(),
        drains: config.drains.clone(),
        catalog: config.catalog.clone(),
        outgoing: outgoing.collect(),
        answers: config.answers.iter().map(|(zone, plan)| (zone.clone(), Arc::new(plan.clone()))).collect(),
        clients: config.clients.clone(),
        cookies: config.cookies.answer.then(|| config.cookies.secrets.clone().unwrap_or_else(Secrets::own)),
        rate_limit: Arc::new(RateLimit::new(&config.rate_limit, peers(config)).with_hosts(secondary_hosts(config))),
        tap,
        refusing: refusing.cloned().collect(),
        made: config.inventories.iter().flat_map(InventoryPlan::zones).cloned().collect(),
        hidden: config.transferred().filter(|plan| plan.is_hidden()).map(|plan| plan.zone.clone()).collect(),
        history: config.history,
        memory: Some(config.memory.unwrap_or_else(budget::host::default_budget)),
        hold_down: config.hold_down,
        updates: own_news(config, &remains.zones, published),
        restored: remains.zones,
        past: remains.past,
        heard: remains.heard,
    };
    keeper.commands.send(keeper::Command::Plan(Box::new(plan), done)).await.ok()?;
    changes.await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn peers_of_the_file_have_no_rate_limit() {
        let text = "[server]\nclient_subnet_from = [\"198.51.100.0/28\"]\n\
                    [zones.\"a.example\"]\nprimaries = [\"192.0.2.1\", \"[2001:db8::1]:5353\"]\nnotify_from = [\"192.0.2.2\"]\n\
                    [secondaries]\nallow_transfer = [\"203.0.113.0/24\", \"10.0.0.0/8\", \"8.0.0.0/7\", \"::/0\",\n\
                    { prefix = \"192.0.2.9\", key = \"k.example\" }, { key = \"k.example\" }]\n\
                    [keys.\"k.example\"]\nsecret_file = \"k\"\n";
        let config = Config::parse(Path::new("c"), text).unwrap();
        let peers: Vec<String> = peers(&config).iter().map(Prefix::to_string).collect();
        let expected =
            ["192.0.2.1", "2001:db8::1", "192.0.2.2", "203.0.113.0/24", "10.0.0.0/8", "192.0.2.9", "198.51.100.0/28"];
        assert_eq!(peers, expected, "and nobody else who may transfer the zone");
    }
}
