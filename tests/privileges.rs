//! Least privilege: the server that root starts becomes a user and gives up all rights but one, in every thread, and what
//! it has given up is tried.
//!
//! The attempts run in a child, this test binary again, that confines itself with the function that the server uses. The
//! same attempts succeed in a child that does not, so that each of them can fail.

mod harness;

use aggregator::security::{self, Paths, Sandbox, SecurityPlan, account, calls, privileges};
use harness::{Client, Dname, Folder, Knotd, Process, Query, Record, rtype, run_verb, wait_until, write_file};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Error};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_aggregator");
const PATIENCE: Duration = Duration::from_secs(20);
/// A user that every system has, and that owns nothing.
const USER: &str = "nobody";
/// The variables that make this binary the child: its part, and its folder.
const PART: &str = "AGGREGATOR_TEST_PART";
const HOME: &str = "AGGREGATOR_TEST_HOME";

/// Returns true if this process is root.
fn is_root() -> bool {
    // SAFETY: a plain system call.
    unsafe { libc::geteuid() == 0 }
}

/// The number of the user.
fn user() -> u32 {
    account::find(USER, None).expect("every system has this user").user
}

//--- The server ---

/// A folder that another user gets into.
fn open_folder() -> Folder {
    let folder = Folder::new();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// A server of root's, with files in a folder.
struct Site {
    home: PathBuf,
    file: PathBuf,
    primary: SocketAddr,
    /// An address of this machine that no other test has.
    ip: String,
}

impl Site {
    fn new(folder: &Folder, primary: SocketAddr) -> Site {
        let home = folder.subfolder("server");
        for path in [&home, &folder.subfolder("server/etc")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        static SITES: AtomicU32 = AtomicU32::new(0);
        // Process numbers end at 4,194,304, and a process has fewer sites than are left.
        let id = std::process::id() + (SITES.fetch_add(1, Ordering::Relaxed) << 22);
        let ip = format!("127.{}.{}.{}", 1 + id / 62_500 % 250, id / 250 % 250, 1 + id % 250);
        Site { file: home.join("etc/aggregator.toml"), home, primary, ip }
    }

    /// Writes a configuration that listens on these ports, below 1024.
    fn configure(&self, ports: &[u16], more: &str) {
        let listen: Vec<String> = ports.iter().map(|port| format!("\"{}:{port}\"", self.ip)).collect();
        let (listen, home) = (listen.join(", "), self.home.display());
        write_file(
            &self.file,
            &format!(
                "[server]\nname = \"ns.test\"\nlisten = [{listen}]\n[state]\nfolder = \"{home}/state\"\n[metrics]\nlisten = []\n\
                 [control]\nsocket = \"{home}/run/control\"\n[zones]\n\"dc.test\" = \"{}\"\n[aggregations]\n\
                 \"region.test\" = [\"dc.test\"]\n{more}",
                self.primary
            ),
        );
    }

    /// Starts the server.
    fn begin(&self) -> Process {
        self.begin_as(Command::new(PROGRAM))
    }

    /// Starts the server with the variables and restraints of a command.
    fn begin_as(&self, mut command: Command) -> Process {
        command.args(["run", "-c"]).arg(&self.file).env_remove("RUST_BACKTRACE");
        Process::start("aggregator", &mut command, &self.home.join("log"))
    }

    /// Starts the server and waits until it answers its operators and clients.
    fn start(&self) -> Process {
        let mut process = self.begin();
        process.wait_ready("answers status", PATIENCE, || {
            (run_verb(&["status", "--json"], &self.file).code == 0).then_some(())
        });
        self.wait_answer(53);
        process
    }

    /// The records at a name of the region.
    fn ask(&self, port: u16) -> Vec<Record> {
        let server: SocketAddr = format!("{}:{port}", self.ip).parse().unwrap();
        let query = Query::new(&Dname::parse("web.region.test"), rtype::A);
        Client::any(server).ask(&query).map(|message| message.answer).unwrap_or_default()
    }

    fn wait_answer(&self, port: u16) {
        wait_until("the region answers", PATIENCE, || (self.ask(port).len() == 1).then_some(()));
    }

    /// What `check --security --json` tells.
    fn security(&self) -> Value {
        let output = run_verb(&["check", "--security", "--json"], &self.file);
        assert_eq!(output.code, 0, "{}", output.stderr);
        serde_json::from_str(&output.stdout).unwrap()
    }

    /// The serial of the region.
    fn serial(&self) -> u32 {
        let server: SocketAddr = format!("{}:53", self.ip).parse().unwrap();
        Client::any(server).serial(&Dname::parse("region.test")).expect("a serial")
    }
}

/// The fields of the rights of all threads of a process, each combination once, and the number of threads.
fn rights(process: u32) -> (BTreeSet<BTreeMap<String, String>>, usize) {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("threads");
    let read = |path: PathBuf| fs::read_to_string(path.join("status")).ok();
    let texts: Vec<String> = tasks.filter_map(|task| read(task.unwrap().path())).collect();
    let names = ["Uid", "Gid", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"];
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        names.contains(&name).then(|| (name.to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    (texts.iter().map(|text| text.lines().filter_map(field).collect()).collect(), texts.len())
}

/// Asserts that all threads of a process have the rights of the user and the one capability, and no others.
fn assert_confined(process: u32) {
    let (rights, threads) = rights(process);
    assert!(threads > 5, "{threads} threads");
    let Some(only) = rights.first().filter(|_| rights.len() == 1) else { panic!("threads differ: {rights:#?}") };
    let ids = vec![user().to_string(); 4].join(" ");
    // CAP_NET_BIND_SERVICE has the number 10.
    let (none, bind) = ("0".repeat(16), format!("{:016x}", 1 << 10));
    for (name, expected) in [
        ("Uid", &ids),
        ("CapInh", &none),
        ("CapPrm", &bind),
        ("CapEff", &bind),
        ("CapBnd", &bind),
        ("CapAmb", &none),
        ("NoNewPrivs", &"1".to_owned()),
        ("Seccomp", &"2".to_owned()),
    ] {
        assert_eq!(&only[name], expected, "{name} of {only:#?}");
    }
    let groups: Vec<&str> = only["Gid"].split(' ').collect();
    assert!(!groups.contains(&"0"), "{only:#?}");
}

/// Items that are not held, of one part of `check --security`.
fn open_items(told: &Value, part: &str) -> Vec<String> {
    let items = told["security"][part].as_array().or(told["security"][part]["items"].as_array());
    let items = items.unwrap_or_else(|| panic!("no {part} in {told:#}"));
    let open = items.iter().filter(|item| item["held"] != true);
    open.map(|item| format!("{}: {}", item["item"], item["text"])).collect()
}

#[test]
#[ignore = "needs root: make test-partition"]
fn a_server_that_root_starts_becomes_a_user_in_every_thread() {
    assert!(is_root(), "only root can become another user: run `make test-partition` as root");
    let folder = open_folder();
    let zone = "$ORIGIN dc.test.\n$TTL 30\n@ IN SOA ns.dc.test. h.dc.test. 1 86400 86400 2592000 30\n\
                @ IN NS ns.dc.test.\nweb IN A 192.0.2.1\n";
    let primary = Knotd::start(&folder, &[(Dname::parse("dc.test"), zone.to_owned())]);
    let site = Site::new(&folder, primary.address());
    let security = format!("[security]\nuser = \"{USER}\"\n");

    // As it was before: root stays root, is told so, and leaves files of root's.
    site.configure(&[53], "[security]\nsandbox = \"off\"\n");
    let mut server = site.start();
    let (all, _) = rights(server.id());
    assert!(all.iter().all(|rights| rights["Uid"] == "0 0 0 0" && rights["NoNewPrivs"] == "0"), "{all:#?}");
    assert!(server.log_text().contains("the server runs as root; write user = "), "{}", server.log_text());
    assert!(!open_items(&site.security(), "running").is_empty());
    let serial = site.serial();
    assert!(server.stop(PATIENCE).expect("it ends").success());
    assert_eq!(fs::metadata(site.home.join("state/zones")).unwrap().uid(), 0);

    // The primary is gone: all that is answered now is what the user reads of root's state.
    drop(primary);
    let strange = site.home.join("state/strange");
    write_file(&strange, "an operator's");
    site.configure(&[53], &security);
    let mut server = site.start();
    assert_confined(server.id());
    assert!(!server.log_text().contains("runs as root"), "{}", server.log_text());
    assert!(site.serial() >= serial);
    for path in ["state", "state/lock", "state/zones", "state/zones/dc.test", "run", "run/control"] {
        assert_eq!(fs::symlink_metadata(site.home.join(path)).unwrap().uid(), user(), "{path}");
    }
    assert_eq!(fs::metadata(&strange).unwrap().uid(), 0, "a file that is not the server's changed its owner");
    let told = site.security();
    assert_eq!(open_items(&told, "running"), Vec::<String>::new(), "{told:#}");
    assert_eq!(told["security"]["running"]["process"], server.id(), "{told:#}");
    assert_eq!(told["warnings"], serde_json::json!([]), "{told:#}");

    // A reload binds another port below 1024, with the capability that was kept.
    site.configure(&[53, 54], &security);
    let output = run_verb(&["reload"], &site.file);
    assert_eq!(output.code, 0, "{}", output.stderr);
    site.wait_answer(54);
    assert_confined(server.id());

    // A file in a folder that was not named before stays closed, and is told as what it is.
    let elsewhere = folder.subfolder("elsewhere");
    let key = elsewhere.join("k.key");
    write_file(&key, "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U=");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o755)).unwrap();
    chown(&key, Some(user()), None).unwrap();
    let with_key = |path: &Path| {
        format!(
            "[secondaries]\nallow_transfer = [{{ key = \"k.test\" }}]\n[keys.\"k.test\"]\nsecret_file = \"{}\"\n{security}",
            path.display()
        )
    };
    site.configure(&[53, 54], &with_key(&key));
    let output = run_verb(&["reload"], &site.file);
    assert_eq!(output.code, 1, "{}", output.stdout);
    let expected = format!("the sandbox of the running server keeps {} closed", elsewhere.display());
    assert!(output.stderr.contains(&expected) && output.stderr.contains("restart the server"), "{}", output.stderr);
    assert_eq!(site.ask(53).len(), 1);

    // After a restart it is open: what was named at the start is.
    let serial = site.serial();
    assert!(server.stop(PATIENCE).expect("it ends").success());
    let mut server = site.start();
    assert_confined(server.id());
    assert!(site.serial() >= serial);
    assert!(server.stop(PATIENCE).expect("it ends").success());

    // A secret that only root reads ends the start at once, not the first reload.
    let secret = site.home.join("etc/root.key");
    fs::copy(&key, &secret).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    chown(&secret, Some(0), Some(0)).unwrap();
    site.configure(&[53], &with_key(&secret));
    let open = open_items(&site.security(), "here");
    assert!(open.iter().any(|item| item.contains("user nobody cannot read it")), "{open:?}");
    let mut server = site.begin();
    let status = wait_until("the start ends", PATIENCE, || server.ended());
    let log = server.log_text();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("root.key cannot be read: Permission denied"), "{log}");
    assert!(log.contains("that is so for user nobody, whom the server has become"), "{log}");
}

#[test]
#[ignore = "needs root: make test-partition"]
fn a_user_that_is_not_there_ends_the_start_before_anything_is_changed() {
    assert!(is_root(), "only root can become another user: run `make test-partition` as root");
    let folder = open_folder();
    let site = Site::new(&folder, "127.0.0.1:1".parse().unwrap());
    site.configure(&[53], "[security]\nuser = \"no-such-user\"\n");
    let mut server = site.begin();
    let status = wait_until("the start ends", PATIENCE, || server.ended());
    assert_eq!(status.code(), Some(1));
    assert!(server.log_text().contains("/etc/passwd has no user \"no-such-user\""), "{}", server.log_text());
    assert!(!site.home.join("state").exists() && !site.home.join("run").exists());
}

/// The server as a service with a filter of system calls that does this to those that confine.
fn filtered(action: SeccompAction, variables: &[(&str, &str)]) -> Command {
    let calls =
        [libc::SYS_seccomp, libc::SYS_landlock_create_ruleset, libc::SYS_landlock_restrict_self, libc::SYS_capset];
    let rules = calls.into_iter().map(|call| (call, Vec::new())).collect();
    let machine = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, machine).unwrap();
    let program = BpfProgram::try_from(filter).unwrap();
    let mut command = Command::new(PROGRAM);
    command.env_remove("INVOCATION_ID").envs(variables.iter().copied());
    // SAFETY: the filter is made; to install it takes two system calls.
    unsafe { command.pre_exec(move || apply_filter(&program).map_err(|_| Error::last_os_error())) };
    command
}

#[test]
#[ignore = "needs root: make test-partition"]
fn a_unit_whose_filter_kills_goes_on_as_before() {
    assert!(is_root(), "ports below 1024 need root: run `make test-partition` as root");
    let folder = open_folder();
    let site = Site::new(&folder, "127.0.0.1:1".parse().unwrap());
    site.configure(&[53], "");
    let started = |command: Command| {
        let mut server = site.begin_as(command);
        server.wait_ready("answers status", PATIENCE, || {
            (run_verb(&["status", "--json"], &site.file).code == 0).then_some(())
        });
        assert!(server.stop(PATIENCE).expect("it ends").success());
        server.log_text()
    };
    let kill = SeccompAction::KillProcess;
    let log = started(filtered(kill.clone(), &[("INVOCATION_ID", "1")]));
    assert!(log.contains("the service manager's filter may kill the server"), "{log}");
    // A filter that refuses is no danger, whether the unit knows of it or not.
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    for variables in [&[][..], &[("INVOCATION_ID", "1"), ("AGGREGATOR_SANDBOX", "allowed")]] {
        let log = started(filtered(refuse.clone(), variables));
        assert!(log.contains("files are not restricted") && log.contains("system calls are not filtered"), "{log}");
    }
    // And the filter does kill who tries.
    let mut server = site.begin_as(filtered(kill, &[]));
    let status = wait_until("the filter kills it", PATIENCE, || server.ended());
    assert_eq!(status.signal(), Some(libc::SIGSYS), "{}", server.log_text());
}

//--- What must fail ---

/// The plan of a child's confinement: one folder to read, one to write.
fn paths(home: &Path) -> Paths {
    Paths { read: vec![home.join("read")], write: vec![home.join("state")], sockets: Vec::new() }
}

/// The number of an error; 0 for success.
fn code<T>(result: io::Result<T>) -> i32 {
    result.err().map_or(0, |error| error.raw_os_error().unwrap_or(-1))
}

/// The same of a system call.
fn outcome(result: libc::c_long) -> i32 {
    if result < 0 { code::<()>(Err(Error::last_os_error())) } else { 0 }
}

/// Tries everything, and returns the number of each error.
fn attempts(home: &Path) -> BTreeMap<&'static str, i32> {
    let folder = std::ffi::CString::new(home.join("mount").display().to_string()).unwrap();
    let parent = std::os::unix::process::parent_id() as i32;
    let mut found = BTreeMap::new();
    found.insert("read /etc/shadow", code(fs::read("/etc/shadow")));
    found.insert("read elsewhere", code(fs::read(home.join("elsewhere/file"))));
    found.insert("list elsewhere", code(fs::read_dir(home.join("elsewhere"))));
    found.insert("write elsewhere", code(fs::write(home.join("elsewhere/new"), "x")));
    found.insert("write what is read", code(fs::write(home.join("read/file"), "x")));
    found.insert("execute", code(Command::new("/bin/true").status()));
    // SAFETY: plain system calls; strings end in a zero, and what is mounted lies in a folder of the test.
    unsafe {
        // Of a process that cannot be, because one that is traced would wait for its tracer.
        found.insert("ptrace", outcome(libc::ptrace(libc::PTRACE_ATTACH, -1, 0, 0)));
        // The call itself: the C library would change all threads, and end the process where one cannot.
        found.insert("setuid", outcome(libc::syscall(libc::SYS_setuid, 0)));
        found.insert("setgroups", outcome(libc::syscall(libc::SYS_setgroups, 0, 0)));
        let (none, kind) = (std::ptr::null(), c"tmpfs".as_ptr());
        found.insert("unshare mounts", outcome(libc::unshare(libc::CLONE_NEWNS).into()));
        found.insert("mount", outcome(libc::mount(kind, folder.as_ptr(), kind, 0, none).into()));
        libc::umount2(folder.as_ptr(), libc::MNT_DETACH);
        found.insert("signal another process", outcome(libc::kill(parent, 0).into()));
        found.insert("clone3", outcome(libc::syscall(libc::SYS_clone3, 0, 0)));
        found.insert("io_uring", outcome(libc::syscall(libc::SYS_io_uring_setup, 0, 0)));
        found.insert("bpf", outcome(libc::syscall(libc::SYS_bpf, 0, 0, 0)));
        found.insert("socket of another family", outcome(libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0).into()));
    }
    // What the server needs.
    found.insert("ok: read", code(fs::read(home.join("read/file"))));
    found.insert("ok: resolvers", code(fs::read("/etc/hosts")));
    found.insert("ok: write", code(fs::write(home.join("state/new"), "x")));
    found.insert("ok: rename", code(fs::rename(home.join("state/new"), home.join("state/newer"))));
    found.insert("ok: remove", code(fs::remove_file(home.join("state/newer"))));
    found.insert("ok: thread", std::thread::spawn(|| 0).join().unwrap_or(-1));
    found.insert("ok: socket", code(std::net::UdpSocket::bind("127.0.0.1:0")));
    found.insert("ok: unix socket", code(std::os::unix::net::UnixDatagram::unbound()));
    found
}

/// The child; without its variables it is no test.
#[test]
fn child() {
    let (Ok(part), Some(home)) = (std::env::var(PART), std::env::var_os(HOME)) else { return };
    let home = PathBuf::from(home);
    let mut told = BTreeMap::from([("landlock", 0)]);
    let plan = |sandbox| SecurityPlan { user: None, group: None, sandbox };
    if part != "free" {
        if is_root() {
            privileges::change_thread(&account::find(USER, None).unwrap()).unwrap();
        }
        let sandbox = if part == "log" { Sandbox::Log } else { Sandbox::On };
        let confinement = security::confine(&plan(sandbox), &paths(&home));
        told.insert("landlock", confinement.files.map_or(0, |files| files.version));
        // This test's other threads are none of the server's.
        let others = "a thread that was there before keeps its rights";
        assert_eq!(confinement.missing, [others], "this machine cannot confine");
    }
    if part == "calls" {
        for &call in calls::REFUSED {
            // SAFETY: the filter answers in place of the kernel; -1 is no pointer that could be read.
            let result = unsafe { libc::syscall(call, -1, -1, -1, -1, -1, -1) };
            assert_eq!(outcome(result), libc::EPERM, "system call {call}");
        }
    } else {
        told.extend(attempts(&home));
    }
    write_file(&home.join("state/told"), &serde_json::to_string(&told).unwrap());
}

/// Runs the child; returns what it has found.
fn run_child(part: &str) -> BTreeMap<String, i32> {
    let folder = open_folder();
    for name in ["read", "state", "elsewhere", "mount"] {
        let path = folder.subfolder(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        write_file(&path.join("file"), "x");
        fs::set_permissions(path.join("file"), fs::Permissions::from_mode(0o666)).unwrap();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).env(PART, part).env(HOME, folder.path());
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{part}: {}\n{errors}", String::from_utf8_lossy(&output.stdout));
    let told = fs::read_to_string(folder.path().join("state/told")).unwrap_or_else(|error| panic!("{part}: {error}"));
    serde_json::from_str(&told).unwrap()
}

/// The attempts that succeed, but for those that must.
fn successes(told: &BTreeMap<String, i32>) -> Vec<&str> {
    let tried = told.iter().filter(|(name, code)| !name.starts_with("ok: ") && *name != "landlock" && **code == 0);
    tried.map(|(name, _)| name.as_str()).collect()
}

#[test]
fn what_was_given_up_is_refused_and_what_is_needed_is_not() {
    let told = run_child("confined");
    assert!(told["landlock"] >= 1, "this test needs a kernel with Landlock (Linux 5.13, lsm=landlock)");
    assert_eq!(successes(&told), Vec::<&str>::new(), "{told:#?}");
    for name in ["read elsewhere", "list elsewhere", "write elsewhere", "write what is read", "read /etc/shadow"] {
        assert_eq!(told[name], libc::EACCES, "{name}");
    }
    for name in [
        "execute",
        "ptrace",
        "setuid",
        "setgroups",
        "unshare mounts",
        "mount",
        "io_uring",
        "bpf",
        "socket of another family",
    ] {
        assert_eq!(told[name], libc::EPERM, "{name}");
    }
    assert_eq!(told["clone3"], libc::ENOSYS);
    if told["landlock"] >= 6 {
        assert_eq!(told["signal another process"], libc::EPERM);
    }
    let failed: Vec<_> = told.iter().filter(|(name, code)| name.starts_with("ok: ") && **code != 0).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn every_call_of_the_list_is_refused() {
    run_child("calls");
}

#[test]
fn without_a_sandbox_the_same_attempts_succeed() {
    let told = run_child("free");
    let mut expected = vec!["execute", "list elsewhere", "read elsewhere", "write elsewhere", "write what is read"];
    if is_root() {
        expected.extend([
            "mount",
            "read /etc/shadow",
            "setgroups",
            "setuid",
            "signal another process",
            "unshare mounts",
        ]);
    }
    let found = successes(&told);
    let missing: Vec<_> = expected.iter().filter(|name| !found.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?} of {told:#?}");
    assert_eq!(told["ptrace"], libc::ESRCH);
    assert_ne!(told["socket of another family"], libc::EPERM);
    assert_eq!(told["clone3"], libc::EINVAL);
}

#[test]
fn a_sandbox_that_only_logs_refuses_nothing() {
    let told = run_child("log");
    let found = successes(&told);
    assert_eq!(told["ptrace"], libc::ESRCH);
    for name in ["execute", "read elsewhere", "write elsewhere"] {
        assert!(found.contains(&name), "{name} of {told:#?}");
    }
}
