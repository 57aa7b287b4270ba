//! The REST interface of an inventory: the paths of Triton's CNS, and reports on instances.
//!
//! Who reads needs no token, who changes or computes something does (`config::api`): being on this machine is no
//! identity. Names of strangers are refused as on the status page, so that no web page can have a browser ask here.
//!
//! Invariants: the plan in force counts, whatever was in force when the listener began; nothing is changed by GET; a
//! token is in no answer and in no log line.
//!
//! Cost: as the views'; an order as `source::inventory::orders` has it.
//!
//! RFCs: 6750 (bearer tokens), 9110 (methods and status codes).

use crate::config::{ApiPlan, Config, Scope};
use crate::serve::http::{Answer, Asked, Content, READING, Site};
use crate::source::inventory::InventoryPlan;
use crate::source::inventory::orders::{Deed, OrderError};
use crate::view::Handle;
use crate::view::cns::tag::TagReport;
use crate::view::cns::{peers, plain, source_of, vm, zones};
use crate::view::page::hosts::Hosts;
use hyper::Method;
use inventory::model::{Health, Uuid};
use inventory::roster::Unknown;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The longest time to live of a report, in seconds: a month.
const LONGEST_TTL: u64 = 31 * 86_400;
/// Header fields that keep the scripts of other sites from reading answers.
const FIELDS: &[(&str, &str)] = &[("cross-origin-resource-policy", "same-origin")];
/// The same where a token is missing (RFC 6750 section 3).
const CHALLENGE: &[(&str, &str)] =
    &[("cross-origin-resource-policy", "same-origin"), ("www-authenticate", "Bearer realm=\"inventory\"")];

/// The interface at one address.
pub struct Rest {
    view: Handle,
    address: SocketAddr,
}

/// Reason for which a request is refused.
enum Refusal {
    /// A text that CNS has, too.
    Plain(u16, String),
    /// With a word for programs.
    Coded(u16, &'static str, String),
}

/// What becomes of a request: a value, or nothing at all to tell.
type Outcome = Result<Value, Refusal>;

/// A report on an instance.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatusBody {
    status: String,
    /// Seconds.
    #[serde(default)]
    ttl: Option<u64>,
}

/// A question for suffixes.
#[derive(Deserialize)]
struct SuffixesBody {
    owner_uuid: Uuid,
    networks: Vec<Uuid>,
}

/// A tag to be checked.
#[derive(Deserialize)]
struct ValidateBody {
    tag: String,
}

impl Rest {
    /// The interface at an address that the configuration names.
    pub fn new(view: Handle, address: SocketAddr) -> Rest {
        Rest { view, address }
    }
}

impl Site for Rest {
    fn respond(&self, asked: Asked) -> Answer {
        let (view, address) = (self.view.clone(), self.address);
        Box::pin(async move {
            Some(match route(view, address, &asked).await {
                Ok(Value::Null) => whole(200, String::new()),
                Ok(value) => whole(200, value.to_string()),
                Err(refusal) => refusal.content(),
            })
        })
    }

    fn methods(&self, path: &str) -> &'static [Method] {
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        match segments[..] {
            ["suffixes-for-vm" | "validate"] => &[Method::POST],
            ["vm", _, "status"] => &[Method::PUT, Method::DELETE],
            ["peer", _] => &[Method::GET, Method::HEAD, Method::DELETE],
            ["ping" | "zones" | "peers" | "allowed-peers" | "status" | "metrics" | "healthz" | "readyz"]
            | ["vm", _] => READING,
            // What is not there is not there for any of them.
            _ => &[Method::GET, Method::HEAD, Method::PUT, Method::DELETE, Method::POST],
        }
    }

    fn refuse(&self, _path: &str, status: u16, why: &str) -> Content {
        let code = if status == 405 { "MethodNotAllowed" } else { "BadRequest" };
        Refusal::Coded(status, code, why.to_owned()).content()
    }
}

impl Refusal {
    /// The answer that says so.
    fn content(self) -> Content {
        let (status, body) = match self {
            Refusal::Plain(status, message) => (status, json!({ "message": message })),
            Refusal::Coded(status, code, message) => (status, json!({ "code": code, "message": message })),
        };
        match whole(status, body.to_string()) {
            Content::Whole { status: 401, media_type, body, .. } => {
                Content::Whole { status: 401, media_type, fields: CHALLENGE, body }
            }
            content => content,
        }
    }
}

impl From<OrderError> for Refusal {
    fn from(error: OrderError) -> Refusal {
        match error {
            OrderError::NoInstance | OrderError::NoReport | OrderError::NothingHeld(_) => {
                Refusal::Plain(404, error.to_string())
            }
            OrderError::Full | OrderError::Gone | OrderError::Late => {
                Refusal::Coded(503, "ServiceUnavailable", error.to_string())
            }
        }
    }
}

/// A response of JSON, or without a body.
fn whole(status: u16, body: String) -> Content {
    Content::Whole { status, media_type: "application/json", fields: FIELDS, body }
}

/// Answers a request.
async fn route(view: Handle, address: SocketAddr, asked: &Asked) -> Outcome {
    let config = view.config.load_full();
    let hosts = Hosts::new([&config.server_name].into_iter().chain(&config.metrics.names));
    if let Some(why) = hosts.refuse(asked.host.as_deref()) {
        // RFC 9110 section 15.5.20: this server does not speak for that name.
        return Err(Refusal::Coded(421, "MisdirectedRequest", why));
    }
    let desk = Desk::find(&view, &config, address)?;
    let segments: Vec<&str> = asked.path.split('/').skip(1).collect();
    let reads = READING.contains(&asked.method);
    match (&asked.method, &segments[..]) {
        (_, ["ping"]) if reads => Ok(Value::Null),
        (_, ["zones"]) if reads => Ok(json!(zones::zones(&view, desk.plan))),
        (_, ["peers"]) if reads => {
            let peers = peers::peers(&view, desk.plan);
            Ok(peers.iter().map(|peer| json!(peer.line)).collect())
        }
        (_, ["peer", peer]) if reads => Ok(json!(desk.peer(peer)?)),
        (&Method::DELETE, ["peer", peer]) => {
            desk.admit(asked, |scope| *scope == Scope::All)?;
            let peer = desk.peer(peer)?.line.address;
            view.metrics.peers.forget(peer);
            tracing::info!(%peer, "peer forgotten by order");
            Ok(Value::Null)
        }
        (_, ["allowed-peers"]) if reads => Ok(json!(peers::allowed_peers(&view, desk.plan))),
        (_, ["status"]) if reads => Ok(json!(source_of(&view, desk.plan).map(|source| source.status()))),
        (_, ["vm", uuid]) if reads => Ok(json!(desk.vm(uuid)?)),
        (method, ["vm", uuid, "status"]) if [Method::PUT, Method::DELETE].contains(method) => {
            desk.report(asked, uuid).await
        }
        (&Method::POST, ["suffixes-for-vm"]) => desk.suffixes(asked),
        (&Method::POST, ["validate"]) => {
            desk.admit(asked, |_| true)?;
            Ok(json!(TagReport::new(&read_body::<ValidateBody>(asked)?.tag)))
        }
        _ => Err(Refusal::Coded(404, "ResourceNotFound", format!("{} does not exist", asked.path))),
    }
}

/// Reads the body of a request.
fn read_body<T: DeserializeOwned>(asked: &Asked) -> Result<T, Refusal> {
    serde_json::from_slice(&asked.body)
        .map_err(|error| Refusal::Coded(400, "InvalidArgument", format!("the body is not as it should be: {error}")))
}

/// The inventory that is asked about.
struct Desk<'c> {
    view: &'c Handle,
    plan: &'c InventoryPlan,
    api: &'c ApiPlan,
}

impl<'c> Desk<'c> {
    /// Finds the inventory whose interface is at an address.
    fn find(view: &'c Handle, config: &'c Config, address: SocketAddr) -> Result<Desk<'c>, Refusal> {
        let api = config.apis.iter().find(|api| api.listen.contains(&address));
        let plan = api.and_then(|api| config.inventories.iter().find(|plan| plan.name == api.inventory));
        match (api, plan) {
            (Some(api), Some(plan)) => Ok(Desk { view, plan, api }),
            _ => Err(Refusal::Coded(503, "ServiceUnavailable", "the interface is being taken away".to_owned())),
        }
    }

    /// Lets those in whose token is good for what they ask.
    fn admit(&self, asked: &Asked, is_good: impl FnOnce(&Scope) -> bool) -> Result<(), Refusal> {
        let unknown = |why: &str| Refusal::Coded(401, "InvalidCredentials", why.to_owned());
        if self.api.tokens.is_empty() {
            return Err(unknown("nobody may do this here: no tokens are configured (api_tokens)"));
        }
        let field = asked.authorization.as_deref().unwrap_or_default();
        let token = field.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let (_, token) = token.ok_or_else(|| unknown("a token is needed: \"Authorization: Bearer TOKEN\""))?;
        let scope = self.api.scope(token.trim()).ok_or_else(|| unknown("the token is not known"))?;
        if is_good(scope) {
            return Ok(());
        }
        Err(Refusal::Coded(403, "NotAuthorized", "the token is not good for this".to_owned()))
    }

    /// An instance.
    fn vm(&self, uuid: &str) -> Result<vm::VmReport, Refusal> {
        // The inventory's task may be at work on what is looked into.
        let look = |uuid| tokio::task::block_in_place(|| vm::vm(self.view, self.plan, uuid));
        let found = Uuid::try_parse(uuid).ok().and_then(look);
        found.ok_or_else(|| OrderError::NoInstance.into())
    }

    /// A peer.
    fn peer(&self, text: &str) -> Result<peers::PeerDetail, Refusal> {
        let wanted = text.parse::<IpAddr>().ok().map(|address| address.to_canonical());
        let mut peers = peers::peers(self.view, self.plan).into_iter();
        let found = peers.find(|peer| Some(peer.line.address) == wanted);
        found.ok_or_else(|| Refusal::Plain(404, "Peer not found".to_owned()))
    }

    /// Takes a report on an instance, or withdraws it.
    async fn report(&self, asked: &Asked, uuid: &str) -> Outcome {
        // Nobody without a token learns which instances there are.
        self.admit(asked, |_| true)?;
        let vm = self.vm(uuid)?;
        self.admit(asked, |scope| scope.has(vm.owner.as_deref(), vm.login.as_deref()))?;
        let invalid = |why: &str| Refusal::Coded(400, "InvalidArgument", why.to_owned());
        let uuid = Uuid::try_parse(&vm.uuid).map_err(|_| invalid("no UUID"))?;
        let (deed, told) = if asked.method == Method::DELETE {
            (Deed::Withdraw(uuid), Value::Null)
        } else {
            let StatusBody { status, ttl } = read_body(asked)?;
            let health = match &status[..] {
                "up" => Health::Up,
                "down" => Health::Down,
                _ => return Err(invalid("\"status\" is \"up\" or \"down\"")),
            };
            if ttl.is_some_and(|ttl| !(1..=LONGEST_TTL).contains(&ttl)) {
                return Err(invalid(&format!("\"ttl\" is a number of seconds from 1 to {LONGEST_TTL}")));
            }
            let told = json!({ "uuid": vm.uuid, "status": status, "ttl": ttl });
            (Deed::Report { vm: uuid, health, ttl: ttl.map(Duration::from_secs) }, told)
        };
        let order = source_of(self.view, self.plan).ok_or(OrderError::Gone)?.order(deed);
        order.await?;
        Ok(told)
    }

    /// Tells the names below which an instance would stand.
    fn suffixes(&self, asked: &Asked) -> Outcome {
        self.admit(asked, |_| true)?;
        let SuffixesBody { owner_uuid, networks } = read_body(asked)?;
        let source = source_of(self.view, self.plan).ok_or(OrderError::Gone)?;
        let (owner, login) = (owner_uuid.to_string(), tokio::task::block_in_place(|| source.login(owner_uuid)));
        self.admit(asked, |scope| scope.has(Some(&owner), login.as_deref()))?;
        match tokio::task::block_in_place(|| source.suffixes(owner_uuid, &networks)) {
            Ok(suffixes) => Ok(json!({ "suffixes": suffixes.iter().map(plain).collect::<Vec<_>>() })),
            Err(error @ Unknown::Owner(_)) => Err(Refusal::Plain(404, error.to_string())),
            Err(error @ Unknown::Network(_)) => Err(Refusal::Plain(422, error.to_string())),
        }
    }
}
