//! OpenStack's service types, such as `identity`: the instances of the service.
//!
//! The guideline: an instance must be a service type, and must not be the name of a project that provides it. Names of
//! projects are refused. Types that are not in the list are taken, with a doubt: the list is of one day, and grows
//! elsewhere.
//!
//! Cost: O(length + types).

use std::fmt;
use std::str::FromStr;

/// A service type: lowercase letters, digits and hyphens, a letter first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct ServiceType(String);

/// Error: a text is no service type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KindError {
    #[error("is no service type; write lowercase letters, digits and hyphens, for example \"identity\"")]
    Malformed,
    #[error("is the name of a project; write its service type, \"{0}\"")]
    Project(&'static str),
}

/// A service type, the projects that provide it, and names that it had earlier.
type Known = (&'static str, &'static [&'static str], &'static [&'static str]);

/// Service types as OpenStack's service types authority has them (`service-types.yaml` at its revision 02082698), in
/// order. A project that is called like its type is left out; `freezer` and `monasca` are what people call projects
/// that have longer names there.
#[rustfmt::skip]
const KNOWN: [Known; 45] = [
    ("accelerator", &["cyborg"], &[]),
    ("admin-logic", &["adjutant"], &["registration"]),
    ("alarm", &["aodh"], &["alarming"]),
    ("application-catalog", &["murano"], &[]),
    ("application-container", &["zun"], &["container"]),
    ("application-deployment", &["solum"], &["application_deployment"]),
    ("backup", &["freezer", "freezer-api"], &[]),
    ("baremetal", &["ironic"], &["bare-metal"]),
    ("baremetal-introspection", &["ironic-inspector"], &[]),
    ("block-storage", &["cinder"], &["volumev3", "volumev2", "volume", "block-store"]),
    ("clustering", &["senlin"], &["resource-cluster", "cluster"]),
    ("compute", &["nova"], &[]),
    ("container-infrastructure-management", &["magnum"], &["container-infrastructure", "container-infra"]),
    ("data-processing", &["sahara"], &[]),
    ("data-protection-orchestration", &["karbor"], &[]),
    ("database", &["trove"], &[]),
    ("dns", &["designate"], &[]),
    ("ec2-api", &[], &[]),
    ("event", &["panko"], &["events"]),
    ("function-engine", &["qinling"], &[]),
    ("identity", &["keystone"], &[]),
    ("image", &["glance"], &[]),
    ("instance-ha", &["masakari"], &["ha"]),
    ("key-manager", &["barbican"], &[]),
    ("load-balancer", &["octavia"], &[]),
    ("log-management", &["venus"], &[]),
    ("message", &["zaqar"], &["messaging"]),
    ("meter", &["ceilometer"], &["metering", "telemetry"]),
    ("monitoring", &["monasca", "monasca-api"], &[]),
    ("monitoring-events", &["monasca-events-api"], &[]),
    ("monitoring-logging", &["monasca-log-api"], &["monitoring-log-api"]),
    ("multi-region-network-automation", &["tricircle"], &[]),
    ("network", &["neutron"], &[]),
    ("nfv-orchestration", &["tacker"], &[]),
    ("object-store", &["swift"], &[]),
    ("operator-policy", &["congress"], &["policy"]),
    ("orchestration", &["heat"], &[]),
    ("placement", &[], &[]),
    ("rating", &["cloudkitty"], &[]),
    ("reservation", &["blazar"], &[]),
    ("resource-optimization", &["watcher"], &["infra-optim"]),
    ("root-cause-analysis", &["vitrage"], &["rca"]),
    ("search", &["searchlight"], &[]),
    ("shared-file-system", &["manila"], &["sharev2", "share"]),
    ("workflow", &["mistral"], &["workflowv2"]),
];

impl ServiceType {
    /// The type as the label of an instance.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Warning about a type that the list does not have; there may be newer ones.
    pub fn doubt(&self) -> Option<String> {
        if KNOWN.binary_search_by(|(kind, ..)| kind.cmp(&self.as_str())).is_ok() {
            return None;
        }
        let earlier = KNOWN.iter().find(|(_, _, earlier)| earlier.contains(&self.as_str()));
        Some(match earlier {
            Some((kind, ..)) => {
                format!("is an earlier name of service type \"{kind}\"; clients may look for that one only")
            }
            None => "is no service type that is known here; clients look for those of OpenStack's list".to_owned(),
        })
    }
}

impl FromStr for ServiceType {
    type Err = KindError;

    fn from_str(text: &str) -> Result<ServiceType, KindError> {
        let is_called = |project: &&str| project.eq_ignore_ascii_case(text);
        if let Some((kind, ..)) = KNOWN.iter().find(|(_, projects, _)| projects.iter().any(is_called)) {
            return Err(KindError::Project(kind));
        }
        let plain = |octet: u8| octet.is_ascii_lowercase() || octet.is_ascii_digit() || octet == b'-';
        // RFC 1035 section 2.3.4: it is one label.
        let is_kind = text.len() <= 63
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && !text.ends_with('-')
            && text.bytes().all(plain);
        if is_kind { Ok(ServiceType(text.to_owned())) } else { Err(KindError::Malformed) }
    }
}

impl fmt::Display for ServiceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_are_not_in_the_list_are_doubted() {
        assert!(KNOWN.is_sorted_by_key(|(kind, ..)| kind), "it is searched by halves");
        for (kind, projects, earlier) in KNOWN {
            assert_eq!(kind.parse::<ServiceType>().unwrap().doubt(), None);
            assert!(projects.iter().all(|project| project.parse::<ServiceType>() == Err(KindError::Project(kind))));
            // One has a character that no label of a host has.
            for earlier in earlier.iter().filter_map(|earlier| earlier.parse::<ServiceType>().ok()) {
                assert!(earlier.doubt().is_some_and(|doubt| doubt.contains(kind)), "{earlier}");
            }
        }
        let doubt = "identitty".parse::<ServiceType>().unwrap().doubt();
        assert!(doubt.is_some_and(|doubt| doubt.starts_with("is no service type that is known here")));
    }

    #[test]
    fn types_are_told_from_projects_and_nonsense() {
        for kind in ["identity", "compute", "baremetal", "baremetal-introspection", "block-storage", "ec2-api"] {
            assert_eq!(kind.parse::<ServiceType>().map(|kind| kind.to_string()), Ok(kind.to_owned()));
        }
        assert_eq!("nova".parse::<ServiceType>(), Err(KindError::Project("compute")));
        assert_eq!("Ironic".parse::<ServiceType>(), Err(KindError::Project("baremetal")));
        assert_eq!("monasca-api".parse::<ServiceType>(), Err(KindError::Project("monitoring")));
        let long = "a".repeat(64);
        for wrong in ["", "Identity", "a b", "a.b", "-a", "a-", "9a", "_a", "identität", &long] {
            assert_eq!(wrong.parse::<ServiceType>(), Err(KindError::Malformed), "{wrong}");
        }
    }
}
