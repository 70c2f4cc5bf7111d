//! Each way of writing is read back by a reader written from systemd's documentation, not from the writer.

use proptest::prelude::*;

use super::*;

/// Splits as systemd does: blanks outside quotes separate, quotes of both kinds group, a backslash takes the next
/// character as it is (the only escapes that the writer may use).
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match (c, quote) {
            ('\\', _) => {
                let escaped = rest.next().expect("something after a backslash");
                assert!("\\\"".contains(escaped), "systemd reads \\{escaped} otherwise");
                word.get_or_insert_default().push(escaped);
            }
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (_, Some(open)) if c == open => quote = None,
            (' ' | '\t', None) => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    assert_eq!(quote, None, "a quote stays open in {line}");
    words.extend(word);
    words
}

/// Undoes a doubled character; a single one would begin a specifier or a variable.
fn undouble(text: &str, doubled: char) -> String {
    let mut rest = text.chars();
    let mut read = String::new();
    while let Some(c) = rest.next() {
        if c == doubled {
            assert_eq!(rest.next(), Some(doubled), "a lone {doubled} in {text}");
        }
        read.push(c);
    }
    read
}

fn unescape_xml(text: &str) -> String {
    assert!(!text.contains(['<', '>']), "markup in {text}");
    assert!(text.split('&').skip(1).all(|after| ["amp;", "lt;", "gt;"].iter().any(|name| after.starts_with(name))));
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// Texts rich in what is special to somebody.
fn texts() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof![
            proptest::sample::select(vec!['%', '$', '"', '\'', '\\', ' ', '&', '<', '>', ';', '{', '}', '#', 'h', '~']),
            any::<char>().prop_filter("no control characters", |c| !c.is_control()),
        ],
        0..24,
    )
    .prop_map(|chars| chars.into_iter().collect())
}

proptest! {
    #[test]
    fn a_word_is_read_back_as_it_was(text in texts()) {
        let read: Vec<_> = split(&word(&text)).iter().map(|word| undouble(word, '%')).collect();
        prop_assert_eq!(read, [text]);
    }

    #[test]
    fn a_command_is_read_back_word_by_word(program in texts(), arguments in proptest::collection::vec(texts(), 0..4)) {
        let program = format!("/{program}");
        let words: Vec<&str> = std::iter::once(&program).chain(&arguments).map(String::as_str).collect();
        let read: Vec<_> = split(&command(&words)).iter().map(|word| undouble(word, '%')).collect();
        prop_assert_eq!(&read[0], &program, "no variable is replaced in the program");
        let read: Vec<_> = read[1..].iter().map(|word| undouble(word, '$')).collect();
        prop_assert_eq!(read, arguments);
    }

    #[test]
    fn a_line_is_read_back_as_it_was_or_refused(text in texts()) {
        match line(&text) {
            Ok(written) => {
                prop_assert!(!written.ends_with('\\'), "the next line would be part of it");
                prop_assert_eq!(undouble(written.trim(), '%'), text);
            }
            Err(refusal) => prop_assert_eq!(refusal, Unwritable::Edge(text)),
        }
    }

    #[test]
    fn xml_is_read_back_as_it_was(text in texts()) {
        prop_assert_eq!(unescape_xml(&xml(&text)), text);
    }
}

#[test]
fn a_line_break_or_a_path_that_is_no_unicode_is_refused_with_what_to_do() {
    use std::os::unix::ffi::OsStrExt;

    let broken = text(Path::new("/a\nExecStart=/bin/evil")).expect_err("a line break");
    assert_eq!(broken, Unwritable::Control("/a\nExecStart=/bin/evil".to_owned()));
    let bytes = text(Path::new(std::ffi::OsStr::from_bytes(b"/a\xff"))).expect_err("no Unicode");
    assert!(bytes.to_string().contains("choose another place"), "{bytes}");
}
