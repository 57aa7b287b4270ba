//! Registrar's files as they are, and what is said of wrong ones.

use super::*;

/// A file that is right.
const PLAIN: &str = r#"{
  "adminIp": "172.27.10.72",
  "registration": { "type": "load_balancer", "domain": "Shop.emy-10.example.com" },
  "zookeeper": { "timeout": 60000, "servers": [ { "host": "172.27.10.35", "port": 2181 } ] }
}"#;

/// A file, read.
fn parse(text: &str) -> Result<Config, ConfigErrors> {
    Config::parse(Path::new("r.json"), text)
}

/// Lists the errors in a file, line by line.
fn errors(text: &str) -> Vec<String> {
    parse(text).unwrap_err().0.iter().map(ToString::to_string).collect()
}

/// Lists the errors in a correct file after one replacement.
fn errors_with(from: &str, to: &str) -> Vec<String> {
    assert!(PLAIN.contains(from), "{from}");
    errors(&PLAIN.replace(from, to)).iter().map(|error| error.replacen("r.json:", "", 1)).collect()
}

#[test]
fn defaults_are_those_of_registrar() {
    let config = parse(PLAIN).unwrap();
    assert_eq!(config.warnings, [""; 0]);
    let registration = &config.registration;
    assert_eq!(registration.domain, "shop.emy-10.example.com");
    assert_eq!(registration.address.as_deref(), Some("172.27.10.72"));
    assert_eq!((&registration.aliases, &registration.ttl, &registration.ports), (&vec![], &None, &None));
    assert_eq!(registration.heartbeat, Duration::from_secs(3));
    assert_eq!(
        config.zookeeper,
        ZooKeeperPlan {
            servers: vec!["172.27.10.35:2181".to_string()],
            session_timeout: Duration::from_secs(60),
            connect_timeout: Some(Duration::from_secs(4)),
            retry_delay: Duration::from_secs(1),
        }
    );
    let checked = parse(&PLAIN.replace("\"adminIp\"", "\"healthCheck\": { \"command\": \"true\" }, \"adminIp\""));
    let health = checked.unwrap().health.unwrap();
    assert_eq!(health.interval, Duration::from_secs(60));
    assert_eq!(health.timeout, Duration::from_secs(1));
    assert_eq!(health.tolerance, Tolerance { threshold: 5, period: Duration::from_secs(300) });
    assert!(!health.ignore_exit_status && !health.check_first && health.output.is_none());
}

#[test]
fn both_spellings_say_the_same() {
    let zkplus = r#"{ "timeout": 60000, "servers": [ { "host": "172.27.10.35", "port": 2181 } ] }"#;
    let zkstream = r#"{ "sessionTimeout": 60000, "servers": [ { "address": "172.27.10.35", "port": 2181 } ] }"#;
    let other = parse(&PLAIN.replace(zkplus, zkstream)).unwrap();
    assert_eq!(other.zookeeper, parse(PLAIN).unwrap().zookeeper);
    let both = r#""timeout": 60000, "sessionTimeout": 30000,"#;
    let said = errors_with("\"timeout\": 60000,", both);
    assert_eq!(said, ["4:36: \"sessionTimeout\" says the same as \"timeout\"; keep one of them"]);
}

#[test]
fn every_key_is_read() {
    let config = parse(
        r#"{
  "adminIp": "172.27.10.75",
  "maxAttempts": 10,
  "logLevel": "fatal",
  "registration": {
    "adminIp": "172.27.10.76", "domain": "a.example.com", "type": "host", "aliases": ["B.a.example.com", "c.example.com"],
    "ttl": 30, "ports": [1, 2], "heartbeatInterval": 500,
    "service": { "type": "service", "service": { "srvce": "_http", "proto": "_tcp", "port": 80, "x": [1, "y", null, {"z": 1.5}] } }
  },
  "zookeeper": {
    "servers": [ { "host": "zk.example.com", "port": 1 }, { "address": "fd00::1", "port": 65535 } ],
    "connectTimeout": false, "retry": { "delay": 50, "max": 3 }
  },
  "healthCheck": {
    "command": "exit 0", "interval": 10, "timeout": 20, "threshold": 3, "period": 40, "ignoreExitStatus": true,
    "stdoutMatch": { "pattern": "^OK$", "flags": "gim", "invert": true }, "checkFirst": true
  }
}"#,
    )
    .unwrap();
    let registration = &config.registration;
    assert_eq!(registration.address.as_deref(), Some("172.27.10.76"));
    assert_eq!(registration.aliases, ["b.a.example.com", "c.example.com"]);
    assert_eq!(registration.ttl, Some(30.into()));
    assert_eq!(registration.ports, Some(vec![1.into(), 2.into()]));
    assert_eq!(registration.heartbeat, Duration::from_millis(500));
    assert_eq!(
        registration.service.as_ref().unwrap().to_json(),
        r#"{"type":"service","service":{"type":"service","service":{"srvce":"_http","proto":"_tcp","port":80,"x":[1,"y",null,{"z":1.5}],"ttl":60}}}"#
    );
    assert_eq!(config.zookeeper.servers, ["zk.example.com:1", "[fd00::1]:65535"]);
    assert_eq!(config.zookeeper.session_timeout, Duration::from_secs(30));
    assert_eq!(config.zookeeper.connect_timeout, None);
    assert_eq!(config.zookeeper.retry_delay, Duration::from_millis(50));
    let health = config.health.unwrap();
    assert_eq!((health.command.as_str(), health.interval.as_millis(), health.timeout.as_millis()), ("exit 0", 10, 20));
    assert_eq!(health.tolerance, Tolerance { threshold: 3, period: Duration::from_millis(40) });
    assert!(health.ignore_exit_status && health.check_first);
    let rule = health.output.unwrap();
    assert!(rule.invert && rule.pattern.is_match(b"x\nok\ny") && !rule.pattern.is_match(b"not ok"));
    assert_eq!(config.log_level.as_deref(), Some("error"));
    assert_eq!(
        config.warnings,
        [
            "r.json:3:3: \"maxAttempts\" has no effect, as ever: the agent never gives up",
            "r.json:6:106: \"c.example.com\" is not below the domain",
            "r.json:12:54: \"max\" has no effect: the agent never gives up",
        ]
    );
}

#[test]
fn all_mistakes_are_told_at_once() {
    let text = r#"{
  "adminIp": "172.27.10.300",
  "registration": {
    "domain": "a..example.com", "type": 5, "aliases": "b.example.com", "ttl": 1.5, "ports": [0, "x"],
    "service": { "type": "host", "service": { "srvce": 1, "port": 99999 } }
  },
  "zookeper": {},
  "healthCheck": { "interval": 0, "threshold": 0, "stdoutMatch": { "pattern": "(?=x)", "flags": "y" } },
  "logLevel": "loud"
}"#;
    assert_eq!(
        errors(text),
        [
            "r.json:2:14: \"172.27.10.300\" is no address; write an address without a port",
            "r.json:4:15: \"a..example.com\" has a dot too many; write a name such as \"shop.emy-10.example.com\"",
            "r.json:4:41: \"type\" is an integer; write a type of host, for example \"load_balancer\"",
            "r.json:4:55: \"aliases\" is a string; write a list of names such as [\"shop-a.shop.emy-10.example.com\"]",
            "r.json:4:79: \"ttl\" is a decimal number; write a whole number from 0 to 2147483647",
            "r.json:4:94: \"ports\" cannot be 0; write a whole number from 1 to 65535",
            "r.json:4:97: \"ports\" is a string; write a whole number from 1 to 65535",
            "r.json:5:26: the block \"service\" has another \"type\"; write \"type\": \"service\"",
            "r.json:5:45: \"proto\" is missing; write \"_tcp\" or \"_udp\"",
            "r.json:5:56: \"srvce\" is an integer; write a label such as \"_http\"",
            "r.json:5:67: \"port\" cannot be 99999; write a whole number from 1 to 65535",
            "r.json:7:3: unknown key \"zookeper\"; did you mean \"zookeeper\"?",
            "r.json:8:18: \"command\" is missing; write what the shell is to run",
            "r.json:9:15: \"logLevel\" cannot be this; write \"fatal\", \"error\", \"warn\", \"info\", \"debug\", \"trace\", or a number from 0 to 100",
        ]
    );
}

#[test]
fn names_that_cannot_be_nodes_are_refused() {
    let domain = "\"Shop.emy-10.example.com\"";
    let advice = "write a name such as \"shop.emy-10.example.com\"";
    for (name, fault) in [
        ("", "is empty"),
        ("a.example.com.", "has a dot too many"),
        ("a b.example.com", "has a character other than letters, digits, \"-\", \"_\" and \".\""),
        ("a/b.example.com", "has a character other than letters, digits, \"-\", \"_\" and \".\""),
        ("quota.zookeeper", "is where ZooKeeper keeps its own nodes"),
    ] {
        let said = errors_with(domain, &format!("\"{name}\""));
        assert_eq!(said, [format!("3:56: \"{name}\" {fault}; {advice}")]);
    }
    let long = "a".repeat(64) + ".example.com";
    assert_eq!(
        errors_with(domain, &format!("\"{long}\"")),
        [format!("3:56: \"{long}\" is too long for DNS; {advice}")]
    );
    for kind in ["service", "address", ""] {
        let said = errors_with("\"load_balancer\"", &format!("\"{kind}\""));
        assert!(said[0].starts_with(&format!("3:29: \"type\" cannot be \"{kind}\"; ")), "{said:?}");
    }
    let aliases = |list: &str| errors_with(domain, &format!("\"shop.example.com\", \"aliases\": {list}"));
    assert_eq!(
        aliases(r#"["SHOP.example.com"]"#),
        ["3:88: \"shop.example.com\" is the domain itself; write a name below it"]
    );
    assert_eq!(aliases(r#"["example.com"]"#), ["3:88: \"example.com\" is above the domain; write a name below it"]);
    let said = aliases(r#"["a.shop.example.com", "A.shop.example.com", "b.a.shop.example.com"]"#);
    assert_eq!(
        said,
        [
            "3:110: \"a.shop.example.com\" is there already; remove one of them",
            "3:132: \"b.a.shop.example.com\" and \"a.shop.example.com\" cannot both be nodes, because one is below the other; write another name",
        ]
    );
}

#[test]
fn what_is_odd_is_warned_of() {
    let text = PLAIN.replace("\"load_balancer\"", "\"toaster\"").replace(
        "\"adminIp\": \"172.27.10.72\"",
        "\"adminIp\": \"fd00::1\", \"comment\": 1, \"healthCheck\": {\"command\": \"x\", \"period\": 1000}",
    );
    assert_eq!(
        parse(&text).unwrap().warnings,
        [
            "r.json:2:14: Binder serves no IPv6 addresses; the record is for other servers",
            "r.json:2:25: unknown key \"comment\" in the file has no effect",
            "r.json:2:81: 5 failures cannot fall within \"period\", because checks are 60000 ms apart; the instance would never be taken out of service; write at least 240000",
            "r.json:3:29: no server knows the type \"toaster\"; nothing is answered for it",
        ]
    );
}

#[test]
fn servers_and_patterns_are_checked() {
    let server = r#"{ "host": "172.27.10.35", "port": 2181 }"#;
    let advice = "write a list such as [{\"host\": \"10.0.0.1\", \"port\": 2181}]";
    assert_eq!(errors_with(server, ""), [format!("4:47: \"servers\" is empty; {advice}")]);
    assert_eq!(
        errors_with(server, "{ \"port\": 1 }"),
        ["4:49: \"host\" is missing; write the address or name of the server"]
    );
    for host in ["", "a:2181", "a,b", "a/chroot", "a b"] {
        let said = errors_with("172.27.10.35", host);
        assert_eq!(said, [format!("4:59: \"{host}\" is no server; write an address or a name without a port")]);
    }
    let check = |rule: &str| {
        errors_with(
            "\"adminIp\"",
            &format!("\"healthCheck\": {{\"command\": \"x\", \"stdoutMatch\": {rule}}}, \"adminIp\""),
        )
    };
    let said = check(r#"{"pattern": "(?=x)", "flags": "y"}"#);
    assert_eq!(said[1], "2:80: \"flags\" cannot have \"y\"; write letters out of \"imsgu\"");
    assert!(said[0].starts_with("2:62: \"pattern\" cannot be used: look-around"), "{said:?}");
    assert!(check("{}")[0].ends_with("\"pattern\" is missing; write a regular expression"));
}

#[test]
fn levels_are_those_of_bunyan() {
    for (text, level) in
        [("trace", "trace"), ("20", "debug"), ("30", "info"), ("35", "warn"), ("error", "error"), ("60", "error")]
    {
        assert_eq!(level_of(text), Some(level), "{text}");
    }
    assert_eq!(level_of("loud"), None);
    assert_eq!(level_of("101"), None);
}
