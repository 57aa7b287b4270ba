//! UFDS over LDAP without TLS: bind and searches.
//!
//! Invariants: nobody who has not bound with the password learns anything; an answer shows the directory at one moment.
//!
//! Cost: a search O(accounts or changes).
//!
//! RFC 4511 (LDAP).

use crate::Shared;
use crate::answers::Call;
use crate::datacenter::Datacenter;
use crate::directory::{USERS, text_of};
use crate::switches::Service;
use futures_util::{SinkExt, StreamExt};
use ldap3_proto::proto::{LdapBindCred, LdapBindResponse, LdapOp, LdapResult, LdapSearchRequest};
use ldap3_proto::{
    LdapCodec, LdapFilter, LdapMsg, LdapPartialAttribute, LdapResultCode, LdapSearchResultEntry, LdapSearchScope,
};
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;
use tokio::net::TcpStream;
use tokio_util::codec::Framed;

/// The user that may search.
pub const BIND_DN: &str = "cn=root";
/// Its password.
pub const PASSWORD: &str = "secret";

/// Serves a connection until one side ends it.
pub async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    let mut framed = Framed::new(stream, LdapCodec::default());
    let mut cuts = shared.cuts.subscribe();
    let mut is_bound = false;
    loop {
        let message = tokio::select! {
            message = framed.next() => message,
            _ = cuts.changed() => return,
        };
        let Some(Ok(LdapMsg { msgid, op, .. })) = message else { return };
        let path = match &op {
            LdapOp::BindRequest(request) => format!("bind {}", request.dn),
            LdapOp::SearchRequest(search) => format!("{} {:?}", search.base, search.filter),
            _ => return,
        };
        shared.calls.lock().push(Call { service: Service::Ufds, path: path.clone(), at: Instant::now() });
        let (is_silent, fails, delay) = {
            let mut switches = shared.switches.lock();
            let own = switches.of(Service::Ufds);
            if own.refuses {
                return;
            }
            (own.is_silent, own.fails(&path), own.delay)
        };
        if is_silent {
            let _ = cuts.changed().await;
            return;
        }
        let answers = match op {
            LdapOp::BindRequest(request) => {
                is_bound = request.dn == BIND_DN && request.cred == LdapBindCred::Simple(PASSWORD.to_owned());
                let code = if fails {
                    LdapResultCode::Unavailable
                } else if is_bound {
                    LdapResultCode::Success
                } else {
                    LdapResultCode::InvalidCredentials
                };
                vec![LdapOp::BindResponse(LdapBindResponse { res: result(code), saslcreds: None })]
            }
            LdapOp::SearchRequest(_) if fails => done(LdapResultCode::OperationsError),
            LdapOp::SearchRequest(_) if !is_bound => done(LdapResultCode::InsufficentAccessRights),
            LdapOp::SearchRequest(search) => find(&shared.datacenter.lock(), &search),
            _ => return,
        };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        for op in answers {
            if framed.send(LdapMsg::new(msgid, op)).await.is_err() {
                return;
            }
        }
    }
}

/// Entries that were found, and the end of the search.
fn find(datacenter: &Datacenter, search: &LdapSearchRequest) -> Vec<LdapOp> {
    let directory = &datacenter.directory;
    let entry = |dn: String, values: Vec<(&str, String)>| Found { dn, values: own(values) };
    let all: Vec<Found> = match search.base.replace(' ', "").to_lowercase().as_str() {
        "ou=users,o=smartdc" => directory.accounts().filter_map(account).collect(),
        "cn=latestchangenumber" => {
            vec![entry(
                search.base.clone(),
                vec![("objectclass", "x".to_owned()), ("count", directory.latest().to_string())],
            )]
        }
        "cn=changelog" => {
            let change = |change: &crate::directory::Change| {
                let values = vec![
                    ("changenumber", change.number.to_string()),
                    ("targetdn", change.target.clone()),
                    ("changetype", change.kind.to_owned()),
                    ("changes", change.changes.clone()),
                ];
                entry(format!("changenumber={}, cn=changelog", change.number), values)
            };
            directory.log().iter().map(change).collect()
        }
        _ => return done(LdapResultCode::NoSuchObject),
    };
    if search.scope != LdapSearchScope::OneLevel {
        return done(LdapResultCode::UnwillingToPerform);
    }
    let mut found: Vec<Found> = all.into_iter().filter(|entry| entry.matches(&search.filter)).collect();
    let most = usize::try_from(search.sizelimit).ok().filter(|most| *most > 0).unwrap_or(usize::MAX);
    let is_cut = found.len() > most;
    found.truncate(most);
    let entries = found.into_iter().map(|entry| LdapOp::SearchResultEntry(entry.shown(&search.attrs)));
    let code = if is_cut { LdapResultCode::SizeLimitExceeded } else { LdapResultCode::Success };
    entries.chain(done(code)).collect()
}

/// Entry of the directory.
struct Found {
    dn: String,
    values: Vec<(String, String)>,
}

/// The entry of an account.
fn account(account: &Value) -> Option<Found> {
    let fields = account.as_object()?.iter().map(|(name, value)| (name.clone(), text_of(value)));
    Some(Found { dn: format!("uuid={}, {USERS}", account["uuid"].as_str()?), values: fields.collect() })
}

/// Names and values that belong to their entry.
fn own(values: Vec<(&str, String)>) -> Vec<(String, String)> {
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Found {
    /// Value of an attribute.
    fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// True if the entry is one that is looked for.
    fn matches(&self, filter: &LdapFilter) -> bool {
        match filter {
            LdapFilter::And(filters) => filters.iter().all(|filter| self.matches(filter)),
            LdapFilter::Or(filters) => filters.iter().any(|filter| self.matches(filter)),
            LdapFilter::Not(filter) => !self.matches(filter),
            LdapFilter::Equality(name, value) => self.value(name) == Some(value),
            LdapFilter::Present(name) => self.value(name).is_some(),
            LdapFilter::GreaterOrEqual(name, value) => match (self.value(name), value.parse::<u64>()) {
                (Some(own), Ok(value)) => own.parse().is_ok_and(|own: u64| own >= value),
                _ => false,
            },
            _ => false,
        }
    }

    /// The entry with the attributes that were asked for, all if none was.
    fn shown(self, attributes: &[String]) -> LdapSearchResultEntry {
        let asked =
            |name: &str| attributes.is_empty() || attributes.iter().any(|asked| asked.eq_ignore_ascii_case(name));
        let shown = self.values.into_iter().filter(|(name, _)| asked(name));
        let attributes = shown.map(|(atype, value)| LdapPartialAttribute { atype, vals: vec![value.into_bytes()] });
        LdapSearchResultEntry { attributes: attributes.collect(), dn: self.dn }
    }
}

/// The end of a search.
fn done(code: LdapResultCode) -> Vec<LdapOp> {
    vec![LdapOp::SearchResultDone(result(code))]
}

fn result(code: LdapResultCode) -> LdapResult {
    LdapResult { code, matcheddn: String::new(), message: String::new(), referral: Vec::new() }
}
