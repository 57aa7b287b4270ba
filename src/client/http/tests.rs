//! The HTTP client against servers of a few lines.

use super::*;
use std::io::{Read, Write};
use std::net::TcpListener;

const TIME: Duration = Duration::from_secs(60);

/// A server that gives one text for each connection, in turn, and returns the requests.
fn serve(answers: &[&str]) -> (Url, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("http://{}/base/", listener.local_addr().unwrap())).unwrap();
    let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
    let server = std::thread::spawn(move || {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut octet = [0];
                stream.read_exact(&mut octet).unwrap();
                request.push(octet[0]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            requests.push(String::from_utf8(request).unwrap());
        }
        requests
    });
    (url, server)
}

fn get(path: &str) -> Get<'_> {
    Get { path, etag: None, token: None, time: TIME, octets: 10 }
}

fn client(url: &Url) -> HttpClient {
    HttpClient::new(Endpoint::new(url, None).unwrap())
}

#[tokio::test]
async fn a_closed_connection_is_replaced_and_fields_are_sent() {
    let first = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nETag: \"a\"\r\n\r\nab";
    let second = "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n";
    let (url, server) = serve(&[first, second]);
    let client = client(&url);
    let answer = client.get(get("/x?y=1")).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.etag.as_deref(), &answer.body[..]), (200, Some("\"a\""), &b"ab"[..]));
    let again = Get { etag: Some("\"a\""), token: Some("secret"), ..get("/x") };
    assert_eq!(client.get(again).await.unwrap().status, StatusCode::NOT_MODIFIED);
    let requests = server.join().unwrap();
    assert!(requests[0].starts_with("GET /base/x?y=1 HTTP/1.1\r\n"), "{}", requests[0]);
    assert!(requests[1].contains("if-none-match: \"a\"\r\n"), "{}", requests[1]);
    assert!(requests[1].contains("authorization: Bearer secret\r\n"), "{}", requests[1]);
}

#[tokio::test]
async fn bodies_that_are_too_long_cut_off_or_endless_are_refused() {
    let (url, _server) = serve(&[
        "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n12345678901",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n8\r\n12345678\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n12345",
        "HTTP/1.1 200 OK\r\n\r\n12345",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n",
    ]);
    let client = client(&url);
    assert_eq!(client.get(get("")).await.unwrap_err(), HttpError::TooLong(10));
    assert_eq!(client.get(get("")).await.unwrap_err(), HttpError::TooLong(10));
    assert_eq!(client.get(get("")).await.unwrap_err().label(), "disconnected");
    assert_eq!(client.get(get("")).await.unwrap_err(), HttpError::Unbounded);
    assert_eq!(client.get(get("")).await.unwrap_err().label(), "disconnected");
}

#[tokio::test]
async fn silence_and_absence_are_errors() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let short = Duration::from_millis(50);
    let error = client(&url).get(Get { time: short, ..get("/") }).await.unwrap_err();
    assert_eq!(error, HttpError::Slow(short));
    drop(listener);
    assert_eq!(client(&url).get(get("/")).await.unwrap_err().label(), "unreachable");
}

#[test]
fn urls_that_cannot_be_asked_are_told() {
    let told = |text: &str| Endpoint::new(&Url::parse(text).unwrap(), None).err().unwrap();
    assert!(told("ftp://example.com/").contains("neither http nor https"));
    assert!(told("http://me:secret@example.com/").contains("token"));
    assert!(Endpoint::new(&Url::parse("https://example.com/").unwrap(), Some("nothing")).is_err());
    let endpoint = Endpoint::new(&Url::parse("http://[::1]:80/a/?b").unwrap(), None).unwrap();
    assert_eq!((endpoint.authority(), endpoint.path(""), endpoint.host.as_str()), ("[::1]", "/a/?b".to_owned(), "::1"));
    let root = Endpoint::new(&Url::parse("http://example.com").unwrap(), None).unwrap();
    assert_eq!((root.path(""), root.path("/vms")), ("/".to_owned(), "/vms".to_owned()));
}
