//! Which endpoint a request is for, by its path alone; the query is the upstream's affair.
//!
//! Paths that two programs could read differently (dot segments, doubled or encoded slashes, backslashes, control
//! characters, however often encoded) are refused, so that what is permitted here is what the provider gets. What never
//! enters: methods, permissions, other parts of the request.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// How often a path may be percent-encoded over itself before it is refused unread.
const ENCODINGS_MAX: usize = 4;

/// An endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// `/v1/messages`.
    Messages,
    /// `/v1/messages/count_tokens`.
    CountTokens,
    /// `/v1/models`.
    Models,
    /// `/v1/responses`.
    Responses,
    /// `/v1/chat/completions`.
    ChatCompletions,
    /// `/v1beta/models`.
    GoogleModels,
    /// `/v1beta/models/{model}:{call}`.
    Google {
        /// The model, as it stands in the path.
        model: &'a str,
        /// What is asked of it.
        call: GoogleCall,
    },
    /// `/`.
    Root,
    /// `/api/hello`.
    Hello,
    /// `/healthz`.
    Healthz,
    /// `/readyz`.
    Readyz,
    /// `/metrics`.
    Metrics,
    /// `/admin` and what is below it.
    Admin,
    /// `/rpc` and what is below it.
    Rpc,
    /// Any other path below `/v1/` or `/api/`.
    Passthrough,
    /// `/v1/oauth` and what is below it: never passed on.
    Oauth,
    /// Nothing we serve.
    Unknown,
}

/// What is asked of a Google model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoogleCall {
    /// `generateContent`.
    Generate,
    /// `streamGenerateContent`.
    Stream,
    /// `countTokens`.
    CountTokens,
}

/// Why a path is refused; the answer is 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It does not begin with a slash.
    #[error("the path must begin with a slash")]
    Relative,
    /// A segment is `.` or `..`.
    #[error("the path has a dot segment; send it resolved")]
    DotSegment,
    /// Two slashes follow each other.
    #[error("the path has two slashes in a row; send it with one")]
    DoubleSlash,
    /// A slash is percent-encoded.
    #[error("the path has a percent-encoded slash; send it plain")]
    EncodedSlash,
    /// A backslash, plain or encoded.
    #[error("the path has a backslash")]
    Backslash,
    /// A control character, plain or encoded.
    #[error("the path has a control character")]
    Control,
    /// It is percent-encoded over and over.
    #[error("the path is percent-encoded more than {ENCODINGS_MAX} times over; encode it once")]
    EncodedTooOften,
}

/// The endpoint of a request target, query and all.
///
/// # Errors
/// If the path could be read in more than one way.
pub fn check(path_and_query: &str) -> Result<Route<'_>, PathError> {
    let path = path_and_query.split_once('?').map_or(path_and_query, |(path, _)| path);
    if !path.starts_with('/') {
        return Err(PathError::Relative);
    }
    let decoded = decode(path.as_bytes())?;
    Ok(route(path, &decoded))
}

/// The path without any encoding, after each of its readings was found harmless.
fn decode(path: &[u8]) -> Result<Cow<'_, [u8]>, PathError> {
    refuse_ambiguous(path)?;
    let mut reading = Cow::Borrowed(path);
    for _ in 0..=ENCODINGS_MAX {
        let Cow::Owned(next) = Cow::from(percent_decode(&reading)) else { return Ok(reading) };
        refuse_ambiguous(&next)?;
        if slashes(&next) != slashes(path) {
            return Err(PathError::EncodedSlash);
        }
        reading = Cow::Owned(next);
    }
    Err(PathError::EncodedTooOften)
}

fn slashes(path: &[u8]) -> usize {
    memchr::memchr_iter(b'/', path).count()
}

fn refuse_ambiguous(path: &[u8]) -> Result<(), PathError> {
    if path.iter().any(u8::is_ascii_control) {
        return Err(PathError::Control);
    }
    if path.contains(&b'\\') {
        return Err(PathError::Backslash);
    }
    if path.windows(2).any(|pair| pair == b"//") {
        return Err(PathError::DoubleSlash);
    }
    if path.split(|byte| *byte == b'/').any(is_dots) {
        return Err(PathError::DotSegment);
    }
    Ok(())
}

/// `.` or `..`, also with parameters behind it, which some servers cut off first.
fn is_dots(segment: &[u8]) -> bool {
    let name = segment.split(|byte| *byte == b';').next().unwrap_or_default();
    matches!(name, b"." | b"..")
}

/// Matched on the decoded path and whatever its case, so that no spelling of an endpoint slips by as another.
fn route<'a>(path: &'a str, decoded: &[u8]) -> Route<'a> {
    let decoded = decoded.to_ascii_lowercase();
    let plain = if decoded.len() > 1 { decoded.strip_suffix(b"/").unwrap_or(&decoded) } else { &decoded };
    match plain {
        b"/" => Route::Root,
        b"/v1/messages" => Route::Messages,
        b"/v1/messages/count_tokens" => Route::CountTokens,
        b"/v1/models" => Route::Models,
        b"/v1/responses" => Route::Responses,
        b"/v1/chat/completions" => Route::ChatCompletions,
        b"/v1beta/models" => Route::GoogleModels,
        b"/api/hello" => Route::Hello,
        b"/healthz" => Route::Healthz,
        b"/readyz" => Route::Readyz,
        b"/metrics" => Route::Metrics,
        other => folder(path, other),
    }
}

fn folder<'a>(path: &'a str, plain: &[u8]) -> Route<'a> {
    let below = |folder: &[u8]| plain.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest[0] == b'/');
    if below(b"/admin") {
        Route::Admin
    } else if below(b"/rpc") {
        Route::Rpc
    } else if below(b"/v1/oauth") {
        Route::Oauth
    } else if below(b"/v1") || below(b"/api") {
        Route::Passthrough
    } else {
        google(path).unwrap_or(Route::Unknown)
    }
}

fn google(path: &str) -> Option<Route<'_>> {
    let (model, call) = path.strip_prefix("/v1beta/models/")?.split_once(':')?;
    let call = match call {
        "generateContent" => GoogleCall::Generate,
        "streamGenerateContent" => GoogleCall::Stream,
        "countTokens" => GoogleCall::CountTokens,
        _ => return None,
    };
    (!model.is_empty() && !model.contains('/')).then_some(Route::Google { model, call })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn endpoints_are_told_by_the_path_whatever_the_query() {
        let routes = [
            ("/v1/messages?beta=true", Route::Messages),
            ("/v1/messages", Route::Messages),
            ("/v1/messages/count_tokens?beta=true", Route::CountTokens),
            ("/v1/models?limit=1000", Route::Models),
            ("/v1/responses", Route::Responses),
            ("/v1/chat/completions", Route::ChatCompletions),
            ("/v1beta/models", Route::GoogleModels),
            ("/", Route::Root),
            ("/?x", Route::Root),
            ("/api/hello", Route::Hello),
            ("/healthz", Route::Healthz),
            ("/readyz", Route::Readyz),
            ("/metrics", Route::Metrics),
            ("/admin", Route::Admin),
            ("/admin/api/chat", Route::Admin),
            ("/rpc", Route::Rpc),
            ("/v1/messages/batches", Route::Passthrough),
            ("/v1/files?q=/../%2e%2e//", Route::Passthrough),
            ("/v1/models/claude-opus-5-5", Route::Passthrough),
            ("/api/oauth/usage", Route::Passthrough),
            ("/v1/oauthlike", Route::Passthrough),
            ("/administrator", Route::Unknown),
            ("/v2/messages", Route::Unknown),
            ("/v1beta/models/gemini-3.8-flash", Route::Unknown),
        ];
        for (target, route) in routes {
            assert_eq!(check(target), Ok(route), "{target}");
        }
    }

    #[test]
    fn the_model_of_a_google_path_is_read_from_it() {
        let calls = [
            ("generateContent", GoogleCall::Generate),
            ("streamGenerateContent?alt=sse", GoogleCall::Stream),
            ("countTokens", GoogleCall::CountTokens),
        ];
        for (text, call) in calls {
            let target = format!("/v1beta/models/gemini-3.8-flash:{text}");
            assert_eq!(check(&target), Ok(Route::Google { model: "gemini-3.8-flash", call }));
        }
        assert_eq!(check("/v1beta/models/:generateContent"), Ok(Route::Unknown));
    }

    #[test]
    fn no_spelling_of_an_endpoint_passes_as_another_path() {
        for target in ["/v1/mess%61ges", "/v1/Messages", "/v1/messages/", "/v1/mess%2561ges", "/%76%31/messages"] {
            assert_eq!(check(target), Ok(Route::Messages), "{target}");
        }
        for target in ["/v1/oauth", "/v1/oauth/token", "/v1/OAuth/token", "/v1/o%61uth/token", "/v1/%256fauth/token"] {
            assert_eq!(check(target), Ok(Route::Oauth), "{target}");
        }
    }

    #[test]
    fn ambiguous_paths_are_refused_plain_and_however_often_encoded() {
        let plain = [
            ("/v1/../oauth", '.', PathError::DotSegment),
            ("/v1/./x", '.', PathError::DotSegment),
            ("/v1/x/..", '.', PathError::DotSegment),
            ("/v1/..;a/x", '.', PathError::DotSegment),
            ("/v1/a\\b", '\\', PathError::Backslash),
            ("/v1/a\u{0}b", '\u{0}', PathError::Control),
            ("/v1/a\rb", '\r', PathError::Control),
            ("/v1/a\u{7f}b", '\u{7f}', PathError::Control),
        ];
        for (path, character, error) in plain {
            let mut path = path.to_owned();
            let mut code = format!("%{:02x}", u32::from(character));
            assert_eq!(check(&path), Err(error), "{path:?}");
            path = path.replace(character, &code);
            for _ in 0..ENCODINGS_MAX - 1 {
                assert_eq!(check(&path), Err(error), "{path:?}");
                let again = code.replace('%', "%25");
                path = path.replace(&code, &again);
                code = again;
            }
        }
    }

    #[test]
    fn slashes_stand_single_and_plain() {
        for path in ["//v1/messages", "/v1//messages", "/v1/messages//", "/v1/a?x=1".replace('?', "//").as_str()] {
            assert_eq!(check(path), Err(PathError::DoubleSlash), "{path}");
        }
        for path in ["/v1/a/%2fb", "/v1/a%2F/b", "/v1/a%2f%2Fb", "/v1/a%252f%2fb"] {
            assert!(matches!(check(path), Err(PathError::DoubleSlash | PathError::EncodedSlash)), "{path}");
        }
        for path in ["/v1/a%2fb", "/v1%2fmessages", "/v1/a%252Fb", "/v1/a%25252fb"] {
            assert_eq!(check(path), Err(PathError::EncodedSlash), "{path}");
        }
        assert_eq!(check("/v1/x/%2e%2e%2foauth"), Err(PathError::DotSegment));
    }

    #[test]
    fn harmless_encodings_pass() {
        for path in ["/v1/files/a%20b", "/v1/files/100%25", "/v1/files/a.b..c", "/v1/files/%E5%8C%97", "/v1/%zz"] {
            assert_eq!(check(path), Ok(Route::Passthrough), "{path}");
        }
    }

    #[test]
    fn a_path_encoded_over_and_over_is_refused_without_reading_it_to_the_end() {
        let path = format!("/v1/%{}41", "25".repeat(20_000));
        assert_eq!(check(&path), Err(PathError::EncodedTooOften));
    }

    #[test]
    fn a_target_that_is_no_path_is_refused() {
        assert_eq!(check("*"), Err(PathError::Relative));
        assert_eq!(check(""), Err(PathError::Relative));
        assert_eq!(check("v1/messages"), Err(PathError::Relative));
    }

    proptest! {
        /// What is let through is harmless in every reading of it.
        #[test]
        fn nothing_that_passes_hides_a_climb(path in "/(v1|api)/([a-z./\\\\%;]|%2e|%2f|%5c|%25|%252e|%00){0,12}") {
            if check(&path).is_ok() {
                let mut reading = path.into_bytes();
                for _ in 0..8 {
                    let text = String::from_utf8_lossy(&reading);
                    prop_assert!(!text.contains("//") && !text.contains('\\') && !text.contains('\0'));
                    prop_assert!(!text.split('/').any(|segment| segment == "." || segment == ".."));
                    reading = percent_decode(&reading).collect();
                }
            }
        }
    }
}
