//! Damping through the whole daemon: a datacenter whose health checks all fail does not empty its services at once, and what
//! is held is told.

mod harness;

use harness::{Aggregator, Client, Dname, Folder, Query, Settings, rtype, wait_until};
use sim::instances::Datacenter;
use sim::primary::Primary;
use std::time::{Duration, Instant, SystemTime};
use wire::name::Name;

const ZONE: &str = "us-west-1.cns.example.com";
const REGION: &str = "us-west.cns.example.com";
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn services_lose_their_addresses_slowly() {
    let primary = Primary::start("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let mut site = Datacenter::new(Name::parse(ZONE).unwrap(), 0, 7, SystemTime::now()).unwrap();
    primary.publish(site.zone());
    let address = primary.address();
    let plan = format!(
        "[zones]\n\"{ZONE}\" = \"{address}\"\n[aggregations.\"{REGION}\"]\nmembers = [\"{ZONE}\"]\nns = [\"ns1.example\"]\n\
         damping = {{ max_removed = \"1/3\", window = \"1500ms\", last = \"4s\" }}\n\
         [transfer]\nrefresh_min = \"1d\"\nrefresh_max = \"1d\"\nshrink_share = 0\n"
    );
    let folder = Folder::new();
    let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &Settings::new(&plan));
    let count = |zone: &str| {
        let of = |rtype| {
            let query = Query::new(&Dname::parse(&format!("web.svc.acme.{zone}")), rtype);
            Client::new(daemon.address()).ask_tcp(&query).unwrap().answer.len()
        };
        of(rtype::A) + of(rtype::AAAA)
    };
    let all = wait_until("the region is there", PATIENCE, || Some(count(REGION)).filter(|count| *count >= 3));

    let web: Vec<String> =
        site.instances().iter().filter(|one| one.service() == "web").map(|one| one.alias.clone()).collect();
    web.iter().for_each(|alias| assert!(site.set_up(alias, false, SystemTime::now())));
    primary.publish(site.zone());
    let begun = Instant::now();
    primary.notify(&Name::parse(ZONE).unwrap(), daemon.address()).await.unwrap();
    wait_until("the zone is without them", PATIENCE, || (count(ZONE) == 0).then_some(()));
    let left = count(REGION);
    assert!(left > 0 && left < all, "{left} of {all}");
    let lookup = daemon.verb(&["lookup", &format!("web.svc.acme.{REGION}")]).stdout;
    assert!(lookup.contains(", withdrawn there, held until ") && lookup.contains(" from now\n"), "{lookup}");
    let status = daemon.verb(&["status", REGION]).stdout;
    assert!(status.contains(" addresses that members have withdrawn are held; "), "{status}");

    let mut seen = vec![left];
    wait_until("the last address is gone", PATIENCE, || {
        let now = count(REGION);
        if now != seen[seen.len() - 1] {
            seen.push(now);
        }
        (now == 0).then_some(())
    });
    let expected: Vec<usize> = (0..=left).rev().collect();
    assert_eq!(seen, expected, "one by one");
    // The last but one in its turn, the last one after it was alone for long.
    let least = Duration::from_millis(1500) * (left as u32 - 1) + Duration::from_secs(4);
    assert!(begun.elapsed() >= least, "{:?}", begun.elapsed());
    // Both names of the account lose all of them, and not in the same moment.
    let held = format!("aggregator_region_held_addresses{{region=\"{REGION}.\"}} 0");
    let released =
        format!("aggregator_region_withdrawals_total{{region=\"{REGION}.\",result=\"released\"}} {}", 2 * all);
    wait_until("both names have lost all of them", PATIENCE, || {
        let metrics = daemon.metrics();
        (metrics.contains(&held) && metrics.contains(&released)).then_some(())
    });
}
