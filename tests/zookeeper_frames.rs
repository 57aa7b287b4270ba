//! Members of an ensemble that send more than they should, or more than ZooKeeper does by default: memory stays
//! bounded, what was served is served on, and a large tree is read.

mod harness;
// Made for other tests, which use all of it.
#[allow(dead_code)]
#[path = "zookeeper/site.rs"]
mod site;

use harness::*;
use site::*;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

const MIB: usize = 1 << 20;
/// Memory that a daemon with a small tree may take beyond what it took before it met a liar.
const ROOM: usize = 96 * MIB;
/// No liar sends more than this to one connection: without a limit that is enough to be seen.
const FLOOD: usize = 512 * MIB;
/// The operations of the protocol that a tree is read with.
const EXISTS: i32 = 3;
const GET_DATA: i32 = 4;
const SYNC: i32 = 9;
const GET_CHILDREN: i32 = 12;
const MANY: i32 = 22;
const SET_WATCHES: i32 = 101;

/// Kinds of lies of a member that is asked for the tree.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// A reply of this length, sent as fast as it is taken.
    Flood(u32),
    /// A reply of this length, of which a little is sent now and then.
    Trickle(u32),
    /// A list that says it has so many children, and ends there.
    Children(i32),
    /// The same among the answers to many questions.
    ChildrenAmongMany(i32),
    /// So many answers to each of many questions.
    Answers(usize),
    /// Nodes below nodes for ever, each with a payload of this size.
    Endless(usize),
}

/// A member that begins sessions as ZooKeeper does, and then lies.
struct Liar {
    end: Arc<AtomicBool>,
    /// Sessions that came so far as to be lied to.
    lies: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Liar {
    /// Takes the place of a server that has ended.
    fn start(address: SocketAddr, lie: Lie) -> Liar {
        let listener = wait("the port is free", || TcpListener::bind(address).ok());
        listener.set_nonblocking(true).unwrap();
        let (end, lies) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stop, told) = (end.clone(), lies.clone());
        let thread = std::thread::spawn(move || {
            let mut sessions = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let Ok((stream, _)) = listener.accept() else {
                    sleep(Duration::from_millis(5));
                    continue;
                };
                let (stop, told) = (stop.clone(), told.clone());
                sessions.push(std::thread::spawn(move || {
                    // Whoever is lied to hangs up.
                    let _ = serve(stream, lie, &stop, &told);
                }));
            }
            sessions.into_iter().for_each(|session| session.join().expect("a session that ends"));
        });
        Liar { end, lies, thread: Some(thread) }
    }

    /// Returns the number of its lies.
    fn count(&self) -> usize {
        self.lies.load(Ordering::Relaxed)
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))));
    }
}

/// One session: what keeps it is answered as ZooKeeper answers it, and what is asked of the tree with the lie.
fn serve(mut stream: TcpStream, lie: Lie, stop: &AtomicBool, told: &AtomicUsize) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.set_write_timeout(Some(Duration::from_secs(2)))?;
    let hello = read_frame(&mut stream)?;
    let mut welcome = vec![0; 4];
    welcome.extend(&hello[12..16]); // the session timeout that was asked for
    welcome.extend(7i64.to_be_bytes());
    welcome.extend(16i32.to_be_bytes());
    welcome.extend([1; 16]);
    welcome.push(0); // not for reading only
    write_frame(&mut stream, &welcome)?;
    while !stop.load(Ordering::Relaxed) {
        let request = read_frame(&mut stream)?;
        let operation = i32::from_be_bytes(request[4..8].try_into().expect("four octets"));
        let mut reply = request[..4].to_vec();
        reply.extend(9i64.to_be_bytes());
        reply.extend(0i32.to_be_bytes());
        match (operation, lie) {
            // The agent asks for its watches first.
            (GET_DATA | SET_WATCHES, Lie::Flood(length) | Lie::Trickle(length)) => {
                told.fetch_add(1, Ordering::Relaxed);
                stream.write_all(&length.to_be_bytes())?;
                stream.write_all(&reply)?;
                let (piece, pause) = match lie {
                    Lie::Trickle(_) => (4096, Duration::from_millis(50)),
                    _ => (MIB, Duration::ZERO),
                };
                let mut sent = reply.len();
                while sent < FLOOD.min(length as usize) && !stop.load(Ordering::Relaxed) {
                    stream.write_all(&vec![0; piece])?;
                    sent += piece;
                    sleep(pause);
                }
                // Left open, as by somebody who has more to say.
                while !stop.load(Ordering::Relaxed) && stream.read(&mut [0; 64])? > 0 {}
                return Ok(());
            }
            (GET_DATA, Lie::Children(_)) => {
                reply.extend((-1i32).to_be_bytes());
                reply.extend(stat(1));
            }
            (GET_DATA, Lie::Endless(size)) => {
                told.fetch_add(1, Ordering::Relaxed);
                add_node(&mut reply, size);
            }
            (GET_DATA, _) => add_node(&mut reply, 0),
            (MANY, _) => {
                told.fetch_add(1, Ordering::Relaxed);
                for question in questions(&request[8..]) {
                    match (question, lie) {
                        (GET_DATA, Lie::Endless(size)) => {
                            add_header(&mut reply, question);
                            add_node(&mut reply, size);
                        }
                        (GET_DATA, Lie::Answers(count)) => (0..count).for_each(|_| {
                            add_header(&mut reply, -1);
                            reply.extend((-101i32).to_be_bytes()); // no such node
                        }),
                        (GET_DATA, _) => {
                            add_header(&mut reply, question);
                            add_node(&mut reply, 0);
                        }
                        (_, Lie::ChildrenAmongMany(count)) => {
                            add_header(&mut reply, question);
                            reply.extend(count.to_be_bytes());
                        }
                        _ => {
                            add_header(&mut reply, question);
                            add_children(&mut reply);
                        }
                    }
                }
                reply.extend([255, 255, 255, 255, 1, 255, 255, 255, 255]);
            }
            (GET_CHILDREN, Lie::Children(count)) => {
                told.fetch_add(1, Ordering::Relaxed);
                reply.extend(count.to_be_bytes());
                reply.resize(reply.len() + 100, 0);
            }
            (GET_CHILDREN, _) => {
                add_children(&mut reply);
                reply.extend(stat(16));
            }
            (SYNC, _) => reply.extend(&request[8..]),
            (EXISTS, _) => reply.extend(stat(1)),
            _ => {}
        }
        write_frame(&mut stream, &reply)?;
    }
    Ok(())
}

/// Adds a node with a payload of this size and sixteen children.
fn add_node(reply: &mut Vec<u8>, size: usize) {
    reply.extend((size as u32).to_be_bytes());
    reply.resize(reply.len() + size, b' ');
    reply.extend(stat(16));
}

/// Adds the names of sixteen children.
fn add_children(reply: &mut Vec<u8>) {
    reply.extend(16i32.to_be_bytes());
    (0..16u8).for_each(|child| reply.extend([0, 0, 0, 1, b'a' + child]));
}

/// Adds what an answer among many begins with.
fn add_header(reply: &mut Vec<u8>, operation: i32) {
    reply.extend(operation.to_be_bytes());
    reply.extend([0; 5]);
}

/// Returns the operations of the questions in a request: each has a header, a path, and whether it is watched.
fn questions(mut request: &[u8]) -> Vec<i32> {
    let mut found = Vec::new();
    while request[4] == 0 {
        let number = |at: usize| i32::from_be_bytes(request[at..at + 4].try_into().expect("four octets"));
        found.push(number(0));
        request = &request[9 + 4 + number(9) as usize + 1..];
    }
    found
}

/// Returns the status of a node with so many children.
fn stat(children: i32) -> Vec<u8> {
    let mut stat = Vec::new();
    [9i64, 9, 0, 0].iter().for_each(|number| stat.extend(number.to_be_bytes()));
    [0i32; 3].iter().for_each(|number| stat.extend(number.to_be_bytes()));
    stat.extend(0i64.to_be_bytes());
    [0, children].iter().for_each(|number| stat.extend(number.to_be_bytes()));
    stat.extend(9i64.to_be_bytes());
    stat
}

/// Reads a frame of the protocol.
fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

/// Writes a frame of the protocol.
fn write_frame(stream: &mut TcpStream, frame: &[u8]) -> io::Result<()> {
    stream.write_all(&[&(frame.len() as u32).to_be_bytes(), frame].concat())
}

/// The most memory that a process has ever held.
fn peak(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a process that runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

/// The losses of a reason.
fn losses(daemon: &Aggregator, reason: &str) -> f64 {
    let series = format!("zookeeper_session_losses_total{{reason=\"{reason}\",zone=\"{ZONE}\"}}");
    metric(daemon, &series).unwrap_or_else(|| panic!("{series} is missing"))
}

/// A daemon that serves a tree, with further limits of transfers and of the tree, whose server becomes a liar; what the
/// daemon says of it.
fn meet(lie: Lie, limits: [&str; 2], reason: &str) -> String {
    let folder = Folder::new();
    let mut server = ZooKeeper::start(&folder);
    let nodes = Znodes::connect(&[server.address()]);
    make_service(&nodes, ROOT, 20);
    let [transfer, tree] = limits;
    let plan = plan(&[server.address()], tree).replace("[transfer]", &format!("[transfer]\n{transfer}"));
    let daemon = Aggregator::start(&folder, &plan);
    let mut resolver = Resolver::new(&daemon);
    resolver.wait_served();
    wait_session(&daemon, "live");
    let before = peak(daemon.id());
    drop(nodes);
    server.kill();
    let liar = Liar::start(server.address(), lie);
    let error = wait(&format!("{lie:?} ends a session as {reason}"), || {
        assert_eq!(resolver.addresses("web").len(), 20, "{lie:?}");
        let error = status(&daemon)["source"]["error"].as_str().map(str::to_owned);
        error.filter(|_| losses(&daemon, reason) > 1.0)
    });
    let (lies, took) = (liar.count(), peak(daemon.id()).saturating_sub(before));
    assert!(took < ROOM, "{lie:?}: {} MiB more after {lies} sessions", took / MIB);
    // Each session is begun later than the one before.
    assert!(lies < 1000, "{lie:?}: {lies} lies");
    drop(liar);
    // Who tells the truth is believed again.
    server.restart();
    wait_session(&daemon, "live");
    let nodes = Znodes::connect(&[server.address()]);
    nodes.create(&format!("{ROOT}/web/new"), &host(address(70)));
    resolver.wait_address("new.web", address(70));
    error
}

#[test]
fn a_reply_of_two_gibibytes_is_not_waited_for() {
    let error = meet(Lie::Flood(0x7fff_ffff), ["", ""], "reply-too-long");
    assert!(error.contains("2147483647 octets") && error.contains("max_reply"), "{error}");
}

#[test]
fn a_reply_that_is_a_little_too_long_is_refused() {
    let error = meet(Lie::Flood(33 << 20), ["", ""], "reply-too-long");
    assert!(error.contains("34603008 octets"), "{error}");
    let error = meet(Lie::Flood(1 << 20), ["", "max_reply = \"64KiB\""], "reply-too-long");
    assert!(error.contains("1048576 octets, and 65536 are allowed"), "{error}");
}

#[test]
fn a_length_that_is_none_is_refused() {
    assert!(meet(Lie::Flood(0x8000_0000), ["", ""], "malformed").contains("length"));
}

#[test]
fn a_long_reply_that_comes_slowly_takes_the_memory_of_what_has_come() {
    meet(Lie::Trickle(20 << 20), ["", ""], "stalled");
}

#[test]
fn more_children_than_the_reply_holds_are_not_prepared_for() {
    assert!(meet(Lie::Children(i32::MAX), ["", ""], "malformed").contains("children"));
    assert!(meet(Lie::ChildrenAmongMany(i32::MAX), ["", ""], "malformed").contains("children"));
}

#[test]
fn more_answers_than_questions_are_not_taken() {
    assert!(meet(Lie::Answers(2), ["", ""], "malformed").contains("was not asked"));
    assert!(meet(Lie::Answers(100_000), ["", ""], "malformed").contains("was not asked"));
}

#[test]
fn nodes_that_are_too_large_together_are_read_alone() {
    let folder = Folder::new();
    // Nodes may be larger than by default.
    let server = ZooKeeper::start_with(&folder, &["-Djute.maxbuffer=4194304"]);
    let nodes = Znodes::connect(&[server.address()]);
    make_service(&nodes, ROOT, 8);
    for number in 0..8 {
        let payload = [host(address(number)), vec![b' '; 3 * MIB / 2]].concat();
        nodes.set(&format!("{ROOT}/web/h{number}"), &payload);
    }
    let daemon = Aggregator::start(&folder, &plan(&[server.address()], "max_reply = \"4MiB\""));
    let mut resolver = Resolver::new(&daemon);
    wait("all are served", || (resolver.addresses("web").len() == 8).then_some(()));
    assert_eq!(losses(&daemon, "reply-too-long"), 1.0);
}

#[test]
fn a_tree_without_end_is_left() {
    let error = meet(Lie::Endless(64 << 10), ["max_bytes = \"16MiB\"", ""], "tree-too-large");
    assert!(error.contains("max_bytes"), "{error}");
}

#[test]
fn a_node_with_very_many_children_is_read() {
    const CHILDREN: usize = 10_000;
    let folder = Folder::new();
    // The list of them takes more than ZooKeeper sends by default.
    let server = ZooKeeper::start_with(&folder, &["-Djute.maxbuffer=67108864"]);
    let nodes = Znodes::connect(&[server.address()]);
    nodes.create(&format!("{ROOT}/web"), &service());
    let name = |number: usize| format!("{}-{number}", ["many"; 24].join("-"));
    let made: Vec<String> = (0..CHILDREN).map(|number| format!("{ROOT}/many/{}", name(number))).collect();
    nodes.create(&format!("{ROOT}/many"), b"");
    nodes.create_all(made.iter().map(|path| (&path[..], &b""[..])));
    nodes.create(&format!("{ROOT}/web/h1"), &host(address(1)));
    assert!(made.iter().map(|path| path.len() - ROOT.len()).sum::<usize>() > MIB);
    for watches in ["recursive", "each"] {
        let more = format!("watches = \"{watches}\"");
        let daemon = Aggregator::start_in(&folder.subfolder(watches), &plan(&[server.address()], &more));
        let mut resolver = Resolver::new(&daemon);
        wait_until("the zone is served", Duration::from_secs(120), || resolver.serial(ZONE));
        assert_eq!(status(&daemon)["source"]["nodes"], CHILDREN as u64 + 4);
        assert_eq!(resolver.addresses("h1.web"), [address(1)]);
        assert_eq!(losses(&daemon, "reply-too-long"), 0.0);
    }
}

#[test]
fn an_agent_takes_no_more_than_the_server() {
    let folder = Folder::new();
    let mut server = ZooKeeper::start(&folder);
    let nodes = Znodes::connect(&[server.address()]);
    let zookeeper = Registrar::zookeeper(&[server.address()], Duration::from_secs(20));
    let registration = r#""registration":{"domain":"emy-10.example.com","type":"load_balancer"}"#;
    let mut agent = Registrar::start(&folder, "n1", &format!(r#"{{"adminIp":"10.0.0.1",{registration},{zookeeper}}}"#));
    let node = format!("{ROOT}/n1");
    wait("the agent has registered", || nodes.get(&node));
    let before = peak(agent.id());
    drop(nodes);
    server.kill();
    let liar = Liar::start(server.address(), Lie::Flood(0x7fff_ffff));
    wait("the agent has been lied to, and knows", || {
        let told = agent.log_text().matches("announced a reply of 2147483647 octets").count();
        (told >= 2 && liar.count() >= 2).then_some(())
    });
    let took = peak(agent.id()).saturating_sub(before);
    assert!(took < ROOM, "{} MiB more", took / MIB);
    agent.assert_running();
    drop(liar);
    server.restart();
    let nodes = Znodes::connect(&[server.address()]);
    wait("the agent is there again", || nodes.get(&node));
}
