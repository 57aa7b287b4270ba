//! Tables and lists as `cnsadm` has them: headings in capitals, two blanks between columns, long cells cut.
//!
//! Invariant: what comes from an inventory or a peer is printable.
//!
//! Cost: O(cells).

use super::peers::PeerDetail;
use super::vm::VmReport;
use super::zones::ZoneLine;
use crate::view::text::{moment, printable, unix_now, write_table};
use std::collections::BTreeMap;
use std::fmt::Write;
use wire::serial::Serial;

/// Longest cell.
const WIDEST: usize = 64;
/// Time between two serials of CNS, in seconds.
const TICK: u32 = 10;

/// An age in the words of `cnsadm`: a number of the largest unit that fits, rounded.
pub fn age(milliseconds: i64) -> String {
    let seconds = milliseconds.max(0) as f64 / 1000.0;
    let (number, unit) = if seconds < 59.5 {
        (seconds, "sec")
    } else if seconds < 59.5 * 60.0 {
        (seconds / 60.0, "min")
    } else if seconds < 23.5 * 3600.0 {
        (seconds / 3600.0, "hr")
    } else if seconds < 6.5 * 86_400.0 {
        (seconds / 86_400.0, "day")
    } else {
        (seconds / 604_800.0, "wk")
    };
    let number = number.round() as u64;
    format!("{number} {unit}{}", if number > 1 { "s" } else { "" })
}

/// A cell that is not too wide.
fn cut(text: &str) -> String {
    let text = printable(text);
    if text.chars().count() <= WIDEST {
        return text;
    }
    text.chars().take(WIDEST - 3).chain("...".chars()).collect()
}

/// Writes a table.
fn table<const N: usize>(heads: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut text = String::new();
    let mut all = vec![heads.map(str::to_owned)];
    all.extend(rows.into_iter().map(|row| row.map(|cell| cut(&cell))));
    write_table(&mut text, &all);
    text
}

/// A serial, if there is one.
fn serial_text(serial: Option<Serial>) -> String {
    serial.map(|serial| serial.to_string()).unwrap_or_default()
}

/// The zones with their last changes, and the peers with what they have; `now` in milliseconds.
pub fn status(zones: &[ZoneLine], peers: &[PeerDetail], now: i64) -> String {
    let changed = |zone: &ZoneLine| zone.changed.map(|at| format!("{} ago", age(now - at))).unwrap_or_default();
    let rows = zones.iter().map(|zone| [zone.name.clone(), serial_text(zone.serial), changed(zone)]);
    let mut text = table(["ZONE", "LATEST SERIAL", "CHANGED"], rows);
    if !peers.is_empty() {
        text.push('\n');
        text.push_str(&peer_table(zones, peers));
    }
    text
}

/// The peers with the serials that they have, and how far these are behind.
pub fn peer_table(zones: &[ZoneLine], peers: &[PeerDetail]) -> String {
    let latest: BTreeMap<&str, Serial> =
        zones.iter().filter_map(|zone| Some((zone.name.as_str(), zone.serial?))).collect();
    let rows = peers.iter().flat_map(|peer| {
        let line = &peer.line;
        let mut rows: Vec<[String; 5]> = Vec::new();
        for (zone, serial) in &line.serials {
            let behind = latest.get(zone.as_str()).filter(|latest| latest.newer_than(*serial));
            let drift = behind.map(|latest| age(i64::from(latest.0.wrapping_sub(serial.0)) * i64::from(TICK) * 1000));
            rows.push([String::new(), zone.clone(), serial.to_string(), drift.unwrap_or_default(), String::new()]);
        }
        if rows.is_empty() {
            rows.push(Default::default());
        }
        (rows[0][0], rows[0][4]) = (line.address.to_string(), line.version.to_owned());
        rows
    });
    table(["PEER", "ZONE", "LATEST SERIAL", "DRIFT", "VERSION"], rows)
}

/// The zones as they are configured.
pub fn zone_table(zones: &[ZoneLine]) -> String {
    let join = |texts: &mut dyn Iterator<Item = String>| texts.collect::<Vec<_>>().join(", ");
    let row = |zone: &ZoneLine| {
        let networks = match &zone.networks {
            None => "(ip-reverse-lookup)".to_owned(),
            Some(networks) if networks.iter().any(|network| network == "*") => "*".to_owned(),
            Some(networks) if networks.len() == 1 => networks[0].clone(),
            Some(networks) => format!("({} UUIDs)", networks.len()),
        };
        let peers = join(&mut zone.peers.iter().map(|peer| peer.to_string()));
        [zone.name.clone(), networks, peers, zone.hidden_primary.to_string()]
    };
    table(["ZONE", "NETWORKS", "PEERS", "HIDDEN PRIMARY"], zones.iter().map(row))
}

/// Writes a field with its value.
fn field(text: &mut String, name: &str, value: &str) {
    _ = writeln!(text, "{:<14}{}", format!("{name}:"), printable(value));
}

/// Everything about a peer.
pub fn peer(peer: &PeerDetail) -> String {
    let mut text = String::new();
    field(&mut text, "address", &peer.line.address.to_string());
    field(&mut text, "version", &peer.line.version);
    field(&mut text, "using_notify", &peer.using_notify.to_string());
    field(&mut text, "using_ixfr", &peer.using_ixfr.to_string());
    field(&mut text, "serials", "");
    for (zone, serial) in &peer.line.serials {
        _ = writeln!(text, "  {zone} = {serial}");
    }
    let counts = peer.counters;
    field(&mut text, "counters", "");
    let counts = [("soa", counts.soa), ("axfr", counts.axfr), ("ixfr", counts.ixfr), ("goodxfer", counts.goodxfer)];
    counts.into_iter().for_each(|(name, count)| _ = writeln!(text, "  {name} = {count}"));
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n") + "\n"
}

/// Everything about an instance; `now` in milliseconds.
pub fn vm(vm: &VmReport, now: i64) -> String {
    let mut text = String::new();
    field(&mut text, "uuid", &vm.uuid);
    vm.alias.iter().for_each(|alias| field(&mut text, "alias", alias));
    let owner = [vm.login.clone(), vm.owner.as_ref().map(|owner| format!("({owner})"))];
    field(&mut text, "owner", &owner.into_iter().flatten().collect::<Vec<_>>().join(" "));
    field(&mut text, "last_visit", &format!("{} ago", age(now - vm.last_visit)));
    field(&mut text, "state", vm.state);
    if !vm.all_reasons.is_empty() {
        field(&mut text, "reasons", &vm.all_reasons.join(", "));
    }
    if let Some(report) = &vm.report {
        let ends = match (report.lapsed, report.until) {
            (true, until) => format!(", silent since {}", moment(until)),
            (false, Some(until)) => format!(", for {} more", age((until - unix_now()) * 1000)),
            (false, None) => String::new(),
        };
        field(&mut text, "report", &format!("{}{ends}", report.status));
    }
    for service in &vm.services {
        let until = service.until.map(|until| format!(" until {}", moment(Some(until)))).unwrap_or_default();
        field(&mut text, "service", &format!("{} {}{until}", service.service, service.state));
    }
    field(&mut text, "names", "");
    vm.names.iter().for_each(|name| _ = writeln!(text, "  {}", printable(name)));
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::peers::PeerLine;
    use super::*;
    use crate::metrics::PeerCounts;

    fn zone(name: &str, serial: u32) -> ZoneLine {
        ZoneLine {
            name: name.to_owned(),
            serial: Some(Serial(serial)),
            kind: "forward",
            networks: Some(vec!["*".to_owned()]),
            peers: vec!["10.1.1.9".parse().unwrap()],
            hidden_primary: false,
            records: 3,
            changed: Some(0),
        }
    }

    #[test]
    fn ages_are_those_of_cnsadm() {
        let second = 1000;
        let ages = [0, 9, 59, 60, 89, 90, 3569, 3570, 84_599, 84_600, 561_599, 561_600, 1_814_400];
        let texts = ages.map(|seconds| age(seconds * second));
        let wanted = [
            "0 sec", "9 secs", "59 secs", "1 min", "1 min", "2 mins", "59 mins", "1 hr", "23 hrs", "1 day", "6 days",
            "1 wk", "3 wks",
        ];
        assert_eq!(texts, wanted);
        assert_eq!(age(-5), "0 sec");
    }

    #[test]
    fn tables_are_those_of_cnsadm() {
        let zones = [zone("dc1.cns.example.com", 407_818_781), zone("100.51.198.in-addr.arpa", 407_818_000)];
        let serials = [("dc1.cns.example.com", 407_818_780), ("100.51.198.in-addr.arpa", 407_818_000)];
        let peer = PeerDetail {
            line: PeerLine {
                address: "10.1.1.9".parse().unwrap(),
                serials: serials.into_iter().map(|(zone, serial)| (zone.to_owned(), Serial(serial))).collect(),
                version: "unknown".into(),
            },
            notify_failures: 0,
            using_notify: true,
            using_ixfr: false,
            counters: PeerCounts::default(),
        };
        let text = status(&zones, std::slice::from_ref(&peer), 120_000);
        let wanted = "\
ZONE                     LATEST SERIAL  CHANGED
dc1.cns.example.com      407818781      2 mins ago
100.51.198.in-addr.arpa  407818000      2 mins ago

PEER      ZONE                     LATEST SERIAL  DRIFT    VERSION
10.1.1.9  100.51.198.in-addr.arpa  407818000               unknown
          dc1.cns.example.com      407818780      10 secs
";
        assert_eq!(text, wanted);
        let text = zone_table(&[ZoneLine { networks: None, ..zone("x", 1) }]);
        assert_eq!(
            text,
            "ZONE  NETWORKS             PEERS     HIDDEN PRIMARY\nx     (ip-reverse-lookup)  10.1.1.9  false\n"
        );
        assert!(super::peer(&peer).starts_with("address:      10.1.1.9\nversion:      unknown\n"));
        assert_eq!(cut(&"x".repeat(80)).len(), WIDEST);
    }
}
