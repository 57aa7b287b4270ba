//! Common parts of the tests of all images: datacenters, a host that knows the instance, and questions from outside.

use crate::harness::{Client, Dname, Folder, MetadataHost, Nsd, Peer, Query, rtype, wait_until};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// The metadata key of the configuration.
pub const KEY: &str = "aggregator-config";

/// Three datacenters in one NSD, and whoever knows the instance.
pub struct Site {
    pub folder: Folder,
    pub host: MetadataHost,
    port: u16,
    nsd: Option<Peer>,
}

impl Site {
    /// Starts the datacenters; each has the same name with an address of its own.
    pub fn new() -> Site {
        let folder = Folder::new();
        let zone = |number: u32| {
            let text = format!(
                "$ORIGIN dc{number}.test.\n$TTL 30\n@ IN SOA ns.test. h.test. {number} 30 60 2592000 30\n\
                 @ IN NS ns.test.\nweb.svc IN A 192.0.2.{number}\n"
            );
            (Dname::parse(&format!("dc{number}.test")), text)
        };
        let nsd = Nsd::start(&folder, &[zone(1), zone(2), zone(3)]);
        Site { port: nsd.address().port(), nsd: Some(nsd), host: MetadataHost::new(), folder }
    }

    /// Takes all datacenters away.
    pub fn cut_datacenters(&mut self) {
        self.nsd = None;
    }

    /// A configuration in the form of RFD 172 with extras: a region of all three, from primaries at an address.
    pub fn configuration(&self, region: &str, primary: IpAddr, listen: &str) -> String {
        let primary = SocketAddr::new(primary, self.port);
        let zones = (1..=3).map(|number| format!("\"dc{number}.test\" = \"{primary}\"\n")).collect::<String>();
        format!(
            "[server]\nname = \"ns.test\"\nlisten = \"{listen}\"\n[metrics]\nlisten = []\n[transfer]\nretry_min = \"500ms\"\n\
             retry_max = \"1s\"\n[zones]\n{zones}[aggregations]\n\"{region}\" = [\"dc1.test\", \"dc2.test\", \"dc3.test\"]\n"
        )
    }
}

/// The query that every image is asked.
pub fn question(region: &str) -> Query {
    Query::new(&Dname::parse(&format!("web.svc.{region}")), rtype::A)
}

/// Returns true if a server answers for a region with the addresses of all three datacenters.
pub fn answers(server: SocketAddr, region: &str) -> bool {
    let wanted: Vec<Vec<u8>> = (1..=3).map(|number| Ipv4Addr::new(192, 0, 2, number).octets().to_vec()).collect();
    let Ok(answer) = Client::new(server).with_deadline(Duration::from_millis(300)).ask(&question(region)) else {
        return false;
    };
    let mut found: Vec<Vec<u8>> = answer.answer.into_iter().map(|record| record.rdata).collect();
    found.sort();
    found == wanted
}

/// Waits until a server answers for a region.
pub fn wait_for_answer(server: SocketAddr, region: &str, patience: Duration) {
    wait_until(&format!("{server} answers for {region}"), patience, || answers(server, region).then_some(()));
}

/// The folder of the images.
pub fn images() -> PathBuf {
    std::env::var_os("AGGREGATOR_IMAGES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target/image"), PathBuf::from)
}

/// A built image.
pub fn image(name: &str) -> PathBuf {
    let path = images().join(name.replace("VERSION", env!("CARGO_PKG_VERSION")));
    assert!(path.exists(), "{} is not built; run `make test-image`", path.display());
    path
}

/// Size of an image in MB, printed for whoever reads the figures, and checked.
pub fn check_size(name: &str, most: u64) {
    let bytes = std::fs::metadata(image(name)).expect("size").len();
    println!("figure: {name} {:.1} MB", bytes as f64 / 1e6);
    assert!(bytes < most * 1_000_000, "{name} has {bytes} bytes");
}

/// Runs a program that must succeed.
pub fn run(program: &str, arguments: &[&str]) -> Output {
    let output = try_run(program, arguments);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs a program.
pub fn try_run(program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()));
    match command.args(arguments).output() {
        Ok(output) => output,
        Err(error) => panic!("cannot run {program}: {error}; run image/install-tools"),
    }
}

/// The standard output of a program.
pub fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
