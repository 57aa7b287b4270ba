//! A running server as the verbs reach it: by its socket, or over HTTPS with a certificate.
//!
//! Invariant: an order is sent once; whether one came through whose connection broke only the server knows.
//!
//! Cost: a connection for each request.

use super::resources::{ORDERS, OrderReply};
use super::{CallError, MAX_HEAD_BYTES, Reply, Request, call, patience_with};
use crate::client::http::{Endpoint, HttpClient, HttpError, Post};
use hyper::StatusCode;
use serde_json::Value;
use std::path::PathBuf;
use url::Url;

/// A running server.
pub enum Server {
    /// On this machine, by its control socket.
    Here(PathBuf),
    /// By the URL at which it takes orders.
    Afar(Box<Remote>),
}

/// A server that takes orders over HTTPS.
pub struct Remote {
    url: String,
    client: HttpClient,
}

impl Remote {
    /// A server at a URL, which shows a certificate that one of `ca` has signed, or one that the system trusts; `identity` is
    /// a PEM text with our certificate and its key. An error says what is wrong with them.
    pub fn new(url: &Url, ca: Option<&str>, identity: &[u8]) -> Result<Remote, String> {
        if url.scheme() != "https" {
            return Err(format!("{url} is no URL of HTTPS, such as https://ns1.example.com:9154"));
        }
        let endpoint = Endpoint::with_identity(url, ca, Some(identity))?;
        Ok(Remote { url: url.to_string(), client: HttpClient::new(endpoint) })
    }

    /// Sends a request and waits for the reply.
    async fn call(&self, request: &Request) -> Result<Reply, CallError> {
        let failed = |error| CallError::Unreachable { url: self.url.clone(), error };
        let json = serde_json::to_vec(request).expect("a request is representable in JSON");
        let post = Post { path: ORDERS, json, time: patience_with(request), octets: MAX_HEAD_BYTES };
        let answer = self.client.post(post).await.map_err(failed)?;
        if matches!(answer.status, StatusCode::OK | StatusCode::CONFLICT) {
            let reply: OrderReply = serde_json::from_slice(&answer.body).map_err(CallError::Malformed)?;
            return Ok(reply.into());
        }
        let text = String::from_utf8_lossy(&answer.body).trim_end().to_owned();
        let told =
            serde_json::from_str::<Value>(&text).ok().and_then(|value| Some(value["error"].as_str()?.to_owned()));
        Err(CallError::Refused { url: self.url.clone(), status: answer.status.as_u16(), why: told.unwrap_or(text) })
    }
}

impl Server {
    /// Sends a request and waits for the reply.
    pub async fn call(&self, request: &Request) -> Result<Reply, CallError> {
        match self {
            Server::Here(socket) => call(socket, request).await,
            Server::Afar(remote) => remote.call(request).await,
        }
    }
}

impl CallError {
    /// True if no server runs where it was looked for.
    pub fn is_not_running(&self) -> bool {
        matches!(self, CallError::NotRunning(_) | CallError::Unreachable { error: HttpError::Connect(_), .. })
    }
}
