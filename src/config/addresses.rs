//! The tables `addresses` of regions and members: which addresses a region takes of its members (`docs/regions.md` 33), and
//! which of them only clients at home get.
//!
//! Invariant: a list `only` that is written has prefixes, because an empty one would take nothing.
//!
//! Cost: O(prefixes squared) for each table.

use crate::acl::Prefix;
use crate::config::secondaries::read_prefix;
use crate::merge::AddressRules;
use settings::fields::{Fields, put};
use settings::read::Reader;
use settings::schema::{Key, Kind, Table, key};
use settings::tree::{Node, Value};

/// What a table `addresses` says.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    pub rules: AddressRules,
    /// Prefixes of addresses that only clients at home get, and where they stand.
    pub home_only: Vec<Prefix>,
    pub home_only_at: usize,
}

/// `addresses` of a region or a member
pub static ADDRESSES: Table<Addresses> = Table {
    path: "addresses",
    help: "Which addresses of members come into the region",
    keys: &[&[
        key("only", "", "prefixes of those that come, of both families; default: all").takes(Kind::Own(
            "address prefixes",
            |r, key, node, addresses| {
                if matches!(&node.value, Value::List(items) if items.is_empty()) {
                    let advice = "write prefixes such as [\"198.51.100.0/24\"], or remove it";
                    r.error(node.at, format!("\"{key}\" is empty, so that no address would be left; {advice}"));
                }
                put(&mut addresses.rules.only, read_prefixes(r, key, node))
            },
        )),
        key("exclude", "[]", "prefixes of those that do not come")
            .takes(Kind::Own("address prefixes", |r, key, node, addresses| {
                put(&mut addresses.rules.exclude, read_prefixes(r, key, node))
            })),
        key("home_only", "[]", "prefixes of those that only clients of the member's zone in [clients] get").takes(
            Kind::Own("address prefixes", |r, key, node, addresses| {
                addresses.home_only_at = node.at;
                put(&mut addresses.home_only, read_prefixes(r, key, node))
            }),
        ),
    ]],
};

/// Returns the key of a member that says what is taken of it in addition to what the region says.
pub const fn own_addresses<S>() -> Key<S> {
    key("addresses", "", "which of its addresses are taken, in addition to what is said for all").bound("table")
}

/// Reads `addresses` of a table; without it all addresses are taken.
pub fn read_addresses(reader: &mut Reader<'_>, fields: &Fields<'_>, place: &str) -> Addresses {
    let mut addresses = Addresses::default();
    fields.read(reader, "addresses", |r, _, node| {
        ADDRESSES.read(r, node, &format!("\"addresses\" of {place}"), &mut addresses).map(drop)
    });
    addresses
}

/// Reads a list of prefixes.
fn read_prefixes(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Vec<Prefix>> {
    let items = reader.items(key, node, false, "a list of prefixes such as [\"10.0.0.0/8\", \"fd00::/8\"]")?;
    let twice = |prefix: &Prefix| format!("\"{key}\" lists {prefix} twice; remove one");
    Some(reader.distinct(key, items, |r, key, node| read_prefix(r, key, node, ""), Prefix::eq, twice))
}
