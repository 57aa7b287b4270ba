//! Compute nodes of a document.
//!
//! Cost: O(compute nodes).

use super::elements::Elements;
use super::keys;
use super::values::{Fields, Seen, moment, text, uuid};
use crate::model::{Server, ServerStatus};
use settings::read::Reader;
use settings::tree::Node;

/// Reads the compute nodes.
pub fn read(reader: &mut Reader<'_>, array: Option<&Elements<'_>>) -> Vec<Server> {
    let (mut found, mut seen) = (Vec::new(), Seen::new());
    let Some(array) = array else { return found };
    array.for_each(reader, |reader, node| {
        let Some((server, at)) = read_server(reader, node) else { return };
        if seen.first(reader, at, server.uuid, || format!("server {}", server.uuid)) {
            found.push(server);
        }
    });
    found
}

/// Reads a compute node; one that does not say otherwise is set up.
fn read_server(reader: &mut Reader<'_>, node: &Node) -> Option<(Server, usize)> {
    let fields = Fields::of(reader, node, &keys::SERVER)?;
    let uuid = fields.required(reader, "uuid", "the UUID of the compute node", uuid);
    let wanted = "\"running\", \"rebooting\" or \"unknown\"";
    let status = fields.required(reader, "status", wanted, |reader, key, node| reader.text(key, node, wanted));
    let hostname = fields.read(reader, "hostname", text).unwrap_or_default();
    let setup = fields.read(reader, "setup", |reader, key, node| reader.boolean(key, node)).unwrap_or(true);
    let last_boot = fields.read(reader, "last_boot", moment);
    let last_heartbeat = fields.read(reader, "last_heartbeat", moment);
    let sysinfo = fields.get("sysinfo").and_then(|sysinfo| sysinfo.get("Admin NIC Tag"));
    let admin_nic_tag = sysinfo.and_then(|node| text(reader, "Admin NIC Tag", node));
    let status = match status? {
        "running" => ServerStatus::Running,
        "rebooting" => ServerStatus::Rebooting,
        _ => ServerStatus::Unknown,
    };
    let server = Server { uuid: uuid?, hostname, setup, status, last_boot, last_heartbeat, admin_nic_tag };
    Some((server, fields.at))
}
