//! Parts that run on SmartOS only, as far as they can be tested elsewhere: the image's manifest against the rules of
//! Triton's image server, the import script among programs that only write down how they were called, and the method of
//! the SMF manifest started as SMF starts it.

mod harness;

use harness::{Folder, repository_file, repository_text, write_file};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

const UUID: &str = "3f0a4c52-9b1d-4e07-8a66-0c5b7e21d984";
/// Size of a disk that is quick to write, in MiB.
const DISK_MIB: usize = 3;

/// The manifest's template as `image/disk` leaves it.
fn template() -> String {
    let text = repository_text("image/smartos/manifest.json.in");
    [("UUID", UUID), ("VERSION", env!("CARGO_PKG_VERSION")), ("PUBLISHED_AT", "2026-11-20T22:00:00Z")]
        .iter()
        .fold(text, |text, (name, value)| text.replace(&format!("@{name}@"), value))
        .replace("@IMAGE_SIZE@", &DISK_MIB.to_string())
}

//--- The manifest ---

/// Returns true if every character is one of these.
fn consists_of(text: &str, allowed: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().all(allowed)
}

/// Returns true if a text has the form of a UUID in lower case.
fn is_uuid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && consists_of(text, |c| matches!(c, '0'..='9' | 'a'..='f' | '-'))
}

/// The first rule of the image server that a manifest of a disk breaks.
fn broken_rule(manifest: &Value) -> Option<&'static str> {
    let text = |field: &str| manifest[field].as_str().unwrap_or_default();
    // Every field that it has, and those that a disk must have; any other is an error.
    let optional = ["description", "homepage", "requirements", "tags"];
    let needed = [
        "v",
        "uuid",
        "owner",
        "name",
        "version",
        "state",
        "disabled",
        "public",
        "published_at",
        "type",
        "os",
        "files",
        "nic_driver",
        "disk_driver",
        "cpu_type",
        "image_size",
    ];
    let fields = manifest.as_object()?;
    let [file] = &manifest["files"].as_array().map_or(&[][..], Vec::as_slice) else { return Some("one file") };
    let requirements = manifest["requirements"].as_object()?;
    let networks = requirements.get("networks")?.as_array()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | '-');
    let rules = [
        (fields.keys().all(|name| optional.contains(&&name[..]) || needed.contains(&&name[..])), "known fields"),
        (needed.iter().all(|name| fields.contains_key(*name)), "needed fields"),
        (manifest["v"] == 2, "version 2"),
        (is_uuid(text("uuid")) && is_uuid(text("owner")), "UUIDs"),
        (consists_of(text("name"), |c| plain(c) || c == ' ') && text("name").len() <= 512, "name"),
        (consists_of(text("version"), |c| plain(c) || c == '+') && text("version").len() <= 128, "version"),
        (text("state") == "active" && text("type") == "zvol" && text("os") == "linux", "state, type and system"),
        (manifest["disabled"] == false && manifest["public"] == true, "public"),
        (text("published_at").len() == 20 && text("published_at").ends_with('Z'), "time"),
        (text("description").len() <= 512 && text("homepage").len() <= 128, "description and homepage"),
        (text("homepage").starts_with("https://"), "homepage"),
        (
            file["sha1"].as_str().is_some_and(|sum| sum.len() == 40 && consists_of(sum, |c| c.is_ascii_hexdigit())),
            "sum",
        ),
        (file["size"].as_u64().is_some_and(|size| size <= 20 << 30), "size"),
        (matches!(file["compression"].as_str(), Some("none" | "gzip" | "bzip2" | "xz")), "compression"),
        (file.as_object().is_some_and(|file| file.len() == 3), "fields of the file"),
        (requirements.keys().all(|name| matches!(&name[..], "networks" | "min_ram" | "ssh_key")), "requirements"),
        (requirements["min_ram"].is_u64() && requirements["ssh_key"].is_boolean(), "requirements"),
        (networks.iter().all(|one| one["name"].is_string() && one["description"].is_string()), "networks"),
        (networks.iter().all(|one| one.as_object().is_some_and(|one| one.len() == 2)), "fields of networks"),
        (text("nic_driver") == "virtio" && text("disk_driver") == "virtio", "drivers"),
        (matches!(text("cpu_type"), "host" | "qemu64"), "processor"),
        (manifest["image_size"].as_u64().is_some_and(|size| size > 0 && size <= 1024), "size of the disk"),
        (manifest["tags"].is_object(), "tags"),
    ];
    rules.into_iter().find(|(is_kept, _)| !is_kept).map(|(_, rule)| rule)
}

#[test]
fn the_manifest_obeys_the_image_server() {
    let text = template().replace("@SHA1@", &"0".repeat(40)).replace("@SIZE@", "71431261");
    assert!(!text.contains('@'), "{text}");
    let manifest: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(broken_rule(&manifest), None);
    // And mistakes would have been found.
    for (field, value, rule) in [
        ("activated", Value::from(true), "known fields"),
        ("name", Value::from("cns:aggregator"), "name"),
        ("image_size", Value::from("512"), "size of the disk"),
        ("files", Value::from(Vec::<Value>::new()), "one file"),
    ] {
        let mut broken = manifest.clone();
        broken[field] = value;
        assert_eq!(broken_rule(&broken), Some(rule));
    }
}

//--- The import ---

/// A global zone of SmartOS, in a folder: its programs write down how they were called.
struct GlobalZone(Folder);

impl GlobalZone {
    fn new() -> GlobalZone {
        let zone = GlobalZone(Folder::new());
        std::fs::create_dir(zone.path("bin")).expect("folder");
        let calls = zone.path("calls");
        let calls = calls.display();
        zone.program("uname", "echo SunOS");
        zone.program("zonename", "echo global");
        zone.program("digest", "sha1sum \"$3\" | cut -d' ' -f1");
        zone.program("imgadm", &format!("echo imgadm \"$@\" >>{calls}"));
        // The volume is a file; only whole blocks get into a raw device.
        let volume = zone.path("volume");
        zone.program(
            "dd",
            &format!(
                "echo dd \"$@\" >>{calls}\nof=\nfor word; do case $word in of=*) of=$word;; obs=*) block=${{word#obs=}};; esac; done\n\
                 [ \"$of\" = of=/dev/zvol/rdsk/zones/import-{UUID} ] || exit 1\n\
                 for word; do shift; case $word in of=*) ;; *) set -- \"$@\" \"$word\";; esac; done\n\
                 /bin/dd \"$@\" status=none >{volume}\n[ $(($(stat -c %s {volume}) % block)) = 0 ]",
                volume = volume.display()
            ),
        );
        zone.program(
            "zfs",
            &format!(
                "echo zfs \"$@\" >>{calls}\ncase $1 in send) [ ! -e {broken} ] || exit 1; cat {volume} ;; esac",
                broken = zone.path("broken").display(),
                volume = volume.display()
            ),
        );
        write_file(&zone.path("manifest.in"), &template());
        zone
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Puts a program there.
    fn program(&self, name: &str, text: &str) {
        let path = self.path("bin").join(name);
        write_file(&path, &format!("#!/bin/sh\n{text}\n"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("mode");
    }

    /// Packs a disk of some octets, no two blocks of which are the same.
    fn pack(&self, bytes: usize) -> Vec<u8> {
        let disk: Vec<u8> = (0..bytes).map(|at| (at / 4096 + at) as u8).collect();
        std::fs::write(self.path("disk.raw"), &disk).expect("disk");
        assert!(Command::new("gzip").arg(self.path("disk.raw")).status().expect("gzip").success());
        disk
    }

    /// Runs the import; what it did and how it ended.
    fn import(&self) -> (Output, Vec<String>) {
        let mut command = Command::new("bash");
        command.arg(repository_file("image/smartos/import-raw"));
        command.args([self.path("disk.raw.gz"), self.path("manifest.in")]).arg(self.0.path());
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        let output = command.output().expect("bash");
        let calls = std::fs::read_to_string(self.path("calls")).unwrap_or_default();
        (output, calls.lines().map(str::to_owned).collect())
    }
}

#[test]
fn the_import_makes_an_image_of_the_raw_disk() {
    let zone = GlobalZone::new();
    let disk = zone.pack(DISK_MIB << 20);
    let (output, calls) = zone.import();
    assert!(output.status.success(), "{output:?}");
    assert!(std::fs::read(zone.path("volume")).expect("volume") == disk, "the volume is the disk");
    let (volume, version) = (format!("zones/import-{UUID}"), env!("CARGO_PKG_VERSION"));
    let stem = zone.path(&format!("cns-region-aggregator-{version}"));
    let (file, manifest) = (format!("{}.zvol.gz", stem.display()), format!("{}.imgmanifest", stem.display()));
    let expected = [
        format!("zfs create -V {DISK_MIB}m {volume}"),
        format!("dd of=/dev/zvol/rdsk/{volume} ibs=65536 obs=1048576"),
        format!("zfs snapshot {volume}@final"),
        format!("zfs send {volume}@final"),
        format!("imgadm install -m {manifest} -f {file}"),
        format!("zfs destroy -r {volume}"),
    ];
    assert_eq!(calls, expected);
    let stream = Command::new("gzip").args(["-dc", &file]).output().expect("gzip").stdout;
    assert!(stream == disk, "the stream is packed as it is");
    let manifest: Value = serde_json::from_str(&std::fs::read_to_string(manifest).expect("manifest")).expect("JSON");
    assert_eq!(broken_rule(&manifest), None);
    let sum = Command::new("sha1sum").arg(&file).output().expect("sha1sum").stdout;
    assert_eq!(manifest["files"][0]["sha1"], String::from_utf8_lossy(&sum)[..40]);
    assert_eq!(manifest["files"][0]["size"], std::fs::metadata(file).expect("file").len());

    // On a head node it is the datacenter's.
    zone.program("sdc-imgadm", &format!("echo sdc-imgadm \"$1\" >>{}", zone.path("calls").display()));
    let (output, calls) = zone.import();
    assert!(output.status.success() && calls.contains(&"sdc-imgadm import".to_owned()), "{calls:?}");
}

#[test]
fn an_import_that_fails_leaves_no_volume() {
    let zone = GlobalZone::new();
    zone.pack((DISK_MIB << 20) - 4096);
    let (output, calls) = zone.import();
    assert!(!output.status.success() && calls.is_empty(), "a disk of another size: {calls:?}");
    let zone = GlobalZone::new();
    zone.pack(DISK_MIB << 20);
    write_file(&zone.path("broken"), "");
    let (output, calls) = zone.import();
    assert!(!output.status.success(), "{output:?}");
    assert!(calls.last().is_some_and(|call| call.starts_with("zfs destroy")), "{calls:?}");
    assert!(!calls.iter().any(|call| call.starts_with("imgadm")), "{calls:?}");
    zone.program("zonename", "echo a2b9");
    assert!(String::from_utf8_lossy(&zone.import().0.stderr).contains("no global zone"));
}

//--- The service ---

/// Starts the method of the SMF manifest as SMF does, which puts `exec` in front: its exit code, and how the program
/// was called.
fn start_by_smf(program: &str) -> (Option<i32>, Vec<String>) {
    let folder = Folder::new();
    let calls = folder.path().join("calls");
    let place = folder.path().join("aggregator");
    write_file(&place, &format!("#!/bin/sh\necho \"$@\" >>{calls}\n{program}\n", calls = calls.display()));
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).expect("mode");
    let text = repository_text("image/smf/aggregator.xml");
    let method = text.split_once("name=\"start\"").and_then(|(_, rest)| rest.split_once("exec=\"")?.1.split_once('"'));
    let method = method.expect("a start method").0.replace("&gt;", ">").replace("&amp;", "&");
    let method = method.replace("/opt/aggregator/bin/aggregator", &place.display().to_string());
    let method = method.replace("%{config/file}", "/etc/c.toml").replace("sleep 2", "sleep 0.01");
    let status = Command::new("sh").args(["-c", &format!("exec {method}")]).status().expect("sh");
    let read = || std::fs::read_to_string(&calls).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>();
    if status.success() {
        // The server is in the background.
        harness::wait_until("the server runs", std::time::Duration::from_secs(10), || {
            read().iter().any(|call| call.starts_with("run")).then_some(())
        });
    }
    (status.code(), read())
}

#[test]
fn smf_starts_the_server_and_gives_up_on_a_wrong_file() {
    let (code, calls) = start_by_smf("exit 0");
    assert_eq!(
        (code, calls),
        (Some(0), vec!["check --here -c /etc/c.toml".to_owned(), "run -c /etc/c.toml".to_owned()])
    );
    let (code, calls) = start_by_smf("[ $1 = run ]");
    assert_eq!(code, Some(96), "an error of the configuration, in the words of SMF");
    assert!(calls.iter().all(|call| call.starts_with("check")), "{calls:?}");
    // An address that comes up late.
    let (code, calls) = start_by_smf("[ $1 = run ] || [ -e \"$0.up\" ] || { touch \"$0.up\"; exit 1; }");
    assert_eq!((code, calls.len()), (Some(0), 3), "{calls:?}");
}
