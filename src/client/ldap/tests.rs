//! The LDAP client against servers of a few lines, which send octets that no library has written.

use super::*;
use std::io::{Read, Write};
use std::net::TcpListener;

/// A bind that succeeded, and the end of a search, as answers to the requests 1 and 2.
const BOUND: &[u8] = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00";
const DONE: &[u8] = b"\x30\x0c\x02\x01\x02\x65\x07\x0a\x01\x00\x04\x00\x04\x00";
/// The entry `uid=a` with `Login: acme`.
const ENTRY: &[u8] = b"\x30\x20\x02\x01\x02\x64\x1b\x04\x05uid=a\x30\x12\x30\x10\x04\x05Login\x31\x07\x04\x05acme\x21";

/// A server that gives each connection some octets for each request, in turn, and returns the requests.
fn serve(connections: &[&[&[u8]]]) -> (LdapClient, std::thread::JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections: Vec<Vec<Vec<u8>>> =
        connections.iter().map(|answers| answers.iter().map(|answer| answer.to_vec()).collect()).collect();
    let server = std::thread::spawn(move || {
        let mut requests = Vec::new();
        for answers in connections {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in answers {
                let mut head = [0; 2];
                stream.read_exact(&mut head).unwrap();
                let mut request = head.to_vec();
                request.resize(2 + usize::from(head[1]), 0);
                stream.read_exact(&mut request[2..]).unwrap();
                requests.push(request);
                // A client that has heard enough goes.
                let _ = stream.write_all(&answer);
            }
        }
        requests
    });
    (LdapClient::new("127.0.0.1", port, None, "cn=root", "secret").unwrap(), server)
}

fn search(value: &str) -> Search<'static> {
    let filter = Filter::Equality("uuid".to_owned(), value.to_owned());
    Search { base: "ou=users, o=smartdc", filter, attributes: &["login", "flag"], most: 2 }
}

#[tokio::test]
async fn a_search_is_what_the_standard_says_and_names_of_attributes_have_no_case() {
    let found: Vec<u8> = [ENTRY, DONE].concat();
    let (client, server) = serve(&[&[BOUND, &found]]);
    let found = client.search(&search("a*)(b\\")).await.unwrap();
    let entry = Entry { dn: "uid=a".to_owned(), values: vec![Some("acme!".to_owned()), None] };
    assert_eq!(found, Found { entries: vec![entry], is_cut: false });
    drop(client);
    let requests = server.join().unwrap();
    assert_eq!(requests[0], b"\x30\x19\x02\x01\x01\x60\x14\x02\x01\x03\x04\x07cn=root\x80\x06secret");
    // What a filter in text would have to escape are octets like others here (RFC 4511, section 4.5.1.7).
    let filter = b"\xa3\x0e\x04\x04uuid\x04\x06a*)(b\\";
    assert!(requests[1].windows(filter.len()).any(|octets| octets == filter), "{:02x?}", requests[1]);
    // One level, no aliases, two entries, ten seconds.
    let head = b"\x04\x13ou=users, o=smartdc\x0a\x01\x01\x0a\x01\x00\x02\x01\x02\x02\x01\x0a\x01\x01\x00";
    assert!(requests[1].windows(head.len()).any(|octets| octets == head), "{:02x?}", requests[1]);
}

#[tokio::test]
async fn a_closed_connection_is_replaced_and_the_end_of_a_search_says_what_it_has() {
    let third: Vec<u8> = DONE.iter().enumerate().map(|(at, octet)| if at == 9 { 32 } else { *octet }).collect();
    let cut: Vec<u8> = DONE.iter().enumerate().map(|(at, octet)| if at == 9 { 4 } else { *octet }).collect();
    let cut: Vec<u8> = [ENTRY, ENTRY, ENTRY, &cut].concat();
    let (client, server) = serve(&[&[BOUND, &third], &[BOUND, &cut]]);
    assert_eq!(client.search(&search("a")).await.unwrap(), Found::default(), "there is no such base");
    let found = client.search(&search("a")).await.unwrap();
    assert_eq!((found.entries.len(), found.is_cut), (2, true));
    drop(client);
    assert_eq!(server.join().unwrap().len(), 4);
}

#[tokio::test]
async fn what_is_no_answer_is_an_error() {
    let code = |message: &[u8], code: u8| {
        let mut message = message.to_vec();
        message[9] = code;
        message
    };
    let refused = code(BOUND, 49);
    let (client, _server) = serve(&[&[&refused]]);
    assert_eq!(client.search(&search("a")).await.unwrap_err().label(), "credentials");
    assert_eq!(client.search(&search("a")).await.unwrap_err().label(), "credentials", "it rests");
    // A notice of disconnection, another request's answer, a text, a bad entry, a deep one, a huge one, an error, an end.
    let notice = b"\x30\x24\x02\x01\x00\x78\x1f\x0a\x01\x34\x04\x00\x04\x00\x8a\x161.3.6.1.4.1.1466.20036".as_slice();
    let other: Vec<u8> = DONE.iter().enumerate().map(|(at, octet)| if at == 4 { 9 } else { *octet }).collect();
    let deep = (0..60).fold(vec![4, 0], |inner: Vec<u8>, level| [&[0x30, 2 + 2 * level], &inner[..]].concat());
    let busy = code(DONE, 51);
    let text = [b"HTTP/1.1 400 Bad Request\r\nServer: ".as_slice(), &[b'x'; 80]].concat();
    let cases: [(&[u8], &str); 8] = [
        (notice, "disconnected"),
        (&other, "malformed"),
        (&text, "malformed"),
        (b"\x30\x07\x02\x01\x02\x64\x02\x04\x00", "malformed"),
        (&deep, "malformed"),
        (b"\x30\x84\x7f\xff\xff\xff", "disconnected"),
        (&busy, "status"),
        (b"", "disconnected"),
    ];
    for (answer, label) in cases {
        let (client, server) = serve(&[&[BOUND, answer]]);
        let error = client.search(&search("a")).await.unwrap_err();
        assert_eq!(error.label(), label, "{error} of {answer:02x?}");
        drop(client);
        server.join().unwrap();
    }
}

#[tokio::test]
async fn long_values_and_long_messages_are_refused() {
    let long = |length: u16| {
        let [high, low] = length.to_be_bytes();
        let value = [&[0x04, 0x82, high, low][..], &vec![b'x'; length.into()]].concat();
        let wrap = |tag: u8, inner: &[u8]| {
            let [high, low] = u16::try_from(inner.len()).unwrap().to_be_bytes();
            [&[tag, 0x82, high, low][..], inner].concat()
        };
        let attribute = wrap(0x30, &[b"\x04\x05login".as_slice(), &wrap(0x31, &value)].concat());
        let entry = wrap(0x64, &[b"\x04\x05uid=a".as_slice(), &wrap(0x30, &attribute)].concat());
        [&wrap(0x30, &[b"\x02\x01\x02".as_slice(), &entry].concat())[..], DONE].concat()
    };
    let (client, _server) = serve(&[&[BOUND, &long(4096)]]);
    assert_eq!(client.search(&search("a")).await.unwrap().entries.len(), 1);
    let (client, _server) = serve(&[&[BOUND, &long(4097)]]);
    assert_eq!(client.search(&search("a")).await.unwrap_err().label(), "malformed");
    // More than any message has, of one that never ends.
    let endless = [b"\x30\x84\x7f\xff\xff\xff".as_slice(), &vec![0; 3 << 20]].concat();
    let (client, _server) = serve(&[&[BOUND, &endless]]);
    assert_eq!(client.search(&search("a")).await.unwrap_err().label(), "malformed");
}

#[tokio::test]
async fn attempts_that_fail_are_told_until_the_next_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let client = LdapClient::new("127.0.0.1", port, None, "cn=root", "secret").unwrap();
    assert_eq!(client.search(&search("a")).await.unwrap_err().label(), "unreachable");
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    listener.set_nonblocking(true).unwrap();
    assert_eq!(client.search(&search("a")).await.unwrap_err().label(), "unreachable");
    assert!(listener.accept().is_err(), "it was not asked");
    let pauses: Vec<u64> = {
        let (mut rest, start, mut pauses) = (Rest::default(), Instant::now(), Vec::new());
        let mut at = start;
        for _ in 0..6 {
            rest.note(&LdapError::Connect(String::new()), at);
            rest.note(&LdapError::Connect(String::new()), start - Duration::from_secs(1));
            let (_, failed, until) = rest.last.clone().unwrap();
            pauses.push((until - failed).as_secs());
            at = until;
        }
        pauses
    };
    assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
}
