//! The model against the names and records of CNS, and a zone that CNS made.

use super::super::tests as oracle;
use super::super::zone::Data;
use super::*;
use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};
use wire::rr::rtype;

fn noon() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_772_366_400)
}

fn datacenter() -> Datacenter {
    Datacenter::new(Name::parse("us-west-1.cns.example.com").unwrap(), 1, 42, noon()).unwrap()
}

fn at<'a>(zone: &'a Zone, below: &str) -> &'a [Data] {
    let owner = Name::parse(&format!("{below}.{}", zone.origin())).unwrap();
    zone.find(owner.as_wire()).unwrap_or_default()
}

fn count(records: &[Data], kind: u16) -> usize {
    records.iter().filter(|data| data.kind() == kind).count()
}

fn texts(records: &[Data]) -> Vec<String> {
    let text = |data: &Data| match data {
        Data::Txt(text) => Some(String::from_utf8(text.clone()).unwrap()),
        _ => None,
    };
    records.iter().filter_map(text).collect()
}

/// An owner name with everything that varies from zone to zone replaced, and the types found there.
fn shapes(zone: &Zone) -> BTreeSet<(String, u16)> {
    let shape = |owner: &Name| {
        let below = owner.to_string().replace(&zone.origin().to_string(), "");
        // A service name with a protocol is one name.
        let labels: Vec<&str> = below.trim_end_matches('.').split('.').filter(|label| *label != "_tcp").collect();
        let fixed = ["inst", "svc", "cmon", "acme", "admin", "_acme-challenge"];
        let general = |label: &&str| match *label {
            label if fixed.contains(&label) => label.to_owned(),
            label if label.len() == 36 && label.matches('-').count() == 4 => "UUID".to_owned(),
            _ => "NAME".to_owned(),
        };
        labels.iter().map(general).collect::<Vec<_>>().join(".")
    };
    zone.nodes().iter().flat_map(|node| node.records.iter().map(|data| (shape(&node.owner), data.kind()))).collect()
}

#[test]
fn equal_seeds_make_equal_zones() {
    let (mut one, mut two) = (datacenter(), datacenter());
    for model in [&mut one, &mut two] {
        assert_eq!(model.scale_up("web", 4, noon()), 4);
        assert_eq!(model.scale_down("api", 1, noon()), 1);
    }
    assert_eq!(one.zone().nodes(), two.zone().nodes());
    let other = Datacenter::new(one.origin().clone(), 1, 43, noon()).unwrap();
    assert_ne!(other.zone().nodes(), datacenter().zone().nodes());
}

#[test]
fn names_and_types_are_those_of_a_zone_that_cns_made() {
    let genuine = oracle::read_zone(include_str!("../../../../tests/data/cns/axfr/us-west-1.cns.example.com.rrs"));
    let (ours, theirs) = (shapes(&datacenter().zone()), shapes(&genuine));
    assert_eq!(ours.difference(&theirs).collect::<Vec<_>>(), Vec::<&(String, u16)>::new());
    // The genuine zone also has a network with its own prefix.
    let missing: Vec<_> = theirs.difference(&ours).collect();
    assert!(missing.iter().all(|(shape, _)| shape.contains("NAME.NAME") || shape.contains("NAME.UUID")), "{missing:?}");
    assert!(missing.len() < theirs.len() / 2);
}

#[test]
fn a_service_lists_every_address_and_repeats_srv_for_each() {
    let model = datacenter();
    let zone = model.zone();
    for owner in ["acme", ACME.uuid] {
        let web = at(&zone, &format!("web.svc.{owner}"));
        // Three instances, the first with two addresses.
        assert_eq!((count(web, rtype::A), count(web, rtype::AAAA), count(web, rtype::TXT)), (3, 1, 3));
        let targets: Vec<String> = web
            .iter()
            .filter_map(|data| match data {
                Data::Srv { priority: 0, weight: 10, port: 8080, target } => Some(target.to_string()),
                Data::Srv { .. } => panic!("{data:?}"),
                _ => None,
            })
            .collect();
        let target = |alias: &str| format!("{alias}.inst.acme.us-west-1.cns.example.com.");
        assert_eq!(targets, [target("web-0"), target("web-0"), target("web-1"), target("web-2")]);
        assert_eq!(count(at(&zone, &format!("api.svc.{owner}")), rtype::SRV), 0);
        assert_eq!(at(&zone, &format!("web-0.inst.{owner}")).len(), 3);
        assert_eq!(at(&zone, &format!("_acme-challenge.web.svc.{owner}")).len(), 2);
    }
    assert_eq!(count(at(&zone, "cmon"), rtype::A), 1);
    let below_cmon = zone.nodes().iter().filter(|node| node.records[0].kind() == rtype::CNAME).count();
    assert_eq!(below_cmon, model.instances().len() + COMPUTE_NODES);
}

#[test]
fn an_instance_out_of_service_keeps_its_own_names() {
    let mut model = datacenter();
    assert!(model.set_up("web-0", false, noon()));
    let zone = model.zone();
    let uuid = model.instances()[0].uuid.clone();
    assert!(!model.instances()[0].up);
    let web = at(&zone, "web.svc.acme");
    assert_eq!((count(web, rtype::A), count(web, rtype::AAAA), count(web, rtype::SRV)), (2, 0, 2));
    assert!(texts(web).contains(&format!("verifying:{uuid}")));
    assert!(!texts(web).contains(&uuid));
    assert_eq!(at(&zone, "web-0.inst.acme").len(), 3);
    assert_eq!(at(&zone, "_acme-challenge.web.svc.acme").len(), 2);
    assert!(model.set_up("web-0", true, noon()));
    assert_eq!(model.zone().nodes(), datacenter().zone().nodes());
    // Accounts of the operator are forced on.
    assert!(model.set_up("cmon-0", false, noon()));
    assert_eq!(count(at(&model.zone(), "cmon"), rtype::A), 1);
}

#[test]
fn only_changes_move_the_serial_and_only_forward() {
    let mut model = datacenter();
    assert_eq!(model.serial(), Serial(405_514_081));
    let before = model.zone().record_count();
    assert_eq!(model.scale_up("mail", 3, noon()), 0);
    assert_eq!(model.scale_down("web", 0, noon()), 0);
    assert!(!model.set_up("web-0", true, noon()));
    assert!(!model.set_up("web-99", false, noon()));
    assert_eq!(model.serial(), Serial(405_514_081));
    assert_eq!(model.scale_up("web", 2, noon()), 2);
    assert_eq!(model.scale_down("web", 9, noon() - Duration::from_secs(3600)), 5);
    assert_eq!(model.serial(), Serial(405_514_083));
    assert!(model.zone().record_count() < before);
    assert_eq!(at(&model.zone(), "web.svc.acme"), []);
    model.advance(noon() + Duration::from_secs(3600));
    assert_eq!(model.serial(), Serial(405_514_081 + 360));
    assert_eq!(model.zone().serial(), model.serial());
}

#[test]
fn addresses_run_out_and_come_back() {
    let mut model = datacenter();
    let others = model.instances().len();
    assert_eq!(model.scale_up("web", 1000, noon()), MAX_INSTANCES - others);
    assert_eq!(model.scale_up("web", 1, noon()), 0);
    let all: BTreeSet<IpAddr> = model.instances().iter().flat_map(|instance| instance.addresses.to_vec()).collect();
    let fourth = |address: &&IpAddr| address.is_ipv4();
    assert_eq!(all.iter().filter(fourth).count(), MAX_INSTANCES);
    assert_eq!(model.scale_down("api", 1, noon()), 1);
    assert_eq!(model.scale_up("db", 2, noon()), 1);
    assert_eq!(model.instances().last().unwrap().alias, "db-2");
}

#[test]
fn a_zone_name_too_long_for_its_instances_is_refused() {
    let origin = Name::parse(&format!("{0}.{0}.{0}", "a".repeat(62))).unwrap();
    assert_eq!(Datacenter::new(origin, 0, 0, noon()).unwrap_err(), NameError::TooLong);
}
