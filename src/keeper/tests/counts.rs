//! Counts of steered answers, as Prometheus gets them.

use super::*;
use crate::select::{Law, Prefer, Steering};
use crate::serve::answer::{Asked, answer_request};
use std::net::IpAddr;
use wire::message::Request;

const ZONES: [&str; 2] = ["w1.x", "w2.x"];
const HOMES: [(&str, &str); 3] = [("w1.x", "10.1.0.0/16"), ("w2.x", "10.2.0.0/16"), ("e1.x", "10.9.0.0/16")];
/// A client of each home, and one without.
const CLIENTS: [&str; 4] = ["10.1.0.1", "10.2.0.1", "10.9.0.1", "192.0.2.1"];

/// A region that sends clients to the nearest of two members.
struct Steered {
    bench: Bench,
}

impl Steered {
    fn new() -> Steered {
        let bench = Bench::new(&ZONES, vec![region("w.x", &ZONES)]);
        let mut steered = Steered { bench };
        steered.plan(&HOMES, Prefer::Nearest);
        steered.load("w1.x.", "@ 30 SOA 1\nweb 30 A 192.0.2.1\napi 30 A 192.0.2.2");
        steered.load("w2.x.", "@ 30 SOA 1\nweb 30 A 192.0.2.3\napi 30 A 192.0.2.4");
        steered
    }

    /// Gives the keeper these homes.
    fn plan(&mut self, homes: &[(&str, &str)], prefer: Prefer) {
        let (sender, mut changes) = oneshot::channel();
        let lifetime = Lifetime { shortest: ZERO, longest: Duration::MAX };
        let zones = ZONES.map(|zone| (name(zone), lifetime)).to_vec();
        let mut answers = AnswersPlan::new(Law::ALL);
        answers.usual.steering = Steering { prefer, ..Steering::OFF };
        answers.near = vec![(name("e1.x"), vec![name("w2.x")])];
        let prefixes: Vec<(Prefix, u16)> =
            (0..).zip(homes).map(|(home, (_, prefix))| (prefix.parse().unwrap(), home)).collect();
        let clients = Clients::new(homes.iter().map(|(home, _)| name(home)).collect(), &prefixes).unwrap();
        let plan = Plan {
            zones,
            regions: vec![region("w.x", &ZONES)],
            answers: HashMap::from([(name("w.x"), Arc::new(answers))]),
            clients: Arc::new(clients),
            ..Plan::default()
        };
        self.bench.keeper.handle(Vec::new(), vec![Command::Plan(Box::new(plan), sender)]);
        changes.try_recv().unwrap();
    }

    fn load(&mut self, zone: &str, lines: &str) {
        self.bench.load(zone, lines, ZERO);
    }

    /// Asks for addresses of a name as each of the clients, and shows what was counted.
    fn ask(&mut self, owner: &str, clients: &[&str]) {
        let mut message = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        message.extend_from_slice(name(owner).as_wire());
        message.extend_from_slice(&[0, 1, 0, 1]);
        let published = self.bench.publisher.load();
        for client in clients {
            let mut request = Request::default();
            assert!(request.read(&message));
            let peer: IpAddr = client.parse().unwrap();
            let asked = Asked { message: &message, peer, datagram: true, rotation: 0, now: 0, secured: None };
            let response = answer_request(&published, &request, None, 512, &asked, &mut [0; 512]);
            assert_eq!(response.rcode, 0);
        }
        self.bench.keeper.handle(Vec::new(), Vec::new());
    }

    /// The series of a family, without the label of the region.
    fn series(&self, family: &str) -> Vec<String> {
        let text = self.bench.keeper.metrics.render();
        let of_family = text.lines().filter_map(|line| line.strip_prefix(&format!("aggregator_{family}{{")));
        let without = |line: &str| line.replace(",region=\"w.x.\"", "").replace(['"', '}'], "");
        of_family.map(without).collect()
    }

    /// Numbers of answers to the clients of w1.x that it was expected to give: its own, and others'.
    fn expected(&self) -> [u64; 2] {
        let series = self.series("home_answers_total");
        ["home", "elsewhere"].map(|served| {
            let start = format!("home=w1.x.,served={served} ");
            let count = series.iter().find_map(|line| line.strip_prefix(&start));
            count.unwrap_or_else(|| panic!("{start} in {series:?}")).parse().unwrap()
        })
    }

    /// Drains a share of the clients of w1.x from it.
    fn share(&mut self, percent: u8) {
        let target = DrainTarget { member: name("w1.x"), region: None, names: None };
        let (since, share) = (SystemTime::now(), Some(percent));
        let drain = Drain { target, share, since, until: None, reason: None, configured: false };
        let (done, _answered) = oneshot::channel();
        self.bench.keeper.handle(Vec::new(), vec![Command::Drain(Box::new(drain), done)]);
    }
}

#[test]
fn answers_are_shown_by_home_and_member() {
    let mut steered = Steered::new();
    let nothing = ["home=w1.x.,served=w1.x. 0", "home=w2.x.,served=w2.x. 0"];
    assert_eq!(steered.series("steered_answers_total"), nothing, "there before the first answer");
    assert_eq!(steered.series("clients_prefixes"), ["home=e1.x. 1", "home=w1.x. 1", "home=w2.x. 1"]);
    steered.ask("web.w.x", &CLIENTS);
    steered.ask("web.w.x", &CLIENTS[..1]);
    steered.ask("none.w.x", &[]);
    let counted = [
        "home=e1.x.,served=w2.x. 1",
        "home=none,served=any 1",
        "home=w1.x.,served=w1.x. 2",
        "home=w2.x.,served=w2.x. 1",
    ];
    assert_eq!(steered.series("steered_answers_total"), counted);
    let homes = |own: u32, others: u32| {
        [
            "home=w1.x.,served=elsewhere 0".to_owned(),
            format!("home=w1.x.,served=home {own}"),
            format!("home=w2.x.,served=elsewhere {others}"),
            "home=w2.x.,served=home 1".to_owned(),
        ]
    };
    assert_eq!(steered.series("home_answers_total"), homes(2, 0), "e1.x is no member");
    // What one member alone gives, nobody is steered to.
    steered.load("w2.x.", "@ 30 SOA 2\napi 30 A 192.0.2.4\napi 30 AAAA 2001:db8::4");
    steered.ask("api.w.x", &CLIENTS[..1]);
    steered.ask("web.w.x", &CLIENTS[1..2]);
    assert_eq!(steered.series("home_answers_total"), homes(3, 1), "w2.x has just lost it");
    assert_eq!(steered.bench.keeper.metrics.region_uneven.with_label_values(&["w.x."]).get(), 1);

    // Homes that go leave no series; those that stay are counted on.
    steered.plan(&[HOMES[2], HOMES[0]], Prefer::Nearest);
    steered.ask("api.w.x", &CLIENTS[..3]);
    let counted = ["home=e1.x.,served=w2.x. 2", "home=none,served=any 2", "home=w1.x.,served=w1.x. 4"];
    assert_eq!(steered.series("steered_answers_total"), counted);
    assert_eq!(steered.series("home_answers_total"), ["home=w1.x.,served=elsewhere 0", "home=w1.x.,served=home 4"]);
    assert_eq!(steered.series("clients_prefixes"), ["home=e1.x. 1", "home=w1.x. 1"]);
    // Without steering there is none, and afterwards they begin anew.
    let families = ["steered_answers_total", "home_answers_total", "region_uneven_names"];
    steered.plan(&HOMES[..1], Prefer::Off);
    steered.ask("api.w.x", &CLIENTS);
    assert_eq!(families.map(|family| steered.series(family).len()), [0; 3]);
    steered.plan(&HOMES[..1], Prefer::Nearest);
    steered.ask("api.w.x", &CLIENTS[..1]);
    assert_eq!(steered.series("steered_answers_total"), ["home=w1.x.,served=w1.x. 1"]);
    // Nor is there any of a region that is gone.
    steered.bench.plan(&ZONES, Vec::new());
    assert_eq!(families.map(|family| steered.series(family).len()), [0; 3]);
    assert!(steered.series("clients_prefixes").is_empty());
}

#[test]
fn members_that_come_and_go_change_what_is_shown() {
    let mut steered = Steered::new();
    steered.ask("web.w.x", &CLIENTS);
    let (sender, _changes) = oneshot::channel();
    let keeper = &mut steered.bench.keeper;
    let zones = keeper.sources.keys().map(|zone| (zone.clone(), Lifetime { shortest: ZERO, longest: Duration::MAX }));
    let plan = Plan {
        zones: zones.collect(),
        regions: vec![region("w.x", &["w2.x"])],
        answers: keeper.answers.clone(),
        clients: keeper.clients.clone(),
        ..Plan::default()
    };
    keeper.handle(Vec::new(), vec![Command::Plan(Box::new(plan), sender)]);
    let counted = ["home=e1.x.,served=w2.x. 1", "home=none,served=any 1", "home=w2.x.,served=w2.x. 1"];
    assert_eq!(steered.series("steered_answers_total"), counted);
    assert_eq!(steered.series("home_answers_total"), ["home=w2.x.,served=elsewhere 0", "home=w2.x.,served=home 1"]);
}

/// Whoever orders clients away from their home need not be told that they are served elsewhere.
#[test]
fn nothing_is_expected_of_a_home_that_is_drained() {
    let mut steered = Steered::new();
    let ask = |steered: &mut Steered| -> [u64; 2] {
        let before = steered.expected();
        ["web.w.x", "api.w.x"].iter().for_each(|owner| steered.ask(owner, &CLIENTS[..1]));
        let after = steered.expected();
        [after[0] - before[0], after[1] - before[1]]
    };
    assert_eq!(ask(&mut steered), [2, 0]);
    for names in [None, Some("*")] {
        steered.bench.drain("w1.x", names, true);
        assert_eq!(ask(&mut steered), [0, 0], "{names:?}");
        steered.bench.drain("w1.x", names, false);
        assert_eq!(ask(&mut steered), [2, 0], "{names:?}");
    }
    steered.bench.drain("w1.x", Some("web"), true);
    assert_eq!(ask(&mut steered), [1, 0]);
    steered.bench.drain("w1.x", Some("web"), false);
    for percent in [1, 99] {
        steered.share(percent);
        assert_eq!(ask(&mut steered), [0, 0], "{percent}");
    }
    steered.bench.drain("w1.x", None, false);
    // A service that goes is missed at home, unless its home is drained then.
    steered.load("w1.x.", "@ 30 SOA 2\napi 30 A 192.0.2.2");
    assert_eq!(ask(&mut steered), [1, 1]);
    for names in [None, Some("*"), Some("web")] {
        steered.bench.drain("w1.x", names, true);
        assert_eq!(ask(&mut steered)[1], 0, "{names:?}");
        steered.bench.drain("w1.x", names, false);
        assert_eq!(ask(&mut steered), [1, 1], "{names:?}: it gave the name within the hour");
    }
    for prefer in [Prefer::Order, Prefer::Nearest] {
        steered.plan(&HOMES, prefer);
        assert_eq!(ask(&mut steered), [1, 1], "a reload forgets nothing");
    }
    steered.share(50);
    assert_eq!(ask(&mut steered), [0, 0]);
    steered.bench.drain("w1.x", None, false);
    assert_eq!(ask(&mut steered), [1, 1]);
    // A member that goes as a whole is missed as well, and what comes back is its own.
    steered.bench.update("w1.x", News::Current, Duration::from_secs(2_592_001));
    assert_eq!(ask(&mut steered), [0, 2]);
    steered.load("w1.x.", "@ 30 SOA 3\nweb 30 A 192.0.2.1\napi 30 A 192.0.2.2");
    assert_eq!(ask(&mut steered), [2, 0]);
    // What leaves a member that is drained is nobody's loss.
    steered.bench.drain("w1.x", None, true);
    steered.load("w1.x.", "@ 30 SOA 4\napi 30 A 192.0.2.2");
    steered.bench.drain("w1.x", None, false);
    assert_eq!(ask(&mut steered), [1, 0]);
}
