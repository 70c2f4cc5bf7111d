//! Stored secrets at rest: each value sealed with a key of this machine, bound to its account and its place.
//!
//! A sealed value is one line of text, so that it stands where the plain one would: a mark, the id of the key, and nonce
//! and ciphertext (XChaCha20-Poly1305). Copied to another account or another field it does not open. Plain values open
//! as they are, and are sealed when they are next written.
//!
//! Never here: which values are secrets, files of accounts.

mod key;
mod places;
mod rekey;

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Nonce, Payload};
use chacha20poly1305::{Key as CipherKey, XChaCha20Poly1305};
use zeroize::Zeroizing;

pub(super) use key::fill_random;
pub use key::{Key, KeyError, KeyId};
pub use places::{FreePlace, KeyPlace, KeyPlaces};
pub use rekey::{RekeyError, Rekeyed, rekey};

/// What every sealed value begins with.
const MARK: &str = "duduclaw-sealed:1:";
/// The bytes of a nonce; long enough to be drawn at random for ever.
const NONCE: usize = 24;

/// Where a value stands: it opens nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The account, by the name of its file in the store.
    pub account: &'a str,
    /// The field.
    pub field: &'a str,
}

/// Whether values are sealed when they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealing {
    /// They are.
    On,
    /// They stay readable for other programs.
    Off,
}

/// Opens and seals values with whatever key there is now: a key that comes back heals what it had broken.
#[derive(Clone)]
pub struct Sealer {
    sealing: Sealing,
    places: Arc<KeyPlaces>,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("sealing", &self.sealing).finish_non_exhaustive()
    }
}

/// Why a sealed value does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no key.
    #[error("is sealed, and no key is there: put back the key {wanted}, or log in again")]
    NoKey {
        /// The key that sealed it.
        wanted: KeyId,
    },
    /// The key is another.
    #[error("is sealed with the key {wanted}, and the key here is {found}: put back the right one, or log in again")]
    OtherKey {
        /// The key that sealed it.
        wanted: KeyId,
        /// The key that is there.
        found: KeyId,
    },
    /// The key cannot be had.
    #[error("is sealed, and the key cannot be had: {0}")]
    Key(#[from] KeyError),
    /// It was changed, or belongs elsewhere.
    #[error("is sealed and was changed, or belongs to another account or field: log in again")]
    Spoilt,
}

/// Why a value cannot be sealed; nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The key cannot be had.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The machine gives no random numbers.
    #[error("no random numbers are to be had")]
    NoChance,
}

impl Sealer {
    /// A sealer whose key is found in these places.
    #[must_use]
    pub fn new(sealing: Sealing, places: KeyPlaces) -> Self {
        Self { sealing, places: Arc::new(places) }
    }

    /// One that never seals, with no key: for files of other programs.
    #[must_use]
    pub fn none() -> Self {
        Self::new(Sealing::Off, KeyPlaces::nowhere())
    }

    /// The plain value of a text.
    ///
    /// # Errors
    /// When it is sealed and does not open.
    pub fn open(&self, text: &str, place: Place<'_>) -> Result<Zeroizing<String>, OpenError> {
        let Some(sealed) = Sealed::parse(text) else { return Ok(Zeroizing::new(text.to_owned())) };
        let sealed = sealed.ok_or(OpenError::Spoilt)?;
        if let Some(key) = self.places.with_id(&sealed.key)? {
            return key.open(&sealed.bytes, place);
        }
        Err(match self.places.find()? {
            Some(other) => OpenError::OtherKey { wanted: sealed.key, found: other.id().clone() },
            None => OpenError::NoKey { wanted: sealed.key },
        })
    }

    /// A value as it is to be written.
    ///
    /// # Errors
    /// When the key cannot be had.
    pub fn seal(&self, plain: &str, place: Place<'_>) -> Result<String, SealError> {
        match self.sealing {
            Sealing::Off => Ok(plain.to_owned()),
            Sealing::On => self.places.find_or_make()?.seal(plain, place),
        }
    }

    /// The places of its key.
    #[must_use]
    pub fn places(&self) -> &KeyPlaces {
        &self.places
    }
}

/// The key by which a text is sealed, if it is.
fn sealed_by(text: &str) -> Option<KeyId> {
    Sealed::parse(text).flatten().map(|sealed| sealed.key)
}

/// Whether a text is a sealed value.
#[must_use]
pub fn is_sealed(text: &str) -> bool {
    text.starts_with(MARK)
}

struct Sealed {
    key: KeyId,
    bytes: Vec<u8>,
}

impl Sealed {
    /// `None`: it is plain. `Some(None)`: it has the mark and makes no sense.
    fn parse(text: &str) -> Option<Option<Self>> {
        let rest = text.strip_prefix(MARK)?;
        let parts = rest.split_once(':').and_then(|(key, bytes)| {
            Some(Self { key: KeyId::parse(key)?, bytes: URL_SAFE_NO_PAD.decode(bytes).ok()? })
        });
        Some(parts)
    }
}

impl Key {
    /// Seals a value for its place.
    ///
    /// # Errors
    /// When the machine gives no random numbers.
    pub fn seal(&self, plain: &str, place: Place<'_>) -> Result<String, SealError> {
        let mut nonce = [0_u8; NONCE];
        key::fill_random(&mut nonce).map_err(|_| SealError::NoChance)?;
        let payload = Payload { msg: plain.as_bytes(), aad: &associated(place) };
        let sealed = self.cipher().encrypt(&Nonce::<XChaCha20Poly1305>::from(nonce), payload);
        let sealed = sealed.expect("a text in memory is never too long for the cipher");
        let bytes = [nonce.as_slice(), &sealed].concat();
        Ok(format!("{MARK}{}:{}", self.id(), URL_SAFE_NO_PAD.encode(bytes)))
    }

    fn open(&self, bytes: &[u8], place: Place<'_>) -> Result<Zeroizing<String>, OpenError> {
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE>().ok_or(OpenError::Spoilt)?;
        let payload = Payload { msg: sealed, aad: &associated(place) };
        let plain = self.cipher().decrypt(&Nonce::<XChaCha20Poly1305>::from(*nonce), payload);
        let plain = plain.map_err(|_| OpenError::Spoilt)?;
        String::from_utf8(plain).map(Zeroizing::new).map_err(|_| OpenError::Spoilt)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&CipherKey::from(*self.bytes()))
    }
}

/// Names cannot hold a zero byte, so no two places give the same bytes.
fn associated(place: Place<'_>) -> Vec<u8> {
    [b"duduclaw\0".as_slice(), place.account.as_bytes(), b"\0", place.field.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Place<'static> = Place { account: "claude/work", field: "claudeAiOauth.accessToken" };

    fn sealer(home: &std::path::Path) -> Sealer {
        Sealer::new(Sealing::On, KeyPlaces::in_home(home.to_owned()))
    }

    #[test]
    fn a_sealed_value_opens_in_its_place_and_shows_nothing_of_itself() {
        let home = tempfile::tempdir().unwrap();
        let sealed = sealer(home.path()).seal("sk-ant-oat01-CANARY", HERE).unwrap();
        assert!(is_sealed(&sealed) && !sealed.contains("CANARY"), "{sealed}");
        assert!(!sealed.contains(char::is_whitespace));
        assert_eq!(sealer(home.path()).open(&sealed, HERE).unwrap().as_str(), "sk-ant-oat01-CANARY");
        assert_ne!(
            sealer(home.path()).seal("sk-ant-oat01-CANARY", HERE).unwrap(),
            sealed,
            "each has a nonce of its own"
        );
    }

    #[test]
    fn it_opens_in_no_other_place_and_not_when_it_was_changed() {
        let home = tempfile::tempdir().unwrap();
        let sealer = sealer(home.path());
        let sealed = sealer.seal("secret", HERE).unwrap();
        let elsewhere = [
            Place { account: "claude/home", ..HERE },
            Place { field: "claudeAiOauth.refreshToken", ..HERE },
            Place { account: "claude", field: "work\0claudeAiOauth.accessToken" },
        ];
        for place in elsewhere {
            assert!(matches!(sealer.open(&sealed, place), Err(OpenError::Spoilt)), "{place:?}");
        }
        let last = if sealed.ends_with('A') { 'B' } else { 'A' };
        let changed = format!("{}{last}", &sealed[..sealed.len() - 1]);
        for text in
            [changed.as_str(), &sealed[..sealed.len() - 30], "duduclaw-sealed:1:", "duduclaw-sealed:1:00000000:!"]
        {
            assert!(sealer.open(text, HERE).is_err(), "{text}");
        }
    }

    #[test]
    fn plain_values_open_as_they_are_and_stay_so_where_sealing_is_off() {
        let plain = Sealer::none();
        assert_eq!(plain.open("sk-ant-x", HERE).unwrap().as_str(), "sk-ant-x");
        assert_eq!(plain.seal("sk-ant-x", HERE).unwrap(), "sk-ant-x");
    }

    #[test]
    fn another_key_opens_nothing_and_the_right_one_heals() {
        let home = tempfile::tempdir().unwrap();
        let sealed = sealer(home.path()).seal("secret", HERE).unwrap();
        let (key, aside) = (home.path().join("key"), home.path().join("aside"));
        std::fs::rename(&key, &aside).unwrap();
        assert!(matches!(sealer(home.path()).open(&sealed, HERE), Err(OpenError::NoKey { .. })));
        std::fs::write(&key, [7; 32]).unwrap();
        let error = sealer(home.path()).open(&sealed, HERE).unwrap_err();
        assert!(matches!(error, OpenError::OtherKey { .. }), "{error}");
        std::fs::rename(&aside, &key).unwrap();
        assert_eq!(sealer(home.path()).open(&sealed, HERE).unwrap().as_str(), "secret");
    }
}
