//! OpenStack's services by DNS-SD: every example of the guideline, asked of the real daemon with `dig` and with our own
//! `discover`; regions of such zones; changes, restarts and the local link.
//!
//! Avahi and python-zeroconf are met in `link.rs`, which needs root.

mod harness;

use harness::*;
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// A zone with the guideline's first example.
const MYSTACK: &str = r#"[zones."mystack.example.com"]
services = '''
@                              SOA ns1 hostmaster 1 30 60 2592000 30
@                              NS  ns1
ns1                            A   192.0.2.53
_services._dns-sd._udp         PTR _openstack._tcp
_openstack._tcp                PTR identity._openstack._tcp
_openstack._tcp                PTR compute._openstack._tcp
identity._openstack._tcp       SRV 0 0 443 os
identity._openstack._tcp       TXT "txtvers=1" "path=/"
compute._openstack._tcp        SRV 0 0 8774 os
compute._openstack._tcp        TXT "txtvers=1" "protocol=https" "path=/v2.1"
b._dns-sd._udp                 PTR @
os                             A    192.0.2.80
os                             AAAA 2001:db8::80
'''
"#;

/// The lines that dig prints of the sections asked for, sorted, without TTL and class.
fn dig(daemon: &Aggregator, question: &str, sections: &str) -> Vec<String> {
    let address = daemon.address();
    let mut command = Command::new(program_path("dig"));
    let command = command.args(["+norecurse", "+noall", "-p", &address.port().to_string(), "@127.0.0.1"]);
    let text = run_tool(command.args(sections.split(' ')).args(question.split(' ')));
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(words.len() > 4 && words[2] == "IN", "{line}");
        format!("{} {}", words[0], words[3..].join(" "))
    };
    let mut lines: Vec<String> =
        text.lines().filter(|text| !text.is_empty() && !text.starts_with(';')).map(line).collect();
    lines.sort();
    lines
}

/// The status that dig prints of an answer.
fn status(daemon: &Aggregator, question: &str) -> String {
    let mut command = Command::new(program_path("dig"));
    let port = daemon.address().port().to_string();
    let command = command.args(["+norecurse", "+noall", "+comments", "-p", &port, "@127.0.0.1"]);
    let text = run_tool(command.args(question.split(' ')));
    let status = text.split("status: ").nth(1).and_then(|rest| rest.split(',').next());
    status.unwrap_or_else(|| panic!("{text}")).to_string()
}

/// Runs `discover openstack`; the exit code and what it prints.
fn discover(daemon: &Aggregator, kind: &str, domain: &str) -> (i32, String) {
    let server = daemon.address().to_string();
    discover_with(&[kind, domain, "--server", &server])
}

/// Runs `discover openstack` with options.
fn discover_with(arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
    let output = command.args(["discover", "openstack"]).args(arguments).output().expect("run aggregator");
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).trim_end().to_string())
}

/// Returns the output of `discover` for a service that is there.
fn urls(daemon: &Aggregator, kind: &str, domain: &str) -> Vec<String> {
    let (code, text) = discover(daemon, kind, domain);
    assert_eq!(code, 0, "{text}");
    text.lines().map(str::to_string).collect()
}

//--- The guideline ---

#[test]
fn the_provider_of_the_guideline_is_found() {
    let folder = Folder::new();
    let daemon = Aggregator::start(&folder, MYSTACK);
    // `nslookup -query=any`, as the guideline has it.
    let any = dig(&daemon, "identity._openstack._tcp.mystack.example.com ANY", "+answer");
    let name = "identity._openstack._tcp.mystack.example.com.";
    let expected =
        [format!("{name} SRV 0 0 443 os.mystack.example.com."), format!("{name} TXT \"txtvers=1\" \"path=/\"")];
    assert_eq!(any, expected);
    assert_eq!(urls(&daemon, "identity", "mystack.example.com"), ["https://os.mystack.example.com/"]);
    assert_eq!(urls(&daemon, "compute", "mystack.example.com"), ["https://os.mystack.example.com:8774/v2.1"]);
}

#[test]
fn every_question_of_the_guideline_has_its_answer() {
    let folder = Folder::new();
    let daemon = Aggregator::start(&folder, MYSTACK);
    let zone = "mystack.example.com";
    let ask = |question: &str, sections: &str| {
        let (name, rtype) = question.split_once(' ').unwrap();
        dig(&daemon, &format!("{name}.{zone} {rtype}"), sections)
    };
    let full = |texts: &[&str]| texts.iter().map(|text| text.replace('@', "mystack.example.com.")).collect::<Vec<_>>();
    let hosts = ["os.@ A 192.0.2.80", "os.@ AAAA 2001:db8::80"];
    let list = ["_openstack._tcp.@ PTR compute._openstack._tcp.@", "_openstack._tcp.@ PTR identity._openstack._tcp.@"];
    assert_eq!(ask("_openstack._tcp PTR", "+answer"), full(&list));
    let described = [
        "compute._openstack._tcp.@ SRV 0 0 8774 os.@",
        "compute._openstack._tcp.@ TXT \"txtvers=1\" \"protocol=https\" \"path=/v2.1\"",
        "identity._openstack._tcp.@ SRV 0 0 443 os.@",
        "identity._openstack._tcp.@ TXT \"txtvers=1\" \"path=/\"",
        hosts[0],
        hosts[1],
    ];
    assert_eq!(ask("_openstack._tcp PTR", "+additional"), full(&described));
    assert_eq!(
        ask("_services._dns-sd._udp PTR", "+answer +additional"),
        full(&["_services._dns-sd._udp.@ PTR _openstack._tcp.@"])
    );
    assert_eq!(ask("b._dns-sd._udp PTR", "+answer"), full(&["b._dns-sd._udp.@ PTR @"]));
    assert_eq!(ask("identity._openstack._tcp SRV", "+answer"), full(&[described[2]]));
    assert_eq!(ask("identity._openstack._tcp SRV", "+additional"), full(&hosts));
    assert_eq!(ask("identity._openstack._tcp TXT", "+answer"), full(&[described[3]]));
    assert_eq!(ask("identity._openstack._tcp TXT", "+additional"), full(&[]));
    // RFC 8020: names on the way are there, without data.
    for empty in ["_tcp", "_udp", "_dns-sd._udp"] {
        assert_eq!(status(&daemon, &format!("{empty}.{zone} A")), "NOERROR", "{empty}");
        assert_eq!(ask(&format!("{empty} A"), "+answer"), full(&[]));
        assert_eq!(ask(&format!("{empty} A"), "+authority"), full(&["@ SOA ns1.@ hostmaster.@ 1 30 60 2592000 30"]));
    }
    assert_eq!(status(&daemon, &format!("nova._openstack._tcp.{zone} SRV")), "NXDOMAIN");
    assert_eq!(status(&daemon, &format!("identity._openstack._tcp.{zone} A")), "NOERROR");
    let spelled = ask("IDENTITY._OpenStack._TCP SRV", "+answer");
    assert_eq!(spelled, full(&["IDENTITY._OpenStack._TCP.@ SRV 0 0 443 os.@"]));
}

#[test]
fn the_standalone_services_of_the_guideline_are_found() {
    let folder = Folder::new();
    let plan = "[zones.\"ironic.example\"]\nopenstack = [\n\
                { type = \"baremetal\", url = \"http://192.168.42.17/baremetal\" },\n\
                { type = \"baremetal-introspection\", url = \"http://192.168.42.17:5050\" },\n\
                { type = \"dns\", url = \"https://[2001:db8::17]:9001/\" },\n]\n";
    let daemon = Aggregator::start(&folder, plan);
    assert_eq!(urls(&daemon, "baremetal", "ironic.example"), ["http://192.168.42.17/baremetal"]);
    assert_eq!(urls(&daemon, "baremetal-introspection", "ironic.example"), ["http://192.168.42.17:5050/"]);
    assert_eq!(urls(&daemon, "dns", "ironic.example"), ["https://[2001:db8::17]:9001/"]);
    let text = dig(&daemon, "baremetal._openstack._tcp.ironic.example TXT", "+answer");
    assert!(text[0].ends_with("TXT \"txtvers=1\" \"protocol=http\" \"path=/baremetal\""), "{text:?}");
    let json = discover_with(&["baremetal", "ironic.example", "--json", "--server", &daemon.address().to_string()]).1;
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json["type"], &json["domain"]), (&"baremetal".into(), &"ironic.example.".into()));
    let endpoint = &json["endpoints"][0];
    assert_eq!((&endpoint["url"], &endpoint["port"]), (&"http://192.168.42.17/baremetal".into(), &80.into()));
}

#[test]
fn what_records_of_others_leave_out_has_its_default() {
    let folder = Folder::new();
    let plan = "[zones.\"odd.example\"]\nservices = '''\n\
                image._openstack._tcp SRV 0 0 8774 h.other.example.\nimage._openstack._tcp TXT \"txtvers=1\"\n\
                dns._openstack._tcp SRV 0 0 80 h.other.example.\n\
                event._openstack._tcp SRV 0 0 5050 h.other.example.\nevent._openstack._tcp TXT \"proto=http\"\n\
                alarm._openstack._tcp SRV 0 0 443 h.other.example.\nalarm._openstack._tcp TXT \"\"\n\
                backup._openstack._tcp SRV 0 0 0 .\n\
                rating._openstack._tcp SRV 0 0 443 h.other.example.\nrating._openstack._tcp TXT \"protocol=ftp\"\n'''\n";
    let daemon = Aggregator::start(&folder, plan);
    let found = |kind: &str| urls(&daemon, kind, "odd.example");
    assert_eq!(found("image"), ["https://h.other.example:8774/", "http://h.other.example:8774/"]);
    assert_eq!(found("dns"), ["http://h.other.example/"], "without a TXT record");
    assert_eq!(found("event"), ["http://h.other.example:5050/"]);
    assert_eq!(found("alarm"), ["https://h.other.example/"]);
    let (code, text) = discover(&daemon, "backup", "odd.example");
    assert!(code == 4 && text.contains("is offered nowhere"), "{code} {text}");
    let (code, text) = discover(&daemon, "rating", "odd.example");
    assert!(code == 1 && text.contains("protocol is \"ftp\""), "{code} {text}");
}

#[test]
fn an_endpoint_without_address_costs_the_others_nothing() {
    let folder = Folder::new();
    // Hosts whose names mean nothing in URLs, so that their addresses are asked for.
    let plan = "[zones.\"some.example\"]\nservices = '''\n\
                image._openstack._tcp SRV 0 0 80 lost_1\nimage._openstack._tcp SRV 1 0 80 there_1\n\
                there_1 A 192.0.2.7\ndns._openstack._tcp SRV 0 0 80 lost_1\n'''\n";
    let daemon = Aggregator::start(&folder, plan);
    let server = daemon.address().to_string();
    let run = |kind: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
        let command = command.args(["discover", "openstack", kind, "some.example", "--server", &server]);
        let output = command.output().expect("run aggregator");
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.code(), out, err)
    };
    let lost = "host lost_1.some.example. has no address\n";
    assert_eq!(run("image"), (Some(0), "http://192.0.2.7/\n".into(), format!("left out: {lost}")));
    assert_eq!(run("dns"), (Some(1), String::new(), lost.into()), "nothing is left");
}

#[test]
fn services_by_other_records_are_answered_as_they_are_written() {
    let folder = Folder::new();
    let plan = "[zones.\"some.example\"]\nservices = \"\"\"\n_dns.ns1 SVCB 1 ns1 port=8853 alpn=dot\n\
                www HTTPS 1 . alpn=\\\"h2,h3\\\" ipv6hint=2001:db8::1\nns1 A 192.0.2.1\n\"\"\"\n";
    let daemon = Aggregator::start(&folder, plan);
    let told =
        ["_dns.ns1.some.example SVCB", "www.some.example HTTPS"].map(|question| dig(&daemon, question, "+answer"));
    let expected = [
        "_dns.ns1.some.example. SVCB 1 ns1.some.example. alpn=\"dot\" port=8853",
        "www.some.example. HTTPS 1 . alpn=\"h2,h3\" ipv6hint=2001:db8::1",
    ];
    assert_eq!(told, expected.map(|line| vec![line.to_owned()]));
}

#[test]
fn exit_codes_tell_what_is_wrong() {
    let folder = Folder::new();
    let mut daemon = Aggregator::start(&folder, MYSTACK);
    let (code, text) = discover(&daemon, "dns", "mystack.example.com");
    assert_eq!((code, &text[..]), (4, "there is no dns._openstack._tcp.mystack.example.com."));
    let (code, text) = discover(&daemon, "identity", "other.example");
    assert!(code == 1 && text.ends_with("answers REFUSED"), "{code} {text}");
    let (code, text) = discover(&daemon, "keystone", "mystack.example.com");
    assert!(code == 2 && text.contains("write its service type, \"identity\""), "{code} {text}");
    let server = daemon.address().to_string();
    for wrong in
        [&["identity", "local", "--server", &server][..], &["identity", "a.b", "--interface", "lo"], &["identity"]]
    {
        assert_eq!(discover_with(wrong).0, 2, "{wrong:?}");
    }
    daemon.stop();
    let (code, text) = discover_with(&["identity", "mystack.example.com", "--server", &server, "--timeout", "1s"]);
    assert!(code == 1 && text.contains("does not answer"), "{code} {text}");
}

#[test]
fn many_endpoints_come_in_order_and_over_tcp_if_they_must() {
    let folder = Folder::new();
    let endpoints: String = (0..90)
        .map(|i| {
            format!(
                "{{ type = \"image\", url = \"https://glance-{i:02}.many.example/\", priority = {}, weight = {i} }},\n",
                i / 45
            )
        })
        .collect();
    let hosts: String = (0..90).map(|i| format!("glance-{i:02} A 192.0.2.{i}\n")).collect();
    let daemon = Aggregator::start(
        &folder,
        &format!("[zones.\"many.example\"]\nservices = '''\n{hosts}'''\nopenstack = [\n{endpoints}]\n"),
    );
    let expected = (0..45).rev().chain((45..90).rev()).map(|i| format!("https://glance-{i:02}.many.example/"));
    assert_eq!(urls(&daemon, "image", "many.example"), expected.collect::<Vec<_>>());
}

//--- Regions, changes, restarts ---

/// One datacenter's zone with an identity service of its own.
fn site(number: u8, path: &str) -> String {
    format!(
        "[zones.\"us-west-{number}.example\"]\nservices = \"os A 192.0.2.{number}\"\nserial = {number}\nopenstack = [\n\
         {{ type = \"identity\", url = \"https://os.us-west-{number}.example{path}\" }},\n\
         {{ type = \"compute\", url = \"https://os.us-west-{number}.example:8774/v2.1\" }} ]\n"
    )
}

#[test]
fn a_region_offers_what_its_datacenters_offer() {
    let folder = Folder::new();
    let region = "[aggregations.\"us-west.example\"]\nmembers = [\"us-west-1.example\", \"us-west-2.example\"]\n";
    let daemon = Aggregator::start(&folder, &format!("{}{}{region}", site(1, "/"), site(2, "/v3")));
    let zone = "us-west.example";
    let ask = |name: &str, rtype: &str| dig(&daemon, &format!("{name}.{zone} {rtype}"), "+answer");
    let ptr = |name: &str, target: &str| format!("{name}.{zone}. PTR {target}{zone}.");
    // Browsing stays in the region.
    let list = ["compute._openstack._tcp.", "identity._openstack._tcp."].map(|target| ptr("_openstack._tcp", target));
    assert_eq!(ask("_openstack._tcp", "PTR"), list);
    assert_eq!(ask("_services._dns-sd._udp", "PTR"), [ptr("_services._dns-sd._udp", "_openstack._tcp.")]);
    for domains in ["b", "db", "lb"] {
        let name = format!("{domains}._dns-sd._udp");
        assert_eq!(ask(&name, "PTR"), [ptr(&name, "")]);
    }
    // Both endpoints, one description: that of the first datacenter, and the other is reported.
    let srv = ask("identity._openstack._tcp", "SRV");
    assert_eq!(srv.len(), 2, "{srv:?}");
    let text = ask("identity._openstack._tcp", "TXT");
    assert!(text.len() == 1 && text[0].contains("\"path=/\""), "{text:?}");
    assert_eq!(ask("compute._openstack._tcp", "TXT").len(), 1);
    let told = daemon.verb(&["status", zone]).stdout;
    assert!(told.contains("service-text: us-west-2.example., 1 record dropped"), "{told}");
    assert_eq!(told.matches("service-text").count(), 1, "the same text twice is no conflict: {told}");
    let hosts = ["https://os.us-west-1.example:8774/v2.1", "https://os.us-west-2.example:8774/v2.1"];
    assert_eq!(urls(&daemon, "compute", zone), hosts);
    // The one description fits one of them; that of the other is its own datacenter's.
    let hosts = ["https://os.us-west-1.example/", "https://os.us-west-2.example/v3"];
    assert_eq!(urls(&daemon, "identity", zone), hosts);
    assert_eq!(dig(&daemon, &format!("_openstack._tcp.{zone} PTR"), "+additional").len(), 4 + 2 + 2, "SRV, TXT, A");
}

#[test]
fn a_reload_changes_the_zone_and_its_serial_and_a_restart_does_not() {
    let folder = Folder::new();
    let home = folder.subfolder("aggregator");
    let plan = |address: &str| {
        format!(
            "[secondaries]\nallow_transfer = \"127.0.0.1\"\n[zones.\"own.example\"]\nservices = \"a A {address}\"\n\
             [aggregations.\"region.example\"]\nmembers = [\"own.example\"]\nns = [\"ns1.test\"]\n"
        )
    };
    let mut settings = Settings::new(&plan("192.0.2.1"));
    settings.state = Some("state".into());
    let mut daemon = Aggregator::start_with(&home, &settings);
    let mut client = Client::new(daemon.address());
    let (own, region) = (Dname::parse("own.example."), Dname::parse("region.example."));
    let first = client.serial(&own).expect("a serial");
    assert_eq!(client.serial(&region), Some(first));
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    assert_eq!(client.serial(&own), Some(first), "nothing has changed");

    settings.plan = plan("192.0.2.2");
    daemon.write_settings(&settings);
    let told = daemon.verb(&["reload"]);
    assert!(told.stdout.contains("transfers changed own.example."), "{}", told.stdout);
    assert_eq!(client.serial(&own), Some(first + 1));
    assert_eq!(client.serial(&region), Some(first + 1));
    assert_eq!(dig(&daemon, "a.region.example A", "+answer"), ["a.region.example. A 192.0.2.2"]);
    let changes = daemon.verb(&["diff", "own.example"]).stdout;
    assert!(changes.contains("192.0.2.1") && changes.contains("192.0.2.2"), "{changes}");
    let told = daemon.verb(&["status", "own.example"]).stdout;
    assert!(told.contains(&format!("history from serial {first}: 1 version,")), "{told}");
    assert_eq!(client.transfer(&own).expect("a transfer").len(), 3);

    daemon.kill_and_restart(|| ());
    let mut client = Client::new(daemon.address());
    assert_eq!(client.serial(&own), Some(first + 1), "from the state folder");
    assert_eq!(client.serial(&region), Some(first + 1));
    // What changes while the server is down moves the serial as well.
    settings.plan = plan("192.0.2.3");
    let written = settings.clone();
    let path = daemon.configuration().to_path_buf();
    let text = std::fs::read_to_string(&path).unwrap().replace("192.0.2.2", "192.0.2.3");
    daemon.kill_and_restart(|| write_file(&path, &text));
    let mut client = Client::new(daemon.address());
    assert_eq!(client.serial(&own), Some(first + 2));
    assert_eq!(dig(&daemon, "a.own.example A", "+answer"), ["a.own.example. A 192.0.2.3"]);
    daemon.write_settings(&written);
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    assert_eq!(client.serial(&own), Some(first + 2));
    let told = daemon.verb(&["status", "own.example"]).stdout;
    assert!(told.contains("made of the configuration"), "{told}");
    let told = daemon.verb(&["lookup", "a.region.example"]).stdout;
    assert!(told.contains("own.example. ok") && told.contains("made of the configuration"), "{told}");
    assert!(daemon.verb(&["refresh", "own.example"]).stdout.contains("\"aggregator reload\" reads it again"));
}

#[test]
fn a_zone_may_change_hands() {
    let folder = Folder::new();
    let zone = Dname::parse("hands.example.");
    let text = "$ORIGIN hands.example.\n$TTL 30\n@ SOA ns h 4000000000 30 60 600 30\n@ NS ns\nns A 192.0.2.53\na A 192.0.2.1\n";
    let primary = Knotd::start(&folder, &[(zone.clone(), text.to_string())]);
    let from_primary = format!("[zones]\n\"hands.example\" = \"{}\"\n", primary.address());
    let daemon = Aggregator::start(&folder, &from_primary);
    let mut client = Client::new(daemon.address());
    wait_until("the zone is transferred", PATIENCE, || client.serial(&zone));
    daemon.write_plan("[zones.\"hands.example\"]\nservices = \"a A 192.0.2.7\"\n");
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    assert_eq!(dig(&daemon, "a.hands.example A", "+answer"), ["a.hands.example. A 192.0.2.7"]);
    assert_eq!(client.serial(&zone), Some(4_000_000_001), "secondaries follow");
    daemon.write_plan(&from_primary);
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    // What is served stays until the primary is ahead, or is believed.
    assert_eq!(daemon.verb(&["retransfer", "hands.example", "--accept"]).code, 0);
    assert_eq!(dig(&daemon, "a.hands.example A", "+answer"), ["a.hands.example. A 192.0.2.1"]);
}

//--- The local link ---

/// Announces services on loopback until it is dropped.
fn announce(folder: &Folder, services: &[(&str, &str)]) -> Process {
    let mut process = start_announcer(folder, "announce", services);
    process.wait_ready("announces", PATIENCE, || announces(folder, "announce", services).then_some(()));
    process
}

/// Returns true if an announcer's log says that it announces these services.
fn announces(folder: &Folder, name: &str, services: &[(&str, &str)]) -> bool {
    let log = log_of(folder, name);
    services.iter().all(|(kind, _)| log.contains(&format!("service=\"{kind}.")))
}

/// Returns the log of an announcer.
fn log_of(folder: &Folder, name: &str) -> String {
    std::fs::read_to_string(folder.path().join(name).join("log")).unwrap_or_default()
}

/// Starts an announcer of services on loopback.
fn start_announcer(folder: &Folder, name: &str, services: &[(&str, &str)]) -> Process {
    let home = folder.subfolder(name);
    let configuration = home.join("config.toml");
    let tables: String = services
        .iter()
        .map(|(kind, url)| format!("[[zones.\"z.example\".openstack]]\ntype = \"{kind}\"\nurl = \"{url}\"\n"))
        .collect();
    write_file(&configuration, &format!("[server]\nname = \"ns.test\"\n{tables}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
    command.args(["announce", "--interface", "lo", "-c"]).arg(&configuration);
    Process::start("announce", &mut command, &home.join("log"))
}

#[test]
fn what_is_announced_is_found_on_the_link_until_it_ends() {
    let folder = Folder::new();
    let services = [("reservation", "http://127.0.0.1/reservation"), ("workflow", "http://127.0.0.1:5050")];
    let mut announcer = announce(&folder, &services);
    let find = |kind: &str, patience: &str| discover_with(&[kind, "local", "--interface", "lo", "--timeout", patience]);
    assert_eq!(find("reservation", "10s"), (0, "http://127.0.0.1/reservation".into()));
    assert_eq!(find("workflow", "10s"), (0, "http://127.0.0.1:5050/".into()));
    let (code, text) = find("messaging", "1s");
    assert!(code == 4 && text.contains("nobody on the link offers messaging._openstack._tcp.local."), "{code} {text}");
    let ended = announcer.stop(Duration::from_secs(10)).expect("it ends within ten seconds");
    assert!(ended.success(), "{}", announcer.log_text());
    assert_eq!(find("reservation", "1s").0, 4, "it was taken back");
}

#[test]
fn one_name_is_announced_by_one_host_and_by_the_other_when_that_is_gone() {
    let folder = Folder::new();
    let (first, second) = ([("key-manager", "http://127.0.0.1/one")], [("key-manager", "http://127.0.0.1/two")]);
    let mut owner = announce(&folder, &first);
    // What nobody else has is not held back.
    let rivals = [second[0], ("rating", "http://127.0.0.1/rating")];
    let mut rival = start_announcer(&folder, "rival", &rivals);
    let refused = "another host announces key-manager; not announced";
    rival.wait_ready("tells of the other", PATIENCE, || log_of(&folder, "rival").contains(refused).then_some(()));
    rival.wait_ready("announces the other", PATIENCE, || announces(&folder, "rival", &rivals[1..]).then_some(()));
    let find = |kind: &str| discover_with(&[kind, "local", "--interface", "lo", "--timeout", "10s"]);
    assert_eq!(find("key-manager"), (0, "http://127.0.0.1/one".into()));
    assert_eq!(find("rating"), (0, "http://127.0.0.1/rating".into()));
    assert!(!announces(&folder, "rival", &second), "{}", rival.log_text());
    assert!(owner.stop(Duration::from_secs(10)).expect("it ends within ten seconds").success());
    // Its pause after a conflict is ten seconds.
    rival.wait_ready("announces its own", 2 * PATIENCE, || announces(&folder, "rival", &second).then_some(()));
    assert_eq!(find("key-manager"), (0, "http://127.0.0.1/two".into()));
    assert!(rival.stop(Duration::from_secs(10)).expect("it ends within ten seconds").success());
    let log = rival.log_text();
    assert_eq!(log.matches(refused).count(), 1, "{log}");
}

#[test]
fn of_two_that_begin_at_once_one_announces() {
    let folder = Folder::new();
    let offers = ["one", "two"].map(|name| [("search", format!("http://127.0.0.1/{name}"))]);
    let mut both = ["one", "two"].map(|name| {
        let [(kind, url)] = &offers[usize::from(name == "two")];
        start_announcer(&folder, name, &[(kind, url)])
    });
    let service = [("search", "")];
    let winner = wait_until("one of them announces", PATIENCE, || {
        (0..2).find(|index| announces(&folder, ["one", "two"][*index], &service))
    });
    let loser = ["two", "one"][winner];
    let refused = "another host announces search; not announced";
    both[1 - winner]
        .wait_ready("tells of the other", PATIENCE, || log_of(&folder, loser).contains(refused).then_some(()));
    let found = discover_with(&["search", "local", "--interface", "lo", "--timeout", "10s"]);
    assert_eq!(found, (0, offers[winner][0].1.clone()));
    assert!(!announces(&folder, loser, &service), "{}", log_of(&folder, loser));
}

#[test]
fn what_cannot_be_announced_is_told() {
    let folder = Folder::new();
    let configuration = folder.path().join("config.toml");
    let run = |zones: &str, arguments: &[&str]| {
        write_file(&configuration, &format!("[server]\nname = \"ns.test\"\n{zones}"));
        let output = run_verb(&[&["announce"], arguments].concat(), &configuration);
        (output.code, output.stderr)
    };
    let zone = |name: &str, url: &str| format!("[[zones.\"{name}\".openstack]]\ntype = \"dns\"\nurl = \"{url}\"\n");
    for (zones, arguments, code, expected) in [
        ("[zones.\"a.b\"]\nservices = \"\"\n".to_string(), &[][..], 2, "there is nothing to announce"),
        (zone("a.b", "https://os.other/"), &[], 1, "dns is at os.other., which has no address in zone a.b."),
        (
            [zone("a.b", "http://127.0.0.1/"), zone("c.d", "http://127.0.0.1/")].concat(),
            &[],
            1,
            "zones a.b. and c.d. both have dns",
        ),
        (zone("a.b", "http://127.0.0.1/"), &["--interface", "nothere0"], 1, "no such interface: nothere0"),
        (zone("a.b", "http://127.0.0.1/"), &["--json"], 2, "--json means nothing to this verb"),
    ] {
        let (found, text) = run(&zones, arguments);
        assert!(found == code && text.contains(expected), "{found} {text}");
    }
}

//--- The document ---

#[test]
fn the_configuration_of_the_document_loads() {
    let document = repository_text("docs/dns-sd.md");
    let text = document.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a configuration");
    let folder = Folder::new();
    let daemon = Aggregator::start(&folder, text);
    assert_eq!(urls(&daemon, "identity", "mystack.example.com"), ["https://os.mystack.example.com/"]);
    assert_eq!(urls(&daemon, "baremetal", "mystack.example.com"), ["http://192.168.42.17/baremetal"]);
}
