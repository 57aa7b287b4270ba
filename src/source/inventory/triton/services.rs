//! The calls of VMAPI, CNAPI and NAPI.
//!
//! Invariants: an element is absent only if the service itself says so, with its own code; what anything between us and
//! the service answers is an error. An answer about another element than the one asked for is an error, too.
//!
//! Cost: a request each, lists one for 1,000 elements.

use super::call_error::CallError;
use super::elements::{self, VM_FIELDS};
use super::plan::{AccountsPlan, TritonPlan};
use super::ufds::Ufds;
use crate::client::http::{Answer, Endpoint, Get, HttpClient, HttpError};
use inventory::model::{Key, Mac, Uuid};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// Elements of a page, the most that services give.
pub const PAGE: usize = 1000;
/// Time for a request.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest answer that is taken.
const LONGEST_ANSWER: u64 = 1 << 28;

/// Answer about one element: none if the service knows for certain that there is none.
pub type One = Result<Option<Value>, CallError>;

/// Clients of all services.
pub struct Services {
    vmapi: HttpClient,
    cnapi: HttpClient,
    napi: HttpClient,
    /// None where the accounts come from a file.
    ufds: Option<Arc<Ufds>>,
}

impl Services {
    /// Makes the clients of a plan; an error says what is wrong with its URLs or certificates.
    pub fn new(plan: &TritonPlan) -> Result<Services, String> {
        let ca = plan.ca.as_ref().map(|(_, text)| text.as_str());
        let client = |url: &Url| Ok::<_, String>(HttpClient::new(Endpoint::new(url, ca)?));
        let ufds = match &plan.accounts {
            AccountsPlan::File(_) => None,
            AccountsPlan::Ufds(plan) => Some(Arc::new(Ufds::new(plan)?)),
        };
        Ok(Services { vmapi: client(&plan.vmapi)?, cnapi: client(&plan.cnapi)?, napi: client(&plan.napi)?, ufds })
    }

    /// Name of the service that is asked for an element.
    pub fn name_of(key: Key) -> &'static str {
        match key {
            Key::Vm(_) => "VMAPI",
            Key::Server(_) => "CNAPI",
            Key::Network(_) | Key::NetworkPool(_) | Key::Nic(_) => "NAPI",
            Key::Account(_) => "UFDS",
        }
    }

    /// A page of instances that are neither destroyed nor failed, in descending order of their UUIDs, below the marker.
    pub async fn vms(&self, marker: Option<Uuid>) -> Result<Vec<Value>, CallError> {
        let marker = marker.map(|marker| format!("{{\"uuid\":\"{marker}\"}}"));
        let marker = marker.map(|marker| format!("&marker={}", escaped(&marker))).unwrap_or_default();
        let path = format!("/vms?limit={PAGE}&state=active&fields={}{marker}", escaped(VM_FIELDS));
        list(&self.vmapi, &path).await
    }

    /// All compute nodes that are set up.
    pub async fn servers(&self, with_sysinfo: bool) -> Result<Vec<Value>, CallError> {
        let extras = if with_sysinfo { "status%2Csysinfo" } else { "status" };
        pages(&self.cnapi, &format!("/servers?setup=true&extras={extras}")).await
    }

    /// All networks.
    pub async fn networks(&self) -> Result<Vec<Value>, CallError> {
        pages(&self.napi, "/networks?").await
    }

    /// All pools of networks.
    pub async fn network_pools(&self) -> Result<Vec<Value>, CallError> {
        pages(&self.napi, "/network_pools?").await
    }

    /// The networks of a tag and VLAN, which tell that of an interface that NAPI does not know.
    pub async fn networks_of(&self, nic_tag: &str, vlan_id: u16) -> Result<Vec<Value>, CallError> {
        list(&self.napi, &format!("/networks?nic_tag={}&vlan_id={vlan_id}", escaped(nic_tag))).await
    }

    /// The directory of accounts, if they come from there.
    pub fn ufds(&self) -> Option<&Arc<Ufds>> {
        self.ufds.as_ref()
    }

    /// One element that HTTP tells.
    pub async fn one(&self, key: Key) -> One {
        let (client, path) = match key {
            Key::Vm(uuid) => (&self.vmapi, format!("/vms/{uuid}")),
            Key::Server(uuid) => (&self.cnapi, format!("/servers/{uuid}?extras=status%2Csysinfo")),
            Key::Network(uuid) => (&self.napi, format!("/networks/{uuid}")),
            Key::NetworkPool(uuid) => (&self.napi, format!("/network_pools/{uuid}")),
            Key::Nic(mac) => (&self.napi, format!("/nics/{}", digits(mac))),
            Key::Account(_) => return Ok(None),
        };
        let answer = get(client, &path).await?;
        if answer.status.as_u16() == 404 {
            let problem = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
            let is_certain = problem["code"] == "ResourceNotFound" && !says_no_path(&problem);
            return if is_certain { Ok(None) } else { Err(HttpError::Status(404).into()) };
        }
        let value = read(&answer)?;
        let is_asked = match key {
            Key::Nic(mac) => elements::nic(&value).is_some_and(|nic| nic.mac == mac),
            Key::Vm(uuid) | Key::Server(uuid) | Key::Network(uuid) | Key::NetworkPool(uuid) | Key::Account(uuid) => {
                elements::uuid(&value["uuid"]) == Some(uuid)
            }
        };
        if is_asked { Ok(Some(value)) } else { Err(CallError::Another(shown(&value["uuid"]))) }
    }

    /// Where the change feed is.
    pub fn changefeed(&self) -> &Endpoint {
        self.vmapi.endpoint()
    }
}

/// True if a 404 is about the path, which a service does not have, and not about the element.
fn says_no_path(problem: &Value) -> bool {
    problem["message"].as_str().is_some_and(|message| message.starts_with('/') && message.ends_with("does not exist"))
}

/// All pages of a list that is asked for by offsets. An element that moves to an earlier page while others are removed is
/// missed; whoever misses one asks for it singly.
async fn pages(client: &HttpClient, path: &str) -> Result<Vec<Value>, CallError> {
    let mut all = Vec::new();
    loop {
        let join = if path.ends_with('?') { "" } else { "&" };
        let mut page = list(client, &format!("{path}{join}limit={PAGE}&offset={}", all.len())).await?;
        let is_last = page.len() < PAGE;
        if !page.is_empty() && page.first() == all.first() {
            return Err(CallError::Malformed("its pages repeat, as of a service without offsets".to_owned()));
        }
        all.append(&mut page);
        if is_last {
            return Ok(all);
        }
    }
}

/// One page of a list.
async fn list(client: &HttpClient, path: &str) -> Result<Vec<Value>, CallError> {
    let answer = get(client, path).await?;
    if answer.status.as_u16() == 404 {
        return Err(CallError::NoService);
    }
    match read(&answer)? {
        Value::Array(elements) => Ok(elements),
        other => Err(CallError::Malformed(shown(&other))),
    }
}

async fn get(client: &HttpClient, path: &str) -> Result<Answer, CallError> {
    let answer = client.get(Get { path, etag: None, token: None, time: PATIENCE, octets: LONGEST_ANSWER }).await?;
    match answer.status.as_u16() {
        200 | 404 => Ok(answer),
        status => Err(HttpError::Status(status).into()),
    }
}

fn read(answer: &Answer) -> Result<Value, CallError> {
    serde_json::from_slice(&answer.body).map_err(|error| CallError::Malformed(error.to_string()))
}

/// The beginning of a value, for messages.
fn shown(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}

fn escaped(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

fn digits(mac: Mac) -> String {
    mac.0.iter().map(|octet| format!("{octet:02x}")).collect()
}
