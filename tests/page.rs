//! The status page in a real browser: it follows what happens, finds names, suits dark rooms, small screens, people who
//! use keyboards or screen readers, and browsers without scripts. Pictures of it lie in `target/screenshots`.

mod harness;

use harness::{Aggregator, Browser, Dname, Folder, Knotd, Peer, Port, Settings, read_zone, wait_until};
use serde_json::{Value, json};
use std::time::Duration;

const REGION: &str = "us-west.example";
const ZONES: [&str; 2] = ["us-west-1.example", "us-west-2.example"];
const PATIENCE: Duration = Duration::from_secs(30);

/// A version of a datacenter's zone, with so many hosts; refreshed each second.
fn zone(name: &str, number: u8, serial: u32, hosts: u8) -> String {
    let mut text = format!(
        "$ORIGIN {name}.\n$TTL 30\n@ IN SOA ns1.example. host.example. {serial} 1 1 3600 30\n@ IN NS ns1.example.\n\
         clash IN A 192.0.{number}.200\n"
    );
    if number == 1 {
        text = text.replace("clash IN A 192.0.1.200", "clash IN CNAME web");
    }
    for host in 1..=hosts {
        text.push_str(&format!("web IN A 192.0.{number}.{host}\ni{host}.inst IN A 192.0.{number}.{host}\n"));
    }
    text
}

/// Two datacenters, their region, and somebody who looks at it.
struct Scene {
    peers: Vec<Option<Peer>>,
    daemon: Aggregator,
    browser: Browser,
    _folder: Folder,
}

/// Configuration with faults: versions that stay held back, a member and a tree that are not there, name servers that
/// refuse.
const TROUBLE: &str = "confirm_after = \"1h\"\n[zones.\"absent.example\"]\nprimaries = [\"NOBODY\"]\n[zones.\"tree.example\"]\nzookeeper = \"NOBODY\"\n\
    [aggregations.\"us-east.example\"]\nmembers = [\"absent.example\"]\nns = [\"ns1.example\"]\n\
    [probe]\nevery = \"1s\"\ntimeout = \"1s\"\nresolver = \"NOBODY\"\nhosts = { \"ns1.example\" = \"SOMEBODY\" }\n";

impl Scene {
    fn new() -> Scene {
        Scene::with("")
    }

    /// A scene with more in its configuration.
    fn with(more: &str) -> Scene {
        let folder = Folder::new();
        let peer = |number: usize| {
            let text = zone(ZONES[number], number as u8 + 1, 10, 3);
            Some(Knotd::start(&folder, &[(Dname::parse(ZONES[number]), text)]))
        };
        let peers: Vec<Option<Peer>> = (0..2).map(peer).collect();
        let address = |number: usize| peers[number].as_ref().map(Peer::address).expect("it has just been started");
        let plan = format!(
            "[zones]\n\"{}\" = \"{}\"\n\"{}\" = \"{}\"\n[aggregations.\"{REGION}\"]\nmembers = [\"{}\", \"{}\"]\n\
             ns = [\"ns1.example\"]\n[transfer]\nrefresh_min = \"500ms\"\nrefresh_max = \"1s\"\nretry_min = \"500ms\"\n\
             retry_max = \"1s\"\n{more}",
            ZONES[0],
            address(0),
            ZONES[1],
            address(1),
            ZONES[0],
            ZONES[1]
        )
        .replace("SOMEBODY", &address(0).to_string());
        let settings = Settings { state: Some("state".to_owned()), ..Settings::new(&plan) };
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
        let path = format!("/api/v1/zones/{REGION}");
        wait_until("the region is there", PATIENCE, || daemon.http(&path).1.contains("\"state\":\"ok\"").then_some(()));
        let browser = Browser::start(&folder);
        Scene { peers, daemon, browser, _folder: folder }
    }

    /// The address of a page.
    fn address(&self, path: &str) -> String {
        format!("http://{}{path}", self.daemon.metrics_address())
    }

    /// Goes to a page.
    fn open(&self, path: &str) {
        self.browser.open(&self.address(path));
    }

    /// Goes to a page that follows what happens, and waits until it does.
    fn open_live(&self, path: &str) {
        self.open(path);
        self.browser.wait_for_text("#live", |text| text.starts_with("Live"));
    }

    /// Gives a datacenter's zone another version.
    fn change(&self, number: usize, serial: u32, hosts: u8) {
        let records = read_zone(&zone(ZONES[number], number as u8 + 1, serial, hosts));
        let peer = self.peers[number].as_ref().expect("its primary runs");
        peer.replace_zone(&Dname::parse(ZONES[number]), &records);
    }

    /// Has axe look for barriers, and for anything that makes a page wider than its screen.
    fn assert_accessible(&self, page: &str) {
        self.browser.assert_accessible(page);
    }

    /// Fails if the browser complained about anything.
    fn assert_silent(&self) {
        self.browser.assert_silent();
    }
}

#[test]
fn the_page_follows_what_happens() {
    let mut scene = Scene::new();
    let browser = &scene.browser;
    scene.open_live("/");
    assert_eq!(browser.text("#verdict"), "Everything is well");
    let row = format!("#region-{REGION} tbody tr:first-child").replace(".example", "\\.example");
    assert!(browser.text(&row).contains("10"), "{}", browser.text(&row));
    browser.photograph("overview");

    // A datacenter changes; where the reader is stays as it is.
    browser.run(
        "window.marked = document.querySelector('#rows-of-zones a'); marked.focus(); window.scrollTo(0, 40);
         window.first = document.querySelector('#rows-of-zones tr');",
        json!([]),
    );
    scene.change(0, 11, 5);
    let text = scene.browser.wait_for_text(&row, |text| text.contains("11"));
    assert!(text.contains("ok"), "{text}");
    let same = "return document.activeElement === marked && window.scrollY === 40
        && document.querySelector('#rows-of-zones tr') === first && first.isConnected";
    assert_eq!(scene.browser.run(same, json!([])), json!(true), "focus, scrolling and elements stay");

    // It is taken out by an operator.
    let drained = scene.daemon.verb(&["drain", "us-west-1", "--yes", "--reason", "new switches"]);
    assert_eq!(drained.code, 0, "{drained:?}");
    let notes = scene.browser.wait_for_text("#notes", |text| text.contains("drained"));
    assert!(notes.contains("new switches"), "{notes}");
    scene.browser.wait_for_text("#drains", |text| text.contains("us-west-1.example"));
    scene.browser.photograph("overview-drained");
    assert_eq!(scene.daemon.verb(&["undrain", "us-west-1"]).code, 0);
    scene.browser.wait_for_text("#verdict", |text| text == "Everything is well");

    // Its primary is gone.
    scene.peers[1] = None;
    scene.browser.wait_for_text("#notes", |text| text.contains("stale") && text.contains(ZONES[1]));
    scene.browser.wait_for_text("#verdict", |text| text.contains("to look at"));
    let row = row.replace("first-child", "last-child");
    scene.browser.wait_for_text(&row, |text| text.contains("stale"));
    scene.browser.photograph("overview-stale");
    scene.assert_accessible("the overview of a stale datacenter");

    // The server itself is gone, and says nothing any more.
    scene.assert_silent();
    scene.daemon.stop();
    scene.browser.wait_for_text("#live", |text| text.contains("lost"));
}

#[test]
fn names_zones_and_versions_are_found() {
    let scene = Scene::new();
    scene.change(0, 11, 5);
    wait_until("the new version is served", PATIENCE, || {
        let versions: Value =
            serde_json::from_str(&scene.daemon.http(&format!("/api/v1/zones/{REGION}/history")).1).ok()?;
        (versions["versions"].as_array()?.len() == 1).then_some(())
    });
    let browser = &scene.browser;
    scene.open_live("/");
    // By keyboard alone: past the link over the header, the brand, to the search box.
    browser.press("\u{e004}\u{e004}\u{e004}");
    browser.press("web.us-west.example");
    browser.press("\u{e007}");
    browser.wait_for_text("h1", |text| text == "web.us-west.example");
    let answer = browser.text("main");
    for wanted in ["NOERROR", "192.0.1.5", "192.0.2.3", "us-west-1.example serial 11", "web.us-west-2.example", "Since"]
    {
        assert!(answer.contains(wanted), "{wanted} in {answer}");
    }
    browser.photograph("lookup");
    scene.assert_accessible("the lookup");
    scene.open("/lookup?name=clash.us-west.example&type=A");
    assert!(browser.text("main").contains("Left out"), "{}", browser.text("main"));
    scene.assert_accessible("the lookup of a conflict");
    scene.open("/lookup?name=nowhere.invalid");
    assert!(browser.text("main").contains("REFUSED"));
    scene.assert_silent();
    // What makes no sense is said, in a page.
    scene.open("/lookup?name=a..b");
    assert!(browser.text("main").contains("no domain name"), "{}", browser.text("main"));

    scene.open_live(&format!("/zone/{REGION}"));
    let text = browser.text("main");
    for wanted in ["us-west-1.example", "CONFLICTS AT 1 NAME", "clash.us-west.example", "+4"] {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
    browser.photograph("zone-region");
    scene.assert_accessible("the region");
    browser.run("document.querySelector('#history td a').click()", json!([]));
    let changes = browser.wait_for_text(".diff", |text| text.contains("i5.inst.us-west.example. 30 IN A 192.0.1.5"));
    assert!(changes.contains('+') && changes.contains('−'), "{changes}");
    browser.photograph("diff");
    scene.assert_accessible("the difference");
    scene.open_live(&format!("/zone/{}", ZONES[0]));
    let text = browser.text("main");
    for wanted in ["AXFR", "Member of us-west.example", "PRIMARIES", "TIMERS OF THE SOA"] {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
    browser.photograph("zone-member");
    scene.assert_accessible("a member");
    // An operator has the region go back, and the page tells who wanted what.
    scene.open_live(&format!("/zone/{REGION}"));
    let rolled = scene.daemon.verb(&["rollback", REGION, "--to", "20", "--yes", "--reason", "wrong hosts"]);
    assert_eq!(rolled.code, 0, "{rolled:?}");
    browser.wait_for_text("#head", |text| text.contains("to version 20 since") && text.contains("wrong hosts"));
    browser.wait_for_text("#history tbody", |text| text.contains("rollback to 20"));
    browser.photograph("zone-region-pinned");
    scene.assert_accessible("a region that is pinned");
    // The pages of mistakes were answered with 400, which the console tells.
    let complaints = browser.console();
    assert!(complaints.iter().all(|line| line.contains("400")), "{complaints:#?}");
    scene.open("/zone/none.example");
    assert!(browser.text("main").contains("There is no zone none.example"));
}

#[test]
fn what_one_client_gets_is_shown() {
    let members = format!("members = [\"{}\", \"{}\"]\nns = [\"ns1.example\"]", ZONES[0], ZONES[1]);
    let scene = Scene::with(&format!(
        "[clients]\n\"{}\" = [\"127.1.0.0/16\"]\n[aggregations.\"near.example\"]\n{members}\n\
         steering = {{ prefer = \"nearest\" }}\n",
        ZONES[0]
    ));
    let browser = &scene.browser;
    scene.open("/");
    let script = "document.querySelector('#search-name').value = 'web.near.example';
        document.querySelector('#search-client').value = '127.1.0.9';
        document.querySelector('.search button').click();";
    browser.run(script, json!([]));
    browser.wait_for_text("h1", |text| text == "web.near.example");
    let answer = browser.text("main");
    let home = format!("As seen by 127.1.0.9, a client of {}. (127.1.0.0/16)", ZONES[0]);
    for wanted in [&*home, "What this client gets", "these 3 of 6 records", "not needed", "prefer = \"nearest\""] {
        assert!(answer.contains(wanted), "{wanted} in {answer}");
    }
    assert_eq!(browser.run("return document.querySelector('#search-client').value", json!([])), json!("127.1.0.9"));
    browser.photograph("lookup-client");
    scene.assert_accessible("what a client gets");
    scene.open_live("/zone/near.example");
    let homes = browser.text("#clients");
    assert!(homes.contains(ZONES[0]) && homes.contains(ZONES[1]), "{homes}");
    scene.assert_accessible("a region that steers");
    browser.set_width(360, true);
    for page in ["/lookup?name=web.near.example&client=127.1.0.9", "/zone/near.example"] {
        scene.open(page);
        scene.assert_accessible(&format!("{page} on a phone"));
    }
    browser.photograph("phone-region-steered");
    scene.assert_silent();
}

#[test]
fn the_instances_of_an_inventory_are_told_with_what_is_held_and_why() {
    let folder = Folder::new();
    let path = folder.subfolder("inventory").join("inventory.json");
    let vm = |number: usize, status: &str| {
        json!({ "alias": format!("web{number:03}"), "owner": "acme", "addresses": format!("198.51.100.{number}"),
                "services": "web:8080", "status": status })
    };
    // Names that would be a part of the page if they could.
    let hostile = json!({ "alias": "<img src=x onerror=alert(1)>", "owner": "quiet", "addresses": "198.51.100.250" });
    let lost =
        json!({ "alias": "lost", "owner_uuid": "11110000-0000-4000-8000-000000000001", "addresses": "198.51.100.251" });
    let write = |down: usize| {
        let status = |number: usize| if number <= down { "down" } else { "up" };
        let mut vms: Vec<Value> = (1..=120).map(|number| vm(number, status(number))).collect();
        vms.extend([hostile.clone(), lost.clone()]);
        std::fs::write(path.with_extension("new"), json!({ "format": 1, "vms": vms }).to_string()).expect("written");
        std::fs::rename(path.with_extension("new"), &path).expect("renamed");
    };
    write(0);
    let scene = Scene::with(&format!(
        "[zones.\"dc.example\"]\ninventory = \"dc\"\n[inventories.dc]\nfile = \"{}\"\n",
        path.display()
    ));
    let api = "/api/v1/zones/dc.example/instances";
    let held = |scene: &Scene| {
        let found: Value = serde_json::from_str(&scene.daemon.http(api).1).ok()?;
        found["services"][0]["held"].as_u64()
    };
    wait_until("all are in service", PATIENCE, || (held(&scene) == Some(0)).then_some(()));
    write(60);
    // A third of 120 leaves at once, the others stay for a while.
    wait_until("some are held", PATIENCE, || (held(&scene) == Some(20)).then_some(()));
    let browser = &scene.browser;
    scene.open_live("/zone/dc.example");
    browser.run("document.querySelector('#inventory a').click()", json!([]));
    browser.wait_for_text("h1", |text| text == "Instances of dc.example");
    let text = browser.text("main");
    for wanted in
        ["HELD AND UNDECIDED: 21 INSTANCES", "unknown_owner", "inst_en_flag", "3 ACCOUNTS", "1 SERVICE", "leaves"]
    {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
    browser.photograph("instances");
    scene.assert_accessible("the instances");
    // Found by a part of a name, and no more than a hundred of them.
    browser.run(
        "document.querySelector('#instance-name').value = 'acme';
         document.querySelector('main .search button').click();",
        json!([]),
    );
    let text = browser.wait_for_text("main", |text| text.contains("120 INSTANCES, THE FIRST 100 OF THEM"));
    assert!(text.contains("1 ACCOUNT") && text.contains("show all"), "{text}");
    scene.open("/zone/dc.example/instances?name=onerror");
    assert!(browser.text("main").contains("<img src=x onerror=alert(1)>"), "{}", browser.text("main"));
    browser.set_width(360, true);
    scene.open("/zone/dc.example/instances");
    scene.assert_accessible("the instances on a phone");
    scene.assert_silent();
    scene.open(&format!("/zone/{REGION}/instances"));
    assert!(browser.text("main").contains("is not made of an inventory"), "{}", browser.text("main"));
}

#[test]
fn every_state_is_told_in_words() {
    let nobody = Port::reserve().release();
    let mut scene = Scene::with(&TROUBLE.replace("NOBODY", &nobody.to_string()));
    for order in [
        &["drain", "us-west-1", "--name", "web", "--yes", "--reason", "<b>new</b> switches"][..],
        &["rollback", REGION, "--to", "20", "--yes", "--reason", "wrong hosts"],
    ] {
        wait_until("the order is taken", PATIENCE, || (scene.daemon.verb(order).code == 0).then_some(()));
    }
    // A version without most of its names is held back.
    let mut many = zone(ZONES[0], 1, 11, 60);
    many.push_str("extra IN A 192.0.2.9\n");
    let replace = |scene: &Scene, text: &str| {
        let peer = scene.peers[0].as_ref().expect("its primary runs");
        peer.replace_zone(&Dname::parse(ZONES[0]), &read_zone(text));
    };
    replace(&scene, &many);
    let path = format!("/api/v1/zones/{}", ZONES[0]);
    wait_until("the large version is there", PATIENCE, || {
        scene.daemon.http(&path).1.contains("\"serial\":11").then_some(())
    });
    replace(&scene, &zone(ZONES[0], 1, 12, 1));
    scene.peers[1] = None;
    scene.open_live("/");
    let notes = scene.browser.wait_for_text("#notes", |text| {
        ["not ready", "held back", "stale", "drained", "pinned", "name server", "ZooKeeper"]
            .iter()
            .all(|word| text.contains(word))
    });
    assert!(notes.contains("<b>new</b> switches") && notes.contains("wrong hosts"), "{notes}");
    scene.browser.wait_for_text("#verdict", |text| text.contains("1 of 2 regions not served"));
    scene.browser.wait_for_text("#trees", |text| text.contains("tree.example"));
    let looks = |page: &str, name: &str| {
        for (dark, width) in [(false, 1200), (true, 1200), (false, 360)] {
            scene.browser.set_dark(dark);
            scene.browser.set_width(width, width < 1000);
            scene.browser.photograph(&format!("{name}-{}{width}", if dark { "dark-" } else { "" }));
            scene.assert_accessible(&format!("{page}, {width} wide"));
        }
        scene.browser.set_width(1200, false);
        scene.browser.set_dark(false);
    };
    looks("the overview of much trouble", "trouble-overview");
    // Every table is reached by keyboard, and says what it is.
    scene.browser.run("document.activeElement.blur(); document.getElementById('main').focus()", json!([]));
    let groups = "return [...document.querySelectorAll('.scroll')].filter((group) => group.offsetParent).length";
    let groups = scene.browser.run(groups, json!([])).as_u64().expect("a number");
    let reached = "const at = document.activeElement; if (!at.matches('.scroll')) return null;
        const by = at.getAttribute('aria-labelledby');
        return at.getAttribute('aria-label') ?? document.getElementById(by).textContent";
    let mut names = Vec::new();
    for _ in 0..80 {
        scene.browser.press("\u{e004}");
        names.extend(scene.browser.run(reached, json!([])).as_str().map(str::to_owned));
    }
    assert!(groups >= 5 && names.len() as u64 >= groups, "{groups} tables, {names:?}");
    assert!(names.iter().all(|name| !name.is_empty()) && names.contains(&"ZooKeeper".to_owned()), "{names:?}");

    scene.open_live(&format!("/zone/{REGION}"));
    scene.browser.wait_for_text("#servers", |text| text.contains("ns1.example") && text.contains("lame"));
    let head = scene.browser.text("#head");
    assert!(head.contains("pinned") && head.contains("drained") && head.contains("wrong hosts"), "{head}");
    looks("the region of much trouble", "trouble-region");
    scene.open_live(&format!("/zone/{}", ZONES[0]));
    scene.browser.wait_for_text("#verdict", |text| text.contains("held back"));
    looks("the zone that is held back", "trouble-zone");
    scene.open_live("/zone/us-east.example");
    assert!(scene.browser.text("#verdict").contains("not-ready"), "{}", scene.browser.text("#verdict"));
    scene.open_live("/zone/tree.example");
    looks("the tree without its ensemble", "trouble-tree");
    scene.assert_silent();
}

#[test]
fn the_page_suits_the_dark_and_small_screens() {
    let scene = Scene::new();
    let ground = "return getComputedStyle(document.body).backgroundColor";
    scene.open_live("/");
    let light = scene.browser.run(ground, json!([]));
    scene.browser.set_dark(true);
    assert_ne!(scene.browser.run(ground, json!([])), light);
    scene.browser.photograph("overview-dark");
    scene.assert_accessible("the overview in the dark");
    scene.open_live(&format!("/zone/{REGION}"));
    scene.browser.photograph("zone-region-dark");
    scene.assert_accessible("the region in the dark");
    scene.browser.set_width(360, true);
    for dark in [true, false] {
        scene.browser.set_dark(dark);
        for (page, name) in
            [("/", "overview"), ("/zone/us-west.example", "region"), ("/lookup?name=web.us-west.example", "lookup")]
        {
            scene.open(page);
            let shade = if dark { "-dark" } else { "" };
            scene.browser.photograph(&format!("phone-{name}{shade}"));
            scene.assert_accessible(&format!("{name} on a phone"));
        }
    }
    scene.assert_silent();
}

#[test]
fn scripts_are_not_needed() {
    let scene = Scene::new();
    scene.browser.set_scripts(false);
    scene.open("/");
    let shown = scene.browser.devtools("DOM.getDocument", json!({ "depth": 0 }));
    let root = shown["root"]["nodeId"].clone();
    let html = scene.browser.devtools("DOM.getOuterHTML", json!({ "nodeId": root }));
    let html = html["outerHTML"].as_str().expect("a page");
    for wanted in ["Everything is well", "us-west-1.example", "As of", "action=\"/lookup\""] {
        assert!(html.contains(wanted), "{wanted}");
    }
    assert!(!html.contains("Live, as of"), "no script has run");
    scene.browser.photograph("overview-without-scripts");
    scene.assert_silent();
}
