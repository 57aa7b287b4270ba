//! The ceiling: a server that sends every datagram back, with the system calls that a fast server makes.
//!
//! Runs as a process of its own (`--echo ADDRESS THREADS`), so that it is measured like the others.
//!
//! Cost: two system calls a batch.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// Datagrams taken at once.
const BATCH: usize = 32;
/// Room for one.
const BYTES: usize = 2048;

/// Echoes for ever with so many threads.
pub fn run(address: SocketAddr, threads: usize) -> std::io::Result<()> {
    let socket = UdpSocket::bind(address)?;
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| serve(&socket));
        }
        serve(&socket);
    });
    Ok(())
}

/// Echoes for ever.
fn serve(socket: &UdpSocket) {
    let mut buffers = vec![[0u8; BYTES]; BATCH];
    // SAFETY: plain C structures, for which zeroes are valid.
    let (mut peers, mut vectors, mut messages): (
        [libc::sockaddr_storage; BATCH],
        [libc::iovec; BATCH],
        [libc::mmsghdr; BATCH],
    ) = unsafe { std::mem::zeroed() };
    loop {
        for (index, buffer) in buffers.iter_mut().enumerate() {
            vectors[index] = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: BYTES };
            let header = &mut messages[index].msg_hdr;
            header.msg_name = (&raw mut peers[index]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &raw mut vectors[index];
            header.msg_iovlen = 1;
        }
        let (file, flags) = (socket.as_raw_fd(), libc::MSG_WAITFORONE);
        // SAFETY: every header points into arrays that live on and are not touched during the calls.
        let received =
            unsafe { libc::recvmmsg(file, messages.as_mut_ptr(), BATCH as libc::c_uint, flags, std::ptr::null_mut()) };
        let Ok(received) = usize::try_from(received) else { continue };
        for index in 0..received {
            // A response, so that whoever looks at it takes it for an answer.
            buffers[index][2] |= 0x80;
            vectors[index].iov_len = messages[index].msg_len as usize;
        }
        // SAFETY: as above. What cannot be sent is lost, as on a network.
        unsafe { libc::sendmmsg(file, messages.as_mut_ptr(), received as libc::c_uint, 0) };
    }
}
