//! Where the configuration comes from: a file, the host, the environment, or what was fetched by an earlier start.
//!
//! Invariants: a configuration that is not valid is never kept and never served with, and says why; what the host has said
//! once outlives its silence.
//!
//! Cost: O(configuration), checked twice: once with positions that its author knows, once where it lies.

use super::keep::Keep;
use super::login;
use crate::config::Config;
use crate::metadata::{Client, MetadataError};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where a configuration came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    File,
    Metadata,
    Environment,
    /// An earlier start has fetched it.
    Kept,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::File => "a file",
            Origin::Metadata => "metadata",
            Origin::Environment => "the environment",
            Origin::Kept => "an earlier start",
        })
    }
}

/// A configuration that a server can start with.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    pub origin: Origin,
    pub path: PathBuf,
    /// Whether it differs from what was there before.
    pub is_new: bool,
}

/// What a search came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Finding {
    pub found: Option<Found>,
    /// Why other places gave nothing, a line each.
    pub reasons: Vec<String>,
}

/// What the host says.
#[derive(Debug, Default)]
pub struct Told {
    /// The value of the key; an error if it could not be had, nothing where there is no host.
    pub configuration: Option<Result<Option<String>, MetadataError>>,
    /// Description of the network, where that is wanted and known.
    pub network: Option<NetworkKeys>,
    /// The keys of those who may log in, where they are wanted and the host has said whether there are any.
    pub login: Option<Option<String>>,
}

/// What the host knows of the network, as it says it.
#[derive(Debug, Default)]
pub struct NetworkKeys {
    pub nics: Option<String>,
    pub resolvers: Option<String>,
    pub host_name: Option<String>,
}

/// What is asked for beside the configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    pub network: bool,
    pub login: bool,
}

/// Asks the host for everything that is wanted, in one conversation.
pub fn ask_host(host: &Path, key: Option<&str>, wanted: Wanted, patience: Duration) -> Told {
    let deadline = Instant::now() + patience;
    let mut client = match Client::connect(host, deadline) {
        Ok(client) => client,
        Err(error) => return Told { configuration: Some(Err(error)), ..Told::default() },
    };
    // The network first: without it the rest is of little use.
    // What the host does not say, or not in time, is looked for again at the next conversation.
    let network = wanted.network.then(|| {
        let mut get = |key| client.get(key, deadline).ok().flatten();
        NetworkKeys { nics: get("sdc:nics"), resolvers: get("sdc:resolvers"), host_name: get("sdc:hostname") }
    });
    let login = if wanted.login { client.get(login::KEY, deadline).ok() } else { None };
    // Last, because it may be long.
    Told { configuration: key.map(|key| client.get(key, deadline)), network, login }
}

/// Looks everywhere, in order: `file`, the host's words, the environment, what is kept.
pub fn find(file: &Path, key: &str, told: Told, environment: Option<OsString>, keep: &Keep) -> Finding {
    let mut reasons = Vec::new();
    if file.exists() {
        let found = match Config::load(file) {
            Ok(_) => Some(Found { origin: Origin::File, path: file.to_path_buf(), is_new: false }),
            Err(errors) => {
                reasons.extend(errors.to_string().lines().map(str::to_owned));
                None
            }
        };
        // A file that is there is meant, also with mistakes in it.
        return Finding { found, reasons };
    }
    reasons.push(format!("{} does not exist", file.display()));
    if let Some(found) = from_host(key, told, keep, &mut reasons) {
        return Finding { found: Some(found), reasons };
    }
    let found = match environment.map(OsString::into_string) {
        Some(Ok(text)) if !text.trim().is_empty() => {
            take(Origin::Environment, "AGGREGATOR_CONFIG", &text, keep, &mut reasons)
        }
        Some(Err(_)) => {
            reasons.push("AGGREGATOR_CONFIG is no text in UTF-8".to_owned());
            None
        }
        _ => {
            reasons.push("the environment has no AGGREGATOR_CONFIG".to_owned());
            None
        }
    };
    let found = found.or_else(|| {
        let path = keep.configuration();
        keep.read()?;
        match Config::load(&path) {
            Ok(_) => Some(Found { origin: Origin::Kept, path, is_new: false }),
            Err(errors) => {
                reasons.extend(errors.to_string().lines().map(str::to_owned));
                None
            }
        }
    });
    Finding { found, reasons }
}

/// What the host's words come to.
pub fn from_host(key: &str, told: Told, keep: &Keep, reasons: &mut Vec<String>) -> Option<Found> {
    match told.configuration {
        Some(Ok(Some(text))) => return take(Origin::Metadata, key, &text, keep, reasons),
        Some(Ok(None)) => reasons.push(format!("metadata has no key {key:?}")),
        Some(Err(error)) => reasons.push(format!("metadata: {error}")),
        None => reasons.push("this machine is no Triton instance that can be asked for metadata".to_owned()),
    }
    None
}

/// Checks a text and keeps it.
fn take(origin: Origin, name: &str, text: &str, keep: &Keep, reasons: &mut Vec<String>) -> Option<Found> {
    let path = keep.configuration();
    let is_new = keep.read().as_deref() != Some(text);
    // First under the name that its author knows.
    let mut problem = Config::parse(Path::new(name), text).err().map(|errors| errors.to_string());
    if problem.is_none() {
        let adopted = keep.prepare(text).map_err(|error| error.to_string()).and_then(|fresh| {
            Config::load(&fresh).map_err(|errors| errors.to_string())?;
            if is_new { keep.adopt().map_err(|error| error.to_string()) } else { Ok(()) }
        });
        problem = adopted.err();
    }
    match problem {
        None => Some(Found { origin, path, is_new }),
        Some(problem) => {
            reasons.extend(problem.lines().map(str::to_owned));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[zones]\n\"one.test\" = \"192.0.2.1\"\n";
    const TWO: &str = "{\"zones\": {\"two.test\": [\"192.0.2.1\"]}}";

    /// A folder, and a search in it.
    struct Stand(tempfile::TempDir);

    impl Stand {
        fn new() -> Stand {
            Stand(tempfile::tempdir().unwrap())
        }

        fn file(&self) -> PathBuf {
            self.0.path().join("config.toml")
        }

        fn find(&self, metadata: Option<Result<Option<&str>, MetadataError>>, environment: Option<&str>) -> Finding {
            let keep = Keep::open(&self.0.path().join("boot")).unwrap();
            let configuration = metadata.map(|told| told.map(|text| text.map(str::to_owned)));
            let told = Told { configuration, ..Told::default() };
            find(&self.file(), "aggregator-config", told, environment.map(OsString::from), &keep)
        }

        fn kept(&self) -> String {
            std::fs::read_to_string(self.0.path().join("boot/config.toml")).unwrap()
        }
    }

    fn origin(finding: &Finding) -> Option<(Origin, bool)> {
        finding.found.as_ref().map(|found| (found.origin, found.is_new))
    }

    #[test]
    fn places_are_asked_in_order() {
        let stand = Stand::new();
        let finding = stand.find(None, None);
        assert_eq!(origin(&finding), None);
        assert_eq!(finding.reasons.len(), 3, "{finding:?}");
        assert_eq!(origin(&stand.find(None, Some(ONE))), Some((Origin::Environment, true)));
        assert_eq!(origin(&stand.find(None, Some(ONE))), Some((Origin::Environment, false)));
        assert_eq!(origin(&stand.find(Some(Ok(Some(TWO))), Some(ONE))), Some((Origin::Metadata, true)));
        assert_eq!(stand.kept(), TWO);
        std::fs::write(stand.file(), ONE).unwrap();
        let finding = stand.find(Some(Ok(Some(TWO))), Some(ONE));
        assert_eq!(finding.found.unwrap().path, stand.file());
    }

    #[test]
    fn what_the_host_said_once_outlives_its_silence() {
        let stand = Stand::new();
        assert_eq!(origin(&stand.find(Some(Ok(Some(ONE))), None)), Some((Origin::Metadata, true)));
        let silent = || Some(Err(MetadataError::Silent("/dev/ttyS1".into())));
        let finding = stand.find(silent(), None);
        assert_eq!(origin(&finding), Some((Origin::Kept, false)));
        assert!(finding.reasons.contains(&"metadata: the host does not answer at /dev/ttyS1".to_owned()));
        assert_eq!(origin(&stand.find(Some(Ok(None)), None)), Some((Origin::Kept, false)), "a key that was removed");
    }

    #[test]
    fn mistakes_are_told_and_change_nothing() {
        let stand = Stand::new();
        let finding = stand.find(Some(Ok(Some("[zones]\n\"a b\" = 1\n"))), None);
        assert_eq!(origin(&finding), None);
        assert!(finding.reasons.iter().any(|line| line.starts_with("aggregator-config:2:")), "{finding:?}");
        stand.find(Some(Ok(Some(ONE))), None);
        let finding = stand.find(Some(Ok(Some("zones = 3"))), None);
        assert_eq!(origin(&finding), Some((Origin::Kept, false)));
        assert_eq!(stand.kept(), ONE);
        let key = format!("{ONE}[keys.\"k\"]\nsecret_file = \"missing\"\n");
        let finding = stand.find(Some(Ok(Some(&key))), None);
        assert_eq!(stand.kept(), ONE, "files that it names are looked at: {finding:?}");
        std::fs::write(stand.file(), "nonsense").unwrap();
        let finding = stand.find(Some(Ok(Some(ONE))), None);
        assert_eq!(origin(&finding), None, "a file with mistakes is meant");
    }
}
