//! `aggregator retransfer`: the order, and a bar while somebody waits for what comes of it.
//!
//! The bar is drawn on standard error, from the status that the server is asked for meanwhile. Elsewhere than on a
//! terminal only the outcome is told.
//!
//! Cost: five requests a second.

use super::{Outcome, block_on, fail, no_reply, send, show_reply};
use crate::control::Request;
use crate::control::server::Server;
use crate::terminal::{Bar, Bars};
use crate::transfer::{Activity, Progress};
use serde_json::Value;
use std::convert::Infallible;
use std::time::Duration;

/// Interval of requests for the progress of the transfer.
const PACE: Duration = Duration::from_millis(200);

/// Has a zone transferred, and shows how far that has come.
pub fn retransfer(server: &Server, zone: String, accept: bool, json: bool) -> Outcome {
    let order = Request::Retransfer { zone: zone.clone(), accept };
    let Some(bars) = Bars::on_errors() else { return send(server, &order, json) };
    let reply = block_on(async {
        let bar = bars.add(&zone);
        let look = Request::Status { zone: Some(zone.clone()) };
        tokio::select! {
            reply = server.call(&order) => Some(reply),
            // Without a handler for the key the process has ended by it.
            Ok(()) = tokio::signal::ctrl_c() => None,
            never = watch(server, &look, &bar) => match never {},
        }
    })?;
    let left = || fail(format!("nobody looks any more; the transfer goes on: aggregator status {zone}"));
    show_reply(&order, reply.ok_or_else(left)?.map_err(no_reply)?, json)
}

/// Shows again and again how far the transfer is.
async fn watch(server: &Server, look: &Request, bar: &Bar) -> Infallible {
    let mut pace = tokio::time::interval(PACE);
    loop {
        pace.tick().await;
        // A server that has no time for this has a reply to the order all the same.
        if let Ok(reply) = server.call(look).await {
            let (progress, words) = describe(&reply.data["zones"][0]["source"]);
            bar.show(progress.records, progress.expected, words);
        }
    }
}

/// Reads a transfer in a status.
pub fn progress_of(running: &Value) -> Progress {
    serde_json::from_value(running.clone()).unwrap_or_default()
}

/// Returns the progress of a zone's source, as numbers and in words.
fn describe(source: &Value) -> (Progress, String) {
    let progress = progress_of(&source["running"]);
    let words = match serde_json::from_value(source["activity"].clone()) {
        Ok(Activity::Transferring) => progress.describe(),
        Ok(Activity::Publishing) => "is published".to_owned(),
        activity => activity.ok().and_then(Activity::describe_wait).unwrap_or("is asked for").to_owned(),
    };
    (progress, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_server_tells_is_put_in_words() {
        let running = json!({ "kind": "axfr", "milliseconds": 1500, "records": 7, "bytes": 2048, "expected": 9 });
        let (progress, words) = describe(&json!({ "activity": "transferring", "running": running }));
        assert_eq!((progress.records, progress.expected), (7, Some(9)));
        assert_eq!(words, "7 of about 9 records, 2.00 KiB in 1 s");
        assert_eq!(describe(&json!({ "activity": "publishing", "running": null })).1, "is published");
        assert_eq!(describe(&json!({ "activity": "waiting", "running": null })).1, "waits for room in memory");
        assert_eq!(describe(&Value::Null).1, "is asked for", "a tree of ZooKeeper's");
    }
}
