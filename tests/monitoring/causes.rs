//! Causes of alerts, each with the alerts that are waited for. Each function has its row in the table of
//! `monitoring.rs`.

use super::world::*;
use crate::harness::*;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use triton_double::{Cut, Service};

/// Alerts that come with a datacenter that is cut off, besides those that a test waits for.
const CUT_OFF: [&str; 3] = ["CnsTransferFailing", "CnsTransferErrors", "CnsPrimaryFailing"];

/// One replica cannot reach a datacenter any more.
pub fn a_datacenter_that_is_cut_off_fires_for_its_zone_and_replica() -> World {
    let world = World::start(&Plan::default());
    world.relays[0][0].cut(true);
    let alert = world.wait_firing("CnsTransferFailing", &[("zone", ZONES[0]), ("instance", &world.instance(0))]);
    assert!(alert.annotations["summary"].contains("has not been confirmed by any primary for"), "{alert:?}");
    world.wait_firing("CnsTransferErrors", &[("zone", ZONES[0]), ("instance", &world.instance(0))]);
    world.wait_firing("CnsPrimaryFailing", &[("zone", ZONES[0]), ("instance", &world.instance(0))]);
    let firing = world.prometheus.alerts();
    assert!(firing.iter().all(|alert| alert.labels["instance"] == world.instance(0)), "{firing:?}");
    world.assert_only(&CUT_OFF);
    // The verb says the same, and so does its exit code.
    let zone = ZONES[0].trim_end_matches('.');
    let told = world.replicas[0].verb(&["status", "--problems"]);
    assert!(told.code == 1 && told.stdout.starts_with("Serving; 1 thing to look at\n"), "{told:?}");
    assert!(told.stdout.contains(&format!("look     source fails: {zone}: ")), "{told:?}");
    world.relays[0][0].cut(false);
    world.wait_quiet();
    wait_until("the verb finds nothing", PATIENCE, || {
        let told = world.replicas[0].verb(&["status", "--problems"]);
        (told.code == 0 && told.stdout == "Everything is well\n").then_some(())
    });
    world
}

/// The only ZooKeeper that both replicas have ends, and comes back with its data.
pub fn an_ensemble_that_ends_fires_for_its_tree_until_it_is_back() -> World {
    let mut world = World::start(&Plan { tree: true, ..Plan::default() });
    world.zookeeper.as_mut().expect("a server").kill();
    for replica in 0..2 {
        world.wait_firing("CnsZooKeeperSessionLost", &[("zone", TREE), ("instance", &world.instance(replica))]);
    }
    assert!(world.firing("CnsZooKeeperSessionLost").iter().all(|alert| alert.labels["zone"] == TREE));
    // The copy is served, and is not confirmed by anybody.
    world.assert_only(&["CnsZooKeeperSessionLost", "CnsTransferFailing"]);
    world.zookeeper.as_mut().expect("a server").restart();
    world.wait_quiet();
    world
}

/// The inventory of each replica is removed, and comes back.
pub fn an_inventory_that_is_gone_fires_until_it_is_back() -> World {
    let world = World::start(&Plan { inventory: true, ..Plan::default() });
    for (replica, path) in world.inventories.iter().enumerate() {
        std::fs::remove_file(path).expect("the inventory");
        world.wait_firing("CnsInventoryFailing", &[("zone", MADE), ("instance", &world.instance(replica))]);
    }
    // What was read is served, and is not confirmed.
    world.assert_only(&["CnsInventoryFailing", "CnsTransferFailing"]);
    world.inventories.iter().for_each(|path| write_file(path, INVENTORY));
    world.wait_quiet();
    world
}

/// An inventory has an instance that reports itself down, another one of an unknown account, and then none at all.
pub fn instances_that_cannot_leave_or_be_judged_fire_and_so_does_an_inventory_that_has_lost_them() -> World {
    let world = World::start(&Plan { inventory: true, ..Plan::default() });
    let write = |vms: &str| {
        let text = format!(r#"{{"format":1,"vms":[{vms}]}}"#);
        world.inventories.iter().for_each(|path| write_file(path, &text));
    };
    let held = r#"{"alias":"a","owner":"o","addresses":"192.0.2.1","services":"web","status":"down"}"#;
    let lost = r#"{"alias":"b","owner_uuid":"11110000-0000-4000-8000-000000000001","addresses":"192.0.2.2"}"#;
    write(&format!("{held},{lost}"));
    for replica in 0..2 {
        let instance = world.instance(replica);
        world.wait_firing("CnsInstancesHeld", &[("zone", MADE), ("instance", &instance)]);
        world.wait_firing("CnsInstancesUndecided", &[("zone", MADE), ("instance", &instance)]);
    }
    // An inventory is confirmed every ten seconds, which is late for the shortened rule.
    world.assert_only(&["CnsInstancesHeld", "CnsInstancesUndecided", "CnsTransferFailing"]);
    write("");
    world.wait_firing("CnsTransferHeldBack", &[("zone", MADE), ("instance", &world.instance(0))]);
    world.inventories.iter().for_each(|path| write_file(path, INVENTORY));
    world.wait_quiet();
    world
}

/// The secondary hears nothing of a new version, and then of the next one.
pub fn a_secondary_that_is_told_nothing_fires_until_it_hears() -> World {
    let world = World::start(&Plan { inventory: true, ..Plan::default() });
    world.secondary.deafen(true);
    let changed = INVENTORY.replace("192.0.2.1", "192.0.2.7");
    world.inventories.iter().for_each(|path| write_file(path, &changed));
    let secondary = world.secondary.address.to_string();
    for replica in 0..2 {
        let labels = [("zone", MADE), ("secondary", &secondary), ("instance", &world.instance(replica))];
        world.wait_firing("CnsSecondaryBehind", &labels);
    }
    // An inventory is confirmed every ten seconds, which is late for the shortened rule.
    world.assert_only(&["CnsSecondaryBehind", "CnsTransferFailing"]);
    world.secondary.deafen(false);
    world.replicas.iter().for_each(|replica| assert_eq!(replica.verb(&["notify", MADE]).code, 0));
    world.wait_quiet();
    world
}

/// Another builder gives the zone of an inventory to the secondary.
pub fn a_second_builder_fires_until_it_is_gone() -> World {
    let world = World::start(&Plan { inventory: true, ..Plan::default() });
    let zone = Dname::parse(MADE);
    // Secondaries are asked once a minute, and at once by an inventory with other rules.
    let change = |from: &str, to: &str| {
        for replica in &world.replicas {
            let text = std::fs::read_to_string(replica.configuration()).expect("the configuration");
            assert!(text.contains(from), "{text}");
            std::fs::write(replica.configuration(), text.replace(from, to)).expect("written");
            assert_eq!(replica.verb(&["reload"]).code, 0);
        }
    };
    let rules = ["accounting = true\n", "accounting = true\nttl = 31\n"];
    world.primary.replace_zone(&zone, &rival_records(2_000_000_000));
    change(rules[0], rules[1]);
    for replica in 0..2 {
        world.wait_firing("CnsSecondBuilder", &[("zone", MADE), ("instance", &world.instance(replica))]);
    }
    world.assert_only(&["CnsSecondBuilder", "CnsTransferFailing"]);
    world.primary.replace_zone(&zone, &rival_records(2));
    change(rules[1], rules[0]);
    world.wait_quiet();
    world
}

/// VMAPI gives no change feed any more, and then not even an instance.
pub fn a_feed_that_is_lost_and_an_instance_that_cannot_be_read_fire() -> World {
    let world = World::start(&Plan { followed: true, ..Plan::default() });
    let double = world.triton.as_ref().expect("the services");
    double.fail_path(Service::Vmapi, Some("/vms/"));
    double.edit(|datacenter| datacenter.vm(FOLLOWED_VM)["state"] = json!("stopped"));
    for replica in 0..2 {
        world.wait_firing("CnsInventoryIncomplete", &[("zone", FOLLOWED), ("instance", &world.instance(replica))]);
    }
    world.assert_only(&["CnsInventoryIncomplete", "CnsTransferFailing"]);
    double.fail_path(Service::Vmapi, Some("/changefeeds"));
    double.cut_feeds(Cut::Drop);
    for replica in 0..2 {
        world.wait_firing("CnsInventoryFeedLost", &[("zone", FOLLOWED), ("instance", &world.instance(replica))]);
    }
    // The instance that cannot be read keeps the listing from its end.
    let alerts = ["CnsInventoryFeedLost", "CnsInventoryIncomplete", "CnsInventoryFailing", "CnsTransferFailing"];
    world.assert_only(&alerts);
    double.fail_path(Service::Vmapi, None);
    world.wait_quiet();
    world
}

/// The only ZooKeeper that both replicas have comes back without its data.
pub fn an_ensemble_that_was_wiped_fires_until_that_is_accepted() -> World {
    let mut world = World::start(&Plan { tree: true, ..Plan::default() });
    let server = world.zookeeper.as_mut().expect("a server");
    server.kill();
    server.wipe();
    server.restart();
    for replica in 0..2 {
        let instance = world.instance(replica);
        world.wait_firing("CnsTreeReset", &[("zone", TREE), ("reason", "missing"), ("instance", &instance)]);
    }
    // The session was away for a moment, and what is served is not confirmed.
    world.assert_only(&["CnsTreeReset", "CnsZooKeeperSessionLost", "CnsTransferFailing"]);
    (0..2).for_each(|replica| world.order(replica, &["retransfer", TREE, "--accept"]));
    world.wait_quiet();
    world
}

/// One replica is told to drain a datacenter, the other one to go back to an earlier version, and nobody ends that.
pub fn orders_that_one_replica_alone_was_given_fire_until_they_end() -> World {
    let world = World::start(&Plan::default());
    world.drain_and_pin();
    // Both have changed the region once by themselves, which is one drift; now it is another one.
    world.order(0, &["undrain", ZONES[0]]);
    world.order(0, &["drain", ZONES[0], "--yes"]);
    let instance = world.instance(0);
    world.wait_firing("CnsDrainForgotten", &[("member", ZONES[0]), ("region", REGION), ("instance", &instance)]);
    world.wait_firing("CnsPinForgotten", &[("region", REGION), ("instance", &world.instance(1))]);
    world.wait_firing("CnsReplicaSerialsApart", &[("region", REGION)]);
    for name in ["CnsDrainForgotten", "CnsPinForgotten"] {
        assert_eq!(world.firing(name).len(), 1, "{name}");
    }
    let orders = ["CnsDrainForgotten", "CnsPinForgotten", "CnsReplicaSerialsApart"];
    world.assert_only(&[&orders[..], &["CnsReplicaBehind"]].concat());
    world.order(0, &["undrain", ZONES[0]]);
    world.order(1, &["rollback", REGION, "--release", "--yes"]);
    // Both go on without a drift when the members alone give a serial that is newer.
    world.change(0, 2000);
    world.wait_quiet();
    world
}

/// One replica is asked the same by a network of loopback that is not the primary's, as fast as it answers.
pub fn a_flood_fires_until_it_is_over() -> World {
    let world = World::start(&Plan::default());
    let watched = Arc::new(());
    std::thread::scope(|scope| {
        // Whatever ends the look at the flood ends the flood, a failure too.
        let (watching, address) = (Arc::downgrade(&watched), world.replicas[0].address());
        let _watched = watched;
        scope.spawn(move || {
            let mut client = Client::new(address).with_source([127, 0, 7, 1].into());
            let query = Query::new(&Dname::parse(REGION), rtype::SOA);
            while watching.strong_count() > 0 {
                // Whoever floods does not care for answers.
                (0..100).for_each(|_| _ = client.send_udp(&query.encode(1)));
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let labels = [("class", "answer"), ("instance", &world.instance(0))];
        world.wait_firing("CnsResponsesLimited", &labels);
        world.assert_only(&["CnsResponsesLimited"]);
        let told = world.replicas[0].verb(&["status", "--problems"]);
        assert!(told.stdout.contains("rate limit: clients: 127.0.7.0/24 for "), "{told:?}");
    });
    world.wait_quiet();
    world
}

/// A service of a datacenter has more instances than resolvers take, until some of them leave. Answers of the region
/// have a part of them.
pub fn a_set_that_resolvers_refuse_fires_for_the_zone_that_has_no_law() -> World {
    let world = World::start(&Plan::default());
    let have = |instances: u8, serial| {
        let addresses: String = (0..instances).map(|host| format!("big.svc.acme 30 IN A 10.0.9.{host}\n")).collect();
        let records = zone_records(0, serial, 20, 2_592_000);
        let more = read_zone(&format!("$ORIGIN {}\n{addresses}", ZONES[0]));
        world.primary.replace_zone(&Dname::parse(ZONES[0]), &[records, more].concat());
    };
    have(101, 1100);
    for replica in 0..2 {
        let instance = world.instance(replica);
        world.wait_firing("CnsLargeSets", &[("zone", ZONES[0]), ("limit", "resolvers"), ("instance", &instance)]);
    }
    assert!(world.firing("CnsLargeSets").iter().all(|alert| alert.labels["zone"] == ZONES[0]));
    world.assert_only(&["CnsLargeSets"]);
    have(100, 1200);
    world.wait_quiet();
    world
}

/// A datacenter signs its zone no more, until a signature has an hour left. Then it does.
pub fn signatures_near_their_end_fire_until_the_zone_is_signed_anew() -> World {
    let world = World::start(&Plan::default());
    let sign = |hours: u64, serial| {
        let origin = Dname::parse(ZONES[0]);
        let records = zone_records(0, serial, 20, 2_592_000);
        let soa = records.iter().find(|record| record.rtype == rtype::SOA).expect("SOA");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let [expiration, inception] = [now + hours * 3600, now].map(|time| (time as u32).to_be_bytes());
        // Nobody here looks at what is signed.
        let head = [&rtype::SOA.to_be_bytes()[..], &[13, 4], &soa.ttl.to_be_bytes(), &expiration, &inception, &[0, 7]];
        let rdata = [head.concat(), origin.0.clone(), vec![1; 64]].concat();
        let signature = Record::new(&origin, rtype::RRSIG, soa.ttl, rdata);
        world.primary.replace_zone(&origin, &[records, vec![signature]].concat());
    };
    sign(1, 1100);
    for replica in 0..2 {
        let labels = [("zone", ZONES[0]), ("instance", &world.instance(replica))];
        world.wait_firing("CnsSignaturesExpire", &labels);
        let told = world.replicas[replica].verb(&["status", "--problems"]);
        assert!(told.stdout.contains("signatures: us-west-1.cns.example.com: a signature expires in 59m"), "{told:?}");
    }
    world.assert_only(&["CnsSignaturesExpire"]);
    sign(240, 1200);
    world.wait_quiet();
    world
}

/// A service leaves the datacenter of those who ask for it, until that is drained.
pub fn a_service_that_leaves_home_fires_until_its_home_is_drained() -> World {
    let world = World::start(&Plan { steered: true, ..Plan::default() });
    let have = |site: usize, has_service: bool, serial| {
        let service = if has_service { format!("api.svc.acme 30 IN A 10.{site}.9.1\n") } else { String::new() };
        let more = read_zone(&format!("$ORIGIN {}\n{service}", ZONES[site]));
        let records = [zone_records(site, serial, 20, 2_592_000), more].concat();
        world.primary.replace_zone(&Dname::parse(ZONES[site]), &records);
    };
    // The second octet is the number of the datacenter.
    let ask = |replica: &Aggregator| {
        let query = Query::new(&Dname::parse(&format!("api.svc.acme.{REGION}")), rtype::A);
        let answer = Client::new(replica.address()).ask(&query).expect("an answer").answer;
        answer.first().map(|record| record.rdata[1])
    };
    let wait_for = |what: &str, site: u8| {
        wait_until(what, PATIENCE, || world.replicas.iter().all(|replica| ask(replica) == Some(site)).then_some(()));
    };
    (0..3).for_each(|site| have(site, true, 1100));
    wait_for("clients are served at home", 2);
    have(2, false, 1200);
    wait_for("clients are served elsewhere", 0);
    let rule = "CnsClientsServedElsewhere";
    wait_until("the alert fires", PATIENCE, || {
        world.replicas.iter().for_each(|replica| assert!((0..20).all(|_| ask(replica) == Some(0))));
        (world.firing(rule).len() == 2).then_some(())
    });
    for replica in 0..2 {
        let instance = world.instance(replica);
        world.wait_firing(rule, &[("home", ZONES[2]), ("region", REGION), ("instance", &instance)]);
    }
    world.assert_only(&[rule]);
    (0..2).for_each(|replica| world.order(replica, &["drain", ZONES[2], "--yes"]));
    wait_until("nobody is expected at home", PATIENCE, || {
        world.replicas.iter().for_each(|replica| assert!((0..20).all(|_| ask(replica) == Some(0))));
        world.firing(rule).is_empty().then_some(())
    });
    (0..2).for_each(|replica| world.order(replica, &["undrain", ZONES[2]]));
    have(2, true, 1300);
    wait_for("clients are at home again", 2);
    world.wait_quiet();
    world
}

/// Two datacenters list name servers of their own, and the region has not been told which are its own.
pub fn members_that_have_no_name_server_in_common_fire_for_their_region() -> World {
    let world = World::start(&Plan::default());
    let list_alone = |is_alone: bool, serial| {
        for site in [1, 2] {
            let records = zone_records(site, serial, 20, 2_592_000);
            let own = Dname::parse(&format!("ns.{}", ZONES[site]));
            let (servers, mut records): (Vec<Record>, _) =
                records.into_iter().partition(|record| is_alone && record.rtype == rtype::NS);
            records.extend(servers.into_iter().take(1).map(|server| Record { rdata: own.0.clone(), ..server }));
            world.primary.replace_zone(&Dname::parse(ZONES[site]), &records);
        }
    };
    list_alone(true, 1100);
    for replica in 0..2 {
        let instance = world.instance(replica);
        world.wait_firing("CnsRegionNameServersUnknown", &[("region", REGION), ("instance", &instance)]);
    }
    world.assert_only(&["CnsRegionNameServersUnknown"]);
    list_alone(false, 1200);
    world.wait_quiet();
    world
}

/// The servers that the region lists as its own refuse to answer for it.
pub fn name_servers_that_do_not_have_the_region_fire_for_it_and_for_no_zone() -> World {
    let world = World::start(&Plan { probed: true, ..Plan::default() });
    for replica in 0..2 {
        let instance = world.instance(replica);
        // The primary answers for the datacenters' zones, and refuses to for the region.
        for server in ["ns1.example.com.", "ns2.example.com."] {
            let labels = [("zone", REGION), ("problem", "lame"), ("instance", &instance[..])];
            let server = format!("{server} {}", world.relays[replica][0].address());
            world.wait_firing("CnsNameServersInconsistent", &[&labels[..], &[("server", &server)]].concat());
        }
    }
    let firing = world.firing("CnsNameServersInconsistent");
    assert!(firing.iter().all(|alert| alert.labels["zone"] == REGION), "{firing:?}");
    world.assert_only(&["CnsNameServersInconsistent"]);
    world
}

/// No replica reaches a datacenter until its zone expires.
pub fn a_zone_near_its_end_fires_before_it_expires_and_its_region_after() -> World {
    let world = World::start(&Plan { expire: 12, ..Plan::default() });
    (0..2).for_each(|replica| world.relays[replica][0].cut(true));
    world.wait_firing("CnsNearExpiry", &[("zone", ZONES[0]), ("instance", &world.instance(0))]);
    world.wait_firing("CnsNearExpiry", &[("zone", ZONES[0]), ("instance", &world.instance(1))]);
    world.wait_firing("CnsRegionIncomplete", &[("region", REGION), ("state", "expired")]);
    world.wait_firing("CnsZoneNotServed", &[("zone", ZONES[0]), ("state", "expired")]);
    world.assert_only(&[&CUT_OFF[..], &["CnsNearExpiry", "CnsRegionIncomplete", "CnsZoneNotServed"]].concat());
    (0..2).for_each(|replica| world.relays[replica][0].cut(false));
    world.wait_quiet();
    world
}

/// No replica has ever reached a datacenter, and clients ask for its names.
pub fn a_datacenter_that_was_never_there_fires_for_its_region_and_for_what_clients_get() -> World {
    let world = World::start(&Plan { missing: true, ..Plan::default() });
    world.wait_firing("CnsRegionIncomplete", &[("region", REGION), ("state", "missing")]);
    world.wait_firing("CnsZoneNotServed", &[("zone", ZONES[0]), ("state", "not-ready")]);
    world.assert_only(&[&CUT_OFF[1..], &["CnsRegionIncomplete", "CnsZoneNotServed"]].concat());
    // Only the replica that is asked fails anybody.
    let mut client = Client::new(world.replicas[1].address());
    let query = Query::new(&Dname::parse(ZONES[0]), rtype::SOA);
    wait_until("CnsServerFailures fires", PATIENCE, || {
        assert_eq!(client.ask(&query).expect("an answer").rcode(), 2);
        (!world.firing("CnsServerFailures").is_empty()).then_some(())
    });
    world.wait_firing("CnsServerFailures", &[("instance", &world.instance(1))]);
    assert_eq!(world.firing("CnsServerFailures").len(), 1);
    (0..2).for_each(|replica| world.relays[replica][0].cut(false));
    world.wait_quiet();
    world
}

/// A datacenter changes while one replica cannot reach it.
pub fn a_replica_that_misses_changes_fires_as_behind() -> World {
    let world = World::start(&Plan::default());
    world.relays[1][0].cut(true);
    world.primary.replace_zone(&Dname::parse(ZONES[0]), &zone_records(0, 1100, 20, 2_592_000));
    world.wait_firing("CnsReplicaBehind", &[("region", REGION), ("instance", &world.instance(1))]);
    let behind = world.firing("CnsReplicaBehind");
    assert!(behind.iter().all(|alert| alert.labels["instance"] == world.instance(1)), "{behind:?}");
    world.assert_only(&[&CUT_OFF[..], &["CnsReplicaBehind"]].concat());
    world.relays[1][0].cut(false);
    world.wait_quiet();
    world
}

/// A datacenter loses nine of ten instances at once.
pub fn a_zone_that_is_held_back_fires_until_it_is_accepted() -> World {
    let world = World::start(&Plan::default());
    world.primary.replace_zone(&Dname::parse(ZONES[0]), &zone_records(0, 1100, 2, 2_592_000));
    for replica in 0..2 {
        world.wait_firing("CnsTransferHeldBack", &[("zone", ZONES[0]), ("instance", &world.instance(replica))]);
    }
    world.assert_only(&["CnsTransferHeldBack", "CnsTransferFailing"]);
    (0..2).for_each(|replica| world.order(replica, &["retransfer", ZONES[0], "--accept"]));
    world.wait_quiet();
    world
}

/// A catalog lists a zone that the configuration has itself, and then nothing, which an operator has to accept.
pub fn a_catalog_that_lists_in_vain_fires_until_it_does_not() -> World {
    let world = World::start(&Plan { catalog: true, ..Plan::default() });
    let publish = |serial: u32, zones: &[&str]| {
        world.primary.replace_zone(&Dname::parse(CATALOG), &read_zone(&catalog_text(serial, zones)));
    };
    publish(2, &[ZONES[0]]);
    for replica in 0..2 {
        world.wait_firing("CnsCatalogRefused", &[("catalog", CATALOG), ("instance", &world.instance(replica))]);
    }
    world.assert_only(&["CnsCatalogRefused"]);
    publish(3, &[]);
    for replica in 0..2 {
        world.wait_firing("CnsTransferHeldBack", &[("zone", CATALOG), ("instance", &world.instance(replica))]);
    }
    world.assert_only(&["CnsCatalogRefused", "CnsTransferHeldBack", "CnsTransferFailing"]);
    (0..2).for_each(|replica| world.order(replica, &["retransfer", CATALOG, "--accept"]));
    world.wait_quiet();
    world
}

/// A datacenter comes back with what it had before.
pub fn a_datacenter_that_was_set_back_fires_until_it_is_accepted() -> World {
    let world = World::start(&Plan::default());
    world.primary.replace_zone(&Dname::parse(ZONES[0]), &zone_records(0, 900, 20, 2_592_000));
    for replica in 0..2 {
        world.wait_firing("CnsPrimariesOlder", &[("zone", ZONES[0]), ("instance", &world.instance(replica))]);
    }
    world.assert_only(&[&CUT_OFF[..], &["CnsPrimariesOlder"]].concat());
    (0..2).for_each(|replica| world.order(replica, &["retransfer", ZONES[0], "--accept"]));
    world.wait_quiet();
    world
}

/// A datacenter's zone grows to several times the budget of both replicas.
pub fn a_zone_that_outgrows_the_budget_fires_until_it_fits() -> World {
    let world = World::start(&Plan { memory: Some("1MiB"), ..Plan::default() });
    let mut records = zone_records(0, 1100, 20, 2_592_000);
    let text: String =
        (0..5000).map(|index| format!("large{index}.{} 30 IN TXT \"{}\"\n", ZONES[0], "x".repeat(250))).collect();
    records.extend(read_zone(&text));
    world.primary.replace_zone(&Dname::parse(ZONES[0]), &records);
    for replica in 0..2 {
        world.wait_firing("CnsMemoryRefused", &[("zone", ZONES[0]), ("instance", &world.instance(replica))]);
    }
    assert!(world.firing("CnsMemoryRefused").iter().all(|alert| alert.labels["zone"] == ZONES[0]));
    world.assert_only(&[&CUT_OFF[..], &["CnsMemoryRefused"]].concat());
    world.change(0, 1200);
    world.wait_quiet();
    world
}

/// No question about what a datacenter removes arrives. The first time the whole zone tells at once.
pub fn a_primary_that_answers_no_questions_fires_until_the_whole_zone_tells() -> World {
    let world = World::start(&Plan { incremental: true, ..Plan::default() });
    let set = |questions| {
        world.relays.iter().for_each(|relays| relays[0].set(Weather { questions, ..Weather::default() }));
    };
    set(Questions::Lost);
    for (serial, instances) in [(1100, 19), (1200, 18)] {
        world.primary.replace_zone(&Dname::parse(ZONES[0]), &zone_records(0, serial, instances, 2_592_000));
        for replica in &world.replicas {
            let mut client = Client::new(replica.address());
            let zone = Dname::parse(ZONES[0]);
            wait_until("a replica has the change", PATIENCE, || (client.serial(&zone) == Some(serial)).then_some(()));
        }
    }
    for replica in 0..2 {
        world.wait_firing("CnsRecordsInDoubt", &[("zone", ZONES[0]), ("instance", &world.instance(replica))]);
    }
    world.assert_only(&[&CUT_OFF[..], &["CnsRecordsInDoubt"]].concat());
    set(Questions::Pass);
    (0..2).for_each(|replica| world.order(replica, &["retransfer", ZONES[0]]));
    world.wait_quiet();
    world
}

/// A replica is killed again and again; then the other one is stopped.
pub fn restarts_in_a_row_and_a_replica_that_is_away_fire() -> World {
    let mut world = World::start(&Plan::default());
    let instance = world.instance(0);
    let started = format!("aggregator_started_timestamp_seconds{{instance=\"{instance}\"}}");
    let mut seen = world.prometheus.query(&started)[0].1;
    for _ in 0..3 {
        assert_eq!(world.firing("CnsRestartLoop").len(), 0);
        world.replicas[0].kill_and_restart(|| ());
        seen = wait_until("Prometheus has seen the restart", PATIENCE, || {
            let now = world.prometheus.query(&started).first()?.1;
            (now > seen).then_some(now)
        });
    }
    world.wait_firing("CnsRestartLoop", &[("instance", &instance)]);
    world.assert_only(&["CnsRestartLoop", "CnsAggregatorDown"]);
    let mut stopped = world.replicas.pop().expect("a replica");
    assert!(stopped.stop().success());
    world.wait_firing("CnsAggregatorDown", &[("instance", &world.instance(1))]);
    world
}

/// One replica is told to read a file with a mistake; the other one can write no file.
pub fn a_mistake_in_the_file_and_a_full_disk_fire() -> World {
    let world = World::start(&Plan::default());
    let valid = std::fs::read_to_string(world.replicas[0].configuration()).unwrap();
    world.replicas[0].write_plan("[zones]\nmistake\n");
    assert_eq!(world.replicas[0].verb(&["reload"]).code, 1);
    world.wait_firing("CnsReloadFailed", &[("instance", &world.instance(0))]);
    world.assert_only(&["CnsReloadFailed"]);
    // No file of the other one may grow any more, which is what a full disk does to it.
    limit_files(world.replicas[1].id(), 0);
    world.primary.replace_zone(&Dname::parse(ZONES[0]), &zone_records(0, 1100, 20, 2_592_000));
    world.wait_firing("CnsStateNotWritten", &[("instance", &world.instance(1))]);
    world.assert_only(&["CnsReloadFailed", "CnsStateNotWritten"]);
    limit_files(world.replicas[1].id(), libc::RLIM_INFINITY);
    wait_until("the state is written again", PATIENCE, || world.firing("CnsStateNotWritten").is_empty().then_some(()));
    // However long ago that was, it is a fault until it is corrected.
    std::fs::write(world.replicas[0].configuration(), valid).unwrap();
    assert_eq!(world.replicas[0].verb(&["reload"]).code, 0);
    wait_until("the configuration is taken up", PATIENCE, || world.firing("CnsReloadFailed").is_empty().then_some(()));
    world
}

/// Lets no file of a process grow beyond a size.
fn limit_files(process: u32, bytes: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is valid for both calls, and the process is a child that runs.
    let status = unsafe {
        libc::prlimit(process as i32, libc::RLIMIT_FSIZE, std::ptr::null(), &raw mut limit);
        limit.rlim_cur = bytes.min(limit.rlim_max);
        libc::prlimit(process as i32, libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut())
    };
    assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
}
