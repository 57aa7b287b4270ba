//! The first start of an instance: metadata over a socket and over a serial line, hosts that misbehave, a configuration
//! that is missing, wrong, set and changed, and the server that follows it.

mod harness;

use aggregator::metadata::{Client as MetadataClient, MetadataError};
use harness::{Client, Dname, Folder, Habit, MetadataHost, Nsd, Port, Process, Query, rtype, wait_until, write_file};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const KEY: &str = "aggregator-config";

//--- The client of the protocol ---

/// Asks a host for a key within a time.
fn get(path: &std::path::Path, key: &str, patience: Duration) -> Result<Option<String>, MetadataError> {
    let deadline = Instant::now() + patience;
    MetadataClient::connect(path, deadline)?.get(key, deadline)
}

#[test]
fn values_come_over_sockets_and_terminals() {
    let folder = Folder::new();
    let host = MetadataHost::new();
    let large = "α0123456789\n".repeat(100_000);
    for (key, value) in [("one", "value\n"), ("empty", ""), ("large", &large)] {
        host.set(key, Some(value));
    }
    let socket = folder.path().join("socket");
    host.listen(&socket);
    let terminal = host.open_terminal();
    for path in [&socket, &terminal] {
        for habit in [Habit::Answers, Habit::Noisy, Habit::Slow] {
            host.behave(habit);
            let patience = Duration::from_secs(40);
            assert_eq!(get(path, "one", patience).unwrap().as_deref(), Some("value\n"), "{habit:?} {path:?}");
            assert_eq!(get(path, "empty", patience).unwrap().as_deref(), Some(""));
            assert_eq!(get(path, "nothing", patience).unwrap(), None);
        }
        host.behave(Habit::Answers);
        assert_eq!(get(path, "large", Duration::from_secs(40)).unwrap().as_deref(), Some(large.as_str()));
    }
}

#[test]
fn what_firmware_left_half_sent_costs_no_second_attempt() {
    let host = MetadataHost::new();
    host.set("one", Some("value"));
    let terminal = host.open_terminal();
    // One of these the host takes for a command and answers, the other for a damaged frame.
    for rest in ["\x1b[2J\x1b[01;01H", "V2 21 4ef30954 4ba8e8"] {
        std::fs::write(&terminal, rest).unwrap();
        let start = Instant::now();
        assert_eq!(get(&terminal, "one", Duration::from_secs(20)).unwrap().as_deref(), Some("value"));
        // After an attempt that has failed comes a pause.
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    }
}

#[test]
fn no_host_makes_anybody_wait_for_ever() {
    let folder = Folder::new();
    let host = MetadataHost::new();
    let socket = folder.path().join("socket");
    host.listen(&socket);
    let terminal = host.open_terminal();
    let patience = Duration::from_millis(1500);
    let start = Instant::now();
    for path in [&socket, &terminal] {
        host.behave(Habit::Silent);
        assert!(matches!(get(path, "one", patience), Err(MetadataError::Silent(_))));
        host.behave(Habit::Old);
        assert!(matches!(get(path, "one", patience), Err(MetadataError::OldHost(_))));
    }
    let nowhere = folder.path().join("nowhere");
    assert!(matches!(get(&nowhere, "one", patience), Err(MetadataError::Open { .. })));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn a_long_value_arrives_although_its_time_is_over() {
    let folder = Folder::new();
    let host = MetadataHost::new();
    let socket = folder.path().join("socket");
    host.listen(&socket);
    let value = "0123456789\n".repeat(9_000);
    host.set("long", Some(&value));
    host.behave(Habit::Paced);
    let (start, patience) = (Instant::now(), Duration::from_millis(1500));
    assert_eq!(get(&socket, "long", patience).unwrap().as_deref(), Some(value.as_str()));
    assert!(start.elapsed() > patience, "{:?}: it came too fast to tell", start.elapsed());
    // One that stops in the middle is waited for no longer than a moment.
    host.behave(Habit::Halfway);
    let start = Instant::now();
    assert!(matches!(get(&socket, "long", patience), Err(MetadataError::Silent(_))));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

//--- The whole start ---

/// A datacenter, a host that knows an instance, and the instance.
struct Instance {
    folder: Folder,
    host: MetadataHost,
    server: SocketAddr,
    primary: SocketAddr,
    _nsd: harness::Peer,
    process: Option<Process>,
}

impl Instance {
    fn new() -> Instance {
        let folder = Folder::new();
        let zone = "$ORIGIN dc.test.\n$TTL 30\n@ IN SOA ns.dc.test. h.dc.test. 1 30 60 2592000 30\n\
                    @ IN NS ns.dc.test.\nweb IN A 192.0.2.1\nmail IN A 192.0.2.2\n";
        let nsd = Nsd::start(&folder, &[(Dname::parse("dc.test"), zone.to_owned())]);
        let host = MetadataHost::new();
        host.listen(&folder.path().join("host"));
        let server = Port::reserve().release();
        std::fs::create_dir(folder.path().join("run")).unwrap();
        // As root, the server becomes another user, who needs the way here and a folder of its own.
        open_to_all(&folder, "");
        open_to_all(&folder, "run");
        Instance { folder, host, server, primary: nsd.address(), _nsd: nsd, process: None }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A configuration whose region has this name.
    fn configuration(&self, region: &str) -> String {
        let (server, primary, run) = (self.server, self.primary, self.path("run"));
        let run = run.display();
        format!(
            "[server]\nname = \"ns.test\"\nlisten = \"{server}\"\n[state]\nfolder = \"{run}/state\"\n[metrics]\n\
             listen = []\n[control]\nsocket = \"{run}/control\"\n[zones]\n\"dc.test\" = \"{primary}\"\n\
             [aggregations]\n\"{region}\" = [\"dc.test\"]\n"
        )
    }

    fn boot(&mut self, arguments: &[&str], environment: Option<&str>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
        command.arg("boot").args(arguments).arg("--config").arg(self.path("mounted.toml"));
        command.arg("--folder").arg(self.path("boot"));
        if let Some(text) = environment {
            command.env("AGGREGATOR_CONFIG", text);
        }
        self.process = Some(Process::start("aggregator boot", &mut command, &self.path("log")));
    }

    /// Starts with the host, which is looked at only when asked.
    fn boot_with_host(&mut self) {
        let host = self.path("host").display().to_string();
        self.boot(&["--host", &host, "--poll", "0s", "--patience", "3s"], None);
    }

    fn log(&self) -> String {
        self.process.as_ref().unwrap().log_text()
    }

    fn wait_for_log(&self, text: &str) {
        wait_until(&format!("the log says {text:?}"), Duration::from_secs(20), || {
            self.log().contains(text).then_some(())
        });
    }

    /// Waits until the host has been asked again, some times.
    fn wait_for_more_looks(&self) {
        let looks = self.host.asked().len();
        wait_until("more looks", Duration::from_secs(20), || (self.host.asked().len() > looks + 5).then_some(()));
    }

    /// Runs a verb without a file or a socket on its command line, as an operator on the instance does.
    fn verb(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
        let output = command.env("AGGREGATOR_BOOT", self.path("boot")).args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Waits until a name of a region has its address.
    fn wait_for_region(&self, region: &str) {
        let query = Query::new(&Dname::parse(&format!("web.{region}")), rtype::A);
        let mut client = Client::new(self.server).with_deadline(Duration::from_millis(200));
        wait_until(&format!("{region} is served"), Duration::from_secs(20), || {
            client.ask(&query).is_ok_and(|answer| answer.answer.len() == 1).then_some(())
        });
    }

    /// Runs `aggregator reload` as an operator on the instance does; what it said.
    fn reload(&self) -> (bool, String) {
        self.verb(&["reload", "--socket", &self.path("run/control").display().to_string()])
    }

    fn stop(&mut self) -> std::process::ExitStatus {
        self.process.as_mut().unwrap().stop(Duration::from_secs(10)).expect("it ends")
    }
}

fn open_to_all(folder: &Folder, name: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder.path().join(name), std::fs::Permissions::from_mode(0o777)).unwrap();
}

#[test]
fn metadata_is_waited_for_then_followed() {
    let mut instance = Instance::new();
    instance.boot_with_host();
    instance.wait_for_log("metadata has no key \"aggregator-config\"");
    assert!(instance.log().contains("triton instance metadata set INSTANCE aggregator-config="), "{}", instance.log());
    instance.host.set(KEY, Some("[zones]\nnonsense\n"));
    instance.wait_for_log("aggregator-config:2:");
    instance.host.set(KEY, Some(&instance.configuration("one.test")));
    instance.wait_for_region("one.test");

    // What an operator changes arrives when it is asked for.
    instance.host.set(KEY, Some(&instance.configuration("two.test")));
    let (ok, text) = instance.reload();
    assert!(ok, "{text}");
    instance.wait_for_region("two.test");
    instance.host.set(KEY, Some("[zones]\n\"a..b\" = \"192.0.2.1\"\n"));
    let (ok, text) = instance.reload();
    assert!(!ok && text.contains("aggregator-config:2:"), "{text}");
    instance.wait_for_region("two.test");
    instance.host.set(KEY, Some(&instance.configuration("three.test")));
    instance.process.as_ref().unwrap().signal(libc::SIGHUP);
    instance.wait_for_region("three.test");
    assert!(instance.stop().success(), "{}", instance.log());

    // The next start does not depend on the host.
    instance.host.behave(Habit::Silent);
    instance.boot_with_host();
    instance.wait_for_region("three.test");
    assert!(instance.log().contains("the host does not answer"), "{}", instance.log());
    assert!(instance.stop().success());
}

#[test]
fn keys_of_those_who_may_log_in_are_written_and_taken_away() {
    let mut instance = Instance::new();
    let (host, keys) = (instance.path("host").display().to_string(), instance.path("login/keys"));
    let is_there = |wanted: Option<&str>| std::fs::read_to_string(&keys).ok().as_deref() == wanted;
    instance.host.set("root_authorized_keys", Some("ssh-ed25519 AAAA one"));
    instance.boot(&["--host", &host, "--poll", "0s", "--login", &keys.display().to_string()], None);
    // Whoever looks for what is wrong with the configuration must get in.
    instance.wait_for_log("there is no configuration yet");
    assert!(is_there(Some("ssh-ed25519 AAAA one\n")), "{}", instance.log());
    instance.host.set(KEY, Some(&instance.configuration("one.test")));
    instance.wait_for_region("one.test");
    instance.host.set("root_authorized_keys", Some("ssh-ed25519 AAAB two\n"));
    assert!(instance.reload().0 && is_there(Some("ssh-ed25519 AAAB two\n")), "{}", instance.log());
    instance.host.set("root_authorized_keys", None);
    assert!(instance.reload().0 && is_there(None), "{}", instance.log());
    assert!(instance.log().contains("nobody may log in"), "{}", instance.log());
}

#[test]
fn polling_needs_nobody_to_ask() {
    let mut instance = Instance::new();
    instance.host.set(KEY, Some(&instance.configuration("one.test")));
    let host = instance.path("host").display().to_string();
    instance.boot(&["--host", &host, "--poll", "200ms"], None);
    instance.wait_for_region("one.test");
    instance.host.set(KEY, Some(&instance.configuration("two.test")));
    instance.wait_for_region("two.test");
    // What all replicas shall go without is said in the metadata that they share.
    let drain = "[[drains]]\nmember = \"dc.test\"\nnames = \"web\"\n";
    instance.host.set(KEY, Some(&(instance.configuration("two.test") + drain)));
    let query = Query::new(&Dname::parse("web.two.test"), rtype::A);
    let mut client = Client::new(instance.server).with_deadline(Duration::from_millis(200));
    wait_until("web is drained", Duration::from_secs(20), || {
        client.ask(&query).is_ok_and(|answer| answer.rcode() == 3).then_some(())
    });
    let asked = instance.host.asked();
    assert!(asked.iter().all(|key| key == KEY), "{asked:?}");
}

#[test]
fn what_the_server_refuses_is_tried_once_and_starts_nothing() {
    let mut instance = Instance::new();
    let one = instance.configuration("one.test");
    instance.host.set(KEY, Some(&one));
    let host = instance.path("host").display().to_string();
    instance.boot(&["--host", &host, "--poll", "100ms"], None);
    instance.wait_for_region("one.test");
    // Valid, but no machine has this address.
    let bad = one.replace(&instance.server.to_string(), "192.0.2.99:53");
    instance.host.set(KEY, Some(&bad));
    instance.wait_for_log("the server has refused what metadata says");
    instance.wait_for_more_looks();
    let log = instance.log();
    assert_eq!(log.matches("the server has refused").count(), 1, "{log}");
    assert_eq!(log.matches("configuration not reloaded").count(), 1, "{log}");
    let path = instance.path("boot/config.toml");
    let kept = || std::fs::read_to_string(&path).unwrap();
    assert_eq!(kept(), one);
    // A power cut, and the host says the same.
    assert!(instance.stop().success());
    instance.boot(&["--host", &host, "--poll", "100ms"], None);
    instance.wait_for_region("one.test");
    instance.wait_for_log("no server has taken what metadata says");
    // A server that has never run could not refuse the next one.
    assert!(instance.stop().success());
    let worse = bad.replace("192.0.2.99", "192.0.2.98");
    instance.host.set(KEY, Some(&worse));
    instance.boot(&["--host", &host, "--poll", "100ms"], None);
    instance.wait_for_log("the server does not start with what is new");
    instance.wait_for_region("one.test");
    instance.wait_for_log("the server has refused what metadata says");
    assert_eq!(kept(), one);
    // Whoever corrects it is heard, also with another control socket, and after that.
    for (region, socket) in [("two.test", "run/other"), ("three.test", "run/other"), ("four.test", "run/control")] {
        let (old, new) = (instance.path("run/control"), instance.path(socket));
        let text = instance.configuration(region);
        instance.host.set(KEY, Some(&text.replace(&old.display().to_string(), &new.display().to_string())));
        instance.wait_for_region(region);
    }
    assert!(instance.stop().success());
}

#[test]
fn a_server_that_starts_with_what_is_new_ends_the_trial() {
    let mut instance = Instance::new();
    instance.host.set(KEY, Some(&instance.configuration("one.test")));
    instance.boot_with_host();
    instance.wait_for_region("one.test");
    assert!(instance.stop().success());
    // It is new, and there is something to go back to.
    instance.host.set(KEY, Some(&instance.configuration("two.test")));
    instance.boot_with_host();
    instance.wait_for_region("two.test");
    let previous = instance.path("boot/config.previous");
    let has_ended =
        || wait_until("the trial has ended", Duration::from_secs(20), || (!previous.exists()).then_some(()));
    has_ended();
    assert!(instance.stop().success());
    instance.host.behave(Habit::Silent);
    instance.boot_with_host();
    instance.wait_for_region("two.test");
    assert!(instance.stop().success());

    // Somebody else runs the server.
    instance.host.behave(Habit::Answers);
    instance.host.set(KEY, Some(&instance.configuration("three.test")));
    let host = instance.path("host").display().to_string();
    instance.boot(&["--watch", "--host", &host, "--poll", "100ms"], None);
    instance.wait_for_log("configuration from metadata");
    wait_until("the trial has begun", Duration::from_secs(20), || previous.exists().then_some(()));
    let start = |log: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
        command.args(["run", "--config", &instance.path("boot/config.toml").display().to_string()]);
        Process::start("aggregator run", &mut command, &instance.path(log))
    };
    let mut server = start("server.log");
    instance.wait_for_region("three.test");
    has_ended();
    let kept = std::fs::read_to_string(instance.path("boot/config.toml")).unwrap();
    assert!(kept.contains("three.test") && !instance.path("boot/config.refused").exists(), "{kept}");

    // What is wrong is told to each server that comes, once.
    instance.host.set(KEY, Some("[zones]\n\"a..b\" = \"192.0.2.1\"\n"));
    let times_told = |server: &Process| server.log_text().matches("configuration not reloaded").count();
    wait_until("it is told", Duration::from_secs(20), || (times_told(&server) == 1).then_some(()));
    assert!(server.stop(Duration::from_secs(10)).expect("it ends").success());
    let server = start("server-2.log");
    wait_until("it is told again", Duration::from_secs(20), || (times_told(&server) == 1).then_some(()));
    instance.wait_for_more_looks();
    assert_eq!(times_told(&server), 1, "{}", server.log_text());
}

#[test]
fn what_is_wrong_in_metadata_is_seen_by_monitoring() {
    use std::io::{Read, Write};
    let mut instance = Instance::new();
    let metrics = Port::reserve().release();
    let with_metrics = |text: String| text.replace("listen = []", &format!("listen = \"{metrics}\""));
    instance.host.set(KEY, Some(&with_metrics(instance.configuration("one.test"))));
    let host = instance.path("host").display().to_string();
    instance.boot(&["--host", &host, "--poll", "100ms"], None);
    instance.wait_for_region("one.test");
    let wait_for_numbers = |failed: u32, is_current: u32| {
        let expected = [
            format!("aggregator_reloads_total{{result=\"failed\"}} {failed}\n"),
            format!("aggregator_config_last_reload_successful {is_current}\n"),
        ];
        wait_until(&format!("{expected:?}"), Duration::from_secs(20), || {
            let mut stream = std::net::TcpStream::connect(metrics).ok()?;
            write!(stream, "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
            let mut page = String::new();
            stream.read_to_string(&mut page).ok()?;
            expected.iter().all(|line| page.contains(line)).then_some(())
        });
    };
    wait_for_numbers(0, 1);
    instance.host.set(KEY, Some("[zones]\n\"a..b\" = \"192.0.2.1\"\n"));
    wait_for_numbers(1, 0);
    instance.wait_for_more_looks();
    wait_for_numbers(1, 0);
    // Whoever orders a reload is told, and nothing old is reloaded, which would count as well.
    let (ok, text) = instance.reload();
    assert!(!ok && text.contains("aggregator-config:2:"), "{text}");
    wait_for_numbers(2, 0);
    instance.process.as_ref().unwrap().signal(libc::SIGHUP);
    wait_for_numbers(3, 0);
    // The words of before are no news, but an end of the mistake.
    instance.host.set(KEY, Some(&with_metrics(instance.configuration("one.test"))));
    wait_for_numbers(3, 1);
}

#[test]
fn verbs_find_the_server_by_what_was_fetched() {
    let mut instance = Instance::new();
    instance.host.set(KEY, Some(&instance.configuration("one.test")));
    instance.boot_with_host();
    instance.wait_for_region("one.test");
    for arguments in [&["status"][..], &["check"], &["status", "one.test"]] {
        let (ok, text) = instance.verb(arguments);
        assert!(ok && text.contains("one.test"), "{arguments:?}: {text}");
    }
}

#[test]
fn a_server_does_not_outlive_its_parent() {
    let mut instance = Instance::new();
    instance.host.set(KEY, Some(&instance.configuration("one.test")));
    instance.boot_with_host();
    instance.wait_for_region("one.test");
    instance.process.as_ref().unwrap().signal(libc::SIGKILL);
    let control = instance.path("run/control");
    wait_until("the server has ended", Duration::from_secs(10), || {
        std::os::unix::net::UnixStream::connect(&control).is_err().then_some(())
    });
}

#[test]
fn the_network_is_written_as_the_host_describes_it() {
    let mut instance = Instance::new();
    instance.host.set(
        "sdc:nics",
        Some(
            r#"[{"mac":"2:8:20:a:b:c","primary":true,"ips":["203.0.113.53/24"],"gateways":["203.0.113.1"]},
                {"mac":"2:8:20:a:b:d","ips":["dhcp"]}]"#,
        ),
    );
    let routes =
        r#"[{"linklocal":false,"dst":"10.9.0.0/16","gateway":"203.0.113.9"},{"dst":"x","gateway":"203.0.113.9"}]"#;
    instance.host.set("sdc:routes", Some(routes));
    let (host, network) = (instance.path("host").display().to_string(), instance.path("network"));
    instance.boot(&["--host", &host, "--network", &network.display().to_string(), "--only-network"], None);
    let wait_for = |name: &str, end: &str| {
        wait_until(name, Duration::from_secs(20), || {
            std::fs::read_to_string(network.join(name)).is_ok_and(|text| text.ends_with(end)).then_some(())
        });
    };
    wait_for("10-triton-0.network", "[Route]\nDestination=10.9.0.0/16\nGateway=203.0.113.9\n");
    wait_for("10-triton-1.network", "[DHCPv4]\nUseGateway=no\n");
    instance.wait_for_log("sdc:routes is left out");
}

#[test]
fn a_server_that_does_not_reply_is_asked_again_and_keeps_nobody() {
    use std::io::{BufRead, BufReader, Write};
    let mut instance = Instance::new();
    let server = std::os::unix::net::UnixListener::bind(instance.path("run/control")).unwrap();
    let kept = instance.path("boot/config.toml");
    std::fs::create_dir(instance.path("boot")).unwrap();
    write_file(&kept, &instance.configuration("zero.test"));
    instance.host.set(KEY, Some(&instance.configuration("one.test")));
    let host = instance.path("host").display().to_string();
    instance.boot(&["--watch", "--host", &host, "--poll", "100ms"], None);
    let accept = || {
        let (stream, _) = server.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        assert!(line.contains("reload"), "{line}");
        stream
    };
    drop(accept());
    write!(accept(), "{{\"ok\":true,\"data\":null,\"text_bytes\":4}}\nwell").unwrap();
    instance.wait_for_log("aggregator boot: well");
    wait_until("it is kept", Duration::from_secs(20), || {
        std::fs::read_to_string(&kept).unwrap().contains("one.test").then_some(())
    });
    instance.host.set(KEY, Some(&instance.configuration("two.test")));
    let _held = accept();
    let start = Instant::now();
    assert!(instance.stop().success());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(std::fs::read_to_string(&kept).unwrap().contains("one.test"), "nobody has taken the other");
}

#[test]
fn the_environment_and_a_file_do_without_a_host() {
    let mut instance = Instance::new();
    let text = instance.configuration("environment.test");
    instance.boot(&[], Some(&text));
    instance.wait_for_region("environment.test");
    assert!(instance.stop().success());
    write_file(&instance.path("mounted.toml"), &instance.configuration("file.test"));
    instance.boot(&[], Some(&text));
    instance.wait_for_region("file.test");
    assert!(instance.stop().success());
}

#[test]
fn a_file_that_comes_late_is_found_and_signals_end_the_wait() {
    let mut instance = Instance::new();
    instance.boot(&[], None);
    instance.wait_for_log("the environment has no AGGREGATOR_CONFIG");
    assert!(instance.stop().success(), "{}", instance.log());
    instance.boot(&["--poll", "1s"], None);
    instance.wait_for_log("there is no configuration yet");
    write_file(&instance.path("mounted.toml"), &instance.configuration("late.test"));
    instance.wait_for_region("late.test");
}

#[test]
fn a_server_that_ends_takes_its_parent_along() {
    let mut instance = Instance::new();
    instance.host.set(KEY, Some(&instance.configuration("one.test")));
    instance.boot_with_host();
    instance.wait_for_region("one.test");
    let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
    assert!(command.arg("stop").arg("--socket").arg(instance.path("run/control")).status().unwrap().success());
    instance.wait_for_log("the server has ended");
    let process = instance.process.as_mut().unwrap();
    assert!(process.stop(Duration::from_secs(10)).expect("it has ended").success());
}
