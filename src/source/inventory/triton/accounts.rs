//! The file of accounts, for datacenters whose accounts are not asked for.
//!
//! Invariants: a file is read after two equal looks at its size, its inode and the time of its last change, so that one
//! that is being written is not; one that is wrong or has gone leaves the accounts as they were.
//!
//! Cost: a look each second; O(the file) after a change.

use crate::source::inventory::feeder::Failure;
use inventory::model::{Account, Uuid};
use serde::Deserialize;
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

/// Pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// Pause before the second look at a file that has changed.
const SETTLE: Duration = Duration::from_millis(200);

/// News of accounts.
#[derive(Debug)]
pub enum News {
    /// These are all accounts.
    All(Vec<Account>),
    /// These may have changed, those that have come or gone among them.
    Changed(Vec<Uuid>),
    /// Any may have changed. The operator's account, if there is one, was read by a request that began then.
    Missed { operator: Option<Account>, began: Instant },
    /// Nobody knows whether any has changed.
    Failed(Failure),
}

/// Follows a file until nobody listens. The same news are told once.
pub async fn follow(path: PathBuf, told: mpsc::Sender<News>) {
    let mut read_at = None;
    let mut failure = None;
    loop {
        match look(&path).await {
            Ok(stamp) if read_at == Some(stamp) => {}
            Ok(stamp) => {
                sleep(SETTLE).await;
                if look(&path).await == Ok(stamp) {
                    read_at = Some(stamp);
                    let read = read(&path).await;
                    failure = read.as_ref().err().cloned();
                    if told.send(read.map_or_else(News::Failed, News::All)).await.is_err() {
                        return;
                    }
                }
            }
            Err(gone) => {
                read_at = None;
                if failure.as_ref() != Some(&gone) {
                    failure = Some(gone.clone());
                    if told.send(News::Failed(gone)).await.is_err() {
                        return;
                    }
                }
            }
        }
        sleep(PAUSE).await;
    }
}

/// Size, inode, and time of the last change.
type Stamp = (u64, u64, i64, i64);

async fn look(path: &Path) -> Result<Stamp, Failure> {
    let metadata = tokio::fs::metadata(path).await;
    let metadata = metadata.map_err(|error| Failure::new("file", format!("{}: {error}", path.display())))?;
    Ok((metadata.len(), metadata.ino(), metadata.mtime(), metadata.mtime_nsec()))
}

async fn read(path: &Path) -> Result<Vec<Account>, Failure> {
    let text = tokio::fs::read_to_string(path).await;
    let text = text.map_err(|error| Failure::new("file", format!("{}: {error}", path.display())))?;
    parse(path, &text)
}

/// The file as it is written.
#[derive(Deserialize)]
struct File {
    accounts: Vec<Written>,
}

/// An account as it is written, under UFDS' field names.
#[derive(Deserialize)]
struct Written {
    uuid: String,
    login: Box<str>,
    triton_cns_enabled: Option<Flag>,
    approved_for_provisioning: Option<Flag>,
}

/// A flag: UFDS has text only.
#[derive(Deserialize)]
#[serde(untagged)]
enum Flag {
    Bool(bool),
    Text(Box<str>),
}

impl Flag {
    fn is_on(flag: Option<&Flag>) -> bool {
        match flag {
            None => false,
            Some(Flag::Bool(flag)) => *flag,
            Some(Flag::Text(text)) => is_on(Some(text)),
        }
    }
}

/// True if a flag is set, not empty and not exactly `false`.
pub fn is_on(flag: Option<&str>) -> bool {
    flag.is_some_and(|flag| !flag.is_empty() && flag != "false")
}

/// Reads the accounts of a file, which is TOML unless its name ends with `.json`.
fn parse(path: &Path, text: &str) -> Result<Vec<Account>, Failure> {
    let faulty = |error: String| Failure::new("file", format!("{}: {}", path.display(), error.trim_end()));
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let file: Result<File, String> = if is_json {
        serde_json::from_str(text).map_err(|error| error.to_string())
    } else {
        toml::from_str(text).map_err(|error| error.to_string())
    };
    let mut seen = HashSet::new();
    let mut accounts = Vec::new();
    for written in file.map_err(faulty)?.accounts {
        let uuid = Uuid::try_parse(&written.uuid);
        let uuid = uuid.map_err(|_| faulty(format!("\"{}\" is no UUID", written.uuid)))?;
        if !seen.insert(uuid) {
            return Err(faulty(format!("{uuid} is there twice")));
        }
        accounts.push(Account {
            uuid,
            login: written.login,
            cns_enabled: Flag::is_on(written.triton_cns_enabled.as_ref()),
            approved: Flag::is_on(written.approved_for_provisioning.as_ref()),
        });
    }
    Ok(accounts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_upstream_reads_them() {
        let text = r#"{"accounts":[
            {"uuid":"2c2457f2-0000-4000-8000-00000000000a","login":"acme","triton_cns_enabled":"FALSE","approved_for_provisioning":true},
            {"uuid":"2c2457f2-0000-4000-8000-00000000000b","login":"jim","triton_cns_enabled":"false","approved_for_provisioning":""}]}"#;
        let accounts = parse(Path::new("a.json"), text).unwrap();
        let flags: Vec<(bool, bool)> = accounts.iter().map(|account| (account.cns_enabled, account.approved)).collect();
        assert_eq!(flags, [(true, true), (false, false)]);
        let toml = "[[accounts]]\nuuid = \"2c2457f2-0000-4000-8000-00000000000a\"\nlogin = \"acme\"\n";
        assert_eq!(parse(Path::new("a.toml"), toml).unwrap()[0].login, "acme".into());
        let twice = parse(Path::new("a.toml"), &toml.repeat(2)).unwrap_err();
        assert!(twice.text.contains("twice"), "{twice}");
        let broken = parse(Path::new("a.toml"), "accounts = 1\n").unwrap_err();
        assert!(broken.text.contains("line 1"), "{broken}");
    }
}
