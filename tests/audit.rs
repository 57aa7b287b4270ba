//! The scheduled audit against a real primary: what changed under an unchanged serial is found.

mod harness;

use harness::{Aggregator, Dname, Folder, Knotd, read_zone, rtype, wait_until};
use std::time::Duration;

/// A zone with the same serial whatever its name servers, as CNS has it when only its configuration changes.
fn zone_text(server: &str) -> String {
    format!(
        "$ORIGIN us-west-1.test.\n@ 30 IN SOA ns1.test. hostmaster.test. 7 30 60 2592000 30\n\
         @ 3600 IN NS {server}\nweb 30 IN A 192.0.2.1\n"
    )
}

#[test]
fn an_audit_finds_what_changed_under_the_same_serial() {
    let folder = Folder::new();
    let zone = Dname::parse("us-west-1.test.");
    let primary = Knotd::start(&folder, &[(zone.clone(), zone_text("ns1.test."))]);
    let plan = |audit: &str| {
        let address = primary.address();
        format!("[zones]\n\"us-west-1.test\" = \"{address}\"\n[transfer]\naudit = {audit}\nrefresh_max = \"1d\"\n")
    };
    let daemon = Aggregator::start(&folder, &plan("false"));
    let servers = || -> Option<Vec<String>> {
        let records = daemon.dump(&zone)?;
        Some(records.iter().filter(|record| record.rtype == rtype::NS).map(|record| record.to_string()).collect())
    };
    let has = |server: &str| servers().is_some_and(|found| found.len() == 1 && found[0].contains(server));
    wait_until("the zone is transferred", Duration::from_secs(20), || has("ns1.test.").then_some(()));
    primary.replace_zone(&zone, &read_zone(&zone_text("ns9.test.")));
    // A refresh sees the same serial and so nothing.
    assert_eq!(daemon.verb(&["refresh"]).code, 0);
    assert!(has("ns1.test."));
    daemon.write_plan(&plan("\"* * * * * *\""));
    let reload = daemon.verb(&["reload"]);
    assert_eq!(reload.code, 0, "{reload:?}");
    wait_until("the audit brings the new name server", Duration::from_secs(20), || has("ns9.test.").then_some(()));
    let drift = "aggregator_audit_drift_names_total{zone=\"us-west-1.test.\"} 1";
    wait_until("the metric counts the name", Duration::from_secs(5), || daemon.metrics().contains(drift).then_some(()));
}
