//! The sockets of a running server, and how they change without losing a query.
//!
//! A change has two halves. [`Listeners::bind`] opens every socket that the new configuration adds and changes nothing
//! else; if one cannot be had, all are closed again and the error names the line of each. [`Listeners::adopt`] then
//! starts the new ones and ends those that are gone: a UDP socket answers what it still holds, a TCP connection what
//! it owes. A socket that stays is never touched.
//!
//! The service manager keeps every socket in service, and hands it to the next process; what a predecessor left there
//! is taken before anything is bound. At the end [`Listeners::end_streams`] leaves UDP, which answers until the process
//! has nothing else to do.

use crate::acl::Prefix;
use crate::config::Config;
use crate::daemon::cns::rest::Rest;
use crate::daemon::descriptors::Descriptors;
use crate::daemon::order_desk::{OrderDesk, OrderWays};
use crate::serve::BindError;
use crate::serve::http::{self, Gate, Site, readiness};
use crate::serve::listener::{Listener, listen};
use crate::serve::respond::Responder;
use crate::serve::stream::{self, StreamContext};
use crate::serve::tls::{self, Shown, TlsIdentity};
use crate::serve::udp::UdpListener;
use crate::systemd::{Inherited, Kind, Manager};
use crate::view::{self, page::Page};
use arc_swap::ArcSwap;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Handle;
use wire::name::Name;

/// The sockets in service, by the address that the configuration names.
pub struct Listeners {
    streams: Arc<StreamContext>,
    certificate: Arc<Shown>,
    udp_threads: usize,
    /// Regions that clients ask for, and on which readiness depends.
    regions: Arc<ArcSwap<Vec<Name>>>,
    /// True once a request for readiness has got 200, so that all regions had been served.
    was_ready: Arc<AtomicBool>,
    sockets: Sockets,
    page: Page,
    view: view::Handle,
    /// Where orders go, and who may give them over HTTPS.
    orders: OrderWays,
    gate: Arc<Gate>,
    manager: Arc<Manager>,
    inherited: Inherited,
    descriptors: Descriptors,
}

/// Sockets of all kinds.
#[derive(Default)]
struct Sockets {
    dns: BTreeMap<SocketAddr, (UdpListener, Listener)>,
    tls: BTreeMap<SocketAddr, Listener>,
    http: BTreeMap<SocketAddr, Listener>,
    /// REST interfaces of inventories.
    api: BTreeMap<SocketAddr, Listener>,
    /// Orders over HTTPS.
    orders: BTreeMap<SocketAddr, Listener>,
}

/// What is shown to clients who speak TLS: those of DNS, and operators.
#[derive(Default)]
pub struct Identities {
    pub dns: Option<TlsIdentity>,
    pub orders: Option<TlsIdentity>,
}

/// Sockets that are bound and not in service yet.
pub struct Bound {
    sockets: Sockets,
    identities: Identities,
    /// Duplicates of the sockets, for the service manager to keep.
    kept: Vec<(Kind, SocketAddr, OwnedFd)>,
}

impl Listeners {
    /// Starts without any socket but those that were inherited, which are in nobody's service yet.
    pub fn new(
        config: &Config,
        responder: Arc<Responder>,
        view: view::Handle,
        orders: OrderWays,
        (manager, inherited): (Arc<Manager>, Inherited),
        descriptors: Descriptors,
    ) -> Listeners {
        Listeners {
            streams: StreamContext::new(&config.listen, view.publisher.clone(), responder, view.metrics.clone()),
            certificate: Arc::default(),
            udp_threads: 0,
            regions: Arc::default(),
            was_ready: Arc::default(),
            sockets: Sockets::default(),
            page: Page::new(view.clone()),
            view,
            orders,
            gate: Arc::default(),
            manager,
            inherited,
            descriptors,
        }
    }

    /// Binds every address of a configuration that is not in service yet. All failures are told at once, with that of
    /// the certificate.
    pub fn bind(&mut self, config: &Config, identities: Result<Identities, String>) -> Result<Bound, Vec<String>> {
        let mut opener = Opener { inherited: std::mem::take(&mut self.inherited), kept: Vec::new() };
        let mut sockets = Sockets::default();
        let mut errors = Vec::new();
        let mut failed = |address: SocketAddr, error: io::Error| {
            let place = config.place_of(address);
            match self.own_overlap(address).filter(|_| error.kind() == io::ErrorKind::AddrInUse) {
                Some(own) => errors.push(format!(
                    "{place}: cannot listen on {address}: this server listens on {own} and opens new addresses before it \
                     closes old ones; restart it, or remove {own} by a reload of its own first"
                )),
                None => errors.push(format!("{place}: {}", BindError { address, error })),
            }
        };
        for &address in config.listen.dns.iter().filter(|address| !self.sockets.dns.contains_key(address)) {
            match opener.open_dns(address) {
                Ok(pair) => _ = sockets.dns.insert(address, pair),
                Err(error) if config.is_optional(address, &error) => {
                    tracing::warn!(%address, %error, "this machine cannot listen on a default address; going on without");
                }
                Err(error) => failed(address, error),
            }
        }
        for (wanted, old, new) in [
            (tls_addresses(config), &self.sockets.tls, &mut sockets.tls),
            (&config.metrics.listen[..], &self.sockets.http, &mut sockets.http),
            (&api_addresses(config)[..], &self.sockets.api, &mut sockets.api),
            (config.control.https_addresses(), &self.sockets.orders, &mut sockets.orders),
        ] {
            for &address in wanted.iter().filter(|address| !old.contains_key(address)) {
                match opener.listen(address) {
                    Ok(listener) => _ = new.insert(address, listener),
                    Err(error) => failed(address, error),
                }
            }
        }
        let identities = identities.unwrap_or_else(|error| {
            errors.push(error);
            Identities::default()
        });
        for (kind, address) in opener.inherited.close() {
            self.manager.forget(kind, address);
        }
        if errors.is_empty() { Ok(Bound { sockets, identities, kept: opener.kept }) } else { Err(errors) }
    }

    /// The address in service that an address includes or is included in, as 0.0.0.0 does with all others of its port.
    fn own_overlap(&self, address: SocketAddr) -> Option<SocketAddr> {
        let includes =
            |one: SocketAddr, other: SocketAddr| one.ip().is_unspecified() && one.is_ipv4() == other.is_ipv4();
        let overlaps = |own: &SocketAddr| {
            own.port() == address.port() && (*own == address || includes(*own, address) || includes(address, *own))
        };
        let dns = self.sockets.dns.keys();
        let http = self.sockets.http.keys().chain(self.sockets.api.keys()).chain(self.sockets.orders.keys());
        dns.chain(self.sockets.tls.keys()).chain(http).copied().find(overlaps)
    }

    /// Puts bound sockets into service and ends those that the configuration no longer has. Goes through all of it even
    /// if something fails; the first error is told.
    pub fn adopt(&mut self, config: &Config, bound: Bound) -> io::Result<()> {
        self.follow(config);
        for (kind, address, socket) in bound.kept {
            self.manager.keep(kind, address, socket);
        }
        let mut result = Ok(());
        for (address, (mut udp, mut stream)) in bound.sockets.dns {
            result = result.and(self.start_udp(&mut udp, config.listen.udp_threads));
            result = result.and(stream::start(&mut stream, &self.streams, None));
            self.sockets.dns.insert(address, (udp, stream));
        }
        // Certificates are renewed in place; every reload shows the present one.
        bound.identities.dns.iter().for_each(|identity| identity.show(&self.certificate));
        bound.identities.orders.iter().for_each(|identity| identity.show(&self.gate.shown));
        for (address, mut listener) in bound.sockets.tls {
            result = result.and(tls::start(&mut listener, &self.certificate, &self.streams));
            self.sockets.tls.insert(address, listener);
        }
        for (address, mut listener) in bound.sockets.http {
            result = result.and(self.start_http(&mut listener, Arc::new(self.page.clone()), None));
            self.sockets.http.insert(address, listener);
        }
        for (address, mut listener) in bound.sockets.api {
            let site = Arc::new(Rest::new(self.view.clone(), address));
            result = result.and(self.start_http(&mut listener, site, None));
            self.sockets.api.insert(address, listener);
        }
        for (address, mut listener) in bound.sockets.orders {
            let site = Arc::new(OrderDesk::new(self.page.clone(), self.view.clone(), self.orders.clone()));
            result = result.and(self.start_http(&mut listener, site, Some(self.gate.clone())));
            self.sockets.orders.insert(address, listener);
        }
        self.end_removed(config);
        if self.udp_threads != config.listen.udp_threads && self.udp_threads != 0 {
            result = result.and(self.restart_udp(config.listen.udp_threads));
        }
        self.udp_threads = config.listen.udp_threads;
        result
    }

    /// Follows what a configuration says of zones: which regions readiness depends on, and who copies them.
    pub fn follow(&mut self, config: &Config) {
        let limits = self.descriptors.fit(config);
        self.streams.configure(&limits, secondaries(config));
        self.page.configure(config);
        self.gate.set_names(config.control.https.iter().flat_map(|https| https.operators.clone()).collect());
        self.regions.store(Arc::new(config.awaited_regions().cloned().collect()));
    }

    /// Starts to serve monitoring and a site, to operators alone if there is a gate.
    fn start_http(&self, listener: &mut Listener, site: Arc<dyn Site>, gate: Option<Arc<Gate>>) -> io::Result<()> {
        let (publisher, regions) = (self.streams.publisher.clone(), self.regions.clone());
        let was_ready = self.was_ready.clone();
        let ready = move || {
            let result = readiness(&publisher.load(), &regions.load(), was_ready.load(Ordering::Relaxed));
            was_ready.fetch_or(result.is_ok(), Ordering::Relaxed);
            result
        };
        http::start(listener, self.streams.metrics.clone(), ready, Some(site), gate)
    }

    /// Ends the sockets that a configuration does not have.
    fn end_removed(&mut self, config: &Config) {
        let sockets = &mut self.sockets;
        let kept = config.listen.dns.iter().filter_map(|address| sockets.dns.remove_entry(address)).collect();
        for (udp, stream) in std::mem::replace(&mut sockets.dns, kept).into_values() {
            self.manager.forget(Kind::Udp, udp.address());
            self.manager.forget(Kind::Tcp, stream.address());
            // UDP threads finish what their sockets hold, which takes a moment.
            tokio::task::block_in_place(|| {
                drop(udp);
                Handle::current().block_on(stream.end());
            });
        }
        let manager = &self.manager;
        let keep = |address: SocketAddr, is_kept: bool| {
            if !is_kept {
                manager.forget(Kind::Tcp, address);
            }
            is_kept
        };
        for (wanted, listeners) in [
            (tls_addresses(config), &mut sockets.tls),
            (&config.metrics.listen[..], &mut sockets.http),
            (&api_addresses(config)[..], &mut sockets.api),
            (config.control.https_addresses(), &mut sockets.orders),
        ] {
            listeners.retain(|address, listener| keep(listener.address(), wanted.contains(address)));
        }
    }

    /// Ends everything but UDP: TCP connections have a moment more. What is left answers until it is dropped.
    pub async fn end_streams(&mut self) -> Vec<UdpListener> {
        let sockets = std::mem::take(&mut self.sockets);
        let (udp, streams): (Vec<_>, Vec<_>) = sockets.dns.into_values().unzip();
        for stream in streams {
            stream.end().await;
        }
        for listener in sockets.tls.into_values() {
            listener.end().await;
        }
        udp
    }

    /// Starts answering over UDP.
    fn start_udp(&self, udp: &mut UdpListener, threads: usize) -> io::Result<()> {
        let StreamContext { publisher, responder, metrics, .. } = &*self.streams;
        udp.start(threads, publisher, responder, metrics)
    }

    /// Gives each UDP socket another number of threads; what arrives meanwhile waits in the socket. Every socket stays,
    /// also if the system denies a thread, which the first error tells.
    fn restart_udp(&mut self, threads: usize) -> io::Result<()> {
        tokio::task::block_in_place(|| {
            let mut result = Ok(());
            for (address, (udp, stream)) in std::mem::take(&mut self.sockets.dns) {
                let mut udp = udp.restart();
                result = result.and(self.start_udp(&mut udp, threads));
                self.sockets.dns.insert(address, (udp, stream));
            }
            result
        })
    }

    /// The bound DNS addresses, with the ports that the system chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.dns.values().map(|(udp, _)| udp.address()).collect()
    }
}

/// The addresses that may transfer any zone, each once. Who needs a key from wherever is not known by an address.
fn secondaries(config: &Config) -> Vec<Prefix> {
    let rules = config.outgoing.values().flat_map(|outgoing| &outgoing.access.rules);
    let prefixes: HashSet<Prefix> = rules.filter_map(|rule| rule.prefix).collect();
    prefixes.into_iter().collect()
}

/// The addresses of REST interfaces.
fn api_addresses(config: &Config) -> Vec<SocketAddr> {
    config.apis.iter().flat_map(|api| &api.listen).copied().collect()
}

/// The addresses of DNS over TLS.
fn tls_addresses(config: &Config) -> &[SocketAddr] {
    config.listen.tls.as_ref().map_or(&[], |tls| &tls.listen)
}

/// Opens sockets, and remembers them for the manager.
struct Opener {
    inherited: Inherited,
    kept: Vec<(Kind, SocketAddr, OwnedFd)>,
}

impl Opener {
    /// UDP and TCP on one port.
    fn open_dns(&mut self, address: SocketAddr) -> io::Result<(UdpListener, Listener)> {
        let udp = match self.inherited.udp(address) {
            Some(socket) => UdpListener::from_socket(socket)?,
            None => UdpListener::bind(address)?,
        };
        let stream = self.listen(udp.address())?;
        self.kept.push((Kind::Udp, udp.address(), udp.socket().try_clone()?.into()));
        Ok((udp, stream))
    }

    /// A TCP socket that takes connections.
    fn listen(&mut self, address: SocketAddr) -> io::Result<Listener> {
        let socket = self.inherited.tcp(address).map_or_else(|| listen(address), Ok)?;
        self.kept.push((Kind::Tcp, socket.local_addr()?, socket.try_clone()?.into()));
        Listener::from_socket(socket)
    }
}
