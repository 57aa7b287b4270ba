//! ZooKeeper as Debian packages it: one server, or an ensemble, on loopback.
//!
//! Started as `java` with the package's classes, never as the package's service. A server that has ended can be started
//! again with the data it had. Writes need not reach the disk, because no test switches the machine off.

use super::{Folder, Port, Process, wait_until, write_file};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The package's classes; what they need is named inside.
const CLASSES: &str = "/usr/share/java/zookeeper.jar";
/// Longest time that a JVM may take to serve on a busy machine.
const START: Duration = Duration::from_secs(60);
/// Sessions may last from two to two hundred ticks.
const TICK: Duration = Duration::from_millis(500);
/// Number that ZooKeeper mixes into the passwords of sessions (`ZooKeeperServer.java`).
const SESSION_SECRET: i64 = 0xB341_5C00;

/// A server, alone or a member of an ensemble.
pub struct ZooKeeper {
    home: PathBuf,
    address: SocketAddr,
    /// Further options for Java.
    options: Vec<String>,
    process: Option<Process>,
}

impl ZooKeeper {
    /// Starts a server of its own and waits until it serves. Sessions may last from one second on.
    pub fn start(folder: &Folder) -> ZooKeeper {
        ZooKeeper::start_with(folder, &[])
    }

    /// Starts a server with further options for Java.
    pub fn start_with(folder: &Folder, options: &[&str]) -> ZooKeeper {
        let mut port = Port::reserve();
        let mut server = ZooKeeper::prepare(folder, port.address(), "");
        server.options = options.iter().map(|option| (*option).to_owned()).collect();
        port.release();
        server.launch();
        server.wait_serving();
        server
    }

    /// Writes the configuration of a server.
    fn prepare(folder: &Folder, address: SocketAddr, peers: &str) -> ZooKeeper {
        let home = folder.subfolder(&format!("zookeeper-{}", address.port()));
        let (ip, port, tick) = (address.ip(), address.port(), TICK.as_millis());
        let maximum = 200 * tick;
        write_file(
            &home.join("zoo.cfg"),
            &format!(
                "tickTime={tick}\nmaxSessionTimeout={maximum}\ninitLimit=20\nsyncLimit=10\ndataDir={}\n\
                 clientPortAddress={ip}\nclientPort={port}\nmaxClientCnxns=0\nadmin.enableServer=false\n\
                 4lw.commands.whitelist=*\nforceSync=no\npreAllocSize=1024\n{peers}",
                home.join("data").display()
            ),
        );
        std::fs::create_dir_all(home.join("data")).expect("data folder");
        write_file(
            &home.join("log4j.properties"),
            "log4j.rootLogger=WARN, CONSOLE\nlog4j.appender.CONSOLE=org.apache.log4j.ConsoleAppender\n\
             log4j.appender.CONSOLE.layout=org.apache.log4j.PatternLayout\n\
             log4j.appender.CONSOLE.layout.ConversionPattern=%d{ISO8601} %p %c{1} %m%n\n",
        );
        ZooKeeper { home, address, options: Vec::new(), process: None }
    }

    /// Starts the process.
    fn launch(&mut self) {
        assert!(Path::new(CLASSES).is_file(), "ZooKeeper is not installed; run `make test`, which installs it");
        let mut command = Command::new("java");
        command
            .args(["-Xms16m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"])
            .args(&self.options)
            .arg(format!("-Djava.io.tmpdir={}", self.home.display()))
            .arg(format!("-Dlog4j.configuration=file:{}", self.home.join("log4j.properties").display()))
            .args(["-cp", &format!("{}:{CLASSES}", self.home.display())])
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(self.home.join("zoo.cfg"))
            .current_dir(&self.home);
        // Each start has a log of its own, so that the end of the one before remains.
        let log = (0..).map(|run| self.home.join(format!("log.{run}"))).find(|path| !path.exists());
        self.process = Some(Process::start("java", &mut command, &log.expect("a free number")));
    }

    /// Waits until clients are served.
    pub fn wait_serving(&mut self) {
        let address = self.address;
        let process = self.process.as_mut().expect("a server that was started");
        process.wait_ready("serves as ZooKeeper", START, || mode_of(address));
    }

    /// Returns the address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the answer of the server to one of its four-letter commands; none if it does not answer.
    pub fn command(&self, word: &str) -> Option<String> {
        command(self.address, word)
    }

    /// Ends the server at once, as a crash does.
    pub fn kill(&mut self) {
        self.process.as_mut().expect("a running server").kill();
        self.process = None;
    }

    /// Ends the server politely.
    pub fn stop(&mut self) {
        let process = self.process.as_mut().expect("a running server");
        assert!(process.stop(Duration::from_secs(20)).is_some(), "ZooKeeper does not stop");
        self.process = None;
    }

    /// Returns the folder of the server's data.
    pub fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    /// Removes all data of a server that has ended.
    pub fn wipe(&self) {
        assert!(self.process.is_none(), "a server that has ended");
        std::fs::remove_dir_all(self.data()).expect("data that can be removed");
        std::fs::create_dir(self.data()).expect("data folder");
    }

    /// Starts a server again that has ended, with its data, and waits until it serves.
    pub fn restart(&mut self) {
        assert!(self.process.is_none(), "a server that has ended");
        self.launch();
        self.wait_serving();
    }

    /// Id of the process.
    pub fn id(&self) -> u32 {
        self.process.as_ref().expect("a running server").id()
    }

    /// Stops the server's clock: connections stay open and nobody answers. `resume` lets it run on.
    pub fn pause(&self) {
        self.process.as_ref().expect("a running server").signal(libc::SIGSTOP);
    }

    /// Lets a paused server run on.
    pub fn resume(&self) {
        self.process.as_ref().expect("a running server").signal(libc::SIGCONT);
    }

    /// Ids of the sessions that have a connection to this server, our own included.
    pub fn sessions(&self) -> Vec<i64> {
        let text = self.command("cons").expect("a server that answers");
        let ids = text.split("sid=0x").skip(1).filter_map(|rest| rest.split([',', ')']).next());
        ids.map(|digits| u64::from_str_radix(digits, 16).expect("a session's id") as i64).collect()
    }

    /// Ends somebody's session as the server does when it expires: what it made is gone, and its client is told so.
    pub fn expire(&self, session: i64) {
        let mut attempts = 0;
        wait_until("the session is gone", START, || {
            attempts += 1;
            // The client takes its session back as soon as it can, and may be faster: then this is done again.
            let known = self.close_session(session).unwrap_or(true);
            assert!(known || attempts > 1, "the session is not known to the server");
            (!known).then_some(())
        });
    }

    /// Takes over a session and closes it; false if there is no such session. It may be taken back before it is closed.
    fn close_session(&self, session: i64) -> io::Result<bool> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut hello = Vec::new();
        hello.extend(0i32.to_be_bytes()); // protocol version
        hello.extend(0i64.to_be_bytes()); // newest zxid seen
        hello.extend(4_000i32.to_be_bytes()); // session timeout
        hello.extend(session.to_be_bytes());
        hello.extend(16i32.to_be_bytes());
        hello.extend(session_password(session));
        hello.push(0); // not content with reading only
        let mut close = Vec::new();
        close.extend(1i32.to_be_bytes()); // number of the request
        close.extend((-11i32).to_be_bytes()); // end of the session
        let mut requests = frame(&hello);
        requests.extend(frame(&close));
        stream.write_all(&requests)?;
        let welcome = read_record(&mut stream)?;
        // The server closes the connection when it is done.
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest)?;
        Ok(welcome.get(8..16) == Some(&session.to_be_bytes()))
    }
}

/// Three servers, or more, of which a majority must run.
pub struct Ensemble {
    members: Vec<ZooKeeper>,
}

impl Ensemble {
    /// Starts the members and waits until all of them serve.
    pub fn start(folder: &Folder, size: usize) -> Ensemble {
        let mut ports: Vec<[Port; 3]> =
            (0..size).map(|_| [Port::reserve(), Port::reserve(), Port::reserve()]).collect();
        let mut peers = String::new();
        for (index, [_, quorum, election]) in ports.iter().enumerate() {
            let (id, quorum, election) = (index + 1, quorum.address(), election.address().port());
            peers.push_str(&format!("server.{id}={quorum}:{election}\n"));
        }
        let mut members = Vec::new();
        for (index, [client, ..]) in ports.iter().enumerate() {
            let member = ZooKeeper::prepare(folder, client.address(), &peers);
            write_file(&member.home.join("data").join("myid"), &format!("{}\n", index + 1));
            members.push(member);
        }
        ports.iter_mut().flatten().for_each(|port| {
            port.release();
        });
        members.iter_mut().for_each(ZooKeeper::launch);
        members.iter_mut().for_each(ZooKeeper::wait_serving);
        Ensemble { members }
    }

    /// Returns one of the members.
    pub fn member(&mut self, index: usize) -> &mut ZooKeeper {
        &mut self.members[index]
    }

    /// Returns the address of each member for clients.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(ZooKeeper::address).collect()
    }

    /// The member that leads; waits while there is none.
    pub fn leader(&self) -> usize {
        wait_until("a member leads", START, || {
            self.members.iter().position(|member| {
                member.process.is_some() && mode_of(member.address).is_some_and(|mode| mode == "leader")
            })
        })
    }
}

/// Returns the mode of a server, "standalone", "leader" or "follower"; none while it does not serve.
fn mode_of(address: SocketAddr) -> Option<String> {
    let text = command(address, "srvr")?;
    text.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_string)
}

/// Sends a four-letter command.
fn command(address: SocketAddr, word: &str) -> Option<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("socket option");
    stream.write_all(word.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// A record of the client protocol, its length in front.
fn frame(record: &[u8]) -> Vec<u8> {
    let mut frame = (record.len() as u32).to_be_bytes().to_vec();
    frame.extend(record);
    frame
}

/// Reads a record of the client protocol.
fn read_record(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut record = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut record)?;
    Ok(record)
}

/// The password of a session: the first octets of Java's generator, seeded with the session's id.
fn session_password(session: i64) -> [u8; 16] {
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;
    let mut seed = ((session ^ SESSION_SECRET) as u64 ^ MULTIPLIER) & MASK;
    let mut password = [0; 16];
    for word in password.chunks_mut(4) {
        seed = seed.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        word.copy_from_slice(&((seed >> 16) as u32).to_le_bytes());
    }
    password
}
