//! The history alone: what messages become of what is added, and how large they are taken to be.

use super::*;
use serde_json::json;

fn texts(history: &mut ConversationHistory) -> Vec<String> {
    history.messages().iter().map(|m| String::from_utf8_lossy(m.bytes()).into_owned()).collect()
}

#[test]
fn user_blocks_collect_until_an_answer_seals_them() {
    let mut history = ConversationHistory::default();
    history.add_user_text("one");
    history.add_user_text("two");
    history.add_assistant(vec![ContentBlock::text("three")]);
    assert_eq!(
        texts(&mut history),
        [
            r#"{"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"three"}]}"#,
        ]
    );
}

#[test]
fn what_the_api_would_refuse_is_left_out() {
    let mut history = ConversationHistory::default();
    history.add_user_text("one");
    history.add_assistant(vec![ContentBlock::text(" ")]);
    history.add_user([json!("no object").into(), ContentBlock::text("two")]);
    assert_eq!(texts(&mut history).len(), 1);
}

#[test]
fn no_answer_ends_in_thinking() {
    let thinking: ContentBlock = json!({"type": "thinking", "thinking": "hm", "signature": "s"}).into();
    let hidden: ContentBlock = json!({"type": "redacted_thinking", "data": "x"}).into();
    let blank = ContentBlock::text("");
    let mut history = ConversationHistory::default();
    history.add_user_text("one");
    history.add_assistant(vec![thinking.clone(), hidden.clone(), blank]);
    history.add_user_text("two");
    assert_eq!(texts(&mut history).len(), 1, "what was only thought is left out");
    history.add_assistant(vec![thinking, ContentBlock::text("said"), hidden]);
    let answer = texts(&mut history).pop().unwrap();
    assert!(answer.contains("hm") && answer.contains("said") && !answer.contains("redacted"), "{answer}");
}

fn call(id: &str) -> ContentBlock {
    json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "x".repeat(400)}}).into()
}

fn outcome(id: &str) -> ContentBlock {
    json!({"type": "tool_result", "tool_use_id": id, "content": "y".repeat(400)}).into()
}

/// A conversation of a prompt and three calls.
fn worked() -> ConversationHistory {
    let mut history = ConversationHistory::default();
    history.add_user_text("do it");
    for id in ["t1", "t2", "t3"] {
        history.add_assistant(vec![call(id)]);
        history.note_answer(&Usage { input_tokens: 1000, ..Usage::default() }, Some(format!("r-{id}")));
        history.add_user([outcome(id)]);
    }
    history
}

fn within(tokens: u64) -> TailBounds {
    TailBounds { tokens, prompt: 10 * tokens }
}

#[test]
fn a_tail_never_tears_a_call_from_its_result() {
    // Whatever the bound, the tail begins with a response or is empty.
    for bound in 0..2000 {
        let mut history = worked();
        let tail = history.tail(within(bound));
        history.compact(vec![ContentBlock::text("summary")], &tail);
        let texts = texts(&mut history);
        assert!(texts[0].contains("summary"), "{texts:?}");
        for id in ["t1", "t2", "t3"] {
            let calls = texts.iter().filter(|text| text.contains(&format!("\"id\":\"{id}\""))).count();
            let results =
                texts.iter().filter(|text| text.contains(&format!("\"tool_use_id\":\"{id}\""))).count();
            assert_eq!(calls, results, "bound {bound}: {texts:?}");
        }
        let roles: Vec<Role> = history.messages().iter().map(WireMessage::role).collect();
        assert!(roles.windows(2).all(|pair| pair[0] != pair[1]), "bound {bound}");
    }
}

#[test]
fn what_stays_keeps_its_bytes_and_the_size_follows() {
    let mut history = worked();
    let before = history.size();
    assert_eq!(before.measured, Some(1000));
    assert!(before.added >= 100, "{before:?}");
    let last = history.messages()[5].bytes().as_ptr();
    let tail = history.tail(within(300));
    assert_eq!((tail.start, tail.record.as_deref()), (5, Some("r-t3")));
    history.compact(vec![ContentBlock::text("summary")], &tail);
    assert_eq!(history.messages()[1].bytes().as_ptr(), last);
    let after = history.size();
    assert_eq!(after.measured, None, "nothing is known before the next answer");
    assert!(after.messages < before.messages);
    let sum: u64 = history.facts.iter().map(|facts| facts.tokens).sum();
    assert_eq!(after.messages, sum);
}

#[test]
fn without_a_tail_the_next_words_join_the_summary() {
    let mut history = worked();
    let tail = history.tail(within(0));
    history.compact(vec![ContentBlock::text("summary")], &tail);
    history.add_user_text("go on");
    assert_eq!(texts(&mut history).len(), 1);
}

#[test]
fn a_prompt_that_waits_stays_word_for_word_with_its_pictures() {
    let image: ContentBlock =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}})
            .into();
    let text = "z".repeat(4000);
    let ask = |history: &mut ConversationHistory| {
        history.add_user([image.clone(), ContentBlock::text(text.as_str())]);
        history.note_prompt("r-p".to_owned());
    };
    // Room for the prompt, but for nothing else; then for neither.
    for (bounds, stays) in
        [(TailBounds { tokens: 100, prompt: 10_000 }, true), (TailBounds { tokens: 100, prompt: 100 }, false)]
    {
        let mut history = worked();
        history.add_assistant(vec![ContentBlock::text("done")]);
        ask(&mut history);
        let tail = history.tail(bounds);
        assert_eq!((tail.record.as_deref(), tail.ends_with_prompt), (stays.then_some("r-p"), stays));
        history.compact(vec![ContentBlock::text("summary")], &tail);
        let texts = texts(&mut history);
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert_eq!(texts[0].contains(&text) && texts[0].contains("image/png"), stays);
    }
    // With room for the response before it, both stay.
    let mut history = worked();
    history.add_assistant(vec![ContentBlock::text("done")]);
    history.note_answer(&Usage::default(), Some("r-a".to_owned()));
    ask(&mut history);
    let tail = history.tail(TailBounds { tokens: 3000, prompt: 10_000 });
    assert_eq!((tail.record.as_deref(), tail.ends_with_prompt), (Some("r-t3"), true));
}

#[test]
fn a_prompt_behind_results_does_not_tear_them_from_their_call() {
    let mut history = worked();
    history.add_user_text("and this");
    history.note_prompt("r-p".to_owned());
    let tail = history.tail(within(1));
    assert_eq!((tail.start, tail.ends_with_prompt), (history.messages().len(), false));
}

#[test]
fn a_call_that_waits_for_its_result_stays_whatever_its_size() {
    let mut history = worked();
    history.add_assistant(vec![call("t4")]);
    history.note_answer(&Usage::default(), Some("r-t4".to_owned()));
    let tail = history.tail(within(0));
    assert_eq!(tail.record.as_deref(), Some("r-t4"));
    history.compact(vec![ContentBlock::text("summary")], &tail);
    assert_eq!(texts(&mut history).len(), 2);
}

#[test]
fn a_text_that_can_never_be_sent_is_cut() {
    let mut history = worked();
    let before = history.size().messages;
    history.add_user_text(&"z".repeat(40_000));
    history.add_user_text("short");
    history.shorten_unanswered(5000, 10);
    let last = texts(&mut history).pop().unwrap();
    assert!(last.contains(&"z".repeat(10)) && !last.contains(&"z".repeat(11)), "{last}");
    assert!(last.contains("left out") && last.contains("short") && last.contains("tool_result"));
    assert!(history.size().messages < before + 200, "{:?}", history.size());
    let sum: u64 = history.facts.iter().map(|facts| facts.tokens).sum();
    assert_eq!(history.size().messages, sum);
}

#[test]
fn what_is_still_open_after_a_resume_is_counted_and_can_be_cut() {
    let block = ContentBlock::text("z".repeat(40_000));
    let role = Role::User;
    let blocks = vec![serde_json::value::to_raw_value(&block).unwrap()];
    let mut history = ConversationHistory::restore(vec![HistoryMessage { role, blocks, uuids: Vec::new() }]);
    assert!(history.size().messages > 5000, "{:?}", history.size());
    history.shorten_unanswered(5000, 10);
    assert!(history.size().messages < 100, "{:?}", history.size());
}

#[test]
fn sealed_messages_keep_their_bytes() {
    let mut history = ConversationHistory::default();
    history.add_user_text("one");
    let before = history.messages()[0].bytes().as_ptr();
    history.add_assistant(vec![ContentBlock::text("a")]);
    assert_eq!(history.messages()[0].bytes().as_ptr(), before);
}
