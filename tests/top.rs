//! `aggregator top` on a terminal of its own: it draws, follows, scrolls, ends with `q`, and leaves the terminal as it was.

mod harness;

use harness::{Aggregator, Dname, Folder, Knotd, Terminal, wait_until};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

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

    let mut terminal = Terminal::start(&["top"], daemon.configuration(), (100, 30), &[]);
    terminal.wait_for("\x1b[?1049h");
    terminal.wait_for("  two.test");
    terminal.wait_for("\x1b[32mok");
    // The second picture has the second place of the chart.
    terminal.wait_for("▁▁");
    // Help, a filter, and the details of a zone.
    terminal.press("?");
    terminal.wait_for("fold the members of a region");
    terminal.press("x/two\r");
    terminal.wait_for("names with /two");
    terminal.press("j\r");
    terminal.wait_for("PRIMARY");
    terminal.wait_for("Esc: back");
    terminal.press("\x1b");
    terminal.press("q");
    assert!(terminal.end().success());
    terminal.wait_for("\x1b[?1049l");

    // Without colours, on a screen that is too low, until the server is gone.
    let mut terminal = Terminal::start(&["top"], daemon.configuration(), (60, 7), &[("NO_COLOR", "1")]);
    terminal.wait_for("region.test");
    assert!(!terminal.shown().contains("two.test") && !terminal.shown().contains("\x1b[32m"), "{:?}", terminal.shown());
    terminal.press("j");
    terminal.wait_for("›   one.test");
    terminal.press("jj");
    terminal.wait_for("›   two.test");
    daemon.stop();
    terminal.wait_for("no server is running");
    terminal.press("\x03");
    assert!(terminal.end().success());
    terminal.wait_for("\x1b[?1049l");
}
