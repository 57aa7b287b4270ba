//! A site whose machines are registered in ZooKeeper, as the tests of trees see it.

use crate::harness::*;
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// A generous limit for what takes a second or two.
pub const DEADLINE: Duration = Duration::from_secs(30);
pub const ZONE: &str = "emy-10.example.com.";
/// The node of the zone's domain.
pub const ROOT: &str = "/com/example/emy-10";
/// The reverse zone of all machines.
pub const REVERSE: &str = "10.in-addr.arpa.";

/// Returns the payload that Registrar writes for a machine.
pub fn host(address: Ipv4Addr) -> Vec<u8> {
    format!(
        r#"{{"type":"load_balancer","address":"{address}","load_balancer":{{"address":"{address}","ports":[80]}}}}"#
    )
    .into_bytes()
}

/// Returns the payload that Registrar writes for a service.
pub fn service() -> Vec<u8> {
    let inner = r#"{"srvce":"_http","proto":"_tcp","port":80,"ttl":60}"#;
    format!(r#"{{"type":"service","service":{{"type":"service","service":{inner}}}}}"#).into_bytes()
}

/// An address by number.
pub fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 + number)
}

/// Makes a service `web` with machines `h0`, `h1` and so on.
pub fn make_service(nodes: &Znodes, root: &str, machines: u32) {
    nodes.create(&format!("{root}/web"), &service());
    let made: Vec<(String, Vec<u8>)> =
        (0..machines).map(|number| (format!("{root}/web/h{number}"), host(address(number)))).collect();
    nodes.create_all(made.iter().map(|(path, data)| (&path[..], &data[..])));
}

/// A configuration with the zone, from these members, with further lines.
pub fn plan(members: &[SocketAddr], more: &str) -> String {
    let members: Vec<String> = members.iter().map(|member| format!("\"{member}\"")).collect();
    let (members, zone) = (members.join(", "), ZONE.trim_end_matches('.'));
    format!(
        "[transfer]\nconfirm_after = \"2s\"\n\
         [zones.\"{zone}\"]\nzookeeper = [{members}]\nreverse = [\"10.0.0.0/8\"]\nsession_timeout = \"4s\"\n{more}\n"
    )
}

/// Waits for something within the usual limit.
pub fn wait<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    wait_until(what, DEADLINE, probe)
}

/// Client of a daemon.
pub struct Resolver {
    client: Client,
}

impl Resolver {
    /// Asks this daemon.
    pub fn new(daemon: &Aggregator) -> Resolver {
        Resolver { client: Client::new(daemon.address()) }
    }

    /// The whole response to a question; a daemon that is stopped has time until it goes on.
    pub fn ask(&mut self, name: &str, rtype: u16) -> Message {
        let query = Query::new(&Dname::parse(name), rtype);
        let message = wait("there is an answer", || self.client.ask(&query).ok());
        if message.is_truncated() { self.client.ask_tcp(&query).expect("an answer over TCP") } else { message }
    }

    /// The addresses of a name within the zone, sorted.
    pub fn addresses(&mut self, name: &str) -> Vec<Ipv4Addr> {
        let message = self.ask(&format!("{name}.{ZONE}"), rtype::A);
        let octets = |record: &Record| <[u8; 4]>::try_from(&record.rdata[..]).unwrap();
        let mut found: Vec<Ipv4Addr> = message.answer.iter().map(|record| octets(record).into()).collect();
        found.sort();
        found
    }

    /// Waits until a name has exactly this address.
    pub fn wait_address(&mut self, name: &str, address: Ipv4Addr) {
        wait(&format!("{name} has address {address}"), || (self.addresses(name) == [address]).then_some(()));
    }

    /// Waits until a name is not there.
    pub fn wait_gone(&mut self, name: &str) {
        let full = format!("{name}.{ZONE}");
        wait(&format!("{name} is gone"), || (self.ask(&full, rtype::A).rcode() == 3).then_some(()));
    }

    /// The serial of a zone; none while it is not served.
    pub fn serial(&mut self, zone: &str) -> Option<u32> {
        self.client.serial(&Dname::parse(zone))
    }

    /// Waits until the zone is served.
    pub fn wait_served(&mut self) {
        wait("the zone is served", || self.serial(ZONE));
    }
}

/// The status of the zone.
pub fn status(daemon: &Aggregator) -> Value {
    let output = daemon.verb(&["status", ZONE, "--json"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    report["zones"][0].clone()
}

/// Waits until the session is in this state.
pub fn wait_session(daemon: &Aggregator, state: &str) -> Value {
    wait(&format!("the session is {state}"), || {
        let status = status(daemon);
        (status["source"]["session"] == state).then_some(status)
    })
}

/// A series of the metrics page.
pub fn metric(daemon: &Aggregator, series: &str) -> Option<f64> {
    let page = daemon.metrics();
    let line = page.lines().find_map(|line| line.strip_prefix("aggregator_")?.strip_prefix(series))?;
    line.trim().parse().ok()
}
