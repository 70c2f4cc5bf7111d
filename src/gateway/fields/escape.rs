//! Places within an escaped JSON string.

/// Where in the escaped text the byte stands that is number `target` of what the text says. The text must be valid.
pub(super) fn raw_offset(escaped: &str, target: usize) -> Option<usize> {
    let (mut at, mut said) = (0, 0);
    while said < target {
        let (raw, plain) = step(&escaped.as_bytes()[at..])?;
        at += raw;
        said += plain;
    }
    (said == target).then_some(at)
}

/// How many bytes the next piece takes, escaped and plain.
fn step(rest: &[u8]) -> Option<(usize, usize)> {
    match rest {
        [b'\\', b'u', ..] => unicode_step(rest),
        [b'\\', _, ..] => Some((2, 1)),
        [_, ..] => Some((1, 1)),
        [] => None,
    }
}

fn unicode_step(rest: &[u8]) -> Option<(usize, usize)> {
    let code = unit(rest)?;
    if (0xD800..0xDC00).contains(&code) {
        return unit(rest.get(6..)?).map(|_| (12, 4));
    }
    char::from_u32(code).map(|character| (6, character.len_utf8()))
}

/// The code of `\uXXXX`.
fn unit(rest: &[u8]) -> Option<u32> {
    let digits = rest.strip_prefix(b"\\u")?.get(..4)?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
