//! Zones of our own in the configuration file: what is read, and that every mistake is told with its own place.

use aggregator::config::Config;
use std::path::Path;
use wire::name::Name;
use wire::serial::Serial;

fn parse(text: &str) -> Config {
    Config::parse(Path::new("c.toml"), text).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

fn refuse(text: &str) -> String {
    let errors = Config::parse(Path::new("c.toml"), text).err().unwrap_or_else(|| panic!("accepted: {text}"));
    errors.to_string()
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// One zone of our own; the first of these lines is the fourth of the file.
fn own(lines: &str) -> String {
    format!("[server]\nname = \"ns.example\"\n[zones.\"a.example\"]\n{lines}")
}

const IDENTITY: &str = "[[zones.\"a.example\".openstack]]\ntype = \"identity\"\nurl = \"https://os.a.example/\"\n";

#[test]
fn every_key_reaches_its_plan() {
    let config = parse(&own(&format!(
        "services = [\"os A 192.0.2.80\", \"  60 AAAA 2001:db8::80\"]\nttl = \"1m\"\nserial = 7\n\
         ns = [\"ns1.example\", \"ns2.example\"]\nns_ttl = 60\nmname = \"ns1.example\"\nrname = \"h@a.example\"\nsoa_ttl = 20\n\
         allow_transfer = \"192.0.2.0/24\"\nnotify = \"192.0.2.9\"\n{IDENTITY}priority = 1\nweight = 2\n"
    )));
    let plan = &config.services[0];
    assert_eq!((&plan.zone, plan.serial), (&name("a.example"), Some(Serial(7))));
    assert_eq!((&plan.ns, plan.ns_ttl), (&vec![name("ns1.example"), name("ns2.example")], 60));
    assert_eq!((&plan.soa.mname, &plan.soa.rname), (&name("ns1.example"), &name("h.a.example")));
    assert_eq!((plan.soa.ttl, plan.soa.minimum, plan.soa.expire), (20, 20, 2_592_000));
    let ttls: Vec<u32> = plan.records.iter().map(|record| record.ttl).collect();
    assert_eq!(ttls, [60; 9], "{:?}", plan.records);
    let offer = &plan.offers[0];
    assert_eq!((offer.kind.as_str(), offer.priority, offer.weight), ("identity", 1, 2));
    assert_eq!(offer.endpoint.to_string(), "https://os.a.example/");
    assert!(config.outgoing[&name("a.example")].access.allows("192.0.2.77".parse().unwrap(), None));
    assert_eq!(config.targets[&name("a.example")].len(), 1);
    assert_eq!(config.source_zones().collect::<Vec<_>>(), [&name("a.example")]);
    assert_eq!(config.warning_lines(), Vec::<String>::new());
}

#[test]
fn what_is_not_written_has_its_default() {
    let plan = |text: &str| parse(&own(text)).services.remove(0);
    let bare = plan("services = \"\"\n");
    assert_eq!((bare.records.len(), bare.offers.len(), bare.serial), (0, 0, None));
    assert_eq!((&bare.soa.mname, &bare.soa.rname), (&name("ns.example"), &name("hostmaster.a.example")));
    assert_eq!((bare.soa.ttl, bare.ns), (30, vec![name("ns.example")]));
    let table = plan("openstack = { type = \"dns\", url = \"https://192.0.2.1/\" }\n");
    assert_eq!(table.offers.len(), 1);
    // Differences must not be mixed where replicas write one primary and count serials each for itself.
    let goes_out = |text: &str| parse(&own(text)).outgoing[&name("a.example")].ixfr;
    assert!(goes_out("services = \"\"\n"));
    assert!(!goes_out("services = \"\"\nmname = \"ns1.example\"\n"));
    assert!(goes_out("services = \"\"\nmname = \"ns1.example\"\nserial = 1\n"));
}

#[test]
fn a_whole_zone_file_may_be_the_text() {
    let text = "services = '''\n@ 60 SOA ns1 hostmaster 5 31 61 2592001 29\n@ 90 NS ns1\n@ NS ns2.other.\nns1 A 192.0.2.53\n'''\n";
    let plan = parse(&own(text)).services.remove(0);
    assert_eq!(plan.serial, Some(Serial(5)));
    assert_eq!((&plan.soa.mname, plan.soa.ttl, plan.soa.refresh), (&name("ns1.a.example"), 60, 31));
    assert_eq!(plan.ns, [name("ns1.a.example"), name("ns2.other")]);
    assert_eq!(plan.records.len(), 1);
    let twice = refuse(&own(&format!("serial = 1\nns = [\"x.y\"]\n{text}")));
    assert!(twice.contains("c.toml:7:1: \"serial\" is written beside the text that says the same"), "{twice}");
    assert!(twice.contains("c.toml:8:1: \"ns\" is written beside"), "{twice}");
}

#[test]
fn a_zone_of_our_own_may_be_a_member_and_is_shown_in_the_plan() {
    let config = parse(&own(&format!(
        "services = \"os A 192.0.2.80\"\n{IDENTITY}[zones.\"b.example\"]\nprimaries = \"192.0.2.1\"\n\
         [aggregations.\"r.example\"]\nmembers = [\"a.example\", \"b.example\"]\nns = [\"ns.example\"]\n"
    )));
    assert_eq!(config.regions[0].members, [name("a.example"), name("b.example")]);
    let text = config.plan_text();
    for line in [
        "  a.example.\n    8 records of this file\n    openstack identity at https://os.a.example/, priority 0, weight 0\n",
        "    serial counted with each change\n",
        "\n1 DC zone, 1 zone of our own, 1 region, 3 zones",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    let json = config.plan_json();
    assert_eq!(json["services"][0]["openstack"][0]["url"], "https://os.a.example/");
    assert_eq!(json["services"][0]["records"], 8);
}

#[test]
fn faults_of_a_text_have_their_own_places() {
    for (text, expected) in [
        ("services = \"os A 192.0.2\"\n", "c.toml:4:18: read as a zone file: \"192.0.2\" is no IPv4 address"),
        ("services = '''\nos A 192.0.2.1\n  b B 1\nx A\n'''\n", "c.toml:6:3: read as a zone file: no record type: b"),
        (
            "services = '''\r\nos A 192.0.2.1\r\n  b B 1\r\nx A\r\n'''\r\n",
            "c.toml:7:3: read as a zone file: A ends too early",
        ),
        (
            "services = '''\nos A 192.0.2.1\n  b B 1\nx A\n'''\n",
            "c.toml:7:3: read as a zone file: A ends too early; it lacks IPv4 address",
        ),
        (
            "services = [\"os A 192.0.2.1\",\n  \"\\u00e9 \\u0041 1.2.3\"]\n",
            "c.toml:5:18: read as a zone file: \"1.2.3\" is no IPv4 address",
        ),
        (
            "services = \"\"\"\nos TXT \\\"a\\\" \\\"b\n\"\"\"\n",
            "c.toml:5:14: read as a zone file: string without an end",
        ),
        (
            "services = \"x.other. A 192.0.2.1\"\n",
            "c.toml:4:13: read as a zone file: x.other. is not within a.example.",
        ),
        ("services = \"x SOA a b 1 1 1 1 1\"\n", "c.toml:4:13: SOA record at x.a.example.; remove it"),
        ("services = \"x DS \\\\# 1 00\"\n", "c.toml:4:13: DS record in a zone that is not signed"),
        (
            "services = \"x CNAME y\\nx A 192.0.2.1\"\n",
            "c.toml:4:12: zone \"a.example\" has a CNAME beside other records",
        ),
        ("services = 5\n", "c.toml:4:12: \"services\" is an integer; write records as in a zone file"),
    ] {
        let text = own(text);
        let errors = refuse(&text);
        assert!(errors.contains(expected), "{expected} in\n{errors}");
    }
}

#[test]
fn each_mistake_has_its_words() {
    let service = |lines: &str| own(&format!("[[zones.\"a.example\".openstack]]\n{lines}"));
    for (text, expected) in [
        (
            own("servics = \"\"\n"),
            "c.toml:4:1: unknown key \"servics\" in zone \"a.example\"; did you mean \"services\"?",
        ),
        (
            own("services = \"\"\nprimaries = \"192.0.2.1\"\n"),
            "c.toml:5:1: unknown key \"primaries\" in zone \"a.example\"; the records of the zone are in the file",
        ),
        (own("services = \"\"\nserial = -1\n"), "c.toml:5:10: \"serial\" cannot be -1"),
        (service("type = \"identity\"\n"), "c.toml:4:1: \"openstack\" of zone \"a.example\" has no \"url\""),
        (service("url = \"https://h/\"\n"), "has no \"type\"; write type = \"identity\""),
        (
            service("type = \"nova\"\nurl = \"https://h/\"\n"),
            "c.toml:5:8: \"nova\" is the name of a project; write its service type, \"compute\"",
        ),
        (service("type = \"Identity\"\nurl = \"https://h/\"\n"), "\"Identity\" is no service type"),
        (service("type = \"identity\"\nurl = \"os.example.com\"\n"), "c.toml:6:7: \"os.example.com\" is no URL"),
        (service("type = \"identity\"\nurl = \"https://h/?x\"\n"), "has a query, for which there is no record"),
        (service("type = \"identity\"\nurl = \"https://h/\"\nport = 1\n"), "unknown key \"port\""),
        (service("type = \"identity\"\nurl = \"https://h/\"\npriority = 65536\n"), "\"priority\" cannot be 65536"),
        (own(&format!("{IDENTITY}{IDENTITY}")), "has this endpoint of identity twice; remove one"),
        (
            own(&format!("{IDENTITY}{}", IDENTITY.replace("os.a.example/", "os.a.example/v3"))),
            "c.toml:7:1: zone \"a.example\" has another endpoint of identity already; all endpoints of a type have one TXT",
        ),
        (
            own(&format!("services = \"os CNAME x\\nx A 192.0.2.1\"\n{IDENTITY}")),
            "host os.a.example. of identity is an alias; write its addresses",
        ),
        (own("openstack = 1\n"), "\"openstack\" is an integer; write a table"),
    ] {
        let errors = refuse(&text);
        assert!(errors.contains(expected), "{expected} in\n{errors}");
    }
    let warnings = parse(&own(IDENTITY)).warning_lines();
    assert!(warnings[0].contains("host os.a.example. of identity has no address in the zone"), "{warnings:?}");
    let long = format!("{}.{}.{}", "a".repeat(63), "b".repeat(63), "c".repeat(63));
    let text = own(IDENTITY).replace("a.example\"", &format!("{long}.{}\"", "d".repeat(40)));
    assert!(refuse(&text).contains("its services' names have no room"));
}

#[test]
fn the_text_of_a_configured_service_is_made_of_its_url_alone() {
    let errors = refuse(&own(&format!(
        "services = '''\nos A 192.0.2.1\nIdentity._openstack._tcp TXT \"path=/other\"\n'''\n{IDENTITY}"
    )));
    assert!(errors.contains("c.toml:6:1: TXT of identity is made of its url; remove this one"), "{errors}");
    let beside = "os A 192.0.2.1\ncompute._openstack._tcp TXT \"path=/other\"\nidentity._openstack._tcp SRV 1 0 443 os";
    assert_eq!(
        parse(&own(&format!("services = '''\n{beside}\n'''\n{IDENTITY}"))).warning_lines(),
        Vec::<String>::new()
    );
}

#[test]
fn written_services_are_held_against_the_rules() {
    let list = "_openstack._tcp PTR dns._openstack._tcp";
    let srv = "dns._openstack._tcp SRV 0 0 443 h";
    let text = "dns._openstack._tcp TXT \"txtvers=1\"";
    let host = "h AAAA 2001:db8::1";
    let warnings =
        |lines: &[&str]| parse(&own(&format!("services = '''\n{}\n'''\n", lines.join("\n")))).warning_lines();
    let none = Vec::<String>::new();
    let long = format!("dns._openstack._tcp TXT \"txtvers=1\" \"{}\" \"{}\"", "a".repeat(200), "b".repeat(200));
    for sound in [
        &[list, srv, text, host][..],
        // Nobody is led there.
        &[srv],
        &["x PTR dns._openstack._tcp", srv],
        // Others say what is there.
        &["_openstack._tcp PTR dns._openstack._tcp.other."],
        &[list, "dns._openstack._tcp SRV 0 0 443 h.other.", text],
        &[list, "dns._openstack._tcp SRV 0 0 0 .", text],
        &[list, "dns._openstack._tcp SRV 0 0 443 h.below", text, "below NS ns.other."],
        &[list, "dns._openstack._tcp SRV 0 0 443 below", text, "below NS ns.other."],
        &[list, "dns._openstack._tcp SRV 0 0 443 h.below", text, "below DNAME other."],
        &[list, srv, text, "* A 192.0.2.1"],
        // Two formats, and a list of a part.
        &[list, srv, text, "dns._openstack._tcp TXT \"txtvers=2\"", host],
        &[list, "_x._sub._openstack._tcp PTR dns._openstack._tcp", srv, text, host],
    ] {
        assert_eq!(warnings(sound), none, "{sound:?}");
    }
    for (lines, expected) in [
        (&[list, srv, host][..], "c.toml:5:1: PTR leads to dns._openstack._tcp.a.example., which has no TXT record"),
        (&[list, text], "c.toml:5:1: PTR leads to dns._openstack._tcp.a.example., which has no SRV record"),
        (&[list, text, srv], "c.toml:7:1: SRV leads to h.a.example., which has no address in the zone"),
        (&[list, text, srv, "h CNAME x", "x A 192.0.2.1"], "c.toml:7:1: SRV leads to h.a.example., which is an alias"),
        (
            &[list, srv, host, text, "dns._openstack._tcp TXT \"TXTVERS=1\" \"path=/x\""],
            "c.toml:9:1: second TXT record of dns.",
        ),
        (
            &[list, srv, host, "dns._openstack._tcp TXT \"\"", "dns._openstack._tcp TXT \"path=/x\""],
            "c.toml:9:1: second TXT",
        ),
        (&[list, srv, host, &long], "c.toml:8:1: TXT record of 412 octets: more than 400 do not fit"),
        (
            &["_http._tcp PTR a\\.b._http._tcp"],
            "c.toml:5:1: PTR leads to a\\.b._http._tcp.a.example., which has no SRV",
        ),
    ] {
        let told = warnings(lines);
        assert!(told.iter().any(|warning| warning.contains(expected)), "{expected} in {told:?}");
        let most = if lines.len() == 1 { 2 } else { 1 };
        assert_eq!(told.len(), most, "{told:?}");
    }
    let of_offer = parse(&own(&format!(
        "services = \"_x._sub._openstack._tcp PTR identity._openstack._tcp\\n* A 192.0.2.1\"\n{IDENTITY}"
    )));
    assert_eq!(of_offer.warning_lines(), none, "what follows from an URL is right");
}

#[test]
fn types_that_nobody_knows_are_warned_of() {
    let warnings = |kind: &str| {
        parse(&own(&format!("services = \"os A 192.0.2.1\"\n{}", IDENTITY.replace("identity", kind)))).warning_lines()
    };
    assert_eq!(warnings("placement"), Vec::<String>::new());
    let told = warnings("identitty");
    assert!(
        told.len() == 1 && told[0].contains("c.toml:6:8: \"identitty\" is no service type that is known here"),
        "{told:?}"
    );
    let told = warnings("volumev3");
    assert!(told.len() == 1 && told[0].contains("is an earlier name of service type \"block-storage\""), "{told:?}");
}
