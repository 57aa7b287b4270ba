//! Ends of streams that somebody holds and does nothing with: clients in the middle of something, and a log that is
//! read only when the test says so.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Makes a named pipe.
pub fn make_pipe(path: &Path) {
    let text = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path ends in a zero.
    assert_eq!(unsafe { libc::mkfifo(text.as_ptr(), 0o600) }, 0);
}

//--- Clients ---

/// Clients that connect, begin something, and say no more.
pub fn hang_clients(address: SocketAddr, begin: &[u8], count: usize) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(address).unwrap();
        // The server may have closed what is too much.
        let _ = stream.write_all(begin);
        stream
    };
    (0..count).map(connect).collect()
}

/// A client over TLS.
pub type TlsClient = StreamOwned<ClientConnection, TcpStream>;

/// Clients that do a handshake, begin a message, and say no more. The server may close what is too much, not all.
pub fn hang_tls_clients(address: SocketAddr, home: &Path, count: usize) -> Vec<TlsClient> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(home.join("cert.pem")).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(builder.with_root_certificates(roots).with_no_client_auth());
    let connect = |_| {
        let name = ServerName::try_from("ns.test").unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut client = StreamOwned::new(ClientConnection::new(config.clone(), name).unwrap(), stream);
        client.conn.complete_io(&mut client.sock).ok()?;
        client.write_all(&[0, 40, 1]).and_then(|()| client.flush()).ok()?;
        Some(client)
    };
    let clients: Vec<TlsClient> = (0..count).filter_map(connect).collect();
    assert!(!clients.is_empty(), "no handshake was done");
    clients
}

//--- The log ---

/// A line that fills a pipe.
const FILLER: &str = "filler of the pipe\n";

/// Whoever reads the log of a server, and reads only when asked to.
pub struct LogReader {
    pipe: File,
    heard: Vec<u8>,
}

impl LogReader {
    /// Puts a pipe in the place of a log that does not exist yet.
    pub fn start(log: &Path) -> LogReader {
        make_pipe(log);
        // With both ends open nobody waits for the other one, and nothing is lost when one comes or goes.
        let pipe = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(log).unwrap();
        LogReader { pipe, heard: Vec::new() }
    }

    /// Hangs: from now on the pipe takes nothing.
    pub fn hang(&mut self) {
        while self.pipe.write(FILLER.as_bytes()).is_ok_and(|count| count > 0) {}
        // Not even what is smaller than a line of ours.
        while self.pipe.write(b"\n").is_ok_and(|count| count > 0) {}
    }

    /// Returns true if the pipe takes nothing.
    pub fn hangs(&self) -> bool {
        let mut state = libc::pollfd { fd: self.pipe.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one pollfd that outlives the call.
        unsafe { libc::poll(&raw mut state, 1, 0) == 0 }
    }

    /// Reads what is there; everything read so far.
    pub fn read(&mut self) -> String {
        let _ = self.pipe.read_to_end(&mut self.heard);
        String::from_utf8_lossy(&self.heard).replace(FILLER, "")
    }
}
