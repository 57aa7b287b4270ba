//! Verbs of operators, and who answers each: a view where it only reads, and for orders those who carry them out.
//!
//! Invariant: no answer keeps another one waiting but for orders about drains and pins, which wait for each other.

use super::cns;
use super::drain::{drain, undrain};
use super::forecast::forecast;
use super::rollback::{pin, release};
use super::ways::Ways;
use crate::control::{Reply, Request};
use crate::source::{Wake, WakeKind};
use crate::view::handle::{in_thread, not_configured, read_zone};
use crate::view::{Handle, compare, diff, history, leads, lookup, security, status};
use std::pin::Pin;
use tokio::sync::{OwnedMutexGuard, oneshot};
use wire::name::Name;
use wire::serial::Serial;

/// What becomes of a verb: the reply, or the reason for which there is none.
type Answer = Pin<Box<dyn Future<Output = Result<Reply, String>> + Send>>;

/// Result that a source sends to whoever woke it.
type WakeResult = oneshot::Receiver<Result<String, String>>;

impl Ways {
    /// Answers a request in a task of its own: waiting for a primary must not keep others waiting.
    pub fn answer(&self, request: Request, reply: oneshot::Sender<Reply>) {
        let answer = match request {
            Request::Status { zone } => self.read(move |view| status::status(view, zone.as_deref())),
            Request::Refresh { zone } => self.wake(zone.as_deref(), WakeKind::Refresh),
            Request::Retransfer { zone, accept } => self.wake(Some(&zone), WakeKind::Retransfer { accept }),
            Request::Dump { zone } => self.read(move |view| status::dump(view, &zone)),
            Request::Diff { zone, from, to } => {
                self.read(move |view| diff::diff(view, &zone, from.map(Serial), to.map(Serial)))
            }
            Request::Compare { zone, with, key } => {
                let view = self.view.clone();
                Box::pin(async move { compare::compare(&view, &zone, with, key.as_deref()).await })
            }
            Request::History { name, zone, limit } => {
                self.read(move |view| history::tell(&view.publisher.load(), name.as_deref(), zone.as_deref(), limit))
            }
            Request::Lookup { name, rtype, client } => self.read(move |view| {
                let (rtype, client) = (rtype.as_deref(), client.as_deref());
                lookup::lookup(view, &lookup::Question { name: &name, rtype, client })
            }),
            Request::Forecast { file } => Box::pin(forecast(self.clone(), file)),
            Request::Leads => self.read(leads::leads),
            Request::Rollback(order) => self.in_turn(|ways, turn| pin(ways, order, turn)),
            Request::Release { zone, preview } => self.in_turn(move |ways, turn| release(ways, zone, preview, turn)),
            Request::Drain(order) => self.in_turn(|ways, turn| drain(ways, order, None, turn)),
            Request::DrainShare { percent, order } => {
                self.in_turn(move |ways, turn| drain(ways, order, Some(percent), turn))
            }
            Request::Undrain(order) => self.in_turn(|ways, turn| undrain(ways, order, turn)),
            Request::Cns(request) => Box::pin(cns::answer(self.view.clone(), request)),
            Request::Security => Box::pin(std::future::ready(security::tell())),
            Request::Notify { zone } => Box::pin(std::future::ready(self.notify_secondaries(zone.as_deref()))),
            // The loop that calls this takes these two itself.
            Request::Reload { .. } | Request::Stop => return,
        };
        tokio::spawn(async move {
            // The client may have gone.
            let _ = reply.send(answer.await.unwrap_or_else(|error| Reply::failure(error + "\n")));
        });
    }

    /// Carries out an order about drains or pins once those before it are done with.
    fn in_turn<F>(&self, order: impl FnOnce(Ways, OwnedMutexGuard<()>) -> F + Send + 'static) -> Answer
    where
        F: Future<Output = Result<Reply, String>> + Send,
    {
        let ways = self.clone();
        Box::pin(async move {
            let turn = ways.turn.clone().lock_owned().await;
            order(ways, turn).await
        })
    }

    /// Reads what may take long in a thread of its own.
    fn read(&self, read: impl FnOnce(&Handle) -> Result<Reply, String> + Send + 'static) -> Answer {
        let view = self.view.clone();
        Box::pin(in_thread(move || read(&view)))
    }

    /// Wakes sources and waits for their results: one zone's, a region's members', or all.
    fn wake(&self, zone: Option<&str>, kind: WakeKind) -> Answer {
        let waiting = self.send_wakes(zone, kind);
        Box::pin(async move {
            let (mut text, mut ok, mut data) = (String::new(), true, serde_json::Map::new());
            for (name, done) in waiting? {
                let result = done.await;
                let result = result.unwrap_or_else(|_| Err("a reload changed the zone meanwhile; ask again".into()));
                ok &= result.is_ok();
                let (Ok(line) | Err(line)) = &result;
                text.push_str(&format!("{name} {line}\n"));
                data.insert(name.to_string(), serde_json::json!({ "ok": result.is_ok(), "result": line }));
            }
            Ok(Reply { ok, text, data: data.into() })
        })
    }

    /// Wakes the sources that a request means, and gives what each will answer.
    fn send_wakes(&self, zone: Option<&str>, kind: WakeKind) -> Result<Vec<(Name, WakeResult)>, String> {
        let name = zone.map(read_zone).transpose()?;
        let config = self.view.config.load();
        let region = config.regions.iter().find(|region| Some(&region.origin) == name.as_ref());
        let mut names: Vec<Name> = match (&name, region) {
            (_, Some(region)) if kind == WakeKind::Refresh => region.members.clone(),
            (Some(name), Some(_)) => return Err(format!("{name} is a region; name one of its member zones")),
            (Some(name), None) => vec![name.clone()],
            (None, _) => self.view.sources.main_zones(),
        };
        names.sort_by(Name::canonical_cmp);
        let sources = self.view.sources.lock();
        let wake = |name: Name| {
            let source = sources.get(&name).ok_or_else(|| not_configured(&name, sources.keys()))?;
            let (done, result) = oneshot::channel();
            source.wake(Wake { kind, done: Some(done) });
            Ok((name, result))
        };
        names.into_iter().map(wake).collect()
    }

    /// Announces zones to their secondaries, whether they have changed or not.
    fn notify_secondaries(&self, zone: Option<&str>) -> Result<Reply, String> {
        let name = zone.map(read_zone).transpose()?;
        name.as_ref().map(|name| self.view.served(name)).transpose()?;
        let sent = self.view.notifier.notify_now(name.as_ref());
        if sent == 0 {
            let what = name.map_or("no zone".to_owned(), |name| format!("zone {name}"));
            let verb = if zone.is_some() { "has no" } else { "has" };
            return Err(format!("{what} {verb} secondaries to tell; set \"notify\" in the configuration"));
        }
        let text = format!("announcements on their way: {sent}; \"aggregator status ZONE\" shows what comes back\n");
        Ok(Reply { ok: true, text, data: serde_json::json!({ "announcements": sent }) })
    }
}
