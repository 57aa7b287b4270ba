//! SOA and name servers of zones that are made here.
//!
//! Cost: O(name servers squared).

use crate::config::names::SELF;
use crate::zone::SoaFields;
use settings::fields::{Fields, put};
use settings::read::Reader;
use settings::schema::{Key, Kind, key};
use settings::tree::Value;
use std::time::Duration;
use wire::name::Name;

/// A plan of a zone that is made here.
pub trait Apex {
    fn soa(&mut self) -> &mut SoaFields;
    fn ns_ttl(&mut self) -> &mut u32;
}

/// Returns the keys of such a zone for SOA and NS; `ns` is the help of the name servers.
pub const fn apex<S: Apex>(ns: &'static str) -> [Key<S>; 5] {
    [
        key("ns", "", ns).bound("names"),
        key("ns_ttl", "3600", "TTL of the NS records").takes(Kind::Ttl(|zone, ttl| *zone.ns_ttl() = ttl)),
        key("mname", r#""self""#, "primary in the SOA").takes(Kind::Own(
            "domain name or \"self\"",
            |reader, key, node, zone| match &node.value {
                Value::Text(text) if text == SELF => true,
                _ => put(&mut zone.soa().mname, reader.name(key, node)),
            },
        )),
        key("rname", "", "contact in the SOA; default: hostmaster at the zone")
            .takes(Kind::Mailbox(|zone, contact| zone.soa().rname = contact)),
        key("soa_ttl", "30", "TTL of the SOA, and of answers that a name is not there")
            .takes(Kind::Ttl(|zone, ttl| (zone.soa().ttl, zone.soa().minimum) = (ttl, ttl))),
    ]
}

/// Returns the SOA of a zone without settings, whose primary is this server.
pub fn blank_soa(zone: &Name, server_name: &Name) -> SoaFields {
    SoaFields {
        mname: server_name.clone(),
        // A zone whose name leaves no room for one more label has the contact that is a domain itself.
        rname: zone.prepend(b"hostmaster").unwrap_or_else(|_| zone.clone()),
        ttl: 0,
        // As CNS has them.
        refresh: 30,
        retry: 60,
        expire: 0,
        minimum: 0,
    }
}

/// Returns the time after which secondaries give a zone up: that after which we do.
pub fn expire(stale: Duration) -> u32 {
    u32::try_from(stale.as_secs()).unwrap_or(u32::MAX).max(1)
}

/// Reads the name servers.
pub fn read_ns(reader: &mut Reader<'_>, fields: &Fields<'_>, place: &str) -> Option<Vec<Name>> {
    let entry = fields.entry("ns")?;
    let wanted = "a list of names such as [\"ns1.example.com\"]";
    let items = reader.items("ns", &entry.node, false, wanted)?;
    if items.is_empty() {
        let message = format!("{place} has no name server; write one, or leave \"ns\" out for this server");
        reader.error(entry.node.at, message);
    }
    let twice = |name: &Name| format!("{place} lists name server {name} twice; remove one");
    Some(reader.distinct("ns", items, Reader::name, Name::eq, twice))
}
