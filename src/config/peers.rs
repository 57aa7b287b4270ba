//! Other name servers: the primaries of a zone, and the secondaries that get NOTIFY.
//!
//! Invariant: a peer is one host that packets can be sent to, from a local address of the same family if from a given
//! one, and signed with a key that we may sign with.
//!
//! Cost: O(text) for each peer.

use crate::client::Server;
use crate::config::keys::Keys;
use crate::config::peer_tls::{TlsDraft, read_tls};
use settings::read::Reader;
use settings::schema::Table;
use settings::tree::{Node, Value};
use std::net::IpAddr;
use std::sync::Arc;
use wire::tsig::Key;

/// RFC 1035 section 4.2.
const DNS_PORT: u16 = 53;
/// RFC 9103 section 7.1.
const TLS_PORT: u16 = 853;

/// Kind of peer: its noun in messages, and the keys that its table may have.
pub struct Role {
    pub noun: &'static str,
    pub table: &'static Table<Inherited>,
    /// True if it may be reached by TLS.
    pub has_tls: bool,
}

/// Settings of a peer whose own table does not have them.
#[derive(Clone, Default)]
pub struct Inherited {
    pub source: Option<IpAddr>,
    pub key: Option<Arc<Key>>,
    /// TLS, but for a name that is not given.
    pub tls: Option<TlsDraft>,
}

/// Reads one peer as text or table; `place` is what it belongs to.
pub fn read_peer(
    reader: &mut Reader<'_>,
    keys: &Keys,
    role: &Role,
    place: &str,
    key: &str,
    node: &Node,
    inherited: &Inherited,
) -> Option<Server> {
    let noun = role.noun;
    let mut own = inherited.clone();
    let address_node = match &node.value {
        Value::Table(_) => {
            let fields = role.table.read(reader, node, &format!("a {noun} of {place}"), &mut own)?;
            own.key = fields.read(reader, "key", |r, key, node| keys.signing(r, key, node)).or(own.key);
            if let Some(entry) = role.has_tls.then(|| fields.entry("tls")).flatten() {
                own.tls = read_tls(reader, keys, &format!("a {noun} of {place}"), entry);
            }
            let message = format!("a {noun} of {place} has no \"address\"; write address = \"ADDRESS\"");
            fields.need(reader, "address", node.at, message);
            &fields.entry("address")?.node
        }
        _ => node,
    };
    let port = if own.tls.is_some() { TLS_PORT } else { DNS_PORT };
    let address = reader.address(key, address_node, port)?;
    let (ip, at) = (address.ip(), address_node.at);
    if ip.is_unspecified() || ip.is_multicast() {
        return reader.refuse(at, format!("{ip} cannot be a {noun}; write the address of one server"));
    }
    if address.port() == 0 {
        let message = format!("port 0 of {noun} {ip} reaches nothing; write another port, or none for {port}");
        return reader.refuse(at, message);
    }
    if let Some(source) = own.source.filter(|source| source.is_ipv4() != address.is_ipv4()) {
        let (wanted, given) = if address.is_ipv4() { ("IPv4", "IPv6") } else { ("IPv6", "IPv4") };
        let message = format!(
            "source_address {source} is {given}, {noun} {ip} is {wanted}; write an {wanted} source_address for it"
        );
        return reader.refuse(at, message);
    }
    let tls = match own.tls.map(|draft| draft.for_server(ip)).transpose() {
        Ok(tls) => tls.map(Arc::new),
        Err(error) => return reader.refuse(at, format!("\"tls\" of {noun} {ip} cannot be used: {error}")),
    };
    Some(Server { address, source: own.source, key: own.key, tls })
}
