//! The reference of documents has all that a document may say, and its examples are read.

use inventory::{cns, document};
use std::path::Path;

/// The reference.
fn text() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/inventory-file.md")).unwrap()
}

#[test]
fn examples_of_the_reference_are_read() {
    let text = text();
    let (documents, configuration) = text.split_once("## The configuration of CNS").unwrap();
    let (mut count, mut undecided) = (0, 0);
    for block in documents.split("```").skip(1).step_by(2) {
        let (language, example) = block.split_once('\n').unwrap();
        assert!(["toml", "json"].contains(&language), "{language}");
        let read =
            document::read(Path::new("example"), example, "us-west-1").unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(read.warnings, Vec::<String>::new());
        let found = read.inventory;
        assert!(!found.vms.is_empty());
        // Everything that an example names is in it.
        for vm in &found.vms {
            undecided += usize::from(!found.accounts.iter().any(|account| Some(account.uuid) == vm.owner));
            let networks = vm.nics.iter().filter_map(|nic| nic.network);
            let unknown = networks.filter(|uuid| !found.networks.iter().any(|network| network.uuid == *uuid));
            undecided += unknown.count();
        }
        let strangers = found.nics.iter().filter(|nic| !found.vms.iter().any(|vm| Some(vm.uuid) == nic.belongs_to));
        undecided += strangers.count();
        let owners = found.networks.iter().flat_map(|network| &network.owners);
        undecided += owners.filter(|uuid| !found.accounts.iter().any(|account| account.uuid == **uuid)).count();
        count += 1;
    }
    assert_eq!((count, undecided), (4, 0));
    let example = configuration.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let cns = cns::read(Path::new("example"), example).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(cns.forward[0].is_hidden && cns.warnings.is_empty());
}
