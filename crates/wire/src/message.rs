//! Messages: reading and writing requests and responses.
//!
//! [`Header`], [`Question`] and [`Records`] read any message, by hand and without copying. [`Request::parse`] takes what a
//! client sent apart as far as an authoritative server needs it; [`RequestWriter`] writes what a client sends. [`Writer`] puts a response together in a buffer of the caller: whole RRsets or nothing, owner names as
//! pointers to names that stand uncompressed in the message already, or ending with a pointer into the question. Names
//! in RDATA are not compressed, but for the targets of SRV records where a zone answers as Binder does
//! ([`Writer::add_services`]).
//!
//! Invariants: a response never exceeds the limit; a section count says exactly what follows; an OPT record always
//! fits. Cost: O(bytes), no allocation. RFC 1035 section 4, RFC 6891, RFC 7871, RFC 7873, RFC 8906,
//! RFC 9619.

mod addresses;
mod cookie;
mod header;
mod records;
mod request_writer;
mod services;
mod subnet;

pub use cookie::{COOKIE_BYTES, Cookie, CookieOption, OPTION_COOKIE, ServerCookie, ShownCookie};
pub use header::{HEADER_BYTES, Header, OPCODE_NOTIFY, OPCODE_QUERY, flag};
pub use records::{CutOff, Record, Records};
pub use request_writer::RequestWriter;
pub use subnet::{ClientSubnet, OPTION_SUBNET, SubnetOption};

use crate::name::{self, Name, NameBuf, NameError};
use crate::rr::{self, CLASS_IN, Set, rtype};

/// The largest response over UDP: what fits into one frame almost everywhere (RFC 9715 appendix A).
pub const MAX_UDP_BYTES: usize = 1232;
/// The largest response over UDP without EDNS, and what a smaller EDNS size means (RFC 6891 section 6.2.3).
pub const MIN_UDP_BYTES: usize = 512;
/// Positions beyond this cannot be pointed to (RFC 1035 section 4.1.4).
pub const POINTER_LIMIT: usize = 0x4000;

/// Response codes (RFC 1035 section 4.1.1, RFC 2136 section 2.2, RFC 6891 section 9).
pub mod rcode {
    pub const NOERROR: u16 = 0;
    pub const FORMERR: u16 = 1;
    pub const SERVFAIL: u16 = 2;
    pub const NXDOMAIN: u16 = 3;
    pub const NOTIMP: u16 = 4;
    pub const REFUSED: u16 = 5;
    pub const YXDOMAIN: u16 = 6;
    pub const NOTAUTH: u16 = 9;
    pub const BADVERS: u16 = 16;
}

/// Extended errors (RFC 8914 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtendedError {
    NotReady = 14,
    Prohibited = 18,
    NotAuthoritative = 20,
    InvalidData = 24,
}

/// EDNS option NSID (RFC 5001).
const OPTION_NSID: u16 = 3;
/// EDNS option Extended DNS Error (RFC 8914).
const OPTION_EDE: u16 = 15;
/// An OPT record without options.
pub const OPT_BYTES: usize = 11;
/// An extended error without text.
const EDE_BYTES: usize = 6;
/// The cookies of a response, with the head of their option.
const COOKIE_OPTION_BYTES: usize = 4 + COOKIE_BYTES;

//--- Request ---

/// The one question.
#[derive(Clone, Copy, Default)]
pub struct Question {
    /// Name as received; it stands uncompressed at the end of the header.
    pub name: NameBuf,
    /// Name in lowercase, for lookups.
    pub lower: NameBuf,
    pub rtype: u16,
    pub class: u16,
}

impl Question {
    /// Reads the question behind a header; returns it and the position behind it.
    pub fn read(message: &[u8]) -> Result<(Question, usize), NameError> {
        let mut question = Question::default();
        let end = question.fill(message)?;
        Ok((question, end))
    }

    /// Reads as [`Question::read`] does, in place; returns the position behind the question.
    #[inline]
    fn fill(&mut self, message: &[u8]) -> Result<usize, NameError> {
        let end = self.name.fill_plain(message, HEADER_BYTES)?;
        let fixed = message.get(end..end + 4).ok_or(NameError::Truncated)?;
        self.lower.fill_lowercase(&self.name);
        self.rtype = u16::from_be_bytes([fixed[0], fixed[1]]);
        self.class = u16::from_be_bytes([fixed[2], fixed[3]]);
        Ok(end + 4)
    }

    /// Returns true if this asks for a type at a name, of class IN.
    pub fn is_for(&self, name: &Name, rtype: u16) -> bool {
        self.lower.as_wire() == name.as_wire() && self.rtype == rtype && self.class == CLASS_IN
    }
}

/// Contents of the client's OPT record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edns {
    pub version: u8,
    pub payload: u16,
    pub dnssec_ok: bool,
    pub nsid: bool,
    /// Whose question it is, according to the resolver; the first option counts.
    pub subnet: SubnetOption,
    /// The first option counts (RFC 7873 section 5.2).
    pub cookie: CookieOption,
    /// Cookies that the response has, once somebody has made them.
    pub cookie_reply: Option<[u8; COOKIE_BYTES]>,
    /// True once the server cookie has been found valid.
    pub has_valid_cookie: bool,
}

/// A request as far as it could be read.
#[derive(Clone, Default)]
pub struct Request {
    pub id: u16,
    pub opcode: u8,
    recursion_desired: bool,
    pub question: Option<Question>,
    pub edns: Option<Edns>,
    /// True if any section has a TSIG record (RFC 8945); this module knows nothing more of it.
    pub signed: bool,
    /// True if the request has no question and asks for nothing but a server cookie (RFC 7873 section 5.4). By itself it
    /// is malformed, for servers that have none to give.
    pub is_for_cookie: bool,
    /// Response code with which to answer at once, if not `NOERROR`.
    pub rcode: u16,
}

impl Request {
    /// Reads a request. `None` when no response may be sent: a fragment, or itself a response.
    ///
    /// TC, AA, RA, Z, AD and CD are ignored, as are bytes behind the records (RFC 8906 sections 3.1.1 and 3.1.3).
    pub fn parse(message: &[u8]) -> Option<Request> {
        let mut request = Request::default();
        request.read(message).then_some(request)
    }

    /// Reads a message as [`Request::parse`] does, in place of this one, whatever it was: returning one copies its
    /// name. False when no response may be sent; then it is of no use.
    pub fn read(&mut self, message: &[u8]) -> bool {
        let Some(header) = Header::read(message).filter(|header| !header.has(flag::QR)) else { return false };
        self.id = header.id;
        self.opcode = header.opcode();
        self.recursion_desired = header.has(flag::RD);
        (self.edns, self.signed, self.is_for_cookie, self.rcode) = (None, false, false, rcode::NOERROR);
        if !matches!(self.opcode, OPCODE_QUERY | OPCODE_NOTIFY) {
            (self.question, self.rcode) = (None, rcode::NOTIMP);
            return true;
        }
        // RFC 9619: a query has exactly one question; RFC 1996 section 3.7: so has a NOTIFY that means something.
        let read = match header.questions {
            1 => self.read_sections(message, header.records),
            questions => {
                self.question = None;
                if questions == 0 && self.opcode == OPCODE_QUERY && header.records[2] > 0 {
                    self.read_cookie_query(message, header.records);
                }
                None
            }
        };
        if read.is_none() {
            self.rcode = rcode::FORMERR;
        } else if let Some(edns) = &self.edns {
            // RFC 7873 section 5.2.2: a cookie of no legal length is a format error.
            self.rcode = match edns.cookie {
                _ if edns.version > 0 => rcode::BADVERS,
                CookieOption::Malformed => rcode::FORMERR,
                CookieOption::Absent | CookieOption::Sent(_) => rcode::NOERROR,
            };
        }
        true
    }

    /// Reads a query without a question, which may ask for a server cookie. It is nothing else.
    #[cold]
    fn read_cookie_query(&mut self, message: &[u8], records: [u16; 3]) {
        let read = self.read_records(message, HEADER_BYTES, records);
        let has_cookie = |edns: &Edns| edns.version == 0 && matches!(edns.cookie, CookieOption::Sent(_));
        self.is_for_cookie = read.is_some() && !self.signed && self.edns.as_ref().is_some_and(has_cookie);
        if !self.is_for_cookie {
            (self.edns, self.signed) = (None, false);
        }
    }

    /// Reads the question and the records behind it. `None` when the message is malformed.
    fn read_sections(&mut self, message: &[u8], records: [u16; 3]) -> Option<()> {
        // In place: names are large, and copying them would take longer than reading them.
        let question = self.question.get_or_insert_with(Question::default);
        let Ok(end) = question.fill(message) else {
            self.question = None;
            return None;
        };
        self.read_records(message, end, records)
    }

    /// Looks for the OPT record, and for one that signs, among the records behind the question. `None` when the message
    /// is malformed.
    #[inline]
    fn read_records(&mut self, message: &[u8], start: usize, records: [u16; 3]) -> Option<()> {
        for record in Records::at(message, start, records) {
            let record = record.ok()?;
            if record.rtype == rtype::OPT && record.section == Section::Additional {
                // RFC 6891 section 6.1.1: one OPT, owned by the root.
                if self.edns.is_some() || message[record.owner] != 0 {
                    self.edns = None;
                    return None;
                }
                self.edns = Some(read_opt(record.class, record.ttl, &message[record.rdata..record.end()])?);
            }
            // RFC 8945 section 5.2: in another section it is an error, which whoever knows of signatures finds.
            self.signed |= record.rtype == rtype::TSIG;
        }
        Some(())
    }

    /// The header of a response: flags and numbers of records as given.
    pub fn response_header(&self, rcode: u16, flags: ResponseFlags, records: [u16; 3]) -> Header {
        let mut bits = flag::QR | u16::from(self.opcode) << 11 | rcode & 15;
        bits |= if flags.authoritative { flag::AA } else { 0 };
        bits |= if flags.truncated { flag::TC } else { 0 };
        // RFC 8906 section 3.1.4: with an unknown opcode no flag has a known meaning.
        bits |= if self.recursion_desired && self.opcode == OPCODE_QUERY { flag::RD } else { 0 };
        Header { id: self.id, bits, questions: u16::from(self.question.is_some()), records }
    }

    /// The largest response the client takes.
    pub fn limit(&self, datagram: bool) -> usize {
        match (datagram, &self.edns) {
            (false, _) => usize::from(u16::MAX),
            (true, None) => MIN_UDP_BYTES,
            (true, Some(edns)) => usize::from(edns.payload).clamp(MIN_UDP_BYTES, MAX_UDP_BYTES),
        }
    }
}

impl Edns {
    /// What the cookies of the request have shown; none before they are judged.
    #[inline]
    pub fn shown_cookie(&self) -> Option<ShownCookie> {
        self.cookie_reply?;
        match self.cookie {
            _ if self.has_valid_cookie => Some(ShownCookie::Valid),
            CookieOption::Sent(Cookie { server: ServerCookie::Absent, .. }) => Some(ShownCookie::Client),
            _ => Some(ShownCookie::Invalid),
        }
    }

    /// The OPT record of a response up to its options, which come to a number of bytes: owner root, type OPT, our
    /// payload size; extended response code, version 0, DO as asked (RFC 3225).
    pub fn response_opt(&self, rcode: u16, options: usize) -> [u8; OPT_BYTES] {
        let [kind, payload, options] =
            [rtype::OPT, MAX_UDP_BYTES as u16, options as u16].map(|number| number.to_be_bytes());
        let dnssec_ok = if self.dnssec_ok { 0x80 } else { 0 };
        let extended = (rcode >> 4) as u8;
        [0, kind[0], kind[1], payload[0], payload[1], extended, 0, dnssec_ok, 0, options[0], options[1]]
    }
}

/// Flags in the header of a response, beside its code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseFlags {
    pub authoritative: bool,
    pub truncated: bool,
}

/// Reads an OPT record; `None` when an option goes beyond it.
fn read_opt(class: u16, ttl: u32, mut options: &[u8]) -> Option<Edns> {
    let (version, dnssec_ok) = ((ttl >> 16) as u8, ttl & 0x8000 != 0);
    let mut edns = Edns { version, payload: class, dnssec_ok, ..Edns::default() };
    while !options.is_empty() {
        let head = options.get(..4)?;
        let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let data = options.get(4..4 + length)?;
        match u16::from_be_bytes([head[0], head[1]]) {
            OPTION_NSID => edns.nsid = true,
            OPTION_SUBNET if edns.subnet == SubnetOption::Absent => edns.subnet = SubnetOption::read(data),
            OPTION_COOKIE if edns.cookie == CookieOption::Absent => edns.cookie = CookieOption::read(data),
            _ => {}
        }
        options = &options[4 + length..];
    }
    Some(edns)
}

//--- Writer ---

/// The sections behind the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Answer = 0,
    Authority = 1,
    Additional = 2,
}

impl Section {
    /// All of them in the order of a message.
    pub const ALL: [Section; 3] = [Section::Answer, Section::Authority, Section::Additional];
}

/// A name that stands uncompressed in the message: where, and its lowercase form for lookups.
#[derive(Clone, Copy)]
pub struct Placed {
    pub offset: usize,
    pub lower: NameBuf,
}

impl Placed {
    /// The name as the owner of records.
    pub fn owner(&self) -> Owner<'_> {
        Owner { offset: self.offset, wire: self.lower.as_wire() }
    }
}

/// The owner of records: where it stands uncompressed in the message, and its lowercase form where no pointer reaches.
#[derive(Clone, Copy)]
pub struct Owner<'n> {
    pub offset: usize,
    pub wire: &'n [u8],
}

impl<'n> Owner<'n> {
    /// The part from octet `start` on.
    pub fn suffix(self, start: usize) -> Owner<'n> {
        Owner { offset: self.offset + start, wire: &self.wire[start..] }
    }
}

/// A response in the making.
pub struct Writer<'a> {
    out: &'a mut [u8],
    position: usize,
    /// Records end here, so that the OPT record fits behind them.
    limit: usize,
    counts: [u16; 3],
    pub authoritative: bool,
    pub truncated: bool,
    extended: Option<ExtendedError>,
    /// Subnet of the client that the response speaks of, and the length of the prefix that it holds for.
    subnet: Option<(ClientSubnet, u8)>,
}

/// The records did not fit; nothing of them was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl<'a> Writer<'a> {
    /// Starts a response behind its header and question. `nsid` is what an NSID option would hold.
    ///
    /// `out` must hold at least 512 octets, which every header, question and OPT record without NSID fit into.
    pub fn new(out: &'a mut [u8], request: &Request, limit: usize, nsid: &[u8]) -> Writer<'a> {
        let opt = match &request.edns {
            // An extended error goes with responses that hold no records, which have room for it.
            Some(edns) => {
                let cookies = if edns.cookie_reply.is_some() { COOKIE_OPTION_BYTES } else { 0 };
                OPT_BYTES + cookies + if edns.nsid { 4 + nsid.len() } else { 0 }
            }
            None => 0,
        };
        // A signature may leave less room than that: then there is none for records.
        let limit = limit.min(out.len()).saturating_sub(opt);
        let mut writer = Writer {
            out,
            position: HEADER_BYTES,
            limit,
            counts: [0; 3],
            authoritative: false,
            truncated: false,
            extended: None,
            subnet: None,
        };
        if let Some(question) = &request.question {
            writer.put(question.name.as_wire());
            writer.put_array(question.rtype.to_be_bytes());
            writer.put_array(question.class.to_be_bytes());
        }
        writer
    }

    /// Appends bytes that the caller has found to fit.
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.out[self.position..self.position + bytes.len()].copy_from_slice(bytes);
        self.position += bytes.len();
    }

    /// Appends octets whose number is known when this is compiled, which takes an instruction or two.
    #[inline]
    fn put_array<const N: usize>(&mut self, octets: [u8; N]) {
        self.out[self.position..][..N].copy_from_slice(&octets);
        self.position += N;
    }

    /// Position at which the next record begins, in octets.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Octets written so far.
    pub fn written(&self) -> &[u8] {
        &self.out[..self.position]
    }

    /// Speaks of the subnet of a client, which takes room from the records. By itself the response holds for everyone.
    #[cold]
    pub fn set_subnet(&mut self, subnet: ClientSubnet) {
        self.limit = self.limit.saturating_sub(subnet.option_bytes());
        self.subnet = Some((subnet, 0));
    }

    /// The subnet of the client that the response speaks of.
    pub fn subnet(&self) -> Option<ClientSubnet> {
        self.subnet.map(|(subnet, _)| subnet)
    }

    /// Says that the response holds for a prefix of this length around the client; the longest counts (RFC 7871 section
    /// 7.2.1).
    pub fn narrow(&mut self, scope: u8) {
        self.subnet.iter_mut().for_each(|(_, longest)| *longest = scope.max(*longest));
    }

    /// Sets the extended error that goes with the response code, if there is room for it behind what is written.
    pub fn set_extended(&mut self, error: ExtendedError) {
        if self.extended.is_none() {
            let Some(limit) = self.limit.checked_sub(EDE_BYTES).filter(|limit| *limit >= self.position) else { return };
            self.limit = limit;
        }
        self.extended = Some(error);
    }

    /// Returns true if a section has no records.
    pub fn is_empty(&self, section: Section) -> bool {
        self.counts[section as usize] == 0
    }

    /// Adds a whole RRset under the owner name at `owner`, from one record on where the type rotates: `turn` as
    /// [`Set::rdatas_from`] has it.
    ///
    /// Calls `place` with the position of each record's RDATA, but not for several addresses.
    pub fn add_rrset(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        rrset: Set<'_>,
        turn: u32,
        mut place: impl FnMut(usize),
    ) -> Result<(), Full> {
        if owner.offset >= POINTER_LIMIT {
            return self.add_records(section, owner, rrset, rrset.rdatas_from(turn), place);
        }
        let count = rrset.count as usize;
        let needed = rrset.rdata_bytes() + count * rr::FIXED_BYTES;
        let counter = usize::from(self.counts[section as usize]) + count;
        if self.position + needed > self.limit || counter > usize::from(u16::MAX) {
            return Err(Full);
        }
        // Most sets have one record, which takes half as long without going around.
        if let Some(rdata) = rrset.single() {
            self.counts[section as usize] = counter as u16;
            self.put_record(owner, rrset, rdata);
            place(self.position - rdata.len());
            return Ok(());
        }
        match rrset.rtype {
            rtype::A => return self.put_addresses::<4>(section, owner, rrset, turn),
            rtype::AAAA => return self.put_addresses::<16>(section, owner, rrset, turn),
            _ => self.counts[section as usize] = counter as u16,
        }
        for rdata in rrset.rdatas_from(turn) {
            self.put_record(owner, rrset, rdata);
            place(self.position - rdata.len());
        }
        Ok(())
    }

    /// Octets that there is room for.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.position)
    }

    /// Adds records of a set as [`Writer::add_rrset`] adds all of them: those whose RDATA is given, or none. The owner
    /// may be one that no pointer reaches.
    #[cold]
    pub fn add_records<'r>(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        rrset: Set<'_>,
        rdatas: impl Iterator<Item = &'r [u8]>,
        mut place: impl FnMut(usize),
    ) -> Result<(), Full> {
        if owner.offset < POINTER_LIMIT {
            return self.put_records(section, owner, rrset, rdatas, place);
        }
        let begun = (self.position, self.counts);
        for rdata in rdatas {
            match self.add_record(section, owner, (rrset.rtype, rr::CLASS_IN, rrset.ttl), rdata) {
                Ok(at) => place(at),
                Err(full) => {
                    (self.position, self.counts) = begun;
                    return Err(full);
                }
            }
        }
        Ok(())
    }

    /// Adds records under an owner that a pointer reaches, as most are, without looking at it for each.
    #[inline]
    fn put_records<'r>(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        rrset: Set<'_>,
        rdatas: impl Iterator<Item = &'r [u8]>,
        mut place: impl FnMut(usize),
    ) -> Result<(), Full> {
        let mut fixed = rrset.fixed(0);
        fixed[..2].copy_from_slice(&(0xc000 | owner.offset as u16).to_be_bytes());
        let (mut position, mut count) = (self.position, self.counts[section as usize]);
        for rdata in rdatas {
            let end = position + rr::FIXED_BYTES + rdata.len();
            if end > self.limit || count == u16::MAX {
                return Err(Full);
            }
            fixed[rr::FIXED_BYTES - 2..].copy_from_slice(&(rdata.len() as u16).to_be_bytes());
            let (head, body) = self.out[position..end].split_at_mut(rr::FIXED_BYTES);
            head.copy_from_slice(&fixed);
            // Addresses take an instruction or two.
            match (<&mut [u8; 4]>::try_from(&mut *body), <&[u8; 4]>::try_from(rdata)) {
                (Ok(body), Ok(rdata)) => *body = *rdata,
                _ => body.copy_from_slice(rdata),
            }
            (position, count) = (end, count + 1);
            place(end - rdata.len());
        }
        (self.position, self.counts[section as usize]) = (position, count);
        Ok(())
    }

    /// Adds as many records of a set as fit, in the order given. Returns an error if not even one does.
    #[cold]
    pub fn add_until_full<'r>(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        rrset: Set<'_>,
        mut rdatas: impl Iterator<Item = &'r [u8]>,
    ) -> Result<(), Full> {
        let begun = self.position;
        let fixed = (rrset.rtype, rr::CLASS_IN, rrset.ttl);
        while let Some(rdata) = rdatas.next()
            && self.add_record(section, owner, fixed, rdata).is_ok()
        {}
        if self.position == begun { Err(Full) } else { Ok(()) }
    }

    /// Appends a record of a set under an owner that a pointer reaches, which has been found to fit.
    #[inline(always)]
    fn put_record(&mut self, owner: Owner<'_>, rrset: Set<'_>, rdata: &[u8]) {
        let mut fixed = rrset.fixed(rdata.len());
        fixed[..2].copy_from_slice(&(0xc000 | owner.offset as u16).to_be_bytes());
        self.put_array(fixed);
        self.put(rdata);
    }

    /// The labels of an owner name that have to be written, and what the pointer behind them leads to; none if it ends
    /// with the root.
    fn owner_parts<'n>(&self, owner: Owner<'n>) -> (&'n [u8], Option<usize>) {
        if owner.offset < POINTER_LIMIT {
            return (&[], Some(owner.offset));
        }
        let in_question = || {
            let question = self.placed(HEADER_BYTES).ok()?;
            name::label_starts(owner.wire).iter().find_map(|start| {
                let start = usize::from(*start);
                let at = name::suffix_offset(question.lower.as_wire(), &owner.wire[start..])?;
                Some((&owner.wire[..start], Some(HEADER_BYTES + at)))
            })
        };
        in_question().unwrap_or((owner.wire, None))
    }

    /// Adds one record of the program's own making and returns where its RDATA stands.
    pub fn add_record(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        (rtype, class, ttl): (u16, u16, u32),
        rdata: &[u8],
    ) -> Result<usize, Full> {
        let (labels, pointer) = self.owner_parts(owner);
        let owner_bytes = labels.len() + if pointer.is_some() { 2 } else { 0 };
        let is_counted = self.counts[section as usize] < u16::MAX;
        if self.position + owner_bytes + 10 + rdata.len() > self.limit || !is_counted {
            return Err(Full);
        }
        self.put(labels);
        if let Some(at) = pointer {
            self.put_array((0xc000 | at as u16).to_be_bytes());
        }
        self.put_array(rtype.to_be_bytes());
        self.put_array(class.to_be_bytes());
        self.put_array(ttl.to_be_bytes());
        self.put_array((rdata.len() as u16).to_be_bytes());
        self.put(rdata);
        self.counts[section as usize] += 1;
        Ok(self.position - rdata.len())
    }

    /// Replaces octets of the RDATA that begins at a position.
    pub fn overwrite<const N: usize>(&mut self, at: usize, octets: [u8; N]) {
        if let Some(place) = self.out[..self.position].get_mut(at..at + N) {
            place.copy_from_slice(&octets);
        }
    }

    /// Reads a name that was written uncompressed at a position.
    #[inline]
    pub fn placed(&self, offset: usize) -> Result<Placed, NameError> {
        let mut placed = Placed { offset, lower: NameBuf::root() };
        placed.lower.fill_plain(self.written(), offset)?;
        placed.lower.make_lowercase();
        Ok(placed)
    }

    /// Reads a name that was written at a position, with pointers or without.
    pub fn placed_with_pointers(&self, offset: usize) -> Result<Placed, NameError> {
        let (mut lower, _) = NameBuf::read(self.written(), offset)?;
        lower.make_lowercase();
        Ok(Placed { offset, lower })
    }

    /// Returns true if the name that stands uncompressed at a position is this one.
    pub fn has_name(&self, offset: usize, name: &Placed) -> bool {
        let wire = name.lower.as_wire();
        self.written().get(offset..offset + wire.len()).is_some_and(|found| found.eq_ignore_ascii_case(wire))
    }

    /// Writes header and OPT record; returns the length of the response.
    pub fn finish(mut self, request: &Request, rcode: u16, nsid: &[u8]) -> usize {
        let mut additional = self.counts[Section::Additional as usize];
        if let Some(edns) = &request.edns {
            additional += 1;
            let mut options = 0;
            options += if edns.nsid { 4 + nsid.len() } else { 0 };
            options += if edns.cookie_reply.is_some() { COOKIE_OPTION_BYTES } else { 0 };
            options += if self.extended.is_some() { EDE_BYTES } else { 0 };
            options += self.subnet.map_or(0, |(subnet, _)| subnet.option_bytes());
            self.put_array(edns.response_opt(rcode, options));
            if edns.nsid {
                self.put(&OPTION_NSID.to_be_bytes());
                self.put(&(nsid.len() as u16).to_be_bytes());
                self.put(nsid);
            }
            if let Some(cookies) = edns.cookie_reply {
                self.put_array(OPTION_COOKIE.to_be_bytes());
                self.put_array((COOKIE_BYTES as u16).to_be_bytes());
                self.put_array(cookies);
            }
            if let Some(error) = self.extended {
                self.put(&OPTION_EDE.to_be_bytes());
                self.put(&2u16.to_be_bytes());
                self.put(&(error as u16).to_be_bytes());
            }
            if let Some((subnet, scope)) = self.subnet {
                let (data, length) = subnet.to_data(scope);
                self.put(&OPTION_SUBNET.to_be_bytes());
                self.put(&(length as u16).to_be_bytes());
                self.put(&data[..length]);
            }
        }
        let flags = ResponseFlags { authoritative: self.authoritative, truncated: self.truncated };
        let header = request.response_header(rcode, flags, [self.counts[0], self.counts[1], additional]);
        self.out[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        self.position
    }
}
