//! Records of a difference as uncompressed wire, packed while nobody reads them.
//!
//! The two blocks of a difference are packed together, a record of one and a record of the other in turns: as a rule they
//! have the same owners in the same order, and LZ4 finds again what came shortly before.
//!
//! Invariants: a block has the same records before, while and after it is packed; who reads has them in memory as long as
//! that takes, and all who read at a time share them.
//!
//! Cost: packing and opening a packed block O(octets), a GB a second and more; opening another one O(1).

use parking_lot::RwLock;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use wire::name::{Name, NameBuf};
use wire::rr::{self, CLASS_IN, Set};

/// A record out of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record<'a> {
    /// Wire form as the primary spells it.
    pub owner: &'a [u8],
    pub rtype: u16,
    /// Seconds.
    pub ttl: u32,
    /// Uncompressed.
    pub rdata: &'a [u8],
}

//--- Block ---

/// Records as wire: owner, type, class, TTL, length, RDATA.
#[derive(Default)]
pub struct Block {
    records: u32,
    /// Octets of the records.
    len: usize,
    contents: RwLock<Contents>,
    /// True once it was to be packed: what gains nothing by that is not tried again.
    tried: AtomicBool,
}

/// Records in memory.
#[derive(Clone)]
enum Contents {
    Plain(Arc<Vec<u8>>),
    /// One of two blocks that are packed together, and what is unpacked for those who read at the moment.
    Packed(Arc<Pair>, usize, Weak<Vec<u8>>),
}

impl Default for Contents {
    fn default() -> Contents {
        Contents::Plain(Arc::default())
    }
}

impl Block {
    /// Number of records.
    pub fn records(&self) -> u32 {
        self.records
    }

    /// Octets of the records.
    pub(super) fn len_bytes(&self) -> usize {
        self.len
    }

    /// Octets that the records occupy as they are in memory now, without what readers have of them.
    pub(super) fn kept_bytes(&self) -> usize {
        match &*self.contents.read() {
            Contents::Plain(bytes) => bytes.len(),
            Contents::Packed(pair, side, _) => (pair.packed.len() + side) / 2,
        }
    }

    /// Returns the records for reading.
    pub fn open(&self) -> OpenBlock {
        match &*self.contents.read() {
            Contents::Plain(bytes) => return OpenBlock(bytes.clone()),
            Contents::Packed(.., open) => {
                if let Some(bytes) = open.upgrade() {
                    return OpenBlock(bytes);
                }
            }
        }
        let mut contents = self.contents.write();
        let bytes = match &*contents {
            Contents::Plain(bytes) => bytes.clone(),
            Contents::Packed(pair, side, open) => open.upgrade().unwrap_or_else(|| Arc::new(pair.unpack(*side))),
        };
        if let Contents::Packed(.., open) = &mut *contents {
            *open = Arc::downgrade(&bytes);
        }
        OpenBlock(bytes)
    }

    /// Packs the records of two blocks, unless they are packed or that would save next to nothing.
    pub(super) fn pack(blocks: [&Block; 2]) {
        let is_packed = |block: &Block| matches!(&*block.contents.read(), Contents::Packed(..));
        if blocks.into_iter().any(is_packed) || blocks[0].tried.swap(true, Ordering::Relaxed) {
            return;
        }
        let open = blocks.map(Block::open);
        let pair = Arc::new(Pair::new(blocks.map(Block::records), &open));
        if pair.packed.len() < pair.len / 8 * 7 {
            for (side, (block, OpenBlock(bytes))) in blocks.into_iter().zip(open).enumerate() {
                *block.contents.write() = Contents::Packed(pair.clone(), side, Arc::downgrade(&bytes));
            }
        }
    }

    /// Puts blocks one behind the other.
    pub(super) fn join(blocks: Vec<BlockBuilder>) -> Block {
        let append = |mut whole: BlockBuilder, block: BlockBuilder| {
            whole.records += block.records;
            whole.bytes.extend_from_slice(&block.bytes);
            whole
        };
        blocks.into_iter().reduce(append).unwrap_or_default().finish()
    }

    /// A block of records in canonical order.
    pub(super) fn collect<'r>(records: HashSet<Record<'r>>) -> Block {
        let named = |record: Record<'r>| Some((name_of(record.owner)?, record));
        let mut records: Vec<(Name, Record<'_>)> = records.into_iter().filter_map(named).collect();
        records.sort_by(|(a_name, a), (b_name, b)| {
            let by_type = || a.rtype.cmp(&b.rtype);
            let by_rdata = || rr::compare(a.rtype, a.rdata, b.rdata).then_with(|| a.rdata.cmp(b.rdata));
            a_name.canonical_cmp(b_name).then_with(by_type).then_with(by_rdata)
        });
        let mut block = BlockBuilder::default();
        records.iter().for_each(|(_, record)| block.push(*record));
        block.finish()
    }

    /// Appends the records.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.open().0);
    }

    /// Checks that bytes are records of a zone and takes them.
    pub(super) fn read(origin: &Name, bytes: &[u8]) -> Option<Block> {
        let (mut position, mut records) = (0, 0);
        while position < bytes.len() {
            let (owner, after) = NameBuf::read_plain(bytes, position).ok()?;
            let (rtype, class, _, start, length) = rr::read_fixed(bytes, after)?;
            let sound = rr::is_data_type(rtype)
                && class == CLASS_IN
                && owner.to_name().is_within(origin)
                && rr::check_plain(rtype, &bytes[start..start + length]);
            if !sound {
                return None;
            }
            (position, records) = (start + length, records + 1);
        }
        Some(BlockBuilder { records, bytes: bytes.to_vec() }.finish())
    }
}

impl Clone for Block {
    fn clone(&self) -> Block {
        Block {
            records: self.records,
            len: self.len,
            contents: RwLock::new(self.contents.read().clone()),
            tried: AtomicBool::new(self.tried.load(Ordering::Relaxed)),
        }
    }
}

impl PartialEq for Block {
    fn eq(&self, other: &Block) -> bool {
        (self.records, self.len) == (other.records, other.len) && self.open().0 == other.open().0
    }
}

impl Eq for Block {}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.open().iter()).finish()
    }
}

//--- OpenBlock ---

/// The records of a block, in memory as long as this.
#[derive(Clone)]
pub struct OpenBlock(Arc<Vec<u8>>);

impl OpenBlock {
    /// Iterates over the records in canonical order.
    pub fn iter(&self) -> impl Iterator<Item = Record<'_>> + Clone {
        Records { bytes: &self.0, position: 0 }
    }
}

/// The records from a position on.
#[derive(Clone)]
struct Records<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (record, end) = read_record(self.bytes, self.position)?;
        self.position = end;
        Some(record)
    }
}

/// The octets of each of the records.
fn octets(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut position = 0;
    std::iter::from_fn(move || {
        let (_, end) = read_record(bytes, position)?;
        Some(&bytes[std::mem::replace(&mut position, end)..end])
    })
}

/// Reads the record at a position of sound bytes; returns where the next one begins.
fn read_record(bytes: &[u8], position: usize) -> Option<(Record<'_>, usize)> {
    let (owner, after) = NameBuf::read_plain(bytes, position).ok()?;
    let (rtype, _, ttl, start, length) = rr::read_fixed(bytes, after)?;
    let owner = &bytes[position..position + owner.as_wire().len()];
    Some((Record { owner, rtype, ttl, rdata: &bytes[start..start + length] }, start + length))
}

/// The name that an owner spells.
pub(super) fn name_of(owner: &[u8]) -> Option<Name> {
    NameBuf::from_wire(owner).ok().map(|owner| owner.to_name())
}

//--- Pair ---

/// The records of two blocks in turns, then those that one has more.
struct Pair {
    /// Number of records of each.
    records: [u32; 2],
    /// Octets of all records.
    len: usize,
    packed: Vec<u8>,
}

impl Pair {
    /// Packs two blocks with so many records.
    fn new(records: [u32; 2], blocks: &[OpenBlock; 2]) -> Pair {
        let mut sides = blocks.each_ref().map(|block| octets(&block.0));
        let mut both = Vec::with_capacity(blocks.iter().map(|block| block.0.len()).sum());
        for _ in 0..records[0].max(records[1]) {
            sides.iter_mut().filter_map(Iterator::next).for_each(|record| both.extend_from_slice(record));
        }
        let mut packed = lz4_flex::block::compress(&both);
        packed.shrink_to_fit();
        Pair { records, len: both.len(), packed }
    }

    /// Returns the records of one of the blocks.
    fn unpack(&self, side: usize) -> Vec<u8> {
        let both = lz4_flex::block::decompress(&self.packed, self.len).expect("what was packed can be unpacked");
        let (mut all, mut records) = (octets(&both), Vec::new());
        for turn in 0..self.records[0].max(self.records[1]) {
            for number in [0, 1].into_iter().filter(|number| turn < self.records[*number]) {
                records.extend(all.next().filter(|_| number == side));
            }
        }
        records.concat()
    }
}

//--- BlockBuilder ---

/// A block to which records come.
#[derive(Default)]
pub(super) struct BlockBuilder {
    records: u32,
    bytes: Vec<u8>,
}

impl BlockBuilder {
    /// Appends all records of an RRset under an owner.
    pub fn push_all(&mut self, owner: &[u8], rrset: Set<'_>) {
        let Set { rtype, ttl, .. } = rrset;
        rrset.rdatas().for_each(|rdata| self.push(Record { owner, rtype, ttl, rdata }));
    }

    /// Appends a record.
    pub fn push(&mut self, Record { owner, rtype, ttl, rdata }: Record<'_>) {
        self.bytes.extend_from_slice(owner);
        rr::put_record(rtype, ttl, rdata, &mut self.bytes);
        self.records += 1;
    }

    /// Returns the block.
    fn finish(mut self) -> Block {
        // It is kept for long.
        self.bytes.shrink_to_fit();
        let Self { records, bytes } = self;
        Block {
            records,
            len: bytes.len(),
            contents: RwLock::new(Contents::Plain(Arc::new(bytes))),
            tried: AtomicBool::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of so many records.
    fn block(records: u32) -> Block {
        let mut block = BlockBuilder::default();
        for number in 0..records {
            let owner = [b"\x04".as_slice(), format!("{number:04}").as_bytes(), b"\x01z\0"].concat();
            block.push(Record { owner: &owner, rtype: rr::rtype::A, ttl: 30, rdata: &number.to_be_bytes() });
        }
        block.finish()
    }

    #[test]
    fn packed_records_are_the_same_and_readers_share_them() {
        for other in [0, 10, 1000, 1500] {
            let (plain, packed, beside) = (block(1000), block(1000), block(other));
            let early = packed.open();
            Block::pack([&packed, &beside]);
            let octets = packed.kept_bytes() + beside.kept_bytes();
            assert!(octets < (plain.len_bytes() + beside.len_bytes()) / 3 * 2, "{octets}");
            assert_eq!((packed.len_bytes(), packed.records()), (plain.len_bytes(), plain.records()));
            assert!(Arc::ptr_eq(&early.0, &packed.open().0), "one who reads already");
            drop(early);
            assert_eq!((&packed, &beside), (&plain, &block(other)));
            assert!(packed.open().iter().eq(plain.open().iter()));
            let readers = [packed.open(), packed.clone().open(), packed.open()];
            assert!(Arc::ptr_eq(&readers[0].0, &readers[2].0));
            assert_eq!(readers[0].0, readers[1].0);
            // What is packed stays packed.
            Block::pack([&packed, &beside]);
            assert_eq!(packed.kept_bytes() + beside.kept_bytes(), octets);
            let mut bytes = Vec::new();
            packed.write(&mut bytes);
            assert_eq!(bytes, *plain.open().0);
        }
    }

    #[test]
    fn what_does_not_get_smaller_stays_as_it_is() {
        let blocks = [block(0), block(1)];
        Block::pack(blocks.each_ref());
        assert!(blocks.iter().all(|block| block.kept_bytes() == block.len_bytes()));
    }
}
