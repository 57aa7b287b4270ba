//! Addresses that the configuration listens on, whatever for.
//!
//! Invariant: none is asked for twice, and none is one that nothing can listen on.
//!
//! Cost: O(addresses²) for those of one file.

use settings::read::Reader;
use settings::tree::{Node, Value};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A configured listen address and where it is written.
pub type Placed = (SocketAddr, usize);

/// Reads one address or a list of at least one.
pub fn some_addresses(reader: &mut Reader<'_>, key: &str, node: &Node, port: u16) -> Option<Vec<Placed>> {
    if matches!(&node.value, Value::List(items) if items.is_empty()) {
        let message = format!("\"{key}\" is empty; write for example [\"0.0.0.0:{port}\", \"[::]:{port}\"]");
        return reader.refuse(node.at, message);
    }
    addresses(reader, key, node, port)
}

/// Reads one address or a list of addresses to listen on.
pub fn addresses(reader: &mut Reader<'_>, key: &str, node: &Node, port: u16) -> Option<Vec<Placed>> {
    let wanted = format!("a list of addresses such as [\"0.0.0.0:{port}\"]");
    let one = |reader: &mut Reader<'_>, key: &str, node: &Node| {
        let address = reader.address(key, node, port)?;
        if address.ip().is_multicast() || address.ip() == IpAddr::V4(Ipv4Addr::BROADCAST) {
            let message = format!("nothing can listen on {}; write an address of this machine", address.ip());
            return reader.refuse(node.at, message);
        }
        Some((address, node.at))
    };
    let items = reader.items(key, node, node.is_text(), &wanted)?;
    Some(items.iter().filter_map(|item| one(reader, key, item)).collect())
}

/// Reports TCP addresses that are asked for more than once; every listener has a TCP half.
pub fn refuse_shared_addresses(reader: &mut Reader<'_>, places: &[Placed]) {
    for (index, (address, at)) in places.iter().enumerate() {
        // Port 0 asks for any free port, a different one each time.
        if address.port() == 0 {
            continue;
        }
        let earlier = places[..index].iter().find(|(other, _)| other == address);
        if let Some((_, first)) = earlier {
            let line = reader.source.mention(*first);
            reader.error(*at, format!("{address} is already listened on by {line}; write another port"));
        }
    }
}
