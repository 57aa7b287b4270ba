//! Long work as a terminal shows it: bars that come and go beside log lines that stay whole, and states in colours;
//! elsewhere none of that.

#[path = "bad_primary/primary.rs"]
mod bad_primary;
mod harness;

use bad_primary::{Primary, Script, Transfer};
use harness::{Aggregator, Folder, Terminal, wait_until};
use serde_json::Value;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
const ZONE: &str = "z.example";
/// So wide that no line goes on below.
const SIZE: (u16, u16) = (600, 40);

/// A primary with one zone, and a server that transfers it.
struct Stand {
    primary: Primary,
    daemon: Aggregator,
    _folder: Folder,
}

impl Stand {
    /// Starts both, and waits for the zone.
    async fn start() -> Stand {
        let folder = Folder::new();
        let primary = Primary::start("127.0.0.1", Script::new(1)).await;
        let daemon = Aggregator::start(&folder, &format!("[zones]\n\"{ZONE}\" = \"{}\"\n", primary.address));
        let stand = Stand { primary, daemon, _folder: folder };
        stand.wait_for_serial(1);
        stand
    }

    /// The zone in the server's status.
    fn zone(&self) -> Value {
        let output = self.daemon.verb(&["status", ZONE, "--json"]);
        let status: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
        status["zones"][0].clone()
    }

    /// Waits until the server has a serial.
    fn wait_for_serial(&self, serial: u32) {
        wait_until(&format!("serial {serial} is served"), PATIENCE, || (self.zone()["serial"] == serial).then_some(()));
    }
}

/// Returns true if text selects colours or other looks of letters.
fn has_colors(text: &str) -> bool {
    text.split("\x1b[")
        .skip(1)
        .any(|rest| rest.trim_start_matches(|letter: char| !letter.is_alphabetic()).starts_with('m'))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_that_somebody_waits_for_has_a_bar() {
    let stand = Stand::start().await;
    let pause = |serial| {
        let mut script = stand.primary.script();
        script.change(serial);
        script.transfer = Transfer::Pause;
    };
    let go_on = || stand.primary.script().transfer = Transfer::Good;

    pause(2);
    let mut terminal = Terminal::start(&["retransfer", ZONE], stand.daemon.configuration(), SIZE, &[]);
    // Ten addresses and an opening SOA have come; ten and one SOA are served.
    terminal.wait_for("11 of about 11 records");
    terminal.wait_for("=");
    let running = stand.zone()["source"]["running"].clone();
    assert_eq!((&running["records"], &running["expected"]), (&11.into(), &11.into()), "{running}");
    assert!(running["kind"] == "axfr" && running["bytes"].as_u64() > Some(100), "{running}");
    wait_until("status tells it in words", PATIENCE, || {
        let words = format!("transferring from {}: 11 of about 11 records, ", stand.primary.address);
        let tells = |verb: &[&str]| stand.daemon.verb(verb).stdout.contains(&words);
        (tells(&["status"]) && tells(&["status", ZONE])).then_some(())
    });
    assert!(stand.daemon.verb(&["top"]).stdout.contains("  11 of about 11 records"));
    go_on();
    assert!(terminal.end().success());
    let told = || terminal.screen().into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>();
    let lines = wait_until("the outcome is told", PATIENCE, || {
        Some(told()).filter(|lines| lines.iter().any(|line| line.starts_with("z.example. serial")))
    });
    // The bar has gone.
    assert!(
        lines.len() == 1 && lines[0].starts_with("z.example. serial 1 -> 2, 11 records, 11 names changed, in "),
        "{lines:?}"
    );
    assert!(has_colors(&terminal.shown()));
    assert!(stand.zone()["source"]["running"].is_null());

    // Who has seen enough leaves, and the transfer goes on.
    pause(3);
    let mut terminal = Terminal::start(&["retransfer", ZONE], stand.daemon.configuration(), SIZE, &[("NO_COLOR", "1")]);
    terminal.wait_for("11 of about 11 records");
    terminal.press("\x03");
    assert_eq!(terminal.end().code(), Some(1));
    terminal.wait_for("nobody looks any more; the transfer goes on: aggregator status z.example");
    assert!(!has_colors(&terminal.shown()), "{:?}", terminal.shown());
    assert_eq!(stand.zone()["source"]["activity"], "transferring");
    go_on();
    stand.wait_for_serial(3);

    // Elsewhere only the outcome is told.
    let output = stand.daemon.verb(&["retransfer", ZONE]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    assert!(
        output.stdout.starts_with("z.example. serial 3 -> 3, 11 records, 0 names changed, in "),
        "{}",
        output.stdout
    );
    assert!(output.stdout.ends_with(" s\n") && output.stdout.lines().count() == 1, "{}", output.stdout);
    let mut terminal = Terminal::start(&["retransfer", ZONE], stand.daemon.configuration(), SIZE, &[("TERM", "dumb")]);
    assert!(terminal.end().success());
    terminal.wait_for("serial 3 -> 3");
    assert!(!terminal.shown().contains('\x1b'), "{:?}", terminal.shown());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_transfer_has_a_line_beside_whole_log_lines() {
    let mut stand = Stand::start().await;
    assert!(!stand.daemon.log_text().contains('\x1b'), "a log in a file");
    for (variables, colors) in [(&[][..], true), (&[("NO_COLOR", "1")], false)] {
        stand.daemon.stop();
        stand.primary.script().transfer = Transfer::Pause;
        let mut terminal = Terminal::start(&["run"], stand.daemon.configuration(), SIZE, variables);
        terminal.wait_for("z.example. transferring from");
        terminal.wait_for("11 records, ");
        for _ in 0..20 {
            assert_eq!(stand.daemon.verb(&["reload"]).code, 0);
        }
        stand.primary.script().transfer = Transfer::Good;
        stand.wait_for_serial(1);
        terminal.press("\x03");
        assert!(terminal.end().success());
        terminal.wait_for("stopped");
        let lines: Vec<String> = terminal.screen().into_iter().filter(|line| !line.is_empty()).collect();
        // Each line is one of the log, from its time to its end, and nothing is left of the line below.
        let whole = |line: &String| {
            line.starts_with("20") && line.contains(" aggregator::") && !line.contains("transferring from")
        };
        assert!(lines.iter().all(whole), "{lines:#?}");
        let reloads = lines.iter().filter(|line| line.contains("configuration reloaded changes=")).count();
        assert_eq!(reloads, 20, "{lines:#?}");
        assert_eq!(has_colors(&terminal.shown()), colors, "{:?}", terminal.shown());
    }

    // A terminal that cannot move its cursor is as good as none.
    stand.primary.script().transfer = Transfer::Pause;
    let mut terminal = Terminal::start(&["run"], stand.daemon.configuration(), SIZE, &[("TERM", "dumb")]);
    wait_until("the transfer runs", PATIENCE, || (stand.zone()["source"]["running"]["records"] == 11).then_some(()));
    stand.primary.script().transfer = Transfer::Good;
    stand.wait_for_serial(1);
    terminal.press("\x03");
    assert!(terminal.end().success());
    terminal.wait_for("stopped");
    assert!(
        !terminal.shown().contains('\x1b') && !terminal.shown().contains("transferring from"),
        "{:?}",
        terminal.shown()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn states_have_colours_on_a_terminal_only() {
    let stand = Stand::start().await;
    for verb in [&["status"][..], &["status", ZONE]] {
        let mut terminal = Terminal::start(verb, stand.daemon.configuration(), SIZE, &[]);
        assert!(terminal.end().success());
        terminal.wait_for("\x1b[32mok\x1b[0m");
        for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
            let mut terminal = Terminal::start(verb, stand.daemon.configuration(), SIZE, &[variable]);
            assert!(terminal.end().success());
            terminal.wait_for("ok");
            assert!(!terminal.shown().contains('\x1b'), "{:?}", terminal.shown());
        }
        assert!(!stand.daemon.verb(verb).stdout.contains('\x1b'));
    }
}

#[test]
fn the_demo_shows_who_serves_the_clients_on_a_small_terminal() {
    let folder = Folder::new();
    let temporary = [("TMPDIR", folder.path().to_str().expect("a path in UTF-8")), ("NO_COLOR", "1")];
    let mut terminal = Terminal::start_without_file(&["demo", "--for", "14s"], (80, 24), &temporary);
    let picture = || -> Vec<String> {
        let lines = terminal.screen().into_iter().skip_while(|line| !line.starts_with("aggregator demo  "));
        lines.take_while(|line| !line.is_empty()).collect()
    };
    // At home, on the way, elsewhere, and at home again.
    for (served, remark) in
        [("us-west-3", ""), ("us-west-3", "moving for "), ("us-west-1", "moved in "), ("us-west-3", "home in ")]
    {
        let lines = wait_until(&format!("us-west-3's client, {served}, {remark:?}"), PATIENCE, || {
            let is_shown = |line: &String| {
                line.starts_with(&format!("us-west-3   10.3.0.0/24       {served}   ")) && line.contains(remark)
            };
            Some(picture()).filter(|lines| lines.iter().any(is_shown))
        });
        assert!(
            lines.iter().any(|line| line.starts_with("us-west-1   10.1.0.0/24       us-west-1   for ")),
            "{lines:#?}"
        );
        assert!(lines.len() <= 24 && lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    }
    assert!(terminal.end().success());
    terminal.wait_for("us-west-3: its client came home after ");
}
