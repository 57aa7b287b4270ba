//! The double as its clients see it.

use super::*;
use futures_util::{SinkExt, StreamExt};
use ldap3_proto::proto::{LdapBindCred, LdapBindRequest, LdapDerefAliases, LdapOp, LdapSearchRequest};
use ldap3_proto::{LdapCodec, LdapFilter, LdapMsg, LdapResultCode, LdapSearchScope};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::codec::Framed;

fn vm(number: usize) -> Value {
    json!({ "uuid": format!("11110000-0000-4000-8000-{number:012}"), "alias": format!("web{number}"), "state": "running",
            "owner_uuid": "2c2457f2-0000-4000-8000-00000000000a", "tags": {} })
}

fn double() -> Double {
    let vms: Vec<Value> = (0..5).map(vm).collect();
    let servers =
        json!([{ "uuid": "c0", "setup": true, "status": "running", "sysinfo": {} }, { "uuid": "c1", "setup": false }]);
    let nics = json!([{ "mac": "90:b8:d0:aa:00:01", "ip": "198.51.100.11" }]);
    let networks = json!([{ "uuid": "e0", "nic_tag": "external", "vlan_id": 7 }]);
    Double::start(&json!({ "vms": vms, "servers": servers, "nics": nics, "networks": networks })).unwrap()
}

/// Status, header fields and value of an answer.
fn get(double: &Double, service: Service, path: &str) -> (u16, String, Value) {
    let mut stream = TcpStream::connect(double.address(service)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).map_or(0, |status| status.parse().unwrap());
    (status, head.to_owned(), serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn pages_descend_by_markers_and_end_empty() {
    let double = double();
    double.edit(|datacenter| datacenter.destroy_vm(vm(3)["uuid"].as_str().unwrap()));
    let mut marker = String::new();
    let mut seen = Vec::new();
    loop {
        let (status, head, page) =
            get(&double, Service::Vmapi, &format!("/vms?limit=2&state=active{marker}&fields=uuid"));
        assert_eq!(status, 200);
        assert!(head.contains("x-joyent-resource-count: 4"), "{head}");
        let page = page.as_array().unwrap().clone();
        let Some(last) = page.last() else { break };
        marker = format!("&marker=%7B%22uuid%22:{}%7D", last["uuid"]).replace('"', "%22");
        seen.extend(page);
    }
    let expected: Vec<Value> = [4, 2, 1, 0].map(|number| json!({ "uuid": vm(number)["uuid"] })).to_vec();
    assert_eq!(seen, expected);
    let (status, _, first) =
        get(&double, Service::Vmapi, "/vms?limit=1&state=active&marker=%7B%22uuid%22:%22000000%22%7D");
    assert_eq!((status, first), (200, json!([])));
}

#[test]
fn single_elements_and_errors_are_answered_as_the_services_do() {
    let double = double();
    let uuid = vm(3)["uuid"].as_str().unwrap().to_owned();
    double.edit(|datacenter| datacenter.destroy_vm(&uuid));
    let (status, _, destroyed) = get(&double, Service::Vmapi, &format!("/vms/{uuid}"));
    assert_eq!((status, destroyed["state"].as_str()), (200, Some("destroyed")));
    let (status, _, missing) = get(&double, Service::Vmapi, "/vms/none");
    assert_eq!((status, missing["code"].as_str()), (404, Some("ResourceNotFound")));
    let (_, _, servers) = get(&double, Service::Cnapi, "/servers?setup=true&extras=status");
    assert_eq!(servers, json!([{ "uuid": "c0", "setup": true, "status": "running" }]));
    let (status, _, nic) = get(&double, Service::Napi, "/nics/90b8d0aa0001");
    assert_eq!((status, nic["ip"].as_str()), (200, Some("198.51.100.11")));
    let (_, _, networks) = get(&double, Service::Napi, "/networks?nic_tag=external&vlan_id=7");
    assert_eq!(networks[0]["uuid"], "e0");
    let (_, _, networks) = get(&double, Service::Napi, "/networks?nic_tag=external&vlan_id=0");
    assert_eq!(networks, json!([]));
}

#[test]
fn switches_fail_shrink_and_refuse() {
    let double = double();
    double.fail(Service::Napi, 1);
    assert_eq!(get(&double, Service::Napi, "/networks").0, 500);
    assert_eq!(get(&double, Service::Napi, "/networks").0, 200);
    double.fail_path(Service::Vmapi, Some("/vms/"));
    assert_eq!(get(&double, Service::Vmapi, "/vms/none").0, 500);
    assert_eq!(get(&double, Service::Vmapi, "/vms").0, 200);
    double.shrink_pages(Some(2));
    for (path, length) in [("/vms?limit=4", 2), ("/vms", 1), ("/vms", 1)] {
        assert_eq!(get(&double, Service::Vmapi, path).2.as_array().unwrap().len(), length, "they shrink");
    }
    double.shrink_pages(Some(2));
    double.refuse(Service::Cnapi, true);
    assert_eq!(get(&double, Service::Cnapi, "/servers").0, 0);
    double.between_pages(|datacenter| datacenter.forget_vm(vm(0)["uuid"].as_str().unwrap()));
    assert_eq!(get(&double, Service::Vmapi, "/vms").2.as_array().unwrap().len(), 2);
    double.shrink_pages(None);
    let marker = format!("/vms?marker=%7B%22uuid%22:%22{}%22%7D", vm(2)["uuid"].as_str().unwrap());
    assert_eq!(get(&double, Service::Vmapi, &marker).2.as_array().unwrap().len(), 1);
    double.fail_further_pages(true);
    assert_eq!(get(&double, Service::Vmapi, &marker).0, 500);
    assert_eq!(get(&double, Service::Vmapi, "/vms").0, 200);
    assert_eq!(double.calls().last().unwrap().service, Service::Vmapi);
}

#[tokio::test]
async fn the_feed_begins_with_the_bootstrap_and_tells_of_changes() {
    let double = double();
    let connect = || async {
        let stream = tokio::net::TcpStream::connect(double.address(Service::Vmapi)).await.unwrap();
        let (mut socket, _) =
            client_async(format!("ws://{}/changefeeds", double.address(Service::Vmapi)), stream).await.unwrap();
        let kind = json!({ "resource": "vm", "subResources": ["tags", "state"] });
        let registration = json!({ "instance": "i", "service": "cns", "changeKind": kind });
        socket.send(Message::text(registration.to_string())).await.unwrap();
        socket
    };
    let mut socket = connect().await;
    let read = |message: Message| serde_json::from_str::<Value>(&message.into_text().unwrap()).unwrap();
    let bootstrap = read(socket.next().await.unwrap().unwrap());
    assert_eq!(bootstrap["bootstrapRoute"], "/vms");
    let uuid = vm(1)["uuid"].as_str().unwrap().to_owned();
    double.drop_items(1);
    double.edit(|datacenter| datacenter.vm(&uuid)["state"] = json!("stopped"));
    double.edit(|datacenter| datacenter.vm(&uuid)["alias"] = json!("not asked for"));
    double.repeat_items(true);
    double.edit(|datacenter| datacenter.vm(&uuid)["tags"] = json!({ "triton.cns.services": "web" }));
    for _ in 0..2 {
        let item = read(socket.next().await.unwrap().unwrap());
        assert_eq!(item["changedResourceId"], *uuid);
        assert_eq!(item["changeKind"]["subResources"], json!(["tags"]));
        assert_eq!(item["resourceObject"]["state"], "stopped");
    }
    let mut second = connect().await;
    read(second.next().await.unwrap().unwrap());
    assert!(matches!(socket.next().await, Some(Ok(Message::Close(_)))), "a later connection takes over");
    assert_eq!(double.listeners(), 1);
    double.cut_feeds(Cut::Drop);
    assert!(second.next().await.unwrap().is_err());
    assert_eq!(double.listeners(), 0);
}

/// A connection to the directory.
struct Client {
    framed: Framed<tokio::net::TcpStream, LdapCodec>,
}

impl Client {
    async fn new(double: &Double, password: &str) -> (Client, LdapResultCode) {
        let stream = tokio::net::TcpStream::connect(double.address(Service::Ufds)).await.unwrap();
        let mut client = Client { framed: Framed::new(stream, LdapCodec::default()) };
        let cred = LdapBindCred::Simple(password.to_owned());
        let bind = LdapBindRequest { version: 3, dn: BIND_DN.to_owned(), cred };
        client.framed.send(LdapMsg::new(1, LdapOp::BindRequest(bind))).await.unwrap();
        let LdapOp::BindResponse(response) = client.framed.next().await.unwrap().unwrap().op else { panic!("no bind") };
        (client, response.res.code)
    }

    /// First values of an attribute of all entries that are found, and how the search ended.
    async fn search(&mut self, base: &str, filter: LdapFilter, attribute: &str) -> (Vec<String>, LdapResultCode) {
        let search = LdapSearchRequest {
            base: base.to_owned(),
            scope: LdapSearchScope::OneLevel,
            aliases: LdapDerefAliases::Never,
            sizelimit: 2,
            timelimit: 0,
            typesonly: false,
            filter,
            attrs: vec![attribute.to_owned()],
        };
        self.framed.send(LdapMsg::new(2, LdapOp::SearchRequest(search))).await.unwrap();
        let mut found = Vec::new();
        loop {
            match self.framed.next().await.unwrap().unwrap().op {
                LdapOp::SearchResultEntry(entry) => {
                    assert_eq!(entry.attributes.len(), 1);
                    found.push(String::from_utf8(entry.attributes[0].vals[0].clone()).unwrap());
                }
                LdapOp::SearchResultDone(result) => return (found, result.code),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn the_directory_tells_accounts_and_logs_their_changes() {
    let double = double();
    let (mut stranger, code) = Client::new(&double, "guess").await;
    assert_eq!(code, LdapResultCode::InvalidCredentials);
    let equal = |login: &str| LdapFilter::Equality("login".to_owned(), login.to_owned());
    let users = "ou=users, o=smartdc";
    let since = |number: u64| LdapFilter::GreaterOrEqual("changenumber".to_owned(), number.to_string());
    assert_eq!(stranger.search(users, equal("acme"), "uuid").await.1, LdapResultCode::InsufficentAccessRights);
    let (mut client, code) = Client::new(&double, PASSWORD).await;
    assert_eq!(code, LdapResultCode::Success);
    let account = json!({ "uuid": "a0", "login": "acme", "triton_cns_enabled": true });
    double.edit(|datacenter| datacenter.directory.count_from(999));
    double.edit(|datacenter| datacenter.directory.put(account));
    assert_eq!(client.search(users, equal("acme"), "triton_cns_enabled").await.0, ["true"]);
    let present = LdapFilter::Present("objectclass".to_owned());
    assert_eq!(client.search("cn=latestchangenumber", present, "count").await.0, ["1000"]);
    double.edit(|datacenter| {
        let account = datacenter.directory.account("a0");
        account["login"] = json!("acme2");
        account["approved_for_provisioning"] = json!("true");
    });
    double.edit(|datacenter| datacenter.directory.remove("a0"));
    let (changes, code) = client.search("cn=changelog", since(1001), "changes").await;
    assert_eq!(code, LdapResultCode::Success);
    let operations: Value = serde_json::from_str(&changes[0]).unwrap();
    let step = |operation: &str, name: &str, value: &str| json!({ "operation": operation, "modification": { "type": name, "vals": [value] } });
    let expected = [step("add", "approved_for_provisioning", "true"), step("replace", "login", "acme2")];
    assert_eq!(operations, json!(expected));
    let (numbers, code) = client.search("cn=changelog", since(0), "changenumber").await;
    assert_eq!((numbers, code), (vec!["999".to_owned(), "1000".to_owned()], LdapResultCode::SizeLimitExceeded));
    assert_eq!(client.search(users, equal("acme2"), "uuid").await, (Vec::new(), LdapResultCode::Success));
    double.fail_path(Service::Ufds, Some("cn=changelog"));
    assert_eq!(client.search("cn=changelog", since(0), "changenumber").await.1, LdapResultCode::OperationsError);
    double.cut_directory();
    assert!(client.framed.next().await.is_none());
}
