//! A start that cannot be: with too few threads or without its ports it ends soon, says why in words, and leaves what
//! an earlier run has written as it was. And one that has lost its state: no serial falls.

mod harness;

use harness::{
    Aggregator, Client, Dname, Edit, Folder, Knotd, Port, Primary, PrimaryPlan, Process, Query, Record, Settings,
    read_zone, rtype, run_verb, wait_until, write_file,
};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_aggregator");
const PATIENCE: Duration = Duration::from_secs(20);
const REGION: &str = "region.test";
/// A user that runs nothing else, so that its threads are those of the server.
const USER: u32 = 54_321;

/// Zone dc.test with a serial.
fn zone_text(serial: u32) -> String {
    format!(
        "$ORIGIN dc.test.\n$TTL 30\n@ IN SOA ns.dc.test. h.dc.test. {serial} 86400 86400 2592000 30\n\
         @ IN NS ns.dc.test.\nweb IN A 192.0.2.{serial}\n"
    )
}

/// Starts the program; returns its exit and its output. `limit` restrains the child.
fn run(
    file: &Path,
    log: &Path,
    limit: impl FnMut() -> std::io::Result<()> + Send + Sync + 'static,
) -> (ExitStatus, String) {
    let mut process = start(file, log, limit);
    let status = wait_until("the start ends", PATIENCE, || process.ended());
    (status, process.log_text())
}

/// Starts a server.
fn start(file: &Path, log: &Path, limit: impl FnMut() -> std::io::Result<()> + Send + Sync + 'static) -> Process {
    let mut command = Command::new(PROGRAM);
    command.args(["run", "-c"]).arg(file).env_remove("RUST_BACKTRACE");
    // SAFETY: what restrains a child makes plain system calls.
    unsafe { command.pre_exec(limit) };
    Process::start("aggregator", &mut command, log)
}

/// Shows that an end was a clear error.
fn assert_clear(status: ExitStatus, text: &str) {
    assert_eq!(status.code(), Some(1), "{text}");
    for word in ["panicked", "RUST_BACKTRACE", "being shutdown", "os error 0"] {
        assert!(!text.contains(word), "{text}");
    }
}

/// Lets the process have a number of threads: as a user that has no others, or where we may not change to one, in a
/// user namespace, which counts its own.
fn limit_threads(threads: u64) -> std::io::Result<()> {
    let result = |code: i32| if code == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) };
    let limit = libc::rlimit { rlim_cur: threads, rlim_max: threads };
    // SAFETY: plain system calls, which touch only the child; the structure outlives its call.
    unsafe {
        if libc::geteuid() == 0 {
            result(libc::setgid(USER))?;
            result(libc::setuid(USER))?;
        } else {
            result(libc::unshare(libc::CLONE_NEWUSER))?;
        }
        result(libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit))
    }
}

#[test]
fn with_too_few_threads_a_start_says_so() {
    let folder = Folder::new();
    let primary = Knotd::start(&folder, &[(Dname::parse("dc.test"), zone_text(1))]);
    let home = folder.subfolder("aggregator");
    // Another user must get there.
    for path in [folder.path(), &home] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let program = home.join("program");
    std::fs::copy(PROGRAM, &program).unwrap();
    let mut port = Port::reserve();
    let (file, server, place) = (home.join("config.toml"), port.release(), home.display());
    write_file(
        &file,
        &format!(
            "[server]\nname = \"ns.test\"\nlisten = [\"{server}\"]\nudp_threads = 3\n[state]\nfolder = \"{place}/state\"\n\
             [metrics]\nlisten = []\n[control]\nsocket = \"{place}/control\"\n[zones]\n\"dc.test\" = \"{}\"\n\
             [aggregations]\n\"{REGION}\" = [\"dc.test\"]\n",
            primary.address()
        ),
    );
    let begin = |threads: u64| {
        let mut command = Command::new(&program);
        command.args(["run", "-c"]).arg(&file).env_remove("RUST_BACKTRACE");
        // SAFETY: see `limit_threads`.
        unsafe { command.pre_exec(move || limit_threads(threads)) };
        Process::start("aggregator", &mut command, &home.join(format!("log-{threads}")))
    };
    for threads in 1.. {
        let mut process = begin(threads);
        let has_started = wait_until("the start succeeds or ends", PATIENCE, || match process.ended() {
            Some(status) => Some(Err(status)),
            None => process.log_text().contains(": started").then_some(Ok(())),
        });
        let Err(status) = has_started else {
            // And what has started works, although nothing is left to it.
            let query = Query::new(&Dname::parse(&format!("web.{REGION}")), rtype::A);
            let mut client = Client::new(server);
            wait_until("the region is served", PATIENCE, || {
                process.assert_running();
                client.ask(&query).is_ok_and(|answer| answer.answer.len() == 1).then_some(())
            });
            assert_eq!(run_verb(&["status"], &file).code, 0);
            assert_eq!(run_verb(&["reload"], &file).code, 0);
            assert!(process.stop(PATIENCE).is_some_and(|status| status.success()), "{}", process.log_text());
            assert!(!process.log_text().contains("panicked"), "{}", process.log_text());
            assert!(threads > 4, "{threads} threads are too few for what the configuration says");
            return;
        };
        let text = process.log_text();
        assert_clear(status, &text);
        assert!(text.contains("threads that it needs") && text.contains("ulimit -u"), "{text}");
        assert!(!home.join("state").exists(), "nothing is written before it is certain");
    }
}

#[test]
fn a_start_without_its_ports_changes_nothing() {
    let folder = Folder::new();
    let origin = Dname::parse("dc.test");
    let of = |serial: u32| -> Vec<Record> { read_zone(&zone_text(serial)) };
    let mut port = Port::reserve();
    let plan = PrimaryPlan { notify: port.release(), key: None };
    let mut primary = Primary::start_knotd(&folder, &[(origin.clone(), of(1))], &plan);
    let zones = format!("[zones]\n\"dc.test\" = \"{}\"\n", primary.address());
    let with_region = Settings {
        state: Some("state".into()),
        ..Settings::new(&format!("{zones}[aggregations]\n\"{REGION}\" = [\"dc.test\"]\n"))
    };
    let home = folder.subfolder("aggregator");
    let mut daemon = Aggregator::start_with(&home, &with_region);
    let mut client = Client::new(daemon.address());
    let has = |client: &mut Client, serial: u32| client.serial(&Dname::parse(REGION)) == Some(serial);
    wait_until("the region is served", PATIENCE, || has(&mut client, 1).then_some(()));
    primary.change(&origin, &Edit { removed: vec![of(1).remove(2)], added: vec![of(2).remove(2)], records: of(2) });
    assert_eq!(daemon.verb(&["refresh"]).code, 0);
    wait_until("the region has the change", PATIENCE, || has(&mut client, 2).then_some(()));
    let rolled_back = daemon.verb(&["rollback", REGION, "--to", "1", "--yes"]);
    assert_eq!(rolled_back.code, 0, "{rolled_back:?}");
    let (address, metrics, file) = (daemon.address(), daemon.metrics_address(), daemon.configuration().to_owned());
    let good = std::fs::read_to_string(&file).unwrap();
    daemon.kill_and_restart(|| {
        // A text without the region would end its pin, had the server started with it.
        let (without, _) = good.split_once("[aggregations]").unwrap();
        write_file(&file, without);
        let udp = UdpSocket::bind(address).unwrap();
        let (status, text) = run(&file, &home.join("log-udp"), || Ok(()));
        assert_clear(status, &text);
        assert!(text.contains(&format!("cannot listen on {address}")), "{text}");
        drop(udp);
        let tcp = TcpListener::bind(metrics).unwrap();
        let (status, text) = run(&file, &home.join("log-tcp"), || Ok(()));
        assert_clear(status, &text);
        assert!(text.contains(&format!("cannot listen on {metrics}")), "{text}");
        drop(tcp);
        // A server that is stopped has its control socket all the same, even when nobody can get through to it.
        let socket = home.join("control");
        let _ = std::fs::remove_file(&socket);
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        // SAFETY: plain system call on a descriptor that is open.
        assert_eq!(unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&listener), 0) }, 0);
        let _waiting = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        let (status, text) = run(&file, &home.join("log-control"), || Ok(()));
        assert_clear(status, &text);
        assert!(text.contains("another aggregator is running"), "{text}");
        drop(listener);
        write_file(&file, &good);
    });
    let mut status = String::new();
    wait_until("the region is served", PATIENCE, || {
        status = daemon.verb(&["status", REGION]).stdout;
        status.contains("pinned to version 1").then_some(())
    });
    assert!(daemon.stop().success());
}

/// A serial of a region never falls for those who have a newer one, although the server has lost what it knew.
#[test]
fn a_region_without_its_state_goes_on_from_its_secondary() {
    let folder = Folder::new();
    let region = |serial: u32| zone_text(serial).replace("dc.test", REGION);
    let primary = Knotd::start(&folder, &[(Dname::parse("dc.test"), zone_text(3))]);
    // Ahead by a drift; ahead by more than any drift; behind.
    for (theirs, expected) in [(7, 8), (3 + 65_536, 3 + 65_537), (3 + 65_537, 3), (3, 3), (2, 3)] {
        let secondary =
            Knotd::start(&folder, &[(Dname::parse(REGION), region(theirs).replace("192.0.2.", "192.0.2.1 ;"))]);
        let plan = format!(
            "[zones]\n\"dc.test\" = \"{}\"\n[aggregations.\"{REGION}\"]\nmembers = [\"dc.test\"]\nnotify = [\"{}\"]\n",
            primary.address(),
            secondary.address()
        );
        let daemon = Aggregator::start_in(&folder.subfolder(&format!("aggregator-{theirs}")), &plan);
        let mut client = Client::new(daemon.address());
        let serial = wait_until("the region is served", PATIENCE, || client.serial(&Dname::parse(REGION)));
        assert_eq!(serial, expected, "beside {theirs}");
    }
}
