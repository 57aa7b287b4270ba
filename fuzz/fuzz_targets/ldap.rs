//! Octets of a directory: whatever comes, nothing panics, an account is the one that its name says, and a change log is
//! read as far as it can be without a doubt, or not at all.

#![no_main]

use aggregator::client::ldap::{self, Found};
use aggregator::source::inventory::triton::changelog::{Reading, Step};
use aggregator::source::inventory::triton::ufds;
use ldap3_proto::LdapCodec;
use ldap3_proto::proto::LdapOp;
use libfuzzer_sys::fuzz_target;
use tokio_util::bytes::BytesMut;
use tokio_util::codec::Decoder;

fuzz_target!(|data: &[u8]| {
    let mut octets = BytesMut::from(data);
    let mut codec = LdapCodec::new(Some(1 << 20), Some(16));
    let mut log = Found::default();
    while let Ok(Some(message)) = codec.decode(&mut octets) {
        let LdapOp::SearchResultEntry(entry) = message.op else { continue };
        if let Ok(entry) = ldap::read(entry.clone(), &ufds::ACCOUNT)
            && let Ok(Some(account)) = ufds::account(&entry)
        {
            assert_eq!(ufds::account_of(&entry.dn), Some(account.uuid));
        }
        log.entries.extend(ldap::read(entry, &ufds::CHANGE));
    }
    let Ok(page) = ufds::page(&log) else { return };
    let latest = page.changes.iter().map(|change| change.number).max().unwrap_or_default();
    if Reading::new(0, latest).take(&page) == Step::Doubtful {
        assert!(page.is_cut);
    }
});
