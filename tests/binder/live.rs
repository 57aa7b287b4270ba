//! The daemon over sockets, with a ZooKeeper that holds the tree.

use super::cases::{Nodes, Step, outcome_of};
use super::harness::{Aggregator, Client, Dname, Folder, Query, Znodes, ZooKeeper, rtype, wait_until};
use super::stand::Stand;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Lifetime of a session without ZooKeeper.
const SESSION: Duration = Duration::from_secs(2);
/// Longest time that a change may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest wait for an answer that should not come.
const SILENCE: Duration = Duration::from_millis(300);

/// A daemon of its own and a part of a ZooKeeper.
pub struct Live {
    zookeeper: Rc<RefCell<ZooKeeper>>,
    znodes: Option<Znodes>,
    daemon: Aggregator,
    client: Client,
    domain: String,
    chroot: String,
    /// Counts changes; the node that says so is the last one that is made.
    marks: u32,
}

impl Live {
    /// Writes a tree into a part of ZooKeeper, starts the daemon and waits until it serves the tree.
    pub fn start(
        folder: &Folder,
        zookeeper: &Rc<RefCell<ZooKeeper>>,
        number: u32,
        domain: &str,
        nodes: &Nodes,
        refuses: bool,
    ) -> Live {
        let address = zookeeper.borrow().address();
        let znodes = Znodes::connect(&[address]);
        let chroot = format!("/stand-{number}");
        let paths: Vec<(String, &[u8])> =
            nodes.iter().map(|(path, data)| (format!("{chroot}{path}"), &data[..])).collect();
        let root = (chroot.as_str(), &b""[..]);
        znodes.create_all([root].into_iter().chain(paths.iter().map(|(path, data)| (path.as_str(), *data))));
        // Random cases ask as fast as they are answered, over loopback.
        let plan = format!(
            "[rate_limit]\nexempt = [\"127.0.0.0/8\"]\n[zones.\"{domain}\"]\nzookeeper = \"{address}\"\nchroot = \"{chroot}\"\nbinder_compat = {refuses}\n\
             reverse = [\"in-addr.arpa\", \"ip6.arpa\"]\nsession_timeout = \"{}s\"\n",
            SESSION.as_secs()
        );
        let daemon = Aggregator::start_in(&folder.subfolder(&format!("aggregator-{number}")), &plan);
        let client = Client::new(daemon.address());
        let (zookeeper, domain) = (zookeeper.clone(), domain.to_string());
        let mut live = Live { zookeeper, znodes: Some(znodes), daemon, client, domain, chroot, marks: 0 };
        live.mark();
        live
    }

    /// Returns the address that DNS is served at.
    pub fn address(&self) -> SocketAddr {
        self.daemon.address()
    }

    /// The client of a ZooKeeper that runs.
    fn znodes(&self) -> &Znodes {
        self.znodes.as_ref().expect("ZooKeeper runs")
    }

    /// The whole path of a captured one.
    fn path(&self, path: &str) -> String {
        format!("{}{path}", self.chroot)
    }

    /// Makes a node or replaces its data.
    fn set(&self, path: &str, data: &[u8]) {
        match self.znodes().get(path) {
            Some(_) => self.znodes().set(path, data),
            None => self.znodes().create(path, data),
        }
    }

    /// Makes one more change, of a node that nobody asks for, and waits until it is served.
    fn mark(&mut self) {
        self.marks += 1;
        let mut labels: Vec<&str> = self.domain.split('.').collect();
        labels.reverse();
        let path = self.path(&format!("/{}/our-mark", labels.join("/")));
        let data = format!(r#"{{"type":"host","host":{{"address":"192.0.2.1","ttl":{}}}}}"#, self.marks);
        self.set(&path, data.as_bytes());
        let query = Query::new(&Dname::parse(&format!("our-mark.{}.", self.domain)), rtype::A);
        let (client, marks) = (&mut self.client, self.marks);
        wait_until("the change is served", PATIENCE, || {
            let answer = client.ask(&query).ok()?;
            answer.answer.iter().any(|record| record.ttl == marks).then_some(())
        });
    }
}

impl Stand for Live {
    fn ask(&mut self, request: &[u8], tcp: bool, due: bool) -> Option<Vec<u8>> {
        if tcp {
            return Some(self.client.exchange_tcp(request).expect("an answer over TCP"));
        }
        let mut client = Client::new(self.daemon.address()).with_deadline(if due { PATIENCE } else { SILENCE });
        client.send_udp(request).expect("a datagram is sent");
        let answer = client.receive_udp(u16::from_be_bytes(*request.first_chunk()?)).ok();
        assert!(due || answer.is_none(), "an answer that is not due: {:?}", outcome_of(answer.as_deref()));
        answer
    }

    fn make(&mut self, step: &Step) {
        match step {
            Step::Ask(_) => return,
            Step::Set { path, data } => self.set(&self.path(path), data),
            Step::Delete { path } => self.znodes().delete_tree(&self.path(path)),
            Step::Replace { path, data } => {
                self.znodes().delete(&self.path(path));
                self.znodes().create(&self.path(path), data);
            }
            Step::StopZooKeeper => {
                self.znodes = None;
                return self.zookeeper.borrow_mut().stop();
            }
            Step::StartZooKeeper => {
                self.zookeeper.borrow_mut().restart();
                self.znodes = Some(Znodes::connect(&[self.zookeeper.borrow().address()]));
            }
            // The daemon ends when it is started again; what matters is that it begins without ZooKeeper.
            Step::StopServer => return,
            Step::StartServer => return self.daemon.kill_and_restart(|| ()),
            // What is asked next is whether the tree is served when the session is long gone.
            Step::Wait => return std::thread::sleep(2 * SESSION),
        }
        self.mark();
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }

    fn has_cookies(&self) -> bool {
        true
    }

    fn is_alive(&mut self) -> bool {
        self.daemon.verb(&["status"]).code == 0
    }
}
