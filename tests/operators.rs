//! Orders over HTTPS: who may give them, drains and pins as things that are put and deleted, and the verbs of the command line
//! at servers elsewhere, over HTTPS and by a real SSH server. The client is curl.

mod described;
mod harness;

use described::{assert_valid, description};
use harness::{
    Aggregator, Client, Dname, Folder, Knotd, Output, Peer, Port, Process, Query, Settings, found, program_path, rtype,
    sign, wait_until, write_file,
};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

const PATIENCE: Duration = Duration::from_secs(30);
const REGION: &str = "west.test";

/// Certificates of all who come here.
fn make_certificates(home: &Path) {
    for authority in ["ca", "stranger"] {
        found(home, authority);
    }
    sign(home, "ca", "server", "DNS:localhost,IP:127.0.0.1,IP:::1");
    for (authority, name) in [("ca", "ops"), ("ca", "guest"), ("stranger", "forger")] {
        // Whoever forges has the right name.
        let named = if name == "forger" { "ops" } else { name };
        sign(home, authority, name, &format!("DNS:{named}.test"));
        let both = ["pem", "key"].map(|kind| std::fs::read_to_string(home.join(format!("{name}.{kind}"))).unwrap());
        write_file(&home.join(format!("{name}.both")), &both.concat());
    }
}

/// Two datacenters, their region, and orders over HTTPS.
struct Bench {
    home: PathBuf,
    folder: Folder,
    _primary: Peer,
    daemon: Aggregator,
    https: SocketAddr,
}

/// A zone of a datacenter.
fn zone_text(number: u8, serial: u32) -> String {
    format!(
        "$ORIGIN dc{number}.test.\n$TTL 30\n@ IN SOA ns h {serial} 3600 600 86400 30\n@ IN NS ns.elsewhere.\n\
         web.svc IN A 192.0.2.{number}\nonly{number}.svc IN A 192.0.2.{number}\nat-{serial} IN A 192.0.2.9\n"
    )
}

/// The configuration behind `[log]`.
fn plan(primary: &Peer, https: SocketAddr, operator: &str) -> String {
    let address = primary.address();
    format!(
        "[control.https]\nlisten = \"{https}\"\ncertificate = \"server.pem\"\nkey = \"server.key\"\nclient_ca = \"ca.pem\"\n\
         operators = [\"nobody.test\", \"{operator}\"]\n\
         [transfer]\nrefresh_min = \"1s\"\nrefresh_max = \"1s\"\nretry_min = \"200ms\"\nretry_max = \"1s\"\n\
         [zones]\n\"dc1.test\" = \"{address}\"\n\"dc2.test\" = \"{address}\"\n\
         [aggregations.\"{REGION}\"]\nmembers = [\"dc1.test\", \"dc2.test\"]\n"
    )
}

impl Bench {
    fn start() -> Bench {
        let folder = Folder::new();
        let home = folder.subfolder("aggregator");
        make_certificates(&home);
        let zones = [1, 2].map(|number| (Dname::parse(&format!("dc{number}.test")), zone_text(number, 1)));
        let primary = Knotd::start(&folder, &zones);
        let mut port = Port::reserve();
        let https = port.address();
        port.release();
        let settings =
            Settings { state: Some("state".to_owned()), ..Settings::new(&plan(&primary, https, "ops.test")) };
        let daemon = Aggregator::start_with(&home, &settings);
        let bench = Bench { home, folder, _primary: primary, daemon, https };
        let mut client = Client::new(bench.daemon.address());
        wait_until("the region is there", PATIENCE, || (bench.addresses(&mut client).len() == 2).then_some(()));
        bench
    }

    /// The addresses that clients get of the service that both datacenters have.
    fn addresses(&self, client: &mut Client) -> Vec<String> {
        let query = Query::new(&Dname::parse(&format!("web.svc.{REGION}")), rtype::A);
        let Ok(answer) = client.ask(&query) else { return Vec::new() };
        let mut addresses: Vec<String> = answer.answer.iter().map(|record| record.to_string()).collect();
        addresses.sort();
        addresses
    }

    /// Asks with curl, with the certificate of somebody; the status, and the body.
    fn ask_as(&self, who: Option<&str>, method: &str, path: &str, body: Option<(&str, &str)>) -> (u16, String) {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "20", "--cacert", "ca.pem", "-w", "\n%{http_code}", "-X", method]);
        if let Some(who) = who {
            curl.args(["--cert", &format!("{who}.pem"), "--key", &format!("{who}.key")]);
        }
        if let Some((media_type, body)) = body {
            curl.args(["-H", &format!("Content-Type: {media_type}"), "--data-binary", body]);
        }
        curl.arg(format!("https://localhost:{}{path}", self.https.port())).current_dir(&self.home);
        let output = curl.output().unwrap_or_else(|error| panic!("curl is missing ({error}); run make test"));
        let text = String::from_utf8(output.stdout).expect("text");
        let (body, status) = text.rsplit_once('\n').expect("a status");
        (status.parse().expect("a number"), body.to_owned())
    }

    /// Asks as the operator does.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, String) {
        let body = body.map(Value::to_string);
        self.ask_as(Some("ops"), method, path, body.as_deref().map(|body| ("application/json", body)))
    }

    /// The region's serial.
    fn serial(&self, client: &mut Client) -> u32 {
        client.serial(&Dname::parse(REGION)).expect("a serial")
    }

    /// Runs a verb without a server here, as on another machine.
    fn afar(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
        command.args(arguments).current_dir(&self.home).env_remove("AGGREGATOR_CONFIG_FILE");
        command.env("AGGREGATOR_IDENTITY", "ops.both").env("AGGREGATOR_CA", "ca.pem");
        Output::of(&command.output().expect("it runs"))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs()
}

#[test]
fn only_operators_give_orders_and_each_is_in_the_log() {
    let bench = Bench::start();
    let json = |body: &'static str| Some(("application/json", body));
    // Nobody gets in without a certificate of the authority; one with another name is told.
    assert_eq!(bench.ask_as(None, "GET", "/api/v1/status", None).0, 0);
    assert_eq!(bench.ask_as(Some("forger"), "GET", "/api/v1/status", None).0, 0);
    for path in ["/api/v1/status", "/metrics", "/"] {
        let (status, body) = bench.ask_as(Some("guest"), "GET", path, None);
        assert!(status == 403 && body.contains("none of the names in \"operators\""), "{path}: {status} {body}");
    }
    assert_eq!(bench.ask_as(Some("guest"), "POST", "/api/v1/orders", json("{\"verb\":\"reload\"}")).0, 403);

    // An operator reads all that there is, and orders what the socket takes.
    for path in ["/", "/metrics", "/healthz", "/readyz", "/api/v1/status", "/api/v1/zones", "/api/v1/openapi.json"] {
        assert_eq!(bench.ask("GET", path, None).0, 200, "{path}");
    }
    let document = description();
    let order = |request: Value, wanted: u16| {
        let schema =
            &document["paths"]["/api/v1/orders"]["post"]["requestBody"]["content"]["application/json"]["schema"];
        let mut schema = schema.clone();
        schema["components"] = description()["components"].clone();
        let (status, body) = bench.ask("POST", "/api/v1/orders", Some(&request));
        assert_eq!(status, wanted, "{request}: {body}");
        let reply = assert_valid(&document, "post", "/api/v1/orders", status, &body);
        if wanted != 400 {
            let validator = jsonschema::draft202012::new(&schema).expect("a schema");
            let errors: Vec<String> = validator.iter_errors(&request).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{request}: {errors:?}");
        }
        reply
    };
    let status = order(json!({ "verb": "status", "zone": REGION }), 200);
    assert_eq!((&status["ok"], &status["data"]["regions"][0]["region"]), (&json!(true), &json!("west.test.")));
    assert_eq!(order(json!({ "verb": "reload" }), 200)["ok"], true);
    assert_eq!(order(json!({ "verb": "refresh", "zone": "dc1.test" }), 200)["ok"], true);
    assert_eq!(order(json!({ "verb": "retransfer", "zone": "dc1.test" }), 200)["ok"], true);
    let failed = order(json!({ "verb": "retransfer", "zone": "none.test" }), 409);
    assert!(failed["text"].as_str().unwrap().contains("is not configured"), "{failed}");
    assert!(order(json!({ "verb": "dump", "zone": "dc2.test" }), 200)["text"].as_str().unwrap().contains("web.svc"));
    for (request, why) in [
        (json!({ "verb": "stop" }), "service manager"),
        (json!({ "verb": "reload", "refused": "by nobody" }), "only those who write"),
        (json!({ "verb": "forecast", "file": "/etc/shadow" }), "at the control socket only"),
    ] {
        assert!(order(request, 403)["error"].as_str().unwrap().contains(why), "{why}");
    }
    order(json!({ "verb": "dance" }), 400);
    // A page elsewhere can have a browser send a form, and never JSON.
    for media_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let sent = Some((media_type, "{\"verb\":\"reload\"}"));
        assert_eq!(bench.ask_as(Some("ops"), "POST", "/api/v1/orders", sent).0, 415, "{media_type}");
    }
    assert_eq!(bench.ask_as(Some("ops"), "OPTIONS", "/api/v1/orders", None).0, 405);
    assert_eq!(bench.ask("GET", "/api/v1/orders", None).0, 405);
    let long = format!("{{\"verb\":\"status\",\"zone\":\"{}\"}}", "a".repeat(70_000));
    write_file(&bench.home.join("long"), &long);
    assert_eq!(bench.ask_as(Some("ops"), "POST", "/api/v1/orders", Some(("application/json", "@long"))).0, 413);
    let log = bench.daemon.log_text();
    let ordered = |verb: &str| {
        log.lines()
            .any(|line| line.contains("order over HTTPS") && line.contains("operator=ops.test") && line.contains(verb))
    };
    assert!(ordered("reload") && ordered("retransfer") && !ordered("\"status\""), "{log}");
    assert!(log.contains("an operator was not let in"), "{log}");

    // Over HTTP there is none of this.
    for path in ["/api/v1/drains", "/api/v1/pins", "/api/v1/orders"] {
        assert_eq!(bench.daemon.http(path).0, 404, "{path}");
        assert_eq!(bench.daemon.http_as("POST", path, "localhost").0, 405, "{path}");
    }
    // The page may be off, and its API stays for operators.
    let text = std::fs::read_to_string(bench.daemon.configuration()).unwrap();
    std::fs::write(bench.daemon.configuration(), text.replace("[metrics]\n", "[metrics]\npage = false\n")).unwrap();
    assert_eq!(bench.daemon.verb(&["reload"]).code, 0);
    assert_eq!(bench.daemon.http("/api/v1/status").0, 404);
    assert_eq!(bench.ask("GET", "/api/v1/status", None).0, 200);
    // Who is named no more is let in no more, from the next request on.
    std::fs::write(bench.daemon.configuration(), text.replace("\"ops.test\"", "\"guest.test\"")).unwrap();
    assert_eq!(bench.daemon.verb(&["reload"]).code, 0);
    assert_eq!(bench.ask("GET", "/api/v1/status", None).0, 403);
    assert_eq!(bench.ask_as(Some("guest"), "GET", "/api/v1/status", None).0, 200);
    // And without the section nobody listens.
    let (before, rest) = text.split_once("[control.https]").expect("the section");
    let (_, after) = rest.split_once("[transfer]").expect("the next one");
    std::fs::write(bench.daemon.configuration(), format!("{before}[transfer]{after}")).unwrap();
    assert_eq!(bench.daemon.verb(&["reload"]).code, 0);
    assert_eq!(bench.ask_as(Some("guest"), "GET", "/api/v1/status", None).0, 0);
}

#[test]
fn drains_and_pins_are_as_they_are_put() {
    let bench = Bench::start();
    let document = description();
    let mut client = Client::new(bench.daemon.address());
    let ask = |method: &str, template: &str, path: &str, body: Option<Value>, wanted: u16| {
        let (status, text) = bench.ask(&method.to_uppercase(), path, body.as_ref());
        assert_eq!(status, wanted, "{method} {path}: {text}");
        if status == 204 {
            assert_eq!(text, "");
            return Value::Null;
        }
        assert_valid_unless_dry(&document, method, template, path, status, &text)
    };
    let drain = |method: &str, target: &str, body: Option<Value>, wanted: u16| {
        ask(method, "/api/v1/drains/{member}", &format!("/api/v1/drains/{target}"), body, wanted)
    };
    let drains = || ask("get", "/api/v1/drains", "/api/v1/drains", None, 200)["drains"].as_array().unwrap().clone();
    let both = bench.addresses(&mut client);
    let before = bench.serial(&mut client);

    // A preview changes nothing.
    let preview = drain("put", "dc1?dry_run=true", Some(json!({})), 200);
    assert_eq!((&preview["done"], drains().len()), (&json!(false), 0), "{preview}");
    assert_eq!(bench.serial(&mut client), before);
    let put = drain("put", "dc1", Some(json!({ "reason": "disks" })), 201);
    assert_eq!((&put["member"], &put["reason"], &put["until"]), (&json!("dc1.test."), &json!("disks"), &json!(null)));
    wait_until("dc1 is drained", PATIENCE, || (bench.addresses(&mut client).len() == 1).then_some(()));
    let drained = bench.serial(&mut client);
    assert_ne!(drained, before);
    // The same once more is the same drain, and no other version.
    assert_eq!(drain("put", "dc1.test", Some(json!({ "reason": "disks" })), 200), put);
    assert_eq!(drain("get", "dc1.test.", None, 200), put);
    assert_eq!(bench.serial(&mut client), drained);
    assert_eq!(drains(), std::slice::from_ref(&put));
    // Another wish for the same target takes its place.
    let until = now() + 3600;
    let put = drain("put", "dc1", Some(json!({ "share_percent": 50, "until": until })), 200);
    assert_eq!((&put["share_percent"], &put["until"]), (&json!(50), &json!(until)));
    assert_eq!(drains().len(), 1);
    drain("put", "dc1", Some(json!({})), 200);
    // What would leave the region without anything is refused, unless it is forced.
    let refused = drain("put", "dc2", Some(json!({})), 409);
    assert!(refused["error"].as_str().unwrap().contains("would be left without any data"), "{refused}");
    drain("put", "dc2", Some(json!({ "force": true })), 201);
    drain("delete", "dc2", None, 204);
    // Drains of one member with other targets are others.
    drain("put", "dc2?names=only2.svc", Some(json!({})), 201);
    drain("put", &format!("dc2?names=only2.svc&region={REGION}"), Some(json!({})), 201);
    assert_eq!(drains().len(), 3);
    drain("get", "dc2", None, 404);
    drain("delete", "dc2", None, 204);
    assert_eq!(drains().len(), 3, "the whole member was not drained");
    drain("delete", "dc2?names=only2.svc&dry_run=true", None, 200);
    drain("delete", "dc2?names=only2.svc", None, 204);
    let left = drains();
    assert_eq!(left.len(), 2);
    assert!(left.iter().any(|drain| drain["region"] == "west.test."), "{left:?}");
    drain("delete", &format!("dc2?names=only2.svc&region={REGION}"), None, 204);
    drain("delete", "dc1", None, 204);
    drain("delete", "dc1", None, 204);
    drain("get", "dc1", None, 404);
    wait_until("both are back", PATIENCE, || (bench.addresses(&mut client) == both).then_some(()));
    // Mistakes.
    for (target, body, status) in [
        ("dc9", json!({}), 404),
        ("dc1?region=none.test", json!({}), 404),
        ("dc1", json!({ "share_percent": 100 }), 400),
        ("dc1", json!({ "share": 10 }), 400),
        ("dc1", json!({ "until": 1 }), 400),
        ("dc1", json!({ "until": now() + 400_000_000 }), 400),
        ("dc1?dry_run=perhaps", json!({}), 400),
    ] {
        drain("put", target, Some(body), status);
    }
    assert!(drains().is_empty());

    // Pins.
    let pin = |method: &str, path: &str, body: Option<Value>, wanted: u16| {
        ask(method, "/api/v1/pins/{region}", &format!("/api/v1/pins/{path}"), body, wanted)
    };
    let pins = || ask("get", "/api/v1/pins", "/api/v1/pins", None, 200)["pins"].as_array().unwrap().clone();
    let history = bench.ask("GET", &format!("/api/v1/zones/{REGION}/history"), None).1;
    let history: Value = serde_json::from_str(&history).expect("JSON");
    let versions = history["versions"].as_array().expect("versions");
    let old = versions.iter().filter_map(|version| version["from"].as_u64()).next_back().expect("an old version");
    pin("get", REGION, None, 404);
    assert_eq!(pin("put", &format!("{REGION}?dry_run=true"), Some(json!({ "to": old })), 200)["done"], false);
    assert!(pins().is_empty());
    let put = pin("put", REGION, Some(json!({ "to": old, "reason": "a mistake" })), 201);
    assert_eq!((&put["region"], &put["to"], &put["reason"]), (&json!("west.test."), &json!(old), &json!("a mistake")));
    let pinned = bench.serial(&mut client);
    assert_eq!(pin("put", REGION, Some(json!({ "to": old, "reason": "a mistake" })), 200), put);
    assert_eq!((pin("get", REGION, None, 200), bench.serial(&mut client)), (put.clone(), pinned));
    assert_eq!(pins(), [put]);
    pin("put", REGION, Some(json!({ "to": 77 })), 409);
    pin("put", "none.test", Some(json!({ "to": old })), 404);
    pin("put", REGION, Some(json!({ "from": old })), 400);
    pin("delete", &format!("{REGION}?dry_run=true"), None, 200);
    assert_eq!(pins().len(), 1);
    pin("delete", REGION, None, 204);
    pin("delete", REGION, None, 204);
    pin("delete", "dc1.test", None, 404);
    assert!(pins().is_empty());
}

/// Compares with the description what is not a preview, which has the data of the verb.
fn assert_valid_unless_dry(
    document: &Value,
    method: &str,
    template: &str,
    path: &str,
    status: u16,
    text: &str,
) -> Value {
    if path.contains("dry_run=true") && status == 200 {
        return serde_json::from_str(text).expect("JSON");
    }
    assert_valid(document, method, template, status, text)
}

#[test]
fn verbs_reach_servers_elsewhere_over_https() {
    let bench = Bench::start();
    let url = format!("https://localhost:{}", bench.https.port());
    let there = bench.afar(&["--remote", &url, "status"]);
    assert_eq!(
        (there.code, &there.stdout.lines().next()),
        (0, &bench.daemon.verb(&["status"]).stdout.lines().next()),
        "{there:?}"
    );
    let drained = bench.afar(&["drain", "dc1", "--yes", "--remote", &url]);
    assert!(drained.code == 0 && drained.stdout.contains("drained; "), "{drained:?}");
    let mut client = Client::new(bench.daemon.address());
    wait_until("dc1 is drained", PATIENCE, || (bench.addresses(&mut client).len() == 1).then_some(()));
    assert_eq!(bench.afar(&["undrain", "dc1", "--remote", &url]).code, 0);
    let dumped = bench.afar(&["dump", "dc2.test", "--remote", &url]);
    assert_eq!(dumped.stdout, bench.daemon.verb(&["dump", "dc2.test"]).stdout);
    for verb in
        [&["reload"][..], &["reload", "--dry-run"], &["refresh"], &["retransfer", "dc1.test"], &["lookup", "dc1.test"]]
    {
        let output = bench.afar(&[verb, &["--remote", &url]].concat());
        assert_eq!(output.code, 0, "{verb:?}: {output:?}");
    }
    // What goes wrong is told, with the exit codes of the socket.
    let refused = bench.afar(&["undrain", "dc1", "--remote", &url]);
    assert!(refused.code == 1 && refused.stderr.contains("has no such drain"), "{refused:?}");
    let stop = bench.afar(&["stop", "--remote", &url]);
    assert!(stop.code == 2 && stop.stderr.contains("--remote means nothing"), "{stop:?}");
    let nobody = bench.afar(&["status", "--remote", &format!("https://{}", Port::reserve().release())]);
    assert!(nobody.code == 3 && nobody.stderr.contains("cannot connect"), "{nobody:?}");
    let guest = bench.afar(&["status", "--remote", &url, "--identity", "guest.both"]);
    assert!(guest.code == 1 && guest.stderr.contains("403") && guest.stderr.contains("none of the names"), "{guest:?}");
    let forger = bench.afar(&["status", "--remote", &url, "--identity", "forger.both"]);
    assert!(forger.code == 1 && forger.stderr.contains("UnknownCA"), "{forger:?}");
    let distrusted = bench.afar(&["status", "--remote", &url, "--ca", "stranger.pem"]);
    assert!(distrusted.code == 1 && distrusted.stderr.contains("no TLS"), "{distrusted:?}");
    for identity in ["ops.pem", "ca.srl", "absent"] {
        let broken = bench.afar(&["status", "--remote", &url, "--identity", identity]);
        assert!(broken.code == 1 && !broken.stderr.is_empty(), "{identity}: {broken:?}");
    }
    let plain = bench.afar(&["status", "--remote", &url.replace("https", "http")]);
    assert!(plain.code == 1 && plain.stderr.contains("is no URL of HTTPS"), "{plain:?}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
    command.args(["status", "--remote", &url]).env_remove("AGGREGATOR_IDENTITY").env_remove("AGGREGATOR_CONFIG_FILE");
    let unknown = Output::of(&command.output().expect("it runs"));
    assert!(unknown.code == 2 && unknown.stderr.contains("--identity FILE"), "{unknown:?}");
}

/// An SSH server at which `aggregator` is this program, and the configuration of a client for it.
struct Sshd {
    _process: Process,
    client: PathBuf,
}

impl Sshd {
    fn start(folder: &Folder, configuration: &Path) -> Sshd {
        let home = folder.subfolder("sshd");
        for name in ["host", "user"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", name])
                .current_dir(&home)
                .status();
            assert!(made.expect("ssh-keygen is missing; run make test").success());
        }
        let bin = folder.subfolder("bin");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_aggregator"), bin.join("aggregator")).unwrap();
        std::fs::create_dir_all("/run/sshd").expect("a folder of the SSH server");
        let mut port = Port::reserve();
        let address = port.address();
        port.release();
        let place = home.display();
        // As it comes, but for where it listens, and which program it finds.
        write_file(
            &home.join("sshd.conf"),
            &format!(
                "ListenAddress {address}\nHostKey {place}/host\nPidFile none\nStrictModes no\n\
                 AuthorizedKeysFile {place}/user.pub\nPermitRootLogin prohibit-password\n\
                 SetEnv PATH={}:/usr/bin:/bin AGGREGATOR_CONFIG_FILE={}\n",
                bin.display(),
                configuration.display()
            ),
        );
        std::fs::set_permissions(home.join("user"), std::fs::Permissions::from_mode(0o600)).unwrap();
        let client = home.join("ssh.conf");
        write_file(
            &client,
            &format!(
                "Host ns1 ns2\n HostName {}\n Port {}\n User root\n IdentityFile {place}/user\n BatchMode yes\n\
                 StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n LogLevel ERROR\n\
                 Host away\n HostName {}\n Port {}\n BatchMode yes\n LogLevel ERROR\n",
                address.ip(),
                address.port(),
                address.ip(),
                Port::reserve().release().port()
            ),
        );
        let mut command = Command::new(program_path("sshd"));
        command.args(["-D", "-e", "-f"]).arg(home.join("sshd.conf"));
        let mut process = Process::start("sshd", &mut command, &home.join("sshd.log"));
        process.wait_ready("takes connections", PATIENCE, || std::net::TcpStream::connect(address).ok().map(drop));
        Sshd { _process: process, client }
    }
}

#[test]
fn verbs_run_at_a_whole_fleet() {
    let bench = Bench::start();
    let ssh = Sshd::start(&bench.folder, bench.daemon.configuration());
    let url = format!("https://localhost:{}", bench.https.port());
    let fleet = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
        command.args(arguments).current_dir(&bench.home).env_remove("AGGREGATOR_CONFIG_FILE");
        command.env("AGGREGATOR_IDENTITY", "ops.both").env("AGGREGATOR_CA", "ca.pem");
        command.env("AGGREGATOR_SSH", format!("ssh -F {}", ssh.client.display()));
        Output::of(&command.output().expect("it runs"))
    };
    // Everywhere at once, in the order of the hosts.
    let status = fleet(&["--on", &format!("ns1,{url}"), "status", REGION]);
    assert_eq!(status.code, 0, "{status:?}");
    let places: Vec<&str> = status.stdout.lines().filter(|line| line.starts_with("== ")).collect();
    assert_eq!(places, ["== ns1", &format!("== {url}")]);
    assert_eq!(status.stdout.matches("region west.test.").count(), 2, "{status:?}");
    let told = fleet(&["status", "--json", "--on", "ns1", "--on", &url, "--on=away"]);
    let told_of: Value = serde_json::from_str(&told.stdout).unwrap_or_else(|_| panic!("{told:?}"));
    assert_eq!(told_of["ns1"]["regions"], told_of[&url]["regions"], "{told_of:#}");
    assert!(told.code != 0 && told_of["away"]["error"].as_str().unwrap().contains("refused"), "{told:?}");
    // One after the other, with what a shell would take for its own.
    let reason = "it's $(broken); \"*\"";
    let drained = fleet(&["drain", "dc1", "--yes", "--reason", reason, "--on", &format!("ns1,{url}")]);
    assert!(drained.code == 0 && drained.stdout.matches("drained; ").count() == 2, "{drained:?}");
    let drains: Value = serde_json::from_str(&bench.ask("GET", "/api/v1/drains", None).1).expect("JSON");
    assert_eq!(drains["drains"][0]["reason"], reason, "{drains}");
    // The first failure ends it, before it meets the others.
    let undrained = fleet(&["undrain", "dc1", "--on", &format!("ns1,ns2,{url}")]);
    assert_eq!(undrained.code, 1, "{undrained:?}");
    let end = format!("undrain failed at ns2; done at: ns1; not tried: {url}");
    assert!(undrained.stderr.contains(&end) && undrained.stderr.contains("has no such drain"), "{undrained:?}");
    let stopped = fleet(&["reload", "--on", &format!("away,{url}")]);
    assert!(
        stopped.code != 0 && stopped.stderr.contains("reload failed at away; done at: none; not tried: "),
        "{stopped:?}"
    );
    assert_eq!(fleet(&["--on", "ns1", "lookup", "elsewhere.invalid"]).code, 1);
    for (arguments, why) in [
        (&["run", "--on", "ns1"][..], "--on means nothing"),
        (&["stop", "--on", "ns1"], "--on means nothing"),
        (&["status", "--on=-oProxyCommand=true"], "is no host"),
        (&["status", "--on", "ns1", "--remote", "https://a"], "cannot be used with"),
    ] {
        let refused = fleet(arguments);
        assert!(refused.code == 2 && refused.stderr.contains(why), "{arguments:?}: {refused:?}");
    }
}
