//! Search for the configuration: in a file, at the host, in the environment, and in what an earlier start has fetched.
//!
//! Invariants: a configuration that is not valid is never kept and never served with, and says why; what the host has
//! said once outlives its silence. What a server has refused starts none while there is another.
//!
//! Cost: O(configuration), checked twice: once with positions that its author knows, once where it lies.

use super::keep::Keep;
use super::{Plan, login};
use crate::config::Config;
use crate::metadata::{Client, MetadataError};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Origin of a configuration.
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
pub struct FoundConfiguration {
    pub origin: Origin,
    pub path: PathBuf,
    /// True if it differs from the one before it.
    pub is_new: bool,
}

/// Result of a search.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Finding {
    pub found: Option<FoundConfiguration>,
    /// Reasons for which other places gave nothing, a line each.
    pub reasons: Vec<String>,
    /// True if the host gives a configuration that is not used.
    pub is_refused: bool,
}

/// Data that the host has given.
#[derive(Debug, Default)]
pub struct Told {
    /// Value of the key; an error if it could not be read, none where there is no host.
    pub configuration: Option<Result<Option<String>, MetadataError>>,
    /// Description of the network, where that is wanted and known.
    pub network: Option<NetworkKeys>,
    /// Keys for logging in, if they are wanted and the host has said whether there are any.
    pub login: Option<Option<String>>,
    /// Problems with the description of the network, a line each.
    pub network_problems: Vec<String>,
}

/// Description of the network as the host gives it, a value for each metadata key.
#[derive(Debug, Default)]
pub struct NetworkKeys {
    pub nics: Option<String>,
    pub routes: Option<String>,
    pub resolvers: Option<String>,
    pub host_name: Option<String>,
}

/// Asks the host, if there is one, for everything that is wanted, in one conversation.
pub fn ask_host(plan: &Plan) -> Told {
    let Some(host) = &plan.host else { return Told::default() };
    let deadline = Instant::now() + plan.patience;
    let mut client = match Client::connect(host, deadline) {
        Ok(client) => client,
        Err(error) => return Told { configuration: Some(Err(error)), ..Told::default() },
    };
    // The network first: without it the rest is of little use.
    // What the host does not say, or not in time, is looked for again at the next conversation.
    let network = plan.network.is_some().then(|| {
        let mut get = |key| client.get(key, deadline).ok().flatten();
        NetworkKeys {
            nics: get("sdc:nics"),
            routes: get("sdc:routes"),
            resolvers: get("sdc:resolvers"),
            host_name: get("sdc:hostname"),
        }
    });
    if plan.only_network {
        return Told { network, ..Told::default() };
    }
    let login = plan.login.as_ref().and_then(|_| client.get(login::KEY, deadline).ok());
    // Last, because it may be long.
    Told { configuration: Some(client.get(&plan.key, deadline)), network, login, ..Told::default() }
}

/// Searches all places, in order: `file`, the host's metadata, the environment, the kept configuration.
pub fn find(file: &Path, key: &str, told: Told, environment: Option<OsString>, keep: &Keep) -> Finding {
    let mut reasons = Vec::new();
    if file.exists() {
        // A file that is there is meant, also with mistakes in it.
        let loaded = Config::load(file).map_err(|errors| reasons = lines(errors));
        let found = FoundConfiguration { origin: Origin::File, path: file.to_path_buf(), is_new: false };
        return Finding { found: loaded.ok().map(|_| found), reasons, is_refused: false };
    }
    reasons.push(format!("{} does not exist", file.display()));
    let word = word(key, told);
    let is_refused = word.is_ok();
    match word {
        Ok(text) => {
            if keep.has_refused(&text)
                && let Some(found) = kept(keep, &mut reasons)
            {
                reasons.push(
                    "no server has taken what metadata says; this one starts with what there was before".to_owned(),
                );
                return Finding { found: Some(found), reasons, is_refused };
            }
            if let Some(found) = take(Origin::Metadata, key, &text, keep, &mut reasons) {
                return Finding { found: Some(found), reasons, is_refused: false };
            }
        }
        Err(reason) => reasons.push(reason),
    }
    let found = match environment.map(OsString::into_string) {
        Some(Ok(text)) if !text.trim().is_empty() => {
            take(Origin::Environment, "AGGREGATOR_CONFIG", &text, keep, &mut reasons)
        }
        other => {
            let is_odd = matches!(other, Some(Err(_)));
            let what = if is_odd {
                "AGGREGATOR_CONFIG is no text in UTF-8"
            } else {
                "the environment has no AGGREGATOR_CONFIG"
            };
            reasons.push(what.to_owned());
            None
        }
    };
    let found = found.or_else(|| kept(keep, &mut reasons));
    Finding { found, reasons, is_refused }
}

/// Returns the configuration that an earlier start has fetched, if it is still valid; else, if it is on trial, the one
/// before it.
fn kept(keep: &Keep, reasons: &mut Vec<String>) -> Option<FoundConfiguration> {
    let path = keep.configuration();
    loop {
        keep.read()?;
        match Config::load(&path) {
            Ok(_) => return Some(FoundConfiguration { origin: Origin::Kept, path, is_new: false }),
            Err(errors) => reasons.extend(lines(errors)),
        }
        let has_other = keep.has_trial() && keep.put_back().is_ok();
        if !has_other {
            return None;
        }
    }
}

/// The text that the host has, or why there is none.
pub fn word(key: &str, told: Told) -> Result<String, String> {
    match told.configuration {
        Some(Ok(Some(text))) => Ok(text),
        Some(Ok(None)) => Err(format!("metadata has no key {key:?}")),
        Some(Err(error)) => Err(format!("metadata: {error}")),
        None => Err("this machine is no Triton instance that can be asked for metadata".to_owned()),
    }
}

/// The lines of a message.
fn lines(message: impl ToString) -> Vec<String> {
    message.to_string().lines().map(str::to_owned).collect()
}

/// Checks a text. Returns true if it differs from the kept one; the error lists the problems, a line each.
pub fn check(name: &str, text: &str, keep: &Keep) -> Result<bool, Vec<String>> {
    // First under the name that its author knows.
    Config::parse(Path::new(name), text).map_err(lines)?;
    let fresh = keep.prepare(text).map_err(lines)?;
    Config::load(&fresh).map_err(lines)?;
    Ok(keep.read().as_deref() != Some(text))
}

/// Checks a text and keeps it.
fn take(origin: Origin, name: &str, text: &str, keep: &Keep, reasons: &mut Vec<String>) -> Option<FoundConfiguration> {
    let checked = check(name, text, keep).and_then(|is_new| match is_new {
        true => keep.adopt(text).map(|()| true).map_err(lines),
        false => Ok(false),
    });
    let is_new = checked.map_err(|problems| reasons.extend(problems)).ok()?;
    Some(FoundConfiguration { origin, path: keep.configuration(), is_new })
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
            let finding = find(&self.file(), "aggregator-config", told, environment.map(OsString::from), &keep);
            if finding.found.as_ref().is_some_and(|found| found.is_new) {
                keep.accept().unwrap();
            }
            finding
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
    fn what_a_server_has_refused_starts_none() {
        let stand = Stand::new();
        let keep = Keep::open(&stand.0.path().join("boot")).unwrap();
        stand.find(Some(Ok(Some(ONE))), None);
        keep.adopt(TWO).unwrap();
        keep.put_back().unwrap();
        let finding = stand.find(Some(Ok(Some(TWO))), Some(TWO));
        assert_eq!(origin(&finding), Some((Origin::Kept, false)));
        assert!(finding.reasons.iter().any(|line| line.contains("no server has taken")), "{finding:?}");
        assert_eq!(stand.kept(), ONE);
        // Without another it is all there is.
        std::fs::remove_file(keep.configuration()).unwrap();
        assert_eq!(origin(&stand.find(Some(Ok(Some(TWO))), None)), Some((Origin::Metadata, true)));
    }

    #[test]
    fn mistakes_are_told_and_change_nothing() {
        let stand = Stand::new();
        let finding = stand.find(Some(Ok(Some("[zones]\n\"a b\" = 1\n"))), None);
        assert_eq!(origin(&finding), None);
        assert!(finding.reasons.iter().any(|line| line.starts_with("aggregator-config:2:")), "{finding:?}");
        stand.find(Some(Ok(Some(ONE))), None);
        let finding = stand.find(Some(Ok(Some("zones = 3"))), None);
        assert_eq!((origin(&finding), finding.is_refused), (Some((Origin::Kept, false)), true));
        assert_eq!(stand.kept(), ONE);
        let key = format!("{ONE}[keys.\"k\"]\nsecret_file = \"missing\"\n");
        let finding = stand.find(Some(Ok(Some(&key))), None);
        assert_eq!(stand.kept(), ONE, "files that it names are looked at: {finding:?}");
        std::fs::write(stand.file(), "nonsense").unwrap();
        let finding = stand.find(Some(Ok(Some(ONE))), None);
        assert_eq!(origin(&finding), None, "a file with mistakes is meant");
    }
}
