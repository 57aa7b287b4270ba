//! One entry for the messages of UDP, TCP and TLS: whatever a client sends becomes a response, a transfer, or nothing.
//!
//! [`Responder::respond`] takes a signature off (TSIG, RFC 8945), finds out who deals with the request, NOTIFY,
//! transfers or the answers, and signs what comes out. A transfer is only begun here; the transport sends it message by
//! message.
//!
//! Refusals are logged once for each client and reason ([`Refusals`]), and all of them counted.
//!
//! Cookies are judged here ([`Secrets`](crate::cookie::Secrets)), before anything else, so that every response has them;
//! what goes out over UDP is held against the rate limit, at the end ([`limit`]).
//!
//! Invariants: a signed request gets a signed response, whose records leave room for the signature; a request whose
//! signature is not right is not carried out. Cost: for a request without TSIG record nothing but the reading that
//! it needs anyway; for others a copy of it, and hashing O(bytes).

use crate::metrics::Metrics;
use crate::publish::Published;
use crate::rate_limit::{Class, Limiter, Mode};
pub use crate::serve::answer::Asked;
use crate::serve::answer::{Place, Response, answer_request};
use crate::serve::limit;
use crate::serve::notify::{Received, Reception};
use crate::serve::refusals::{Notice, Reason, Refusals, advise_on_signature, advise_on_transfer};
use crate::serve::xfr::{self, Client, Kind, Refusal, Transfer, Verdict};
use crate::zone::Zone;
use std::net::IpAddr;
use std::sync::Arc;
use tracing::field::{DisplayValue, display};
use wire::message::{CookieOption, HEADER_BYTES, OPCODE_NOTIFY, OPCODE_QUERY, Owner, Request, Section, Writer, rcode};
use wire::name::{Name, NameBuf};
use wire::rr::{CLASS_IN, rtype};
use wire::tsig::{Opened, Rejection, Signer, open_request};

/// Seconds since 1970, for signatures.
pub type Clock = fn() -> u64;

/// Whoever deals with requests, for all transports.
pub struct Responder {
    reception: Arc<Reception>,
    metrics: Arc<Metrics>,
    refusals: Refusals,
    limiter: Arc<Limiter>,
    clock: Clock,
}

/// Outcome of a message.
pub enum Dispatched {
    /// No response may be sent.
    Nothing,
    /// A response in the caller's buffer.
    Response(Response),
    /// The same, for one that was over the rate limit.
    Limited(Response, Class),
    /// A transfer to be sent.
    Transfer(Box<Outbound>),
}

impl From<Option<Response>> for Dispatched {
    fn from(response: Option<Response>) -> Dispatched {
        response.map_or(Dispatched::Nothing, Dispatched::Response)
    }
}

/// A transfer with what signs its messages.
pub struct Outbound {
    pub transfer: Box<Transfer>,
    pub signer: Option<Signer>,
}

impl Outbound {
    /// Writes the response to a client that gets no transfer over its connection, or not now. 1232 octets hold any.
    pub fn refuse(&mut self, refusal: Refusal, now: u64, out: &mut [u8]) -> Option<Response> {
        let limit = out.len() - self.signer.as_ref().map_or(0, Signer::overhead);
        let response = refuse(&self.transfer.request, refusal, &[], limit, out);
        sign(self.signer.as_mut(), response, now, out)
    }
}

impl Responder {
    /// Deals with NOTIFY through a reception.
    pub fn new(reception: Arc<Reception>, metrics: Arc<Metrics>, clock: Clock) -> Arc<Responder> {
        Arc::new(Responder { reception, metrics, refusals: Refusals::default(), limiter: Arc::default(), clock })
    }

    /// The buckets of rate limits.
    pub fn limiter(&self) -> &Arc<Limiter> {
        &self.limiter
    }

    /// The time for signatures.
    pub fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Responds to a message. `out` must hold 1232 octets for datagrams and 65,535 for streams.
    pub fn respond(&self, published: &Published, asked: Asked<'_>, out: &mut [u8]) -> Dispatched {
        let mut request = Request::default();
        if !request.read(asked.message) {
            return Dispatched::Nothing;
        }
        self.respond_to(published, &mut request, None, asked, out)
    }

    /// Responds to a request that has been read, whose name may have been found already.
    pub fn respond_to<'p>(
        &self,
        published: &'p Published,
        request: &mut Request,
        place: Option<Place<'p>>,
        asked: Asked<'_>,
        out: &mut [u8],
    ) -> Dispatched {
        let is_known = self.hear_cookies(published, request, asked.peer);
        if request.signed {
            return self.respond_signed(published, request, is_known, asked, out);
        }
        let dispatched = self.dispatch(published, request, place, asked, None, out);
        if is_known { dispatched } else { self.limit(published, request, asked, dispatched, out) }
    }

    /// Takes the cookies of a request, and has the response to it bear ours. Returns true if they show that its address is
    /// not forged.
    #[inline]
    fn hear_cookies(&self, published: &Published, request: &mut Request, peer: IpAddr) -> bool {
        match &request.edns {
            Some(edns) if edns.cookie != CookieOption::Absent => self.judge_cookies(published, request, peer),
            _ => false,
        }
    }

    /// Does the same for a request that has some.
    #[inline(never)]
    fn judge_cookies(&self, published: &Published, request: &mut Request, peer: IpAddr) -> bool {
        let (Some(edns), Some(secrets)) = (&mut request.edns, &published.cookies) else { return false };
        let CookieOption::Sent(cookie) = edns.cookie else { return false };
        let judgement = secrets.judge(&cookie, peer, self.now() as u32);
        edns.cookie_reply = Some(judgement.reply);
        edns.has_valid_cookie = judgement.is_valid;
        if request.is_for_cookie {
            request.rcode = rcode::NOERROR;
        }
        judgement.is_valid
    }

    /// Holds a response against the rate limit.
    #[inline]
    fn limit(
        &self,
        published: &Published,
        request: &mut Request,
        asked: Asked<'_>,
        dispatched: Dispatched,
        out: &mut [u8],
    ) -> Dispatched {
        let (rate_limit, is_notify) = (&published.rate_limit, request.opcode == OPCODE_NOTIFY);
        let Dispatched::Response(response) = dispatched else { return dispatched };
        if !asked.datagram || is_notify || rate_limit.mode() == Mode::Off {
            return dispatched;
        }
        let class = limit::class_of(&response, out);
        if self.limiter.admits(rate_limit, asked.peer, class, asked.now) {
            return dispatched;
        }
        let is_cut = rate_limit.mode() == Mode::On;
        let response = if is_cut { limit::cut(request, class, response, out) } else { response };
        Dispatched::Limited(response, class)
    }

    /// Responds to a message with a TSIG record.
    #[cold]
    fn respond_signed(
        &self,
        published: &Published,
        request: &mut Request,
        is_known: bool,
        asked: Asked<'_>,
        out: &mut [u8],
    ) -> Dispatched {
        let mut message = asked.message.to_vec();
        let now = self.now();
        match open_request(&mut message, &published.keys, now) {
            Opened::Unsigned => {
                let dispatched = self.dispatch(published, request, None, asked, None, out);
                if is_known { dispatched } else { self.limit(published, request, asked, dispatched, out) }
            }
            Opened::Rejected(rejection) => {
                self.metrics.tsig_rejected.with_label_values(&[rejection.error.reason()]).inc();
                self.log_rejection(request, asked.peer, &rejection);
                let (length, rcode) = rejection.write(asked.message, out);
                (length > 0).then_some(Response { length, rcode, truncated: false }).into()
            }
            Opened::Signed { length, mut signer } => {
                let asked = Asked { message: &message[..length], ..asked };
                let Some(mut request) = Request::parse(asked.message) else { return Dispatched::Nothing };
                self.hear_cookies(published, &mut request, asked.peer);
                match self.dispatch(published, &request, None, asked, Some(&signer), out) {
                    Dispatched::Response(response) | Dispatched::Limited(response, _) => {
                        sign(Some(&mut signer), response, now, out).into()
                    }
                    Dispatched::Transfer(outbound) => {
                        Dispatched::Transfer(Box::new(Outbound { signer: Some(signer), ..*outbound }))
                    }
                    Dispatched::Nothing => Dispatched::Nothing,
                }
            }
        }
    }

    /// Hands a request without signature to whoever deals with it.
    fn dispatch<'p>(
        &self,
        published: &'p Published,
        request: &Request,
        place: Option<Place<'p>>,
        asked: Asked<'_>,
        signer: Option<&Signer>,
        out: &mut [u8],
    ) -> Dispatched {
        let limit = request.limit(asked.datagram).min(out.len());
        let limit = limit.saturating_sub(signer.map_or(0, Signer::overhead));
        let key = signer.map(Signer::key);
        if request.opcode == OPCODE_NOTIFY {
            let Received { response, is_stray } = self.reception.receive(request, asked.peer, key, limit, out);
            if is_stray {
                self.log_stray(request, asked.peer);
            } else if response.rcode == rcode::REFUSED {
                self.log_notify(request, asked.peer, key);
            }
            return Dispatched::Response(response);
        }
        if xfr::is_transfer(request, asked.datagram) {
            return self.transfer(published, request, asked, key, limit, out);
        }
        if let Some(response) = self.respond_to_primary(published, request, asked, limit, out) {
            return Dispatched::Response(response);
        }
        Dispatched::Response(answer_request(published, request, place, limit, &asked, out))
    }

    /// Answers a question for the SOA of a zone of several members that comes from where one of them is transferred
    /// from: with that member's serial. The zone's own is a sum, which such a primary would take for a version that it
    /// never had.
    fn respond_to_primary(
        &self,
        published: &Published,
        request: &Request,
        asked: Asked<'_>,
        limit: usize,
        out: &mut [u8],
    ) -> Option<Response> {
        let question = request.question.as_ref().filter(|question| question.rtype == rtype::SOA)?;
        if request.opcode != OPCODE_QUERY || request.rcode != rcode::NOERROR || question.class != CLASS_IN {
            return None;
        }
        let member = self.reception.member_for(question.lower.as_wire(), asked.peer)?;
        let nsid = published.identity.nsid();
        let Some(zone) = published.get(&member).and_then(|served| served.answerable()) else {
            // Never the zone's own serial: CNS would take it for one that it never had, and be silent for good.
            let writer = Writer::new(out, request, limit, nsid);
            let length = writer.finish(request, rcode::SERVFAIL, nsid);
            return Some(Response { length, rcode: rcode::SERVFAIL, truncated: false });
        };
        Some(write_soa(request, zone, false, nsid, limit, out))
    }

    /// Begins a transfer, or says why not.
    fn transfer(
        &self,
        published: &Published,
        request: &Request,
        asked: Asked<'_>,
        key: Option<&Name>,
        limit: usize,
        out: &mut [u8],
    ) -> Dispatched {
        let client = Client { address: asked.peer, key, datagram: asked.datagram, secured: asked.secured };
        let incremental = request.question.as_ref().is_some_and(|question| question.rtype == rtype::IXFR);
        let nsid = published.identity.nsid();
        let asked_kind = if incremental { Kind::Ixfr } else { Kind::Axfr };
        match xfr::decide(published, request, asked.message, &client) {
            Verdict::Refuse(refusal, zone) => {
                // Any name can be asked for; only those of zones become labels.
                let zone = zone.map(|zone| zone.to_string()).unwrap_or_default();
                self.count(&zone, asked_kind, refusal.label());
                self.log_refusal(request, asked.peer, key, asked_kind, refusal);
                Dispatched::Response(refuse(request, refusal, nsid, limit, out))
            }
            Verdict::Soa { zone, truncated } => {
                let (kind, result) = if truncated { (Kind::Ixfr, "truncated") } else { (Kind::Current, "ok") };
                self.count(&zone.origin.to_string(), kind, result);
                if !truncated {
                    self.metrics.peers.count(asked.peer, kind.label(), &zone.origin, Some(zone.soa.serial));
                }
                Dispatched::Response(write_soa(request, &zone, truncated, nsid, limit, out))
            }
            Verdict::Stream(transfer) => Dispatched::Transfer(Box::new(Outbound { transfer, signer: None })),
        }
    }

    //--- Log lines ---

    /// Logs that a client gets no transfer, unless it was said lately.
    #[cold]
    pub fn log_refusal(&self, request: &Request, peer: IpAddr, key: Option<&Name>, kind: Kind, refusal: Refusal) {
        if let Some(held_back) = self.wants_line(("transfer", refusal.label()), peer) {
            let (zone, key, kind) = (subject(request), key.map(display), kind.label());
            let advice = advise_on_transfer(refusal);
            tracing::warn!(zone, %peer, key, kind, reason = %refusal, advice, held_back, "no transfer");
        }
    }

    /// Logs that a signature is not right, unless it was said lately.
    #[cold]
    fn log_rejection(&self, request: &Request, peer: IpAddr, rejection: &Rejection) {
        let error = rejection.error;
        if let Some(held_back) = self.wants_line(("signature", error.reason()), peer) {
            let (name, key) = (subject(request), rejection.key().map(display));
            let advice = advise_on_signature(error);
            tracing::warn!(name, %peer, key, reason = %error, advice, held_back, "signed request refused");
        }
    }

    /// Logs that an announcement is not believed, unless it was said lately.
    #[cold]
    fn log_notify(&self, request: &Request, peer: IpAddr, key: Option<&Name>) {
        if let Some(held_back) = self.wants_line(("notify", "refused"), peer) {
            let (zone, key) = (subject(request), key.map(display));
            let advice = "if it speaks for a primary of the zone, add its address to notify_from";
            tracing::warn!(zone, %peer, key, advice, held_back, "NOTIFY refused");
        }
    }

    /// Logs that a primary announces a zone that is not configured, unless it was said lately.
    #[cold]
    fn log_stray(&self, request: &Request, peer: IpAddr) {
        if let Some(held_back) = self.wants_line(("notify", "stray"), peer) {
            let advice = "add the zone, or have that server forget this one as its secondary (on CNS: cnsadm peers -d)";
            tracing::warn!(zone = subject(request), %peer, advice, held_back, "NOTIFY for a zone that is not configured");
        }
    }

    /// Takes note of a refusal. If it is worth a line, returns how many like it had none since the last. Logs it if
    /// they become too many.
    fn wants_line(&self, (what, reason): Reason, peer: IpAddr) -> Option<u64> {
        tracing::debug!(%peer, what, reason, "refused");
        match self.refusals.note((what, reason), peer, self.now()) {
            Notice::Line { held_back } => return Some(held_back),
            Notice::Overflow => {
                tracing::warn!(what, reason, "too many clients are refused to log each of them; the metrics count on");
            }
            Notice::Silence => {}
        }
        None
    }

    /// Counts a request for a transfer by what became of it.
    pub fn count(&self, zone: &str, kind: Kind, result: &str) {
        self.metrics.xfr_served.with_label_values(&[zone, kind.label(), result]).inc();
        if result == "ok" {
            self.metrics.sent.count(zone, kind.label());
        }
    }

    /// Counts a transfer that has begun, and what its client has now if it took all of it.
    pub fn count_peer(&self, peer: IpAddr, transfer: &Transfer, is_complete: bool) {
        let serial = is_complete.then_some(transfer.zone.soa.serial);
        self.metrics.peers.count(peer, transfer.kind.label(), &transfer.zone.origin, serial);
    }
}

/// The name that a request is about.
fn subject(request: &Request) -> Option<DisplayValue<NameBuf>> {
    request.question.as_ref().map(|question| display(question.name))
}

/// Writes a response without records.
fn refuse(request: &Request, refusal: Refusal, nsid: &[u8], limit: usize, out: &mut [u8]) -> Response {
    let (rcode, extended) = refusal.codes();
    let mut writer = Writer::new(out, request, limit, nsid);
    extended.into_iter().for_each(|error| writer.set_extended(error));
    Response { length: writer.finish(request, rcode, nsid), rcode, truncated: false }
}

/// Writes a response with the zone's SOA alone.
fn write_soa(request: &Request, zone: &Zone, truncated: bool, nsid: &[u8], limit: usize, out: &mut [u8]) -> Response {
    let mut writer = Writer::new(out, request, limit, nsid);
    writer.authoritative = true;
    // The question is for the origin.
    let added = request.question.as_ref().map(|question| {
        let owner = Owner { offset: HEADER_BYTES, wire: question.lower.as_wire() };
        writer.add_rrset(Section::Answer, owner, zone.soa_rrset().as_set(), 0, |_| ())
    });
    let truncated = truncated || added.is_some_and(|added| added.is_err());
    writer.truncated = truncated;
    Response { length: writer.finish(request, rcode::NOERROR, nsid), rcode: rcode::NOERROR, truncated }
}

/// Signs a response, if there is something to sign it with; none that has no room for its signature is sent.
fn sign(signer: Option<&mut Signer>, response: Response, now: u64, out: &mut [u8]) -> Option<Response> {
    let Some(signer) = signer else { return Some(response) };
    signer.sign(out, response.length, now).map(|length| Response { length, ..response })
}

#[cfg(test)]
mod tests;
