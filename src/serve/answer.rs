//! Answers: request bytes and the published data in, response bytes out.
//!
//! [`answer`] is a pure function without I/O, locks or allocation, shared by every transport. One call reads one
//! [`Published`] root, so no answer mixes two versions, chains across zones included.
//!
//! The order of RFC 1034 section 4.3.2 and RFC 6672 section 3.2: the zone with the longest origin; a delegation or
//! DNAME on the way; the name itself; else the wildcard at the closest encloser (RFC 4592); else NXDOMAIN. An alias
//! starts over with its target while that lies in a zone served here. Responses are minimal: NS records only where they
//! are the answer or a referral, and beside the answer what `additional` adds.
//!
//! A name that has nothing but a placeholder ([`rtype::PLACEHOLDER`]) is answered like an empty non-terminal, or with
//! SERVFAIL where the placeholder says why nothing is known. A zone may refuse names that it does not hold
//! ([`Unknown::Refused`]) in place of NXDOMAIN.
//!
//! Chains end after [`MAX_ALIASES`] aliases or where a name comes up again, with what was found and NOERROR: a resolver
//! goes on from the last target, and sees the loop itself.
//!
//! To clients that want them, a signed zone gives signatures (`signed`) and the proof that a name or a type is not there
//! (`denial`).
//!
//! A set that is larger than the law of its zone allows is answered with a window of it (`select`), one that fits no
//! message over TCP with as much of it as does.
//!
//! Cost: O(name) lookups for each alias, one for the closest encloser's ancestors, and O(bytes) written.

mod additional;
mod denial;
mod signed;
mod windows;

use crate::acl::Secured;
use crate::metrics::{Counted, Transport};
use crate::publish::{Published, Served, State, Unknown};
use crate::select::Named;
use crate::zone::{Node, Zone};
use additional::Targets;
use signed::Proofs;
use std::net::{IpAddr, Ipv4Addr};
use wire::dnssd;
use wire::message::{
    ExtendedError, HEADER_BYTES, OPCODE_QUERY, Owner, Question, Request, Section, SubnetOption, Writer, rcode,
};
use wire::name::{self, NameBuf};
use wire::rr::{self, Set, rtype};

/// Aliases followed in one answer; as many as other servers follow, and more than any sane zone has.
pub const MAX_ALIASES: usize = 16;

/// A response in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    pub length: usize,
    pub rcode: u16,
    pub truncated: bool,
}

impl Response {
    /// The response as it is counted, to a question of a type.
    pub fn counted(&self, transport: Transport, rtype: Option<u16>) -> Counted {
        let Response { length, rcode, truncated } = *self;
        Counted { transport, rtype, rcode, octets: Some(length), truncated }
    }
}

/// A message and how it came.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub message: &'a [u8],
    pub peer: IpAddr,
    /// Over UDP, with its limits.
    pub datagram: bool,
    /// Number of the question, which chooses the record that comes first.
    pub rotation: u32,
    /// When it came, by the clock of rate limits.
    pub now: u64,
    /// The connection that it came over, if that is TLS.
    pub secured: Option<&'a dyn Secured>,
}

/// Answers one request of a client that nothing is known of into `out`, which must hold 512 octets for datagrams and
/// 65,535 for streams.
///
/// `None` when no response may be sent.
pub fn answer(
    published: &Published,
    message: &[u8],
    datagram: bool,
    rotation: u32,
    out: &mut [u8],
) -> Option<Response> {
    let mut read = Request::default();
    let limit = read.read(message).then(|| read.limit(datagram))?;
    let asked = Asked { message, peer: Ipv4Addr::UNSPECIFIED.into(), datagram, rotation, now: 0, secured: None };
    Some(answer_request(published, &read, None, limit, &asked, out))
}

/// Answers a request that has been read, in at most `limit` octets, question and OPT record apart. `place` is where its
/// name leads to, if that is known.
pub fn answer_request<'p>(
    published: &'p Published,
    request: &Request,
    place: Option<Place<'p>>,
    limit: usize,
    asked: &Asked<'_>,
    out: &mut [u8],
) -> Response {
    if request.opcode != OPCODE_QUERY && request.rcode == rcode::NOERROR {
        // NOTIFY, which transports that take it have handed elsewhere.
        let mut unknown = request.clone();
        (unknown.rcode, unknown.question, unknown.edns) = (rcode::NOTIMP, None, None);
        return answer_request(published, &unknown, None, limit, asked, out);
    }
    let nsid = published.identity.nsid();
    let writer = Writer::new(out, request, limit, nsid);
    // Multiples of the golden ratio are equidistributed, those of every other number, too: clients ask for A and AAAA in
    // turn.
    let turn = asked.rotation.wrapping_mul(0x9e37_79b1);
    // Few answers have something to prove, and the others do not pay for its room.
    let mut room;
    let proofs = if request.edns.is_some_and(|edns| edns.dnssec_ok) {
        room = Proofs::default();
        Some(&mut room)
    } else {
        None
    };
    let mut reply = Reply {
        published,
        asked,
        writer,
        turn,
        aside: None,
        targets: None,
        dnames: [None; MAX_ALIASES],
        aliases: 0,
        proofs,
    };
    let mut is_malformed = false;
    if let Some(edns) = &request.edns
        && !matches!(edns.subnet, SubnetOption::Absent)
        && request.rcode == rcode::NOERROR
    {
        is_malformed = reply.hear_subnet(&edns.subnet);
    }
    let rcode = match &request.question {
        _ if is_malformed => rcode::FORMERR,
        Some(question) if request.rcode == rcode::NOERROR => match question.class {
            rr::CLASS_IN => reply.resolve(question, place),
            rr::CLASS_CH => reply.identify(question),
            _ => rcode::REFUSED,
        },
        _ => request.rcode,
    };
    let truncated = reply.writer.truncated;
    let length = reply.writer.finish(request, rcode, nsid);
    Response { length, rcode, truncated }
}

/// Place at which a name is to be looked up.
#[derive(Clone, Copy)]
pub struct Place<'p> {
    /// The zone that it is within.
    pub served: &'p Served,
    /// Hash of the name there; none if the zone has no data to answer with.
    pub hash: Option<u64>,
    /// What the zone's selections have under that hash, if somebody has looked; it may be another name's.
    pub named: Option<&'p Named>,
}

impl<'p> Place<'p> {
    /// The place of a name (lowercase wire form), if a zone is served here that it is within.
    pub fn find(published: &'p Published, wire: &[u8]) -> Option<Place<'p>> {
        let served = published.find(wire)?;
        Some(Place { served, hash: served.answerable().map(|zone| zone.hash_of(wire)), named: None })
    }
}

/// A zone to be answered from.
#[derive(Clone, Copy)]
struct Source<'p> {
    zone: &'p Zone,
    served: &'p Served,
}

impl<'p> Source<'p> {
    /// The data of a zone, when it may be answered from.
    fn of(served: &'p Served) -> Option<Source<'p>> {
        served.answerable().map(|zone| Source { zone, served })
    }
}

/// Result of looking a name up within one zone.
pub enum NameMatch<'a> {
    /// A delegation above or at the name: the octet of the name at which its owner begins, and its NS records.
    Referral(usize, Set<'a>),
    /// A DNAME above the name, likewise.
    Dname(usize, Set<'a>),
    /// The node itself or the wildcard that stands for it.
    Node(Node<'a>),
    Nothing,
}

/// Next step after one name has been looked up.
enum Resolution {
    Done(u16),
    /// An alias was added; its target stands at this position of the message.
    Follow(usize),
}

/// A response while its records are looked up.
struct Reply<'p, 'o> {
    published: &'p Published,
    asked: &'o Asked<'o>,
    writer: Writer<'o>,
    /// Part of each set at which it begins, in parts of 2^32.
    turn: u32,
    /// What selections have under the hash of the name that was asked for, with their zone.
    aside: Option<(&'p Served, &'p Named)>,
    /// The records in the message that name what may be added: hosts, or instances.
    targets: Option<Targets>,
    /// DNAME sets in the answer, which a chain may meet again.
    dnames: [Option<(&'p Zone, Set<'p>)>; MAX_ALIASES],
    /// Aliases in the answer.
    aliases: usize,
    /// What the answer has to prove, for clients that want signatures.
    proofs: Option<&'o mut Proofs<'p>>,
}

impl<'p> Reply<'p, '_> {
    /// Takes the word of a resolver that is believed on whose question it asks; returns true if it makes no sense. What
    /// others say is ignored, and the response does not speak of it (RFC 7871 section 7.2.2).
    #[cold]
    fn hear_subnet(&mut self, option: &SubnetOption) -> bool {
        let is_believed = self.published.subnet_from.iter().any(|prefix| prefix.contains(self.asked.peer));
        match option {
            SubnetOption::Sent(subnet) if is_believed => self.writer.set_subnet(*subnet),
            SubnetOption::Malformed => return is_believed,
            _ => {}
        }
        false
    }

    /// Answers a question of class IN; returns the response code.
    fn resolve(&mut self, question: &Question, place: Option<Place<'p>>) -> u16 {
        let current = Owner { offset: HEADER_BYTES, wire: question.lower.as_wire() };
        let Some(place) = place.or_else(|| Place::find(self.published, current.wire)) else {
            self.writer.set_extended(ExtendedError::NotAuthoritative);
            return rcode::REFUSED;
        };
        self.aside = place.named.map(|named| (place.served, named));
        let served = zone_above(self.published, place.served, current.wire, question.rtype).unwrap_or(place.served);
        let rcode = self.resolve_in(served, place, current, question.rtype);
        served.tally.count(rcode);
        rcode
    }

    /// Resolves a question that leads to a zone.
    fn resolve_in(&mut self, served: &'p Served, place: Place<'p>, asked: Owner<'_>, qtype: u16) -> u16 {
        // Transfers are not for everyone, and never out of this function.
        if matches!(qtype, rtype::AXFR | rtype::IXFR) {
            return rcode::REFUSED;
        }
        let Some(mut zone) = Source::of(served) else {
            self.writer.set_extended(match served.state {
                State::Expired => ExtendedError::InvalidData,
                State::Ok | State::NotReady => ExtendedError::NotReady,
            });
            return rcode::SERVFAIL;
        };
        // In another zone it is another.
        let mut hash = place.hash.filter(|_| std::ptr::eq(served, place.served));
        // Where the names of the chain stand in the message.
        let mut seen = [asked.offset; MAX_ALIASES + 1];
        let (mut current, mut target) = (asked, None);
        loop {
            let next = match self.step(zone, current, hash.take(), qtype) {
                Resolution::Done(rcode) => {
                    self.add_proofs();
                    self.add_targets();
                    return rcode;
                }
                Resolution::Follow(target) => self.writer.placed(target),
            };
            let Ok(next) = next else { return rcode::SERVFAIL };
            if seen[..self.aliases].iter().any(|before| self.writer.has_name(*before, &next)) {
                return rcode::NOERROR;
            }
            seen[self.aliases] = next.offset;
            current = target.insert(next).owner();
            match zone_for(self.published, current.wire, qtype).and_then(Source::of) {
                Some(next_zone) => zone = next_zone,
                None => return rcode::NOERROR,
            }
        }
    }

    /// Looks one name up, whose hash may be known, and writes what it gives.
    fn step(&mut self, source: Source<'p>, current: Owner<'_>, hash: Option<u64>, qtype: u16) -> Resolution {
        self.writer.authoritative = true;
        let zone = source.zone;
        match find_hashed(zone, current.wire, hash, qtype) {
            NameMatch::Referral(start, ns) => {
                // RFC 1034 section 4.3.1: AA speaks for the first owner name, which behind an alias is ours.
                self.writer.authoritative = self.aliases > 0;
                self.refer(zone, current.suffix(start), ns);
                Resolution::Done(rcode::NOERROR)
            }
            NameMatch::Dname(start, dname) => self.follow_dname(zone, current, start, dname, qtype),
            NameMatch::Node(node) => self.answer_node(source, current, node, qtype),
            NameMatch::Nothing => self.answer_nothing(source, current, qtype),
        }
    }

    /// Writes the RRsets asked for, or the alias, or that there are none.
    fn answer_node(&mut self, source: Source<'p>, current: Owner<'_>, node: Node<'p>, qtype: u16) -> Resolution {
        self.note_wildcard(source.zone, current, node);
        if qtype == rtype::ANY && has_records(node) {
            for rrset in any_subset(current.wire, node) {
                if !self.add_answer(source, current, node, rrset) {
                    break;
                }
            }
            return Resolution::Done(rcode::NOERROR);
        }
        if let Some(rrset) = node.get(qtype) {
            self.add_answer(source, current, node, rrset);
            return Resolution::Done(rcode::NOERROR);
        }
        let Some(cname) = node.get(rtype::CNAME) else {
            // Whether a host has a service is the host's to say, even where a node has the name of the service.
            let meant = service_host(source.zone, current.wire, qtype).unwrap_or(node);
            let denied = self.deny_data(source.zone, current, meant);
            self.prove_no_data(source.zone, current, node);
            return denied;
        };
        if self.aliases == MAX_ALIASES {
            return Resolution::Done(rcode::NOERROR);
        }
        self.aliases += 1;
        let mut target = 0;
        if self.writer.add_rrset(Section::Answer, current, cname, 0, |at| target = at).is_err() {
            self.writer.truncated = true;
            return Resolution::Done(rcode::NOERROR);
        }
        self.sign(Section::Answer, current, source.zone, node, cname);
        Resolution::Follow(target)
    }

    /// Adds an RRset of a node to the answer and notes its targets. False when it did not fit.
    fn add_answer(&mut self, source: Source<'p>, owner: Owner<'_>, node: Node<'_>, rrset: Set<'_>) -> bool {
        // A DNAME can lead to its own owner name.
        if rrset.rtype == rtype::DNAME && self.has_dname(source.zone, rrset) {
            return true;
        }
        if rrset.rtype == rtype::RRSIG {
            return self.add_some_signatures(owner, rrset);
        }
        let start = self.writer.position();
        let compressed = rrset.rtype == rtype::SRV && source.served.unknown == Unknown::Refused;
        let added = if source.served.selections.may_cut(rrset.count) {
            self.add_window(Section::Answer, source, owner, node, rrset, compressed)
        } else if compressed {
            self.writer.add_services(Section::Answer, owner, rrset, rrset.rdatas_from(self.turn), |_| ())
        } else {
            self.writer.add_rrset(Section::Answer, owner, rrset, self.turn, |_| ())
        };
        let added = added.or_else(|full| self.add_part(source, owner, node, rrset).map_err(|_| full));
        let is_list = rrset.rtype == rtype::PTR;
        if let (Ok(()), Some(offset)) = (added, rr::target_offset(rrset.rtype))
            && (!is_list || dnssd::lists_instances(owner.wire))
        {
            let is_limited = source.served.selections.has_limit();
            self.targets =
                Some(Targets { position: start, end: self.writer.position(), offset, is_list, compressed, is_limited });
        }
        self.writer.truncated |= added.is_err();
        if added.is_ok() {
            self.sign(Section::Answer, owner, source.zone, node, rrset);
        }
        added.is_ok()
    }

    /// Writes the DNAME and the CNAME that follows from it (RFC 6672 section 3.1).
    fn follow_dname(
        &mut self,
        zone: &'p Zone,
        current: Owner<'_>,
        start: usize,
        dname: Set<'p>,
        qtype: u16,
    ) -> Resolution {
        if self.aliases == MAX_ALIASES {
            return Resolution::Done(rcode::NOERROR);
        }
        self.aliases += 1;
        let owner = current.suffix(start);
        if !self.has_dname(zone, dname) {
            if self.writer.add_rrset(Section::Answer, owner, dname, 0, |_| ()).is_err() {
                self.writer.truncated = true;
                return Resolution::Done(rcode::NOERROR);
            }
            if let Some(free) = self.dnames.iter_mut().find(|slot| slot.is_none()) {
                *free = Some((zone, dname));
            }
            if let Some(node) = zone.get(owner.wire) {
                self.sign(Section::Answer, owner, zone, node, dname);
            }
        }
        let Some(target) = dname.first_name(0) else { return Resolution::Done(rcode::SERVFAIL) };
        // The labels in front keep the case in which they stand in the message.
        let spelled = NameBuf::read(self.writer.written(), current.offset);
        let Ok((spelled, _)) = spelled else { return Resolution::Done(rcode::SERVFAIL) };
        let Ok(next) = spelled.splice(start, target.as_wire()) else {
            // RFC 6672 section 2.2: too long a name.
            return Resolution::Done(rcode::YXDOMAIN);
        };
        let fixed = (rtype::CNAME, rr::CLASS_IN, dname.ttl);
        match self.writer.add_record(Section::Answer, current, fixed, next.as_wire()) {
            Err(_) => {
                self.writer.truncated = true;
                Resolution::Done(rcode::NOERROR)
            }
            Ok(_) if matches!(qtype, rtype::CNAME | rtype::ANY) => Resolution::Done(rcode::NOERROR),
            Ok(at) => Resolution::Follow(at),
        }
    }

    /// Returns true if a DNAME set of a zone is in the answer.
    fn has_dname(&self, zone: &Zone, dname: Set<'_>) -> bool {
        // A region shares the sets of its members, under other owner names.
        self.dnames.iter().flatten().any(|(of, added)| std::ptr::eq(*of, zone) && added.is(dname))
    }

    /// Answers for a node that does not have what was asked for.
    fn deny_data(&mut self, zone: &'p Zone, current: Owner<'_>, node: Node<'_>) -> Resolution {
        if is_unreadable(node) {
            self.writer.authoritative = false;
            self.writer.set_extended(ExtendedError::InvalidData);
            return Resolution::Done(rcode::SERVFAIL);
        }
        self.deny(zone, current, rcode::NOERROR)
    }

    /// Answers for a name that a zone does not hold.
    ///
    /// Whether a host that cannot be read has a service cannot be known either, so that is not denied. Where unknown
    /// names are refused, a question for a service of a host that is there is no question for an unknown name: whoever
    /// gets REFUSED asks elsewhere, whoever gets no data goes on with the host's addresses (`docs/binder.md` 9).
    fn answer_nothing(&mut self, source: Source<'p>, current: Owner<'_>, qtype: u16) -> Resolution {
        let zone = source.zone;
        let refuses = source.served.unknown == Unknown::Refused && self.aliases == 0;
        match service_host(zone, current.wire, qtype) {
            Some(node) if refuses || is_unreadable(node) => self.deny_data(zone, current, node),
            _ if refuses => {
                self.writer.authoritative = false;
                Resolution::Done(rcode::REFUSED)
            }
            _ => {
                let denied = self.deny(zone, current, rcode::NXDOMAIN);
                self.prove_no_name(zone, current);
                denied
            }
        }
    }

    /// Writes a negative answer's SOA (RFC 2308 section 2).
    fn deny(&mut self, zone: &'p Zone, current: Owner<'_>, rcode: u16) -> Resolution {
        let origin = current.suffix(current.wire.len() - zone.origin.as_wire().len());
        let soa = zone.negative.as_set();
        match self.writer.add_rrset(Section::Authority, origin, soa, 0, |_| ()) {
            Ok(()) => self.sign(Section::Authority, origin, zone, zone.apex(), soa),
            Err(_) => self.writer.truncated = true,
        }
        Resolution::Done(rcode)
    }

    /// Writes a referral: NS, then the glue. RFC 9471: glue for name servers below the cut must fit or TC is set;
    /// addresses of others are a courtesy.
    fn refer(&mut self, zone: &'p Zone, cut: Owner<'_>, ns: Set<'_>) {
        let position = self.writer.position();
        if self.writer.add_rrset(Section::Authority, cut, ns, 0, |_| ()).is_err() {
            self.writer.truncated = true;
            return;
        }
        let end = self.writer.position();
        self.prove_delegation(zone, cut);
        self.add_proofs();
        let names = Targets { position, end, offset: 0, is_list: false, compressed: false, is_limited: false };
        for required in [true, false] {
            let mut names = names;
            while let Some(target) = names.next(&self.writer) {
                let wire = target.lower.as_wire();
                let below = name::suffix_offset(wire, cut.wire).is_some();
                if below != required || name::suffix_offset(wire, zone.origin.as_wire()).is_none() {
                    continue;
                }
                let Some(node) = zone.get(wire) else { continue };
                for rtype in [rtype::A, rtype::AAAA] {
                    let Some(rrset) = node.get(rtype) else { continue };
                    let added = self.writer.add_rrset(Section::Additional, target.owner(), rrset, self.turn, |_| ());
                    self.writer.truncated |= required && added.is_err();
                    if added.is_ok() {
                        self.sign(Section::Additional, target.owner(), zone, node, rrset);
                    }
                }
            }
        }
    }

    /// Answers a question of class CH about the server itself (RFC 4892).
    fn identify(&mut self, question: &Question) -> u16 {
        let identity = &self.published.identity;
        let text = match question.lower.as_wire() {
            b"\x07version\x04bind\x00" | b"\x07version\x06server\x00" => &identity.version,
            b"\x08hostname\x04bind\x00" | b"\x02id\x06server\x00" => &identity.name,
            _ => return rcode::REFUSED,
        };
        self.writer.authoritative = true;
        if matches!(question.rtype, rtype::TXT | rtype::ANY) {
            let text = &text.as_bytes()[..text.len().min(255)];
            let mut rdata = [0; 256];
            rdata[0] = text.len() as u8;
            rdata[1..=text.len()].copy_from_slice(text);
            let owner = Owner { offset: HEADER_BYTES, wire: question.name.as_wire() };
            let fixed = (rtype::TXT, rr::CLASS_CH, 0);
            let added = self.writer.add_record(Section::Answer, owner, fixed, &rdata[..=text.len()]);
            self.writer.truncated = added.is_err();
        }
        rcode::NOERROR
    }
}

/// The zone that answers for a name (lowercase wire form).
pub fn zone_for<'p>(published: &'p Published, wire: &[u8], qtype: u16) -> Option<&'p Served> {
    let served = published.find(wire)?;
    Some(zone_above(published, served, wire, qtype).unwrap_or(served))
}

/// The zone that answers in place of the one which a name is within: for DS at its origin the zone above, if that is
/// here and delegates the name (RFC 4035 section 3.1.4.1). A zone that merely encloses another knows nothing of it.
fn zone_above<'p>(published: &'p Published, served: &Served, wire: &[u8], qtype: u16) -> Option<&'p Served> {
    if qtype != rtype::DS || served.origin.as_wire() != wire {
        return None;
    }
    let above = name::parent(wire).and_then(|parent| published.find(parent))?;
    above.answerable().is_some_and(|zone| delegates(zone, wire)).then_some(above)
}

/// Returns true if nobody can know which records a node should have beside those that it has.
pub fn is_unreadable(node: Node<'_>) -> bool {
    let is_reason = |reason: &[u8]| !reason.is_empty() && reason != rr::MEMBERLESS;
    node.get(rtype::PLACEHOLDER).is_some_and(|reasons| reasons.rdatas().all(is_reason))
}

/// Returns true if a node has more than a placeholder.
pub fn has_records(node: Node<'_>) -> bool {
    node.rrsets().any(|rrset| rrset.rtype != rtype::PLACEHOLDER)
}

/// The host that a question for a service means, where the service is not known and the host is. A name that begins
/// with an underscore may be part of the name of a service; then nothing is said of it by itself.
pub fn service_host<'z>(zone: &'z Zone, wire: &[u8], qtype: u16) -> Option<Node<'z>> {
    if qtype != rtype::SRV {
        return None;
    }
    let mut labels = name::labels(wire);
    let is_service_label = |label: &[u8]| label.first() == Some(&b'_') && !label[1..].contains(&b'_');
    let (first, second) = (labels.next()?, labels.next()?);
    let host = wire.get(2 + first.len() + second.len()..)?;
    let meant = is_service_label(first) && is_service_label(second) && host.len() > zone.origin.as_wire().len();
    let node = zone.get(host).filter(|_| meant)?;
    let mut above = name::labels(host).map(|label| label.first() == Some(&b'_'));
    let is_host = match [above.next(), above.next()] {
        [Some(true), Some(true)] => node.rrsets().any(|rrset| match rrset.rtype {
            rtype::SRV => false,
            rtype::PLACEHOLDER => rrset.rdatas().any(|reason| reason != rr::MEMBERLESS),
            _ => true,
        }),
        [Some(true), _] => !node.is_empty(),
        _ => true,
    };
    is_host.then_some(node)
}

/// Returns true if a zone holds a delegation at a name or above it.
fn delegates(zone: &Zone, wire: &[u8]) -> bool {
    match find(zone, wire, rtype::DS) {
        NameMatch::Referral(..) => true,
        NameMatch::Node(node) => node.get(rtype::NS).is_some(),
        NameMatch::Dname(..) | NameMatch::Nothing => false,
    }
}

/// Looks a name (lowercase wire form) up in a zone that holds it.
pub fn find<'a>(zone: &'a Zone, wire: &[u8], qtype: u16) -> NameMatch<'a> {
    find_hashed(zone, wire, None, qtype)
}

/// Finds a name as [`find`] does, where its hash in that zone may be known.
fn find_hashed<'a>(zone: &'a Zone, wire: &[u8], hash: Option<u64>, qtype: u16) -> NameMatch<'a> {
    // Without cuts nothing above the name matters, and most questions are for names that exist.
    if zone.cuts == 0
        && let Some(node) = hash.map_or_else(|| zone.get(wire), |hash| zone.get_hashed(hash, wire))
        && !zone.hides(node)
    {
        return NameMatch::Node(node);
    }
    if zone.cuts == 0 && zone.wildcards == 0 {
        return NameMatch::Nothing;
    }
    let origin = wire.len() - zone.origin.as_wire().len();
    if origin == 0 {
        return NameMatch::Node(zone.apex());
    }
    if let Some(dname) = zone.apex().get(rtype::DNAME) {
        return NameMatch::Dname(origin, dname);
    }
    let mut encloser = origin;
    for start in name::label_starts(wire).iter().rev().map(|start| usize::from(*start)).filter(|start| *start < origin)
    {
        let Some(node) = zone.get(&wire[start..]).filter(|node| !zone.hides(*node)) else { break };
        // At the name itself, DS belongs to this side of the cut (RFC 4035 section 3.1.4.1).
        if let Some(ns) = node.get(rtype::NS)
            && (start != 0 || qtype != rtype::DS)
        {
            return NameMatch::Referral(start, ns);
        }
        if start == 0 {
            return NameMatch::Node(node);
        }
        if let Some(dname) = node.get(rtype::DNAME) {
            return NameMatch::Dname(start, dname);
        }
        encloser = start;
    }
    // RFC 4592 section 3.3.1: only the wildcard directly below the closest encloser counts.
    find_wildcard(zone, &wire[encloser..]).map_or(NameMatch::Nothing, NameMatch::Node)
}

/// The wildcard directly below a name.
fn find_wildcard<'a>(zone: &'a Zone, encloser: &[u8]) -> Option<Node<'a>> {
    zone.get(wildcard_below(encloser)?.as_wire())
}

/// The name of the wildcard directly below a name; none where that would be too long.
fn wildcard_below(encloser: &[u8]) -> Option<NameBuf> {
    NameBuf::root().splice(0, b"\x01*").and_then(|star| star.splice(2, encloser)).ok()
}

/// RRsets that answer ANY (RFC 8482 section 4.1): one RRset, but SRV and TXT together at a DNS-SD instance name,
/// because the OpenStack discovery procedure asks for them so.
fn any_subset<'a>(wire: &[u8], node: Node<'a>) -> impl Iterator<Item = Set<'a>> {
    let described = |rrset: &Set<'_>| matches!(rrset.rtype, rtype::SRV | rtype::TXT);
    let instance = name::is_instance_name(wire) && node.rrsets().any(|rrset| described(&rrset));
    let single = node.rrsets().find(|rrset| !rr::is_dnssec(rrset.rtype)).or(node.rrsets().next());
    let chosen = if instance { None } else { single };
    let pair = node.rrsets().filter(move |rrset| instance && described(rrset));
    chosen.into_iter().chain(pair)
}

#[cfg(test)]
mod tests;
