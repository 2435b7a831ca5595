//! Running suites as process groups with a time limit, two at a time.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(50);

/// Starts a command as the leader of a process group of its own, its output into `log`.
pub fn spawn_logged(mut command: Command, log: &Path) -> Result<Child> {
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
    command.spawn().with_context(|| format!("cannot start `{program}`; is it installed?"))
}

/// Runs a command to its end; an error when it fails or takes longer than `limit`.
pub fn run_logged(command: Command, log: &Path, limit: Duration) -> Result<()> {
    let mut child = spawn_logged(command, log)?;
    match wait(&mut child, limit)? {
        Some(status) if status.success() => Ok(()),
        Some(status) => bail!("it failed with {status}"),
        None => {
            end_group(&child, "KILL");
            child.wait()?;
            bail!("it was ended after its time limit of {} s", limit.as_secs())
        }
    }
}

/// The exit status, or none after the limit.
pub fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > end {
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

/// Sends a signal to the group that the child leads. That it may be gone already is fine.
pub fn end_group(child: &Child, signal: &str) {
    let _ = Command::new("kill")
        .arg(format!("-{signal}"))
        .arg("--")
        .arg(format!("-{}", child.id()))
        .stderr(Stdio::null())
        .status();
}

/// Does all of the work on two threads; the results come in the order of the work.
pub fn two_at_a_time<T: Send>(work: Vec<impl FnOnce() -> T + Send>) -> Vec<T> {
    let mut results: Vec<Option<T>> = work.iter().map(|_| None).collect();
    let queue = Mutex::new(work.into_iter().zip(results.iter_mut()).collect::<Vec<_>>().into_iter());
    let take = || queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((job, result)) = take() {
                    *result = Some(job());
                }
            });
        }
    });
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, limit: Duration) -> Result<()> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let log =
            std::env::temp_dir().join(format!("xtask-{}-{:?}.log", std::process::id(), std::thread::current().id()));
        let outcome = run_logged(command, &log, limit);
        std::fs::remove_file(log).unwrap();
        outcome
    }

    #[test]
    fn success_failure_and_the_time_limit_are_told_apart() {
        let long = Duration::from_secs(60);
        assert!(run("exit 0", long).is_ok());
        assert!(run("exit 3", long).unwrap_err().to_string().contains("exit status: 3"));
        let error = run("sleep 600 & sleep 600", Duration::from_millis(100)).unwrap_err();
        assert!(error.to_string().contains("time limit"), "{error}");
    }

    #[test]
    fn results_keep_the_order_of_the_work() {
        let work: Vec<_> = (0..20).map(|i| move || i * 2).collect();
        assert_eq!(two_at_a_time(work), (0..20).map(|i| i * 2).collect::<Vec<_>>());
    }
}
