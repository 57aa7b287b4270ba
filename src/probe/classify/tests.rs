//! Tests of the classification: each set of facts gets the right name.

use super::*;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn names(text: &str) -> Vec<Name> {
    text.split_whitespace().map(name).collect()
}

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 53))
}

/// A delegation with glue for some.
fn refers(servers: &str, glue: &str) -> Delegation {
    let glue = names(glue).into_iter().map(|name| (name, vec![address(9).ip()])).collect();
    Delegation::Servers { names: names(servers), glue, is_secure: false }
}

fn host(text: &str, lookup: Lookup, replies: &[Reply]) -> HostFacts {
    let server =
        |reply: &Reply| ServerFacts { address: address(1), is_here: false, reply: reply.clone(), earlier: None };
    let servers = replies.iter().map(server).collect();
    HostFacts { name: name(text), lookup, glue: Vec::new(), own: None, servers }
}

fn answers(serial: u32, ns: &str) -> Reply {
    Reply::Authority { serial: Serial(serial), ns: names(ns) }
}

/// A zone whose two servers and delegation are as they should be.
fn healthy() -> Facts {
    let ns = "ns1.test ns2.test";
    Facts {
        zone: name("r.test"),
        wanted: Some(names(ns)),
        due: Some(Serial(7)),
        current: Some(Serial(8)),
        is_unsigned: true,
        parents: Ok(vec![(address(200), refers("ns2.test ns1.test", ""))]),
        hosts: vec![
            host("ns1.test", Lookup::Found, &[answers(8, ns)]),
            host("ns2.test", Lookup::Found, &[answers(7, "ns2.test ns1.test")]),
        ],
    }
}

/// All findings, with the servers that they are about.
fn found(facts: &Facts) -> Vec<(String, &'static str, String)> {
    let check = classify(facts);
    check.findings().map(|(server, one)| (server.label(), one.problem.label(), one.text.clone())).collect()
}

/// The only finding.
fn only(facts: &Facts) -> (String, &'static str, String) {
    let found = found(facts);
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap()
}

#[test]
fn what_is_well_has_no_findings() {
    assert_eq!(found(&healthy()), []);
    assert_eq!(classify(&healthy()).servers.len(), 3);
}

#[test]
fn each_server_is_judged_by_what_it_says() {
    let with = |reply: Reply| Facts { hosts: vec![host("ns1.test", Lookup::Found, &[reply])], ..healthy() };
    let both = "ns1.test ns2.test";
    for (reply, problem, text) in [
        (Reply::Lame("REFUSED".into()), "lame", "REFUSED"),
        (Reply::Silent("no answer".into()), "unreachable", "no answer"),
        (answers(6, both), "stale", "serial 6 is old, 7 has been served for a while"),
        // Older on the circle (RFC 1982).
        (answers(4_294_967_290, both), "stale", "serial 4294967290 is old, 7 has been served for a while"),
        (answers(8, "ns1.test"), "foreign", "it does not list ns2.test., the zone does"),
        (answers(8, "ns1.test ns2.test x.test"), "foreign", "it lists x.test., the zone does not"),
        (answers(8, "x.test ns2.test"), "foreign", "it lists x.test., the zone lists ns1.test."),
    ] {
        let (server, kind, said) = only(&with(reply));
        assert_eq!((server.as_str(), kind, said.as_str()), ("ns1.test. 192.0.2.1:53", problem, text));
    }
    assert_eq!(found(&with(Reply::NoRoute)), []);
    // A server may be ahead for as long as a poll takes, and then no more.
    let mut ahead = with(answers(9, both));
    assert_eq!(found(&ahead), []);
    ahead.hosts[0].servers[0].earlier = Some(Serial(9));
    assert_eq!(only(&ahead).1, "ahead");
    ahead.current = None;
    assert_eq!(found(&ahead), []);
}

#[test]
fn names_must_have_addresses_of_their_own() {
    let with = |lookup: Lookup| Facts { hosts: vec![host("ns1.test", lookup, &[])], ..healthy() };
    assert_eq!(only(&with(Lookup::Absent)), ("ns1.test.".into(), "unresolved", "it has no address".into()));
    assert_eq!(only(&with(Lookup::Failed("SERVFAIL".into()))).1, "unknown");
    let blind = Facts { parents: Err("no zone above it was found".into()), ..with(Lookup::Absent) };
    let kinds: Vec<_> = found(&blind).into_iter().map(|(_, kind, _)| kind).collect();
    assert_eq!(kinds, ["unknown", "unknown"]);
    let both = "ns1.test ns2.test";
    let alias = host("ns1.test", Lookup::Alias(name("a.test")), &[answers(8, both)]);
    let alias = Facts { hosts: vec![alias], ..healthy() };
    assert_eq!(only(&alias), ("ns1.test.".into(), "alias", "it is an alias of a.test.".into()));
}

#[test]
fn the_delegation_lists_what_the_zone_does() {
    let with = |said: &[Delegation]| {
        let parents = said.iter().enumerate().map(|(index, said)| (address(200 + index as u8), said.clone()));
        Facts { parents: Ok(parents.collect()), ..healthy() }
    };
    let parent = "parent 192.0.2.200:53".to_owned();
    let told = |problem, text: &str| (parent.clone(), problem, text.to_owned());
    let missing = "the delegation does not list ns2.test., the zone does";
    assert_eq!(only(&with(&[refers("ns1.test", "")])), told("foreign", missing));
    let other = "the delegation lists old.test., the zone lists ns1.test.";
    assert_eq!(only(&with(&[refers("old.test ns2.test", "")])), told("foreign", other));
    let absent = "the parent zone has no NS records of it";
    assert_eq!(only(&with(&[Delegation::Absent])), told("undelegated", absent));
    assert_eq!(found(&with(&[Delegation::Same(names("ns1.test ns2.test"))])), []);
    let copy = "its own copy lists x.test., the zone lists ns1.test., ns2.test.";
    assert_eq!(only(&with(&[Delegation::Same(names("x.test"))])), told("foreign", copy));
    let silent = Delegation::Unknown("no answer".into());
    assert_eq!(only(&with(std::slice::from_ref(&silent))), told("unknown", "no answer"));
    assert_eq!(found(&with(&[silent, refers("ns1.test ns2.test", "")])), []);
    let Delegation::Servers { names, glue, .. } = refers("ns1.test ns2.test", "") else { unreachable!() };
    let secure = with(&[Delegation::Servers { names, glue, is_secure: true }]);
    let unsigned = "it has DS records of the zone, which is not signed: clients that validate get SERVFAIL";
    assert_eq!(only(&secure), told("ds", unsigned));
    assert_eq!(found(&Facts { is_unsigned: false, ..secure }), []);
    let lost = Facts { parents: Err("no resolver".into()), ..healthy() };
    assert_eq!(only(&lost), ("parent".into(), "unknown", "no resolver".into()));
}

#[test]
fn names_within_the_zone_need_glue() {
    let ns = "a.r.test b.r.test";
    let facts = Facts {
        wanted: Some(names(ns)),
        parents: Ok(vec![(address(200), refers(ns, "a.r.test"))]),
        hosts: Vec::new(),
        ..healthy()
    };
    assert_eq!(only(&facts).1, "no-glue");
    assert!(only(&facts).2.contains("b.r.test."));
}

#[test]
fn without_a_set_of_ones_own_the_first_answer_counts() {
    let hosts = vec![
        host("ns1.test", Lookup::Found, &[Reply::Silent("no answer".into()), answers(8, "ns1.test ns2.test")]),
        host("ns2.test", Lookup::Found, &[answers(8, "ns2.test")]),
    ];
    let facts = Facts { wanted: None, hosts, ..healthy() };
    let kinds: Vec<_> = found(&facts).into_iter().map(|(_, kind, _)| kind).collect();
    assert_eq!(kinds, ["unreachable", "foreign"]);
    let nobody = Facts { wanted: None, hosts: Vec::new(), ..healthy() };
    assert_eq!(found(&nobody), []);
}

#[test]
fn addresses_in_the_delegation_are_those_of_the_zone() {
    let with = |own: Option<&[u8]>| {
        let mut inner = host("a.r.test", Lookup::Found, &[answers(8, "ns1.test ns2.test")]);
        inner.glue = vec![address(1).ip(), address(2).ip()];
        inner.own = own.map(|own| own.iter().map(|last| address(*last).ip()).collect());
        Facts { hosts: vec![inner], ..healthy() }
    };
    // More addresses than a delegation needs are no fault, and what nobody said is none.
    for well in [None, Some(&[1, 2][..]), Some(&[2, 3, 1])] {
        assert_eq!(found(&with(well)), []);
    }
    let told = |problem, text: &str| ("a.r.test.".to_owned(), problem, text.to_owned());
    let other = "the delegation gives 192.0.2.2, the zone 192.0.2.1, 192.0.2.3";
    assert_eq!(only(&with(Some(&[1, 3]))), told("other-glue", other));
    let nowhere = "it has no address in the zone, only 192.0.2.1, 192.0.2.2 in the delegation";
    assert_eq!(only(&with(Some(&[]))), told("unresolved", nowhere));
}

#[test]
fn silence_all_around_is_no_fault_of_servers() {
    let silent = || Reply::Silent("no answer".into());
    let alone = Facts {
        parents: Err("no resolver".into()),
        hosts: vec![host("ns1.test", Lookup::Found, &[silent()]), host("ns2.test", Lookup::Found, &[silent()])],
        ..healthy()
    };
    let kinds = |facts: &Facts| found(facts).into_iter().map(|(_, kind, _)| kind).collect::<Vec<_>>();
    assert_eq!(kinds(&alone), ["unknown"; 3]);
    // One that answers is enough, but not if it is this machine, or of the other family.
    let mut heard = alone;
    heard.hosts[1].servers[0].reply = Reply::Lame("it answers REFUSED".into());
    assert_eq!(kinds(&heard), ["unknown", "unreachable", "lame"]);
    heard.hosts[1].servers[0].is_here = true;
    assert_eq!(kinds(&heard), ["unknown", "unknown", "lame"]);
    heard.hosts[1].servers[0].is_here = false;
    heard.hosts[0].servers[0].address = "[2001:db8::1]:53".parse().unwrap();
    assert_eq!(kinds(&heard), ["unknown", "unknown", "lame"]);
    assert!(found(&heard)[1].2.contains("over IPv6"));
    // The parent's servers are others, too.
    let parents = Ok(vec![("[2001:db8::2]:53".parse().unwrap(), Delegation::Absent)]);
    assert_eq!(kinds(&Facts { parents, ..heard }), ["undelegated", "unreachable", "lame"]);
}

#[test]
fn what_is_no_fault_is_still_told() {
    let silent = Delegation::Unknown("no answer".into());
    let copy = Delegation::Same(names("ns1.test ns2.test"));
    let parents = Ok(vec![(address(200), silent), (address(201), copy)]);
    let hosts = vec![host("ns1.test", Lookup::Found, &[Reply::NoRoute])];
    let facts = Facts { parents, hosts, ..healthy() };
    assert_eq!(found(&facts), []);
    let notes: Vec<String> = classify(&facts).servers.into_iter().filter_map(|server| server.note).collect();
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(
        notes[0].ends_with(": no answer") && notes[1].contains("cannot be seen") && notes[2].starts_with("not asked")
    );
    let failed = host("ns1.test", Lookup::Found, &[Reply::Failed("too many open files".into())]);
    assert_eq!(only(&Facts { hosts: vec![failed], ..healthy() }).1, "unknown");
}
