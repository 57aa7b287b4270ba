//! The demonstration as a user runs it: what it prints, how it ends, and what it leaves behind.

mod harness;

use harness::{Client, Dname, Port, Query, rtype};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// The demonstration with a folder of its own for what it leaves on disk.
struct Demo {
    folder: TempDir,
    child: Child,
}

impl Demo {
    fn start(arguments: &[&str]) -> Demo {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
        command.arg("demo").args(arguments).env("TMPDIR", folder.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Demo { folder, child }
    }

    /// Reads lines until one contains a text; that line.
    fn read_until(&mut self, text: &str) -> String {
        // One octet at a time: what follows must stay for others to read.
        let output = self.child.stdout.as_mut().unwrap();
        let mut seen = String::new();
        for line in BufReader::with_capacity(1, output).lines() {
            let line = line.unwrap();
            if line.contains(text) {
                return line;
            }
            seen += &(line + "\n");
        }
        panic!("no {text:?} in\n{seen}");
    }

    /// Changes the configuration when the region is complete, and reloads it.
    fn reload_with(&mut self, change: impl FnOnce(&str) -> String) {
        let line = self.read_until("The configuration, ");
        let config = line.trim_start_matches("The configuration, ").trim_end_matches(':').to_string();
        self.read_until("answers for all datacenters");
        fs::write(&config, change(&fs::read_to_string(&config).unwrap())).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_aggregator")).args(["reload", "-c", &config]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// Exit code and the rest of both outputs, after the end.
    fn finish(self) -> (i32, String, String, TempDir) {
        let Output { status, stdout, stderr } = self.child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code().expect("no signal"), text(stdout), text(stderr), self.folder)
    }

    fn is_empty(folder: &TempDir) -> bool {
        folder.path().read_dir().unwrap().next().is_none()
    }
}

#[test]
fn a_short_run_shows_every_kind_of_change_and_succeeds() {
    let (code, output, problem, folder) = Demo::start(&["--for", "14s"]).finish();
    assert_eq!((code, problem.as_str()), (0, ""), "{output}");
    for text in [
        "\"us-west-3.cns.example.com\": \"127.0.0.1:",
        "\"us-west-3.cns.example.com\": [\"10.3.0.0/16\"]\n",
        "\"us-west.cns.example.com\": {\n",
        "\"steering\": { \"prefer\": \"nearest\", \"stale_after\": \"2s\" }",
        " +subnet=10.1.0.0\n",
        "\n  dig @127.0.0.1 -p ",
        " web.svc.acme.us-west.cns.example.com SRV\n",
        "/metrics\n",
        "control.sock\n",
        ": scale up by 2, serial ",
        ": scale down by 1, serial ",
        ": instance web-0 down, serial ",
        ": datacenter away, ",
        ": datacenter back, serial ",
        "us-west followed in ",
        "all answered from the last good copy\n",
        "\n3 clients were served by their own datacenters while these were there",
        ", 0 without an answer\n",
    ] {
        assert!(output.contains(text), "{text:?} in\n{output}");
    }
    let summary = output.lines().find(|line| line.contains(" changes made, ")).unwrap();
    let (made, rest) = summary.split_once(" changes made, ").unwrap();
    assert!(rest.starts_with(&format!("{made} followed; ")) && made.parse::<u32>().unwrap() >= 5, "{summary}");
    assert_eq!(output.matches(" followed in ").count().to_string(), made, "{output}");
    // Once as it happens, and once in the summary.
    for moved in [": its client went to us-west-1 after ", ": its client came home after "] {
        let lines: Vec<&str> = output.lines().filter(|line| line.contains(moved)).collect();
        assert!(lines.len() == 2 && lines.iter().all(|line| line.contains("us-west-3")), "{output}");
    }
    assert!(!output.contains('\x1b'), "this is no terminal");
    let events = output.lines().filter(|line| line.contains("us-west-") && line.contains("s  "));
    assert!(events.clone().count() >= 6 && events.clone().all(|line| line.len() <= 100), "{output}");
    assert!(Demo::is_empty(&folder), "nothing is left behind");
}

#[test]
fn the_shortest_run_makes_a_change_and_succeeds() {
    let (code, output, problem, _) = Demo::start(&["--for", "100ms"]).finish();
    assert_eq!((code, problem.as_str()), (0, ""), "{output}");
    assert!(output.contains("\n1 changes made, 1 followed; "), "{output}");
}

#[test]
fn an_operator_can_look_in_and_stop_it() {
    let mut demo = Demo::start(&[]);
    let line = demo.read_until(" status -s ");
    let socket = line.rsplit(' ').next().unwrap().to_string();
    demo.read_until("answers for all datacenters");
    let call = |verb: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_aggregator")).args([verb, "-s", &socket]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let status = call("status");
    assert!(status.contains("us-west.cns.example.com") && status.contains("3 of 3 members"), "{status}");
    call("stop");
    let (code, output, problem, folder) = demo.finish();
    assert_eq!((code, problem.as_str()), (0, ""), "{output}");
    assert!(output.contains("The server was stopped.\n"), "{output}");
    assert!(Demo::is_empty(&folder));
}

#[test]
fn a_region_that_does_not_follow_fails_it() {
    let mut demo = Demo::start(&["--for", "6s"]);
    // A server that asks where nobody answers cannot follow.
    demo.reload_with(|text| {
        let dead = |line: &str| match line.split_once(".cns.example.com\": \"127.0.0.1:") {
            Some((zone, port)) => {
                format!("{zone}.cns.example.com\": \"127.0.0.1:9\"{}\n", &port[port.find('"').unwrap() + 1..])
            }
            None => format!("{line}\n"),
        };
        let changed: String = text.lines().map(dead).collect();
        assert_eq!(changed.matches("127.0.0.1:9\"").count(), 3, "{changed}");
        changed
    });
    let (code, output, problem, folder) = demo.finish();
    assert_eq!(code, 1, "{output}{problem}");
    assert!(output.contains("  FAULT us-west-"), "{output}");
    assert!(problem.starts_with("The region, or a client, did not follow every change:\n  us-west-"), "{problem}");
    assert!(problem.contains(": not followed within 5 s: the answer "), "{problem}");
    let log = problem.lines().last().unwrap().trim_start_matches("The log of the server is ");
    assert!(Path::new(log).starts_with(folder.path()), "{log}");
    assert!(fs::read_to_string(log).unwrap().contains("configuration reloaded"), "{log}");
}

#[test]
fn clients_that_are_not_led_home_fail_it() {
    let mut demo = Demo::start(&["--for", "3s"]);
    demo.reload_with(|text| text.replace("\"nearest\"", "\"off\""));
    let (code, output, problem, _) = demo.finish();
    assert_eq!(code, 1, "{output}{problem}");
    let everyone = "it was served by us-west-1 and us-west-2 and us-west-3\n";
    for home in ["us-west-1", "us-west-2", "us-west-3"] {
        let fault = format!("  {home}: its client was not served by {home} within 1 s: {everyone}");
        assert!(problem.contains(&fault), "{problem}");
    }
}

#[test]
fn clients_that_stay_with_a_datacenter_that_is_away_fail_it() {
    let mut demo = Demo::start(&["--for", "14s"]);
    demo.reload_with(|text| text.replace("\"stale_after\": \"2s\"", "\"stale_after\": \"never\""));
    let (code, output, problem, _) = demo.finish();
    assert_eq!(code, 1, "{output}{problem}");
    let fault = "\n  us-west-3: its client was not served by us-west-1 within 7 s: it was served by us-west-3\n";
    assert!(problem.contains(fault) && problem.lines().count() == 3, "{problem}");
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let mut demo = Demo::start(&["--for", "30s"]);
    demo.read_until("answers for all datacenters");
    drop(demo.child.stdout.take());
    let mut problem = String::new();
    demo.child.stderr.take().unwrap().read_to_string(&mut problem).unwrap();
    assert_eq!((demo.child.wait().unwrap().code(), problem.as_str()), (Some(0), ""));
    assert!(Demo::is_empty(&demo.folder));
}

#[test]
fn a_server_that_cannot_start_fails_it() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
    let output = command.args(["demo", "--for", "1s"]).env("TMPDIR", missing).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let problem = String::from_utf8(output.stderr).unwrap();
    assert!(problem.starts_with("cannot make a temporary folder: ") && problem.contains("missing"), "{problem}");
}

/// As in a container: addresses that the outside reaches, and the only folder that may be written to.
#[test]
fn addresses_and_folder_can_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("other"), "").unwrap();
    let (mut dns, mut metrics) = (Port::reserve(), Port::reserve());
    let (dns, metrics) = (dns.release(), metrics.release());
    let everywhere = format!("0.0.0.0:{}", dns.port());
    let path = folder.path().display().to_string();
    let mut demo = Demo::start(&["--listen", &everywhere, "--metrics", &metrics.to_string(), "--folder", &path]);
    demo.read_until(&format!("dig @127.0.0.1 -p {} web.svc.acme.us-west.cns.example.com A", dns.port()));
    demo.read_until("answers for all datacenters");
    let query = Query::new(&Dname::parse("web.svc.acme.us-west.cns.example.com"), rtype::A);
    let answer = Client::new(dns).ask(&query).expect("an answer");
    assert!(answer.answer.len() >= 3, "{answer:?}");
    assert!(std::net::TcpStream::connect(metrics).is_ok());
    let socket = folder.path().join("control.sock");
    let output = Command::new(env!("CARGO_BIN_EXE_aggregator")).arg("stop").arg("-s").arg(&socket).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let (code, output, problem, temporary) = demo.finish();
    assert_eq!((code, problem.as_str()), (0, ""), "{output}");
    assert!(Demo::is_empty(&temporary), "the temporary folder was not asked for");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["other"], "what is not ours stays, and nothing else");

    let missing = format!("{path}/missing");
    let (code, _, problem, _) = Demo::start(&["--folder", &missing]).finish();
    assert_eq!(code, 1);
    assert!(problem.starts_with("cannot use the folder: ") && problem.contains("/missing: "), "{problem}");
    // One that cannot be had is told, and no other is taken in its place.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, _, problem, _) = Demo::start(&["--listen", &taken.local_addr().unwrap().to_string()]).finish();
    assert_eq!(code, 1);
    assert!(problem.contains(&taken.local_addr().unwrap().to_string()), "{problem}");
}
