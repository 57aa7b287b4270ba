//! The questions that are put to a group of zones.

use crate::generate::Zone;
use crate::harness::Random;
use crate::harness::{Dname, Query, rtype};

/// Questions per zone.
const PER_ZONE: usize = 40;

/// Types that are asked for everywhere.
const TYPES: &[u16] = &[
    rtype::A,
    rtype::A,
    rtype::A,
    rtype::AAAA,
    rtype::NS,
    rtype::SOA,
    rtype::CNAME,
    rtype::MX,
    rtype::TXT,
    rtype::SRV,
    rtype::DNAME,
    rtype::DS,
    rtype::ANY,
    rtype::PTR,
    rtype::HTTPS,
    rtype::PRIVATE,
    4_242,
];

/// A question with its transport.
#[derive(Clone, Debug)]
pub struct Question {
    pub query: Query,
    pub tcp: bool,
}

impl Question {
    /// The size an answer may have.
    pub fn limit(&self) -> usize {
        match (self.tcp, self.query.edns) {
            (true, _) => 65_535,
            // Sizes below 512 mean 512 (RFC 6891 section 6.2.3); nobody sends more than 1232 here.
            (false, Some(payload)) => usize::from(payload.clamp(512, 1_232)),
            (false, None) => 512,
        }
    }
}

/// Chooses the questions for one group.
pub fn ask_about(zones: &[Zone], random: &mut Random) -> Vec<Question> {
    let mut questions = Vec::new();
    for zone in zones {
        // The apex has its own traps: every group hears these.
        for rtype in [rtype::SOA, rtype::NS, rtype::DS, rtype::ANY] {
            questions.push(put(zone.origin.clone(), rtype, random));
        }
        for _ in 4..PER_ZONE {
            let record = &zone.records[random.below(zone.records.len())];
            let name = vary(zone, &record.owner, random);
            let rtype = if random.chance(45) { record.rtype } else { *random.pick(TYPES) };
            questions.push(put(name, rtype, random));
        }
    }
    questions
}

/// A name near an owner: itself, above, below, beside, what its wildcard makes, a target.
fn vary(zone: &Zone, owner: &Dname, random: &mut Random) -> Dname {
    let label = random_label(random);
    let parent = owner.parent().filter(|parent| parent.is_within(&zone.origin));
    let varied = match random.below(12) {
        0..4 => Some(owner.clone()),
        4 => parent,
        5 => parent.as_ref().and_then(Dname::parent).filter(|name| name.is_within(&zone.origin)),
        6 | 7 => owner.child(&label),
        8 => owner.child(&label).and_then(|name| name.child(&random_label(random))),
        9 => parent.and_then(|parent| parent.child(&label)),
        10 => {
            let record = &zone.records[random.below(zone.records.len())];
            record.target()
        }
        // Long enough to overflow a DNAME whose target is longer than its owner.
        _ => owner.child(&[b'v'; 60]).and_then(|name| name.child(&label)),
    };
    let name = varied.unwrap_or_else(|| owner.clone());
    if name.is_wildcard() && random.chance(70) {
        let expanded = name.parent().and_then(|parent| parent.child(&label));
        return expanded.unwrap_or(name);
    }
    name
}

fn random_label(random: &mut Random) -> Vec<u8> {
    const LABELS: &[&[u8]] = &[
        b"a", b"b", b"www", b"x", b"hidden", b"deep", b"ns", b"*", b"nothing", b"\0", b"a.b", b"c1", b"alias", b"again",
    ];
    random.pick(LABELS).to_vec()
}

/// Chooses case, transport and EDNS.
fn put(name: Dname, rtype: u16, random: &mut Random) -> Question {
    let mut query = Query::new(&if random.chance(40) { mix_case(&name, random) } else { name }, rtype);
    query.recursion_desired = random.chance(30);
    query.edns = *random.pick(&[None, None, Some(512), Some(1_232), Some(1_232), Some(4_096), Some(100)]);
    query.dnssec_ok = query.edns.is_some() && random.chance(30);
    Question { query, tcp: random.chance(15) }
}

/// Letters in random case, as careful resolvers ask.
fn mix_case(name: &Dname, random: &mut Random) -> Dname {
    let flip = |octet: &u8| if octet.is_ascii_alphabetic() && random.chance(50) { octet ^ 0x20 } else { *octet };
    let labels: Vec<Vec<u8>> = name.labels().into_iter().map(<[u8]>::to_vec).collect();
    let mut flip = flip;
    let flipped: Vec<Vec<u8>> = labels.iter().map(|label| label.iter().map(&mut flip).collect()).collect();
    Dname::from_labels(flipped.iter().map(Vec::as_slice)).expect("as long as before")
}
