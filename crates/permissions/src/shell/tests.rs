//! The parser and the walk: the commands that are found in scripts.

use std::collections::BTreeMap;

use super::parse::parse;
use super::value::{Arg, Known};
use super::walk::{Found, Step, analyse};

/// The commands of a script; nested ones have a bar in front.
fn commands(script: &str) -> Vec<String> {
    let variables = BTreeMap::new();
    let known = Known { home: Some("/home/u"), variables: &variables };
    let analysis = analyse(script, &known).unwrap_or_else(|error| panic!("{script:?}: {error}"));
    let texts = analysis.steps.iter().map(|step| match step {
        Step::Run(run) => {
            let text = run.args.iter().map(Arg::text).collect::<Vec<_>>().join(" ");
            if run.found == Found::Written { text } else { format!("|{text}") }
        }
        Step::Redirect(redirect) => format!("<>{}", redirect.target.text()),
        Step::Assign(assigns) => format!("={}", assigns[0].source),
    });
    texts.collect()
}

#[test]
fn scripts_come_apart_as_bash_takes_them() {
    let cases: &[(&str, &[&str])] = &[
        ("ls -la", &["ls -la"]),
        ("a && b || c; d & e", &["a", "b", "c", "d", "e"]),
        ("a | b |& c", &["a", "b", "c"]),
        ("a\n\n# x\nb # y; c", &["a", "b"]),
        ("a#b '#' # c", &["a#b #"]),
        ("a\\\nb c\\\n d", &["ab c d"]),
        ("a 'b c' \"d $x\" \\e $'f\\tg'", &["a b c \"d $x\" e f\tg"]),
        ("a ~ ~/x $HOME/y", &["a /home/u /home/u/x /home/u/y"]),
        ("A=1 B= a", &["a"]),
        ("A=1", &["=A=1"]),
        ("a >x 2>&1 <y >>z", &["<>x", "<>1", "<>y", "<>z", "a"]),
        ("a 2 >x", &["<>x", "a 2"]),
        ("a2>x", &["<>x", "a2"]),
        ("a &>x", &["<>x", "a"]),
        ("a<<E b\n$(c)\nE\nd", &["c", "a b", "d"]),
        ("a <<'E'\n$(c)\nE\nd", &["a", "d"]),
        ("a <<-E\n\tx\n\tE\nb", &["a", "b"]),
        ("a <<E\nx\\\nE\nE\nb", &["a", "b"]),
        ("a <<X <<Y\n1\nX\n2\nY\nb", &["a", "b"]),
        ("a $(b $(c)) `d \\`e\\``", &["c", "b $(c)", "e", "d `e`", "a $(b $(c)) `d \\`e\\``"]),
        ("a \"$(b \"c d\")\"", &["b c d", "a \"$(b \"c d\")\""]),
        ("a <(b) >(c)", &["b", "c", "a <(b) >(c)"]),
        ("a ${x:-$(b)}", &["b", "a ${x:-$(b)}"]),
        ("a $((1 + $(b)))", &["b", "a $((1 + $(b)))"]),
        ("a $( (b) | c)", &["b", "c", "a $( (b) | c)"]),
        ("a $((b) | c)", &["b", "c", "a $((b) | c)"]),
        ("((x + $(a)))", &["a"]),
        ("((a) )", &["a"]),
        ("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]),
        ("while a; do b; done >x", &["a", "b", "<>x"]),
        ("for i in 1 $(a); do b; done", &["=i", "a", "b"]),
        ("for ((;;)); do a; done", &["a"]),
        ("case $(a) in b|c) d;; (e) f;& *) g; esac", &["a", "d", "f", "g"]),
        ("{ a; b; } | (c)", &["a", "b", "c"]),
        ("f() { a; }; function g { b; }", &["a", "b"]),
        ("[[ -f $(a) && b =~ ^(c|d)$ ]] && e", &["a", "e"]),
        ("! a; time -p b", &["a", "b"]),
        ("coproc a; coproc X { b; }", &["a", "b"]),
        ("x=(1 $(a)) y[$(b)]=2", &["a", "b", "=x=(1 $(a))"]),
        ("declare z=($(a)) w=$(b)", &["a", "b", "declare z=($(a)) w=$(b)"]),
        ("echo if then fi", &["echo if then fi"]),
        ("sh -c 'a; b'", &["sh -c a; b", "|a", "|b"]),
        (
            "sudo -u x env A=1 nice -n 1 a b",
            &["sudo -u x env A=1 nice -n 1 a b", "|env A=1 nice -n 1 a b", "|nice -n 1 a b", "|a b"],
        ),
        ("find . -exec a {} \\; -ok b \\;", &["find . -exec a {} ; -ok b ;", "|a {}", "|b"]),
        ("xargs -n 1 a b", &["xargs -n 1 a b", "|a b"]),
        ("bash <<< 'a b'", &["<>a b", "bash", "|a b"]),
    ];
    for (script, expected) in cases {
        assert_eq!(commands(script), *expected, "{script:?}");
    }
}

#[test]
fn what_is_not_understood_is_refused() {
    for script in [
        "a (",
        "a )",
        "(a",
        "{ a",
        "a }; }",
        "'a",
        "\"a",
        "`a",
        "$(a",
        "${a",
        "$((a",
        "a &&",
        "| a",
        "a |",
        "; a",
        "a;;",
        "a \\",
        "if a",
        "if a; then b",
        "fi",
        "then",
        "for",
        "for 1 in a; do b; done",
        "case a in b",
        "a <<E",
        "a <<E\nb",
        "a <",
        "a > ",
        "a > ;",
        "a $'\\x00'",
        "a $'\\xff'",
        "a $'\\q'",
        "a \u{a0} b",
        "a\u{200b}",
        "\u{feff}a",
        "a\r",
        "a \u{1b}[0m",
        "f()",
        "f() a",
        "a b()",
        "echo *(a)",
        "echo @(a|b)",
        "${ a; }",
        "${|a}",
        "${(e)x}",
        "[[ a",
        "[[ a ]",
        "a[b]c]=d",
        "$(( 'a' ))",
        "(( \"a\" ))",
        "echo $(cat <<E) \nE",
        "cat <<E $(\n)\nE",
        "cat <<$x\nE",
        "é\\a",
        "\"${x:-'}'}\"",
    ] {
        assert!(parse(script).is_err(), "{script:?} was understood");
    }
}

#[test]
fn depth_and_length_are_bounded() {
    let started = std::time::Instant::now();
    for open in ["(", "$(", "${x:-", "{ ", "$((", "((", "`", "if ", "\"$(", "<(", "a[$(", "! ", "sudo "] {
        let script = open.repeat(30_000);
        let _ = parse(&script);
    }
    assert!(parse(&"a;".repeat(100_000)).is_err(), "too long");
    assert!(parse(&format!("{}a{}", "(".repeat(30), ")".repeat(30))).is_ok());
    // Generous, because test machines are slow; without the bounds this would never end.
    assert!(started.elapsed() < std::time::Duration::from_secs(20));
}
