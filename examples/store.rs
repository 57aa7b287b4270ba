//! What the store costs: bytes a record, time of lookups, changes, transfers and images, on zones as CNS writes them.
//!
//! `cargo run --release --example store -- [records]`. All times are processor time of this process.

#[path = "../bench/src/generate.rs"]
#[allow(dead_code)]
mod generate;

use aggregator::merge::{NsPolicy, OnExpire, Region, RegionPlan, SoaPlan};
use aggregator::name::{Name, NameBuf};
use aggregator::publish::{Identity, Published, Served, State};
use aggregator::rewrite::RdataNames;
use aggregator::rr::rtype;
use aggregator::serve::answer;
use aggregator::zone::{Delta, Loader, Patcher, Zone};
use generate::Datacenter;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Raw = (NameBuf, u16, u32, Vec<u8>);

fn cpu() -> Duration {
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    text.lines()
        .find_map(|line| line.strip_prefix(field))
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse::<u64>()
        .unwrap()
        << 10
}

fn rss() -> u64 {
    unsafe { libc::malloc_trim(0) };
    status("VmRSS:")
}

fn timed<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let (begun, used, before) = (Instant::now(), cpu(), rss());
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let result = act();
    let (spent, took) = (cpu() - used, begun.elapsed());
    let peak = status("VmHWM:") - before.min(status("VmHWM:"));
    println!(
        "{what:<44} {:>9.2} ms cpu {:>9.2} ms wall  peak +{:>6.1} MB  stays {:+7.1} MB",
        spent.as_secs_f64() * 1e3,
        took.as_secs_f64() * 1e3,
        peak as f64 / 1e6,
        (rss() as f64 - before as f64) / 1e6
    );
    result
}

fn records(datacenter: &Datacenter) -> Vec<Raw> {
    let mut text = Vec::new();
    datacenter.write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let full = |name: &str| match name {
        "@" => NameBuf::parse(&datacenter.zone).unwrap(),
        name if name.ends_with('.') => NameBuf::parse(name).unwrap(),
        name => NameBuf::parse(&format!("{name}.{}", datacenter.zone)).unwrap(),
    };
    let mut owner = NameBuf::root();
    let mut out = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('$')) {
        let (first, rest) = line.split_once(' ').unwrap();
        if !first.is_empty() {
            owner = full(first);
        }
        let mut words = rest.split(' ').peekable();
        let ttl = if words.peek().unwrap().starts_with(|c: char| c.is_ascii_digit()) {
            words.next().unwrap().parse().unwrap()
        } else {
            30
        };
        let kind = words.next().unwrap();
        let words: Vec<&str> = words.collect();
        let (code, rdata) = match kind {
            "A" => (1, words[0].parse::<std::net::Ipv4Addr>().unwrap().octets().to_vec()),
            "TXT" => (16, [&[words[0].len() as u8], words[0].as_bytes()].concat()),
            "NS" => (2, full(words[0]).as_wire().to_vec()),
            "CNAME" => (5, full(words[0]).as_wire().to_vec()),
            "SRV" => (
                33,
                [
                    &words[..3].iter().flat_map(|word| word.parse::<u16>().unwrap().to_be_bytes()).collect::<Vec<u8>>()
                        [..],
                    full(words[3]).as_wire(),
                ]
                .concat(),
            ),
            "SOA" => (
                6,
                [
                    full(words[0]).as_wire(),
                    full(words[1]).as_wire(),
                    &words[2..].iter().flat_map(|word| word.parse::<u32>().unwrap().to_be_bytes()).collect::<Vec<u8>>(),
                ]
                .concat(),
            ),
            other => panic!("{other}"),
        };
        out.push((owner, code, ttl, rdata));
    }
    // As servers send them: the records of a name together.
    out[1..].sort_by(|a, b| a.0.as_wire().cmp(b.0.as_wire()));
    out
}

fn compact(records: &[Raw]) -> Vec<u8> {
    let mut out = Vec::new();
    for (owner, code, ttl, rdata) in records {
        out.push(owner.as_wire().len() as u8);
        out.extend_from_slice(owner.as_wire());
        out.extend_from_slice(&code.to_be_bytes());
        out.extend_from_slice(&ttl.to_be_bytes());
        out.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
        out.extend_from_slice(rdata);
    }
    out.shrink_to_fit();
    out
}

fn read(mut bytes: &[u8], mut each: impl FnMut(&NameBuf, u16, u32, &[u8])) {
    while !bytes.is_empty() {
        let end = 1 + usize::from(bytes[0]);
        let owner = NameBuf::from_wire(&bytes[1..end]).unwrap();
        let code = u16::from_be_bytes([bytes[end], bytes[end + 1]]);
        let ttl = u32::from_be_bytes(bytes[end + 2..end + 6].try_into().unwrap());
        let length = usize::from(u16::from_be_bytes([bytes[end + 6], bytes[end + 7]]));
        each(&owner, code, ttl, &bytes[end + 8..end + 8 + length]);
        bytes = &bytes[end + 8 + length..];
    }
}

fn load(origin: &Name, bytes: &[u8], base: Option<&Arc<Zone>>) -> (Arc<Zone>, Vec<Name>) {
    let mut loader = base.cloned().map_or_else(|| Loader::new(origin.clone()), Loader::against);
    read(bytes, |owner, code, ttl, rdata| loader.push(owner, code, ttl, rdata));
    let loaded = loader.finish(base.map(|zone| &**zone)).unwrap();
    (Arc::new(loaded.zone), loaded.touched)
}

fn lookups(zone: &Arc<Zone>, datacenter: &Datacenter) {
    let served = Served::new(zone.origin.clone(), State::Ok, Some(zone.clone()));
    let published = Published::new(Identity::default(), [Arc::new(served)], 1);
    const COUNT: usize = 1_000_000;
    let names = datacenter.names();
    let queries: Vec<Vec<u8>> = (0..COUNT.min(names))
        .map(|index| {
            let name = NameBuf::parse(&format!("{}.{}", datacenter.owner(index * 7919 % names), zone.origin)).unwrap();
            [&[0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], name.as_wire(), &[0, 1, 0, 1]].concat()
        })
        .collect();
    let mut out = [0; 4096];
    let mut bytes = 0;
    timed(&format!("{COUNT} answers (ms = ns each)"), || {
        for index in 0..COUNT {
            let query = &queries[index % queries.len()];
            bytes += answer::answer(&published, query, true, index as u32, &mut out).unwrap().length;
        }
    });
    timed(&format!("{COUNT} lookups (ms = ns each)"), || {
        for index in 0..COUNT {
            let query = &queries[index % queries.len()];
            bytes += usize::from(zone.get(&query[12..query.len() - 4]).unwrap().get(rtype::A).is_some());
        }
    });
    assert!(bytes > 30 * COUNT);
}

fn change(zone: &Arc<Zone>, datacenter: &Datacenter, first: usize, count: usize, octet: u8) -> (Arc<Zone>, Vec<Name>) {
    let mut patcher = Patcher::new(zone.clone());
    for index in first..first + count {
        let owner = NameBuf::parse(&format!("{}.{}", datacenter.owner(index * 13), zone.origin)).unwrap();
        let rdata = zone.get(owner.as_wire()).unwrap().get(rtype::A).unwrap().rdatas().next().unwrap().to_vec();
        patcher.remove(&owner, rtype::A, 30, &rdata);
        patcher.add(&owner, rtype::A, 30, &[octet, rdata[1], rdata[2], rdata[3]]);
    }
    let mut soa = zone.soa;
    soa.serial = soa.serial.advance(1);
    let patched = patcher.finish(30, &soa.to_rdata(b"\x02ns\x00", b"\x01h\x00")).unwrap();
    (Arc::new(patched.loaded.zone), patched.loaded.touched)
}

fn main() {
    let total: usize = std::env::args().nth(1).map_or(1_000_000, |text| text.parse().unwrap());
    let region_name = Name::parse("us-west.cns.example.com").unwrap();
    for sizes in [vec![total], vec![total / 3; 3]] {
        println!("\n# {sizes:?}");
        let datacenters: Vec<Datacenter> = sizes
            .iter()
            .enumerate()
            .map(|(index, records)| Datacenter::new(&format!("us-west-{}.cns.example.com", index + 1), index, *records))
            .collect();
        let origins: Vec<Name> = datacenters.iter().map(|datacenter| Name::parse(&datacenter.zone).unwrap()).collect();
        let bytes: Vec<Vec<u8>> = datacenters.iter().map(|datacenter| compact(&records(datacenter))).collect();
        let start = rss();
        let mut zones: Vec<Arc<Zone>> =
            timed("load", || origins.iter().zip(&bytes).map(|(origin, bytes)| load(origin, bytes, None).0).collect());
        let count: u64 = zones.iter().map(|zone| zone.records).sum();
        println!("  {count} records, {:.1} bytes a record", (rss() - start) as f64 / count as f64);
        if sizes.len() == 1 {
            lookups(&zones[0], &datacenters[0]);
        }
        let plan = RegionPlan {
            origin: region_name.clone(),
            members: origins.clone(),
            soa: SoaPlan::default(),
            ns: NsPolicy::Intersection,
            ns_ttl: 3600,
            server_name: Name::parse("ns.example.com").unwrap(),
            mname: None,
            rname: None,
            serial_offset: 0,
            rdata_names: RdataNames::Keep,
            exclude: Vec::new(),
            partial_after: Duration::ZERO,
            expire_after: None,
            on_expire: OnExpire::Keep,
        };
        let mut region = Region::new(plan);
        let members = |zones: &[Arc<Zone>]| zones.iter().cloned().map(Some).collect::<Vec<_>>();
        timed("merge all", || region.merge_all(&members(&zones)));
        let entries = count + region.zone.as_ref().unwrap().records;
        println!(
            "  {entries} entries, {:.1} bytes an entry, {:.1} bytes a record of the DCs",
            (rss() - start) as f64 / entries as f64,
            (rss() - start) as f64 / count as f64
        );
        timed("full transfer again", || zones[0] = load(&origins[0], &bytes[0], Some(&zones[0])).0);
        for (first, count) in [(10, 1), (20, 1), (1000, 10_000)] {
            let old = zones[0].clone();
            let touched = timed(&format!("patch {count}"), || {
                let (zone, touched) = change(&old, &datacenters[0], first, count, 11);
                zones[0] = zone;
                touched
            });
            timed(&format!("  its difference, {} touched", touched.len()), || {
                Delta::between(&old, &zones[0], touched.clone())
            });
            let old = region.zone.clone().unwrap();
            let changed = touched.into_iter().map(|name| (0, name)).collect();
            let members = members(&zones);
            let outcome = timed("  merge changed", || region.merge_changed(&members, changed));
            if let aggregator::merge::Outcome::New { touched, .. } = outcome {
                timed(&format!("  its difference, {} touched", touched.len()), || {
                    Delta::between(&old, region.zone.as_ref().unwrap(), touched)
                });
            }
        }
        println!("  {:.1} bytes an entry", (rss() - start) as f64 / entries as f64);
        let mut image = Vec::new();
        timed("write image", || zones[0].write_image(&mut image).unwrap());
        println!("  {} bytes", image.len());
        let again = timed("read image", || Zone::read_image(&origins[0], &image).unwrap());
        assert!(again == *zones[0]);
    }
}
