use proptest::prelude::*;

use super::*;

/// Returns the uuids (or the titles of spans) found in a file with this content.
fn uuids(content: &[u8]) -> (Vec<String>, Damage) {
    uuids_with_limit(content, MAX_LINE_BYTES)
}

fn uuids_with_limit(content: &[u8], max_line: usize) -> (Vec<String>, Damage) {
    let mut found = Vec::new();
    let damage = scan(content, max_line, |span, head, _| {
        let end = span.offset as usize + span.length as usize;
        assert!(end <= content.len(), "a span lies inside the file");
        assert_eq!(content[span.offset as usize], b'{', "a span starts with its record");
        found.push(head.uuid.unwrap_or_default().into_owned());
    })
    .unwrap();
    (found, damage)
}

fn record(uuid: &str) -> String {
    format!(
        r#"{{"type":"user","uuid":"{uuid}","sessionId":"S","message":{{"content":[{{"type":"text","text":"a {{\"b\""}}]}}}}"#
    )
}

#[test]
fn whole_lines_are_found_with_and_without_a_last_newline() {
    let text = format!("{}\n\n  {}\r\n{}", record("1"), record("2"), record("3"));
    let (found, damage) = uuids(text.as_bytes());
    assert_eq!(found, ["1", "2", "3"]);
    assert_eq!(damage, Damage::default());
}

#[test]
fn records_joined_on_a_line_are_both_found() {
    for glue in ["", " ", "\0\0\0"] {
        let text = format!("{}{glue}{}\n{}\n", record("1"), record("2"), record("3"));
        let (found, damage) = uuids(text.as_bytes());
        assert_eq!(found, ["1", "2", "3"], "{glue:?}");
        // NULs may have replaced another record.
        assert_eq!((damage.joined_lines, damage.bad_lines), (1, u64::from(glue.contains('\0'))));
    }
}

#[test]
fn what_a_power_cut_left_empty_is_damage() {
    let text = format!("{}\n{}", record("1"), "\0".repeat(500));
    let (found, damage) = uuids(text.as_bytes());
    assert_eq!(found, ["1"]);
    assert_eq!((damage.bad_lines, damage.first_bad_line, damage.torn_tail), (1, Some(2), true));
}

#[test]
fn a_record_behind_a_torn_one_is_found() {
    let torn = record("1");
    for cut in 1..torn.len() {
        let text = format!("{}{}\n{}\n", &torn[..cut], record("2"), record("3"));
        let (found, damage) = uuids(text.as_bytes());
        assert_eq!(found, ["2", "3"], "cut after {cut} bytes");
        assert_eq!((damage.bad_lines, damage.first_bad_line), (1, Some(1)), "cut after {cut} bytes");
        assert!(!damage.torn_tail);
    }
}

#[test]
fn garbage_between_two_records_costs_neither() {
    let text = format!("{}x{}\n", record("1"), record("2"));
    let (found, damage) = uuids(text.as_bytes());
    assert_eq!(found, ["1", "2"]);
    assert_eq!((damage.bad_lines, damage.joined_lines), (1, 1));
}

#[test]
fn parts_of_a_broken_record_are_not_records() {
    let broken = record("1").replace(r#""type":"user""#, r#""type":user"#);
    let (found, damage) = uuids(format!("{broken}\n").as_bytes());
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(damage.bad_lines, 1);
}

#[test]
fn a_torn_tail_is_told_from_a_bad_line() {
    let text = format!("{}\n{}", record("1"), &record("2")[..30]);
    let (found, damage) = uuids(text.as_bytes());
    assert_eq!(found, ["1"]);
    assert!(damage.torn_tail);
}

#[test]
fn invalid_utf8_does_not_cost_the_record() {
    let mut bytes = record("1").into_bytes();
    let at = bytes.windows(2).position(|pair| pair == b"a ").unwrap();
    bytes[at] = 0xff;
    bytes.push(b'\n');
    let mut in_uuid = record("2").into_bytes();
    let at = in_uuid.windows(3).position(|part| part == b"\"2\"").unwrap();
    in_uuid[at + 1] = 0xfe;
    in_uuid.push(b'\n');
    let (found, damage) = uuids(&[bytes, in_uuid].concat());
    assert_eq!(found, ["1", "\u{fffd}"]);
    assert_eq!(damage.bad_lines, 0);
}

#[test]
fn gigantic_lines_are_passed_over() {
    let text = format!("{}\n{}\n{}\n", record("1"), "x".repeat(5000), record("2"));
    let (found, damage) = uuids_with_limit(text.as_bytes(), 1000);
    assert_eq!(found, ["1", "2"]);
    assert_eq!((damage.oversized_lines, damage.bad_lines, damage.first_bad_line), (1, 1, Some(2)));
    let text = format!("{}\n{}", record("1"), "x".repeat(5000));
    assert_eq!(uuids_with_limit(text.as_bytes(), 1000).0, ["1"]);
}

#[test]
fn deep_nesting_is_no_danger() {
    let text = format!("{}{}\n{}\n", "{\"a\":".repeat(20_000), "[".repeat(20_000), record("1"));
    assert_eq!(uuids(text.as_bytes()).0, ["1"]);
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        uuids(&bytes);
    }

    #[test]
    fn json_like_noise_is_survived(text in r#"(\{"|"\}|[\{\}\[\]:,"\\\n ]|"sessionId":"x"|uuid|[a-z0-9\x00]){0,80}"#) {
        uuids(text.as_bytes());
    }

    /// All records are found, however they are joined.
    #[test]
    fn every_whole_record_is_found(parts in proptest::collection::vec((0_usize..4, 0_usize..40), 1..12)) {
        let glue = ["\n", "", "\n\n", "\0\0\n"];
        let mut text = String::new();
        let mut expected = Vec::new();
        for (nth, (kind, torn)) in parts.iter().enumerate() {
            if *torn > 30 {
                text.push_str(&record("torn")[..*torn]);
                text.push('\n');
            }
            text.push_str(&record(&nth.to_string()));
            text.push_str(glue[*kind]);
            expected.push(nth.to_string());
        }
        prop_assert_eq!(uuids(text.as_bytes()).0, expected);
    }
}
