//! Every row of the merge's tables.

mod filter;
mod laws;
mod trace;

pub use laws::arbitrary_delegations;

use super::*;
use crate::zone::tests::{arbitrary_text, load, zone};
use crate::zone::{Editor, Loader, Soa};
use proptest::prelude::*;
use std::time::Duration;
use wire::name::NameBuf;
use wire::rr::{self, RRset};
use wire::serial::Serial;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// A plan for the region w.x with nothing special.
pub fn plan(members: &[&str]) -> RegionPlan {
    RegionPlan {
        is_united: false,
        origin: name("w.x"),
        members: members.iter().map(|member| name(member)).collect(),
        ns: NsPolicy::Listed(vec![name("ns1.x"), name("ns2.x")]),
        ns_ttl: 3600,
        soa: SoaPlan::default(),
        mname: None,
        rname: None,
        server_name: name("me.x"),
        serial_offset: 0,
        rdata_names: RdataNames::Keep,
        exclude: Vec::new(),
        addresses: AddressPlan::default(),
        max_set: None,
        partial_after: Duration::ZERO,
        on_expire: OnExpire::Withdraw,
        expire_after: None,
        damping: None,
    }
}

/// A member zone out of lines, with its apex.
fn member(origin: &str, serial: u32, lines: &str) -> Option<Arc<Zone>> {
    Some(Arc::new(zone(origin, &format!("@ 30 SOA {serial}\n@ 3600 NS ns1.x.\n{lines}"))))
}

/// Merges two members and prints the names below the apex and the conflicts.
fn merged(edit: impl FnOnce(&mut RegionPlan), first: &str, second: &str) -> (Vec<String>, Vec<ConflictKind>) {
    let mut plan = plan(&["w1.x", "w2.x"]);
    edit(&mut plan);
    let zones = [member("w1.x.", 10, first), member("w2.x.", 20, second)];
    let filter = |(zone, member)| Filtered::default().take(plan.addresses.of(member), zone, None);
    let zones: Vec<_> = zones.into_iter().zip(&plan.members).map(filter).collect();
    let mut region = Region::new(plan);
    region.merge_all(&zones, Instant::now());
    (lines(&region), region.conflicts.values().flatten().map(|conflict| conflict.kind).collect())
}

fn lines(region: &Region) -> Vec<String> {
    let text = format!("{:?}", region.zone.as_ref().unwrap());
    text.lines().filter(|line| !line.starts_with("w.x.")).map(str::to_owned).collect()
}

/// A member of which everything is taken, or nothing.
pub fn plain(zone: Option<Arc<Zone>>, contributes: bool) -> TracedMember {
    TracedMember { taken: zone.clone().filter(|_| contributes), zone, drained: Scope::default() }
}

/// The oracle's trace of a name; demands that the merge itself tells the same of each record.
pub fn traced(plan: &RegionPlan, members: &[TracedMember], name: &Name) -> trace::Trace {
    let expected = trace::trace(plan, members, name);
    let told = Trace::new(plan, members, name);
    assert_eq!(told.conflicts, expected.conflicts, "{name}");
    assert_eq!(told.contributions.len(), expected.contributions.len(), "{name}");
    for (told, expected) in told.contributions.iter().zip(&expected.contributions) {
        let facts = (told.member, told.owner.to_string(), told.rtype, told.ttl, &told.rdata, told.held);
        assert_eq!(
            facts,
            (expected.member, expected.owner.to_string(), expected.rtype, expected.ttl, &expected.rdata, expected.held),
            "{name}"
        );
        let label = told.left_out.map(LeftOut::label);
        assert_eq!(label, expected.left_out.map(trace::LeftOut::label), "{name} {told:?}");
        assert!(label.is_some() || told.there() == expected.there(), "{name} {told:?} {expected:?}");
    }
    for given in &told.contributions {
        if let Some(LeftOut::Conflict { kind, by }) = given.left_out {
            let is_it = |conflict: &Conflict| (conflict.kind, conflict.member, conflict.by) == (kind, given.member, by);
            assert!(told.conflicts.iter().any(is_it), "{name} {given:?}");
        }
    }
    expected
}

/// The pitfalls of replacing text (`docs/regions.md` 3): member, region, owner as the member spells it, and what becomes
/// of it.
#[test]
fn owners_move_once_by_whole_labels_from_the_right() {
    for (row, member, region, owner, expected) in [
        ("N1", "us-west-1.x.", "us-west.x", "prod-us-west-1.x", "prod-us-west-1.x.us-west.x."),
        ("N2", "us-west-1.x.", "us-west.x", "web.us-west-1.x.svc.acme", "web.us-west-1.x.svc.acme.us-west.x."),
        ("N3", "US-West-1.X.", "us-west.x", "Web.svc", "Web.svc.us-west.x."),
        ("N4", "us-west-1.x.", "us-west.x", "a\\.us-west-1\\.x.svc", "a\\.us-west-1\\.x.svc.us-west.x."),
        ("N4", "us-west-1.x.", "us-west.x", "\\117s-west-1.x", "us-west-1.x.us-west.x."),
        ("N5", "us-west-1a.x.", "us-west-1.x", "web.us-west-1a", "web.us-west-1a.us-west-1.x."),
        ("N6", "w1.w.x.", "w.x", "n.w1.w.x", "n.w1.w.x.w.x."),
        ("N8", "x.", "w.x", "n.w", "n.w.w.x."),
        ("N9", "us-west-1.x.", "us-west.x", "*.dev", "*.dev.us-west.x."),
    ] {
        let mut plan = plan(&[member]);
        plan.origin = name(region);
        let members = [self::member(member, 1, &format!("{owner} 30 A 192.0.2.1"))];
        let (mut full, mut incremental) = (Region::new(plan.clone()), Region::new(plan));
        full.merge_all(&members, Instant::now());
        incremental.merge_changed(
            &members,
            members[0].as_ref().unwrap().iter().map(|(name, _)| (0, name)).collect(),
            Instant::now(),
        );
        for region in [full, incremental] {
            let text = format!("{:?}", region.zone.as_ref().unwrap());
            let found: Vec<&str> = text.lines().filter_map(|line| line.strip_suffix(" 30 IN A 192.0.2.1")).collect();
            assert_eq!(found, [expected], "{row}");
        }
    }
}

#[test]
fn equal_and_different_records_unite_with_the_smaller_ttl() {
    let (records, conflicts) =
        merged(|_| (), "web 30 A 192.0.2.1\nweb 30 A 10.64.0.11", "web 60 A 10.64.0.11\nweb 60 A 192.0.2.2");
    assert_eq!(records, ["web.w.x. 30 IN A 10.64.0.11", "web.w.x. 30 IN A 192.0.2.1", "web.w.x. 30 IN A 192.0.2.2"]);
    assert_eq!(conflicts, []);
    let (records, _) = merged(|_| (), "web 30 A 10.0.0.1", "web 5 A 10.0.0.1");
    assert_eq!(records, ["web.w.x. 5 IN A 10.0.0.1"]);
}

#[test]
fn aliases_give_way_to_data_and_to_the_first_member() {
    let (records, conflicts) = merged(|_| (), "x 30 CNAME a", "x 30 A 192.0.2.1");
    assert_eq!((records, conflicts), (vec!["x.w.x. 30 IN A 192.0.2.1".into()], vec![ConflictKind::AliasBesideData]));
    let (records, conflicts) = merged(|_| (), "x 30 CNAME a", "x 30 CNAME a");
    assert_eq!((records, conflicts), (vec!["x.w.x. 30 IN CNAME a.w1.x.".into()], vec![ConflictKind::DifferentAliases]));
    let (records, _) = merged(|_| (), "x 30 CNAME a", "x 9 CNAME b");
    assert_eq!(records, ["x.w.x. 9 IN CNAME a.w1.x."]);
    let (records, conflicts) = merged(|_| (), "x 30 CNAME a.y.", "x 9 CNAME A.y.");
    assert_eq!((records, conflicts), (vec!["x.w.x. 9 IN CNAME A.y.".into()], vec![]));
}

#[test]
fn what_belongs_to_the_member_zone_stays_there() {
    let (records, _) = merged(|_| (), "a 30 RRSIG s\na 30 A 192.0.2.1\nb 30 RRSIG s", "");
    assert_eq!(records, ["a.w.x. 30 IN A 192.0.2.1"]);
    let mut region = Region::new(plan(&["w1.x", "w2.x"]));
    region.merge_all(&[member("w1.x.", 10, "@ 30 TXT t\n@ 30 RRSIG s"), member("w2.x.", 20, "")], Instant::now());
    let zone = region.zone.unwrap();
    assert_eq!(
        format!("{:?}", zone.apex()),
        "[3600 NS [ns1.x.] [ns2.x.], 30 SOA [ns1.x. h. 30 30 60 2592000 30], 30 TXT [\"t\"]]"
    );
}

#[test]
fn a_cname_at_an_apex_is_dropped() {
    let mut loader = Loader::new(name("w1.x"));
    let owner = NameBuf::parse("w1.x").unwrap();
    let soa = Soa { serial: Serial(1), refresh: 1, retry: 1, expire: 1, minimum: 1 };
    loader.push(&owner, rtype::SOA, 30, &soa.to_rdata(&[0], &[0]));
    let mut zone = loader.finish(None).unwrap().zone;
    let cname = Arc::new(RRset::build(rtype::CNAME, 30, vec![[0u8]]).unwrap());
    let mut editor = Editor::from_zone(&zone);
    editor.set(&name("w1.x"), vec![cname, zone.soa_rrset().clone()].into(), None);
    zone = editor.finish().unwrap();
    let mut region = Region::new(plan(&["w1.x"]));
    region.merge_all(&[Some(Arc::new(zone))], Instant::now());
    assert!(region.zone.as_ref().unwrap().apex().get(rtype::CNAME).is_none());
    assert_eq!(region.conflicts[&Place { member: None, name: name("w.x") }][0].kind, ConflictKind::AliasAtApex);
}

#[test]
fn placeholders_give_way_to_whatever_others_have() {
    let (records, conflicts) =
        merged(|_| (), "x 30 TYPE65440 broken\ny 30 TYPE65440 -", "x 30 CNAME a\ny 9 TYPE65440 broken");
    assert_eq!(
        records,
        ["x.w.x. 30 IN CNAME a.w2.x.", "y.w.x. 9 IN TYPE65440 \\# 0", "y.w.x. 9 IN TYPE65440 \\# 6 62726f6b656e"]
    );
    assert_eq!(conflicts, []);
}

#[test]
fn dnames_against_data_of_others() {
    let (records, conflicts) = merged(|_| (), "sub 30 DNAME a", "x.sub 30 A 192.0.2.2");
    assert_eq!((records, conflicts), (vec!["x.sub.w.x. 30 IN A 192.0.2.2".into()], vec![ConflictKind::DnameAboveData]));
    // The DNAME that gives way is no data that the CNAME would have to give way to.
    let (records, conflicts) = merged(|_| (), "x 30 CNAME a", "x 30 DNAME b\ny.x 30 A 192.0.2.1");
    assert_eq!(records, ["x.w.x. 30 IN CNAME a.w1.x.", "y.x.w.x. 30 IN A 192.0.2.1"]);
    assert_eq!(conflicts, [ConflictKind::DnameAboveData]);
    let (records, conflicts) = merged(|_| (), "x 30 CNAME a", "x 30 NS ns.y.");
    assert_eq!(records, ["x.w.x. 30 IN CNAME a.w1.x."]);
    assert_eq!(conflicts, [ConflictKind::DelegationAboveData]);
    let (records, _) = merged(|_| (), "sub 30 DNAME a", "y 30 A 192.0.2.2");
    assert_eq!(records, ["sub.w.x. 30 IN DNAME a.w1.x.", "y.w.x. 30 IN A 192.0.2.2"]);
}

/// Members' lines, the region's, and of each conflict its name, kind, member, who did it and what was dropped.
type DelegationCase<'a> = (&'a [&'a str], &'a [&'a str], &'a [(&'a str, ConflictKind, usize, usize, u32)]);

/// Merges members and compares records and conflicts; other plans by `edit`.
fn check_delegations(edit: impl FnOnce(&mut RegionPlan), (texts, records, conflicts): DelegationCase<'_>) {
    let origins: Vec<String> = (1..=texts.len()).map(|index| format!("w{index}.x")).collect();
    let mut plan = plan(&origins.iter().map(String::as_str).collect::<Vec<_>>());
    edit(&mut plan);
    let mut region = Region::new(plan);
    let zones = texts.iter().zip(&origins).map(|(text, origin)| member(&format!("{origin}."), 1, text));
    region.merge_all(&zones.collect::<Vec<_>>(), Instant::now());
    assert_eq!(lines(&region), records, "{texts:?}");
    let mut found: Vec<_> = region.conflicts.iter().collect();
    found.sort_by(|a, b| a.0.name.canonical_cmp(&b.0.name));
    let told = found
        .into_iter()
        .flat_map(|(place, conflicts)| conflicts.iter().map(|told| (place.name.clone(), told.clone())));
    let expected = conflicts.iter().map(|(at, kind, member, by, dropped)| {
        let (kind, member, dropped, by) = (*kind, *member, *dropped, Some(*by));
        (name(&format!("{at}.w.x")), Conflict { kind, member, dropped, by })
    });
    assert_eq!(told.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{texts:?}");
}

#[test]
fn a_delegation_gives_way_to_what_others_have_below_it() {
    use ConflictKind::{DelegationAboveData as Falls, DifferentDelegations as Differs, HiddenByDelegation as Hidden};
    let (cut, glue) = ("sub 30 NS ns.sub\nsub 30 DS 1\nns.sub 30 A 192.0.2.1", "ns.sub.w.x. 30 IN A 192.0.2.1");
    let stands = "sub.w.x. 30 IN NS ns.sub.w1.x.";
    let cases: &[DelegationCase<'_>] = &[
        // Data of another below it, or at it, whatever the order.
        (
            &[cut, "x.sub 30 A 192.0.2.2"],
            &["x.sub.w.x. 30 IN A 192.0.2.2"],
            &[("sub", Falls, 0, 1, 1), ("ns.sub", Falls, 0, 1, 1)],
        ),
        (&["sub 30 TXT t", cut], &["sub.w.x. 30 IN TXT \"t\""], &[("sub", Falls, 1, 0, 1), ("ns.sub", Falls, 1, 0, 1)]),
        // Glue does not count, nor does what a delegation of one's own hides.
        (&[cut, "b 30 A 192.0.2.2"], &["b.w.x. 30 IN A 192.0.2.2", stands, glue], &[]),
        (
            &[cut, "sub 30 NS ns.sub.w1.x.\nns.sub 5 A 192.0.2.9"],
            &[stands, "ns.sub.w.x. 5 IN A 192.0.2.1", "ns.sub.w.x. 5 IN A 192.0.2.9"],
            &[],
        ),
        (
            &[cut, "sub 30 NS ns.sub\nns.sub 30 A 192.0.2.9"],
            &[stands, glue],
            &[("sub", Differs, 1, 0, 1), ("ns.sub", Differs, 1, 0, 1)],
        ),
        (
            &[cut, "a.sub 30 NS ns.sub.w1.x.\nns.a.sub 30 A 192.0.2.9"],
            &[stands, glue],
            &[("a.sub", Hidden, 1, 0, 1), ("ns.a.sub", Hidden, 1, 0, 1)],
        ),
        // What does not come into the region is no data.
        (&[cut, "x.sub 30 RRSIG s\nx.sub 30 DS 1"], &[stands, glue], &[]),
        // What only the delegating member has is hidden by its cut, and stays.
        (&[cut, ""], &[stands, glue], &[]),
        // A third one's data takes both out; who is first to have some is named.
        (
            &[cut, "sub 30 NS ns.y.", "x.sub 30 TXT t"],
            &["x.sub.w.x. 30 IN TXT \"t\""],
            &[("sub", Falls, 0, 2, 1), ("sub", Falls, 1, 2, 1), ("ns.sub", Falls, 0, 2, 1)],
        ),
        // A cut further down stands by itself when the one above has fallen.
        (
            &["sub 30 NS ns.y.\na.sub 30 NS ns.y.", "a.sub 30 NS ns.z.", "x.sub 30 TXT t"],
            &["a.sub.w.x. 30 IN NS ns.z.", "x.sub.w.x. 30 IN TXT \"t\""],
            &[("sub", Falls, 0, 2, 1), ("a.sub", Falls, 0, 2, 1)],
        ),
    ];
    cases.iter().for_each(|case| check_delegations(|_| (), *case));
    // What is excluded neither is data nor delegates.
    let exclude = |plan: &mut RegionPlan| plan.exclude = vec![OwnerPattern { name: name("sub"), below: true }];
    check_delegations(exclude, (&[cut, "x.sub 30 TXT t"], &[stands], &[]));
    let exclude = |plan: &mut RegionPlan| plan.exclude = vec![OwnerPattern { name: name("sub"), below: false }];
    check_delegations(exclude, (&[cut, "x.sub 30 TXT t"], &[glue, "x.sub.w.x. 30 IN TXT \"t\""], &[]));
    // An alias leads nowhere if its target has gone with a cut.
    let rewrite = |plan: &mut RegionPlan| plan.rdata_names = RdataNames::Rewrite;
    let alias = "z 30 CNAME ns.sub\nsub 30 NS ns.y.\nns.sub 30 A 192.0.2.1";
    check_delegations(
        rewrite,
        (
            &[alias, "sub 30 TXT t"],
            &["sub.w.x. 30 IN TXT \"t\"", "z.w.x. 30 IN CNAME ns.sub.w1.x."],
            &[("sub", Falls, 0, 1, 1), ("ns.sub", Falls, 0, 1, 1)],
        ),
    );
}

#[test]
fn a_change_below_a_delegation_is_looked_at_alone() {
    const NAMES: u32 = 20_000;
    let many = |more: &str| {
        let names: String = (0..NAMES).map(|index| format!("n{index}.sub 30 TXT t\n")).collect();
        names + more
    };
    let mut region = Region::new(plan(&["w1.x", "w2.x"]));
    let cut = member("w1.x.", 1, &many("sub 30 NS ns.y."));
    let mut update = |members: &Members, changed: &[(usize, &str)]| {
        let changed: Vec<_> = changed.iter().map(|(index, at)| (*index, name(&format!("{at}.w.x")))).collect();
        region.delegations.update(&region.plan, members, &changed).len() as u32
    };
    let members = [cut.clone(), member("w2.x.", 1, "")];
    let names: Vec<String> = (0..NAMES).map(|index| format!("n{index}.sub")).chain(["sub".into()]).collect();
    let all: Vec<(usize, &str)> = names.iter().map(|name| (0, name.as_str())).collect();
    assert_eq!(update(&members, &all), 0, "what was heard is heard");
    // The first name of another takes everything below with it, and nothing else does.
    assert_eq!(update(&[cut.clone(), member("w2.x.", 2, "a 30 TXT t")], &[(1, "a")]), 0);
    assert_eq!(update(&[cut.clone(), member("w2.x.", 3, "x.sub 30 TXT t")], &[(1, "a"), (1, "x.sub")]), NAMES + 1);
    let two = "x.sub 30 TXT t\ny.sub 30 TXT t";
    assert_eq!(update(&[cut.clone(), member("w2.x.", 4, two)], &[(1, "y.sub")]), 0);
    assert_eq!(update(&[cut.clone(), member("w2.x.", 5, "y.sub 30 TXT t")], &[(1, "x.sub")]), 0);
    assert_eq!(
        update(
            &[member("w1.x.", 2, &many("sub 30 NS ns.y.\nm.sub 5 TXT t")), member("w2.x.", 5, "y.sub 30 TXT t")],
            &[(0, "m.sub")]
        ),
        0
    );
    assert_eq!(update(&[cut, member("w2.x.", 6, "")], &[(0, "m.sub"), (1, "y.sub")]), NAMES + 1);
}

#[test]
fn a_service_instance_has_one_description() {
    let instance = |text: &str, port: u16| format!("i._os._tcp 30 SRV {port} a\ni._os._tcp 30 TXT {text}");
    let (records, conflicts) = merged(|_| (), &instance("path=/1", 1), &instance("path=/2", 2));
    assert_eq!(records.len(), 3);
    assert!(records.iter().any(|line| line.ends_with("\"path=/1\"")));
    assert_eq!(conflicts, [ConflictKind::ServiceText]);
    // The strings that CNS writes are no description.
    let (records, conflicts) = merged(|_| (), &instance("uuid-1", 1), &instance("uuid-2", 2));
    assert_eq!((records.len(), conflicts), (4, vec![]));
}

#[test]
fn rewritten_targets_can_coincide_and_that_is_told() {
    let rewrite = |plan: &mut RegionPlan| plan.rdata_names = RdataNames::Rewrite;
    let (records, conflicts) = merged(rewrite, "s 30 SRV 80 a", "s 30 SRV 80 a");
    assert_eq!((records, conflicts), (vec!["s.w.x. 30 IN SRV 0 10 80 a.w.x.".into()], vec![ConflictKind::SameTarget]));
    let (records, conflicts) = merged(rewrite, "s 30 SRV 80 a.y.", "s 30 SRV 80 A.Y.");
    assert_eq!((records, conflicts), (vec!["s.w.x. 30 IN SRV 0 10 80 A.Y.".into()], vec![]));
    let (records, _) = merged(rewrite, "c 30 CNAME gone\nd 30 CNAME a", "a 30 A 192.0.2.1");
    assert_eq!(records, ["a.w.x. 30 IN A 192.0.2.1", "c.w.x. 30 IN CNAME gone.w1.x.", "d.w.x. 30 IN CNAME a.w.x."]);
}

#[test]
fn excluded_names_stay_out() {
    let exclude = |plan: &mut RegionPlan| {
        plan.exclude =
            vec![OwnerPattern { name: name("cmon"), below: true }, OwnerPattern { name: name("api"), below: false }];
    };
    let (records, _) = merged(exclude, "u.cmon 30 CNAME cmon\ncmon 30 A 192.0.2.1\napi 30 A 192.0.2.2", "");
    assert_eq!(records, ["cmon.w.x. 30 IN A 192.0.2.1"]);
}

#[test]
fn a_name_too_long_for_the_region_is_dropped_and_told() {
    let label = "l".repeat(61);
    let mut plan = plan(&["w1.x"]);
    plan.origin = name("a-much-longer-region.x");
    let mut region = Region::new(plan);
    let long = format!("{label}.{label}.{label}.{}", "l".repeat(55));
    region.merge_all(&[member("w1.x.", 1, &format!("{long} 30 A 192.0.2.1\nok 30 A 192.0.2.2"))], Instant::now());
    assert_eq!(region.zone.as_ref().unwrap().records, 4);
    assert_eq!(
        region.conflicts.values().flatten().map(|c| (c.kind, c.dropped)).collect::<Vec<_>>(),
        [(ConflictKind::NameTooLong, 1)]
    );
}

#[test]
fn a_record_that_fits_no_message_under_the_longer_name_is_dropped_and_told() {
    let (short, long) = (name("w1.x"), name(&format!("{0}.{0}.x", "l".repeat(60))));
    // Under the member's name it just fits, which is all that the member asks for.
    let mut rdata = vec![7; 65_535];
    while !rr::fits_message(name("big.w1.x").as_wire(), &rdata) {
        rdata.pop();
    }
    let mut loader = Loader::new(short.clone());
    let soa = Soa { serial: Serial(1), refresh: 1, retry: 1, expire: 1, minimum: 1 };
    loader.push(&NameBuf::parse("w1.x").unwrap(), rtype::SOA, 30, &soa.to_rdata(&[0], &[0]));
    for (owner, rdata) in [("big", &rdata[..]), ("big", b"small"), ("one", &rdata[..])] {
        loader.push(&NameBuf::parse(&format!("{owner}.w1.x")).unwrap(), 65_280, 30, rdata);
    }
    let zone = Arc::new(loader.finish(None).unwrap().zone);
    let mut plan = plan(&["w1.x"]);
    plan.origin = long.clone();
    let mut region = Region::new(plan.clone());
    let members = [Some(zone.clone())];
    region.merge_all(&members, Instant::now());
    let mut incremental = Region::new(plan.clone());
    incremental.merge_changed(&members, zone.iter().map(|(name, _)| (0, name)).collect(), Instant::now());
    let at = |owner: &str| name(&format!("{owner}.{long}"));
    for region in [&region, &incremental] {
        let merged = region.zone.as_ref().unwrap();
        assert_eq!(merged.get(at("big").as_wire()).unwrap().records(), 1);
        assert!(merged.get(at("one").as_wire()).is_none());
        for owner in ["big", "one"] {
            let told = &region.conflicts[&Place { member: None, name: at(owner) }];
            assert_eq!(told[..], [Conflict { kind: ConflictKind::RecordTooLong, member: 0, dropped: 1, by: None }]);
            let traced = traced(&plan, &[plain(Some(zone.clone()), true)], &at(owner));
            assert_eq!(traced.conflicts, *told);
            assert_eq!(traced.records.len(), merged.get(at(owner).as_wire()).map_or(0, |node| node.records() as usize));
        }
    }
    // Under a name that is no longer nothing is lost.
    plan.origin = name("w2.x");
    let mut region = Region::new(plan);
    region.merge_all(&members, Instant::now());
    assert_eq!((region.zone.as_ref().unwrap().records, region.conflicts.len()), (6, 0));
}

#[test]
fn name_servers_come_from_the_plan() {
    let servers = |ns: NsPolicy, first: &str, second: &str| {
        let mut plan = plan(&["w1.x", "w2.x"]);
        plan.ns = ns;
        let mut region = Region::new(plan);
        let zone = |origin: &str, lines: &str| Some(Arc::new(zone(origin, &format!("@ 30 SOA 1\n{lines}"))));
        region.merge_all(&[zone("w1.x.", first), zone("w2.x.", second)], Instant::now());
        let apex = region.zone.as_ref().unwrap().apex();
        (format!("{:?}", apex.get(rtype::NS).unwrap()), region.ns_fallback)
    };
    let (first, second) = ("@ 9 NS a.y.\n@ 9 NS b.y.", "@ 9 NS B.y.\n@ 9 NS c.y.");
    assert_eq!(servers(NsPolicy::Intersection, first, second), ("3600 NS [b.y.]".into(), false));
    assert_eq!(servers(NsPolicy::Union, first, second), ("3600 NS [a.y.] [b.y.] [c.y.]".into(), false));
    assert_eq!(servers(NsPolicy::Intersection, first, "@ 9 NS d.y."), ("3600 NS [me.x.]".into(), true));
    assert_eq!(servers(NsPolicy::Listed(vec![name("n.y")]), first, second), ("3600 NS [n.y.]".into(), false));
}

/// A CNS that is no hidden primary and has no peers (`docs/regions.md` 11).
#[test]
fn members_whose_primary_is_their_only_name_server_are_known() {
    let alone = |ns: NsPolicy, first: &str| {
        let mut plan = plan(&["w1.x", "w2.x"]);
        plan.ns = ns;
        let mut region = Region::new(plan);
        // The primary in their SOA records is "ns".
        let zone = |origin: &str, lines: &str| Some(Arc::new(zone(origin, &format!("@ 30 SOA 1\n{lines}"))));
        region.merge_all(&[zone("w1.x.", first), zone("w2.x.", "@ 9 NS ns.\n@ 9 NS a.y.")], Instant::now());
        region.members_alone
    };
    assert_eq!(alone(NsPolicy::Intersection, "@ 9 NS NS."), [name("w1.x")]);
    assert_eq!(alone(NsPolicy::Union, "@ 9 NS ns."), [name("w1.x")]);
    assert_eq!(alone(NsPolicy::Union, "@ 9 NS a.y."), []);
    assert_eq!(alone(NsPolicy::Listed(vec![name("n.y")]), "@ 9 NS ns."), []);
}

#[test]
fn soa_fields_can_be_set_but_not_the_negative_ttl_raised() {
    let mut plan = plan(&["w1.x"]);
    plan.soa = SoaPlan { ttl: Some(7), refresh: Some(8), retry: Some(9), expire: Some(10), minimum: Some(3600) };
    plan.mname = Some(name("m.x"));
    plan.rname = Some(name("r.x"));
    let mut region = Region::new(plan);
    region.merge_all(&[member("w1.x.", 5, "")], Instant::now());
    assert_eq!(format!("{:?}", region.zone.unwrap().soa_rrset()), "7 SOA [m.x. r.x. 5 8 9 10 30]");
}

#[test]
fn soa_fields_default_to_the_smallest_and_names_to_ours() {
    let timers = |origin: &str, refresh, retry, expire, minimum, ttl| {
        let mut loader = Loader::new(name(origin));
        let soa = Soa { serial: Serial(1), refresh, retry, expire, minimum };
        let rname = NameBuf::parse(&format!("h.{origin}")).unwrap();
        let apex = NameBuf::parse(origin).unwrap();
        loader.push(&apex, rtype::SOA, ttl, &soa.to_rdata(&[0], rname.as_wire()));
        Some(Arc::new(loader.finish(None).unwrap().zone))
    };
    let members = [timers("w1.x", 30, 90, 500, 40, 20), timers("w2.x", 40, 60, 400, 50, 10)];
    let soa = |ns: NsPolicy| {
        let mut plan = plan(&["w1.x", "w2.x"]);
        plan.ns = ns;
        let mut region = Region::new(plan);
        region.merge_all(&members, Instant::now());
        format!("{:?}", region.zone.unwrap().soa_rrset())
    };
    assert_eq!(soa(NsPolicy::Listed(vec![name("n.x")])), "10 SOA [n.x. h.w1.x. 2 30 60 400 40]");
    assert_eq!(soa(NsPolicy::Union), "10 SOA [me.x. h.w1.x. 2 30 60 400 40]");
}

#[test]
fn no_type_of_dnssec_comes_along() {
    let mut loader = Loader::new(name("w1.x"));
    let apex = NameBuf::parse("w1.x").unwrap();
    let sub = NameBuf::parse("sub.w1.x").unwrap();
    let soa = Soa { serial: Serial(1), refresh: 1, retry: 1, expire: 1, minimum: 1 };
    loader.push(&apex, rtype::SOA, 30, &soa.to_rdata(&[0], &[0]));
    for rtype in [rtype::DNSKEY, rtype::NSEC3PARAM, rtype::CDS, rtype::CDNSKEY, rtype::ZONEMD, rtype::DS] {
        loader.push(&apex, rtype, 30, &[1, 2, 3, 4]);
        loader.push(&sub, rtype, 30, &[1, 2, 3, 4]);
    }
    loader.push(&sub, rtype::NSEC, 30, &[0, 0, 1, 64]);
    loader.push(&sub, rtype::NSEC3, 30, &[1, 2, 3, 4]);
    loader.push(&sub, rtype::NS, 30, &[0]);
    let mut region = Region::new(plan(&["w1.x"]));
    region.merge_all(&[Some(Arc::new(loader.finish(None).unwrap().zone))], Instant::now());
    let zone = region.zone.unwrap();
    let types = |name: &Name| zone.get(name.as_wire()).unwrap().rrsets().map(|set| set.rtype).collect::<Vec<_>>();
    assert_eq!(types(&name("w.x")), [rtype::NS, rtype::SOA]);
    assert_eq!(types(&name("sub.w.x")), [rtype::NS]);
}

#[test]
fn a_listed_server_within_the_region_needs_an_address() {
    let mut plan = plan(&["w1.x"]);
    plan.ns = NsPolicy::Listed(vec![name("ns1.w.x"), name("ns2.w.x"), name("ns.y")]);
    let mut region = Region::new(plan);
    region.merge_all(&[member("w1.x.", 1, "ns2 30 A 192.0.2.1")], Instant::now());
    assert_eq!(region.servers_without_address, [name("ns1.w.x")]);
}

/// Merges all, and lets clients see what comes of it.
fn publish(region: &mut Region, members: &Members) -> Outcome {
    let outcome = region.merge_all(members, Instant::now());
    region.serial.seen();
    outcome
}

#[test]
fn the_serial_is_the_sum_and_always_rises() {
    let mut region = Region::new(plan(&["w1.x", "w2.x"]));
    let serial = |region: &Region| (region.zone.as_ref().unwrap().soa.serial.0, region.serial.drift());
    let second = member("w2.x.", 20, "b 30 A 192.0.2.2");
    publish(&mut region, &[member("w1.x.", 10, "a 30 A 192.0.2.1"), second.clone()]);
    assert_eq!(serial(&region), (30, 0));
    // Nothing moved: nothing to publish.
    assert_eq!(publish(&mut region, &[member("w1.x.", 10, "a 30 A 192.0.2.1"), second.clone()]), Outcome::Same);
    // Content under the same serials, then a member that leaves: the sum alone would not rise.
    publish(&mut region, &[member("w1.x.", 10, "a 30 A 192.0.2.9"), second]);
    assert_eq!(serial(&region), (31, 1));
    publish(&mut region, &[member("w1.x.", 10, "a 30 A 192.0.2.9"), None]);
    assert_eq!(serial(&region), (32, 22));
    assert_eq!(lines(&region), ["a.w.x. 30 IN A 192.0.2.9"]);
    // Nobody left, then back with a sum that is newer: no drift any more.
    assert_eq!(publish(&mut region, &[None, None]), Outcome::Empty);
    publish(&mut region, &[member("w1.x.", 10, "a 30 A 192.0.2.9"), None]);
    assert_eq!(serial(&region), (33, 23));
    publish(&mut region, &[None, None]);
    // Another version whose serial is by chance that of the region before.
    let chance = member("w1.x.", 33, "a 30 A 192.0.2.9");
    publish(&mut region, &[chance.clone(), None]);
    assert_eq!(serial(&region), (34, 1));
    // The same version has the same serial again.
    publish(&mut region, &[None, None]);
    publish(&mut region, &[chance, None]);
    assert_eq!(serial(&region), (34, 1));
    publish(&mut region, &[member("w1.x.", 40, "a 30 A 192.0.2.9"), None]);
    assert_eq!(serial(&region), (40, 0));
    // A member's serial moves without a change in content: replicas must agree, so the region's moves, too.
    region.merge_changed(&[member("w1.x.", 41, "a 30 A 192.0.2.9"), None], Vec::new(), Instant::now());
    assert_eq!(serial(&region), (41, 0));
}

#[test]
fn an_offset_as_large_as_the_drift_takes_its_place() {
    let mut region = Region::new(plan(&["w1.x"]));
    publish(&mut region, &[member("w1.x.", 1000, "")]);
    let members = [member("w1.x.", 10, "")];
    publish(&mut region, &members);
    assert_eq!((region.zone.as_ref().unwrap().soa.serial.0, region.serial.drift()), (1001, 991));
    region.set_plan(RegionPlan { serial_offset: 991, ..region.plan.clone() });
    assert_eq!(publish(&mut region, &members), Outcome::Same);
    assert_eq!((region.zone.as_ref().unwrap().soa.serial.0, region.serial.drift()), (1001, 0));
}

/// Regions of the same versions of the same members share everything but their apexes in memory.
#[test]
fn regions_of_the_same_members_share_their_nodes() {
    let lines = |number: usize| {
        (0..600).map(move |index| format!("n{}.a{} 30 A 192.0.2.{number}\n", index / number, index % 9))
    };
    let members = [1, 2, 3].map(|number| member(&format!("w{number}.x."), 1, &lines(number).collect::<String>()));
    let region = |origin: &str| {
        let mut plan = plan(&["w1.x", "w2.x", "w3.x"]);
        plan.origin = name(origin);
        Region::new(plan)
    };
    let mut regions = ["w.x", "v.x"].map(region);
    let anew = regions.iter_mut().map(|region| Anew { region, members: &members });
    merge_together(&mut anew.collect::<Vec<_>>(), Instant::now());
    let [one, other] = regions.map(|region| region.zone.unwrap());
    let places =
        |zone: &Zone| -> HashSet<usize> { zone.stored().map(|stored| stored.node.owner().as_ptr() as usize).collect() };
    let (one, other) = (places(&one), places(&other));
    let own = one.difference(&other).count();
    assert!(own < 30, "{own} of {} are not shared", one.len());
}
