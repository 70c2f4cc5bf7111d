//! How many tokens a text has, estimated from its bytes: good enough to set money aside for a request, to choose a model,
//! and to count an answer of which the provider's own count never came.
//!
//! Four characters make a token, one and a half of the East Asian scripts do, and a piece of base64 (an image, a
//! document) counts a fixed sum whatever its size. What never enters: JSON; the text is scanned as it stands.

use memchr::{memchr, memmem};

/// What a piece of base64 counts.
const BLOCK: u64 = 1_600;
/// The shortest value that is taken for base64: shorter ones are tool arguments and names.
const BLOCK_MIN: usize = 64;
/// How far into a data URL its base64 begins at most.
const DATA_URL_MAX: usize = 128;

/// The tokens of a request's body.
#[must_use]
pub fn input_tokens(body: &[u8]) -> u64 {
    let mut text = Characters::default();
    let (mut blocks, mut from) = (0, 0);
    while let Some(block) = next_block(body, from) {
        text.add(&body[from..block.start]);
        blocks += 1;
        from = block.end;
    }
    text.add(&body[from..]);
    text.tokens() + blocks * BLOCK
}

/// The next piece of base64: a `data` value or a data URL.
fn next_block(body: &[u8], from: usize) -> Option<std::ops::Range<usize>> {
    memmem::find_iter(&body[from..], b"\"data").find_map(|at| {
        let start = value_after(body, from + at + b"\"data".len())?;
        let end = start + memchr(b'"', &body[start..])?;
        is_base64(&body[start..end]).then_some(start..end)
    })
}

/// Where base64 would begin behind `"data`.
fn value_after(body: &[u8], at: usize) -> Option<usize> {
    let rest = &body[at..];
    if rest.first() == Some(&b':') {
        let head = &rest[..rest.len().min(DATA_URL_MAX)];
        return memmem::find(head, b";base64,").map(|found| at + found + b";base64,".len());
    }
    let value = rest.strip_prefix(b"\"")?.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    value.strip_prefix(b"\"").map(|value| body.len() - value.len())
}

fn is_base64(value: &[u8]) -> bool {
    let letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=-_".contains(byte);
    value.len() >= BLOCK_MIN && value[..BLOCK_MIN].iter().all(letter) && value[value.len() - 4..].iter().all(letter)
}

/// Characters seen so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Characters {
    all: i64,
    east_asian: i64,
}

impl Characters {
    /// What stands between the quotes of a JSON string: an escape is the character that it says.
    pub fn add_string(&mut self, text: &[u8]) {
        self.all += signed(bytecount::num_chars(text));
        self.east_asian += signed(count_east_asian(text));
        let mut rest = text;
        while let Some(at) = memchr(b'\\', rest) {
            rest = &rest[at..];
            let length = self.add_one_escape(rest);
            rest = rest.get(length..).unwrap_or_default();
        }
    }

    /// How many bytes it takes.
    fn add_one_escape(&mut self, text: &[u8]) -> usize {
        match text.get(..6).and_then(escaped) {
            Some(digits) => {
                self.add_escape(digits);
                6
            }
            None => {
                self.all -= 1;
                2
            }
        }
    }

    fn add(&mut self, text: &[u8]) {
        self.all += signed(bytecount::num_chars(text));
        self.east_asian += signed(count_east_asian(text));
        self.add_escapes(text);
    }

    /// `\u5317` is six bytes and one character.
    fn add_escapes(&mut self, text: &[u8]) {
        let finder = memmem::Finder::new(b"\\u");
        let mut at = 0;
        while let Some(found) = finder.find(&text[at..]) {
            at += found;
            let literal = at > 0 && text[at - 1] == b'\\';
            at += if literal { 2 } else { self.add_run(&text[at..]).max(2) };
        }
    }

    /// Escapes that follow each other; how many bytes they take.
    fn add_run(&mut self, text: &[u8]) -> usize {
        let escapes = text.chunks_exact(6).map_while(escaped);
        escapes.map(|digits| self.add_escape(digits)).count() * 6
    }

    fn add_escape(&mut self, digits: &[u8]) {
        let surrogate = matches!(digits, [b'd' | b'D', b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F', ..]);
        let second = surrogate && matches!(digits[1], b'c'..=b'f' | b'C'..=b'F');
        self.all -= if second { 6 } else { 5 };
        self.east_asian += i64::from(!surrogate && matches!(digits[0], b'3'..=b'9' | b'a'..=b'd' | b'A'..=b'D'));
    }

    /// The tokens they make.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let (plain, dense) = ((self.all - self.east_asian).max(0), self.east_asian.max(0));
        // A quarter and two thirds, rounded up together.
        u64::try_from((3 * plain + 8 * dense + 11) / 12).unwrap_or_default()
    }
}

/// The digits of an escape.
fn escaped(bytes: &[u8]) -> Option<&[u8]> {
    bytes.strip_prefix(b"\\u").filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// Characters whose first byte says that they are of U+3000 to U+DFFF: Han, kana, Hangul.
fn count_east_asian(text: &[u8]) -> usize {
    let in_chunk = |chunk: &[u8]| chunk.iter().map(|byte| u8::from((0xE3..=0xED).contains(byte))).sum::<u8>();
    text.chunks(255).map(|chunk| usize::from(in_chunk(chunk))).sum()
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn four_characters_make_a_token_and_three_of_the_east_make_two() {
        assert_eq!(input_tokens(b""), 0);
        assert_eq!(input_tokens("a".repeat(4000).as_bytes()), 1000);
        assert_eq!(input_tokens("é".repeat(4000).as_bytes()), 1000);
        assert_eq!(input_tokens("北京の東京서울".repeat(300).as_bytes()), 1400);
        assert_eq!(input_tokens("北".as_bytes()), 1);
    }

    #[test]
    fn an_image_counts_a_fixed_sum_whatever_its_size_and_the_order_of_its_keys() {
        let plain = input_tokens(br#"{"source":{"type":"base64","data":""}}"#);
        for size in [64, 4_000_000] {
            let data = "iVBORw0KGgo/+A==".repeat(size / 16);
            let block = format!(r#"{{"source":{{"type":"base64","data" : "{data}"}}}}"#);
            assert!(input_tokens(block.as_bytes()).abs_diff(plain + 1600) <= 1);
            let url = format!(r#"{{"type":"input_image","image_url":"data:image/png;base64,{data}"}}"#);
            assert!((1600..1640).contains(&input_tokens(url.as_bytes())));
        }
        let two = format!(r#"[{{"data":"{0}"}},{{"data":"{0}"}}]"#, "A".repeat(100));
        assert!((3200..3220).contains(&input_tokens(two.as_bytes())));
    }

    #[test]
    fn a_data_value_that_is_text_counts_as_text() {
        let text = format!(r#"{{"type":"text","data":"{}"}}"#, "some plain words ".repeat(400));
        assert!((1700..1750).contains(&input_tokens(text.as_bytes())));
        assert!(input_tokens(br#"{"data":"short"}"#) < 10);
    }

    #[test]
    fn escaped_characters_count_as_what_they_say() {
        let tokens = |text: &str| input_tokens(text.as_bytes());
        assert_eq!(tokens(&r"\u5317\u4eac".repeat(300)), tokens(&"北京".repeat(300)));
        assert_eq!(tokens(&r"\u00e9".repeat(300)), tokens(&"é".repeat(300)));
        assert_eq!(tokens(&r"\ud83d\ude00".repeat(300)), tokens(&"😀".repeat(300)));
        assert_eq!(tokens(&r"C:\\users\\ubuntu".repeat(10)), 43);
    }

    #[test]
    fn in_a_string_every_escape_is_the_character_that_it_says() {
        let all = |text: &str| {
            let mut characters = Characters::default();
            characters.add_string(text.as_bytes());
            (characters.all, characters.east_asian)
        };
        for (raw, said) in [(r#"a\n\"b\"\\"#, 6), (r"\u0041\t", 2), (r"\ud83d\ude00!", 2), (r"\u5317北", 2), ("", 0)] {
            assert_eq!(all(raw).0, said, "{raw}");
        }
        assert_eq!(all(r"\u5317北\\u5317").1, 2);
    }

    proptest! {
        #[test]
        fn a_string_counts_as_many_characters_as_it_says(text in any::<String>()) {
            let raw = serde_json::to_string(&text).unwrap();
            let mut characters = Characters::default();
            characters.add_string(&raw.as_bytes()[1..raw.len() - 1]);
            prop_assert_eq!(characters.all, i64::try_from(text.chars().count()).unwrap());
        }

        #[test]
        fn any_bytes_are_counted_without_harm(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(input_tokens(&body) <= body.len() as u64 + BLOCK);
        }

        #[test]
        fn pieces_of_json_are_counted_without_harm(body in "([\"\\\\:{}, a]|\"data|\"data\":\"|;base64,|\\\\u|A{64}){0,30}") {
            prop_assert!(input_tokens(body.as_bytes()) <= (body.len() as u64).div_ceil(64) * BLOCK);
        }
    }
}
