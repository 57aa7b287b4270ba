//! The anycast layout of deploy/anycast/, tried: a router and two replicas with BIRD and the health check, and a client that asks one
//! address while a replica stops and comes back; and while BIRD or the health check lose what the other one knows.
//!
//! Needs root; `make test-partition` runs it. The files are the real ones with their addresses; the second replica has its own. This
//! network has no IPv6, so that the IPv6 neighbour of the file stays unheard.

mod harness;

use harness::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const SERVICE: &str = "192.0.2.53";
const REPLICAS: [&str; 2] = ["198.51.100.11", "198.51.100.12"];
const REGION: &str = "us-west.cns.example.com";

/// A machine with BIRD and, for a replica, with our daemon and its health check.
struct Machine {
    bird: Process,
    control: PathBuf,
    health: Option<Process>,
    daemon: Option<Process>,
}

/// Runs a program within a machine, which must succeed.
fn run(net: &Net, node: &str, words: &str) -> String {
    let mut words = words.split(' ');
    let mut command = net.command(node, &program_path(words.next().expect("a program")));
    run_tool(command.args(words))
}

/// Starts BIRD with one of the real configurations.
fn start_bird(net: &Net, folder: &Folder, node: &str, text: &str) -> Machine {
    let home = folder.subfolder(node);
    let (file, control) = (home.join("bird.conf"), home.join("bird.ctl"));
    assert!(text.contains("log syslog all;"));
    write_file(&file, &text.replace("log syslog all;", "log stderr all;"));
    let mut command = net.command(node, &program_path("bird"));
    command.arg("-f").arg("-c").arg(&file).arg("-s").arg(&control).arg("-P").arg(home.join("bird.pid"));
    let mut bird = Process::start("bird", &mut command, &home.join("bird.log"));
    bird.wait_ready("has its socket", PATIENCE, || control.exists().then_some(()));
    Machine { bird, control, health: None, daemon: None }
}

/// Starts the health check of a replica.
fn start_health(net: &Net, folder: &Folder, node: &str, control: &Path) -> Process {
    let mut health = net.command(node, &repository_file("deploy/anycast/healthcheck"));
    health.args([SERVICE, REGION, "service4"]);
    health.env("BIRDC", format!("birdc -s {}", control.display()));
    Process::start("healthcheck", &mut health, &folder.path().join(format!("{node}.health")))
}

/// Starts our daemon on a replica, with its zones in its state folder.
fn start_daemon(net: &Net, folder: &Folder, node: &str, address: &str) -> Process {
    let home = folder.subfolder(node);
    let configuration = home.join("config.toml");
    let zone = "us-west-1.cns.example.com";
    let text = format!(
        "[server]\nname = \"{node}.example.com\"\nlisten = [\"{SERVICE}:53\", \"{address}:53\"]\n[state]\nfolder = \"state\"\n\
         [control]\nsocket = \"control\"\n[zones.\"{zone}\"]\nprimaries = [\"198.51.100.101\"]\nsource_address = \"{address}\"\n\
         [aggregations.\"{REGION}\"]\nmembers = [\"{zone}\"]\n"
    );
    write_file(&configuration, &text);
    let mut command = net.command(node, Path::new(env!("CARGO_BIN_EXE_aggregator")));
    command.args(["run", "-c"]).arg(&configuration).current_dir(&home);
    let mut process = Process::start("aggregator", &mut command, &home.join("log"));
    process.wait_ready("answers status", PATIENCE, || (run_verb(&["status"], &configuration).code == 0).then_some(()));
    process
}

/// Through which replicas the router sends what is for the service address.
fn ways(net: &Net) -> BTreeSet<&'static str> {
    let routes = run(net, "router", &format!("ip route show {SERVICE}"));
    REPLICAS.into_iter().filter(|replica| routes.contains(&format!("via {replica} "))).collect()
}

#[test]
#[ignore = "needs root: make test-partition"]
fn a_replica_that_stops_is_out_of_the_way_and_clients_do_not_notice() {
    let folder = Folder::new();
    let nodes = [
        ("router", "198.51.100.1/24"),
        ("r11", "198.51.100.11/24"),
        ("r12", "198.51.100.12/24"),
        ("dc", "198.51.100.101/24"),
        ("client", "198.51.100.200/24"),
    ];
    let net = Net::create(&nodes.map(|(node, address)| (node, address.to_string())));
    run(&net, "router", "sysctl -qw net.ipv4.ip_forward=1");
    run(&net, "client", &format!("ip route add {SERVICE} via 198.51.100.1"));
    let zone = "us-west-1.cns.example.com";
    let mut primary = net.command("dc", Path::new(env!("CARGO_BIN_EXE_aggregator")));
    primary.args(["demo", "--primary", zone, "--listen", "198.51.100.101:53"]);
    let _primary = Process::start("primary", &mut primary, &folder.path().join("primary.log"));

    let mut router = start_bird(&net, &folder, "router", &repository_text("deploy/anycast/router.conf"));
    let mut machines: Vec<Machine> = ["r11", "r12"]
        .iter()
        .zip(REPLICAS)
        .map(|(node, address)| {
            run(&net, node, &format!("ip addr add {SERVICE}/32 dev lo"));
            let text = repository_text("deploy/anycast/bird.conf");
            let mut machine = start_bird(&net, &folder, node, &text.replace("198.51.100.11", address));
            machine.daemon = Some(start_daemon(&net, &folder, node, address));
            machine.health = Some(start_health(&net, &folder, node, &machine.control));
            machine
        })
        .collect();
    wait_until("both replicas are announced", PATIENCE, || (ways(&net).len() == 2).then_some(()));

    // A client that asks as a resolver does, a second for a try, has its answer whatever happens to one replica.
    let ask = || {
        net.enter("client", || {
            let mut client =
                Client::any(format!("{SERVICE}:53").parse().expect("an address")).with_deadline(Duration::from_secs(1));
            client.serial(&Dname::parse(REGION))
        })
    };
    wait_until("the service address answers", PATIENCE, ask);
    machines[0].daemon = None;
    let began = std::time::Instant::now();
    wait_until("the replica that stopped is out of the way", PATIENCE, || {
        (ways(&net) == BTreeSet::from([REPLICAS[1]])).then_some(())
    });
    println!("withdrawn {:?} after the replica stopped", began.elapsed());
    (0..20).for_each(|_| assert!(ask().is_some(), "the other replica answers"));
    // The health check that ends withdraws as well.
    machines[1].health.as_mut().expect("a health check").stop(Duration::from_secs(10)).expect("the health check ends");
    wait_until("nobody is announced", PATIENCE, || ways(&net).is_empty().then_some(()));
    machines[0].daemon = Some(start_daemon(&net, &folder, "r11", REPLICAS[0]));
    wait_until("the first replica is back", PATIENCE, || (ways(&net) == BTreeSet::from([REPLICAS[0]])).then_some(()));
    wait_until("the service address answers again", PATIENCE, ask);

    // BIRD reads its file again, and has the protocol off: while the health check stands still one sees it.
    let is_first = || (ways(&net) == BTreeSet::from([REPLICAS[0]])).then_some(());
    let first = &mut machines[0];
    first.health.as_ref().expect("a health check").signal(libc::SIGSTOP);
    run(&net, "r11", &format!("birdc -s {} configure", first.control.display()));
    wait_until("BIRD has switched the protocol off", PATIENCE, || ways(&net).is_empty().then_some(()));
    first.health.as_ref().expect("a health check").signal(libc::SIGCONT);
    wait_until("the replica is announced after BIRD was configured", PATIENCE, is_first);
    // BIRD ends and starts, and the health check goes on.
    first.bird.stop(Duration::from_secs(10)).expect("BIRD ends");
    wait_until("nobody is announced without BIRD", PATIENCE, || ways(&net).is_empty().then_some(()));
    let text = repository_text("deploy/anycast/bird.conf");
    first.bird = start_bird(&net, &folder, "r11", &text).bird;
    wait_until("the replica is announced after BIRD was started anew", PATIENCE, is_first);
    // The health check is killed, then the replica: the route stays, until there is a health check again.
    first.health.as_mut().expect("a health check").kill();
    first.daemon = None;
    assert_eq!(ways(&net), BTreeSet::from([REPLICAS[0]]));
    first.health = Some(start_health(&net, &folder, "r11", &first.control));
    wait_until("what was left behind is withdrawn", PATIENCE, || ways(&net).is_empty().then_some(()));
    first.daemon = Some(start_daemon(&net, &folder, "r11", REPLICAS[0]));
    wait_until("the replica is announced by the new health check", PATIENCE, is_first);
    wait_until("the service address answers in the end", PATIENCE, ask);
    machines.iter_mut().chain([&mut router]).for_each(|machine| machine.bird.assert_running());
}
