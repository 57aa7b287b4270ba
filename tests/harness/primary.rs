//! The three real name servers as primaries that give differences and announce them.
//!
//! Each is changed in the way that it offers: BIND by `nsupdate`, Knot by a transaction of `knotc`, NSD by a new zone
//! file and `nsd-control reload`, which makes the difference itself. What the tests read comes from an address of its
//! own, so that the way of the server under test can demand a key.

use super::folder::write_file;
use super::peer::program_path;
use super::process::spawn;
use super::{Client, Dname, Folder, Port, Process, Query, Record, TsigKey, difference, rtype, wait_until, write_zone};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Address that the tests' own transfers come from; everything else comes from 127.0.0.1.
const READER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// Longest time that a primary may take for anything.
const PATIENCE: Duration = Duration::from_secs(40);

/// Secondary that a primary serves: its address and key.
#[derive(Clone, Debug)]
pub struct PrimaryPlan {
    /// Address that is notified of every change.
    pub notify: SocketAddr,
    /// Signs transfers and announcements.
    pub key: Option<TsigKey>,
}

/// Changes that lead from one version of a zone to the next.
#[derive(Clone, Debug)]
pub struct Edit {
    /// Removed records, without the SOA, as in `added`.
    pub removed: Vec<Record>,
    pub added: Vec<Record>,
    /// The next version in whole, its SOA first.
    pub records: Vec<Record>,
}

/// Writes a configuration from the server's folder, its address, its zones (name and file) and its plan.
type Configure = fn(&Path, SocketAddr, &[(Dname, PathBuf)], &PrimaryPlan) -> String;

/// Start and change of one kind of server.
struct Kind {
    program: &'static str,
    arguments: &'static [&'static str],
    configure: Configure,
    change: fn(&Primary, &Dname, &Edit),
}

/// A running primary whose zones change.
pub struct Primary {
    kind: &'static Kind,
    address: SocketAddr,
    home: PathBuf,
    process: Process,
    files: HashMap<Dname, PathBuf>,
    key: Option<TsigKey>,
}

impl Primary {
    /// Starts BIND with these zones.
    pub fn start_named(folder: &Folder, zones: &[(Dname, Vec<Record>)], plan: &PrimaryPlan) -> Primary {
        const ARGUMENTS: &[&str] = &["-g", "-n", "1", "-c"];
        static KIND: Kind =
            Kind { program: "named", arguments: ARGUMENTS, configure: configure_named, change: change_named };
        Primary::start(&KIND, folder, zones, plan)
    }

    /// Starts NSD with these zones.
    pub fn start_nsd(folder: &Folder, zones: &[(Dname, Vec<Record>)], plan: &PrimaryPlan) -> Primary {
        static KIND: Kind =
            Kind { program: "nsd", arguments: &["-d", "-c"], configure: configure_nsd, change: change_nsd };
        Primary::start(&KIND, folder, zones, plan)
    }

    /// Starts Knot DNS with these zones.
    pub fn start_knotd(folder: &Folder, zones: &[(Dname, Vec<Record>)], plan: &PrimaryPlan) -> Primary {
        static KIND: Kind =
            Kind { program: "knotd", arguments: &["-c"], configure: configure_knotd, change: change_knotd };
        Primary::start(&KIND, folder, zones, plan)
    }

    /// Starts a server and waits until it answers for all zones.
    fn start(kind: &'static Kind, folder: &Folder, zones: &[(Dname, Vec<Record>)], plan: &PrimaryPlan) -> Primary {
        let mut port = Port::reserve();
        let home = folder.subfolder(&format!("primary-{}-{}", kind.program, port.address().port()));
        let mut files = Vec::new();
        for (index, (zone, records)) in zones.iter().enumerate() {
            let path = home.join(format!("{index}.zone"));
            write_file(&path, &write_zone(records));
            files.push((zone.clone(), path));
        }
        let configuration = home.join("server.conf");
        write_file(&configuration, &(kind.configure)(&home, port.address(), &files, plan));
        let mut command = Command::new(program_path(kind.program));
        command.args(kind.arguments).arg(&configuration).current_dir(&home);
        let address = port.release();
        let process = Process::start(kind.program, &mut command, &home.join("log"));
        let (files, key) = (files.into_iter().collect(), plan.key.clone());
        let mut primary = Primary { kind, address, home, process, files, key };
        let mut client = Client::new(address).with_deadline(Duration::from_millis(500));
        for (zone, _) in zones {
            let query = Query::new(zone, rtype::SOA);
            primary.process.wait_ready(&format!("answers for {zone}"), PATIENCE, || {
                let answer = client.ask(&query).ok()?;
                (answer.is_authoritative() && answer.rcode() == 0).then_some(())
            });
        }
        primary
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Name of the program.
    pub fn name(&self) -> &'static str {
        self.kind.program
    }

    /// Makes the next version of a zone, and waits until the server answers with its serial.
    pub fn change(&mut self, zone: &Dname, edit: &Edit) {
        self.process.assert_running();
        (self.kind.change)(self, zone, edit);
    }

    /// Waits until the server transfers this version of a zone.
    pub fn wait_for(&self, zone: &Dname, records: &[Record]) {
        let mut last = String::new();
        let mut client = Client::new(self.address).with_source(READER);
        let deadline = std::time::Instant::now() + PATIENCE;
        while std::time::Instant::now() < deadline {
            match client.transfer(zone) {
                Ok(transferred) => match difference(records, &transferred) {
                    None => return,
                    Some(text) => last = text,
                },
                Err(error) => last = error.to_string(),
            }
            // Only the rhythm of asking again.
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{zone} is not as expected (left) at {} (right): {last}", self.name());
    }

    /// Makes Knot forget how a zone came to be what it is.
    pub fn drop_history(&self, zone: &Dname) {
        assert_eq!(self.name(), "knotd", "only Knot drops its history alone");
        let output = self.tool("knotc", &["-f", "-s", &self.socket(), "zone-purge", "+journal", &zone.to_string()], "");
        assert!(output.contains("OK"), "{output}");
    }

    /// Runs one of the server's own tools with some input. Returns what it said.
    fn tool(&self, program: &str, arguments: &[&str], input: &str) -> String {
        let mut command = Command::new(program_path(program));
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn(&mut command).expect("run the tool");
        let mut pipe = child.stdin.take().expect("standard input");
        // A tool says next to nothing before it has read everything, so that this cannot lock up.
        let written = pipe.write_all(input.as_bytes());
        drop(pipe);
        let output = child.wait_with_output().expect("end of the tool");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(written.is_ok() && output.status.success(), "{program} failed: {said}\n{input}");
        said
    }

    /// Path of the control socket.
    fn socket(&self) -> String {
        self.home.join("control").display().to_string()
    }

    /// Waits until the server answers with a serial, calling `again` from time to time.
    fn wait_serial(&self, zone: &Dname, serial: u32, again: impl Fn()) {
        let mut client = Client::new(self.address).with_deadline(Duration::from_millis(500));
        let mut last_call = std::time::Instant::now();
        wait_until(&format!("{} has {zone} with serial {serial}", self.name()), PATIENCE, || {
            if last_call.elapsed() > Duration::from_secs(2) {
                again();
                last_call = std::time::Instant::now();
            }
            (client.serial(zone) == Some(serial)).then_some(())
        });
    }
}

/// A record in the words of an update: owner, TTL if wanted, type, RDATA.
fn words(record: &Record) -> (String, String, String) {
    (record.owner.to_string(), super::type_text(record.rtype), record.rdata_text())
}

//--- BIND ---

/// A dynamic zone keeps a journal by itself.
fn configure_named(home: &Path, address: SocketAddr, zones: &[(Dname, PathBuf)], plan: &PrimaryPlan) -> String {
    let mut text = String::new();
    let mut signed = String::new();
    let mut readers = format!("{READER};");
    match &plan.key {
        Some(TsigKey { name, algorithm, secret }) => {
            writeln!(text, "key \"{name}\" {{ algorithm {algorithm}; secret \"{secret}\"; }};").expect("string");
            signed = format!(" key \"{name}\"");
            write!(readers, " key \"{name}\";").expect("string");
        }
        None => readers.push_str(" 127.0.0.1;"),
    }
    text.push_str(&super::named::options(home, address));
    text.push_str("};\n");
    let (ip, port) = (plan.notify.ip(), plan.notify.port());
    for (zone, file) in zones {
        let file = file.display();
        writeln!(
            text,
            "zone \"{zone}\" {{ type primary; file \"{file}\"; check-names ignore; allow-update {{ 127.0.0.1; }};\n \
             allow-transfer {{ {readers} }}; notify explicit; notify-delay 0; also-notify {{ {ip} port {port}{signed}; }}; }};"
        )
        .expect("string");
    }
    text
}

/// One UPDATE (RFC 2136): it is carried out as a whole and in order.
fn change_named(primary: &Primary, zone: &Dname, edit: &Edit) {
    let mut input = format!("server 127.0.0.1 {}\nzone {zone}\ncheck-names no\n", primary.address.port());
    for (owner, rtype, rdata) in edit.removed.iter().map(words) {
        writeln!(input, "update delete {owner} IN {rtype} {rdata}").expect("string");
    }
    for record in edit.added.iter().chain(&edit.records[..1]) {
        let (owner, rtype, rdata) = words(record);
        writeln!(input, "update add {owner} {} IN {rtype} {rdata}", record.ttl).expect("string");
    }
    input.push_str("send\n");
    primary.tool("nsupdate", &["-v"], &input);
    primary.wait_serial(zone, edit.records[0].serial(), || ());
}

//--- NSD ---

/// Differences are made when a zone file is read, and kept.
fn configure_nsd(home: &Path, address: SocketAddr, zones: &[(Dname, PathBuf)], plan: &PrimaryPlan) -> String {
    let control = format!("control-enable: yes\n control-interface: \"{}\"", home.join("control").display());
    let mut text = super::nsd::server(home, address, "verbosity: 1").replace("control-enable: no", &control);
    let mut key = "NOKEY";
    if let Some(TsigKey { name, algorithm, secret }) = &plan.key {
        writeln!(text, "key:\n name: \"{name}\"\n algorithm: {algorithm}\n secret: \"{secret}\"").expect("string");
        key = name;
    }
    let (ip, port) = (plan.notify.ip(), plan.notify.port());
    for (zone, file) in zones {
        let file = file.display();
        writeln!(
            text,
            "zone:\n name: \"{zone}\"\n zonefile: \"{file}\"\n store-ixfr: yes\n create-ixfr: yes\n ixfr-number: 50\n \
             notify: {ip}@{port} {key}\n provide-xfr: 127.0.0.1 {key}\n provide-xfr: {READER} NOKEY"
        )
        .expect("string");
    }
    text
}

/// A new file; the server compares it with what it has.
fn change_nsd(primary: &Primary, zone: &Dname, edit: &Edit) {
    write_file(&primary.files[zone], &write_zone(&edit.records));
    let configuration = primary.home.join("server.conf").display().to_string();
    let reload = || drop(primary.tool("nsd-control", &["-c", &configuration, "reload", &zone.to_string()], ""));
    reload();
    // What meets a reload under way may be lost.
    primary.wait_serial(zone, edit.records[0].serial(), reload);
}

//--- Knot DNS ---

/// The journal keeps the changes; the zone file is only where it began.
fn configure_knotd(home: &Path, address: SocketAddr, zones: &[(Dname, PathBuf)], plan: &PrimaryPlan) -> String {
    let mut text = super::knotd::server(home, address, "notice").replace("knot.sock", "control");
    // What a test writes need not outlive a power failure; the disk may be slow.
    text.push_str("  journal-db-mode: asynchronous\n");
    let mut key = String::new();
    if let Some(TsigKey { name, algorithm, secret }) = &plan.key {
        writeln!(text, "key:\n  - id: {name}\n    algorithm: {algorithm}\n    secret: {secret}").expect("string");
        key = format!("    key: {name}\n");
    }
    let (ip, port, home) = (plan.notify.ip(), plan.notify.port(), home.display());
    write!(
        text,
        "remote:\n  - id: follower\n    address: {ip}@{port}\n{key}\
         acl:\n  - id: follower\n    address: 127.0.0.1\n{key}    action: transfer\n  \
         - id: reader\n    address: {READER}\n    action: transfer\n\
         template:\n  - id: default\n    storage: \"{home}\"\n    notify: follower\n    acl: [ follower, reader ]\n    \
         zonefile-sync: -1\n    zonefile-load: whole\n    journal-content: changes\nzone:\n"
    )
    .expect("string");
    for (zone, file) in zones {
        writeln!(text, "  - domain: \"{zone}\"\n    file: \"{}\"", file.display()).expect("string");
    }
    text
}

/// One transaction. Its tool splits lines as a shell does, so that RDATA stands in single quotes.
fn change_knotd(primary: &Primary, zone: &Dname, edit: &Edit) {
    let mut input = format!("zone-begin {zone}\n");
    for (owner, rtype, rdata) in edit.removed.iter().map(words) {
        writeln!(input, "zone-unset {zone} {owner} {rtype} '{rdata}'").expect("string");
    }
    for record in edit.added.iter().chain(&edit.records[..1]) {
        let (owner, rtype, rdata) = words(record);
        writeln!(input, "zone-set {zone} {owner} {} {rtype} '{rdata}'", record.ttl).expect("string");
    }
    writeln!(input, "zone-commit {zone}").expect("string");
    let said = primary.tool("knotc", &["-s", &primary.socket()], &input);
    // It ends well whatever became of the commands in its input.
    assert!(!said.contains("error"), "{said}\n{input}");
    primary.wait_serial(zone, edit.records[0].serial(), || ());
}
