//! The machine, step by step, and under any events against a ZooKeeper of one bit.

use super::*;
use proptest::prelude::*;

const TOLERANCE: Tolerance = Tolerance { threshold: 3, period: Duration::from_secs(10) };
const OK: Event = Event::Checked { healthy: true };
const BAD: Event = Event::Checked { healthy: false };
const DONE: Event = Event::Finished { done: true };
const FAILED: Event = Event::Finished { done: false };

/// A machine and what it wants, one second after the other.
struct Run {
    machine: Machine,
    now: Duration,
}

impl Run {
    /// A machine to which nothing has happened.
    fn new(check_first: bool) -> Run {
        Run { machine: Machine::new(TOLERANCE, check_first), now: Duration::ZERO }
    }

    /// A machine whose nodes are there.
    fn up() -> Run {
        let mut run = Run::new(false);
        assert_eq!(run.step(Event::Connected), [Effect::Start(Work::Register)]);
        assert_eq!(run.step(DONE), []);
        run.expect(State::Up);
        run
    }

    /// One event, a second after the one before.
    fn step(&mut self, event: Event) -> Vec<Effect> {
        self.now += Duration::from_secs(1);
        self.machine.step(event, self.now)
    }

    /// Fails unless the machine is in this state.
    #[track_caller]
    fn expect(&self, state: State) {
        assert_eq!(self.machine.state(), state, "{:?}", self.machine);
    }
}

#[test]
fn failures_within_the_period_take_the_nodes_away_and_one_success_brings_them_back() {
    let mut run = Run::up();
    assert_eq!(run.step(BAD), []);
    assert_eq!(run.step(BAD), []);
    assert_eq!(run.step(BAD), [Effect::Start(Work::Remove)]);
    run.expect(State::Down);
    assert_eq!(run.step(BAD), []);
    assert_eq!(run.step(DONE), []);
    assert!(run.machine.is_at_rest());
    assert_eq!(run.step(OK), [Effect::Start(Work::Register)]);
    // Registrar went down again at the first failure after a recovery.
    assert_eq!(run.step(BAD), []);
    assert_eq!(run.step(DONE), []);
    assert_eq!(run.step(BAD), []);
    run.expect(State::Up);
    assert_eq!(run.step(BAD), [Effect::Start(Work::Remove)]);
}

#[test]
fn the_window_slides_and_a_success_empties_it() {
    let mut run = Run::up();
    for _ in 0..100 {
        assert_eq!(run.step(BAD), []);
        assert_eq!(run.step(BAD), []);
        assert_eq!(run.step(OK), []);
    }
    for _ in 0..100 {
        assert_eq!(run.step(BAD), []);
        run.now += Duration::from_secs(6);
    }
    run.expect(State::Up);
}

#[test]
fn successes_during_a_registration_start_no_other() {
    let mut run = Run::new(false);
    assert_eq!(run.step(Event::Connected), [Effect::Start(Work::Register)]);
    for event in [OK, OK, Event::Disturbed, Event::Resumed, Event::Woken, OK] {
        assert_eq!(run.step(event), []);
    }
    // What was disturbed meanwhile is looked at afterwards.
    assert_eq!(run.step(DONE), [Effect::Start(Work::Repair)]);
    assert_eq!(run.step(DONE), []);
    assert!(run.machine.is_at_rest());
}

#[test]
fn a_change_of_mind_waits_for_the_work_under_way() {
    let mut run = Run::new(false);
    run.step(Event::Connected);
    for _ in 0..3 {
        assert_eq!(run.step(BAD), []);
    }
    run.expect(State::Down);
    assert_eq!(run.step(DONE), [Effect::Start(Work::Remove)]);
    assert_eq!(run.step(OK), []);
    assert_eq!(run.step(DONE), [Effect::Start(Work::Register)]);
}

#[test]
fn the_first_check_decides_when_it_has_to_come_first() {
    let mut run = Run::new(true);
    assert_eq!(run.step(Event::Connected), []);
    assert_eq!(run.step(Event::Disturbed), []);
    assert_eq!(run.step(OK), [Effect::Start(Work::Register)]);
    let mut run = Run::new(true);
    assert_eq!(run.step(BAD), []);
    run.expect(State::Down);
    // What an earlier run left has to go.
    assert_eq!(run.step(Event::Connected), [Effect::Start(Work::Remove)]);
}

#[test]
fn an_ended_session_is_followed_by_another_and_all_is_written_again() {
    let mut run = Run::up();
    assert_eq!(run.step(Event::Lost), [Effect::Connect]);
    run.expect(State::Registering);
    assert_eq!(run.step(Event::Connected), [Effect::Start(Work::Register)]);
    // The session ends in the middle: what came of that work does not count.
    assert_eq!(run.step(Event::Lost), [Effect::Connect]);
    assert_eq!(run.step(Event::Connected), []);
    assert_eq!(run.step(DONE), [Effect::Start(Work::Register)]);
    assert_eq!(run.step(DONE), []);
    run.expect(State::Up);
}

#[test]
fn work_that_fails_is_repeated_ever_more_slowly_and_at_once_when_the_connection_is_back() {
    let mut run = Run::new(false);
    run.step(Event::Connected);
    for seconds in [1, 2, 4, 8, 16, 30, 30] {
        assert_eq!(run.step(FAILED), [Effect::WakeAfter(Duration::from_secs(seconds))]);
        assert_eq!(run.step(Event::Disturbed), []);
        assert_eq!(run.step(Event::Woken), [Effect::Start(Work::Register)]);
    }
    run.step(FAILED);
    assert_eq!(run.step(Event::Resumed), [Effect::Start(Work::Register)]);
    assert_eq!(run.step(FAILED), [Effect::WakeAfter(Duration::from_secs(1))]);
}

#[test]
fn nodes_are_removed_before_the_end() {
    let mut run = Run::up();
    assert_eq!(run.step(Event::Stop), [Effect::Start(Work::Remove)]);
    assert_eq!(run.step(OK), []);
    assert_eq!(run.step(DONE), [Effect::End]);
    let mut run = Run::new(false);
    assert_eq!(run.step(Event::Stop), [Effect::End], "nothing was ever written");
    let mut run = Run::new(false);
    run.step(Event::Connected);
    assert_eq!(run.step(Event::Stop), []);
    assert_eq!(run.step(DONE), [Effect::Start(Work::Remove)]);
    assert_eq!(run.step(Event::Lost), []);
    assert_eq!(run.step(FAILED), [Effect::End], "the nodes went with the session");
}

//--- Laws ---

/// Event around a machine.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Connect,
    Resume,
    Lose,
    /// Somebody else removes the nodes.
    Meddle,
    Check(bool),
    Finish(bool),
    Wake,
}

/// Any happening.
fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        1 => Just(Happening::Connect),
        1 => Just(Happening::Resume),
        1 => Just(Happening::Lose),
        1 => Just(Happening::Meddle),
        4 => any::<bool>().prop_map(Happening::Check),
        4 => prop::bool::weighted(0.8).prop_map(Happening::Finish),
        2 => Just(Happening::Wake),
    ]
}

/// A machine, the nodes it writes, and the promises it made.
struct World {
    run: Run,
    /// True if the nodes are there.
    there: bool,
    work: Option<Work>,
    session: bool,
    connecting: bool,
    waking: bool,
    ended: bool,
}

impl World {
    /// A world in which the first session is being made.
    fn new(check_first: bool) -> World {
        World {
            run: Run::new(check_first),
            there: false,
            work: None,
            session: false,
            connecting: true,
            waking: false,
            ended: false,
        }
    }

    /// Hands an event to the machine and notes what it wants.
    fn tell(&mut self, event: Event) {
        for effect in self.run.step(event) {
            match effect {
                Effect::Connect => {
                    assert!(!self.session && !self.connecting, "two sessions");
                    self.connecting = true;
                }
                Effect::Start(work) => {
                    assert_eq!(self.work, None, "work overlaps");
                    assert!(self.session, "work without a session");
                    let stopping = self.run.machine.state() == State::Stopping;
                    assert!(!stopping || work == Work::Remove, "written while stopping");
                    self.work = Some(work);
                }
                Effect::WakeAfter(_) => self.waking = true,
                Effect::End => {
                    assert!(!self.ended && self.work.is_none());
                    self.ended = true;
                }
            }
        }
    }

    /// Lets something happen, if it can happen now.
    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Connect if self.connecting => {
                (self.connecting, self.session) = (false, true);
                self.tell(Event::Connected);
            }
            Happening::Resume if self.session => self.tell(Event::Resumed),
            Happening::Lose if self.session => {
                (self.session, self.there) = (false, false);
                self.tell(Event::Lost);
            }
            Happening::Meddle => {
                self.there = false;
                self.tell(Event::Disturbed);
            }
            Happening::Check(healthy) => self.tell(Event::Checked { healthy }),
            Happening::Finish(done) => {
                if let Some(work) = self.work.take() {
                    // Without a session nothing can be written any more.
                    let done = done && self.session;
                    if done {
                        self.there = work != Work::Remove;
                    }
                    self.tell(Event::Finished { done });
                }
            }
            Happening::Wake if self.waking => {
                self.waking = false;
                self.tell(Event::Woken);
            }
            _ => {}
        }
    }

    /// Lets everything that is under way come to a good end.
    fn calm_down(&mut self) {
        for _ in 0..20 {
            self.happen(Happening::Connect);
            self.happen(Happening::Finish(true));
            self.happen(Happening::Wake);
        }
    }
}

proptest! {
    /// Whatever happens, at rest the nodes are there exactly when they are to be, and work never overlaps.
    #[test]
    fn at_rest_the_nodes_are_as_wanted(check_first: bool, happenings in prop::collection::vec(happening(), 0..100)) {
        let mut world = World::new(check_first);
        for happening in happenings {
            world.happen(happening);
        }
        world.calm_down();
        prop_assert!(world.work.is_none() && !world.ended);
        match world.run.machine.state() {
            State::Up => prop_assert!(world.there && world.run.machine.is_at_rest()),
            State::Down => prop_assert!(world.run.machine.is_at_rest()),
            State::Waiting => prop_assert!(check_first),
            state => prop_assert!(false, "{state:?} is no rest"),
        }
        world.tell(Event::Stop);
        world.calm_down();
        prop_assert!(world.ended && !world.there);
    }

    /// The nodes go exactly when so many failures since the last success are no older than the period.
    #[test]
    fn the_window_is_as_a_list_of_all_checks_says(checks in prop::collection::vec((any::<bool>(), 0..5u64), 0..100)) {
        let mut run = Run::up();
        let mut list: Vec<Duration> = Vec::new();
        for (healthy, pause) in checks {
            run.now += Duration::from_secs(pause);
            let event = if healthy { OK } else { BAD };
            let was_down = run.machine.state() == State::Down;
            run.step(event);
            if healthy {
                list.clear();
            } else if !was_down {
                list.push(run.now);
            }
            let recent = list.iter().filter(|at| run.now - **at <= TOLERANCE.period).count();
            let down = if was_down { !healthy } else { recent >= TOLERANCE.threshold };
            if down && !was_down {
                list.clear();
            }
            prop_assert_eq!(run.machine.state() == State::Down, down);
        }
    }
}
