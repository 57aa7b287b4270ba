//! CNS that has given up announcing changes to us (`docs/cns.md` 26): the daemon has it take that up again, although
//! there is nothing to transfer.

mod harness;

use harness::{Aggregator, Client, Dname, Folder, Settings, wait_until};
use sim::instances::Datacenter;
use sim::peers::Times;
use sim::primary::Primary;
use std::time::{Duration, Instant, SystemTime};
use wire::name::Name;

const ZONES: [&str; 2] = ["us-west-1.cns.example.com", "100.51.198.in-addr.arpa"];
/// For anything that should happen at once.
const PATIENCE: Duration = Duration::from_secs(20);
/// CNS a little faster than in life; the daemon's own times are the real ones.
const TIMES: Times =
    Times { check: Duration::from_millis(200), interval: Duration::from_millis(200), clear: Duration::from_secs(3) };

/// A CNS with two zones, and the daemon that has them.
struct World {
    primary: Primary,
    sites: Vec<Datacenter>,
    daemon: Aggregator,
    _folder: Folder,
}

impl World {
    /// Starts both, and waits until CNS announces changes to the daemon.
    async fn start() -> World {
        let primary = Primary::start("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let site = |(number, zone): (usize, &&str)| {
            let site = Datacenter::new(Name::parse(zone).unwrap(), number as u8, 7, SystemTime::now()).unwrap();
            primary.publish(site.zone());
            site
        };
        let sites: Vec<Datacenter> = ZONES.iter().enumerate().map(site).collect();
        let zones = ZONES.map(|zone| format!("\"{zone}\" = \"{}\"\n", primary.address())).concat();
        let folder = Folder::new();
        let mut settings = Settings::new(&format!("[zones]\n{zones}"));
        settings.state = Some("state".into());
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
        let mut world = World { primary, sites, daemon, _folder: folder };
        world.primary.follow(world.daemon.address(), TIMES);
        for (zone, name) in ZONES.iter().enumerate() {
            world.wait_served(zone);
            // By its transfers CNS gets to know us.
            assert_eq!(world.daemon.verb(&["retransfer", name]).code, 0);
        }
        for zone in 0..ZONES.len() {
            world.expect_announced(zone);
        }
        world
    }

    /// Waits until the daemon has what CNS has.
    fn wait_served(&self, zone: usize) {
        let (serial, origin) = (self.sites[zone].serial().0, Dname::parse(ZONES[zone]));
        let mut client = Client::new(self.daemon.address());
        wait_until("the daemon has the zone", PATIENCE, || (client.serial(&origin) == Some(serial)).then_some(()));
    }

    /// NOTIFY that the daemon took for a zone.
    fn announced(&self, zone: usize) -> u64 {
        let family = format!("aggregator_notify_received_total{{result=\"accepted\",zone=\"{}.\"}} ", ZONES[zone]);
        let page = self.daemon.metrics();
        page.lines().find_map(|line| line.strip_prefix(&family)?.parse().ok()).unwrap_or(0)
    }

    /// A series of the address of CNS.
    fn series(&self, family: &str) -> Option<u64> {
        let series = format!("aggregator_{family}{{primary=\"{}\"}} ", self.primary.address());
        self.daemon.metrics().lines().find_map(|line| line.strip_prefix(&series)?.parse().ok())
    }

    /// Waits until the silence is assumed, or no more.
    fn wait_assumed(&self, assumed: bool) {
        let wanted = Some(u64::from(assumed));
        wait_until("the gauge tells", PATIENCE, || (self.series("silence_assumed") == wanted).then_some(()));
        let text = self.daemon.verb(&["status", ZONES[0]]).stdout;
        assert_eq!(text.contains("    silence assumed for another "), assumed, "{text}");
    }

    /// Changes a zone, and waits until that was announced and is served.
    fn expect_announced(&mut self, zone: usize) {
        let before = self.announced(zone);
        self.sites[zone].scale_up("web", 1, SystemTime::now());
        self.primary.publish(self.sites[zone].zone());
        wait_until("CNS announces a change", PATIENCE, || (self.announced(zone) > before).then_some(()));
        self.wait_served(zone);
    }

    /// While the daemon does not answer: CNS gives up on it, and in the end has nothing that the daemon lacks.
    fn make_silent(primary: &Primary, site: &Datacenter, daemon: std::net::SocketAddr) {
        let mut changed = site.clone();
        changed.scale_up("web", 1, SystemTime::now());
        primary.publish(changed.zone());
        wait_until("CNS gives up", PATIENCE, || primary.is_silent(daemon).then_some(()));
        primary.replace(site.zone());
    }

    /// CNS is asked once at our own serial, for one of its zones, and announces changes of all again. Unless `is_surely`, it
    /// may have been asked what else happened under a serial, which is due after such a time, and has the same effect.
    fn expect_cured(&mut self, again: u64, is_surely: bool) {
        let secondary = self.daemon.address();
        wait_until("CNS was asked at our own serial", PATIENCE, || (self.primary.tally().again > again).then_some(()));
        wait_until("CNS announces again", PATIENCE, || (!self.primary.is_silent(secondary)).then_some(()));
        for zone in 0..ZONES.len() {
            self.expect_announced(zone);
        }
        self.wait_assumed(false);
        let questions = self.series("silence_questions_total").unwrap_or_default();
        assert!(questions == 1 || questions == 0 && !is_surely, "{questions}");
        let status = self.daemon.verb(&["status", ZONES[1]]).stdout;
        assert_eq!(status.contains("    asked at our own serial "), questions == 1, "{status}");
        let json = self.daemon.verb(&["status", "--json", ZONES[1]]).stdout;
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let told = &json["zones"][0]["source"]["primaries"][0]["silence"];
        assert_eq!(
            (&told["until"], &told["owed"]),
            (&serde_json::Value::Null, &serde_json::Value::Bool(false)),
            "{told}"
        );
        assert!(told["questions"] == questions && told["asked"].is_i64() == (questions == 1), "{told}");
        // Each zone may have asked what else happened under its serial, too, which is due after such a time.
        let asked = self.primary.tally().again - again;
        assert!((1..=1 + ZONES.len() as u64).contains(&asked), "one question for the address, not {asked}");
        assert_eq!(self.primary.tally().fatal, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_new_start_has_cns_announce_again() {
    let mut world = World::start().await;
    let (again, secondary) = (world.primary.tally().again, world.daemon.address());
    let World { primary, sites, daemon, .. } = &mut world;
    daemon.kill_and_restart(|| World::make_silent(primary, &sites[0], secondary));
    world.wait_assumed(true);
    world.expect_cured(again, true);
}

/// A machine that was suspended, or a process that was.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_that_stood_still_has_cns_announce_again() {
    let mut world = World::start().await;
    let (again, stopped) = (world.primary.tally().again, Instant::now());
    world.daemon.signal(libc::SIGSTOP);
    World::make_silent(&world.primary, &world.sites[0], world.daemon.address());
    // What counts is how long it lasts, by the daemon's clock.
    let outage = Duration::from_secs(22);
    tokio::time::sleep(outage.saturating_sub(stopped.elapsed())).await;
    world.daemon.signal(libc::SIGCONT);
    world.expect_cured(again, false);
}
