//! Which endpoint a request is for, by its path alone; the query is the upstream's affair.
//!
//! Paths that two programs could read differently (dot segments, doubled or encoded slashes, backslashes, control
//! characters, however often encoded) are refused, so that what is permitted here is what the provider gets. What never
//! enters: methods, permissions, other parts of the request.

#[cfg(test)]
mod tests;

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
    /// `/usage`.
    Usage,
    /// `/api/oauth/usage`.
    OwnUsage,
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

/// Below it a path goes to the control API and no further: a name that holds a slash may stand in it encoded.
const CONTROL: &str = "/admin/api/";

/// Whether a path leads to the control API, however it is spelt.
#[must_use]
pub fn is_control(path: &str) -> bool {
    matches!(check(path), Ok(Route::Admin | Route::Rpc)) || path.starts_with("/admin/") || path.starts_with("/rpc/")
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
        if slashes(&next) != slashes(path) && !path.starts_with(CONTROL.as_bytes()) {
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
        b"/usage" => Route::Usage,
        b"/api/oauth/usage" => Route::OwnUsage,
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
