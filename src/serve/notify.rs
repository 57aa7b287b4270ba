//! NOTIFY from primaries (RFC 1996): a word that a zone has changed, answered at once.
//!
//! A message is believed as far as its source address is one of the zone's primaries or of those configured beside them;
//! all it can do is make the zone's task ask the primary for its serial, now instead of later. That task coalesces what
//! comes while it is busy (RFC 1996 section 4.4) and keeps a pause between polls, so a flood costs a primary no more
//! than ten polls a second. The reply echoes the question: CNS ignores one without (`cns.md` section 8), and counts a
//! secondary that fails to reply five times as one that wants no more.
//!
//! Invariants: the receiving threads never wait for the daemon; a serial in the message is not believed.
//! Cost: O(message), one lookup of the zone.

use crate::metrics::Metrics;
use crate::name::{Name, NameBuf};
use crate::rr::{CLASS_IN, rtype};
use crate::serve::answer::Response;
use crate::serve::message::{OPCODE_NOTIFY, Request, Writer, rcode};
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Zones and the addresses that may announce changes of them.
pub type Announcers = HashMap<Name, Vec<IpAddr>>;

/// Receives NOTIFY for all transports.
pub struct Reception {
    announcers: ArcSwap<Announcers>,
    changed: mpsc::Sender<Name>,
    metrics: Arc<Metrics>,
}

/// Whether a message is a NOTIFY request.
pub fn is_notify(message: &[u8]) -> bool {
    // QR and opcode of the header's third octet (RFC 1035 section 4.1.1).
    message.get(2).is_some_and(|flags| flags >> 3 == OPCODE_NOTIFY)
}

impl Reception {
    /// Receives for nobody yet; the zones that have changed come out of the channel.
    pub fn new(metrics: Arc<Metrics>) -> (Arc<Reception>, mpsc::Receiver<Name>) {
        // Enough for every zone of a large site at once. What does not fit is not lost: the primary repeats it, or the
        // zone's timer comes.
        let (changed, zones) = mpsc::channel(4096);
        (Arc::new(Reception { announcers: ArcSwap::default(), changed, metrics }), zones)
    }

    /// Takes other zones and addresses from now on.
    pub fn set_announcers(&self, announcers: Announcers) {
        self.announcers.store(Arc::new(announcers));
    }

    /// Answers a NOTIFY request and passes its zone on. `None` when no response may be sent.
    pub fn receive(&self, message: &[u8], peer: IpAddr, out: &mut [u8]) -> Option<Response> {
        let request = Request::parse(message)?;
        let (code, result) = self.judge(&request, peer);
        if let Some((zone, result)) = result {
            self.metrics.notify_received.with_label_values(&[&zone.to_string(), result]).inc();
            if code == rcode::NOERROR {
                // A full channel means that the daemon has enough to do; see `new`.
                let _ = self.changed.try_send(zone);
            }
        }
        let mut writer = Writer::new(out, &request, request.limit(true), &[]);
        writer.authoritative = code == rcode::NOERROR;
        let length = writer.finish(&request, code, &[]);
        Some(Response { length, rcode: code, truncated: false })
    }

    /// The response code, and for a known zone its name with the metric label.
    fn judge(&self, request: &Request, peer: IpAddr) -> (u16, Option<(Name, &'static str)>) {
        let question = match &request.question {
            Some(question) if request.rcode == rcode::NOERROR => question,
            _ => return (if request.rcode == rcode::NOERROR { rcode::FORMERR } else { request.rcode }, None),
        };
        // RFC 1996 section 3.3: SOA is the only type that means something.
        if question.rtype != rtype::SOA || question.class != CLASS_IN {
            return (rcode::NOTIMP, None);
        }
        let lower: NameBuf = question.name.to_lowercase();
        let announcers = self.announcers.load();
        let Some((zone, allowed)) = announcers.get_key_value(lower.as_wire()) else {
            return (rcode::NOTAUTH, None);
        };
        if allowed.contains(&peer.to_canonical()) {
            (rcode::NOERROR, Some((zone.clone(), "accepted")))
        } else {
            (rcode::REFUSED, Some((zone.clone(), "refused")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notify(name: &str, rtype: u16) -> Vec<u8> {
        let mut message = vec![0xab, 0xcd, 0x20, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        message.extend_from_slice(NameBuf::parse(name).unwrap().as_wire());
        message.extend_from_slice(&[0, rtype as u8, 0, 1]);
        message
    }

    #[test]
    fn the_question_comes_back_and_the_zone_is_passed_on() {
        let (reception, mut zones) = Reception::new(Arc::new(Metrics::new()));
        let primary: IpAddr = "192.0.2.1".parse().unwrap();
        let zone = Name::parse("z.example").unwrap();
        reception.set_announcers([(zone.clone(), vec![primary])].into());
        let mut out = [0; 512];
        let message = notify("Z.example", rtype::SOA);
        assert!(is_notify(&message));
        let response = reception.receive(&message, primary, &mut out).unwrap();
        assert_eq!(response.rcode, rcode::NOERROR);
        // QR, opcode NOTIFY and AA; the rest as it came.
        assert_eq!(out[..4], [0xab, 0xcd, 0xa4, 0]);
        assert_eq!(out[4..response.length], message[4..]);
        assert_eq!(zones.try_recv().unwrap(), zone);
        let v6 = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(reception.receive(&message, v6, &mut out).unwrap().rcode, rcode::NOERROR);
        assert_eq!(zones.try_recv().unwrap(), zone);
    }

    #[test]
    fn what_is_not_from_a_primary_or_not_about_a_zone_changes_nothing() {
        let (reception, mut zones) = Reception::new(Arc::new(Metrics::new()));
        let primary: IpAddr = "192.0.2.1".parse().unwrap();
        reception.set_announcers([(Name::parse("z.example").unwrap(), vec![primary])].into());
        let other = "192.0.2.2".parse().unwrap();
        let mut out = [0; 512];
        let soa = notify("z.example", rtype::SOA);
        let mut response = soa.clone();
        response[2] |= 0x80;
        for (message, peer, expected) in [
            (soa.clone(), other, Some(rcode::REFUSED)),
            (notify("sub.z.example", rtype::SOA), primary, Some(rcode::NOTAUTH)),
            (notify("z.example", rtype::A), primary, Some(rcode::NOTIMP)),
            (soa[..14].to_vec(), primary, Some(rcode::FORMERR)),
            (response, primary, None),
        ] {
            assert_eq!(reception.receive(&message, peer, &mut out).map(|response| response.rcode), expected);
        }
        assert!(zones.try_recv().is_err());
    }
}
