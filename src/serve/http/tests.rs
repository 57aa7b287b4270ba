//! Requests of browsers and programs, good and bad.

use super::*;
use crate::publish::{Identity, Served};
use std::io::{Read, Write};
use std::net::SocketAddr;

fn start(patience: Duration, ready: Arc<AtomicBool>) -> Listener {
    let ready = move || if ready.load(Ordering::SeqCst) { Ok(()) } else { Err("a.example. expired\n".into()) };
    listen(patience, Box::new(ready), None)
}

fn listen(patience: Duration, ready: Ready, site: Option<Arc<dyn Site>>) -> Listener {
    let mut listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let (metrics, streams) = (Arc::new(Metrics::new()), Arc::new(Semaphore::new(MAX_STREAMS)));
    start_with(&mut listener, Context { metrics, ready, site, patience, streams, gate: None }).unwrap();
    listener
}

/// Sends octets and returns everything that comes back.
async fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let request = request.to_vec();
    let exchange = move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(&request).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    };
    tokio::task::spawn_blocking(exchange).await.unwrap()
}

#[tokio::test]
async fn paths_methods_and_mistakes() {
    let ready = Arc::new(AtomicBool::new(false));
    let listener = start(PATIENCE, ready.clone());
    let get = async |line: &str| exchange(listener.address(), format!("{line}\r\nHost: x\r\n\r\n").as_bytes()).await;
    let metrics = get("GET /metrics HTTP/1.1").await;
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    assert!(metrics.contains("\r\nConnection: close\r\n") && metrics.contains("\naggregator_build_info{"));
    assert_eq!(get("GET http://x:9153/healthz?verbose HTTP/1.1").await.split("\r\n\r\n").last(), Some("ok\n"));
    let head = get("HEAD /healthz HTTP/1.1").await;
    assert!(head.contains("\r\nContent-Length: 3\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(get("GET /readyz HTTP/1.1").await.ends_with("\r\n\r\na.example. expired\n"));
    assert!(get("GET /readyz HTTP/1.1").await.starts_with("HTTP/1.1 503 "));
    ready.store(true, Ordering::SeqCst);
    assert!(get("GET /readyz HTTP/1.1").await.starts_with("HTTP/1.1 200 "));
    assert!(get("GET / HTTP/1.1").await.contains("/readyz"));
    assert!(get("GET /metric HTTP/1.1").await.starts_with("HTTP/1.1 404 "));
    let post = get("POST /metrics HTTP/1.1").await;
    assert!(post.starts_with("HTTP/1.1 405 ") && post.contains("\r\nAllow: GET, HEAD\r\n"), "{post}");
    for bad in ["GET", "GET /metrics", "GET  /metrics HTTP/1.1", "GET /metrics HTTP/2", "GET metrics HTTP/1.1"] {
        assert!(get(bad).await.starts_with("HTTP/1.1 400 "), "{bad}");
    }
    for (request, status) in [
        (&b"GET /healthz HTTP/1.1\r\n\r\n"[..], "400"),
        (b"\xff /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "400"),
        (b"\r\nGET /healthz HTTP/1.0\n\n", "200"),
        (b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n123456789", "405"),
        (&[b'x'; 100_000], "431"),
    ] {
        let response = exchange(listener.address(), request).await;
        assert_eq!(response.get(9..12), Some(status), "{response}");
    }
}

#[tokio::test]
async fn slow_and_many_clients_end() {
    let listener = start(Duration::from_millis(300), Arc::default());
    let address = listener.address();
    let mut held = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost:").await.unwrap();
        held.push(stream);
    }
    for mut stream in held {
        assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
    }
    // Their places are free again.
    let response = exchange(address, b"GET /healthz HTTP/1.0\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.0 200 "), "{response}");
    drop(listener);
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn slow_clients_keep_nobody_from_monitoring() {
    let listener = start(Duration::from_secs(3600), Arc::default());
    let mut held = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        let mut stream = TcpStream::connect(listener.address()).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost:").await.unwrap();
        held.push(stream);
    }
    for path in ["/healthz", "/metrics"].repeat(20) {
        let response = exchange(listener.address(), format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await;
        assert!(response.starts_with("HTTP/1.0 200 "), "{path}: {response}");
    }
    // Those who had waited for the longest have gone, and others have not.
    assert_eq!(held[0].read(&mut [0]).await.unwrap_or(0), 0);
    let last = held.last_mut().unwrap();
    last.write_all(b" x\r\n\r\n").await.unwrap();
    let mut response = String::new();
    last.read_to_string(&mut response).await.unwrap();
    assert!(response.ends_with("ok\n"), "{response}");
}

#[tokio::test]
async fn pages_that_nobody_reads_keep_nobody_from_monitoring() {
    let listener = start_site(Duration::from_secs(3600));
    let mut held = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        let mut stream = TcpStream::connect(listener.address()).await.unwrap();
        stream.write_all(b"GET /large?33554432 HTTP/1.0\r\n\r\n").await.unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.unwrap_or_default();
        held.push(stream);
    }
    for _ in 0..40 {
        let response = exchange(listener.address(), b"GET /healthz HTTP/1.0\r\n\r\n").await;
        assert!(response.ends_with("\r\n\r\nok\n"), "{response}");
    }
}

/// A site with a page, and streams whose events are as long as the query says.
struct Events;

impl Site for Events {
    fn respond(&self, asked: Asked) -> Answer {
        Box::pin(async move {
            let Asked { path, query, host, .. } = asked;
            let fields: &[(&str, &str)] = &[("x-field", "value")];
            match path.as_str() {
                "/host" => Some(Events.refuse(&path, 200, &host.unwrap_or_default())),
                "/large" => Some(Events.refuse(&path, 200, &"x".repeat(query.parse().unwrap()))),
                "/page" => Some(Content::Whole { status: 418, media_type: "text/html", fields, body: query }),
                "/events" => {
                    let (sender, events) = mpsc::channel(1);
                    let event = format!("data: {}\n\n", "x".repeat(query.parse().unwrap()));
                    tokio::spawn(async move {
                        while sender.send(event.clone()).await.is_ok() {
                            tokio::time::sleep(Duration::from_millis(10)).await;
                        }
                    });
                    Some(Content::Events(events))
                }
                _ => None,
            }
        })
    }

    fn refuse(&self, path: &str, status: u16, why: &str) -> Content {
        let body = if status == 200 { why.to_owned() } else { format!("{path}: {why}") };
        Content::Whole { status, media_type: PLAIN, fields: &[], body }
    }
}

fn start_site(patience: Duration) -> Listener {
    listen(patience, Box::new(|| Ok(())), Some(Arc::new(Events)))
}

#[tokio::test]
async fn sites_learn_the_host() {
    let listener = start_site(PATIENCE);
    for (request, wanted) in [
        ("GET /host HTTP/1.1\r\nHost: A.example:99", "A.example"),
        ("GET /host HTTP/1.1\r\nHost: [::1]:9153", "[::1]"),
        ("GET /host HTTP/1.1\r\nHost:", ""),
        ("GET /host HTTP/1.0", ""),
        ("GET http://b.example/host HTTP/1.1\r\nHost: a.example", "b.example"),
    ] {
        let response = exchange(listener.address(), format!("{request}\r\n\r\n").as_bytes()).await;
        assert_eq!(response.split("\r\n\r\n").nth(1), Some(wanted), "{request}: {response}");
    }
    for wrong in [
        "GET /host HTTP/1.1\r\nHost: a\r\nHost: b",
        "GET /host HTTP/1.1\r\nHost: u@a",
        "GET /host HTTP/1.1\r\nHost: a/b",
        "GET /host HTTP/1.1\r\nHost: \u{e9}",
        "GET http://a/host HTTP/1.1",
    ] {
        let response = exchange(listener.address(), format!("{wrong}\r\n\r\n").as_bytes()).await;
        assert!(response.starts_with("HTTP/1.1 400 "), "{wrong}: {response}");
    }
    let refused = exchange(listener.address(), b"PUT /host HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(refused.starts_with("HTTP/1.1 405 ") && refused.contains("\r\nAllow: GET, HEAD\r\n"), "{refused}");
    assert!(refused.ends_with("/host: only GET and HEAD are served"), "{refused}");
}

#[tokio::test]
async fn large_responses_take_their_time_and_not_for_ever() {
    const LENGTH: usize = 32 << 20;
    let patience = Duration::from_millis(400);
    let listener = start_site(patience);
    let request = format!("GET /large?{LENGTH} HTTP/1.0\r\n\r\n");
    let mut reader = TcpStream::connect(listener.address()).await.unwrap();
    let mut idler = TcpStream::connect(listener.address()).await.unwrap();
    let started = std::time::Instant::now();
    reader.write_all(request.as_bytes()).await.unwrap();
    idler.write_all(request.as_bytes()).await.unwrap();
    let (mut piece, mut length) = (vec![0; 256 << 10], 0);
    while let Ok(read @ 1..) = reader.read(&mut piece).await {
        length += read;
        // Slower than the patience in all, faster in each part.
        if started.elapsed() < patience * 3 {
            tokio::time::sleep(patience / 40).await;
        }
    }
    assert!(length > LENGTH && started.elapsed() > patience * 2, "{length} in {:?}", started.elapsed());
    // Who has read nothing meanwhile finds what was under way, and then an end.
    let mut length = 0;
    while let Ok(read @ 1..) = idler.read(&mut piece).await {
        length += read;
    }
    assert!(length < LENGTH, "{length}");
}

#[tokio::test]
async fn streams_go_on_and_are_limited() {
    let patience = Duration::from_millis(200);
    let listener = start_site(patience);
    let address = listener.address();
    let page = exchange(address, b"GET /page?a=b HTTP/1.0\r\n\r\n").await;
    assert!(page.starts_with("HTTP/1.0 418 ") && page.contains("\r\nX-Field: value\r\n"), "{page}");
    assert!(page.ends_with("\r\n\r\na=b"), "{page}");
    assert!(exchange(address, b"GET / HTTP/1.0\r\n\r\n").await.contains("/readyz"));
    assert!(exchange(address, b"HEAD /events?1 HTTP/1.0\r\n\r\n").await.contains("text/event-stream"));
    let open = async |length: usize| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET /events?{length} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.unwrap();
        (stream, String::from_utf8(start.to_vec()).unwrap())
    };
    let mut held = Vec::new();
    for _ in 1..MAX_STREAMS {
        held.push(open(1).await.0);
    }
    // The last one leaves so much unread that no more can be sent.
    let (stuck, status) = open(1 << 20).await;
    assert_eq!(status, "HTTP/1.1 200");
    assert_eq!(open(1).await.1, "HTTP/1.1 503");
    assert!(exchange(address, b"GET /metrics HTTP/1.0\r\n\r\n").await.starts_with("HTTP/1.0 200 "));
    let started = std::time::Instant::now();
    while open(1).await.1 != "HTTP/1.1 200" {
        assert!(started.elapsed() < Duration::from_secs(20), "a stuck stream never ends");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(stuck);
    // All others have gone on for longer than other connections may.
    assert!(started.elapsed() > patience);
    for mut stream in held {
        let mut event = [0; 256];
        assert!(stream.read(&mut event).await.unwrap() > 0);
    }
}

#[test]
fn regions_decide_where_there_are_any() {
    let name = |text: &str| Name::parse(text).unwrap();
    let published = |states: &[(&str, State)]| {
        let served = |(origin, state): &(&str, State)| Arc::new(Served::new(name(origin), *state, None));
        Published::new(Identity::default(), states.iter().map(served), 1)
    };
    let one_down = published(&[("b", State::Expired), ("a", State::NotReady), ("r", State::Ok)]);
    let ready = |regions: &[Name]| readiness(&one_down, regions, false);
    assert_eq!(ready(&[name("r")]), Ok(()));
    assert_eq!(ready(&[]), Err("a. not-ready\nb. expired\n".to_string()));
    assert_eq!(ready(&[name("r"), name("b")]), Err("b. expired\n".to_string()));
    assert_eq!(ready(&[name("r"), name("new")]), Err("new. not-ready\n".to_string()));
    assert_eq!(readiness(&published(&[("a", State::Ok)]), &[], false), Ok(()));
    assert!(readiness(&Published::default(), &[], true).is_err());
    // Who was ready stays so, as long as there is anything to serve.
    assert_eq!(readiness(&one_down, &[name("r"), name("new")], true), Ok(()));
    assert_eq!(readiness(&one_down, &[name("b"), name("new")], true), Err("b. expired\nnew. not-ready\n".to_string()));
}
