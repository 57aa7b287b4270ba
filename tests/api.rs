//! The API against its own description: every path of it exists, and every response is as its schema says, with no field more.

mod described;
mod harness;

use described::{assert_valid, description};
use harness::{Aggregator, Client, Dname, Folder, Knotd, Port, Query, Settings, ZooKeeper, rtype, wait_until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Read;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// A response that says why there is no other.
fn refusal(why: &str) -> String {
    json!({ "error": why }).to_string()
}

#[test]
fn every_response_is_as_described() {
    let folder = Folder::new();
    let apex = |serial: u32| {
        format!("$TTL 30\n@ IN SOA ns.x.invalid. h.x.invalid. {serial} 1 1 2592000 30\n@ IN NS ns.x.invalid.\n")
    };
    let one = apex(1)
        + "clash IN CNAME www\nwww IN A 192.0.2.1\nalias IN CNAME www\nbelow.deep IN A 192.0.2.1\n*.wild IN A 192.0.2.9\nsub IN NS ns.elsewhere.\nmoved IN DNAME www\n";
    let one = one + &(0..101).map(|n| format!("many IN A 192.0.2.{n}\n")).collect::<String>();
    let two = apex(2) + "clash IN A 192.0.2.2\nwww 60 IN A 192.0.2.3\n";
    let text = |zone: &str, text: &str| (Dname::parse(zone), format!("$ORIGIN {zone}.\n{text}"));
    let peer = Knotd::start(&folder, &[text("one.test", &one), text("two.test", &two)]);
    let keeper = ZooKeeper::start(&folder);
    let (address, ensemble) = (peer.address(), keeper.address());
    let nobody = Port::reserve().release();
    // One instance is held, being the last of its service, and one is undecided.
    let inventory = "format = 1\n\
         [[vms]]\nalias = \"web1\"\nowner = \"acme\"\naddresses = [\"192.0.2.1\"]\nservices = \"web\"\n\
         [[vms]]\nalias = \"lost\"\nowner_uuid = \"11110000-0000-4000-8000-000000000001\"\naddresses = [\"192.0.2.2\"]\n";
    let documents = folder.subfolder("inventory").join("inventory.toml");
    std::fs::write(&documents, inventory).expect("written");
    let plan = format!(
        "[secondaries]\nnotify = [\"{nobody}\"]\ncatalog = \"catalog.test\"\n[probe]\nevery = \"1s\"\nresolver = \"{nobody}\"\n\
         [zones]\n\"one.test\" = \"{address}\"\n\"two.test\" = \"{address}\"\n\"absent.test\" = \"{nobody}\"\n\
         \"tree.test\" = {{ zookeeper = \"{ensemble}\" }}\n\
         \"dc1.test\" = {{ inventory = \"dc1\", notify = [] }}\n\
         [inventories.dc1]\nfile = \"{}\"\n\
         [zones.\"own.test\"]\nopenstack = [{{ type = \"identity\", url = \"https://id.own.test/v3\" }}]\n\
         [clients]\n\"one.test\" = [\"10.1.0.0/16\"]\n\"two.test\" = [\"10.2.0.0/16\"]\n\
         [aggregations.\"region.test\"]\nmembers = [\"one.test\", \"two.test\"]\nsteering = {{ prefer = \"nearest\" }}\n",
        documents.display()
    );
    let settings = Settings { state: Some("state".to_owned()), ..Settings::new(&plan) };
    let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
    let mut client = Client::new(daemon.address());
    wait_until("the region is there", PATIENCE, || client.serial(&Dname::parse("region.test")));
    client.ask(&Query::new(&Dname::parse("nowhere.region.test"), rtype::A)).expect("an answer");
    assert_eq!(daemon.verb(&["drain", "two", "--name", "www", "--for", "1h", "--yes", "--reason", "why"]).code, 0);

    let document = description();
    let get = |template: &str, path: &str| {
        let (status, body) = daemon.http(path);
        let value = assert_valid(&document, "get", template, status, &body);
        (status, value)
    };
    let mut seen = BTreeSet::new();
    let mut ask = |template: &str, path: &str, wanted: u16| {
        seen.insert(template.to_owned());
        let (status, value) = get(template, path);
        assert_eq!(status, wanted, "{path}: {value}");
        value
    };
    let status = wait_until("everything is told", PATIENCE, || {
        let value = ask("/api/v1/status", "/api/v1/status", 200);
        let failing = value["zones"].as_array()?.iter().any(|zone| zone["source"]["failures"].as_u64() > Some(0));
        let conflicts = value["regions"][0]["conflict_names"].as_u64() > Some(0);
        let drained = !value["drains"].as_array()?.is_empty();
        let counted = value["queries"]["total"].as_u64() > Some(0);
        let probed = value["name_servers"][0]["servers"].as_array().is_some_and(|servers| !servers.is_empty());
        (failing && conflicts && drained && counted && probed).then_some(value)
    });
    assert_eq!(status["catalog"]["zone"], "catalog.test.");
    let history = wait_until("the drain is a version", PATIENCE, || {
        let value = ask("/api/v1/zones/{zone}/history", "/api/v1/zones/region.test./history", 200);
        (!value["versions"].as_array()?.is_empty()).then_some(value)
    });
    let version = &history["versions"][0];
    assert_eq!(
        ask("/api/v1/zones/{zone}/history", "/api/v1/zones/region.test/history?limit=0", 200)["versions"],
        json!([])
    );
    ask("/api/v1/zones/{zone}/history", "/api/v1/zones/region.test/history?limit=many", 400);
    ask("/api/v1/zones/{zone}/history", "/api/v1/zones/none.test/history", 404);
    let zones = ask("/api/v1/zones", "/api/v1/zones", 200);
    let names: Vec<&str> = zones["zones"].as_array().unwrap().iter().filter_map(|zone| zone["zone"].as_str()).collect();
    assert_eq!(names.len(), 8, "{names:?}");
    for name in names {
        let detail = ask("/api/v1/zones/{zone}", &format!("/api/v1/zones/{name}"), 200);
        assert_eq!(detail["zone"], name);
    }
    ask("/api/v1/zones/{zone}", "/api/v1/zones/none.test", 404);
    ask("/api/v1/zones/{zone}", "/api/v1/zones/a..b", 400);
    let diff = ask("/api/v1/zones/{zone}/diff", "/api/v1/zones/region.test/diff", 200);
    assert_eq!((&diff["from"], &diff["to"]), (&version["from"], &version["serial"]));
    let all = |diff: &Value| diff["removed"].as_array().unwrap().len() + diff["added"].as_array().unwrap().len();
    let first = ask("/api/v1/zones/{zone}/diff", "/api/v1/zones/region.test/diff?limit=1", 200);
    assert_eq!((all(&first), &first["more"], &diff["more"]), (1, &json!(all(&diff) - 1), &json!(0)));
    ask("/api/v1/zones/{zone}/diff", "/api/v1/zones/region.test/diff?limit=-1", 400);
    ask("/api/v1/zones/{zone}/diff", "/api/v1/zones/region.test/diff?from=77", 404);
    ask("/api/v1/zones/{zone}/diff", "/api/v1/zones/region.test/diff?to=soon", 400);
    let path = "/api/v1/zones/{zone}/instances";
    let down = inventory.replacen("services = ", "status = \"down\"\nservices = ", 1);
    std::fs::write(documents.with_extension("new"), down).expect("written");
    std::fs::rename(documents.with_extension("new"), &documents).expect("renamed");
    let found = wait_until("an instance is held", PATIENCE, || {
        let found = ask(path, "/api/v1/zones/dc1.test/instances", 200);
        (found["services"][0]["held"] == 1).then_some(found)
    });
    assert_eq!((&found["accounts_found"], &found["instances_found"]), (&json!(2), &json!(2)));
    assert_eq!(found["instances"][0]["reasons"][0], "unknown_owner");
    assert_eq!(found["instances"][1]["services"][0]["state"], "held");
    let found = ask(path, "/api/v1/zones/dc1.test/instances?name=WEB&limit=1", 200);
    assert_eq!((&found["accounts_found"], &found["instances"][0]["alias"]), (&json!(0), &json!("web1")));
    ask(path, "/api/v1/zones/dc1.test/instances?limit=some", 400);
    ask(path, "/api/v1/zones/one.test/instances", 404);
    for name in [
        "www.region.test",
        "many.region.test",
        "many.one.test",
        "clash.region.test",
        "alias.region.test",
        "deep.region.test",
        "a.wild.region.test",
        "below.sub.region.test",
        "x.moved.region.test",
        "none.region.test",
        "elsewhere.invalid",
        "absent.test",
        "one.test",
        "two.test",
        "identity.own.test",
        "tree.test",
        "catalog.test",
    ] {
        let value = ask("/api/v1/lookup", &format!("/api/v1/lookup?name={name}"), 200);
        assert!(value["steps"].as_array().is_some_and(|steps| !steps.is_empty()), "{value}");
        ask("/api/v1/lookup", &format!("/api/v1/lookup?name={name}&type=TXT"), 200);
    }
    for (client, home) in
        [("10.1.2.3", json!("one.test.")), ("10.2.0.0/24", json!("two.test.")), ("192.0.2.1", json!(null))]
    {
        for name in ["www.region.test", "many.region.test", "clash.region.test", "alias.region.test", "one.test"] {
            let value = ask("/api/v1/lookup", &format!("/api/v1/lookup?name={name}&client={client}"), 200);
            assert_eq!(value["client"]["home"], home, "{value}");
        }
    }
    ask("/api/v1/lookup", "/api/v1/lookup?name=a&client=somebody", 400);
    ask("/api/v1/lookup", "/api/v1/lookup", 400);
    ask("/api/v1/lookup", "/api/v1/lookup?name=a&type=NONSENSE", 400);
    ask("/api/v1/queries", "/api/v1/queries", 200);
    let told = ask("/api/v1/openapi.json", "/api/v1/openapi.json", 200);
    assert_eq!(told["openapi"], "3.1.0");
    // What is for operators is there over HTTPS only: tests/operators.rs.
    let is_public = |(_, path): &(&String, &Value)| path["get"].is_object() && path["get"]["tags"].is_null();
    let paths = document["paths"].as_object().unwrap().iter();
    let described: BTreeSet<String> = paths.filter(is_public).map(|(path, _)| path.clone()).collect();
    assert_eq!(described, seen, "every path is asked for");
    for path in ["/api", "/api/", "/api/v1", "/api/v1/nothing", "/api/v2/status"] {
        let (status, body) = daemon.http(path);
        assert!(status == 404 && body.contains("{\"error\":"), "{path}: {status} {body}");
    }

    // Who comes from a page that has let a name of its own point here gets nothing but what is for monitoring.
    for template in &described {
        let path = template.replace("{zone}", "region.test");
        let (status, body) = daemon.http_as("GET", &path, "rebind.example:9153");
        assert_eq!(status, 421, "{path}: {body}");
        assert!(
            assert_valid(&document, "get", template, 421, &body)["error"].as_str().unwrap().contains("rebind.example")
        );
        assert_eq!(daemon.http_as("POST", &path, "localhost"), (405, refusal("only GET and HEAD are served")));
    }
    for path in ["/", "/zone/region.test", "/lookup?name=a.test", "/events?of=/", "/page.js", "/none"] {
        let (status, body) = daemon.http_as("GET", path, "rebind.example");
        assert!(status == 421 && !body.contains('<'), "{path}: {status} {body}");
    }
    for path in ["/metrics", "/healthz", "/readyz"] {
        assert_ne!(daemon.http_as("GET", path, "rebind.example").0, 421, "{path}");
    }
    for host in ["127.0.0.1:1", "[::1]", "LOCALHOST:8080", "NS1.test", "ns1.test.:80"] {
        assert_eq!(daemon.http_as("GET", "/api/v1/zones", host).0, 200, "{host}");
    }
    let change = |wanted: &str| {
        let text = std::fs::read_to_string(daemon.configuration()).unwrap();
        let (before, after) = text.split_once("[metrics]\n").expect("it has the section");
        std::fs::write(daemon.configuration(), format!("{before}[metrics]\n{wanted}\n{after}")).unwrap();
        let reloaded = daemon.verb(&["reload"]);
        assert_eq!(reloaded.code, 0, "{reloaded:?}");
    };
    assert_eq!(daemon.http_as("GET", "/", "status.test").0, 421);
    change("names = [\"Status.test\"]");
    assert_eq!(daemon.http_as("GET", "/", "status.TEST:443").0, 200);

    // The page can be switched off, also for those who look at it, and the measurements stay.
    let mut viewer = daemon.begin_http("GET", "/events?of=/zone/region.test", "localhost");
    let mut shown = vec![0; 12];
    viewer.read_exact(&mut shown).expect("a response");
    assert_eq!(shown, b"HTTP/1.1 200");
    change("page = false");
    viewer.read_to_end(&mut shown).expect("the end of the stream");
    assert_eq!(daemon.http("/api/v1/status").0, 404);
    assert!(daemon.http("/").1.starts_with("/metrics"));
    assert_eq!(daemon.http("/metrics").0, 200);
}

#[test]
fn the_description_is_whole() {
    let document = description();
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    let text = document.to_string();
    for (name, schema) in schemas {
        assert!(text.contains(&format!("\"#/components/schemas/{name}\"")), "{name} is used by nothing");
        jsonschema::draft202012::meta::validate(schema).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    for reference in text.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap_or_default();
        assert!(schemas.contains_key(name), "{name} is missing");
    }
}
