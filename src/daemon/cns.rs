//! The verbs of `aggregator cns` that ask the server, and the REST interface of inventories (`rest`).
//!
//! Invariant: an order about an instance is the inventory's own affair; neither keeper nor disk is waited for here but
//! through it.
//!
//! Cost: as the views'; an order as `source::inventory::orders` has it.

pub mod rest;

use crate::control::{CnsRequest, Reply};
use crate::source::inventory::orders::{Deed, OrderError};
use crate::view::Handle;
use crate::view::cns::{Overview, peers, source_of, tables, vm, zones};
use crate::view::handle::in_thread;
use crate::view::text::unix_now;
use inventory::model::{Health, Uuid};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::time::Duration;
use wire::name::Name;

/// Answers a verb.
pub async fn answer(view: Handle, request: CnsRequest) -> Result<Reply, String> {
    match request {
        CnsRequest::Report { uuid, status, milliseconds } => {
            let vm = read_uuid(&uuid)?;
            let (deed, done) = match read_health(&status)? {
                Some(health) => {
                    let ttl = milliseconds.map(Duration::from_millis);
                    (Deed::Report { vm, health, ttl }, format!("{vm} is reported {status}"))
                }
                None => (Deed::Withdraw(vm), format!("the report on {vm} is withdrawn")),
            };
            order_about(&view, vm, deed).await?;
            reply(done, json!({ "uuid": uuid, "status": status }))
        }
        CnsRequest::Forget { uuid } => {
            let vm = read_uuid(&uuid)?;
            order_about(&view, vm, Deed::Forget(vm)).await?;
            tracing::info!(%vm, "instance forgotten by order");
            let advice = "it comes again with the next reading that has it";
            reply(format!("{vm} is forgotten; {advice}"), json!({ "uuid": uuid }))
        }
        CnsRequest::Release { name } => {
            let name = Name::parse(&name).map_err(|error| format!("no name of a service: {error}"))?;
            release(&view, &name).await?;
            tracing::info!(%name, "holds ended by order");
            reply(format!("nothing is held at {name} any more"), json!({ "name": name }))
        }
        request => in_thread(move || read(&view, &request)).await,
    }
}

/// Answers what only reads.
fn read(view: &Handle, request: &CnsRequest) -> Result<Reply, String> {
    let config = view.config.load();
    if config.inventories.is_empty() {
        return Err("no zone is made of an inventory; see [inventories] in the configuration".to_owned());
    }
    let all_zones = || config.inventories.iter().flat_map(|plan| zones::zones(view, plan)).collect::<Vec<_>>();
    let now = unix_now() * 1000;
    match request {
        CnsRequest::Vm { uuid } => {
            let vm = vm::find_vm(view, read_uuid(uuid)?).ok_or_else(|| not_found(uuid))?;
            reply(tables::vm(&vm, now), json!(vm))
        }
        CnsRequest::Peers { address: Some(address) } => {
            let wanted: IpAddr = address.parse().map_err(|_| format!("\"{address}\" is no address"))?;
            let peers = peers::all_peers(view);
            let found = peers.iter().find(|peer| peer.line.address == wanted.to_canonical());
            let found = found.ok_or_else(|| format!("no peer has address {address}; see \"aggregator cns peers\""))?;
            reply(tables::peer(found), json!(found))
        }
        CnsRequest::Peers { address: None } => {
            let peers = peers::all_peers(view);
            reply(tables::peer_table(&all_zones(), &peers), json!(peers))
        }
        CnsRequest::Zones => {
            let zones = all_zones();
            reply(tables::zone_table(&zones), json!(zones))
        }
        _ => {
            let overview = Overview::collect(view);
            reply(tables::status(&overview.zones, &overview.peers, now), json!(overview))
        }
    }
}

/// A reply that something is done, or what was asked for.
fn reply(mut text: String, data: Value) -> Result<Reply, String> {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(Reply { ok: true, text, data })
}

/// The error that no inventory has an instance.
fn not_found(uuid: &str) -> String {
    format!("no inventory has instance {uuid}")
}

/// Reads a UUID as an operator writes it.
fn read_uuid(text: &str) -> Result<Uuid, String> {
    Uuid::try_parse(text).map_err(|_| format!("\"{text}\" is no UUID"))
}

/// Reads what is reported; none withdraws a report.
fn read_health(text: &str) -> Result<Option<Health>, String> {
    match text {
        "up" => Ok(Some(Health::Up)),
        "down" => Ok(Some(Health::Down)),
        "none" => Ok(None),
        _ => Err(format!("a report is up, down or none, not \"{text}\"")),
    }
}

/// Has an order carried out by the inventory that has an instance.
async fn order_about(view: &Handle, vm: Uuid, deed: Deed) -> Result<(), String> {
    let found = {
        let config = view.config.load();
        let sources = config.inventories.iter().filter_map(|plan| source_of(view, plan));
        let mut having = sources.filter(|source| tokio::task::block_in_place(|| source.instance(vm).is_some()));
        having.next().map(|source| source.order(deed))
    };
    let order = found.ok_or_else(|| not_found(&vm.to_string()))?;
    order.await.map_err(|error| error.to_string())
}

/// Ends the holds at a name in the inventories that make a zone of it.
async fn release(view: &Handle, name: &Name) -> Result<(), String> {
    let orders: Vec<_> = {
        let config = view.config.load();
        let plans = config.inventories.iter().filter(|plan| plan.zones().any(|zone| name.is_within(zone)));
        let sources = plans.filter_map(|plan| source_of(view, plan));
        sources.map(|source| source.order(Deed::Release(name.clone()))).collect()
    };
    if orders.is_empty() {
        return Err(format!("{name} is in no zone that is made of an inventory"));
    }
    let mut result = Err(OrderError::NothingHeld(name.clone()));
    for order in orders {
        result = result.or(order.await);
    }
    result.map_err(|error| error.to_string())
}
