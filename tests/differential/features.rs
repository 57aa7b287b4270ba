//! The corners that zones are made of.

use crate::generate::Builder;
use crate::harness::{Dname, rtype};

/// Features that a zone may get.
pub const ALL: &[fn(&mut Builder)] = &[
    add_hosts,
    add_hosts,
    add_services,
    add_wildcard,
    add_wildcard,
    add_wildcard_alias,
    add_wildcard_in_the_middle,
    add_alias_chain,
    add_alias_chain,
    add_long_alias_chain,
    add_alias_loop,
    add_aliases,
    add_dname,
    add_dname,
    add_dname_chain,
    add_dname_loop,
    add_dname_overflow,
    add_delegation,
    add_delegation,
    add_wide_delegation,
    add_delegation_beside_wildcard,
    add_deep_names,
    add_odd_types,
    add_odd_labels,
    add_long_names,
    add_large_set,
    add_long_texts,
    add_dns_sd,
];

/// SOA and NS; the name servers lie in the zone, in another or outside.
pub fn add_apex(b: &mut Builder) {
    let origin = b.origin.clone();
    let mut soa = [Dname::parse("ns.outside.example.").0, Dname::parse("hostmaster.outside.example.").0].concat();
    let minimum = *b.random.pick(&[60, 900, 86_400]);
    for number in [2_026_000_001_u32, 3_600, 900, 1_209_600, minimum] {
        soa.extend_from_slice(&number.to_be_bytes());
    }
    b.add(&origin, rtype::SOA, soa);
    for number in 0..b.random.between(1, 3) {
        let label = format!("ns{number}");
        let server = b.below(&origin, label.as_bytes());
        if b.random.chance(50) {
            b.add_addresses(&server, 2);
            b.add(&origin, rtype::NS, server.0);
        } else {
            let server = if b.random.chance(50) { Dname::parse("ns.outside.example.") } else { b.target() };
            b.add(&origin, rtype::NS, server.0);
        }
    }
    if b.random.chance(30) {
        b.add_addresses(&origin, 2);
    }
}

/// The delegation of a zone that is served here as well, with data that it hides.
pub fn add_served_child(b: &mut Builder, child: &Dname) {
    let server = b.below(child, b"ns0");
    b.add(child, rtype::NS, server.0.clone());
    if b.random.chance(60) {
        b.add_addresses(&server, 2);
    }
    if b.random.chance(40) {
        add_ds(b, child);
    }
    if b.random.chance(40) {
        let hidden = b.below(child, b"only-in-parent");
        b.add_addresses(&hidden, 1);
    }
}

fn add_ds(b: &mut Builder, owner: &Dname) {
    let mut rdata = vec![0x12, 0x34, 8, 2];
    rdata.extend((0..32).map(|octet| octet as u8));
    b.add(owner, rtype::DS, rdata);
}

fn add_hosts(b: &mut Builder) {
    for _ in 0..b.random.between(1, 4) {
        let name = b.name();
        b.add_addresses(&name, 3);
        if b.random.chance(40) {
            b.add(&name, rtype::TXT, [&b"\x05first\x06second\x00"[..], &[3, b'a', 0xff, 0]].concat());
        }
    }
}

fn add_services(b: &mut Builder) {
    for _ in 0..b.random.between(1, 3) {
        let (owner, target) = (b.name(), b.target());
        b.add(&owner, rtype::MX, [&[0, 10], &target.0[..]].concat());
        let (owner, target) = (b.name(), b.target());
        b.add(&owner, rtype::SRV, [&[0, 0, 0, 10, 0x1f, 0x90], &target.0[..]].concat());
    }
}

fn add_wildcard(b: &mut Builder) {
    let mut parent = if b.random.chance(40) { b.origin.clone() } else { b.name() };
    if b.random.chance(20) {
        parent = b.below(&parent, b"ent");
    }
    let wildcard = b.below(&parent, b"*");
    b.add_addresses(&wildcard, 2);
    if b.random.chance(40) {
        let target = b.target();
        b.add(&wildcard, rtype::MX, [&[0, 5], &target.0[..]].concat());
    }
    if b.random.chance(60) {
        // A name beside it, or below a name beside it, which takes its whole branch out of the wildcard.
        let label = b.label();
        let mut beside = b.below(&parent, &label);
        if b.random.chance(50) {
            beside = b.below(&beside, b"below");
        }
        b.add(&beside, rtype::TXT, *b"\x06beside");
    }
}

fn add_wildcard_alias(b: &mut Builder) {
    let parent = b.name();
    let wildcard = b.below(&parent, b"*");
    let target = if b.random.chance(20) { b.below(&parent, b"again") } else { b.target() };
    b.add(&wildcard, rtype::CNAME, target.0);
}

fn add_wildcard_in_the_middle(b: &mut Builder) {
    let parent = b.name();
    let wildcard = b.below(&parent, b"*");
    let label = b.label();
    // The asterisk itself is an empty non-terminal unless something else puts data there.
    let inner = b.below(&wildcard, &label);
    b.add_addresses(&inner, 1);
    if b.random.chance(30) {
        let twice = b.below(&wildcard, b"*");
        b.add(&twice, rtype::TXT, *b"\x05twice");
    }
}

fn add_alias_chain(b: &mut Builder) {
    let length = b.random.between(1, 5);
    add_chain(b, length);
}

fn add_long_alias_chain(b: &mut Builder) {
    if b.random.chance(15) {
        let length = b.random.between(12, 30);
        add_chain(b, length);
    }
}

fn add_chain(b: &mut Builder, length: usize) {
    let start = b.name();
    let mut owner = b.below(&start, b"c0");
    for step in 1..=length {
        let label = format!("c{step}");
        let next = if step == length { b.target() } else { b.below(&start, label.as_bytes()) };
        b.add(&owner, rtype::CNAME, next.0.clone());
        owner = next;
    }
}

fn add_alias_loop(b: &mut Builder) {
    let base = b.name();
    let size = b.random.between(1, 3);
    let names: Vec<Dname> = (0..size).map(|step| b.below(&base, format!("loop{step}").as_bytes())).collect();
    for (step, name) in names.iter().enumerate() {
        b.add(name, rtype::CNAME, names[(step + 1) % size].0.clone());
    }
    let entry = b.below(&base, b"into");
    b.add(&entry, rtype::CNAME, names[0].0.clone());
}

fn add_aliases(b: &mut Builder) {
    let base = b.name();
    for step in 0..4 {
        let owner = b.below(&base, format!("alias{step}").as_bytes());
        let target = match step {
            0 => b.below(&base, b"nothing"),
            1 => Dname::parse("elsewhere.invalid."),
            2 => base.clone(),
            _ => b.target(),
        };
        b.add(&owner, rtype::CNAME, target.0);
    }
}

fn add_dname(b: &mut Builder) {
    let name = b.name();
    let owner = b.below(&name, b"dn");
    let target = b.target();
    b.add(&owner, rtype::DNAME, target.0);
    if b.random.chance(30) {
        b.add_addresses(&owner, 1);
    }
}

fn add_dname_chain(b: &mut Builder) {
    let name = b.name();
    let owners: Vec<Dname> = (0..3).map(|step| b.below(&name, format!("dn{step}").as_bytes())).collect();
    for step in 0..2 {
        b.add(&owners[step], rtype::DNAME, owners[step + 1].0.clone());
    }
    let end = b.below(&owners[2], b"a");
    b.add_addresses(&end, 1);
    if b.random.chance(50) {
        let wildcard = b.below(&owners[2], b"*");
        b.add_addresses(&wildcard, 1);
    }
}

fn add_dname_loop(b: &mut Builder) {
    let name = b.name();
    let (first, second) = (b.below(&name, b"dl0"), b.below(&name, b"dl1"));
    match b.random.below(3) {
        // Each replacement makes the name longer.
        0 => {
            let target = b.below(&second, b"longer");
            b.add(&first, rtype::DNAME, second.0);
            b.add(&target, rtype::TXT, *b"\x03end");
        }
        1 => {
            let inner = b.below(&first, b"grow");
            b.add(&first, rtype::DNAME, inner.0);
        }
        _ => {
            b.add(&first, rtype::DNAME, second.0.clone());
            b.add(&second, rtype::DNAME, first.0);
        }
    }
}

fn add_dname_overflow(b: &mut Builder) {
    let owner = b.below(&b.origin.clone(), b"of");
    let mut target = b.origin.clone();
    for _ in 0..3 {
        target = b.below(&target, &[b'o'; 60]);
    }
    b.add(&owner, rtype::DNAME, target.0.clone());
    let end = b.below(&target, b"a");
    b.add_addresses(&end, 1);
}

fn add_delegation(b: &mut Builder) {
    let name = b.name();
    let cut = b.below(&name, b"cut");
    for number in 0..b.random.between(1, 3) {
        let server = match b.random.below(5) {
            0 => Dname::parse("ns.outside.example."),
            1 => {
                let beside = b.below(&name, format!("glue{number}").as_bytes());
                b.add_addresses(&beside, 2);
                beside
            }
            2 => {
                let inner = b.below(&cut, b"deep");
                let deep = b.below(&inner, b"ns");
                b.add_addresses(&deep, 2);
                deep
            }
            3 => {
                b.add_addresses(&cut, 1);
                cut.clone()
            }
            _ => {
                let inner = b.below(&cut, format!("ns{number}").as_bytes());
                b.add_addresses(&inner, 2);
                inner
            }
        };
        b.add(&cut, rtype::NS, server.0);
    }
    if b.random.chance(35) {
        add_ds(b, &cut);
    }
    if b.random.chance(50) {
        // Occluded: data, an alias, a wildcard and a second cut below the first (RFC 1034 section 4.2.1).
        let hidden = b.below(&cut, b"hidden");
        b.add_addresses(&hidden, 1);
        let alias = b.below(&cut, b"alias");
        b.add(&alias, rtype::CNAME, hidden.0);
        let wildcard = b.below(&cut, b"*");
        b.add(&wildcard, rtype::TXT, *b"\x06hidden");
        let inner = b.below(&cut, b"inner");
        b.add(&inner, rtype::NS, Dname::parse("ns.outside.example.").0);
    }
    if b.random.chance(40) {
        let alias = b.below(&name, b"into-cut");
        let target = b.below(&cut, b"www");
        b.add(&alias, rtype::CNAME, target.0);
    }
}

/// Adds a delegation with so much glue that a referral does not fit 512 octets.
fn add_wide_delegation(b: &mut Builder) {
    let name = b.name();
    let cut = b.below(&name, b"wide");
    for number in 0..b.random.between(8, 13) {
        let server = b.below(&cut, format!("name-server-{number}").as_bytes());
        b.add_addresses(&server, 4);
        b.add(&cut, rtype::NS, server.0);
    }
}

fn add_delegation_beside_wildcard(b: &mut Builder) {
    let parent = b.name();
    let (wildcard, cut) = (b.below(&parent, b"*"), b.below(&parent, b"real"));
    b.add_addresses(&wildcard, 1);
    b.add(&cut, rtype::NS, Dname::parse("ns.outside.example.").0);
}

fn add_deep_names(b: &mut Builder) {
    let mut name = b.origin.clone();
    for _ in 0..b.random.between(4, 12) {
        let label = b.label();
        name = b.below(&name, &label);
    }
    b.add_addresses(&name, 1);
}

fn add_odd_types(b: &mut Builder) {
    let name = b.name();
    let target = b.target();
    b.add(&name, rtype::PRIVATE, *b"\x00\x01\xc0\x0c");
    b.add(&name, rtype::CAA, *b"\x00\x05issueca.example");
    b.add(&name, rtype::SSHFP, [&[4, 2][..], &[0xab; 32]].concat());
    b.add(&name, rtype::TLSA, [&[3, 1, 1][..], &[0xcd; 32]].concat());
    b.add(&name, rtype::HINFO, *b"\x03CPU\x02OS");
    b.add(&name, rtype::NAPTR, [&[0, 10, 0, 20, 1, b's', 3, b's', b'i', b'p', 0], &target.0[..]].concat());
    let target = b.target();
    b.add(&name, rtype::SVCB, [&[0, 1], &target.0[..], &[0, 3, 0, 2, 0x20, 0xfb]].concat());
    b.add(&name, rtype::HTTPS, [&[0, 0], &target.0[..]].concat());
    b.add(&name, rtype::PTR, target.0);
    if b.random.chance(50) {
        // RDATA without any octet (RFC 3597 section 5).
        let empty = b.below(&name, b"empty");
        b.add(&empty, rtype::PRIVATE, Vec::new());
    }
}

fn add_odd_labels(b: &mut Builder) {
    let parent = b.name();
    for label in [&b"\0"[..], b"a.b", b"two words", b"\xff\x80", b"\\", b"A-b_C"] {
        if b.random.chance(60) {
            let owner = b.below(&parent, label);
            if b.random.chance(30) {
                let target = b.target();
                b.add(&owner, rtype::CNAME, target.0);
            } else {
                b.add_addresses(&owner, 1);
            }
        }
    }
}

/// Owners of up to exactly 255 octets.
fn add_long_names(b: &mut Builder) {
    let mut name = b.origin.clone();
    loop {
        let room = 255 - name.0.len();
        if room < 2 {
            break;
        }
        let length = (room - 1).min(63);
        name = b.below(&name, &vec![b'l'; length]);
    }
    b.add_addresses(&name, 1);
    let alias = b.below(&b.origin.clone(), b"to-long");
    b.add(&alias, rtype::CNAME, name.0);
}

/// Adds a set with more addresses than fit small messages, at times more than any UDP message.
fn add_large_set(b: &mut Builder) {
    let owner = b.name();
    for number in 0..*b.random.pick(&[30, 60, 90, 300]) {
        b.add(&owner, rtype::A, [198, 51, (number / 250) as u8, (number % 250) as u8]);
    }
    let alias = b.below(&b.origin.clone(), b"to-large");
    b.add(&alias, rtype::CNAME, owner.0);
}

fn add_long_texts(b: &mut Builder) {
    let owner = b.name();
    for number in 0..b.random.between(1, 6) {
        let mut rdata = vec![200];
        rdata.extend(std::iter::repeat_n(b'a' + number as u8, 200));
        b.add(&owner, rtype::TXT, rdata);
    }
}

/// An instance of DNS-based service discovery (RFC 6763), with a space in its name.
fn add_dns_sd(b: &mut Builder) {
    let parent = b.name();
    let tcp = b.below(&parent, b"_tcp");
    let service = b.below(&tcp, b"_http");
    let instance = b.below(&service, b"My Instance");
    b.add(&service, rtype::PTR, instance.0.clone());
    let target = b.target();
    b.add(&instance, rtype::SRV, [&[0, 0, 0, 0, 0, 80], &target.0[..]].concat());
    b.add(&instance, rtype::TXT, *b"\x06path=/");
}
