//! Services that fail in all their ways: nothing is removed meanwhile, and everything is followed afterwards.

use crate::*;
use std::net::Ipv4Addr;
use std::time::Instant;

const OTHER_NETWORK: &str = "e0000000-0000-4000-8000-000000000002";
const OTHER_SERVER: &str = "c0000000-0000-4000-8000-000000000003";

/// Changes what a service tells of. Returns the numbers that are in service once it is known.
fn change(double: &Double, service: Service) -> &'static [u8] {
    double.edit(|inventory| match service {
        Service::Vmapi => {
            inventory.vm(&uuid(1))["state"] = json!("stopped");
            &[2, 3, 4][..]
        }
        Service::Cnapi => {
            inventory.server(SERVERS[0]).expect("a node")["status"] = json!("rebooting");
            &[2, 4]
        }
        Service::Napi => {
            inventory.networks.push(json!({ "uuid": OTHER_NETWORK, "name": "other" }));
            let mut vm = vm(9);
            vm["nics"][0]["network_uuid"] = json!(OTHER_NETWORK);
            inventory.put_vm(vm);
            &[1, 2, 3, 4, 9]
        }
        Service::Ufds => panic!("accounts are in a file"),
    })
}

/// Waits until the service has the addresses of these numbers; meanwhile those that are to stay do.
fn wait_without_loss(resolver: &mut Resolver, numbers: &[u8], stay: &[u8]) {
    let addresses = |numbers: &[u8]| numbers.iter().map(|number| site::address(*number)).collect::<Vec<Ipv4Addr>>();
    let (wanted, stay) = (addresses(numbers), addresses(stay));
    site::wait(&format!("it has {wanted:?}"), || {
        let found = resolver.addresses(SERVICE);
        assert!(stay.iter().all(|address| found.contains(address)), "{found:?} lacks some of {stay:?}");
        (found == wanted).then_some(())
    });
}

/// Waits until the status tells that something cannot be read.
fn wait_told(site: &Site) -> Value {
    site.wait_status("the failure is told", |source| {
        source["reading"] == "failing" || source["unreadable"].as_u64().is_some_and(|elements| elements > 0)
    })
}

/// Waits until the status tells of no failure.
fn wait_well(site: &Site) {
    site.wait_status("all is well", |source| source["reading"] == "current" && source["unreadable"] == 0);
}

/// A service accepts requests and does not answer them.
fn stay_silent(service: Service) {
    let mut datacenter = Datacenter::start(4);
    let Datacenter { double, site, resolver, .. } = &mut datacenter;
    wait_well(site);
    let serial = resolver.serial();
    double.silence(service, true);
    let numbers = change(double, service);
    let begun = Instant::now();
    let told = wait_told(site);
    println!("{service:?}: told after {:.3?}", begun.elapsed());
    assert!(told.to_string().contains("no answer within"), "{told}");
    assert_eq!((resolver.addresses(SERVICE).len(), resolver.serial()), (4, serial));
    double.silence(service, false);
    let begun = Instant::now();
    wait_without_loss(resolver, numbers, &[2, 4]);
    println!("{service:?}: followed {:.3?} after its silence", begun.elapsed());
    wait_well(site);
}

#[test]
fn a_silent_vmapi_removes_nothing() {
    stay_silent(Service::Vmapi);
}

#[test]
fn a_silent_cnapi_removes_nothing() {
    stay_silent(Service::Cnapi);
}

#[test]
fn a_silent_napi_removes_nothing() {
    stay_silent(Service::Napi);
}

/// A service answers some requests with 500; `is_cut` says whether the feed is lost, too.
fn answer_with_errors(service: Service, is_cut: bool) {
    let failures = 4;
    let mut datacenter = Datacenter::start(4);
    let Datacenter { double, site, resolver, .. } = &mut datacenter;
    wait_well(site);
    let serial = resolver.serial();
    double.fail(service, failures);
    if is_cut {
        double.cut_feeds(Cut::Drop);
    }
    double.forget_calls();
    let numbers = change(double, service);
    let begun = Instant::now();
    wait_told(site);
    assert_eq!((resolver.addresses(SERVICE).len(), resolver.serial()), (4, serial));
    wait_without_loss(resolver, numbers, &[2, 4]);
    println!("{service:?}, cut {is_cut}: followed after {:.3?} and {failures} errors", begun.elapsed());
    let calls = double.calls().iter().filter(|call| call.service == service).count();
    assert!(calls > failures as usize, "only {calls} requests");
    wait_well(site);
}

#[test]
fn a_vmapi_that_answers_with_errors_removes_nothing() {
    answer_with_errors(Service::Vmapi, false);
    answer_with_errors(Service::Vmapi, true);
}

#[test]
fn a_cnapi_that_answers_with_errors_removes_nothing() {
    answer_with_errors(Service::Cnapi, false);
    answer_with_errors(Service::Cnapi, true);
}

#[test]
fn a_napi_that_answers_with_errors_removes_nothing() {
    answer_with_errors(Service::Napi, false);
    answer_with_errors(Service::Napi, true);
}

#[test]
fn an_error_behind_the_first_page_removes_nothing() {
    let mut datacenter = Datacenter::start(5);
    let Datacenter { double, site, resolver, .. } = &mut datacenter;
    wait_well(site);
    double.shrink_pages(Some(2));
    double.fail_further_pages(true);
    double.cut_feeds(Cut::Drop);
    // The first page has the new one and the last of the old ones, and is all that there is.
    double.edit(|inventory| {
        inventory.put_vm(vm(9));
        inventory.destroy_vm(&uuid(1));
    });
    wait_without_loss(resolver, &[1, 2, 3, 4, 5, 9], &[1, 2, 3, 4, 5]);
    let told = wait_told(site);
    assert!(told.to_string().contains("VMAPI answered 500"), "{told}");
    let pages = || double.calls().iter().filter(|call| call.path.contains("marker")).count();
    let asked = pages();
    site::wait("the page is asked for again and again", || (pages() > asked + 2).then_some(()));
    assert_eq!(resolver.addresses(SERVICE).len(), 6, "nobody knows what other pages have");
    double.fail_further_pages(false);
    let begun = Instant::now();
    wait_without_loss(resolver, &[2, 3, 4, 5, 9], &[2, 3, 4, 5, 9]);
    println!("followed {:.3?} after the errors", begun.elapsed());
    wait_well(site);
}

#[test]
fn pages_that_shrink_between_requests_remove_nothing() {
    let mut datacenter = Datacenter::start_listing(7, "2s");
    let Datacenter { double, site, resolver, .. } = &mut datacenter;
    wait_well(site);
    // Of three pages with three, two and one, the feed tells nothing.
    double.drop_items(2);
    double.shrink_pages(Some(3));
    double.between_pages(|inventory| {
        inventory.destroy_vm(&uuid(2));
        inventory.destroy_vm(&uuid(6));
    });
    let begun = Instant::now();
    let stay = [1, 3, 4, 5, 7];
    wait_without_loss(resolver, &stay, &stay);
    println!("followed after {:.3?}", begun.elapsed());
    double.forget_calls();
    let pages = || double.calls().iter().filter(|call| call.path.contains("marker")).count();
    site::wait("two further listings", || (pages() > 2 * stay.len()).then_some(()));
    wait_well(site);
    assert_eq!(resolver.addresses(SERVICE), stay.map(site::address));
}

#[test]
fn a_compute_node_and_a_network_that_come_later_give_names() {
    let mut datacenter = Datacenter::start(2);
    let Datacenter { double, site, resolver, .. } = &mut datacenter;
    let wait_undecided = |number: f64| {
        let undecided = || site.metric("inventory_instances", &[("state", "undecided")]);
        site::wait(&format!("{number} undecided"), || (undecided() == Some(number)).then_some(()));
    };
    double.edit(|inventory| {
        let mut without_node = vm(8);
        without_node["server_uuid"] = json!(OTHER_SERVER);
        inventory.put_vm(without_node);
        let mut without_network = vm(9);
        without_network["nics"][0]["network_uuid"] = json!(OTHER_NETWORK);
        inventory.put_vm(without_network);
    });
    wait_undecided(2.0);
    assert_eq!(resolver.addresses(SERVICE), [1, 2].map(site::address));
    // One that was decided goes to a node that nobody knows, and keeps its names.
    double.edit(|inventory| inventory.vm(&uuid(1))["server_uuid"] = json!(OTHER_SERVER));
    wait_undecided(3.0);
    assert_eq!(resolver.addresses(SERVICE), [1, 2].map(site::address));
    let begun = Instant::now();
    double.edit(|inventory| inventory.servers.push(server(OTHER_SERVER)));
    wait_without_loss(resolver, &[1, 2, 8], &[1, 2]);
    println!("the node is known after {:.3?}", begun.elapsed());
    assert_eq!(resolver.addresses("web8.inst.acme"), [site::address(8)]);
    let begun = Instant::now();
    double.edit(|inventory| inventory.networks.push(json!({ "uuid": OTHER_NETWORK, "name": "other" })));
    wait_without_loss(resolver, &[1, 2, 8, 9], &[1, 2, 8]);
    // Networks are listed once a minute.
    println!("the network is known after {:.3?}", begun.elapsed());
    assert_eq!(resolver.addresses("web9.inst.acme"), [site::address(9)]);
    wait_undecided(0.0);
    wait_well(site);
}

/// Asks for more than are on their way at a time, of a service that is silent, and sees that others are followed.
#[test]
fn a_silent_service_delays_no_other() {
    let mut datacenter = directory::start(14);
    let Datacenter { double, site, resolver, .. } = &mut datacenter;
    let all: Vec<u8> = (1..=14).collect();
    wait_well(site);
    double.silence(Service::Napi, true);
    // Nobody but NAPI knows the networks of these.
    double.edit(|inventory| {
        for number in 20..40 {
            inventory
                .put_vm(site::with(vm(number), json!({ "nics": [{ "mac": format!("90:b8:d0:00:01:{number}") }] })));
        }
    });
    let asked = |path: &str| double.calls().iter().filter(|call| call.path.starts_with(path)).count();
    site::wait("NAPI is asked", || (asked("/nics/") >= 10).then_some(()));
    let begun = Instant::now();
    double.edit(|inventory| inventory.destroy_vm(&uuid(14)));
    wait_without_loss(resolver, &all[..13], &all[..13]);
    println!("an instance is followed after {:.3?} with a silent NAPI", begun.elapsed());
    assert!(begun.elapsed() < times::PROMPT);
    double.silence(Service::Vmapi, true);
    double.forget_calls();
    double.edit(|inventory| {
        for number in 20..40 {
            inventory.vm(&uuid(number))["state"] = json!("stopped");
        }
    });
    site::wait("VMAPI is asked", || (asked("/vms/") >= 10).then_some(()));
    let begun = Instant::now();
    double.edit(|inventory| inventory.directory.account(OWNER)["triton_cns_enabled"] = json!("false"));
    wait_without_loss(resolver, &[], &[]);
    println!("an account is followed after {:.3?} with a silent VMAPI, too", begun.elapsed());
    assert!(begun.elapsed() < times::PROMPT + times::LOG);
}
