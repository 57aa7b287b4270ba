//! The clock of full audits: a job that runs when a cron expression says so, in UTC.
//!
//! Invariants: no run begins after [`Schedule::stop`] or the drop; runs that fall into a moment when the machine slept
//! are made up for once, not one by one.
//!
//! Cost: the scheduler looks at its one job twice a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};

/// Error: a schedule cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    #[error("\"{0}\" is no cron expression of six fields: second minute hour day month weekday")]
    Expression(String),
    #[error("the scheduler cannot start: {0}")]
    Start(JobSchedulerError),
}

/// A running schedule, or one of nothing. Dropping it ends it.
pub struct Schedule {
    scheduler: Option<JobScheduler>,
    ended: Arc<AtomicBool>,
}

impl Schedule {
    /// Starts to run a job; without an expression it never runs.
    pub async fn start(
        expression: Option<&str>,
        job: impl Fn() + Send + Sync + 'static,
    ) -> Result<Schedule, ScheduleError> {
        let ended = Arc::new(AtomicBool::new(false));
        let mut schedule = Schedule { scheduler: None, ended };
        let Some(expression) = expression else { return Ok(schedule) };
        let ended = schedule.ended.clone();
        let job = Job::new(expression, move |_, _| {
            if !ended.load(Ordering::Acquire) {
                job();
            }
        });
        let job = job.map_err(|_| ScheduleError::Expression(expression.to_string()))?;
        let scheduler = JobScheduler::new().await.map_err(ScheduleError::Start)?;
        scheduler.add(job).await.map_err(ScheduleError::Start)?;
        scheduler.start().await.map_err(ScheduleError::Start)?;
        schedule.scheduler = Some(scheduler);
        Ok(schedule)
    }

    /// Ends the schedule; a run that has begun goes on.
    pub fn stop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(mut scheduler) = self.scheduler.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            // Only sets a mark, behind a lock that the scheduler holds for a moment at a time.
            runtime.spawn(async move { scheduler.shutdown().await });
        }
    }
}

/// Time at which a cron expression comes due next; none if never.
pub fn next_run(expression: &str) -> Option<SystemTime> {
    // A job that is never added answers from the same parser that the running one uses.
    let job = Job::new(expression, |_, _| {}).and_then(|mut job| job.job_data());
    // Zero is the scheduler's mark for never.
    let seconds = job.ok()?.next_tick;
    (seconds > 0).then(|| UNIX_EPOCH + Duration::from_secs(seconds))
}

impl Drop for Schedule {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    #[tokio::test]
    async fn a_job_runs_every_second_until_stopped() {
        let (sender, mut runs) = mpsc::unbounded_channel();
        let job = move || sender.send(()).expect("the test waits");
        let mut schedule = Schedule::start(Some("* * * * * *"), job).await.unwrap();
        for _ in 0..2 {
            timeout(Duration::from_secs(20), runs.recv()).await.expect("a run is due").unwrap();
        }
        schedule.stop();
        while runs.try_recv().is_ok() {}
        // The scheduler lets go of the job, and thereby of the sender, or at least calls it no more.
        let after = timeout(Duration::from_millis(2500), runs.recv()).await;
        assert!(!matches!(after, Ok(Some(()))), "a run after the stop");
    }

    #[test]
    fn next_is_the_coming_moment_in_utc() {
        assert!(next_run("* * * * * *").unwrap() <= SystemTime::now() + Duration::from_secs(2));
        let next = next_run("0 30 4 * * *").unwrap();
        let ahead = next.duration_since(SystemTime::now()).unwrap();
        assert!(ahead <= Duration::from_secs(24 * 3600));
        assert_eq!(next.duration_since(UNIX_EPOCH).unwrap().as_secs() % (24 * 3600), (4 * 60 + 30) * 60);
    }

    #[tokio::test]
    async fn nothing_and_nonsense() {
        assert!(Schedule::start(None, || {}).await.is_ok());
        let error = Schedule::start(Some("often"), || {}).await.err().unwrap();
        assert!(error.to_string().starts_with("\"often\" is no cron expression"));
    }
}
