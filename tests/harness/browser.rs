//! Chromium without a window, driven by WebDriver (W3C) and, for what that does not have, by Chromium's own protocol.
//!
//! Invariant: what is written to the console is kept; a browser ends with its owner.

use super::{Folder, Port, Process, wait_until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Longest time that a page may take for anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// A browser with one page.
pub struct Browser {
    address: SocketAddr,
    session: String,
    _driver: Process,
}

impl Browser {
    /// Starts a browser that keeps its files in a folder.
    pub fn start(folder: &Folder) -> Browser {
        let home = folder.subfolder("browser");
        let mut port = Port::reserve();
        let address = port.release();
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={}", address.port())).env("HOME", &home).env("TMPDIR", &home);
        let mut driver = Process::start("chromedriver", &mut command, &home.join("log"));
        driver.wait_ready("takes sessions", PATIENCE, || {
            let reply = request(address, "GET", "/status", &Value::Null).ok()?;
            (reply["value"]["ready"] == true).then_some(())
        });
        let arguments = [
            "--headless=new",
            // Inside of containers, and as root, Chromium's own walls cannot be built.
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            "--window-size=1280,900",
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let reply = request(address, "POST", "/session", &wanted).expect("a session");
        let session = reply["value"]["sessionId"].as_str();
        let session =
            session.unwrap_or_else(|| panic!("no session; run `make test`, which installs Chromium: {reply}"));
        Browser { address, session: session.to_owned(), _driver: driver }
    }

    /// Carries out a command of the session.
    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        let path = format!("/session/{}/{path}", self.session);
        let mut reply = request(self.address, method, &path, body).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(reply["value"]["error"].is_null(), "{path} {body}: {reply}");
        reply["value"].take()
    }

    /// Goes to an address, and waits until the page is loaded.
    pub fn open(&self, address: &str) {
        self.command("POST", "url", &json!({ "url": address }));
    }

    /// The result of a function's body, which may use `arguments`.
    pub fn run(&self, script: &str, arguments: Value) -> Value {
        self.command("POST", "execute/sync", &json!({ "script": script, "args": arguments }))
    }

    /// Runs a script that calls its last argument when it is done.
    pub fn run_later(&self, script: &str, arguments: Value) -> Value {
        self.command("POST", "execute/async", &json!({ "script": script, "args": arguments }))
    }

    /// The visible text of the first element that a selector finds; nothing without one.
    pub fn text(&self, selector: &str) -> String {
        let text = self.run("return document.querySelector(arguments[0])?.innerText ?? ''", json!([selector]));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an element's text is as wanted.
    pub fn wait_for_text(&self, selector: &str, wanted: impl Fn(&str) -> bool) -> String {
        wait_until(&format!("{selector} is as wanted"), PATIENCE, || {
            Some(self.text(selector)).filter(|text| wanted(text))
        })
    }

    /// Presses keys where the focus is.
    pub fn press(&self, keys: &str) {
        let press = |key: char| [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })];
        let actions: Vec<Value> = keys.chars().flat_map(press).collect();
        self.command("POST", "actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": actions }] }));
    }

    /// Carries out a command of the DevTools protocol.
    pub fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.command("POST", "goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// Shows pages to people who want dark ones, or to those who do not.
    pub fn set_dark(&self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": value }] });
        self.devtools("Emulation.setEmulatedMedia", features);
    }

    /// Makes the page as wide as a screen.
    pub fn set_width(&self, width: u32, mobile: bool) {
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": mobile });
        self.devtools("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Allows pages scripts, or not.
    pub fn set_scripts(&self, allowed: bool) {
        self.devtools("Emulation.setScriptExecutionDisabled", json!({ "value": !allowed }));
    }

    /// Keeps a picture of the whole page, for people to look at.
    pub fn photograph(&self, name: &str) -> PathBuf {
        let wanted = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.devtools("Page.captureScreenshot", wanted);
        let data = picture["data"].as_str().expect("a picture").as_bytes();
        let picture = data_encoding::BASE64.decode(data).expect("a picture in base64");
        let folder = target_file("screenshots");
        std::fs::create_dir_all(&folder).expect("folder of pictures");
        let path = folder.join(format!("{name}.png"));
        std::fs::write(&path, picture).expect("write picture");
        path
    }

    /// Has axe look for barriers, and for anything that makes a page wider than its screen.
    pub fn assert_accessible(&self, page: &str) {
        let path = target_file("axe").join("axe.min.js");
        let axe = std::fs::read_to_string(&path);
        let axe = axe.unwrap_or_else(|error| panic!("{}: {error}; run make test, which fetches it", path.display()));
        let script = "const done = arguments[arguments.length - 1];
            axe.run(document, { resultTypes: ['violations'] }).then((found) => done(found.violations.map((violation) =>
                `${violation.id}: ${violation.help}: ` + violation.nodes.map((node) => node.html).join(' | '))));";
        self.run(&format!("{axe}; window.axe = axe;"), json!([]));
        let found = self.run_later(script, json!([]));
        assert_eq!(found, json!([]), "{page}");
        self.assert_fits(page);
    }

    /// Looks for anything that makes a page wider than its screen and, on a phone, for tables that are cut off.
    fn assert_fits(&self, page: &str) {
        // On a phone the page itself becomes as wide as what it holds.
        let script = "const width = screen.width < 500 ? screen.width : document.documentElement.clientWidth;
            const cut = screen.width < 500 ? [...document.querySelectorAll('.scroll')].filter((group) =>
                group.scrollWidth > group.clientWidth + 1 && !group.querySelector('svg.picture, .diff')) : [];
            const wide = document.documentElement.scrollWidth <= width ? [] :
            [...document.querySelectorAll('body *')].filter((element) => !element.closest('.scroll')
                && element.getBoundingClientRect().right > width + 1);
            return [...cut, ...wide].map((element) => element.outerHTML.slice(0, 120));";
        assert_eq!(self.run(script, json!([])), json!([]), "{page} is wider than the screen");
    }

    /// Fails if the browser complained about anything.
    pub fn assert_silent(&self) {
        let complaints = self.console();
        assert!(complaints.is_empty(), "{complaints:#?}");
    }

    /// Returns the lines written to the console since the last call, as `LEVEL text`.
    pub fn console(&self) -> Vec<String> {
        let entries = self.command("POST", "se/log", &json!({ "type": "browser" }));
        let describe = |entry: &Value| format!("{} {}", entry["level"].as_str().unwrap_or(""), entry["message"]);
        entries.as_array().expect("a list").iter().map(describe).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends next, and with it whatever is left.
        let _ = request(self.address, "DELETE", &format!("/session/{}", self.session), &Value::Null);
    }
}

/// A file or folder beside what Cargo builds.
pub fn target_file(name: &str) -> PathBuf {
    let program = std::env::current_exe().expect("the path of the test");
    // A test lies in `PROFILE/deps`, the bench in `PROFILE`.
    let profile = program.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    profile.and_then(std::path::Path::parent).expect("a folder of builds").join(name)
}

/// One exchange with the driver.
fn request(address: SocketAddr, method: &str, path: &str, body: &Value) -> std::io::Result<Value> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )?;
    let mut reply = Vec::new();
    // The driver may leave the connection open after what it has announced.
    loop {
        let mut part = [0; 65_536];
        let count = stream.read(&mut part)?;
        reply.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&reply);
        let complete = text.split_once("\r\n\r\n").and_then(|(head, body)| {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            })?;
            (body.len() >= length).then(|| serde_json::from_str(body).unwrap_or(Value::Null))
        });
        match complete {
            Some(value) => return Ok(value),
            None if count == 0 => return Err(std::io::Error::other(format!("no whole reply: {text}"))),
            None => {}
        }
    }
}
