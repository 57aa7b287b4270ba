//! OpenStack's service types, such as `identity`: the instances of the service.
//!
//! The guideline: an instance must be a service type, and must not be the name of a project that provides it.
//!
//! Cost: O(length + project names).

use std::fmt;
use std::str::FromStr;

/// A service type: lowercase letters, digits and hyphens, a letter first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct ServiceType(String);

/// Why a text is no service type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KindError {
    #[error("is no service type; write lowercase letters, digits and hyphens, for example \"identity\"")]
    Malformed,
    #[error("is the name of a project; write its service type, \"{0}\"")]
    Project(&'static str),
}

/// Projects and the service types that they provide, from OpenStack's service types authority.
const PROJECTS: [(&str, &str); 29] = [
    ("aodh", "alarm"),
    ("barbican", "key-manager"),
    ("blazar", "reservation"),
    ("cinder", "block-storage"),
    ("cloudkitty", "rating"),
    ("cyborg", "accelerator"),
    ("designate", "dns"),
    ("freezer", "backup"),
    ("glance", "image"),
    ("heat", "orchestration"),
    ("ironic", "baremetal"),
    ("ironic-inspector", "baremetal-introspection"),
    ("keystone", "identity"),
    ("magnum", "container-infrastructure-management"),
    ("manila", "shared-file-system"),
    ("masakari", "instance-ha"),
    ("mistral", "workflow"),
    ("murano", "application-catalog"),
    ("neutron", "network"),
    ("nova", "compute"),
    ("octavia", "load-balancer"),
    ("senlin", "clustering"),
    ("swift", "object-store"),
    ("tacker", "nfv-orchestration"),
    ("trove", "database"),
    ("vitrage", "root-cause-analysis"),
    ("watcher", "resource-optimization"),
    ("zaqar", "message"),
    ("zun", "application-container"),
];

impl ServiceType {
    /// The type as the label of an instance.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ServiceType {
    type Err = KindError;

    fn from_str(text: &str) -> Result<ServiceType, KindError> {
        if let Some((_, kind)) = PROJECTS.iter().find(|(project, _)| project.eq_ignore_ascii_case(text)) {
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
    fn types_are_told_from_projects_and_nonsense() {
        for kind in ["identity", "compute", "baremetal", "baremetal-introspection", "block-storage", "ec2-api"] {
            assert_eq!(kind.parse::<ServiceType>().map(|kind| kind.to_string()), Ok(kind.to_owned()));
        }
        assert_eq!("nova".parse::<ServiceType>(), Err(KindError::Project("compute")));
        assert_eq!("Ironic".parse::<ServiceType>(), Err(KindError::Project("baremetal")));
        let long = "a".repeat(64);
        for wrong in ["", "Identity", "a b", "a.b", "-a", "a-", "9a", "_a", "identität", &long] {
            assert_eq!(wrong.parse::<ServiceType>(), Err(KindError::Malformed), "{wrong}");
        }
    }
}
