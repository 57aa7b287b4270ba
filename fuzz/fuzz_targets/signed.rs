//! Signed zones of which the chain may be anything: broken, of hashes that nobody made, with signatures of what is not there.
//!
//! The input has a zone, changes of it, and questions. No answer may panic; each must parse, keep the id and stay within what
//! the client takes; without DO no record of DNSSEC comes that was not asked for; and the zone that was changed answers as
//! one that is loaded anew.

#![no_main]

use aggregator::publish::{Identity, Published, Served, State};
use aggregator::serve::answer::answer;
use aggregator::zone::{Editor, Loader, Soa, Zone};
use libfuzzer_sys::fuzz_target;
use std::collections::HashSet;
use std::sync::Arc;
use wire::name::{Name, NameBuf};
use wire::nsec3::Parameters;
use wire::rr::{self, rtype};
use wire::serial::Serial;

const ORIGIN: &str = "z.";
const LABELS: [&str; 8] = ["a", "b", "*", "ns", "m", "ent", "zz", "0"];
const TYPES: [u16; 12] = [
    rtype::A,
    rtype::NS,
    rtype::DS,
    rtype::CNAME,
    rtype::DNAME,
    rtype::NSEC,
    rtype::NSEC3,
    rtype::RRSIG,
    rtype::TXT,
    rtype::SRV,
    rtype::DNSKEY,
    rtype::SOA,
];
const NSEC3PARAM: &[u8] = b"\x01\0\0\x02\x01\xaa";
const ID: [u8; 2] = *b"id";

/// Octets of the input, one after the other; nulls behind its end.
struct Octets<'i>(std::slice::Iter<'i, u8>);

impl Octets<'_> {
    fn next(&mut self) -> u8 {
        self.0.next().copied().unwrap_or_default()
    }

    fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// A name of up to three labels in front of the origin, or of its hash.
    fn name(&mut self, parameters: &Parameters) -> NameBuf {
        let choice = self.next();
        let labels = (0..choice & 3).map(|_| LABELS[usize::from(self.next() & 7)].to_owned());
        let text = labels.chain([ORIGIN.to_owned()]).collect::<Vec<_>>().join(".");
        let name = NameBuf::parse(&text).expect("a name");
        if choice & 0xc0 != 0xc0 {
            return name;
        }
        let mut label = parameters.hash(name.as_wire());
        // One that stands right in front of it, or behind.
        label[32] = label[32].wrapping_add(choice >> 2 & 1).min(b'v');
        NameBuf::from_wire(&[&label[..], NameBuf::parse(ORIGIN).expect("a name").as_wire()].concat()).expect("a name")
    }

    /// A record of a type at a name.
    fn rdata(&mut self, kind: u16, parameters: &Parameters) -> Vec<u8> {
        let target = self.name(parameters);
        match kind {
            rtype::A => vec![192, 0, 2, self.next() & 3],
            rtype::TXT => vec![1, self.next()],
            rtype::DS => [&[0, 1, 13, 2][..], &[self.next(); 32]].concat(),
            rtype::DNSKEY => [&[1, 1, 3, 13][..], &[self.next(); 64]].concat(),
            rtype::SRV => [&[0, 0, 0, 0, 0, 1][..], target.as_wire()].concat(),
            rtype::NSEC => [target.as_wire(), &[0, 2, self.next(), self.next()]].concat(),
            rtype::NSEC3 => {
                let next = [self.next(); 20];
                [&[1, self.next() & 1, 0, 2, 1, 0xaa, 20][..], &next, &[0, 1, self.next()]].concat()
            }
            rtype::RRSIG => {
                let covered = TYPES[usize::from(self.next()) % TYPES.len()];
                signature(covered, self.next())
            }
            _ => target.as_wire().to_vec(),
        }
    }
}

/// A signature of a set, which expires at some time.
fn signature(covered: u16, expires: u8) -> Vec<u8> {
    let head = [&covered.to_be_bytes()[..], &[13, 2], &30u32.to_be_bytes()].concat();
    [&head[..], &[expires; 4], &[0; 4], &[0, 1], b"\x01z\0", &[7; 64]].concat()
}

type Record = (NameBuf, u16, Vec<u8>);

/// Loads a zone of some records, signed by what its apex has.
fn load(records: &[Record], serial: u32, is_hashed: bool) -> Option<Zone> {
    let apex = NameBuf::parse(ORIGIN).expect("a name");
    let mut loader = Loader::new(apex.to_name());
    let soa = Soa { serial: Serial(serial), refresh: 1, retry: 1, expire: 1, minimum: 1 };
    loader.push(&apex, rtype::SOA, 30, &soa.to_rdata(&[0], &[0]));
    loader.push(&apex, rtype::RRSIG, 30, &signature(rtype::SOA, 200));
    if is_hashed {
        loader.push(&apex, rtype::NSEC3PARAM, 30, NSEC3PARAM);
    }
    records.iter().for_each(|(owner, kind, rdata)| loader.push(owner, *kind, 30, rdata));
    loader.finish(None).ok().map(|loaded| loaded.zone)
}

fn publish(zone: Zone) -> Published {
    let served = Served::new(zone.origin.clone(), State::Ok, Some(Arc::new(zone)));
    Published::new(Identity::default(), [Arc::new(served)], 1)
}

/// Asks a question, and looks at the answer.
fn ask(published: &Published, name: &NameBuf, kind: u16, is_secure: bool, datagram: bool) -> Vec<u8> {
    let head = [&ID[..], &[0, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(is_secure)]].concat();
    let question = [name.as_wire(), &kind.to_be_bytes(), &[0, 1]].concat();
    let edns: &[u8] = if is_secure { &[0, 0, 41, 4, 0xd0, 0, 0, 0x80, 0, 0, 0] } else { &[] };
    let mut out = vec![0; if datagram { 1232 } else { 65_535 }];
    let request = [&head[..], &question, edns].concat();
    let Some(response) = answer(published, &request, datagram, 0, &mut out) else { return Vec::new() };
    out.truncate(response.length);
    assert_eq!(out[..2], ID);
    let count = |at: usize| u16::from_be_bytes([out[at], out[at + 1]]);
    let mut position = 12;
    for _ in 0..count(4) {
        position = wire::name::skip(&out, position).expect("a question") + 4;
    }
    for _ in 0..u32::from(count(6)) + u32::from(count(8)) + u32::from(count(10)) {
        let fixed = wire::name::skip(&out, position).expect("an owner");
        let (found, _, _, start, length) = rr::read_fixed(&out, fixed).expect("a record");
        let is_proof = matches!(found, rtype::RRSIG | rtype::NSEC | rtype::NSEC3);
        assert!(is_secure || !is_proof || found == kind || kind == rtype::ANY, "{found} was not asked for");
        position = start + length;
    }
    assert_eq!(position, out.len());
    out
}

fuzz_target!(|input: &[u8]| {
    let parameters = Parameters::read(NSEC3PARAM).expect("parameters");
    let mut octets = Octets(input.iter());
    let flags = octets.next();
    let is_hashed = flags & 1 == 1;
    let read = |octets: &mut Octets<'_>, count: u8| -> Vec<Record> {
        let record = |octets: &mut Octets<'_>| {
            let kind = TYPES[usize::from(octets.next()) % TYPES.len()];
            // The apex has its SOA, and no other does.
            let kind = if kind == rtype::SOA { rtype::TXT } else { kind };
            (octets.name(&parameters), kind, octets.rdata(kind, &parameters))
        };
        (0..count).map(|_| record(octets)).collect()
    };
    let before = read(&mut octets, flags >> 1 & 31);
    let added = read(&mut octets, flags >> 6);
    let Some(old) = load(&before, 1, is_hashed) else { return };
    let all: Vec<Record> = before.iter().cloned().chain(added.iter().cloned()).collect();
    let Some(fresh) = load(&all, 2, is_hashed) else { return };
    // The same by way of the older version.
    let mut editor = Editor::from_zone(&old);
    let names: HashSet<Name> =
        added.iter().map(|(owner, ..)| owner.to_lowercase().to_name()).chain([fresh.origin.clone()]).collect();
    for name in names {
        let sets = fresh.get(name.as_wire()).unwrap_or_default().to_rrsets();
        editor.set(&name, sets, None);
    }
    let Ok(changed) = editor.finish() else { return };
    let [fresh, changed] = [fresh, changed].map(publish);
    while !octets.is_empty() {
        let (name, choice) = (octets.name(&parameters), octets.next());
        let kind = TYPES[usize::from(choice) % TYPES.len()];
        let (is_secure, datagram) = (choice & 0x40 != 0, choice & 0x80 != 0);
        let [one, other] = [&fresh, &changed].map(|published| ask(published, &name, kind, is_secure, datagram));
        assert_eq!(one, other, "as if it were loaded anew");
    }
});
