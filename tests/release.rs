//! What makes a release: the workflow, the scripts that it runs, the Dockerfile, and the tutorial by container. Each command
//! that one names exists, and two descriptions of one thing are the same.
//!
//! No daemon of containers and no runner is needed: hadolint and zizmor read the files, the tutorial's commands are run
//! without the container around them. `make test-image` runs the image itself.

mod harness;

use harness::*;
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const WORKFLOW: &str = ".github/workflows/release.yml";
const TUTORIAL: &str = "docs/container.md";

/// Something that scripts/install-release-tools has fetched.
fn tool(name: &str) -> PathBuf {
    let path = target_file("release-tools/python/bin").join(name);
    assert!(path.exists(), "{} is missing; run make test, which fetches it", path.display());
    path
}

/// The steps of all jobs of the workflow.
fn steps(workflow: &Value) -> Vec<&Value> {
    let jobs = workflow["jobs"].as_object().expect("jobs");
    jobs.values().flat_map(|job| job["steps"].as_array().expect("steps")).collect()
}

/// The commands of the workflow, line by line.
fn commands(workflow: &Value) -> Vec<String> {
    let scripts = steps(workflow).into_iter().filter_map(|step| step["run"].as_str());
    scripts.flat_map(str::lines).map(|line| line.trim().to_string()).collect()
}

#[test]
fn zizmor_finds_nothing_wrong_with_the_workflow() {
    let config = repository_file(".github/zizmor.yml");
    let zizmor = |path: &Path| {
        let mut command = Command::new(tool("zizmor"));
        command.args(["--offline", "--no-progress", "--config"]).arg(&config).arg(path).output().expect("zizmor")
    };
    let output = zizmor(&repository_file(WORKFLOW));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    // And would have found mistakes: words of others in a command, and an action of nobody knows whom.
    let folder = Folder::new();
    let path = folder.subfolder(".github/workflows").join("release.yml");
    for (from, to) in [
        ("run: make release ARCH=\"amd64 arm64\"", "run: make release ${{ github.event.head_commit.message }}"),
        ("actions/checkout@v5", "somebody/checkout@v5"),
    ] {
        let text = repository_text(WORKFLOW);
        assert!(text.contains(from), "{from}");
        write_file(&path, &text.replace(from, to));
        assert!(!zizmor(&path).status.success(), "{to}");
    }
}

#[test]
fn the_workflow_has_no_more_rights_than_it_needs() {
    let workflow = &read_yaml(WORKFLOW)[0];
    assert_eq!(workflow["permissions"], serde_json::json!({}));
    let may_write = |job: &Value| -> BTreeSet<String> {
        let given = job["permissions"].as_object().expect("permissions");
        given.iter().filter(|(_, right)| *right == "write").map(|(name, _)| name.clone()).collect()
    };
    // What compiles foreign code may write nothing, and what may write runs nothing that was built.
    assert!(may_write(&workflow["jobs"]["build"]).is_empty());
    let publish = &workflow["jobs"]["publish"];
    assert_eq!(may_write(publish), ["attestations", "contents", "id-token", "packages"].map(String::from).into());
    assert!(
        publish["steps"]
            .as_array()
            .expect("steps")
            .iter()
            .all(|step| { !step["uses"].as_str().is_some_and(|name| name.starts_with("actions/checkout")) })
    );
    let of_github = Regex::new("^actions/[a-z-]+@v[0-9]+$").expect("a pattern");
    for step in steps(workflow) {
        if let Some(action) = step["uses"].as_str() {
            assert!(of_github.is_match(action), "{action}");
        }
    }
}

#[test]
fn what_the_workflow_runs_is_there() {
    let workflow = &read_yaml(WORKFLOW)[0];
    let commands = commands(workflow);
    let (mut made, mut called) = (0, 0);
    let of_arches = Regex::new("ARCH=\"([a-z0-9 ]+)\"").expect("a pattern");
    for command in &commands {
        let words: Vec<&str> = command.split_whitespace().collect();
        if words[0] == "make" {
            made += 1;
            // As make itself sees it: the target and what it would run.
            let mut dry = Command::new("make");
            dry.args(["--dry-run", "--no-print-directory"]).args(&words[1..2]).current_dir(repository_file(""));
            for script in run_tool(&mut dry).lines() {
                assert!(repository_file(script.split(' ').next().expect("a word")).exists(), "{script}");
            }
            let arches = of_arches.captures(command).expect("ARCH");
            for arch in arches[1].split(' ') {
                assert!(repository_text("image/common").contains(&format!("{arch}) machine=")), "{arch}");
            }
        } else if words[0].starts_with("image/") {
            called += 1;
            let path = repository_file(words[0]);
            assert!(path.is_file(), "{command}");
            run_tool(Command::new("test").arg("-x").arg(path));
        }
    }
    assert!(made == 1 && called == 1, "{commands:?}");
    // What is handed to the second job is what `make release` leaves.
    assert!(repository_text("image/release").contains("release=\"${RELEASE:-$tree/target/release-$version}\""));
    let uploaded = steps(workflow).into_iter().find_map(|step| step["with"]["path"].as_str()).expect("a path");
    assert_eq!(uploaded, "target/release-*/");
    // The archive with all architectures has the name that image/oci gives it.
    assert!(repository_text("image/oci").contains("write_archive \"$name.oci.tar\""));
    assert!(
        commands.iter().any(|command| command.contains("oci-archive:release/aggregator-$version.oci.tar:$version"))
    );
}

#[test]
fn a_tag_must_be_the_version_that_is_built() {
    let check = |tag: &str| {
        let mut command = Command::new(repository_file("image/release"));
        command.args(["--check-tag", tag]).output().expect("image/release")
    };
    assert!(check(&format!("v{}", env!("CARGO_PKG_VERSION"))).status.success());
    let output = check("v9.9.9");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("the tag v9.9.9 is not v"), "{said}");
    let output = Command::new(repository_file("image/build")).env("ARCH", "amd64 mips").output().expect("image/build");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("no architecture: mips; there are amd64 and arm64"), "{said}");
}

/// The words of an instruction of the Dockerfile's last stage.
fn instructions(name: &str) -> Vec<String> {
    let text = repository_text("Dockerfile");
    let stage = text.split("FROM scratch\n").nth(1).expect("a last stage");
    stage.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::to_string).collect()
}

#[test]
fn the_dockerfile_makes_the_image_of_image_oci() {
    run_tool(Command::new(tool("hadolint")).arg(repository_file("Dockerfile")));
    let script = repository_text("image/oci");
    let config = script.split("<<END\n").find(|text| text.starts_with("{\"architecture\"")).expect("a configuration");
    let config = config.split("\nEND\n").next().expect("an end").replace("\"$", "\"");
    let config: Value = serde_json::from_str(&config).expect("JSON");
    let config = &config["config"];
    let json = |name: &str| -> Value { serde_json::from_str(&instructions(name)[0]).expect("JSON") };
    assert_eq!((json("ENTRYPOINT"), json("CMD")), (config["Entrypoint"].clone(), config["Cmd"].clone()));
    assert_eq!(instructions("USER"), [config["User"].as_str().expect("a user")]);
    assert_eq!(instructions("WORKDIR"), [config["WorkingDir"].as_str().expect("a folder")]);
    assert_eq!(instructions("STOPSIGNAL"), [config["StopSignal"].as_str().expect("a signal")]);
    assert_eq!(instructions("ENV"), [config["Env"][0].as_str().expect("a variable")]);
    let keys = |value: &Value| -> BTreeSet<String> { value.as_object().expect("keys").keys().cloned().collect() };
    let ports: BTreeSet<String> = instructions("EXPOSE")[0].split(' ').map(String::from).collect();
    assert_eq!(ports, keys(&config["ExposedPorts"]));
    let volumes: BTreeSet<String> = serde_json::from_value(json("VOLUME")).expect("volumes");
    assert_eq!(volumes, keys(&config["Volumes"]));
    let health = instructions("HEALTHCHECK").remove(0);
    let (options, test) = health.split_once(" CMD ").expect("a command");
    let mut wanted = config["Healthcheck"]["Test"].as_array().expect("a test").clone();
    assert_eq!(wanted.remove(0), "CMD");
    assert_eq!(serde_json::from_str::<Vec<Value>>(test).expect("JSON"), wanted);
    let seconds = |name: &str| config["Healthcheck"][name].as_u64().expect("nanoseconds") / 1_000_000_000;
    let retries = &config["Healthcheck"]["Retries"];
    assert_eq!(
        options,
        format!("--interval={}s --timeout={}s --retries={retries}", seconds("Interval"), seconds("Timeout"))
    );
    // Each folder of the image is filled, by the image's user where it writes.
    let copied = instructions("COPY");
    for (place, is_written) in [
        ("/aggregator", false),
        ("/etc/ssl/certs/ca-certificates.crt", false),
        ("/run/aggregator/", true),
        ("/var/lib/aggregator/", true),
    ] {
        let line = copied.iter().find(|line| line.ends_with(&format!(" {place}"))).unwrap_or_else(|| panic!("{place}"));
        assert_eq!(line.contains("--chown=65532:65532"), is_written, "{line}");
    }
}

#[test]
fn the_dockerfile_builds_with_the_scripts_and_compiler_of_a_release() {
    let text = repository_text("Dockerfile");
    let base = Regex::new("(?m)^FROM (rust:([0-9.]+)-bookworm) AS build$").expect("a pattern");
    let base = base.captures(&text).expect("a base image");
    assert_eq!(read_yaml(WORKFLOW)[0]["jobs"]["build"]["container"]["image"], base[1]);
    let least = repository_text("Cargo.toml");
    let least =
        Regex::new("(?m)^rust-version = \"1[.]([0-9]+)\"").expect("a pattern").captures(&least).expect("a version");
    let minor = |text: &str| text.split('.').next_back().and_then(|minor| minor.parse::<u32>().ok()).expect("a number");
    assert!(minor(&base[2]) >= minor(&least[1]), "{} is older than 1.{}", &base[1], &least[1]);
    // The program comes from the script that all images have it from, for a target that this knows.
    let machine = run_tool(Command::new("uname").arg("-m"));
    assert!(text.contains("image/program \"$(uname -m)-unknown-linux-musl\""));
    assert!(repository_text("image/common").contains(&format!("machine={}", machine.trim())));
    // Nothing that git knows is left out: the version would say that there are changes.
    let ignored = repository_text(".dockerignore");
    for line in ignored.lines().filter(|line| !line.starts_with('#')) {
        let mut command = Command::new("git");
        let known = command.args(["ls-files", "--", line]).current_dir(repository_file("")).output().expect("git");
        assert!(known.stdout.is_empty(), "{line}");
    }
}

/// The commands of the tutorial: the fenced blocks of its numbered steps.
fn tutorial() -> [String; 3] {
    let text = repository_text(TUTORIAL);
    let blocks =
        text.split("```sh\n").skip(1).map(|block| block.split("```").next().expect("an end").trim().to_string());
    let steps: Vec<String> = blocks.take(3).collect();
    steps.try_into().expect("three commands")
}

/// The tutorial without the container around it: the same words, with free ports and a folder of the test's.
#[test]
fn the_three_commands_of_the_tutorial_lead_to_an_answer() {
    let [run, dig, look] = tutorial();
    let folder = Folder::new();
    let image = format!(" aggregator:{} ", env!("CARGO_PKG_VERSION"));
    let (engine, arguments) = run.split_once(&image).expect("the image");
    let (mut dns, mut metrics) = (Port::reserve(), Port::reserve());
    let (dns, metrics) = (dns.release(), metrics.release());
    let mut words: Vec<String> = arguments.split(' ').map(String::from).collect();
    for (option, from, to) in [
        ("--listen", "0.0.0.0:5300", format!("0.0.0.0:{}", dns.port())),
        ("--metrics", "0.0.0.0:9153", format!("0.0.0.0:{}", metrics.port())),
        ("--folder", "/run/aggregator", folder.path().display().to_string()),
    ] {
        let at = words.iter().position(|word| word == option).unwrap_or_else(|| panic!("{option}")) + 1;
        assert_eq!(words[at], from);
        words[at] = to;
    }
    // What is listened on is published, both ways.
    for published in ["127.0.0.1:5300:5300/udp", "127.0.0.1:5300:5300/tcp", "127.0.0.1:9153:9153"] {
        assert!(engine.contains(&format!("-p {published}")), "{engine}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
    let mut process = Process::start("demo", command.args(&words), &folder.path().join("output"));

    let name = dig.strip_prefix("dig @127.0.0.1 -p 5300 ").expect("a query of the published port");
    let query = Query::new(&Dname::parse(name), rtype::A);
    let mut client = Client::new(dns).with_deadline(Duration::from_secs(1));
    let answer = process.wait_ready("answers", Duration::from_secs(30), || {
        client.ask(&query).ok().filter(|answer| answer.answer.len() >= 3)
    });
    assert!(answer.answer.iter().all(|record| record.rtype == rtype::A), "{answer:?}");

    let verb = look.strip_prefix("docker exec region /aggregator ").expect("a verb");
    let socket = folder.path().join("control.sock");
    let said = run_tool(Command::new(env!("CARGO_BIN_EXE_aggregator")).args(verb.split(' ')).arg("-s").arg(&socket));
    assert!(said.contains("us-west.cns.example.com") && said.contains("3 of 3 members"), "{said}");
    // In the container the verb finds the socket by itself, since the folder is that of the default.
    assert!(repository_text("docs/configuration.md").contains("/run/aggregator/control.sock"));
    let said = run_tool(Command::new(env!("CARGO_BIN_EXE_aggregator")).args(["lookup", name]).arg("-s").arg(&socket));
    assert!(said.contains("us-west-1"), "{said}");
    assert!(process.stop(Duration::from_secs(10)).is_some_and(|status| status.success()), "{}", process.log_text());
}
