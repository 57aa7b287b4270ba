//! Endpoints: an URL as host, port and TXT record, and back.
//!
//! The guideline's keys are `txtvers`, `protocol` and `path`; readers take `proto`, too, which is in its second
//! example. What a record leaves out has a default: the path is `/`, the protocol follows from the port, and where
//! neither says it, HTTPS is to be tried first and HTTP then.
//!
//! Cost: O(octets). RFC 6763 sections 6.4 to 6.7.

use crate::dnssd::text;
use crate::name::{Name, NameError};
use std::fmt;
use std::net::IpAddr;
use url::Url;

/// The most octets of a path: a string less its key.
pub const MAX_PATH_BYTES: usize = text::MAX_STRING_BYTES - "path=".len();

/// Protocol that an endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    Http,
    Https,
}

impl Protocol {
    /// The word for it in URLs and in TXT records.
    pub fn label(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Https => "https",
        }
    }

    /// The port where none is written.
    pub fn default_port(self) -> u16 {
        match self {
            Protocol::Http => 80,
            Protocol::Https => 443,
        }
    }
}

/// Host of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    Name(Name),
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name.to_string().trim_end_matches('.')),
            Host::Address(IpAddr::V4(address)) => address.fmt(f),
            // RFC 3986 section 3.2.2.
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// Contents of a URL. Its `Display` is that URL, without a port that goes without saying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub protocol: Protocol,
    pub host: Host,
    pub port: u16,
    /// Path with a slash at its beginning.
    pub path: String,
}

/// Error: a URL cannot be published as a service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("is no URL ({0}); write for example \"https://os.example.com/\"")]
    Malformed(String),
    #[error("has the protocol {0}; the guideline knows http and https")]
    Protocol(String),
    #[error("has a user or password, which nobody can look up; remove it")]
    Credentials,
    #[error("has a {0}, for which there is no record; remove it")]
    Surplus(&'static str),
    #[error("has a host that is no domain name ({0}); write another")]
    Host(NameError),
    #[error("has port 0; write the port of the service")]
    Port,
    #[error("has a path of {0} octets; a TXT record has room for {MAX_PATH_BYTES}")]
    Path(usize),
}

/// Error: the published TXT record describes no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    #[error("txtvers is \"{0}\"; only version 1 is known")]
    Version(String),
    #[error("protocol is \"{0}\"; only http and https are known")]
    Protocol(String),
}

impl Endpoint {
    /// Reads an URL.
    pub fn parse(text: &str) -> Result<Endpoint, UrlError> {
        // Readers of URLs leave out what nobody means to write.
        if let Some(odd) = text.chars().find(|character| character.is_whitespace() || character.is_control()) {
            return Err(UrlError::Malformed(format!("it has the character {odd:?}")));
        }
        let url = Url::parse(text).map_err(|error| UrlError::Malformed(error.to_string()))?;
        let protocol = match url.scheme() {
            "http" => Protocol::Http,
            "https" => Protocol::Https,
            other => return Err(UrlError::Protocol(other.to_owned())),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::Credentials);
        }
        for (part, what) in [(url.query(), "query"), (url.fragment(), "fragment")] {
            if part.is_some() {
                return Err(UrlError::Surplus(what));
            }
        }
        let host = match url.host() {
            Some(url::Host::Domain(domain)) => Host::Name(Name::parse(domain).map_err(UrlError::Host)?),
            Some(url::Host::Ipv4(address)) => Host::Address(address.into()),
            Some(url::Host::Ipv6(address)) => Host::Address(address.into()),
            None => return Err(UrlError::Malformed("it has no host".to_owned())),
        };
        let port = url.port().unwrap_or(protocol.default_port());
        if port == 0 {
            return Err(UrlError::Port);
        }
        if url.path().len() > MAX_PATH_BYTES {
            return Err(UrlError::Path(url.path().len()));
        }
        Ok(Endpoint { protocol, host, port, path: url.path().to_owned() })
    }

    /// The keys and values of its TXT record. RFC 6763 section 6.7: the version comes first.
    pub fn strings(&self) -> [(&'static str, &str); 3] {
        [("txtvers", "1"), ("protocol", self.protocol.label()), ("path", &self.path)]
    }

    /// RDATA of the TXT record that goes with it.
    pub fn text(&self) -> Vec<u8> {
        let strings = self.strings().map(|(key, value)| format!("{key}={value}"));
        text::write(strings.iter().map(String::as_bytes))
    }

    /// The endpoints that SRV and TXT stand for, in the order in which they are to be tried.
    pub fn read(host: &Host, port: u16, text: &[u8]) -> Result<Vec<Endpoint>, TextError> {
        let value = |key: &str| text::get(text, key).flatten();
        let shown = |value: &[u8]| value.escape_ascii().to_string();
        if let Some(version) = value("txtvers").filter(|version| *version != b"1") {
            return Err(TextError::Version(shown(version)));
        }
        let protocols = match value("protocol").or_else(|| value("proto")) {
            Some(word) if word.eq_ignore_ascii_case(b"http") => vec![Protocol::Http],
            Some(word) if word.eq_ignore_ascii_case(b"https") => vec![Protocol::Https],
            Some(other) => return Err(TextError::Protocol(shown(other))),
            None if port == Protocol::Http.default_port() => vec![Protocol::Http],
            None if port == Protocol::Https.default_port() => vec![Protocol::Https],
            None => vec![Protocol::Https, Protocol::Http],
        };
        let path = clean_path(value("path").unwrap_or(b"/"));
        let endpoint = |protocol| Endpoint { protocol, host: host.clone(), port, path: path.clone() };
        Ok(protocols.into_iter().map(endpoint).collect())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.protocol.label(), self.host)?;
        if self.port != self.protocol.default_port() {
            write!(f, ":{}", self.port)?;
        }
        f.write_str(&self.path)
    }
}

/// A path as URLs have it, whatever the octets that were published.
fn clean_path(octets: &[u8]) -> String {
    let mut url = Url::parse("http://host/").expect("a constant URL");
    url.set_path(&String::from_utf8_lossy(octets));
    url.path().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(host: &str, port: u16, strings: &[&str]) -> Vec<String> {
        let host = host.parse().map_or_else(|_| Host::Name(Name::parse(host).unwrap()), Host::Address);
        let rdata = text::write(strings.iter().map(|string| string.as_bytes()));
        Endpoint::read(&host, port, &rdata).unwrap().iter().map(ToString::to_string).collect()
    }

    fn refused(strings: &[&str]) -> TextError {
        let rdata = text::write(strings.iter().map(|string| string.as_bytes()));
        Endpoint::read(&Host::Name(Name::root()), 80, &rdata).unwrap_err()
    }

    #[test]
    fn the_guidelines_examples_give_its_results() {
        let identity = read("os.mystack.example.com", 443, &["txtvers=1", "path=/"]);
        assert_eq!(identity, ["https://os.mystack.example.com/"]);
        let baremetal = read("192.168.42.17", 80, &["proto=http", "path=/baremetal"]);
        assert_eq!(baremetal, ["http://192.168.42.17/baremetal"]);
        // The guideline's result has no slash at its end, and its definition of the path one.
        assert_eq!(read("192.168.42.17", 5050, &["proto=http"]), ["http://192.168.42.17:5050/"]);
    }

    #[test]
    fn the_protocol_follows_from_the_port_where_nothing_says_it() {
        assert_eq!(read("h", 80, &[]), ["http://h/"]);
        assert_eq!(read("h", 443, &[]), ["https://h/"]);
        assert_eq!(read("h", 8774, &["txtvers=1"]), ["https://h:8774/", "http://h:8774/"]);
        assert_eq!(read("h", 80, &["protocol=https"]), ["https://h:80/"]);
        assert_eq!(read("h", 443, &["protocol=http", "proto=https"]), ["http://h:443/"], "the defined key counts");
        assert_eq!(read("h", 443, &["protocol", "proto=http"]), ["http://h:443/"], "a key alone says nothing");
    }

    #[test]
    fn what_is_not_of_the_guideline_is_refused() {
        assert_eq!(refused(&["txtvers=2"]), TextError::Version("2".into()));
        assert_eq!(refused(&["protocol=gopher"]), TextError::Protocol("gopher".into()));
    }

    #[test]
    fn a_path_cannot_become_anything_else() {
        assert_eq!(read("h", 80, &["path=baremetal"]), ["http://h/baremetal"]);
        assert_eq!(read("h", 80, &["path=/a?b#c d"]), ["http://h/a%3Fb%23c%20d"]);
        assert_eq!(read("h", 80, &["path="]), ["http://h/"]);
        assert_eq!(read("h", 80, &["path=//elsewhere/x"]), ["http://h//elsewhere/x"]);
        assert_eq!(read("2001:db8::1", 5000, &["protocol=http"]), ["http://[2001:db8::1]:5000/"]);
    }

    #[test]
    fn an_url_comes_back_as_it_went() {
        for (url, again) in [
            ("https://os.mystack.example.com/", ""),
            ("https://os.mystack.example.com", "https://os.mystack.example.com/"),
            ("http://192.168.42.17/baremetal", ""),
            ("http://192.168.42.17:5050", "http://192.168.42.17:5050/"),
            ("https://[2001:db8::1]:5000/v3", ""),
            ("https://os.example.com:443/a%20b", "https://os.example.com/a%20b"),
            ("HTTP://OS.Example.com:80/v2.1/", "http://os.example.com/v2.1/"),
            ("https://os.example.com./x/../y", "https://os.example.com/y"),
        ] {
            let endpoint = Endpoint::parse(url).unwrap_or_else(|error| panic!("{url} {error}"));
            let again = if again.is_empty() { url } else { again };
            assert_eq!(endpoint.to_string(), again);
            assert_eq!(Endpoint::read(&endpoint.host, endpoint.port, &endpoint.text()).unwrap(), [endpoint]);
        }
    }

    #[test]
    fn each_wrong_url_has_its_words() {
        let long = format!("http://h/{}", "a".repeat(MAX_PATH_BYTES));
        for (url, words) in [
            ("os.example.com", "is no URL (relative URL without a base)"),
            ("https://", "is no URL (empty host)"),
            ("https://a b/", "is no URL (it has the character ' ')"),
            ("ftp://h/", "has the protocol ftp"),
            ("https://me@h/", "has a user or password"),
            ("https://h/?a=b", "has a query"),
            ("https://h/#a", "has a fragment"),
            ("https://h:0/", "has port 0"),
            ("https://h:99999/", "is no URL (invalid port number)"),
            ("https://a..b/", "has a host that is no domain name (empty label)"),
            (&long, "has a path of 251 octets; a TXT record has room for 250"),
        ] {
            let error = Endpoint::parse(url).unwrap_err().to_string();
            assert!(error.starts_with(words), "{url}: {error}");
        }
        assert!(Endpoint::parse(&long[..long.len() - 1]).is_ok());
    }
}
