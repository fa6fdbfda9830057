use super::*;

#[test]
fn addresses_that_no_page_can_have_are_rejected() {
    for (url, why) in [
        ("file:///etc/passwd", "neither http nor https"),
        ("ftp://example.com/", "neither http nor https"),
        ("javascript:alert(1)", "neither http nor https"),
        ("https://user@example.com/", "a user name"),
        ("https://allowed.test:secret@evil.test/", "a user name"),
        ("not an address", "not an address"),
        ("https://", "not an address"),
    ] {
        match WebFetch.check(&json!({"url": url, "prompt": "p"})) {
            Err(ToolFailure::Rejected(text)) => assert!(text.contains(why), "{url}: {text}"),
            other => panic!("{url}: {other:?}"),
        }
    }
    let long = format!("https://example.com/{}", "x".repeat(MAX_URL));
    assert!(WebFetch.check(&json!({"url": long})).is_err());
    assert!(WebFetch.check(&json!({"url": " https://example.com/a b"})).is_ok());
}

#[test]
fn what_is_no_address_does_not_fit() {
    let invalid = WebFetch.fit(json!({"url": "notaurl", "prompt": "p"})).unwrap_err();
    let issues: Value = serde_json::from_str(&invalid.issues_json).unwrap();
    assert_eq!(
        issues,
        json!([{"code": "invalid_format", "format": "url", "path": ["url"], "message": "Invalid URL"}])
    );
    for offset in [json!(-1), json!(1.5), json!(9_007_199_254_740_992_u64)] {
        assert!(WebFetch.fit(json!({"url": "https://a.b", "prompt": "p", "offset": offset})).is_err());
    }
}

#[test]
fn long_pages_are_read_in_parts() {
    let text = "é".repeat(PART + 5);
    let total = text.chars().count() as u64;
    let first = Part::of(&text, 0).unwrap();
    assert_eq!((first.text.chars().count(), first.next), (PART, Some(PART as u64)));
    let last = Part::of(&text, PART as u64).unwrap();
    assert_eq!((last.text, last.next, last.total), ("ééééé", None, total));
    assert!(Part::of(&text, total).is_err());
    assert_eq!(Part::of("", 0).unwrap().text, "");
    assert!(Part::of("", u64::MAX).is_err());
}
