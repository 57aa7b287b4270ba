//! The command line as a user meets it: exit codes, messages, and what goes to which output.

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
    command.stdin(Stdio::null());
    command
}

/// Exit code, standard output, standard error.
fn outcome(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().expect("no signal"), text(output.stdout), text(output.stderr))
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    outcome(command().args(arguments).output().unwrap())
}

/// A folder with a configuration file whose control socket is in it.
struct Fixture(TempDir);

impl Fixture {
    fn new(listen: &str, metrics: &str) -> Fixture {
        let fixture = Fixture(tempfile::tempdir().unwrap());
        fixture.write(&format!(
            "[server]\nlisten = \"{listen}\"\n[state]\nfolder = false\n[metrics]\nlisten = {metrics}\n\
             [control]\nsocket = \"c.sock\"\n[zones]\n\"a.example\" = \"192.0.2.1\"\n"
        ));
        fixture
    }

    fn write(&self, text: &str) {
        fs::write(self.config(), text).unwrap();
    }

    fn config(&self) -> PathBuf {
        self.0.path().join("c.toml")
    }

    fn socket(&self) -> PathBuf {
        self.0.path().join("c.sock")
    }

    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        outcome(command().args(arguments).arg("-c").arg(self.config()).output().unwrap())
    }

    /// A server that gives one prepared reply; yields the request that it got.
    fn answer_once(&self, head: Value, text: &str) -> std::thread::JoinHandle<Value> {
        let listener = UnixListener::bind(self.socket()).unwrap();
        let (mut head, text) = (head, text.to_string());
        head["text_bytes"] = json!(text.len());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            stream.write_all(format!("{head}\n{text}").as_bytes()).unwrap();
            serde_json::from_str(&line).unwrap()
        })
    }
}

#[test]
fn wrong_usage_is_2() {
    for arguments in [
        &[][..],
        &["dance"],
        &["status", "a", "b"],
        &["retransfer"],
        &["dump"],
        &["diff"],
        &["diff", "a", "--from", "-1"],
        &["diff", "a", "--from", "4294967296"],
        &["diff", "a", "--to", "now"],
        &["history", "a", "--limit", "-1"],
        &["rollback", "a"],
        &["rollback", "a", "--to", "1", "--release"],
        &["rollback", "a", "--release", "--reason", "why"],
        &["rollback", "a", "--to", "1", "--yes", "--dry-run"],
        &["notify", "a", "b"],
        &["lookup"],
        &["lookup", "a", "TYPE"],
        &["lookup", "a", "A", "B"],
        &["lookup", "a", "--client", "somebody"],
        &["lookup", "a", "--client", "192.0.2.1/24"],
        &["check", "--frequently"],
        &["demo", "--for", "soon"],
        &["demo", "--json"],
        &["run", "--json"],
        &["run", "-s", "/nowhere"],
        &["check", "-s", "/nowhere"],
        &["check", "-c"],
    ] {
        let (code, output, problem) = run(arguments);
        assert_eq!((code, output.as_str()), (2, ""), "{arguments:?} {problem}");
        assert!(problem.contains("Usage:") || problem.contains("--help"), "{arguments:?} {problem}");
    }
}

#[test]
fn help_and_version_are_0() {
    let (code, output, problem) = run(&["--help"]);
    assert_eq!((code, problem.as_str()), (0, ""));
    for verb in [
        "run",
        "check",
        "reload",
        "status",
        "refresh",
        "retransfer",
        "dump",
        "diff",
        "history",
        "rollback",
        "lookup",
        "drain",
        "undrain",
        "notify",
        "top",
        "stop",
        "demo",
        "version",
    ] {
        assert!(output.contains(&format!("\n  {verb} ")), "{verb} in {output}");
    }
    let commit = aggregator::metrics::COMMIT;
    assert_eq!(run(&["version"]).1, format!("aggregator {} ({commit})\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(run(&["--version"]).1, concat!("aggregator ", env!("CARGO_PKG_VERSION"), "\n"));
    let version: Value = serde_json::from_str(&run(&["version", "--json"]).1).unwrap();
    assert_eq!(version, json!({ "version": env!("CARGO_PKG_VERSION"), "commit": commit }));
}

#[test]
fn no_server_is_3() {
    let fixture = Fixture::new("127.0.0.1:0", "[]");
    for arguments in [
        &["status"][..],
        &["reload"],
        &["refresh"],
        &["retransfer", "a.example"],
        &["dump", "a.example"],
        &["diff", "a.example"],
        &["lookup", "a.example"],
        &["notify"],
        &["top"],
        &["stop"],
    ] {
        let (code, output, problem) = fixture.run(arguments);
        assert_eq!((code, output.as_str()), (3, ""), "{arguments:?} {problem}");
        let expected = format!("no server is running: nobody listens at {}\n", fixture.socket().display());
        assert_eq!(problem, expected);
    }
    let other = fixture.0.path().join("other.sock");
    let (code, _, problem) = fixture.run(&["status", "-s", other.to_str().unwrap()]);
    assert!(code == 3 && problem.contains("other.sock"), "{code} {problem}");
}

#[test]
fn a_file_with_mistakes_still_leads_to_its_server() {
    let fixture = Fixture::new("127.0.0.1:0", "[]");
    for broken in ["zone = 1\n[control]\nsocket = \"c.sock\"\n", "[control]\nsocket = \"c.sock\"\n[zones\n"] {
        fixture.write(broken);
        let (code, _, problem) = fixture.run(&["reload"]);
        assert!(code == 3 && problem.contains("/c.sock\n"), "{code} {problem}");
    }
    fixture.write("[control\nsocket = \"c.sock\"\n");
    let (code, _, problem) = fixture.run(&["stop"]);
    assert_eq!(code, 1);
    assert!(problem.contains("c.toml:1:9: ") && problem.ends_with("write --socket PATH\n"), "{problem}");
}

#[test]
fn requests_and_replies_pass_through() {
    let fixture = Fixture::new("127.0.0.1:0", "[]");
    let ok = json!({ "ok": true, "data": { "zones": [1] } });
    for (arguments, request) in [
        (&["status"][..], json!({ "verb": "status", "zone": null })),
        (&["refresh", "a.example"], json!({ "verb": "refresh", "zone": "a.example" })),
        (&["retransfer", "a", "--accept"], json!({ "verb": "retransfer", "zone": "a", "accept": true })),
        (&["dump", "a"], json!({ "verb": "dump", "zone": "a" })),
        (&["diff", "a"], json!({ "verb": "diff", "zone": "a", "from": null, "to": null })),
        (&["lookup", "a"], json!({ "verb": "lookup", "name": "a", "type": null })),
        (&["lookup", "a", "srv"], json!({ "verb": "lookup", "name": "a", "type": "SRV" })),
        (
            &["lookup", "a", "--client", "192.0.2.0/24"],
            json!({ "verb": "lookup", "name": "a", "type": null, "client": "192.0.2.0/24" }),
        ),
        (
            &["diff", "a", "--from", "4294967295", "--to", "0"],
            json!({ "verb": "diff", "zone": "a", "from": 4_294_967_295_u32, "to": 0 }),
        ),
        (&["history"], json!({ "verb": "history", "name": null, "zone": null, "limit": null })),
        (
            &["history", "a", "--zone", "b", "--limit", "7"],
            json!({ "verb": "history", "name": "a", "zone": "b", "limit": 7 }),
        ),
        (
            &["rollback", "a", "--to", "7", "--reason", "why", "--yes"],
            json!({ "verb": "rollback", "zone": "a", "to": 7, "reason": "why", "preview": false }),
        ),
        (
            &["rollback", "a", "--to", "7", "--dry-run"],
            json!({ "verb": "rollback", "zone": "a", "to": 7, "reason": null, "preview": true }),
        ),
        (&["rollback", "a", "--release", "--yes"], json!({ "verb": "release", "zone": "a", "preview": false })),
        (&["notify"], json!({ "verb": "notify", "zone": null })),
        (&["notify", "a"], json!({ "verb": "notify", "zone": "a" })),
        (&["stop"], json!({ "verb": "stop" })),
    ] {
        let server = fixture.answer_once(ok.clone(), "fine");
        assert_eq!(fixture.run(arguments), (0, "fine\n".to_string(), String::new()));
        assert_eq!(server.join().unwrap(), request);
        fs::remove_file(fixture.socket()).unwrap();
    }
    let server = fixture.answer_once(ok, "fine");
    let (code, output, _) = fixture.run(&["status", "--json"]);
    assert_eq!((code, serde_json::from_str::<Value>(&output).unwrap()), (0, json!({ "zones": [1] })));
    server.join().unwrap();
    fs::remove_file(fixture.socket()).unwrap();

    let server = fixture.answer_once(json!({ "ok": false, "data": null }), "c.toml:1:1: no\nc.toml:2:1: nor this");
    let refused = fixture.run(&["reload"]);
    assert_eq!(refused, (1, String::new(), "c.toml:1:1: no\nc.toml:2:1: nor this\n".to_string()));
    server.join().unwrap();
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let fixture = Fixture::new("127.0.0.1:0", "[]");
    let server = fixture.answer_once(json!({ "ok": true, "data": null }), &"record\n".repeat(1 << 20));
    let mut dump = command();
    dump.args(["dump", "a", "-c"]).arg(fixture.config());
    let mut child = dump.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut [0; 7]).unwrap();
    drop(output);
    let (code, _, problem) = outcome(child.wait_with_output().unwrap());
    assert_eq!((code, problem.as_str()), (0, ""));
    server.join().unwrap();
}

//--- check ---

#[test]
fn the_sample_of_rfd_172_is_nine_zones() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/config/rfd-0172.json");
    let text = fs::read_to_string(sample).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rfd.json");
    fs::write(&path, &text).unwrap();
    let plan = outcome(command().args(["check", "-c"]).arg(&path).output().unwrap());
    // The sample leaves the addresses to the defaults, which need the right to port 53; the file is right without it.
    assert!(plan.0 == 0 && plan.1.contains("\n6 DC zones, 3 regions, 9 zones, 9 warnings\n"), "{plan:?}");
    // With addresses of its own it must pass anywhere.
    let own = "{ \"server\": { \"listen\": \"127.0.0.1:0\" }, \"metrics\": { \"listen\": [] },";
    fs::write(&path, text.trim_start().replacen('{', own, 1)).unwrap();
    let (code, output, problem) = outcome(command().args(["check", "-c"]).arg(&path).output().unwrap());
    assert_eq!((code, problem.as_str()), (0, ""));
    assert!(output.contains("\n6 DC zones, 3 regions, 9 zones, 9 warnings\n"), "{output}");
    let (code, output, _) = outcome(command().args(["check", "--json", "-c"]).arg(&path).output().unwrap());
    let plan: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((code, &plan["ok"]), (0, &json!(true)));
    let plan = &plan["plan"];
    let count = |key: &str| plan[key].as_array().unwrap().len();
    assert_eq!((count("zones"), count("aggregations"), count("warnings")), (6, 3, 9));
    assert_eq!(plan["zones"][3]["primaries"][0]["address"], "[2001:db8:2::1:200]:53");
}

#[test]
fn check_names_what_is_wrong() {
    let fixture = Fixture::new("127.0.0.1:0", "[]");
    fixture.write("[zones]\n\"a.example\" = 1\n[aggregations]\n\"r\" = [\"b\"]\n");
    let (code, output, problem) = fixture.run(&["check"]);
    assert_eq!((code, output.as_str(), problem.lines().count()), (1, "", 2), "{problem}");
    assert!(problem.contains("c.toml:2:15: "), "{problem}");
    let (code, output, _) = fixture.run(&["check", "--json"]);
    let report: Value = serde_json::from_str(&output).unwrap();
    let error = &report["errors"][0];
    let place = [&error["kind"], &error["line"], &error["column"]];
    assert_eq!((code, &report["ok"], place), (1, &json!(false), [&json!("mistake"), &json!(2), &json!(15)]));
    assert!(error["advice"].as_str().unwrap().starts_with("write "), "{error}");

    let missing = fixture.0.path().join("none.toml");
    let (code, _, problem) = outcome(command().args(["check", "-c"]).arg(missing).output().unwrap());
    assert!(code == 1 && problem.contains("none.toml:1:1: cannot be read"), "{problem}");
}

#[test]
fn check_says_how_many_connections_the_limit_on_open_files_allows() {
    let fixture = Fixture::new("127.0.0.1:0", "[]");
    let check = |more: &[&str]| {
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -n 300 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_aggregator"), "check", "-c"]);
        outcome(limited.arg(fixture.config()).args(more).output().unwrap())
    };
    let (code, output, problem) = check(&[]);
    assert_eq!((code, problem.as_str()), (0, ""));
    let warning =
        output.lines().find(|line| line.starts_with("warning: here: the limit on open files is 300 here, ")).unwrap();
    assert!(warning.contains(", fewer than tcp_connections = 1000, "), "{warning}");
    let json: Value = serde_json::from_str(&check(&["--json"]).1).unwrap();
    let told = &json["descriptors"];
    assert_eq!((&told["open_files"], &told["tcp_connections"]), (&json!(300), &json!(1000)));
    let connections = told["connections"].as_u64().unwrap();
    assert!((75..250).contains(&connections) && warning.contains(&format!("room for {connections} connections")));
    assert_eq!((&json["ok"], &json["here"][0]["kind"]), (&json!(true), &json!("open-files")));
    assert_eq!(check(&["--here"]).0, 0, "the server starts with it");
    let text = fs::read_to_string(fixture.config()).unwrap();
    fixture.write(&text.replace("[server]", "[server]\ntcp_connections = 5"));
    let (code, output, _) = check(&[]);
    assert!(code == 0 && !output.contains("warning: "), "{output}");
    assert!(
        output.contains("\nthe limit on open files is 300 here, ")
            && output.contains(&format!("room for {connections} "))
    );
}

#[test]
fn a_port_in_use_is_an_error_at_its_position() {
    let held = [TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap()];
    let [dns, metrics] = held.each_ref().map(|listener| listener.local_addr().unwrap().to_string());
    let fixture = Fixture::new(&dns, &format!("\"{metrics}\""));
    let (code, output, problem) = fixture.run(&["check", "--here"]);
    let file = fixture.config().display().to_string();
    let advice = "address in use; stop the other server or choose another port";
    let expected =
        format!("{file}:2:10: cannot listen on {dns}: {advice}\n{file}:6:10: cannot listen on {metrics}: {advice}\n");
    assert_eq!((code, problem.as_str()), (1, expected.as_str()));
    assert!(output.starts_with(&format!("{file}: plan of ")), "the plan is there: {output}");
    // The file may be for another machine.
    let (code, elsewhere, problem) = fixture.run(&["check"]);
    assert_eq!((code, problem.as_str()), (0, ""));
    let warnings: String = expected.lines().map(|line| format!("warning: here: {line}\n")).collect();
    assert!(elsewhere.starts_with(&output) && elsewhere.contains(&warnings), "{elsewhere}");
    let (code, told, _) = fixture.run(&["check", "--here", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    let shape = json!({
        "kind": "address", "file": file, "line": 2, "column": 10, "message": format!("cannot listen on {dns}: address in use"),
        "advice": "stop the other server or choose another port"
    });
    assert_eq!((code, &told["ok"], &told["here"][0]), (1, &json!(false), &shape));
    assert!(told["plan"].is_object());

    // UDP alone is enough to be in the way.
    drop(held);
    let held = UdpSocket::bind(&dns).unwrap();
    let (code, _, problem) = fixture.run(&["check", "--here"]);
    assert!(code == 1 && problem.contains(&format!("cannot listen on {dns}: address in use; ")), "{problem}");

    // The server of this very file may hold its own addresses.
    let control = UnixListener::bind(fixture.socket()).unwrap();
    let begun = Instant::now();
    let (code, output, problem) = fixture.run(&["check"]);
    assert_eq!((code, problem.as_str()), (0, ""));
    assert!(output.ends_with(&format!("is taken to be the one that listens on {dns}\n")), "{output}");
    assert!(begun.elapsed() < Duration::from_secs(30), "one that hangs is not waited for");

    drop((held, control));
    let (code, output, problem) = fixture.run(&["check"]);
    assert_eq!((code, problem.as_str()), (0, ""));
    assert!(!output.contains("note:"), "a socket that nobody listens at is no server: {output}");
}

#[test]
fn addresses_that_exclude_one_another_are_found() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let fixture = Fixture::new(&free.to_string(), &format!("\"0.0.0.0:{}\"", free.port()));
    let (code, _, problem) = fixture.run(&["check", "--here"]);
    assert!(code == 1 && problem.contains("c.toml:6:10: cannot listen on 0.0.0.0:"), "{problem}");
    let fixture = Fixture::new("192.0.2.77:0", "[]");
    let (code, _, problem) = fixture.run(&["check", "--here"]);
    assert!(code == 1 && problem.contains("this machine does not have the address"), "{problem}");
}

#[test]
fn a_state_folder_that_cannot_be_is_a_warning() {
    let fixture = Fixture::new("127.0.0.1:0", "[]");
    let text = fs::read_to_string(fixture.config()).unwrap();
    for (folder, noted) in [("\"state/of/zones\"", false), ("\"c.toml/state\"", true)] {
        fixture.write(&text.replace("folder = false", &format!("folder = {folder}")));
        let (code, output, problem) = fixture.run(&["check", "--here"]);
        assert_eq!((code, problem.as_str()), (0, ""));
        assert_eq!(output.contains("warning: here: the state folder "), noted, "{output}");
        assert!(!fixture.0.path().join("state").exists(), "a check makes no folder");
    }
}

#[test]
fn a_check_makes_no_folder_for_the_control_socket() {
    let fixture = Fixture::new("127.0.0.1:0", "[]");
    let text = fs::read_to_string(fixture.config()).unwrap();
    for (socket, expected) in [("run/of/ours/c.sock", 0), ("c.toml/c.sock", 1)] {
        fixture.write(&text.replace("\"c.sock\"", &format!("\"{socket}\"")));
        let (code, _, problem) = fixture.run(&["check", "--here"]);
        assert_eq!(code, expected, "{problem}");
        assert_eq!(problem.contains("cannot use control socket"), expected == 1, "{problem}");
        assert!(!fixture.0.path().join("run").exists());
    }
}

#[test]
fn files_that_are_not_here_are_told_beside_the_plan() {
    let fixture = Fixture::new("127.0.0.1:0", "[]");
    let text = fs::read_to_string(fixture.config()).unwrap();
    fixture.write(&format!(
        "{text}\n[keys]\n\"k.example\" = {{ algorithm = \"hmac-sha256\", secret_file = \"k.secret\" }}\n"
    ));
    let (code, output, problem) = fixture.run(&["check"]);
    assert_eq!((code, problem.as_str()), (0, ""));
    assert!(output.contains("warning: here: ") && output.contains("k.secret cannot be read: "), "{output}");
    assert!(output.ends_with("which --here makes an error\n"), "{output}");
    let (code, output, problem) = fixture.run(&["check", "--here"]);
    assert!(
        code == 1 && problem.contains("k.secret cannot be read: ") && output.contains(" zone"),
        "{problem}{output}"
    );
    // What can be read and is wrong is wrong anywhere.
    fs::write(fixture.0.path().join("k.secret"), "no base64!").unwrap();
    fs::set_permissions(fixture.0.path().join("k.secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let (code, _, problem) = fixture.run(&["check"]);
    assert!(code == 1 && problem.contains("k.secret is no base64 text"), "{problem}");
}

#[test]
fn run_refuses_a_broken_file() {
    let fixture = Fixture::new("127.0.0.1:0", "[]");
    fixture.write("[zones]\n");
    let (code, output, problem) = fixture.run(&["run"]);
    assert_eq!((code, output.as_str()), (1, ""));
    assert!(problem.contains("c.toml:1:2: [zones] is empty; "), "{problem}");
}
