//! Values as octets.
//!
//! An inventory has very many instances, and looks at few of them at a time. So what is known of one, and what it
//! publishes, is kept as a [`Packed`] piece of memory of about a hundred octets, where the value itself takes five pieces
//! and several hundred, and is unpacked by whoever looks.
//!
//! Invariants: equal values have equal octets; the octets are those of this process, and are never written anywhere.
//!
//! Cost: O(octets) to pack and to unpack, some hundred nanoseconds.

use crate::contribution::{Link, Offer, Published};
use crate::model::{Interface, METADATA, Mac, Metadata, Moment, State, TAGS, Tag, TagValue, Uuid, Vm};
use crate::tag::Port;
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;

/// A value as octets.
#[derive(PartialEq, Eq)]
pub struct Packed<T>(Box<[u8]>, PhantomData<fn() -> T>);

/// Values that can be packed.
pub trait Pack: Sized {
    /// Appends the octets.
    fn write(&self, out: &mut Vec<u8>);

    /// Reads a value from the front of octets; none if they are not those of one.
    fn read(octets: &mut &[u8]) -> Option<Self>;
}

impl<T: Pack> Packed<T> {
    /// Packs a value.
    pub fn new(value: &T) -> Packed<T> {
        let mut octets = Vec::with_capacity(256);
        value.write(&mut octets);
        Packed(octets.into(), PhantomData)
    }

    /// Unpacks the value.
    pub fn open(&self) -> T {
        T::read(&mut &self.0[..]).expect("what was packed can be unpacked")
    }
}

impl<T: Pack + fmt::Debug> fmt::Debug for Packed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.open().fmt(f)
    }
}

/// Packs structs field by field, in the order in which they are named; a field that is forgotten does not compile.
macro_rules! pack_fields {
    ($($kind:ident { $($field:ident),* })*) => {$(
        impl Pack for $kind {
            fn write(&self, out: &mut Vec<u8>) {
                let $kind { $($field),* } = self;
                $($field.write(out);)*
            }

            fn read(octets: &mut &[u8]) -> Option<$kind> {
                $(let $field = Pack::read(octets)?;)*
                Some($kind { $($field),* })
            }
        }
    )*};
}

pack_fields! {
    Vm { uuid, alias, owner, server, state, destroyed, created, tags, metadata, nics }
    Interface { mac, nic_tag, vlan_id, network, addresses, dynamic }
    Published { owner, alias, login, bare, services, ptr, tokens, links }
    Offer { name, ports, is_in }
    Port { port, priority, weight }
    Link { addresses, zones, prefix, is_fabric }
}

impl Pack for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        let mut rest = *self;
        while rest > 0x7f {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    fn read(octets: &mut &[u8]) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let octet = u8::read(octets)?;
            number |= u64::from(octet & 0x7f) << shift;
            if octet < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

impl Pack for u8 {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn read(octets: &mut &[u8]) -> Option<u8> {
        let (first, rest) = octets.split_first()?;
        *octets = rest;
        Some(*first)
    }
}

impl Pack for u16 {
    fn write(&self, out: &mut Vec<u8>) {
        u64::from(*self).write(out);
    }

    fn read(octets: &mut &[u8]) -> Option<u16> {
        u64::read(octets)?.try_into().ok()
    }
}

impl Pack for bool {
    fn write(&self, out: &mut Vec<u8>) {
        out.push((*self).into());
    }

    fn read(octets: &mut &[u8]) -> Option<bool> {
        Some(u8::read(octets)? != 0)
    }
}

impl<const N: usize> Pack for [u8; N] {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn read(octets: &mut &[u8]) -> Option<[u8; N]> {
        let (first, rest) = octets.split_first_chunk()?;
        *octets = rest;
        Some(*first)
    }
}

impl Pack for Uuid {
    fn write(&self, out: &mut Vec<u8>) {
        self.as_bytes().write(out);
    }

    fn read(octets: &mut &[u8]) -> Option<Uuid> {
        Pack::read(octets).map(Uuid::from_bytes)
    }
}

impl Pack for Mac {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    fn read(octets: &mut &[u8]) -> Option<Mac> {
        Pack::read(octets).map(Mac)
    }
}

impl Pack for Moment {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.to_be_bytes().write(out);
    }

    fn read(octets: &mut &[u8]) -> Option<Moment> {
        Pack::read(octets).map(|octets| Moment(i64::from_be_bytes(octets)))
    }
}

impl Pack for IpAddr {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            IpAddr::V4(address) => (4u8, address.octets()).write(out),
            IpAddr::V6(address) => (6u8, address.octets()).write(out),
        }
    }

    fn read(octets: &mut &[u8]) -> Option<IpAddr> {
        match u8::read(octets)? {
            4 => <[u8; 4]>::read(octets).map(IpAddr::from),
            _ => <[u8; 16]>::read(octets).map(IpAddr::from),
        }
    }
}

impl Pack for Box<str> {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u64).write(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn read(octets: &mut &[u8]) -> Option<Box<str>> {
        let length = u64::read(octets)?.try_into().ok()?;
        let (text, rest) = octets.split_at_checked(length)?;
        *octets = rest;
        std::str::from_utf8(text).ok().map(Box::from)
    }
}

impl<T: Pack> Pack for Box<[T]> {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u64).write(out);
        self.iter().for_each(|element| element.write(out));
    }

    fn read(octets: &mut &[u8]) -> Option<Box<[T]>> {
        let length = u64::read(octets)?;
        (0..length).map(|_| T::read(octets)).collect()
    }
}

impl<T: Pack> Pack for Option<T> {
    fn write(&self, out: &mut Vec<u8>) {
        self.is_some().write(out);
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn read(octets: &mut &[u8]) -> Option<Option<T>> {
        if bool::read(octets)? { T::read(octets).map(Some) } else { Some(None) }
    }
}

impl<A: Pack, B: Pack> Pack for (A, B) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(octets: &mut &[u8]) -> Option<(A, B)> {
        Some((A::read(octets)?, B::read(octets)?))
    }
}

impl Pack for State {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(match self {
            State::Running => 0,
            State::Failed => 1,
            State::Destroyed => 2,
            State::Other => 3,
        });
    }

    fn read(octets: &mut &[u8]) -> Option<State> {
        [State::Running, State::Failed, State::Destroyed, State::Other].get(usize::from(u8::read(octets)?)).copied()
    }
}

impl Pack for TagValue {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            TagValue::Flag(flag) => flag.write(out),
            TagValue::Other => out.push(2),
            TagValue::Text(text) => {
                out.push(3);
                text.write(out);
            }
        }
    }

    fn read(octets: &mut &[u8]) -> Option<TagValue> {
        Some(match u8::read(octets)? {
            0 => TagValue::Flag(false),
            1 => TagValue::Flag(true),
            2 => TagValue::Other,
            _ => TagValue::Text(Pack::read(octets)?),
        })
    }
}

impl Pack for Tag {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn read(octets: &mut &[u8]) -> Option<Tag> {
        let number = u8::read(octets)?;
        TAGS.iter().map(|(_, tag)| *tag).find(|tag| *tag as u8 == number)
    }
}

impl Pack for Metadata {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn read(octets: &mut &[u8]) -> Option<Metadata> {
        let number = u8::read(octets)?;
        METADATA.iter().map(|(_, key)| *key).find(|key| *key as u8 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm() -> Vm {
        Vm {
            uuid: Uuid::from_u128(1),
            alias: Some("web".into()),
            owner: Some(Uuid::from_u128(2)),
            server: None,
            state: State::Running,
            destroyed: false,
            created: Some(Moment(-1)),
            tags: TAGS
                .iter()
                .zip([TagValue::Text("web:8080".into()), TagValue::Flag(true), TagValue::Other].into_iter().cycle())
                .map(|((_, tag), value)| (*tag, value))
                .collect(),
            metadata: METADATA.iter().map(|(_, key)| (*key, "x".repeat(300).into())).collect(),
            nics: ["192.0.2.1", "2001:db8::1"]
                .map(|address| Interface {
                    mac: Some(Mac([1, 2, 3, 4, 5, 6])),
                    nic_tag: Some("external".into()),
                    vlan_id: 4094,
                    network: None,
                    addresses: [address.parse().unwrap()].into(),
                    dynamic: true,
                })
                .into(),
        }
    }

    #[test]
    fn values_come_back() {
        for state in [State::Running, State::Failed, State::Destroyed, State::Other] {
            let vm = Vm { state, ..vm() };
            assert_eq!(Packed::new(&vm).open(), vm);
            assert!(Packed::new(&vm) == Packed::new(&vm.clone()));
        }
        assert!(Packed::new(&vm()) != Packed::new(&Vm { alias: None, ..vm() }));
        let published = Published {
            owner: Uuid::from_u128(2),
            alias: None,
            login: Some("acme".into()),
            bare: true,
            services: [Offer {
                name: "web".into(),
                ports: [Port { port: 65_535, priority: 0, weight: 10 }].into(),
                is_in: true,
            }]
            .into(),
            ptr: Some("a.example".into()),
            tokens: ["one".into(), "two".into()].into(),
            links: [Link {
                addresses: ["192.0.2.1".parse().unwrap()].into(),
                zones: [(0, true), (300, false)].into(),
                prefix: Some("lan".into()),
                is_fabric: true,
            }]
            .into(),
        };
        assert_eq!(Packed::new(&published).open(), published);
    }

    #[test]
    fn an_instance_takes_about_a_hundred_octets() {
        let mut vm = vm();
        vm.tags = [vm.tags[0].clone()].into();
        vm.metadata = Box::default();
        vm.nics = [vm.nics[0].clone()].into();
        assert_eq!(Packed::new(&vm).0.len(), 91);
    }

    #[test]
    fn octets_that_end_early_are_no_value() {
        let packed = Packed::new(&vm());
        for end in 0..packed.0.len() {
            assert_eq!(Vm::read(&mut &packed.0[..end]), None, "{end}");
        }
        assert_eq!(u64::read(&mut &[0xff; 11][..]), None);
    }
}
