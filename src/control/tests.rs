//! Servers and clients over real sockets.

use super::*;
use serde_json::json;
use tempfile::TempDir;

/// A server whose daemon answers with what was asked.
struct Fixture {
    folder: TempDir,
    server: Option<ControlServer>,
}

impl Fixture {
    fn path(&self) -> PathBuf {
        self.folder.path().join("deep/er/control.sock")
    }

    async fn start(patience: Duration) -> Fixture {
        let mut fixture = Fixture { folder: tempfile::tempdir().unwrap(), server: None };
        let mut listener = bind(&fixture.path(), None, 0o660).unwrap();
        listener.patience = patience;
        let (sender, mut commands) = mpsc::channel::<Command>(1);
        fixture.server = Some(listener.start(sender).unwrap());
        tokio::spawn(async move {
            while let Some(command) = commands.recv().await {
                let reply = match &command.request {
                    Request::Dump { .. } => Reply { ok: true, text: "line\n".repeat(1 << 20), data: Value::Null },
                    // A daemon that forgets a request.
                    Request::Refresh { .. } => continue,
                    Request::Reload { .. } => Reply::failure("c.toml:1:1: no"),
                    request => Reply { ok: true, text: format!("{request:?}"), data: json!({ "n": 1 }) },
                };
                // The client may be gone.
                let _ = command.reply.send(reply);
            }
        });
        fixture
    }
}

async fn exchange(path: &Path, request: &[u8]) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    // The server may close before it has taken everything.
    let _ = stream.write_all(request).await;
    let _ = stream.shutdown().await;
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply).await;
    String::from_utf8(reply).unwrap()
}

#[test]
fn requests_have_the_form_that_scripts_rely_on() {
    for (request, text) in [
        (Request::RELOAD, r#"{"verb":"reload"}"#),
        (Request::Status { zone: None }, r#"{"verb":"status"}"#),
        (Request::Refresh { zone: Some("a".into()) }, r#"{"verb":"refresh","zone":"a"}"#),
        (Request::Retransfer { zone: "a".into(), accept: false }, r#"{"verb":"retransfer","zone":"a"}"#),
        (Request::Dump { zone: "a".into() }, r#"{"verb":"dump","zone":"a"}"#),
        (Request::refused(&["a".into(), "b".into()]), r#"{"verb":"reload","refused":"a\nb"}"#),
        (Request::Stop, r#"{"verb":"stop"}"#),
    ] {
        assert_eq!(serde_json::from_str::<Request>(text).unwrap(), request);
        let again = serde_json::to_string(&request).unwrap();
        assert_eq!(serde_json::from_str::<Request>(&again).unwrap(), request);
    }
}

#[test]
fn word_of_what_is_refused_fits_into_a_request() {
    for text in ["x", "\u{1}", "\"", "\n", "é", "\u{7f}", "\u{10ffff}"] {
        let request = serde_json::to_vec(&Request::refused(&[text.repeat(10_000)])).unwrap();
        assert!(request.len() < MAX_REQUEST_BYTES as usize, "{text:?}: {}", request.len());
    }
    assert_eq!(serde_json::to_string(&Request::RELOAD).unwrap(), r#"{"verb":"reload"}"#);
}

#[tokio::test]
async fn replies_come_back_whole() {
    let fixture = Fixture::start(PATIENCE).await;
    let path = fixture.path();
    let zone = Some("é.example".to_string());
    let reply = call(&path, &Request::Status { zone: zone.clone() }).await.unwrap();
    assert_eq!(reply.text, format!("{:?}", Request::Status { zone }));
    assert_eq!((reply.ok, reply.data), (true, json!({ "n": 1 })));
    let reply = call(&path, &Request::Dump { zone: "a".into() }).await.unwrap();
    assert_eq!(reply.text.len(), 5 << 20);
    let reply = call(&path, &Request::RELOAD).await.unwrap();
    assert_eq!(reply, Reply::failure("c.toml:1:1: no"));
    let forgotten = call(&path, &Request::Refresh { zone: None }).await.unwrap();
    assert_eq!(forgotten, Reply::failure("the server is ending"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
}

#[tokio::test]
async fn nonsense_is_refused_in_words() {
    let fixture = Fixture::start(PATIENCE).await;
    for (request, expected) in [
        (&b"{\"verb\":\"dance\"}\n"[..], "unknown variant `dance`"),
        (b"{\"verb\":\"dump\"}\n", "missing field `zone`"),
        (b"\xff\n", "not understood"),
        (b"{\"verb\":\"stop\"}", "no line"),
        (&[b'x'; 5000], "no line"),
    ] {
        let reply = exchange(&fixture.path(), request).await;
        assert!(reply.starts_with("{\"ok\":false") && reply.contains(expected), "{reply}");
    }
}

#[tokio::test]
async fn clients_that_are_silent_or_leave_harm_nobody() {
    let fixture = Fixture::start(Duration::from_millis(200)).await;
    let path = fixture.path();
    let mut silent = UnixStream::connect(&path).await.unwrap();
    let mut greedy = UnixStream::connect(&path).await.unwrap();
    greedy.write_all(b"{\"verb\":\"dump\",\"zone\":\"a\"}\n").await.unwrap();
    for _ in 0..100 {
        let mut leaving = UnixStream::connect(&path).await.unwrap();
        leaving.write_all(b"{\"verb\":\"dump\",\"zone\":\"a\"}\n").await.unwrap();
        drop(leaving);
        assert!(call(&path, &Request::Status { zone: None }).await.unwrap().ok);
    }
    // The silent one is let go, and the one that takes nothing gets only what was under way.
    assert_eq!(silent.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    loop {
        match greedy.try_write(b"x") {
            Err(error) if error.kind() != ErrorKind::WouldBlock => break,
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    let mut taken = Vec::new();
    let _ = greedy.read_to_end(&mut taken).await;
    assert!(taken.len() < 5 << 20, "{}", taken.len());
}

#[tokio::test]
async fn stop_returns_when_the_server_has_ended() {
    let mut fixture = Fixture::start(PATIENCE).await;
    let path = fixture.path();
    let caller = tokio::spawn({
        let path = path.clone();
        async move { call(&path, &Request::Stop).await }
    });
    // The reply alone does not end the call.
    assert!(call(&path, &Request::Status { zone: None }).await.unwrap().ok);
    let mut raw = UnixStream::connect(&path).await.unwrap();
    raw.write_all(b"{\"verb\":\"stop\"}\n").await.unwrap();
    let mut first = [0u8; 4];
    raw.read_exact(&mut first).await.unwrap();
    assert!(!caller.is_finished());
    fixture.server.take();
    assert!(!path.exists());
    assert!(caller.await.unwrap().unwrap().ok);
    assert!(matches!(call(&path, &Request::Stop).await, Err(CallError::NotRunning(_))));
}

#[tokio::test]
async fn a_socket_has_the_group_and_the_permissions_that_were_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let group = fs::metadata(folder.path()).unwrap().gid();
    let _listener = bind(&path, Some(&group.to_string()), 0o600).unwrap();
    let found = || fs::metadata(&path).map(|file| (file.gid(), file.mode() & 0o777)).unwrap();
    assert_eq!(found(), (group, 0o600));
    admit(&path, None, 0o640).unwrap();
    assert_eq!(found(), (group, 0o640));
    assert_eq!(find_group("root").unwrap(), 0);

    let other = folder.path().join("other");
    let error = bind(&other, Some("no such group"), 0o660).err().unwrap().to_string();
    assert_eq!(error, "it cannot belong to group no such group: /etc/group does not have it");
    assert!(!other.exists());
}

#[tokio::test]
async fn only_a_stale_socket_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    fs::write(&path, "precious").unwrap();
    assert!(bind(&path, None, 0o660).err().unwrap().to_string().contains("no socket"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::remove_file(&path).unwrap();

    // What a killed server leaves.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists() && !is_answering(&path));
    assert!(matches!(call(&path, &Request::RELOAD).await, Err(CallError::NotRunning(_))));
    let listener = bind(&path, None, 0o660).unwrap();
    assert!(is_answering(&path));
    assert_eq!(bind(&path, None, 0o660).err().unwrap().to_string(), "another aggregator is running");

    // Somebody else's socket by now.
    fs::remove_file(&path).unwrap();
    let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
    drop(listener);
    assert!(path.exists());
}

#[tokio::test]
async fn a_connection_that_breaks_off_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let answers: [&[u8]; 4] = [b"", b"{\"ok\":true", b"{\"ok\":true,\"data\":null,\"text_bytes\":5}\nabc", b"hello\n"];
    tokio::spawn(async move {
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_line(BufReader::new(&mut stream), MAX_REQUEST_BYTES).await.unwrap();
            stream.write_all(answer).await.unwrap();
        }
    });
    for index in 0..answers.len() {
        let error = call(&path, &Request::RELOAD).await.unwrap_err();
        match error {
            CallError::Lost => assert!(index < 3),
            CallError::Malformed(_) => assert_eq!(index, 3),
            other => panic!("{other}"),
        }
    }
}
