//! A client of ZooKeeper that makes, changes and reads nodes, for tests that are not asynchronous.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::runtime::Runtime;
use zookeeper_client::{Acls, Client, CreateMode, Error, Stat};

/// A session of its own, which ends with the value.
pub struct Znodes {
    // Dropped before the runtime, so that the session is closed by it.
    client: Client,
    runtime: Runtime,
}

impl Znodes {
    /// Connects to one of these servers.
    pub fn connect(servers: &[SocketAddr]) -> Znodes {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("runtime");
        let servers: Vec<String> = servers.iter().map(SocketAddr::to_string).collect();
        let connector = Client::connector().with_session_timeout(Duration::from_secs(60));
        let client = runtime.block_on(connector.connect(&servers.join(","))).expect("a ZooKeeper that serves");
        Znodes { client, runtime }
    }

    /// Repeats an operation that was cut off by the loss of the connection, until it is decided.
    fn decide<T>(&self, operation: impl AsyncFn(&Client) -> Result<T, Error>) -> Result<T, Error> {
        self.runtime.block_on(async {
            loop {
                match operation(&self.client).await {
                    Err(Error::ConnectionLoss) => tokio::time::sleep(Duration::from_millis(20)).await,
                    decided => return decided,
                }
            }
        })
    }

    /// Makes a persistent node, and its missing parents without payload.
    pub fn create(&self, path: &str, data: &[u8]) {
        self.create_as(path, data, CreateMode::Persistent);
    }

    /// Makes a node that ends with this client.
    pub fn create_ephemeral(&self, path: &str, data: &[u8]) {
        self.create_as(path, data, CreateMode::Ephemeral);
    }

    /// Makes a persistent node that only a user with this name and password may read or change.
    pub fn create_for(&self, user: &str, path: &str, data: &[u8]) {
        let made = self.runtime.block_on(async {
            self.client.auth("digest", user.as_bytes()).await?;
            let options = CreateMode::Persistent.with_acls(Acls::creator_all());
            self.client.create(path, data, &options).await
        });
        made.unwrap_or_else(|error| panic!("cannot create {path}: {error}"));
    }

    /// Makes a node, and its missing parents without payload.
    fn create_as(&self, path: &str, data: &[u8], mode: CreateMode) {
        let options = mode.with_acls(Acls::anyone_all());
        match self.decide(async |client| client.create(path, data, &options).await) {
            Ok(_) => {}
            Err(Error::NoNode) => {
                let parent = &path[..path.rfind('/').expect("an absolute path")];
                let parents = CreateMode::Persistent.with_acls(Acls::anyone_all());
                self.decide(async |client| client.mkdir(parent, &parents).await).expect("parents are made");
                self.create_as(path, data, mode);
            }
            Err(error) => panic!("cannot create {path}: {error}"),
        }
    }

    /// Makes many persistent nodes, a hundred to a request. Their parents exist, or stand before them in the list.
    pub fn create_all<'a>(&self, nodes: impl IntoIterator<Item = (&'a str, &'a [u8])>) {
        let nodes: Vec<(&str, &[u8])> = nodes.into_iter().collect();
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        for batch in nodes.chunks(100) {
            let mut writer = self.client.new_multi_writer();
            for (path, data) in batch {
                writer.add_create(path, data, &options).expect("a good path");
            }
            self.runtime.block_on(writer.commit()).expect("nodes are made");
        }
    }

    /// Replaces the payloads of many nodes, a hundred to a request.
    pub fn set_all<'a>(&self, nodes: impl IntoIterator<Item = (&'a str, &'a [u8])>) {
        let nodes: Vec<(&str, &[u8])> = nodes.into_iter().collect();
        for batch in nodes.chunks(100) {
            let mut writer = self.client.new_multi_writer();
            for (path, data) in batch {
                writer.add_set_data(path, data, None).expect("a good path");
            }
            self.runtime.block_on(writer.commit()).expect("nodes are set");
        }
    }

    /// Removes nodes in one transaction; those below others stand before them.
    pub fn delete_all<'a>(&self, paths: impl IntoIterator<Item = &'a str>) {
        let mut writer = self.client.new_multi_writer();
        for path in paths {
            writer.add_delete(path, None).expect("a good path");
        }
        self.runtime.block_on(writer.commit()).expect("nodes are removed");
    }

    /// Replaces a node's payload.
    pub fn set(&self, path: &str, data: &[u8]) {
        let done = self.decide(async |client| client.set_data(path, data, None).await);
        done.unwrap_or_else(|error| panic!("cannot set {path}: {error}"));
    }

    /// Removes a node that has no children.
    pub fn delete(&self, path: &str) {
        let done = self.decide(async |client| client.delete(path, None).await);
        done.unwrap_or_else(|error| panic!("cannot delete {path}: {error}"));
    }

    /// Removes a node and everything below it.
    pub fn delete_tree(&self, path: &str) {
        for child in self.children(path) {
            self.delete_tree(&format!("{}/{child}", path.trim_end_matches('/')));
        }
        if path != "/" {
            self.delete(path);
        }
    }

    /// Payload and facts of a node; none if there is no such node.
    pub fn get(&self, path: &str) -> Option<(Vec<u8>, Stat)> {
        match self.decide(async |client| client.get_data(path).await) {
            Ok(found) => Some(found),
            Err(Error::NoNode) => None,
            Err(error) => panic!("cannot read {path}: {error}"),
        }
    }

    /// Names of a node's children, sorted; none if there is no such node.
    pub fn children(&self, path: &str) -> Vec<String> {
        match self.decide(async |client| client.list_children(path).await) {
            Ok(mut names) => {
                names.sort();
                names
            }
            Err(Error::NoNode) => Vec::new(),
            Err(error) => panic!("cannot list {path}: {error}"),
        }
    }

    /// All nodes at and below a path with their payloads, without those that ZooKeeper itself makes.
    pub fn tree(&self, path: &str) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut open = vec![path.to_string()];
        while let Some(path) = open.pop() {
            let Some((data, _)) = self.get(&path) else { continue };
            let prefix = path.trim_end_matches('/');
            open.extend(self.children(&path).iter().map(|child| format!("{prefix}/{child}")));
            open.retain(|path| path != "/zookeeper");
            found.insert(path, data);
        }
        found
    }

    /// Id of the session.
    pub fn session(&self) -> i64 {
        self.client.session_id().0
    }
}
