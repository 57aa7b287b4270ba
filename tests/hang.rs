//! Hangs that hold up nothing but themselves: a disk that does not answer, clients and peers that say nothing, a log
//! that nobody reads. Meanwhile UDP is answered, the service manager hears from us, NOTIFY is obeyed, `status` and
//! `stop` work, and nothing spins.
//!
//! A disk that hangs is a named pipe in the place of a file: whoever opens it waits for the other end.

#[path = "hang/held.rs"]
mod held;

mod harness;

use harness::{
    Client, Dname, Edit, Folder, Port, Primary, PrimaryPlan, Process, Query, Record, ServiceManager, certify,
    read_zone, rtype, wait_until, write_file,
};
use held::{LogReader, hang_clients, hang_tls_clients, make_pipe};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for what is to happen soon, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest wait for the end of a server whose disk does not answer: it waits ten seconds for that.
const END: Duration = Duration::from_secs(30);
const WATCHDOG: Duration = Duration::from_secs(1);
/// The beginning of a TLS handshake (RFC 8446 section 5.1): a record of 512 octets of which one comes.
const CLIENT_HELLO: [u8; 6] = [22, 3, 1, 2, 0, 1];
const PROGRAM: &str = env!("CARGO_BIN_EXE_aggregator");

/// A zone with a serial.
fn zone_text(origin: &str, serial: u32) -> Vec<Record> {
    read_zone(&format!(
        "$ORIGIN {origin}.\n$TTL 30\n@ IN SOA ns.{origin}. h.{origin}. {serial} 86400 86400 2592000 30\n\
         @ IN NS ns.{origin}.\nweb IN A 192.0.2.1\nweb-{serial} IN A 192.0.2.2\n"
    ))
}

/// Puts a pipe in the place of a file.
fn hang(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let beside = path.with_extension("pipe");
    make_pipe(&beside);
    std::fs::rename(beside, path).unwrap();
}

/// A server under a service manager with a watchdog, with one primary.
struct World {
    home: PathBuf,
    file: PathBuf,
    server: SocketAddr,
    tls: SocketAddr,
    http: SocketAddr,
    primary: Primary,
    serial: u32,
    manager: ServiceManager,
    process: Process,
    /// Removed when all that use it have ended.
    _folder: Folder,
}

impl World {
    /// Starts it and waits until the region is served; `plan` makes more of the configuration, from the server's
    /// folder.
    fn start(plan: impl Fn(&Path) -> String) -> World {
        let folder = Folder::new();
        let [mut server, mut tls, mut http] = [Port::reserve(), Port::reserve(), Port::reserve()];
        let zones = ["dc.test", "late.test"].map(|zone| (Dname::parse(zone), zone_text(zone, 1)));
        let notify = server.address();
        let primary = Primary::start_knotd(&folder, &zones, &PrimaryPlan { notify, key: None });
        let home = folder.subfolder("aggregator");
        let file = home.join("config.toml");
        let mut manager = ServiceManager::new(folder.path());
        certify(&home);
        let place = home.display();
        let text = format!(
            "[server]\nname = \"ns.test\"\nlisten = [\"{}\"]\n\
             tls = {{ listen = \"{}\", certificate = \"cert.pem\", key = \"key.pem\" }}\n[state]\nfolder = \"{place}/state\"\n\
             [metrics]\nlisten = [\"{}\"]\n[control]\nsocket = \"{place}/control\"\n\
             [transfer]\nrefresh_min = \"1d\"\nrefresh_max = \"1d\"\n\
             [aggregations]\n\"region.test\" = [\"dc.test\"]\n{}\
             [zones]\n\"dc.test\" = \"{}\"\n",
            server.release(),
            tls.release(),
            http.release(),
            plan(&home),
            primary.address(),
        );
        write_file(&file, &text);
        let process =
            manager.start(PROGRAM.as_ref(), &["run", "-c", file.to_str().unwrap()], Some(WATCHDOG), &home.join("log"));
        manager.wait_for("READY=1");
        let (server, tls, http) = (server.address(), tls.address(), http.address());
        let mut world = World { home, file, server, tls, http, primary, serial: 1, manager, process, _folder: folder };
        world.wait_served();
        world
    }

    /// Starts a verb.
    fn begin(&self, verb: &str) -> Verb {
        let mut command = Command::new(PROGRAM);
        command.arg(verb).arg("-s").arg(self.home.join("control"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Verb(Some(child))
    }

    /// A scrape.
    fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(self.http).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Waits until the region answers with what belongs to the serial.
    fn wait_served(&mut self) {
        let query = Query::new(&Dname::parse(&format!("web-{}.region.test", self.serial)), rtype::A);
        let mut client = Client::new(self.server);
        wait_until("the region is served", PATIENCE, || {
            self.process.assert_running();
            client.ask(&query).is_ok_and(|answer| answer.answer.len() == 1).then_some(())
        });
    }

    /// Changes the zone at its primary, which says so by NOTIFY: no timer comes in the time of a test.
    fn change(&mut self) {
        self.serial += 1;
        let records = zone_text("dc.test", self.serial);
        let of = |serial: u32| zone_text("dc.test", serial).pop().into_iter().collect::<Vec<_>>();
        let edit = Edit { removed: of(self.serial - 1), added: of(self.serial), records };
        self.primary.change(&Dname::parse("dc.test"), &edit);
    }

    /// Shows that everything goes on that does not need what hangs.
    fn assert_lively(&mut self) {
        self.manager.take_heard();
        for _ in 0..3 {
            self.manager.wait_for("WATCHDOG=1");
            self.manager.take_heard();
        }
        let (code, text) = self.begin("status").wait(PATIENCE);
        assert!(code == 0 && text.contains("region.test."), "{text}");
        self.change();
        self.wait_served();
        self.manager.take_heard();
        self.manager.wait_for("WATCHDOG=1");
    }

    /// The time that the process has had from processors.
    fn processor_time(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Shows that the server does next to nothing for what hangs.
    fn assert_idle(&self) {
        let (before, since) = (self.processor_time(), Instant::now());
        std::thread::sleep(Duration::from_millis(1500));
        let used = self.processor_time() - before;
        assert!(used < since.elapsed() / 4, "{used:?} of a processor in {:?}", since.elapsed());
    }
}

/// A verb on its way.
struct Verb(Option<Child>);

impl Verb {
    /// Returns true if it has ended.
    fn has_ended(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// Its exit code and all it said.
    fn wait(mut self, patience: Duration) -> (i32, String) {
        wait_until("the verb ends", patience, || self.has_ended().then_some(()));
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
    }
}

impl Drop for Verb {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

//--- Reload ---

/// A configuration file that hangs; what must be done for it to be readable again is to rename the good one over it.
fn hang_configuration(world: &World) -> PathBuf {
    let good = world.home.join("good.toml");
    std::fs::copy(&world.file, &good).unwrap();
    hang(&world.file);
    world.file.clone()
}

/// A zone that the file names from now on, whose snapshot hangs.
fn hang_snapshot(world: &World) -> PathBuf {
    let text =
        std::fs::read_to_string(&world.file).unwrap() + &format!("\"late.test\" = \"{}\"\n", world.primary.address());
    write_file(&world.file, &text);
    let snapshot = world.home.join("state/zones/late.test/snapshot");
    hang(&snapshot);
    snapshot
}

/// Begins a reload that hangs, and waits until it does.
fn begin_reload(world: &mut World, what: fn(&World) -> PathBuf) -> (Verb, PathBuf) {
    let hung = what(world);
    world.manager.take_heard();
    let reload = world.begin("reload");
    world.manager.wait_for("RELOADING=1");
    (reload, hung)
}

#[test]
fn a_configuration_that_cannot_be_read_holds_up_nothing() {
    let mut world = World::start(|_| String::new());
    let (mut first, hung) = begin_reload(&mut world, hang_configuration);
    world.assert_lively();
    // Those who come meanwhile share one more reading, which begins when this one has ended.
    let mut others = [world.begin("reload"), world.begin("reload")];
    world.assert_lively();
    assert!(!first.has_ended() && others.iter_mut().all(|other| !other.has_ended()));
    world.manager.take_heard();
    std::fs::rename(world.home.join("good.toml"), hung.with_extension("text")).unwrap();
    let good = std::fs::read(hung.with_extension("text")).unwrap();
    let pipe = hung.with_extension("hung");
    std::fs::rename(&hung, &pipe).unwrap();
    std::fs::rename(hung.with_extension("text"), &hung).unwrap();
    std::fs::OpenOptions::new().write(true).open(&pipe).unwrap().write_all(&good).unwrap();
    let (code, text) = first.wait(PATIENCE);
    assert_eq!((code, text.trim()), (0, "the certificate has been read again"));
    for other in others {
        let (code, text) = other.wait(PATIENCE);
        assert_eq!((code, text.trim()), (0, "the certificate has been read again"));
    }
    world.manager.wait_for("READY=1");
    let reloads = world.process.log_text().matches("configuration reloaded").count();
    assert_eq!(reloads, 2, "one that ran, and one for the two that waited");
    world.assert_lively();
}

#[test]
fn a_snapshot_that_cannot_be_read_holds_up_nothing() {
    let mut world = World::start(|_| String::new());
    let (mut reload, hung) = begin_reload(&mut world, hang_snapshot);
    world.assert_lively();
    // Orders go on as well.
    let mut command = Command::new(PROGRAM);
    command.args(["drain", "dc.test", "--dry-run", "-s"]).arg(world.home.join("control"));
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (_, text) = Verb(Some(child)).wait(PATIENCE);
    assert!(text.contains("region.test."), "{text}");
    assert!(!reload.has_ended());
    // What comes out of the pipe is no snapshot: the zone is transferred as if there had been none.
    drop(std::fs::OpenOptions::new().write(true).open(&hung).unwrap());
    let (code, text) = reload.wait(PATIENCE);
    assert!(code == 0 && text.contains("late.test."), "{text}");
    world.assert_lively();
}

#[test]
fn a_server_ends_while_its_reload_hangs() {
    for (what, by_signal) in
        [(hang_configuration as fn(&World) -> PathBuf, true), (hang_configuration, false), (hang_snapshot, true)]
    {
        let mut world = World::start(|_| String::new());
        let (reload, _) = begin_reload(&mut world, what);
        if by_signal {
            world.process.signal(libc::SIGTERM);
        } else {
            let (code, text) = world.begin("stop").wait(END);
            assert_eq!(code, 0, "{text}");
        }
        let status = world.process.stop(END).expect("the server ends");
        assert!(status.success(), "{status}");
        let (code, text) = reload.wait(PATIENCE);
        assert!(code != 0 && text.contains("stopping"), "{code} {text}");
    }
}

#[test]
fn a_start_that_waits_for_a_disk_can_be_stopped() {
    let mut world = World::start(|_| String::new());
    assert!(world.process.stop(END).is_some_and(|status| status.success()));
    hang(&world.home.join("state/zones/dc.test/snapshot"));
    let arguments = ["run", "-c", world.file.to_str().unwrap()];
    let log = world.home.join("log2");
    world.process = world.manager.start(PROGRAM.as_ref(), &arguments, Some(WATCHDOG), &log);
    let task = PathBuf::from(format!("/proc/{}/task", world.process.id()));
    let opens = |thread: std::fs::DirEntry| {
        std::fs::read_to_string(thread.path().join("wchan")).is_ok_and(|place| place.contains("fifo"))
            || std::fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.starts_with("state-"))
    };
    wait_until("the server reads its folder", PATIENCE, || {
        std::fs::read_dir(&task).ok()?.flatten().any(opens).then_some(())
    });
    let status = world.process.stop(END).expect("the server ends");
    assert!(status.success(), "{status}: {}", world.process.log_text());
}

//--- The log ---

/// Starts a server whose log is read when the test says so, or never.
fn start_with_log(hangs: bool, plan: impl Fn(&Path) -> String) -> (World, LogReader) {
    let reader = RefCell::new(None);
    let world = World::start(|home| {
        let mut log = LogReader::start(&home.join("log"));
        if hangs {
            log.hang();
        }
        reader.replace(Some(log));
        plan(home)
    });
    (world, reader.into_inner().unwrap())
}

#[test]
fn a_log_that_nobody_reads_holds_up_nothing() {
    let (mut world, mut log) = start_with_log(true, |_| String::new());
    world.assert_lively();
    world.assert_idle();
    assert!(log.hangs());
    // A file whose mistakes, told in one line each time, fill more than what may wait.
    let good = std::fs::read_to_string(&world.file).unwrap();
    let mistakes: String =
        (0..1_000).map(|number| format!("\"x y{number:0200}\" = \"not an address {number}\"\n")).collect();
    write_file(&world.file, &(good.clone() + &mistakes));
    for count in 1..=12 {
        world.process.signal(libc::SIGHUP);
        let failed = format!("aggregator_reloads_total{{result=\"failed\"}} {count}\n");
        wait_until("the file is refused", PATIENCE, || world.metrics().contains(&failed).then_some(()));
    }
    write_file(&world.file, &good);
    world.assert_lively();
    world.assert_idle();
    // Somebody reads again. What is missing is told in its place, and nothing more is missing.
    wait_until("the loss is told", PATIENCE, || log.read().contains("log lines lost").then_some(()));
    world.change();
    world.wait_served();
    wait_until("the log goes on", PATIENCE, || {
        let text = log.read();
        let (_, after) = text.split_once("log lines lost").unwrap();
        after.contains("zone transferred").then_some(())
    });
    let text = log.read();
    let (_, told) = text.split_once("log lines lost").unwrap();
    let told: u64 = told.split_once("lines=").unwrap().1.split_whitespace().next().unwrap().parse().unwrap();
    assert!(told > 0);
    assert!(world.metrics().contains(&format!("\naggregator_log_lines_lost_total {told}\n")), "{told}");
    assert_eq!(text.matches("log lines lost").count(), 1);
    // And an end waits for nobody who reads.
    log.hang();
    let (code, text) = world.begin("stop").wait(END);
    assert_eq!(code, 0, "{text}");
    let status = wait_until("the server ends", END, || world.process.ended());
    assert!(status.success(), "{status}");
}

#[test]
fn the_last_lines_and_errors_of_an_end_are_there() {
    let (mut world, mut log) = start_with_log(false, |_| String::new());
    world.process.signal(libc::SIGTERM);
    wait_until("the server ends", END, || world.process.ended());
    assert!(log.read().contains("stopped"), "{}", log.read());
    // A port that is taken ends a start: the service manager has its socket. The reason comes last.
    let output = Command::new(PROGRAM).args(["run", "-c"]).arg(&world.file).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains(&format!("cannot listen on {}", world.server)), "{errors}");
}

//--- Everything ---

/// Listens, accepts and says nothing, over UDP and TCP.
struct Silent {
    address: SocketAddr,
    _udp: UdpSocket,
}

impl Silent {
    fn start() -> Silent {
        let mut port = Port::reserve();
        let address = port.release();
        let (udp, tcp) = (UdpSocket::bind(address).unwrap(), TcpListener::bind(address).unwrap());
        std::thread::spawn(move || tcp.incoming().collect::<Vec<_>>());
        Silent { address, _udp: udp }
    }
}

/// The journal in use of a zone.
fn journal(world: &World, zone: &str) -> PathBuf {
    let folder = world.home.join("state/zones").join(zone);
    let names = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let is_journal = |path: &PathBuf| path.file_name().unwrap().as_bytes().starts_with(b"journal.");
    names.filter(is_journal).max().unwrap()
}

#[test]
fn whatever_hangs_the_rest_goes_on() {
    let (silent, tree) = (Silent::start(), Silent::start());
    let (mut world, mut log) = start_with_log(false, |_| {
        format!(
            "[aggregations.\"other.test\"]\nmembers = [\"dc.test\", \"away.test\", \"tree.test\"]\n\
             notify = [\"{0}\"]\nallow_transfer = [\"127.0.0.1\"]\n\
             [zones.\"away.test\"]\nprimaries = [\"{0}\"]\n[zones.\"tree.test\"]\nzookeeper = [\"{1}\"]\n",
            silent.address, tree.address
        )
    });
    // The peers hang already: a primary, a secondary, and an ensemble.
    world.assert_lively();
    world.assert_idle();
    // Clients, up to the limits of each listener and beyond.
    let mut clients = hang_clients(world.server, &[0, 40, 1], 70);
    clients.extend(hang_clients(world.http, b"GET /metr", 70));
    world.assert_lively();
    world.assert_idle();
    // Over TLS in the handshake, and in the middle of a message.
    clients.extend(hang_clients(world.tls, &CLIENT_HELLO, 70));
    let mut secure = hang_tls_clients(world.tls, &world.home, 20);
    world.assert_lively();
    world.assert_idle();
    let connect = |_| {
        let mut stream = UnixStream::connect(world.home.join("control")).unwrap();
        let _ = stream.write_all(b"{");
        stream
    };
    let mut operators: Vec<UnixStream> = (0..70).map(connect).collect();
    world.assert_lively();
    // The disk: what is written first, then what is read.
    let journal = journal(&world, "dc.test");
    hang(&journal);
    world.change();
    world.wait_served();
    wait_until("the server says that its disk hangs", PATIENCE, || {
        log.read().contains("does not answer; serving goes on").then_some(())
    });
    world.assert_lively();
    world.assert_idle();
    // And all of it at once, with a log that nobody reads and a reload that hangs as well.
    log.hang();
    let (reload, _) = begin_reload(&mut world, hang_snapshot);
    clients.extend(hang_clients(world.server, &[0, 40, 1], 70));
    clients.extend(hang_clients(world.tls, &CLIENT_HELLO, 70));
    secure.extend(hang_tls_clients(world.tls, &world.home, 20));
    let connect = |_| UnixStream::connect(world.home.join("control")).unwrap();
    operators.extend((0..70).map(connect));
    world.assert_lively();
    world.assert_idle();
    let (code, text) = world.begin("stop").wait(END);
    assert_eq!(code, 0, "{text}");
    let status = wait_until("the server ends", END, || world.process.ended());
    assert!(status.success(), "{status}");
    assert!(!log.read().contains("panicked"), "{}", log.read());
    drop((reload, clients, secure, operators));
}
