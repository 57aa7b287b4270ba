//! The configurations in the README and in the documents that it leads to are taken by the programs that they are for.

mod harness;

use aggregator::config::Config;
use harness::{Folder, Port, Process, program_path, repository_text, run_verb, wait_until, write_file};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const README: &str = "README.md";
const SECONDARIES: &str = "docs/secondaries.md";

/// The fenced blocks of a language in a document, without the indentation of their fences.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let mut found = Vec::new();
    let text = repository_text(document);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let fence = line.trim_start();
        if fence.strip_prefix("```") == Some(language) {
            let indent = line.len() - fence.len();
            let inside = lines.by_ref().take_while(|line| line.trim_start() != "```");
            found.push(inside.map(|line| format!("{}\n", line.get(indent..).unwrap_or_default())).collect());
        }
    }
    found
}

/// The one block of a language in a document, with changes that do without rights and folders of the system.
fn block_in(folder: &Folder, document: &str, language: &str, changes: &[(&str, &str)]) -> PathBuf {
    let [text] = &blocks(document, language)[..] else { panic!("{document}: not one block for {language}") };
    let mut text = text.clone();
    for (from, to) in changes {
        assert!(text.contains(from), "{from} is not in\n{text}");
        text = text.replace(from, &to.replace("{folder}", &folder.path().display().to_string()));
    }
    let path = folder.path().join(language);
    std::fs::write(&path, text).unwrap();
    path
}

/// Has a program check its configuration.
fn check(program: &str, arguments: &[&Path]) {
    let output = Command::new(program_path(program)).args(arguments).output().expect(program);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{program}\n{said}");
}

#[test]
fn our_own_configurations_load() {
    for (document, count) in [
        (README, 2),
        (SECONDARIES, 1),
        ("docs/zookeeper.md", 1),
        ("docs/state.md", 1),
        ("docs/binder.md", 1),
        ("docs/inventory.md", 4),
        ("docs/moving-from-cns.md", 1),
    ] {
        let whole = blocks(document, "toml");
        assert_eq!(whole.len(), count, "{document}: {whole:?}");
        for text in &whole {
            let zone = "[zones]\n\"us-west-1.cns.example.com\" = \"10.1.0.10\"\n";
            let text = if text.contains("[zones") { text.clone() } else { format!("{text}{zone}") };
            let config = Config::parse(Path::new(document), &text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
            assert_eq!(config.warning_lines(), Vec::<String>::new(), "{document}\n{text}");
        }
    }
}

#[test]
fn the_agent_takes_its_configuration() {
    let folder = Folder::new();
    let file = block_in(&folder, "docs/registrar.md", "json", &[]);
    let output = run_verb(&["register", "--dry-run", "--hostname", "a2674d3b"], &file);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    let [service, host] = output.stdout.lines().collect::<Vec<_>>()[..] else { panic!("{}", output.stdout) };
    assert!(service.starts_with("persistent /com/example/emy-10/authcache {\"type\":\"service\","), "{service}");
    assert!(host.starts_with("ephemeral  /com/example/emy-10/authcache/a2674d3b {\"type\":\"redis_host\","), "{host}");
}

#[test]
fn bind_takes_its_configuration() {
    let folder = Folder::new();
    let file = block_in(&folder, SECONDARIES, "named", &[("/var/cache/bind", "{folder}")]);
    check("named-checkconf", &[&file]);
}

#[test]
fn nsd_takes_its_configuration() {
    let folder = Folder::new();
    let file = block_in(&folder, SECONDARIES, "nsd", &[]);
    check("nsd-checkconf", &[&file]);
}

#[test]
fn knot_takes_its_configuration() {
    let folder = Folder::new();
    let file = block_in(&folder, SECONDARIES, "knot", &[]);
    check("knotc", &["-c".as_ref(), &file, "conf-check".as_ref()]);
}

/// A newcomer's first hour: what "Two zones of your own" says, word for word but for the ports.
#[test]
fn two_zones_of_an_own_bind_become_a_region() {
    let folder = Folder::new();
    let home = folder.path();
    let text = repository_text(README);
    let (_, section) = text.split_once("## Two zones of your own\n").expect("section");
    let (section, _) = section.split_once("\n## ").expect("end of the section");
    let [zones] = &blocks(README, "named-zones")[..] else { panic!("not one block of zones") };
    let whole = blocks(README, "toml");
    let [plan] = &whole.iter().filter(|text| text.contains("dc1.example.com")).collect::<Vec<_>>()[..] else {
        panic!("not one plan for dc1")
    };
    let [mut primary, mut server, mut page] = [Port::reserve(), Port::reserve(), Port::reserve()];
    let port = server.address().port();
    let place = |text: &str| {
        let text =
            text.replace("127.0.0.1:5300", &server.address().to_string()).replace("port 5300", &format!("port {port}"));
        text.replace("127.0.0.1:53\"", &format!("{}\"", primary.address())).replace("-p 5300", &format!("-p {port}"))
    };
    let (zones, plan) = (place(zones), place(plan));
    let commands: Vec<Vec<String>> = section
        .lines()
        .filter_map(|line| {
            line.strip_prefix("    ").filter(|line| line.starts_with("aggregator ") || line.starts_with("dig "))
        })
        .map(|line| place(line.split('#').next().unwrap()).split_whitespace().map(String::from).collect())
        .collect();
    let [check, run, status, dig, lookup] = &commands[..] else { panic!("{commands:?}") };

    let write_zone = |zone: &str, serial: u32, addresses: &[&str]| {
        let mut text = format!("$TTL 30\n@ SOA ns1 hostmaster {serial} 60 10 86400 30\n@ NS ns1\nns1 A 127.0.0.1\n");
        addresses.iter().for_each(|address| text.push_str(&format!("www A {address}\n")));
        write_file(&home.join(format!("{zone}.example.com.db")), &text);
    };
    write_zone("dc1", 1, &["192.0.2.1"]);
    write_zone("dc2", 1, &["198.51.100.1"]);
    let options = format!(
        "controls {{ }};\noptions {{ directory \"{0}\"; listen-on port {1} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; \
         pid-file none; lock-file none; session-keyfile none; managed-keys-directory \"{0}\"; dnssec-validation no; }};\n",
        home.display(),
        primary.address().port()
    );
    write_file(&home.join("named.conf"), &format!("{options}{zones}"));
    write_file(&home.join("config.toml"), &format!("{plan}\n[metrics]\nlisten = \"{}\"\n", page.address()));

    primary.release();
    let mut command = Command::new(program_path("named"));
    command.args(["-g", "-c", "named.conf"]).current_dir(home);
    let named = Process::start("named", &mut command, &home.join("named.log"));
    // What a line of the section prints, and whether it went well.
    let carry_out = |line: &[String]| {
        let program = if line[0] == "dig" { program_path("dig") } else { env!("CARGO_BIN_EXE_aggregator").into() };
        let output = Command::new(program).args(&line[1..]).current_dir(home).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    server.release();
    page.release();
    let (is_fine, said) = carry_out(check);
    assert!(is_fine && said.contains("2 DC zones, 1 region"), "{said}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
    command.args(&run[1..]).current_dir(home);
    let _aggregator = Process::start("aggregator", &mut command, &home.join("aggregator.log"));
    let deadline = Duration::from_secs(30);
    let has = |addresses: &[&str]| {
        let (_, said) = carry_out(dig);
        addresses.iter().all(|address| said.contains(address)).then_some(())
    };
    wait_until("the region answers", deadline, || has(&["192.0.2.1", "198.51.100.1"]));
    let (is_fine, said) = carry_out(status);
    assert!(
        is_fine && ["dc1.example.com.", "dc2.example.com.", "all.example.com."].iter().all(|zone| said.contains(zone)),
        "{said}"
    );
    let (is_fine, said) = carry_out(lookup);
    assert!(is_fine && said.contains("dc1.example.com. serial 1: www.dc1.example.com."), "{said}");

    write_zone("dc2", 2, &["198.51.100.1", "198.51.100.2"]);
    named.signal(libc::SIGHUP);
    wait_until("the change is there", deadline, || has(&["192.0.2.1", "198.51.100.1", "198.51.100.2"]));
}
