//! Tests of the choice of the connection that has to go.

use super::*;
use std::time::Duration;
use tokio::time::advance;

fn address(last: u16) -> IpAddr {
    [192, 0, (last >> 8) as u8, last as u8].into()
}

fn room(total: usize, per_client: usize, reserved: usize) -> Room {
    Room { total, per_client, reserved }
}

/// Returns true if a connection has lost its place.
fn is_displaced(place: &Place) -> bool {
    !place.places.table.lock().seats.contains_key(&place.connection.id)
}

/// Lists the connections that have lost their places, by position.
fn displaced(places: &[Place]) -> Vec<usize> {
    (0..places.len()).filter(|index| is_displaced(&places[*index])).collect()
}

/// Connections of clients, a second apart.
async fn open(places: &Arc<Places>, clients: &[u16]) -> Vec<Place> {
    let mut open = Vec::new();
    for client in clients {
        advance(Duration::from_secs(1)).await;
        open.push(places.enter(address(*client), Class::General).0);
    }
    open
}

#[tokio::test(start_paused = true)]
async fn the_client_with_most_gives_up_what_it_uses_least() {
    let places = Places::new(room(6, 6, 0));
    let held = open(&places, &[1, 2, 2, 2, 1, 3]).await;
    held[1].connection.note_request();
    advance(Duration::from_secs(1)).await;
    let (newcomer, reached) = places.enter(address(4), Class::General);
    assert_eq!((reached, displaced(&held)), (Some(Reached::Total), vec![2]));
    tokio::time::timeout(Duration::from_secs(1), held[2].connection.displaced()).await.expect("it is told");
    // Now two clients have two each: of all four the one without a request for the longest.
    held[0].connection.note_request();
    drop(places.enter(address(5), Class::General));
    assert_eq!(displaced(&held), [2, 3]);
    // A place that was given back is free.
    let (_more, reached) = places.enter(address(6), Class::General);
    assert_eq!((reached, is_displaced(&newcomer)), (None, false));
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_of_the_client_with_most_replaces_one_of_its_own() {
    let places = Places::new(room(3, 3, 0));
    let held = open(&places, &[1, 2, 3]).await;
    let (_second, reached) = places.enter(address(3), Class::General);
    assert_eq!((reached, displaced(&held)), (Some(Reached::Total), vec![2]));
    let places = Places::new(room(10, 2, 0));
    let held = open(&places, &[1, 2, 2]).await;
    let (_third, reached) = places.enter(address(2), Class::General);
    assert_eq!((reached, displaced(&held)), (Some(Reached::Client), vec![1]));
}

#[tokio::test(start_paused = true)]
async fn connections_that_are_answered_go_last_and_by_the_octets_taken() {
    let places = Places::new(room(4, 4, 0));
    let held = open(&places, &[1, 1, 1, 1]).await;
    held[..3].iter().for_each(Place::begin_answer);
    for (index, octets) in [(0, 500), (1, 300), (2, 400)] {
        let (ours, _theirs) = tokio::io::duplex(1000);
        let mut stream = held[index].connection.measure(ours);
        tokio::io::AsyncWriteExt::write_all(&mut stream, &vec![0; octets]).await.unwrap();
    }
    let _a = places.enter(address(2), Class::General);
    assert_eq!(displaced(&held), [3], "it waits for a request, however new");
    let _b = places.enter(address(3), Class::General);
    assert_eq!(displaced(&held), [1, 3]);
    held[2].end_answer();
    advance(Duration::from_secs(1)).await;
    let _c = places.enter(address(4), Class::General);
    assert_eq!(displaced(&held), [1, 2, 3]);
    // Clients with equally many, all of them answered.
    let places = Places::new(room(2, 2, 0));
    let held = open(&places, &[1, 2]).await;
    held.iter().for_each(Place::begin_answer);
    let (ours, _theirs) = tokio::io::duplex(1000);
    let mut stream = held[0].connection.measure(ours);
    tokio::io::AsyncWriteExt::write_all(&mut stream, &[0; 5]).await.unwrap();
    let _d = places.enter(address(3), Class::General);
    assert_eq!(displaced(&held), [1]);
}

#[tokio::test(start_paused = true)]
async fn reserved_places_are_not_for_others() {
    let places = Places::new(room(8, 8, 2));
    // As many clients as there are connections, so that nobody has more than another.
    let held = open(&places, &(0..6).collect::<Vec<_>>()).await;
    let secondaries: Vec<Place> = (50..52).map(|n| places.enter(address(n), Class::Reserved).0).collect();
    assert!(displaced(&held).is_empty() && displaced(&secondaries).is_empty());
    let crowd = open(&places, &(100..160).collect::<Vec<_>>()).await;
    assert_eq!((displaced(&held).len(), displaced(&crowd).len()), (6, 54));
    assert!(displaced(&secondaries).is_empty());
    // One more of them replaces another of them, for others have no more than their share.
    let (_third, reached) = places.enter(address(52), Class::Reserved);
    assert_eq!((reached, displaced(&secondaries)), (Some(Reached::Total), vec![0]));
    // With places that nobody else has they may have more, which they give back when others come.
    drop(crowd);
    let more: Vec<Place> = (60..66).map(|n| places.enter(address(n), Class::Reserved).0).collect();
    assert!(displaced(&more).is_empty());
    let others = open(&places, &(200..206).collect::<Vec<_>>()).await;
    assert!(displaced(&others).is_empty());
    assert_eq!(places.table.lock().groups.each_ref().map(|group| group.total), [6, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_becomes_reserved_is_safe_from_others() {
    let places = Places::new(room(4, 4, 1));
    let probe = places.enter(address(1), Class::General).0;
    probe.begin_answer();
    probe.reserve();
    let crowd = open(&places, &[2, 2, 3, 3, 4, 4, 1, 1]).await;
    assert!(!is_displaced(&probe));
    assert_eq!(displaced(&crowd).len(), 5);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_those_who_have_gone() {
    let places = Places::new(room(50, 3, 10));
    let mut random = 1u64;
    let mut held: Vec<Place> = Vec::new();
    for _ in 0..5000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pick = |of: usize| (random >> 33) as usize % of;
        advance(Duration::from_millis(7)).await;
        match (random >> 20) % 6 {
            0..3 => {
                let class = if random >> 40 & 1 == 0 { Class::General } else { Class::Reserved };
                held.push(places.enter(address(pick(40) as u16), class).0);
            }
            3 if !held.is_empty() => drop(held.swap_remove(pick(held.len()))),
            4 if !held.is_empty() => held[pick(held.len())].begin_answer(),
            5 if !held.is_empty() => held[pick(held.len())].end_answer(),
            _ => {}
        }
        let table = places.table.lock();
        let totals = table.groups.each_ref().map(|group| group.total);
        assert!(totals[0] <= 40 && totals[0] + totals[1] <= 50, "{totals:?}");
        assert_eq!(totals[0] + totals[1], table.seats.len());
        for group in &table.groups {
            assert_eq!(group.order.len(), group.clients.len());
            assert!(group.clients.values().all(|client| (1..=3).contains(&client.count())));
        }
    }
    drop(held);
    let table = places.table.lock();
    assert!(table.seats.is_empty() && table.groups.iter().all(|group| group.clients.is_empty() && group.total == 0));
}
