//! Configurations that treat all servers alike: so many threads for UDP, no limits of rates, no log of queries, minimal
//! responses, transfers to loopback.
//!
//! Cost: O(zones).

use super::{Kind, Source, Wishes};
use crate::harness::write_file;
use std::fmt::Write;
use std::process::Command;

/// Writes what the server reads; returns its arguments.
pub fn write(kind: Kind, wishes: &Wishes<'_>) -> Vec<String> {
    let file = |name: &str, text: &str| {
        let path = wishes.home.join(name);
        write_file(&path, text);
        path.display().to_string()
    };
    match kind {
        Kind::Echo => vec!["--echo".to_string(), wishes.address.to_string(), wishes.threads.to_string()],
        Kind::Aggregator | Kind::Region => {
            let configuration = aggregator(wishes, kind == Kind::Region);
            vec!["run".to_string(), "-c".to_string(), file("aggregator.toml", &configuration)]
        }
        Kind::Gdnsd => {
            gdnsd(wishes);
            vec!["-c".to_string(), wishes.home.join("etc").display().to_string(), "start".to_string()]
        }
        Kind::Yadifa => vec!["-c".to_string(), file("yadifad.conf", &yadifa(wishes))],
        Kind::Nsd => vec!["-d".to_string(), "-c".to_string(), file("nsd.conf", &nsd(wishes))],
        Kind::Knot => vec!["-c".to_string(), file("knot.conf", &knot(wishes))],
        Kind::PowerDns => {
            file("named.conf", &powerdns_zones(wishes));
            file("pdns.conf", &powerdns(wishes));
            vec![format!("--config-dir={}", wishes.home.display())]
        }
        Kind::Bind => {
            let file = file("named.conf", &bind(wishes));
            ["-g", "-n", &wishes.threads.to_string(), "-c", &file].map(String::from).to_vec()
        }
    }
}

/// A configuration in the making.
struct Text(String);

impl Text {
    /// Adds a line.
    fn line(&mut self, line: impl std::fmt::Display) {
        writeln!(self.0, "{line}").expect("a string takes all");
    }
}

/// Polls and audits do not fall into a measurement.
fn aggregator(wishes: &Wishes<'_>, region: bool) -> String {
    let Source::Primary(primary) = wishes.source else { panic!("the aggregator has zones from primaries") };
    let Wishes { address, threads, .. } = wishes;
    let mut text =
        Text(format!("[server]\nname = \"ns1.example.com\"\nlisten = [\"{address}\"]\nudp_threads = {threads}\n"));
    text.line("[zones]");
    for zone in &wishes.zones {
        text.line(format!("\"{zone}\" = \"{primary}\""));
    }
    if region {
        text.line(format!("[aggregations]\n\"{}\" = {:?}", wishes.region, wishes.zones));
    }
    // The load comes from loopback, which is exempt from the limit on responses.
    text.line(
        "[rate_limit]\nexempt = [\"127.0.0.0/8\"]\n[secondaries]\nallow_transfer = [\"127.0.0.1\"]\n[transfer]\nrefresh_min = \"1d\"\naudit = \"never\"\n\
         [state]\nfolder = \"state\"\n[metrics]\nlisten = []\n[control]\nsocket = \"control\"",
    );
    text.0
}

/// It takes every file in its folder for the zone that it is named after.
fn gdnsd(wishes: &Wishes<'_>) {
    let etc = wishes.home.join("etc");
    // What an earlier run had is no longer wanted.
    let _ = std::fs::remove_dir_all(&etc);
    std::fs::create_dir_all(etc.join("zones")).expect("the folder can be written");
    for zone in &wishes.zones {
        std::fs::hard_link(wishes.zone_files.join(zone), etc.join("zones").join(zone)).expect("a link in one folder");
    }
    let (home, threads) = (wishes.home.display(), wishes.threads);
    let options = format!(
        "options => {{\n listen => {{ {} => {{ udp_threads => {threads} }} }},\n run_dir => \"{home}/run\",\n \
         state_dir => \"{home}/state\"\n}}\n",
        wishes.address
    );
    write_file(&etc.join("config"), &options);
}

/// Its rate limit is on unless it is switched off; it names the user that it shall become.
fn yadifa(wishes: &Wishes<'_>) -> String {
    let (home, port, threads) = (wishes.home.display(), wishes.address.port(), wishes.threads);
    let (user, group) = (whoami("-un"), whoami("-gn"));
    let data = if wishes.source == Source::Files { wishes.zone_files.as_path() } else { wishes.home };
    let mut text = Text(format!(
        "<main>\n daemon off\n chroot off\n logpath {home}\n pidfile {home}/yadifad.pid\n datapath {}\n \
         keyspath {home}\n xfrpath {home}\n user {user}\n group {group}\n port {port}\n listen 127.0.0.1\n \
         statistics off\n queries-log-type 0\n allow-query any\n allow-transfer any\n allow-notify any\n \
         thread-count-by-address {threads}\n</main>\n<rrl>\n enabled false\n</rrl>\n\
         <channels>\n errors STDERR\n</channels>\n<loggers>\n server EMERG,ALERT,CRIT,ERR errors\n</loggers>\n",
        data.display()
    ));
    for zone in &wishes.zones {
        match wishes.source {
            Source::Files => {
                text.line(format!("<zone>\n type primary\n domain {zone}\n file {zone}\n notify-auto no\n</zone>"));
            }
            Source::Primary(primary) => text.line(format!(
                "<zone>\n type secondary\n domain {zone}\n file {zone}\n primary {} port {}\n</zone>",
                primary.ip(),
                primary.port()
            )),
        }
    }
    text.0
}

/// The name of this process' user or group.
fn whoami(what: &str) -> String {
    let output = Command::new("id").arg(what).output().expect("every system has `id`");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// Debian builds a rate limit in.
fn nsd(wishes: &Wishes<'_>) -> String {
    let (home, port, threads) = (wishes.home.display(), wishes.address.port(), wishes.threads);
    let mut text = Text(format!(
        "server:\n ip-address: 127.0.0.1@{port}\n port: {port}\n server-count: {threads}\n reuseport: yes\n \
         database: \"\"\n username: \"\"\n chroot: \"\"\n zonesdir: \"{home}\"\n zonelistfile: \"{home}/zone.list\"\n \
         pidfile: \"{home}/nsd.pid\"\n xfrdfile: \"{home}/xfrd.state\"\n xfrdir: \"{home}\"\n rrl-ratelimit: 0\n \
         rrl-whitelist-ratelimit: 0\n minimal-responses: yes\n zonefiles-write: 0\n verbosity: 0\n \
         xfrd-reload-timeout: 0\nremote-control:\n control-enable: no\n"
    ));
    for zone in &wishes.zones {
        text.line(format!("zone:\n name: \"{zone}\"\n provide-xfr: 127.0.0.1 NOKEY"));
        match wishes.source {
            Source::Files => text.line(format!(" zonefile: \"{}\"", file(wishes, zone))),
            Source::Primary(primary) => {
                let primary = format!("{}@{}", primary.ip(), primary.port());
                text.line(format!(" zonefile: \"{zone}\"\n request-xfr: AXFR {primary} NOKEY"));
            }
        }
    }
    text.0
}

/// Without a journal, as the others have none.
fn knot(wishes: &Wishes<'_>) -> String {
    let (home, port, threads) = (wishes.home.display(), wishes.address.port(), wishes.threads);
    let mut text = Text(format!(
        "server:\n  rundir: \"{home}\"\n  listen: 127.0.0.1@{port}\n  pidfile: \"{home}/knot.pid\"\n  \
         udp-workers: {threads}\n  tcp-workers: 1\n  background-workers: 2\ncontrol:\n  listen: \"{home}/knot.sock\"\n\
         log:\n  - target: stderr\n    any: error\ndatabase:\n  storage: \"{home}\"\n\
         acl:\n  - id: axfr\n    address: 127.0.0.1\n    action: [ transfer, notify ]\n"
    ));
    if let Source::Primary(primary) = wishes.source {
        let primary = format!("{}@{}", primary.ip(), primary.port());
        text.line(format!("remote:\n  - id: primary\n    address: {primary}"));
    }
    text.line(format!(
        "template:\n  - id: default\n    storage: \"{home}\"\n    acl: axfr\n    zonefile-sync: -1\n    \
         journal-content: none"
    ));
    // The keywords for secondaries are this program's own.
    text.line(format!(
        "{}zone:",
        match wishes.source {
            Source::Files => "    zonefile-load: whole\n",
            Source::Primary(_) => "    zonefile-load: none\n    master: primary\n",
        }
    ));
    for zone in &wishes.zones {
        text.line(format!("  - domain: \"{zone}\"\n    file: \"{}\"", file(wishes, zone)));
    }
    text.0
}

/// The file of a zone.
fn file(wishes: &Wishes<'_>, zone: &str) -> String {
    wishes.zone_files.join(zone).display().to_string()
}

/// With its caches, as it comes; it is measured with zone files only.
fn powerdns(wishes: &Wishes<'_>) -> String {
    let (home, port, threads) = (wishes.home.display(), wishes.address.port(), wishes.threads);
    format!(
        "launch=bind\nbind-config={home}/named.conf\nlocal-address=127.0.0.1\nlocal-port={port}\nsocket-dir={home}\n\
         receiver-threads={threads}\nreuseport=yes\ndistributor-threads=1\ndisable-axfr=no\nallow-axfr-ips=127.0.0.1\n\
         loglevel=3\ndisable-syslog=yes\nwrite-pid=no\ndaemon=no\nguardian=no\nsecurity-poll-suffix=\n"
    )
}

/// The zones of its BIND backend, which reads BIND's syntax.
fn powerdns_zones(wishes: &Wishes<'_>) -> String {
    let mut text = Text(format!("options {{ directory \"{}\"; }};\n", wishes.home.display()));
    for zone in &wishes.zones {
        text.line(format!("zone \"{zone}\" {{ type native; file \"{}\"; }};", file(wishes, zone)));
    }
    text.0
}

/// Services have more instances than the hundred records of a set that it allows by itself.
fn bind(wishes: &Wishes<'_>) -> String {
    let (home, port) = (wishes.home.display(), wishes.address.port());
    let mut text = Text(format!(
        "controls {{ }};\noptions {{\n directory \"{home}\";\n listen-on port {port} {{ 127.0.0.1; }};\n \
         listen-on-v6 {{ none; }};\n pid-file none;\n lock-file none;\n session-keyfile none;\n \
         managed-keys-directory \"{home}\";\n recursion no;\n notify no;\n minimal-responses yes;\n \
         allow-transfer {{ 127.0.0.1; }};\n dnssec-validation no;\n empty-zones-enable no;\n check-integrity no;\n \
         max-records-per-type 0;\n max-types-per-name 0;\n request-ixfr no;\n}};\n"
    ));
    for zone in &wishes.zones {
        text.line(match wishes.source {
            Source::Files => {
                format!("zone \"{zone}\" {{ type primary; file \"{}\"; check-names ignore; }};", file(wishes, zone))
            }
            Source::Primary(primary) => format!(
                "zone \"{zone}\" {{ type secondary; file \"{zone}\"; primaries {{ {} port {}; }}; check-names ignore; }};",
                primary.ip(),
                primary.port()
            ),
        });
    }
    text.0
}
