//! `aggregator top` on a terminal of its own: it draws, follows, scrolls, ends with `q`, and leaves the terminal as it was.

mod harness;

use harness::{Aggregator, Dname, Folder, Knotd, wait_until};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// A program on a terminal.
struct Terminal {
    child: Child,
    keyboard: File,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    /// Starts `top` on a terminal of so many columns and rows.
    fn start(daemon: &Aggregator, columns: u16, rows: u16, variables: &[(&str, &str)]) -> Terminal {
        let (mut master, mut slave) = (0, 0);
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the pointers are to values that live until after the call; a null name and null settings are allowed.
        let opened = unsafe {
            libc::openpty(&raw mut master, &raw mut slave, std::ptr::null_mut(), std::ptr::null(), &raw const size)
        };
        assert_eq!(opened, 0, "a terminal");
        // SAFETY: openpty has made both, and nobody else has them.
        let (master, slave) = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let mut command = Command::new(env!("CARGO_BIN_EXE_aggregator"));
        command.args(["top", "-c"]).arg(daemon.configuration()).env("TERM", "xterm").env_remove("NO_COLOR");
        command.envs(variables.iter().copied());
        command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
        let child = command.spawn().expect("start top");
        drop(command);
        let keyboard = File::from(master);
        let mut screen = keyboard.try_clone().unwrap();
        let shown = Arc::<Mutex<String>>::default();
        let drawn = shown.clone();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut part) {
                drawn.lock().unwrap().push_str(&String::from_utf8_lossy(&part[..count]));
            }
        });
        Terminal { child, keyboard, shown }
    }

    /// Everything that was drawn so far.
    fn shown(&self) -> String {
        self.shown.lock().unwrap().clone()
    }

    /// Waits until something was drawn.
    fn wait_for(&self, text: &str) {
        wait_until(&format!("{text:?} is drawn"), PATIENCE, || self.shown().contains(text).then_some(()));
    }

    /// Presses keys.
    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("a keyboard");
    }

    /// Waits until the program has ended.
    fn end(&mut self) -> ExitStatus {
        wait_until("top ends", PATIENCE, || self.child.try_wait().expect("a child"))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended already unless something went wrong.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_draws_until_somebody_has_seen_enough() {
    let folder = Folder::new();
    let text = |zone: &str| {
        let text = format!("$ORIGIN {zone}.\n$TTL 30\n@ IN SOA ns.x. h.x. 7 30 60 3600 30\n@ IN NS ns.x.\n");
        (Dname::parse(zone), text)
    };
    let peer = Knotd::start(&folder, &[text("one.test"), text("two.test")]);
    let address = peer.address();
    let plan = format!(
        "[zones]\n\"one.test\" = \"{address}\"\n\"two.test\" = \"{address}\"\n[aggregations]\n\"region.test\" = [\"one.test\", \"two.test\"]\n"
    );
    let mut daemon = Aggregator::start(&folder, &plan);
    wait_until("the region is there", PATIENCE, || (daemon.http("/readyz").0 == 200).then_some(()));

    // Elsewhere than on a terminal it tells once.
    let once = daemon.verb(&["top"]);
    assert_eq!((once.code, once.stderr.as_str()), (0, ""));
    let rows: Vec<&str> = once.stdout.lines().filter(|line| line.contains(".test")).collect();
    assert!(
        rows.len() == 3 && rows[0].starts_with("region.test") && rows[1].starts_with("  one.test   ok"),
        "{rows:?}"
    );
    assert!(!once.stdout.contains('\x1b'), "{:?}", once.stdout);

    let mut terminal = Terminal::start(&daemon, 100, 30, &[]);
    terminal.wait_for("\x1b[?1049h");
    terminal.wait_for("  two.test");
    terminal.wait_for("\x1b[32mok");
    // The second picture has the second place of the chart.
    terminal.wait_for("▁▁");
    terminal.press("q");
    assert!(terminal.end().success());
    terminal.wait_for("\x1b[?1049l");

    // Without colours, on a screen that is too low, until the server is gone.
    let mut terminal = Terminal::start(&daemon, 60, 7, &[("NO_COLOR", "1")]);
    terminal.wait_for("region.test");
    assert!(!terminal.shown().contains("two.test") && !terminal.shown().contains("\x1b[32m"), "{:?}", terminal.shown());
    terminal.press("jj");
    terminal.press("j");
    terminal.wait_for("one.test");
    daemon.stop();
    terminal.wait_for("no server is running");
    terminal.press("\x03");
    assert!(terminal.end().success());
    terminal.wait_for("\x1b[?1049l");
}
