//! Is the store sound, and is there room for it?

use std::path::Path;

use super::finding::{Finding, Group};
use super::{Daemon, Doctor};
use crate::admin::{StoreView, StoreWord};
use crate::app::Home;
use crate::store::{LookError, aside, examine};

/// Less room than this on the disk is worth a word, or wrong: bytes.
const LITTLE: u64 = 512 * 1024 * 1024;
const NONE: u64 = 16 * 1024 * 1024;

pub(super) async fn look(doctor: &Doctor) -> Vec<Finding> {
    let path = Home::at(&doctor.home()).store_path();
    let mut findings = Vec::new();
    if let Daemon::Runs { pool, .. } = &doctor.daemon {
        findings.extend(of_daemon(&pool.store));
    }
    let home = doctor.home();
    let looked = tokio::task::spawn_blocking(move || {
        let mut findings = vec![file(&path)];
        findings.extend(aside(&path).iter().map(|path| left_over(path)));
        findings.extend(disk(&home));
        findings
    });
    findings.extend(looked.await.unwrap_or_default());
    findings
}

/// What the daemon says of its writing.
fn of_daemon(store: &StoreView) -> Option<Finding> {
    let why = store.why.as_deref().unwrap_or("the disk does not answer");
    let finding = match store.state {
        StoreWord::Fine => return None,
        StoreWord::Slow => Finding::warn(Group::Store, "writing", "one write takes long"),
        StoreWord::Failing => Finding::fail(Group::Store, "writing", format!("nothing can be written down: {why}")),
    };
    Some(finding.advised("see the disk; what happens is kept in memory meanwhile"))
}

fn file(path: &Path) -> Finding {
    let what = path.display().to_string();
    match examine(path) {
        Ok(bytes) => Finding::pass(Group::Store, what, format!("sound, {}", size(bytes))),
        Err(LookError::Nothing(_)) => Finding::pass(Group::Store, what, "not there yet; the first start makes it"),
        Err(LookError::Damaged { why, .. }) => Finding::fail(Group::Store, what, format!("cannot be used: {why}"))
            .advised("put back a copy, or leave it: the next start puts it aside and begins a new one"),
        Err(LookError::Foreign { version, .. }) => {
            let finding = format!("version {version}, which this program cannot read");
            Finding::fail(Group::Store, what, finding).advised("use the duduclaw that made it")
        }
        Err(LookError::Unreachable { why, .. }) => Finding::fail(Group::Store, what, format!("cannot be read: {why}"))
            .advised("check its owner and permissions"),
    }
}

fn left_over(path: &Path) -> Finding {
    let finding = Finding::warn(Group::Store, path.display().to_string(), "was put aside, since it could not be used");
    finding.advised("remove it when nothing in it is missed")
}

fn disk(home: &Path) -> Option<Finding> {
    let there = home.ancestors().find(|folder| folder.exists())?;
    let stat = rustix::fs::statvfs(there).ok()?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let finding = match free {
        0..NONE => {
            Finding::fail(Group::Store, "disk", format!("{} free: nothing can be written down soon", size(free)))
        }
        NONE..LITTLE => Finding::warn(Group::Store, "disk", format!("{} free", size(free))),
        LITTLE.. => return Some(Finding::pass(Group::Store, "disk", "has room")),
    };
    Some(finding.advised(format!("make room below {}", there.display())))
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}
