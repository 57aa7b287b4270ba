//! Datacenters that exist only in this process, so that the program can be tried without one.
//!
//! The datacenters are those of [`sim`]: a model of instances each, and a primary that serves it as CNS does.
//!
//! [`run`] puts three of them in front of a real server, changes them all the time, asks the server over DNS, for clients
//! in each of them, too, and shows what comes of it. Everything is on 127.0.0.1, on free ports, and in a temporary folder,
//! unless the command line says otherwise; no rights are needed. One of
//! the three can also run by itself, for a server in another process or on another machine.
//!
//! Nothing below this layer knows of it. Cost: O(records) for every change of a model, since zones are replaced
//! whole.

mod alone;
mod client;
mod folder;
mod frame;
mod ledger;
mod script;
mod site;
mod stage;
mod steering;
mod view;

pub use alone::PrimaryPlan;

use crate::config::{Config, ConfigErrors};
use crate::daemon::{self, Daemon, RunError};
use crate::log::{self, LogError, LogHandle};
use crate::systemd::Manager;
use client::Client;
use folder::Folder;
use script::SITES;
use site::{ACCOUNT, SERVICE, Site, SiteError};
use stage::{PATIENCE, STALE_AFTER, Stage, StageError};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use view::View;
use wire::name::{Name, NameError};

/// The region; its datacenters have a number behind the first label.
const REGION: &str = "us-west";
/// The domain of all CNS names.
const DOMAIN: &str = "cns.example.com";
/// Number of attempts with freshly chosen ports; another process may take one before the server does.
const ATTEMPTS: usize = 5;

/// Error: the demonstration cannot start, or has ended early.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("cannot start: {0}")]
    Start(io::Error),
    #[error("cannot make a temporary folder: {0}")]
    Folder(io::Error),
    #[error("cannot use the folder: {0}")]
    Enter(io::Error),
    #[error("cannot find a free port on 127.0.0.1: {0}")]
    Port(io::Error),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Site(#[from] SiteError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Stage(#[from] StageError),
}

/// Addresses that the server listens on.
struct Ports {
    dns: SocketAddr,
    metrics: SocketAddr,
}

/// All datacenters and their server. What is not said is chosen: free ports of 127.0.0.1, and a temporary folder.
#[derive(Clone, Debug, Default)]
pub struct WholePlan {
    /// Time to play; without it, until the process is asked to end.
    pub limit: Option<Duration>,
    pub listen: Option<SocketAddr>,
    /// Address of the status page and the metrics.
    pub metrics: Option<SocketAddr>,
    /// A folder that is there already: a container has no other one that it may write into.
    pub folder: Option<PathBuf>,
}

/// Demonstration to show.
#[derive(Clone, Debug)]
pub enum Play {
    Whole(WholePlan),
    /// One datacenter alone.
    Primary(PrimaryPlan),
}

/// Shows the demonstration until Ctrl-C, or until the time is over; fails if the region or its clients did not follow the
/// changes.
pub fn run(play: Play) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let result = runtime.map_err(DemoError::Start).and_then(|runtime| match play {
        Play::Whole(plan) => runtime.block_on(show(plan)),
        Play::Primary(plan) => runtime.block_on(alone::play(plan)).map(|()| true),
    });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Whoever reads has seen enough.
        Err(DemoError::Stage(StageError::Output(error))) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Shows the demonstration; whether all went well.
async fn show(plan: WholePlan) -> Result<bool, DemoError> {
    let end = daemon::end_signal().map_err(DemoError::Start)?;
    let mut folder = match &plan.folder {
        Some(folder) => Folder::enter(folder.clone()).map_err(DemoError::Enter)?,
        None => Folder::create().map_err(DemoError::Folder)?,
    };
    let log = log::start_in_file("info", folder.create_log().map_err(DemoError::Folder)?)?;
    let mut view = View::open();
    let mut sites = Vec::new();
    for number in 1..=SITES as u8 {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        sites.push(Site::start(Name::parse(&format!("{REGION}-{number}.{DOMAIN}"))?, number - 1, address).await?);
    }
    let (daemon, text, ports) = start_daemon(&folder, &sites, &plan, log).await?;
    let output = StageError::Output;
    view.print(&format!("The configuration, {}:\n\n{text}", folder.config().display())).map_err(output)?;
    view.print_above(&describe_ways(&folder, &ports, sites[0].client().0)).map_err(output)?;
    let client = Client::new(reachable(ports.dns));
    let mut stage = Stage::new(sites, Name::parse(&format!("{REGION}.{DOMAIN}"))?, client, plan.limit, PATIENCE)?;
    let mut result = None;
    let play = async {
        tokio::select! {
            played = stage.play(&mut view) => result = Some(played),
            () = end => result = Some(Ok(())),
        }
    };
    drop(daemon.run_until(play).await);
    if !matches!(&result, Some(Ok(()) | Err(StageError::Output(_))) | None) {
        folder.keep();
        view.print(&describe_log(&folder)).map_err(output)?;
    }
    let was_stopped = result.is_none();
    result.transpose()?;
    if was_stopped {
        view.print("The server was stopped.").map_err(output)?;
    }
    let ledger = &stage.ledger;
    view.print(&format!("\n{}", ledger.summary().join("\n"))).map_err(output)?;
    if ledger.is_clean() {
        return Ok(true);
    }
    folder.keep();
    drop(view);
    eprintln!("The region, or a client, did not follow every change:");
    ledger.faults.iter().for_each(|fault| eprintln!("  {fault}"));
    eprintln!("{}", describe_log(&folder));
    Ok(false)
}

/// Starts the server that aggregates the datacenters; with its configuration and where it listens.
async fn start_daemon(
    folder: &Folder,
    sites: &[Site],
    plan: &WholePlan,
    log: LogHandle,
) -> Result<(Daemon, String, Ports), DemoError> {
    let mut attempts = ATTEMPTS;
    loop {
        let free = choose_ports().map_err(DemoError::Port)?;
        let ports = Ports { dns: plan.listen.unwrap_or(free.dns), metrics: plan.metrics.unwrap_or(free.metrics) };
        let text = write_config(sites, &ports);
        folder.write_config(&text).map_err(DemoError::Folder)?;
        let config = Config::load(&folder.config())?;
        attempts -= 1;
        match Daemon::start(config, Some(log.clone()), None, Manager::default()).await {
            Ok(daemon) => return Ok((daemon, text, ports)),
            Err(RunError::Listen(_)) if attempts > 0 => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Finds ports that are free now, so that the configuration can name them.
fn choose_ports() -> io::Result<Ports> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut attempts = ATTEMPTS;
    loop {
        attempts -= 1;
        let udp = UdpSocket::bind(any)?;
        let dns = udp.local_addr()?;
        match (TcpListener::bind(dns), TcpListener::bind(any)?.local_addr()?) {
            (Ok(_), metrics) if metrics != dns => return Ok(Ports { dns, metrics }),
            (Err(error), _) if attempts == 0 => return Err(error),
            _ => {}
        }
    }
}

/// Address at which this machine reaches a listener: the loopback where it listens on all addresses.
fn reachable(listener: SocketAddr) -> SocketAddr {
    let address = match listener.ip() {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    };
    SocketAddr::new(address, listener.port())
}

/// The configuration: the two tables of RFD 172 with the clients of each datacenter, and below them what a server without
/// rights needs. The server believes the demonstration whose client asks, since everything asks from 127.0.0.1.
fn write_config(sites: &[Site], ports: &Ports) -> String {
    let name = |site: &Site| frame::without_root(&site.origin().to_string());
    let zones = sites.iter().map(|site| format!("    \"{}\": \"{}\"", name(site), site.address()));
    let clients = sites.iter().map(|site| format!("    \"{}\": [\"{}\"]", name(site), site.clients()));
    let members = sites.iter().map(|site| format!("        \"{}\"", name(site)));
    let (zones, clients) = (zones.collect::<Vec<_>>().join(",\n"), clients.collect::<Vec<_>>().join(",\n"));
    let (members, stale) = (members.collect::<Vec<_>>().join(",\n"), STALE_AFTER.as_secs());
    let Ports { dns, metrics } = ports;
    format!(
        r#"{{
  "zones": {{
{zones}
  }},
  "clients": {{
{clients}
  }},
  "aggregations": {{
    "{REGION}.{DOMAIN}": {{
      "members": [
{members}
      ],
      "steering": {{ "prefer": "nearest", "stale_after": "{stale}s" }}
    }}
  }},
  "server": {{ "name": "ns1.example.com", "listen": ["{dns}"], "client_subnet_from": ["127.0.0.1"] }},
  "metrics": {{ "listen": ["{metrics}"] }},
  "control": {{ "socket": "control.sock" }},
  "state": {{ "folder": false }},
  "transfer": {{
    "refresh_min": "1s", "refresh_max": "1s",
    "retry_min": "1s", "retry_max": "1s", "connect_timeout": "1s"
  }}
}}
"#
    )
}

/// Describes the commands to try in another terminal.
fn describe_ways(folder: &Folder, ports: &Ports, client: IpAddr) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "aggregator".into());
    let name = format!("{SERVICE}.svc.{ACCOUNT}.{REGION}.{DOMAIN}");
    let (dns, metrics, socket) = (reachable(ports.dns), reachable(ports.metrics), folder.socket());
    let (server, port, socket) = (dns.ip(), dns.port(), socket.display());
    format!(
        "In another terminal:\n  \
         tail -f {}\n  \
         curl http://{metrics}/metrics\n  \
         {program} status -s {socket}\n  \
         dig @{server} -p {port} {name} A\n  \
         dig @{server} -p {port} {name} SRV\n  \
         dig @{server} -p {port} {name} +subnet={client}\n",
        folder.log().display()
    )
}

/// Names the log of the server, after a failure.
fn describe_log(folder: &Folder) -> String {
    format!("The log of the server is {}", folder.log().display())
}
