//! The configuration file: TOML, or the JSON of RFD 172, into plans.
//!
//! A file goes through three steps: `tree` turns either format into values with positions, to which `include` puts those of
//! further files and variables of the environment; `fields` and `read` convert
//! values and collect errors, and the files of this folder have the tables of keys and read what binds several of them:
//! `templates`, `server` with `listening` and `operators`, `keys`, `secondaries`, `transfer`, `zones` with `primaries` and `peer_tls`, `united`, `trees`, `inventories` with `api` and `imported`, and `static_zones`, `catalogs` with `listed`, `clients`,
//! `regions` with `zone_pattern` and `member_rules`, `addresses` and `region_steering`, `answers` with `steering`, `drains`, `floods`, `security` and `probe`. A key stands in one row of
//! one table, with its default, its help, and where it lands in the plan. `instances` holds services that are written as
//! records against their rules, `schema` lists all tables, `plan`, `json` and `steering_plan` print what came out,
//! `problem` what is wrong.
//!
//! Invariants: a [`Config`] is complete and consistent, so that nothing later needs to doubt it; any error refuses
//! the whole file; all errors are found in one run, each with its position. Only `load` touches the disk; a text that
//! is parsed without has keys without secrets. Relative paths start from the folder of the file, so that the working
//! directory does not matter. Secrets are in no message and in no plan that is printed.
//!
//! Cost: O(file); suggestions for unknown names add O(zones) each.
//!
//! RFCs: RFD 172 (zones and aggregations), 4343 (case of names), 8945 (TSIG), 9432 (catalog zones).

mod addresses;
mod answers;
mod apex;
mod api;
pub mod automatic;
pub mod catalogs;
mod clients;
mod drains;
mod floods;
mod imported;
mod instances;
mod inventories;
mod json;
mod keys;
pub mod listed;
mod listening;
mod member_rules;
mod names;
mod operators;
mod peer_tls;
mod peers;
mod plan;
mod primaries;
mod probe;
pub mod problem;
mod region_steering;
mod regions;
pub mod schema;
mod secondaries;
mod sections;
mod security;
mod server;
mod static_zones;
mod steering;
mod steering_plan;
mod taps;
mod templates;
mod traces;
mod transfer;
mod trees;
mod triton;
mod ufds;
mod united;
mod urls;
mod zone_pattern;
mod zones;

pub use api::{ApiPlan, Scope};
pub use clients::read_prefixes;
pub use drains::{parse_pattern, parse_share};
pub use floods::CookiesPlan;
pub use plan::{describe_cookies, describe_drain, describe_pattern, describe_rate_limit, describe_tap};
pub use server::default_socket;
pub use settings::error::{ConfigError, ConfigErrors};
pub use settings::units::{MAX_DURATION, format_duration, format_size, parse_duration, parse_size};

use crate::acl::{Host, Prefix};
use crate::catalog::CatalogPlan;
use crate::clients::Clients;
use crate::merge::{AnswersPlan, Drain, RegionPlan};
use crate::notify::Targets;
use crate::probe::ProbePlan;
use crate::publish::Outgoing;
use crate::rate_limit::RateLimitPlan;
use crate::security::SecurityPlan;
use crate::serve::{ListenPlan, TlsPlan};
use crate::source::inventory::InventoryPlan;
use crate::source::zookeeper::TreePlan;
use crate::static_zone::StaticZonePlan;
use crate::tap::TapPlan;
use crate::trace::TracesPlan;
use crate::transfer::ZonePlan;
use crate::zone::HistoryLimits;
use automatic::AutomaticWays;
use catalogs::CatalogSource;
use keys::Keys;
use listed::ListedZones;
use member_rules::{Foreseen, MemberRule};
use secondaries::Secondaries;
use sections::Sections;
use settings::error::Source;
use settings::include::gather;
use settings::read::Reader;
use settings::{read_text, tree};
use std::collections::HashMap;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use wire::name::Name;
use wire::tsig::Keyring;

/// Contents of a configuration file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The file, as it was named to us.
    pub path: PathBuf,
    /// This server's own name.
    pub server_name: Name,
    pub listen: ListenPlan,
    /// Resolvers whose EDNS Client Subnet is believed.
    pub client_subnet_from: Vec<Prefix>,
    pub rate_limit: RateLimitPlan,
    pub cookies: CookiesPlan,
    pub tap: TapPlan,
    /// Where traces of changes go, if anywhere.
    pub traces: Option<TracesPlan>,
    /// The shortest time between two publications.
    pub hold_down: Duration,
    /// Octets that zones, histories and transfers may take together; none derives the limit from the host's memory.
    pub memory: Option<u64>,
    /// All TSIG keys.
    pub keys: Keyring,
    /// Zones from primaries, in file order; behind them those that catalogs list.
    pub zones: Vec<ZonePlan>,
    /// Catalogs of primaries, in file order.
    pub catalogs: Vec<CatalogSource>,
    /// Rules for members of regions, which zones of catalogs may match.
    pub member_rules: Vec<MemberRule>,
    /// How automatic reverse zones of inventories are served.
    pub automatic_ways: AutomaticWays,
    /// The zones of catalogs that are in force.
    pub listed: Arc<ListedZones>,
    /// The configuration as the file has it; none if this is it.
    written: Option<Arc<Config>>,
    /// Trees of ZooKeeper's, in file order.
    pub trees: Vec<TreePlan>,
    /// Inventories that zones are made of, in file order.
    pub inventories: Vec<InventoryPlan>,
    /// REST interfaces of inventories, in file order.
    pub apis: Vec<ApiPlan>,
    /// Zones of our own, in file order; there is a zone of any kind.
    pub services: Vec<StaticZonePlan>,
    /// Regions, in file order.
    pub regions: Vec<RegionPlan>,
    /// Drains that the file orders, in file order.
    pub drains: Vec<Drain>,
    /// Cron expression with seconds, UTC, of the audit that transfers every zone in full; it is valid and comes due.
    pub audit: Option<String>,
    /// Access rules for outgoing transfers: of each zone, each region, and the catalog.
    pub outgoing: HashMap<Name, Outgoing>,
    /// Laws of answers: of each region, and of each zone that is not answered with whole sets.
    pub answers: HashMap<Name, AnswersPlan>,
    /// Whose clients are whose.
    pub clients: Arc<Clients>,
    /// Secondaries to notify of changes: of each zone, each region, and the catalog.
    pub targets: Targets,
    pub catalog: Option<CatalogPlan>,
    /// Limits on the history from which incremental transfers are answered.
    pub history: HistoryLimits,
    /// Settings for the check of name servers from outside.
    pub probe: ProbePlan,
    /// The folder that keeps zones and serials over a restart.
    pub state: Option<PathBuf>,
    pub metrics: MetricsPlan,
    pub control: ControlPlan,
    pub log: LogPlan,
    pub security: SecurityPlan,
    /// Files of the configuration, and all paths that it names.
    pub named_paths: Vec<PathBuf>,
    /// Warnings: settings that are allowed but probably not meant, each with `file:line:column`.
    pub warnings: Vec<ConfigError>,
    /// File, line and column of each listen address.
    listen_positions: Vec<(SocketAddr, (PathBuf, usize, usize))>,
    /// The file of each key's secret, in file order.
    secret_files: Vec<(Name, PathBuf)>,
    /// The file of each home's prefixes, by the home's number; none where they stand in this file.
    client_files: Vec<Option<PathBuf>>,
}

/// The HTTP endpoint for Prometheus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsPlan {
    /// Listen addresses; none switch the endpoint off.
    pub listen: Vec<SocketAddr>,
    /// True if the endpoint serves the status page.
    pub page: bool,
    /// The names that browsers know the page by, beside those that it always has.
    pub names: Vec<Name>,
}

/// The socket for the other commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlPlan {
    pub socket: PathBuf,
    /// The group of the socket, as the system knows it; none leaves it to the system.
    pub group: Option<String>,
    /// Permissions of the socket.
    pub mode: u32,
    /// The same orders over HTTPS, if anybody may give them there.
    pub https: Option<HttpsPlan>,
}

/// Orders over HTTPS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpsPlan {
    /// Addresses and files; its authorities are those of operators.
    pub tls: TlsPlan,
    /// Names of which an operator's certificate has one.
    pub operators: Vec<String>,
}

impl ControlPlan {
    /// The addresses of HTTPS.
    pub fn https_addresses(&self) -> &[SocketAddr] {
        self.https.as_ref().map_or(&[], |https| &https.tls.listen)
    }
}

/// Level and format of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPlan {
    /// A level or a filter that `tracing_subscriber::EnvFilter` takes.
    pub level: String,
    pub format: LogFormat,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Human,
    /// JSON, one object a line.
    Json,
}

impl Config {
    /// Reads a file, and makes sure that the files it names can be read.
    pub fn load(path: &Path) -> Result<Config, ConfigErrors> {
        let text = read_text(path)?;
        Config::build(path, &text, true)
    }

    /// Reads a text as if it were the file at `path`. Of what the disk has it only reads files that the text includes.
    pub fn parse(path: &Path, text: &str) -> Result<Config, ConfigErrors> {
        Config::build(path, text, false)
    }

    /// The position `file:line:column` of a listen address, for failures to bind; none for defaults.
    pub fn listen_position(&self, address: SocketAddr) -> Option<String> {
        let (path, line, column) = self.locate_listen(address)?;
        Some(format!("{}:{line}:{column}", path.display()))
    }

    /// File, line and column of a listen address; none for defaults.
    pub fn locate_listen(&self, address: SocketAddr) -> Option<(&Path, usize, usize)> {
        let found = self.listen_positions.iter().find(|(listen, _)| *listen == address);
        found.map(|(_, (path, line, column))| (path.as_path(), *line, *column))
    }

    /// Returns true if a listen address that failed was only a default whose family this machine does not have.
    pub fn is_optional(&self, address: SocketAddr, error: &io::Error) -> bool {
        let no_family = matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL));
        no_family && self.listen_position(address).is_none()
    }

    /// Returns the origin of a listen address: its position in the file, or the file itself for a default.
    pub fn place_of(&self, address: SocketAddr) -> String {
        self.listen_position(address).unwrap_or_else(|| self.path.display().to_string())
    }

    /// The addresses of all primaries, each once.
    pub fn primary_addresses(&self) -> HashSet<SocketAddr> {
        self.transferred().flat_map(|zone| &zone.primaries).map(|primary| primary.address).collect()
    }

    /// All zones that come from primaries, catalogs among them.
    pub fn transferred(&self) -> impl Iterator<Item = &ZonePlan> {
        self.catalogs.iter().map(|source| &source.way).chain(&self.zones)
    }

    /// Returns true if the configuration has a name itself, as a zone of any kind, a region, or a catalog.
    fn has_name(&self, name: &Name) -> bool {
        self.outgoing.contains_key(name) || self.catalogs.iter().any(|source| source.way.zone == *name)
    }

    /// The names of all zones that have a source: primaries, a tree, an inventory, or this file.
    pub fn source_zones(&self) -> impl Iterator<Item = &Name> {
        let zones = self.transferred().map(|plan| &plan.zone);
        let own = self.services.iter().map(|plan| &plan.zone);
        let trees = self.trees.iter().flat_map(TreePlan::all_zones);
        zones.chain(trees).chain(self.inventories.iter().flat_map(InventoryPlan::zones)).chain(own)
    }

    /// The hosts that access rules know by name, also those of zones that are not in the file.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        let members = self.catalogs.iter().flat_map(CatalogSource::members).map(|member| &member.out.outgoing);
        let automatic = self.automatic_ways.values().map(|way| &way.outgoing);
        let all = self.outgoing.values().chain(automatic).chain(members);
        all.flat_map(|outgoing| &outgoing.access.rules).filter_map(|rule| rule.host.as_ref())
    }

    /// Returns true if a zone has secondaries: servers that may transfer it, or are told of its changes.
    pub fn has_secondaries(&self, zone: &Name) -> bool {
        secondaries::has_secondaries(&self.outgoing, &self.targets, zone)
    }

    /// The warnings with their places, as people read them.
    pub fn warning_lines(&self) -> Vec<String> {
        self.warnings.iter().map(ConfigError::to_string).collect()
    }

    /// The plan as people read it.
    pub fn plan_text(&self) -> String {
        let mut text = String::new();
        plan::write_plan(self, &mut text).expect("writing to a string cannot fail");
        text
    }

    /// The plan as programs read it.
    pub fn plan_json(&self) -> serde_json::Value {
        json::describe_plan(self)
    }

    /// Goes through all three steps.
    fn build(path: &Path, text: &str, touch_disk: bool) -> Result<Config, ConfigErrors> {
        // Editors put a byte order mark in front that neither format counts as text (RFC 8259 section 8.1).
        let mut source = Source::new(path, text.strip_prefix('\u{feff}').unwrap_or(text));
        let (tree, mut errors) = tree::parse(&source);
        let Some(mut tree) = tree else { return Err(ConfigErrors::new(errors)) };
        let wrong = gather(&mut source, &mut tree, &mut errors, &|name| std::env::var(name).ok());
        let mut reader = Reader::new(source, errors);
        wrong.into_iter().for_each(|at| reader.tell_no_more(at));
        templates::apply(&mut reader, &mut tree);
        imported::apply(&mut reader, &mut tree);
        let Some(root) = schema::ROOT.read(&mut reader, &tree, "", &mut ()) else {
            return Err(reader.finish().expect_err("a root that is no table was reported"));
        };
        let server = server::read_sections(&mut reader, &root);
        let (rate_limit, cookies) = floods::read_floods(&mut reader, &root, touch_disk);
        let tap = taps::read_taps(&mut reader, &root);
        let traces = traces::read_traces(&mut reader, &root, touch_disk);
        let security = security::read_security(&mut reader, &root);
        let transfer = transfer::read_transfer(&mut reader, &root);
        let keys = Keys::read(&mut reader, &root, server.tsig_legacy, touch_disk);
        let secondaries = Secondaries::read(&mut reader, &root, &keys, server.listen.tls.as_ref());
        let server_name = &server.name;
        let mut sections = Sections {
            server_name,
            listen: &server.listen.dns,
            transfer: &transfer,
            keys: &keys,
            secondaries,
            homes: Vec::new(),
            apis: Vec::new(),
            foreseen: None,
            member_rules: Vec::new(),
            automatic_ways: AutomaticWays::new(),
            touch_disk,
        };
        let found = zones::read_zones(&mut reader, &root, &mut sections);
        let zones::ZonesSection { mut zones, united, trees, mut inventories, services, declared: mut zones_at } = found;
        let (catalogs, catalogs_at) =
            catalogs::read_catalogs(&mut reader, root.entry("catalogs"), &zones_at, &mut sections);
        let patterns = catalogs.iter().map(|source| source.patterns.as_slice());
        sections.foreseen = root.entry("catalogs").map(|_| {
            let regions = regions::names(&root);
            let taken = zones_at.keys().chain(catalogs_at.keys()).cloned().chain(regions).collect();
            Arc::new(Foreseen::new(catalogs_at.len(), patterns, taken))
        });
        let mut regions = Vec::new();
        for (zone, entry) in &united {
            if let Some((members, region)) = united::read_united(&mut reader, zone, entry, &mut sections) {
                zones.extend(members);
                regions.push(region);
            }
        }
        let united_at = united.iter().filter_map(|(zone, _)| zones_at.remove_entry(zone)).collect();
        let homes = clients::read_clients(&mut reader, &root, [&zones_at, &united_at], &sections);
        sections.homes = homes.named;
        let (own, regions_at) = regions::read_regions(&mut reader, &root, &zones_at, &united_at, &mut sections);
        regions.extend(own);
        let transferred = zones.iter().filter(|plan| !plan.is_member()).map(|plan| plan.zone.clone());
        let from_trees = trees.iter().map(|plan| plan.zone().clone());
        let made = inventories.iter().flat_map(|plan| &plan.forward).map(|zone| zone.origin.clone());
        let probed =
            transferred.chain(from_trees).chain(made).chain(services.iter().map(|plan| plan.zone.clone())).collect();
        let probe = probe::read_probe(&mut reader, &root, probed, &regions);
        let (apis, placed): (Vec<ApiPlan>, Vec<Vec<listening::Placed>>) = sections.apis.into_iter().unzip();
        let places: Vec<listening::Placed> = server.places.iter().chain(placed.iter().flatten()).copied().collect();
        listening::refuse_shared_addresses(&mut reader, &places);
        for region in regions.iter().filter(|region| catalogs_at.contains_key(&region.origin)) {
            let message = format!("catalog {} is also an aggregation; give one of them another name", region.origin);
            reader.error(catalogs_at[&region.origin], message);
        }
        let (foreseen, member_rules) = (sections.foreseen, sections.member_rules);
        let automatic_ways = sections.automatic_ways;
        let mut secondaries = sections.secondaries;
        let others = [("a zone", &zones_at), ("an aggregation", &regions_at), ("one of a primary", &catalogs_at)];
        let catalog = secondaries.admit_catalog(&mut reader, others, server_name);
        let Secondaries { outgoing, targets, history, answers, .. } = secondaries;
        inventories.iter_mut().for_each(|plan| plan.set_secondaries(&targets));
        let has_secondaries = |region: &Name| secondaries::has_secondaries(&outgoing, &targets, region);
        region_steering::keep_fresh(&mut zones, &regions, &answers.plans);
        let drains =
            drains::read_drains(&mut reader, &root, (&regions, &member_rules, foreseen.as_deref()), has_secondaries);
        if server.client_subnet_from.is_empty() {
            answers.expect_subnets(&mut reader);
        }
        let (keys, secret_files) = keys.finish(&mut reader);
        if touch_disk {
            for (key, path, at) in &server.files {
                if let Err(error) = fs::File::open(path) {
                    let path = path.display();
                    let fault = format!("\"{key}\" {path} cannot be read: {error}; write the path of a PEM file");
                    reader.refuse_file::<()>(*at, fault, true);
                }
            }
        }
        let place = |at: usize| {
            let (line, column) = reader.source.locate(at);
            (reader.source.path_at(at).to_path_buf(), line, column)
        };
        let positions = places.iter().map(|(address, at)| (*address, place(*at)));
        let listen_positions = positions.collect();
        let named_paths = reader.named_paths();
        let warnings = reader.finish_placed()?;
        Ok(Config {
            path: path.to_path_buf(),
            server_name: server.name,
            listen: server.listen,
            client_subnet_from: server.client_subnet_from,
            rate_limit,
            cookies,
            tap,
            traces,
            hold_down: server.hold_down,
            memory: server.memory,
            keys,
            zones,
            catalogs,
            member_rules,
            automatic_ways,
            listed: Arc::default(),
            written: None,
            trees,
            inventories,
            apis,
            services,
            regions,
            drains,
            audit: transfer.audit,
            outgoing,
            answers: answers.plans,
            clients: Arc::new(homes.clients),
            targets,
            catalog,
            history,
            probe,
            state: server.state,
            metrics: server.metrics,
            control: server.control,
            log: server.log,
            security,
            named_paths,
            warnings,
            listen_positions,
            secret_files,
            client_files: homes.files,
        })
    }
}

/// The control socket that a file names, which may be wrong in other places: the way to a server that runs while its
/// file is being edited. None if the file cannot tell.
pub fn find_socket(path: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(path).ok()?;
    let mut source = Source::new(path, text.strip_prefix('\u{feff}').unwrap_or(&text));
    let (tree, complete) = tree::salvage(&source);
    let (mut tree, mut errors) = (tree?, Vec::new());
    gather(&mut source, &mut tree, &mut errors, &|name| std::env::var(name).ok());
    let complete = complete && errors.is_empty();
    match tree.get("control").and_then(|control| control.get("socket")) {
        Some(tree::Node { at, value: tree::Value::Text(socket) }) => {
            Some(source.path_at(*at).parent().unwrap_or_else(|| "".as_ref()).join(socket))
        }
        None if complete => Some(default_socket()),
        _ => None,
    }
}
