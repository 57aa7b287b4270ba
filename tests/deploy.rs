//! Checks of the files in deploy/, apart from monitoring: by the programs that they are for, or against their own
//! schema, and against each other.

mod harness;

use aggregator::config::Config;
use harness::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A configuration that must load without a warning.
fn assert_loads(name: &str, text: &str) -> Config {
    let config = Config::parse(Path::new(name), text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    assert_eq!(config.warning_lines(), Vec::<String>::new(), "{name}");
    config
}

/// The text of a field.
fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

/// The texts of a list.
fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().map(|one| one.as_str().expect("a text")).collect()
}

/// The fenced blocks of a language in a document.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let text = repository_text(document);
    let parts = text.split("```");
    let fenced = parts.skip(1).step_by(2).filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'));
    fenced.map(str::to_string).collect()
}

//--- Compose ---

#[test]
fn compose_takes_its_file_and_its_parts_fit() {
    let mut command = Command::new(program_path("docker-compose"));
    command.args(["-f", "compose.yaml", "config", "--quiet"]).current_dir(repository_file("deploy/compose"));
    run_tool(&mut command);

    let [file] = &read_yaml("deploy/compose/compose.yaml")[..] else { panic!("one document") };
    let services = file["services"].as_object().expect("services");
    let address = |service: &Value| text(&service["networks"]["cns"], "ipv4_address").to_string();
    let addresses: BTreeMap<String, &str> = services.iter().map(|(name, one)| (address(one), &name[..])).collect();
    assert_eq!(addresses.len(), services.len(), "an address twice");
    assert!(addresses.keys().all(|address| address.starts_with("10.53.0.")));
    let replicas: BTreeSet<String> =
        services.iter().filter(|(name, _)| name.starts_with("replica-")).map(|(_, one)| address(one)).collect();
    assert_eq!(replicas.len(), 2);

    let config = assert_loads("compose", &repository_text("deploy/compose/config.toml"));
    assert_eq!(config.zones.len(), 3);
    for zone in &config.zones {
        let name = zone.zone.to_string();
        let name = name.trim_end_matches('.');
        let [primary] = &zone.primaries[..] else { panic!("one primary of {name}") };
        // The service that is the zone's datacenter says so, and tells both replicas.
        let service = &services[addresses[&primary.address.ip().to_string()]];
        let arguments = texts(&service["command"]);
        assert_eq!(arguments[..5], ["demo", "--primary", name, "--listen", "0.0.0.0:53"]);
        let told: BTreeSet<String> =
            arguments[5..].chunks(2).map(|pair| pair[1].trim_end_matches(":53").to_string()).collect();
        assert_eq!(told, replicas, "{name}");
        assert!(arguments[5..].chunks(2).all(|pair| pair[0] == "--notify"), "{arguments:?}");
    }
    let [prometheus] = &read_yaml("deploy/prometheus/prometheus.yml")[..] else { panic!("one document") };
    for target in texts(&prometheus["scrape_configs"][0]["static_configs"][0]["targets"]) {
        let (host, port) = target.split_once(':').expect("a port");
        assert!(services.contains_key(host) && port == "9153", "{target}");
    }
    for volume in services.values().flat_map(|service| texts(&service["volumes"])) {
        let source = volume.split(':').next().unwrap_or_default();
        let is_there = match source.strip_prefix('.') {
            Some(_) => repository_file("deploy/compose").join(source).exists(),
            None => file["volumes"].as_object().is_some_and(|volumes| volumes.contains_key(source)),
        };
        assert!(is_there, "{volume}");
    }
}

/// Checks the datacenters of the compose file.
#[test]
fn a_datacenter_alone_transfers_changes_and_announces() {
    let folder = Folder::new();
    let secondary = UdpSocket::bind("127.0.0.1:0").expect("UDP socket");
    secondary.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
    let (mut port, told) = (Port::reserve(), secondary.local_addr().expect("address").to_string());
    let zone = Dname::parse("us-west-1.cns.example.com");
    let address = port.release();
    let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
    command.args([
        "demo",
        "--primary",
        "us-west-1.cns.example.com",
        "--listen",
        &address.to_string(),
        "--notify",
        &told,
    ]);
    let mut process = Process::start("demo", &mut command, &folder.path().join("log"));
    let mut client = Client::new(address).with_deadline(Duration::from_secs(1));
    let serial = process.wait_ready("answers", Duration::from_secs(20), || client.serial(&zone));
    let records = client.transfer(&zone).expect("a transfer");
    assert!(records.iter().any(|record| record.owner.to_string().starts_with("web.svc.acme.")), "{records:?}");
    let mut announcement = [0; 512];
    let (length, from) = secondary.recv_from(&mut announcement).expect("an announcement");
    // Opcode 4 (RFC 1996), about the zone.
    assert!(from == address && announcement[2] >> 3 & 15 == 4 && announcement[12..length].starts_with(&zone.0));
    process.wait_ready("changes", Duration::from_secs(20), || client.serial(&zone).filter(|new| *new != serial));
    assert!(process.stop(Duration::from_secs(10)).is_some_and(|status| status.success()), "{}", process.log_text());
    let output = Command::new(env!("CARGO_BIN_EXE_aggregator")).args(["demo", "--primary", "dc.test"]).output();
    assert_eq!(output.expect("an output").status.code(), Some(2), "a primary must know where to listen");
}

//--- Kubernetes ---

/// Builds every object with the API's own classes: a field that they do not know, one that is missing, and a value of
/// another type are errors. The classes have no list of the words that a field takes.
const SCHEMA: &str = "
import json, re, sys
from kubernetes import client

def build(kind, value, at):
    if value is None: raise SystemExit(f'{at}: empty')
    if match := re.fullmatch(r'list\\[(.*)\\]', kind):
        if not isinstance(value, list): raise SystemExit(f'{at}: no list')
        return [build(match[1], one, f'{at}[{n}]') for n, one in enumerate(value)]
    if match := re.fullmatch(r'dict\\((.*), (.*)\\)', kind):
        if not isinstance(value, dict): raise SystemExit(f'{at}: no mapping')
        return {key: build(match[2], one, f'{at}.{key}') for key, one in value.items()}
    plain = {'str': str, 'int': int, 'bool': bool, 'float': (int, float), 'object': object}
    if kind in plain:
        if not isinstance(value, plain[kind]) or kind == 'int' and isinstance(value, bool):
            raise SystemExit(f'{at}: {value!r} is no {kind}')
        return value
    cls = getattr(client, kind)
    fields = {name: field for field, name in cls.attribute_map.items()}
    if not isinstance(value, dict): raise SystemExit(f'{at}: no {kind}')
    for name in value:
        if name not in fields: raise SystemExit(f'{at}: {kind} has no {name}')
    given = {fields[name]: build(cls.openapi_types[fields[name]], one, f'{at}.{name}') for name, one in value.items()}
    try: return cls(**given)
    except ValueError as error: raise SystemExit(f'{at}: {error}')

versions = {'v1': '', 'apps/v1': '', 'policy/v1': '', 'networking.k8s.io/v1': ''}
for value in json.load(sys.stdin):
    assert value['apiVersion'] in versions, value['apiVersion']
    build('V1' + value['kind'], value, value['kind'])
print('fine')
";

/// Checks some objects against the schema; returns the checker's output.
fn check_schema(objects: &[Value]) -> Result<String, String> {
    let folder = Folder::new();
    let path = folder.path().join("objects.json");
    write_file(&path, &Value::from(objects).to_string());
    let mut command = Command::new(PYTHON);
    let command = command.args(["-c", SCHEMA]).stdin(std::fs::File::open(&path).expect("objects"));
    let output = command.output().unwrap_or_else(|error| panic!("python3 is missing ({error}); run make test"));
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
}

#[test]
fn kubernetes_knows_every_field() {
    let objects = read_yaml("deploy/kubernetes/aggregator.yaml");
    assert_eq!(check_schema(&objects), Ok("fine".to_string()));
    // And would have found mistakes.
    let deployment = objects.iter().position(|object| object["kind"] == "Deployment").expect("a deployment");
    let mut broken = objects.clone();
    broken[deployment]["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = Value::from(1);
    assert!(check_schema(&broken).is_err_and(|said| said.contains("V1Container has no readynessProbe")));
    broken = objects.clone();
    broken[deployment]["spec"]["replicas"] = Value::from("two");
    assert!(check_schema(&broken).is_err_and(|said| said.contains("'two' is no int")));
    broken = objects;
    broken[deployment]["spec"].as_object_mut().expect("a mapping").remove("selector");
    assert!(check_schema(&broken).is_err_and(|said| said.contains("`selector`")));
}

#[test]
fn kubernetes_objects_fit_each_other() {
    let objects = read_yaml("deploy/kubernetes/aggregator.yaml");
    let of_kind =
        |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"));
    let [deployment, service, budget, policy, map] =
        ["Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "ConfigMap"].map(of_kind);
    let namespace = text(&of_kind("Namespace")["metadata"], "name");
    assert!([deployment, service, budget, policy, map].iter().all(|one| one["metadata"]["namespace"] == namespace));
    let pod = &deployment["spec"]["template"];
    let labels = &pod["metadata"]["labels"];
    for selector in [
        &deployment["spec"]["selector"]["matchLabels"],
        &service["spec"]["selector"],
        &budget["spec"]["selector"]["matchLabels"],
        &policy["spec"]["podSelector"]["matchLabels"],
        &pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    ] {
        assert_eq!(selector, labels);
    }
    assert!(
        budget["spec"]["minAvailable"].as_u64() < deployment["spec"]["replicas"].as_u64(),
        "nothing could be drained"
    );

    let container = &pod["spec"]["containers"][0];
    let ports: BTreeMap<&str, u64> = container["ports"]
        .as_array()
        .expect("ports")
        .iter()
        .map(|port| (text(port, "name"), port["containerPort"].as_u64().expect("a number")))
        .collect();
    for port in service["spec"]["ports"].as_array().expect("ports") {
        assert!(ports.contains_key(text(port, "targetPort")) && port["port"] == 53, "{port}");
    }
    for probe in ["readinessProbe", "livenessProbe"] {
        assert_eq!(container[probe]["httpGet"]["port"], "metrics");
    }
    let mounts: BTreeSet<&str> =
        container["volumeMounts"].as_array().expect("mounts").iter().map(|mount| text(mount, "name")).collect();
    let volumes: BTreeSet<&str> =
        pod["spec"]["volumes"].as_array().expect("volumes").iter().map(|volume| text(volume, "name")).collect();
    assert_eq!(mounts, volumes);

    // The configuration listens where the container has its ports, and its primaries may be reached.
    let config = assert_loads("ConfigMap", text(&map["data"], "config.toml"));
    assert!(config.listen.dns.iter().all(|address| u64::from(address.port()) == ports["dns-udp"]));
    assert!(config.metrics.listen.iter().all(|address| u64::from(address.port()) == ports["metrics"]));
    let open: BTreeSet<String> = policy["spec"]["egress"][0]["to"]
        .as_array()
        .expect("peers")
        .iter()
        .map(|peer| text(&peer["ipBlock"], "cidr").trim_end_matches("/32").to_string())
        .collect();
    let primaries = config.zones.iter().flat_map(|zone| &zone.primaries);
    let needed: BTreeSet<String> = primaries.map(|primary| primary.address.ip().to_string()).collect();
    assert_eq!(open, needed);
    let admitted = &policy["spec"]["ingress"];
    assert_eq!(admitted[0]["ports"][0]["port"].as_u64(), Some(ports["dns-udp"]));
    assert_eq!(admitted[1]["ports"][0]["port"].as_u64(), Some(ports["metrics"]));
}

//--- systemd ---

/// The unit for a program that was built here and that of the package differ in where things are and whose they are.
#[test]
fn units_of_package_and_source_are_the_same() {
    let settings = |path: &str| -> Vec<String> {
        let text = repository_text(path);
        let own = ["Documentation=", "ExecStart=", "ExecReload=", "User=", "Group=", "DynamicUser="];
        let lines =
            text.lines().filter(|line| !line.starts_with('#') && !own.iter().any(|name| line.starts_with(name)));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(settings("deploy/aggregator.service"), settings("image/debian/aggregator.service"));
    // Words of the commands are the same, too.
    let text = repository_text("deploy/aggregator.service");
    let local = text.replace("/usr/local/bin", "/usr/bin").replace(" -c /etc/aggregator/config.toml", "");
    for line in repository_text("image/debian/aggregator.service").lines().filter(|line| line.starts_with("Exec")) {
        assert!(local.lines().any(|one| one == line), "{line}");
    }
}

//--- Anycast and Triton ---

#[test]
fn bird_takes_its_configurations() {
    for file in ["bird.conf", "router.conf"] {
        run_tool(
            Command::new(program_path("bird")).args(["-p", "-c"]).arg(repository_file("deploy/anycast").join(file)),
        );
    }
    run_tool(Command::new("sh").arg("-n").arg(repository_file("deploy/anycast/healthcheck")));
}

#[test]
fn configurations_in_documents_load() {
    let anycast = blocks("deploy/anycast.md", "toml");
    assert_eq!(anycast.len(), 3, "{anycast:?}");
    let zone = "[zones]\n\"us-west-1.cns.example.com\" = \"10.1.0.10\"\n";
    for text in &anycast {
        let text = if text.contains("[zones") { text.clone() } else { format!("{text}{zone}") };
        assert_loads("deploy/anycast.md", &text);
    }
    // What is written into the file of the README's region, which all add to.
    let operate = [blocks("docs/drain.md", "toml"), blocks("docs/reverse-zones.md", "toml")].concat();
    assert_eq!(operate.len(), 3, "{operate:?}");
    let zones =
        "[zones]\n\"us-west-1.cns.example.com\" = \"10.1.0.10\"\n\"us-west-2.cns.example.com\" = \"10.2.0.10\"\n";
    assert_loads("docs/drain.md", &format!("{zones}{}", operate.concat()));
    // The one that Terraform fills in, and what the triton command gets.
    let template = repository_text("deploy/triton/config.toml");
    assert_eq!(template.matches("${").count(), 1, "Terraform fills in nothing but the name");
    assert_loads("deploy/triton/config.toml", &template.replace("${name}", "ns1.example.com"));
    let terraform = repository_text("deploy/triton/replica/main.tf");
    assert!(terraform.contains("\"aggregator-config\" = var.config"));
    assert!(repository_text("deploy/triton/README.md").contains("-M aggregator-config=./ns1.toml"));
}

//--- Units, manifests and scripts ---

/// Files of a folder and those below it, by a condition.
fn files_below(folder: &Path, is_meant: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            found.extend(files_below(&path, is_meant));
        } else if is_meant(&path) {
            found.push(path);
        }
    }
    found
}

/// Returns true if a file has this extension.
fn ends_in(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

#[test]
fn systemd_takes_the_units_and_finds_them_closed() {
    let folder = Folder::new();
    let units = files_below(&repository_file("deploy"), &|path| ends_in(path, "service"));
    assert!(units.len() >= 3, "{units:?}");
    for unit in units {
        let text = std::fs::read_to_string(&unit).expect("a unit");
        let copy = folder.path().join(unit.file_name().expect("a name"));
        write_file(&copy, &text.replace("/usr/local/bin/aggregator", env!("CARGO_BIN_EXE_aggregator")));
        let analyze = |arguments: &[&str]| {
            let command = &mut Command::new(program_path("systemd-analyze"));
            let output = command.args(arguments).arg(&copy).output().expect("systemd-analyze");
            assert!(output.status.success(), "{} {arguments:?}: {output:?}", unit.display());
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        // What it cannot read it only warns of.
        assert_eq!(analyze(&["verify"]), "", "{}", unit.display());
        // Of 100, which is a service that may do anything. The agent's health check is whatever its operator says.
        let most = if unit.ends_with("aggregator-register.service") { 40 } else { 20 };
        analyze(&["security", "--offline=true", "--no-pager", &format!("--threshold={most}")]);
    }
}

#[test]
fn manifests_are_well_formed() {
    let is_manifest = |path: &Path| ends_in(path, "xml");
    let manifests =
        ["deploy", "image"].into_iter().flat_map(|folder| files_below(&repository_file(folder), &is_manifest));
    let manifests: Vec<PathBuf> = manifests.collect();
    assert!(manifests.len() >= 2, "{manifests:?}");
    run_tool(Command::new(program_path("xmllint")).args(["--noout", "--nonet"]).args(manifests));
}

#[test]
fn scripts_have_no_known_mistakes() {
    let is_script = |path: &Path| {
        let head: Vec<u8> =
            std::fs::read(path).expect("a file").into_iter().take_while(|octet| *octet != b'\n').collect();
        let head = String::from_utf8_lossy(&head);
        head.starts_with("#!") && (head.ends_with("sh") || head.contains("sh "))
    };
    let folders = [".ci", "bench/src", "deploy", "image", "scripts"];
    let scripts: Vec<PathBuf> =
        folders.into_iter().flat_map(|folder| files_below(&repository_file(folder), &is_script)).collect();
    assert!(scripts.len() >= 20, "{scripts:?}");
    let mut command = Command::new(program_path("shellcheck"));
    run_tool(command.args(["--severity=warning", "--external-sources", "--source-path=SCRIPTDIR"]).args(scripts));
}
