//! Zone transfers to secondaries: AXFR (RFC 5936) and IXFR (RFC 1995), as messages without sockets.
//!
//! [`decide`] says what a request for a transfer gets: a refusal, the SOA alone, or a [`Transfer`]. That holds one
//! version of the zone and the differences that lead to it, all immutable and shared, and its [`Messages`] compose
//! one message after the other, so a transfer of any length costs one message of memory and never sees a newer version.
//!
//! A client that has our serial, or a newer one, gets our SOA alone (RFC 1995 section 2); whoever wants the zone
//! nevertheless asks for AXFR. A difference is sent only to a client whose whole SOA equals what this server published
//! under that serial. Replicas that sum the serials of the same members can have one serial over different contents for
//! a moment; such a client, and one that says nothing but a serial, gets the whole zone. At a distance of 2^31 neither
//! serial is newer (RFC 1982 section 3.2), and the whole zone is sent, too.
//!
//! Over UDP an IXFR is answered with our SOA alone (RFC 1995 section 2), and with TC when there is more: NSD takes
//! either as the sign to use TCP. AXFR over UDP has no meaning (RFC 5936 section 4.2) and is refused with all else.
//!
//! Invariants: a message is no longer than [`MESSAGE_BYTES`], unless a single record is; names are compressed only in
//! RDATA of types that RFC 1035 defines (RFC 3597 section 4), and keep their spelling; TTLs are those that were
//! received.
//!
//! Cost: O(octets) to compose; deciding is O(differences) for IXFR and O(1) for AXFR.

use crate::acl::{Permission, Secured};
use crate::publish::{Published, Served, State};
use crate::zone::{Delta, OpenDelta, Record, Soa, Zone};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use wire::message::{
    self, ExtendedError, HEADER_BYTES, OPCODE_QUERY, OPT_BYTES, POINTER_LIMIT, Question, Request, ResponseFlags,
    Section, rcode,
};
use wire::name::{self, Name, NameBuf};
use wire::rr::{self, CLASS_IN, FIXED_BYTES, RRset, Set, rtype};
use wire::serial::Serial;

mod compress;

use compress::{Compressor, Cursor};

/// The longest message but for single records that are longer: compression pointers reach no further.
pub const MESSAGE_BYTES: usize = 16 << 10;
/// Names, and records of differences, that are listed at once.
const NODES_AT_ONCE: usize = 32;
const RECORDS_AT_ONCE: usize = 64;

/// Kind of an answer to a request for a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Kind {
    Axfr,
    Ixfr,
    /// The whole zone in answer to IXFR (RFC 1995 section 4).
    IxfrFull,
    /// The SOA alone in answer to IXFR.
    Current,
}

impl Kind {
    /// The metric label.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

/// Reason for which a client gets no transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Refusal {
    #[error("the server is not authoritative for the zone")]
    NotAuthoritative,
    #[error("neither its address nor its key may transfer the zone")]
    #[strum(serialize = "refused")]
    Prohibited,
    #[error("an IXFR request holds exactly one SOA, that of the zone")]
    Malformed,
    #[error("the zone has never been loaded whole")]
    NotReady,
    #[error("the zone has expired")]
    Expired,
    #[error("too many transfers at once")]
    Busy,
    #[error("over TLS zones are sent with TLS 1.3 and the protocol \"dot\" only")]
    Tls,
    #[error("it may transfer the zone over TLS only, and with the certificate that its rule names, if any")]
    Channel,
}

impl Refusal {
    /// The metric label.
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// The response code and the extended error that goes with it.
    pub fn codes(self) -> (u16, Option<ExtendedError>) {
        match self {
            // RFC 5936 section 2.2.1.
            Refusal::NotAuthoritative => (rcode::NOTAUTH, Some(ExtendedError::NotAuthoritative)),
            Refusal::Prohibited => (rcode::REFUSED, Some(ExtendedError::Prohibited)),
            Refusal::Malformed => (rcode::FORMERR, None),
            Refusal::NotReady => (rcode::SERVFAIL, Some(ExtendedError::NotReady)),
            Refusal::Expired => (rcode::SERVFAIL, Some(ExtendedError::InvalidData)),
            // As BIND answers when its quota of transfers is used up; secondaries try again.
            Refusal::Busy => (rcode::SERVFAIL, None),
            // RFC 9103 sections 7.1 and 7.2, and 9.
            Refusal::Tls | Refusal::Channel => (rcode::REFUSED, Some(ExtendedError::Prohibited)),
        }
    }
}

/// Verdict on a request for a transfer.
pub enum Verdict {
    Refuse(Refusal, Option<Name>),
    /// The SOA alone, with TC if there is more over TCP.
    Soa {
        zone: Arc<Zone>,
        truncated: bool,
    },
    Stream(Box<Transfer>),
}

/// Client that asks for a transfer.
pub struct Client<'a> {
    pub address: IpAddr,
    /// The key that the request was signed with.
    pub key: Option<&'a Name>,
    /// True if there is no connection that a transfer could be sent over.
    pub datagram: bool,
    /// The connection, if it is TLS.
    pub secured: Option<&'a dyn Secured>,
}

/// Returns true if a request is one that [`decide`] decides.
pub fn is_transfer(request: &Request, datagram: bool) -> bool {
    let asks = |question: &Question| {
        let rtype = question.rtype == rtype::IXFR || question.rtype == rtype::AXFR && !datagram;
        rtype && question.class == CLASS_IN
    };
    request.opcode == OPCODE_QUERY && request.rcode == rcode::NOERROR && request.question.as_ref().is_some_and(asks)
}

/// Decides what a request for a transfer gets, which `message` holds in whole.
pub fn decide(published: &Published, request: &Request, message: &[u8], client: &Client<'_>) -> Verdict {
    let Some(question) = &request.question else { return Verdict::Refuse(Refusal::Malformed, None) };
    let lower = &question.lower;
    // A zone is transferred by its own name, not by one within it.
    let served = published.find(lower.as_wire()).filter(|served| served.origin.as_wire() == lower.as_wire());
    let Some(served) = served else { return Verdict::Refuse(Refusal::NotAuthoritative, None) };
    let refuse = |refusal| Verdict::Refuse(refusal, Some(served.origin.clone()));
    let incremental = question.rtype == rtype::IXFR;
    match served.outgoing.access.permits(client.address, client.key, client.secured) {
        Permission::Granted => {}
        Permission::Elsewhere => return refuse(Refusal::Channel),
        Permission::Denied => return refuse(Refusal::Prohibited),
    }
    let theirs = if incremental { read_soa(message, lower.as_wire()) } else { None };
    if incremental && theirs.is_none() {
        return refuse(Refusal::Malformed);
    }
    let Some(zone) = served.zone.clone().filter(|_| served.state == State::Ok) else {
        return refuse(if served.state == State::Expired { Refusal::Expired } else { Refusal::NotReady });
    };
    let from = theirs.as_deref().and_then(Soa::from_rdata).map(|soa| soa.serial);
    let (kind, deltas) = match (theirs, from) {
        // RFC 1995 section 2: nothing to send to a client that has our version or a newer one.
        (Some(_), Some(from)) if from == zone.soa.serial || from.newer_than(zone.soa.serial) => {
            return Verdict::Soa { zone, truncated: false };
        }
        (Some(_), Some(_)) if client.datagram => return Verdict::Soa { zone, truncated: true },
        (Some(theirs), Some(_)) => match differences(served, &zone, &theirs) {
            Some(deltas) => (Kind::Ixfr, deltas.into_iter().map(|delta| (delta, OnceLock::new())).collect()),
            None => (Kind::IxfrFull, Vec::new()),
        },
        _ => (Kind::Axfr, Vec::new()),
    };
    Verdict::Stream(Box::new(Transfer { kind, from, zone, deltas, request: request.clone() }))
}

/// The differences from the version that a client has, if it is one of ours and they are worth while.
fn differences(served: &Served, zone: &Zone, theirs: &[u8]) -> Option<Vec<Arc<Delta>>> {
    let deltas = served.outgoing.ixfr.then(|| served.history.since(theirs))??;
    let arrives = deltas.last().is_some_and(|delta| &delta.to == zone.soa_rrset());
    let size = |delta: &Arc<Delta>| 2 + delta.records() as u64;
    // RFC 1995 section 4 leaves the choice; the shorter is the better one.
    let worth_while = deltas.iter().map(size).sum::<u64>() <= zone.records;
    (arrives && worth_while).then_some(deltas)
}

/// The RDATA, uncompressed, of the one SOA in the authority section of an IXFR request (RFC 1995 section 3).
fn read_soa(message: &[u8], origin: &[u8]) -> Option<Vec<u8>> {
    let mut authority = message::Records::new(message)?.flatten().filter(|record| record.section == Section::Authority);
    let (Some(soa), None) = (authority.next(), authority.next()) else { return None };
    let owner = NameBuf::read(message, soa.owner).ok()?.0.to_lowercase();
    if soa.rtype != rtype::SOA || soa.class != CLASS_IN || owner.as_wire() != origin {
        return None;
    }
    let mut rdata = Vec::with_capacity(soa.length);
    rr::decompress(rtype::SOA, message, soa.rdata, soa.length, &mut rdata).ok()?;
    Some(rdata)
}

//--- Transfer ---

/// One transfer as it was decided.
pub struct Transfer {
    pub kind: Kind,
    /// The version that the client has, if it says so.
    pub from: Option<Serial>,
    pub zone: Arc<Zone>,
    /// Differences to send, each unpacked when its turn comes; empty where the whole zone is sent.
    deltas: Vec<(Arc<Delta>, OnceLock<OpenDelta>)>,
    pub request: Request,
}

/// A record that does not fit into any message; it cannot be transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oversized;

impl Transfer {
    /// Composes the messages, of which there is at least one.
    pub fn messages(&self) -> Messages<'_> {
        let refill: Box<Refill<'_>> =
            if self.kind == Kind::Ixfr { Box::new(self.differences()) } else { Box::new(self.everything()) };
        Messages {
            request: &self.request,
            records: Records { items: Vec::new(), taken: 0, refill },
            last: None,
            origin_at: None,
            compressor: Compressor::new(),
            sent: Sent::default(),
        }
    }

    /// The SOA, all other records, and the SOA again (RFC 5936 section 2.2).
    fn everything<'a>(&'a self) -> impl FnMut(&mut Vec<Item<'a>>) + Send + 'a {
        let mut ends = [self.soa(self.zone.soa_rrset()); 2].into_iter();
        let mut nodes = self.zone.nodes();
        move |items| {
            if ends.len() == 2 {
                items.extend(ends.next());
            }
            let mut is_more = true;
            while items.is_empty() && is_more {
                is_more = false;
                nodes.by_ref().take(NODES_AT_ONCE).for_each(|node| {
                    is_more = true;
                    let owner = self.zone.owner_of(node);
                    let rrsets = node.rrsets().filter(|rrset| rrset.rtype != rtype::SOA);
                    rrsets.for_each(|rrset| items.extend(items_of(owner, rrset)));
                });
            }
            if items.is_empty() {
                items.extend(ends.next());
            }
        }
    }

    /// The newest SOA, the differences between it and their own two SOA, and the newest SOA again (RFC 1995 section 4).
    fn differences<'a>(&'a self) -> impl FnMut(&mut Vec<Item<'a>>) + Send + 'a {
        let soa = |rrset| std::iter::once(self.soa(rrset));
        let parts = move |(delta, open): &'a (Arc<Delta>, OnceLock<OpenDelta>)| {
            let OpenDelta { delta, removed, added } = open.get_or_init(|| OpenDelta::new(delta));
            let (from, to) = (&delta.from, &delta.to);
            soa(from).chain(removed.iter().map(Item::of)).chain(soa(to)).chain(added.iter().map(Item::of))
        };
        let newest = self.zone.soa_rrset();
        let mut records = soa(newest).chain(self.deltas.iter().flat_map(parts)).chain(soa(newest));
        move |items| items.extend(records.by_ref().take(RECORDS_AT_ONCE))
    }

    /// An SOA of the zone, with the apex as it is spelled.
    fn soa<'a>(&'a self, rrset: &'a RRset) -> Item<'a> {
        items_of(self.zone.owner_of(self.zone.apex()), rrset.as_set()).next().expect("an RRset has a record")
    }
}

/// Appends some of the records that follow, none only behind the last.
type Refill<'a> = dyn FnMut(&mut Vec<Item<'a>>) + Send + 'a;

/// The records of a transfer. They are listed some at a time, which takes a fraction of the time of one by one.
struct Records<'a> {
    items: Vec<Item<'a>>,
    /// Number of the items that are composed.
    taken: usize,
    refill: Box<Refill<'a>>,
}

impl<'a> Records<'a> {
    /// The record that comes next.
    #[inline]
    fn peek(&mut self) -> Option<Item<'a>> {
        if self.taken == self.items.len() {
            self.items.clear();
            self.taken = 0;
            (self.refill)(&mut self.items);
        }
        self.items.get(self.taken).copied()
    }
}

/// A record to be sent. Its owner comes in two parts, one of which may be empty.
#[derive(Clone, Copy)]
struct Item<'a> {
    owner: [&'a [u8]; 2],
    rtype: u16,
    ttl: u32,
    rdata: &'a [u8],
}

impl<'a> Item<'a> {
    /// A record of a difference.
    fn of(Record { owner, rtype, ttl, rdata }: Record<'a>) -> Item<'a> {
        Item { owner: [owner, &[]], rtype, ttl, rdata }
    }
}

/// The records of an RRset.
fn items_of<'a>(owner: [&'a [u8]; 2], rrset: Set<'a>) -> impl Iterator<Item = Item<'a>> + Send {
    rrset.rdatas().map(move |rdata| Item { owner, rtype: rrset.rtype, ttl: rrset.ttl, rdata })
}

//--- Messages ---

/// Numbers of messages and records composed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub messages: u64,
    pub records: u64,
}

/// The messages of one transfer, composed one at a time.
pub struct Messages<'a> {
    request: &'a Request,
    records: Records<'a>,
    /// The owner of the record written last, and where the message holds it.
    last: Option<([&'a [u8]; 2], usize)>,
    /// Position at which the message holds the origin, which most owners end in.
    origin_at: Option<u16>,
    compressor: Compressor,
    pub sent: Sent,
}

impl<'a> Messages<'a> {
    /// Composes the next message into `out`, with `reserve` octets left for a signature behind it. Returns its length;
    /// `None` behind the last one.
    pub fn compose(&mut self, out: &mut [u8], reserve: usize) -> Option<Result<usize, Oversized>> {
        self.records.peek()?;
        let first = self.sent.messages == 0;
        // RFC 5936 section 2.2.5: an OPT record in the first message, if the client has sent one.
        let opt = self.request.edns.filter(|_| first).map(|edns| edns.response_opt(rcode::NOERROR, 0));
        let reserve = reserve + opt.map_or(0, |opt| opt.len());
        let room = out.len().min(usize::from(u16::MAX)).saturating_sub(reserve);
        let mut cursor = Cursor::new(&mut out[..room], HEADER_BYTES);
        self.compressor.clear();
        (self.last, self.origin_at) = (None, None);
        // RFC 5936 section 2.2.2: the question stands in the first message.
        if first && self.write_question(&mut cursor).is_none() {
            return Some(Err(Oversized));
        }
        let limit = MESSAGE_BYTES.saturating_sub(reserve);
        let mut records: u16 = 0;
        let mut end = cursor.position;
        while let Some(record) = self.records.peek() {
            let fits = self.write_record(&mut cursor, &record).is_some();
            if fits && (cursor.position <= limit || records == 0) {
                (end, records) = (cursor.position, records + 1);
                self.records.taken += 1;
                continue;
            }
            if records == 0 {
                return Some(Err(Oversized));
            }
            // What it left in the compressor is forgotten with the message.
            break;
        }
        let mut additional = 0;
        if let Some(opt) = opt {
            out[end..end + OPT_BYTES].copy_from_slice(&opt);
            end += OPT_BYTES;
            additional = 1;
        }
        let flags = ResponseFlags { authoritative: true, truncated: false };
        let mut header = self.request.response_header(rcode::NOERROR, flags, [records, 0, additional]);
        if !first {
            header.questions = 0;
        }
        out[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        self.sent.messages += 1;
        self.sent.records += u64::from(records);
        Some(Ok(end))
    }

    /// Appends the question.
    fn write_question(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let Some(question) = &self.request.question else { return Some(()) };
        self.compressor.write(cursor, question.name.as_wire())?;
        cursor.put(&question.rtype.to_be_bytes())?;
        cursor.put(&question.class.to_be_bytes())
    }

    /// Appends the owner of a record; `None` when it does not fit. Most have the one of the record before.
    fn write_owner(&mut self, cursor: &mut Cursor<'_>, owner: [&'a [u8]; 2]) -> Option<()> {
        let is_last = |last: [&[u8]; 2]| std::ptr::eq(last[0], owner[0]) && std::ptr::eq(last[1], owner[1]);
        if let Some((_, at)) = self.last.filter(|(last, at)| is_last(*last) && *at < POINTER_LIMIT) {
            return cursor.put(&(0xc000 | at as u16).to_be_bytes());
        }
        let [labels, origin] = owner;
        let at = if origin.is_empty() {
            self.compressor.write(cursor, labels)?
        } else if let Some(at) = self.origin_at {
            self.compressor.write_labels(cursor, labels, at)?
        } else {
            let (mut name, length) = ([0; name::MAX_NAME_BYTES], labels.len() + origin.len());
            name[..labels.len()].copy_from_slice(labels);
            name[labels.len()..length].copy_from_slice(origin);
            let at = self.compressor.write(cursor, &name[..length])?;
            self.origin_at = self.compressor.position_of(cursor, origin);
            at
        };
        self.last = Some((owner, at));
        Some(())
    }

    /// Appends a record; `None` when it does not fit.
    fn write_record(&mut self, cursor: &mut Cursor<'_>, record: &Item<'a>) -> Option<()> {
        self.write_owner(cursor, record.owner)?;
        let mut fixed = [0; FIXED_BYTES - 2];
        fixed[..2].copy_from_slice(&record.rtype.to_be_bytes());
        fixed[2..4].copy_from_slice(&CLASS_IN.to_be_bytes());
        fixed[4..8].copy_from_slice(&rr::record_ttl(record.rtype, record.ttl, record.rdata).to_be_bytes());
        fixed[8..].copy_from_slice(&(record.rdata.len() as u16).to_be_bytes());
        cursor.put(&fixed)?;
        let (lead, names) = compressible(record.rtype);
        if names == 0 {
            return cursor.put(record.rdata);
        }
        let length_at = cursor.position - 2;
        let mut rest = record.rdata;
        if let Some((head, tail)) = rest.split_at_checked(lead) {
            cursor.put(head)?;
            rest = tail;
        }
        for _ in 0..names {
            let end = name::skip(rest, 0).unwrap_or(rest.len());
            self.compressor.write(cursor, &rest[..end])?;
            rest = &rest[end..];
        }
        cursor.put(rest)?;
        cursor.set(length_at, (cursor.position - length_at - 2) as u16);
        Some(())
    }
}

/// Octets in front of the names of RDATA, and how many names may be compressed: those of the types of RFC 1035 that are
/// in use. RFC 3597 section 4 forbids it in types that came later, SRV (RFC 2782) among them.
fn compressible(rtype: u16) -> (usize, usize) {
    match rtype {
        rtype::NS | rtype::CNAME | rtype::PTR => (0, 1),
        rtype::MX => (2, 1),
        rtype::SOA => (0, 2),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests;
