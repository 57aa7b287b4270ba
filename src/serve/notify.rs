//! NOTIFY from primaries (RFC 1996): a word that a zone has changed, answered at once.
//!
//! A message is believed as far as it comes from one of the zone's primaries, or from an address or with a key that is
//! configured beside them; all it can do is make the zone's task ask the primary for its serial, now instead of later.
//! That task coalesces what comes while it is busy (RFC 1996 section 4.4) and begins polls no closer together than `hold_down`,
//! so a flood costs a primary no more than ten polls a second for each zone by default, and never more than a hundred. The reply echoes the question: CNS ignores one without
//! (`docs/cns.md` 18), and counts a secondary that fails to reply five times as one that wants no more (26 there).
//!
//! CNS counts failures by address, not by zone: a zone that was removed from the configuration, whose NOTIFY we
//! answered with NOTAUTH, would silence those of all other zones of that CNS. So a NOTIFY for a zone that we do not
//! have is answered with NOERROR where it comes from a primary of any zone, and does nothing else.
//!
//! Invariants: the receiving threads never wait for the daemon; a serial in the message is not believed.
//! Cost: O(message), one lookup of the zone.

use crate::acl::Access;
use crate::metrics::Metrics;
use crate::serve::answer::Response;
use arc_swap::ArcSwap;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::mpsc;
use wire::message::{Request, Writer, rcode};
use wire::name::Name;
use wire::rr::{CLASS_IN, rtype};

/// Zones, with those who may announce changes of them.
#[derive(Default)]
pub struct Announcers {
    /// Sources by the name that a message has, each with those who may speak for it: one source, or a zone's members.
    zones: HashMap<Name, Vec<(Name, Access)>>,
    /// Addresses by zone to which the zone has the serial of one of its members.
    askers: HashMap<Name, HashMap<IpAddr, Name>>,
    /// The addresses of all primaries and of those who speak for them.
    peers: HashSet<IpAddr>,
}

/// Judgement of a NOTIFY.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Judgement {
    /// These sources of a zone are to look.
    Accepted(Vec<Name>),
    /// A zone of ours, announced by somebody who does not speak for it.
    Refused(Name),
    /// No zone of ours, announced by a primary of another zone.
    Stray,
    /// Answered with this code.
    Invalid(u16),
}

impl Judgement {
    /// The response code.
    fn rcode(&self) -> u16 {
        match self {
            Judgement::Accepted(_) | Judgement::Stray => rcode::NOERROR,
            Judgement::Refused(_) => rcode::REFUSED,
            Judgement::Invalid(code) => *code,
        }
    }
}

/// Result of a NOTIFY.
pub struct Received {
    pub response: Response,
    /// True if a primary has announced a zone that is not configured.
    pub is_stray: bool,
}

impl Announcers {
    /// Adds a source of a zone.
    pub fn add(&mut self, zone: &Name, source: &Name, access: Access) {
        self.zones.entry(zone.clone()).or_default().push((source.clone(), access));
    }

    /// Adds addresses which are told a member's serial as that of the zone: a primary that looks whether we follow it
    /// (`docs/regions.md` 31). An address that is there already keeps its member.
    pub fn add_askers(&mut self, zone: &Name, member: &Name, addresses: impl IntoIterator<Item = IpAddr>) {
        let askers = self.askers.entry(zone.clone()).or_default();
        addresses
            .into_iter()
            .for_each(|address| _ = askers.entry(address.to_canonical()).or_insert_with(|| member.clone()));
    }

    /// Adds addresses of primaries, or of those who speak for them.
    pub fn add_peers(&mut self, addresses: impl IntoIterator<Item = IpAddr>) {
        self.peers.extend(addresses.into_iter().map(|address| address.to_canonical()));
    }
}

/// Receives NOTIFY for all transports.
pub struct Reception {
    announcers: ArcSwap<Announcers>,
    changed: mpsc::Sender<(Name, IpAddr)>,
    metrics: Arc<Metrics>,
}

impl Reception {
    /// Receives for nobody yet; the zones that have changed come out of the channel, with the address that says so.
    pub fn new(metrics: Arc<Metrics>) -> (Arc<Reception>, mpsc::Receiver<(Name, IpAddr)>) {
        // Enough for every zone of a large site at once. What does not fit is not lost: the primary repeats it, or the
        // zone's timer comes.
        let (changed, zones) = mpsc::channel(4096);
        (Arc::new(Reception { announcers: ArcSwap::default(), changed, metrics }), zones)
    }

    /// Takes other zones and announcers from now on.
    pub fn set_announcers(&self, announcers: Announcers) {
        self.announcers.store(Arc::new(announcers));
    }

    /// Answers a NOTIFY request and passes its zone on. The key is the one that the request was signed with.
    pub fn receive(
        &self,
        request: &Request,
        peer: IpAddr,
        key: Option<&Name>,
        limit: usize,
        out: &mut [u8],
    ) -> Received {
        let judgement = self.judge(request, peer, key);
        let count = |zone: &str, result: &str| self.metrics.notify_received.with_label_values(&[zone, result]).inc();
        match &judgement {
            Judgement::Accepted(sources) => {
                for zone in sources {
                    count(&zone.to_string(), "accepted");
                    // A full channel means that the daemon has enough to do; see `new`.
                    let _ = self.changed.try_send((zone.clone(), peer));
                }
            }
            Judgement::Refused(zone) => count(&zone.to_string(), "refused"),
            // Any name can be announced; only those of zones become labels.
            Judgement::Stray => count("", "stray"),
            Judgement::Invalid(_) => {}
        }
        let rcode = judgement.rcode();
        let mut writer = Writer::new(out, request, limit, &[]);
        writer.authoritative = matches!(judgement, Judgement::Accepted(_));
        let length = writer.finish(request, rcode, &[]);
        Received { response: Response { length, rcode, truncated: false }, is_stray: judgement == Judgement::Stray }
    }

    /// The member whose serial an address is told as that of the zone in question; none if it is told the zone's own.
    pub fn member_for(&self, zone: &[u8], peer: IpAddr) -> Option<Name> {
        let announcers = self.announcers.load();
        if announcers.askers.is_empty() {
            return None;
        }
        announcers.askers.get(zone)?.get(&peer.to_canonical()).cloned()
    }

    /// Judges a request.
    fn judge(&self, request: &Request, peer: IpAddr, key: Option<&Name>) -> Judgement {
        let question = match &request.question {
            Some(question) if request.rcode == rcode::NOERROR => question,
            _ if request.rcode == rcode::NOERROR => return Judgement::Invalid(rcode::FORMERR),
            _ => return Judgement::Invalid(request.rcode),
        };
        // RFC 1996 section 3.3: SOA is the only type that means something.
        if question.rtype != rtype::SOA || question.class != CLASS_IN {
            return Judgement::Invalid(rcode::NOTIMP);
        }
        let announcers = self.announcers.load();
        let Some((zone, sources)) = announcers.zones.get_key_value(question.lower.as_wire()) else {
            let is_peer = announcers.peers.contains(&peer.to_canonical());
            return if is_peer { Judgement::Stray } else { Judgement::Invalid(rcode::NOTAUTH) };
        };
        let speaks = |(source, allowed): &(Name, Access)| allowed.allows(peer, key).then(|| source.clone());
        let announced: Vec<Name> = sources.iter().filter_map(speaks).collect();
        if announced.is_empty() { Judgement::Refused(zone.clone()) } else { Judgement::Accepted(announced) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::{Prefix, Rule};
    use wire::name::NameBuf;

    fn primary(address: IpAddr) -> Access {
        Access { rules: vec![Rule { prefix: Some(Prefix::host(address)), key: None, channel: None, host: None }] }
    }

    fn announcers(zone: Name, access: Access) -> Announcers {
        let mut announcers = Announcers::default();
        announcers.add(&zone, &zone, access);
        announcers
    }

    /// The response's length and code.
    fn receive(reception: &Reception, message: &[u8], peer: IpAddr, out: &mut [u8]) -> Response {
        let request = Request::parse(message).unwrap();
        reception.receive(&request, peer, None, 512, out).response
    }

    fn notify(name: &str, rtype: u16) -> Vec<u8> {
        let mut message = vec![0xab, 0xcd, 0x20, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        message.extend_from_slice(NameBuf::parse(name).unwrap().as_wire());
        message.extend_from_slice(&[0, rtype as u8, 0, 1]);
        message
    }

    #[test]
    fn the_question_comes_back_and_the_zone_is_passed_on() {
        let (reception, mut zones) = Reception::new(Arc::new(Metrics::new()));
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let zone = Name::parse("z.example").unwrap();
        reception.set_announcers(announcers(zone.clone(), primary(address)));
        let mut out = [0; 512];
        let message = notify("Z.example", rtype::SOA);
        let response = receive(&reception, &message, address, &mut out);
        assert_eq!(response.rcode, rcode::NOERROR);
        // QR, opcode NOTIFY and AA; the rest as it came.
        assert_eq!(out[..4], [0xab, 0xcd, 0xa4, 0]);
        assert_eq!(out[4..response.length], message[4..]);
        assert_eq!(zones.try_recv().unwrap(), (zone.clone(), address));
        let v6 = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(receive(&reception, &message, v6, &mut out).rcode, rcode::NOERROR);
        assert_eq!(zones.try_recv().unwrap(), (zone, v6));
    }

    #[test]
    fn a_key_can_stand_for_an_address() {
        let (reception, _zones) = Reception::new(Arc::new(Metrics::new()));
        let (key, other) = (Name::parse("k.example").unwrap(), Name::parse("o.example").unwrap());
        let access = Access { rules: vec![Rule { prefix: None, key: Some(key.clone()), channel: None, host: None }] };
        reception.set_announcers(announcers(Name::parse("z.example").unwrap(), access));
        let message = notify("z.example", rtype::SOA);
        let request = Request::parse(&message).unwrap();
        let peer = "192.0.2.9".parse().unwrap();
        for (key, expected) in [(Some(&key), rcode::NOERROR), (Some(&other), rcode::REFUSED), (None, rcode::REFUSED)] {
            assert_eq!(reception.receive(&request, peer, key, 512, &mut [0; 512]).response.rcode, expected);
        }
    }

    #[test]
    fn what_is_not_from_a_primary_or_not_about_a_zone_changes_nothing() {
        let (reception, mut zones) = Reception::new(Arc::new(Metrics::new()));
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        reception.set_announcers(announcers(Name::parse("z.example").unwrap(), primary(address)));
        let other = "192.0.2.2".parse().unwrap();
        let mut out = [0; 512];
        let soa = notify("z.example", rtype::SOA);
        for (message, peer, expected) in [
            (soa.clone(), other, rcode::REFUSED),
            (notify("sub.z.example", rtype::SOA), address, rcode::NOTAUTH),
            (notify("z.example", rtype::A), address, rcode::NOTIMP),
            (soa[..14].to_vec(), address, rcode::FORMERR),
        ] {
            assert_eq!(receive(&reception, &message, peer, &mut out).rcode, expected);
        }
        assert!(zones.try_recv().is_err());
    }

    #[test]
    fn a_primary_that_announces_a_zone_which_is_gone_is_not_put_off() {
        let metrics = Arc::new(Metrics::new());
        let (reception, mut zones) = Reception::new(metrics.clone());
        let [address, other] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse::<IpAddr>().unwrap());
        let mut announcers = announcers(Name::parse("z.example").unwrap(), primary(address));
        announcers.add_peers([address]);
        reception.set_announcers(announcers);
        let message = notify("gone.example", rtype::SOA);
        let request = Request::parse(&message).unwrap();
        let mut out = [0; 512];
        for peer in [address, "::ffff:192.0.2.1".parse().unwrap()] {
            let received = reception.receive(&request, peer, None, 512, &mut out);
            assert!(received.is_stray);
            // QR and opcode NOTIFY without AA; the question comes back.
            assert_eq!(out[..4], [0xab, 0xcd, 0xa0, 0]);
            assert_eq!(out[4..received.response.length], message[4..]);
        }
        let received = reception.receive(&request, other, None, 512, &mut out);
        assert_eq!((received.response.rcode, received.is_stray), (rcode::NOTAUTH, false));
        // A zone of ours has its own primaries.
        let ours = notify("z.example", rtype::SOA);
        assert_eq!(receive(&reception, &ours, other, &mut out).rcode, rcode::REFUSED);
        assert!(zones.try_recv().is_err());
        assert_eq!(metrics.notify_received.with_label_values(&["", "stray"]).get(), 2);
    }
}
