//! The change feed: a WebSocket for each client that is sent items as instances change.
//!
//! Invariants: the bootstrap comes before every item; an item that nobody listened for is lost; of two connections with
//! one `instance` the later one stays.
//!
//! Cost: an item O(listeners).
//! RFC 6455 (WebSocket).

use crate::Shared;
use crate::datacenter::Item;
use crate::switches::Switches;
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message, protocol::Role};

/// Ways in which a connection of the feed ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// With a frame that says so.
    Close,
    /// The connection ends without a word.
    Drop,
    /// Nothing is sent and nothing is read any more, and the connection stays.
    Stall,
}

/// Order to the task of a connection.
enum Order {
    Text(String),
    Cut(Cut),
}

/// A client that has been sent the bootstrap.
struct Listener {
    instance: String,
    sub_resources: Vec<String>,
    orders: UnboundedSender<Order>,
}

/// All connections.
#[derive(Default)]
pub struct Feeds {
    listeners: Vec<Listener>,
}

impl Feeds {
    /// Sends items to those who asked for one of their sub-resources.
    pub fn feed(&mut self, items: Vec<Item>, switches: &mut Switches) {
        for Item { vm, sub_resources } in items {
            if switches.items_to_drop > 0 {
                switches.items_to_drop -= 1;
                continue;
            }
            let published = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
            let item = json!({
                "changeKind": { "resource": "vm", "subResources": sub_resources },
                "changedResourceId": vm["uuid"],
                "published": published.to_string(),
                "resourceObject": without_empty(&vm),
            });
            for _ in 0..=u32::from(switches.repeats_items) {
                let wants = |listener: &Listener| {
                    listener.sub_resources.iter().any(|wanted| sub_resources.iter().any(|name| name == wanted))
                };
                self.send(&item.to_string(), wants);
            }
        }
    }

    /// Sends everyone a frame.
    pub fn send_text(&mut self, text: &str) {
        self.send(text, |_| true);
    }

    /// Sends some a frame, and forgets those who have gone.
    fn send(&mut self, text: &str, wants: impl Fn(&Listener) -> bool) {
        self.listeners
            .retain(|listener| !wants(listener) || listener.orders.send(Order::Text(text.to_owned())).is_ok());
    }

    /// Ends every connection.
    pub fn cut(&mut self, cut: Cut) {
        for listener in self.listeners.drain(..) {
            // A connection that has ended needs no end.
            let _ = listener.orders.send(Order::Cut(cut));
        }
    }

    /// Number of connections.
    pub fn listeners(&self) -> usize {
        self.listeners.iter().filter(|listener| !listener.orders.is_closed()).count()
    }

    /// Enters a listener and sends it the bootstrap; an earlier one of the same instance ends.
    fn register(&mut self, registration: &Value) -> Option<UnboundedReceiver<Order>> {
        let kind = &registration["changeKind"];
        if kind["resource"] != "vm" {
            return None;
        }
        let instance = registration["instance"].as_str()?.to_owned();
        let names = kind["subResources"].as_array()?;
        let sub_resources = names.iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect();
        let (orders, inbox) = mpsc::unbounded_channel();
        let bootstrap = json!({ "resource": "vm", "subResources": names, "bootstrapRoute": "/vms" });
        orders.send(Order::Text(bootstrap.to_string())).ok()?;
        for earlier in self.listeners.extract_if(.., |earlier| earlier.instance == instance) {
            // A connection that has ended needs no end.
            let _ = earlier.orders.send(Order::Cut(Cut::Close));
        }
        self.listeners.push(Listener { instance, sub_resources, orders });
        Some(inbox)
    }
}

/// Properties that are empty are left out of items.
fn without_empty(vm: &Value) -> Value {
    let Some(fields) = vm.as_object() else { return vm.clone() };
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    fields.iter().filter(|(_, value)| !is_empty(value)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Serves a connection of the feed until one side ends it.
pub async fn serve(shared: Arc<Shared>, upgraded: Upgraded) {
    let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
    let mut inbox = None;
    loop {
        let order = async {
            match &mut inbox {
                Some(inbox) => UnboundedReceiver::recv(inbox).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            order = order => match order {
                Some(Order::Text(text)) => {
                    if socket.send(Message::text(text)).await.is_err() {
                        return;
                    }
                }
                Some(Order::Cut(Cut::Stall)) => std::future::pending().await,
                Some(Order::Cut(Cut::Drop)) | None => return,
                Some(Order::Cut(Cut::Close)) => {
                    // Whoever has gone needs no end.
                    let _ = socket.close(None).await;
                    return;
                }
            },
            frame = socket.next() => match frame {
                // The first text registers; heartbeats only prove the connection.
                Some(Ok(Message::Text(text))) if inbox.is_none() => {
                    let registration = serde_json::from_str(&text).unwrap_or_default();
                    inbox = shared.feeds.lock().register(&registration);
                }
                Some(Ok(Message::Close(_)) | Err(Error::ConnectionClosed)) | None => return,
                Some(Err(_)) => return,
                Some(Ok(_)) => {}
            },
        }
    }
}
