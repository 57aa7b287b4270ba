//! Answers: request bytes and the published data in, response bytes out.
//!
//! [`answer`] is a pure function without I/O, locks or allocation, shared by every transport. One call reads one
//! [`Published`] root, so no answer mixes two versions, chains across zones included.
//!
//! The order of RFC 1034 section 4.3.2 and RFC 6672 section 3.2: the zone with the longest origin; a delegation or DNAME
//! on the way; the name itself; else the wildcard at the closest encloser (RFC 4592); else NXDOMAIN. An alias starts
//! over with its target while that lies in a zone served here. Responses are minimal: NS records only where they are
//! the answer or a referral, addresses only for the targets of NS, MX and SRV.
//!
//! Chains end after [`MAX_ALIASES`] aliases or where a name comes up again, with what was found and NOERROR: a resolver
//! goes on from the last target, and sees the loop itself.
//!
//! Cost: O(name) lookups for each alias, one for the closest encloser's ancestors, and O(bytes) written.

use crate::name::{self, NameBuf};
use crate::publish::{Published, Served, State};
use crate::rr::{self, RRset, rtype};
use crate::serve::message::{ExtendedError, HEADER_BYTES, Placed, Request, Section, Writer, rcode};
use crate::zone::{Node, Zone};
use std::sync::Arc;

/// Aliases followed in one answer; as many as other servers follow, and more than any sane zone has.
pub const MAX_ALIASES: usize = 16;
/// Host names whose addresses are looked up for the additional section; more would not fit anyway.
const MAX_TARGETS: usize = 48;

/// A response in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    pub length: usize,
    pub rcode: u16,
    pub truncated: bool,
}

/// Answers one request into `out`, which must hold 512 octets for datagrams and 65,535 for streams.
///
/// `None` when no response may be sent. `rotation` chooses the address that comes first.
pub fn answer(
    published: &Published,
    request: &[u8],
    datagram: bool,
    rotation: u32,
    out: &mut [u8],
) -> Option<Response> {
    let request = Request::parse(request)?;
    let nsid = published.identity.nsid();
    let writer = Writer::new(out, &request, request.limit(datagram), nsid);
    let mut reply = Reply {
        published,
        writer,
        rotation,
        targets: [0; MAX_TARGETS],
        target_count: 0,
        dnames: [None; MAX_ALIASES],
        aliases: 0,
    };
    let rcode = match &request.question {
        Some(question) if request.rcode == rcode::NOERROR => match question.class {
            rr::CLASS_IN => reply.resolve(question.name, question.rtype),
            rr::CLASS_CH => reply.identify(question.name, question.rtype),
            _ => rcode::REFUSED,
        },
        _ => request.rcode,
    };
    let truncated = reply.writer.truncated;
    let length = reply.writer.finish(&request, rcode, nsid);
    Some(Response { length, rcode, truncated })
}

/// What a name leads to within one zone.
enum Found<'a> {
    /// A delegation above or at the name: the octet of the name at which its owner begins, and its NS records.
    Referral(usize, &'a Arc<RRset>),
    /// A DNAME above the name, likewise.
    Dname(usize, &'a Arc<RRset>),
    /// The node itself or the wildcard that stands for it.
    Node(&'a Node),
    Nothing,
}

/// What to do after one name has been looked up.
enum Step {
    Done(u16),
    /// An alias was added; its target stands at this position of the message.
    Follow(usize),
}

/// A response while its records are looked up.
struct Reply<'p, 'o> {
    published: &'p Published,
    writer: Writer<'o>,
    rotation: u32,
    /// Where host names stand in the message whose addresses may be added.
    targets: [u16; MAX_TARGETS],
    target_count: usize,
    /// DNAME sets in the answer, which a chain may meet again.
    dnames: [Option<&'p RRset>; MAX_ALIASES],
    /// Aliases in the answer.
    aliases: usize,
}

impl<'p> Reply<'p, '_> {
    /// Answers a question of class IN; returns the response code.
    fn resolve(&mut self, name: NameBuf, qtype: u16) -> u16 {
        let mut current = Placed { offset: HEADER_BYTES, lower: name.to_lowercase() };
        let Some(served) = self.zone_for(&current, qtype) else {
            self.writer.set_extended(ExtendedError::NotAuthoritative);
            return rcode::REFUSED;
        };
        // Transfers are not for everyone, and never out of this function.
        if matches!(qtype, rtype::AXFR | rtype::IXFR) {
            return rcode::REFUSED;
        }
        let Some(mut zone) = served.answerable() else {
            self.writer.set_extended(match served.state {
                State::Expired => ExtendedError::InvalidData,
                State::Ok | State::NotReady => ExtendedError::NotReady,
            });
            return rcode::SERVFAIL;
        };
        // Where the names of the chain stand in the message.
        let mut seen = [current.offset; MAX_ALIASES + 1];
        loop {
            let next = match self.step(zone, &current, qtype) {
                Step::Done(rcode) => {
                    self.add_targets();
                    return rcode;
                }
                Step::Follow(target) => self.writer.placed(target),
            };
            let Ok(next) = next else { return rcode::SERVFAIL };
            if seen[..self.aliases].iter().any(|before| self.writer.has_name(*before, &next)) {
                return rcode::NOERROR;
            }
            seen[self.aliases] = next.offset;
            current = next;
            match self.zone_for(&current, qtype).and_then(Served::answerable) {
                Some(next_zone) => zone = next_zone,
                None => return rcode::NOERROR,
            }
        }
    }

    /// The zone that answers for a name: for DS at an origin the zone above it, if it is here (RFC 4035 section 3.1.4.1).
    fn zone_for(&self, name: &Placed, qtype: u16) -> Option<&'p Served> {
        let wire = name.lower.as_wire();
        let served = self.published.find(wire)?;
        if qtype == rtype::DS
            && served.origin.as_wire() == wire
            && let Some(above) = name::parent(wire).and_then(|parent| self.published.find(parent))
        {
            return Some(above);
        }
        Some(served)
    }

    /// Looks one name up and writes what it gives.
    fn step(&mut self, zone: &'p Zone, current: &Placed, qtype: u16) -> Step {
        self.writer.authoritative = true;
        match find(zone, current.lower.as_wire(), qtype) {
            Found::Referral(start, ns) => {
                // RFC 1034 section 4.3.1: AA speaks for the first owner name, which behind an alias is ours.
                self.writer.authoritative = self.aliases > 0;
                self.refer(zone, &suffix(current, start), ns);
                Step::Done(rcode::NOERROR)
            }
            Found::Dname(start, dname) => self.follow_dname(current, start, dname, qtype),
            Found::Node(node) => self.answer_node(zone, current, node, qtype),
            Found::Nothing => self.deny(zone, current, rcode::NXDOMAIN),
        }
    }

    /// Writes the RRsets asked for, or the alias, or that there are none.
    fn answer_node(&mut self, zone: &Zone, current: &Placed, node: &Node, qtype: u16) -> Step {
        if qtype == rtype::ANY && !node.rrsets.is_empty() {
            for rrset in any_subset(current.lower.as_wire(), node) {
                if !self.add_answer(current, rrset) {
                    break;
                }
            }
            return Step::Done(rcode::NOERROR);
        }
        if let Some(rrset) = node.get(qtype) {
            self.add_answer(current, rrset);
            return Step::Done(rcode::NOERROR);
        }
        let Some(cname) = node.get(rtype::CNAME) else {
            return self.deny(zone, current, rcode::NOERROR);
        };
        if self.aliases == MAX_ALIASES {
            return Step::Done(rcode::NOERROR);
        }
        self.aliases += 1;
        let mut target = 0;
        if self.writer.add_rrset(Section::Answer, current, cname, 0, |at| target = at).is_err() {
            self.writer.truncated = true;
            return Step::Done(rcode::NOERROR);
        }
        Step::Follow(target)
    }

    /// Adds an RRset to the answer and notes its targets. False when it did not fit.
    fn add_answer(&mut self, owner: &Placed, rrset: &RRset) -> bool {
        let (targets, count) = (&mut self.targets, &mut self.target_count);
        let offset = rr::target_offset(rrset.rtype);
        let added = self.writer.add_rrset(Section::Answer, owner, rrset, self.rotation, |at| {
            note_target(targets, count, offset, at);
        });
        self.writer.truncated |= added.is_err();
        added.is_ok()
    }

    /// Writes the DNAME and the CNAME that follows from it (RFC 6672 section 3.1).
    fn follow_dname(&mut self, current: &Placed, start: usize, dname: &'p RRset, qtype: u16) -> Step {
        if self.aliases == MAX_ALIASES {
            return Step::Done(rcode::NOERROR);
        }
        self.aliases += 1;
        let owner = suffix(current, start);
        if !self.dnames.iter().flatten().any(|added| std::ptr::eq(*added, dname)) {
            if self.writer.add_rrset(Section::Answer, &owner, dname, 0, |_| ()).is_err() {
                self.writer.truncated = true;
                return Step::Done(rcode::NOERROR);
            }
            if let Some(free) = self.dnames.iter_mut().find(|slot| slot.is_none()) {
                *free = Some(dname);
            }
        }
        let Some(target) = dname.first_name(0) else { return Step::Done(rcode::SERVFAIL) };
        // The labels in front keep the case in which they stand in the message.
        let spelled = NameBuf::read(self.writer.written(), current.offset).map_or(current.lower, |(name, _)| name);
        let Ok(next) = spelled.splice(start, target.as_wire()) else {
            // RFC 6672 section 2.2: too long a name.
            return Step::Done(rcode::YXDOMAIN);
        };
        let fixed = (rtype::CNAME, rr::CLASS_IN, dname.ttl);
        match self.writer.add_record(Section::Answer, current, fixed, next.as_wire()) {
            Err(_) => {
                self.writer.truncated = true;
                Step::Done(rcode::NOERROR)
            }
            Ok(_) if matches!(qtype, rtype::CNAME | rtype::ANY) => Step::Done(rcode::NOERROR),
            Ok(at) => Step::Follow(at),
        }
    }

    /// Writes a negative answer's SOA (RFC 2308 section 2).
    fn deny(&mut self, zone: &Zone, current: &Placed, rcode: u16) -> Step {
        let origin = suffix(current, current.lower.as_wire().len() - zone.origin.as_wire().len());
        if self.writer.add_rrset(Section::Authority, &origin, &zone.negative, 0, |_| ()).is_err() {
            self.writer.truncated = true;
        }
        Step::Done(rcode)
    }

    /// Writes a referral: NS, then the glue. RFC 9471: glue for name servers below the cut must fit or TC is set;
    /// addresses of others are a courtesy.
    fn refer(&mut self, zone: &Zone, cut: &Placed, ns: &RRset) {
        let (targets, count) = (&mut self.targets, &mut self.target_count);
        let added =
            self.writer.add_rrset(Section::Authority, cut, ns, 0, |at| note_target(targets, count, Some(0), at));
        if added.is_err() {
            self.writer.truncated = true;
            return;
        }
        for required in [true, false] {
            for index in 0..self.target_count {
                let Ok(target) = self.writer.placed(usize::from(self.targets[index])) else { continue };
                let wire = target.lower.as_wire();
                if name::suffix_offset(wire, cut.lower.as_wire()).is_some() != required {
                    continue;
                }
                if name::suffix_offset(wire, zone.origin.as_wire()).is_none() {
                    continue;
                }
                let Some(node) = zone.get(wire) else { continue };
                for rtype in [rtype::A, rtype::AAAA] {
                    let Some(rrset) = node.get(rtype) else { continue };
                    let added = self.writer.add_rrset(Section::Additional, &target, rrset, self.rotation, |_| ());
                    self.writer.truncated |= required && added.is_err();
                }
            }
        }
        self.target_count = 0;
    }

    /// Adds the addresses of noted host names out of all zones here, as far as they fit.
    fn add_targets(&mut self) {
        for index in 0..self.target_count {
            let Ok(target) = self.writer.placed(usize::from(self.targets[index])) else { continue };
            let wire = target.lower.as_wire();
            let zone = self.published.find(wire).and_then(Served::answerable);
            let Some(Found::Node(node)) = zone.map(|zone| find(zone, wire, rtype::A)) else { continue };
            for rtype in [rtype::A, rtype::AAAA] {
                if let Some(rrset) = node.get(rtype) {
                    // What does not fit is left out: additional addresses never set TC (RFC 2181 section 9).
                    let _ = self.writer.add_rrset(Section::Additional, &target, rrset, self.rotation, |_| ());
                }
            }
        }
    }

    /// Answers a question of class CH about the server itself (RFC 4892).
    fn identify(&mut self, name: NameBuf, qtype: u16) -> u16 {
        let identity = &self.published.identity;
        let text = match name.to_lowercase().as_wire() {
            b"\x07version\x04bind\x00" | b"\x07version\x06server\x00" => &identity.version,
            b"\x08hostname\x04bind\x00" | b"\x02id\x06server\x00" => &identity.name,
            _ => return rcode::REFUSED,
        };
        self.writer.authoritative = true;
        if matches!(qtype, rtype::TXT | rtype::ANY) {
            let text = &text.as_bytes()[..text.len().min(255)];
            let mut rdata = [0; 256];
            rdata[0] = text.len() as u8;
            rdata[1..=text.len()].copy_from_slice(text);
            let owner = Placed { offset: HEADER_BYTES, lower: name };
            let fixed = (rtype::TXT, rr::CLASS_CH, 0);
            let added = self.writer.add_record(Section::Answer, &owner, fixed, &rdata[..=text.len()]);
            self.writer.truncated = added.is_err();
        }
        rcode::NOERROR
    }
}

/// The part of a placed name from octet `start` on.
fn suffix(name: &Placed, start: usize) -> Placed {
    let lower = NameBuf::root().splice(0, &name.lower.as_wire()[start..]).unwrap_or(name.lower);
    Placed { offset: name.offset + start, lower }
}

/// Notes a host name in RDATA, as long as there is room and it can be pointed to.
fn note_target(targets: &mut [u16; MAX_TARGETS], count: &mut usize, offset: Option<usize>, rdata: usize) {
    if let (Some(offset), true) = (offset, *count < MAX_TARGETS)
        && let Ok(at) = u16::try_from(rdata + offset)
    {
        targets[*count] = at;
        *count += 1;
    }
}

/// Looks a name up in a zone that holds it.
fn find<'a>(zone: &'a Zone, wire: &[u8], qtype: u16) -> Found<'a> {
    // Without cuts nothing above the name matters, and most questions are for names that exist.
    if zone.cuts == 0
        && let Some(node) = zone.get(wire)
    {
        return Found::Node(node);
    }
    if zone.cuts == 0 && zone.wildcards == 0 {
        return Found::Nothing;
    }
    let origin = wire.len() - zone.origin.as_wire().len();
    if origin == 0 {
        return Found::Node(zone.apex());
    }
    if let Some(dname) = zone.apex().get(rtype::DNAME) {
        return Found::Dname(origin, dname);
    }
    let mut encloser = origin;
    for start in name::label_starts(wire).iter().rev().map(|start| usize::from(*start)).filter(|start| *start < origin)
    {
        let Some(node) = zone.get(&wire[start..]) else { break };
        // At the name itself, DS belongs to this side of the cut (RFC 4035 section 3.1.4.1).
        if let Some(ns) = node.get(rtype::NS)
            && (start != 0 || qtype != rtype::DS)
        {
            return Found::Referral(start, ns);
        }
        if start == 0 {
            return Found::Node(node);
        }
        if let Some(dname) = node.get(rtype::DNAME) {
            return Found::Dname(start, dname);
        }
        encloser = start;
    }
    // RFC 4592 section 3.3.1: only the wildcard directly below the closest encloser counts.
    NameBuf::root()
        .splice(0, b"\x01*")
        .and_then(|star| star.splice(2, &wire[encloser..]))
        .ok()
        .and_then(|name| zone.get(name.as_wire()))
        .map_or(Found::Nothing, Found::Node)
}

/// What ANY is answered with (RFC 8482 section 4.1): one RRset, but SRV and TXT together at a DNS-SD instance
/// name, because the OpenStack discovery procedure asks for them so.
fn any_subset<'a>(wire: &[u8], node: &'a Node) -> impl Iterator<Item = &'a Arc<RRset>> {
    let instance = name::is_instance_name(wire) && node.get(rtype::SRV).is_some() && node.get(rtype::TXT).is_some();
    let single = node.rrsets.iter().find(|rrset| !rr::is_dnssec(rrset.rtype)).or(node.rrsets.first());
    let chosen = if instance { None } else { single };
    let pair = node.rrsets.iter().filter(move |rrset| instance && matches!(rrset.rtype, rtype::SRV | rtype::TXT));
    chosen.into_iter().chain(pair)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use crate::publish::Identity;
    use crate::zone::tests::zone;
    use hickory_proto::op::Message;

    fn published(zones: &[(&str, &str)]) -> Published {
        let served = |(origin, text): &(&str, &str)| {
            let zone = Some(Arc::new(zone(origin, text)));
            Arc::new(Served { origin: Name::parse(origin).unwrap(), state: State::Ok, zone })
        };
        Published::new(identity(), zones.iter().map(served), 1)
    }

    fn identity() -> Identity {
        Identity { name: "ns1.test".into(), version: "aggregator 1".into() }
    }

    fn question(name: &str, qtype: u16) -> Vec<u8> {
        let mut request = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        request.extend_from_slice(NameBuf::parse(name).unwrap().as_wire());
        request.extend_from_slice(&qtype.to_be_bytes());
        request.extend_from_slice(&[0, 1]);
        request
    }

    fn with_opt(mut request: Vec<u8>, payload: u16, version: u8, options: &[u8]) -> Vec<u8> {
        request[11] += 1;
        request.extend_from_slice(&[0, 0, 41]);
        request.extend_from_slice(&payload.to_be_bytes());
        request.extend_from_slice(&[0, version, 0x80, 0, 0, options.len() as u8]);
        request.extend_from_slice(options);
        request
    }

    fn raw(published: &Published, request: &[u8], datagram: bool) -> Option<(Vec<u8>, Response)> {
        let mut out = vec![0; 65535];
        let response = answer(published, request, datagram, 0, &mut out)?;
        out.truncate(response.length);
        Some((out, response))
    }

    /// Response code, flags and sections in a short form; the decoder prints DNAME targets in base64.
    fn ask(published: &Published, name: &str, qtype: u16) -> String {
        let (bytes, _) = raw(published, &question(name, qtype), true).unwrap();
        short(&bytes)
    }

    fn short(bytes: &[u8]) -> String {
        let message = Message::from_vec(bytes).unwrap();
        let mut text = format!("{:?}", message.metadata.response_code).to_uppercase();
        if message.metadata.authoritative {
            text.push_str(" aa");
        }
        if message.metadata.truncation {
            text.push_str(" tc");
        }
        for (mark, records) in [("", &message.answers), ("!", &message.authorities), ("+", &message.additionals)] {
            for record in records {
                text.push_str(&format!(" {mark}{} {} {};", record.name, record.record_type(), record.data));
            }
        }
        text
    }

    const ZONE: &str = "@ 30 SOA 1
        @ 30 NS ns
        ns 30 A 192.0.2.53
        a.ent 30 A 192.0.2.1
        alias 30 CNAME a.ent
        nowhere 30 CNAME nothing
        outside 30 CNAME www.example.
        loop1 30 CNAME loop2
        loop2 30 CNAME loop1
        self 30 CNAME self
        *.wild 30 A 192.0.2.7
        x.y.wild 30 A 192.0.2.8
        d 30 DNAME ent
        cut 30 NS ns.cut
        cut 30 NS ns.other.
        ns.cut 30 A 192.0.2.99
        s 30 SRV 80 ns
        i._x._tcp 30 SRV 80 ns
        i._x._tcp 30 TXT txtvers=1
        i._x._tcp 30 A 192.0.2.3";

    #[test]
    fn names_types_and_their_absence() {
        let published = published(&[("z.", ZONE)]);
        for (name, qtype, expected) in [
            ("a.ent.z", rtype::A, "NOERROR aa a.ent.z. A 192.0.2.1;"),
            ("ent.z", rtype::A, "NOERROR aa !z. SOA ns. h. 1 30 60 2592000 30;"),
            ("b.ent.z", rtype::A, "NXDOMAIN aa !z. SOA ns. h. 1 30 60 2592000 30;"),
            ("a.ent.z", rtype::TXT, "NOERROR aa !z. SOA ns. h. 1 30 60 2592000 30;"),
            ("other", rtype::A, "REFUSED"),
            ("q.wild.z", rtype::A, "NOERROR aa q.wild.z. A 192.0.2.7;"),
            ("q.y.wild.z", rtype::A, "NXDOMAIN aa !z. SOA ns. h. 1 30 60 2592000 30;"),
            ("y.wild.z", rtype::A, "NOERROR aa !z. SOA ns. h. 1 30 60 2592000 30;"),
            ("s.z", rtype::SRV, "NOERROR aa s.z. SRV 0 10 80 ns.z.; +ns.z. A 192.0.2.53;"),
            ("z", rtype::NS, "NOERROR aa z. NS ns.z.; +ns.z. A 192.0.2.53;"),
            ("z", rtype::AXFR, "REFUSED"),
        ] {
            assert_eq!(ask(&published, name, qtype), expected, "{name} {qtype}");
        }
    }

    #[test]
    fn aliases_are_followed_to_their_end() {
        let published = published(&[("z.", ZONE), ("e.", "@ 30 SOA 2\nx 30 CNAME alias.z.\ny 30 CNAME gone.z.")]);
        for (name, qtype, expected) in [
            ("alias.z", rtype::A, "NOERROR aa alias.z. CNAME a.ent.z.; a.ent.z. A 192.0.2.1;"),
            ("alias.z", rtype::CNAME, "NOERROR aa alias.z. CNAME a.ent.z.;"),
            ("alias.z", rtype::ANY, "NOERROR aa alias.z. CNAME a.ent.z.;"),
            ("nowhere.z", rtype::A, "NXDOMAIN aa nowhere.z. CNAME nothing.z.; !z. SOA ns. h. 1 30 60 2592000 30;"),
            ("outside.z", rtype::A, "NOERROR aa outside.z. CNAME www.example.;"),
            ("loop1.z", rtype::A, "NOERROR aa loop1.z. CNAME loop2.z.; loop2.z. CNAME loop1.z.;"),
            ("self.z", rtype::A, "NOERROR aa self.z. CNAME self.z.;"),
            ("x.e", rtype::A, "NOERROR aa x.e. CNAME alias.z.; alias.z. CNAME a.ent.z.; a.ent.z. A 192.0.2.1;"),
            ("y.e", rtype::A, "NXDOMAIN aa y.e. CNAME gone.z.; !z. SOA ns. h. 1 30 60 2592000 30;"),
            ("a.d.z", rtype::A, "NOERROR aa d.z. DNAME A2VudAF6AA==; a.d.z. CNAME a.ent.z.; a.ent.z. A 192.0.2.1;"),
            ("a.d.z", rtype::CNAME, "NOERROR aa d.z. DNAME A2VudAF6AA==; a.d.z. CNAME a.ent.z.;"),
            ("d.z", rtype::DNAME, "NOERROR aa d.z. DNAME A2VudAF6AA==;"),
            ("d.z", rtype::A, "NOERROR aa !z. SOA ns. h. 1 30 60 2592000 30;"),
        ] {
            assert_eq!(ask(&published, name, qtype), expected, "{name} {qtype}");
        }
    }

    #[test]
    fn a_dname_that_makes_too_long_a_name_is_yxdomain() {
        let target = format!("{0}.{0}.{0}.z.", "t".repeat(63));
        let published = published(&[("z.", &format!("@ 30 SOA 1\nd 30 DNAME {target}"))]);
        let answer = ask(&published, &format!("{}.d.z", "q".repeat(63)), rtype::A);
        assert!(answer.starts_with("YXDOMAIN aa d.z. DNAME ") && answer.matches(';').count() == 1, "{answer}");
    }

    #[test]
    fn delegations_are_referred_with_glue() {
        let published = published(&[("z.", ZONE)]);
        let referral = "NOERROR !cut.z. NS ns.cut.z.; !cut.z. NS ns.other.; +ns.cut.z. A 192.0.2.99;";
        for name in ["cut.z", "ns.cut.z", "deep.below.cut.z"] {
            assert_eq!(ask(&published, name, rtype::A), referral, "{name}");
        }
        assert_eq!(ask(&published, "cut.z", rtype::DS), "NOERROR aa !z. SOA ns. h. 1 30 60 2592000 30;");
        assert_eq!(ask(&published, "x.cut.z", rtype::DS), referral);
    }

    #[test]
    fn ds_at_an_origin_is_the_parents() {
        let published = published(&[("z.", "@ 30 SOA 1\nc 30 NS ns.c"), ("c.z.", "@ 30 SOA 2")]);
        assert_eq!(ask(&published, "c.z", rtype::DS), "NOERROR aa !z. SOA ns. h. 1 30 60 2592000 30;");
        assert_eq!(ask(&published, "z", rtype::DS), "NOERROR aa !z. SOA ns. h. 1 30 60 2592000 30;");
    }

    #[test]
    fn any_gives_one_set_but_a_service_instance_whole() {
        let published = published(&[("z.", ZONE)]);
        assert_eq!(ask(&published, "ns.z", rtype::ANY), "NOERROR aa ns.z. A 192.0.2.53;");
        let instance = ask(&published, "i._x._tcp.z", rtype::ANY);
        assert_eq!(
            instance,
            "NOERROR aa i._x._tcp.z. TXT txtvers=1; i._x._tcp.z. SRV 0 10 80 ns.z.; +ns.z. A 192.0.2.53;"
        );
    }

    #[test]
    fn zones_without_valid_data_are_servfail_with_the_reason() {
        let origin = Name::parse("z").unwrap();
        for (state, code) in [(State::NotReady, 14), (State::Expired, 24)] {
            let zone = Some(Arc::new(zone("z.", ZONE)));
            let published = Published::new(identity(), [Arc::new(Served { origin: origin.clone(), state, zone })], 1);
            let (bytes, response) = raw(&published, &with_opt(question("a.z", rtype::A), 1232, 0, &[]), true).unwrap();
            assert_eq!(response.rcode, rcode::SERVFAIL);
            assert_eq!(bytes[bytes.len() - 6..], [0, 15, 0, 2, 0, code]);
        }
    }

    #[test]
    fn odd_requests_get_the_error_that_fits() {
        let published = published(&[("z.", ZONE)]);
        let plain = question("a.ent.z", rtype::A);
        let edit = |at: usize, value: u8| {
            let mut request = plain.clone();
            request[at] = value;
            request
        };
        let opt = |payload, version, options: &[u8]| with_opt(plain.clone(), payload, version, options);
        let mut two_opts = with_opt(opt(512, 0, &[]), 512, 0, &[]);
        for (what, request, rcode) in [
            ("opcode", edit(2, 5 << 3), rcode::NOTIMP),
            ("no question", plain[..12].iter().map(|b| if *b == 1 { 0 } else { *b }).collect(), rcode::FORMERR),
            ("two questions", edit(5, 2), rcode::FORMERR),
            ("pointer", [&plain[..12], &[0xc0, 0x0c, 0, 1, 0, 1]].concat(), rcode::FORMERR),
            ("long label", [&plain[..12], &[0x40], &plain[13..]].concat(), rcode::FORMERR),
            ("class", edit(plain.len() - 1, 255), rcode::REFUSED),
            ("bad version", opt(1232, 1, &[]), rcode::BADVERS),
            ("bad option", opt(1232, 0, &[0, 10, 0, 8, 1]), rcode::FORMERR),
            ("two OPT", two_opts.split_off(0), rcode::FORMERR),
            ("missing record", edit(11, 1), rcode::FORMERR),
            ("trailing bytes", [&plain[..], &[1, 2, 3]].concat(), rcode::NOERROR),
            ("unknown option", opt(1232, 0, &[0, 99, 0, 1, 7]), rcode::NOERROR),
            ("tiny payload", opt(0, 0, &[]), rcode::NOERROR),
            ("all flags", edit(2, 0x87 & 0x7f | 0x07), rcode::NOERROR),
        ] {
            let (bytes, response) = raw(&published, &request, true).expect(what);
            assert_eq!(response.rcode, rcode, "{what}");
            let message = Message::from_vec(&bytes).expect(what);
            assert_eq!(message.metadata.id, 0xabcd, "{what}");
        }
        assert!(raw(&published, &edit(2, 0x80), true).is_none());
        assert!(raw(&published, &plain[..11], true).is_none());
        let (unknown, _) = raw(&published, &edit(2, 15 << 3 | 1), true).unwrap();
        assert_eq!(unknown[2..], [0xf8, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_does_not_fit_is_left_out_whole() {
        let addresses: String = (0..40).map(|i| format!("big 30 A 192.0.2.{i}\n")).collect();
        let published = published(&[("z.", &format!("@ 30 SOA 1\n{addresses}\ns 30 SRV 80 big"))]);
        let (bytes, response) = raw(&published, &question("big.z", rtype::A), true).unwrap();
        assert!(response.truncated && bytes.len() < 100);
        let (_, response) = raw(&published, &with_opt(question("big.z", rtype::A), 4096, 0, &[]), true).unwrap();
        assert!(!response.truncated);
        let (_, response) = raw(&published, &question("big.z", rtype::A), false).unwrap();
        assert!(!response.truncated);
        assert_eq!(ask(&published, "s.z", rtype::SRV), "NOERROR aa s.z. SRV 0 10 80 big.z.;");
    }

    #[test]
    fn required_glue_that_does_not_fit_sets_tc() {
        let addresses: String = (0..40).map(|i| format!("ns.cut 30 A 192.0.2.{i}\n")).collect();
        let published = published(&[("z.", &format!("@ 30 SOA 1\ncut 30 NS ns.cut\n{addresses}"))]);
        assert_eq!(ask(&published, "x.cut.z", rtype::A), "NOERROR tc !cut.z. NS ns.cut.z.;");
    }

    #[test]
    fn the_spelling_of_the_question_and_nsid_come_back() {
        let published = published(&[("z.", ZONE)]);
        let request = with_opt(question("A.eNt.Z", rtype::A), 1232, 0, &[0, 3, 0, 0]);
        let (bytes, _) = raw(&published, &request, true).unwrap();
        assert_eq!(bytes[12..request.len() - 15], request[12..request.len() - 15]);
        assert!(short(&bytes).contains("A.eNt.Z. A 192.0.2.1;"));
        assert!(bytes.ends_with(b"\x00\x03\x00\x08ns1.test"));
    }

    #[test]
    fn the_server_tells_its_name_and_version() {
        let published = published(&[]);
        let mut request = question("Version.Bind", rtype::TXT);
        *request.last_mut().unwrap() = 3;
        let (bytes, _) = raw(&published, &request, true).unwrap();
        assert_eq!(short(&bytes), "NOERROR aa Version.Bind. TXT aggregator 1;");
    }

    #[test]
    fn addresses_rotate() {
        let published = published(&[("z.", "@ 30 SOA 1\nw 30 A 192.0.2.1\nw 30 A 192.0.2.2\nw 30 A 192.0.2.3")]);
        let mut out = [0; 512];
        let mut first = |rotation| {
            let request = question("w.z", rtype::A);
            let response = answer(&published, &request, true, rotation, &mut out).unwrap();
            let message = Message::from_vec(&out[..response.length]).unwrap();
            assert_eq!(message.answers.len(), 3);
            message.answers[0].data.to_string()
        };
        assert_eq!([first(0), first(1), first(2), first(3)], ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.1"]);
    }
}
