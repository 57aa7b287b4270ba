//! A daemon that makes zones of an inventory, as the tests see it.

use crate::harness::*;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A generous limit for what takes a second or two.
pub const DEADLINE: Duration = Duration::from_secs(90);
pub const ZONE: &str = "us-west-1.cns.example.com.";
/// The reverse zone of all instances.
pub const REVERSE: &str = "100.51.198.in-addr.arpa.";
/// UUID of an instance.
pub const UUID: &str = "11110000-0000-4000-8000-00000000000b";

/// Waits for something within the usual limit.
pub fn wait<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    wait_until(what, DEADLINE, probe)
}

/// An address by number.
pub fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, number)
}

/// An instance of the service `web`.
pub fn vm(alias: &str, owner: &str, number: u8) -> Value {
    let addresses = [address(number).to_string(), format!("2001:db8:1:100::{number:x}")];
    json!({ "alias": alias, "owner": owner, "addresses": addresses, "services": "web:8080" })
}

/// An instance with other fields.
pub fn with(mut vm: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else { panic!("{fields} is no object") };
    fields.into_iter().for_each(|(key, value)| vm[key] = value);
    vm
}

/// A document with these instances.
pub fn document(vms: &[Value]) -> String {
    json!({ "format": 1, "vms": vms }).to_string()
}

/// A daemon with an inventory.
pub struct Site {
    pub folder: Folder,
    pub daemon: Aggregator,
    source: String,
    rules: String,
}

impl Site {
    /// Starts a daemon whose inventory is a file with these instances; `rules` are further lines of the inventory.
    pub fn start(vms: &[Value], rules: &str) -> Site {
        Site::start_beside(Folder::new(), vms, rules, &[])
    }

    /// The same with secondaries that it is to notify.
    pub fn start_beside(folder: Folder, vms: &[Value], rules: &str, secondaries: &[SocketAddr]) -> Site {
        write_file(&folder.subfolder("aggregator").join("inventory.json"), &document(vms));
        Site::begin(folder, "file = \"inventory.json\"\n", rules, secondaries)
    }

    /// Starts a daemon whose inventory comes from elsewhere.
    pub fn start_with(source: &str, rules: &str) -> Site {
        Site::begin(Folder::new(), source, rules, &[])
    }

    /// Starts a daemon with this plan, whose inventory is a file with these instances.
    pub fn start_plan(plan: &str, vms: &[Value]) -> Site {
        let folder = Folder::new();
        write_file(&folder.subfolder("aggregator").join("inventory.json"), &document(vms));
        let settings = Settings { state: Some("state".to_owned()), ..Settings::new(plan) };
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
        Site { folder, daemon, source: String::new(), rules: String::new() }
    }

    fn begin(folder: Folder, source: &str, rules: &str, secondaries: &[SocketAddr]) -> Site {
        let settings = settings(source, rules, secondaries);
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
        Site { folder, daemon, source: source.to_owned(), rules: rules.to_owned() }
    }

    /// The file with the inventory.
    pub fn file(&self) -> PathBuf {
        self.folder.subfolder("aggregator").join("inventory.json")
    }

    /// Replaces the inventory.
    pub fn write(&self, vms: &[Value]) {
        self.write_text(&document(vms));
    }

    /// Replaces the text of the inventory.
    pub fn write_text(&self, text: &str) {
        write_file(&self.file(), text);
    }

    /// Lets the daemon notify secondaries.
    pub fn notify(&self, secondaries: &[SocketAddr]) {
        self.daemon.write_settings(&settings(&self.source, &self.rules, secondaries));
        let reloaded = self.daemon.verb(&["reload"]);
        assert_eq!(reloaded.code, 0, "{reloaded:?}");
    }

    /// Lets the daemon make other reverse zones, and notify others.
    pub fn reverse(&self, prefixes: &str, secondaries: &[SocketAddr]) {
        let settings = settings(&self.source, &self.rules, secondaries);
        let plan = settings.plan.replace("198.51.100.0/24", prefixes);
        self.daemon.write_settings(&Settings { plan, ..settings });
        let reloaded = self.daemon.verb(&["reload"]);
        assert_eq!(reloaded.code, 0, "{reloaded:?}");
    }

    /// Has the inventory read now, whatever comes of it.
    pub fn refresh(&self) {
        self.daemon.verb(&["refresh", ZONE]);
    }

    /// A client of the daemon.
    pub fn resolver(&self) -> Resolver {
        Resolver { client: Client::new(self.daemon.address()) }
    }

    /// Waits until the status of the zone's source is as wanted.
    pub fn wait_status(&self, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let started = std::time::Instant::now();
        loop {
            let output = self.daemon.verb(&["status", ZONE, "--json"]);
            let report: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
            let source = report["zones"][0]["source"].clone();
            if is_wanted(&source) {
                return source;
            }
            if source != Value::Null {
                last = source;
            }
            assert!(started.elapsed() < DEADLINE, "waited in vain until {what}; {last}\n{}", self.daemon.log_text());
            // Only the rhythm of asking again; the condition decides.
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A metric of the zone with these labels beside it.
    pub fn metric(&self, family: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.metric_of(family, &[labels, &[("zone", ZONE)]].concat())
    }

    /// A metric with these labels.
    pub fn metric_of(&self, family: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let page = self.daemon.metrics();
        let has = |line: &str| labels.iter().all(|(label, value)| line.contains(&format!("{label}=\"{value}\"")));
        let mut lines = page.lines().filter(|line| line.starts_with(&format!("aggregator_{family}{{")) && has(line));
        lines.next()?.rsplit(' ').next()?.parse().ok()
    }
}

/// The settings of such a daemon.
fn settings(source: &str, rules: &str, secondaries: &[SocketAddr]) -> Settings {
    let zone = ZONE.trim_end_matches('.');
    let notified: Vec<String> = secondaries.iter().map(|address| format!("\"{address}\"")).collect();
    let plan = format!(
        "[secondaries]\nallow_transfer = [\"127.0.0.0/8\"]\nnotify = [{}]\n\
         [zones.\"{zone}\"]\ninventory = \"dc1\"\n\
         [inventories.dc1]\n{source}reverse = [\"198.51.100.0/24\"]\n{rules}",
        notified.join(", ")
    );
    let mut settings = Settings::new(&plan);
    settings.state = Some("state".to_owned());
    settings
}

/// Client of a daemon.
pub struct Resolver {
    client: Client,
}

impl Resolver {
    /// The whole response to a question.
    pub fn ask(&mut self, name: &str, rtype: u16) -> Message {
        let query = Query::new(&Dname::parse(name), rtype);
        let message = wait("there is an answer", || self.client.ask(&query).ok());
        if message.is_truncated() { self.client.ask_tcp(&query).expect("an answer over TCP") } else { message }
    }

    /// The records of a type at a name within the zone.
    pub fn records(&mut self, name: &str, rtype: u16) -> Vec<Record> {
        self.ask(&format!("{name}.{ZONE}"), rtype).answer
    }

    /// The addresses of a name within the zone, sorted.
    pub fn addresses(&mut self, name: &str) -> Vec<Ipv4Addr> {
        let octets = |record: &Record| <[u8; 4]>::try_from(&record.rdata[..]).expect("an address");
        let mut found: Vec<Ipv4Addr> =
            self.records(name, rtype::A).iter().map(|record| octets(record).into()).collect();
        found.sort();
        found
    }

    /// Waits until a name has the addresses of these numbers.
    pub fn wait_addresses(&mut self, name: &str, numbers: &[u8]) {
        let wanted: Vec<Ipv4Addr> = numbers.iter().map(|number| address(*number)).collect();
        wait(&format!("{name} has {wanted:?}"), || (self.addresses(name) == wanted).then_some(()));
    }

    /// The serial of the zone; none while it is not served.
    pub fn serial(&mut self) -> Option<u32> {
        self.client.serial(&Dname::parse(ZONE))
    }
}

/// A server of one document over HTTP, which knows tags.
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    answer: Mutex<(u16, String)>,
    asked: AtomicU64,
    not_modified: AtomicU64,
}

impl Origin {
    /// Starts it with a document.
    pub fn start(text: &str) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        *shared.answer.lock().unwrap() = (200, text.to_owned());
        let seen = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = seen.clone();
                std::thread::spawn(move || seen.serve(stream));
            }
        });
        Origin { address, shared }
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers so from now on.
    pub fn answer(&self, status: u16, text: &str) {
        *self.shared.answer.lock().unwrap() = (status, text.to_owned());
    }

    /// Number of requests.
    pub fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::Relaxed)
    }

    /// Number of answers that the asker has the document already.
    pub fn not_modified(&self) -> u64 {
        self.shared.not_modified.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Answers the requests of a connection.
    fn serve(&self, stream: TcpStream) {
        let mut writer = stream.try_clone().expect("a stream");
        let mut lines = BufReader::new(stream.take(1 << 20)).lines().map_while(Result::ok);
        loop {
            let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
            if head.is_empty() {
                return;
            }
            self.asked.fetch_add(1, Ordering::Relaxed);
            let (status, text) = self.answer.lock().unwrap().clone();
            let tag = format!("\"{}-{}\"", status, text.len());
            let is_same = head.iter().any(|line| line.to_lowercase() == format!("if-none-match: {tag}"));
            let reply = if status == 200 && is_same {
                self.not_modified.fetch_add(1, Ordering::Relaxed);
                format!("HTTP/1.1 304 Not Modified\r\nETag: {tag}\r\n\r\n")
            } else {
                format!("HTTP/1.1 {status} x\r\nETag: {tag}\r\nContent-Length: {}\r\n\r\n{text}", text.len())
            };
            if writer.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
    }
}
