//! Difference between a zone as another server has it and as it is served here, for `aggregator diff --with`: whoever moves
//! a zone from one maker to another sees what would change for clients.
//!
//! The SOA counts only if it differs in more than the serial, since each maker of a zone has serials of its own.
//!
//! Invariants: what the other server sends is compared and forgotten, neither served nor kept; it is claimed of the budget
//! of memory as any transfer is, and has the limits of any.
//!
//! Cost: a transfer of the whole zone, and O(records) to compare it.

use super::Handle;
use super::diff::{Changes, RecordDiff, compare_zones};
use super::handle::{in_thread, read_zone};
use crate::budget::{Claim, Manner};
use crate::client::{Server, random_id};
use crate::control::Reply;
use crate::transfer::connection;
use crate::transfer::progress::Tally;
use crate::transfer::reader::{Reader, Received};
use crate::transfer::{Limits, TransferError};
use crate::zone::{Loader, Zone};
use serde_json::json;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::name::Name;

/// Records that JSON lists at most.
const JSON_RECORDS: usize = 10_000;
/// Octets of an SOA's numbers, of which the serial is the first.
const SOA_NUMBERS: usize = 20;

/// Transfers a zone from another server and compares it with what is served; `key` names the TSIG key that signs.
pub async fn compare(view: &Handle, zone: &str, with: SocketAddr, key: Option<&str>) -> Result<Reply, String> {
    let zone = read_zone(zone)?;
    let served = view.served(&zone)?.zone.clone();
    let served =
        served.ok_or_else(|| format!("zone {zone} has no valid data now; there is nothing to compare with"))?;
    let key = match key.map(Name::parse) {
        None => None,
        Some(Err(error)) => return Err(format!("no name of a key: {error}")),
        Some(Ok(name)) => {
            let known = view.config.load().keys.get(&name).cloned();
            Some(known.ok_or_else(|| format!("key {name} is not configured; write it into [keys]"))?)
        }
    };
    let server = Server { key, ..Server::from(with) };
    let claim = view.budget.begin(&zone, Manner::Change);
    let loader =
        fetch(&zone, &server, &claim).await.map_err(|error| format!("{with} does not give {zone}: {error}"))?;
    in_thread(move || {
        let theirs = loader.finish(Some(&*served)).map_err(|error| format!("{with} has no zone of {zone}: {error}"))?;
        let compared = Comparison::new(&theirs.zone, &served, with);
        drop(claim);
        Ok(Reply { ok: true, text: compared.describe(), data: compared.to_json() })
    })
    .await
}

/// Transfers a whole zone.
async fn fetch(zone: &Name, server: &Server, claim: &Claim) -> Result<Loader, TransferError> {
    let reader = Reader::axfr(zone.clone(), random_id());
    match connection::fetch(reader, server, &Limits::default(), &Tally::default(), claim).await?.0 {
        Received::Full(_, loader) => Ok(loader),
        Received::NotNewer(_) | Received::Changed(_) => Err(TransferError::LoneSoa),
    }
}

/// What only one of two servers has.
struct Comparison {
    with: SocketAddr,
    changes: Changes,
    /// True if the SOA differs in more than the serial.
    has_other_soa: bool,
    /// Records as they are served.
    records: u64,
}

impl Comparison {
    fn new(theirs: &Zone, served: &Arc<Zone>, with: SocketAddr) -> Comparison {
        Comparison {
            with,
            changes: compare_zones(theirs, served),
            has_other_soa: soa_without_serial(theirs) != soa_without_serial(served),
            records: served.records,
        }
    }

    /// Records that only one of them has, in the order of their names.
    fn iter(&self) -> impl Iterator<Item = RecordDiff> {
        self.changes.iter().filter(|record| self.has_other_soa || !record.is_soa())
    }

    /// The differences as lines of zone files: a minus for what only the other server has, a plus for what only is here.
    fn describe(&self) -> String {
        let Comparison { with, changes: Changes { zone, from, to, .. }, records, .. } = self;
        let mut text = format!("--- {zone} {from} at {with}\n+++ {zone} {to} as served\n");
        let heads = text.len();
        for record in self.iter() {
            _ = writeln!(text, "{}{}", record.sign, record.line());
        }
        if text.len() == heads {
            return format!("{zone} has the same {records} records at {with}, serial {from}, and here, serial {to}\n");
        }
        text
    }

    /// The differences as JSON, with the number of records that are left out.
    fn to_json(&self) -> serde_json::Value {
        let Changes { zone, from, to, .. } = &self.changes;
        let mut records = self.iter();
        let (there, here): (Vec<RecordDiff>, Vec<RecordDiff>) =
            records.by_ref().take(JSON_RECORDS).partition(|record| record.sign == '-');
        let more = records.count();
        json!({
            "zone": zone, "with": self.with, "serial_there": from, "serial_here": to,
            "equal": there.is_empty() && here.is_empty(), "only_there": there, "only_here": here, "more": more,
        })
    }
}

/// TTL and RDATA of an SOA without the serial.
fn soa_without_serial(zone: &Zone) -> Option<(u32, Vec<u8>)> {
    let set = zone.soa_rrset();
    let mut rdata = set.rdatas().next()?.to_vec();
    let serial = rdata.len().checked_sub(SOA_NUMBERS)?;
    rdata.drain(serial..serial + 4);
    Some((set.ttl, rdata))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::Soa;
    use wire::name::NameBuf;
    use wire::rr::rtype;
    use wire::serial::Serial;

    fn zone(serial: u32, mname: &str, hosts: &[(&str, u8)]) -> Arc<Zone> {
        let soa = Soa { serial: Serial(serial), refresh: 1, retry: 2, expire: 3, minimum: 4 };
        let wire = |text: &str| NameBuf::parse(text).unwrap();
        let mut loader = Loader::new(Name::parse("z").unwrap());
        loader.push(&wire("z"), rtype::SOA, 60, &soa.to_rdata(wire(mname).as_wire(), wire("h").as_wire()));
        hosts.iter().for_each(|(owner, last)| loader.push(&wire(owner), rtype::A, 60, &[192, 0, 2, *last]));
        Arc::new(loader.finish(None).unwrap().zone)
    }

    fn compared(theirs: &Zone, ours: &Arc<Zone>) -> (String, serde_json::Value) {
        let compared = Comparison::new(theirs, ours, "192.0.2.53:53".parse().unwrap());
        (compared.describe(), compared.to_json())
    }

    #[test]
    fn serials_of_two_makers_are_no_difference() {
        let (text, data) = compared(&zone(9, "ns", &[("a.z", 1)]), &zone(5, "ns", &[("a.z", 1)]));
        assert_eq!(text, "z. has the same 2 records at 192.0.2.53:53, serial 9, and here, serial 5\n");
        assert_eq!((&data["equal"], &data["serial_there"]), (&json!(true), &json!(9)));
        let (text, _) = compared(&zone(9, "other", &[]), &zone(5, "ns", &[]));
        assert!(text.contains("\n-z. 60 IN SOA other. h. 9 ") && text.contains("\n+z. 60 IN SOA ns. h. 5 "), "{text}");
    }

    #[test]
    fn what_only_one_has_is_told_with_its_sign() {
        let (text, data) = compared(&zone(9, "ns", &[("a.z", 1), ("b.z", 2)]), &zone(5, "ns", &[("b.z", 3)]));
        let lines = "--- z. 9 at 192.0.2.53:53\n+++ z. 5 as served\n-a.z. 60 IN A 192.0.2.1\n-b.z. 60 IN A 192.0.2.2\n\
                     +b.z. 60 IN A 192.0.2.3\n";
        assert_eq!(text, lines);
        assert_eq!((&data["equal"], &data["more"]), (&json!(false), &json!(0)));
        assert_eq!((data["only_there"].as_array().unwrap().len(), &data["only_here"][0]["name"]), (2, &json!("b.z.")));
    }

    #[test]
    fn one_serial_for_two_contents_hides_nothing() {
        let (text, data) = compared(&zone(5, "ns", &[("a.z", 1)]), &zone(5, "ns", &[]));
        assert!(text.ends_with("\n-a.z. 60 IN A 192.0.2.1\n"), "{text}");
        assert_eq!(data["equal"], json!(false));
    }
}
