//! A real Prometheus that scrapes in quick succession, and what it says of queries, rules and alerts.

use super::folder::write_file;
use super::peer::program_path;
use super::{Folder, Port, Process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

/// Labels or annotations.
pub type Labels = BTreeMap<String, String>;

/// An alert as Prometheus has it.
#[derive(Clone, Debug)]
pub struct Alert {
    pub labels: Labels,
    pub annotations: Labels,
    /// True if its time is up; else it is pending.
    pub is_firing: bool,
}

impl Alert {
    /// The name of its rule.
    pub fn name(&self) -> &str {
        &self.labels["alertname"]
    }
}

/// A running Prometheus.
pub struct Prometheus {
    /// Process of the server; none for one that somebody else has started.
    process: Option<Process>,
    address: SocketAddr,
}

impl Prometheus {
    /// Starts it with these files, of which `prometheus.yml` is the configuration.
    pub fn start(folder: &Folder, files: &[(&str, String)]) -> Prometheus {
        let mut port = Port::reserve();
        let home = folder.subfolder("prometheus");
        for (name, text) in files {
            write_file(&home.join(name), text);
        }
        let address = port.release();
        let mut command = Command::new(program_path("prometheus"));
        command.arg("--config.file=prometheus.yml").arg("--storage.tsdb.path=data").arg("--log.level=warn");
        command.arg(format!("--web.listen-address={address}")).current_dir(&home);
        let mut process = Process::start("prometheus", &mut command, &home.join("log"));
        let mut prometheus = Prometheus::at(address);
        process.wait_ready("is ready", Duration::from_secs(60), || prometheus.is_ready().then_some(()));
        prometheus.process = Some(process);
        prometheus
    }

    /// Returns the Prometheus that listens at an address.
    pub fn at(address: SocketAddr) -> Prometheus {
        Prometheus { process: None, address }
    }

    /// Returns true if it answers queries.
    pub fn is_ready(&self) -> bool {
        TcpStream::connect(self.address).is_ok() && get(self.address, "/-/ready").0 == 200
    }

    /// Returns the present value of an expression: labels and value of each series.
    pub fn query(&self, expression: &str) -> Vec<(Labels, f64)> {
        let data = self.data(&format!("/api/v1/query?query={}", encode(expression)));
        let series = data["result"].as_array().unwrap_or_else(|| panic!("{expression}: {data}"));
        series.iter().map(|one| (labels(&one["metric"]), number(&one["value"][1]))).collect()
    }

    /// All alerts that are pending or firing.
    pub fn alerts(&self) -> Vec<Alert> {
        let data = self.data("/api/v1/alerts");
        let alerts = data["alerts"].as_array().expect("a list of alerts");
        let read = |alert: &Value| Alert {
            labels: labels(&alert["labels"]),
            annotations: labels(&alert["annotations"]),
            is_firing: alert["state"] == "firing",
        };
        alerts.iter().map(read).collect()
    }

    /// Returns the data of a page of the API.
    fn data(&self, path: &str) -> Value {
        let (status, body) = get(self.address, path);
        let mut reply: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}\n{body}"));
        assert_eq!(status, 200, "{path}: {reply}");
        reply["data"].take()
    }
}

/// A mapping of texts.
fn labels(value: &Value) -> Labels {
    let pairs = value.as_object().expect("labels").iter();
    pairs.map(|(name, value)| (name.clone(), value.as_str().expect("a text").to_string())).collect()
}

/// A number, which the API writes as text.
fn number(value: &Value) -> f64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no number: {value}"))
}

/// Status and body of a page, by HTTP/1.0, in which a body comes in one piece.
fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("connect to Prometheus");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).expect("request");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("reply");
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    (status, body.to_string())
}

/// A text as part of a URL.
fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { (byte as char).into() } else { format!("%{byte:02X}") })
        .collect()
}
