//! Is the key there, and is what is secret readable for its owner alone?

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Doctor;
use super::finding::{Finding, Group};
use crate::credentials::{KeyPlace, SecretSource};

/// Permissions that only the owner should have.
const OTHERS: u32 = 0o077;

pub(super) fn look(doctor: &Doctor) -> Vec<Finding> {
    let home = doctor.home();
    let mut findings = vec![home_itself(&home), the_key(doctor)];
    let open = secret_files(doctor).into_iter().filter(|path| is_open(path));
    findings.extend(open.map(|path| {
        let advice = format!("chmod 600 '{}'", path.display());
        Finding::warn(Group::Keys, path.display().to_string(), "others on this machine may read it").advised(advice)
    }));
    findings
}

fn home_itself(home: &Path) -> Finding {
    let what = home.display().to_string();
    match fs::metadata(home) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Finding::pass(Group::Keys, what, "not there yet; the first start makes it")
        }
        Err(error) => Finding::fail(Group::Keys, what, format!("it cannot be looked at: {error}"))
            .advised("check its owner and permissions"),
        Ok(meta) if !meta.is_dir() => {
            Finding::fail(Group::Keys, what, "it is no folder").advised("move it away, or give another --home")
        }
        Ok(meta) if rustix::fs::access(home, rustix::fs::Access::WRITE_OK).is_err() => {
            Finding::fail(Group::Keys, what, "this user may not write into it")
                .advised(format!("check its owner and permissions ({:o})", meta.permissions().mode() & 0o777))
        }
        Ok(meta) if meta.permissions().mode() & OTHERS != 0 => {
            let advice = format!("chmod 700 '{}'", home.display());
            Finding::warn(Group::Keys, what, "others on this machine may look into it").advised(advice)
        }
        Ok(_) => Finding::pass(Group::Keys, what, "for its owner alone"),
    }
}

fn the_key(doctor: &Doctor) -> Finding {
    const WHAT: &str = "key";
    match doctor.sealer.places().look() {
        Ok(Some(id)) => {
            let is_kept = matches!(doctor.sealer.places().place(), Ok(Some(KeyPlace::Keychain)));
            Finding::pass(Group::Keys, WHAT, format!("{id}{}", if is_kept { ", in the keychain" } else { "" }))
        }
        Ok(None) => Finding::pass(Group::Keys, WHAT, "none yet; the first stored secret makes it"),
        Err(error) => {
            let keychain = if doctor.sealer.places().keychain.is_some() { ", the keychain" } else { "" };
            Finding::fail(Group::Keys, WHAT, error.to_string()).advised(format!(
                "put the right key back, or correct where it is looked for: DUDUCLAW_KEY_FILE, [secrets] key_file{keychain}"
            ))
        }
    }
}

/// The files that hold a secret, of those that are there.
fn secret_files(doctor: &Doctor) -> Vec<PathBuf> {
    let home = doctor.home();
    let entries = doctor.ready().into_iter().flat_map(|ready| ready.topology.entries());
    let of_accounts = entries.filter_map(|entry| match &entry.source {
        SecretSource::CredentialsFile(path) | SecretSource::StoreFile(path) => Some(path.clone()),
        SecretSource::TokenEnv(_) | SecretSource::ApiKeyEnv(_) | SecretSource::Keychain { .. } | SecretSource::None => {
            None
        }
    });
    let mut files: Vec<_> = ["admin-token", "state.db"].map(|name| home.join(name)).to_vec();
    files.extend(doctor.sealer.places().files());
    files.extend(of_accounts);
    files.sort();
    files.dedup();
    files
}

fn is_open(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & OTHERS != 0)
}
