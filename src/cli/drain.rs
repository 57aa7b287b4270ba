//! `aggregator drain`: shows what would be lost, asks, then gives the order.

use super::ask::{self, Asking};
use super::{Outcome, read_duration};
use crate::control::server::Server;
use crate::control::{DrainOrder, Request, TargetText, UndrainOrder};
use clap::Args;
use serde_json::Value;
use std::time::Duration;

/// Target of `drain` and `undrain`.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// The datacenter: its zone, or the first labels of that
    #[arg(value_name = "DC", add = super::complete::zones())]
    member: String,
    /// Only in this region
    #[arg(long, value_name = "REGION", add = super::complete::regions())]
    zone: Option<String>,
    /// Only owner names that match, relative to the zone, such as web.svc.*
    #[arg(long, value_name = "PATTERN")]
    name: Option<String>,
}

/// The options of `drain`.
#[derive(Debug, Args)]
pub struct DrainOptions {
    #[command(flatten)]
    target: Target,
    /// End by itself after a time such as 2h
    #[arg(long = "for", value_name = "DURATION", value_parser = read_lasting)]
    lasts: Option<Duration>,
    /// Only keep a share of the clients away, such as 30%; the records stay for the others
    #[arg(long, value_name = "PERCENT", value_parser = read_share)]
    share: Option<Share>,
    /// Reason, shown by status, log and lookup
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Do it even if a region is left without any data
    #[arg(long)]
    force: bool,
    /// List every name that would lose its last address, those of instances, too
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    asking: Asking,
}

/// Reads how long a drain lasts; one that ends as it begins is a mistake.
fn read_lasting(text: &str) -> Result<Duration, String> {
    let lasts = read_duration(text)?;
    let most = crate::config::MAX_DURATION;
    if lasts.is_zero() || lasts > most { Err("write a time above zero, at most ten years".into()) } else { Ok(lasts) }
}

/// A share in percent; none for all clients.
#[derive(Clone, Copy, Debug)]
struct Share(Option<u8>);

/// Reads a share.
fn read_share(text: &str) -> Result<Share, &'static str> {
    crate::config::parse_share(text).map(Share)
}

impl DrainOptions {
    /// The order, or the question what it would do.
    fn request(&self, preview: bool) -> Request {
        let order = DrainOrder {
            target: self.target.clone().text(),
            milliseconds: self.lasts.map(|lasts| u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX)),
            reason: self.reason.clone(),
            force: self.force,
            preview,
        };
        match self.share {
            Some(Share(Some(percent))) => Request::DrainShare { percent, order },
            _ => Request::Drain(order),
        }
    }
}

impl Target {
    /// The order that ends drains.
    pub fn undrain(self) -> Request {
        Request::Undrain(UndrainOrder { target: self.text(), exact: false })
    }

    /// The target as an order has it.
    fn text(self) -> TargetText {
        TargetText { member: self.member, region: self.zone, names: self.name }
    }
}

/// Drains after a preview.
pub fn drain(server: &Server, options: &DrainOptions, json: bool) -> Outcome {
    let words = ("drain", "nothing is drained");
    let more = |data: &Value| if options.all { list_all(data) } else { String::new() };
    ask::carry_out(server, &options.asking, json, |preview| options.request(preview), more, words)
}

/// Every name that the preview of each region has.
fn list_all(data: &Value) -> String {
    let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let mut text = String::new();
    for region in list(&data["regions"]) {
        let names = list(&region["without_address"]).into_iter().chain(list(&region["share"]["alone"]));
        names.filter_map(|name| Some(name.as_str()?.to_owned())).for_each(|name| text += &format!("{name}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_names_of_all_regions_are_listed() {
        let data = json!({ "regions": [
            { "without_address": ["a.w.", "b.w."], "share": null },
            { "without_address": [], "share": { "alone": ["c.v."] } },
        ] });
        assert_eq!(list_all(&data), "a.w.\nb.w.\nc.v.\n");
    }
}
