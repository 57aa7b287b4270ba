//! SOA and name servers of zones that are made here.
//!
//! Cost: O(name servers squared).

use crate::config::names::SELF;
use crate::config::transfer::TransferSection;
use crate::zone::SoaFields;
use settings::read::{Fields, Reader};
use settings::tree::Value;
use std::time::Duration;
use wire::name::Name;

/// Parts of the file that the reading of such a zone needs.
pub struct Surroundings<'s> {
    pub transfer: &'s TransferSection,
    pub server_name: &'s Name,
    /// True if the files that the configuration names are read.
    pub touch_disk: bool,
}

/// Reads the SOA's fields.
pub fn read_soa(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    zone: &Name,
    around: &Surroundings<'_>,
    stale: Duration,
) -> SoaFields {
    let mname = fields.read(reader, "mname", |r, key, node| match &node.value {
        Value::Text(text) if text == SELF => Some(around.server_name.clone()),
        _ => r.name(key, node),
    });
    let ttl = fields.read(reader, "soa_ttl", Reader::ttl).unwrap_or(30);
    SoaFields {
        mname: mname.unwrap_or_else(|| around.server_name.clone()),
        // A zone whose name leaves no room for one more label has the contact that is a domain itself.
        rname: fields
            .read(reader, "rname", Reader::mailbox)
            .unwrap_or_else(|| zone.prepend(b"hostmaster").unwrap_or_else(|_| zone.clone())),
        ttl,
        // As CNS has them.
        refresh: 30,
        retry: 60,
        // Secondaries give the zone up when we do.
        expire: u32::try_from(stale.as_secs()).unwrap_or(u32::MAX).max(1),
        minimum: ttl,
    }
}

/// Reads the name servers.
pub fn read_ns(reader: &mut Reader<'_>, fields: &Fields<'_>, place: &str) -> Option<Vec<Name>> {
    let entry = fields.entry("ns")?;
    let wanted = "a list of names such as [\"ns1.example.com\"]";
    let names = reader.list("ns", &entry.node, wanted, |r, key, node| Some((r.name(key, node)?, node.at)))?;
    if matches!(&entry.node.value, Value::List(items) if items.is_empty()) {
        reader.error(
            entry.node.at,
            format!("{place} has no name server; write one, or leave \"ns\" out for this server"),
        );
    }
    let mut listed: Vec<Name> = Vec::new();
    for (name, at) in names {
        if listed.contains(&name) {
            reader.error(at, format!("{place} lists name server {name} twice; remove one"));
        } else {
            listed.push(name);
        }
    }
    Some(listed)
}
