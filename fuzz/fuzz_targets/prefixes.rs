//! Files of prefixes of any content: each line has its place, and the table of clients is that of the prefixes.

#![no_main]

use aggregator::acl::Prefix;
use aggregator::clients::{Clients, Home};
use aggregator::config::read_prefixes;
use libfuzzer_sys::fuzz_target;
use std::collections::HashSet;

fuzz_target!(|text: &str| {
    let (mut prefixes, mut seen): (Vec<(Prefix, Home)>, HashSet<Prefix>) = Default::default();
    let mut last = None;
    for (at, read) in read_prefixes(text) {
        assert!(text.is_char_boundary(at) && at < text.len() && last < Some(at));
        last = Some(at);
        match read {
            Ok(prefix) => {
                assert_eq!(prefix.to_string().parse(), Ok(prefix));
                if seen.insert(prefix) {
                    prefixes.push((prefix, (prefixes.len() % 3) as Home));
                }
            }
            Err(problem) => assert!(problem.contains("; write ")),
        }
    }
    let clients = Clients::new(Vec::new(), &prefixes).expect("each prefix is there once");
    assert_eq!(clients.prefixes(), prefixes.len());
    for (prefix, _) in prefixes.iter().take(100) {
        let around = prefixes.iter().filter(|(other, _)| other.contains(prefix.address()));
        let longest = around.max_by_key(|(other, _)| other.length()).map(|(_, home)| *home);
        assert_eq!(clients.home_of(prefix.address()), longest);
    }
});
