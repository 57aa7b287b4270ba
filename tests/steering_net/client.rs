//! Clients of a datacenter: programs that ask all the time, and what they saw.

use super::datacenter::datacenter_of;
use super::harness::{Folder, Net, PYTHON, program_path, repository_file, run_tool, write_file};
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Sees other files as /etc/resolv.conf and /etc/nsswitch.conf, and becomes a program.
const INSIDE: &str =
    r#"mount --bind "$1" /etc/resolv.conf && mount --bind "$2" /etc/nsswitch.conf && shift 2 && exec "$@" 2>&1"#;

/// Where the programs are that clients run.
pub struct Programs {
    glibc: PathBuf,
    musl: PathBuf,
    nsswitch: PathBuf,
}

/// Kinds of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Glibc,
    Musl,
    Python,
    /// Goes where SRV records lead (RFC 2782).
    Services,
}

/// A client that asks for one name.
pub struct Client {
    pub title: &'static str,
    /// Number of its datacenter.
    pub home: u8,
    /// Number of the datacenter that its answers were of at the end of the last phase.
    pub at: u8,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// How much of what it saw has been judged.
    judged: usize,
    child: Child,
}

/// What a client saw, and when.
#[derive(Clone, Debug)]
struct Seen {
    at: Instant,
    /// Number of the datacenter of all addresses, or what the client said else.
    datacenter: Result<u8, String>,
}

impl Programs {
    /// Compiles what is to be compiled.
    pub fn make(folder: &Folder) -> Programs {
        let compile = |compiler: &str, more: &[&str], name: &str| {
            let program = folder.path().join(name);
            let mut command = Command::new(program_path(compiler));
            run_tool(command.args(more).arg("-o").arg(&program).arg(repository_file("tests/steering_net/lookup.c")));
            program
        };
        let nsswitch = folder.path().join("nsswitch.conf");
        write_file(&nsswitch, "hosts: files dns\n");
        Programs {
            glibc: compile("cc", &[], "lookup-glibc"),
            musl: compile("musl-gcc", &["-static"], "lookup-musl"),
            nsswitch,
        }
    }

    /// The words of a client's command.
    fn words(&self, kind: Kind, name: &str) -> Vec<PathBuf> {
        let python =
            |what: &str| vec![PYTHON.into(), repository_file("tests/steering_net/client.py"), what.into(), name.into()];
        match kind {
            Kind::Glibc => vec![self.glibc.clone(), name.into()],
            Kind::Musl => vec![self.musl.clone(), name.into()],
            Kind::Python => python("addresses"),
            Kind::Services => python("services"),
        }
    }
}

impl Client {
    /// Starts a client on a machine of its datacenter, with a resolver.
    pub fn start(
        (net, folder, programs): (&Net, &Folder, &Programs),
        (title, kind): (&'static str, Kind),
        home: u8,
        resolver: Ipv4Addr,
        name: &str,
    ) -> Client {
        let file = folder.path().join(format!("resolv-{resolver}.conf"));
        write_file(&file, &format!("nameserver {resolver}\n"));
        let mut command = net.command(&format!("client{home}"), Path::new("/bin/sh"));
        command.args(["-c", INSIDE, "sh"]).arg(file).arg(&programs.nsswitch).args(programs.words(kind, name));
        // It ends with the pipe that it writes to.
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a client");
        let lines = BufReader::new(child.stdout.take().expect("standard output")).lines();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let list = seen.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                list.lock().expect("a list").push(Seen { at: Instant::now(), datacenter: read_line(line) });
            }
        });
        Client { title, home, at: home, seen, judged: 0, child }
    }

    /// What it saw last.
    pub fn last(&self) -> Option<Result<u8, String>> {
        self.seen.lock().expect("a list").last().map(|seen| seen.datacenter.clone())
    }

    /// Takes what was seen so far for the time of starting.
    pub fn forget(&mut self) {
        self.judged = self.seen.lock().expect("a list").len();
    }

    /// Judges what was seen since the last time: answers of any datacenter, of its own in the end. Returns for how long after an
    /// event it was elsewhere.
    pub fn pass(&mut self, event: Instant) -> Duration {
        let seen = self.seen.lock().expect("a list").clone();
        let mut away = Duration::ZERO;
        for pair in seen[self.judged.saturating_sub(1)..].windows(2) {
            let datacenter = pair[0].datacenter.as_ref().unwrap_or_else(|line| {
                panic!("{} in datacenter {} saw {line:?} after {:?}", self.title, self.home, pair[0].at - event)
            });
            if *datacenter != self.home {
                away += pair[1].at - pair[0].at;
            }
        }
        self.judged = seen.len();
        away
    }

    /// Judges what was seen since the last time: answers of the datacenter where it was, then only of another, if it has to
    /// go there. Returns how long after an event that began.
    pub fn judge(&mut self, event: Instant, target: u8) -> Duration {
        let seen = self.seen.lock().expect("a list").clone();
        let fresh = &seen[self.judged..];
        let first = fresh.iter().position(|seen| seen.datacenter != Ok(self.at)).unwrap_or(fresh.len());
        if let Some(other) = fresh[first..].iter().find(|seen| seen.datacenter != Ok(target)) {
            let after = other.at.saturating_duration_since(event);
            panic!(
                "{} in datacenter {}, on its way from datacenter {} to {target}, saw {:?} after {after:?}",
                self.title, self.home, self.at, other.datacenter
            );
        }
        self.judged = seen.len();
        self.at = target;
        fresh.get(first).map_or(Duration::ZERO, |seen| seen.at.saturating_duration_since(event))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the datacenter that all addresses of a line are in, or the line.
fn read_line(line: String) -> Result<u8, String> {
    let mut datacenters = line.split(' ').map(|word| word.parse().ok().and_then(datacenter_of));
    match datacenters.next().flatten() {
        Some(first) if datacenters.all(|other| other == Some(first)) => Ok(first),
        _ => Err(line),
    }
}
