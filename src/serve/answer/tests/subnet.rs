//! Answers to resolvers that tell of their clients' subnets.

use super::*;
use crate::acl::Prefix;
use crate::merge::{AnswersPlan, Selected};
use crate::select::{Law, Pick};
use std::num::NonZeroU32;
use std::time::Instant;
use wire::message::Records;

/// A question with the option, whose data is given.
fn question_with_subnet(owner: &str, data: &[u8]) -> Vec<u8> {
    let mut request = question(owner, rtype::A);
    request[11] = 1;
    let length = data.len() as u8;
    request.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, length + 4, 0, 8, 0, length]);
    request.extend(data);
    request
}

/// The response code, the records, and the data of the option in the response to a resolver that is believed, or not.
fn ask_with_subnet(
    published: &Published,
    owner: &str,
    data: &[u8],
    peer: &str,
) -> (u16, Vec<Vec<u8>>, Option<Vec<u8>>) {
    let message = question_with_subnet(owner, data);
    let asked =
        Asked { message: &message, peer: peer.parse().unwrap(), datagram: true, rotation: 7, now: 0, secured: None };
    let request = Request::parse(&message).unwrap();
    let mut out = [0; 1232];
    let response = answer_request(published, &request, None, request.limit(true), &asked, &mut out);
    let out = &out[..response.length];
    let (mut records, mut option) = (Vec::new(), None);
    for record in Records::new(out).unwrap().map(Result::unwrap) {
        let data = &out[record.rdata..record.end()];
        match record.rtype {
            rtype::A => records.push(data.to_vec()),
            rtype::OPT => {
                let mut rest = data;
                while let Some((head, behind)) = rest.split_first_chunk::<4>() {
                    let (data, others) = behind.split_at(usize::from(head[3]));
                    if head[..2] == [0, 8] {
                        option = Some(data.to_vec());
                    }
                    rest = others;
                }
            }
            _ => {}
        }
    }
    (response.rcode, records, option)
}

/// A zone with a large set that is answered by client, and a resolver that is believed.
fn by_client() -> Published {
    let hosts: String = (0..200).map(|n| format!("w 30 A 10.0.{}.{}\n", n / 100, n % 100)).collect();
    let lines = format!("@ 30 SOA 1\n{hosts}small 30 A 192.0.2.1\nto 30 CNAME w\ndns 30 NS ns.y.\n");
    let zone = Arc::new(zone("z.", &lines));
    let law = Law { max: NonZeroU32::new(8), pick: Pick::Client };
    let plan = Arc::new(AnswersPlan::new(law));
    let mut served = Served::new(zone.origin.clone(), State::Ok, Some(zone.clone()));
    served.selections = Selected::new(None, &plan, &zone, None, [].into(), Instant::now()).selections;
    let mut published = Published::new(Identity::default(), [Arc::new(served)], 1);
    published.subnet_from = [Prefix::host([192, 0, 2, 53].into())].into();
    published
}

#[test]
fn a_resolver_that_is_believed_is_told_for_whom_the_answer_holds() {
    let published = by_client();
    let ask = |owner: &str, data: &[u8]| ask_with_subnet(&published, owner, data, "192.0.2.53");
    let some = |data: &[u8]| Some(data.to_vec());
    let (rcode, records, option) = ask("w.z", &[0, 1, 24, 0, 198, 51, 100]);
    assert_eq!((rcode, records.len(), option), (rcode::NOERROR, 8, some(&[0, 1, 24, 24, 198, 51, 100])));
    for (owner, data, code, expected, why) in [
        (
            "w.z",
            &[0, 1, 32, 0, 198, 51, 100, 7][..],
            rcode::NOERROR,
            some(&[0, 1, 32, 24, 198, 51, 100, 7]),
            "cut to 24",
        ),
        ("w.z", &[0, 1, 16, 0, 198, 51], rcode::NOERROR, some(&[0, 1, 16, 16, 198, 51]), "never beyond SOURCE"),
        (
            "w.z",
            &[0, 2, 56, 0, 0x20, 1, 0xd, 0xb8, 0, 0, 1],
            rcode::NOERROR,
            some(&[0, 2, 56, 56, 0x20, 1, 0xd, 0xb8, 0, 0, 1]),
            "IPv6",
        ),
        ("w.z", &[0, 1, 0, 0], rcode::NOERROR, some(&[0, 1, 0, 0]), "the source address decides"),
        ("w.z", &[0, 0, 0, 0], rcode::NOERROR, some(&[0, 0, 0, 0]), "FAMILY 0"),
        ("to.z", &[0, 1, 24, 0, 198, 51, 100], rcode::NOERROR, some(&[0, 1, 24, 24, 198, 51, 100]), "behind an alias"),
        ("small.z", &[0, 1, 24, 0, 198, 51, 100], rcode::NOERROR, some(&[0, 1, 24, 0, 198, 51, 100]), "a whole set"),
        ("none.z", &[0, 1, 24, 0, 198, 51, 100], rcode::NXDOMAIN, some(&[0, 1, 24, 0, 198, 51, 100]), "no such name"),
        ("z", &[0, 1, 24, 0, 198, 51, 100], rcode::NOERROR, some(&[0, 1, 24, 0, 198, 51, 100]), "no data"),
        ("a.dns.z", &[0, 1, 24, 0, 198, 51, 100], rcode::NOERROR, some(&[0, 1, 24, 0, 198, 51, 100]), "a referral"),
        ("y", &[0, 1, 24, 0, 198, 51, 100], rcode::REFUSED, some(&[0, 1, 24, 0, 198, 51, 100]), "no zone"),
        ("w.z", &[0, 1, 24, 0, 198, 51], rcode::FORMERR, None, "malformed"),
    ] {
        let (got, _, option) = ask(owner, data);
        assert_eq!((got, option), (code, expected), "{why}");
    }
}

#[test]
fn clients_within_a_scope_get_the_same_and_others_are_not_heard() {
    let published = by_client();
    let sorted = |mut records: Vec<Vec<u8>>| {
        records.sort();
        records
    };
    let records = |data: &[u8], peer| sorted(ask_with_subnet(&published, "w.z", data, peer).1);
    let resolver = "192.0.2.53";
    let first = records(&[0, 1, 24, 0, 198, 51, 100], resolver);
    assert_eq!(records(&[0, 1, 32, 0, 198, 51, 100, 9], resolver), first, "the same 24 bits");
    let others = (0..20u8).filter(|net| records(&[0, 1, 24, 0, 198, 51, *net], resolver) != first).count();
    assert!(others >= 19, "{others}");
    // A resolver that nobody has listed is the client itself, whatever it says.
    let stranger = |data: &[u8]| ask_with_subnet(&published, "w.z", data, "192.0.2.54");
    let (rcode, own, option) = stranger(&[0, 1, 24, 0, 198, 51, 100]);
    assert_eq!((rcode, option), (rcode::NOERROR, None));
    assert_eq!(stranger(&[0, 1, 24, 0, 198, 51]).0, rcode::NOERROR, "not even malformed");
    assert_eq!(sorted(own), records(&[0, 1, 0, 0], "192.0.2.54"));
}
