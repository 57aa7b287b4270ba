//! Configurations of many datacenters: templates and members by rule.

use aggregator::config::Config;
use std::path::Path;
use std::time::Duration;

fn parse(text: &str) -> Config {
    Config::parse(Path::new("c.toml"), text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// 200 datacenters by a template, in 20 regions by a rule: a new datacenter is one line.
#[test]
fn a_new_datacenter_is_one_line() {
    let datacenter = |region: usize, number: usize| {
        format!("\"r{region}-{number}.cns.test\" = {{ template = \"dc\", primaries = \"192.0.2.{}\" }}\n", number + 1)
    };
    let zones: String = (0..200).map(|index| datacenter(index / 10, index % 10)).collect();
    let regions: String = (0..20)
        .map(|region| format!("\"r{region}.cns.test\" = {{ template = \"region\", members = {{ match = \"r{region}-*.cns.test\" }} }}\n"))
        .collect();
    let text = |more: &str| {
        format!(
            "[templates.dc]\nrefresh_max = \"1h\"\n[templates.region]\nns = [\"ns1.test\"]\n[zones]\n{zones}{more}\
             [aggregations]\n{regions}"
        )
    };
    let config = parse(&text(""));
    assert_eq!((config.zones.len(), config.regions.len(), config.warning_lines()), (200, 20, Vec::new()));
    assert!(config.zones.iter().all(|zone| zone.timers.refresh_max == Duration::from_secs(3600)));
    let names = |config: &Config, region: usize| -> Vec<String> {
        config.regions[region].members.iter().map(ToString::to_string).collect()
    };
    let expected: Vec<String> = (0..10).map(|number| format!("r7-{number}.cns.test.")).collect();
    assert_eq!(names(&config, 7), expected, "in the order of the file, none of r17's");
    let grown = parse(&text(&datacenter(7, 10)));
    assert_eq!(names(&grown, 7), [expected, vec!["r7-10.cns.test.".to_owned()]].concat());
    assert_eq!((0..20).filter(|region| names(&grown, *region) != names(&config, *region)).count(), 1);
}
