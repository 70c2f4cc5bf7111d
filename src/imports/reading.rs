//! Reading other programs' files whole. Never here: what they hold.

use std::io::{self, Read};
use std::path::Path;

use crate::credentials::open_file;

/// A file that is larger is none of theirs.
const LARGEST: u64 = 16 * 1024 * 1024;

/// What a file holds. What is no file is an error at once, and so is one that never ends.
pub(crate) fn whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    let fits = bytes.len() as u64 <= LARGEST;
    if fits { Ok(bytes) } else { Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 16 MiB")) }
}

/// The same where it is text.
pub(super) fn text(path: &Path) -> io::Result<String> {
    String::from_utf8(whole(path)?).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_or_no_text_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::File::create(&file).unwrap().set_len(LARGEST + 1).unwrap();
        assert_eq!(whole(&file).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        std::fs::write(&file, b"a\xff").unwrap();
        assert_eq!(whole(&file).unwrap(), b"a\xff");
        assert_eq!(text(&file).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
