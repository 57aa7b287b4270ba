//! `https` of `[control]`: where operators and their programs give orders over HTTPS, and who they are.
//!
//! Invariants: it is off unless it is written; nobody gets in without a certificate that the authority has signed and
//! that has one of the names listed, and whoever gets in may do everything but end the server.
//!
//! Cost: O(names).

use crate::config::HttpsPlan;
use crate::config::listening::{Placed, some_addresses};
use crate::serve::TlsPlan;
use rustls::pki_types::ServerName;
use settings::fields::put;
use settings::read::{Reader, shorten};
use settings::schema::{Kind, Table, key};
use settings::tree::{Entry, Node, Value};
use std::path::PathBuf;

/// Port of an address that names none.
const PORT: u16 = 9154;

/// `https` in `[control]`; all keys are needed.
pub static HTTPS: Table<Option<Vec<String>>> = Table {
    path: "[control] https",
    help: "Orders over HTTPS, for programs and for other machines",
    keys: &[&[
        key("listen", "", "TCP addresses; port 9154 when none is written").bound("addresses"),
        key("certificate", "", "PEM file with the certificate chain").bound("path"),
        key("key", "", "PEM file with the private key").bound("path"),
        key("client_ca", "", "PEM file with authorities that sign certificates of operators").bound("path"),
        key(
            "operators",
            "",
            "names of which an operator's certificate has one; each may do everything but end the server",
        )
        .takes(Kind::Own("names", |reader, key, node, operators| {
            let wanted = "a list of names such as [\"ops.example.com\"]";
            put(operators, reader.list(key, node, wanted, read_operator).map(Some))
        })),
    ]],
};

/// What the table says, and where its addresses and files are written.
pub struct HttpsSection {
    pub plan: HttpsPlan,
    pub places: Vec<Placed>,
}

/// Reads the table; its files are added to those that are looked for.
pub fn read_https(
    reader: &mut Reader<'_>,
    entry: &Entry,
    files: &mut Vec<(&'static str, PathBuf, usize)>,
) -> Option<HttpsSection> {
    let mut operators = None;
    let fields = HTTPS.read(reader, &entry.node, HTTPS.path, &mut operators)?;
    let listen = fields.read(reader, "listen", |r, key, node| some_addresses(r, key, node, PORT));
    let [certificate, key, client_ca] = ["certificate", "key", "client_ca"].map(|name| {
        let path = fields.read(reader, name, Reader::path);
        files.extend(path.clone().zip(fields.entry(name)).map(|(path, entry)| (name, path, entry.node.at)));
        path
    });
    for (name, advice) in [
        ("listen", "write for example listen = [\"192.0.2.1\"]"),
        ("certificate", "write the path of a PEM file"),
        ("key", "write the path of a PEM file"),
        ("client_ca", "write the path of a PEM file: without it nobody could show who they are"),
        ("operators", "write for example operators = [\"ops.example.com\"]"),
    ] {
        fields.need(reader, name, entry.key_at, format!("{} has no \"{name}\"; {advice}", HTTPS.path));
    }
    if let Some(entry) =
        fields.entry("operators").filter(|entry| matches!(&entry.node.value, Value::List(names) if names.is_empty()))
    {
        let advice = "write for example operators = [\"ops.example.com\"], or leave out \"https\"";
        reader.error(entry.node.at, format!("\"operators\" is empty, so that nobody would get in; {advice}"));
    }
    let (places, client_ca) = (listen?, Some(client_ca?));
    let listen = places.iter().map(|(address, _)| *address).collect();
    let tls = TlsPlan { listen, certificate: certificate?, key: key?, client_ca };
    Some(HttpsSection { plan: HttpsPlan { tls, operators: operators? }, places })
}

/// Reads a name that certificates of operators have.
fn read_operator(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<String> {
    let text = reader.text(key, node, "a name")?;
    let name = text.trim_end_matches('.');
    if ServerName::try_from(name).is_err() {
        let fault = format!("\"{}\" is neither a host name nor an address", shorten(text));
        return reader
            .refuse(node.at, format!("{fault}; write what the operator's certificate has as its alternative name"));
    }
    Some(name.to_owned())
}
