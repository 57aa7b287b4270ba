//! BIND, NSD and Knot as primaries that keep differences: what changes there arrives here as differences, record by
//! record the same as in the whole zone; without differences, with other serials and with signatures, too.

mod harness;

use harness::*;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const ZONE: &str = "us-west-1.cns.example.com.";
/// Timers that bring no poll while a test runs: the tests ask for each refresh.
const NO_POLLS: &str = "[transfer]\nrefresh_min = \"1d\"\nrefresh_max = \"1d\"\n";

/// Generous for what takes moments.
const DEADLINE: Duration = Duration::from_secs(20);

type Start = fn(&Folder, &[ZoneText]) -> Peer;

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    /// A number below `limit`.
    fn roll(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A zone that changes: sets of addresses and texts, each with a TTL, and its name servers.
struct Model {
    serial: u32,
    servers: u64,
    sets: BTreeMap<u64, (u32, Vec<u64>)>,
    dice: Dice,
}

impl Model {
    /// A zone of some hundred records.
    fn new(serial: u32, seed: u64) -> Model {
        let mut model = Model { serial, servers: 2, sets: BTreeMap::new(), dice: Dice(seed) };
        for name in 0..200 {
            model.sets.insert(name, (30, vec![name, name + 300]));
        }
        model
    }

    /// Goes on to another version.
    fn change(&mut self, step: u32) {
        self.serial = self.serial.wrapping_add(step);
        for _ in 0..=self.dice.roll(8) {
            let (name, number) = (self.dice.roll(250), self.dice.roll(60_000));
            match self.dice.roll(6) {
                0 => drop(self.sets.remove(&name)),
                1 => drop(self.sets.insert(name, (30, vec![number]))),
                2 => {
                    // The TTL of a whole set.
                    let ttl = 30 + number as u32 % 5;
                    self.sets.entry(name).and_modify(|set| set.0 = ttl);
                }
                3 => self.servers = 1 + number % 3,
                _ => {
                    let set = self.sets.entry(name).or_insert((30, Vec::new()));
                    if set.1.len() > 4 {
                        set.1.remove(0);
                    }
                    set.1.retain(|other| *other != number);
                    set.1.push(number);
                }
            }
        }
    }

    /// The version as text.
    fn text(&self) -> String {
        let mut text = format!("$ORIGIN {ZONE}\n@ 30 IN SOA ns h {} 30 60 2592000 30\n", self.serial);
        for number in 0..self.servers {
            text += &format!("@ 3600 IN NS ns{number}.example.\n");
        }
        for (name, (ttl, numbers)) in &self.sets {
            for number in numbers {
                let (high, low) = (number / 256, number % 256);
                text += &format!("Host{name}.inst {ttl} IN A 10.1.{high}.{low}\n");
                text += &format!("host{name}.svc {ttl} IN TXT \"number {number}\"\n");
            }
        }
        text
    }

    /// The version as records.
    fn records(&self) -> Vec<Record> {
        read_zone(&self.text())
    }
}

/// A peer with the model's zone and the daemon that follows it.
struct Pair {
    zone: Dname,
    peer: Peer,
    daemon: Aggregator,
    model: Model,
    _folder: Folder,
}

impl Pair {
    /// Starts both; `plan` makes the configuration from the peer's address.
    fn start(start: Start, serial: u32, plan: impl Fn(&Folder, &Peer) -> String) -> Pair {
        let folder = Folder::new();
        let (zone, model) = (Dname::parse(ZONE), Model::new(serial, u64::from(serial) + 1));
        let peer = start(&folder, &[(zone.clone(), model.text())]);
        let daemon = Aggregator::start(&folder, &plan(&folder, &peer));
        let pair = Pair { zone, peer, daemon, model, _folder: folder };
        pair.wait("the zone is there");
        pair
    }

    /// Waits until the daemon has what the model says.
    fn wait(&self, what: &str) {
        let expected = self.model.records();
        let name = self.peer.name();
        wait_until(&format!("{what}, from {name}"), DEADLINE, || {
            difference(&expected, &self.daemon.dump(&self.zone)?).is_none().then_some(())
        });
    }

    /// Changes the zone at the peer and fetches what changed.
    fn step(&mut self, step: u32) {
        self.model.change(step);
        self.peer.replace_zone(&self.zone, &self.model.records());
        let expected = self.model.records();
        wait_until(&format!("serial {} of {} is served", self.model.serial, self.peer.name()), DEADLINE, || {
            // For a moment NSD also answers from processes that have the version before.
            let output = self.daemon.verb(&["refresh", ZONE]);
            assert_eq!(output.code, 0, "{}{}\n{}", output.stdout, output.stderr, self.daemon.log_text());
            let dump = self.daemon.dump(&self.zone).expect("the zone is served");
            let serial =
                |records: &[Record]| records.iter().find(|record| record.rtype == rtype::SOA).map(Record::serial);
            if serial(&dump) != Some(self.model.serial) {
                return None;
            }
            if let Some(text) = difference(&expected, &dump) {
                panic!("{}: the model is left, the daemon right: {text}\n{}", self.peer.name(), self.daemon.log_text());
            }
            Some(())
        });
    }

    /// Returns the number of incremental and of full transfers.
    fn brought(&self) -> (u64, u64) {
        self.daemon.received(ZONE)
    }

    /// The reasons of failed attempts.
    fn failures(&self) -> Vec<String> {
        let metrics = self.daemon.metrics();
        let lines = metrics.lines().filter(|line| line.starts_with("aggregator_transfer_failures_total{"));
        lines.map(str::to_owned).collect()
    }
}

/// A plan without anything special.
fn plain(_: &Folder, peer: &Peer) -> String {
    format!("{NO_POLLS}[zones]\n\"{ZONE}\" = \"{}\"\n", peer.address())
}

/// Follows a peer through changes, nearly all of them incremental.
fn follow(start: Start) {
    let mut pair = Pair::start(start, 407_818_243, plain);
    for step in 1..=30 {
        pair.step(step % 3 + 1);
    }
    let (incremental, whole) = pair.brought();
    println!("{}: {incremental} of {} transfers were incremental", pair.peer.name(), incremental + whole);
    assert_eq!((incremental, whole), (30, 1), "{}", pair.daemon.log_text());
    assert_eq!(pair.failures(), Vec::<String>::new());
    // The whole zone says the same: nothing was lost or added on the way, TTLs included.
    let output = pair.daemon.verb(&["retransfer", ZONE]);
    assert!(output.stdout.contains(" 0 names changed"), "{}{}", output.stdout, output.stderr);
}

#[test]
fn bind_sends_differences() {
    follow(Named::start_incremental);
}

#[test]
fn nsd_sends_differences() {
    follow(Nsd::start_incremental);
}

#[test]
fn knot_sends_differences() {
    follow(Knotd::start_incremental);
}

#[test]
fn differences_follow_serials_around() {
    for start in [Named::start_incremental, Nsd::start_incremental, Knotd::start_incremental] {
        let mut pair = Pair::start(start, (1 << 31) - 2, plain);
        // Past 2^31, then to just before 2^32 and past it.
        for step in [1, 1, 1, (1 << 31) - 3, 1, 1, 1, 5] {
            pair.step(step);
        }
        assert_eq!(pair.model.serial, 6);
        assert_eq!(pair.brought(), (8, 1), "{}", pair.daemon.log_text());
    }
}

/// Primaries without history answer with the whole zone, which is taken as such.
#[test]
fn whole_zones_come_where_there_are_no_differences() {
    for start in [Named::start, Nsd::start, Knotd::start] {
        let mut pair = Pair::start(start, 1, plain);
        for _ in 0..3 {
            pair.step(1);
        }
        assert_eq!(pair.brought().0, 0, "{}", pair.daemon.log_text());
        let dump = pair.daemon.dump(&pair.zone).expect("the zone is served");
        assert_eq!(difference(&pair.model.records(), &dump), None);
    }
}

/// Several versions behind: all steps in one answer.
#[test]
fn differences_of_many_versions_come_together() {
    for start in [Named::start_incremental, Nsd::start_incremental, Knotd::start_incremental] {
        let mut pair = Pair::start(start, 1, plain);
        for _ in 0..5 {
            pair.model.change(1);
            pair.peer.replace_zone(&pair.zone, &pair.model.records());
        }
        pair.step(1);
        assert_eq!(pair.brought(), (1, 1), "{}", pair.daemon.log_text());
    }
}

/// A plan with a key, whose secret lies in a file.
fn signed(folder: &Folder, peer: &Peer, secret: &str) -> String {
    let file = folder.path().join("transfer.key");
    write_file(&file, secret);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("permissions");
    format!(
        "{NO_POLLS}[keys.\"{KEY_NAME}\"]\nsecret_file = \"{}\"\n[zones.\"{ZONE}\"]\nprimaries = [\"{}\"]\n\
         source_address = \"127.0.0.2\"\nkey = \"{KEY_NAME}\"\n",
        file.display(),
        peer.address()
    )
}

#[test]
fn polls_and_transfers_are_signed() {
    for start in [Named::start_incremental, Nsd::start_incremental, Knotd::start_incremental] {
        let mut pair = Pair::start(start, 1, |folder, peer| signed(folder, peer, KEY_SECRET));
        for _ in 0..3 {
            pair.step(1);
        }
        assert_eq!(pair.brought(), (3, 1), "{}", pair.daemon.log_text());
        assert_eq!(pair.failures(), Vec::<String>::new());
        // A wrong secret is refused by both sides, and the metric names the reason.
        let wrong = signed(&pair._folder, &pair.peer, "V3JvbmcgYnkgb25lIGFuZCBhbGwsIGFsbCB3cm9uZy4uLi4=");
        pair.daemon.write_plan(&wrong);
        assert_eq!(pair.daemon.verb(&["reload"]).code, 0);
        let output = pair.daemon.verb(&["refresh", ZONE]);
        assert_eq!(output.code, 1, "{}", output.stdout);
        wait_until("the reason is counted", Duration::from_secs(10), || {
            let failures = pair.failures();
            let named = |line: &String| line.contains("kind=\"soa\"") && line.contains("reason=\"peer_bad_signature\"");
            failures.iter().any(named).then_some(())
        });
        let dump = pair.daemon.dump(&pair.zone).expect("the zone is still served");
        assert_eq!(difference(&pair.model.records(), &dump), None);
    }
}

/// A number of the metrics page for the zone; none is zero.
fn metric(daemon: &Aggregator, name: &str) -> u64 {
    let (page, series) = (daemon.metrics(), format!("aggregator_{name}{{zone=\"{ZONE}\"}} "));
    page.lines().find_map(|line| line.strip_prefix(&series)).map_or(0, |number| number.parse().expect("a number"))
}

/// Removals behind a whole transfer are confirmed by questions. BIND answers here for signed questions only.
#[test]
fn questions_about_removals_are_signed() {
    let mut pair = Pair::start(Named::start_signed, 1, |folder, peer| signed(folder, peer, KEY_SECRET));
    let answer = Client::new(pair.peer.address()).with_source("127.0.0.2".parse().unwrap());
    let refused = answer.with_deadline(DEADLINE).ask(&Query::new(&pair.zone, rtype::A)).expect("an answer");
    assert_eq!(refused.rcode(), 5, "without a signature");
    assert!(pair.model.sets.remove(&7).is_some());
    pair.step(1);
    assert_eq!(pair.brought(), (1, 1), "{}", pair.daemon.log_text());
    assert_eq!(pair.failures(), Vec::<String>::new());
    let counted = ["doubt_questions_total", "removals_vetoed_total", "records_in_doubt"];
    let [questions, vetoed, in_doubt] = counted.map(|name| metric(&pair.daemon, name));
    assert!(questions > 0 && vetoed == 0 && in_doubt == 0, "{questions} {vetoed} {in_doubt}");
}

/// An answer with another MAC is none: the whole zone is transferred at once, and what goes after that stays a while.
#[test]
fn answers_with_a_bad_signature_are_none() {
    let (folder, zone) = (Folder::new(), Dname::parse(ZONE));
    let mut model = Model::new(1, 1);
    let peer = Named::start_incremental(&folder, &[(zone.clone(), model.text())]);
    let mut port = Port::reserve();
    let relay = Relay::start(port.release(), peer.address(), 1);
    relay.set(Weather { questions: Questions::Spoiled, ..Weather::default() });
    let plan = signed(&folder, &peer, KEY_SECRET).replace(&peer.address().to_string(), &relay.address().to_string());
    let daemon = Aggregator::start(&folder, &plan.replace("source_address = \"127.0.0.2\"\n", ""));
    let is_served = |model: &Model| difference(&model.records(), &daemon.dump(&zone)?).is_none().then_some(());
    wait_until("the zone is there", DEADLINE, || is_served(&model));
    let set = model.sets[&8].clone();
    let mut change = |name: u64, set: Option<(u32, Vec<u64>)>| {
        model.serial += 1;
        match set {
            Some(set) => _ = model.sets.insert(name, set),
            None => _ = model.sets.remove(&name).expect("a set to remove"),
        }
        peer.replace_zone(&zone, &model.records());
        assert_eq!(daemon.verb(&["refresh", ZONE]).code, 0, "{}", daemon.log_text());
        model.records()
    };
    let whole = change(7, None);
    assert_eq!(difference(&whole, &daemon.dump(&zone).expect("a zone")), None, "the whole zone tells");
    let page = daemon.metrics();
    assert!(page.contains("reason=\"ixfr_unanswered\""), "{page}");
    assert_eq!(metric(&daemon, "records_in_doubt"), 0);
    let expected = change(8, None);
    let served = daemon.dump(&zone).expect("a zone");
    let kept = metric(&daemon, "records_in_doubt");
    assert!(kept > 0 && served.len() == expected.len() + kept as usize, "{kept} of {}", served.len());
    assert_eq!(metric(&daemon, "removals_vetoed_total"), 0);
    // Where signatures are good again an answer counts: what is kept comes again and goes for good.
    relay.set(Weather::default());
    change(8, Some(set));
    let questions = metric(&daemon, "doubt_questions_total");
    let expected = change(8, None);
    assert!(metric(&daemon, "doubt_questions_total") > questions);
    assert_eq!(difference(&expected, &daemon.dump(&zone).expect("a zone")), None);
    assert_eq!(metric(&daemon, "removals_vetoed_total"), 0);
    assert_eq!(metric(&daemon, "records_in_doubt"), 0, "what is gone is in doubt no more");
    // What nobody answers for stays until a whole zone tells. Behind such a copy removals are in doubt again.
    assert_eq!(daemon.verb(&["retransfer", ZONE]).code, 0);
    relay.set(Weather { questions: Questions::Spoiled, ..Weather::default() });
    let expected = change(9, None);
    assert!(metric(&daemon, "records_in_doubt") > 0, "{}", daemon.log_text());
    assert_eq!(daemon.verb(&["retransfer", ZONE]).code, 0);
    assert_eq!(metric(&daemon, "records_in_doubt"), 0);
    assert_eq!(difference(&expected, &daemon.dump(&zone).expect("a zone")), None);
}

/// A zone of many messages, not all of which need a signature (RFC 8945 section 5.3.1), and differences of many
/// messages.
#[test]
fn long_signed_transfers_are_checked_message_by_message() {
    for start in [Named::start_incremental, Nsd::start_incremental, Knotd::start_incremental] {
        let folder = Folder::new();
        let zone = Dname::parse(ZONE);
        let text = |serial: u32, count: u32| {
            let mut text =
                format!("$ORIGIN {ZONE}\n@ 30 IN SOA ns h {serial} 30 60 2592000 30\n@ 3600 IN NS ns.example.\n");
            (0..count).for_each(|number| text += &format!("h{number} 30 IN TXT \"{}\"\n", "x".repeat(200)));
            text
        };
        let peer = start(&folder, &[(zone.clone(), text(1, 10_000))]);
        let daemon = Aggregator::start(&folder, &signed(&folder, &peer, KEY_SECRET));
        let records = |serial: u32, count: u32| {
            wait_until(&format!("{}: serial {serial}", peer.name()), Duration::from_secs(30), || {
                let metrics = daemon.metrics();
                let has = |name: &str, value: u32| {
                    metrics.contains(&format!("aggregator_{name}{{zone=\"{ZONE}\"}} {value}\n"))
                };
                (has("zone_serial", serial) && has("zone_records", count + 2)).then_some(())
            });
        };
        records(1, 10_000);
        peer.replace_zone(&zone, &read_zone(&text(2, 18_000)));
        wait_until("the differences are there", DEADLINE, || {
            assert_eq!(daemon.verb(&["refresh", ZONE]).code, 0, "{}", daemon.log_text());
            daemon.log_text().contains("from=1 serial=2").then_some(())
        });
        records(2, 18_000);
        assert!(!daemon.metrics().contains("aggregator_transfer_failures_total{"), "{}", daemon.log_text());
        let lines: Vec<String> =
            daemon.log_text().lines().filter(|line| line.contains("zone transferred")).map(str::to_owned).collect();
        let is_long = |line: &String| {
            let (_, rest) = line.split_once("messages=").expect("the number of messages");
            rest.split(' ').next().and_then(|number| number.parse::<u32>().ok()).is_some_and(|messages| messages > 20)
        };
        assert!(lines.len() == 2 && lines.iter().all(is_long), "{lines:?}");
        assert!(lines[1].contains("kind=\"ixfr\"") || lines[1].contains("kind=ixfr"), "{lines:?}");
    }
}

/// A primary that wants signatures does not serve whoever has none; the reason is named.
#[test]
fn without_a_signature_there_is_no_transfer() {
    for start in [Named::start_incremental, Nsd::start_incremental, Knotd::start_incremental] {
        let folder = Folder::new();
        let (zone, model) = (Dname::parse(ZONE), Model::new(1, 1));
        let peer = start(&folder, &[(zone.clone(), model.text())]);
        let plan = format!(
            "{NO_POLLS}[zones.\"{ZONE}\"]\nprimaries = [\"{}\"]\nsource_address = \"127.0.0.2\"\n",
            peer.address()
        );
        let daemon = Aggregator::start(&folder, &plan);
        let output = daemon.verb(&["refresh", ZONE]);
        assert_eq!(output.code, 1);
        assert!(daemon.metrics().contains("kind=\"axfr\",primary="), "{}", daemon.metrics());
        let refused = |line: &str| line.contains("transfer_failures_total") && line.contains("kind=\"axfr\"");
        let metrics = daemon.metrics();
        let line = metrics.lines().find(|line| refused(line)).expect("a failure of the transfer");
        assert!(line.contains("reason=\"refused\"") || line.contains("reason=\"notauth\""), "{line}");
        assert!(daemon.dump(&zone).is_none());
    }
}
