//! A world whose clients never stop asking: what they are told is compared with all that was ever published, and serials
//! must not go back.

use crate::harness::*;
use crate::world::*;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Instances of a datacenter at the start.
const INSTANCES: u8 = 20;
/// Longest time that a client waits for an answer.
const ANSWER: Duration = Duration::from_secs(1);
/// Pause of a client between two questions: all clients together stay below the rate limit of their network.
const PAUSE: Duration = Duration::from_millis(8);
/// Longest wait for a change.
const PATIENCE: Duration = Duration::from_secs(60);

/// What changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The zone of a datacenter.
    Datacenter(usize),
    /// A node of ZooKeeper's tree.
    Tree,
    /// An instance of the inventory.
    Inventory,
}

/// A name that clients ask for, and every address that it ever had.
struct Watched {
    name: Dname,
    addresses: Mutex<BTreeSet<Ipv4Addr>>,
}

impl Watched {
    fn new(name: String, address: Ipv4Addr) -> Arc<Watched> {
        Arc::new(Watched { name: Dname::parse(&name), addresses: Mutex::new([address].into()) })
    }
}

/// What clients of one replica have seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Toll {
    pub questions: u64,
    /// Questions without an answer within [`ANSWER`].
    pub unanswered: u64,
    /// Answers that no version ever gave: another response code, another number of addresses, a wrong one.
    pub wrong: u64,
    /// Serials of the region that were older than one before.
    pub older: u64,
    pub slowest: Duration,
}

impl Toll {
    /// Adds those of another replica.
    pub fn join(self, other: Toll) -> Toll {
        Toll {
            questions: self.questions + other.questions,
            unanswered: self.unanswered + other.unanswered,
            wrong: self.wrong + other.wrong,
            older: self.older + other.older,
            slowest: self.slowest.max(other.slowest),
        }
    }
}

/// The world with its clients.
pub struct Site {
    pub world: World,
    /// Numbers of instances and serials of the datacenters.
    sites: [(u8, u32); 3],
    tree: Arc<Watched>,
    inventory: Arc<Watched>,
    tolls: [Arc<Mutex<Toll>>; 2],
    is_over: Arc<AtomicBool>,
    /// What goes on until a fault ends.
    pub running: Option<(Arc<AtomicBool>, std::thread::JoinHandle<()>)>,
}

impl Site {
    /// Starts it, and the clients once all is well.
    pub fn start(plan: &Plan) -> Site {
        let world = World::start(plan);
        let tree = Watched::new(format!("web.{TREE}"), Ipv4Addr::new(10, 0, 0, 1));
        let inventory = Watched::new(format!("a.inst.o.{MADE}"), Ipv4Addr::new(192, 0, 2, 1));
        let mut watched: Vec<Arc<Watched>> = (0..3)
            .flat_map(|site| (1..=INSTANCES).map(move |host| (site, host)))
            .map(|(site, host)| Watched::new(instance(site, host).to_string(), address(site, host)))
            .collect();
        // Often enough for a change to be seen in between.
        for own in [(plan.tree, &tree), (plan.inventory, &inventory)] {
            watched.extend(own.0.then(|| std::iter::repeat_n(own.1.clone(), 20)).into_iter().flatten());
        }
        let tolls: [Arc<Mutex<Toll>>; 2] = Default::default();
        let is_over = Arc::new(AtomicBool::new(false));
        for (replica, toll) in world.replicas.iter().zip(&tolls) {
            let (server, toll, is_over, watched) = (replica.address(), toll.clone(), is_over.clone(), watched.clone());
            std::thread::spawn(move || ask_on(server, &watched, &toll, &is_over));
        }
        Site { world, sites: [(INSTANCES, 1000); 3], tree, inventory, tolls, is_over, running: None }
    }

    /// Publishes a change.
    pub fn change(&mut self, subject: Subject) {
        match subject {
            Subject::Datacenter(site) => {
                let (instances, serial) = &mut self.sites[site];
                (*instances, *serial) = (*instances + 1, *serial + 10);
                let records = zone_records(site, *serial, *instances, 2_592_000);
                self.world.primary.replace_zone(&Dname::parse(ZONES[site]), &records);
            }
            Subject::Tree => {
                let address = next(&self.tree);
                let server = self.world.zookeeper.as_ref().expect("a server").address();
                let machine = format!(r#"{{"type":"host","address":"{address}","host":{{"address":"{address}"}}}}"#);
                Znodes::connect(&[server]).set(&format!("{NODE}/web"), machine.as_bytes());
            }
            Subject::Inventory => {
                let text = INVENTORY.replace("192.0.2.1", &next(&self.inventory).to_string());
                self.world.inventories.iter().for_each(|path| replace_file(path, &text));
            }
        }
    }

    /// Publishes a datacenter's zone that has hardly any instance.
    pub fn shrink(&mut self, site: usize) {
        self.sites[site].1 += 10;
        let records = zone_records(site, self.sites[site].1, 1, 2_592_000);
        self.world.primary.replace_zone(&Dname::parse(ZONES[site]), &records);
    }

    /// Publishes a datacenter's zone of long ago.
    pub fn set_back(&self, site: usize) {
        self.world.primary.replace_zone(&Dname::parse(ZONES[site]), &zone_records(site, 900, 20, 2_592_000));
    }

    /// Writes something else in place of both inventories.
    pub fn write_inventories(&self, text: &str) {
        self.world.inventories.iter().for_each(|path| replace_file(path, text));
    }

    /// Waits until a replica answers with the last change.
    pub fn wait_seen(&self, subject: Subject, replica: usize) {
        let (name, address) = match subject {
            Subject::Datacenter(site) => (instance(site, self.sites[site].0), address(site, self.sites[site].0)),
            Subject::Tree => (self.tree.name.clone(), newest(&self.tree)),
            Subject::Inventory => (self.inventory.name.clone(), newest(&self.inventory)),
        };
        let mut client = Client::new(self.world.replicas[replica].address()).with_deadline(ANSWER);
        wait_until(&format!("replica {replica} has the change of {subject:?}"), PATIENCE, || {
            let answer = client.ask(&Query::new(&name, rtype::A)).ok()?;
            (addresses(&answer) == [address]).then_some(())
        });
    }

    /// Returns what clients have seen, and begins anew.
    pub fn take_toll(&self) -> Toll {
        let [one, other] = &self.tolls;
        std::mem::take(&mut *one.lock().unwrap()).join(std::mem::take(&mut *other.lock().unwrap()))
    }

    /// Demands that both replicas have every record that was published, and the same region.
    pub fn assert_whole(&self) {
        let dump = |replica: usize, zone: &str| {
            self.world.replicas[replica].dump(&Dname::parse(zone)).unwrap_or_else(|| panic!("{replica} lost {zone}"))
        };
        for replica in 0..2 {
            for (site, (instances, serial)) in self.sites.into_iter().enumerate() {
                let published = zone_records(site, serial, instances, 2_592_000);
                assert_eq!(difference(&published, &dump(replica, ZONES[site])), None, "{} at {replica}", ZONES[site]);
            }
        }
        // But for its MNAME, which is the server's own.
        let [one, other] = [0, 1].map(|replica| {
            let records = dump(replica, REGION).into_iter();
            let (soa, others): (Vec<Record>, Vec<Record>) = records.partition(|record| record.rtype == rtype::SOA);
            (soa[0].serial(), others)
        });
        assert_eq!(one.0, other.0, "the region's serials");
        assert_eq!(difference(&one.1, &other.1), None, "the region");
    }

    /// Does something again and again until the fault ends.
    pub fn keep_doing(&mut self, mut act: impl FnMut(bool) + Send + 'static) {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut is_on = true;
            while !seen.load(Ordering::Relaxed) {
                act(is_on);
                is_on = !is_on;
                // The length of a fault that comes and goes, and no wait for anything.
                std::thread::sleep(Duration::from_millis(400));
            }
            if !is_on {
                act(false);
            }
        });
        self.running = Some((stop, thread));
    }

    /// Ends what is done again and again; in the end it was done the other way.
    pub fn stop_doing(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            stop.store(true, Ordering::Relaxed);
            thread.join().expect("the thread of a fault");
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some((stop, _)) = &self.running {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Puts a text in place of a file or pipe, whole.
pub fn replace_file(path: &std::path::Path, text: &str) {
    let beside = path.with_extension("new");
    write_file(&beside, text);
    std::fs::rename(beside, path).expect("the file in its place");
}

/// The name of an instance in the region.
fn instance(site: usize, host: u8) -> Dname {
    Dname::parse(&format!("i{site}-{host}.inst.acme.{REGION}"))
}

fn address(site: usize, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, site as u8, 0, host)
}

/// The next address of a name.
fn next(watched: &Watched) -> Ipv4Addr {
    let mut addresses = watched.addresses.lock().unwrap();
    let next = Ipv4Addr::from_bits(addresses.last().expect("an address").to_bits() + 1);
    addresses.insert(next);
    next
}

/// The last address of a name.
fn newest(watched: &Watched) -> Ipv4Addr {
    *watched.addresses.lock().unwrap().last().expect("an address")
}

/// The addresses of an answer.
fn addresses(answer: &Message) -> Vec<Ipv4Addr> {
    let records = answer.answer.iter().filter(|record| record.rtype == rtype::A);
    records.filter_map(|record| <[u8; 4]>::try_from(&record.rdata[..]).ok()).map(Ipv4Addr::from).collect()
}

/// Asks one replica until all is over.
fn ask_on(server: SocketAddr, watched: &[Arc<Watched>], toll: &Mutex<Toll>, is_over: &AtomicBool) {
    let (region, mut newest) = (Dname::parse(REGION), None::<u32>);
    let mut client = Client::new(server).with_deadline(ANSWER);
    for place in (0..).map(|turn: usize| turn % (watched.len() + 10)) {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let began = Instant::now();
        let one = watched.get(place);
        let query = Query::new(one.map_or(&region, |one| &one.name), if one.is_some() { rtype::A } else { rtype::SOA });
        let answer = client.ask(&query);
        let took = began.elapsed();
        let mut toll = toll.lock().unwrap();
        toll.questions += 1;
        match (answer, one) {
            (Err(_), _) => toll.unanswered += 1,
            (Ok(answer), Some(one)) => {
                let known = one.addresses.lock().unwrap();
                let is_right = matches!(&addresses(&answer)[..], [address] if known.contains(address));
                toll.wrong += u64::from(answer.rcode() != 0 || !is_right);
            }
            (Ok(answer), None) => {
                let serial = answer.answer.first().filter(|_| answer.rcode() == 0).map(Record::serial);
                // Serials are compared as in RFC 1982.
                let is_older = |before: u32| serial.is_some_and(|serial| (serial.wrapping_sub(before) as i32) < 0);
                toll.wrong += u64::from(serial.is_none());
                toll.older += u64::from(newest.is_some_and(is_older));
                newest = serial.or(newest);
            }
        }
        toll.slowest = toll.slowest.max(took);
        drop(toll);
        std::thread::sleep(PAUSE);
    }
}
