//! Users and groups of this machine, by name or number.
//!
//! They are read from `/etc/passwd` and `/etc/group`, as the group of the control socket is: users of services are local,
//! and a library for other directories would load code into a process that is still root.
//!
//! Cost: O(users + groups).

use std::fs;
use std::io;

/// Users, and groups with their members.
const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// A user that the server can become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name, or its number if it has no name.
    pub name: String,
    pub user: u32,
    pub group: u32,
    /// All its groups, that one among them.
    pub groups: Vec<u32>,
}

/// Error: there is no such account.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    #[error("{USERS} has no user \"{0}\"; make one (useradd --system {0}), or write another user")]
    User(String),
    #[error("{USERS} has no user {0}, so its group is not known; write group = \"NAME or number\", too")]
    Number(u32),
    #[error("{GROUPS} has no group \"{0}\"; make one (groupadd --system {0}), or write another group")]
    Group(String),
    #[error("cannot read {0}: {1}")]
    Read(&'static str, io::Error),
}

/// Finds a user by name or number, and its group where another one than the user's own is wanted.
pub fn find(user: &str, group: Option<&str>) -> Result<Account, AccountError> {
    let groups = read(GROUPS).or_else(|error| if user.parse::<u32>().is_ok() { Ok(String::new()) } else { Err(error) });
    let users = read(USERS).or_else(|error| if user.parse::<u32>().is_ok() { Ok(String::new()) } else { Err(error) });
    find_in(&users?, &groups?, user, group)
}

/// The same, in the contents of both files.
fn find_in(users: &str, groups: &str, user: &str, group: Option<&str>) -> Result<Account, AccountError> {
    let number = user.parse::<u32>().ok();
    let entry = entries(users).find(|fields| fields[0] == user).or_else(|| {
        let number = number?;
        entries(users).find(|fields| number_at(fields, 2) == Some(number))
    });
    let found = entry.and_then(|fields| Some((fields[0].to_owned(), number_at(&fields, 2)?, number_at(&fields, 3)?)));
    let wanted = group.map(|group| find_group(groups, group)).transpose()?;
    let (name, user, own) = match (found, number) {
        (Some((name, user, own)), _) => (name, user, wanted.unwrap_or(own)),
        (None, Some(number)) => (user.to_owned(), number, wanted.ok_or(AccountError::Number(number))?),
        (None, None) => return Err(AccountError::User(user.to_owned())),
    };
    let mut all = vec![own];
    let memberships =
        entries(groups).filter(|fields| fields.get(3).is_some_and(|list| list.split(',').any(|m| m == name)));
    all.extend(memberships.filter_map(|fields| number_at(&fields, 2)));
    all.sort_unstable();
    all.dedup();
    Ok(Account { name, user, group: own, groups: all })
}

/// The name of a user, for people; its number if it has none.
pub fn name_of(user: u32) -> String {
    let users = read(USERS).unwrap_or_default();
    let found = entries(&users).find(|fields| number_at(fields, 2) == Some(user)).map(|fields| fields[0].to_owned());
    found.unwrap_or_else(|| user.to_string())
}

/// The number of a group.
fn find_group(groups: &str, group: &str) -> Result<u32, AccountError> {
    let entry = entries(groups).find(|fields| fields[0] == group);
    let number = entry.and_then(|fields| number_at(&fields, 2)).or_else(|| group.parse().ok());
    number.ok_or_else(|| AccountError::Group(group.to_owned()))
}

/// The lines of a file, divided.
fn entries(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| line.split(':').collect::<Vec<_>>()).filter(|fields| fields.len() > 2)
}

/// The number in a field.
fn number_at(fields: &[&str], index: usize) -> Option<u32> {
    fields.get(index)?.parse().ok()
}

/// Reads one of the files.
fn read(path: &'static str) -> Result<String, AccountError> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|e| AccountError::Read(path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0::/root:/bin/sh\ndns:x:101:102::/:/bin/false\nbroken:x\n77:x:5:6::/:/bin/false\n";
    const GROUPS: &str = "root:x:0:\ndns:x:102:\nadm:x:4:syslog,dns\nssl:x:9:dns\nother:x:8:dnsx\n";

    fn find(user: &str, group: Option<&str>) -> Result<Account, String> {
        find_in(USERS, GROUPS, user, group).map_err(|error| error.to_string())
    }

    #[test]
    fn a_user_has_its_group_and_those_it_is_a_member_of() {
        let dns = Account { name: "dns".into(), user: 101, group: 102, groups: vec![4, 9, 102] };
        assert_eq!(find("dns", None), Ok(dns.clone()));
        assert_eq!(find("101", None), Ok(dns.clone()));
        assert_eq!(find("dns", Some("ssl")), Ok(Account { group: 9, groups: vec![4, 9], ..dns.clone() }));
        assert_eq!(find("dns", Some("55")), Ok(Account { group: 55, groups: vec![4, 9, 55], ..dns }));
    }

    #[test]
    fn a_number_needs_no_name() {
        let nameless = Account { name: "65532".into(), user: 65532, group: 7, groups: vec![7] };
        assert_eq!(find("65532", Some("7")), Ok(nameless));
        assert!(find("65532", None).unwrap_err().contains("group is not known"));
        assert_eq!(find("77", None).unwrap().user, 5, "a name that looks like a number is a name");
    }

    #[test]
    fn what_is_not_there_is_named() {
        assert!(find("nsd", None).unwrap_err().starts_with("/etc/passwd has no user \"nsd\"; make one"));
        assert!(find("broken", None).is_err());
        assert!(find("dns", Some("nsd")).unwrap_err().starts_with("/etc/group has no group \"nsd\""));
    }
}
