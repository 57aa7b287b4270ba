//! The LDAP client: searches of one directory, over plain connections and TLS, after a simple bind.
//!
//! A search has a connection for itself, and connections are kept for the next one. A search that fails on a kept
//! connection, which the server may have closed meanwhile, is sent once more on a new one; whoever asks repeats the
//! others. While no connection can be opened, one attempt follows the other, 1 to 10 seconds apart, and whoever asks
//! meanwhile is told of the last one: a directory that hangs keeps nobody waiting but the one who tries.
//!
//! Invariants: a search ends within its time; of what is answered at most one message, and the entries asked for, are in
//! memory, each with short values of the attributes asked for; only the server's own end of a search makes it complete;
//! a password is in no message.
//!
//! Cost: O(entries); a round trip on a kept connection, three or four more on a new one.
//!
//! RFCs: 4511 (LDAP; section 4.5 has searches, 4.4.1 the notice before the end), 4513 section 5.1.3 (simple bind).

use super::stream::{Stream, dial};
use super::tls::{Trust, connector};
use ldap3_proto::proto::{LdapBindCred, LdapBindRequest, LdapDerefAliases, LdapOp, LdapResult, LdapSearchRequest};
use ldap3_proto::{LdapCodec, LdapMsg, LdapResultCode, LdapSearchResultEntry, LdapSearchScope};
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_util::bytes::BytesMut;
use tokio_util::codec::{Decoder, Encoder};
use zeroize::Zeroize;

pub use ldap3_proto::LdapFilter as Filter;

/// Time for a search, and for a connection.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Connections that are kept for the next search.
const MOST_IDLE: usize = 4;
/// Longest message that is taken.
const LONGEST_MESSAGE: usize = 1 << 20;
/// Values in values of a message; an entry takes six levels.
const DEEPEST_MESSAGE: usize = 16;
/// Longest name and value that are taken of an entry.
const LONGEST_VALUE: usize = 4096;
/// Pause before the second attempt to connect; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Faults of a search.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LdapError {
    #[error("cannot connect: {0}")]
    Connect(String),
    #[error("no TLS: {0}")]
    Tls(String),
    #[error("refuses user and password: {0}")]
    Credentials(String),
    #[error("no answer within {0:?}")]
    Slow(Duration),
    #[error("the connection ended before the answer: {0}")]
    Broken(String),
    #[error("answered {0}")]
    Refused(String),
    #[error("answered with something else than LDAP, or more of it than is taken: {0}")]
    Malformed(String),
}

impl LdapError {
    /// The metric label.
    pub fn label(&self) -> &'static str {
        match self {
            LdapError::Connect(_) => "unreachable",
            LdapError::Tls(_) => "tls",
            LdapError::Credentials(_) => "credentials",
            LdapError::Slow(_) => "slow",
            LdapError::Broken(_) => "disconnected",
            LdapError::Refused(_) => "status",
            LdapError::Malformed(_) => "malformed",
        }
    }
}

/// Search for entries right below a base.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    pub base: &'a str,
    pub filter: Filter,
    /// Attributes whose first values are taken.
    pub attributes: &'a [&'a str],
    /// Most entries that are taken.
    pub most: u16,
}

/// Entry that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub dn: String,
    /// First value of each attribute that was asked for, in that order.
    pub values: Vec<Option<String>>,
}

/// What a search has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub entries: Vec<Entry>,
    /// True if there may be more.
    pub is_cut: bool,
}

/// Client of one directory.
pub struct LdapClient {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    bind: LdapBindRequest,
    idle: Mutex<Vec<Connection>>,
    rest: Mutex<Rest>,
}

/// Pause between attempts to connect.
#[derive(Default)]
struct Rest {
    failures: u32,
    /// The last failure, when it was, and when the next attempt may be.
    last: Option<(LdapError, Instant, Instant)>,
}

impl Rest {
    /// Notes a failure of an attempt. Attempts that ran at once count as one.
    fn note(&mut self, error: &LdapError, began: Instant) {
        let now = Instant::now();
        if self.last.as_ref().is_none_or(|(_, failed, _)| began >= *failed) {
            let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(5)).min(LONGEST_PAUSE);
            self.failures += 1;
            self.last = Some((error.clone(), now, now + pause));
        }
    }
}

impl Drop for LdapClient {
    fn drop(&mut self) {
        if let LdapBindCred::Simple(password) = &mut self.bind.cred {
            password.zeroize();
        }
    }
}

impl LdapClient {
    /// Makes a client, which has no connection yet. Connections are plain without `trust`. An error says what is wrong
    /// with the server's name or the certificates.
    pub fn new(
        host: &str,
        port: u16,
        trust: Option<Trust<'_>>,
        dn: &str,
        password: &str,
    ) -> Result<LdapClient, String> {
        let name = || ServerName::try_from(host.to_owned()).map_err(|error| error.to_string());
        let tls = match trust {
            Some(trust) => Some((connector(trust, None)?, name()?)),
            None => None,
        };
        let bind = LdapBindRequest { version: 3, dn: dn.to_owned(), cred: LdapBindCred::Simple(password.to_owned()) };
        Ok(LdapClient { host: host.to_owned(), port, tls, bind, idle: Mutex::default(), rest: Mutex::default() })
    }

    /// Searches. A base that does not exist has no entries.
    pub async fn search(&self, search: &Search<'_>) -> Result<Found, LdapError> {
        let kept = self.idle.lock().pop();
        if let Some(connection) = kept {
            match self.search_on(connection, search).await {
                Ok(found) => return Ok(found),
                // What ended one connection may have ended all.
                Err(LdapError::Broken(_)) => self.idle.lock().clear(),
                Err(error) => return Err(error),
            }
        }
        self.search_on(self.open().await?, search).await
    }

    /// Searches on a connection, and keeps it if the answer was read to its end.
    async fn search_on(&self, mut connection: Connection, search: &Search<'_>) -> Result<Found, LdapError> {
        let found = timeout(PATIENCE, connection.search(search)).await.unwrap_or(Err(LdapError::Slow(PATIENCE)));
        if matches!(found, Ok(_) | Err(LdapError::Refused(_))) {
            let mut idle = self.idle.lock();
            if idle.len() < MOST_IDLE {
                idle.push(connection);
            }
        }
        found
    }

    /// Opens a connection, unless the last attempt failed a moment ago, or another one follows it just now.
    async fn open(&self) -> Result<Connection, LdapError> {
        let began = Instant::now();
        if let Some((error, _, until)) = &mut self.rest.lock().last {
            if began < *until {
                return Err(error.clone());
            }
            *until = began + PATIENCE;
        }
        let opened = timeout(PATIENCE, self.connect()).await.unwrap_or(Err(LdapError::Slow(PATIENCE)));
        match &opened {
            Ok(_) => *self.rest.lock() = Rest::default(),
            Err(error) => self.rest.lock().note(error, began),
        }
        opened
    }

    async fn connect(&self) -> Result<Connection, LdapError> {
        let stream = dial(&self.host, self.port).await.map_err(|error| LdapError::Connect(error.to_string()))?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(stream),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await;
                Box::new(stream.map_err(|error| LdapError::Tls(error.to_string()))?)
            }
        };
        let codec = LdapCodec::new(Some(LONGEST_MESSAGE), Some(DEEPEST_MESSAGE));
        let mut connection = Connection { stream, codec, heard: BytesMut::new(), id: 0 };
        connection.bind(&self.bind).await?;
        Ok(connection)
    }
}

/// A connection, of which at most one request is answered at a time.
struct Connection {
    stream: Box<dyn Stream>,
    codec: LdapCodec,
    /// Octets that were read and are no whole message yet.
    heard: BytesMut,
    /// Number of the last request.
    id: i32,
}

impl Connection {
    async fn bind(&mut self, bind: &LdapBindRequest) -> Result<(), LdapError> {
        self.send(LdapOp::BindRequest(bind.clone())).await?;
        match self.receive().await? {
            LdapOp::BindResponse(response) => match response.res.code {
                LdapResultCode::Success => Ok(()),
                LdapResultCode::InvalidCredentials
                | LdapResultCode::InappropriateAuthentication
                | LdapResultCode::InsufficentAccessRights
                | LdapResultCode::InvalidDNSyntax
                | LdapResultCode::NoSuchObject => Err(LdapError::Credentials(words(&response.res))),
                _ => Err(LdapError::Refused(words(&response.res))),
            },
            _ => Err(LdapError::Malformed("no answer to the bind".to_owned())),
        }
    }

    async fn search(&mut self, search: &Search<'_>) -> Result<Found, LdapError> {
        self.send(LdapOp::SearchRequest(request(search))).await?;
        let mut found = Found::default();
        loop {
            match self.receive().await? {
                LdapOp::SearchResultEntry(_) if found.entries.len() >= search.most.into() => found.is_cut = true,
                LdapOp::SearchResultEntry(entry) => found.entries.push(read(entry, search.attributes)?),
                // Where else one could search (RFC 4511, section 4.5.3).
                LdapOp::SearchResultReference(_) => {}
                LdapOp::SearchResultDone(result) => {
                    return match result.code {
                        LdapResultCode::Success => Ok(found),
                        LdapResultCode::SizeLimitExceeded => Ok(Found { is_cut: true, ..found }),
                        LdapResultCode::NoSuchObject => Ok(Found::default()),
                        _ => Err(LdapError::Refused(words(&result))),
                    };
                }
                _ => return Err(LdapError::Malformed("no answer to the search".to_owned())),
            }
        }
    }

    async fn send(&mut self, op: LdapOp) -> Result<(), LdapError> {
        // No connection lives for 2^31 requests, and 0 is the server's own number.
        self.id = self.id.checked_add(1).unwrap_or(1);
        let mut octets = BytesMut::new();
        let encoded = self.codec.encode(LdapMsg::new(self.id, op), &mut octets);
        encoded.map_err(|error| LdapError::Malformed(error.to_string()))?;
        self.stream.write_all(&octets).await.map_err(|error| LdapError::Broken(error.to_string()))?;
        self.stream.flush().await.map_err(|error| LdapError::Broken(error.to_string()))
    }

    /// The next message about the last request.
    async fn receive(&mut self) -> Result<LdapOp, LdapError> {
        match self.message().await? {
            LdapMsg { msgid, op, .. } if msgid == self.id => Ok(op),
            LdapMsg { msgid: 0, op: LdapOp::ExtendedResponse(notice), .. } => {
                Err(LdapError::Broken(words(&notice.res)))
            }
            _ => Err(LdapError::Malformed("an answer to another request".to_owned())),
        }
    }

    /// The next message.
    async fn message(&mut self) -> Result<LdapMsg, LdapError> {
        loop {
            // The codec refuses messages that are too long before they are whole.
            let message = self.codec.decode(&mut self.heard);
            if let Some(message) = message.map_err(|error| LdapError::Malformed(error.to_string()))? {
                return Ok(message);
            }
            let read = self.stream.read_buf(&mut self.heard).await;
            if read.map_err(|error| LdapError::Broken(error.to_string()))? == 0 {
                return Err(LdapError::Broken("the server closed it".to_owned()));
            }
        }
    }
}

fn request(search: &Search<'_>) -> LdapSearchRequest {
    LdapSearchRequest {
        base: search.base.to_owned(),
        scope: LdapSearchScope::OneLevel,
        aliases: LdapDerefAliases::Never,
        sizelimit: search.most.into(),
        timelimit: i32::try_from(PATIENCE.as_secs()).unwrap_or(0),
        typesonly: false,
        filter: search.filter.clone(),
        attrs: search.attributes.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// Reads of an entry what was asked for. Names of attributes are alike in upper and lower case (RFC 4512, section 2.5).
pub fn read(entry: LdapSearchResultEntry, attributes: &[&str]) -> Result<Entry, LdapError> {
    let fits = |length: usize| match length {
        0..=LONGEST_VALUE => Ok(()),
        _ => Err(LdapError::Malformed(format!("a value of {length} octets"))),
    };
    fits(entry.dn.len())?;
    let mut values = Vec::with_capacity(attributes.len());
    for name in attributes {
        let found = entry.attributes.iter().find(|attribute| attribute.atype.eq_ignore_ascii_case(name));
        let Some(value) = found.and_then(|attribute| attribute.vals.first()) else {
            values.push(None);
            continue;
        };
        fits(value.len())?;
        let text = std::str::from_utf8(value);
        let text = text.map_err(|_| LdapError::Malformed(format!("\"{name}\" is no text")))?;
        values.push(Some(text.to_owned()));
    }
    Ok(Entry { dn: entry.dn, values })
}

/// Code and message of a result, for messages.
fn words(result: &LdapResult) -> String {
    let message: String = result.message.chars().take(80).collect();
    format!("{:?} \"{}\"", result.code, message.escape_debug())
}

#[cfg(test)]
mod tests;
