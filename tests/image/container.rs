//! The container image, unpacked by umoci and run by runc: read-only, one capability, no network of its own.
//!
//! Twice: as most engines run it, as the image's user, with its configuration in the environment; and as Triton does,
//! as root beside the socket of the host.

use crate::harness::{Client, Dname, Habit, Port, Process, Query, repository_text, rtype, wait_until};
use crate::site::{KEY, Site, check_size, image, images, run, text_of, try_run, wait_for_answer};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const USER: u32 = 65532;
/// This machine's architecture, as images name it.
const ARCH: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
/// Capabilities that root in a container usually has.
const ROOT_CAPABILITIES: &[&str] = &[
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_NET_BIND_SERVICE",
];

/// An unpacked image and its only container.
struct Container {
    name: String,
    bundle: PathBuf,
    states: PathBuf,
    log: PathBuf,
    process: Option<Process>,
}

impl Container {
    /// Unpacks the image; `change` has the last word on how it is run.
    fn unpack(site: &Site, name: &str, user: u32, change: impl FnOnce(&mut Value)) -> Container {
        let folder = site.folder.path();
        let (bundle, state) = (folder.join(name), folder.join(format!("{name}-state")));
        let layout = image("aggregator-VERSION.oci");
        let layout = format!("{}:{}", layout.display(), own_tag(&layout));
        run("umoci", &["unpack", "--image", &layout, bundle.to_str().unwrap()]);
        std::fs::create_dir(&state).unwrap();
        chown(&state, Some(USER), Some(USER)).unwrap();
        let file = bundle.join("config.json");
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(config["process"]["user"]["uid"], USER, "the image's user");
        assert_eq!(config["process"]["args"], json!(["/aggregator", "boot"]));
        let capabilities = if user == 0 { ROOT_CAPABILITIES } else { &["CAP_NET_BIND_SERVICE"] };
        let process = &mut config["process"];
        process["terminal"] = false.into();
        // As engines have it: a user gets what its program's file has, and no more; which that flag would keep it from.
        process["noNewPrivileges"] = (user == 0).into();
        process["rlimits"] = json!([]);
        process["user"] = json!({ "uid": user, "gid": user });
        for (set, filled) in [
            ("bounding", true),
            ("effective", user == 0),
            ("permitted", user == 0),
            ("inheritable", false),
            ("ambient", false),
        ] {
            process["capabilities"][set] = if filled { json!(capabilities) } else { json!([]) };
        }
        config["root"]["readonly"] = true.into();
        config["linux"]["resources"] = json!({});
        config["linux"]["namespaces"].as_array_mut().unwrap().retain(|space| space["type"] != "network");
        let mounts = config["mounts"].as_array_mut().unwrap();
        mounts.retain(|mount| {
            let place = mount["destination"].as_str().unwrap_or_default();
            place != "/run/aggregator" && place != "/var/lib/aggregator" && place != "/sys/fs/cgroup" && place != "/run"
        });
        mounts.push(json!({ "destination": "/run/aggregator", "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "nodev", "mode=750", format!("uid={USER}"), format!("gid={USER}")] }));
        mounts.push(json!({ "destination": "/var/lib/aggregator", "type": "bind", "source": state,
            "options": ["bind", "rw"] }));
        change(&mut config);
        std::fs::write(&file, config.to_string()).unwrap();
        // Containers of all runs on this machine share one space of names.
        let name = format!("aggregator-{name}-{}", std::process::id());
        Container { name, bundle, states: folder.join("runc"), log: folder.join("container.log"), process: None }
    }

    fn start(&mut self) {
        let mut command = Command::new(crate::harness::program_path("runc"));
        command.arg("--root").arg(&self.states).args(["run", "--bundle"]).arg(&self.bundle).arg(&self.name);
        self.process = Some(Process::start("runc", &mut command, &self.log));
    }

    /// Runs a command of runc on the container.
    fn runc(&self, verb: &str, arguments: &[&str]) -> std::process::Output {
        let mut all = vec!["--root", self.states.to_str().unwrap(), verb, self.name.as_str()];
        all.extend(arguments);
        try_run("runc", &all)
    }

    /// The end without a warning, of everything in it.
    fn cut_power(&mut self) {
        let output = self.runc("kill", &["KILL"]);
        assert!(output.status.success(), "{output:?}");
        drop(self.process.take());
        _ = self.runc("delete", &["--force"]);
    }

    fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn wait_for_log(&self, text: &str) {
        wait_until(&format!("the container says {text:?}"), PATIENCE, || self.log_text().contains(text).then_some(()));
    }

    /// Lines of the status of the process that serves: the only one, or the child of the first.
    fn status_of_server(&self) -> String {
        let state: Value = serde_json::from_slice(&self.runc("state", &[]).stdout).unwrap();
        let first = state["pid"].as_u64().expect("a process");
        let children = std::fs::read_to_string(format!("/proc/{first}/task/{first}/children")).unwrap_or_default();
        let server = children.split_whitespace().next().map_or(first.to_string(), str::to_owned);
        std::fs::read_to_string(format!("/proc/{server}/status")).expect("status")
    }

    /// The server is the image's user with one capability, and can never have another.
    fn check_rights(&self, no_new_privileges: &str) {
        let status = self.status_of_server();
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
            line.trim_start_matches(':').split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(value("Uid"), vec![USER.to_string(); 4], "{status}");
        for set in ["CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            // The bit of CAP_NET_BIND_SERVICE; a file's capability clears the ambient set.
            let bits = u64::from_str_radix(&value(set)[0], 16).unwrap();
            assert!(bits == 0x400 || set == "CapAmb" && bits == 0, "{set}: {bits:x}");
        }
        assert_eq!(value("NoNewPrivs"), [no_new_privileges]);
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        drop(self.process.take());
        _ = self.runc("delete", &["--force"]);
    }
}

/// The tag of this machine's image: in a layout of several architectures the version alone is an index, which umoci does
/// not follow.
fn own_tag(layout: &Path) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let index = std::fs::read_to_string(layout.join("index.json")).expect("an index");
    let own = format!("{version}-{ARCH}");
    if index.contains(&format!("\"{own}\"")) { own } else { version.to_string() }
}

/// The name of the archive with this machine's image: the whole one unless it has several architectures.
fn own_archive() -> String {
    let own = format!("aggregator-VERSION-{ARCH}.oci.tar");
    let is_there = images().join(own.replace("VERSION", env!("CARGO_PKG_VERSION"))).exists();
    if is_there { own } else { "aggregator-VERSION.oci.tar".to_string() }
}

/// An address of the whole loopback network, and the port that takes a right.
fn address(last: u8) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(127, 42, 53, last), 53))
}

#[test]
#[ignore = "make test-image"]
fn as_a_user_with_its_configuration_in_the_environment() {
    check_size(&own_archive(), 15);
    let mut site = Site::new();
    let server = address(1);
    let text = site.configuration("region.test", Ipv4Addr::LOCALHOST.into(), &server.to_string());
    let mut container = Container::unpack(&site, "user", USER, |config| {
        config["process"]["env"].as_array_mut().unwrap().push(format!("AGGREGATOR_CONFIG={text}").into());
    });
    let start = std::time::Instant::now();
    container.start();
    wait_for_answer(server, "region.test", PATIENCE);
    println!("figure: container, start to first answer {:?}", start.elapsed());
    container.check_rights("0");
    let status = container.runc("exec", &["/aggregator", "status"]);
    assert!(status.status.success() && text_of(&status).contains("region.test"), "{status:?}");
    let reload = container.runc("exec", &["/aggregator", "reload"]);
    assert!(reload.status.success(), "{reload:?}");
    // The first process of a container gets no signal that it has no handler for.
    let reloads = || container.log_text().matches("configuration reloaded").count();
    // The line is written beside the answer to the verb.
    wait_until("the verb reloads", PATIENCE, || (reloads() == 1).then_some(()));
    assert!(container.runc("kill", &["HUP"]).status.success());
    wait_until("HUP reloads", PATIENCE, || (reloads() == 2).then_some(()));

    container.cut_power();
    site.cut_datacenters();
    container.start();
    wait_for_answer(server, "region.test", PATIENCE);
    let ended = container.process.as_mut().unwrap().stop(Duration::from_secs(8)).expect("the first process heeds TERM");
    assert!(ended.success(), "{ended}: {}", container.log_text());
}

/// The commands of docs/container.md, with nothing but the image: the demonstration answers, and its verbs find it.
#[test]
#[ignore = "make test-image"]
fn the_tutorial_leads_to_an_answer() {
    let text = repository_text("docs/container.md");
    let mut commands = text.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap().trim());
    let [run, dig, look] = [commands.next().unwrap(), commands.next().unwrap(), commands.next().unwrap()];
    let site = Site::new();
    let (mut dns, mut metrics) = (Port::reserve(), Port::reserve());
    let (dns, metrics) = (dns.release(), metrics.release());
    let mut container = Container::unpack(&site, "tutorial", USER, |config| {
        let words = run.split_once(&format!("aggregator:{} ", env!("CARGO_PKG_VERSION"))).expect("the image").1;
        // The container has the network of this machine, where those ports may be taken.
        let words =
            words.replace(":5300", &format!(":{}", dns.port())).replace(":9153", &format!(":{}", metrics.port()));
        config["process"]["args"] = ["/aggregator"].into_iter().chain(words.split(' ')).collect();
    });
    let start = std::time::Instant::now();
    container.start();
    let name = dig.strip_prefix("dig @127.0.0.1 -p 5300 ").expect("a query");
    let query = Query::new(&Dname::parse(name), rtype::A);
    let answer = wait_until("the region answers", PATIENCE, || {
        let answer = Client::new(dns).with_deadline(Duration::from_millis(300)).ask(&query).ok()?;
        (answer.answer.len() >= 3).then_some(answer)
    });
    println!("figure: tutorial, start to an answer with {} records {:?}", answer.answer.len(), start.elapsed());
    let verb = look.strip_prefix("docker exec region ").expect("a verb");
    let status = container.runc("exec", &verb.split(' ').collect::<Vec<_>>());
    assert!(status.status.success() && text_of(&status).contains("3 of 3 members"), "{status:?}");
    let lookup = container.runc("exec", &["/aggregator", "lookup", name]);
    assert!(lookup.status.success() && text_of(&lookup).contains("us-west-1"), "{lookup:?}");
    assert!(std::net::TcpStream::connect(metrics).is_ok());
    let ended = container.process.as_mut().unwrap().stop(Duration::from_secs(8)).expect("it heeds TERM");
    assert!(ended.success(), "{ended}: {}", container.log_text());
}

#[test]
#[ignore = "make test-image"]
fn as_root_beside_the_host() {
    let mut site = Site::new();
    let server = address(2);
    let socket = site.folder.path().join("zonecontrol");
    std::fs::create_dir(&socket).unwrap();
    site.host.listen(&socket.join("metadata.sock"));
    let mut container = Container::unpack(&site, "root", 0, |config| {
        config["mounts"].as_array_mut().unwrap().push(json!({ "destination": "/native/.zonecontrol", "type": "bind",
            "source": socket, "options": ["bind", "ro"] }));
        config["process"]["args"] = json!(["/aggregator", "boot", "--poll", "1s", "--patience", "3s"]);
    });
    container.start();
    container.wait_for_log("metadata has no key");
    site.host.set(KEY, Some("{\"zones\": 3}"));
    container.wait_for_log("aggregator-config:1:");
    let configuration = |region: &str| site.configuration(region, Ipv4Addr::LOCALHOST.into(), &server.to_string());
    site.host.set(KEY, Some(&configuration("one.test")));
    wait_for_answer(server, "one.test", PATIENCE);
    container.check_rights("1");
    // Changed, and followed with nobody's help.
    site.host.set(KEY, Some(&configuration("two.test")));
    wait_for_answer(server, "two.test", PATIENCE);
    let reload = container.runc("exec", &["/aggregator", "reload"]);
    assert!(reload.status.success(), "{reload:?}");

    container.cut_power();
    site.cut_datacenters();
    site.host.behave(Habit::Silent);
    container.start();
    wait_for_answer(server, "two.test", PATIENCE);
    assert!(container.runc("kill", &["INT"]).status.success());
    wait_until("the first process heeds INT", PATIENCE, || {
        (!container.runc("state", &[]).status.success()).then_some(())
    });
    let ended = container.process.as_mut().unwrap().stop(Duration::from_secs(10)).expect("it has ended");
    assert!(ended.success(), "{ended}: {}", container.log_text());
}

#[test]
#[ignore = "make test-image"]
fn engines_take_it() {
    let site = Site::new();
    let layout = image("aggregator-VERSION.oci").display().to_string();
    let (layout, version) = (layout.as_str(), env!("CARGO_PKG_VERSION"));
    let inspected = run("skopeo", &["inspect", &format!("oci:{layout}:{version}")]);
    let inspected: Value = serde_json::from_slice(&inspected.stdout).unwrap();
    assert_eq!(inspected["Labels"]["org.opencontainers.image.version"], version);
    assert_eq!(inspected["Layers"].as_array().unwrap().len(), 1);
    // As an old registry would get it: Docker's types, the layer untouched.
    let copy = site.folder.path().join("docker");
    run(
        "skopeo",
        &["copy", "--format", "v2s2", &format!("oci:{layout}:{version}"), &format!("dir:{}", copy.display())],
    );
    let manifest: Value = serde_json::from_slice(&std::fs::read(copy.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["mediaType"], "application/vnd.docker.distribution.manifest.v2+json");
    assert_eq!(manifest["layers"][0]["mediaType"], "application/vnd.docker.image.rootfs.diff.tar.gzip");
    assert_eq!(manifest["layers"][0]["digest"], inspected["Layers"][0]);
    // As `docker load` reads it.
    let tar = image(&own_archive()).display().to_string();
    run("skopeo", &["inspect", &format!("docker-archive:{tar}")]);
    // As an engine of containerd reads it: one image, by its whole name.
    let index = run("tar", &["-xOf", &tar, "index.json"]);
    let index: Value = serde_json::from_slice(&index.stdout).unwrap();
    let names: Vec<&Value> = index["manifests"].as_array().unwrap().iter().map(|entry| &entry["annotations"]).collect();
    assert_eq!(names.len(), 1);
    assert_eq!(names[0]["io.containerd.image.name"], format!("docker.io/library/aggregator:{version}"));
    // The same as our own manifest of that kind.
    let index: Value = serde_json::from_slice(&std::fs::read(format!("{layout}/index.json")).unwrap()).unwrap();
    let docker =
        index["manifests"].as_array().unwrap().iter().find(|entry| entry["mediaType"] == manifest["mediaType"]);
    let digest = docker.expect("a manifest for Docker")["digest"].as_str().unwrap().replace(':', "/");
    let own: Value = serde_json::from_slice(&std::fs::read(format!("{layout}/blobs/{digest}")).unwrap()).unwrap();
    assert_eq!((&own["layers"], &own["config"]["digest"]), (&manifest["layers"], &manifest["config"]["digest"]));
}
