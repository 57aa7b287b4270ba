//! Orders over HTTPS: what the control socket takes, and drains and pins as things that programs put and delete.
//!
//! Who asks has shown a certificate (`serve::http::Gate`); the name in it is in the log beside each order. What reads is
//! the API of the page, whether the page is on or off.
//!
//! Invariants: a PUT that asks for what is there changes nothing, neither a moment nor a serial; a DELETE ends exactly what
//! its path names; a request with a body says that it is JSON, so that no web page can have an operator's browser send one.
//!
//! Cost: O(drains), or as the orders have it.
//!
//! RFCs: 9110 (methods and status codes).

use super::drain::target::resolve;
use crate::config::MAX_DURATION;
use crate::control::resources::{DrainWish, OrderReply, PinWish};
use crate::control::{self, Command, DrainOrder, Reply, Request, RollbackOrder, TargetText, UndrainOrder};
use crate::keeper::{self, DrainStatus, PinStatus, Snapshot};
use crate::serve::http::{Answer, Asked, Content, READING, Site};
use crate::view::Handle;
use crate::view::handle::{not_configured, read_zone};
use crate::view::page::api::{Drains, Pins, RegionPin, failure, whole};
use crate::view::page::{Page, decode};
use crate::view::text::unix_now;
use hyper::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::HashMap;
use tokio::sync::{mpsc, oneshot};
use url::form_urlencoded;
use wire::name::Name;

/// Media type of bodies.
const JSON: &str = "application/json";

/// Where orders go.
#[derive(Clone)]
pub struct OrderWays {
    /// The way to the daemon's loop.
    pub commands: mpsc::Sender<Command>,
    /// The way to the keeper, which nobody here keeps alive.
    pub keeper: mpsc::WeakSender<keeper::Command>,
}

/// The site at which operators give orders.
#[derive(Clone)]
pub struct OrderDesk {
    page: Page,
    view: Handle,
    ways: OrderWays,
}

/// A status code with what is said.
type Outcome = Result<(u16, Value), (u16, String)>;

impl OrderDesk {
    /// A desk beside the page that hands orders to the daemon.
    pub fn new(page: Page, view: Handle, ways: OrderWays) -> OrderDesk {
        OrderDesk { page, view, ways }
    }

    /// Answers a request of an operator.
    async fn answer(&self, asked: &Asked) -> Outcome {
        let query: HashMap<String, String> = form_urlencoded::parse(asked.query.as_bytes()).into_owned().collect();
        let segments: Vec<String> = asked.path.split('/').skip(1).map(decode).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let is_dry = match query.get("dry_run").map(String::as_str) {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err((400, "\"dry_run\" is true or false".to_owned())),
        };
        match (asked.method.as_str(), &segments[..]) {
            ("POST", ["api", "v1", "orders"]) => self.order(asked).await,
            ("GET" | "HEAD", ["api", "v1", "drains"]) => {
                let view = self.view.snapshots.load();
                Ok((200, json!(Drains { drains: view.drain_statuses() })))
            }
            (method, ["api", "v1", "drains", member]) => {
                let text = |key: &str| query.get(key).cloned();
                let target = TargetText { member: (*member).to_owned(), region: text("region"), names: text("names") };
                self.drain(method, target, is_dry, asked).await
            }
            ("GET" | "HEAD", ["api", "v1", "pins"]) => {
                Ok((200, json!(Pins { pins: pins(&self.view.snapshots.load()) })))
            }
            (method, ["api", "v1", "pins", region]) => self.pin(method, region, is_dry, asked).await,
            (_, path) => Err((404, format!("there is no /{}; /api/v1/openapi.json lists all paths", path.join("/")))),
        }
    }

    /// Has the daemon carry out a request.
    async fn ask(&self, asked: &Asked, request: Request) -> Reply {
        let operator = asked.operator.as_deref().unwrap_or_default();
        if request.is_order() {
            tracing::info!(%operator, order = %json!(request), "order over HTTPS");
        }
        control::ask(&self.ways.commands, request).await
    }

    /// Carries out a request as the control socket does.
    async fn order(&self, asked: &Asked) -> Outcome {
        let request: Request = read_body(asked)?;
        if let Some(why) = request.refuse_from_afar() {
            return Err((403, why.to_owned()));
        }
        let reply = self.ask(asked, request).await;
        Ok((if reply.ok { 200 } else { 409 }, json!(OrderReply::from(reply))))
    }

    /// Reads, puts or deletes the drain with a target.
    async fn drain(&self, method: &str, target: TargetText, is_dry: bool, asked: &Asked) -> Outcome {
        let there = self.find_drain(&target)?;
        match method {
            "PUT" => {
                let wish: DrainWish = read_body(asked)?;
                let now = unix_now();
                if wish.share_percent.is_some_and(|percent| !(1..100).contains(&percent)) {
                    return Err((400, "\"share_percent\" is 1 to 99".to_owned()));
                }
                let left = wish.until.map(|until| until.checked_sub(now).and_then(|left| u64::try_from(left).ok()));
                let milliseconds = match left {
                    None => None,
                    Some(Some(seconds @ 1..)) if seconds <= MAX_DURATION.as_secs() => Some(seconds * 1000),
                    Some(_) => {
                        return Err((
                            400,
                            "\"until\" is a moment to come, in seconds since 1970, at most ten years ahead".into(),
                        ));
                    }
                };
                if let Some(there) = there.as_ref().filter(|there| is_as_wished(there, &wish) && !is_dry) {
                    return Ok((200, json!(there)));
                }
                let DrainWish { share_percent, reason, force, .. } = wish;
                let order = DrainOrder { target: target.clone(), milliseconds, reason, force, preview: is_dry };
                let request = match share_percent {
                    Some(percent) => Request::DrainShare { percent, order },
                    None => Request::Drain(order),
                };
                let done = self.done(asked, request).await?;
                match self.find_drain(&target)? {
                    Some(drain) if !is_dry => Ok((if there.is_some() { 200 } else { 201 }, json!(drain))),
                    _ => Ok((200, done)),
                }
            }
            "DELETE" if there.is_none() => Ok((204, Value::Null)),
            "DELETE" if is_dry => Ok((200, json!(there))),
            "DELETE" => {
                self.done(asked, Request::Undrain(UndrainOrder { target, exact: true })).await?;
                Ok((204, Value::Null))
            }
            _ => there.map(|drain| (200, json!(drain))).ok_or_else(|| (404, "there is no such drain".to_owned())),
        }
    }

    /// The drain by order with exactly this target; an error if there is nothing that could be drained so.
    fn find_drain(&self, target: &TargetText) -> Result<Option<DrainStatus>, (u16, String)> {
        let view = self.view.snapshots.load();
        let target = resolve(target, &view).map_err(|why| (404, why))?;
        Ok(view.drain_statuses().into_iter().find(|drain| !drain.configured && drain.target == target))
    }

    /// Reads, puts or deletes the pin of a region.
    async fn pin(&self, method: &str, region: &str, is_dry: bool, asked: &Asked) -> Outcome {
        let name = read_zone(region).map_err(|why| (404, why))?;
        let there = self.find_pin(&name)?;
        let zone = name.to_string();
        match method {
            "PUT" => {
                let PinWish { to, reason } = read_body(asked)?;
                if let Some(there) =
                    there.as_ref().filter(|there| there.to.0 == to && there.reason == reason && !is_dry)
                {
                    return Ok((200, json!(RegionPin::new(name, there.clone()))));
                }
                let order = RollbackOrder { zone, to, reason, preview: is_dry };
                let done = self.done(asked, Request::Rollback(order)).await?;
                match self.find_pin(&name)? {
                    Some(pin) if !is_dry => {
                        Ok((if there.is_some() { 200 } else { 201 }, json!(RegionPin::new(name, pin))))
                    }
                    _ => Ok((200, done)),
                }
            }
            "DELETE" if there.is_none() => Ok((204, Value::Null)),
            "DELETE" => {
                let done = self.done(asked, Request::Release { zone, preview: is_dry }).await?;
                Ok(if is_dry { (200, done) } else { (204, Value::Null) })
            }
            _ => {
                let pin = there.ok_or_else(|| (404, "the region follows its members".to_owned()))?;
                Ok((200, json!(RegionPin::new(name, pin))))
            }
        }
    }

    /// The pin of a region; an error if there is no such region.
    fn find_pin(&self, name: &Name) -> Result<Option<PinStatus>, (u16, String)> {
        let view = self.view.snapshots.load();
        let region = view.regions.get(name).ok_or_else(|| (404, not_configured(name, view.regions.keys())))?;
        Ok(region.pin.as_ref().map(PinStatus::new))
    }

    /// Carries out an order, and gives its data.
    async fn done(&self, asked: &Asked, request: Request) -> Result<Value, (u16, String)> {
        let reply = self.ask(asked, request).await;
        if !reply.ok {
            return Err((409, reply.text.trim_end().to_owned()));
        }
        // What is read next has to have it.
        if let Some(keeper) = self.ways.keeper.upgrade() {
            let (sender, done) = oneshot::channel();
            _ = keeper.send(keeper::Command::Barrier(sender)).await;
            _ = done.await;
        }
        Ok(reply.data)
    }
}

impl Site for OrderDesk {
    fn respond(&self, asked: Asked) -> Answer {
        let desk = self.clone();
        Box::pin(async move {
            let is_ours =
                |path: &str| ["orders", "drains", "pins"].contains(&path.split('/').nth(3).unwrap_or_default());
            if !is_ours(&asked.path) {
                return Some(desk.page.route(&asked.path, &asked.query).await);
            }
            Some(match desk.answer(&asked).await {
                Ok((204, _)) => whole(204, String::new()),
                Ok((status, value)) => whole(status, value.to_string()),
                Err((status, why)) => failure(status, &why),
            })
        })
    }

    fn methods(&self, path: &str) -> &'static [Method] {
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        match segments[..] {
            ["api", "v1", "orders"] => &[Method::POST],
            ["api", "v1", "drains" | "pins", _] => &[Method::GET, Method::HEAD, Method::PUT, Method::DELETE],
            _ => READING,
        }
    }

    fn refuse(&self, path: &str, status: u16, why: &str) -> Content {
        self.page.refuse(path, status, why)
    }
}

/// True if a drain is as it is wished to be.
fn is_as_wished(drain: &DrainStatus, wish: &DrainWish) -> bool {
    drain.share_percent == wish.share_percent && drain.until == wish.until && drain.reason == wish.reason
}

/// All regions that are pinned, in canonical order.
fn pins(view: &Snapshot) -> Vec<RegionPin> {
    let pinned = view
        .regions
        .iter()
        .filter_map(|(name, region)| region.pin.as_ref().map(|pin| RegionPin::new(name.clone(), PinStatus::new(pin))));
    let mut pins: Vec<RegionPin> = pinned.collect();
    pins.sort_by(|one, other| one.region.canonical_cmp(&other.region));
    pins
}

/// Reads a body of JSON.
fn read_body<T: DeserializeOwned>(asked: &Asked) -> Result<T, (u16, String)> {
    let media_type = asked.media_type.as_deref().unwrap_or_default();
    if !media_type.split(';').next().is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case(JSON)) {
        return Err((415, format!("the body is to be JSON: \"Content-Type: {JSON}\"")));
    }
    serde_json::from_slice(&asked.body).map_err(|error| (400, format!("the body is not as it should be: {error}")))
}
