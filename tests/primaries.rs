//! Captured zones through real primaries.
mod harness;
use harness::*;

#[test]
fn peers_serve_and_follow_changes() {
    let folder = Folder::new();
    let text = std::fs::read_to_string("tests/data/captures/cns-axfr-us-west-1.cns.example.com.s0.txt").unwrap();
    let records = read_capture(&text);
    let zone = Dname::parse("us-west-1.cns.example.com.");
    let zones = [(zone.clone(), write_zone(&records))];
    for peer in [Named::start(&folder, &zones), Nsd::start(&folder, &zones), Knotd::start(&folder, &zones)] {
        let mut client = Client::new(peer.address());
        if let Some(text) = difference(&records, &client.transfer(&zone).unwrap()) {
            panic!("{}: {text}", peer.name());
        }
        let mut next = records.clone();
        next[0] = next[0].with_serial(next[0].serial() + 1);
        next.pop();
        peer.replace_zone(&zone, &write_zone(&next));
        if let Some(text) = difference(&next, &client.transfer(&zone).unwrap()) {
            panic!("{}: {text}", peer.name());
        }
    }
}
