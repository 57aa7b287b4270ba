//! Large sets of a region in front of real resolvers and secondaries with the limits that they have by themselves: names
//! that resolve in each datacenter resolve in the region, and a secondary has the region that it is to have
//! (`docs/answers.md`). What is large is told wherever operators look.

mod harness;

use harness::*;
use serde_json::{Value, json};
use sim::primary::Primary;
use sim::zone::{Apex, Data, RECORD_TTL, Zone};
use std::collections::{BTreeMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use wire::name::Name;
use wire::serial::Serial;

const DATACENTERS: [&str; 3] =
    ["us-west-1.cns.example.com.", "us-west-2.cns.example.com.", "us-west-3.cns.example.com."];
const REGION: &str = "us-west.cns.example.com.";
/// The same members for secondaries, with the limit that BIND has by default.
const LIMITED: &str = "us-west.limited.example.com.";
/// Records of a set that BIND takes by default, and that an answer from a region has by default.
const MOST: usize = 100;
/// Records of each type at a name. A third of them is in each datacenter.
const SIZES: [usize; 8] = [30, 75, 100, 101, 250, 1_000, 5_000, 100_000];
/// The service that loses an instance.
const CHANGED: usize = 1_000;
/// Hosts of a datacenter.
const HOSTS: usize = 64;
const PATIENCE: Duration = Duration::from_secs(60);

/// Name with sets of this size in a zone.
fn service(size: usize, zone: &str) -> String {
    format!("s{size}.svc.acme.{zone}")
}

/// Alias in a zone.
fn alias(zone: &str) -> String {
    format!("seeds.svc.acme.{zone}")
}

/// Host of an instance, with a name as long as those of CNS. Hosts have several instances.
fn host(number: usize, zone: &str) -> String {
    format!("{:08x}-90b5-4a35-9b2a-1b2f2d0c3f9a.inst.acme.{zone}", number / 3 % HOSTS)
}

/// The records of an instance.
fn instance(number: usize) -> [Data; 3] {
    let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(198, 18, 0, 0)) + number as u32);
    let address_6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, (number >> 16) as u16, number as u16);
    let target = name(&host(number, DATACENTERS[number % 3]));
    let port = 1_000 + (number / (3 * HOSTS)) as u16;
    [Data::A(address), Data::Aaaa(address_6), Data::Srv { priority: 0, weight: 10, port, target }]
}

/// RDATA as it must come to a client, of the types here.
fn rdata(data: &Data) -> Vec<u8> {
    match data {
        Data::A(address) => address.octets().to_vec(),
        Data::Aaaa(address) => address.octets().to_vec(),
        Data::Srv { priority, weight, port, target } => {
            let numbers = [priority, weight, port].map(|number| number.to_be_bytes()).concat();
            [&numbers, target.as_wire()].concat()
        }
        other => panic!("{other:?} is not of an instance"),
    }
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("name")
}

/// The zone of a datacenter, perhaps without one instance of the service of a size.
fn datacenter(index: usize, serial: u32, without: Option<(usize, usize)>) -> Zone {
    let origin = DATACENTERS[index];
    let of_service = |size: usize| {
        let owner = name(&service(size, origin));
        let numbers = (index..size).step_by(3).filter(move |number| Some((size, *number)) != without);
        numbers.flat_map(instance).map(move |data| (owner.clone(), data))
    };
    let address = |number: usize| Data::A(Ipv4Addr::new(192, 0, 2, number as u8));
    // One that leads out of the region, to a set of the first datacenter.
    let alias = (index == 0).then(|| (name(&alias(origin)), Data::Cname(name(&service(CHANGED, origin)))));
    let hosts = (0..HOSTS).map(|number| (name(&host(3 * number, origin)), address(number)));
    let server = name("ns1.example.com");
    let apex = Apex { mname: server.clone(), rname: name("hostmaster.example.com"), name_servers: vec![server] };
    Zone::new(name(origin), apex, Serial(serial), SIZES.into_iter().flat_map(of_service).chain(hosts).chain(alias))
}

/// Primaries of three datacenters, and the daemon that unites them.
struct World {
    daemon: Aggregator,
    folder: Folder,
    primaries: Vec<Primary>,
    plan: String,
}

impl World {
    /// Starts it, and waits until these regions have all members.
    async fn start(regions: &str, names: &[&str]) -> World {
        World::start_with("", regions, names).await
    }

    /// Starts it with further lines of `[server]`.
    async fn start_with(server: &str, regions: &str, names: &[&str]) -> World {
        let mut plan = String::from("[zones]\n");
        let mut primaries = Vec::new();
        for (index, origin) in DATACENTERS.iter().enumerate() {
            let primary = Primary::start("127.0.0.1:0".parse().expect("address")).await.expect("a primary");
            primary.publish(datacenter(index, 7, None));
            plan.push_str(&format!("\"{origin}\" = \"{}\"\n", primary.address()));
            primaries.push(primary);
        }
        let members = format!("members = {DATACENTERS:?}\nns = [\"ns1.example.com\"]\n");
        plan.push_str(&regions.replace("MEMBERS", &members));
        let folder = Folder::new();
        let settings = Settings { server: server.to_owned(), ..Settings::new(&plan) };
        let daemon = Aggregator::start_with(&folder.subfolder("aggregator"), &settings);
        let mut client = Client::new(daemon.address());
        for region in names {
            wait_until(&format!("{region} is there"), PATIENCE, || client.serial(&Dname::parse(region)));
        }
        World { daemon, folder, primaries, plan }
    }
}

/// The RDATA of all records at names of a region, by size and type.
fn sets() -> BTreeMap<(usize, u16), HashSet<Vec<u8>>> {
    let mut sets: BTreeMap<(usize, u16), HashSet<Vec<u8>>> = BTreeMap::new();
    for size in SIZES {
        for data in (0..size).flat_map(instance) {
            sets.entry((size, data.kind())).or_default().insert(rdata(&data));
        }
    }
    assert!(sets.iter().all(|((size, _), set)| set.len() == *size), "instances have records of their own");
    sets
}

/// What is wrong with the records of a set: there must be as many as are allowed, all different and of the set.
fn fault(records: &[Record], owner: &Dname, rtype: u16, set: &HashSet<Vec<u8>>) -> Option<String> {
    let is_of_set = |record: &&Record| {
        (&record.owner, record.rtype) == (owner, rtype) && record.ttl <= RECORD_TTL && set.contains(&record.rdata)
    };
    if let Some(stranger) = records.iter().find(|record| !is_of_set(record)) {
        return Some(format!("{stranger:?} is not of the set"));
    }
    let distinct = records.iter().map(|record| &record.rdata).collect::<HashSet<_>>().len();
    let expected = set.len().min(MOST);
    (distinct != expected || records.len() != expected)
        .then(|| format!("{} records, {distinct} different ones, instead of {expected}", records.len()))
}

#[tokio::test(flavor = "multi_thread")]
async fn resolvers_resolve_every_name_of_a_region() {
    let world = World::start(&format!("[aggregations.\"{REGION}\"]\nMEMBERS"), &[REGION]).await;
    let [region, datacenter] = [REGION, DATACENTERS[0]].map(Dname::parse);
    let resolvers = PackagedResolver::start_all(&world.folder, &[&region, &datacenter], world.daemon.address());
    let mut faults = Vec::new();
    for ((size, rtype), set) in sets() {
        let owner = Dname::parse(&service(size, REGION));
        for resolver in &resolvers {
            let fault = match resolver.resolve(&owner, rtype) {
                Ok(answer) if answer.rcode() != 0 => Some(format!("RCODE {}", answer.rcode())),
                Ok(answer) => fault(&answer.answer, &owner, rtype, &set),
                Err(error) => Some(error.to_string()),
            };
            faults.extend(fault.map(|fault| format!("{}: {owner} {}: {fault}", resolver.name(), type_text(rtype))));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // A datacenter's zone is answered whole. That is what becomes of a set above the limits, which are 100 and 256.
    for resolver in resolvers.iter().filter(|resolver| ["named", "pdns_recursor"].contains(&resolver.name())) {
        let answer_to = |size: usize| {
            let owner = Dname::parse(&service(size, DATACENTERS[0]));
            let answer = resolver.resolve(&owner, rtype::A).expect("answer");
            (answer.rcode(), answer.answer.len())
        };
        assert_eq!([answer_to(250), answer_to(1_000)], [(0, 84), (2, 0)], "{} has a limit", resolver.name());
    }
}

/// Resolvers that tell of their clients' subnets serve each its own records, and from their caches, too, as far as an
/// answer holds.
#[tokio::test(flavor = "multi_thread")]
async fn resolvers_serve_each_client_its_own_records() {
    let regions = format!("[aggregations.\"{REGION}\"]\nMEMBERSanswers = {{ max = 8, pick = \"client\" }}\n");
    let world = World::start_with("client_subnet_from = [\"127.0.0.1\"]", &regions, &[REGION]).await;
    let region = Dname::parse(REGION);
    let owner = Dname::parse(&service(CHANGED, REGION));
    let asked = || {
        let metrics = world.daemon.metrics();
        let count = |line: &str| line.strip_prefix("aggregator_queries_total{transport=\"udp\"} ")?.parse::<u32>().ok();
        metrics.lines().find_map(count).expect("a count")
    };
    let resolvers = PackagedResolver::start_telling(&world.folder, &region, world.daemon.address());
    let mut all = Vec::new();
    for resolver in &resolvers {
        let ask = |net: u8, host: u8| {
            let answer =
                resolver.resolve_from(Ipv4Addr::new(127, 1, net, host).into(), &owner, rtype::A).expect("answer");
            let records: std::collections::BTreeSet<Vec<u8>> =
                answer.answer.iter().map(|record| record.rdata.clone()).collect();
            assert_eq!((answer.rcode(), records.len()), (0, 8), "{}", resolver.name());
            records
        };
        let first: Vec<_> = (0..20).map(|net| ask(net, 1)).collect();
        let before = asked();
        let again: Vec<_> = (0..20).map(|net| ask(net, 2)).collect();
        assert_eq!(asked(), before, "{} has cached what holds for each subnet", resolver.name());
        assert_eq!(first, again, "{}: neighbours get the same", resolver.name());
        assert!(first.iter().collect::<HashSet<_>>().len() >= 19, "{}: subnets get their own", resolver.name());
        all.push(first);
    }
    assert_eq!(all[0], all[1], "a client's records do not depend on its resolver");
    // Without a list of resolvers to believe, the resolver is the one client that there is.
    world.daemon.write_plan(&world.plan);
    assert_eq!(world.daemon.verb(&["reload"]).code, 0);
    let mut client = Client::new(world.daemon.address());
    let mut answer = |data: &[u8]| {
        let mut query = Query::new(&owner, rtype::A).encode(client.take_id());
        let id = u16::from_be_bytes([query[0], query[1]]);
        query[11] = 1;
        query.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, data.len() as u8 + 4, 0, 8, 0, data.len() as u8]);
        query.extend(data);
        client.send_udp(&query).expect("sent");
        let bytes = client.receive_udp(id).expect("answer");
        let records = decode(&bytes).expect("message").answer;
        (records.into_iter().map(|record| record.rdata).collect::<HashSet<_>>(), bytes.len())
    };
    let (one, other) = (answer(&[0, 1, 24, 0, 198, 51, 100]), answer(&[0, 1, 24, 0, 198, 51, 101]));
    assert_eq!((one.0.len(), &one), (8, &other));
}

/// The records of a set in a zone.
fn of_set(zone: &[Record], owner: &Dname, rtype: u16) -> Vec<Record> {
    zone.iter().filter(|record| (&record.owner, record.rtype) == (owner, rtype)).cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn secondaries_have_the_region_that_max_set_makes() {
    let limit = format!("max_set = {MOST}\n");
    let regions = format!(
        "[aggregations.\"{REGION}\"]\nMEMBERS[aggregations.\"{LIMITED}\"]\nMEMBERSmname = \"self\"\n{limit}\
         [secondaries]\nallow_transfer = [\"127.0.0.1\"]\n"
    );
    let world = World::start(&regions, &[REGION, LIMITED]).await;
    let [region, limited] = [REGION, LIMITED].map(Dname::parse);
    let mut client = Client::new(world.daemon.address());
    let before = client.transfer(&limited).expect("transfer");
    let mut sets = sets();
    for ((size, rtype), set) in &sets {
        let owner = Dname::parse(&service(*size, LIMITED));
        let fault = fault(&of_set(&before, &owner, *rtype), &owner, *rtype, set);
        assert_eq!(fault, None, "{owner} {}", type_text(*rtype));
    }
    let plan = SecondaryPlan::new(world.daemon.address(), &[&limited]);
    let both = SecondaryPlan::new(world.daemon.address(), &[&limited, &region]);
    let mut secondaries = [
        Named::start_secondary(&world.folder, &both),
        Nsd::start_secondary(&world.folder, &plan),
        Knotd::start_secondary(&world.folder, &plan),
    ];
    for secondary in &mut secondaries {
        secondary.wait_for_serial(&limited, before[0].serial());
        assert_eq!(difference(&before, &secondary.fetch(&limited)), None, "{}", secondary.name());
    }
    // Without the key the region is what its members have, and that is too much for BIND.
    let named = &secondaries[0];
    let zone = REGION.trim_end_matches('.');
    let refusal = format!("in '{zone}/IN' (zone): too many records (must not exceed {MOST})");
    let end = "failed while receiving responses: too many records";
    wait_until("BIND refuses the region without a limit", PATIENCE, || {
        let log = named.log_text();
        let is_end = |line: &str| line.contains(&format!("transfer of '{zone}/IN' from")) && line.contains(end);
        (log.contains(&refusal) && log.lines().any(is_end)).then_some(())
    });
    assert_eq!(named.serial(&region), None);

    // An instance goes that secondaries have: another comes for it, and they are told of that.
    let targets: Vec<String> = secondaries.iter().map(|secondary| secondary.address().to_string()).collect();
    world.daemon.write_plan(&world.plan.replace(&limit, &format!("{limit}notify = {targets:?}\n")));
    let output = world.daemon.verb(&["reload"]);
    assert_eq!(output.code, 0, "{output:?}");
    let owner = Dname::parse(&service(CHANGED, LIMITED));
    let had = of_set(&before, &owner, rtype::A);
    let has = |number: &usize| had.iter().any(|record| record.rdata == rdata(&instance(*number)[0]));
    let gone = (0..CHANGED).step_by(3).find(has).expect("an instance of the first datacenter");
    world.primaries[0].publish(datacenter(0, 8, Some((CHANGED, gone))));
    world.primaries[0].notify(&name(DATACENTERS[0]), world.daemon.address()).await.expect("notify");
    let serial = before[0].serial() + 1;
    wait_until("the region is without the instance", PATIENCE, || (client.serial(&limited)? == serial).then_some(()));
    let after = client.transfer(&limited).expect("transfer");
    let (now, set) = (of_set(&after, &owner, rtype::A), sets.get_mut(&(CHANGED, rtype::A)).expect("a set"));
    set.remove(&rdata(&instance(gone)[0]));
    assert_eq!(fault(&now, &owner, rtype::A, set), None);
    let stayed = now.iter().filter(|record| had.contains(record)).count();
    assert!(stayed >= MOST - 1 - DATACENTERS.len(), "{stayed} records of {MOST} stayed");
    for secondary in &mut secondaries {
        secondary.wait_for_serial(&limited, serial);
        assert_eq!(difference(&after, &secondary.fetch(&limited)), None, "{}", secondary.name());
    }
    let series = format!("aggregator_xfr_served_total{{kind=\"ixfr\",result=\"ok\",zone=\"{LIMITED}\"}} ");
    wait_until("all have come by differences", PATIENCE, || {
        let metrics = world.daemon.metrics();
        let count: u32 = metrics.lines().find_map(|line| line.strip_prefix(&series))?.parse().expect("number");
        (count >= 3).then_some(())
    });
}

/// The value of a series; none if there is no such series.
fn series(metrics: &str, name: &str) -> Option<u64> {
    metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .map(|value| value.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn large_sets_are_told_wherever_operators_look() {
    let regions = format!("[aggregations.\"{REGION}\"]\nMEMBERS[secondaries]\nallow_transfer = [\"127.0.0.1\"]\n");
    let world = World::start(&regions, &[REGION]).await;
    let said = |world: &World, arguments: &[&str]| {
        let output = world.daemon.verb(arguments);
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{arguments:?}");
        output.stdout
    };
    let data = |world: &World, arguments: &[&str]| -> Value {
        serde_json::from_str(&said(world, &[arguments, &["--json"]].concat())).expect("JSON")
    };

    // As many sets are over each number as there are, and answers of the region are over none.
    let over = |limit: usize| 3 * SIZES.iter().filter(|size| **size > limit).count() as u64;
    let sizes = data(&world, &["status", REGION])["regions"][0]["sizes"].clone();
    assert_eq!(sizes["most_records"], 100_000);
    assert_eq!((&sizes["large"]["resolvers"], &sizes["in_answers"]["resolvers"]), (&json!(over(MOST)), &json!(0)));
    assert_eq!(sizes["in_answers"]["message"], 0);
    let whole = data(&world, &["status", DATACENTERS[0]])["zones"][0]["sizes"].clone();
    assert_eq!(whole["large"], whole["in_answers"], "a zone is answered with whole sets");
    assert_eq!(whole["large"]["resolvers"], over(3 * MOST));
    let metrics = world.daemon.metrics();
    assert_eq!(series(&metrics, &format!("aggregator_rrset_records_max{{zone=\"{REGION}\"}}")), Some(100_000));
    for (zone, sizes) in [(REGION, &sizes), (DATACENTERS[0], &whole)] {
        for limit in ["datagram", "resolvers", "message"] {
            let named = |family: &str| format!("aggregator_{family}{{limit=\"{limit}\",zone=\"{zone}\"}}");
            assert_eq!(series(&metrics, &named("rrsets_large")), sizes["large"][limit].as_u64(), "{zone} {limit}");
            let answered = sizes["in_answers"][limit].as_u64().filter(|count| *count > 0);
            assert_eq!(series(&metrics, &named("answers_large")), answered, "{zone} {limit}");
        }
    }

    // In words, for each who has to do something.
    let remark = format!("{} over 100 records, ", over(MOST));
    assert!(said(&world, &["status"]).lines().any(|line| line.starts_with(REGION) && line.contains(&remark)));
    let text = said(&world, &["status", REGION]);
    assert!(text.contains("secondaries with BIND refuse the zone; set \"max_set\" = 100, or"), "{text}");
    assert!(!text.contains("SERVFAIL"), "{text}");
    let text = said(&world, &["status", DATACENTERS[0]]);
    assert!(text.contains(" answered with more than 100 records: BIND and other resolvers answer SERVFAIL"), "{text}");
    let page = |path: &str| world.daemon.http(path).1;
    let (overview, zone) = (page("/"), page(&format!("/zone/{}", DATACENTERS[0])));
    assert!(overview.contains("large sets") && zone.contains("large sets"), "{overview}\n{zone}");
    assert!(zone.contains(" answered with more than 100 records"), "{zone}");

    // A name, as the region has it and as a datacenter has it.
    let name = |zone: &str| service(1_000, zone);
    let expected =
        "  A: 1000 records, more than a datagram, 100 records; an answer has 100, others each time (max = 100)\n";
    assert!(said(&world, &["lookup", &name(REGION), "A"]).contains(expected));
    let page = page(&format!("/lookup?name={}&type=A", name(REGION)));
    assert!(page.contains("an answer has 100, others each time (max = 100)"), "{page}");
    let set = &data(&world, &["lookup", &name(DATACENTERS[0]), "A"])["steps"][0]["sets"][0];
    assert_eq!((&set["records"], &set["answered"], &set["law"]), (&json!(334), &json!(334), &Value::Null));

    // A set that fits no message is answered in part over TCP.
    let owner = Dname::parse(&service(100_000, DATACENTERS[0]));
    let answer = Client::new(world.daemon.address()).ask_tcp(&Query::new(&owner, rtype::A)).expect("an answer");
    assert!(answer.answer.len() > 1_000, "{}", answer.answer.len());
    let parts = format!("aggregator_answers_partial_total{{zone=\"{}\"}}", DATACENTERS[0]);
    wait_until("the part is counted", PATIENCE, || (series(&world.daemon.metrics(), &parts) == Some(1)).then_some(()));

    // The file is held against what is there, before it is in force.
    let warnings = |found: &Value| -> Vec<String> {
        let told = |warning: &Value| match (warning["message"].as_str().expect("a message"), warning["advice"].as_str())
        {
            (message, Some(advice)) => format!("{message}; {advice}"),
            (message, None) => message.to_owned(),
        };
        found["warnings"].as_array().expect("warnings").iter().map(told).collect()
    };
    let warned = |world: &World, zone: &str| -> Vec<String> {
        let found = data(world, &["check"]);
        let start = format!("{zone}, whose largest set has ");
        let of_zone =
            warnings(&found).into_iter().filter_map(|warning| warning.strip_prefix(&start).map(str::to_owned));
        of_zone.map(|warning| warning.split_once(": ").expect("a warning").1.to_owned()).collect()
    };
    let copied =
        |count: u64| format!("{count} sets have more than 100 records: secondaries with BIND refuse the zone; ");
    let [of_region, of_zone] = [REGION, DATACENTERS[0]].map(|zone| warned(&world, zone));
    assert!(of_region.len() == 1 && of_region[0].starts_with(&copied(over(MOST))), "{of_region:?}");
    let answered = format!("{} sets are answered with more than 100 records: ", over(3 * MOST));
    assert!(of_zone[0].starts_with(&answered) && of_zone[1].starts_with(&copied(over(3 * MOST))), "{of_zone:?}");
    let leads = |world: &World| -> Vec<String> {
        let found = data(world, &["check"]);
        warnings(&found).into_iter().filter(|warning| warning.contains(" to larger sets in ")).collect()
    };
    let expected = format!(
        "{REGION}: 1 name leads to larger sets in {0} than its own answers have, such as {1} to {2}, of 334 records; \
         set \"answers\" for {0}",
        DATACENTERS[0],
        alias(REGION),
        service(CHANGED, DATACENTERS[0]),
    );
    assert_eq!(leads(&world), [expected]);
    let primary = world.primaries[0].address();
    let cut = format!("= {{ primaries = [\"{primary}\"], answers = {{ max = 8 }} }}");
    let plan = world.plan.replace(&format!("= \"{primary}\""), &cut).replace("members = ", "max_set = 100\nmembers = ");
    assert!(plan.contains(&cut) && plan.contains("max_set"), "{plan}");
    world.daemon.write_plan(&plan);
    assert_eq!((warned(&world, REGION), leads(&world)), (Vec::new(), Vec::new()));
    assert_eq!(warned(&world, DATACENTERS[0]).len(), 1, "answers are cut, and secondaries have whole sets");
    assert_eq!(world.daemon.verb(&["reload"]).code, 0);
    let sizes = data(&world, &["status", REGION])["regions"][0]["sizes"].clone();
    assert_eq!((&sizes["most_records"], &sizes["large"]["resolvers"]), (&json!(100), &json!(0)));
    let sizes = data(&world, &["status", DATACENTERS[0]])["zones"][0]["sizes"].clone();
    assert_eq!((&sizes["large"], &sizes["in_answers"]["resolvers"]), (&whole["large"], &json!(0)));
}
