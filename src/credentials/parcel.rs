//! All stored secrets in one file under a passphrase, to be brought to another machine or kept elsewhere.
//!
//! The passphrase becomes a key by Argon2id, the key seals everything with XChaCha20-Poly1305; what the file says of both
//! cannot be changed without the passphrase. On the way in each account is sealed with this home's own key.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead, KeyInit, Nonce, Payload};
use chacha20poly1305::{Key as CipherKey, XChaCha20Poly1305};
use duduclaw_actors::id::Family;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zeroize::Zeroizing;

use super::error::SourceError;
use super::file;
use super::lock::{Held, hold};
use super::seal::{OpenError, Place, SealError, Sealer, fill_random, is_sealed};
use super::source::store_name;
use super::store::{is_store_name, store_file};
use super::values::each_text;

const FORMAT: &str = "duduclaw-secrets";
const VERSION: u32 = 1;
/// What a passphrase costs to try: 64 MiB, three passes.
const COST: Cost = Cost { memory_kib: 64 * 1024, passes: 3 };
/// A file that asks for more is not one of ours, or was changed.
const DEAREST: Cost = Cost { memory_kib: 1024 * 1024, passes: 64 };
/// The characters of the shortest passphrase.
pub const SHORTEST: usize = 8;

/// How dear it is to try a passphrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Cost {
    memory_kib: u32,
    passes: u32,
}

/// The file.
#[derive(Debug, Serialize, Deserialize)]
struct Envelope {
    format: String,
    version: u32,
    argon2id: Cost,
    salt: String,
    nonce: String,
    data: String,
}

/// One account as it is carried.
#[derive(Serialize, Deserialize)]
struct Carried {
    /// Its file, with the values opened.
    text: Zeroizing<String>,
    /// Which of them were sealed.
    sealed: Vec<String>,
}

type Accounts = BTreeMap<String, Carried>;

/// Why the secrets cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// It would not be one.
    #[error("a passphrase has {SHORTEST} characters at least")]
    Passphrase,
    /// A file cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The machine gives no random numbers, or no memory.
    #[error("the passphrase cannot be worked with: {0}")]
    Machine(String),
}

/// Why the secrets cannot be brought in.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It is another file.
    #[error("this is no file that `duduclaw secrets export` made")]
    Foreign,
    /// It is of another version.
    #[error("it was made by a newer duduclaw (version {0} of the format); use that one")]
    Newer(u32),
    /// It does not open.
    #[error("it does not open: the passphrase is another one, or the file was changed")]
    Closed,
    /// The passphrase cannot be worked with.
    #[error("the passphrase cannot be worked with: {0}")]
    Machine(String),
}

/// What became of one account that was brought in.
#[derive(Debug)]
pub struct Brought {
    /// `family/name`.
    pub account: String,
    /// What became of it.
    pub fate: Result<Fate, BringError>,
}

/// What became of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was written.
    Written,
    /// One of its name is there, and stays.
    Kept,
}

/// What is done with an account whose name is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfThere {
    /// It stays.
    Keep,
    /// The other one takes its place.
    Replace,
}

/// Why an account was not brought in.
#[derive(Debug, thiserror::Error)]
pub enum BringError {
    /// It has no name that an account can have.
    #[error("no account can be called so")]
    Name,
    /// Its text makes no sense.
    #[error("its file makes no sense")]
    Text,
    /// It cannot be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// It cannot be written.
    #[error("{} cannot be written: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The secrets of these files of the store, under a passphrase; and how many accounts they are.
///
/// # Errors
/// When one of them cannot be had: a half is worse than none.
pub fn export(files: &[PathBuf], sealer: &Sealer, passphrase: &str) -> Result<(Vec<u8>, usize), ExportError> {
    if passphrase.chars().count() < SHORTEST {
        return Err(ExportError::Passphrase);
    }
    let accounts = files.iter().map(|path| Ok((store_name(path), carried(path, sealer)?)));
    let accounts = accounts.collect::<Result<Accounts, SourceError>>()?;
    let plain = Zeroizing::new(serde_json::to_vec(&accounts).expect("texts can be written"));
    Ok((enclose(&plain, passphrase).map_err(ExportError::Machine)?, accounts.len()))
}

/// Brings in what is in such a file, an account at a time.
///
/// # Errors
/// When it does not open; then nothing was written.
pub fn import(
    bytes: &[u8],
    passphrase: &str,
    accounts_dir: &Path,
    sealer: &Sealer,
    if_there: IfThere,
) -> Result<Vec<Brought>, ImportError> {
    let plain = disclose(bytes, passphrase)?;
    let accounts: Accounts = serde_json::from_slice(&plain).map_err(|_| ImportError::Foreign)?;
    let brought = accounts.into_iter().map(|(account, carried)| {
        let fate = bring(&account, &carried, accounts_dir, sealer, if_there);
        Brought { account, fate }
    });
    Ok(brought.collect())
}

fn carried(path: &Path, sealer: &Sealer) -> Result<Carried, SourceError> {
    let (bytes, _) = file::read(path)?;
    let document = file::json(path, &bytes)?;
    let mut text = Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned());
    let (account, mut sealed) = (store_name(path), Vec::new());
    each_text(&document, &mut |field, value| {
        if is_sealed(value) {
            let plain = sealer.open(value, Place { account: &account, field }).map_err(|why| closed(path, why))?;
            text = Zeroizing::new(text.replacen(quoted(value).as_str(), &quoted(&plain), 1));
            sealed.push(field.to_owned());
        }
        Ok::<_, SourceError>(())
    })?;
    Ok(Carried { text, sealed })
}

fn closed(path: &Path, problem: OpenError) -> SourceError {
    SourceError::Sealed { path: path.to_owned(), field: "a value", problem }
}

fn bring(
    account: &str,
    carried: &Carried,
    accounts_dir: &Path,
    sealer: &Sealer,
    if_there: IfThere,
) -> Result<Fate, BringError> {
    let path = place(account, accounts_dir).ok_or(BringError::Name)?;
    let failed = |source| BringError::Write { path: path.clone(), source };
    let document: Value = serde_json::from_str(&carried.text).map_err(|_| BringError::Text)?;
    file::private_folder(path.parent().unwrap_or(&path)).map_err(failed)?;
    let _lock = match hold(&path).map_err(failed)? {
        Held::By(_) => return Err(failed(io::ErrorKind::WouldBlock.into())),
        Held::Ours(lock) => lock,
    };
    if if_there == IfThere::Keep && path.symlink_metadata().is_ok() {
        return Ok(Fate::Kept);
    }
    file::put(&path, sealed(account, carried, &document, sealer)?.as_bytes()).map_err(failed)?;
    Ok(Fate::Written)
}

/// The text of its file, with the values sealed; under its lock, which a change of the key waits for.
fn sealed(account: &str, carried: &Carried, document: &Value, sealer: &Sealer) -> Result<Zeroizing<String>, SealError> {
    let mut text = carried.text.clone();
    each_text(document, &mut |field, value| {
        if carried.sealed.iter().any(|sealed| sealed == field) {
            let sealed = sealer.seal(value, Place { account, field })?;
            text = Zeroizing::new(text.replacen(quoted(value).as_str(), &quoted(&sealed), 1));
        }
        Ok::<_, SealError>(())
    })?;
    Ok(text)
}

fn place(account: &str, accounts_dir: &Path) -> Option<PathBuf> {
    let (family, name) = account.split_once('/')?;
    let family = Family::ALL.into_iter().find(|known| known.as_str() == family)?;
    is_store_name(name).then(|| store_file(accounts_dir, family, name))
}

/// As it stands in a file.
fn quoted(text: &str) -> Zeroizing<String> {
    Zeroizing::new(serde_json::to_string(text).expect("a text can be written"))
}

fn enclose(plain: &[u8], passphrase: &str) -> Result<Vec<u8>, String> {
    let (mut salt, mut nonce) = ([0_u8; 16], [0_u8; 24]);
    fill_random(&mut salt).and_then(|()| fill_random(&mut nonce)).map_err(|error| error.to_string())?;
    let mut envelope = Envelope {
        format: FORMAT.to_owned(),
        version: VERSION,
        argon2id: COST,
        salt: STANDARD.encode(salt),
        nonce: STANDARD.encode(nonce),
        data: String::new(),
    };
    let cipher = cipher(passphrase, &salt, COST)?;
    let head = envelope.head();
    let payload = Payload { msg: plain, aad: head.as_bytes() };
    let sealed = cipher.encrypt(&Nonce::<XChaCha20Poly1305>::from(nonce), payload);
    envelope.data = STANDARD.encode(sealed.map_err(|error| error.to_string())?);
    let mut bytes = serde_json::to_vec_pretty(&envelope).map_err(|error| error.to_string())?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn disclose(bytes: &[u8], passphrase: &str) -> Result<Zeroizing<Vec<u8>>, ImportError> {
    let envelope: Envelope = serde_json::from_slice(bytes).map_err(|_| ImportError::Foreign)?;
    if envelope.format != FORMAT {
        return Err(ImportError::Foreign);
    }
    if envelope.version != VERSION {
        return Err(ImportError::Newer(envelope.version));
    }
    let Cost { memory_kib, passes } = envelope.argon2id;
    let decoded = |text: &str| STANDARD.decode(text).map_err(|_| ImportError::Foreign);
    let (salt, nonce, data) = (decoded(&envelope.salt)?, decoded(&envelope.nonce)?, decoded(&envelope.data)?);
    let nonce = <[u8; 24]>::try_from(nonce).map_err(|_| ImportError::Foreign)?;
    if memory_kib > DEAREST.memory_kib || passes > DEAREST.passes || salt.len() < 8 {
        return Err(ImportError::Foreign);
    }
    let cipher = cipher(passphrase, &salt, envelope.argon2id).map_err(ImportError::Machine)?;
    let head = envelope.head();
    let payload = Payload { msg: &data, aad: head.as_bytes() };
    let plain = cipher.decrypt(&Nonce::<XChaCha20Poly1305>::from(nonce), payload);
    plain.map(Zeroizing::new).map_err(|_| ImportError::Closed)
}

fn cipher(passphrase: &str, salt: &[u8], cost: Cost) -> Result<XChaCha20Poly1305, String> {
    let params = Params::new(cost.memory_kib, cost.passes, 1, Some(32)).map_err(|error| error.to_string())?;
    let mut key = Zeroizing::new([0_u8; 32]);
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password_into(passphrase.as_bytes(), salt, key.as_mut_slice()).map_err(|error| error.to_string())?;
    Ok(XChaCha20Poly1305::new(&CipherKey::from(*key)))
}

impl Envelope {
    /// All but what is sealed, which it is bound to.
    fn head(&self) -> String {
        let Cost { memory_kib, passes } = self.argon2id;
        format!("{} {} argon2id {memory_kib} {passes} {} {}", self.format, self.version, self.salt, self.nonce)
    }
}

#[cfg(test)]
mod tests;
