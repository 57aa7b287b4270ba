//! Times: what the services tell is served within three seconds of what their protocols allow.

use crate::*;
use std::time::{Duration, Instant};
use triton_double::Datacenter as Inventory;

/// Time for whatever is told at once.
pub const PROMPT: Duration = Duration::from_secs(3);
/// Pause between two looks at the compute nodes.
const NODES: Duration = Duration::from_secs(2);
/// Pause before a feed that was lost is asked for again.
const FEED: Duration = Duration::from_secs(2);
/// Pause between two looks at the change log of accounts.
pub const LOG: Duration = Duration::from_secs(5);

/// Changes the datacenter, and waits until a name has the addresses of these numbers, which must be within a time.
fn follow(
    datacenter: &mut Datacenter,
    limit: Duration,
    change: impl FnOnce(&mut Inventory),
    (name, numbers): (&str, &[u8]),
) {
    let changed = Instant::now();
    datacenter.double.edit(change);
    datacenter.resolver.wait_addresses(name, numbers);
    let took = changed.elapsed();
    println!("{name} has {numbers:?} after {took:.3?} of {limit:?}");
    assert!(took < limit, "{name} has {numbers:?} only after {took:?}");
}

/// Sets a field of an instance.
fn set(number: u8, field: &'static str, value: Value) -> impl FnOnce(&mut Inventory) {
    move |inventory| inventory.vm(&uuid(number))[field] = value
}

#[test]
fn a_lone_change_is_served_within_three_seconds() {
    let datacenter = &mut Datacenter::start(4);
    for _ in 0..3 {
        follow(datacenter, PROMPT, set(1, "state", json!("stopped")), (SERVICE, &[2, 3, 4]));
        follow(datacenter, PROMPT, set(1, "state", json!("running")), (SERVICE, &[1, 2, 3, 4]));
        follow(datacenter, PROMPT, |inventory| inventory.put_vm(vm(9)), (SERVICE, &[1, 2, 3, 4, 9]));
        follow(datacenter, PROMPT, |inventory| inventory.destroy_vm(&uuid(9)), (SERVICE, &[1, 2, 3, 4]));
        follow(datacenter, PROMPT, set(2, "alias", json!("other")), ("other.inst.acme", &[2]));
        follow(datacenter, PROMPT, set(2, "alias", json!("web2")), ("other.inst.acme", &[]));
        let tags = |services: &str| json!({ "triton.cns.services": services });
        follow(datacenter, PROMPT, set(3, "tags", tags("web,db")), ("db.svc.acme", &[3]));
        follow(datacenter, PROMPT, set(3, "tags", tags("web")), ("db.svc.acme", &[]));
    }
    // One of four may leave by its own report at once.
    let down = json!({ "triton.cns.status": "down" });
    follow(datacenter, PROMPT, set(4, "customer_metadata", down), (SERVICE, &[1, 2, 3]));
    follow(datacenter, PROMPT, set(4, "customer_metadata", json!({})), (SERVICE, &[1, 2, 3, 4]));
}

#[test]
fn a_reboot_takes_instances_out_within_three_seconds_of_the_next_look() {
    let datacenter = &mut Datacenter::start(4);
    let node = |status: &'static str| {
        move |inventory: &mut Inventory| {
            inventory.server(SERVERS[0]).expect("a node")["status"] = json!(status);
        }
    };
    for _ in 0..3 {
        follow(datacenter, PROMPT + NODES, node("rebooting"), (SERVICE, &[2, 4]));
        follow(datacenter, PROMPT + NODES, node("running"), (SERVICE, &[1, 2, 3, 4]));
    }
}

#[test]
fn what_happens_without_a_feed_is_served_within_three_seconds_of_the_next_one() {
    let datacenter = &mut Datacenter::start(4);
    for (cut, number, rest) in [(Cut::Drop, 1, &[2, 3, 4][..]), (Cut::Close, 2, &[3, 4])] {
        datacenter.double.cut_feeds(cut);
        follow(datacenter, PROMPT + FEED, |inventory| inventory.destroy_vm(&uuid(number)), (SERVICE, rest));
    }
}

#[test]
fn an_account_is_followed_within_three_seconds_of_the_next_look() {
    let datacenter = &mut directory::start(3);
    let flag = |value: &'static str| {
        move |inventory: &mut Inventory| {
            inventory.directory.account(OWNER)["triton_cns_enabled"] = json!(value);
        }
    };
    for _ in 0..2 {
        follow(datacenter, PROMPT + LOG, flag("false"), (SERVICE, &[]));
        follow(datacenter, PROMPT + LOG, flag("true"), (SERVICE, &[1, 2, 3]));
    }
}
