//! What one client gets, in words, and against the answers themselves.

use super::*;
use crate::merge::{Drain, DrainTarget};
use crate::select::{Prefer, Services, Steering};
use crate::serve::answer::{Asked, answer_request};
use crate::view::lookup::client::report::Choice;
use std::net::IpAddr;
use std::time::SystemTime;
use wire::message::Request;

const NEAREST: Steering = Steering { prefer: Prefer::Nearest, at_least: 2, services: Services::Select };

fn clients() -> Clients {
    let homes = ["w1.x", "w2.x", "w3.x", "far.x", "off.x"].map(name).to_vec();
    let prefixes = ["10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "10.4.0.0/16", "10.5.0.0/16", "2001:db8:1::/48"];
    let homes_of = [0, 1, 2, 3, 4, 0];
    let prefixes: Vec<_> = prefixes.iter().map(|prefix| prefix.parse().unwrap()).zip(homes_of).collect();
    Clients::new(homes, &prefixes).unwrap()
}

/// The plan of a region that steers.
fn plan_of(steering: Steering, law: Law) -> AnswersPlan {
    let mut plan = AnswersPlan::new(law);
    plan.usual.steering = steering;
    plan.stale_after = Some(Duration::from_secs(300));
    plan.near = vec![(name("far.x"), vec![name("w3.x")])];
    plan
}

/// Three members, in which `web` has 1, 2 and 3 addresses.
fn three() -> Snapshot {
    let plan = plan(&["w1.x", "w2.x", "w3.x"]);
    let lines = [
        "web 30 A 10.0.1.1\nweb 30 AAAA 2001:db8::1\n_y._tcp 30 SRV 80 a\n_y._tcp 30 SRV 81 a\ngo 30 CNAME web.w.x.\none 30 A 10.0.1.9",
        "web 30 A 10.0.2.1\nweb 30 A 10.0.2.2\n_y._tcp 30 SRV 82 a\ngo 30 CNAME web.w.x.",
        "web 30 A 10.0.3.1\nweb 30 A 10.0.3.2\nweb 30 A 10.0.3.3\nweb 30 AAAA 2001:db8::3\ngo 30 CNAME web.w.x.",
    ];
    let text = |(serial, lines): (u32, &str)| Some(format!("@ 30 SOA {serial}\n@ 3600 NS ns.w1.x.\n{lines}"));
    let texts: Vec<Option<String>> = (10..).zip(lines).map(text).collect();
    view(plan, &texts, false)
}

fn drain(view: &mut Snapshot, member: &str, share: u8) {
    let target = DrainTarget { member: name(member), region: None, names: None };
    let (since, share) = (SystemTime::UNIX_EPOCH, Some(share));
    view.drains.push(Drain { target, share, since, until: None, reason: None, configured: false });
}

/// What the last step says of the client.
fn told(view: &Snapshot, at: &str, rtype: u16, client: &str) -> String {
    let lookup = explain(view, &name(at), Some(rtype), Some(client.parse().unwrap()));
    let mut text = String::new();
    let client = lookup.client.as_ref().unwrap().describe();
    lookup.steps.last().unwrap().client.as_ref().unwrap().write(&mut text, &client);
    text
}

#[test]
fn members_are_told_in_the_order_of_the_client() {
    let mut view = three();
    steer(&mut view, plan_of(NEAREST, Law::ALL), &clients(), &[false; 3]);
    let expected = "  answers to 10.1.2.3, a client of w1.x. (10.1.0.0/16)
    A: these 3 of 6 records, in turns within a member
      1. w1.x.: 1 record, 1 in the answer; home
      2. w2.x.: 2 records, 2 in the answer
      3. w3.x.: 3 records, 0 in the answer; not needed
      prefer = \"nearest\", at_least = 2
      ends behind w2.x.: 3 records count up to there, at_least = 2
        30 A 10.0.1.1
        30 A 10.0.2.2
        30 A 10.0.2.1
";
    assert_eq!(told(&view, "web.w.x", rtype::A, "10.1.2.3"), expected);
    // Behind an alias, for a home that is no member.
    let expected = "  answers to 10.4.0.0/24 by EDNS Client Subnet, a client of far.x. (10.4.0.0/16)
    A: these 3 of 6 records, in turns within a member
      1. w3.x.: 3 records, 3 in the answer
      2. w1.x.: 1 record, 0 in the answer; not needed
      3. w2.x.: 2 records, 0 in the answer; not needed
      prefer = \"nearest\", at_least = 2
      near far.x.: w3.x.
      ends behind w3.x.: 3 records count up to there, at_least = 2
      EDNS Client Subnet: SCOPE 16
        30 A 10.0.3.1
        30 A 10.0.3.3
        30 A 10.0.3.2
";
    assert_eq!(told(&view, "go.w.x", rtype::A, "10.4.0.0/24"), expected);
    let expected = "  answers to 10.5.0.1, a client of off.x. (10.5.0.0/16)
    off.x. is no home in w.x.: neither a member, nor in its \"near\"
    A: all 6 records, no member first
      w1.x.: 1 record
      w2.x.: 2 records
      w3.x.: 3 records
      prefer = \"nearest\", at_least = 2 leads only clients with a home
";
    assert_eq!(told(&view, "web.w.x", rtype::A, "10.5.0.1"), expected);
    let stranger = "  answers to 192.0.2.1, without home: no prefix of [clients] has it\n    A: all 6 records";
    assert!(told(&view, "web.w.x", rtype::A, "192.0.2.1").starts_with(stranger));
    // What one member alone gives, and other zones.
    for at in ["one.w.x", "web.w1.x"] {
        let expected = "  answers to 10.2.0.1, a client of w2.x. (10.2.0.0/16)\n    every client gets the same\n";
        assert_eq!(told(&view, at, rtype::A, "10.2.0.1"), expected);
    }
}

#[test]
fn members_that_are_far_for_a_reason_are_told_with_it() {
    let mut view = three();
    drain(&mut view, "w1.x", 99);
    steer(&mut view, plan_of(NEAREST, Law::ALL), &clients(), &[false, true, false]);
    let expected = "  answers to 10.1.2.3, a client of w1.x. (10.1.0.0/16)
    A: these 3 of 6 records, in turns within a member
      1. w1.x.: 1 record, 0 in the answer; home; drained for 99% of clients, this one among them
      2. w3.x.: 3 records, 3 in the answer
      3. w2.x.: 2 records, 0 in the answer; not refreshed for 5s; not needed
      prefer = \"nearest\", at_least = 2
      stale_after = 5m: members not refreshed for longer come last
      ends behind w3.x.: 3 records count up to there, at_least = 2
        30 A 10.0.3.1
        30 A 10.0.3.3
        30 A 10.0.3.2
";
    assert_eq!(told(&view, "web.w.x", rtype::A, "10.1.2.3"), expected);
    let mut plan = plan_of(NEAREST, Law { max: NonZeroU32::new(4), pick: Pick::Rotate });
    plan.members_home_only = vec![(name("w3.x"), vec!["10.0.3.2/31".parse().unwrap()])];
    plan.weights = vec![(name("w1.x"), 3)];
    steer(&mut view, plan, &clients(), &[true; 3]);
    let text = told(&view, "web.w.x", rtype::A, "10.2.2.3");
    let home_only = "      3. w3.x.: 3 records, 0 in the answer; not refreshed for 5s; 2 are for its own clients only \
                     (home_only); not needed\n";
    assert!(text.contains(home_only), "{text}");
    assert!(text.contains("stale_after = 5m: no member was refreshed since, so none comes last\n"), "{text}");
    // Which member is drawn next is not foretold.
    let lookup = explain(&view, &name("web.w.x"), Some(rtype::A), Some("192.0.2.1".parse().unwrap()));
    let set = &lookup.steps[0].client.as_ref().unwrap().sets[0];
    assert_eq!(set.explanation, "the records of a drawn member of 6, others each time");
    assert_eq!(set.candidates[0].notes.last().unwrap(), "weight 3");
    assert!(set.answer.is_empty() && set.candidates.iter().all(|one| one.answered.is_none()));
}

#[test]
fn priorities_are_told_as_the_client_gets_them() {
    let mut view = three();
    let steering = Steering { services: Services::Priority, ..NEAREST };
    steer(&mut view, plan_of(steering, Law::ALL), &clients(), &[false; 3]);
    let expected = "  answers to 10.2.2.3, a client of w2.x. (10.2.0.0/16)
    SRV: these 3 of 3 records, in turns within a member
      1. w2.x.: 1 record, 1 in the answer; home
      2. w1.x.: 2 records, 2 in the answer
      prefer = \"nearest\", at_least = 2
      srv = \"priority\": 1000 more for each member that is nearer
        30 SRV 0 10 82 a.w2.x.
        30 SRV 1000 10 81 a.w1.x., in place of priority 0
        30 SRV 1000 10 80 a.w1.x., in place of priority 0
";
    assert_eq!(told(&view, "_y._tcp.w.x", rtype::SRV, "10.2.2.3"), expected);
    let law = Law { max: NonZeroU32::new(2), pick: Pick::Client };
    steer(&mut view, plan_of(steering, law), &clients(), &[false; 3]);
    let text = told(&view, "_y._tcp.w.x", rtype::SRV, "10.1.2.3");
    assert!(text.contains("SRV: these 2 of 3 records, always in this order\n"), "{text}");
    assert!(text.contains("nearer; the nearest has 1 of 2 places while others have records\n"), "{text}");
    assert!(text.contains("      max = 2, pick = \"client\"\n"), "{text}");
}

#[test]
fn members_without_a_family_are_told_to_everyone() {
    let mut view = three();
    steer(&mut view, plan_of(NEAREST, Law::ALL), &clients(), &[false; 3]);
    let uneven = |at: &str, rtype: Option<u16>| -> Vec<String> {
        explain(&view, &name(at), rtype, None).steps[0].uneven.iter().map(|uneven| uneven.describe()).collect()
    };
    let expected = "w2.x. has A and no AAAA: its clients get AAAA from w1.x.";
    assert_eq!(uneven("web.w.x", None), [expected]);
    assert_eq!(uneven("web.w.x", Some(rtype::AAAA)), [expected]);
    assert_eq!(uneven("web.w.x", Some(rtype::TXT)), Vec::<String>::new());
    let text = explain(&view, &name("web.w.x"), None, None).describe();
    assert!(text.contains("\n  A: 6 records; answers depend on the client's home\n"), "{text}");
    assert!(text.contains(&format!("\n  {expected}\n")), "{text}");
}

#[test]
fn clients_get_what_they_are_told() {
    let mut view = three();
    drain(&mut view, "w3.x", 40);
    let law = Law { max: NonZeroU32::new(4), pick: Pick::Client };
    steer(&mut view, plan_of(NEAREST, law), &clients(), &[false; 3]);
    for number in 0..100u8 {
        let (peer, kind) =
            (IpAddr::from([10, number % 7, number, 9]), [rtype::A, rtype::AAAA][usize::from(number % 2)]);
        let asking = Asking::Address(peer);
        let lookup = explain(&view, &name("web.w.x"), Some(kind), Some(asking));
        let set = &lookup.steps[0].client.as_ref().unwrap().sets[0];
        let told = if set.choice == Choice::Whole { set.records as usize } else { set.answer.len() };
        let message = question(&name("web.w.x"), kind);
        let (mut request, mut out) = (Request::default(), vec![0; 65_535]);
        assert!(request.read(&message));
        let asked = Asked { message: &message, peer, datagram: false, rotation: number.into(), now: 0, secured: None };
        answer_request(&view.published, &request, None, 65_535, &asked, &mut out);
        assert_eq!(usize::from(u16::from_be_bytes([out[6], out[7]])), told, "{peer}: {set:?}");
    }
}

#[test]
fn clients_are_read_as_people_write_them() {
    let read = |text: &str| text.parse::<Asking>();
    assert_eq!(read("192.0.2.7"), Ok(Asking::Address("192.0.2.7".parse().unwrap())));
    assert_eq!(read("::ffff:192.0.2.7"), read("192.0.2.7"));
    assert!(matches!(read("2001:db8::/56"), Ok(Asking::Subnet(subnet)) if subnet.length == 56));
    assert!(matches!(read("192.0.2.7/32"), Ok(Asking::Subnet(_))), "a resolver may tell all of it");
    let error = read("192.0.2.7/24").unwrap_err();
    assert_eq!(error, "192.0.2.7/24: bits are set behind the prefix length; write 192.0.2.0/24");
    assert!(read("web").unwrap_err().starts_with("\"web\" is no address"));
}
