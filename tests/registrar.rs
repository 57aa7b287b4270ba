//! The agent against a real ZooKeeper: what it writes, when it removes it, and what it survives.

mod harness;

use harness::{Ensemble, Folder, Output, Registrar, Znodes, ZooKeeper, run_verb, wait_until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
/// A session that no test waits for.
const LONG: Duration = Duration::from_secs(60);
const CASES: &str = include_str!("data/registrar/cases.json");
const DOMAIN: &str = "/com/example/shop";
const HOST: &str = "/com/example/shop/n1";
const ALIAS: &str = "/com/example/shop/a1";
const SERVICE: &str =
    r#"{"type":"service","service":{"type":"service","service":{"srvce":"_http","proto":"_tcp","port":80,"ttl":60}}}"#;
const DATA: &str =
    r#"{"type":"load_balancer","address":"10.0.0.1","load_balancer":{"address":"10.0.0.1","ports":[80]}}"#;

//--- Scenes ---

/// A ZooKeeper, somebody who looks at it, and a folder for agents.
struct Scene {
    server: ZooKeeper,
    nodes: Znodes,
    folder: Folder,
}

impl Scene {
    fn new() -> Scene {
        let folder = Folder::new();
        let server = ZooKeeper::start(&folder);
        let nodes = Znodes::connect(&[server.address()]);
        Scene { server, nodes, folder }
    }

    /// The agent of host `n1` with its alias and a service; `more` are further top-level keys, with commas behind.
    fn start(&self, timeout: Duration, more: &str) -> Registrar {
        Registrar::start(&self.folder, "n1", &configuration(&[self.server.address()], timeout, more))
    }

    /// The same, when its nodes are there.
    fn start_registered(&self, timeout: Duration, more: &str) -> Registrar {
        let agent = self.start(timeout, more);
        self.wait_registered();
        agent
    }

    /// Waits until the nodes are there, as they must be.
    fn wait_registered(&self) {
        wait_registered(&self.nodes);
    }

    /// Waits until the nodes are not there.
    fn wait_gone(&self) {
        wait_until("the nodes are gone", PATIENCE, || {
            [HOST, ALIAS].iter().all(|path| self.nodes.get(path).is_none()).then_some(())
        });
    }

    /// The session that made the host's node.
    fn owner(&self) -> i64 {
        self.nodes.get(HOST).expect("the node is there").1.ephemeral_owner
    }
}

/// A configuration of host `n1`.
fn configuration(servers: &[SocketAddr], timeout: Duration, more: &str) -> String {
    let zookeeper = Registrar::zookeeper(servers, timeout);
    // Only watches tell what happens: no test waits for a heartbeat of a minute.
    format!(
        r#"{{{more} "adminIp":"10.0.0.1",
            "registration":{{"domain":"shop.example.com","type":"load_balancer","aliases":["a1.shop.example.com"],
                "heartbeatInterval":60000,
                "service":{{"type":"service","service":{{"srvce":"_http","proto":"_tcp","port":80}}}}}},
            {zookeeper}}}"#
    )
}

/// Waits until the nodes of `n1` are there with their data, the service's outliving the others.
fn wait_registered(nodes: &Znodes) {
    wait_until("the nodes are there", PATIENCE, || {
        let owned = [HOST, ALIAS].iter().all(|path| {
            nodes.get(path).is_some_and(|(data, stat)| data == DATA.as_bytes() && stat.ephemeral_owner != 0)
        });
        let service = nodes.get(DOMAIN);
        let service = service.is_some_and(|(data, stat)| data == SERVICE.as_bytes() && stat.ephemeral_owner == 0);
        (owned && service).then_some(())
    });
}

/// A check that passes as long as a file is there.
fn check(file: &Path, more: &str) -> String {
    format!(
        r#""healthCheck":{{"command":"test -e {}","interval":20,"timeout":5000,"threshold":3,"period":60000{more}}},"#,
        file.display()
    )
}

/// Runs the verb once for a configuration.
fn run(scene: &Scene, options: &[&str], configuration: &str) -> Output {
    let file = Registrar::write(&scene.folder, "verb", configuration);
    run_verb(&[&["register", "--hostname", "n1"], options].concat(), &file)
}

//--- What is written ---

/// A case that was recorded with Registrar, with its texts as they stand.
struct Case {
    host_name: String,
    /// Without a ZooKeeper block, and without the brace at the end.
    configuration: String,
    /// Path, whether it ends with the session, and the exact data.
    nodes: Vec<(String, bool, String)>,
}

/// All recorded cases.
fn cases() -> Vec<Case> {
    let parsed: Value = serde_json::from_str(CASES).unwrap();
    // The order of keys counts, and a parsed object has lost it.
    let mut configurations = objects_after("\"config\":").into_iter();
    let mut data = objects_after("\"data\":").into_iter();
    let cases = parsed["cases"].as_array().unwrap().iter().map(|case| {
        let writes = case["writes"].as_array().unwrap().iter().filter(|write| write.get("data").is_some());
        let nodes = writes.map(|write| {
            let (path, ends) = (write["path"].as_str().unwrap(), write["mode"] == "ephemeral");
            (path.to_string(), ends, data.next().unwrap())
        });
        let nodes: Vec<_> = nodes.collect();
        let configuration = configurations.next().unwrap();
        let configuration = configuration.strip_suffix('}').unwrap().to_string();
        Case { host_name: case["hostname"].as_str().unwrap().to_string(), configuration, nodes }
    });
    let cases: Vec<Case> = cases.collect();
    assert_eq!((cases.len(), data.next(), configurations.next()), (5, None, None));
    cases
}

/// All objects of the recorded file behind a key, without white space.
fn objects_after(key: &str) -> Vec<String> {
    let object = |rest: &str| {
        let mut depth = 0;
        let end = rest.find(|c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == '}' && depth == 0
        });
        rest[..=end.unwrap()].split_whitespace().collect::<String>()
    };
    CASES.split(key).skip(1).map(|rest| object(rest.trim_start())).collect()
}

/// Everything below a path: data, and whether the node ends with a session.
fn tree(nodes: &Znodes, path: &str) -> BTreeMap<String, (bool, String)> {
    let all = nodes.tree(path).into_iter().map(|(path, data)| {
        let ends = nodes.get(&path).unwrap().1.ephemeral_owner != 0;
        (path, (ends, String::from_utf8(data).unwrap()))
    });
    all.collect()
}

/// The tree that a case makes: its nodes, and parents without data.
fn expected_tree(case: &Case) -> BTreeMap<String, (bool, String)> {
    let mut tree = BTreeMap::new();
    for (path, ..) in &case.nodes {
        for (end, _) in path.match_indices('/').skip(1) {
            tree.entry(path[..end].to_string()).or_default();
        }
    }
    tree.extend(case.nodes.iter().map(|(path, ends, data)| (path.clone(), (*ends, data.clone()))));
    tree
}

/// Every recorded case makes the nodes that Registrar makes; ending the agent removes those that are its own.
#[test]
fn every_case_makes_the_nodes_of_registrar() {
    let scene = Scene::new();
    for case in cases() {
        let zookeeper = Registrar::zookeeper(&[scene.server.address()], LONG);
        let configuration = format!("{},{zookeeper}}}", case.configuration);
        let mut agent = Registrar::start(&scene.folder, &case.host_name, &configuration);
        let expected = expected_tree(&case);
        wait_until("all nodes are there", PATIENCE, || {
            (tree(&scene.nodes, "/com").len() == expected.len()).then_some(())
        });
        assert_eq!(tree(&scene.nodes, "/com"), expected);

        assert_eq!(agent.stop().code(), Some(0), "{}", agent.log_text());
        let mut rest = expected;
        rest.retain(|_, (ends, _)| !*ends);
        assert_eq!(tree(&scene.nodes, "/com"), rest);
        scene.nodes.delete_tree("/com");
    }
}

/// A dry run prints exactly what would be written, and connects to nothing.
#[test]
fn a_dry_run_prints_paths_and_data() {
    let folder = Folder::new();
    for case in cases() {
        // Nobody listens on this port.
        let zookeeper = Registrar::zookeeper(&["127.0.0.1:1".parse().unwrap()], LONG);
        let file = Registrar::write(&folder, "dry", &format!("{},{zookeeper}}}", case.configuration));
        let verb = ["register", "--dry-run", "--hostname", &case.host_name];
        let output = run_verb(&verb, &file);
        assert_eq!((output.code, output.stderr.as_str()), (0, ""));
        // The service comes first, unlike Registrar's order.
        let mut nodes = case.nodes.clone();
        nodes.sort_by_key(|(_, ends, _)| *ends);
        let mode = |ends: bool| if ends { "ephemeral" } else { "persistent" };
        let lines = nodes.iter().map(|(path, ends, data)| format!("{:<10} {path} {data}\n", mode(*ends)));
        assert_eq!(output.stdout, lines.collect::<String>());
        let output = run_verb(&[&verb[..], &["--json"]].concat(), &file);
        let printed: Value = serde_json::from_str(&output.stdout).unwrap();
        let described = nodes
            .iter()
            .map(|(path, ends, data)| serde_json::json!({ "mode": mode(*ends), "path": path, "data": data }));
        assert_eq!(printed, described.collect::<Value>());
    }
}

/// Registrar's command line is `-f FILE -v`, and whoever moves keeps it.
#[test]
fn the_file_is_named_as_registrar_names_it() {
    let folder = Folder::new();
    let zookeeper = Registrar::zookeeper(&["127.0.0.1:1".parse().unwrap()], LONG);
    let file = Registrar::write(&folder, "named", &format!("{},{zookeeper}}}", cases()[0].configuration));
    let register = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
        command.args(["register", "--dry-run", "-v", "--hostname", "n1"]).args(options);
        let output = command.output().expect("run aggregator");
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.code(), out, err)
    };
    let path = file.to_str().unwrap();
    let named = register(&["-f", path]);
    assert_eq!((named.0, named.2.as_str()), (Some(0), ""));
    assert!(named.1.contains("ephemeral"), "{}", named.1);
    assert_eq!(register(&["-c", path]), named);
    assert_eq!(register(&["--file", path]), named);
    for wrong in [&["-f", path, "-c", path][..], &[]] {
        assert_eq!(register(wrong).0, Some(2), "{wrong:?}");
    }
}

/// The spelling of the other README copy, and that what others wrote above stays as it is.
#[test]
fn the_other_spelling_connects_and_parents_keep_their_data() {
    let scene = Scene::new();
    scene.nodes.create("/com", b"\"ours\"");
    scene.nodes.create("/com/example", b"{}");
    let port = scene.server.address().port();
    let text = configuration(&[scene.server.address()], LONG, "");
    let (before, _) = text.split_once("\"zookeeper\"").unwrap();
    let servers = format!(r#"[{{"address":"127.0.0.1","port":{port}}}]"#);
    let text = format!(r#"{before}"zookeeper":{{"sessionTimeout":60000,"servers":{servers}}}}}"#);
    let _agent = Registrar::start(&scene.folder, "n1", &text);
    scene.wait_registered();
    assert_eq!(scene.nodes.get("/com").unwrap().0, b"\"ours\"");
    assert_eq!(scene.nodes.get("/com/example").unwrap().0, b"{}");
    let (_, stat) = scene.nodes.get("/com/example").unwrap();
    assert_eq!(stat.version, 0, "not even written with the same data");
}

/// A service's record is left alone where it says the same, and written where it does not.
#[test]
fn the_service_is_written_only_when_it_differs() {
    let scene = Scene::new();
    let same = br#"{"service": {"service": {"port": 80, "proto": "_tcp", "srvce": "_http", "ttl": 60}, "type": "service"}, "type": "service"}"#;
    scene.nodes.create(DOMAIN, same);
    let mut agent = scene.start(LONG, "");
    let version = || scene.nodes.get(DOMAIN).unwrap().1.version;
    wait_until("the host is there", PATIENCE, || scene.nodes.get(HOST));
    assert_eq!((scene.nodes.get(DOMAIN).unwrap().0, version()), (same.to_vec(), 0));
    agent.stop();
    scene.nodes.set(DOMAIN, br#"{"type":"service","service":{"type":"service","service":{"srvce":"_http","proto":"_tcp","port":81,"ttl":60}}}"#);
    let _agent = scene.start_registered(LONG, "");
    assert_eq!(version(), 2);
}

//--- Health ---

/// Failures take all nodes away and leave the service; they stay away over a reconnect, and come back with a success.
#[test]
fn failing_checks_remove_all_nodes_until_one_passes() {
    let mut scene = Scene::new();
    let file = scene.folder.path().join("healthy");
    fs::write(&file, "").unwrap();
    let mut agent = scene.start_registered(LONG, &check(&file, ""));
    for _ in 0..3 {
        fs::remove_file(&file).unwrap();
        scene.wait_gone();
        assert_eq!(scene.nodes.get(DOMAIN).unwrap().0, SERVICE.as_bytes());
        fs::write(&file, "").unwrap();
        scene.wait_registered();
    }
    fs::remove_file(&file).unwrap();
    scene.wait_gone();
    scene.server.kill();
    scene.server.restart();
    let lost = "connection to ZooKeeper lost";
    wait_until("the agent noticed", PATIENCE, || agent.log_text().contains(lost).then_some(()));
    wait_until("the agent is connected again", PATIENCE, || (scene.server.sessions().len() >= 2).then_some(()));
    // A round of checks later nothing has come back.
    let failed = || agent.log_text().matches("health check failed").count();
    let before = failed();
    wait_until("checks go on", PATIENCE, || (failed() > before + 5).then_some(()));
    assert_eq!(scene.nodes.children(DOMAIN), [""; 0]);
    fs::write(&file, "").unwrap();
    scene.wait_registered();
    agent.assert_running();
}

/// With `checkFirst` nothing is registered before a check passes, and what an earlier run left goes when it fails.
#[test]
fn the_first_check_comes_first_when_asked_for() {
    let scene = Scene::new();
    let file = scene.folder.path().join("healthy");
    let earlier = Znodes::connect(&[scene.server.address()]);
    earlier.create_ephemeral(HOST, b"{}");
    earlier.create_ephemeral(ALIAS, DATA.as_bytes());
    let _agent = scene.start(LONG, &check(&file, r#","checkFirst":true"#));
    scene.wait_gone();
    fs::write(&file, "").unwrap();
    scene.wait_registered();
}

/// The output of a check decides, inverted when so configured; a check that hangs counts as a failure.
#[test]
fn output_decides_as_configured() {
    let scene = Scene::new();
    let file = scene.folder.path().join("state");
    fs::write(&file, "all well").unwrap();
    let health = format!(
        r#""healthCheck":{{"command":"cat {0}; grep -q hang {0} && sleep 1000","interval":20,"timeout":1000,"threshold":2,
            "ignoreExitStatus":true,"stdoutMatch":{{"pattern":"^(BAD|hang)$","flags":"i","invert":true}}}},"#,
        file.display()
    );
    let agent = scene.start_registered(LONG, &health);
    fs::write(&file, "bad").unwrap();
    scene.wait_gone();
    fs::write(&file, "good").unwrap();
    scene.wait_registered();
    fs::write(&file, "it may hang here").unwrap();
    scene.wait_gone();
    assert!(agent.log_text().contains("took longer than 1000 ms"));
}

//--- The end of agents ---

/// A killed agent's records are there until its session has timed out.
#[test]
fn a_killed_agent_is_gone_after_the_session_timeout() {
    let scene = Scene::new();
    let timeout = Duration::from_secs(4);
    let mut agent = scene.start_registered(timeout, "");
    let start = Instant::now();
    agent.kill();
    assert!(scene.nodes.get(HOST).is_some());
    scene.wait_gone();
    assert!(start.elapsed() < 3 * timeout, "{:?}", start.elapsed());
    assert_eq!(scene.nodes.get(DOMAIN).unwrap().0, SERVICE.as_bytes());
}

/// Whoever is started again after a crash takes over what it left, without a moment in between.
#[test]
fn a_restart_takes_over_without_a_gap() {
    let scene = Scene::new();
    let mut agent = scene.start_registered(LONG, "");
    let first = scene.owner();
    agent.kill();
    let agent = scene.start(LONG, "");
    wait_until("another session has the node, which is always there", PATIENCE, || {
        (scene.owner() != first).then_some(())
    });
    scene.wait_registered();
    assert!(agent.log_text().contains("node of another session replaced"));
}

/// SIGINT is as good as SIGTERM, also while ZooKeeper is away and nothing can be removed.
#[test]
fn an_end_without_zookeeper_is_an_end() {
    let mut scene = Scene::new();
    let mut agent = scene.start_registered(LONG, "");
    scene.server.kill();
    wait_until("the agent knows", PATIENCE, || agent.log_text().contains("connection to ZooKeeper lost").then_some(()));
    agent.signal(libc::SIGINT);
    assert_eq!(agent.stop().code(), Some(0));
    assert!(agent.log_text().contains("the records stay until the session has timed out"));
}

//--- Sessions ---

/// A session that the server has ended is followed by another one, in the same process.
#[test]
fn an_expired_session_is_followed_by_another() {
    let scene = Scene::new();
    let mut agent = scene.start_registered(LONG, "");
    let mut owners = vec![scene.owner()];
    for _ in 0..3 {
        scene.server.expire(*owners.last().unwrap());
        let fresh = wait_until("registered by another session", PATIENCE, || {
            scene.nodes.get(HOST).map(|(_, stat)| stat.ephemeral_owner).filter(|owner| !owners.contains(owner))
        });
        owners.push(fresh);
        scene.wait_registered();
    }
    agent.assert_running();
}

/// An agent whose clock stood still for longer than its session finds out by itself.
#[test]
fn a_paused_agent_registers_again() {
    let scene = Scene::new();
    let agent = scene.start_registered(Duration::from_secs(2), "");
    agent.signal(libc::SIGSTOP);
    scene.wait_gone();
    agent.signal(libc::SIGCONT);
    scene.wait_registered();
}

/// ZooKeeper away at the start, and then for longer than a session lasts: the agent waits, and registers.
#[test]
fn zookeeper_may_be_away_at_any_time() {
    let mut scene = Scene::new();
    scene.server.kill();
    let timeout = Duration::from_secs(2);
    let mut agent = scene.start(timeout, "");
    wait_until("it is missed", PATIENCE, || {
        agent.log_text().contains("no server of ZooKeeper can be reached").then_some(())
    });
    scene.server.restart();
    scene.wait_registered();
    scene.server.kill();
    wait_until("the session is given up", PATIENCE, || agent.log_text().contains("session ended").then_some(()));
    scene.server.restart();
    wait_until("a session begins", PATIENCE, || (agent.log_text().matches("session begun").count() == 2).then_some(()));
    scene.wait_registered();
    agent.assert_running();
}

/// Members of an ensemble that go, the agent's own and the leader included, are not noticed by anyone who looks.
#[test]
fn the_loss_of_a_member_is_no_flap() {
    let folder = Folder::new();
    let mut ensemble = Ensemble::start(&folder, 3);
    let servers = ensemble.addresses();
    let nodes = Znodes::connect(&servers);
    let mut agent = Registrar::start(&folder, "n1", &configuration(&servers, Duration::from_secs(20), ""));
    wait_registered(&nodes);
    let made = |path: &str| nodes.get(path).expect("the node is there").1.czxid;
    let before = [HOST, ALIAS].map(made);
    let session = nodes.get(HOST).unwrap().1.ephemeral_owner;
    let home = |ensemble: &mut Ensemble, running: &[usize]| {
        wait_until("the agent is connected", PATIENCE, || {
            running.iter().copied().find(|index| ensemble.member(*index).sessions().contains(&session))
        })
    };
    for round in 0..4 {
        let own = home(&mut ensemble, &[0, 1, 2]);
        let victim = if round % 2 == 0 { own } else { ensemble.leader() };
        if round < 2 {
            ensemble.member(victim).kill()
        } else {
            ensemble.member(victim).stop()
        };
        let rest: Vec<usize> = (0..3).filter(|index| *index != victim).collect();
        home(&mut ensemble, &rest);
        // A node that was ever missing would have been made by a later transaction.
        assert_eq!([HOST, ALIAS].map(made), before);
        ensemble.member(victim).restart();
    }
    assert_eq!([HOST, ALIAS].map(made), before);
    assert_eq!(agent.stop().code(), Some(0));
    assert_eq!(nodes.children(DOMAIN), [""; 0]);
}

//--- Repairs ---

/// Nodes that others remove or change are put back at once, without waiting for a heartbeat.
#[test]
fn damaged_nodes_are_repaired() {
    let scene = Scene::new();
    let _agent = scene.start_registered(LONG, "");
    for _ in 0..3 {
        scene.nodes.delete(HOST);
        scene.wait_registered();
        scene.nodes.set(ALIAS, b"{}");
        scene.wait_registered();
        scene.nodes.set(DOMAIN, b"");
        scene.wait_registered();
        scene.nodes.delete(ALIAS);
        scene.nodes.create(ALIAS, b"by hand");
        scene.wait_registered();
    }
    // Both delete: what is deleted is also made again while the rest is.
    let gone = || [HOST, ALIAS].iter().filter(|path| scene.nodes.get(path).is_none()).count();
    scene.nodes.delete(ALIAS);
    scene.nodes.delete(HOST);
    assert!(gone() <= 2);
    scene.wait_registered();
    // Another service's record is not ours to correct while we run.
    let other = br#"{"type":"service","service":{"srvce":"_other","proto":"_tcp","port":1}}"#;
    scene.nodes.set(DOMAIN, other);
    scene.nodes.delete(HOST);
    wait_until("the host is back", PATIENCE, || scene.nodes.get(HOST));
    assert_eq!(scene.nodes.get(DOMAIN).unwrap().0, other);
}

/// Two agents with one alias do not fight for it: the later one has it until it ends.
#[test]
fn a_shared_alias_is_not_fought_over() {
    let scene = Scene::new();
    let first = scene.start_registered(LONG, "");
    let mine = scene.owner();
    let text = configuration(&[scene.server.address()], LONG, "").replace("10.0.0.1", "10.0.0.2");
    let mut second = Registrar::start(&scene.folder, "n2", &text);
    let taken = "another session has this name now";
    wait_until("the first one sees it", PATIENCE, || first.log_text().contains(taken).then_some(()));
    let (data, stat) = scene.nodes.get(ALIAS).unwrap();
    assert_eq!(data, DATA.replace("10.0.0.1", "10.0.0.2").as_bytes());
    // The first one looks again because of this, and leaves the alias where it is.
    scene.nodes.delete(HOST);
    scene.wait_for_host();
    assert_eq!(scene.nodes.get(ALIAS).unwrap().1.czxid, stat.czxid);
    assert_eq!(second.stop().code(), Some(0));
    scene.wait_registered();
    assert_eq!(scene.nodes.get(ALIAS).unwrap().1.ephemeral_owner, mine);
}

impl Scene {
    /// Waits until the host's node is there.
    fn wait_for_host(&self) {
        wait_until("the host is there", PATIENCE, || self.nodes.get(HOST));
    }
}

/// A name that is somebody else's is not taken, the others are registered all the same.
#[test]
fn nodes_of_others_are_left_alone() {
    let scene = Scene::new();
    scene.nodes.create(ALIAS, SERVICE.as_bytes());
    let file = scene.folder.path().join("healthy");
    fs::write(&file, "").unwrap();
    let mut agent = scene.start(LONG, &check(&file, ""));
    scene.wait_for_host();
    let said = "another service's record is there; choose another name";
    wait_until("it is said", PATIENCE, || agent.log_text().contains(said).then_some(()));
    assert_eq!(scene.nodes.get(ALIAS).unwrap().0, SERVICE.as_bytes());
    // What is there goes when the instance fails, and comes back.
    fs::remove_file(&file).unwrap();
    wait_until("the host is gone", PATIENCE, || scene.nodes.get(HOST).is_none().then_some(()));
    fs::write(&file, "").unwrap();
    scene.wait_for_host();
    assert_eq!(agent.stop().code(), Some(0));
    assert_eq!(tree(&scene.nodes, DOMAIN).keys().collect::<Vec<_>>(), [DOMAIN, ALIAS]);
}

//--- The verb ---

/// `--once` registers and leaves the session to its timeout; `--unregister` removes what is left.
#[test]
fn once_and_unregister_end_by_themselves() {
    let scene = Scene::new();
    let servers = [scene.server.address()];
    let file = scene.folder.path().join("healthy");
    let text = configuration(&servers, LONG, &check(&file, ""));
    fs::write(&file, "").unwrap();
    let output = run(&scene, &["--once"], &text);
    assert_eq!(output.code, 0, "{}", output.stderr);
    scene.wait_registered();
    let first = scene.owner();
    assert_eq!(run(&scene, &["--once"], &text).code, 0);
    assert_ne!(scene.owner(), first);
    fs::remove_file(&file).unwrap();
    let output = run(&scene, &["--once"], &text);
    assert_eq!(output.code, 1);
    assert!(output.stderr.ends_with("the health check failed; the instance is not registered\n"), "{}", output.stderr);
    assert_eq!(scene.nodes.children(DOMAIN), [""; 0]);

    fs::write(&file, "").unwrap();
    assert_eq!(run(&scene, &["--once"], &text).code, 0);
    // Of others with the same alias, only our own records go.
    let other = Znodes::connect(&servers);
    scene.nodes.delete(ALIAS);
    other.create_ephemeral(ALIAS, b"{\"address\":\"10.0.0.9\"}");
    let output = run(&scene, &["--unregister"], &text);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(scene.nodes.children(DOMAIN), ["a1"]);
    assert_eq!(run(&scene, &["--unregister"], &text).code, 0, "nothing is left, which is fine");
    // Nobody listens on this port.
    let text = configuration(&["127.0.0.1:1".parse().unwrap()], Duration::from_secs(1), "");
    for option in ["--once", "--unregister"] {
        let output = run(&scene, &[option], &text);
        assert_eq!(output.code, 1);
        assert!(output.stderr.ends_with("ZooKeeper cannot be reached\n"), "{}", output.stderr);
    }
}

/// Every mistake in the file is told at once, and nothing is connected to.
#[test]
fn mistakes_are_told_before_anything_happens() {
    let folder = Folder::new();
    let file = Registrar::write(
        &folder,
        "wrong",
        "{\n \"adminIp\": 5,\n \"registration\": {\"domain\": \"a b\", \"type\": \"host\"},\n \"zookeeper\": {\"servers\": []}\n}\n",
    );
    let place = file.display();
    let output = run_verb(&["register"], &file);
    assert_eq!((output.code, output.stdout.as_str()), (1, ""));
    let advice = "write a name such as \"shop.emy-10.example.com\"";
    assert_eq!(
        output.stderr,
        format!(
            "{place}:2:13: \"adminIp\" is an integer; write an address without a port\n\
             {place}:3:29: \"a b\" has a character other than letters, digits, \"-\", \"_\" and \".\"; {advice}\n\
             {place}:4:27: \"servers\" is empty; write a list such as [{{\"host\": \"10.0.0.1\", \"port\": 2181}}]\n"
        )
    );
    assert_eq!(run_verb(&["register"], &folder.path().join("none.json")).code, 1);
    assert_eq!(run_verb(&["register", "--once", "--dry-run"], &file).code, 2);
    let servers = ["127.0.0.1:1".parse().unwrap()];
    let file = Registrar::write(&folder, "right", &configuration(&servers, LONG, ""));
    let output = run_verb(&["register", "--dry-run", "--hostname", "a/b"], &file);
    assert_eq!(output.code, 1);
    assert!(output.stderr.contains("the host name \"a/b\" cannot be part of a path"), "{}", output.stderr);
}
