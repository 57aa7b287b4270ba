//! Zones from ZooKeeper in the configuration file: every key reaches its plan, every mistake is told with its place and what
//! to write instead, and no secret is shown.

use aggregator::config::Config;
use aggregator::source::zookeeper::plan::Watches;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use wire::name::Name;

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

/// One tree, with further lines.
fn tree(more: &str) -> String {
    format!("[server]\nname = \"ns.example\"\n[zones.\"a.example\"]\nzookeeper = \"192.0.2.1\"\n{more}")
}

#[test]
fn every_key_reaches_its_plan() {
    let config = parse(&tree(
        "domain = \"B.example\"\nchroot = \"/sdc/\"\nsession_timeout = \"5s\"\nserve_stale = \"2h\"\n\
         reverse = [\"10.27.172.in-addr.arpa\", \"172.28.0.0/16\", \"fd00:77::/64\", \"192.0.2.1\"]\n\
         binder_compat = true\nwatches = \"each\"\nmax_reply = \"1MiB\"\nregress_after = \"9s\"\ndigest = \"secret\"\n\
         tls = { ca = \"ca.pem\", certificate = \"c.pem\", key = \"k.pem\" }\n\
         ns = [\"ns1.example\", \"ns2.example\"]\nns_ttl = 60\nmname = \"ns1.example\"\nrname = \"h@a.example\"\nsoa_ttl = \"1m\"\n\
         serial_offset = 7\nallow_transfer = \"192.0.2.0/24\"\nnotify = \"192.0.2.9\"\n\
         [transfer]\nmax_bytes = \"7MiB\"\nshrink_share = 0.25\nconfirm_after = \"3s\"\nconnect_timeout = \"2s\"\n",
    ));
    let plan = &config.trees[0];
    assert!(config.zones.is_empty());
    let reverse = ["10.27.172.in-addr.arpa", "28.172.in-addr.arpa", "0.0.0.0.0.0.0.0.7.7.0.0.0.0.d.f.ip6.arpa"];
    let reverse = reverse.iter().chain(&["1.2.0.192.in-addr.arpa"]).map(|zone| name(zone)).collect::<Vec<_>>();
    assert_eq!(plan.zones.reverse, reverse);
    assert_eq!((&plan.path[..], &plan.domain), ("/sdc/example/b", &name("b.example")));
    assert_eq!(plan.members[0].to_string(), "192.0.2.1:2181");
    assert_eq!((plan.max_reply, plan.max_bytes), (1 << 20, 7 << 20));
    let times = [plan.session_timeout, plan.serve_stale, plan.confirm_after, plan.connect_timeout, plan.regress_after];
    assert_eq!(times, [5, 7200, 3, 2, 9].map(Duration::from_secs));
    assert_eq!((plan.watches, plan.binder_compat, plan.shrink_share), (Watches::Each, true, 0.25));
    assert_eq!(plan.digest.as_ref().unwrap().file, Path::new("secret"));
    let tls = plan.tls.as_ref().unwrap();
    assert_eq!((&tls.ca_file, &tls.identity.as_ref().unwrap().key_file), (&"ca.pem".into(), &"k.pem".into()));
    let (zones, soa) = (&plan.zones, &plan.zones.soa);
    assert_eq!(
        (&zones.ns, zones.ns_ttl, zones.serial_offset),
        (&vec![name("ns1.example"), name("ns2.example")], 60, 7)
    );
    assert_eq!((&soa.mname, &soa.rname), (&name("ns1.example"), &name("h.a.example")));
    assert_eq!((soa.ttl, soa.minimum, soa.expire), (60, 60, 7200));
    // All its zones go out alike; whose replicas share the mname must not send differences unasked.
    for zone in config.source_zones() {
        let outgoing = &config.outgoing[zone];
        assert!(outgoing.access.allows("192.0.2.77".parse().unwrap(), None) && !outgoing.ixfr, "{zone}");
        assert_eq!(config.targets[zone].len(), 1);
    }
    assert_eq!(config.source_zones().count(), 5);
}

#[test]
fn what_is_not_written_has_its_default() {
    let config = parse(&tree(""));
    let plan = &config.trees[0];
    let soa = &plan.zones.soa;
    assert_eq!((&plan.path[..], plan.watches, plan.binder_compat), ("/example/a", Watches::Auto, false));
    assert_eq!((plan.session_timeout, plan.serve_stale), (Duration::from_secs(30), Duration::from_secs(14 * 86_400)));
    assert_eq!((plan.max_reply, plan.regress_after), (32 << 20, Duration::from_secs(300)));
    assert!(plan.zones.reverse.is_empty() && plan.digest.is_none() && plan.tls.is_none());
    assert_eq!((&soa.mname, &soa.rname), (&name("ns.example"), &name("hostmaster.a.example")));
    assert_eq!(plan.zones.ns, [name("ns.example")]);
    assert!(config.outgoing[&name("a.example")].ixfr);
    let compatible = parse(&tree("binder_compat = true\n"));
    assert_eq!(compatible.trees[0].zones.reverse, [name("in-addr.arpa"), name("ip6.arpa")]);
    assert!(parse(&tree("binder_compat = true\nreverse = []\n")).trees[0].zones.reverse.is_empty());
    // A tree that comes back is waited for as an older serial is, unless it says otherwise.
    for (own, seconds) in [("", 7), ("regress_after = \"9s\"\n", 9)] {
        let config = parse(&tree(&format!("{own}[transfer]\nregress_after = \"7s\"\n")));
        assert_eq!(config.trees[0].regress_after, Duration::from_secs(seconds));
    }
    let members = parse(&tree("").replace("\"192.0.2.1\"", "[\"zk1.example.com:99\", \"::1\", \"192.0.2.7\"]"));
    let members: Vec<String> = members.trees[0].members.iter().map(ToString::to_string).collect();
    assert_eq!(members, ["zk1.example.com:99", "[::1]:2181", "192.0.2.7:2181"]);
}

#[test]
fn a_tree_may_be_a_member_and_is_shown_in_the_plan() {
    let config = parse(&tree(
        "reverse = \"192.0.2.0/24\"\nbinder_compat = true\n[zones.\"b.example\"]\nprimaries = \"192.0.2.1\"\n\
         [aggregations.\"r.example\"]\nmembers = [\"a.example\", \"b.example\"]\nns = [\"ns.example\"]\n",
    ));
    assert_eq!(config.regions[0].members, [name("a.example"), name("b.example")]);
    let text = config.plan_text();
    for line in [
        "  a.example.\n    ZooKeeper 192.0.2.1:2181, sessions of 30s, watches auto\n    tree /example/a of domain a.example.\n",
        "    reverse zones 2.0.192.in-addr.arpa.\n",
        "    SOA primary ns.example., contact hostmaster.a.example., TTL 30\n    unknown names are refused, as Binder does\n",
        "    served for 14d without a session\n",
        "\n1 DC zone, 2 zones from ZooKeeper, 1 region, 4 zones",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    let json = config.plan_json();
    assert_eq!(json["trees"][0]["reverse"][0], "2.0.192.in-addr.arpa.");
    assert_eq!((&json["trees"][0]["serve_stale"], &json["trees"][0]["watches"]), (&1_209_600.0.into(), &"auto".into()));
}

#[test]
fn each_mistake_has_its_words() {
    let other = "[zones.\"b.example\"]\nzookeeper = \"192.0.2.2\"\nreverse = \"10.0.0.0/8\"\n";
    let cases = [
        (
            tree("").replace("\"192.0.2.1\"", "[]"),
            "c.toml:4:13: zone \"a.example\" has no member of the ensemble; write one",
        ),
        (
            tree("").replace("\"192.0.2.1\"", "1"),
            "c.toml:4:13: \"zookeeper\" is an integer; write an address or a list",
        ),
        (
            tree("").replace("\"192.0.2.1\"", "\"a,b\""),
            "c.toml:4:13: \"a,b\" is no member of an ensemble; write a list",
        ),
        (tree("").replace("\"192.0.2.1\"", "\"a:1/x\""), "write the path behind the slash as \"chroot\""),
        (
            tree("").replace("\"192.0.2.1\"", "\"a:0\""),
            "\"a:0\" is no member of an ensemble; write an address or host name",
        ),
        (tree("").replace("\"192.0.2.1\"", "\"tcp://a\""), "for TLS tls = { ca = \"FILE\" }"),
        (
            tree("").replace("\"192.0.2.1\"", "[\"a\", \"a:2181\"]"),
            "c.toml:4:19: zone \"a.example\" lists a:2181 twice",
        ),
        (
            tree("").replace("zookeeper", "zookeper"),
            "unknown key \"zookeper\" in zone \"a.example\"; did you mean \"zookeeper\"?",
        ),
        (
            tree("primaries = \"192.0.2.1\"\n"),
            "c.toml:5:1: unknown key \"primaries\" in zone \"a.example\"; the zone comes from",
        ),
        (tree("revers = []\n"), "unknown key \"revers\" in zone \"a.example\"; did you mean \"reverse\"?"),
        (tree("chroot = \"sdc\"\n"), "c.toml:5:10: \"chroot\" cannot be \"sdc\"; write the path of a node"),
        (tree("chroot = \"/a//b\"\n"), "\"chroot\" cannot be \"/a//b\"; write"),
        (tree("session_timeout = \"1ms\"\n"), "\"session_timeout\" cannot be 1ms; write \"1s\" to \"10m\""),
        (tree("serve_stale = \"0s\"\n"), "\"serve_stale\" cannot be zero; write"),
        (tree("watches = \"some\"\n"), "\"watches\" cannot be \"some\"; write \"auto\" or \"recursive\" or \"each\""),
        (tree("reverse = \"example.com\"\n"), "c.toml:5:11: \"example.com\" is no reverse zone; write a prefix"),
        (
            tree("reverse = \"10.0.0.0/12\"\n"),
            "10.0.0.0/12 has no reverse zone of its own, its length is none; write 8, 16 or 24",
        ),
        (
            tree("reverse = \"fd00::/63\"\n"),
            "fd00::/63 has no reverse zone of its own, its length is none; write a multiple of 4",
        ),
        (tree("reverse = \"10.0.0.1/8\"\n"), "is no address prefix"),
        (
            tree("reverse = [\"10.0.0.0/8\", \"10.in-addr.arpa\"]\n"),
            "names reverse zone 10.in-addr.arpa. twice; remove one",
        ),
        (
            tree(&format!("reverse = \"10.in-addr.arpa\"\n{other}")),
            "c.toml:8:11: zone \"b.example\" makes reverse zone 10.in-addr.arpa., and so does a.example., in line 5; write",
        ),
        (
            format!("{other}[zones.\"10.in-addr.arpa\"]\nprimaries = \"192.0.2.1\"\n"),
            "c.toml:3:11: zone \"b.example\" makes reverse zone 10.in-addr.arpa., which is given in line 4; remove",
        ),
        (
            format!("{other}[aggregations.\"10.in-addr.arpa\"]\nmembers = [\"b.example\"]\nns = [\"n.example\"]\n"),
            "c.toml:4:15: aggregation \"10.in-addr.arpa\" is also a zone, in line 3",
        ),
        (tree("ns = []\n"), "zone \"a.example\" has no name server; write one, or leave \"ns\" out"),
        (tree("tls = { certificate = \"a\", key = \"b\" }\n"), "\"tls\" of zone \"a.example\" has no \"ca\"; write"),
        (tree("tls = { ca = \"a\", key = \"b\" }\n"), "has one of \"certificate\" and \"key\"; write both, or neither"),
        (tree("max_reply = \"1kB\"\n"), "\"max_reply\" cannot be 1000 octets; write \"64KiB\" to \"1GiB\""),
        (tree("max_reply = \"2GiB\"\n"), "\"max_reply\" cannot be 2147483648 octets"),
        (tree("regress_after = \"31d\"\n"), "\"regress_after\" cannot be 31d; write \"1s\" to \"30d\""),
        (tree("tls = { cca = \"a\" }\n"), "unknown key \"cca\" in \"tls\" of zone \"a.example\"; did you mean \"ca\"?"),
    ];
    for (wrong, message) in cases {
        let errors = refuse(&wrong);
        assert!(errors.contains(message), "{wrong}\nwanted {message}\ngot    {errors}");
        assert_eq!(errors.lines().count(), 1, "one mistake, one error: {wrong}\n{errors}");
    }
}

#[test]
fn secrets_are_read_from_files_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        fs::write(folder.path().join(name), text).unwrap();
        fs::set_permissions(folder.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let load = || Config::load(&folder.path().join("c.toml")).map_err(|errors| errors.to_string());
    file("c.toml", &tree("digest = \"d\"\n"), 0o644);
    file("d", "user:geheim\n", 0o600);
    let config = load().unwrap();
    assert_eq!(*config.trees[0].digest.as_ref().unwrap().secret.0, b"user:geheim");
    let shown = format!("{config:?}{}{}", config.plan_text(), config.plan_json());
    assert!(!shown.contains("geheim") && shown.contains("user and password in"), "{shown}");
    for (text, mode, wanted) in [
        ("user:geheim", 0o644, "can be read or changed by strangers (mode 644); run chmod 640"),
        ("geheim", 0o600, "is not one line user:password; write"),
        (":geheim", 0o600, "is not one line user:password; write"),
        ("a:geheim\nb:c", 0o600, "is not one line user:password; write"),
    ] {
        file("d", text, mode);
        let errors = load().unwrap_err();
        assert!(errors.contains(wanted) && errors.contains("c.toml:5:10: ") && !errors.contains("geheim"), "{errors}");
    }
    file("c.toml", &tree("tls = { ca = \"ca\" }\n"), 0o644);
    assert!(load().unwrap_err().contains("\"ca\" "), "no such file");
    file("ca", "no certificate", 0o644);
    assert!(load().unwrap_err().contains("\"tls\" of zone \"a.example\" cannot be used"), "{:?}", load().err());
}
