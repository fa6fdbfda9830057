use std::time::Duration;

use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{ToolFailure, stoppable};

fn markdown(html: &str) -> String {
    from_html(html, &Stop::default()).unwrap()
}

#[test]
fn a_page_becomes_markdown() {
    let html = r#"<!DOCTYPE html><html><head><title>The page</title><style>p { color: red }</style></head>
        <body class="x"><script>if (1 < 2) { document.write("<p>no</p>") }</script>
        <h1 id="top">Head</h1><p>Some <b>bold</b>, <em>slanted</em> and <span>plain</span> &amp; &lt;text&gt;
        <a href="/next?a=1&amp;b=2" onclick="evil()">on</a>.
        <ul><li>one<li>two <code>x_y</code></ul>
        <ol start="3"><li>three</li><li>four</li></ol>
        <pre><code class="language-rust">fn main() {
    let x = 1;
}</code></pre>
        <blockquote>said</blockquote><svg><text>drawn</text></svg><img src="data:image/png;base64,AAAA" alt="dot">
        <img src="/a.png" alt="A"></body></html>"#;
    let expected = "The page\n\nHead\n====\n\nSome **bold**, *slanted* and plain & \\<text> [on](/next?a=1&b=2).\n\n\
                    *   one\n*   two `x_y`\n\n3.  three\n4.  four\n\n```rust\nfn main() {\n    let x = 1;\n}\n```\n\n\
                    > said\n\n![A](/a.png)";
    assert_eq!(markdown(html), expected);
}

#[test]
fn tables_keep_their_cells() {
    let html = "<table><tr><th>a<th>b<tr><td>1</div><td>2</table><p>after";
    let text = markdown(html);
    assert!(text.contains("| a | b |") && text.contains("| 1 | 2 |"), "{text}");
    assert!(text.ends_with("after"), "{text}");
}

#[test]
fn tags_that_are_left_out_are_closed() {
    assert_eq!(markdown("<p>one<p>two<div>three</p>four"), "one\n\ntwo\n\nthreefour");
    assert_eq!(markdown("<h1>one<h2>two</h3>three"), "one\n===\n\ntwo\n---\n\nthree");
    assert_eq!(markdown("<a href=a>one<a href=b>two"), "[one](a)[two](b)");
    assert_eq!(markdown("</div></p>text</li></table>"), "text");
    assert_eq!(markdown("<dl><dt>word<dd>meaning<dt>next</dl>"), "word\n\nmeaning\n\nnext");
    assert_eq!(markdown("plain text"), "plain text");
    assert_eq!(markdown(""), "");
    assert_eq!(markdown("<script>never closed"), "");
    assert_eq!(markdown("<title>a</title><title>b</title><svg/>x"), "a\n\nx");
}

#[test]
fn long_pages_are_converted_in_parts_that_fit_together() {
    let paragraphs: String = (0..12_000).map(|number| format!("<div><p>text {number}</p></div>")).collect();
    let text = markdown(&paragraphs);
    let expected: Vec<String> = (0..12_000).map(|number| format!("text {number}")).collect();
    assert_eq!(text, expected.join("\n\n"));
    let items: String = (0..12_000).map(|number| format!("<li>item {number}</li>")).collect();
    let text = markdown(&format!("<ol start=5>{items}</ol>"));
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("12004.") && last.ends_with("item 11999"), "{last}");
    assert_eq!(text.lines().filter(|line| line.contains("item ")).count(), 12_000);
    let cells = "<tr><td>cell</td></tr>".repeat(6_000);
    assert_eq!(markdown(&format!("<table>{cells}</table>")).matches("cell").count(), 6_000);
}

#[test]
fn no_nesting_is_too_deep() {
    for tag in ["div", "b", "blockquote", "ul><li", "table><tr><td", "span", "p", "svg", "a href=x"] {
        let deep = format!("<{tag}>").repeat(5_000);
        let text = markdown(&format!("{deep}text"));
        assert!(text.contains("text") || tag == "svg", "{tag}: {} bytes", text.len());
    }
    let text = markdown(&format!("{}in{}<p>out", "<div>".repeat(500), "</div>".repeat(500)));
    assert_eq!(text, "in\n\nout");
    // Unclosed elements that a browser would open again in every paragraph.
    let reopened: String = (0..3_000).map(|number| format!("<p><b id={number}><i>x")).collect();
    assert_eq!(markdown(&reopened).matches('x').count(), 3_000);
}

#[test]
fn markdown_has_a_limit() {
    let quoted = format!("{}{}", "<blockquote>".repeat(20), "a<br>".repeat(100_000));
    let text = converted(&quoted, 1 << 20, &Stop::default()).unwrap();
    assert!(text.len() > 1 << 20 && text.len() < 3 << 20, "{} bytes", text.len());
}

#[tokio::test]
async fn the_work_stops() {
    let page = "<p>text".repeat(1_000_000);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let outcome = stoppable::run(&cancel, Duration::from_secs(60), move |stop| from_html(&page, stop)).await;
    assert_eq!(outcome, Err(ToolFailure::Interrupted));
}

proptest! {
    #[test]
    fn nothing_panics(
        html in "(<(/?(p|b|li|ul|ol|table|tr|td|a href=x|title|script|svg|pre|h1|br|div|blockquote))>|[a &;*_<>\n]){0,60}"
    ) {
        markdown(&html);
    }

    #[test]
    fn any_text_is_a_page(html in "\\PC{0,200}") {
        markdown(&html);
    }
}
