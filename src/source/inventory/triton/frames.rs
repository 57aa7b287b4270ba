//! The frames of VMAPI's change feed, version 1: what is sent and what comes.
//!
//! Invariant: of an item only the UUID is believed, and the instance is asked for; so an item that is wrong, doubled or
//! late does no harm.
//!
//! Cost: O(frame).

use inventory::model::Uuid;
use serde_json::{Value, json};

/// The longest frame that is taken.
pub const LONGEST_FRAME: usize = 1 << 20;

/// Parts of an instance whose changes are wanted.
const SUB_RESOURCES: [&str; 9] = [
    "alias",
    "customer_metadata",
    "destroyed",
    "internal_metadata",
    "nics",
    "owner_uuid",
    "server_uuid",
    "state",
    "tags",
];

/// A frame of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// From now on items are sent; everything before may have been missed.
    Bootstrap,
    /// An instance has changed.
    Item(Uuid),
    /// Of another resource, which was not asked for.
    Other,
}

/// Reads a frame; an error says what is wrong with it.
pub fn read(text: &str) -> Result<Frame, String> {
    let frame: Value = serde_json::from_str(text).map_err(|error| format!("a frame is no JSON: {error}"))?;
    if frame.get("bootstrapRoute").is_some() {
        return Ok(if frame["resource"] == "vm" { Frame::Bootstrap } else { Frame::Other });
    }
    if frame["changeKind"]["resource"] != "vm" {
        return Ok(Frame::Other);
    }
    let id = frame["changedResourceId"].as_str().ok_or("an item names no instance")?;
    Uuid::try_parse(id).map(Frame::Item).map_err(|_| "an item names something else than a UUID".to_owned())
}

/// The frame that asks for items. `instance` is the same for all connections of one feeder.
pub fn registration(instance: Uuid) -> String {
    let kind = json!({ "resource": "vm", "subResources": SUB_RESOURCES });
    json!({ "instance": instance.to_string(), "service": "cns", "changeKind": kind }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_told_apart() {
        assert_eq!(read(r#"{"resource":"vm","subResources":["tags"],"bootstrapRoute":"/vms"}"#), Ok(Frame::Bootstrap));
        assert_eq!(read(r#"{"resource":"server","subResources":[],"bootstrapRoute":"/servers"}"#), Ok(Frame::Other));
        let uuid = "11110000-0000-4000-8000-00000000000b";
        let item = format!(r#"{{"changeKind":{{"resource":"vm"}},"changedResourceId":"{uuid}","published":"1"}}"#);
        assert_eq!(read(&item), Ok(Frame::Item(Uuid::try_parse(uuid).unwrap())));
        assert!(read(r#"{"changeKind":{"resource":"vm"},"changedResourceId":"../x"}"#).is_err());
        assert!(read(r#"{"changeKind":{"resource":"vm"}}"#).is_err());
        assert_eq!(read("[]"), Ok(Frame::Other));
        assert!(read("heartbeat").is_err());
        let sent: Value = serde_json::from_str(&registration(Uuid::nil())).unwrap();
        assert_eq!(sent["changeKind"]["subResources"].as_array().unwrap().len(), 9);
    }
}
