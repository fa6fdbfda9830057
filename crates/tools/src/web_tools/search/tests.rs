use super::*;

#[test]
fn the_api_is_offered_the_search_alone() {
    let asked = question(&json!({"query": "rust", "allowed_domains": ["a.com"], "blocked_domains": []}), 3);
    assert_eq!(
        asked.server_tool,
        Some(json!({
            "type": "web_search_20250305", "name": "web_search", "max_uses": 3, "allowed_domains": ["a.com"],
        }))
    );
    assert!(asked.prompt.ends_with("rust"), "{}", asked.prompt);
}

#[test]
fn domains_are_allowed_or_blocked() {
    let input = json!({"query": "xy", "allowed_domains": ["a.com"], "blocked_domains": ["b.com"]});
    assert!(matches!(WebSearch.check(&input), Err(ToolFailure::Rejected(_))));
    let input = json!({"query": "xy", "allowed_domains": ["a.com"], "blocked_domains": []});
    assert_eq!(WebSearch.check(&input), Ok(()));
    assert!(WebSearch.fit(json!({"query": "x"})).is_err());
}

#[test]
fn hits_errors_and_words_become_results() {
    let blocks = vec![
        json!({"type": "text", "text": "I look."}),
        json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}),
        json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": [
            {"type": "web_search_result", "title": "A", "url": "https://a.com", "encrypted_content": "…"},
        ]}),
        json!({"type": "web_search_tool_result", "tool_use_id": "s2", "content":
            {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}}),
        json!({"type": "text", "text": "It "}),
        json!({"type": "text", "text": "is so.", "citations": []}),
    ];
    let results = results(&SideAnswer { blocks, web_searches: 1 });
    assert_eq!(
        json!(results),
        json!([
            "I look.",
            {"tool_use_id": "s1", "content": [{"title": "A", "url": "https://a.com"}]},
            "Web search error: max_uses_exceeded",
            "It is so.",
        ])
    );
    let text = told("x", &results);
    assert!(text.contains("- [A](https://a.com)\n"), "{text}");
    assert!(told("x", &[]).contains("Nothing."));
}
