//! Requests and replies as the kernel sees them: many with one system call, where the system can do that.
//!
//! Linux takes and gives a batch with `recvmmsg` and `sendmmsg`; others, illumos among them, a message at a time, in
//! the same buffers and with the same loop around them.
//!
//! Invariants: what the kernel is given is null, or points into the same batch's boxes, which do not move; only what a
//! call has changed is set up again for the next. Cost: O(messages), no allocation after [`Batch::new`].

use crate::serve::answer::Response;
use crate::serve::prefetch;
use std::io;
use std::mem::offset_of;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::AsRawFd;
use wire::message::MAX_UDP_BYTES;

/// Requests taken at once.
const BATCH: usize = prefetch::MOST;
/// Requests longer than this are cut off, and answered with FORMERR if that cuts a record; no sane question comes near.
const REQUEST_BYTES: usize = 4096;
/// Room for one address in control messages, both families (`in6_pktinfo` is 20 octets, headers 16).
const CONTROL_BYTES: usize = 64;
/// Where the data of a control message begins: behind its header, as the system aligns it.
const CONTROL_DATA: usize =
    size_of::<libc::cmsghdr>().next_multiple_of(if cfg!(target_os = "linux") { size_of::<usize>() } else { 4 });

/// One request and its reply: buffers that the kernel fills and reads.
struct Slot {
    request: [u8; REQUEST_BYTES],
    /// Length of the request: sending writes over the system's own.
    asked: usize,
    reply: [u8; MAX_UDP_BYTES],
    /// Length of the reply; 0 for none.
    length: usize,
    peer: libc::sockaddr_storage,
    control: Control,
}

/// Control messages need the alignment of their header.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

impl Control {
    /// The destination address in the packet information of a datagram.
    fn destination(&self, is_ipv4: bool) -> IpAddr {
        fn read<const N: usize>(control: &[u8; CONTROL_BYTES], offset: usize) -> [u8; N] {
            std::array::from_fn(|index| control[CONTROL_DATA + offset + index])
        }
        match is_ipv4 {
            true => IpAddr::from(read::<4>(&self.0, offset_of!(libc::in_pktinfo, ipi_addr))),
            false => IpAddr::from(read::<16>(&self.0, offset_of!(libc::in6_pktinfo, ipi6_addr))),
        }
    }
}

/// A message as `recvmmsg` and `sendmmsg` want it, the same as `mmsghdr`, which other systems lack.
#[repr(C)]
struct Message {
    header: libc::msghdr,
    /// Octets received or sent.
    length: libc::c_uint,
}

/// The slots of a thread and the kernel's view of them.
pub struct Batch {
    slots: Box<[Slot; BATCH]>,
    vectors: Box<[libc::iovec; BATCH]>,
    messages: Box<[Message; BATCH]>,
    /// Messages in front that are not set up for receiving.
    changed: usize,
    /// True if requests come with their destination address.
    addressed: bool,
}

impl Batch {
    /// Buffers for a batch, with room for destination addresses if the socket wants them.
    pub fn new(addressed: bool) -> Batch {
        // SAFETY: all of these are plain C structures and byte arrays, for which zeroes are valid.
        let (slots, vectors, messages) =
            unsafe { (Box::new(std::mem::zeroed()), Box::new(std::mem::zeroed()), Box::new(std::mem::zeroed())) };
        Batch { slots, vectors, messages, changed: BATCH, addressed }
    }

    /// Waits for at least one request, if `wait`; takes all that are there, up to the batch's size.
    pub fn receive(&mut self, socket: &UdpSocket, wait: bool) -> io::Result<usize> {
        for index in 0..self.changed {
            let slot = &mut self.slots[index];
            self.vectors[index] = libc::iovec { iov_base: slot.request.as_mut_ptr().cast(), iov_len: REQUEST_BYTES };
            let header = &mut self.messages[index].header;
            header.msg_name = (&raw mut slot.peer).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &raw mut self.vectors[index];
            header.msg_iovlen = 1;
            if self.addressed {
                header.msg_control = slot.control.0.as_mut_ptr().cast();
                header.msg_controllen = CONTROL_BYTES as _;
            }
            header.msg_flags = 0;
        }
        let received = receive_batch(self, socket, wait);
        // What a call that failed has left is not known.
        self.changed = *received.as_ref().unwrap_or(&BATCH);
        received
    }

    /// A request that was received.
    pub fn request(&self, index: usize) -> &[u8] {
        &self.slots[index].request[..(self.messages[index].length as usize).min(REQUEST_BYTES)]
    }

    /// The sender of a request.
    pub fn peer(&self, index: usize) -> IpAddr {
        address_of(&self.slots[index].peer).ip()
    }

    /// The exchanges of a batch, after its replies have gone: sender, destination unless that is the socket's own, request,
    /// and reply, which is empty if there was none.
    pub fn exchanged(&self, received: usize) -> impl Iterator<Item = (SocketAddr, Option<IpAddr>, &[u8], &[u8])> {
        self.slots[..received].iter().map(|slot| {
            let peer = address_of(&slot.peer);
            let destination = self.addressed.then(|| slot.control.destination(peer.is_ipv4()));
            (peer, destination, &slot.request[..slot.asked], &slot.reply[..slot.length])
        })
    }

    /// Lets `answer` turn a request into a reply.
    pub fn exchange(&mut self, index: usize, answer: impl FnOnce(&[u8], IpAddr, &mut [u8]) -> Option<Response>) {
        let slot = &mut self.slots[index];
        slot.asked = (self.messages[index].length as usize).min(REQUEST_BYTES);
        let response = answer(&slot.request[..slot.asked], address_of(&slot.peer).ip(), &mut slot.reply);
        slot.length = response.map_or(0, |response| response.length);
    }

    /// Sends the replies to so many requests, packed to the front of the kernel's view.
    pub fn send(&mut self, socket: &UdpSocket, received: usize) {
        let mut count = 0;
        for index in 0..received {
            let slot = &mut self.slots[index];
            if slot.length == 0 {
                continue;
            }
            self.vectors[count] = libc::iovec { iov_base: slot.reply.as_mut_ptr().cast(), iov_len: slot.length };
            if count < index {
                self.messages[count].header = self.messages[index].header;
                self.messages[count].header.msg_iov = &raw mut self.vectors[count];
            }
            // The destination of the request becomes the source of the reply; a link-local one keeps its interface.
            if self.addressed {
                forget_interface(&mut self.messages[count].header);
            }
            count += 1;
        }
        let mut sent = 0;
        while sent < count {
            match send_batch(self, socket, sent..count) {
                Ok(done) => sent += done.max(1),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // One peer that cannot be reached must not keep replies from the others.
                Err(_) => sent += 1,
            }
        }
    }
}

//--- System calls ---

/// Receives into messages that are all set up; waits for the first, if `wait`, for none of the others.
#[cfg(target_os = "linux")]
fn receive_batch(batch: &mut Batch, socket: &UdpSocket, wait: bool) -> io::Result<usize> {
    let flags = if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
    let (file, messages) = (socket.as_raw_fd(), batch.messages.as_mut_ptr().cast());
    // SAFETY: by the batch's invariant every header is null or points into its boxes, which nobody else uses while it
    // is borrowed, and `Message` is `mmsghdr`. C libraries differ in the type of flags.
    let received = unsafe { libc::recvmmsg(file, messages, BATCH as libc::c_uint, flags as _, std::ptr::null_mut()) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

/// Sends messages; returns how many have gone.
#[cfg(target_os = "linux")]
fn send_batch(batch: &mut Batch, socket: &UdpSocket, which: Range<usize>) -> io::Result<usize> {
    let (file, messages) = (socket.as_raw_fd(), &mut batch.messages[which]);
    // SAFETY: as in `receive_batch`; the control messages are those that the kernel wrote.
    let sent = unsafe { libc::sendmmsg(file, messages.as_mut_ptr().cast(), messages.len() as libc::c_uint, 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

#[cfg(not(target_os = "linux"))]
use single::{receive_batch, send_batch};

/// Requests and replies with a system call for each message.
#[cfg(any(test, not(target_os = "linux")))]
mod single {
    use super::Batch;
    use std::io;
    use std::net::UdpSocket;
    use std::ops::Range;
    use std::os::fd::AsRawFd;

    /// Receives into messages that are all set up; waits for the first, if `wait`, for none of the others.
    pub fn receive_batch(batch: &mut Batch, socket: &UdpSocket, wait: bool) -> io::Result<usize> {
        let (file, messages) = (socket.as_raw_fd(), &mut batch.messages);
        for (index, message) in messages.iter_mut().enumerate() {
            let flags = if wait && index == 0 { 0 } else { libc::MSG_DONTWAIT };
            // SAFETY: by the batch's invariant the header is null or points into its boxes, which nobody else uses.
            match libc::c_uint::try_from(unsafe { libc::recvmsg(file, &raw mut message.header, flags) }) {
                Ok(length) => message.length = length,
                Err(_) if index > 0 => return Ok(index),
                Err(_) => return Err(io::Error::last_os_error()),
            }
        }
        Ok(messages.len())
    }

    /// Sends messages; returns how many have gone.
    pub fn send_batch(batch: &mut Batch, socket: &UdpSocket, which: Range<usize>) -> io::Result<usize> {
        let (file, messages) = (socket.as_raw_fd(), &batch.messages[which]);
        for (index, message) in messages.iter().enumerate() {
            // SAFETY: as in `receive_batch`.
            if unsafe { libc::sendmsg(file, &raw const message.header, 0) } < 0 {
                return if index > 0 { Ok(index) } else { Err(io::Error::last_os_error()) };
            }
        }
        Ok(messages.len())
    }
}

/// The socket address that the kernel wrote, of the family of one of our sockets.
fn address_of(peer: &libc::sockaddr_storage) -> SocketAddr {
    // SAFETY: the family tells which structure it is, and the storage has room and alignment for each.
    unsafe {
        let peer = std::ptr::from_ref(peer);
        match libc::c_int::from((*peer).ss_family) {
            libc::AF_INET6 => {
                let peer = &*peer.cast::<libc::sockaddr_in6>();
                (peer.sin6_addr.s6_addr, u16::from_be(peer.sin6_port)).into()
            }
            _ => {
                let peer = &*peer.cast::<libc::sockaddr_in>();
                (peer.sin_addr.s_addr.to_ne_bytes(), u16::from_be(peer.sin_port)).into()
            }
        }
    }
}

/// Clears the interface in packet information, so that routing decides how the reply leaves. A link-local peer's
/// address carries its interface itself.
fn forget_interface(header: &mut libc::msghdr) {
    // SAFETY: the kernel wrote these control messages; `CMSG_FIRSTHDR` checks that one is there.
    unsafe {
        let control = libc::CMSG_FIRSTHDR(header);
        if control.is_null() {
            return;
        }
        match ((*control).cmsg_level, (*control).cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                (*libc::CMSG_DATA(control).cast::<libc::in_pktinfo>()).ipi_ifindex = 0;
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                (*libc::CMSG_DATA(control).cast::<libc::in6_pktinfo>()).ipi6_ifindex = 0;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_is_as_good_as_a_batch() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        let mut batch = Batch::new(false);
        for single in [false, true] {
            for number in 0..3 {
                client.send(&[number; 20]).unwrap();
            }
            // Loopback delivers before `send` returns.
            let received = batch.receive(&server, false).unwrap();
            assert_eq!(received, 3);
            for index in 0..received {
                batch.exchange(index, |request, peer, out| {
                    assert_eq!((request, peer), (&[index as u8; 20][..], client.local_addr().unwrap().ip()));
                    out[..20].copy_from_slice(request);
                    // The one in the middle gets no reply.
                    (index != 1).then_some(Response { length: 20, rcode: 0, truncated: false })
                });
            }
            batch.send(&server, received);
            for number in [0, 2] {
                let mut reply = [0; 32];
                assert_eq!(client.recv(&mut reply).unwrap(), 20);
                assert_eq!(reply[..20], [number; 20]);
            }
            assert_eq!(batch.receive(&server, false).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            let none = single::receive_batch(&mut batch, &server, false);
            assert_eq!(none.unwrap_err().kind(), io::ErrorKind::WouldBlock);
            if !single {
                client.send(b"one").unwrap();
                client.send(b"two!").unwrap();
                let taken = single::receive_batch(&mut batch, &server, true).unwrap();
                assert_eq!((taken, batch.messages[0].length, batch.messages[1].length), (2, 3, 4));
                for (index, length) in [3, 4].into_iter().enumerate() {
                    batch.vectors[index].iov_len = length;
                }
                assert_eq!(single::send_batch(&mut batch, &server, 0..2).unwrap(), 2);
                let mut reply = [0; 32];
                assert_eq!([client.recv(&mut reply).unwrap(), client.recv(&mut reply).unwrap()], [3, 4]);
                batch.changed = BATCH;
            }
        }
    }
}
