//! The table `triton` of an inventory: where the services of a Triton datacenter are.
//!
//! Cost: O(table).

use crate::config::ufds::read_ufds;
use crate::config::urls::{read_ca, read_url};
use crate::source::inventory::triton::{AccountsPlan, TritonPlan};
use settings::fields::Fields;
use settings::read::Reader;
use settings::schema::{Kind, Table, key};
use settings::tree::Node;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// Values of the table, as far as they are read by themselves.
pub struct Draft {
    accounts: Option<PathBuf>,
    list_every: Duration,
}

/// The services of a Triton datacenter
pub static TRITON: Table<Draft> = Table {
    path: "[inventories.NAME.triton]",
    help: "The services of a Triton datacenter",
    keys: &[&[
        key("vmapi", "", "URL of VMAPI, which has instances and the change feed").bound("URL"),
        key("cnapi", "", "URL of CNAPI, which has compute nodes").bound("URL"),
        key("napi", "", "URL of NAPI, which has networks").bound("URL"),
        key("ufds", "", "the directory with the accounts: [inventories.NAME.triton.ufds]").bound("table"),
        key(
            "accounts",
            "",
            "instead, a file with the accounts: uuid, login, triton_cns_enabled, approved_for_provisioning",
        )
        .takes(Kind::Path(|draft, path| draft.accounts = Some(path))),
        key("ca", "", "PEM file with the certificates that sign those of https; default: those of the system")
            .bound("path"),
        key("list_every", r#""5m""#, "how often all instances are listed, whatever the change feed tells")
            .takes(Kind::PositiveDuration(|draft, pause| draft.list_every = pause)),
    ]],
};

/// Reads the table.
pub fn read_triton(reader: &mut Reader<'_>, node: &Node, place: &str, touch_disk: bool) -> Option<TritonPlan> {
    let place = format!("triton of {place}");
    let mut draft = Draft { accounts: None, list_every: Duration::ZERO };
    let fields = TRITON.read(reader, node, &place, &mut draft)?;
    let vmapi = service(reader, &fields, node, &place, "vmapi");
    let cnapi = service(reader, &fields, node, &place, "cnapi");
    let napi = service(reader, &fields, node, &place, "napi");
    let ca = fields.read(reader, "ca", |r, key, node| read_ca(r, key, node, touch_disk));
    let ufds = fields.read(reader, "ufds", |r, _, node| read_ufds(r, node, &place, touch_disk));
    let accounts = match (fields.entry("ufds"), fields.lacks("accounts")) {
        (Some(entry), false) => {
            reader.refuse(entry.key_at, format!("{place} has \"accounts\" and \"ufds\"; remove one of them"))
        }
        (Some(_), true) => ufds.map(AccountsPlan::Ufds),
        (None, _) => {
            let advice = "write [inventories.NAME.triton.ufds] or \"accounts\"";
            fields.need(reader, "accounts", node.at, format!("{place} has accounts from nowhere; {advice}"));
            draft.accounts.map(AccountsPlan::File)
        }
    };
    Some(TritonPlan {
        vmapi: vmapi?,
        cnapi: cnapi?,
        napi: napi?,
        accounts: accounts?,
        ca,
        list_every: draft.list_every,
    })
}

/// Reads the URL of a service, which must be there.
fn service(reader: &mut Reader<'_>, fields: &Fields<'_>, node: &Node, place: &str, key: &'static str) -> Option<Url> {
    let wanted = format!("http://{key}.dc1.example.com");
    fields.need(reader, key, node.at, format!("{place} lacks \"{key}\"; write a URL such as \"{wanted}\""));
    fields.read(reader, key, |reader, key, node| read_url(reader, key, node, &wanted))
}
