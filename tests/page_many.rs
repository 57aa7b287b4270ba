//! The status page where there is much: regions in a table, a filter that follows the letters, datacenters in a picture,
//! charts over hours, and bodies that are compressed. Pictures of it lie in `target/screenshots`.

mod harness;

use harness::{Aggregator, Browser, Dname, Folder, Knotd, Peer, Port, Settings, read_zone, wait_until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

const REGIONS: usize = 12;
const DATACENTERS: usize = 30;
const PATIENCE: Duration = Duration::from_secs(60);
/// Tab, enter, the arrow to the left, and the key that deletes.
const KEYS: [&str; 4] = ["\u{e004}", "\u{e007}", "\u{e012}", "\u{e003}"];

/// Many datacenters with a zone in each of many regions, and somebody who looks at it.
struct Scene {
    daemon: Aggregator,
    browser: Browser,
    primary: Peer,
    _folder: Folder,
}

/// The zone of a datacenter in a region.
fn zone(datacenter: usize, region: usize) -> String {
    format!("dc-{datacenter}.r{region}.example")
}

/// What it has.
fn text(zone: &str, serial: u32) -> String {
    format!(
        "$ORIGIN {zone}.\n$TTL 30\n@ IN SOA ns1.example. host.example. {serial} 3600 3600 86400 30\n\
         @ IN NS ns1.example.\nweb IN A 192.0.2.1\n"
    )
}

impl Scene {
    fn new() -> Scene {
        let folder = Folder::new();
        let all = || (0..DATACENTERS).flat_map(|center| (0..REGIONS).map(move |region| zone(center, region)));
        let zones: Vec<(Dname, String)> = all().map(|name| (Dname::parse(&name), text(&name, 10))).collect();
        let primary = Knotd::start(&folder, &zones);
        let address = primary.address();
        let nobody = Port::reserve().release();
        let mut plan = "[zones]\n".to_owned();
        all().for_each(|name| plan.push_str(&format!("\"{name}\" = \"{address}\"\n")));
        plan.push_str("[zones.\"absent.r0.example\"]\nprimaries = [\"NOBODY\"]\n");
        for region in 0..REGIONS {
            let members: Vec<String> = (0..DATACENTERS).map(|center| zone(center, region)).collect();
            plan.push_str(&format!(
                "[aggregations.\"r{region}.example\"]\nmembers = {members:?}\nns = [\"ns1.example\"]\n"
            ));
        }
        plan.push_str("[secondaries]\nnotify = [\"NOBODY\"]\n[transfer]\nretry_min = \"500ms\"\nretry_max = \"1s\"\n");
        let settings =
            Settings { state: Some("state".to_owned()), ..Settings::new(&plan.replace("NOBODY", &nobody.to_string())) };
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
        wait_until("all regions are there", PATIENCE, || {
            let zones: Value = serde_json::from_str(&daemon.http("/api/v1/zones").1).ok()?;
            let missing = zones["zones"].as_array()?.iter().filter(|zone| zone["state"] != "ok").count();
            (missing == 1).then_some(())
        });
        let browser = Browser::start(&folder);
        Scene { daemon, browser, primary, _folder: folder }
    }

    /// Goes to a page.
    fn open(&self, path: &str) {
        self.browser.open(&format!("http://{}{path}", self.daemon.metrics_address()));
    }

    /// Number of elements that a selector finds.
    fn count(&self, selector: &str) -> u64 {
        let script = "return document.querySelectorAll(arguments[0]).length";
        self.browser.run(script, json!([selector])).as_u64().expect("a number")
    }

    /// The labels of lines in a picture.
    fn labels(&self) -> Vec<String> {
        let script = "return [...document.querySelectorAll('.picture .label')].map((label) => label.textContent)";
        serde_json::from_value(self.browser.run(script, json!([]))).expect("texts")
    }

    /// Looks at a page in three widths, light and dark.
    fn look(&self, page: &str, name: &str) {
        for (dark, width) in [(false, 1280), (true, 1280), (false, 820), (true, 820), (false, 360), (true, 360)] {
            self.browser.set_dark(dark);
            self.browser.set_width(width, width < 500);
            self.browser.photograph(&format!("{name}-{}{width}", if dark { "dark-" } else { "" }));
            self.browser.assert_accessible(&format!("{page}, {width} wide"));
        }
        self.browser.set_width(1280, false);
        self.browser.set_dark(false);
    }
}

#[test]
fn many_regions_zones_and_datacenters_are_found() {
    let scene = Scene::new();
    let browser = &scene.browser;
    scene.open("/");
    browser.wait_for_text("#live", |text| text.starts_with("Live"));
    assert_eq!(scene.count("#all-regions tbody tr"), REGIONS as u64);
    assert_eq!(scene.count("article.card"), 0, "no region has a problem");
    assert_eq!(scene.count("#rows-of-zones tr"), 1, "of many zones those with trouble");
    let first = browser.text("#rows-of-zones tr:first-child");
    assert!(first.contains("absent.r0.example"), "{first}");
    scene.look("the overview of many zones", "many-overview");

    // The list follows each letter, and its address has what was asked for.
    browser
        .run("[...document.querySelectorAll('nav a')].find((link) => link.textContent === 'Zones').click()", json!([]));
    browser.wait_for_text("h1", |text| text == "Zones and regions");
    let all = format!("{} zones", REGIONS * DATACENTERS + REGIONS + 1);
    browser.wait_for_text("#found [role=status]", |text| text == all);
    browser.run("document.getElementById('zone-name').focus()", json!([]));
    browser.press("dc-7.r3");
    browser.wait_for_text("#found [role=status]", |text| text == "1 zone with “dc-7.r3” in the name");
    assert_eq!(browser.text("#found tbody th"), zone(7, 3));
    let address = browser.run("return location.pathname + location.search", json!([]));
    assert_eq!(address, json!("/zones?name=dc-7.r3&show=&datacenter="));
    let focused = "return document.activeElement.id";
    assert_eq!(browser.run(focused, json!([])), json!("zone-name"), "whoever writes goes on writing");

    // It keeps itself current, as it is filtered.
    let (changed, serial) = (zone(7, 3), "#found tbody td:nth-child(4)");
    assert_eq!(browser.text(serial), "10");
    browser.wait_for_text("#live", |text| text.starts_with("Live"));
    scene.primary.replace_zone(&Dname::parse(&changed), &read_zone(&text(&changed, 11)));
    let asked = scene.daemon.verb(&["refresh", &changed]);
    assert_eq!(asked.code, 0, "{asked:?}");
    browser.wait_for_text(serial, |text| text == "11");
    assert_eq!(browser.text("#found [role=status]"), "1 zone with “dc-7.r3” in the name");
    assert_eq!(browser.run(focused, json!([])), json!("zone-name"), "nor does that disturb");
    for _ in 0..3 {
        browser.press(KEYS[3]);
    }
    browser.wait_for_text("#found [role=status]", |text| text == format!("{REGIONS} zones with “dc-7” in the name"));
    scene.look("the filtered list", "many-list");
    scene.open("/zones?show=problems");
    assert_eq!(browser.text("#found [role=status]"), "1 zone with problems");
    assert!(browser.text("#found tbody").contains("not-ready"), "{}", browser.text("#found tbody"));
    scene.open("/zones?datacenter=dc-29&show=zones&page=0");
    assert_eq!(browser.text("#found [role=status]"), format!("{REGIONS} source zones of dc-29"));
    scene.open("/zones?show=zones");
    browser.run("document.querySelector('#found [rel=next]').click()", json!([]));
    browser.wait_for_text("#found", |text| text.contains("Previous zones") && text.contains("More zones"));

    // Without scripts the same form goes to the same page.
    browser.set_scripts(false);
    scene.open("/zones?name=r11&show=regions");
    browser.set_scripts(true);
    assert_eq!(browser.text("#found [role=status]"), "1 region with “r11” in the name");
    browser.assert_silent();
}

#[test]
fn datacenters_are_in_a_picture_and_have_pages() {
    let scene = Scene::new();
    let browser = &scene.browser;
    scene.open("/datacenters");
    browser.wait_for_text("#live", |text| text.starts_with("Live"));
    assert!(browser.text("#list").contains(&format!("{DATACENTERS} DATACENTERS")), "{}", browser.text("#list"));
    assert_eq!(scene.count("#list tbody tr"), DATACENTERS as u64);
    assert_eq!(scene.count("#picture .node"), 24 + REGIONS as u64 + 1, "datacenters, regions and a secondary");
    assert_eq!(scene.count("#picture .line"), (24 * REGIONS + REGIONS) as u64);
    let heads = "return [...document.querySelectorAll('#picture .head')].map((head) => head.textContent)";
    let server = Settings::new("").name;
    assert_eq!(
        browser.run(heads, json!([])),
        json!(["Datacenters", format!("Regions on {server}"), "Servers with copies"])
    );
    assert!(browser.text("#picture").contains("And 6 datacenters more"), "{}", browser.text("#picture"));
    let drained = scene.daemon.verb(&["drain", "dc-9.r2", "--yes", "--reason", "new switches"]);
    assert_eq!(drained.code, 0, "{drained:?}");
    // One that was not among the first is shown now, and so is its line's label.
    wait_until("the drain is in the picture", PATIENCE, || (!scene.labels().is_empty()).then_some(()));
    assert_eq!(scene.labels(), ["drained"], "others are as they should be");
    scene.look("the datacenters", "many-datacenters");
    browser.run(
        "[...document.querySelectorAll('#list a')].find((link) => link.textContent === 'dc-9').click()",
        json!([]),
    );
    browser.wait_for_text("h1", |text| text == "dc-9");
    let head = browser.text("#head");
    assert!(head.contains("drained") && head.contains("new switches"), "{head}");
    assert_eq!(scene.count("#zones tbody tr"), REGIONS as u64);
    assert_eq!(scene.count("#regions tbody tr"), REGIONS as u64);
    scene.look("a datacenter", "many-datacenter");
    browser.wait_for_text("#live", |text| text.starts_with("Live"));
    assert_eq!(scene.daemon.verb(&["undrain", "dc-9.r2"]).code, 0);
    browser.wait_for_text("#verdict", |text| text == "ok");
    scene.open("/zone/r2.example");
    assert_eq!(scene.count("#picture .line"), 25, "24 datacenters and a secondary");
    assert!(scene.labels().contains(&"current".to_owned()), "{:?}", scene.labels());
    scene.look("a region of many datacenters", "many-region");
    browser.assert_silent();
    scene.open("/datacenter/none");
    assert!(browser.text("main").contains("There is no datacenter none"), "{}", browser.text("main"));
}

#[test]
fn charts_tell_their_values_and_stay_as_they_were_chosen() {
    let scene = Scene::new();
    let browser = &scene.browser;
    scene.open("/");
    browser.wait_for_text("#live", |text| text.starts_with("Live"));
    let question = |number: usize| scene.daemon.http(&format!("/api/v1/lookup?name=web.{}", zone(number % 30, 1)));
    (0..3).for_each(|number| assert!(question(number).1.contains("192.0.2.1")));
    let shown = "return [...document.querySelectorAll('.range')].filter((range) => range.offsetParent)
        .map((range) => range.className)";
    assert_eq!(browser.run(shown, json!([])), json!(["range minutes"]));
    assert!(browser.text(".range.minutes .along").contains("5m00s ago"), "{}", browser.text(".range.minutes"));
    browser.run("document.getElementById('range-hour').click()", json!([]));
    assert_eq!(browser.run(shown, json!([])), json!(["range hour"]));
    assert!(browser.text(".range.hour .along").contains("1h00m ago"));
    // By keyboard: the newest value, then the one before it, if there is one already.
    browser.run("document.querySelector('.range.hour .plot').focus()", json!([]));
    browser.press(KEYS[2]);
    let told = browser.wait_for_text(".range.hour output", |text| text.contains("Z: "));
    assert!(told.split("Z: ").nth(1).is_some_and(|value| value.parse::<f64>().is_ok()), "{told}");
    // An update takes nothing of that away.
    let values = "return document.querySelectorAll('.range.minutes .plot')[1].dataset.values";
    let before = browser.run(values, json!([]));
    wait_until("the charts have gone on", PATIENCE, || (browser.run(values, json!([])) != before).then_some(()));
    assert_eq!(browser.run(shown, json!([])), json!(["range hour"]));
    assert!(browser.text(".range.hour output").contains("Z: "));
    for range in ["minutes", "hour", "day"] {
        let found: Value =
            serde_json::from_str(&scene.daemon.http(&format!("/api/v1/queries?range={range}")).1).expect("JSON");
        let interval = found["interval_seconds"].as_f64();
        assert_eq!(
            interval,
            Some(match range {
                "minutes" => 2.0,
                "hour" => 30.0,
                _ => 600.0,
            })
        );
    }
    assert_eq!(scene.daemon.http("/api/v1/queries?range=week").0, 400);
    browser.assert_silent();
}

#[test]
fn pages_and_scrapes_are_compressed_for_who_takes_that() {
    let scene = Scene::new();
    let fetch = |path: &str, field: &str| {
        let mut stream = TcpStream::connect(scene.daemon.metrics_address()).expect("connected");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{field}\r\n").expect("asked");
        let mut response = Vec::new();
        stream.read_to_end(&mut response).expect("answered");
        let end = response.windows(4).position(|part| part == b"\r\n\r\n").expect("fields") + 4;
        let body = response.split_off(end);
        (String::from_utf8(response).expect("text").to_lowercase(), body)
    };
    for path in ["/", "/metrics", "/api/v1/status"] {
        let (plain_fields, plain) = fetch(path, "");
        let (fields, short) = fetch(path, "Accept-Encoding: br, gzip\r\n");
        assert!(fields.contains("content-encoding: gzip") && !plain_fields.contains("content-encoding"), "{fields}");
        assert!(plain_fields.contains("vary: accept-encoding") && fields.contains("vary: accept-encoding"));
        assert!(short.len() * 4 < plain.len(), "{path}: {} octets of {}", short.len(), plain.len());
        let mut gzip =
            Command::new("gzip").arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("gzip");
        let mut input = gzip.stdin.take().expect("a pipe");
        let writer = std::thread::spawn(move || input.write_all(&short).expect("gzip reads"));
        let whole = gzip.wait_with_output().expect("gzip ends");
        writer.join().expect("written");
        assert!(whole.status.success());
        let text = String::from_utf8(whole.stdout).expect("text");
        let (wanted, end) = match path {
            "/metrics" => ("aggregator_build_info", "\n"),
            "/" => ("r11.example", "</html>"),
            _ => ("r11.example", "}"),
        };
        assert!(text.contains(wanted) && text.ends_with(end), "{path} does not end as it should");
    }
    let (fields, body) = fetch("/healthz", "Accept-Encoding: gzip\r\n");
    assert!(!fields.contains("content-encoding") && body == b"ok\n", "{fields}");
}
