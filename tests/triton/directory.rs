//! Accounts that come from the datacenter's directory, UFDS, over LDAP with and without TLS.

use crate::*;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use triton_double::{BIND_DN, PASSWORD};

/// The configuration of a directory: where it is, and what else is to be said.
pub fn ufds(address: &str, folder: &Path, rest: &str) -> String {
    let password = folder.join("password");
    fs::write(&password, format!("{PASSWORD}\n")).expect("a file");
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).expect("its mode");
    let file = password.display();
    format!("ufds = {{ address = \"{address}\", bind_dn = \"{BIND_DN}\", password_file = \"{file}\"{rest} }}")
}

/// A datacenter whose change log has come to a number of three digits.
pub fn start(vms: u8) -> Datacenter {
    Datacenter::start_with(vms, |double, folder| {
        double.edit(|datacenter| datacenter.directory.count_from(999));
        ufds(&double.url(Service::Ufds), folder, "")
    })
}

fn set(double: &Double, name: &str, value: Value) {
    double.edit(|datacenter| datacenter.directory.account(OWNER)[name] = value);
}

#[test]
fn accounts_are_followed_by_the_change_log() {
    let mut datacenter = start(3);
    let Datacenter { double, resolver, site, .. } = &mut datacenter;
    // This change has the number 1000.
    set(double, "triton_cns_enabled", json!("false"));
    resolver.wait_addresses(SERVICE, &[]);
    resolver.wait_addresses("web1.inst.acme", &[]);
    set(double, "triton_cns_enabled", json!("true"));
    resolver.wait_addresses(SERVICE, &[1, 2, 3]);
    double.edit(|datacenter| {
        let account = datacenter.directory.account(OWNER).as_object_mut().expect("an account");
        account.remove("approved_for_provisioning");
    });
    resolver.wait_addresses(SERVICE, &[]);
    set(double, "approved_for_provisioning", json!("true"));
    resolver.wait_addresses(SERVICE, &[1, 2, 3]);
    set(double, "login", json!("acme2"));
    resolver.wait_addresses("web.svc.acme2", &[1, 2, 3]);
    resolver.wait_addresses(SERVICE, &[]);
    resolver.wait_addresses("web1.inst.acme2", &[1]);
    // Of an account that is not there nothing is known, and what was published stays.
    double.edit(|datacenter| datacenter.directory.remove(OWNER));
    let wait_undecided = |number: f64| {
        let undecided = || site.metric("inventory_instances", &[("state", "undecided")]);
        site::wait("nothing is decided", || (undecided() == Some(number)).then_some(()));
    };
    wait_undecided(3.0);
    double.edit(|inventory| inventory.put_vm(vm(9)));
    wait_undecided(4.0);
    assert_eq!(resolver.addresses("web.svc.acme2"), [1, 2, 3].map(site::address));
    double.edit(|datacenter| datacenter.directory.put(account("acme2")));
    resolver.wait_addresses("web.svc.acme2", &[1, 2, 3, 9]);
}

#[test]
fn a_directory_that_is_down_loses_nothing_also_at_the_start() {
    let mut datacenter = start(3);
    let Datacenter { double, resolver, site, .. } = &mut datacenter;
    site.wait_status("all is well", |source| source["reading"] == "current");
    let serial = resolver.serial();
    double.refuse(Service::Ufds, true);
    double.cut_directory();
    let told = site.wait_status("the failure is told", |source| source["reading"] == "failing");
    assert!(told["error"].as_str().is_some_and(|error| error.contains("UFDS")), "{told}");
    let failed = site.metric("inventory_failed_readings_total", &[("reason", "disconnected")]);
    assert!(failed.is_some_and(|failed| failed > 0.0), "{failed:?}");
    assert_eq!((resolver.addresses(SERVICE).len(), resolver.serial()), (3, serial));
    site.daemon.kill_and_restart(|| ());
    *resolver = site.resolver();
    resolver.wait_addresses(SERVICE, &[1, 2, 3]);
    site.wait_status("the failure is told", |source| source["reading"] == "failing");
    // Whose instances are known goes on without it.
    site::wait("the feed is listened to", || (double.listeners() == 1).then_some(()));
    double.edit(|inventory| inventory.destroy_vm(&uuid(2)));
    resolver.wait_addresses(SERVICE, &[1, 3]);
    set(double, "login", json!("acme2"));
    double.refuse(Service::Ufds, false);
    resolver.wait_addresses("web.svc.acme2", &[1, 3]);
    site.wait_status("all is well", |source| source["reading"] == "current");
    // Errors come and go.
    double.fail(Service::Ufds, 3);
    set(double, "login", json!("acme3"));
    resolver.wait_addresses("web.svc.acme3", &[1, 3]);
}

/// A server that takes TLS off connections and hands them on.
struct Unwrapped {
    address: SocketAddr,
    _runtime: Runtime,
}

impl Unwrapped {
    fn start(certificate: &Path, behind: SocketAddr) -> Unwrapped {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let chain = vec![CertificateDer::from_pem_file(certificate).expect("a certificate")];
        let key = PrivateKeyDer::from_pem_file(certificate.with_file_name("key.pem")).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("versions").with_no_client_auth().with_single_cert(chain, key).expect("a pair");
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // A client that does not believe the certificate goes.
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let mut behind = TcpStream::connect(behind).await.expect("the directory");
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut behind).await;
                });
            }
        });
        Unwrapped { address, _runtime: runtime }
    }
}

#[test]
fn a_certificate_is_verified_unless_the_file_says_that_it_is_not() {
    let mut unwrapped = None;
    let mut datacenter = Datacenter::start_with(2, |double, folder| {
        // It is nobody's but its own, and has another name.
        let certificate = certify(folder);
        let server = Unwrapped::start(&certificate, double.address(Service::Ufds));
        let listed = format!(", ca = \"{}\"", certificate.display());
        let plan = ufds(&format!("ldaps://{}", server.address), folder, &listed);
        unwrapped = Some((server, folder.to_owned(), listed));
        plan
    });
    let (server, folder, listed) = unwrapped.expect("it was started");
    let Datacenter { double, resolver, site, .. } = &mut datacenter;
    set(double, "login", json!("acme2"));
    resolver.wait_addresses("web.svc.acme2", &[1, 2]);
    let address = format!("ldaps://{}", server.address);
    let configuration = fs::read_to_string(site.daemon.configuration()).expect("the configuration");
    let with = |rest: &str| configuration.replace(&ufds(&address, &folder, &listed), &ufds(&address, &folder, rest));
    let reload = |text: &str| {
        write_file(site.daemon.configuration(), text);
        let reloaded = site.daemon.verb(&["reload"]);
        assert_eq!(reloaded.code, 0, "{reloaded:?}");
    };
    reload(&with(""));
    let told = site.wait_status("the certificate is refused", |source| source["reading"] == "failing");
    // A system may trust nobody at all.
    let refused = |error: &str| error.contains("UFDS no TLS") || error.contains("no certificate of an authority");
    assert!(told["error"].as_str().is_some_and(refused), "{told}");
    assert_eq!(resolver.addresses("web.svc.acme2").len(), 2);
    reload(&with(", verify = false"));
    set(double, "login", json!("acme3"));
    resolver.wait_addresses("web.svc.acme3", &[1, 2]);
}
