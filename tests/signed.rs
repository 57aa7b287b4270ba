//! Signed member zones: answers with signatures and denials, against Knot's, over generated zones.

mod harness;
#[path = "signed/zones.rs"]
mod zones;

use harness::{
    Aggregator, Client, Dname, Folder, Knotd, Message, PackagedResolver, Query, Random, Record, ZoneText, rtype,
    wait_until,
};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use zones::{Denial, Plan, above, key};

const DNSKEY: u16 = 48;
const NSEC3: u16 = 50;
const NSEC3PARAM: u16 = 51;
/// The flag AD.
const AUTHENTIC: u16 = 0x0020;

/// Types that are asked for at every name.
const TYPES: [u16; 16] = [
    rtype::A,
    rtype::AAAA,
    rtype::TXT,
    rtype::NS,
    rtype::DS,
    rtype::SOA,
    rtype::CNAME,
    rtype::MX,
    rtype::SRV,
    DNSKEY,
    rtype::NSEC,
    NSEC3,
    NSEC3PARAM,
    rtype::DNAME,
    rtype::RRSIG,
    rtype::ANY,
];

/// Size of datagrams, which many answers do not fit.
const DATAGRAM: u16 = 600;
/// Octets by which an answer of Knot's may be shorter.
const MOST_COMPRESSED: usize = 150;

/// Generates and signs zones.
fn sign_zones(folder: &Folder, seed: u64, count: usize) -> (Vec<Plan>, Vec<ZoneText>) {
    let plans: Vec<Plan> = (0..count).map(|number| Plan::generate(seed, number)).collect();
    let texts = plans.iter().map(|plan| plan.sign(&home(folder, &plan.origin))).collect();
    (plans, texts)
}

/// The folder in which a zone is signed.
fn home(folder: &Folder, origin: &Dname) -> PathBuf {
    folder.subfolder(&format!("sign-{origin}"))
}

/// The zones' names.
fn origins(plans: &[Plan]) -> Vec<&Dname> {
    plans.iter().map(|plan| &plan.origin).collect()
}

/// Starts our daemon with the zones of a primary and more of a configuration, and waits until it serves them.
fn follow(folder: &Folder, zones: &[&Dname], primary: SocketAddr, more: &str) -> Aggregator {
    let lines = zones.iter().map(|zone| format!("\"{zone}\" = \"{primary}\"\n"));
    let allowed = "[secondaries]\nallow_transfer = [\"127.0.0.1\"]\n";
    let ours = Aggregator::start(folder, &format!("{allowed}[zones]\n{}{more}", lines.collect::<String>()));
    let mut client = Client::new(ours.address());
    for zone in zones {
        wait_until(&format!("our daemon serves {zone}"), Duration::from_secs(60), || client.serial(zone));
    }
    ours
}

/// Records without their order and the case of their owners.
fn set(records: &[Record]) -> BTreeSet<Record> {
    records.iter().map(Record::canonical).collect()
}

/// What differs between an answer of Knot's and ours.
fn differences(query: &Query, tcp: bool, knot: &Message, ours: &Message) -> Vec<String> {
    let mut found = Vec::new();
    let flags = |message: &Message| (message.rcode(), message.is_authoritative(), message.is_truncated());
    // Knot compresses more: names in RDATA, too.
    let is_full = knot.is_truncated() || knot.size + MOST_COMPRESSED > DATAGRAM.into();
    if (knot.is_truncated() || ours.is_truncated()) && knot.rcode() == ours.rcode() && is_full {
        return found;
    }
    let aliases = |kind| ours.answer.iter().any(|record| record.rtype == kind);
    // Where a DNAME leads is no part of an answer to ANY.
    let is_any = query.rtype == rtype::ANY && aliases(rtype::DNAME);
    // Knot does not follow an alias for a question for NSEC, which validators refuse where NSEC3 denies.
    let is_nsec = query.rtype == rtype::NSEC && aliases(rtype::CNAME);
    if is_any || is_nsec {
        return found;
    }
    if flags(knot) != flags(ours) {
        found.push(format!("flags {:04x}, {:04x}", knot.flags, ours.flags));
    }
    for (section, knot, ours) in [
        ("answer", &knot.answer, &ours.answer),
        ("authority", &knot.authority, &ours.authority),
        ("additional", &knot.additional, &ours.additional),
    ] {
        let (theirs, own) = (set(knot), set(ours));
        // Where a wildcard's NSEC record is asked for by another name, Knot leaves it out of the proof.
        let is_proven = query.rtype == rtype::NSEC && section == "authority" && own.is_superset(&theirs);
        let is_left_out = !tcp && is_full && section == "additional" && theirs.is_superset(&own);
        if theirs != own && !is_proven && !is_left_out || own.len() != ours.len() {
            found.push(format!("{section} {knot:#?}, {ours:#?}"));
        }
    }
    found
}

#[test]
fn answers_from_signed_zones_are_those_of_knot() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let seed = number("AGGREGATOR_DIFF_SEED").unwrap_or(20_261_126);
    println!("seed {seed}: AGGREGATOR_DIFF_SEED={seed} repeats this run");
    let folder = Folder::new();
    let (plans, texts) = sign_zones(&folder, seed, number("AGGREGATOR_DIFF_ZONES").unwrap_or(30) as usize);
    let knot = Knotd::start(&folder, &texts);
    let ours = follow(&folder, &origins(&plans), knot.address(), "");
    let (mut knot, mut client) = (Client::new(knot.address()), Client::new(ours.address()));
    let (mut asked, mut truncated, mut wrong) = (0, 0, Vec::new());
    let mut random = Random::new(seed, 1 << 40);
    for plan in &plans {
        for (name, kind) in plan.names.iter().flat_map(|name| TYPES.map(|kind| (name, kind))) {
            let (dnssec_ok, tcp) = (!random.chance(10), random.chance(50));
            let query = Query { edns: Some(if tcp { 1232 } else { DATAGRAM }), dnssec_ok, ..Query::new(name, kind) };
            let ask = |client: &mut Client| if tcp { client.ask_tcp(&query) } else { client.ask(&query) };
            let [theirs, own] = [&mut knot, &mut client].map(|client| ask(client).expect("an answer"));
            asked += 1;
            truncated += usize::from(own.is_truncated());
            let found = differences(&query, tcp, &theirs, &own);
            if !found.is_empty() {
                let how = format!("{:?} {name} {kind}, DO {dnssec_ok}, TCP {tcp}", plan.denial);
                wrong.push(format!("{how}: {}\n{}", found.join("; "), plan.text));
            }
        }
    }
    println!("{asked} questions, {truncated} truncated, {} answers differ", wrong.len());
    wrong.iter().take(8).for_each(|text| println!("---\n{text}"));
    assert!(wrong.is_empty() && asked > 10_000 && truncated > 100);
}

/// Runs a validator, which must like what it finds.
fn run(program: &str, arguments: &[&str], home: &Path) -> String {
    let output = Command::new(program).args(arguments).current_dir(home).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    text
}

#[test]
fn validators_accept_every_answer_along_a_chain_from_a_key() {
    let folder = Folder::new();
    let (plans, mut texts) = sign_zones(&folder, 7, 6);
    let homes: Vec<(Dname, PathBuf)> =
        plans.iter().map(|plan| (plan.origin.clone(), home(&folder, &plan.origin))).collect();
    let below: Vec<(Dname, &Path)> = homes.iter().map(|(zone, home)| (zone.clone(), home.as_path())).collect();
    let top = Dname::parse("test.");
    texts.push(above(&top, &home(&folder, &top), &below));
    let knot = Knotd::start(&folder, &texts);
    let zones: Vec<&Dname> = origins(&plans).into_iter().chain([&top]).collect();
    let ours = follow(&folder, &zones, knot.address(), "");
    let key = key(&home(&folder, &top));
    let unbound = PackagedResolver::start_validating(&folder, &zones, &key, ours.address());
    let mut client = Client::new(ours.address());
    let (mut secure, mut optional) = (0, 0);
    for plan in &plans {
        for (name, kind) in plan.names.iter().flat_map(|name| TYPES.map(|kind| (name, kind))) {
            let query = Query { edns: Some(1232), dnssec_ok: true, ..Query::new(name, kind) };
            let own = client.ask_tcp(&query).expect("an answer");
            // Elsewhere there is nobody, and signatures are not signed.
            let leads_away = own.answer.iter().any(|record| format!("{record}").contains("elsewhere."));
            // Unbound goes on from the alias that follows from a DNAME, though it was asked for.
            let is_followed = kind == rtype::CNAME && own.answer.iter().any(|record| record.rtype == rtype::DNAME);
            if is_followed || leads_away || !own.is_authoritative() || matches!(kind, rtype::RRSIG | rtype::ANY) {
                continue;
            }
            let answer = unbound.resolve_signed(name, kind).expect("an answer");
            assert_eq!(answer.rcode(), own.rcode(), "{:?} {name} {kind}: {own:#?}\n{}", plan.denial, plan.text);
            // Whoever opts out proves nothing of names that may be delegated (RFC 5155 section 9.2).
            let is_secure = answer.flags & AUTHENTIC != 0;
            assert!(
                is_secure || plan.denial == Denial::OptOut && !own.authority.is_empty(),
                "{:?} {name} {kind}: {own:#?}\n{}",
                plan.denial,
                plan.text
            );
            secure += usize::from(is_secure);
            optional += usize::from(!is_secure);
        }
    }
    println!("{secure} answers are secure, {optional} need not be");
    assert!(secure > 2000 && optional < secure);

    // BIND's validator, over answers of each kind; and the zones as they are handed on, with two that verify them.
    let port = ours.address().port().to_string();
    let fields: Vec<&str> = key.lines().last().expect("a record").split_whitespace().collect();
    let anchor = format!(
        "trust-anchors {{ \"test.\" static-key {} {} {} \"{}\"; }};\n",
        fields[3],
        fields[4],
        fields[5],
        fields[6..].concat()
    );
    std::fs::write(folder.path().join("anchor"), anchor).expect("the anchor is written");
    for plan in &plans {
        let origin = plan.origin.to_string();
        for (name, kind) in [
            (origin.clone(), "SOA"),
            (format!("ns1.{origin}"), "A"),
            (format!("ns1.{origin}"), "TXT"),
            (format!("no.such.{origin}"), "A"),
        ] {
            let text =
                run("delv", &["@127.0.0.1", "-p", &port, "-a", "anchor", "+root=test.", &name, kind], folder.path());
            assert!(text.contains("fully validated"), "{name} {kind}: {text}");
        }
        let file = folder.path().join("dump");
        std::fs::write(&file, ours.verb(&["dump", &origin]).stdout).expect("the dump is written");
        run("ldns-verify-zone", &["dump"], folder.path());
        run("dnssec-verify", &["-z", "-o", &origin, "dump"], folder.path());
        let mut other = Client::new(knot.address());
        assert_eq!(
            set(&client.transfer(&plan.origin).expect("ours")),
            set(&other.transfer(&plan.origin).expect("Knot's"))
        );
    }
}

/// Types of records.
fn types(records: &[Record]) -> Vec<u16> {
    records.iter().map(|record| record.rtype).collect()
}

#[test]
fn a_region_has_no_dnssec_and_leads_to_signed_answers() {
    let folder = Folder::new();
    let mut plans = [0, 1].map(|number| Plan::generate(9, number));
    for plan in &mut plans {
        plan.text = "$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 86400 60\n@ NS ns1\nns1 A 192.0.2.1\nhost A 192.0.2.2\n\
                     alias CNAME host\n_s._tcp.web SRV 0 0 80 host\nsub NS ns1.sub\nns1.sub A 192.0.2.3\n\
                     sub DS 12345 13 2 2BB183AF5F22588179A53B0A98631FAD1A292118DBF2B0D0A2B1A4E3D8A5C7E1\n"
            .into();
    }
    let texts: Vec<ZoneText> = plans.iter().map(|plan| plan.sign(&home(&folder, &plan.origin))).collect();
    let knot = Knotd::start(&folder, &texts);
    let region = Dname::parse("region.test.");
    let more = "[aggregations.\"region.test\"]\nmembers = [\"z0.test\", \"z1.test\"]\n";
    let ours = follow(&folder, &origins(&plans), knot.address(), more);
    let mut client = Client::new(ours.address());
    wait_until("our daemon serves the region", Duration::from_secs(60), || client.serial(&region));
    let mut ask = |name: &str, kind| {
        let query = Query { edns: Some(1232), dnssec_ok: true, ..Query::new(&Dname::parse(name), kind) };
        client.ask(&query).expect("an answer")
    };
    let answer = ask("alias.region.test.", rtype::A);
    assert_eq!(types(&answer.answer), [rtype::CNAME, rtype::A, rtype::RRSIG], "{answer:?}");
    assert_eq!(answer.answer[2].owner, Dname::parse("host.z0.test."));
    let answer = ask("_s._tcp.web.region.test.", rtype::SRV);
    assert_eq!(types(&answer.answer), [rtype::SRV, rtype::SRV], "{answer:?}");
    assert_eq!(types(&answer.additional), [rtype::A, rtype::RRSIG, rtype::A, rtype::RRSIG], "{answer:?}");
    // What it does not have it does not prove, and a delegation in it is not secure.
    let answer = ask("no.region.test.", rtype::A);
    assert_eq!((answer.rcode(), types(&answer.authority)), (3, vec![rtype::SOA]), "{answer:?}");
    assert_eq!(types(&ask("x.sub.region.test.", rtype::A).authority), [rtype::NS]);
    let records = client.transfer(&region).expect("the region");
    let foreign = [rtype::DS, rtype::RRSIG, rtype::NSEC, NSEC3, NSEC3PARAM, DNSKEY];
    assert!(records.len() > 5 && records.iter().all(|record| !foreign.contains(&record.rtype)), "{records:?}");
    let told = ours.verb(&["lookup", "sub.region.test"]);
    assert!(told.stdout.contains("DNSSEC records are about the member's own names"), "{told:?}");
    let told = ours.verb(&["status", "z0.test"]);
    assert!(told.stdout.contains("signed (NSEC); the first signature expires in 29d"), "{told:?}");
}
