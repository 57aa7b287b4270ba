//! The network of a guest, as the host describes it, in the files of systemd-networkd.
//!
//! `sdc:nics` lists the interfaces: hardware address, addresses with prefix lengths or `dhcp` or `addrconf`, gateways.
//! The default route is that of the primary interface alone. `sdc:routes` lists what else is behind a gateway, or, with
//! an address of our own in its place, on the link of that address.
//!
//! Invariants: only what parses as an address or a number gets into a file; a route that is wrong is told and left out,
//! and costs no other.
//!
//! Cost: O(interfaces).

use super::find::NetworkKeys;
use crate::acl::network_of;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::Path;

/// Files begin with it; files of others are left alone.
const PREFIX: &str = "10-triton-";
/// Name servers, in the form that C libraries read.
const RESOLVERS: &str = "triton-resolv.conf";

/// Interface, with the fields of the description that are used.
#[derive(Debug, Deserialize)]
struct Nic {
    mac: String,
    #[serde(default)]
    primary: bool,
    #[serde(default)]
    ips: Vec<String>,
    #[serde(default)]
    gateways: Vec<String>,
    mtu: Option<u32>,
    /// The older form of `ips` and `gateways`.
    ip: Option<String>,
    netmask: Option<String>,
    gateway: Option<String>,
}

/// A route beside those that addresses and gateways of interfaces bring.
#[derive(Debug, Deserialize)]
struct Route {
    dst: String,
    gateway: String,
    /// True if the gateway is the address of one of our interfaces, and stands for that interface.
    #[serde(default)]
    linklocal: bool,
}

/// The file of an interface that is being written.
struct Draft {
    is_primary: bool,
    has_dhcp: bool,
    addresses: Vec<(IpAddr, u8)>,
    text: String,
}

/// The files for what the host says, by name; an error says what is not understood. Routes that are left out become
/// problems.
pub fn describe(keys: &NetworkKeys, problems: &mut Vec<String>) -> Result<BTreeMap<String, String>, String> {
    let nics = keys.nics.as_deref().unwrap_or("[]");
    let nics: Vec<Nic> = serde_json::from_str(nics).map_err(|error| format!("sdc:nics is not understood: {error}"))?;
    // A host that marks none leaves the choice to DHCP and to routers.
    let has_primary = nics.iter().any(|nic| nic.primary);
    let mut drafts = nics.iter().map(|nic| describe_nic(nic, has_primary)).collect::<Result<Vec<Draft>, String>>()?;
    add_routes(&mut drafts, keys.routes.as_deref().unwrap_or("[]"), problems);
    let file = |(index, draft): (usize, Draft)| (format!("{PREFIX}{index}.network"), draft.text);
    let mut files: BTreeMap<String, String> = drafts.into_iter().enumerate().map(file).collect();
    let resolvers = keys.resolvers.as_deref().unwrap_or("[]");
    let resolvers: Vec<IpAddr> =
        serde_json::from_str(resolvers).map_err(|error| format!("sdc:resolvers is not understood: {error}"))?;
    let lines: String = resolvers.iter().map(|address| format!("nameserver {address}\n")).collect();
    if !lines.is_empty() {
        files.insert(RESOLVERS.to_owned(), lines);
    }
    Ok(files)
}

/// The file of an interface.
fn describe_nic(nic: &Nic, has_primary: bool) -> Result<Draft, String> {
    let mut text = format!("[Match]\nMACAddress={}\n", read_mac(&nic.mac)?);
    if let Some(mtu) = nic.mtu {
        text += &format!("[Link]\nMTUBytes={mtu}\n");
    }
    let mut ips = nic.ips.clone();
    if let (true, Some(ip)) = (ips.is_empty(), &nic.ip) {
        ips.push(match &nic.netmask {
            Some(mask) if ip != "dhcp" => format!("{ip}/{}", prefix_length(mask)?),
            _ => ip.clone(),
        });
    }
    let (mut dhcp, mut router_advertisements, mut addresses) = (false, false, Vec::new());
    for ip in &ips {
        match ip.as_str() {
            "dhcp" => dhcp = true,
            "addrconf" => router_advertisements = true,
            _ => addresses.push(read_prefix(ip)?),
        }
    }
    let yes_no = |choice| if choice { "yes" } else { "no" };
    let dhcp_form = if dhcp { "ipv4" } else { "no" };
    text += &format!("[Network]\nDHCP={dhcp_form}\nIPv6AcceptRA={}\n", yes_no(router_advertisements));
    for (address, length) in &addresses {
        text += &format!("Address={address}/{length}\n");
    }
    let gateways = if nic.gateways.is_empty() { nic.gateway.as_slice() } else { &nic.gateways[..] };
    for gateway in gateways.iter().filter(|_| nic.primary) {
        let gateway: IpAddr = gateway.parse().map_err(|_| format!("{gateway:?} is no gateway"))?;
        text += &format!("Gateway={gateway}\n");
    }
    // Otherwise the default route of this interface would stand beside that of the primary one, and might win.
    let is_secondary = has_primary && !nic.primary;
    for (is_used, section) in [(dhcp, "DHCPv4"), (router_advertisements, "IPv6AcceptRA")] {
        if is_secondary && is_used {
            text += &format!("[{section}]\nUseGateway=no\n");
        }
    }
    Ok(Draft { is_primary: nic.primary, has_dhcp: dhcp, addresses, text })
}

/// Adds each route to the interface that it leaves by.
fn add_routes(drafts: &mut [Draft], routes: &str, problems: &mut Vec<String>) {
    let routes: Vec<serde_json::Value> = match serde_json::from_str(routes) {
        Ok(routes) => routes,
        Err(error) => return problems.push(format!("sdc:routes is not understood: {error}")),
    };
    for route in routes {
        if let Err(problem) = add_route(drafts, &route) {
            problems.push(format!("the route {route} of sdc:routes is left out: {problem}"));
        }
    }
}

/// Adds a route, or returns the reason for leaving it out.
fn add_route(drafts: &mut [Draft], route: &serde_json::Value) -> Result<(), String> {
    let Route { dst, gateway, linklocal } = Route::deserialize(route).map_err(|error| error.to_string())?;
    let (address, length) = match dst.parse::<IpAddr>() {
        Ok(address) => (address, if address.is_ipv4() { 32 } else { 128 }),
        Err(_) => read_prefix(&dst)?,
    };
    let gateway: IpAddr = gateway.parse().map_err(|_| format!("{gateway:?} is no gateway"))?;
    if gateway.is_ipv4() != address.is_ipv4() {
        return Err("destination and gateway differ in family".to_owned());
    }
    let has_dhcp = |draft: &&mut Draft| draft.has_dhcp && gateway.is_ipv4() && !linklocal;
    let is_meant = |(own, length): &(IpAddr, u8)| match linklocal {
        true => *own == gateway,
        false => own.is_ipv4() == gateway.is_ipv4() && network_of(*own, *length) == network_of(gateway, *length),
    };
    let index = drafts.iter().position(|draft| draft.addresses.iter().any(is_meant));
    let draft = match index {
        Some(index) => &mut drafts[index],
        // What DHCP will give is not known yet; with one such interface there is no other choice.
        None => {
            let mut candidates = drafts.iter_mut().filter(has_dhcp);
            let first = candidates.next().ok_or("no interface leads to its gateway")?;
            if candidates.next().is_some() {
                return Err("several interfaces might lead to its gateway".to_owned());
            }
            first
        }
    };
    if length == 0 && !draft.is_primary {
        return Err("the default route is that of the primary interface alone".to_owned());
    }
    let way = if linklocal { "Scope=link".to_owned() } else { format!("Gateway={gateway}") };
    draft.text += &format!("[Route]\nDestination={}/{length}\n{way}\n", network_of(address, length));
    Ok(())
}

/// A hardware address, whose parts may lack leading zeros.
fn read_mac(text: &str) -> Result<String, String> {
    let part = |part: &str| (part.len() <= 2).then(|| u8::from_str_radix(part, 16).ok()).flatten();
    let parts: Option<Vec<String>> = text.split(':').map(|text| part(text).map(|byte| format!("{byte:02x}"))).collect();
    parts.filter(|parts| parts.len() == 6).map(|parts| parts.join(":")).ok_or(format!("{text:?} is no MAC address"))
}

/// An address with a prefix length.
fn read_prefix(text: &str) -> Result<(IpAddr, u8), String> {
    let read = || {
        let (address, length) = text.split_once('/')?;
        let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
        (length <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, length))
    };
    read().ok_or_else(|| format!("{text:?} is no address with a prefix length"))
}

/// The length that a mask of IPv4 stands for.
fn prefix_length(mask: &str) -> Result<u32, String> {
    let bits: Option<u32> = mask.parse::<std::net::Ipv4Addr>().ok().map(u32::from);
    bits.filter(|bits| bits.leading_ones() + bits.trailing_zeros() == 32 || *bits == 0)
        .map(u32::leading_ones)
        .ok_or_else(|| format!("{mask:?} is no netmask"))
}

/// Writes files into a folder and removes earlier ones of ours; whether anything changed.
pub fn write_files(folder: &Path, files: &BTreeMap<String, String>) -> io::Result<bool> {
    std::fs::create_dir_all(folder)?;
    let mut has_changed = false;
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with(PREFIX) && !files.contains_key(&name) {
            std::fs::remove_file(folder.join(&name))?;
            has_changed = true;
        }
    }
    for (name, text) in files {
        let path = folder.join(name);
        if std::fs::read_to_string(&path).ok().as_ref() != Some(text) {
            std::fs::write(&path, text)?;
            has_changed = true;
        }
    }
    Ok(has_changed)
}

/// Sets the machine's name, as much of it as a host name may have.
pub fn set_host_name(name: &str) -> io::Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let name: String = name.trim().chars().filter(|c| allowed(*c)).collect();
    match name.len() {
        1..=64 => Ok(rustix::system::sethostname(name.as_bytes())?),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(nics: &str, resolvers: &str) -> Result<BTreeMap<String, String>, String> {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let keys = NetworkKeys { nics: text(nics), resolvers: text(resolvers), ..NetworkKeys::default() };
        describe(&keys, &mut Vec::new())
    }

    /// The files for interfaces and routes, and what is wrong with the routes.
    fn routes(nics: &str, routes: &str) -> (Vec<String>, Vec<String>) {
        let (nics, routes) = (Some(nics.to_owned()), Some(routes.to_owned()));
        let mut problems = Vec::new();
        let files = describe(&NetworkKeys { nics, routes, ..NetworkKeys::default() }, &mut problems).unwrap();
        (files.into_values().collect(), problems)
    }

    #[test]
    fn interfaces_become_files() {
        let nics = r#"[{"interface":"net0","mac":"90:b8:d0:1:A:ff","primary":true,"nic_tag":"external","vlan_id":3,
            "ips":["203.0.113.53/24","2001:db8::53/64","addrconf"],"gateways":["203.0.113.1","2001:db8::1"],"mtu":1500},
            {"mac":"90:b8:d0:00:00:02","ips":["dhcp","addrconf"],"gateways":["10.0.0.1"]}]"#;
        let found = files(nics, r#"["192.0.2.1","2001:db8::8"]"#).unwrap();
        assert_eq!(
            found["10-triton-0.network"],
            "[Match]\nMACAddress=90:b8:d0:01:0a:ff\n[Link]\nMTUBytes=1500\n[Network]\nDHCP=no\nIPv6AcceptRA=yes\n\
             Address=203.0.113.53/24\nAddress=2001:db8::53/64\nGateway=203.0.113.1\nGateway=2001:db8::1\n"
        );
        assert_eq!(
            found["10-triton-1.network"],
            "[Match]\nMACAddress=90:b8:d0:00:00:02\n[Network]\nDHCP=ipv4\nIPv6AcceptRA=yes\n\
             [DHCPv4]\nUseGateway=no\n[IPv6AcceptRA]\nUseGateway=no\n",
            "only the primary interface has the default route"
        );
        assert_eq!(found[RESOLVERS], "nameserver 192.0.2.1\nnameserver 2001:db8::8\n");
    }

    #[test]
    fn routes_leave_by_the_interface_of_their_gateway() {
        let nics = r#"[{"mac":"2:8:20:a:b:c","primary":true,"ips":["203.0.113.53/24","2001:db8::53/64"],"gateways":["203.0.113.1"]},
            {"mac":"2:8:20:a:b:d","ips":["10.1.2.3/22"]},{"mac":"2:8:20:a:b:e","ips":["dhcp"]}]"#;
        let good = r#"[{"linklocal":false,"dst":"10.99.99.7/16","gateway":"10.1.0.1"},{"dst":"192.0.2.9","gateway":"10.1.0.1"},
            {"linklocal":true,"dst":"172.16.0.0/12","gateway":"10.1.2.3"},{"dst":"2001:db8:9::/48","gateway":"2001:db8::1"},
            {"dst":"10.88.0.0/16","gateway":"192.168.7.1"}]"#;
        let (files, problems) = routes(nics, good);
        assert_eq!(problems, [""; 0]);
        assert!(
            files[0].ends_with("Gateway=203.0.113.1\n[Route]\nDestination=2001:db8:9::/48\nGateway=2001:db8::1\n"),
            "{}",
            files[0]
        );
        assert!(
            files[1].ends_with(
                "Address=10.1.2.3/22\n[Route]\nDestination=10.99.0.0/16\nGateway=10.1.0.1\n\
                 [Route]\nDestination=192.0.2.9/32\nGateway=10.1.0.1\n[Route]\nDestination=172.16.0.0/12\nScope=link\n"
            ),
            "{}",
            files[1]
        );
        assert!(files[2].ends_with("[Route]\nDestination=10.88.0.0/16\nGateway=192.168.7.1\n"), "{}", files[2]);
    }

    #[test]
    fn routes_that_are_wrong_are_left_out_alone() {
        let nics = r#"[{"mac":"2:8:20:a:b:c","primary":true,"ips":["203.0.113.53/24"]},
            {"mac":"2:8:20:a:b:d","ips":["10.1.2.3/22"]}]"#;
        for bad in [
            r#"{"dst":"10.9.0.0/33","gateway":"10.1.0.1"}"#,
            r#"{"dst":"10.9.0.0/16\n[Match]","gateway":"10.1.0.1"}"#,
            r#"{"dst":"10.9.0.0/16","gateway":"nics[1]"}"#,
            r#"{"dst":"10.9.0.0/16","gateway":"192.0.2.1"}"#,
            r#"{"linklocal":true,"dst":"10.9.0.0/16","gateway":"10.1.0.1"}"#,
            r#"{"dst":"2001:db8::/32","gateway":"10.1.0.1"}"#,
            r#"{"dst":"0.0.0.0/0","gateway":"10.1.0.1"}"#,
            r#"{"gateway":"10.1.0.1"}"#,
            "7",
        ] {
            let good = r#"{"dst":"10.8.0.0/16","gateway":"10.1.0.1"}"#;
            let (files, problems) = routes(nics, &format!("[{bad},{good}]"));
            assert_eq!(problems.len(), 1, "{bad}");
            assert!(
                files[1].ends_with("Address=10.1.2.3/22\n[Route]\nDestination=10.8.0.0/16\nGateway=10.1.0.1\n"),
                "{bad}"
            );
            assert!(!files[0].contains("[Route]"), "{bad}");
        }
        assert_eq!(routes(nics, "{}").1.len(), 1);
        assert_eq!(network_of("10.1.2.3".parse().unwrap(), 0), IpAddr::from([0, 0, 0, 0]));
    }

    #[test]
    fn the_older_form_is_understood() {
        let nics =
            r#"[{"mac":"2:8:20:a:b:c","primary":true,"ip":"10.1.2.3","netmask":"255.255.252.0","gateway":"10.1.0.1"}]"#;
        let text = &files(nics, "").unwrap()["10-triton-0.network"];
        assert!(text.ends_with("Address=10.1.2.3/22\nGateway=10.1.0.1\n"), "{text}");
        assert_eq!(files("", "").unwrap(), BTreeMap::new());
    }

    #[test]
    fn what_is_no_address_gets_nowhere() {
        for nics in [
            "{}",
            r#"[{"mac":"1:2:3:4:5"}]"#,
            r#"[{"mac":"1:2:3:4:5:zz"}]"#,
            r#"[{"mac":"1:2:3:4:5:6","ips":["10.0.0.1/33"]}]"#,
            r#"[{"mac":"1:2:3:4:5:6","ips":["10.0.0.1/24\n[Match]"]}]"#,
            r#"[{"mac":"1:2:3:4:5:6","primary":true,"gateways":["x"]}]"#,
            r#"[{"mac":"1:2:3:4:5:6","ip":"10.0.0.1","netmask":"255.0.255.0"}]"#,
        ] {
            assert!(files(nics, "").is_err(), "{nics}");
        }
        assert!(files("[]", r#"["resolver.example"]"#).is_err());
    }

    #[test]
    fn only_our_files_are_changed() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("20-other.network");
        std::fs::write(&other, "other").unwrap();
        let one = files(r#"[{"mac":"1:2:3:4:5:6","ips":["dhcp"]}]"#, "").unwrap();
        assert!(write_files(folder.path(), &one).unwrap());
        assert!(!write_files(folder.path(), &one).unwrap());
        assert!(write_files(folder.path(), &BTreeMap::new()).unwrap());
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, [other]);
    }
}
