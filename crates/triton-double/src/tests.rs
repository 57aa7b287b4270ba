//! The double as its clients see it.

use super::*;
use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

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
    assert_eq!(get(&double, Service::Vmapi, "/vms?limit=4").2.as_array().unwrap().len(), 2);
    double.refuse(Service::Cnapi, true);
    assert_eq!(get(&double, Service::Cnapi, "/servers").0, 0);
    double.between_pages(|datacenter| datacenter.forget_vm(vm(0)["uuid"].as_str().unwrap()));
    assert_eq!(get(&double, Service::Vmapi, "/vms").2.as_array().unwrap().len(), 2);
    double.shrink_pages(None);
    let marker = format!("/vms?marker=%7B%22uuid%22:%22{}%22%7D", vm(2)["uuid"].as_str().unwrap());
    assert_eq!(get(&double, Service::Vmapi, &marker).2.as_array().unwrap().len(), 1);
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
