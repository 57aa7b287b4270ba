//! Command line: verbs, their output, and exit codes.
//!
//! `run` and `demo` are handed to the caller. `check` works on the file alone, `register`, `discover`, `announce`
//! and a part of `cns` are programs of their own that need no server; all others are requests to the running server over its control
//! socket. Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 no server is running, 4 no such service.
//!
//! Results go to standard output, problems to standard error. A reader that closes the output early, such as `head`,
//! ends the program quietly.

mod addresses;
mod announce;
mod ask;
mod boot;
mod check;
mod cns;
pub mod complete;
mod discover;
mod drain;
mod fleet;
mod live;
mod paint;
mod register;
mod retransfer;
mod rollback;
mod security;
mod status;
mod top;
mod unused;

use crate::config::{self, Config};
use crate::control::server::{Remote, Server};
use crate::control::{CallError, Reply, Request};
use crate::demo::{Play, PrimaryPlan, WholePlan};
use crate::firstboot::BootOutcome;
use crate::log;
use crate::metrics::COMMIT;
use crate::terminal::Stream;
use crate::view::lookup::Asking;
use announce::AnnounceOptions;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use cns::CnsVerb;
use discover::DiscoverVerb;
use drain::{DrainOptions, Target};
use paint::Look;
use register::RegisterOptions;
use rollback::RollbackOptions;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use url::Url;
use wire::name::Name;
use wire::rr::TypeName;
use zeroize::Zeroizing;

/// Path of the configuration unless the command line names another.
pub const DEFAULT_CONFIG: &str = "/etc/aggregator/config.toml";

/// Environment variable that names the configuration where the command line does not.
const CONFIG_VARIABLE: &str = "AGGREGATOR_CONFIG_FILE";
/// Environment variables that name our certificate, and the authorities of servers, where the command line does not.
const IDENTITY_VARIABLE: &str = "AGGREGATOR_IDENTITY";
const CA_VARIABLE: &str = "AGGREGATOR_CA";

/// Exit code: the request failed.
const FAILED: u8 = 1;
/// Exit code: the command line is wrong.
const MISUSE: u8 = 2;
/// Exit code: no server is running.
const NOT_RUNNING: u8 = 3;
/// Exit code: the thing that was asked for does not exist.
const NOT_FOUND: u8 = 4;

/// Unites the CNS zones of several Triton datacenters into region zones and serves them over DNS.
#[derive(Debug, Parser)]
#[command(name = "aggregator", version, disable_help_subcommand = true, subcommand_required = true)]
#[command(after_help = "Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 no server is running, 4 no such service.")]
struct Arguments {
    /// The configuration file, TOML or the JSON of RFD 172 [default: $AGGREGATOR_CONFIG_FILE, or
    /// /etc/aggregator/config.toml]
    #[arg(short, long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The control socket [default: the one that the configuration file names]
    #[arg(short, long, global = true, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// Ask the server with this URL, which takes orders over HTTPS
    #[arg(long, global = true, value_name = "URL", conflicts_with = "socket")]
    remote: Option<Url>,
    /// Run the verb on these hosts: destinations of ssh, or URLs as of --remote; may be repeated
    #[arg(long, global = true, value_name = "HOST,…", value_delimiter = ',', conflicts_with = "remote")]
    on: Vec<String>,
    /// PEM file with our certificate and its key, for servers over HTTPS [default: $AGGREGATOR_IDENTITY]
    #[arg(long, global = true, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// PEM file with authorities that sign the certificates of servers [default: $AGGREGATOR_CA, or those of the system]
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

/// The verbs of the command line.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Run the server in the foreground
    Run,
    /// Find the configuration of a new instance in file, metadata or environment, wait for one, and run the server with
    /// it
    Boot(boot::BootArguments),
    /// Check the configuration and whether its addresses are free, and print what would run; or ask all name servers
    /// (--live)
    Check(check::CheckOptions),
    /// Have the server read its configuration again, without dropping a query
    Reload {
        /// Only tell what would change: zones, regions, their names and records
        #[arg(long)]
        dry_run: bool,
    },
    /// Show how all zones are, or one in detail
    Status(status::StatusOptions),
    /// Ask the primaries of all zones, or of one, for news now
    Refresh {
        /// A zone, or a region, which stands for its members [default: all zones]
        #[arg(add = complete::zones())]
        zone: Option<String>,
    },
    /// Transfer a zone in full, even if its serial is the same
    Retransfer {
        /// A zone that is transferred or read from ZooKeeper
        #[arg(add = complete::zones())]
        zone: String,
        /// Take what comes even if most of the zone is gone, or the serial is older than ours
        #[arg(long)]
        accept: bool,
    },
    /// Print all records of a zone as they are served
    Dump {
        /// A zone or region
        #[arg(add = complete::zones())]
        zone: String,
    },
    /// Print what changed in a zone with its last version, or from one version to another
    Diff {
        /// A zone or region
        #[arg(add = complete::zones())]
        zone: String,
        /// The serial of the older version [default: the one before the newer]
        #[arg(long, value_name = "SERIAL", value_parser = read_serial)]
        from: Option<u32>,
        /// The serial of the newer version [default: what is served]
        #[arg(long, value_name = "SERIAL", value_parser = read_serial)]
        to: Option<u32>,
        /// Compare what another server has of the zone, which is transferred from it, with what is served
        #[arg(long, value_name = "ADDRESS", value_parser = discover::read_server, conflicts_with_all = ["from", "to"])]
        with: Option<SocketAddr>,
        /// The key of the configuration that signs this transfer
        #[arg(long, value_name = "NAME", requires = "with")]
        key: Option<String>,
    },
    /// List the versions of all zones or of one, with time and cause, or every change of a name
    History {
        /// A zone or region, or any name in one [default: all zones and regions]
        #[arg(value_name = "ZONE|NAME", add = complete::zones())]
        name: Option<String>,
        /// The zone whose history is looked at [default: the one that answers for the name]
        #[arg(long, value_name = "ZONE", add = complete::zones())]
        zone: Option<String>,
        /// Number of versions or changes to list [default: 20]
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Take a region back to the contents of an earlier version, after showing what that changes, until it is released
    Rollback(RollbackOptions),
    /// Explain why a name answers as it does, for one type such as SRV or all that it has
    Lookup {
        /// A name of a region or zone
        #[arg(add = complete::zones())]
        name: String,
        /// A type of records, such as SRV [default: all that the name has]
        #[arg(value_name = "TYPE")]
        rtype: Option<TypeName>,
        /// Tell what one client gets: its address, or the subnet that a resolver tells of, such as 192.0.2.0/24
        #[arg(long, value_name = "ADDRESS[/LENGTH]", value_parser = read_client)]
        client: Option<String>,
    },
    /// Take a datacenter, or names of it, out of its regions, after showing what that would do
    Drain(DrainOptions),
    /// Take a datacenter that was drained back into its regions
    Undrain(Target),
    /// Watch regions, zones and queries on the terminal; q ends
    Top,
    /// Tell the secondaries of all zones, or of one, to look for changes now
    Notify {
        /// A zone or region [default: all]
        #[arg(add = complete::zones())]
        zone: Option<String>,
    },
    /// End the server, and wait until it has ended
    Stop,
    /// Run datacenters that exist only in this process, and watch their region
    Demo {
        /// End by itself after a time such as 20s, and fail if the region did not follow
        #[arg(long = "for", value_name = "DURATION", value_parser = read_duration)]
        limit: Option<Duration>,
        /// Be the primary of one such datacenter instead, for servers elsewhere: the name of its zone
        #[arg(long, value_name = "ZONE", value_parser = read_name, requires = "listen")]
        primary: Option<Name>,
        /// Address that the server, or this primary, listens on [default of the server: a free port of 127.0.0.1]
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen: Option<SocketAddr>,
        /// Address of the server's status page and metrics [default: a free port of 127.0.0.1]
        #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "primary")]
        metrics: Option<SocketAddr>,
        /// Folder for configuration, control socket and log [default: a temporary one]
        #[arg(long, value_name = "FOLDER", conflicts_with = "primary")]
        folder: Option<PathBuf>,
        /// Secondary that this primary notifies of changes; may be repeated
        #[arg(long, value_name = "ADDRESS:PORT", requires = "primary")]
        notify: Vec<SocketAddr>,
    },
    /// Register a service in ZooKeeper as Registrar does, with its configuration file
    Register(RegisterOptions),
    /// Find a service by DNS, and print its endpoints
    Discover {
        #[command(subcommand)]
        verb: DiscoverVerb,
    },
    /// Announce the configured OpenStack services on the local link (multicast DNS), until ended
    Announce(AnnounceOptions),
    /// Show the zones, peers and instances of inventories as CNS does, report instances up or down, convert the configuration of
    /// Triton's CNS, or check a service tag
    Cns {
        #[command(subcommand)]
        verb: CnsVerb,
    },
    /// Print the version
    Version,
}

/// The definition of the command line, for manual pages and completions.
pub fn command() -> clap::Command {
    unused::hide(Arguments::command())
}

/// Reads a duration as the configuration file has them.
fn read_duration(text: &str) -> Result<Duration, String> {
    config::parse_duration(text).ok_or_else(|| "write numbers with d, h, m, s or ms, such as 20s or 1h30m".to_string())
}

/// Reads the serial of a version.
fn read_serial(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("a serial is a number up to {}; see \"aggregator history ZONE\"", u32::MAX))
}

/// Reads the name of a zone.
fn read_name(text: &str) -> Result<Name, String> {
    Name::parse(text).map_err(|error| error.to_string())
}

/// Reads a client, which goes to the server as it is written.
fn read_client(text: &str) -> Result<String, String> {
    text.parse::<Asking>().map(|_| text.to_owned())
}

/// Carries out a command line; `run` and `demo` do what those verbs ask for.
pub fn run_main(
    arguments: impl IntoIterator<Item = OsString>,
    run: impl FnOnce(Config) -> ExitCode,
    demo: impl FnOnce(Play) -> ExitCode,
) -> ExitCode {
    complete::complete();
    let code = run_verb(arguments, run, demo).unwrap_or_else(|Failure { code, text }| {
        log::print(&text);
        ExitCode::from(code)
    });
    log::finish();
    code
}

/// Reason for which a verb ends without success, for standard error, with the exit code that goes with it.
struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// Adds where the server was looked for, if none is running and nobody has said where it is.
    fn with_hint(self) -> Failure {
        if self.code != NOT_RUNNING {
            return self;
        }
        let path = boot::find_file();
        let looked = if path.exists() { "that is the socket of" } else { "that is the default, for want of" };
        let text =
            format!("{}\n{looked} {}; name another file with -c FILE or {CONFIG_VARIABLE}", self.text, path.display());
        Failure { text, ..self }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        fail(error)
    }
}

/// What becomes of a verb. One that has said all that there is to say has an exit code even if it failed.
type Outcome = Result<ExitCode, Failure>;

/// Runs the verb of the command line.
fn run_verb(
    arguments: impl IntoIterator<Item = OsString>,
    run: impl FnOnce(Config) -> ExitCode,
    demo: impl FnOnce(Play) -> ExitCode,
) -> Outcome {
    let mut command = command();
    let line: Vec<OsString> = arguments.into_iter().collect();
    let parsed = command.try_get_matches_from_mut(&line);
    let parsed = parsed.and_then(|given| {
        let arguments = Arguments::from_arg_matches(&given).map_err(|error| error.format(&mut command))?;
        Ok((given, arguments))
    });
    let (given, arguments) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help goes to standard output, mistakes to standard error; whoever closed either does not read it.
            let _ = error.print();
            return Ok(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(FAILED)));
        }
    };
    if let Some(option) = unused::find(&given) {
        return Err(misuse(format!("--{option} means nothing to this verb; see aggregator --help")));
    }
    if !arguments.on.is_empty() {
        let verb = given.subcommand_name().unwrap_or_default();
        return fleet::run(&arguments.on, verb, &line, arguments.json);
    }
    let named = arguments.config.clone().or_else(|| std::env::var_os(CONFIG_VARIABLE).map(PathBuf::from));
    let is_guessed = arguments.socket.is_none() && arguments.remote.is_none() && named.is_none();
    carry_out(arguments, named, run, demo).map_err(|failure| if is_guessed { failure.with_hint() } else { failure })
}

/// Runs a verb; `named` is the configuration file that the command line or the environment names.
fn carry_out(
    arguments: Arguments,
    named: Option<PathBuf>,
    run: impl FnOnce(Config) -> ExitCode,
    demo: impl FnOnce(Play) -> ExitCode,
) -> Outcome {
    let Arguments { config, socket, json, verb, remote, identity, ca, .. } = arguments;
    let config_path = || named.clone().unwrap_or_else(|| DEFAULT_CONFIG.into());
    let present_path = || named.clone().unwrap_or_else(boot::find_file);
    let server = || match &remote {
        Some(url) => find_remote(url, identity, ca),
        None => find_socket(socket.as_deref(), named.as_deref()).map(Server::Here),
    };
    let request = match verb {
        Verb::Run => return Ok(run(Config::load(&config_path())?)),
        Verb::Boot(boot) => {
            return match boot::start(boot, config_path())? {
                BootOutcome::Serve(path) => Ok(run(Config::load(&path)?)),
                BootOutcome::Ended(code) => Ok(code),
            };
        }
        Verb::Check(options) => return check::check(&present_path(), &options, json),
        Verb::Demo { limit, primary: Some(zone), listen: Some(listen), notify, .. } => {
            return Ok(demo(Play::Primary(PrimaryPlan { zone, listen, notify, limit })));
        }
        Verb::Demo { limit, listen, metrics, folder, .. } => {
            return Ok(demo(Play::Whole(WholePlan { limit, listen, metrics, folder })));
        }
        Verb::Register(options) => return register::register(config.as_deref(), options, json),
        Verb::Discover { verb } => return discover::discover(verb, json),
        Verb::Announce(options) => return announce::run(&present_path(), &options),
        Verb::Version if json => return print_json(&json!({ "version": env!("CARGO_PKG_VERSION"), "commit": COMMIT })),
        Verb::Version => return print(&format!("aggregator {} ({COMMIT})", env!("CARGO_PKG_VERSION"))),
        Verb::Reload { dry_run: true } => Request::Forecast { file: None },
        Verb::Reload { dry_run: false } => {
            if let Some(refusal) = boot::look_at_metadata() {
                return print_reply(refusal, json, false);
            }
            Request::RELOAD
        }
        Verb::Status(options) => return status::status(&server()?, options, json),
        Verb::Refresh { zone } => Request::Refresh { zone },
        Verb::Retransfer { zone, accept } => return retransfer::retransfer(&server()?, zone, accept, json),
        Verb::Dump { zone } => Request::Dump { zone },
        Verb::Diff { zone, with: Some(with), key, .. } => Request::Compare { zone, with, key },
        Verb::Diff { zone, from, to, .. } => Request::Diff { zone, from, to },
        Verb::History { name, zone, limit } => Request::History { name, zone, limit },
        Verb::Rollback(options) => return rollback::rollback(&server()?, &options, json),
        Verb::Lookup { name, rtype, client } => {
            let request = Request::Lookup { name, rtype: rtype.map(|rtype| rtype.to_string()), client };
            let reply = call(&server()?, &request)?;
            // Whoever asks for a name that no zone here holds has mistaken the name or the server.
            let is_foreign = reply.data["rcode"] == "REFUSED";
            let shown = show_reply(&request, reply, json);
            return if is_foreign { shown.and(Ok(ExitCode::from(FAILED))) } else { shown };
        }
        Verb::Drain(options) => return drain::drain(&server()?, &options, json),
        Verb::Undrain(target) => target.undrain(),
        Verb::Top => return top::top(&server()?),
        Verb::Cns { verb } => match cns::request(verb, json) {
            Ok(request) => request,
            Err(outcome) => return outcome,
        },
        Verb::Notify { zone } => Request::Notify { zone },
        Verb::Stop => Request::Stop,
    };
    send(&server()?, &request, json)
}

/// The control socket: as given, else as the configuration file has it, else the default.
fn find_socket(socket: Option<&Path>, config: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(socket) = socket {
        return Ok(socket.to_path_buf());
    }
    let path = config.map_or_else(boot::find_file, Path::to_path_buf);
    match config::find_socket(&path) {
        Some(socket) => Ok(socket),
        // Who does not name a file need not have one.
        None if config.is_none() && !path.exists() => Ok(config::default_socket()),
        None => {
            let errors = Config::load(&path).err().map(|errors| format!("{errors}\n")).unwrap_or_default();
            Err(fail(format!("{errors}the configuration does not name a control socket; write --socket PATH")))
        }
    }
}

/// The server at a URL, with the certificates that options or the environment name.
fn find_remote(url: &Url, identity: Option<PathBuf>, ca: Option<PathBuf>) -> Result<Server, Failure> {
    let named = |option: Option<PathBuf>, variable| option.or_else(|| std::env::var_os(variable).map(PathBuf::from));
    let unreadable = |path: &Path, error| fail(format!("{} cannot be read: {error}", path.display()));
    let identity = named(identity, IDENTITY_VARIABLE).ok_or_else(|| {
        misuse(format!("a server over HTTPS wants our certificate; name a PEM file with it and its key: --identity FILE or {IDENTITY_VARIABLE}"))
    })?;
    let shown = Zeroizing::new(std::fs::read(&identity).map_err(|error| unreadable(&identity, error))?);
    let ca = named(ca, CA_VARIABLE);
    let ca = ca.map(|path| std::fs::read_to_string(&path).map_err(|error| unreadable(&path, error))).transpose()?;
    let remote = Remote::new(url, ca.as_deref(), &shown).map_err(|error| fail(format!("{url}: {error}")))?;
    Ok(Server::Afar(Box::new(remote)))
}

/// Sends a request to the server and prints the reply.
fn send(server: &Server, request: &Request, json: bool) -> Outcome {
    show_reply(request, call(server, request)?, json)
}

/// Prints the reply to a request, in colours where they help and are wanted.
fn show_reply(request: &Request, mut reply: Reply, json: bool) -> Outcome {
    let look = match request {
        Request::Status { .. } => Some(Look::States),
        Request::Diff { .. }
        | Request::Compare { .. }
        | Request::History { .. }
        | Request::Forecast { .. }
        | Request::Drain(_)
        | Request::DrainShare { .. }
        | Request::Rollback(_)
        | Request::Release { .. } => Some(Look::Difference),
        _ => None,
    };
    if let Some(look) = look.filter(|_| !json) {
        let stream = if reply.ok { Stream::Output } else { Stream::Errors };
        reply.text = paint::paint(&reply.text, look, stream).into_owned();
    }
    print_reply(reply, json, matches!(request, Request::Dump { .. }))
}

/// Sends a request to the server.
fn call(server: &Server, request: &Request) -> Result<Reply, Failure> {
    block_on(server.call(request))?.map_err(no_reply)
}

/// The failure of a request that got no reply.
fn no_reply(error: CallError) -> Failure {
    let code = if error.is_not_running() { NOT_RUNNING } else { FAILED };
    Failure { code, text: error.to_string() }
}

/// Does in a runtime of its own what has to wait.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, CallError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CallError::Start)?;
    Ok(runtime.block_on(work))
}

/// Prints the reply of the server.
fn print_reply(reply: Reply, json: bool, with_text: bool) -> Outcome {
    let Reply { ok, text, data } = reply;
    match (ok, json) {
        (true, false) => print(&text),
        (true, true) if data.is_null() => print_json(&json!({ "text": text })),
        (true, true) if with_text => {
            // A zone has no better form for programs than the text that every name server reads.
            let mut data = data;
            data["text"] = text.into();
            print_json(&data)
        }
        (true, true) => print_json(&data),
        (false, false) => Err(fail(text)),
        (false, true) => print_failed(&json!({ "error": text, "data": data })),
    }
}

//--- Output ---

/// Prints a value as indented JSON.
fn print_json(value: &Value) -> Outcome {
    print(&format!("{value:#}"))
}

/// Prints a value that tells of a failure.
fn print_failed(value: &Value) -> Outcome {
    print_json(value).and(Ok(ExitCode::from(FAILED)))
}

/// Prints text, ended by one line feed if there is any text.
fn print(text: &str) -> Outcome {
    let mut output = io::stdout().lock();
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let written = output.write_all(text.as_bytes()).and_then(|()| output.write_all(end.as_bytes()));
    match written.and_then(|()| output.flush()) {
        // Or the reader has seen enough.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(fail(format!("cannot write the output: {error}"))),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// An error in the command line.
fn misuse(text: impl ToString) -> Failure {
    Failure { code: MISUSE, text: text.to_string() }
}

/// A request that failed.
fn fail(text: impl ToString) -> Failure {
    Failure { code: FAILED, text: text.to_string() }
}
