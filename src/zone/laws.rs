//! The laws of differences, histories and incremental changes.

use super::tests::{arbitrary_text, load, zone};
use super::*;
use proptest::prelude::*;
use wire::name::NameBuf;

/// Versions one after the other, each with the difference that led to it.
fn chain(texts: &[String]) -> (Vec<Arc<Zone>>, Vec<Arc<Delta>>) {
    let mut zones = vec![Arc::new(zone("z.", &texts[0]))];
    let mut deltas = Vec::new();
    for text in &texts[1..] {
        let old = zones.last().unwrap().clone();
        let loaded = load("z.", text, Some(&old));
        deltas.push(Arc::new(Delta::between(&old, &loaded.zone, loaded.touched)));
        zones.push(Arc::new(loaded.zone));
    }
    (zones, deltas)
}

/// Zone text with owners that are spelled in one way or another.
fn spelled_text() -> impl Strategy<Value = String> {
    (arbitrary_text(), any::<bool>()).prop_map(|(text, upper)| if upper { text.replace("\na ", "\nA ") } else { text })
}

fn texts(count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(spelled_text(), count)
}

fn counters(zone: &Zone) -> (u64, u64, u32, u32, Soa, Sizes) {
    (zone.records, zone.owners, zone.cuts, zone.wildcards, zone.soa, zone.sizes.clone())
}

/// Returns true if a history leads from the version with a serial to the present one.
fn leads_from(history: &History, serial: Serial) -> bool {
    history.position(serial).is_some_and(|place| place < history.len())
}

proptest! {
    /// Applying the difference to the old version gives the new one, and its inverse leads back.
    #[test]
    fn differences_lead_there_and_back(texts in texts(2)) {
        let (zones, deltas) = chain(&texts);
        let there = deltas[0].apply(&zones[0]).unwrap();
        prop_assert_eq!(&there, &*zones[1]);
        prop_assert_eq!(counters(&there), counters(&zones[1]));
        let back = deltas[0].invert().apply(&zones[1]).unwrap();
        prop_assert_eq!(&back, &*zones[0]);
        prop_assert_eq!(&deltas[0].invert().invert().removed, &deltas[0].removed);
    }

    /// Every removed record was there and no added one was, and what is touched is told.
    #[test]
    fn differences_are_effective(texts in texts(2)) {
        let (zones, deltas) = chain(&texts);
        let lines = |zone: &Zone| format!("{zone:?}").lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
        let of_block = |block: &Block| {
            block.open().iter().map(|record| {
                let mut owner = String::new();
                name::fmt_wire(record.owner, &mut owner).unwrap();
                let (rtype, rdata) = (record.rtype, record.rdata);
                format!("{owner} {} IN {} {}", record.ttl, rr::TypeName(rtype), rr::RdataText(rtype, rdata))
            }).collect::<std::collections::BTreeSet<_>>()
        };
        let soa = |line: &String| !line.contains(" SOA ");
        let (old, new) = (lines(&zones[0]), lines(&zones[1]));
        let gone: std::collections::BTreeSet<_> = old.difference(&new).filter(|line| soa(line)).cloned().collect();
        let come: std::collections::BTreeSet<_> = new.difference(&old).filter(|line| soa(line)).cloned().collect();
        // A name that is spelled in another way goes and comes as a whole, which the lines show as well.
        prop_assert_eq!(of_block(&deltas[0].removed), gone);
        prop_assert_eq!(of_block(&deltas[0].added), come);
        prop_assert_eq!(deltas[0].removed.open().iter().count() as u32, deltas[0].removed.records());
        let touched: Vec<Name> = deltas[0].touched().collect();
        for (name, node) in zones[0].iter().chain(zones[1].iter()) {
            let at = |zone: &Zone| zone.get(name.as_wire()).map(|node| (node.to_rrsets(), node.spelled.map(<[u8]>::to_vec))).filter(|at| !at.0.is_empty());
            if name != zones[0].origin {
                prop_assert_eq!(touched.contains(&name), at(&zones[0]) != at(&zones[1]), "{} {:?}", name, node);
            }
        }
    }

    /// A chain put together leads where its steps lead, and is effective again.
    #[test]
    fn chains_compose(texts in texts(2..6)) {
        let (zones, deltas) = chain(&texts);
        let whole = Delta::concatenate(&deltas).unwrap();
        prop_assert_eq!(&whole.apply(&zones[0]).unwrap(), &**zones.last().unwrap());
        let last = zones.last().unwrap();
        let direct = Delta::between(&zones[0], last, last.iter().chain(zones[0].iter()).map(|(name, _)| name));
        prop_assert_eq!((&whole.from, &whole.to), (&direct.from, &direct.to));
        prop_assert_eq!((&whole.removed, &whole.added), (&direct.removed, &direct.added));
        if texts.len() > 2 {
            prop_assert!(Delta::concatenate(&[deltas[1].clone(), deltas[0].clone()]).is_none() || deltas[1].to == deltas[0].from);
        }
    }

    /// The bytes of a difference say all of it, and no part of them passes for another.
    #[test]
    fn bytes_say_it_all(texts in texts(2), cut in any::<prop::sample::Index>()) {
        let (zones, deltas) = chain(&texts);
        let mut bytes = Vec::new();
        deltas[0].write(&mut bytes);
        let read = Delta::read(&zones[0].origin, &bytes).unwrap();
        prop_assert_eq!(&read, &*deltas[0]);
        let cut = &bytes[..cut.index(bytes.len())];
        if let Ok(other) = Delta::read(&zones[0].origin, cut) {
            prop_assert_ne!(&other, &*deltas[0]);
        }
    }

    /// Any bytes are refused or read as something that can be applied or refused.
    #[test]
    fn any_bytes_are_survived(text in arbitrary_text(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let zone = zone("z.", &text);
        if let Ok(delta) = Delta::read(&zone.origin, &bytes) {
            let _ = delta.apply(&zone);
        }
    }

    /// From every version that a history reaches, its steps lead to the present.
    #[test]
    fn histories_lead_to_the_present(texts in texts(2..8), versions in 1usize..6) {
        let texts: Vec<String> = texts.iter().enumerate()
            .map(|(serial, text)| format!("@ 30 SOA {}\n{}", serial + 1, text.split_once('\n').unwrap().1)).collect();
        let (zones, deltas) = chain(&texts);
        let limits = HistoryLimits { versions, bytes: usize::MAX, ..HistoryLimits::default() };
        let mut history = History::default();
        deltas.iter().for_each(|delta| history.push(delta.clone(), &limits));
        prop_assert_eq!(history.len(), deltas.len().min(versions));
        prop_assert_eq!(history.bytes(), history.iter().map(|delta| delta.len_bytes()).sum::<usize>());
        for (index, zone) in zones.iter().enumerate().take(deltas.len()) {
            let soa = zone.soa_rrset().rdatas().next().unwrap();
            let steps = history.since(soa);
            prop_assert_eq!(steps.is_some(), index >= deltas.len() - history.len());
            prop_assert_eq!(leads_from(&history, zone.soa.serial), steps.is_some());
            if let Some(steps) = steps {
                let end = steps.iter().fold((**zone).clone(), |zone, delta| delta.apply(&zone).unwrap());
                prop_assert_eq!(&end, &**zones.last().unwrap());
            }
        }
    }

    /// Changes taken from a difference, put on the old version, give the new one.
    #[test]
    fn patches_equal_what_they_were_taken_from(texts in texts(2)) {
        let (zones, deltas) = chain(&texts);
        let mut patcher = Patcher::new(zones[0].clone());
        for record in deltas[0].removed.open().iter() {
            let owner = NameBuf::from_wire(record.owner).unwrap();
            patcher.remove(&owner, record.rtype, record.ttl, record.rdata);
        }
        for record in deltas[0].added.open().iter() {
            patcher.add(&NameBuf::from_wire(record.owner).unwrap(), record.rtype, record.ttl, record.rdata);
        }
        let soa = &deltas[0].to;
        let patched = patcher.finish(soa.ttl, soa.rdatas().next().unwrap(), Mixed::No, &Vetoes::default()).unwrap();
        prop_assert_eq!((patched.absent, patched.present), (0, 0));
        prop_assert_eq!(&patched.loaded.zone, &*zones[1]);
        prop_assert_eq!(counters(&patched.loaded.zone), counters(&zones[1]));
        let again = Delta::between(&zones[0], &patched.loaded.zone, patched.loaded.touched);
        prop_assert_eq!((&again.removed, &again.added), (&deltas[0].removed, &deltas[0].added));
    }
}

fn patch(base: &str, change: impl FnOnce(&mut Patcher)) -> Patched {
    patch_with(base, &Vetoes::default(), change)
}

fn patch_with(base: &str, vetoes: &Vetoes, change: impl FnOnce(&mut Patcher)) -> Patched {
    let mut patcher = Patcher::new(Arc::new(zone("z.", base)));
    change(&mut patcher);
    let soa = Soa { serial: Serial(2), refresh: 30, retry: 60, expire: 2592000, minimum: 30 };
    patcher.finish(30, &soa.to_rdata(b"\x02ns\x00", b"\x01h\x00"), Mixed::No, vetoes).unwrap()
}

const BASE: &str = "@ 30 SOA 1\n@ 3600 NS ns.example.\na 30 A 192.0.2.1\na 30 A 192.0.2.2";

#[test]
fn changes_that_do_not_fit_change_nothing_and_are_counted() {
    let a = NameBuf::parse("A.z").unwrap();
    let patched = patch(BASE, |patcher| {
        patcher.remove(&a, rtype::A, 30, &[192, 0, 2, 9]);
        patcher.add(&a, rtype::A, 5, &[192, 0, 2, 1]);
        patcher.add(&NameBuf::parse("z").unwrap(), rtype::NS, 30, b"\x02NS\x07example\x00");
        patcher.add(&a, rtype::SOA, 5, &[0; 22]);
    });
    assert_eq!((patched.absent, patched.present, patched.doubts), (1, 2, vec![]));
    assert_eq!(patched.loaded.anomalies.inner_soa, 1);
    assert_eq!(format!("{:?}", patched.loaded.zone), format!("{:?}", zone("z.", &BASE.replace("SOA 1", "SOA 2"))));
}

/// Changes that would have many records copied are all made at the end, with the same result.
#[test]
fn changes_at_names_with_many_records_wait_for_the_end() {
    let owner = |text: &str| NameBuf::parse(text).unwrap();
    let address = |number: u32| [[10].as_slice(), &number.to_be_bytes()[1..]].concat();
    let line = |name: &str, number: u32| format!("\n{name} 30 A {}", std::net::Ipv4Addr::from(10 << 24 | number));
    let set = |name: &str, numbers: std::ops::Range<u32>| numbers.map(|number| line(name, number)).collect::<String>();
    let change = |patcher: &mut Patcher| {
        patcher.remove(&owner("a.z"), rtype::A, 30, &[192, 0, 2, 1]);
        patcher.remove(&owner("b.z"), rtype::A, 30, &address(0));
        patcher.remove(&owner("b.z"), rtype::A, 30, &address(9999));
        patcher.add(&owner("b.z"), rtype::A, 30, &address(5000));
        patcher.add(&owner("b.z"), rtype::A, 30, &address(5000));
        patcher.remove(&owner("a.z"), rtype::A, 30, &[192, 0, 2, 2]);
        patcher.add(&owner("a.z"), rtype::A, 30, &[192, 0, 2, 3]);
    };
    for (many, is_long) in [(100, false), (3000, true)] {
        let base = format!("{BASE}{}", set("b", 0..many));
        let mut patcher = Patcher::new(Arc::new(zone("z.", &base)));
        change(&mut patcher);
        assert_eq!((patcher.is_long(), patcher.changes()), (is_long, 7), "{many}");
        let patched = patch(&base, change);
        assert_eq!((patched.absent, patched.present, patched.doubts), (1, 1, vec![]));
        let kept = "@ 30 SOA 2\n@ 3600 NS ns.example.\na 30 A 192.0.2.3";
        let expected = format!("{kept}{}{}", set("b", 1..many), line("b", 5000));
        assert_eq!(format!("{:?}", patched.loaded.zone), format!("{:?}", zone("z.", &expected)));
    }
    // The apex is made anew by every change; few records at each of many names are many, too.
    assert!(Patcher::new(Arc::new(zone("z.", &format!("{BASE}{}", set("@", 0..3000))))).is_long());
    let names: String = (0..300).map(|name| set(&format!("n{name}"), 0..10)).collect();
    let mut patcher = Patcher::new(Arc::new(zone("z.", &format!("{BASE}{names}"))));
    let mut taken = 0;
    while !patcher.is_long() {
        patcher.remove(&owner(&format!("n{taken}.z")), rtype::A, 30, &address(0));
        taken += 1;
    }
    assert_eq!(taken, 200);
}

#[test]
fn a_set_has_the_smallest_ttl_but_for_those_that_only_differences_have() {
    let z = NameBuf::parse("z").unwrap();
    let (old, new) = (b"\x02ns\x07example\x00".as_slice(), b"\x02n2\x07example\x00".as_slice());
    let ttl = |change: &dyn Fn(&mut Patcher)| {
        let zone = patch(BASE, change).loaded.zone;
        let set = zone.apex().get(rtype::NS).unwrap();
        (set.ttl, set.count)
    };
    // The smallest of what is there then, as a full transfer would have it.
    let a = NameBuf::parse("a.z").unwrap();
    let below_apex = |change: &dyn Fn(&mut Patcher)| {
        let zone = patch(BASE, change).loaded.zone;
        let set = zone.get(Name::parse("a.z").unwrap().as_wire()).unwrap().get(rtype::A).unwrap();
        (set.ttl, set.count)
    };
    assert_eq!(below_apex(&|patcher| patcher.add(&a, rtype::A, 20, &[192, 0, 2, 9])), (20, 3));
    assert_eq!(below_apex(&|patcher| patcher.add(&a, rtype::A, 9000, &[192, 0, 2, 9])), (30, 3));
    let other_ttl = |patcher: &mut Patcher| {
        patcher.add(&a, rtype::A, 9000, &[192, 0, 2, 9]);
        patcher.remove(&a, rtype::A, 9000, &[192, 0, 2, 9]);
        patcher.add(&a, rtype::A, 10, &[192, 0, 2, 9]);
    };
    assert_eq!(below_apex(&other_ttl), (10, 3));
    // CNS: TTL 30 whatever the zone says.
    assert_eq!(ttl(&|patcher| patcher.add(&z, rtype::NS, 30, new)), (3600, 2));
    let replace = |removed: u32| {
        move |patcher: &mut Patcher| {
            patcher.remove(&z, rtype::NS, removed, old);
            patcher.add(&z, rtype::NS, 30, new);
        }
    };
    assert_eq!(ttl(&replace(30)), (3600, 1));
    assert_eq!(ttl(&replace(3600)), (30, 1));
    let in_two_steps = |patcher: &mut Patcher| {
        patcher.add(&z, rtype::NS, 30, new);
        patcher.remove(&z, rtype::NS, 30, old);
    };
    assert_eq!(ttl(&in_two_steps), (3600, 1));
    // Others: the old record goes, and comes back with another TTL; then the set changes with that TTL.
    let moved = |patcher: &mut Patcher| {
        patcher.remove(&z, rtype::NS, 3600, old);
        patcher.add(&z, rtype::NS, 60, old);
        patcher.add(&z, rtype::NS, 60, new);
        patcher.remove(&z, rtype::NS, 60, old);
    };
    assert_eq!(ttl(&moved), (60, 1));
}

/// Returns true if the end of the changes has a removal in doubt.
fn is_doubtful(base: &str, change: impl FnOnce(&mut Patcher)) -> bool {
    !patch(base, change).doubts.is_empty()
}

#[test]
fn what_is_left_out_is_told_until_it_goes() {
    let (a, z) = (NameBuf::parse("A.z").unwrap(), NameBuf::parse("z").unwrap());
    let (first, second) = (b"\x01x\x00".as_slice(), b"\x01y\x00".as_slice());
    let left_out = |zone: &Zone, at: &str| {
        zone.left_out.get(&Name::parse(at).unwrap()).iter().map(|left_out| left_out.rdata.to_vec()).collect::<Vec<_>>()
    };
    let soa = Soa { serial: Serial(3), refresh: 30, retry: 60, expire: 2592000, minimum: 30 };
    let more = patch(BASE, |patcher| {
        patcher.add(&a, rtype::CNAME, 30, first);
        patcher.add(&a, rtype::CNAME, 30, second);
        patcher.add(&z, rtype::CNAME, 30, first);
    });
    // The step tells it as the version does, through the journal.
    let replayed = |old: &Zone, loaded: &Loaded| {
        let mut bytes = Vec::new();
        Delta::between(old, &loaded.zone, loaded.touched.iter().cloned()).write(&mut bytes);
        let told = Delta::read(&old.origin, &bytes).unwrap().apply(old).unwrap();
        told == loaded.zone && told.has_marks_of(&loaded.zone)
    };
    assert!(replayed(&zone("z.", BASE), &more.loaded));
    let zone = Arc::new(more.loaded.zone);
    assert_eq!((left_out(&zone, "a.z").len(), left_out(&zone, "z").len()), (2, 1));
    let mut patcher = Patcher::new(zone.clone());
    patcher.remove(&a, rtype::CNAME, 30, first);
    patcher.remove(&z, rtype::CNAME, 30, first);
    let soa = soa.to_rdata(b"\x02ns\x00", b"\x01h\x00");
    let less = patcher.finish(30, &soa, Mixed::No, &Vetoes::default()).unwrap().loaded;
    assert!(replayed(&zone, &less));
    let zone = less.zone;
    assert_eq!((left_out(&zone, "a.z"), zone.left_out.names()), (vec![second.to_vec()], 1));
    // A whole transfer tells all of it anew.
    assert!(load("z.", BASE, Some(&zone)).zone.left_out.is_empty());
}

#[test]
fn the_removal_of_a_copy_is_in_doubt() {
    let (a, b) = (NameBuf::parse("a.z").unwrap(), NameBuf::parse("b.z").unwrap());
    let remove_first = |patcher: &mut Patcher| patcher.remove(&a, rtype::A, 30, &[192, 0, 2, 1]);
    assert!(!is_doubtful(BASE, remove_first));
    let twice = format!("{BASE}\na 30 A 192.0.2.1");
    assert!(is_doubtful(&twice, remove_first));
    assert!(!is_doubtful(&twice, |patcher| patcher.remove(&a, rtype::A, 30, &[192, 0, 2, 2])));
    // Added although it was there: a second copy, for all we know.
    let added_again = |patcher: &mut Patcher| {
        patcher.add(&a, rtype::A, 30, &[192, 0, 2, 1]);
        remove_first(patcher);
    };
    assert!(is_doubtful(BASE, added_again));
    // What comes back before the end is not asked for.
    let comes_back = |patcher: &mut Patcher| {
        remove_first(patcher);
        patcher.add(&a, rtype::A, 30, &[192, 0, 2, 1]);
    };
    assert!(!is_doubtful(&twice, comes_back));
    // A CNAME that was dropped beside data may come back when the data goes.
    let alias = format!("{BASE}\nb 30 CNAME a\nb 30 TXT t");
    assert!(is_doubtful(&alias, |patcher| patcher.remove(&b, rtype::TXT, 30, b"\x01t")));
}

#[test]
fn a_record_that_is_vetoed_stays_and_counts_as_repeated() {
    let (z, a) = (NameBuf::parse("z").unwrap(), NameBuf::parse("A.z").unwrap());
    let change = |patcher: &mut Patcher| {
        patcher.set_in_doubt(true);
        patcher.remove(&a, rtype::A, 30, &[192, 0, 2, 1]);
        patcher.remove(&a, rtype::A, 30, &[192, 0, 2, 1]);
        patcher.remove(&a, rtype::A, 30, &[192, 0, 2, 7]);
        patcher.remove(&z, rtype::NS, 30, b"\x02ns\x07example\x00");
        patcher.set_in_doubt(false);
        patcher.remove(&a, rtype::A, 30, &[192, 0, 2, 2]);
    };
    let patched = patch(BASE, change);
    let doubt = Removal { owner: Name::parse("a.z").unwrap(), rtype: rtype::A, rdata: vec![192, 0, 2, 1] };
    assert_eq!((&patched.doubts, patched.absent), (&vec![doubt.clone()], 2), "name servers are never in doubt");
    assert_eq!(patched.loaded.zone.records, 1);
    let mut vetoes = Vetoes::default();
    vetoes.insert(&doubt);
    let patched = patch_with(BASE, &vetoes, change);
    assert_eq!(patched.doubts, []);
    let zone = patched.loaded.zone;
    assert_eq!(format!("{zone:?}"), format!("{:?}", self::zone("z.", "@ 30 SOA 2\na 30 A 192.0.2.1")));
    assert!(zone.repeated.holds(b"\x01a\x01z\x00", rtype::A, &[192, 0, 2, 1]));
    assert!(!zone.repeated.holds(b"\x01a\x01z\x00", rtype::A, &[192, 0, 2, 2]));
}

#[test]
fn differences_refuse_what_does_not_fit() {
    let next = BASE.replace("SOA 1", "SOA 2").replace("192.0.2.1", "192.0.2.3");
    let (zones, deltas) = chain(&[BASE.to_owned(), next]);
    let delta = &deltas[0];
    assert_eq!((delta.from_serial(), delta.to_serial()), (Serial(1), Serial(2)));
    assert_eq!(delta.apply(&zones[1]).unwrap_err(), DeltaError::Base);
    let without = zone("z.", "@ 30 SOA 1\n@ 3600 NS ns.example.\na 30 A 192.0.2.2");
    assert_eq!(delta.apply(&without).unwrap_err(), DeltaError::Absent);
    let present = zone("z.", &format!("{BASE}\na 30 A 192.0.2.3"));
    assert_eq!(delta.apply(&present).unwrap_err(), DeltaError::Present);
    let other_ttl = zone("z.", "@ 30 SOA 1\na 30 A 192.0.2.1\n");
    let mixed = Delta::between(
        &zone("z.", "@ 30 SOA 1"),
        &zone("z.", "@ 30 SOA 2\na 60 A 192.0.2.2"),
        [Name::parse("a.z").unwrap()],
    );
    assert_eq!(mixed.apply(&other_ttl).unwrap_err(), DeltaError::Ttl);
}

#[test]
fn histories_begin_anew_where_secondaries_cannot_follow() {
    let text = |serial: u32, address: &str| format!("@ 30 SOA {serial}\na 30 A {address}");
    let (_, deltas) = chain(&[
        text(1, "192.0.2.1"),
        text(2, "192.0.2.2"),
        text(2, "192.0.2.3"),
        text(3, "192.0.2.4"),
        text(1, "192.0.2.4"),
    ]);
    let mut history = History::default();
    let mut lengths = Vec::new();
    for delta in deltas {
        history.push(delta, &HistoryLimits::default());
        lengths.push(history.len());
    }
    assert_eq!(lengths, [1, 0, 1, 0]);
}

#[test]
fn a_serial_that_stood_for_other_contents_leads_nowhere() {
    let text = |serial: u32, address: &str| format!("@ 30 SOA {serial}\na 30 A {address}");
    let limits = HistoryLimits::default();
    // Under serial 5 the contents changed; later steps start from the second contents.
    let (_, deltas) = chain(&[text(5, "192.0.2.1"), text(5, "192.0.2.2"), text(6, "192.0.2.3"), text(7, "192.0.2.4")]);
    let mut history = History::default();
    deltas.iter().for_each(|delta| history.push(delta.clone(), &limits));
    assert_eq!([5, 6].map(|serial| leads_from(&history, Serial(serial))), [false, true]);
    // The serial fell and came again.
    let (_, deltas) = chain(&[
        text(5, "192.0.2.1"),
        text(4, "192.0.2.2"),
        text(5, "192.0.2.3"),
        text(6, "192.0.2.4"),
        text(7, "192.0.2.5"),
    ]);
    let mut history = History::default();
    deltas.iter().for_each(|delta| history.push(delta.clone(), &limits));
    assert_eq!([4, 5, 6].map(|serial| leads_from(&history, Serial(serial))), [false, false, true]);
    // Replaced as a whole under the same serial.
    let mut history = History::default();
    history.break_off(Serial(5), Serial(5));
    deltas[2..].iter().for_each(|delta| history.push(delta.clone(), &limits));
    assert_eq!([5, 6].map(|serial| leads_from(&history, Serial(serial))), [false, true]);
    // Once the chain begins behind it, the bar is of no use: serials go around.
    let few = HistoryLimits { versions: 1, ..limits };
    history.limit(&few);
    history.push(deltas[3].clone(), &few);
    assert!(format!("{history:?}").contains("barred: None"));
}

#[test]
fn histories_pack_large_differences_that_are_old() {
    let text = |serial: u32| {
        let names = (0..2000).map(|number| format!("n{number} 30 A 10.{serial}.0.{}\n", number % 256));
        format!("@ 30 SOA {serial}\n{}", names.collect::<String>())
    };
    let (zones, deltas) = chain(&(1..=5).map(text).collect::<Vec<_>>());
    let at = |seconds: u64| std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    let mut history = History::default();
    let limits = HistoryLimits::default();
    for (seconds, delta) in (1..).zip(&deltas) {
        history.push(HistoryStep::new(delta.clone(), at(seconds), [Cause::Source]), &limits);
    }
    let whole = history.len_bytes();
    assert_eq!(history.bytes(), whole);
    let mut copy = history.clone();
    assert!(history.pack(at(4)), "the newest is not old enough");
    assert!((whole / 3..whole * 3 / 4).contains(&history.bytes()), "{} of {whole}", history.bytes());
    assert_eq!((copy.bytes(), copy.len_bytes()), (history.bytes(), whole), "copies share what is packed");
    assert!(!history.pack(at(9)));
    assert!(history.bytes() < whole / 2, "{} of {whole}", history.bytes());
    let steps = history.since(zones[0].soa_rrset().rdatas().next().unwrap()).unwrap();
    let end = steps.iter().fold((*zones[0]).clone(), |zone, delta| delta.apply(&zone).unwrap());
    assert_eq!(&end, &**zones.last().unwrap());
    let back = Delta::concatenate(&steps).unwrap().invert().apply(&end).unwrap();
    assert_eq!(&back, &*zones[0]);
    // Limits count what is in memory.
    copy.limit(&HistoryLimits { bytes: copy.bytes() - 1, ..limits });
    assert_eq!(copy.len(), 3);
    copy.clear();
    assert_eq!((copy.bytes(), copy.len_bytes()), (0, 0));
}
