//! Laws of the limit.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;
use wire::name::Name;

const RATE: u32 = 1000;
const SECOND: u64 = 1_000_000_000;

fn plan() -> RateLimitPlan {
    RateLimitPlan {
        mode: Mode::On,
        responses_per_second: RATE,
        ipv4_prefix: 24,
        ipv6_prefix: 56,
        exempt: vec!["198.51.100.0/28".parse().unwrap()],
    }
}

fn limit() -> RateLimit {
    RateLimit::new(&plan(), [])
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// How many of so many answers at these times are within the limit.
fn within(limiter: &Limiter, limit: &RateLimit, client: &str, times: impl Iterator<Item = u64>) -> usize {
    times.filter(|now| limiter.admits(limit, address(client), Class::Answer, *now)).count()
}

#[test]
fn an_idle_client_has_a_burst_of_a_second_and_then_the_rate() {
    let (limiter, limit) = (Limiter::default(), limit());
    // A clock of any value, also one at the start of the machine.
    for start in [0, 7 * SECOND, 400 * 365 * 86_400 * SECOND] {
        let flood = |start: u64| (0..20_000u64).map(move |index| start + index * SECOND / 20_000);
        assert_eq!(within(&limiter, &limit, "192.0.2.1", flood(start)), 1999, "the burst, and what one second gives");
        assert_eq!(within(&limiter, &limit, "192.0.2.1", flood(start + SECOND)), 1000);
        // Whatever was over the limit is not held against it.
        assert_eq!(within(&limiter, &limit, "192.0.2.1", flood(start + 3 * SECOND)), 1999);
    }
}

#[test]
fn an_honest_resolver_is_never_limited() {
    let (limiter, limit) = (Limiter::default(), limit());
    let steady = (0..90_000u64).map(|index| index * SECOND / 900);
    assert_eq!(within(&limiter, &limit, "192.0.2.1", steady), 90_000);
    // Its questions come in bunches, or the clock stands still for as long as coarse ones do.
    let coarse = (0..90_000u64).map(|index| 200 * SECOND + index * SECOND / 1000 / 4_000_000 * 4_000_000);
    assert_eq!(within(&limiter, &limit, "192.0.2.1", coarse), 90_000);
}

#[test]
fn classes_and_networks_have_buckets_of_their_own() {
    let (limiter, limit) = (Limiter::default(), limit());
    let is_over = |client: &str, class| !limiter.admits(&limit, address(client), class, SECOND);
    let fill = |client: &str, class| (0..=RATE).filter(|_| is_over(client, class)).count();
    assert_eq!(fill("192.0.2.1", Class::Answer), 1);
    assert!(is_over("192.0.2.255", Class::Answer), "one network");
    assert!(is_over("::ffff:192.0.2.7", Class::Answer), "the same, as IPv6 sockets show it");
    assert!(!is_over("192.0.3.1", Class::Answer));
    for class in [Class::Nodata, Class::Nxdomain, Class::Referral, Class::Error] {
        assert_eq!(fill("192.0.2.1", class), 1, "{class:?}");
    }
    assert_eq!(fill("2001:db8:0:100::1", Class::Answer), 1);
    assert!(is_over("2001:db8:0:1ff:ffff::9", Class::Answer), "a /56");
    assert!(!is_over("2001:db8:0:200::1", Class::Answer));
}

#[test]
fn who_is_exempt_takes_half_of_the_burst_and_nothing_of_the_rate() {
    let (limiter, limit) = (Limiter::default(), limit());
    let flood = |start: u64, rate: u64| (0..rate * 5).map(move |index| start + index * SECOND / rate);
    assert_eq!(within(&limiter, &limit, "198.51.100.1", flood(0, 50_000)), 250_000);
    // Its neighbour asks at 900 a second meanwhile.
    let mut cut = 0;
    for index in 0..90_000u64 {
        let now = 10 * SECOND + index * SECOND / 900;
        assert_eq!(within(&limiter, &limit, "198.51.100.1", (0..10).map(|_| now)), 10);
        cut += 1 - within(&limiter, &limit, "198.51.100.99", [now].into_iter());
    }
    assert_eq!(cut, 0);
    let peers = RateLimit::new(&plan(), [Prefix::host(address("192.0.2.53"))]);
    assert_eq!(within(&limiter, &peers, "192.0.2.53", flood(0, 50_000)), 250_000);
}

#[test]
fn hosts_have_no_limit_where_they_are_at_present() {
    let (limiter, host) = (Limiter::default(), Host::new(Name::parse("ns2.hosts.example").unwrap()));
    let limit = RateLimit::new(&plan(), []).with_hosts([&host, &host]);
    let is_all =
        |client: &str, second: u64| within(&limiter, &limit, client, (0..5000u64).map(|_| second * SECOND)) == 5000;
    assert!(!is_all("192.0.2.53", 100), "nobody knows where it is");
    host.set(&[address("192.0.2.53")]);
    assert!(is_all("192.0.2.53", 110));
    host.set(&[address("2001:db8::53")]);
    assert!(is_all("2001:db8::53", 120) && !is_all("192.0.2.53", 120));
}

#[test]
fn threads_share_a_bucket() {
    let (limiter, limit, total) = (Limiter::default(), limit(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let times = (0..50_000u64).map(|index| index * SECOND / 10_000);
                total.fetch_add(within(&limiter, &limit, "192.0.2.1", times), Ordering::Relaxed);
            });
        }
    });
    // Five seconds in all threads, and the burst.
    assert!((5900..=6000).contains(&total.into_inner()));
}

#[test]
fn a_flood_from_everywhere_reaches_nobody_else() {
    let (limiter, limit) = (Limiter::default(), limit());
    // Half a million networks ask twice a second: each line of the table has about 16 questions a second.
    for index in 0..1_000_000u32 {
        let network = index % 500_000;
        let client = IpAddr::from((0x0b00_0000 + (network << 8)).to_be_bytes());
        limiter.admits(&limit, client, Class::Nxdomain, u64::from(index) * SECOND / 1_000_000);
        if index % 1100 == 0 {
            assert!(limiter.admits(&limit, address("192.0.2.1"), Class::Nxdomain, u64::from(index) * 1000));
        }
    }
    assert_eq!(limiter.current(), []);
}

#[test]
fn networks_that_are_flooded_rarely_meet_others() {
    let (limiter, limit) = (Limiter::default(), limit());
    let network = |index: u32| IpAddr::from((0x0b00_0000 + (index << 8)).to_be_bytes());
    for flooded in 0..64 {
        (0..=RATE).for_each(|_| _ = limiter.admits(&limit, network(flooded), Class::Answer, SECOND));
    }
    // 64 / 65,536 of 20,000 are 20, with a standard deviation of 4.4; a line that two of them share is a rarity.
    let is_cut = |index: &u32| !limiter.admits(&limit, network(*index), Class::Answer, SECOND);
    let cut = (64..20_064).filter(is_cut).count();
    assert!(cut < 60, "{cut}");
}

#[test]
fn an_episode_begins_is_listed_and_ends() {
    let (limiter, limit) = (Limiter::default(), limit());
    let flood = |client: &str, start: u64, count: usize| {
        (0..count).for_each(|_| _ = limiter.admits(&limit, address(client), Class::Answer, start));
    };
    flood("192.0.2.1", SECOND, 1500);
    flood("2001:db8::1", SECOND, 1100);
    let listed: Vec<(String, &str, u64)> =
        limiter.current().into_iter().map(|episode| (episode.network, episode.class, episode.limited)).collect();
    let expected = [("192.0.2.0/24".to_owned(), "answer", 500), ("2001:db8::/56".to_owned(), "answer", 100)];
    assert_eq!(listed, expected);
    assert_eq!(limiter.tend(SECOND + episodes::QUIET), 2);
    flood("192.0.2.1", SECOND * 5, 1500);
    assert_eq!(limiter.tend(SECOND * 12), 1, "it goes on while answers are cut");
    assert_eq!(limiter.current()[0].limited, 1000);
    assert_eq!(limiter.tend(SECOND * 16), 0);
    flood("192.0.2.1", SECOND * 20, 1001);
    assert_eq!(limiter.current()[0].limited, 1, "another one");
    // However many there are, the list is short.
    let networks: HashSet<String> = (0..200).map(|index| format!("10.0.{index}.1")).collect();
    networks.iter().for_each(|client| flood(client, SECOND * 21, 1001));
    assert_eq!(limiter.current().len(), 64);
}

/// Times at which answers are given, in nanoseconds, from bursts and pauses.
fn times() -> impl Strategy<Value = Vec<u64>> {
    let step = prop_oneof![Just(0u64), 0..2_000_000u64, 0..SECOND, Just(100 * SECOND)];
    prop::collection::vec((step, 1..200usize), 1..40).prop_map(|steps| {
        let mut now = 0;
        steps
            .iter()
            .flat_map(|(step, count)| {
                now += step;
                std::iter::repeat_n(now, *count)
            })
            .collect()
    })
}

proptest! {
    // Each case has a table of its own.
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In no window of any length there are more full answers than the rate and the burst allow, and an answer is only
    /// cut if the full ones before it have used up both.
    #[test]
    fn never_more_than_the_rate_and_never_less(times in times(), rate in 1..300u32) {
        let plan = RateLimitPlan { responses_per_second: rate, ..plan() };
        let (limiter, limit) = (Limiter::default(), RateLimit::new(&plan, []));
        let worth = SECOND / u64::from(rate);
        // When full answers were given.
        let mut full: Vec<u64> = Vec::new();
        // A bucket that leaks, counted in another way: how full it is, and since when.
        let (mut level, mut since) = (0u64, 0u64);
        for now in times {
            level = level.saturating_sub(now - since);
            since = now;
            let is_within = limiter.admits(&limit, address("192.0.2.1"), Class::Answer, now);
            prop_assert_eq!(is_within, level + worth <= SECOND);
            if is_within {
                level += worth;
                full.push(now);
            }
        }
        // Of every window that begins and ends with a full answer, without going through all of them.
        let worth = i128::from(worth);
        let mut least = i128::MAX;
        for (index, at) in (0i128..).zip(&full) {
            let spent = index * worth - i128::from(*at);
            least = least.min(spent);
            prop_assert!(spent - least + worth <= i128::from(SECOND), "answer {} at {}", index, at);
        }
    }

    /// Whoever asks no faster than the rate is never cut, whatever came before.
    #[test]
    fn who_keeps_to_the_rate_is_never_cut(before in times(), rate in 1..300u32, jitter in prop::collection::vec(0..SECOND, 100)) {
        let plan = RateLimitPlan { responses_per_second: rate, ..plan() };
        let (limiter, limit) = (Limiter::default(), RateLimit::new(&plan, []));
        let client = address("192.0.2.1");
        let mut now = before.last().copied().unwrap_or_default();
        before.iter().for_each(|at| _ = limiter.admits(&limit, client, Class::Answer, *at));
        for jitter in jitter {
            now += SECOND / u64::from(rate) + jitter % 1_000_000;
            prop_assert!(limiter.admits(&limit, client, Class::Answer, now));
        }
    }
}
