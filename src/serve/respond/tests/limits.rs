//! Rate limits and cookies, from the request's octets to the response's.

use super::*;
use crate::cookie::Secrets;
use crate::rate_limit::{RateLimit, RateLimitPlan};

const SECOND: u64 = 1_000_000_000;

/// What is served, with ten responses a second and cookies.
fn limited(mode: Mode) -> Published {
    let plan = RateLimitPlan { mode, responses_per_second: 10, ipv4_prefix: 24, ipv6_prefix: 56, exempt: Vec::new() };
    let mut published = published();
    published.rate_limit = Arc::new(RateLimit::new(&plan, []));
    published.cookies = Some(Arc::new(Secrets::parse(b"000102030405060708090a0b0c0d0e0f").unwrap()));
    published
}

/// A message with an OPT record that has these options.
fn with_options(mut message: Vec<u8>, options: &[(u16, &[u8])]) -> Vec<u8> {
    let options: Vec<u8> = options
        .iter()
        .flat_map(|(code, data)| [&code.to_be_bytes()[..], &(data.len() as u16).to_be_bytes(), data].concat())
        .collect();
    message[11] += 1;
    message.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0]);
    message.extend_from_slice(&(options.len() as u16).to_be_bytes());
    [message, options].concat()
}

fn with_cookie(message: Vec<u8>, cookie: &[u8]) -> Vec<u8> {
    with_options(message, &[(10, cookie)])
}

/// Cookies of a response.
fn cookies(response: &[u8]) -> Option<&[u8]> {
    let at = response.windows(4).position(|head| head == [0, 10, 0, 24])?;
    response.get(at + 4..at + 28)
}

/// The response, and the class in which it was over the limit.
fn ask(responder: &Responder, published: &Published, message: &[u8], datagram: bool) -> (Vec<u8>, Option<Class>) {
    let (outcome, mut out) = respond(responder, published, message, datagram);
    match outcome {
        Dispatched::Response(_) => (out, None),
        Dispatched::Limited(response, class) => {
            out.truncate(response.length);
            (out, Some(class))
        }
        Dispatched::Nothing | Dispatched::Transfer(_) => panic!("no response"),
    }
}

/// Asks until the limit is reached; returns the last response within it, and the first that is over it.
fn flood(responder: &Responder, published: &Published, message: &[u8]) -> [(Vec<u8>, Option<Class>); 2] {
    let within = (0..10).map(|_| ask(responder, published, message, true)).last().unwrap();
    [within, ask(responder, published, message, true)]
}

#[test]
fn over_the_limit_the_question_comes_back_alone() {
    let name = question("open", rtype::SOA);
    let unknown = question("none.open", rtype::A);
    for (message, class, code) in [
        (name.clone(), Class::Answer, 0),
        (question("open", rtype::A), Class::Nodata, 0),
        (unknown.clone(), Class::Nxdomain, 0),
        (question("elsewhere", rtype::A), Class::Error, 5),
    ] {
        for message in [message.clone(), with_options(message, &[(3, &[])])] {
            let (responder, _) = responder();
            let [(within, none), (over, found)] = flood(&responder, &limited(Mode::On), &message);
            assert_eq!((none, found), (None, Some(class)));
            assert_eq!((within[2] & 2, over[2] & 2), (0, 2), "TC");
            assert_eq!((over[3] & 15, &over[6..10]), (code, &[0; 4][..]), "the code, and no records");
            assert!(over.len() <= message.len(), "{} octets for {}", over.len(), message.len());
            assert_eq!(over[12..message.len().min(over.len())].get(..3), message[12..].get(..3));
            assert_eq!(over[10..12], message[10..12], "an OPT record if there was one");
        }
    }
    // No class is held against another, and no question counts apart from others of its class.
    let (responder, _) = responder();
    let published = limited(Mode::On);
    flood(&responder, &published, &name);
    assert_eq!(flood(&responder, &published, &unknown)[0].1, None);
    assert!(ask(&responder, &published, &question("other.open", rtype::A), true).1.is_some());
}

#[test]
fn a_limit_that_is_only_told_cuts_nothing() {
    let message = question("open", rtype::SOA);
    let [within, over] = flood(&responder().0, &limited(Mode::Log), &message);
    assert_eq!((over.0, over.1), (within.0, Some(Class::Answer)));
    let [within, over] = flood(&responder().0, &limited(Mode::Off), &message);
    assert_eq!(over, within);
}

#[test]
fn streams_signed_requests_and_notify_have_no_limit() {
    let (responder, _) = responder();
    let published = limited(Mode::On);
    let message = question("open", rtype::SOA);
    flood(&responder, &published, &message);
    assert_eq!(ask(&responder, &published, &message, false).1, None, "TCP");
    let (signed, _) = signed(&message, &key("k.", b"secret"), NOW);
    assert_eq!(flood(&responder, &published, &signed).map(|(_, over)| over), [None; 2], "TSIG");
    let mut notify = question("closed", rtype::SOA);
    notify[2] = 0x20;
    assert_eq!(flood(&responder, &published, &notify).map(|(_, over)| over), [None; 2], "NOTIFY");
    // A TSIG record where it signs nothing is no way around.
    let mut misplaced = signed.clone();
    misplaced[11] -= 1;
    misplaced[7] += 1;
    let [_, over] = flood(&responder, &published, &misplaced);
    assert!(over.1.is_some() || over.0.len() <= misplaced.len());
}

#[test]
fn a_server_cookie_takes_the_limit_and_nothing_else_does() {
    let (responder, fresh) = (responder().0, responder().0);
    let published = limited(Mode::On);
    let plain = question("open", rtype::SOA);
    let client = with_cookie(plain.clone(), &[7; 8]);
    let (response, over) = ask(&responder, &published, &client, true);
    let good = cookies(&response).expect("cookies").to_vec();
    assert_eq!((&good[..8], over), (&[7; 8][..], None));
    let known = with_cookie(plain.clone(), &good);
    let [_, (cut, over)] = flood(&responder, &published, &client);
    assert!(over.is_some(), "a client cookie alone");
    assert_eq!(cookies(&cut), Some(&good[..]), "but it gets a server cookie");
    assert_eq!(cut.len(), client.len() + 16);
    let [_, (whole, over)] = flood(&responder, &published, &known);
    assert_eq!((cookies(&whole), over), (Some(&good[..]), None));
    assert_eq!(whole[7], 1);
    let mut forged = good.clone();
    forged[20] ^= 1;
    let (cut, over) = ask(&responder, &published, &with_cookie(plain.clone(), &forged), true);
    assert!(over.is_some());
    assert_eq!(cookies(&cut), Some(&good[..]));
    // Within the limit a forged one is answered, too, with a right one.
    let (other, over) = ask(&fresh, &published, &with_cookie(plain, &forged), true);
    assert_eq!((other[7], cookies(&other), over), (1, Some(&good[..]), None));
}

#[test]
fn cookies_are_in_every_response_that_has_room_for_options() {
    let published = limited(Mode::On);
    for message in [question("none.open", rtype::A), question("elsewhere", rtype::A), question("open", rtype::AXFR)] {
        for datagram in [true, false] {
            let (outcome, out) = respond(&responder().0, &published, &with_cookie(message.clone(), &[1; 8]), datagram);
            if let Dispatched::Response(_) = outcome {
                assert!(cookies(&out).is_some(), "{message:?}");
            }
        }
    }
    let (plain, _) = ask(&responder().0, &published, &with_opt(question("open", rtype::SOA)), true);
    assert_eq!(cookies(&plain), None, "not for clients that send none");
    let mut off = limited(Mode::On);
    off.cookies = None;
    let (without, _) = ask(&responder().0, &off, &with_cookie(question("open", rtype::SOA), &[1; 8]), true);
    assert_eq!((cookies(&without), without[7]), (None, 1));
}

#[test]
fn cookies_of_no_legal_length_are_a_format_error() {
    let published = limited(Mode::On);
    for (octets, code) in [(0, 1), (7, 1), (8, 0), (9, 1), (15, 1), (16, 0), (24, 0), (40, 0), (41, 1)] {
        let message = with_cookie(question("open", rtype::SOA), &vec![3; octets]);
        let (response, _) = ask(&responder().0, &published, &message, true);
        assert_eq!((response[3] & 15, response[11]), (code, 1), "{octets} octets");
        assert_eq!(cookies(&response).is_some(), code == 0, "{octets} octets");
    }
    // The first of several counts.
    let twice = with_options(question("open", rtype::SOA), &[(10, &[1; 8]), (10, &[1; 9])]);
    assert_eq!(ask(&responder().0, &published, &twice, true).0[3] & 15, 0);
}

#[test]
fn a_server_cookie_can_be_asked_for_without_a_question() {
    let header = vec![0xab, 0xcd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let published = limited(Mode::On);
    let message = with_cookie(header.clone(), &[5; 8]);
    let (response, _) = ask(&responder().0, &published, &message, true);
    assert_eq!((response[3] & 15, &response[4..12]), (0, &[0, 0, 0, 0, 0, 0, 0, 1][..]));
    assert!(cookies(&response).is_some_and(|cookies| cookies.starts_with(&[5; 8])));
    for message in [header.clone(), with_opt(header.clone()), with_cookie(header, &[5; 9])] {
        assert_eq!(ask(&responder().0, &published, &message, true).0[3] & 15, 1);
    }
    let mut off = limited(Mode::On);
    off.cookies = None;
    assert_eq!(ask(&responder().0, &off, &message, true).0[3] & 15, 1);
}

#[test]
fn an_idle_second_fills_the_bucket_again() {
    let (responder, published) = (responder().0, limited(Mode::On));
    let message = question("open", rtype::SOA);
    let asked = |now| Asked {
        message: &message,
        peer: "192.0.2.1".parse().unwrap(),
        datagram: true,
        rotation: 0,
        now,
        secured: None,
    };
    let full = |now| {
        let is_full =
            |_: &u32| matches!(responder.respond(&published, asked(now), &mut [0; 1232]), Dispatched::Response(_));
        (0..100).filter(is_full).count()
    };
    assert_eq!([5 * SECOND, 5 * SECOND + SECOND / 2, 100 * SECOND].map(full), [10, 5, 10]);
}
