//! What another process has used: CPU time and resident memory.

use std::collections::BTreeMap;

#[cfg(target_os = "linux")]
use anyhow::ensure;
use anyhow::{Context, Result};

/// CPU time of a process, a thread at a time where the system tells it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cpu {
    nanos: BTreeMap<u32, u64>,
}

impl Cpu {
    /// Nanoseconds used since an earlier reading. What a thread used that began and ended between the two is not seen.
    pub(crate) fn since(&self, earlier: &Self) -> u64 {
        let used = |(thread, nanos): (&u32, &u64)| nanos.saturating_sub(*earlier.nanos.get(thread).unwrap_or(&0));
        self.nanos.iter().map(used).sum()
    }
}

/// Reads the nanoseconds on a CPU of every thread.
#[cfg(target_os = "linux")]
pub(crate) fn cpu(pid: u32) -> Result<Cpu> {
    let mut nanos = BTreeMap::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).context("the measured process is gone")? {
        let task = task?;
        let thread = task.file_name().to_string_lossy().parse().context("a thread's number is no number")?;
        // A thread may end between the listing and the reading.
        let Ok(text) = std::fs::read_to_string(task.path().join("schedstat")) else { continue };
        let first = text.split_whitespace().next().context("schedstat is empty")?;
        nanos.insert(thread, first.parse().context("schedstat holds no number")?);
    }
    ensure!(!nanos.is_empty(), "this kernel does not tell the CPU time of threads (schedstat)");
    Ok(Cpu { nanos })
}

/// Reads the resident memory in KiB.
#[cfg(target_os = "linux")]
pub(crate) fn resident_kib(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("the measured process is gone")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("status holds no VmRSS")?;
    line.trim().trim_end_matches(" kB").parse().context("VmRSS is no number")
}

/// Asks `ps` for the CPU time, in hundredths of a second.
#[cfg(not(target_os = "linux"))]
pub(crate) fn cpu(pid: u32) -> Result<Cpu> {
    let text = ps(pid, "time=")?;
    let mut seconds = 0.0;
    for part in text.split(':') {
        seconds = seconds * 60.0 + part.parse::<f64>().context("ps gave no time")?;
    }
    let nanos = std::time::Duration::from_secs_f64(seconds).as_nanos();
    Ok(Cpu { nanos: BTreeMap::from([(pid, u64::try_from(nanos)?)]) })
}

/// Asks `ps` for the resident memory in KiB.
#[cfg(not(target_os = "linux"))]
pub(crate) fn resident_kib(pid: u32) -> Result<u64> {
    ps(pid, "rss=")?.parse().context("ps gave no size")
}

#[cfg(not(target_os = "linux"))]
fn ps(pid: u32, field: &str) -> Result<String> {
    let output = std::process::Command::new("ps").args(["-o", field, "-p", &pid.to_string()]).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
