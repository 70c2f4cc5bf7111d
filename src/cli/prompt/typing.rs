//! What is typed where nothing is shown, byte by byte. Pure.

use zeroize::Zeroizing;

/// What has been typed so far.
#[derive(Default)]
pub(super) struct Typing {
    text: Zeroizing<Vec<u8>>,
    escape: Escape,
}

/// How far a sequence of a key without a letter is: arrows and their like mean nothing here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Escape {
    #[default]
    None,
    Begun,
    Sequence,
}

/// What a byte comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    More,
    Done,
    GivenUp,
}

impl Typing {
    pub(super) fn take(&mut self, byte: u8) -> Typed {
        const CONTROL_C: u8 = 3;
        const CONTROL_D: u8 = 4;
        const CONTROL_U: u8 = 21;
        const ESCAPE: u8 = 27;
        match (self.escape, byte) {
            (Escape::Begun, b'[' | b'O') => self.escape = Escape::Sequence,
            (Escape::Sequence, 0x40..=0x7e) | (Escape::Begun, _) => self.escape = Escape::None,
            (Escape::Sequence, _) => {}
            (Escape::None, ESCAPE) => self.escape = Escape::Begun,
            (Escape::None, b'\r' | b'\n') => return Typed::Done,
            (Escape::None, CONTROL_C | CONTROL_D) => return Typed::GivenUp,
            (Escape::None, CONTROL_U) => self.text.clear(),
            (Escape::None, 8 | 127) => self.take_back(),
            (Escape::None, 0..32) => {}
            (Escape::None, letter) => self.text.push(letter),
        }
        Typed::More
    }

    /// Takes back a letter, which may be several bytes.
    fn take_back(&mut self) {
        while self.text.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
    }

    /// The text; none if it is no text.
    pub(super) fn text(self) -> Option<Zeroizing<String>> {
        std::str::from_utf8(&self.text).ok().map(|text| Zeroizing::new(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &str) -> (Typed, Option<String>) {
        let mut typing = Typing::default();
        let ended = keys.bytes().map(|byte| typing.take(byte)).find(|typed| *typed != Typed::More);
        (ended.unwrap_or(Typed::More), typing.text().map(|text| text.to_string()))
    }

    #[test]
    fn letters_are_taken_until_the_line_ends() {
        for end in ["\r", "\n", "\rmore"] {
            assert_eq!(typed(&format!("sk-ant Zoë{end}")), (Typed::Done, Some("sk-ant Zoë".to_owned())));
        }
        assert_eq!(typed("abc"), (Typed::More, Some("abc".to_owned())));
    }

    #[test]
    fn what_was_typed_is_taken_back_by_letters_and_as_a_whole() {
        assert_eq!(typed("Zoë\u{7f}\u{8}x\r").1.as_deref(), Some("Zx"));
        assert_eq!(typed("\u{7f}a\r").1.as_deref(), Some("a"));
        assert_eq!(typed("abc\u{15}d\r").1.as_deref(), Some("d"));
    }

    #[test]
    fn keys_without_a_letter_mean_nothing() {
        assert_eq!(typed("a\u{1b}[Db\u{1b}OAc\u{1b}[1;5Cd\u{1b}[200~e\tf\r").1.as_deref(), Some("abcdef"));
    }

    #[test]
    fn giving_up_is_told_from_an_end() {
        assert_eq!((typed("a\u{3}").0, typed("\u{4}").0), (Typed::GivenUp, Typed::GivenUp));
    }
}
