//! Series of zones where there are very many.

use super::*;
use crate::metrics::OWN_ZONES;

/// Zones that are all well but for a few.
const ZONES: usize = 5_000;

/// Lines of a scrape that begin so.
fn lines<'t>(text: &'t str, start: &str) -> Vec<&'t str> {
    text.lines().filter(|line| line.strip_prefix("aggregator_").is_some_and(|line| line.starts_with(start))).collect()
}

#[test]
fn of_many_zones_those_with_a_fault_have_series_and_the_rest_is_summed() {
    let names: Vec<String> = (0..ZONES).map(|zone| format!("z{zone:04}.x")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut bench = Bench::new(&names, Vec::new());
    // The last by name: one that nobody has confirmed for long, one that holds conflicts, one that never came.
    let (old, conflicted, missing) = (names[ZONES - 3], names[ZONES - 2], names[ZONES - 1]);
    let well: Vec<(&str, &str)> =
        names[..ZONES - 3].iter().map(|zone| (*zone, "@ 30 SOA 1\nweb 30 A 192.0.2.1")).collect();
    bench.load_together(&well);
    bench.load(&format!("{old}."), "@ 30 SOA 1", Duration::from_secs(601));
    bench.load(&format!("{conflicted}."), "@ 30 SOA 1\nweb 30 CNAME a.x.\nweb 30 A 192.0.2.1", ZERO);
    let text = bench.keeper.metrics.render();
    for family in ["zone_serial", "zone_refreshed_timestamp_seconds", "zone_expires_timestamp_seconds"] {
        let found = lines(&text, family);
        assert!((OWN_ZONES - 1..=OWN_ZONES).contains(&found.len()), "{family}: {}", found.len());
    }
    for family in ["zone_refreshed_timestamp_seconds", "zone_refresh_seconds", "zone_expires_timestamp_seconds"] {
        assert!(lines(&text, family).iter().any(|line| line.contains(&format!("zone=\"{old}.\""))), "{family}");
    }
    assert!(text.contains(&format!("aggregator_zone_state{{state=\"not-ready\",zone=\"{missing}.\"}} 1\n")));
    let conflicts = lines(&text, "zone_conflicts");
    assert!(conflicts.len() == 1 && conflicts[0].contains(conflicted), "{conflicts:?}");
    let states = lines(&text, "zone_state");
    let rest = ZONES - OWN_ZONES;
    assert_eq!(states.len(), OWN_ZONES + 1);
    assert!(
        states.contains(&&format!("aggregator_zone_state{{state=\"ok\",zone=\"other\"}} {rest}")[..]),
        "{states:?}"
    );
    // Once it is confirmed it is one of many.
    bench.load(&format!("{old}."), "@ 30 SOA 2", ZERO);
    assert!(!bench.keeper.metrics.render().contains(&format!("\"{old}.\"")));
}

#[test]
fn a_zone_that_nobody_gets_has_series_although_very_many_are_late() {
    let names: Vec<String> = (0..=2 * OWN_ZONES).map(|zone| format!("z{zone:04}.x")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut bench = Bench::new(&names, Vec::new());
    let (missing, late) = names.split_last().expect("there are zones");
    late.iter().for_each(|zone| bench.load(&format!("{zone}."), "@ 30 SOA 1", Duration::from_secs(601)));
    let text = bench.keeper.metrics.render();
    assert!(text.contains(&format!("aggregator_zone_state{{state=\"not-ready\",zone=\"{missing}.\"}} 1\n")));
    assert_eq!(lines(&text, "zone_refreshed_timestamp_seconds").len(), OWN_ZONES - 1);
}
