//! One datacenter with its CNS, and everything that can happen to both.

use crate::harness::{Random, Record};
use crate::records::{dname, records};
use crate::versions::Versions;
use crate::watch::Truth;
use sim::instances::Datacenter;
use sim::primary::Primary;
use sim::store::Step;
use sim::zone::{Apex, Node, Zone};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use wire::name::Name;
use wire::serial::Serial;

/// Time between two ticks of an empty CNS, which is ten seconds in life.
const TICK: Duration = Duration::from_millis(100);
/// Time for which a CNS that restarts is away.
const ABSENCE: Duration = Duration::from_millis(500);
/// Bounds on the number of instances that change.
const FEW: usize = 20;
const MANY: usize = 50;

/// A datacenter, its CNS, and what it had so far.
pub struct Site {
    pub primary: Arc<Primary>,
    pub datacenter: Datacenter,
    pub versions: Arc<Mutex<Versions>>,
    /// Number of events, by kind.
    pub events: BTreeMap<&'static str, usize>,
    apex: Apex,
    serial: u32,
    random: Random,
    /// Chooses events, the same whatever comes of them.
    choices: Random,
    /// Number of whole zones that had been sent when a scan was last cut.
    cut_at: u64,
}

impl Site {
    /// Starts a datacenter whose zone takes more than one message.
    pub async fn start(number: u8, seed: u64) -> Site {
        let origin = Name::parse(&format!("us-west-{}.cns.example.com", number + 1)).expect("a name");
        let mut datacenter = Datacenter::new(origin, number, seed, SystemTime::now()).expect("names fit");
        datacenter.scale_up("web", 25, SystemTime::now());
        let primary = Primary::start("127.0.0.1:0".parse().expect("address")).await.expect("a primary");
        let apex = datacenter.zone().apex().clone();
        let mut site = Site {
            primary: Arc::new(primary),
            datacenter,
            versions: Arc::default(),
            events: BTreeMap::new(),
            apex,
            serial: 405_514_000,
            random: Random::new(seed, number.into()),
            choices: Random::new(!seed, number.into()),
            cut_at: 0,
        };
        site.publish();
        site
    }

    /// The name of its zone.
    pub fn origin(&self) -> Name {
        self.datacenter.origin().clone()
    }

    /// The datacenter for the watch.
    pub fn truth(&self) -> Truth {
        (dname(self.datacenter.origin()), self.versions.clone())
    }

    /// The present version.
    pub fn zone(&self) -> Zone {
        self.datacenter.zone().with_apex(self.apex.clone(), Serial(self.serial))
    }

    /// Returns the records that a secondary should have.
    pub fn records(&self) -> Vec<Record> {
        records(&self.zone())
    }

    /// The present serial.
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// Notes the present version for the watch.
    fn note(&self) {
        let below: Vec<_> = self.records().into_iter().filter(|r| r.owner != dname(self.datacenter.origin())).collect();
        self.versions.lock().unwrap().push(self.serial, &below);
    }

    /// Takes a serial that no version had, so many ticks later or a little more.
    fn take_serial(&mut self, ticks: u32) {
        self.serial += ticks;
        while !self.versions.lock().unwrap().is_new(self.serial) {
            self.serial += 1;
        }
    }

    /// Publishes what the datacenter is now, a few ticks later.
    pub fn publish(&mut self) {
        self.take_serial(2);
        self.note();
        self.primary.publish(self.zone());
    }

    /// Changes a little and commits that, in so many milliseconds.
    pub async fn commit(&mut self, milliseconds: std::ops::Range<usize>) {
        self.change_a_little();
        self.take_serial(2);
        self.note();
        let duration = Duration::from_millis(self.random.between(milliseconds.start, milliseconds.end) as u64);
        self.primary.commit(self.zone(), duration).await;
    }

    /// Commits what the datacenter is now under the serial that the version before has.
    pub async fn commit_again(&mut self) {
        self.versions.lock().unwrap().doubt();
        self.note();
        self.primary.commit(self.zone(), Duration::from_millis(20)).await;
    }

    /// Writes what the datacenter is now, without its serial: whole transfers find old and new names, and differences
    /// go one step too far.
    pub fn prepare(&mut self, old: &Zone) {
        self.take_serial(2);
        self.note();
        let new = self.zone();
        let scan = Arc::new(self.mix(old, &new));
        let step = Arc::new(Step::between(old, &new));
        self.primary.change(old.origin(), |stored| {
            (stored.lapses.scan, stored.lapses.ahead) = (Some(scan.clone()), Some(step.clone()));
        });
    }

    /// Returns the result of a scan while a version is being written: each name as it was or as it is, some twice.
    fn mix(&mut self, old: &Zone, new: &Zone) -> Vec<Node> {
        let mut scan = Vec::new();
        let gone = old.nodes().iter().filter(|node| new.find(node.owner.as_wire()).is_none());
        scan.extend(gone.filter(|_| self.random.chance(50)).cloned());
        for node in new.nodes() {
            let before =
                old.find(node.owner.as_wire()).map(|records| Node { records: records.to_vec(), ..node.clone() });
            let choice = self.random.below(10);
            scan.extend(before.filter(|_| choice < 6));
            if choice > 4 {
                scan.push(node.clone());
            }
        }
        scan
    }

    /// The next whole transfer ends after this share of the names, in percent.
    pub fn cut_scan(&self, percent: usize) {
        let zone = self.zone();
        let scan = Arc::new(zone.nodes()[..zone.nodes().len() * percent / 100].to_vec());
        self.primary.change(zone.origin(), |stored| stored.lapses.scan = Some(scan.clone()));
    }

    /// Drops history.
    pub fn forget(&self, keep: usize) {
        self.primary.change(self.datacenter.origin(), |stored| stored.forget(keep));
    }

    /// Configures other name servers; the serial stays.
    pub fn change_name_servers(&mut self) {
        self.choose_name_servers();
        self.primary.publish(self.zone());
    }

    /// Gives the next version other name servers.
    pub fn choose_name_servers(&mut self) {
        let domain = self.apex.mname.parent().expect("a parent");
        let before = self.apex.name_servers.clone();
        while self.apex.name_servers == before {
            let other = domain.prepend(format!("ns{}", self.random.between(2, 9)).as_bytes()).expect("the name fits");
            self.apex.name_servers = vec![self.apex.mname.clone(), other];
        }
    }

    /// Loses the database: the zone is empty and its serial the clock, for so many ticks and with every transfer.
    pub async fn lose_database(&mut self, ticks: usize) {
        for _ in 0..ticks {
            self.take_serial(1);
            self.primary.replace(Zone::new(self.origin(), self.apex.clone(), Serial(self.serial), []));
            self.primary.change(&self.origin(), |stored| stored.lapses.is_clock = true);
            tokio::time::sleep(TICK).await;
            self.serial = self.primary.serial(&self.origin()).expect("a zone").0;
        }
    }

    /// Restores the database with a serial below the present one, from before the database was lost or not.
    pub fn regain_database(&mut self, back: u32) {
        self.serial -= back;
        while !self.versions.lock().unwrap().is_new(self.serial) {
            self.serial -= 1;
        }
        self.note();
        self.primary.replace(self.zone());
    }

    /// Answers nothing for a while, in which something changes.
    pub async fn go_away(&mut self) {
        self.primary.set_away(true);
        self.change_a_little();
        self.publish();
        tokio::time::sleep(ABSENCE).await;
        self.primary.set_away(false);
        *self.events.entry("no answers").or_default() += 1;
    }

    //--- Chance ---

    /// Lets an event happen, and then some time pass.
    pub async fn live(&mut self) {
        let event = match self.choices.below(100) {
            0..35 => {
                self.change_a_little();
                self.publish();
                "change"
            }
            35..52 => {
                self.commit(30..120).await;
                "a commit that takes time"
            }
            52..55 => {
                self.commit(10..30).await;
                self.change_a_little();
                self.commit_again().await;
                "two commits under one serial"
            }
            55..75 => {
                let old = self.zone();
                self.change_a_little();
                let pause = Duration::from_millis(self.random.between(30, 150) as u64);
                self.prepare(&old);
                tokio::time::sleep(pause).await;
                self.primary.publish(self.zone());
                "data ahead of its serial"
            }
            75..81 => {
                let keep = self.random.below(3);
                self.forget(keep);
                "history dropped"
            }
            81..86 => {
                // A second cut that agrees with the first would have to be believed.
                let whole = self.primary.tally().whole;
                if whole < self.cut_at + 2 {
                    return;
                }
                self.cut_at = whole;
                self.change_a_little();
                self.publish();
                self.forget(0);
                self.cut_scan(4);
                "half a zone"
            }
            86..89 => {
                self.change_name_servers();
                "other name servers"
            }
            89..91 => {
                self.versions.lock().unwrap().doubt();
                self.change_a_little();
                self.note();
                self.primary.publish(self.zone());
                "other content under the same serial"
            }
            91..94 => {
                let ticks = self.random.between(2, 14);
                self.lose_database(ticks).await;
                let back = if self.random.chance(50) { 1 } else { ticks as u32 + 50 };
                self.regain_database(back);
                "database lost"
            }
            94..96 => {
                let back = self.random.between(1, 8) as u32;
                self.change_a_little();
                self.regain_database(back);
                "clock set back"
            }
            _ => {
                let gone = self.web() * 3 / 4;
                self.datacenter.scale_down("web", gone, SystemTime::now());
                self.publish();
                "most instances gone"
            }
        };
        *self.events.entry(event).or_default() += 1;
        tokio::time::sleep(Duration::from_millis(self.random.between(5, 80) as u64)).await;
    }

    /// Number of instances of the service that changes.
    fn web(&self) -> usize {
        self.datacenter.instances().iter().filter(|instance| instance.service() == "web").count()
    }

    /// Changes one to three things about instances.
    fn change_a_little(&mut self) {
        let now = SystemTime::now();
        for _ in 0..self.random.between(1, 3) {
            let count = self.web();
            let instance = self.random.pick(self.datacenter.instances()).clone();
            match self.random.below(4) {
                _ if count < FEW => _ = self.datacenter.scale_up("web", 10, now),
                0 if count < MANY => _ = self.datacenter.scale_up("web", self.random.between(1, 5), now),
                0 | 1 => _ = self.datacenter.scale_down("web", self.random.between(1, 3), now),
                2 => _ = self.datacenter.set_up(&instance.alias, !instance.up, now),
                _ => _ = self.datacenter.set_dual_stack(&instance.alias, instance.addresses.len() == 1, now),
            }
        }
    }
}
