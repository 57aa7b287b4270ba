//! The searches of UFDS, the directory with a datacenter's accounts, and what its entries say.
//!
//! Invariants: an account is absent only if the directory has answered the whole search and found none; an entry about
//! another account than the one asked for, or without a login, is an error; users below an account are none themselves.
//!
//! Cost: a search for each account; a page of the change log has 1,000 entries.
//!
//! RFC 4514 (names of entries as text).

use super::accounts::is_on;
use super::call_error::CallError;
use super::plan::{TrustPlan, UfdsPlan};
use crate::client::ldap::{Entry, Filter, Found, LdapClient, Search};
use crate::client::tls::Trust;
use inventory::model::{Account, Uuid};

/// Right below it are the accounts.
const USERS: &str = "ou=users, o=smartdc";
/// Right below it are the changes of all entries.
const CHANGES: &str = "cn=changelog";
/// The entry that counts them.
const LATEST: &str = "cn=latestchangenumber";
/// The login whose account owns compute nodes.
const OPERATOR: &str = "admin";
/// Entries of a page of the change log, the most that the directory gives.
pub const PAGE: u16 = 1000;
/// Attributes of an account.
pub const ACCOUNT: [&str; 4] = ["uuid", "login", "triton_cns_enabled", "approved_for_provisioning"];
/// Attributes of a change. What has changed is not asked for: the account is read again, whatever it was.
pub const CHANGE: [&str; 2] = ["changenumber", "targetdn"];

/// A change: its number, and the account that it is about, if it is about one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub number: u64,
    pub account: Option<Uuid>,
}

/// A page of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub changes: Vec<Change>,
    /// True if there may be more.
    pub is_cut: bool,
}

/// The directory.
pub struct Ufds {
    client: LdapClient,
}

impl Ufds {
    /// Makes a client of a plan; an error says what is wrong with its address or certificates.
    pub fn new(plan: &UfdsPlan) -> Result<Ufds, String> {
        let trust = match &plan.trust {
            TrustPlan::Plain => None,
            TrustPlan::System => Some(Trust::System),
            TrustPlan::Listed(_, text) => Some(Trust::Listed(text)),
            TrustPlan::Anyone => Some(Trust::Anyone),
        };
        let client = LdapClient::new(&plan.host, plan.port, trust, &plan.bind_dn, &plan.password.1)?;
        Ok(Ufds { client })
    }

    /// The account of a UUID.
    pub async fn account(&self, uuid: Uuid) -> Result<Option<Account>, CallError> {
        let accounts = self.accounts("uuid", uuid.to_string()).await?;
        match &accounts[..] {
            [] => Ok(None),
            [account] if account.uuid == uuid => Ok(Some(account.clone())),
            [other, ..] => Err(CallError::Another(other.uuid.to_string())),
        }
    }

    /// The account of the operator, to which compute nodes belong: no instance may name it.
    pub async fn operator(&self) -> Result<Option<Account>, CallError> {
        let accounts = self.accounts("login", OPERATOR.to_owned()).await?;
        Ok(accounts.into_iter().find(|account| &*account.login == OPERATOR))
    }

    /// Accounts with a value.
    async fn accounts(&self, attribute: &str, value: String) -> Result<Vec<Account>, CallError> {
        // A second one shows that the directory has answered something else than was asked.
        let filter = Filter::Equality(attribute.to_owned(), value);
        let found = self.client.search(&Search { base: USERS, filter, attributes: &ACCOUNT, most: 2 }).await?;
        found.entries.iter().filter_map(|entry| account(entry).transpose()).collect()
    }

    /// Number of the latest change.
    pub async fn latest(&self) -> Result<u64, CallError> {
        let filter = Filter::Present("objectclass".to_owned());
        let found = self.client.search(&Search { base: LATEST, filter, attributes: &["count"], most: 1 }).await?;
        let count = found.entries.first().and_then(|entry| entry.values.first()?.clone());
        count.as_deref().and_then(number).ok_or_else(|| {
            let shown: String = count.unwrap_or_default().chars().take(60).collect();
            CallError::Malformed(format!("\"{}\" for the number of changes", shown.escape_debug()))
        })
    }

    /// Changes from a number on, that of the number among them.
    pub async fn changes(&self, from: u64) -> Result<Page, CallError> {
        let filter = Filter::GreaterOrEqual("changenumber".to_owned(), from.to_string());
        page(&self.client.search(&Search { base: CHANGES, filter, attributes: &CHANGE, most: PAGE }).await?)
    }
}

/// Reads the entry of an account; none if it is that of somebody below an account.
pub fn account(entry: &Entry) -> Result<Option<Account>, CallError> {
    let Some(named) = account_of(&entry.dn) else { return Ok(None) };
    let value = |index: usize| entry.values.get(index).and_then(Option::as_deref);
    let uuid = value(0).and_then(|text| Uuid::try_parse(text).ok());
    let login = value(1).filter(|login| !login.is_empty());
    let (Some(uuid), Some(login)) = (uuid, login) else {
        return Err(CallError::Malformed(format!("account {named} without UUID or login")));
    };
    if uuid != named {
        return Err(CallError::Another(uuid.to_string()));
    }
    Ok(Some(Account { uuid, login: login.into(), cns_enabled: is_on(value(2)), approved: is_on(value(3)) }))
}

/// Reads a page of the change log.
pub fn page(found: &Found) -> Result<Page, CallError> {
    let change = |entry: &Entry| {
        let value = |index: usize| entry.values.get(index).and_then(Option::as_deref);
        let number = value(0).and_then(number);
        let number = number.ok_or_else(|| CallError::Malformed("a change without a number".to_owned()))?;
        Ok(Change { number, account: value(1).and_then(account_of) })
    };
    let changes = found.entries.iter().map(change).collect::<Result<Vec<Change>, CallError>>()?;
    Ok(Page { is_cut: found.is_cut || changes.len() >= PAGE.into(), changes })
}

/// Reads a number of a change, of which text says little: "1000" is larger than "999".
fn number(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { text.parse().ok() } else { None }
}

/// The account whose entry has a name; none for the names of other entries, also of those below an account.
pub fn account_of(dn: &str) -> Option<Uuid> {
    let (own, base) = dn.split_once(',')?;
    let same = |one: &str, other: &str| one.trim().eq_ignore_ascii_case(other.trim());
    let is_base = base.split(',').count() == USERS.split(',').count()
        && base.split(',').zip(USERS.split(',')).all(|(one, other)| same(one, other));
    let (attribute, value) = own.split_once('=')?;
    if is_base && same(attribute, "uuid") { Uuid::try_parse(value.trim()).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "2c2457f2-0000-4000-8000-00000000000a";

    fn entry(dn: &str, values: &[Option<&str>]) -> Entry {
        let values = values.iter().map(|value| value.map(str::to_owned)).collect();
        Entry { dn: dn.to_owned(), values }
    }

    #[test]
    fn flags_and_logins_are_read_and_users_below_are_left_out() {
        let dn = format!("uuid={UUID}, ou=users, o=smartdc");
        let read = account(&entry(&dn, &[Some(UUID), Some("acme"), Some("FALSE"), Some("false")])).unwrap().unwrap();
        assert_eq!((&*read.login, read.cns_enabled, read.approved), ("acme", true, false));
        let read = account(&entry(&dn, &[Some(UUID), Some("acme"), None, Some("")])).unwrap().unwrap();
        assert!(!read.cns_enabled && !read.approved);
        let below = format!("uuid=1c2457f2-0000-4000-8000-00000000000a, {dn}");
        assert_eq!(account(&entry(&below, &[Some(UUID), Some("acme"), None, None])), Ok(None));
        assert!(account(&entry(&dn, &[Some(UUID), Some(""), None, None])).is_err());
        assert!(account(&entry(&dn, &[Some("x"), Some("acme"), None, None])).is_err());
        let other = account(&entry(&dn, &[Some("1c2457f2-0000-4000-8000-00000000000a"), Some("acme"), None, None]));
        assert!(matches!(other, Err(CallError::Another(_))));
    }

    #[test]
    fn names_of_entries_are_those_of_accounts_or_none() {
        let uuid = Uuid::try_parse(UUID).ok();
        for (own, base) in [
            ("uuid=", ", ou=users, o=smartdc"),
            ("UUID=", ",ou=Users,o=smartdc"),
            ("uuid = ", " , ou=users , o=smartdc "),
        ] {
            assert_eq!(account_of(&format!("{own}{UUID}{base}")), uuid, "{own}{base}");
        }
        for dn in ["", "ou=users, o=smartdc", "uuid=x, ou=users, o=smartdc", "o=smartdc", "uuid=, ou=users, o=smartdc"]
        {
            assert_eq!(account_of(dn), None, "{dn}");
        }
        let key = format!("fingerprint=aa, uuid={UUID}, ou=users, o=smartdc");
        assert_eq!((account_of(&key), account_of(&format!("uuid={UUID}, o=smartdc"))), (None, None));
    }

    #[test]
    fn changes_are_read_by_number() {
        let dn = format!("uuid={UUID}, ou=users, o=smartdc");
        let entries = vec![
            entry("changenumber=999, cn=changelog", &[Some("999"), Some("cn=x, ou=groups, o=smartdc")]),
            entry("changenumber=1000, cn=changelog", &[Some("1000"), Some(&dn)]),
        ];
        let read = page(&Found { entries, is_cut: false }).unwrap();
        let account = Uuid::try_parse(UUID).ok();
        let expected = [Change { number: 999, account: None }, Change { number: 1000, account }];
        assert_eq!((&read.changes[..], read.is_cut), (&expected[..], false));
        for text in ["", "+1", "-1", "1e3", " 1", "18446744073709551616"] {
            assert_eq!(number(text), None, "{text}");
            let entries = vec![entry("", &[Some(text), Some(&dn)])];
            assert!(page(&Found { entries, is_cut: false }).is_err());
        }
        assert!(number("1000") > number("999"));
    }
}
