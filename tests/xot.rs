//! Zone transfer over TLS (RFC 9103) with real name servers: BIND as primary and secondary, NSD as secondary. Knot speaks
//! it from version 3.3 on, which Debian 12 does not have.
//!
//! Certificates are made by OpenSSL: an authority, the primary's own, and ours.

mod harness;

use harness::{
    Aggregator, Client, Dname, Folder, Knotd, Named, Nsd, Port, Process, Record, SecondaryPlan, Settings, difference,
    found, program_path, read_zone, sign, wait_until, write_file, write_zone,
};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// More than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// The name of the primary in its certificate.
const PRIMARY: &str = "primary.test";
const SECRET: &str = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0";

/// A zone with a serial.
fn zone_text(zone: &str, serial: u32) -> Vec<Record> {
    let hosts: String = (0..300).map(|host| format!("h{host} IN A 10.0.{}.{}\n", host / 250, host % 250)).collect();
    read_zone(&format!(
        "$ORIGIN {zone}.\n$TTL 30\n@ IN SOA ns h {serial} 3600 600 86400 30\n@ IN NS ns\nns IN A 192.0.2.1\n\
         at-{serial} IN A 192.0.2.2\n{hosts}"
    ))
}

/// Zones that BIND has; each is transferred in a way of its own.
const ZONES: [&str; 12] = [
    "strict.test",
    "six.test",
    "address.test",
    "listed.test",
    "wrong.test",
    "stranger.test",
    "anybody.test",
    "doubted.test",
    "mutual.test",
    "bare.test",
    "signed.test",
    "clear.test",
];

/// BIND as a primary that gives zones over TLS alone.
struct Bind {
    home: PathBuf,
    clear: SocketAddr,
    strict: u16,
    ephemeral: u16,
    mutual: u16,
    old: u16,
    process: Process,
}

impl Bind {
    fn start(home: &Path) -> Bind {
        let mut ports: [Port; 5] = std::array::from_fn(|_| Port::reserve());
        let [clear, strict, ephemeral, mutual, old] = std::array::from_fn(|at| ports[at].release().port());
        let place = home.display();
        let mut text = format!(
            "controls {{ }};\nkey \"k.test\" {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\n\
             tls known {{ cert-file \"{place}/primary.pem\"; key-file \"{place}/primary.key\"; protocols {{ TLSv1.3; }}; }};\n\
             tls both {{ cert-file \"{place}/primary.pem\"; key-file \"{place}/primary.key\"; ca-file \"{place}/ca.pem\"; }};\n\
             tls old {{ cert-file \"{place}/primary.pem\"; key-file \"{place}/primary.key\"; protocols {{ TLSv1.2; }}; }};\n\
             options {{ directory \"{place}\"; pid-file none; lock-file none; session-keyfile none; recursion no; notify no;\n\
             listen-on port {clear} {{ 127.0.0.1; }};\n\
             listen-on port {strict} tls known {{ 127.0.0.1; }}; listen-on-v6 port {strict} tls known {{ ::1; }};\n\
             listen-on port {ephemeral} tls ephemeral {{ 127.0.0.1; }};\n\
             listen-on port {mutual} tls both {{ 127.0.0.1; }}; listen-on port {old} tls old {{ 127.0.0.1; }};\n\
             ixfr-from-differences yes;\n}};\n"
        );
        for zone in ZONES {
            write_file(&home.join(zone), &write_zone(&zone_text(zone, 1)));
            let who = if zone == "signed.test" { "key \"k.test\"" } else { "any" };
            let over = [strict, ephemeral, mutual, old]
                .map(|port| format!("allow-transfer port {port} transport tls {{ {who}; }};"));
            // Only the last of several counts, so each zone names the one that it is asked over.
            let over = match zone {
                "anybody.test" | "doubted.test" => &over[1],
                "mutual.test" | "bare.test" => &over[2],
                _ => &over[0],
            };
            text.push_str(&format!("zone \"{zone}\" {{ type primary; file \"{zone}\"; {over} }};\n"));
        }
        let configuration = home.join("named.conf");
        write_file(&configuration, &text);
        let mut command = Command::new(program_path("named"));
        command.args(["-g", "-n", "1", "-c"]).arg(&configuration);
        let mut process = Process::start("named", &mut command, &home.join("named.log"));
        let clear = SocketAddr::from(([127, 0, 0, 1], clear));
        let mut client = Client::new(clear).with_deadline(Duration::from_millis(500));
        process.wait_ready("serves its zones", PATIENCE, || {
            ZONES.iter().all(|zone| client.serial(&Dname::parse(zone)) == Some(1)).then_some(())
        });
        Bind { home: home.to_path_buf(), clear, strict, ephemeral, mutual, old, process }
    }

    /// Gives a zone another version.
    fn change(&self, zone: &str, serial: u32) {
        write_file(&self.home.join(zone), &write_zone(&zone_text(zone, serial)));
        let mut client = Client::new(self.clear);
        let mut attempts = 0;
        wait_until("BIND has read it", PATIENCE, || {
            if attempts % 100 == 0 {
                self.process.signal(libc::SIGHUP);
            }
            attempts += 1;
            (client.serial(&Dname::parse(zone)) == Some(serial)).then_some(())
        });
    }
}

/// What `status` says of a zone's primary.
fn result(daemon: &Aggregator, zone: &str) -> String {
    let told = daemon.verb(&["status", zone, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&told.stdout).unwrap_or_else(|_| panic!("{told:?}"));
    let primary = &report["zones"][0]["source"]["primaries"][0];
    primary["result"].as_str().expect("a result").to_owned()
}

#[test]
fn zones_come_over_tls_from_a_primary_that_proves_who_it_is() {
    let folder = Folder::new();
    let (there, home) = (folder.subfolder("bind"), folder.subfolder("aggregator"));
    for authority in ["ca", "stranger"] {
        found(&there, authority);
    }
    sign(&there, "ca", "primary", &format!("DNS:{PRIMARY},IP:127.0.0.1,IP:::1"));
    sign(&there, "ca", "replica", "DNS:replica.test");
    for file in ["ca.pem", "stranger.pem", "primary.pem", "replica.pem", "replica.key"] {
        std::fs::copy(there.join(file), home.join(file)).unwrap();
    }
    write_file(&home.join("k.secret"), SECRET);
    for secret in ["replica.key", "k.secret"] {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(home.join(secret), std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let bind = Bind::start(&there);
    // Whatever was sent in clear to where TLS is spoken would come here.
    let spy = UdpSocket::bind(("127.0.0.1", bind.strict)).expect("the port is BIND's over TCP alone");
    spy.set_nonblocking(true).unwrap();
    // It takes what is offered, and speaks no DNS.
    let mut silent = Port::reserve();
    let silent = silent.release();
    let mut web = Command::new("openssl");
    web.args(["s_server", "-quiet", "-tls1_3", "-cert", "primary.pem", "-key", "primary.key", "-accept"]);
    web.arg(silent.to_string()).current_dir(&there).stdin(Stdio::piped());
    let _web = Process::start("openssl", &mut web, &there.join("openssl.log"));
    let Bind { strict, ephemeral, mutual, old, clear, .. } = bind;
    let primary =
        |zone: &str, address: &str, tls: &str| format!("[zones.\"{zone}\"]\nprimaries = \"{address}\"\n{tls}\n");
    let at = |port: u16| format!("127.0.0.1:{port}");
    let zones = [
        primary("strict.test", &at(strict), "tls = { name = \"primary.test\", ca = \"ca.pem\" }"),
        primary("six.test", &format!("[::1]:{strict}"), "tls = { ca = \"ca.pem\" }"),
        primary("address.test", &at(strict), "tls = { ca = \"ca.pem\" }"),
        primary("listed.test", &at(strict), "tls = { name = \"whatever.test\", ca = \"primary.pem\" }"),
        primary("wrong.test", &at(strict), "tls = { name = \"other.test\", ca = \"ca.pem\" }"),
        primary("stranger.test", &at(strict), "tls = { name = \"primary.test\", ca = \"stranger.pem\" }"),
        primary("anybody.test", &at(ephemeral), "tls = { verify = false }"),
        primary("doubted.test", &at(ephemeral), "tls = { ca = \"ca.pem\" }"),
        primary(
            "mutual.test",
            &at(mutual),
            "tls = { ca = \"ca.pem\", certificate = \"replica.pem\", key = \"replica.key\" }",
        ),
        primary("bare.test", &at(mutual), "tls = { ca = \"ca.pem\" }"),
        primary("signed.test", &at(strict), "tls = { ca = \"ca.pem\" }\nkey = \"k.test\""),
        primary("clear.test", &clear.to_string(), ""),
        primary("old.test", &at(old), "tls = { ca = \"ca.pem\" }"),
        primary("web.test", &silent.to_string(), "tls = { ca = \"ca.pem\" }"),
    ];
    let plan = format!(
        "[keys.\"k.test\"]\nsecret_file = \"k.secret\"\n[transfer]\nrefresh_min = \"1s\"\nrefresh_max = \"1s\"\nretry_min = \"200ms\"\n\
         retry_max = \"1s\"\n{}",
        zones.concat()
    );
    let daemon = Aggregator::start_with(&home, &Settings::new(&plan));
    let mut client = Client::new(daemon.address());
    let mut wait_for = |zone: &str, serial: u32| {
        wait_until(&format!("{zone} has serial {serial}"), PATIENCE, || {
            (client.serial(&Dname::parse(zone)) == Some(serial)).then_some(())
        });
        let dumped = daemon.dump(&Dname::parse(zone)).expect("a zone");
        assert_eq!(difference(&zone_text(zone, serial), &dumped), None, "{zone}");
    };
    for zone in ["strict.test", "six.test", "address.test", "listed.test", "anybody.test", "mutual.test", "signed.test"]
    {
        wait_for(zone, 1);
    }
    for (zone, reason, words) in [
        ("wrong.test", "tls_name", "its certificate is not for other.test"),
        ("stranger.test", "tls_authority", "signed by nobody whom \"ca\" lists"),
        // The certificate that BIND makes itself is of a version that nobody takes.
        ("doubted.test", "tls", "invalid peer certificate"),
        ("bare.test", "tls_ended", "it may not offer TLS 1.3 (RFC 9103), or want \"certificate\" and"),
        ("old.test", "tls_ended", "it may not offer TLS 1.3"),
        ("web.test", "tls_protocol", "does not offer DNS over TLS"),
        ("clear.test", "refused", "REFUSED"),
    ] {
        wait_until(&format!("{zone} fails because {words}"), PATIENCE, || {
            result(&daemon, zone).contains(words).then_some(())
        });
        let metrics = daemon.metrics();
        let counted =
            |line: &str| line.contains(&format!("zone=\"{zone}.\"")) && line.contains(&format!("reason=\"{reason}\""));
        let counted =
            metrics.lines().any(|line| line.starts_with("aggregator_transfer_failures_total") && counted(line));
        assert!(counted, "{zone}: {metrics}");
        assert_eq!(daemon.dump(&Dname::parse(zone)), None, "{zone}");
    }
    // Differences come over the same way.
    for zone in ["strict.test", "six.test", "mutual.test", "signed.test"] {
        bind.change(zone, 2);
        wait_for(zone, 2);
        assert_eq!(daemon.received(zone), (1, 1), "{zone}");
    }
    // A certificate of another authority is one reload away.
    std::fs::copy(there.join("ca.pem"), home.join("stranger.pem")).unwrap();
    // What operators read says how each is reached.
    let told = |zone: &str| daemon.verb(&["status", zone]).stdout;
    assert!(told("strict.test").contains(&format!("primary {} over TLS: ", at(strict))), "{}", told("strict.test"));
    assert!(told("clear.test").contains(&format!("primary {clear}: ")), "{}", told("clear.test"));
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    wait_for("stranger.test", 1);
    let told = spy.recv(&mut [0; 512]);
    assert!(told.is_err(), "a datagram in clear of {told:?} octets");
}

#[test]
fn secondaries_fetch_zones_over_tls_from_us() {
    let folder = Folder::new();
    let home = folder.subfolder("aggregator");
    found(&home, "ca");
    sign(&home, "ca", "ns", "DNS:ns.test");
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(home.join("ns.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let zone = Dname::parse("dc.test");
    let primary = Knotd::start(&folder, &[(zone.clone(), write_zone(&zone_text("dc.test", 1)))]);
    let mut port = Port::reserve();
    let tls = port.release();
    let mut settings = Settings::new(&format!(
        "[transfer]\nrefresh_min = \"1s\"\nrefresh_max = \"1s\"\n[secondaries]\nallow_transfer = [\"127.0.0.1\"]\n\
         [zones]\n\"dc.test\" = \"{}\"\n",
        primary.address()
    ));
    settings.server = format!("tls = {{ listen = \"{tls}\", certificate = \"ns.pem\", key = \"ns.key\" }}\n");
    let daemon = Aggregator::start_with(&home, &settings);
    let ca = home.join("ca.pem");
    let mut secondaries = [
        Named::start_secondary(&folder, &SecondaryPlan::new(tls, &[&zone]).with_tls("ns.test", &ca)),
        Nsd::start_secondary(&folder, &SecondaryPlan::new(tls, &[&zone]).with_tls("ns.test", &ca)),
    ];
    for serial in [1, 2] {
        if serial == 2 {
            primary.replace_zone(&zone, &zone_text("dc.test", 2));
            let told: Vec<String> =
                secondaries.iter().map(|secondary| format!("\"{}\"", secondary.address())).collect();
            settings.plan = settings.plan.replace(
                "allow_transfer = [\"127.0.0.1\"]",
                &format!("allow_transfer = [\"127.0.0.1\"]\nnotify = [{}]", told.join(", ")),
            );
            daemon.write_settings(&settings);
            assert_eq!(daemon.verb(&["reload"]).code, 0);
        }
        for secondary in &mut secondaries {
            secondary.wait_for_serial(&zone, serial);
            assert_eq!(difference(&zone_text("dc.test", serial), &secondary.fetch(&zone)), None);
        }
    }
    let metrics = daemon.metrics();
    assert!(!metrics.contains("aggregator_queries_total{transport=\"tls\"} 0"), "{metrics}");
}

/// What `kdig` gets for a transfer of a zone: the number of its records, or the words of the failure.
fn transfer(home: &Path, address: SocketAddr, zone: &str, options: &[&str]) -> Result<usize, String> {
    let server = [format!("@{}", address.ip()), "-p".to_owned(), address.port().to_string()];
    let mut command = Command::new(program_path("kdig"));
    command.args(server).args(["+noall", "+answer", "+timeout=5", "+retry=0", zone, "AXFR"]).args(options);
    let output = command.current_dir(home).output().expect("kdig is installed; run make test");
    let [told, failed] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let records = told.lines().filter(|line| !line.is_empty() && !line.starts_with(';')).count();
    if records > 0 { Ok(records) } else { Err(format!("{told}{failed}")) }
}

#[test]
fn a_zone_may_be_for_those_alone_who_come_over_tls_and_prove_who_they_are() {
    let folder = Folder::new();
    let home = folder.subfolder("aggregator");
    for authority in ["ca", "clients", "stranger"] {
        found(&home, authority);
    }
    sign(&home, "ca", "ns", "DNS:ns.test");
    for (authority, name) in [("clients", "ns2"), ("clients", "ns3"), ("stranger", "other")] {
        // A stranger may claim any name.
        let alternatives = if authority == "stranger" { "DNS:ns2.test".to_owned() } else { format!("DNS:{name}.test") };
        sign(&home, authority, name, &alternatives);
    }
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(home.join("ns.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let zones = ["named.test", "tls.test"].map(Dname::parse);
    let texts = zones.clone().map(|zone| (zone.clone(), write_zone(&zone_text(&zone.to_string(), 1))));
    let primary = Knotd::start(&folder, &texts);
    let mut port = Port::reserve();
    let tls = port.release();
    let at = primary.address();
    let mut settings = Settings::new(&format!(
        "[zones.\"named.test\"]\nprimaries = \"{at}\"\nallow_transfer = [{{ tls = \"ns2.test\" }}]\n\
         [zones.\"tls.test\"]\nprimaries = \"{at}\"\nallow_transfer = [{{ prefix = \"127.0.0.1\", tls = true }}]\n"
    ));
    let server = |ca: &str| {
        let files = format!("certificate = \"ns.pem\", key = \"ns.key\", client_ca = \"{ca}.pem\"");
        format!("tls = {{ listen = \"{tls}\", {files} }}\n")
    };
    settings.server = server("clients");
    let daemon = Aggregator::start_with(&home, &settings);
    let planned = daemon.verb(&["check"]).stdout;
    for rule in ["anyone over TLS as ns2.test", "127.0.0.1 over TLS"] {
        assert!(planned.contains(rule), "{planned}");
    }
    let (ca, file) = (home.join("ca.pem"), |name: &str| home.join(name));
    let plan = |zones: &[&Dname]| SecondaryPlan::new(tls, zones).with_tls("ns.test", &ca);
    let both = [&zones[0], &zones[1]];
    let known = || plan(&both).with_certificate(&file("ns2.pem"), &file("ns2.key"));
    let mut secondaries = [Named::start_secondary(&folder, &known()), Nsd::start_secondary(&folder, &known())];
    for secondary in &mut secondaries {
        for zone in &zones {
            secondary.wait_for_serial(zone, 1);
            assert_eq!(difference(&zone_text(&zone.to_string(), 1), &secondary.fetch(zone)), None, "{zone}");
        }
    }
    // The same by hand: in clear, over TLS without a certificate, with that of another name, and of another authority.
    let shows = |name: &'static str| [format!("+tls-certfile={name}.pem"), format!("+tls-keyfile={name}.key")];
    let (second, third, other) = (shows("ns2"), shows("ns3"), shows("other"));
    let over_tls = |own: &[String]| {
        let options = ["+tls-ca=ca.pem", "+tls-hostname=ns.test"].map(String::from);
        [&options[..], own].concat()
    };
    let try_all = |zone: &str| {
        [None, Some(over_tls(&[])), Some(over_tls(&second)), Some(over_tls(&third)), Some(over_tls(&other))].map(
            |options| {
                let address = if options.is_some() { tls } else { daemon.address() };
                let options = options.unwrap_or_else(|| vec!["+tcp".to_owned()]);
                transfer(&home, address, zone, &options.iter().map(String::as_str).collect::<Vec<_>>())
            },
        )
    };
    let whole = zone_text("named.test", 1).len() + 1;
    let [clear, bare, known_to_us, wrong_name, stranger] = try_all("named.test");
    assert_eq!(known_to_us, Ok(whole));
    for (what, refused) in [("in clear", clear), ("without a certificate", bare), ("of another name", wrong_name)] {
        assert!(refused.as_ref().is_err_and(|words| words.contains("REFUSED")), "{what}: {refused:?}");
    }
    assert!(stranger.is_err(), "{stranger:?}");
    let [clear, bare, known_to_us, other_name, stranger] = try_all("tls.test");
    assert!(clear.as_ref().is_err_and(|words| words.contains("REFUSED")), "{clear:?}");
    assert_eq!([bare, known_to_us, other_name], [Ok(whole), Ok(whole), Ok(whole)]);
    // It shows no certificate but of an authority that it was asked for.
    assert_eq!(stranger, Ok(whole));
    let mut rude = Command::new("openssl");
    rude.args(["s_client", "-ign_eof", "-alpn", "dot", "-cert", "other.pem", "-key", "other.key", "-connect"]);
    let told =
        rude.arg(tls.to_string()).current_dir(&home).stdin(Stdio::null()).output().expect("openssl is installed");
    let told = [told.stdout, told.stderr].concat();
    assert!(String::from_utf8_lossy(&told).contains("alert unknown ca"), "{}", String::from_utf8_lossy(&told));
    let log = daemon.log_text();
    assert!(log.contains("it may transfer the zone over TLS only") && log.contains("client_ca"), "{log}");
    let refused = |zone: &str| {
        let line = format!("zone=\"{zone}.\"");
        let metrics = daemon.metrics();
        metrics.lines().any(|text| text.contains(&line) && text.contains("result=\"channel\"") && !text.ends_with(" 0"))
    };
    assert!(refused("named.test") && refused("tls.test"), "{}", daemon.metrics());
    // Answers are for everyone.
    let mut client = Client::new(daemon.address());
    assert_eq!(client.serial(&zones[0]), Some(1));
    // Another authority is one reload away, and the one before is believed no more.
    settings.server = server("stranger");
    daemon.write_settings(&settings);
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    let [_, _, before, _, now] = try_all("named.test");
    assert_eq!((before.is_err(), now), (true, Ok(whole)));
}
