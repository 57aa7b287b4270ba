//! The section `[traces]`: who gets traces of changes.
//!
//! Invariant: nobody does unless the file says so.
//!
//! Cost: O(text).

use crate::client::http::Endpoint;
use crate::config::urls::{read_ca, read_url};
use crate::trace::TracesPlan;
use settings::fields::{Fields, put};
use settings::read::Reader;
use settings::schema::{Kind, Table, key};
use url::Url;

/// `[traces]`
pub static TRACES: Table<Option<Url>> = Table {
    path: "[traces]",
    help: "Traces of changes, from the NOTIFY until secondaries have acknowledged them",
    keys: &[&[
        key("collector", "", "URL of a collector of OpenTelemetry that takes OTLP over HTTP; default: no traces")
            .takes(Kind::Own("URL", |reader, key, node, collector| {
                put(collector, read_url(reader, key, node, "http://127.0.0.1:4318").map(Some))
            })),
        key("ca", "", "PEM file with authorities that sign its certificate; default: those of the system")
            .bound("path"),
    ]],
};

/// Reads the section.
pub fn read_traces(reader: &mut Reader<'_>, root: &Fields<'_>, touch_disk: bool) -> Option<TracesPlan> {
    let mut collector = None;
    let fields = TRACES.read_section(reader, root, &mut collector);
    let ca = fields.read(reader, "ca", |reader, key, node| read_ca(reader, key, node, touch_disk));
    if let (None, Some(entry)) = (&collector, fields.entry("ca")) {
        let advice = "write collector = \"https://…\", or leave out \"ca\"";
        reader.error(entry.key_at, format!("[traces] has \"ca\" and no \"collector\"; {advice}"));
    }
    let collector = collector?;
    if touch_disk && let Err(error) = Endpoint::new(&collector, ca.as_ref().map(|(_, text)| &text[..])) {
        let at = fields.entry("ca").or(fields.entry("collector")).map_or(0, |entry| entry.node.at);
        reader.error(at, format!("traces cannot be sent to {collector}: {error}"));
    }
    Some(TracesPlan { collector, ca })
}
