//! Zones from primaries, and the way they are transferred, which members of zones have, too.
//!
//! Invariant: every zone has a primary.
//!
//! Cost: O(primaries squared) for each zone.
//!
//! RFCs: RFD 172 (the short form).

use crate::client::Server;
use crate::config::peer_tls::read_tls;
use crate::config::peers::{Inherited, Role, read_peer};
use crate::config::secondaries::outgoing;
use crate::config::sections::Sections;
use crate::config::templates::template;
use crate::config::transfer::{REGRESS, TransferSection, check_timers};
use crate::transfer::{CatalogLimits, ZonePlan};
use settings::fields::{Fields, put};
use settings::read::{Reader, shorten};
use settings::schema::{Key, Kind, Table, key};
use settings::tree::{Entry, Node, Value};
use std::net::SocketAddr;
use wire::name::Name;

/// A zone in table form
pub static ZONE: Table<Way> = Table {
    path: "[zones.\"NAME\"]",
    help: "A zone and its primaries",
    keys: &[&[template()], WAY, &outgoing("whether secondaries get differences; auto: yes")],
};

/// Keys of a zone and of a member that say how it is transferred.
pub const WAY: &[Key<Way>] = &[
    key("primaries", "", "primaries in order of preference").bound("addresses"),
    key("source_address", "", "local address that polls and transfers come from")
        .takes(Kind::SourceAddress(|way, source| way.inherited.source = Some(source))),
    key("notify_from", "[]", "who may send NOTIFY besides the primaries").takes(Kind::Own(
        "addresses",
        |reader, key, node, way| {
            let wanted = "a list of addresses such as [\"192.0.2.1\"]";
            let hosts =
                reader.list(key, node, wanted, |r, key, node| r.bare_address(key, node, "the address of one host"));
            put(&mut way.plan.notify_from, hosts)
        },
    )),
    key("refresh_min", "", INHERITED).takes(Kind::PositiveDuration(|way, span| way.plan.timers.refresh_min = span)),
    key("refresh_max", "", INHERITED).takes(Kind::PositiveDuration(|way, span| way.plan.timers.refresh_max = span)),
    key("retry_min", "", INHERITED).takes(Kind::PositiveDuration(|way, span| way.plan.timers.retry_min = span)),
    key("retry_max", "", INHERITED).takes(Kind::PositiveDuration(|way, span| way.plan.timers.retry_max = span)),
    key("expire_min", "", INHERITED).takes(Kind::PositiveDuration(|way, span| way.plan.timers.expire_min = span)),
    key("expire_max", "", INHERITED).takes(Kind::PositiveDuration(|way, span| way.plan.timers.expire_max = span)),
    key("regress_after", "", INHERITED)
        .takes(Kind::DurationWithin(REGRESS, |way, span| way.plan.timers.regress_after = span)),
    key("regress_after_silence", "", INHERITED)
        .takes(Kind::DurationWithin(REGRESS, |way, span| way.plan.timers.regress_after_silence = span)),
    key("key", "", "TSIG key that its primaries share with us").bound("name of a key"),
    key("tls", "", "TLS to its primaries, on port 853; default: none").bound("table"),
    key("ixfr", "true", "whether the primaries are asked for differences")
        .takes(Kind::Flag(|way, choice| way.plan.ixfr = choice)),
];

/// Help of timers that a zone need not have of its own.
const INHERITED: &str = "default: that of [transfer]";

/// A primary in table form
pub static PRIMARY: Table<Inherited> = Table {
    path: "primaries",
    help: "One primary",
    keys: &[&[
        key("address", "", "address with or without a port").bound("address"),
        key("source_address", "", "default: that of the zone")
            .takes(Kind::SourceAddress(|primary, source| primary.source = Some(source))),
        key("key", "", "TSIG key that it shares with us; default: that of the zone").bound("name of a key"),
        key("tls", "", "TLS to it; default: that of the zone").bound("table"),
    ]],
};

/// Primaries in messages.
const ROLE: Role = Role { noun: "primary", table: &PRIMARY, has_tls: true };

/// A zone, a member of one, or a catalog that is being read.
pub struct Way {
    pub plan: ZonePlan,
    /// Limits of a catalog; nothing for others.
    pub catalog: CatalogLimits,
    inherited: Inherited,
}

impl Way {
    /// A zone without primaries, which they know by the name `origin`.
    pub fn new(zone: Name, origin: Name, transfer: &TransferSection) -> Way {
        let TransferSection { timers, limits, .. } = *transfer;
        let (primaries, notify_from) = (Vec::new(), Vec::new());
        let plan = ZonePlan { zone, origin, primaries, notify_from, ixfr: false, timers, limits, catalog: None };
        let catalog = CatalogLimits { max_members: 0, hold_share: 0.0 };
        Way { plan, catalog, inherited: Inherited::default() }
    }

    /// Reads what its keys say together, from a table at a place of the file.
    pub fn finish(
        mut self,
        reader: &mut Reader<'_>,
        fields: &Fields<'_>,
        (place, at): (&str, usize),
        sections: &Sections<'_>,
    ) -> Option<ZonePlan> {
        check_timers(reader, fields, &self.plan.timers, place);
        self.inherited.key = fields.read(reader, "key", |r, key, node| sections.keys.signing(r, key, node));
        if let Some(entry) = fields.entry("tls") {
            self.inherited.tls = read_tls(reader, sections.keys, place, entry);
        }
        fields.need(reader, "primaries", at, format!("{place} has no primary; write primaries = [\"ADDRESS\"]"));
        let inherited = &self.inherited;
        let primaries =
            |r: &mut Reader<'_>, key: &str, node: &Node| read_primaries(r, sections, place, key, node, inherited);
        self.plan.primaries = fields.read(reader, "primaries", primaries)?;
        Some(self.plan)
    }
}

/// Reads one zone in short or table form.
pub fn read_zone(reader: &mut Reader<'_>, zone: Name, entry: &Entry, sections: &mut Sections<'_>) -> Option<ZonePlan> {
    let place = format!("zone \"{}\"", shorten(&entry.key));
    let mut way = Way::new(zone.clone(), zone.clone(), sections.transfer);
    if let Value::Table(_) = &entry.node.value {
        let fields = ZONE.read(reader, &entry.node, &place, &mut way)?;
        sections.secondaries.admit(reader, &zone, Some(&fields), &place, true);
        return way.finish(reader, &fields, (&place, entry.key_at), sections);
    }
    ZONE.set_defaults(&mut way);
    sections.secondaries.admit(reader, &zone, None, &place, true);
    way.plan.primaries = read_primaries(reader, sections, &place, &entry.key, &entry.node, &way.inherited)?;
    Some(way.plan)
}

/// Returns true if what is sent to an address from this machine surely comes to a listener. Which addresses the machine
/// has beside the loopback ones is not in the file.
fn hears(listener: SocketAddr, address: SocketAddr) -> bool {
    let (own, ip) = (listener.ip(), address.ip());
    let is_any = own.is_unspecified() && own.is_ipv4() == ip.is_ipv4() && ip.is_loopback();
    listener.port() == address.port() && (own == ip || is_any)
}

/// Reads one primary or a list of them.
fn read_primaries(
    reader: &mut Reader<'_>,
    sections: &Sections<'_>,
    place: &str,
    key: &str,
    node: &Node,
    inherited: &Inherited,
) -> Option<Vec<Server>> {
    let items = reader.items(key, node, node.is_text(), "an address or a list of addresses")?;
    if items.is_empty() {
        return reader.refuse(node.at, format!("{place} has no primary; write its address between the brackets"));
    }
    let one = |reader: &mut Reader<'_>, key: &str, node: &Node| {
        let primary = read_peer(reader, sections.keys, &ROLE, place, key, node, inherited)?;
        // Contract with CNS: it listens on IPv4 as shipped, and sends NOTIFY to IPv4 peers only.
        if primary.address.is_ipv6() {
            reader
                .warn(node.at, format!("CNS sends no NOTIFY over IPv6, so that {place} will be polled every refresh"));
        }
        if sections.listen.iter().any(|own| hears(*own, primary.address)) {
            let message = format!(
                "{place} has primary {}, which is this server; write where the zone comes from",
                primary.address
            );
            reader.warn(node.at, message);
        }
        Some(primary)
    };
    let same = |one: &Server, other: &Server| one.address == other.address;
    let twice = |primary: &Server| format!("{place} lists primary {} twice; remove one", primary.address);
    let primaries = reader.distinct(key, items, one, same, twice);
    (!primaries.is_empty()).then_some(primaries)
}
