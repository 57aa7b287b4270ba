//! The accounts of a datacenter and the log of their changes, as UFDS has them.
//!
//! Invariants: a change of an account makes one entry of the log; numbers of entries ascend, and may leave some out.
//!
//! Cost: O(attributes of the accounts that are touched).

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Right below it are the accounts.
pub const USERS: &str = "ou=users, o=smartdc";

/// An entry of the log.
#[derive(Clone, Debug)]
pub struct Change {
    pub number: u64,
    pub target: String,
    pub kind: &'static str,
    /// What has changed, as JSON.
    pub changes: String,
}

/// Accounts by UUID, and their log.
#[derive(Default)]
pub struct Directory {
    accounts: BTreeMap<String, Value>,
    /// Accounts that were changed, as they were before, or null if they were not there.
    touched: BTreeMap<String, Value>,
    log: Vec<Change>,
    latest: u64,
}

impl Directory {
    /// A directory with accounts and an empty log.
    pub fn new(accounts: Vec<Value>) -> Directory {
        let accounts = accounts.into_iter().map(|account| (uuid_of(&account), account)).collect();
        Directory { accounts, ..Directory::default() }
    }

    /// All accounts.
    pub fn accounts(&self) -> impl Iterator<Item = &Value> {
        self.accounts.values()
    }

    /// The log, in the order of its numbers.
    pub fn log(&self) -> &[Change] {
        &self.log
    }

    /// Number of the latest change.
    pub fn latest(&self) -> u64 {
        self.latest
    }

    /// An account, to be changed; null, to be filled, where there is none.
    pub fn account(&mut self, uuid: &str) -> &mut Value {
        let account = self.accounts.entry(uuid.to_owned()).or_default();
        self.touched.entry(uuid.to_owned()).or_insert_with(|| account.clone());
        account
    }

    /// Adds or replaces an account.
    pub fn put(&mut self, account: Value) {
        let uuid = uuid_of(&account);
        *self.account(&uuid) = account;
    }

    /// Removes an account.
    pub fn remove(&mut self, uuid: &str) {
        if let Some(account) = self.accounts.remove(uuid) {
            self.touched.entry(uuid.to_owned()).or_insert(account);
        }
    }

    /// Counts from a number on, as if there had been so many changes of other entries, the last of which is in the log.
    /// A number below the latest one is that of a directory which was restored from a copy.
    pub fn count_from(&mut self, number: u64) {
        self.log.retain(|change| change.number < number);
        self.latest = number;
        let target = format!("cn=operators, ou=groups, o=smartdc {number}");
        self.log.push(Change { number, target, kind: "modify", changes: "[]".to_owned() });
    }

    /// Forgets the log, as UFDS does with one that is old.
    pub fn forget_log(&mut self) {
        self.log.clear();
    }

    /// Logs the changes since the last call.
    pub fn write_log(&mut self) {
        for (uuid, before) in std::mem::take(&mut self.touched) {
            let after = self.accounts.get(&uuid).cloned().unwrap_or_default();
            let (kind, changes) = match (&before, &after) {
                (before, after) if before == after => continue,
                (Value::Null, after) => ("add", after.clone()),
                (before, Value::Null) => ("delete", before.clone()),
                (before, after) => ("modify", modifications(before, after)),
            };
            self.latest += 1;
            let target = format!("uuid={uuid}, {USERS}");
            self.log.push(Change { number: self.latest, target, kind, changes: changes.to_string() });
        }
    }
}

/// The steps from one account to another.
fn modifications(before: &Value, after: &Value) -> Value {
    let fields = |account: &Value| account.as_object().map(|fields| fields.keys().cloned().collect());
    let names: BTreeSet<String> =
        [fields(before), fields(after)].into_iter().flatten().flat_map(|names: Vec<_>| names).collect();
    let changed = names.iter().filter(|name| before[*name] != after[*name]);
    let step = |name: &String| {
        let (operation, value) = match (&before[name], &after[name]) {
            (Value::Null, value) => ("add", value),
            (value, Value::Null) => ("delete", value),
            (_, value) => ("replace", value),
        };
        json!({ "operation": operation, "modification": { "type": name, "vals": [text_of(value)] } })
    };
    Value::Array(changed.map(step).collect())
}

/// A value as the directory has it, which knows nothing but text.
pub fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// UUID of an account, empty where it has none.
fn uuid_of(account: &Value) -> String {
    account["uuid"].as_str().unwrap_or_default().to_owned()
}
