//! What other servers have of the zones that are made here.
//!
//! A builder that has lost its state knows neither what it has published nor when. Its secondaries do: before it makes a
//! zone of which it has no version, they are asked for theirs, and the first serial is above the newest. Where none of
//! them answers that zone waits, because secondaries take nothing that is older than what they have (RFC 1982); a zone without
//! secondaries waits for nobody, and neither does an operator who accepts.
//!
//! A serial above ours that a secondary has later is not ours: another builder makes the same zone.
//!
//! Invariants: any answer is one, also that a server does not have the zone; only silence is none.
//!
//! Which software a secondary is, is asked, too, for whoever looks at the peers.
//!
//! Cost: one question for each zone and secondary, at most [`AT_ONCE`] at a time; again each [`INTERVAL`].
//!
//! RFCs: 1034 section 4.3.5 (the SOA), 1982 (serials).

use super::plan::InventoryPlan;
use super::{Shared, present_plan};
use crate::client::{Question, Role, Server, soa_of};
use futures_util::stream::{self, StreamExt};
use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{DNSClass, RData, RecordType};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};
use wire::name::Name;
use wire::serial::Serial;

/// Time for one answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Questions that may be open at a time.
const AT_ONCE: usize = 16;
/// Time between two rounds of questions while the zones are served.
const INTERVAL: Duration = Duration::from_secs(60);
/// Rounds from one question for the software to the next.
const ROUNDS_A_VERSION: u64 = 60;
/// Characters of a version that are kept.
const LONGEST_VERSION: usize = 64;

/// What the secondaries of a zone say of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The newest serial, and who has it.
    pub newest: Option<(Serial, SocketAddr)>,
    /// True if any of them answered.
    pub is_answered: bool,
}

impl Found {
    /// Takes in what one of them said; none if it said nothing.
    fn note(&mut self, address: SocketAddr, said: Option<Option<Serial>>) {
        let Some(serial) = said else { return };
        self.is_answered = true;
        if let Some(serial) = serial
            && self.newest.is_none_or(|(newest, _)| serial.newer_than(newest))
        {
            self.newest = Some((serial, address));
        }
    }
}

/// Asks all secondaries of zones for their serials, and tells `each` one that it is told.
pub async fn ask<'z>(
    zones: impl IntoIterator<Item = (&'z Name, &'z [Server])>,
    each: impl Fn(SocketAddr, &Name, Serial),
) -> HashMap<Name, Found> {
    let mut found: HashMap<Name, Found> = HashMap::new();
    let mut questions = Vec::new();
    for (zone, servers) in zones {
        found.insert(zone.clone(), Found::default());
        questions.extend(servers.iter().map(|server| (zone.clone(), server.clone())));
    }
    let answers = questions
        .into_iter()
        .map(|(zone, server)| async move { (serial_at(&zone, &server).await, zone, server.address) });
    let mut answers = stream::iter(answers).buffer_unordered(AT_ONCE);
    while let Some((said, zone, address)) = answers.next().await {
        if let Some(found) = found.get_mut(&zone) {
            found.note(address, said);
        }
        if let Some(Some(serial)) = said {
            each(address, &zone, serial);
        }
    }
    found
}

/// The serial that a server has of a zone: over UDP, or over TCP where that brings nothing. The outer option is none when
/// it says nothing, the inner one when it has no version that counts.
async fn serial_at(zone: &Name, server: &Server) -> Option<Option<Serial>> {
    let question = Question::new(zone, RecordType::SOA, Role::Authority);
    let response = match question.ask_udp(server, PATIENCE / 2).await {
        Ok(response) if !response.metadata.truncation => response,
        _ => timeout(PATIENCE, question.ask_tcp(server, PATIENCE)).await.ok()?.ok()?,
    };
    let counts = response.metadata.authoritative && response.metadata.response_code == ResponseCode::NoError;
    let soa = soa_of(&response, zone).filter(|(class, _)| counts && *class == DNSClass::IN);
    Some(soa.map(|(_, serial)| serial))
}

/// Asks each secondary which software it is.
async fn note_versions(shared: &Shared, plan: &InventoryPlan) {
    let all = plan.apexes().flat_map(|(_, apex)| &apex.secondaries);
    let servers: HashMap<IpAddr, Server> =
        all.map(|server| (server.address.ip().to_canonical(), server.clone())).collect();
    let versions = servers.into_iter().map(|(address, server)| async move { (address, version_of(&server).await) });
    let mut versions = stream::iter(versions).buffer_unordered(AT_ONCE);
    while let Some((address, version)) = versions.next().await {
        shared.facilities.metrics.peers.note_version(address, version);
    }
}

/// What a server says of its software: the printable part of one text.
async fn version_of(server: &Server) -> Option<Box<str>> {
    let response = Question::version().ask_udp(server, PATIENCE).await.ok()?;
    let texts = response.answers.iter().filter_map(|record| match &record.data {
        RData::TXT(text) => text.txt_data.first(),
        _ => None,
    });
    let text = String::from_utf8_lossy(texts.into_iter().next()?).into_owned();
    let plain: String = text.chars().filter(|character| !character.is_control()).take(LONGEST_VERSION).collect();
    let plain = plain.trim();
    (!plain.is_empty()).then(|| plain.into())
}

/// Looks for another builder of the zones until the task ends.
pub async fn watch(shared: &Arc<Shared>) {
    let (mut is_told, mut rounds) = (false, 0u64);
    let mut due = Instant::now();
    loop {
        sleep_until(due).await;
        due += INTERVAL;
        let plan = present_plan(shared);
        if rounds.is_multiple_of(ROUNDS_A_VERSION) {
            note_versions(shared, &plan).await;
        }
        rounds += 1;
        let zones = plan.apexes().filter(|(_, apex)| !apex.secondaries.is_empty());
        let peers = &shared.facilities.metrics.peers;
        let note = |address: SocketAddr, zone: &Name, serial| peers.note_serial(address.ip(), zone, serial);
        let found = ask(zones.map(|(zone, apex)| (zone, &apex.secondaries[..])), note).await;
        let root = shared.facilities.publisher.load();
        let newer = found.iter().find_map(|(zone, found)| {
            let ours = root.get(zone)?.zone.as_ref()?.soa.serial;
            let (theirs, address) = found.newest.filter(|(theirs, _)| theirs.newer_than(ours))?;
            Some(format!("{address} has serial {theirs} of {zone}, and {ours} is the newest that was made here"))
        });
        let main = plan.main_zone().to_string();
        shared.facilities.metrics.inventory_second_builder.with_label_values(&[&main]).set(newer.is_some().into());
        match &newer {
            Some(newer) if !is_told => warn!(zone = main, "another builder makes this zone: {newer}"),
            None if is_told => info!(zone = main, "no other builder is seen any more"),
            _ => {}
        }
        is_told = newer.is_some();
        shared.status().second_builder = newer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use tokio::net::UdpSocket as TokioSocket;

    fn zone() -> Name {
        Name::parse("us-west-1.cns.example.com").unwrap()
    }

    #[test]
    fn the_newest_serial_counts_and_silence_is_no_answer() {
        let (one, two) = ("192.0.2.1:53".parse().unwrap(), "192.0.2.2:53".parse().unwrap());
        let mut found = Found::default();
        found.note(one, None);
        assert!(!found.is_answered);
        found.note(one, Some(None));
        assert_eq!((found.newest, found.is_answered), (None, true));
        found.note(one, Some(Some(Serial(7))));
        found.note(two, Some(Some(Serial(u32::MAX))));
        assert_eq!(found.newest, Some((Serial(7), one)), "serials are those of a circle");
        found.note(two, Some(Some(Serial(8))));
        assert_eq!(found.newest, Some((Serial(8), two)));
    }

    #[tokio::test]
    async fn a_refusal_is_an_answer() {
        let server = TokioSocket::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let refuse = async move {
            let mut buffer = [0; 512];
            let (size, client) = server.recv_from(&mut buffer).await.unwrap();
            // The same message as a response with REFUSED.
            (buffer[2], buffer[3]) = (buffer[2] | 0x80, 5);
            server.send_to(&buffer[..size], client).await.unwrap();
            std::future::pending::<()>().await;
        };
        let servers = [Server::from(address)];
        let zone = zone();
        let found = tokio::select! {
            found = ask([(&zone, &servers[..])], |_, _, _| ()) => found,
            () = refuse => unreachable!(),
        };
        assert_eq!(found[&zone], Found { newest: None, is_answered: true });
        // A port where nobody listens.
        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let servers = [Server::from(free)];
        assert_eq!(ask([(&zone, &servers[..])], |_, _, _| ()).await[&zone], Found::default());
    }
}
