//! Accounts from UFDS: found, followed by the change log, and kept where UFDS fails.

use super::*;
use inventory::model::Account;

const OWNER: &str = "2c2457f2-0000-4000-8000-00000000000a";
const OTHER: &str = "2c2457f2-0000-4000-8000-00000000000b";
const ADMIN: &str = "930896af-0000-4000-8000-000000000001";

fn account(uuid: &str, login: &str) -> Value {
    json!({ "objectclass": "sdcPerson", "uuid": uuid, "login": login, "email": "a@example.com",
            "triton_cns_enabled": "true", "approved_for_provisioning": "true" })
}

/// A datacenter with some instances of the account `acme`.
fn site(vms: usize) -> Double {
    let double = datacenter(vms);
    double.edit(|datacenter| {
        datacenter.directory.put(account(OWNER, "acme"));
        datacenter.directory.put(account(ADMIN, "admin"));
    });
    double
}

fn directory(double: &Double, known: Vec<Key>, list_every: Duration) -> World {
    let address = double.address(Service::Ufds);
    let accounts = AccountsPlan::Ufds(UfdsPlan {
        host: address.ip().to_string(),
        port: address.port(),
        trust: TrustPlan::Plain,
        bind_dn: triton_double::BIND_DN.to_owned(),
        password: ("p".into(), triton_double::PASSWORD.to_owned().into()),
    });
    World::follow(plan(double, accounts, list_every), known, tempfile::tempdir().unwrap())
}

fn follow(double: &Double) -> World {
    directory(double, Vec::new(), Duration::from_secs(3600))
}

fn account_key(uuid: &str) -> Key {
    Key::Account(Uuid::try_parse(uuid).unwrap())
}

impl World {
    fn account(&self, uuid: &str) -> Option<&Account> {
        match self.elements.get(&account_key(uuid))? {
            Element::Account(account) => Some(account),
            _ => None,
        }
    }

    fn login(&self, uuid: &str) -> Option<&str> {
        self.account(uuid).map(|account| &*account.login)
    }
}

/// Number of searches for an account.
fn searches(double: &Double, uuid: &str) -> usize {
    double.calls().iter().filter(|call| call.service == Service::Ufds && call.path.contains(uuid)).count()
}

#[tokio::test]
async fn owners_are_found_and_their_changes_followed() {
    let double = site(3);
    let mut world = follow(&double);
    world.settle(&double).await;
    assert_eq!((world.login(OWNER), world.login(ADMIN)), (Some("acme"), Some("admin")), "the operator owns nothing");
    // As operations of the log: replace, delete, add, and a login.
    let set = |name: &'static str, value: Value| {
        double.edit(|datacenter| {
            let account = datacenter.directory.account(OWNER).as_object_mut().unwrap();
            if value.is_null() {
                account.remove(name)
            } else {
                account.insert(name.to_owned(), value)
            };
        });
    };
    set("triton_cns_enabled", json!("false"));
    world.until("disabled", |world| !world.account(OWNER).unwrap().cns_enabled).await;
    set("approved_for_provisioning", Value::Null);
    world.until("not approved", |world| !world.account(OWNER).unwrap().approved).await;
    set("approved_for_provisioning", json!("true"));
    world.until("approved", |world| world.account(OWNER).unwrap().approved).await;
    set("login", json!("acme2"));
    world.until("renamed", |world| world.login(OWNER) == Some("acme2")).await;
    // An account of which there is no instance is none of ours.
    double.edit(|datacenter| datacenter.directory.put(account(OTHER, "jim")));
    double.edit(|datacenter| {
        datacenter.directory.remove(OWNER);
        datacenter.directory.put(account(OTHER, "jim2"));
    });
    world.until("removed", |world| world.account(OWNER).is_none()).await;
    double.edit(|datacenter| datacenter.directory.put(account(OWNER, "acme")));
    world.until("back", |world| world.login(OWNER) == Some("acme")).await;
    assert_eq!((world.account(OTHER), searches(&double, OTHER), world.failures.len()), (None, 0, 0));
}

#[tokio::test]
async fn the_number_of_changes_grows_by_a_digit() {
    let double = site(1);
    double.edit(|datacenter| datacenter.directory.count_from(999));
    let mut world = follow(&double);
    world.settle(&double).await;
    double.edit(|datacenter| datacenter.directory.account(OWNER)["login"] = json!("acme2"));
    assert_eq!(double.edit(|datacenter| datacenter.directory.latest()), 1000);
    world.until("renamed", |world| world.login(OWNER) == Some("acme2")).await;
    double.edit(|datacenter| datacenter.directory.account(OWNER)["login"] = json!("acme3"));
    world.until("renamed again", |world| world.login(OWNER) == Some("acme3")).await;
    assert_eq!(world.failures.len(), 0);
}

#[tokio::test]
async fn pages_of_changes_and_logs_that_lack_some_lose_nothing() {
    let double = site(1);
    let mut world = follow(&double);
    world.settle(&double).await;
    let other = |datacenter: &mut triton_double::Datacenter, number: usize| {
        datacenter.directory.put(account(OTHER, &format!("jim{number}")));
        datacenter.directory.write_log();
    };
    double.edit(|datacenter| {
        (0..1500).for_each(|number| other(datacenter, number));
        datacenter.directory.account(OWNER)["login"] = json!("acme2");
    });
    world.until("on the second page", |world| world.login(OWNER) == Some("acme2")).await;
    let changes = |call: &&triton_double::Call| call.path.starts_with("cn=changelog");
    assert_eq!(double.calls().iter().filter(changes).count(), 2);
    // A log that was shortened, and a directory that was restored from a copy.
    double.edit(|datacenter| {
        datacenter.directory.account(OWNER)["login"] = json!("acme3");
        datacenter.directory.write_log();
        datacenter.directory.forget_log();
    });
    world.until("read again without a log", |world| world.login(OWNER) == Some("acme3")).await;
    double.edit(|datacenter| {
        datacenter.directory.account(OWNER)["login"] = json!("acme4");
        datacenter.directory.write_log();
        datacenter.directory.count_from(7);
    });
    world.until("read again after the copy", |world| world.login(OWNER) == Some("acme4")).await;
    assert_eq!(world.failures.len(), 0);
}

#[tokio::test]
async fn what_the_log_does_not_tell_is_found_by_the_next_listing() {
    let double = site(1);
    let mut world = directory(&double, Vec::new(), Duration::from_secs(1));
    world.settle(&double).await;
    double.edit(|datacenter| {
        datacenter.directory.account(OWNER)["login"] = json!("acme2");
        let latest = datacenter.directory.latest();
        datacenter.directory.write_log();
        datacenter.directory.count_from(latest);
    });
    world.until("found", |world| world.login(OWNER) == Some("acme2")).await;
}

#[tokio::test]
async fn an_owner_that_is_not_there_is_an_answer_and_may_come() {
    let double = datacenter(1);
    let mut world = follow(&double);
    world.until("listed", |world| world.listed > 0).await;
    assert_eq!((world.vms(), world.account(OWNER), world.failing), (1, None, 0));
    double.edit(|datacenter| datacenter.directory.put(account(OWNER, "acme")));
    world.until("there", |world| world.login(OWNER) == Some("acme")).await;
}

#[tokio::test]
async fn a_directory_that_is_away_at_the_start_loses_nothing() {
    let double = site(2);
    double.refuse(Service::Ufds, true);
    let known = vec![account_key(OWNER), key(1), key(2)];
    let mut world = directory(&double, known, Duration::from_secs(3600));
    let kept =
        Account { uuid: Uuid::try_parse(OWNER).unwrap(), login: "acme".into(), cns_enabled: true, approved: true };
    world.elements.insert(account_key(OWNER), Element::Account(kept));
    world.settle(&double).await;
    world.until("told", |world| world.failures.iter().any(|failure| failure.contains("UFDS"))).await;
    assert_eq!((world.vms(), world.login(OWNER)), (2, Some("acme")), "what was kept is used");
    double.edit(|datacenter| datacenter.directory.account(OWNER)["login"] = json!("acme2"));
    double.refuse(Service::Ufds, false);
    world.until("followed", |world| world.login(OWNER) == Some("acme2") && world.is_current).await;
    // Nobody knows whose the instances are where nothing was kept.
    double.refuse(Service::Ufds, true);
    double.cut_directory();
    let mut world = follow(&double);
    world.until("fails", |world| world.failing == 1 && world.vms() == 2).await;
    assert_eq!(world.listed, 0);
    double.refuse(Service::Ufds, false);
    world.until("listed", |world| world.listed == 1 && world.failing == 0).await;
    assert_eq!(world.login(OWNER), Some("acme2"));
}

#[tokio::test]
async fn faults_of_the_directory_are_told_and_pass() {
    let double = site(1);
    let mut world = follow(&double);
    world.settle(&double).await;
    // Searches for accounts fail, and the log does not.
    double.fail_path(Service::Ufds, Some("ou=users"));
    double.edit(|datacenter| datacenter.directory.account(OWNER)["login"] = json!("acme2"));
    world.until("one fails", |world| world.failing == 1).await;
    assert_eq!((world.login(OWNER), world.failures.len()), (Some("acme"), 0), "the last account is kept");
    double.fail_path(Service::Ufds, None);
    world.until("answered", |world| world.failing == 0 && world.login(OWNER) == Some("acme2")).await;
    // The number of changes is told, and the log is not: its changes are read later.
    double.fail_path(Service::Ufds, Some("cn=changelog"));
    double.edit(|datacenter| datacenter.directory.account(OWNER)["login"] = json!("acme3"));
    world.until("told", |world| world.failures.iter().any(|failure| failure.starts_with("status: UFDS"))).await;
    double.fail_path(Service::Ufds, None);
    world.until("read", |world| world.login(OWNER) == Some("acme3")).await;
    // Connections are cut, and changes come meanwhile.
    double.refuse(Service::Ufds, true);
    double.cut_directory();
    double.edit(|datacenter| datacenter.directory.account(OWNER)["login"] = json!("acme4"));
    world.until("cut", |world| world.failures.iter().any(|failure| failure.starts_with("disconnected: UFDS"))).await;
    double.refuse(Service::Ufds, false);
    world.until("back", |world| world.login(OWNER) == Some("acme4") && world.is_current).await;
    // It accepts requests and does not answer.
    double.silence(Service::Ufds, true);
    double.edit(|datacenter| datacenter.directory.account(OWNER)["login"] = json!("acme5"));
    world.until("silent", |world| world.failures.iter().any(|failure| failure.starts_with("slow: UFDS"))).await;
    double.silence(Service::Ufds, false);
    double.cut_directory();
    world.until("heard", |world| world.login(OWNER) == Some("acme5") && world.is_current).await;
}

#[tokio::test]
async fn a_wrong_password_is_told() {
    let double = site(1);
    let address = double.address(Service::Ufds);
    let accounts = AccountsPlan::Ufds(UfdsPlan {
        host: address.ip().to_string(),
        port: address.port(),
        trust: TrustPlan::Plain,
        bind_dn: triton_double::BIND_DN.to_owned(),
        password: ("p".into(), "another".to_owned().into()),
    });
    let plan = plan(&double, accounts, Duration::from_secs(3600));
    assert!(!format!("{plan:?}").contains("another"));
    let mut world = World::follow(plan, Vec::new(), tempfile::tempdir().unwrap());
    world.until("told", |world| world.failures.iter().any(|failure| failure.starts_with("credentials: UFDS"))).await;
    assert_eq!(world.listed, 0);
}
