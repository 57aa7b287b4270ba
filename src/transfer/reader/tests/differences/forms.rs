//! Forms of differences, right and wrong: which are understood, and what is said of the others.

use super::*;

/// A zone with two addresses at serial 1.
fn base() -> Arc<Zone> {
    let mut loader = Loader::new(origin());
    let owner = |text: &str| NameBuf::parse(text).unwrap();
    loader.push(&owner("z.example"), rtype::SOA, 30, &soa(1));
    loader.push(&owner("a.z.example"), rtype::A, 30, &[192, 0, 2, 1]);
    loader.push(&owner("b.z.example"), rtype::A, 30, &[192, 0, 2, 2]);
    Arc::new(loader.finish(None).unwrap().zone)
}

/// One message: SOA where a number stands, else a record of `a` with that last octet.
fn answer(parts: &[Result<u32, u8>]) -> Message {
    let mut message = Message::differences(7, true);
    for part in parts {
        match part {
            Ok(serial) => message.record(b"", rtype::SOA, &soa(*serial)),
            Err(octet) => message.record(b"\x01a", rtype::A, &[192, 0, 2, *octet]),
        }
    }
    message
}

fn fetch_answer(parts: &[Result<u32, u8>]) -> Result<Came, TransferError> {
    fetch(&base(), &[answer(parts).bytes])
}

/// The zone at a serial with `a` at these addresses.
fn expected(serial: u32, octets: &[u8]) -> BTreeSet<String> {
    let address = octets.iter().map(|octet| format!("a.z.example. 30 IN A 192.0.2.{octet}"));
    let others =
        [format!("z.example. 30 IN SOA . . {serial} 30 60 2592000 30"), "b.z.example. 30 IN A 192.0.2.2".into()];
    address.chain(others).collect()
}

#[test]
fn every_form_of_a_right_answer_is_understood() {
    assert_eq!(fetch_answer(&[Ok(1)]).unwrap(), Came::NotNewer(1), "the SOA alone");
    assert_eq!(fetch_answer(&[Ok(0), Err(1), Ok(0)]).unwrap(), Came::NotNewer(0), "an older zone");
    let condensed = [Ok(3), Ok(1), Err(1), Ok(3), Err(3), Ok(3)];
    assert_eq!(fetch_answer(&condensed).unwrap(), Came::Changed(expected(3, &[3])));
    let stepwise = [Ok(3), Ok(1), Err(1), Ok(2), Err(9), Ok(2), Err(9), Ok(3), Err(3), Ok(3)];
    assert_eq!(fetch_answer(&stepwise).unwrap(), Came::Changed(expected(3, &[3])));
    assert_eq!(
        fetch_answer(&[Ok(2), Ok(1), Ok(2), Ok(2)]).unwrap(),
        Came::Changed(expected(2, &[1])),
        "the serial alone"
    );
    let absent = [Ok(2), Ok(1), Err(8), Ok(2), Err(1), Ok(2)];
    assert_eq!(fetch_answer(&absent).unwrap(), Came::Changed(expected(2, &[1])), "nothing that was not so before");
    let whole: BTreeSet<_> = expected(2, &[9]).into_iter().filter(|line| !line.starts_with('b')).collect();
    assert_eq!(fetch_answer(&[Ok(2), Err(9), Ok(2)]).unwrap(), Came::Full(whole), "the whole zone");
    let empty = Came::Full(BTreeSet::from(["z.example. 30 IN SOA . . 2 30 60 2592000 30".to_owned()]));
    assert_eq!(fetch_answer(&[Ok(2), Ok(2)]).unwrap(), empty, "a zone without records");
    let far = (1 << 31) + 1;
    assert_eq!(
        fetch_answer(&[Ok(1 << 31), Ok(1), Ok(1 << 31), Ok(1 << 31)]).unwrap(),
        Came::Changed(expected(1 << 31, &[1]))
    );
    assert!(matches!(fetch_answer(&[Ok(far), Err(9), Ok(far)]).unwrap(), Came::Full(_)), "at the undefined distance");
    assert_eq!(fetch_answer(&[Ok(far + 1), Err(9), Ok(far + 1)]).unwrap(), Came::NotNewer(far + 1), "beyond it");
}

/// What the primary sends behind its first SOA, when that is not newer, is not looked at.
#[test]
fn reading_stops_at_a_serial_that_is_not_newer() {
    let mut message = answer(&[Ok(1), Err(1)]).bytes;
    message.truncate(message.len() - 20);
    let mut reader = Reader::ixfr(base(), 7);
    assert_eq!(reader.feed(&message).unwrap(), Progress::Done);
    assert_eq!(reader.records(), 1);
    assert!(reader.feed(&message).is_err());
}

#[test]
fn habits_of_primaries_are_accepted() {
    let mut messages = Vec::new();
    for (index, part) in [Ok(2), Ok(1), Err(1), Ok(2), Err(3), Ok(2)].into_iter().enumerate() {
        let mut message = answer(&[part]);
        if index % 2 == 1 {
            message.bytes = [&message.bytes[..4], &[0, 0], &message.bytes[6..12], &message.bytes[27..]].concat();
        }
        message.section_record(10, &[0], rtype::OPT, 1232, &[]);
        messages.push(message.bytes);
    }
    assert_eq!(fetch(&base(), &messages).unwrap(), Came::Changed(expected(2, &[3])));
    // The step that CNS sends too much, when it comes too late: what has come is complete.
    let late =
        [answer(&[Ok(2), Ok(1), Err(1), Ok(2), Err(3), Ok(2)]).bytes, answer(&[Err(3), Ok(3), Err(4), Ok(2)]).bytes];
    assert_eq!(fetch(&base(), &late).unwrap(), Came::Changed(expected(2, &[3])));
}

/// `docs/cns.md` 29: the step that is recorded and not yet published is left out.
#[test]
fn a_step_beyond_the_announced_serial_is_left_out() {
    let steps = [Ok(2), Ok(1), Err(1), Ok(2), Err(3)];
    let beyond = [Ok(2), Err(3), Ok(3), Err(4), Ok(2)];
    assert_eq!(fetch_answer(&[&steps[..], &beyond].concat()).unwrap(), Came::Changed(expected(2, &[3])));
    let two = [Ok(2), Err(3), Ok(3), Err(4), Ok(3), Ok(4), Err(5), Ok(2)];
    assert_eq!(fetch_answer(&[&steps[..], &two].concat()).unwrap(), Came::Changed(expected(2, &[3])));
}

/// `docs/cns.md` 28: two commits had one serial. Removals of such a step are in doubt, and so are none of the others.
#[test]
fn a_step_under_one_serial_is_taken_and_doubted() {
    let steps = [Ok(2), Ok(1), Err(1), Ok(2), Err(3)];
    let adds = [Ok(2), Ok(2), Err(4), Ok(2)];
    assert_eq!(fetch_answer(&[&steps[..], &adds].concat()).unwrap(), Came::Changed(expected(2, &[3, 4])));
    let removes = [Ok(2), Err(3), Ok(2), Err(4), Ok(2)];
    assert_eq!(fetch_answer(&[&steps[..], &removes].concat()).unwrap(), Came::Doubtful);
    let before = [Ok(2), Ok(1), Err(1), Ok(1), Err(3), Ok(1), Ok(2), Ok(2)];
    assert_eq!(fetch_answer(&before).unwrap(), Came::Doubtful, "in front of another step");
}

/// The question at our own serial: a step is taken, all else says that nothing happened, and no more is read.
#[test]
fn what_else_happened_under_our_serial_comes_or_nothing() {
    let ask = |parts: &[Result<u32, u8>]| {
        let mut reader = Reader::ixfr(base(), 7).with_same_serial();
        let progress = reader.feed(&answer(parts).bytes).unwrap();
        (progress == Progress::Done).then(|| reader.finish().unwrap())
    };
    let step = ask(&[Ok(1), Ok(1), Ok(1), Err(3), Ok(1)]);
    let Some(Received::Changed(changed)) = step else { panic!("a step was sent") };
    let after = changed.finish(&Vetoes::default()).unwrap().loaded.zone;
    assert_eq!((after.soa.serial, after.records), (Serial(1), base().records + 1));
    for nothing in [&[Ok(1)][..], &[Ok(1), Err(1), Err(2), Ok(1)], &[Ok(1), Err(9)], &[Ok(1), Ok(1)], &[Ok(0)]] {
        assert!(matches!(ask(nothing), Some(Received::NotNewer(_))), "{nothing:?}");
    }
    let newer = ask(&[Ok(2), Ok(1), Err(1), Ok(2), Err(3), Ok(2)]);
    assert!(matches!(newer, Some(Received::Changed(changed)) if changed.soa.serial == Serial(2)));
}

/// All removals up to the first serial newer than at the end of the copy are in doubt, whatever the copy's serial.
#[test]
fn removals_from_a_mixed_copy_are_in_doubt_up_to_the_next_serial() {
    let answer = answer(&[Ok(3), Ok(1), Ok(2), Err(3), Ok(2), Err(1), Ok(3), Ok(3)]).bytes;
    for (mixed, is_doubtful, after) in [
        (Mixed::No, false, Mixed::No),
        (Mixed::Until(Serial(0)), false, Mixed::No),
        (Mixed::Until(Serial(1)), false, Mixed::No),
        (Mixed::Until(Serial(2)), true, Mixed::No),
        (Mixed::Until(Serial(3)), true, Mixed::Until(Serial(3))),
        (Mixed::Open, true, Mixed::Open),
    ] {
        let mut reader = Reader::ixfr(base(), 7).doubting(mixed);
        assert_eq!(reader.feed(&answer).unwrap(), Progress::Done);
        let Ok(Received::Changed(changed)) = reader.finish() else { panic!("differences were sent") };
        let patched = changed.finish(&Vetoes::default()).unwrap();
        assert_eq!((!patched.doubts.is_empty(), patched.loaded.zone.mixed), (is_doubtful, after), "{mixed:?}");
    }
}

#[test]
fn what_is_wrong_has_a_name_and_leaves_nothing() {
    let wrong = |parts: &[Result<u32, u8>]| reason(fetch_answer(parts));
    assert_eq!(wrong(&[Ok(3), Ok(2), Ok(3), Ok(3)]), "ixfr_base", "begins behind our serial");
    assert_eq!(wrong(&[Ok(3), Ok(0), Ok(1), Ok(1), Ok(3), Ok(3)]), "ixfr_base", "begins before it");
    assert_eq!(wrong(&[Ok(4), Ok(1), Ok(2), Ok(3), Ok(4), Ok(4)]), "ixfr_steps", "a step is missing");
    assert_eq!(wrong(&[Ok(4), Ok(1), Ok(2), Ok(4)]), "ixfr_steps", "does not reach the announced serial");
    assert_eq!(wrong(&[Ok(2), Ok(1), Err(1), Ok(1), Err(3), Ok(2)]), "ixfr_steps", "it began with another");
    let far = 1 << 31;
    assert_eq!(wrong(&[Ok(far + 1), Ok(1), Ok(far + 1), Ok(far + 1)]), "ixfr_steps", "the undefined distance");
    assert_eq!(
        wrong(&[Ok(2), Ok(1), Ok(2), Ok(2), Err(1)]),
        "closed",
        "records behind the end are of a step without one"
    );
    let beyond = [Ok(2), Ok(1), Ok(2), Ok(2), Ok(3), Ok(2), Err(1)];
    assert_eq!(wrong(&beyond), "malformed", "records behind the end beyond the announced serial");
    assert_eq!(wrong(&[Ok(2), Ok(1), Ok(2), Ok(2), Ok(3), Ok(4)]), "ixfr_steps", "an end that is none");
    assert_eq!(wrong(&[Err(1), Ok(2)]), "malformed", "does not begin with an SOA");
    assert_eq!(wrong(&[]), "malformed", "empty");
    for parts in
        [&[Ok(2)][..], &[Ok(2), Ok(1)], &[Ok(2), Ok(1), Err(1)], &[Ok(2), Ok(1), Ok(2), Err(3)], &[Ok(2), Err(9)]]
    {
        assert_eq!(wrong(parts), "closed", "{parts:?}");
    }
    let with = |change: &dyn Fn(&mut Message)| {
        let mut message = answer(&[Ok(2), Ok(1), Err(1), Ok(2), Err(3)]);
        change(&mut message);
        message.record(b"", rtype::SOA, &soa(2));
        reason(fetch(&base(), &[message.bytes]))
    };
    assert_eq!(with(&|_| ()), "none");
    assert_eq!(with(&|message| message.bytes[3] = 4), "notimp");
    assert_eq!(with(&|message| message.bytes[3] = 1), "formerr");
    assert_eq!(with(&|message| message.bytes[2] |= 2), "malformed", "truncated");
    assert_eq!(with(&|message| message.bytes[13] = b'y'), "question");
    assert_eq!(with(&|message| message.bytes[24] = rtype::AXFR as u8), "question", "not what was asked");
    assert_eq!(with(&|message| message.section_record(6, b"\x01y\x00", 1, 1, &[1; 4])), "out_of_zone", "added");
    let class = |message: &mut Message| message.section_record(6, b"\x01z\x07example\x00", 1, 3, &[1; 4]);
    assert_eq!(with(&class), "class");
    assert_eq!(with(&|message| message.record(b"\x01c", 1, &[1; 5])), "malformed");
    let mut removed = answer(&[Ok(2), Ok(1)]);
    removed.section_record(6, b"\x01y\x00", 1, 1, &[1; 4]);
    assert_eq!(reason(fetch(&base(), &[removed.bytes])), "out_of_zone", "removed");
    let mut other = answer(&[Ok(2), Ok(1), Ok(2)]);
    other.record(b"", rtype::SOA, &[&[0][..], &soa(2)[..1], &[0, 0, 0, 2, 0, 0, 0, 31], &soa(2)[10..]].concat());
    assert_eq!(reason(fetch(&base(), &[other.bytes])), "closing_soa");
    let good = answer(&[Ok(2), Ok(1), Ok(2), Ok(2)]).bytes;
    let mut reader = Reader::ixfr(base(), 9);
    assert_eq!(reader.feed(&good).unwrap_err().reason(), "id");
    assert!(reader.feed(&good).is_err(), "nothing is taken after an error");
    assert!(reader.finish().is_err());
}

#[test]
fn the_query_carries_our_soa_and_nothing_else() {
    let base = zone(&state("s0"));
    let query = Reader::ixfr(base.clone(), 0x1234).write_query();
    // No flags, one question, one authority record, no EDNS.
    assert_eq!(query[..12], [0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0]);
    let message = hickory_proto::op::Message::from_vec(&query).unwrap();
    assert_eq!(message.queries[0].query_type(), hickory_proto::rr::RecordType::IXFR);
    let soa = &message.authorities[0];
    assert_eq!(format!("{} {} IN SOA {}", soa.name, soa.ttl, soa.data), state("s0")[0]);
    assert_eq!(Reader::axfr(origin(), 7).write_query()[6..12], [0; 6]);
}

proptest! {
    #[test]
    fn any_order_of_records_is_survived(parts in prop::collection::vec(
        prop_oneof![(0..5u32).prop_map(Ok), (0..4u8).prop_map(Err)], 0..12)) {
        // The outcome is a whole answer or none: a sequence that does not close is refused.
        if let Ok(came) = fetch_answer(&parts) {
            let first = parts[0].unwrap();
            match came {
                Came::NotNewer(serial) => prop_assert!(serial == first && first <= 1),
                Came::Full(_) | Came::Changed(_) | Came::Doubtful => {
                    prop_assert!(parts.len() > 1 && parts.last() == Some(&Ok(first)) && first > 1);
                }
            }
        }
    }
}
