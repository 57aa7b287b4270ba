//! The tables `steering` of regions and of names in them: to which members clients are led (`docs/steering.md`).
//!
//! Invariant: names have the steering of their region unless they say otherwise.
//!
//! Cost: O(1).

use crate::select::{Prefer, Services, Steering};
use settings::fields::put;
use settings::read::{Reader, shorten};
use settings::schema::{Key, Kind, Table, key};
use settings::tree::{Node, Value};
use settings::units::parse_duration;
use std::time::Duration;

/// What tables `steering` say.
pub struct Draft {
    pub steering: Steering,
    pub stale_after: Option<Duration>,
}

impl Draft {
    /// No steering.
    pub fn new() -> Draft {
        let mut draft = Draft { steering: Steering::OFF, stale_after: None };
        STEERING.set_defaults(&mut draft);
        draft
    }
}

/// `steering` of a region
pub static STEERING: Table<Draft> = Table {
    path: "steering",
    help: "To which members the clients of a region are led",
    keys: &[&[
        prefer(r#""off""#),
        at_least("1"),
        srv(r#""select""#),
        key(
            "stale_after",
            r#""5m""#,
            "how long without contact a member is as near as it is; then it is behind all others",
        )
        .takes(Kind::Own("duration, or \"never\"", |r, key, node, draft| {
            put(&mut draft.stale_after, read_stale_after(r, key, node))
        })),
    ]],
};

/// `steering` of names of a region
pub static OWN_STEERING: Table<Draft> = Table {
    path: "[[aggregations.\"NAME\".names]] steering",
    help: "To which members the clients of a name are led; what is missing is as in the region",
    keys: &[&[prefer(""), at_least(""), srv("")]],
};

/// The key `prefer`.
const fn prefer(default: &'static str) -> Key<Draft> {
    key("prefer", default, "what clients get: all members' records alike, the nearest first, or the nearest alone")
        .takes(Kind::Word(&[
            ("off", |draft| draft.steering.prefer = Prefer::Off),
            ("order", |draft| draft.steering.prefer = Prefer::Order),
            ("nearest", |draft| draft.steering.prefer = Prefer::Nearest),
        ]))
}

/// The key `at_least`.
const fn at_least(default: &'static str) -> Key<Draft> {
    key("at_least", default, "records under \"nearest\" below which the next member's are added")
        .takes(Kind::Number16(1, |draft, count| draft.steering.at_least = count))
}

/// The key `srv`.
const fn srv(default: &'static str) -> Key<Draft> {
    key("srv", default, "SRV records as addresses, or all of them with priorities by nearness").takes(Kind::Word(&[
        ("select", |draft| draft.steering.services = Services::Select),
        ("priority", |draft| draft.steering.services = Services::Priority),
    ]))
}

/// Reads `stale_after`; the inner option is none for "never".
fn read_stale_after(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Option<Duration>> {
    match &node.value {
        Value::Text(text) if text == "never" => Some(None),
        Value::Text(text) if parse_duration(text).is_none() => {
            let message =
                format!("\"{key}\" cannot be \"{}\"; write a duration such as \"5m\", or \"never\"", shorten(text));
            reader.refuse(node.at, message)
        }
        _ => reader.positive_duration(key, node).map(Some),
    }
}

/// Reads `steering` of names over that of their region.
pub fn read_own(reader: &mut Reader<'_>, node: &Node, base: Steering, place: &str) -> Option<Steering> {
    let mut draft = Draft { steering: base, stale_after: None };
    let place = format!("\"steering\" of {place}");
    let advise = |key: &str| {
        let advice = "write it in steering of the aggregation, for all names";
        (key == "stale_after").then(|| advice.to_string())
    };
    OWN_STEERING.read_with_advice(reader, node, &place, &mut draft, advise)?;
    Some(draft.steering)
}
