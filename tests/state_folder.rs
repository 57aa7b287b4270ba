//! A state folder that is not what it should be: an older copy, read-only, or removed while the server runs. Zones are
//! served, serials of regions do not fall, and operators are told.

mod harness;

use harness::{Aggregator, Client, Dname, Folder, Knotd, Nsd, SecondaryPlan, Settings, read_zone, wait_until};
use std::ffi::CString;
use std::fs;
use std::io::{Error, Result};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(40);
const ZONE: &str = "dc.test";
const REGION: &str = "region.test";

/// Zone dc.test with a serial.
fn zone_text(serial: u32) -> String {
    format!(
        "$ORIGIN dc.test.\n$TTL 30\n@ IN SOA ns.dc.test. h.dc.test. {serial} 86400 86400 2592000 30\n\
         @ IN NS ns.dc.test.\nweb IN A 192.0.2.{serial}\n"
    )
}

/// A server with a state folder, a region of the one zone and these secondaries of it.
fn settings(primary: &str, secondaries: &[String]) -> Settings {
    let quoted: Vec<String> = secondaries.iter().map(|address| format!("\"{address}\"")).collect();
    let plan = format!(
        "[secondaries]\nallow_transfer = [\"127.0.0.0/8\"]\n[zones]\n\"{ZONE}\" = \"{primary}\"\n\
         [aggregations.\"{REGION}\"]\nmembers = [\"{ZONE}\"]\nnotify = [{}]\n",
        quoted.join(", ")
    );
    Settings { state: Some("state".into()), ..Settings::new(&plan) }
}

/// Waits until a server has the region with a serial.
fn wait_for(client: &mut Client, serial: u32) {
    let region = Dname::parse(REGION);
    wait_until("the serial is served", PATIENCE, || (client.serial(&region) == Some(serial)).then_some(()));
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A folder that can be made read-only for the processes that this thread starts, until it is dropped.
///
/// Rights of files do not restrain root, who therefore gets a mount of its own: that needs CAP_SYS_ADMIN.
struct Lockable(PathBuf);

impl Lockable {
    /// Must come before the processes.
    fn new(path: &Path) -> Lockable {
        fs::create_dir_all(path).unwrap();
        if is_root() {
            // SAFETY: a plain system call, which changes this thread only.
            let parted = unsafe { libc::unshare(libc::CLONE_NEWNS) };
            assert_eq!(parted, 0, "root needs CAP_SYS_ADMIN for this test: {}", Error::last_os_error());
            mount(Path::new("/"), libc::MS_REC | libc::MS_PRIVATE);
            mount(path, libc::MS_BIND);
        }
        Lockable(path.to_owned())
    }

    /// No process may have a file in it open for writing.
    fn lock(&self) {
        if is_root() {
            mount(&self.0, libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY);
        } else {
            fs::set_permissions(&self.0, fs::Permissions::from_mode(0o555)).unwrap();
        }
        assert!(fs::write(self.0.join("file"), "").is_err(), "the folder can be written");
    }
}

impl Drop for Lockable {
    fn drop(&mut self) {
        if is_root() {
            let path = CString::new(self.0.as_os_str().as_bytes()).unwrap();
            // SAFETY: the path ends in a zero.
            unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
        } else {
            // What cannot be removed stays in the folder of temporary files.
            let _ = fs::set_permissions(&self.0, fs::Permissions::from_mode(0o755));
        }
    }
}

/// Returns true if rights of files do not count.
fn is_root() -> bool {
    // SAFETY: a plain system call.
    unsafe { libc::geteuid() == 0 }
}

/// Mounts a folder at its own place, or changes how it is mounted.
fn mount(path: &Path, flags: libc::c_ulong) {
    let text = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends in a zero, and the others may be missing.
    let status = unsafe { libc::mount(text.as_ptr(), text.as_ptr(), std::ptr::null(), flags, std::ptr::null()) };
    assert_eq!(status, 0, "root needs CAP_SYS_ADMIN for this test: {}", Error::last_os_error());
}

/// The folder can be read and written; only a secondary, or a name server of the zone, knows that the region was ahead
/// of it.
#[test]
fn a_region_with_an_old_folder_goes_on_from_other_servers() {
    let folder = Folder::new();
    let text = zone_text(7).replace(ZONE, REGION);
    let other = Nsd::start(&folder, &[(Dname::parse(REGION), text)]);
    let primary = Knotd::start(&folder, &[(Dname::parse(ZONE), zone_text(3))]);
    let (primary, other) = (primary.address().to_string(), other.address().to_string());
    let mut as_name_server = settings(&primary, &[]);
    as_name_server.plan.push_str(&format!("[probe]\nevery = \"off\"\nhosts = {{ \"ns.{ZONE}\" = \"{other}\" }}\n"));
    for (home, known) in [("one", settings(&primary, &[other])), ("two", as_name_server)] {
        let mut daemon = Aggregator::start_with(&folder.subfolder(home), &settings(&primary, &[]));
        let mut client = Client::new(daemon.address());
        wait_for(&mut client, 3);
        daemon.write_settings(&known);
        daemon.kill_and_restart(|| ());
        wait_for(&mut client, 8);
        let status = daemon.verb(&["status", REGION]).stdout;
        assert!(status.contains("went on at the start from serial 7, which another server had"), "{status}");
        let log = daemon.log_text();
        assert!(log.contains("the state on disk was old"), "{log}");
        let merged = |serials: &str| log.contains(&format!("region merged region={REGION}. {serials} "));
        assert!(merged("serial=3") && merged("from=3 serial=8"), "the start waits for nobody: {log}");
        // It remembers that, and the other server is not ahead any more.
        daemon.kill_and_restart(|| ());
        let serial = wait_until("the region is served", PATIENCE, || client.serial(&Dname::parse(REGION)));
        assert_eq!(serial, 8);
        assert!(daemon.stop().success());
    }
}

#[test]
fn a_read_only_folder_publishes_and_alarms() {
    let folder = Folder::new();
    let home = folder.subfolder("aggregator");
    let state = Lockable::new(&home.join("state"));
    let primary = Knotd::start(&folder, &[(Dname::parse(ZONE), zone_text(3))]);
    let address = primary.address().to_string();
    let mut daemon = Aggregator::start_with(&home, &settings(&address, &[]));
    let mut client = Client::new(daemon.address());
    wait_for(&mut client, 3);
    let region = Dname::parse(REGION);
    let secondary = Nsd::start_secondary(&folder, &SecondaryPlan::new(daemon.address(), &[&region]));
    daemon.write_settings(&settings(&address, &[secondary.address().to_string()]));
    assert_eq!(daemon.verb(&["reload"]).code, 0);
    let mut downstream = Client::new(secondary.address());
    wait_for(&mut downstream, 3);
    let earlier = folder.path().join("earlier");
    copy(&state.0, &earlier);
    primary.replace_zone(&Dname::parse(ZONE), &read_zone(&zone_text(5)));
    assert_eq!(daemon.verb(&["refresh"]).code, 0);
    wait_for(&mut downstream, 5);
    // As if the folder had been read-only since then; and nobody but the secondary knows better.
    drop(primary);
    daemon.kill_and_restart(|| {
        for entry in fs::read_dir(&state.0).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        }
        copy(&earlier, &state.0);
        state.lock();
    });
    let serial = wait_until("the region is served", PATIENCE, || client.serial(&region));
    assert_eq!(serial, 6, "what is served first is newer than what the secondary has");
    wait_for(&mut downstream, 6);
    let metrics = daemon.metrics();
    assert!(metrics.contains("aggregator_state_healthy 0"), "{metrics}");
    let (status, log) = (daemon.verb(&["status"]).stdout, daemon.log_text());
    let place = state.0.display().to_string();
    let refused = ["cannot lock", "cannot write into"].iter().any(|refusal| log.contains(refusal));
    assert!(status.contains(&place) && refused && log.contains(&place), "{status}\n{log}");
    let about = daemon.verb(&["status", REGION]).stdout;
    assert!(about.contains("went on at the start from serial 5, which another server had"), "{about}");
    assert!(daemon.stop().success());
}

#[test]
fn a_folder_that_is_removed_is_written_whole_again() {
    let folder = Folder::new();
    let home = folder.subfolder("aggregator");
    let state = home.join("state");
    let primary = Knotd::start(&folder, &[(Dname::parse(ZONE), zone_text(3))]);
    let mut daemon = Aggregator::start_with(&home, &settings(&primary.address().to_string(), &[]));
    let mut client = Client::new(daemon.address());
    wait_for(&mut client, 3);
    primary.replace_zone(&Dname::parse(ZONE), &read_zone(&zone_text(5)));
    assert_eq!(daemon.verb(&["refresh"]).code, 0);
    wait_for(&mut client, 5);
    let pinned = daemon.verb(&["rollback", REGION, "--to", "3", "--yes"]);
    assert_eq!(pinned.code, 0, "{pinned:?}");
    wait_for(&mut client, 6);
    fs::remove_dir_all(&state).unwrap();
    let files = ["lock", "regions", "zones/dc.test/snapshot", "zones/region.test/snapshot"];
    // Nothing changes meanwhile: nobody has to write by chance.
    wait_until("all files are there again", PATIENCE, || {
        files.iter().all(|file| state.join(file).exists()).then_some(())
    });
    assert!(daemon.log_text().contains("everything is written into it anew"), "{}", daemon.log_text());
    drop(primary);
    daemon.kill_and_restart(|| ());
    let mut status = String::new();
    wait_until("the pin goes on", PATIENCE, || {
        status = daemon.verb(&["status", REGION]).stdout;
        status.contains("pinned to version 3").then_some(())
    });
    wait_for(&mut client, 6);
    assert_eq!(client.serial(&Dname::parse(ZONE)), Some(5));
    let metrics = daemon.metrics();
    assert!(metrics.contains("aggregator_state_healthy 1"), "{metrics}");
    assert!(daemon.stop().success());
}
