//! Answers to clients of several homes, and for whom they hold (RFC 7871).

use super::region::{Ask, RESOLVER, Told, World, option};
use super::*;
use crate::merge::NamePattern;
use crate::select::{Law, Pick, Prefer, Services, Steering, Treatment};
use std::collections::HashSet;
use std::num::NonZeroU32;

const CLIENTS: [(&str, &str); 7] = [
    ("10.0.0.0/8", "w1.x"),
    ("10.1.0.0/16", "w2.x"),
    ("10.1.2.0/24", "w3.x"),
    // No member, but near to some.
    ("172.16.0.0/12", "e.x"),
    // No home in this region.
    ("198.51.100.0/24", "f.x"),
    ("2001:db8::/32", "w1.x"),
    ("2001:db8:1::/48", "w2.x"),
];

fn addresses(owner: &str, first: u8, count: u8) -> String {
    (0..count).map(|n| format!("{owner} 30 A 10.0.0.{}\n", first + n)).collect()
}

fn law(max: u32, pick: Pick) -> Law {
    Law { max: NonZeroU32::new(max), pick }
}

fn nearest() -> Steering {
    Steering { prefer: Prefer::Nearest, ..Steering::OFF }
}

/// A region whose clients get what the nearest member has.
fn world() -> World {
    let first = format!(
        "{}{}{}web 30 AAAA 2001:db8::1\ndb 30 A 10.0.0.4\nto 30 CNAME web.w.x.\nout 30 CNAME big.w1.x.\n\
         in 30 CNAME web.w.x.\ncut 30 NS ns.cut\nns.cut 30 A 10.0.0.9\nbad 30 TYPE65440 broken\nempty 30 TXT t\n\
         off 30 A 10.0.0.7\nfabric 30 A 10.88.0.6\ns 30 SRV 80 web.w.x.\n",
        addresses("web", 1, 2),
        addresses("*.dev", 5, 1),
        addresses("big", 100, 20),
    );
    let second = "web 30 A 10.0.0.11\nweb 30 AAAA 2001:db8::b\n*.dev 30 A 10.0.0.15\noff 30 A 10.0.0.17\n\
                  fabric 30 A 10.88.0.16\ns 30 SRV 81 big.w1.x.\n";
    let mut world = World::new([&first, second, "web 30 A 10.0.0.21\n"]).with_clients(&CLIENTS);
    world.region.usual.steering = nearest();
    world.region.near = vec![(Name::parse("e.x").unwrap(), vec![Name::parse("w3.x").unwrap()])];
    let exception = |owner: &str, steering| (NamePattern::parse(owner).unwrap(), Treatment { law: Law::ALL, steering });
    let order = Steering { prefer: Prefer::Order, ..Steering::OFF };
    world.region.names = ["off", "fabric"].map(|owner| exception(owner, Steering::OFF)).to_vec();
    world.region.names.push(exception("s", order));
    world.region.home_only = vec!["10.88.0.0/16".parse().unwrap()];
    world.zones.usual.law = law(8, Pick::Client);
    world
}

/// The answer to a question, which comes alike over UDP and TCP.
fn ask(published: &Published, ask: &Ask) -> Told {
    let told = ask.send(published);
    assert_eq!(Ask { datagram: false, ..ask.clone() }.send(published), told, "{ask:?}");
    told
}

#[test]
fn clients_get_what_is_near_and_resolvers_learn_for_whom_it_is() {
    let published = world().published();
    for (subnet, hosts, scope, why) in [
        ("10.1.2.0/24", &[21][..], 24, "the longest entry"),
        ("10.1.2.128/25", &[21], 24, "a part of it"),
        ("10.1.2.7/32", &[21], 24, "an address"),
        ("10.1.3.0/24", &[11], 24, "the neighbour of a nested entry"),
        ("10.1.4.0/24", &[11], 22, "farther from it"),
        ("10.1.128.0/24", &[11], 17, "the other half of the entry around it"),
        ("10.0.0.0/24", &[1, 2], 16, "the neighbour of that one"),
        ("10.2.0.0/24", &[1, 2], 15, "on its other side"),
        ("10.128.0.0/20", &[1, 2], 9, "the other half of the shortest entry"),
        ("10.1.0.0/16", &[11], 16, "longer entries inside do not count"),
        ("10.1.2.0/23", &[11], 23, "nor those in one half"),
        ("10.0.0.0/15", &[1, 2], 15, "as wide as two"),
        ("10.0.0.0/8", &[1, 2], 8, "as wide as all"),
        ("10.0.0.0/7", &[1, 2, 11, 21], 7, "wider than any entry"),
        ("11.0.0.0/24", &[1, 2, 11, 21], 8, "no client of anybody"),
        ("172.16.5.0/24", &[21], 12, "a home that is no member"),
        ("198.51.100.7/32", &[1, 2, 11, 21], 24, "a home of which the region knows nothing"),
        ("192.0.2.0/24", &[1, 2, 11, 21], 6, "far from all entries"),
        ("192.0.0.0/4", &[1, 2, 11, 21], 4, "an entry inside"),
        ("0.0.0.0/0", &[1, 2, 11, 21], 0, "the source address decides"),
        ("::/0", &[1, 2, 11, 21], 0, "likewise"),
        ("2001:db8:1::/48", &[11], 48, "IPv6"),
        ("2001:db8:1:8000::/64", &[11], 48, "a part of an entry"),
        ("2001:db8::/48", &[1, 2], 48, "the neighbour of a nested entry"),
        ("2001:db8:2::/56", &[1, 2], 47, "on its other side"),
        ("2001:db8:8000::/40", &[1, 2], 33, "the other half of the entry around it"),
        ("2001:db8::/32", &[1, 2], 32, "longer entries inside do not count"),
        ("2001:db9::/32", &[1, 2, 11, 21], 32, "no client of anybody"),
        ("::ffff:10.1.2.0/120", &[1, 2, 11, 21], 3, "IPv4 within IPv6 is none of the clients"),
    ] {
        let told = ask(&published, &Ask::of("web.w.x", rtype::A, subnet));
        assert_eq!(
            (told.rcode, told.hosts(), told.scope()),
            (rcode::NOERROR, hosts.to_vec(), Some(scope)),
            "{subnet}: {why}"
        );
        // What is written back is what came, but for the scope.
        let mut expected = option(subnet);
        expected[3] = scope;
        assert_eq!(told.option, Some(expected), "{subnet}: {why}");
    }
    // Without a resolver's word the source address decides.
    for (peer, hosts) in
        [("10.1.2.7", &[21][..]), ("::ffff:10.1.2.7", &[21]), ("2001:db8:1::7", &[11]), (RESOLVER, &[1, 2, 11, 21])]
    {
        for options in [Vec::new(), vec![option("0.0.0.0/0")]] {
            let told = ask(&published, &Ask { peer: peer.parse().unwrap(), options, ..Ask::new("web.w.x", rtype::A) });
            assert_eq!(told.hosts(), hosts, "{peer}");
        }
    }
}

#[test]
fn the_longest_scope_of_all_steps_counts_and_none_where_all_get_the_same() {
    let published = world().published();
    for (owner, qtype, code, scope, why) in [
        ("web.w.x", rtype::A, rcode::NOERROR, 22, "a steered set"),
        ("web.w.x", rtype::AAAA, rcode::NOERROR, 22, "of either family"),
        ("any.dev.w.x", rtype::A, rcode::NOERROR, 22, "a wildcard's"),
        ("web.w.x", rtype::ANY, rcode::NOERROR, 22, "asked for as any"),
        ("to.w.x", rtype::A, rcode::NOERROR, 22, "behind an alias"),
        ("in.w1.x", rtype::A, rcode::NOERROR, 22, "behind an alias of a datacenter"),
        ("out.w.x", rtype::A, rcode::NOERROR, 24, "behind an alias to a datacenter that has a law of its own"),
        ("big.w1.x", rtype::A, rcode::NOERROR, 24, "the datacenter itself"),
        ("s.w.x", rtype::SRV, rcode::NOERROR, 24, "addresses beside it are by client"),
        ("fabric.w.x", rtype::A, rcode::NOERROR, 22, "addresses for clients at home only"),
        ("off.w.x", rtype::A, rcode::NOERROR, 0, "without steering"),
        ("db.w.x", rtype::A, rcode::NOERROR, 0, "one contributor"),
        ("web.w1.x", rtype::A, rcode::NOERROR, 0, "a whole set of a datacenter"),
        ("to.w.x", rtype::CNAME, rcode::NOERROR, 0, "the alias itself"),
        ("w.x", rtype::SOA, rcode::NOERROR, 0, "an apex"),
        ("web.w.x", rtype::TXT, rcode::NOERROR, 0, "no data"),
        ("empty.w.x", rtype::A, rcode::NOERROR, 0, "no addresses"),
        ("nothing.w.x", rtype::A, rcode::NXDOMAIN, 0, "no such name"),
        ("a.cut.w.x", rtype::A, rcode::NOERROR, 0, "a referral"),
        ("bad.w.x", rtype::A, rcode::SERVFAIL, 0, "nobody knows"),
        ("web.w.x", rtype::AXFR, rcode::REFUSED, 0, "a transfer"),
        ("y", rtype::A, rcode::REFUSED, 0, "no zone of ours"),
    ] {
        let told = ask(&published, &Ask::of(owner, qtype, "10.1.4.0/24"));
        assert_eq!((told.rcode, told.scope()), (code, Some(scope)), "{owner}: {why}");
    }
    let hosts = |owner: &str, subnet: &str| ask(&published, &Ask::of(owner, rtype::A, subnet)).hosts();
    assert_eq!((hosts("any.dev.w.x", "10.1.4.0/24"), hosts("any.dev.w.x", "10.9.0.0/24")), (vec![15], vec![5]));
    assert_eq!((hosts("fabric.w.x", "10.1.4.0/24"), hosts("fabric.w.x", "10.9.0.0/24")), (vec![16], vec![6]));
    assert_eq!(hosts("fabric.w.x", "192.0.2.0/24"), [6, 16], "there is nothing else");
}

#[test]
fn options_are_heard_from_resolvers_on_the_list_only() {
    let published = world().published();
    let bare = Ask::new("web.w.x", rtype::A);
    for (data, why) in [
        (&[0, 1, 24, 0, 10, 1][..], "an octet short"),
        (&[0, 1, 16, 0, 10, 1, 2], "an octet more"),
        (&[0, 1, 23, 0, 10, 1, 3], "bits behind SOURCE"),
        (&[0, 1, 24, 24, 10, 1, 2], "a SCOPE"),
        (&[0, 1, 33, 0, 10, 1, 2, 0, 0], "SOURCE above 32"),
        (&[0, 2, 129, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 0], "SOURCE above 128"),
        (&[0, 0, 8, 0, 10], "FAMILY 0 with a subnet"),
        (&[0, 3, 8, 0, 10], "FAMILY 3"),
        (&[0, 3, 0, 0], "FAMILY 3 without a subnet"),
        (&[0, 1, 0, 0, 0], "an octet without SOURCE"),
        (&[0, 1, 24], "no whole head"),
        (&[], "nothing"),
    ] {
        let wrong = Ask { options: vec![data.to_vec()], ..bare.clone() };
        let told = ask(&published, &wrong);
        assert_eq!((told.rcode, told.option, told.records.len()), (rcode::FORMERR, None, 0), "{why}");
        let stranger = ask(&published, &Ask { peer: "192.0.2.54".parse().unwrap(), ..wrong.clone() });
        assert_eq!((stranger.rcode, stranger.option, stranger.records.len()), (rcode::NOERROR, None, 4), "{why}");
        // The first counts, whatever follows it.
        let valid = option("10.1.2.0/24");
        let after = ask(&published, &Ask { options: vec![valid.clone(), data.to_vec()], ..bare.clone() });
        assert_eq!((after.rcode, after.scope(), after.hosts()), (rcode::NOERROR, Some(24), vec![21]), "{why}");
        let before = ask(&published, &Ask { options: vec![data.to_vec(), valid], ..bare.clone() });
        assert_eq!((before.rcode, before.option), (rcode::FORMERR, None), "{why}");
    }
    let both = Ask { options: ["10.1.2.0/24", "10.1.4.0/24"].map(option).to_vec(), ..bare.clone() };
    assert_eq!(ask(&published, &both).hosts(), [21]);
    let none = ask(&published, &Ask { options: vec![vec![0; 4]], ..bare.clone() });
    assert_eq!(
        (none.rcode, none.option.clone(), none.hosts().len()),
        (rcode::NOERROR, Some(vec![0; 4]), 4),
        "FAMILY 0"
    );
    // Strangers are clients themselves.
    let stranger = Ask { peer: "10.1.2.7".parse().unwrap(), ..Ask::of("web.w.x", rtype::A, "10.1.4.0/24") };
    let told = ask(&published, &stranger);
    assert_eq!((told.option.is_none(), told.hosts()), (true, vec![21]));
    let mapped =
        Ask { peer: format!("::ffff:{RESOLVER}").parse().unwrap(), ..Ask::of("web.w.x", rtype::A, "10.1.4.0/24") };
    assert_eq!(ask(&published, &mapped).scope(), Some(22), "IPv4 over a socket for both");
}

#[test]
fn scopes_are_as_long_as_what_else_chose_by_the_client() {
    let (few, many) = (world(), [addresses("web", 1, 30), addresses("web", 50, 30)]);
    let by_client = || {
        let mut world = World::new([&many[0], &many[1], "web 30 A 10.0.0.201\n"]).with_clients(&CLIENTS);
        world.region.usual.law = law(8, Pick::Client);
        world
    };
    let steered = || {
        let mut world = by_client();
        world.region.usual.steering = nearest();
        world
    };
    let shared = World { shares: [50, 0, 0], ..few.clone() };
    let mut shares_alone = shared.clone();
    shares_alone.region.usual.steering = Steering::OFF;
    shares_alone.region.home_only.clear();
    for (world, name, scopes) in [
        // Of 10.1.4.0/24, 10.1.2.7/32, 10.1.0.0/20, 2001:db8:2::/64, 2001:db8:8000::/40.
        (few, "steered", [22, 24, 20, 47, 33]),
        (by_client(), "by client", [24, 24, 20, 56, 40]),
        (steered(), "both", [24, 24, 20, 56, 40]),
        (shared, "steered, with a share", [24, 24, 20, 56, 40]),
        (shares_alone, "a share", [24, 24, 20, 56, 40]),
    ] {
        let published = world.published();
        let of = |subnet| ask(&published, &Ask::of("web.w.x", rtype::A, subnet)).scope().unwrap();
        let subnets = ["10.1.4.0/24", "10.1.2.7/32", "10.1.0.0/20", "2001:db8:2::/64", "2001:db8:8000::/40"];
        assert_eq!(subnets.map(of), scopes, "{name}");
    }
    // A set that is cut without regard to anybody holds for everybody.
    let mut rotating = by_client();
    rotating.region.usual.law = law(8, Pick::Rotate);
    let told = ask(&rotating.published(), &Ask::of("web.w.x", rtype::A, "10.1.4.0/24"));
    assert_eq!((told.records.len(), told.scope()), (8, Some(0)));
}

#[test]
fn an_answer_that_is_a_part_of_a_set_is_counted_once() {
    let all: String = (0..4500).map(|n| format!("web 30 A 10.0.{}.{}\n", n / 250, n % 250)).collect();
    let mut world = World::new([&all, "web 30 A 10.1.0.1\n", ""]).with_clients(&CLIENTS);
    world.region.usual = Treatment { law: Law::ALL, steering: Steering { prefer: Prefer::Order, ..Steering::OFF } };
    let published = world.published();
    let ask = Ask { datagram: false, ..Ask::of("web.w.x", rtype::A, "10.0.0.0/24") };
    assert!(ask.send(&published).records.len() > 4000);
    let served = published.find(b"\x01w\x01x\x00").unwrap();
    assert_eq!(served.selections.orders.tally.served(Some(0), Some(0)), 1);
}

#[test]
fn names_of_a_wildcard_have_one_window_for_each_client() {
    let [first, second] = [addresses("*.dev", 1, 30), addresses("*.dev", 50, 30)];
    let mut world = World::new([&first, &second, ""]).with_clients(&CLIENTS);
    world.region.usual = Treatment { law: law(4, Pick::Client), steering: nearest() };
    let published = world.published();
    let hosts = |owner: &str, subnet: &str| ask(&published, &Ask::of(owner, rtype::A, subnet)).hosts();
    let mut all = HashSet::new();
    for net in 8..40 {
        let subnet = format!("10.1.{net}.0/24");
        let own = hosts("a.dev.w.x", &subnet);
        assert_eq!((own.len(), &own), (4, &hosts("b.c.dev.w.x", &subnet)));
        assert!(own.iter().all(|host| *host >= 50), "of its home: {own:?}");
        all.insert(own);
    }
    assert!(all.len() >= 30, "{}", all.len());
}

#[test]
fn the_option_has_its_room_and_stays_in_what_is_truncated() {
    let [first, second] = [addresses("web", 1, 40), addresses("web", 50, 20)];
    let mut world = World::new([&first, &second, ""]).with_clients(&CLIENTS);
    world.region.usual.steering = nearest();
    let published = world.published();
    for subnet in ["10.0.0.0/24", "10.0.0.1/32", "10.0.0.0/9", "2001:db8::/48", "2001:db8::1/128"] {
        let data = option(subnet);
        let whole = Ask::of("web.w.x", rtype::A, subnet).send(&published);
        let without = Ask { peer: "10.0.0.1".parse().unwrap(), ..Ask::new("web.w.x", rtype::A) }.send(&published);
        assert_eq!((whole.records.len(), whole.length), (40, without.length + 4 + data.len()), "{subnet}");
        let at = |payload: usize| {
            let told = Ask { payload: payload as u16, ..Ask::of("web.w.x", rtype::A, subnet) }.send(&published);
            (told.is_truncated, told.records.len(), told.option == whole.option)
        };
        assert_eq!(at(whole.length), (false, 40, true), "{subnet}");
        assert_eq!(at(whole.length - 1), (true, 0, true), "{subnet}");
    }
}

#[test]
fn services_are_told_by_priority_and_hold_for_the_same_clients() {
    let mut world = world();
    world.region.names.clear();
    world.region.usual.steering.services = Services::Priority;
    let published = world.published();
    let told = |subnet: &str| {
        let told = ask(&published, &Ask::of("s.w.x", rtype::SRV, subnet));
        let mut services: Vec<(u16, u16)> = Vec::new();
        for (_, rdata) in &told.records {
            services.push((u16::from_be_bytes([rdata[0], rdata[1]]), u16::from_be_bytes([rdata[4], rdata[5]])));
        }
        services.sort_unstable();
        services
    };
    assert_eq!(told("10.0.0.0/24"), [(0, 80), (1000, 81)]);
    assert_eq!(told("10.1.4.0/24"), [(0, 81), (1000, 80)]);
    // Behind w3.x, which has none.
    assert_eq!(told("10.1.2.0/24"), [(1000, 80), (2000, 81)]);
    assert_eq!(told("192.0.2.0/24"), [(0, 80), (0, 81)], "no home");
}
