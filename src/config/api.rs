//! `api` and `api_tokens` of an inventory: where its REST interface is served, and who may change something there.
//!
//! Invariants: tokens come from a file that strangers can neither read nor change, and are in no message and in no plan
//! that is printed; the interface listens on addresses that are named, never on all of a machine.
//!
//! Cost: O(tokens) to find one.

use crate::config::listening::{Placed, addresses};
use inventory::model::Uuid;
use settings::read::{Reader, shorten};
use settings::secret::read_private_file;
use settings::tree::Node;
use std::fmt;
use std::net::SocketAddr;
use zeroize::Zeroizing;

/// Port of an address that names none.
const PORT: u16 = 8053;
/// Longest file of tokens: some thousands of them.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Shortest token, so that nobody guesses one.
const LEAST_OCTETS: usize = 16;

/// The REST interface of an inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiPlan {
    /// Name of the inventory.
    pub inventory: String,
    pub listen: Vec<SocketAddr>,
    pub tokens: Vec<Token>,
}

/// A token, and what it is good for.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    text: Zeroizing<Box<str>>,
    pub scope: Scope,
}

/// The accounts for which a token is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    All,
    Account(Uuid),
    Login(Box<str>),
}

impl Scope {
    /// Returns true if the token is good for an account.
    pub fn has(&self, owner: Option<&str>, login: Option<&str>) -> bool {
        match self {
            Scope::All => true,
            Scope::Account(uuid) => owner.is_some_and(|owner| Uuid::try_parse(owner).is_ok_and(|owner| owner == *uuid)),
            Scope::Login(own) => login == Some(own),
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:?})", self.scope)
    }
}

impl ApiPlan {
    /// What a token is good for; none if there is no such token.
    pub fn scope(&self, token: &str) -> Option<&Scope> {
        let mut found = None;
        for known in &self.tokens {
            if is_same(known.text.as_bytes(), token.as_bytes()) {
                found = Some(&known.scope);
            }
        }
        found
    }
}

/// Compares a secret with a guess in a time that does not depend on where they differ.
fn is_same(secret: &[u8], guess: &[u8]) -> bool {
    let differences = secret.iter().zip(guess).fold(0, |all, (one, other)| all | (one ^ other));
    secret.len() == guess.len() && differences == 0
}

/// Reads the addresses of the interface.
pub fn read_api(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<Vec<Placed>> {
    let placed = addresses(reader, key, node, PORT)?;
    for (address, at) in &placed {
        if address.ip().is_unspecified() {
            let advice = "write addresses of this machine that only administrators reach, such as \"127.0.0.1:8053\"";
            reader.error(*at, format!("\"{key}\" is not for everybody, so not for {}; {advice}", address.ip()));
        }
    }
    Some(placed)
}

/// Reads the file of tokens: lines of a token and its scope; those that begin with `#` do not count.
pub fn read_tokens(reader: &mut Reader<'_>, key: &str, node: &Node, touch_disk: bool) -> Option<Vec<Token>> {
    let file = reader.path(key, node)?;
    if !touch_disk {
        return Some(Vec::new());
    }
    let text = match read_private_file(&file, MAX_FILE_BYTES) {
        Ok(octets) => Zeroizing::new(String::from_utf8_lossy(&octets).into_owned()),
        Err(error) => {
            let fault = format!("\"{key}\" {} {error}", file.display());
            return reader.refuse_file(node.at, fault, error.is_absence());
        }
    };
    let mut tokens: Vec<Token> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match read_token(line) {
            Ok(token) if tokens.iter().any(|known| known.text == token.text) => {
                reader.error(node.at, format!("{}:{}: this token was there before", file.display(), number + 1));
            }
            Ok(token) => tokens.push(token),
            Err(fault) => reader.error(node.at, format!("{}:{}: {fault}", file.display(), number + 1)),
        }
    }
    Some(tokens)
}

/// Reads a line of the file; the error does not tell the token.
fn read_token(line: &str) -> Result<Token, String> {
    let mut words = line.split_ascii_whitespace();
    let (Some(text), Some(scope), None) = (words.next(), words.next(), words.next()) else {
        return Err("no token with its scope; write TOKEN and the UUID or login of an account, or *".to_owned());
    };
    if text.len() < LEAST_OCTETS || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("the token is shorter than {LEAST_OCTETS} characters, or not of ASCII; make a longer one"));
    }
    let scope = match scope {
        "*" => Scope::All,
        _ => Uuid::try_parse(scope).map_or_else(|_| Scope::Login(shorten(scope).into()), Scope::Account),
    };
    Ok(Token { text: Zeroizing::new(text.into()), scope })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "11110000-0000-4000-8000-00000000000b";

    #[test]
    fn a_token_is_good_for_its_scope_alone() {
        let lines = ["everything-is-allowed *", &format!("0123456789abcdef {UUID}"), "fedcba9876543210 jim.smith"];
        let tokens = lines.iter().map(|line| read_token(line).unwrap()).collect();
        let plan = ApiPlan { inventory: "dc1".to_owned(), listen: Vec::new(), tokens };
        let has = |token: &str, owner: Option<&str>, login: Option<&str>| {
            plan.scope(token).is_some_and(|scope| scope.has(owner, login))
        };
        assert!(has("everything-is-allowed", None, None));
        assert!(has("0123456789abcdef", Some(&UUID.to_uppercase()), Some("acme")));
        assert!(!has("0123456789abcdef", None, Some("acme")) && !has("0123456789abcdef", Some("x"), None));
        assert!(has("fedcba9876543210", None, Some("jim.smith")) && !has("fedcba9876543210", None, Some("jim-smith")));
        for none in ["", "everything-is-allowe", "everything-is-allowed*", "0123456789abcdeF"] {
            assert_eq!(plan.scope(none), None, "{none}");
        }
        assert!(!format!("{plan:?}").contains("0123456789"));
    }

    #[test]
    fn a_wrong_line_does_not_tell_its_token() {
        for line in ["secretsecretsecret", "secret *", "secretsecretsecret acme x", "secretsecretséécret *"] {
            let fault = read_token(line).unwrap_err();
            assert!(!fault.contains("secret"), "{fault}");
        }
    }
}
