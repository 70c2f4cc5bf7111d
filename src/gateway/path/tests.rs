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
        ("/usage?x=1", Route::Usage),
        ("/api/oauth/usage", Route::OwnUsage),
        ("/api/oauth/profile", Route::Passthrough),
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

/// No provider ever sees such a path, so that nobody can read it in another way.
#[test]
fn a_name_with_a_slash_may_stand_encoded_in_a_path_of_the_control_api_alone() {
    assert_eq!(check("/admin/api/accounts/anthropic%2Fwork/pause"), Ok(Route::Admin));
    for target in ["/admin%2Fapi/x", "/v1%2Fmessages", "/admin/x%2Fy"] {
        assert_eq!(check(target), Err(PathError::EncodedSlash), "{target}");
    }
    assert_eq!(check("/admin/api/a%2F..%2Fb"), Err(PathError::DotSegment));
    assert_eq!(check("/admin/api/a%2F%2Fb"), Err(PathError::DoubleSlash));
}
