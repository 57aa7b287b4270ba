//! The sections `[dnstap]` and `[query_log]`: who gets copies of queries and responses.
//!
//! Invariant: neither is on unless the file says where copies go, or how many of the queries are logged.
//!
//! Cost: O(prefixes).

use crate::config::secondaries::read_prefix;
use crate::tap::{Collector, DnstapPlan, Messages, QueryLogPlan, TapPlan};
use settings::fields::{Fields, put};
use settings::read::{Reader, shorten};
use settings::schema::{Kind, Table, key};
use settings::tree::Node;
use std::net::{IpAddr, SocketAddr};

/// Highest number of exchanges of which one is taken.
const MOST_IN: u32 = 1_000_000;
/// Highest rate of lines. A log that is to have more is better served by dnstap.
const MOST_LINES: u32 = 100_000;

/// `[dnstap]`
pub static DNSTAP: Table<DnstapDraft> = Table {
    path: "[dnstap]",
    help: "Copies of queries and responses for a collector of dnstap",
    keys: &[&[
        key("collector", "", "the Unix socket of the collector, or ADDRESS:PORT for TCP; default: no copies are sent")
            .takes(Kind::Own("path or address with port", |reader, key, node, draft| {
                put(&mut draft.collector, read_collector(reader, key, node).map(Some))
            })),
        key("messages", r#""all""#, "which messages it gets").takes(Kind::Word(&[
            ("all", |draft| draft.messages = Messages::All),
            ("queries", |draft| draft.messages = Messages::Queries),
            ("responses", |draft| draft.messages = Messages::Responses),
        ])),
        key("one_in", "1", "it gets one query in so many, and the response to it")
            .takes(Kind::Count(MOST_IN, |draft, count| draft.one_in = count as u32)),
    ]],
};

/// `[query_log]`
pub static QUERY_LOG: Table<QueryLogPlan> = Table {
    path: "[query_log]",
    help: "Log lines of queries",
    keys: &[&[
        key("one_in", "0", "one query in so many has a line; 0: none")
            .takes(Kind::Number(0..=MOST_IN as u64, |plan, count| plan.one_in = count as u32)),
        key("clients", "[]", "clients whose queries are logged; default: all").takes(Kind::Own(
            "prefixes",
            |reader, key, node, plan| {
                let wanted = "a list such as [\"192.0.2.53\", \"2001:db8::/64\"]";
                put(&mut plan.clients, reader.list(key, node, wanted, |r, key, node| read_prefix(r, key, node, "")))
            },
        )),
        key("lines_per_second", "100", "lines that are written in one second at most; further ones are counted")
            .takes(Kind::Count(MOST_LINES, |plan, count| plan.lines_per_second = count as u32)),
    ]],
};

/// What `[dnstap]` says.
#[derive(Default)]
pub struct DnstapDraft {
    collector: Option<Collector>,
    messages: Messages,
    one_in: u32,
}

/// Reads both sections; absent ones switch both off.
pub fn read_taps(reader: &mut Reader<'_>, root: &Fields<'_>) -> TapPlan {
    let mut draft = DnstapDraft::default();
    let fields = DNSTAP.read_section(reader, root, &mut draft);
    refuse_without(reader, &fields, "collector", "collector = \"PATH\", too", ["messages", "one_in"]);
    let DnstapDraft { collector, messages, one_in } = draft;
    let dnstap = collector.map(|collector| DnstapPlan { collector, messages, one_in });
    let mut log = QueryLogPlan { one_in: 0, clients: Vec::new(), lines_per_second: 0 };
    let fields = QUERY_LOG.read_section(reader, root, &mut log);
    refuse_without(reader, &fields, "one_in", "one_in = 1, too, for every query", ["clients", "lines_per_second"]);
    TapPlan { dnstap, query_log: (log.one_in > 0).then_some(log) }
}

/// Refuses keys that do nothing because the one that they belong to is missing.
fn refuse_without(reader: &mut Reader<'_>, fields: &Fields<'_>, needed: &str, advice: &str, keys: [&str; 2]) {
    if !fields.lacks(needed) {
        return;
    }
    for entry in keys.into_iter().filter_map(|key| fields.entry(key)) {
        let fault = format!("\"{}\" without \"{needed}\" does nothing; write {advice}", entry.key);
        reader.error(entry.key_at, fault);
    }
}

/// Reads where a collector is: what has a slash is a path.
fn read_collector(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Collector> {
    let text = reader.text(key, node, "a path or ADDRESS:PORT")?;
    if text.contains('/') {
        return reader.path(key, node).map(Collector::Socket);
    }
    let Ok(address) = text.parse::<SocketAddr>() else {
        let text = shorten(text);
        let message = match text.parse::<IpAddr>() {
            Ok(_) => format!("\"{text}\" has no port, and dnstap none of its own; write ADDRESS:PORT"),
            Err(_) => {
                format!("\"{text}\" is neither ADDRESS:PORT nor a path; write \"./NAME\" for a socket beside this file")
            }
        };
        return reader.refuse(node.at, message);
    };
    if address.port() == 0 || address.ip().is_unspecified() || address.ip().is_multicast() {
        return reader.refuse(node.at, format!("nobody can listen on {address}; write ADDRESS:PORT of the collector"));
    }
    reader.plain_address(node.at, address.ip()).then_some(Collector::Address(address))
}
