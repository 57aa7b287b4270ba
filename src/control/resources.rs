//! Drains and pins as things that a program puts and deletes over HTTPS, and orders as HTTP has them.
//!
//! Invariant: a wish says how it is to be, and not what is to be done, so that whoever sends it twice has it once.
//!
//! RFCs: 9110 sections 9.3.4 and 9.3.5 (PUT and DELETE).

use super::{Reply, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Path below which drains are.
pub const DRAINS: &str = "/api/v1/drains";
/// Path below which pins are.
pub const PINS: &str = "/api/v1/pins";
/// Path to which orders go.
pub const ORDERS: &str = "/api/v1/orders";

/// How a drain is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "DrainWish")]
#[serde(deny_unknown_fields, default)]
pub struct DrainWish {
    /// Percent of the clients that it concerns; none for a drain that takes the records out of the set.
    #[schemars(range(min = 1, max = 99))]
    pub share_percent: Option<u8>,
    /// When it ends by itself; none for one that is deleted some day.
    pub until: Option<i64>,
    /// Reason, shown by status, log and lookup.
    pub reason: Option<String>,
    /// True if a region may be left without any data.
    pub force: bool,
}

/// How a pin is to be.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "PinWish")]
#[serde(deny_unknown_fields)]
pub struct PinWish {
    /// The serial of the version whose contents the region is to have.
    pub to: u32,
    /// Reason, shown by status and log.
    #[serde(default)]
    pub reason: Option<String>,
}

/// What came of an order.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct OrderReply {
    pub ok: bool,
    /// What the verb of the command line prints.
    pub text: String,
    /// What it prints with `--json`.
    pub data: Value,
}

impl From<Reply> for OrderReply {
    fn from(Reply { ok, text, data }: Reply) -> OrderReply {
        OrderReply { ok, text, data }
    }
}

impl From<OrderReply> for Reply {
    fn from(OrderReply { ok, text, data }: OrderReply) -> Reply {
        Reply { ok, text, data }
    }
}

impl Request {
    /// The reason for which this is not taken over HTTPS; none if it is.
    pub fn refuse_from_afar(&self) -> Option<&'static str> {
        match self {
            Request::Stop => Some("a server is ended by its service manager, or at its control socket"),
            Request::Reload { refused: Some(_) } => {
                Some("only those who write the configuration say that it is refused")
            }
            Request::Forecast { file: Some(_) } => Some("files are named at the control socket only"),
            _ => None,
        }
    }

    /// True if it changes what is served, or what is known.
    pub fn is_order(&self) -> bool {
        match self {
            Request::Drain(order) | Request::DrainShare { order, .. } => !order.preview,
            Request::Rollback(order) => !order.preview,
            Request::Release { preview, .. } => !preview,
            Request::Reload { .. }
            | Request::Refresh { .. }
            | Request::Retransfer { .. }
            | Request::Undrain(_)
            | Request::Notify { .. }
            | Request::Stop => true,
            Request::Cns(request) => request.is_order(),
            Request::Forecast { .. }
            | Request::Status { .. }
            | Request::Dump { .. }
            | Request::Diff { .. }
            | Request::Compare { .. }
            | Request::History { .. }
            | Request::Lookup { .. }
            | Request::Leads
            | Request::Security => false,
        }
    }
}
