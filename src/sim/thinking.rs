//! Signatures of thinking blocks: opaque to clients, and telling the provider which account the thinking came from.
//!
//! Never here: which models care whose thinking it is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

const MAGIC: &[u8; 4] = b"\x12\xc8\x01\x0a";
const NONCE: usize = 8;
const ISSUER: usize = 16;
const PROOF: usize = 16;

/// Signs thinking, and reads such signatures again.
#[derive(Clone)]
pub(super) struct Seal {
    key: [u8; 32],
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

impl Seal {
    pub(super) fn new(seed: &str) -> Self {
        Self { key: Sha256::digest(seed.as_bytes()).into() }
    }

    /// A signature for thinking of this account; `serial` makes each one different.
    pub(super) fn sign(&self, issuer: u128, serial: u64) -> String {
        let nonce = serial.to_be_bytes();
        let hidden = self.masked(issuer, nonce);
        let proof = self.proof(nonce, hidden);
        STANDARD.encode([MAGIC.as_slice(), &nonce, &hidden, &proof].concat())
    }

    /// The account whose thinking this signature stands for; nothing if we never made it.
    pub(super) fn issuer(&self, signature: &str) -> Option<u128> {
        let bytes = STANDARD.decode(signature).ok()?;
        let rest = bytes.strip_prefix(MAGIC.as_slice())?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE>()?;
        let (hidden, proof) = rest.split_first_chunk::<ISSUER>()?;
        (proof == self.proof(*nonce, *hidden)).then(|| u128::from_be_bytes(*hidden) ^ self.mask(*nonce))
    }

    fn masked(&self, issuer: u128, nonce: [u8; NONCE]) -> [u8; ISSUER] {
        (issuer ^ self.mask(nonce)).to_be_bytes()
    }

    fn mask(&self, nonce: [u8; NONCE]) -> u128 {
        u128::from_be_bytes(self.keyed(&[b"mask", &nonce]))
    }

    fn proof(&self, nonce: [u8; NONCE], hidden: [u8; ISSUER]) -> [u8; PROOF] {
        self.keyed(&[b"proof", &nonce, &hidden])
    }

    fn keyed(&self, parts: &[&[u8]]) -> [u8; 16] {
        let mut hash = Sha256::new_with_prefix(self.key);
        parts.iter().for_each(|part| hash.update(part));
        let digest: [u8; 32] = hash.finalize().into();
        let (head, _) = digest.split_first_chunk::<16>().expect("a SHA-256 digest has 32 bytes");
        *head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_names_its_account_to_the_provider_alone() {
        let seal = Seal::new("provider");
        let signature = seal.sign(42, 1);
        assert_eq!(seal.issuer(&signature), Some(42));
        assert_ne!(signature, seal.sign(42, 2), "no two are alike");
        assert_eq!(Seal::new("another").issuer(&signature), None);
    }

    #[test]
    fn a_changed_or_invented_signature_is_known_as_such() {
        let seal = Seal::new("provider");
        let mut bytes = STANDARD.decode(seal.sign(42, 1)).expect("our own base64");
        bytes[20] ^= 1;
        assert_eq!(seal.issuer(&STANDARD.encode(bytes)), None);
        assert_eq!(seal.issuer("garbage"), None);
        assert_eq!(seal.issuer(""), None);
    }
}
