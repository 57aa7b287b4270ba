//! Damage to captured differences on the way.

use super::*;
use wire::name;

/// The octets of a response whose change must not go unnoticed: ids and counts, the question, classes, and the numbers
/// in the SOA that open and close it. All else is content, which only TSIG can protect: even a changed length may leave
/// octets that read as a record, the text of a TXT record as the first label of an owner name.
fn guarded(message: &[u8], origin: &Name) -> Vec<usize> {
    let mut at = name::skip(message, 12).unwrap() + 4;
    let mut guarded: Vec<usize> = (0..2).chain(4..12).chain(12..at).collect();
    let answers = number16(message, 6);
    for index in 0..answers {
        let (owner, fixed) = NameBuf::read(message, at).unwrap();
        let end = fixed + 10 + usize::from(number16(message, fixed + 8));
        guarded.extend(fixed + 2..fixed + 4);
        let ends = index == 0 || index == answers - 1;
        if ends && number16(message, fixed) == rtype::SOA && owner.as_wire() == origin.as_wire() {
            guarded.extend(end - 20..end);
        }
        at = end;
    }
    guarded
}

/// Why lengths are not among them: without its length the text of a TXT record reads as the first label of the next owner, and
/// all that follows is in its place. Two records turn into others.
#[test]
fn a_changed_length_passes_for_content() {
    let (_, _, mut wires) = captured_answers().into_iter().find(|(name, ..)| name == "s2").unwrap();
    assert_eq!(wires[0][593..596], [0, 37, 36], "length of the RDATA, length of the text");
    wires[0][594] = 0;
    let Came::Changed(after) = fetch(&zone(&state("s2")), &wires).unwrap() else { panic!("no differences") };
    let wrong: BTreeSet<_> = after.symmetric_difference(&set(&state("s4"))).cloned().collect();
    assert!(wrong.len() == 4 && wrong.iter().all(|line| line.contains("my-fabric-net.db-ro.svc.acme.")), "{wrong:?}");
}

proptest! {
    /// Whatever happens to differences on the way: they are refused, or bring nothing, or what was sent, except where
    /// the octets of a record itself were changed.
    #[test]
    fn damage_is_noticed(which in 0..2usize, at in any::<prop::sample::Index>(), value in any::<u8>(), anywhere in any::<bool>()) {
        let label = ["s3", "s2"][which];
        let (_, _, wires) = captured_answers().into_iter().find(|(name, ..)| name == label).unwrap();
        let base = zone(&state(label));
        let mut message = wires[0].clone();
        let id = number16(&message, 0);
        let guarded = guarded(&message, &base.origin);
        let position = if anywhere { at.index(message.len()) } else { guarded[at.index(guarded.len())] };
        message[position] = value;
        let mut reader = Reader::ixfr(base.clone(), id);
        let progress = reader.feed(&message);
        match (progress, reader.finish()) {
            (Ok(Progress::Done), Ok(Received::Changed(changed))) => {
                // The case of the question is that of the owners which point to it, and no part of their identity.
                let after = format!("{:?}", changed.finish(&Vetoes::default()).unwrap().loaded.zone).to_lowercase();
                let right = lines(&after) == lines(&state("s4").join("\n").to_lowercase());
                prop_assert!(right || !guarded.contains(&position), "octet {position}");
            }
            (Ok(Progress::Done), Ok(Received::NotNewer(soa))) => {
                prop_assert!(!soa.serial.newer_than(base.soa.serial));
            }
            // The second SOA turned into data makes a whole zone of it, which ends at the next SOA and has more behind.
            (Ok(Progress::Done), other) => prop_assert!(false, "{:?}", other.map(|received| received.soa())),
            (_, finished) => prop_assert!(finished.is_err()),
        }
    }
}
