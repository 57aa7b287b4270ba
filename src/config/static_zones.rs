//! Zones of `[zones]` that are written in the file itself: records as in a zone file, and services of OpenStack's.
//!
//! Invariants: what is read makes a zone; faults within a text are told with their own place in the file.
//!
//! Cost: O(text + services squared of one type).
//!
//! RFCs: 1035 section 5 (text), 2782 (SRV), 6763 (services), OpenStack "DNS-based Service Discovery".

use crate::config::apex::{Apex, apex, blank_soa, expire, read_ns};
use crate::config::instances;
use crate::config::names::{SELF, is_marked};
use crate::config::primaries::ZONE;
use crate::config::secondaries::outgoing;
use crate::config::sections::Sections;
use crate::config::trees::TREE;
use crate::static_zone::openstack::{self, Offer};
use crate::static_zone::{self, OwnRecord, StaticZonePlan};
use crate::zone::{Soa, SoaFields, TextRecord, read_text};
use settings::error::split_advice;
use settings::fields::{Fields, put};
use settings::read::{Reader, shorten};
use settings::schema::{Kind, Table, key};
use settings::tree::{Entry, Node, Value};
use std::time::Duration;
use wire::dnssd::{Endpoint, ServiceType};
use wire::name::{Name, NameBuf};
use wire::rr::{self, TypeName, rtype};
use wire::serial::Serial;

/// Keys that mark a table of `[zones]` as a zone of our own.
const MARKS: [&str; 2] = ["services", "openstack"];

/// Expire time: within it secondaries hear of us, or give the zone up; the value is that of CNS.
const EXPIRE: Duration = Duration::from_secs(30 * 86_400);

/// A zone that is written in the file
pub static SERVICES: Table<StaticZonePlan> = Table {
    path: "[zones.\"NAME\"] with services",
    help: "A zone of our own: records, and services from which records follow",
    keys: &[
        &[
            key("services", "", "records as in a zone file; SOA and NS of the zone may be among them")
                .bound("text or list of texts"),
            key("openstack", "", "services that are found by DNS-SD (RFC 6763)").bound("tables"),
            key("ttl", "30", "TTL of records that have none of their own").bound("seconds or duration"),
            key("serial", "", "serial of these records; default: counted with each change")
                .takes(Kind::Number32(|zone, serial| zone.serial = Some(Serial(serial)))),
        ],
        &apex("name servers of the zone; default: this server"),
        &outgoing("whether secondaries get differences; auto: unless replicas share the mname and not the serial"),
    ],
};

/// A service in such a zone
pub static OPENSTACK: Table<OfferDraft> = Table {
    path: "[[zones.\"NAME\".openstack]]",
    help: "An OpenStack service and its endpoint",
    keys: &[&[
        key("type", "", "the instance: identity, compute, baremetal, not keystone, nova, ironic")
            .takes(Kind::Own("service type", |r, key, node, offer| {
                put(&mut offer.kind, read_service_type(r, key, node).map(Some))
            })),
        key("url", "", "the endpoint; http or https, a host name or an address")
            .takes(Kind::Own("URL", |r, key, node, offer| {
                put(&mut offer.endpoint, read_endpoint(r, key, node).map(Some))
            })),
        key("priority", "0", "the lowest is tried first (RFC 2782)")
            .takes(Kind::Number16(0, |offer, priority| offer.priority = priority)),
        key("weight", "0", "share among endpoints of one priority")
            .takes(Kind::Number16(0, |offer, weight| offer.weight = weight)),
    ]],
};

/// A service that is being read.
#[derive(Default)]
pub struct OfferDraft {
    kind: Option<ServiceType>,
    endpoint: Option<Endpoint>,
    priority: u16,
    weight: u16,
}

impl Apex for StaticZonePlan {
    fn soa(&mut self) -> &mut SoaFields {
        &mut self.soa
    }

    fn ns_ttl(&mut self) -> &mut u32 {
        &mut self.ns_ttl
    }
}

/// Returns true if a table of `[zones]` has its records itself, also if the key is misspelt.
pub fn is_services(entry: &Entry) -> bool {
    is_marked(entry, &MARKS, &["primaries", "zookeeper", "inventory"])
}

/// Reads the table of one zone.
pub fn read_services(
    reader: &mut Reader<'_>,
    zone: Name,
    entry: &Entry,
    sections: &mut Sections<'_>,
) -> Option<StaticZonePlan> {
    let place = format!("zone \"{}\"", shorten(&entry.key));
    let advise = |key: &str| {
        let advice = "the records of the zone are in the file; remove \"services\" and \"openstack\", or this";
        let other = !SERVICES.has(key) && (ZONE.has(key) || TREE.has(key));
        other.then(|| advice.to_string())
    };
    let mut plan = StaticZonePlan {
        soa: blank_soa(&zone, sections.server_name),
        ns: vec![sections.server_name.clone()],
        ns_ttl: 0,
        serial: None,
        records: Vec::new(),
        offers: Vec::new(),
        zone,
    };
    plan.soa.expire = expire(EXPIRE);
    let fields = SERVICES.read_with_advice(reader, &entry.node, &place, &mut plan, advise)?;
    let ttl = fields.read(reader, "ttl", Reader::ttl).unwrap_or_default();
    let written = fields.read(reader, "services", |r, key, node| read_records(r, key, node, &plan.zone, ttl));
    let written = written.unwrap_or_default();
    plan.ns = read_ns(reader, &fields, &place).unwrap_or(plan.ns);
    plan.offers = fields.read(reader, "openstack", |r, _, node| read_offers(r, &place, node)).unwrap_or_default();
    // Replicas that write one primary into the SOA may differ under one serial, unless they are told the serial.
    let mname = fields.entry("mname").map(|entry| &entry.node.value);
    let own_mname = !matches!(mname, Some(Value::Text(name)) if name != SELF);
    let openstack_at = fields.entry("openstack").map_or(entry.key_at, |entry| entry.node.at);
    instances::check(reader, &plan, &written, openstack_at);
    take_written(reader, &fields, written, &mut plan);
    match openstack::records(&plan.zone, ttl, &plan.offers) {
        Ok(records) => plan.records.extend(records),
        Err(error) => {
            let advice = "its services' names have no room; write a shorter one";
            reader.error(entry.key_at, format!("{place} is too long ({error}): {advice}"));
        }
    }
    let at = fields.entry("services").map_or(entry.key_at, |entry| entry.node.at);
    match static_zone::build(&plan, None, 0).map(|loaded| loaded.anomalies) {
        Ok(found) if found.aliases > 0 => {
            // RFC 2181 section 10.1.
            reader.error(at, format!("{place} has a CNAME beside other records of its name; remove one of them"));
        }
        Ok(found) if found.oversized > 0 => {
            reader.error(at, format!("{place} has more records of a name and type than an answer holds; remove some"));
        }
        Ok(_) => {}
        Err(error) => reader.error(at, format!("{place} makes no zone ({error}); correct its records")),
    }
    sections.secondaries.admit(reader, &plan.zone, Some(&fields), &place, own_mname || plan.serial.is_some());
    Some(plan)
}

//--- Records ---

/// Reads records: one text, or a list of them, each of which goes on where the one before ends. Their places are those in
/// the file.
fn read_records(reader: &mut Reader<'_>, key: &str, node: &Node, zone: &Name, ttl: u32) -> Option<Vec<TextRecord>> {
    let wanted = "records as in a zone file, such as \"os A 192.0.2.80\", or a list of them";
    let items = reader.items(key, node, !node.is_list(), wanted)?;
    let (mut text, mut parts) = (String::new(), Vec::new());
    for item in items {
        parts.push((text.len(), item.at));
        text.push_str(reader.text(key, item, wanted)?);
        text.push('\n');
    }
    let (records, faults) = read_text(&text, zone, ttl);
    let place = |reader: &Reader<'_>, at: usize| {
        let part = parts.partition_point(|(start, _)| *start <= at).saturating_sub(1);
        parts.get(part).map_or(node.at, |(start, item)| {
            let (text, begin) = reader.source.text_at(*item);
            begin + locate(text, *item - begin, at - start)
        })
    };
    for fault in faults {
        let at = place(reader, fault.at);
        let mut message = format!("read as a zone file: {fault}");
        if split_advice(&message).1.is_none() {
            message += "; write the record as a zone file has it";
        }
        reader.error(at, message);
    }
    Some(records.into_iter().map(|record| TextRecord { at: place(reader, record.at), ..record }).collect())
}

/// Returns the position in the file of octet `offset` of a string's value; the string begins at `at`.
fn locate(file: &str, at: usize, offset: usize) -> usize {
    let raw = &file[at..];
    let quotes = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quotes| raw.starts_with(quotes)).unwrap_or_default();
    let (mut position, mut value) = (at + quotes.len(), 0);
    if quotes.len() == 3 {
        // The line break behind the quotation marks is no part of the text.
        let rest = &file[position..];
        position += if rest.starts_with("\r\n") { 2 } else { usize::from(rest.starts_with('\n')) };
    }
    while value < offset
        && let Some(first) = file.get(position..).and_then(|rest| rest.chars().next())
    {
        let (raw, octets) = match first {
            '\\' if quotes.starts_with('"') => escape(&file[position + 1..]),
            other => (other.len_utf8(), other.len_utf8()),
        };
        position += raw;
        value += octets;
    }
    position
}

/// Returns the octets that an escape takes in the file and in the value; `rest` is the text after the backslash.
fn escape(rest: &str) -> (usize, usize) {
    let digits = |count: usize| rest.get(1..=count).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let length = |code: Option<u32>| code.and_then(char::from_u32).map_or(1, char::len_utf8);
    match rest.as_bytes().first() {
        // JSON has characters of more than 16 bits as two escapes.
        Some(b'u') if digits(4).is_some_and(|code| (0xd800..0xdc00).contains(&code)) => (12, 4),
        Some(b'u') => (6, length(digits(4))),
        Some(b'U') => (10, length(digits(8))),
        Some(b'x') => (4, length(digits(2))),
        // TOML leaves out the rest of the line and the beginning of the next.
        Some(b' ' | b'\t' | b'\r' | b'\n') => (1 + rest.len() - rest.trim_start().len(), 0),
        _ => (2, 1),
    }
}

/// Takes in written records: SOA and NS of the apex in place of the keys, everything else as it is.
fn take_written(reader: &mut Reader<'_>, fields: &Fields<'_>, written: Vec<TextRecord>, plan: &mut StaticZonePlan) {
    let mut written_ns: Vec<Name> = Vec::new();
    let mut has_soa = false;
    for record in written {
        let at = record.at;
        let is_apex = record.owner.to_name() == plan.zone;
        let given = |keys: &[&str]| keys.iter().find(|key| fields.entry(key).is_some()).copied().map(str::to_owned);
        let twice = |key: &str| format!("\"{key}\" is written beside the text that says the same; remove one of them");
        match record.rtype {
            rtype::SOA if is_apex && has_soa => reader.error(at, "second SOA record; remove one".to_string()),
            rtype::SOA if is_apex => {
                has_soa = true;
                if let Some(key) = given(&["serial", "mname", "rname", "soa_ttl"]) {
                    reader.error(at, twice(&key));
                }
                (plan.soa, plan.serial) = read_written_soa(&record);
            }
            rtype::NS if is_apex => {
                if let Some(key) = given(&["ns", "ns_ttl"]).filter(|_| written_ns.is_empty()) {
                    reader.error(at, twice(&key));
                }
                written_ns.extend(NameBuf::from_wire(&record.rdata).map(|server| server.to_name()));
                plan.ns_ttl = record.ttl;
            }
            rtype::SOA | rtype::PLACEHOLDER => {
                let name = TypeName(record.rtype);
                reader.error(at, format!("{name} record at {}; remove it", record.owner));
            }
            other if rr::is_dnssec(other) || other == rtype::DS => {
                let name = TypeName(other);
                reader.error(at, format!("{name} record in a zone that is not signed; remove it"));
            }
            rtype => {
                let TextRecord { owner, ttl, rdata, .. } = record;
                plan.records.push(OwnRecord { owner, rtype, ttl, rdata });
            }
        }
    }
    if !written_ns.is_empty() {
        plan.ns = written_ns;
    }
}

/// Returns the fields of a written SOA record, and its serial.
fn read_written_soa(record: &TextRecord) -> (SoaFields, Option<Serial>) {
    let sound = "text gives sound RDATA";
    let numbers = Soa::from_rdata(&record.rdata).expect(sound);
    let (mname, end) = NameBuf::read(&record.rdata, 0).expect(sound);
    let (rname, _) = NameBuf::read(&record.rdata, end).expect(sound);
    let Soa { serial, refresh, retry, expire, minimum } = numbers;
    let (mname, rname) = (mname.to_name(), rname.to_name());
    (SoaFields { mname, rname, ttl: record.ttl, refresh, retry, expire, minimum }, Some(serial))
}

//--- Services ---

/// Reads a list of services.
fn read_offers(reader: &mut Reader<'_>, place: &str, node: &Node) -> Option<Vec<Offer>> {
    let wanted = "a table { type = \"identity\", url = \"https://...\" }, or a list";
    let items = reader.items("openstack", node, node.is_table(), wanted)?;
    let mut offers: Vec<Offer> = Vec::new();
    for item in items {
        let Some(offer) = read_offer(reader, place, item) else { continue };
        if offers.contains(&offer) {
            reader.error(item.at, format!("{place} has this endpoint of {} twice; remove one", offer.kind));
        } else if let Some(advice) = offers.iter().find_map(|other| other.excludes(&offer)) {
            reader.error(item.at, format!("{place} has another endpoint of {} already; {advice}", offer.kind));
        }
        offers.push(offer);
    }
    Some(offers)
}

/// Reads one service.
fn read_offer(reader: &mut Reader<'_>, place: &str, node: &Node) -> Option<Offer> {
    let place = format!("\"openstack\" of {place}");
    let mut offer = OfferDraft::default();
    let fields = OPENSTACK.read(reader, node, &place, &mut offer)?;
    for key in ["type", "url"] {
        let advice = "write type = \"identity\", url = \"https://os.example.com/\"";
        fields.need(reader, key, node.at, format!("{place} has no \"{key}\"; {advice}"));
    }
    let OfferDraft { kind, endpoint, priority, weight } = offer;
    Some(Offer { kind: kind?, endpoint: endpoint?, priority, weight })
}

/// Reads the type of a service.
fn read_service_type(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<ServiceType> {
    let text = reader.text(key, node, "a service type such as \"identity\"")?;
    let kind = text.parse::<ServiceType>();
    match &kind {
        Ok(kind) => kind.doubt().into_iter().for_each(|doubt| reader.warn(node.at, format!("\"{kind}\" {doubt}"))),
        Err(error) => reader.error(node.at, format!("\"{}\" {error}", shorten(text))),
    }
    kind.ok()
}

/// Reads the endpoint of a service.
fn read_endpoint(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Endpoint> {
    let text = reader.text(key, node, "an URL such as \"https://os.example.com/\"")?;
    Endpoint::parse(text).map_err(|error| reader.error(node.at, format!("\"{}\" {error}", shorten(text)))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_value_is_found_in_the_file() {
        for (file, value, found) in [
            ("\"ab\"", 1, "b\""),
            ("'a\\b'", 2, "b'"),
            ("\"\"\"\nab\"\"\"", 0, "ab\"\"\""),
            ("'''\r\nab'''", 1, "b'''"),
            ("\"a\\n\\\"b\"", 3, "b\""),
            ("\"\\u00e9x\"", 2, "x\""),
            ("\"\\ud83d\\ude00x\"", 4, "x\""),
            ("\"\\U0001f600x\"", 4, "x\""),
            ("\"\"\"a\\\n   b\"\"\"", 2, "\"\"\""),
            ("\"éx\"", 2, "x\""),
            ("\"ab\"", 99, ""),
        ] {
            let file = format!("k = {file}");
            assert_eq!(&file[locate(&file, 4, value)..], found, "{file}");
        }
    }
}
