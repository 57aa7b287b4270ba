//! Requests to the services, and what they answer.
//!
//! Cost: O(the answer); a page of instances as `datacenter` has it.

use crate::datacenter::{Datacenter, Page};
use crate::switches::Service;
use crate::{Shared, feed};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, UPGRADE};
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// Largest and default number of elements of a page.
const PAGE: usize = 1000;

/// A request that came.
#[derive(Clone, Debug)]
pub struct Call {
    pub service: Service,
    /// Path with its parameters, decoded; of UFDS the base of the search and its filter.
    pub path: String,
    pub at: Instant,
}

/// Text of an answer.
pub struct Text(Option<Bytes>);

impl Body for Text {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|text| Ok(Frame::data(text))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |text| text.len() as u64))
    }
}

/// Reason to end a connection without an answer.
#[derive(Debug)]
pub struct Refused;

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the double was told to refuse")
    }
}

impl std::error::Error for Refused {}

/// Answers a request, with the faults that the service has been told to have.
pub async fn answer(
    shared: Arc<Shared>,
    service: Service,
    request: Request<Incoming>,
) -> Result<Response<Text>, Refused> {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().as_bytes();
    let parameters: BTreeMap<String, String> = url::form_urlencoded::parse(query).into_owned().collect();
    let shown: Vec<String> = parameters.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let call = if shown.is_empty() { path.clone() } else { format!("{path}?{}", shown.join("&")) };
    shared.calls.lock().push(Call { service, path: call, at: Instant::now() });
    let (is_silent, fails, delay) = {
        let mut switches = shared.switches.lock();
        let fails_further = switches.fails_further_pages;
        let own = switches.of(service);
        if own.refuses {
            return Err(Refused);
        }
        let is_further = service == Service::Vmapi && path == "/vms" && parameters.contains_key("marker");
        (own.is_silent, own.fails(&path) || fails_further && is_further, own.delay)
    };
    if is_silent {
        return std::future::pending().await;
    }
    let response = if fails {
        problem(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "the double was told to fail")
    } else if service == Service::Vmapi && path == "/changefeeds" && request.headers().contains_key(UPGRADE) {
        upgrade(shared, request)
    } else {
        match service {
            Service::Vmapi => vmapi(&shared, &path, &parameters),
            Service::Cnapi => cnapi(&shared.datacenter.lock(), &path, &parameters),
            Service::Napi => napi(&shared.datacenter.lock(), &path, &parameters),
            // It speaks LDAP.
            Service::Ufds => missing("no HTTP"),
        }
    };
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    Ok(response)
}

/// Turns the connection into one of the feed (RFC 6455, section 4.2.2). Old servers do not insist on a version, and nor
/// does this.
fn upgrade(shared: Arc<Shared>, mut request: Request<Incoming>) -> Response<Text> {
    let Some(key) = request.headers().get("sec-websocket-key").map(|key| derive_accept_key(key.as_bytes())) else {
        return problem(StatusCode::BAD_REQUEST, "BadRequest", "no Sec-WebSocket-Key");
    };
    let Ok(accepted) = HeaderValue::from_str(&key) else {
        return problem(StatusCode::BAD_REQUEST, "BadRequest", "bad Sec-WebSocket-Key");
    };
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        if let Ok(upgraded) = upgrade.await {
            feed::serve(shared, upgraded).await;
        }
    });
    let mut response = Response::new(Text(None));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert("sec-websocket-accept", accepted);
    response
}

fn vmapi(shared: &Shared, path: &str, parameters: &BTreeMap<String, String>) -> Response<Text> {
    if path == "/changefeeds" {
        return success(
            &json!([{ "resource": "vm", "subResources": ["alias", "state", "tags"], "bootstrapRoute": "/vms" }]),
        );
    }
    if let Some(uuid) = path.strip_prefix("/vms/") {
        let datacenter = shared.datacenter.lock();
        return datacenter.find_vm(uuid).map_or_else(|| missing("VM not found"), success);
    }
    if path != "/vms" {
        return missing(&format!("{path} does not exist"));
    }
    let marker = parameters.get("marker").map(|text| serde_json::from_str::<Value>(text).unwrap_or_default());
    let marker = marker.map(|marker| marker["uuid"].as_str().unwrap_or_default().to_owned());
    let change = if marker.is_some() { shared.switches.lock().between_pages.take() } else { None };
    let mut datacenter = shared.datacenter.lock();
    if let Some(change) = change {
        change(&mut datacenter);
        datacenter.directory.write_log();
        let items = datacenter.take_items();
        let mut switches = shared.switches.lock();
        shared.feeds.lock().feed(items, &mut switches);
    }
    let (limit, offset) = bounds(parameters);
    let filters = ["owner_uuid", "server_uuid", "alias"].iter();
    let filters = filters.filter_map(|key| Some(((*key).to_owned(), parameters.get(*key)?.clone()))).collect();
    let limit = shared.switches.lock().size_of_page(limit);
    let is_active = parameters.get("state").is_some_and(|state| state == "active");
    let (vms, total) = datacenter.page(&Page { limit, marker, offset, is_active, filters });
    let fields: Option<Vec<&str>> = parameters.get("fields").map(|fields| fields.split(',').collect());
    let text: Vec<String> = vms.iter().map(|vm| selected(vm, fields.as_deref())).collect();
    counted(format!("[{}]", text.join(",")), total)
}

fn cnapi(datacenter: &Datacenter, path: &str, parameters: &BTreeMap<String, String>) -> Response<Text> {
    let extras = parameters.get("extras").map_or("", String::as_str);
    let shown = |server: &Value| {
        let mut server = server.clone();
        if let Some(fields) = server.as_object_mut() {
            let asked = |extra: &str| extras.split(',').any(|name| name == extra || name == "all");
            fields.retain(|key, _| match key.as_str() {
                "status" => asked("status"),
                "sysinfo" => asked("sysinfo"),
                _ => true,
            });
        }
        server
    };
    if let Some(uuid) = path.strip_prefix("/servers/") {
        let server = datacenter.servers.iter().find(|server| server["uuid"] == uuid);
        return server.map_or_else(|| missing("no such server"), |server| success(&shown(server)));
    }
    if path != "/servers" {
        return missing(&format!("{path} does not exist"));
    }
    let is_asked = |server: &&Value| parameters.get("setup").is_none_or(|setup| server["setup"] == (setup == "true"));
    let (limit, offset) = bounds(parameters);
    let servers = datacenter.servers.iter().filter(is_asked).skip(offset).take(limit);
    success(&Value::Array(servers.map(shown).collect()))
}

fn napi(datacenter: &Datacenter, path: &str, parameters: &BTreeMap<String, String>) -> Response<Text> {
    let (limit, offset) = bounds(parameters);
    let array = |elements: Vec<&Value>| {
        let total = elements.len();
        let page = elements.into_iter().skip(offset).take(limit).cloned().collect();
        counted(Value::Array(page).to_string(), total)
    };
    let one = |elements: &[Value], uuid: &str| {
        let element = elements.iter().find(|element| element["uuid"] == uuid);
        element.map_or_else(|| missing("network not found"), success)
    };
    if let Some(uuid) = path.strip_prefix("/networks/") {
        return one(&datacenter.networks, uuid);
    }
    if let Some(uuid) = path.strip_prefix("/network_pools/") {
        return one(&datacenter.network_pools, uuid);
    }
    if let Some(mac) = path.strip_prefix("/nics/") {
        let digits = |nic: &Value| nic["mac"].as_str().unwrap_or_default().replace(':', "");
        let nic = datacenter.nics.iter().find(|nic| digits(nic) == mac);
        return nic.map_or_else(|| missing("nic not found"), success);
    }
    match path {
        "/network_pools" => array(datacenter.network_pools.iter().collect()),
        "/networks" => {
            let matches = |network: &&Value| {
                let tag = parameters.get("nic_tag").is_none_or(|tag| network["nic_tag"] == *tag);
                let vlan =
                    parameters.get("vlan_id").is_none_or(|vlan| network["vlan_id"].as_u64() == vlan.parse().ok());
                tag && vlan
            };
            array(datacenter.networks.iter().filter(matches).collect())
        }
        _ => missing(&format!("{path} does not exist")),
    }
}

/// Limit and offset of a page.
fn bounds(parameters: &BTreeMap<String, String>) -> (usize, usize) {
    let number = |key: &str| parameters.get(key).and_then(|text| text.parse().ok());
    (number("limit").unwrap_or(PAGE).min(PAGE), number("offset").unwrap_or(0))
}

/// The text of an element, with the fields that were asked for.
fn selected(element: &Value, fields: Option<&[&str]>) -> String {
    let Some(fields) = fields else { return element.to_string() };
    let wanted = fields.iter().filter_map(|name| Some(format!("\"{name}\":{}", element.get(name)?)));
    format!("{{{}}}", wanted.collect::<Vec<String>>().join(","))
}

fn success(value: &Value) -> Response<Text> {
    written(value.to_string())
}

fn written(text: String) -> Response<Text> {
    let mut response = Response::new(Text(Some(text.into())));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An answer that tells how many elements there are on all pages.
fn counted(text: String, total: usize) -> Response<Text> {
    let mut response = written(text);
    response.headers_mut().insert("x-joyent-resource-count", HeaderValue::from(total));
    response
}

fn missing(message: &str) -> Response<Text> {
    problem(StatusCode::NOT_FOUND, "ResourceNotFound", message)
}

fn problem(status: StatusCode, code: &str, message: &str) -> Response<Text> {
    let mut response = success(&json!({ "code": code, "message": message }));
    *response.status_mut() = status;
    response
}
