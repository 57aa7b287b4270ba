//! Two replicas of our daemon over three datacenters that change all the time, and secondaries that both replicas feed.
//!
//! The replicas have one configuration but for their name; one is told of changes, of most of them, the other asks. So
//! they often hold different versions of the members, now and then with the same sum of serials. One secondary is
//! written here and asks now the one, now the other; Knot and BIND know both.

#[path = "replicas/follower.rs"]
mod follower;
mod harness;
#[path = "replicas/site.rs"]
mod site;
#[path = "replicas/world.rs"]
mod world;

use follower::{Visit, difference, is_newer};
use harness::wait_until;
use world::{PATIENCE, Plan, World};

#[test]
fn replicas_agree_and_secondaries_of_both_are_never_damaged() {
    let mut world = World::start(Plan::default(), [1_760_000_000, 1_760_000_100, 1_760_000_200]);
    world.add_secondaries();
    world.churn(100);
    let serials = world.rest();
    world.assert_aligned(serials);
    // One replica is killed; meanwhile there is the other, and it comes back with what it had.
    let mut second = world.replicas.pop().expect("two replicas");
    let first = world.address(0);
    second.kill_and_restart(|| {
        for _ in 0..10 {
            let site = world.random.below(3);
            world.sites[site].change(1, &mut world.random);
            world.announce(&[site], 0);
            assert!(!matches!(world.follower.visit(first), Visit::Corrupt(_)));
        }
    });
    world.replicas.push(second);
    world.churn(40);
    let serials = world.rest();
    world.assert_aligned(serials);
    // A datacenter leaves both: the sum falls by its serial, both serials rise by one.
    world.plan.members = vec![0, 1];
    world.reload();
    let without = world.rest();
    assert_eq!(without, [serials[0] + 1; 2]);
    assert_eq!([world.drift(0), world.drift(1)], [without[0].wrapping_sub(world.sum()); 2]);
    // From then on each publication is one step, and who publishes more often is ahead.
    world.churn(40);
    let apart = world.rest();
    println!("without a member: {apart:?}, drifts {:?}", [world.drift(0), world.drift(1)]);
    // Its serial is a clock, and has gone on when it comes back: the sum alone is newer, and both are on it at once.
    world.sites[2].change(1000, &mut world.random);
    world.plan.members = vec![0, 1, 2];
    world.reload();
    let serials = world.rest();
    world.assert_aligned(serials);
    world.churn(20);
    let serials = world.rest();
    world.assert_aligned(serials);
    world.report();
}

#[test]
fn a_member_that_goes_back_leaves_a_drift_that_heals_or_that_an_offset_heals() {
    let mut world = World::start(Plan::default(), [5000, 3_000_000, 20_000]);
    world.churn(10);
    let before = world.rest();
    // At rest both replicas go one on, with the same drift.
    world.sites[0].fall_back(20, &mut world.random);
    let serials = world.rest();
    assert_eq!((serials, [world.drift(0), world.drift(1)]), ([before[0] + 1; 2], [21; 2]));
    // The serials of the members move by two on average, those of the region by one: the drift is made up for.
    world.churn(60);
    let serials = world.rest();
    world.assert_aligned(serials);
    // So far back that nothing makes up for it, and in the middle of changes.
    world.churn(5);
    world.sites[1].fall_back(1_000_000, &mut world.random);
    world.churn(40);
    let apart = world.rest();
    let drifts = [world.drift(0), world.drift(1)];
    println!("after a long way back: {apart:?}, drifts {drifts:?}");
    for (replica, drift) in world.replicas.iter().zip(drifts) {
        let advice = format!("serial_offset = {drift} on all replicas");
        assert!(replica.log_text().contains(&advice), "{advice}\n{}", replica.log_text());
    }
    // The larger of what the two logs advise aligns both, at once.
    world.plan.offset = drifts[0].max(drifts[1]);
    world.reload();
    let serials = world.rest();
    assert_eq!(serials, [apart[0].max(apart[1]); 2]);
    world.assert_aligned(serials);
    world.churn(20);
    let serials = world.rest();
    world.assert_aligned(serials);
    world.report();
}

#[test]
fn serials_that_jump_far_are_followed_in_two_steps() {
    let plan = Plan { hold_down: "3s", ..Plan::default() };
    let start = [1_760_000_000, 1_760_000_100, 7];
    let mut world = World::start(plan, start);
    world.add_secondaries();
    // A publication, behind which what comes in the next three seconds waits, to be published together.
    let before = world.rest()[0];
    world.sites[2].change(1, &mut world.random);
    world.announce(&[2], 0);
    let next = before.wrapping_add(1);
    wait_until("both have published", PATIENCE, || {
        [0, 1].iter().all(|replica| world.serial(*replica) == Some(next)).then_some(())
    });
    let far = (1 << 30) + 50;
    world.sites[0].change(far, &mut world.random);
    world.sites[1].change(far, &mut world.random);
    world.announce(&[0, 1], 0);
    let half_way = next.wrapping_add((1 << 31) - 1);
    assert!(!is_newer(world.sum(), next) && is_newer(world.sum(), half_way), "too far for one step, not for two");
    let mut stops = [Vec::new(), Vec::new()];
    let mut followed = vec![world.follower.serial()];
    wait_until("both have arrived", PATIENCE, || {
        for (replica, stops) in stops.iter_mut().enumerate() {
            let serial = world.serial(replica);
            if stops.last() != Some(&serial) {
                stops.push(serial);
            }
        }
        let replica = world.pick();
        world.visit(replica);
        if followed.last() != Some(&world.follower.serial()) {
            followed.push(world.follower.serial());
        }
        let sum = Some(world.sum());
        (stops.iter().all(|stops| *stops.last().expect("a stop") == sum) && *followed.last().expect("a stop") == sum)
            .then_some(())
    });
    let way: Vec<Option<u32>> = [next, half_way, world.sum()].map(Some).into();
    assert_eq!(stops, [way.clone(), way.clone()]);
    assert!(followed.ends_with(&way[1..]), "{followed:?}");
    let serials = world.rest();
    world.assert_aligned(serials);
    assert!(world.replicas.iter().all(|replica| replica.log_text().contains("follows in two")));
}

/// Returns the number of times that a secondary was damaged, and that it got differences, when replicas had one serial
/// over different contents: in each round two datacenters change, each replica learns of one of them first, and the
/// secondary goes from one replica to the other.
fn cross(aggregation: &str, rounds: usize) -> (usize, usize) {
    let plan = Plan { aggregation: aggregation.to_string(), polls: false, ..Plan::default() };
    let mut world = World::start(plan, [100, 200, 300]);
    for round in 0..rounds {
        let serial = world.serial(0).expect("a serial");
        (0..2).for_each(|site| world.sites[site].change(1, &mut world.random));
        let arrive = |world: &World, steps: u32| {
            wait_until("the replicas have published", PATIENCE, || {
                [0, 1].iter().all(|replica| world.serial(*replica) == Some(serial + steps)).then_some(())
            });
        };
        (0..2).for_each(|site| world.announce(&[site], site));
        arrive(&world, 1);
        let first = round % 2;
        let _ = world.follower.visit(world.address(first));
        (0..2).for_each(|site| world.announce(&[1 - site], site));
        arrive(&world, 2);
        let _ = world.follower.visit(world.address(1 - first));
        if world.follower.soa.is_some() {
            let expected = world.expected();
            let equal = world.follower.records == expected;
            assert!(equal, "damage without a sign: {}", difference(&world.follower.records, &expected));
        }
    }
    println!("{aggregation}: {:?}", world.follower.tally);
    (world.follower.tally.corrupt.len(), world.follower.tally.differences)
}

#[test]
fn one_serial_over_two_contents_damages_nobody() {
    let (corrupt, differences) = cross("mname = \"self\"", 6);
    assert_eq!(corrupt, 0);
    // From the replica that the secondary stays with.
    assert!(differences > 0);
}

#[test]
fn under_a_common_mname_nobody_gets_differences() {
    assert_eq!(cross("mname = \"ns1.example.com\"", 3), (0, 0));
}

/// The danger is real, and these tests would see it: without a guard every round ends in damage.
#[test]
fn under_a_common_mname_forced_differences_damage() {
    let (corrupt, _) = cross("mname = \"ns1.example.com\"\nixfr_out = true", 6);
    assert_eq!(corrupt, 6);
}
