//! The status page in Chromium where there are many zones: how long until something is painted, until the list has
//! followed a letter, and how much an open page is sent while datacenters come and go.
//!
//! Pictures in three widths, light and dark, lie in `target/screenshots`; each is looked at for barriers where `make test`
//! has fetched the program for that.
//!
//! Cost: half a minute.

use crate::daemon::Daemon;
use crate::harness::{Browser, Folder};
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Times that a page is opened, and that the list is filtered.
const TIMES: usize = 9;
/// Time in which an open page is listened to.
const LISTEN: Duration = Duration::from_secs(10);
/// Time between orders to a datacenter in that time.
const PACE: Duration = Duration::from_millis(250);
/// Pages that are looked at, with the names of their pictures.
const PAGES: [(&str, &str); 4] = [
    ("/", "overview"),
    ("/zones?name=z1", "list"),
    ("/datacenters", "datacenters"),
    ("/zone/r0.example.org", "region"),
];

/// Looks at the page of a server that has these datacenters; returns figures with their values.
pub fn look(folder: &Folder, daemon: &Daemon, server: SocketAddr, count: usize) -> Vec<(String, String)> {
    let browser = Browser::start(folder);
    let address = |path: &str| format!("http://{server}{path}");
    let mut figures = Vec::new();
    for (path, name) in PAGES {
        let mut painted: Vec<f64> = (0..TIMES).map(|_| paint(&browser, &address(path))).collect();
        painted.sort_by(f64::total_cmp);
        figures.push((
            format!("{name}: first paint"),
            format!("{:.0} ms (at most {:.0})", painted[TIMES / 2], painted[TIMES - 1]),
        ));
        let octets = size(server, path);
        figures.push((
            format!("{name}: octets, compressed"),
            format!("{:.1} kB, {:.1} kB", octets[0] as f64 / 1e3, octets[1] as f64 / 1e3),
        ));
    }
    browser.open(&address("/zones"));
    let mut filtered: Vec<f64> = (0..TIMES).map(|time| filter(&browser, &format!("z{time}"))).collect();
    filtered.sort_by(f64::total_cmp);
    figures.push((
        "filter: letter to list".to_string(),
        format!("{:.0} ms (at most {:.0})", filtered[TIMES / 2], filtered[TIMES - 1]),
    ));
    figures.push(("live updates: polls alone".to_string(), rate(server, || {})));
    let mut orders = (0..).map(|number: usize| (["drain", "undrain"][number % 2], number / 2 % count));
    let busy = rate(server, || {
        let (order, datacenter) = orders.next().expect("there is no last one");
        let zone = format!("z{datacenter}.example.com");
        daemon.verb(&if order == "drain" { vec![order, &zone, "--yes"] } else { vec![order, &zone] });
    });
    figures.push(("live updates: with four orders a second".to_string(), busy));
    for (path, name) in PAGES {
        for (dark, width) in [(false, 1280), (true, 1280), (false, 820), (true, 820), (false, 360), (true, 360)] {
            browser.set_dark(dark);
            browser.set_width(width, width < 500);
            browser.open(&address(path));
            browser.photograph(&format!("{count}-{name}-{}{width}", if dark { "dark-" } else { "" }));
            browser.assert_accessible(&format!("{path}, {width} wide"));
        }
    }
    figures.push(("barriers found by axe, three widths, light and dark".to_string(), "none".to_string()));
    figures
}

/// Opens a page; returns the milliseconds until something of it was painted.
fn paint(browser: &Browser, address: &str) -> f64 {
    browser.open("about:blank");
    browser.open(address);
    let script = "const done = arguments[arguments.length - 1];
        const look = () => {
            const paint = performance.getEntriesByName('first-contentful-paint')[0];
            if (paint) done(paint.startTime); else setTimeout(look, 10);
        };
        look();";
    browser.run_later(script, json!([])).as_f64().expect("a time")
}

/// Writes a name into the filter of the list; returns the milliseconds until the list has followed and is drawn.
fn filter(browser: &Browser, wanted: &str) -> f64 {
    let script = "const [wanted, done] = arguments;
        const box = document.getElementById('zone-name');
        const status = document.querySelector('#found [role=status]');
        const start = performance.now();
        const look = () => {
            if (status.textContent.includes(`“${wanted}”`)) requestAnimationFrame(() => done(performance.now() - start));
            else requestAnimationFrame(look);
        };
        box.value = wanted;
        box.dispatchEvent(new Event('input', { bubbles: true }));
        look();";
    browser.run_later(script, Value::Array(vec![json!(wanted)])).as_f64().expect("a time")
}

/// Octets of a page as it is, and compressed.
fn size(server: SocketAddr, path: &str) -> [usize; 2] {
    ["", "Accept-Encoding: gzip\r\n"].map(|field| {
        let mut stream = TcpStream::connect(server).expect("the page is served");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {server}\r\n{field}\r\n").expect("the page is served");
        let mut response = Vec::new();
        stream.read_to_end(&mut response).expect("the page is served");
        response.len()
    })
}

/// Listens to what an open page is sent, while something is done again and again.
fn rate(server: SocketAddr, mut act: impl FnMut()) -> String {
    let mut stream = TcpStream::connect(server).expect("the page is served");
    write!(stream, "GET /events?of=%2F HTTP/1.1\r\nHost: {server}\r\n\r\n").expect("the page is served");
    stream.set_read_timeout(Some(PACE)).expect("a socket has a timeout");
    let (mut octets, mut buffer) = (0, vec![0; 1 << 16]);
    // The first event is the page itself.
    let mut start = None;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => panic!("the page has ended"),
            Ok(read) if start.is_some() => octets += read,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                start.get_or_insert_with(Instant::now);
                act();
            }
            Err(error) => panic!("{error}"),
        }
        if let Some(elapsed) = start.map(|start| start.elapsed()).filter(|elapsed| *elapsed > LISTEN) {
            return format!("{:.1} kB/s", octets as f64 / 1e3 / elapsed.as_secs_f64());
        }
    }
}
