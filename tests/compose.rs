//! Services of deploy/compose/compose.yaml, started: each in a namespace with the address, the host name, the files and
//! the command that the file gives it, with our program as the image and Debian's Prometheus as the other.
//!
//! Needs root; `make test-partition` runs it. The image itself is tested where it is built.

mod harness;

use harness::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a root of the system's programs, this one, and the files of a service, and runs the program in there.
const CONTAINER: &str = r#"
root=$1 hostname=$2
shift 2
hostname "$hostname"
for folder in usr bin sbin lib lib64 dev proc; do
    if [ -L "/$folder" ]; then cp -P "/$folder" "$root/$folder"
    elif [ -d "/$folder" ]; then mkdir "$root/$folder" && mount --rbind "/$folder" "$root/$folder"
    fi || exit 1
done
while [ "$1" != run ]; do
    mkdir -p "$root$(dirname "$2")"
    if [ -d "$1" ]; then mkdir -p "$root$2"; else touch "$root$2"; fi
    mount --bind "$1" "$root$2" || exit 1
    shift 2
done
shift
exec chroot "$root" /program "$@"
"#;

/// A command in namespaces and under a root of its own, with these files and folders in place.
fn contained(net: &Net, node: &str, hostname: &str, root: &Path, binds: &[(String, String)]) -> Command {
    let mut command = net.command(node, Path::new("unshare"));
    command.args(["--mount", "--uts", "sh", "-c", CONTAINER, "sh"]).arg(root).arg(hostname);
    command.args(binds.iter().flat_map(|(source, target)| [source, target])).arg("run");
    command
}

#[test]
#[ignore = "needs root: make test-partition"]
fn the_services_of_the_compose_file_work_together() {
    let folder = Folder::new();
    let [file] = &read_yaml("deploy/compose/compose.yaml")[..] else { panic!("one document") };
    let services = file["services"].as_object().expect("services");
    let address =
        |service: &Value| service["networks"]["cns"]["ipv4_address"].as_str().expect("an address").to_string();
    let nodes: Vec<(&str, String)> =
        services.iter().map(|(name, service)| (&name[..], format!("{}/24", address(service)))).collect();
    let net = Net::create(&[&nodes[..], &[("client", "10.53.0.200/24".to_string())]].concat());
    let hosts = folder.path().join("hosts");
    Net::write_hosts(&hosts, &nodes);

    let mut processes = BTreeMap::new();
    for (name, service) in services {
        let home = folder.subfolder(name);
        let mut binds = vec![(hosts.display().to_string(), "/etc/hosts".to_string())];
        for volume in service["volumes"].as_array().into_iter().flatten() {
            let mut parts = volume.as_str().expect("a volume").split(':');
            let (source, target) = (parts.next().expect("a source"), parts.next().expect("a target"));
            let source = if source.starts_with('.') {
                repository_file("deploy/compose").join(source).canonicalize().expect("a file of the repository")
            } else {
                folder.subfolder(&format!("volume-{source}"))
            };
            binds.push((source.display().to_string(), target.to_string()));
        }
        for tmpfs in service["tmpfs"].as_array().into_iter().flatten() {
            let target = tmpfs.as_str().and_then(|text| text.split(':').next()).expect("a folder");
            binds.push((folder.subfolder(&format!("tmpfs-{name}")).display().to_string(), target.to_string()));
        }
        let program = match service["entrypoint"][0].as_str() {
            Some("/aggregator") => Path::new(env!("CARGO_BIN_EXE_aggregator")).to_path_buf(),
            None if name == "prometheus" => program_path("prometheus"),
            other => panic!("{other:?}"),
        };
        let hostname = service["hostname"].as_str().unwrap_or(name);
        binds.push((program.display().to_string(), "/program".to_string()));
        let root = folder.subfolder(&format!("{name}/root"));
        let mut command = contained(&net, name, hostname, &root, &binds);
        command.args(service["command"].as_array().expect("a command").iter().map(|one| one.as_str().expect("a text")));
        command.current_dir(&home);
        processes.insert(name.clone(), Process::start(name, &mut command, &home.join("log")));
    }

    // Both replicas answer for the region with instances of all datacenters, under their own names.
    let region = Dname::parse("us-west.cns.example.com");
    let service = Dname::parse("web.svc.acme.us-west.cns.example.com");
    net.enter("client", || {
        for name in ["replica-1", "replica-2"] {
            let server = format!("{}:53", address(&services[name])).parse().expect("an address");
            wait_until(&format!("{name} has all datacenters"), PATIENCE, || {
                processes.values_mut().for_each(Process::assert_running);
                let mut client = Client::any(server);
                let answer = client.ask(&Query::new(&service, rtype::A)).ok()?;
                let networks: std::collections::BTreeSet<Vec<u8>> = answer
                    .answer
                    .iter()
                    .filter(|record| record.rtype == rtype::A)
                    .map(|record| record.rdata[..3].to_vec())
                    .collect();
                (networks.len() == 3).then_some(())
            });
        }
        // And it changes.
        let server = format!("{}:53", address(&services["replica-1"])).parse().expect("an address");
        let mut client = Client::any(server);
        let before = client.serial(&region).expect("a serial");
        wait_until("the region follows a change", PATIENCE, || {
            client.serial(&region).filter(|serial| *serial != before).map(drop)
        });
    });
    // Prometheus finds both by their names, and its rules have something to work with.
    net.enter("client", || {
        let prometheus =
            Prometheus::at(format!("{}:9090", address(&services["prometheus"])).parse().expect("an address"));
        wait_until("Prometheus is ready", PATIENCE, || prometheus.is_ready().then_some(()));
        wait_until("both replicas are scraped", PATIENCE, || {
            let up = prometheus.query("up{job=\"aggregator\"} == 1");
            let members = prometheus.query("aggregator_region_members{state=\"ok\"} == 3");
            (up.len() == 2 && members.len() == 2).then_some(())
        });
        let names: Vec<String> = prometheus
            .query("aggregator_build_info")
            .into_iter()
            .map(|(labels, _)| labels["instance"].clone())
            .collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names.contains(&"replica-1:9153".to_string()), "{names:?}");
    });
    for name in ["replica-1", "replica-2"] {
        let log = processes[name].log_text();
        assert!(!log.contains("ERROR"), "{log}");
    }
}
