//! Accounts of a document, and those that it names without having them.
//!
//! Invariant: an account is invented only where the document has no list of accounts, and only one for each UUID.
//!
//! Cost: O(accounts).

use super::elements::Elements;
use super::values::{Fields, Seen, flag, full_text, parse_uuid, uuid};
use super::{derived, keys};
use crate::model::{Account, Uuid};
use settings::read::{Reader, shorten};
use settings::schema::did_you_mean;
use settings::tree::Node;
use std::collections::HashMap;

/// Accounts that were read or invented.
pub struct Accounts {
    found: Vec<Account>,
    by_login: HashMap<Box<str>, Uuid>,
    /// Places of accounts that were invented; none where the document has a list.
    invented: Option<HashMap<Uuid, usize>>,
}

impl Accounts {
    /// Reads the list of accounts, if there is one.
    pub fn read(reader: &mut Reader<'_>, array: Option<&Elements<'_>>) -> Accounts {
        let mut accounts = Accounts { found: Vec::new(), by_login: HashMap::new(), invented: None };
        let Some(array) = array else {
            accounts.invented = Some(HashMap::new());
            return accounts;
        };
        let (mut uuids, mut logins) = (Seen::new(), Seen::new());
        array.for_each(reader, |reader, node| {
            let Some((account, at)) = read_account(reader, node) else { return };
            let Account { uuid, login, .. } = &account;
            let is_new = logins.first(reader, at, login.clone(), || format!("account \"{}\"", shorten(login)))
                && uuids.first(reader, at, *uuid, || format!("account {uuid}"));
            if is_new {
                accounts.by_login.insert(login.clone(), *uuid);
                accounts.found.push(account);
            }
        });
        accounts
    }

    /// The account that an instance names by login or UUID.
    pub fn named(&mut self, reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Uuid> {
        let name = full_text(reader, key, node)?;
        let Some(invented) = &mut self.invented else {
            return match (parse_uuid(&name), self.by_login.get(&name)) {
                // An account that the list does not have leaves the instance undecided, as everywhere.
                (Some(uuid), _) | (_, Some(&uuid)) => Some(uuid),
                (None, None) => {
                    let logins = || self.by_login.keys().map(|login| &**login).take(1000);
                    let advice = did_you_mean(&name, logins(), || "write one of those of \"accounts\"".to_string());
                    reader.refuse(node.at, format!("no account has the login \"{}\"; {advice}", shorten(&name)))
                }
            };
        };
        let (uuid, login) = match parse_uuid(&name) {
            Some(uuid) => (uuid, "".into()),
            None => (derived(&["account", &name]), name),
        };
        let found = &mut self.found;
        let place = *invented.entry(uuid).or_insert_with(|| {
            found.push(Account { uuid, login: "".into(), cns_enabled: true, approved: true });
            found.len() - 1
        });
        // Named by its UUID before, and by its login now.
        if found[place].login.is_empty() {
            found[place].login = login;
        }
        Some(uuid)
    }

    /// The login of each account.
    pub fn logins(&self) -> HashMap<Uuid, &str> {
        self.found.iter().map(|account| (account.uuid, &*account.login)).collect()
    }

    /// All accounts.
    pub fn finish(self) -> Vec<Account> {
        self.found
    }
}

/// Reads an account. Flags that are missing are off, as in UFDS.
fn read_account(reader: &mut Reader<'_>, node: &Node) -> Option<(Account, usize)> {
    let fields = Fields::of(reader, node, &keys::ACCOUNT)?;
    let login = fields.required(reader, "login", "the login of the account", full_text);
    let written = fields.get("uuid").is_some();
    let uuid = fields.read(reader, "uuid", uuid);
    let cns_enabled = fields.read(reader, "triton_cns_enabled", flag).unwrap_or(false);
    let approved = fields.read(reader, "approved_for_provisioning", flag).unwrap_or(false);
    let login = login?;
    let uuid = if written { uuid? } else { derived(&["account", &login]) };
    Some((Account { uuid, login, cns_enabled, approved }, fields.at))
}
