//! A datacenter in its own namespace: CNS as the demonstration has it, behind a relay with weather.
//!
//! Each version has its number in an address of the watched service, 10.SITE.HIGH.LOW, so that an answer tells which
//! version of each datacenter it was made from. A version is announced at once, and again every five seconds while the
//! test waits for everybody to have it; CNS does so until the secondary has asked for the serial.

use super::harness::{Net, Random, Relay, Weather};
use sim::primary::Primary;
use sim::zone::{Apex, Data, Zone};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use wire::name::Name;
use wire::serial::Serial;

/// Instances besides the watched service, so that a zone has some size.
const INSTANCES: u8 = 200;
/// Interval at which CNS repeats an announcement.
const REPEAT: Duration = Duration::from_secs(5);

/// A datacenter.
pub struct Site {
    pub zone: Name,
    number: u8,
    primary: Primary,
    relay: Relay,
    runtime: tokio::runtime::Runtime,
    socket: UdpSocket,
    secondaries: Vec<SocketAddr>,
    announced: Instant,
    random: Random,
    delay: (u64, u64),
    /// Time at which each version was published; the first has number 0.
    pub published: Vec<Instant>,
}

impl Site {
    /// Starts a datacenter in a machine of the net, with its relay on an address there.
    pub fn start(net: &Net, node: &str, number: u8, address: Ipv4Addr, secondaries: Vec<SocketAddr>) -> Site {
        let zone = Name::parse(&format!("us-west-{}.cns.example.com", number + 1)).expect("a name");
        net.enter(node, move || {
            // Its threads are made here, and so are within the machine.
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            let runtime = runtime.expect("a runtime");
            let behind: SocketAddr = "127.0.0.1:5353".parse().expect("an address");
            let primary = runtime.block_on(Primary::start(behind)).expect("a primary");
            let relay = Relay::start(SocketAddr::from((address, 53)), behind, 40 + u64::from(number));
            let socket = UdpSocket::bind((address, 0)).expect("UDP socket");
            let mut site = Site {
                zone,
                number,
                primary,
                relay,
                runtime,
                socket,
                secondaries,
                announced: Instant::now(),
                random: Random::new(50, number.into()),
                delay: (0, 0),
                published: Vec::new(),
            };
            site.change();
            site
        })
    }

    /// Sets the delay of each way, in milliseconds.
    pub fn set_delay(&mut self, shortest: u64, longest: u64) {
        self.delay = (shortest, longest);
        self.relay.set(Weather { delay: self.delay, ..Weather::default() });
    }

    /// Publishes the next version and announces it.
    pub fn change(&mut self) {
        let version = self.published.len();
        self.primary.publish(zone(&self.zone, self.number, version));
        self.published.push(Instant::now());
        self.announce();
    }

    /// Announces the present version again, if it is time.
    pub fn repeat(&mut self) {
        if self.announced.elapsed() > REPEAT {
            self.announce();
        }
    }

    /// Sends one NOTIFY to each secondary, each after a delay of its own.
    fn announce(&mut self) {
        self.announced = Instant::now();
        // Opcode 4 is NOTIFY (RFC 1996); CNS sets nothing else.
        let mut message = [7_u16, 4 << 11, 1, 0, 0, 0].map(u16::to_be_bytes).concat();
        message.extend_from_slice(self.zone.as_wire());
        message.extend([0, 6, 0, 1]);
        for secondary in self.secondaries.clone() {
            let drawn = self.random.between(self.delay.0 as usize, self.delay.1 as usize);
            let (socket, message) = (self.socket.try_clone().expect("socket"), message.clone());
            self.runtime.spawn(async move {
                tokio::time::sleep(Duration::from_millis(drawn as u64)).await;
                // Whoever cannot be reached polls.
                let _ = socket.send_to(&message, secondary);
            });
        }
    }
}

/// A version of a datacenter's zone.
fn zone(origin: &Name, number: u8, version: usize) -> Zone {
    let name = |labels: &[&str]| {
        labels.iter().rev().fold(origin.clone(), |name, label| name.prepend(label.as_bytes()).expect("a short name"))
    };
    let server = |label: &str| Name::parse(&format!("{label}.example.com")).expect("a name");
    let (mname, rname) = (server("ns1"), server("hostmaster"));
    let apex = Apex { mname, rname, name_servers: vec![server("ns1"), server("ns2")] };
    let coded = Ipv4Addr::new(10, number, (version >> 8) as u8, version as u8);
    let watched = (name(&["web", "svc", "acme"]), Data::A(coded));
    let others = (1..=INSTANCES).map(|instance| {
        (name(&[&format!("i{number}-{instance}"), "inst", "acme"]), Data::A(Ipv4Addr::new(192, 0, 2, instance)))
    });
    Zone::new(origin.clone(), apex, Serial(1000 + version as u32), others.chain([watched]))
}
