//! The Debian package in a throwaway root: installed, upgraded under its configuration and state, removed, purged.

use crate::harness::{Process, program_path};
use crate::site::{Site, image, images, run, text_of, try_run, wait_for_answer};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
/// The worst exposure that `systemd-analyze security` may find, times ten.
const EXPOSURE: &str = "24";

/// A Debian system of its own.
struct Root(PathBuf);

impl Root {
    fn unpack(site: &Site) -> Root {
        let root = site.folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let archive = images().join("test-root.tar");
        assert!(archive.exists(), "{} is missing; run `make test-image`", archive.display());
        run("tar", &["-xf", archive.to_str().unwrap(), "-C", root.to_str().unwrap()]);
        Root(root)
    }

    fn run(&self, arguments: &[&str]) -> String {
        let mut all = vec![self.0.to_str().unwrap()];
        all.extend(arguments);
        text_of(&run("chroot", &all))
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    /// Installs a package file.
    fn install(&self, package: &Path) -> String {
        std::fs::copy(package, self.path("package.deb")).unwrap();
        let said = self.run(&["dpkg", "--force-confold", "--install", "/package.deb"]);
        std::fs::remove_file(self.path("package.deb")).unwrap();
        said
    }

    /// Every file, but for what dpkg keeps about itself.
    fn files(&self) -> BTreeSet<String> {
        let root = self.0.to_str().unwrap();
        let found = text_of(&run("find", &[root, "-xdev", "-printf", "%P\n"]));
        let own = |path: &str| ["var/lib/dpkg", "var/log", "var/cache"].iter().any(|folder| path.starts_with(folder));
        // Backups that shadow makes of its own files.
        found.lines().filter(|path| !own(path) && !path.ends_with('-')).map(str::to_owned).collect()
    }

    /// Starts the server as its unit does: as its user, with one capability.
    fn start(&self, log: &Path) -> Process {
        let mut command = Command::new(program_path("chroot"));
        command.arg(&self.0).args(["setpriv", "--reuid=aggregator", "--regid=aggregator", "--clear-groups"]);
        command.args(["--inh-caps=-all,+net_bind_service", "--ambient-caps=+net_bind_service", "--no-new-privs"]);
        command.args(["--bounding-set=-all,+net_bind_service", "aggregator", "run"]);
        Process::start("aggregator", &mut command, log)
    }
}

#[test]
#[ignore = "make test-image"]
fn installed_upgraded_and_purged() {
    let mut site = Site::new();
    let root = Root::unpack(&site);
    let before = root.files();
    let said = root.install(&image("previous.deb"));
    assert!(said.contains("write zones into /etc/aggregator/config.toml"), "{said}");
    // What systemd would make from the unit.
    for folder in ["run/aggregator", "var/lib/aggregator"] {
        root.run(&["install", "-d", "-m", "750", "-o", "aggregator", "-g", "aggregator", &format!("/{folder}")]);
    }
    let server = SocketAddr::from((Ipv4Addr::new(127, 42, 53, 3), 53));
    let configuration = |region: &str| site.configuration(region, Ipv4Addr::LOCALHOST.into(), &server.to_string());
    std::fs::write(root.path("etc/aggregator/config.toml"), configuration("one.test")).unwrap();
    root.run(&["aggregator", "check", "--here"]);
    let log = site.folder.path().join("package.log");
    let mut process = root.start(&log);
    wait_for_answer(server, "one.test", PATIENCE);
    std::fs::write(root.path("etc/aggregator/config.toml"), configuration("two.test")).unwrap();
    root.run(&["aggregator", "reload"]);
    wait_for_answer(server, "two.test", PATIENCE);

    // An upgrade keeps what the operator wrote and what was transferred; a power cut comes on top.
    process.kill();
    let replaced = std::fs::read(root.path("usr/bin/aggregator")).unwrap();
    let said = root.install(&image("aggregator_VERSION_amd64.deb"));
    assert!(!said.contains("write zones"), "{said}");
    assert!(std::fs::read(root.path("usr/bin/aggregator")).unwrap() != replaced, "another build");
    for path in [
        "usr/lib/systemd/system/aggregator.service",
        "usr/share/man/man1/aggregator.1.gz",
        "usr/share/man/man1/aggregator-status.1.gz",
        "usr/share/man/man5/aggregator.toml.5.gz",
        "usr/share/bash-completion/completions/aggregator",
        "usr/share/zsh/vendor-completions/_aggregator",
        "usr/share/fish/vendor_completions.d/aggregator.fish",
        "usr/share/doc/aggregator/sbom.cdx.json",
        "etc/systemd/system/multi-user.target.wants/aggregator.service",
    ] {
        assert!(root.path(path).symlink_metadata().is_ok(), "{path}");
    }
    site.cut_datacenters();
    let mut process = root.start(&log);
    wait_for_answer(server, "two.test", PATIENCE);
    assert!(process.stop(Duration::from_secs(10)).expect("it ends").success());

    root.run(&["dpkg", "--remove", "aggregator"]);
    assert!(root.path("etc/aggregator/config.toml").exists(), "a removal keeps the configuration");
    assert!(root.path("var/lib/aggregator/zones").exists(), "a removal keeps the zones");
    assert!(!root.path("usr/bin/aggregator").exists());
    root.run(&["dpkg", "--purge", "aggregator"]);
    let after = root.files();
    let left: Vec<_> = after.difference(&before).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!try_run("chroot", &[root.0.to_str().unwrap(), "getent", "passwd", "aggregator"]).status.success());
}

#[test]
#[ignore = "make test-image"]
fn the_unit_exposes_little() {
    let site = Site::new();
    let root = Root::unpack(&site);
    root.install(&image("aggregator_VERSION_amd64.deb"));
    let place = format!("--root={}", root.0.display());
    let threshold = format!("--threshold={EXPOSURE}");
    let arguments = ["security", "--offline=true", "--no-pager", &threshold, &place, "aggregator.service"];
    let output = run("systemd-analyze", &arguments);
    let text = text_of(&output);
    let verdict = text.lines().rev().find(|line| line.contains("exposure level")).expect("a verdict");
    println!("figure: {}", verdict.trim_start_matches(|c: char| !c.is_ascii_alphabetic()));
    let verified = try_run("systemd-analyze", &["verify", "--man=no", &place, "aggregator.service"]);
    let complaints = String::from_utf8_lossy(&verified.stderr).into_owned();
    let about_us: Vec<_> = complaints.lines().filter(|line| line.contains("aggregator")).collect();
    assert!(about_us.is_empty(), "{about_us:?}");
}
