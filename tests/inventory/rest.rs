//! The REST interface and the verbs of inventories: paths of CNS, tokens in scope and not, and reports on instances.

use crate::harness::*;
use crate::site::*;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const FOR_ALL: &str = "a-token-for-everything";
const FOR_ACME: &str = "a-token-for-the-account-acme";
const FOR_OTHERS: &str = "a-token-for-another-account";
/// UUID of an instance of another account.
const OTHER: &str = "11110000-0000-4000-8000-00000000000c";

/// A daemon with a REST interface, and its address.
struct Served {
    site: Site,
    address: SocketAddr,
}

/// A request: method, path, token and body.
type Asked<'a> = (&'a str, &'a str, Option<&'a str>, &'a str);

impl Served {
    fn start(vms: &[Value], rules: &str, secondaries: &[SocketAddr]) -> Served {
        let (folder, mut port) = (Folder::new(), Port::reserve());
        let tokens = folder.subfolder("aggregator").join("tokens");
        write_file(&tokens, &format!("# who may\n{FOR_ALL} *\n{FOR_ACME} acme\n\n{FOR_OTHERS} other\n"));
        std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o600)).expect("mode");
        let address = port.release();
        let rules = format!("api = [\"{address}\"]\napi_tokens = \"tokens\"\n{rules}");
        Served { site: Site::start_beside(folder, vms, &rules, secondaries), address }
    }

    /// Status and body of the answer to a request.
    fn ask(&self, (method, path, token, body): Asked) -> (u16, Value) {
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let (status, text) = self.ask_as(method, path, &format!("Host: localhost\r\n{token}"), body);
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// The same with other header fields, and the body as text.
    fn ask_as(&self, method: &str, path: &str, fields: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).expect("connect to the interface");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("timeout");
        let length = body.len();
        let request = format!("{method} {path} HTTP/1.1\r\n{fields}Content-Length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).expect("request");
        let mut reply = String::new();
        stream.read_to_string(&mut reply).expect("reply");
        let (head, body) = reply.split_once("\r\n\r\n").expect("head and body");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("status");
        (status, body.to_string())
    }

    /// What a GET answers.
    fn get(&self, path: &str) -> Value {
        let (status, value) = self.ask(("GET", path, None, ""));
        assert_eq!(status, 200, "{path}: {value}");
        value
    }

    /// Reports an instance with a token for everything.
    fn report(&self, body: &str) -> (u16, Value) {
        self.ask(("PUT", &format!("/vm/{UUID}/status"), Some(FOR_ALL), body))
    }
}

/// Three instances of a service, of which the first has a known UUID, and one of another account.
fn vms() -> Vec<Value> {
    let mut vms: Vec<Value> = (1..=3).map(|number| vm(&format!("web{number}"), "acme", number)).collect();
    vms[0] = with(vms[0].clone(), json!({ "uuid": UUID }));
    vms.push(with(vm("web9", "other", 9), json!({ "uuid": OTHER })));
    vms
}

#[test]
fn paths_are_those_of_cns() {
    let served = Served::start(&vms(), "", &[]);
    let mut resolver = served.site.resolver();
    resolver.wait_addresses("web.svc.acme", &[1, 2, 3]);
    assert_eq!(served.ask_as("GET", "/ping", "Host: 127.0.0.1\r\n", ""), (200, String::new()));
    let zones = served.get("/zones");
    let name = ZONE.trim_end_matches('.');
    assert_eq!((&zones[0]["name"], &zones[0]["kind"]), (&json!(name), &json!("forward")));
    assert_eq!(zones[0]["serial"].as_u64(), resolver.serial().map(u64::from));
    assert!(zones[0]["changed"].is_i64() && zones[0]["networks"] == json!(["*"]), "{zones}");
    assert_eq!((&zones[1]["name"], &zones[1]["networks"]), (&json!("100.51.198.in-addr.arpa"), &Value::Null));

    // Nobody has transferred anything yet.
    assert_eq!(served.get("/peers"), json!([]));
    assert_eq!(served.ask(("GET", "/peer/127.0.0.1", None, "")), (404, json!({ "message": "Peer not found" })));
    Client::new(served.site.daemon.address()).transfer(&Dname::parse(ZONE)).expect("a transfer");
    let peers = wait("the transfer is counted", || {
        let peers = served.get("/peers");
        (peers != json!([])).then_some(peers)
    });
    let serials = json!({ name: resolver.serial() });
    assert_eq!(peers, json!([{ "address": "127.0.0.1", "serials": serials, "version": "unknown" }]));
    let peer = served.get("/peer/127.0.0.1");
    assert_eq!(peer["counters"], json!({ "soa": 0, "axfr": 1, "ixfr": 0, "goodxfer": 1 }));
    assert_eq!((&peer["using_notify"], &peer["using_ixfr"]), (&json!(false), &json!(false)));
    assert_eq!(served.ask(("DELETE", "/peer/127.0.0.1", Some(FOR_ACME), "")).0, 403);
    assert_eq!(served.ask(("DELETE", "/peer/127.0.0.1", Some(FOR_ALL), "")).0, 200);
    assert_eq!(served.get("/peers"), json!([]));
    assert_eq!(served.get("/allowed-peers"), json!([{ "address": "127.0.0.0", "mask": 8 }]));

    let told = served.get(&format!("/vm/{UUID}"));
    let wanted = ["web1.inst.acme", "web.svc.acme", &format!("{UUID}.inst.acme")].map(|name| format!("{name}.{ZONE}"));
    let names: Vec<&str> = told["names"].as_array().expect("names").iter().filter_map(Value::as_str).collect();
    for name in wanted {
        assert!(names.contains(&name.trim_end_matches('.')), "{name} in {told}");
    }
    assert_eq!((&told["uuid"], &told["listed"], &told["login"]), (&json!(UUID), &json!(true), &json!("acme")));
    assert!(told["last_visit"].is_i64() && told["held"] == json!([]) && told["reasons"] == json!([]), "{told}");
    assert_eq!(served.ask(("GET", "/vm/x", None, "")), (404, json!({ "message": "VM not found" })));
    assert_eq!(served.get("/status")["inventory"], "dc1");
    let (status, page) = served.ask_as("GET", "/metrics", "Host: localhost\r\n", "");
    assert!(status == 200 && page.contains("aggregator_inventory_elements"), "{status}");

    // Nothing but what is there, for those who know us by our name.
    for method in ["GET", "POST", "DELETE"] {
        let unknown = json!({ "code": "ResourceNotFound", "message": "/x does not exist" });
        assert_eq!(served.ask((method, "/x", Some(FOR_ALL), "")), (404, unknown), "{method}");
    }
    let (status, refusal) = served.ask(("POST", "/zones", Some(FOR_ALL), ""));
    assert_eq!((status, &refusal["message"]), (405, &json!("only GET and HEAD are served")));
    assert_eq!(served.ask(("PATCH", "/vm/x/status", Some(FOR_ALL), "")).0, 405);
    let (status, refusal) = served.ask_as("GET", "/zones", "Host: rebind.example\r\n", "");
    assert!(status == 421 && refusal.contains("rebind.example"), "{refusal}");
    let long = "x".repeat((64 << 10) + 1);
    assert_eq!(served.ask(("POST", "/validate", Some(FOR_ALL), &long)).0, 413);
}

#[test]
fn who_changes_or_computes_something_needs_a_token_in_scope() {
    let served = Served::start(&vms(), "", &[]);
    let mut resolver = served.site.resolver();
    resolver.wait_addresses("web.svc.acme", &[1, 2, 3]);
    let (path, down) = (format!("/vm/{UUID}/status"), r#"{"status":"down"}"#);
    for (token, status) in
        [(None, 401), (Some("wrong"), 401), (Some(FOR_OTHERS), 403), (Some(FOR_ACME), 200), (Some(FOR_ALL), 200)]
    {
        assert_eq!(served.ask(("PUT", &path, token, down)).0, status, "{token:?}");
    }
    // CNS' scheme, and none.
    for (fields, status) in
        [("", 401), ("Authorization: Basic YTpi\r\n", 401), (&format!("Authorization: {FOR_ALL}\r\n"), 401)]
    {
        assert_eq!(served.ask_as("DELETE", &path, &format!("Host: localhost\r\n{fields}"), "").0, status, "{fields}");
    }
    let unknown = format!("/vm/{}/status", UUID.replace("1111", "2222"));
    assert_eq!(served.ask(("PUT", &unknown, Some(FOR_ALL), down)), (404, json!({ "message": "VM not found" })));
    assert_eq!(served.ask(("DELETE", &unknown, Some(FOR_ALL), "")).0, 404);
    for body in ["", "down", r#"{"status":"maybe"}"#, r#"{"status":"up","ttl":0}"#, r#"{"status":"up","tll":60}"#] {
        let (status, refusal) = served.ask(("PUT", &path, Some(FOR_ALL), body));
        assert_eq!((status, &refusal["code"]), (400, &json!("InvalidArgument")), "{body}");
    }

    let told = served.get(&format!("/vm/{UUID}"));
    let (owner, zone) = (told["owner"].as_str().expect("an owner"), ZONE.trim_end_matches('.'));
    let question = |owner: &str, network: &str| json!({ "owner_uuid": owner, "networks": [network] }).to_string();
    let suffixes = |token: Option<&str>, body: &str| served.ask(("POST", "/suffixes-for-vm", token, body));
    assert_eq!(suffixes(None, &question(owner, UUID)).0, 401);
    assert_eq!(suffixes(Some(FOR_OTHERS), &question(owner, UUID)).0, 403);
    assert_eq!(suffixes(Some(FOR_ALL), &question(UUID, UUID)).0, 404, "no such account");
    assert_eq!(suffixes(Some(FOR_ACME), &question(owner, UUID)).0, 422, "no such network");
    assert_eq!(suffixes(Some(FOR_ALL), "{}").0, 400);
    let none = json!({ "owner_uuid": owner, "networks": [] }).to_string();
    assert_eq!(suffixes(Some(FOR_ACME), &none), (200, json!({ "suffixes": [] })), "{zone}");

    let validate = |token, tag: &str| served.ask(("POST", "/validate", token, &json!({ "tag": tag }).to_string()));
    assert_eq!(validate(None, "web:8080").0, 401);
    let wanted = json!({ "ok": true, "services": [{ "name": "web", "ports": [8080] }], "errors": [] });
    assert_eq!(validate(Some(FOR_OTHERS), "web:8080"), (200, wanted));
    assert_eq!(validate(Some(FOR_OTHERS), "web:0").1["ok"], false);
    assert!(!served.site.daemon.log_text().contains(FOR_ALL));
}

#[test]
fn a_report_counts_until_it_lapses_or_is_withdrawn_also_after_a_restart() {
    let mut served = Served::start(&vms(), "damping = { window = \"1s\", last = \"2s\" }\n", &[]);
    let mut resolver = served.site.resolver();
    resolver.wait_addresses("web.svc.acme", &[1, 2, 3]);
    // What is answered is published.
    assert_eq!(served.report(r#"{"status":"down"}"#).0, 200);
    assert_eq!(resolver.addresses("web.svc.acme"), [2, 3].map(address));
    let told = served.get(&format!("/vm/{UUID}"));
    assert_eq!((&told["report"]["status"], &told["reasons"]), (&json!("down"), &json!(["inst_en_flag"])));
    let service = format!("web.svc.acme.{}", ZONE.trim_end_matches('.'));
    assert!(!told["names"].as_array().unwrap().contains(&json!(service)), "{told}");

    served.site.daemon.kill_and_restart(|| {});
    let mut resolver = served.site.resolver();
    wait("the zone is served again", || resolver.serial());
    served.site.wait_status("the document is read again", |source| source["reading"] == "current");
    assert_eq!(resolver.addresses("web.svc.acme"), [2, 3].map(address));
    // A document that says otherwise does not count while there is a report, nor does a reload forget it.
    served.site.write(&[with(vms()[0].clone(), json!({ "status": "up" })), vms()[1].clone()]);
    resolver.wait_addresses("web.svc.acme", &[2]);
    assert_eq!(served.site.daemon.verb(&["reload"]).code, 0);
    assert_eq!(resolver.addresses("web.svc.acme"), [2].map(address));
    let path = format!("/vm/{UUID}/status");
    assert_eq!(served.ask(("DELETE", &path, Some(FOR_ACME), "")).0, 200);
    resolver.wait_addresses("web.svc.acme", &[1, 2]);
    assert_eq!(served.ask(("DELETE", &path, Some(FOR_ACME), "")).0, 404, "there is no report any more");

    // Silence is a report of being down.
    assert_eq!(served.report(r#"{"status":"up","ttl":1}"#), (200, json!({ "uuid": UUID, "status": "up", "ttl": 1 })));
    resolver.wait_addresses("web.svc.acme", &[2]);
    let report = &served.get(&format!("/vm/{UUID}"))["report"];
    assert_eq!((&report["status"], &report["lapsed"]), (&json!("up"), &json!(true)));
    assert_eq!(served.report(r#"{"status":"up","ttl":3600}"#).0, 200);
    assert_eq!(resolver.addresses("web.svc.acme"), [1, 2].map(address));
}

#[test]
fn verbs_tell_of_instances_and_take_reports() {
    let site = Site::start(&vms(), "");
    let mut resolver = site.resolver();
    resolver.wait_addresses("web.svc.acme", &[1, 2, 3]);
    let verb = |arguments: &[&str]| site.daemon.verb(&[&["cns"], arguments].concat());
    let reported = verb(&["report", UUID, "down", "--ttl", "1h"]);
    assert_eq!((reported.code, reported.stdout), (0, format!("{UUID} is reported down\n")));
    assert_eq!(resolver.addresses("web.svc.acme"), [2, 3].map(address));
    let told = verb(&["vm", UUID]).stdout;
    for part in [&format!("uuid:         {UUID}"), "report:       down, for 1 hr more", "reasons:      inst_en_flag"] {
        assert!(told.contains(part), "{part} in\n{told}");
    }
    let told: Value = serde_json::from_str(&verb(&["vm", UUID, "--json"]).stdout).expect("JSON");
    assert_eq!((&told["inventory"], &told["report"]["status"]), (&json!("dc1"), &json!("down")));
    assert_eq!(verb(&["report", UUID, "none"]).code, 0);
    assert_eq!(resolver.addresses("web.svc.acme"), [1, 2, 3].map(address));
    let overview: Value = serde_json::from_str(&verb(&["status", "--json"]).stdout).expect("JSON");
    assert_eq!((&overview["zones"][0]["kind"], &overview["peers"]), (&json!("forward"), &json!([])));

    // The only one left of a service is held, until an operator lets it go.
    assert_eq!(verb(&["report", OTHER, "down"]).code, 0);
    let service = format!("web.svc.other.{ZONE}");
    let told: Value = serde_json::from_str(&verb(&["vm", OTHER, "--json"]).stdout).expect("JSON");
    assert_eq!(told["held"], json!(["web"]));
    assert_eq!(resolver.addresses("web.svc.other"), [9].map(address));
    assert_eq!(verb(&["release", &service]).code, 0);
    assert!(resolver.addresses("web.svc.other").is_empty());
    let again = verb(&["release", &service]);
    assert!(again.code == 1 && again.stderr.contains("nothing is held at"), "{again:?}");

    assert_eq!(verb(&["forget", UUID]).code, 0);
    assert_eq!(resolver.addresses("web.svc.acme"), [2, 3].map(address));
    for (arguments, told) in [
        (&["vm", UUID][..], "no inventory has instance"),
        (&["report", UUID, "up"][..], "no inventory has instance"),
        (&["forget", "web1"][..], "\"web1\" is no UUID"),
        (&["peers", "192.0.2.1"][..], "no peer has address"),
        (&["release", "web.example.com"][..], "is in no zone that is made of an inventory"),
    ] {
        let output = verb(arguments);
        assert!(output.code == 1 && output.stderr.contains(told), "{arguments:?}: {output:?}");
    }
}

#[test]
fn tokens_and_addresses_are_those_of_the_last_reload() {
    let served = Served::start(&vms(), "", &[]);
    served.site.resolver().wait_addresses("web.svc.acme", &[1, 2, 3]);
    let tokens = served.site.folder.subfolder("aggregator").join("tokens");
    std::fs::write(&tokens, "another-token-for-everything *\n").expect("tokens");
    assert_eq!(served.site.daemon.verb(&["reload"]).code, 0);
    assert_eq!(served.report(r#"{"status":"up"}"#).0, 401);
    // A file that strangers can read is refused, and nothing changes.
    std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o644)).expect("mode");
    let reloaded = served.site.daemon.verb(&["reload"]);
    assert!(reloaded.code == 1 && reloaded.stderr.contains("can be read or changed by strangers"), "{reloaded:?}");
    assert_eq!(served.ask(("GET", "/ping", None, "")).0, 200);
}
