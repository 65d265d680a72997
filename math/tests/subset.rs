//! The texts stay within what Rust and gk read alike.

use std::collections::HashSet;

const INTRINSICS: &[&str] = &[
    "mul_add",
    "sqrt",
    "abs",
    "floor",
    "ceil",
    "trunc",
    "round_ties_even",
    "copysign",
    "min",
    "max",
    "is_nan",
    "to_bits",
    "f32_from_bits",
    "f64_from_bits",
    "mul_high",
    "wrapping_add",
    "wrapping_sub",
    "wrapping_mul",
];
const WORDS: &[&str] = &[
    "fn", "let", "mut", "if", "else", "while", "for", "in", "as", "bool", "i32", "i64", "u32", "u64", "f32", "f64", "const", "true",
    "false",
];

/// Names, numbers, and other characters one by one, without comments.
fn tokens(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for line in text.lines() {
        let code = line.split("//").next().expect("at least one part");
        let mut rest = code.trim();
        while let Some(c) = rest.chars().next() {
            let mut n = c.len_utf8();
            if c.is_ascii_alphanumeric() || c == '_' {
                let mut before = c;
                n = 0;
                for d in rest.chars() {
                    let exponent = (d == '-' || d == '+') && before == 'e' && c.is_ascii_digit() && !rest.starts_with("0x");
                    if !(d.is_ascii_alphanumeric() || d == '_' || (d == '.' && c.is_ascii_digit()) || exponent) {
                        break;
                    }
                    before = d;
                    n += 1;
                }
            }
            out.push(rest[..n].to_string());
            rest = rest[n..].trim_start();
        }
    }
    out
}

#[test]
fn functions_call_only_what_stands_above() {
    let mut known: HashSet<String> = INTRINSICS.iter().map(|s| s.to_string()).collect();
    for (file, text) in gpukc_math::SOURCES {
        let t = tokens(text);
        for i in 0..t.len() {
            if t.get(i + 1).is_some_and(|s| s == "(")
                && t[i].starts_with(|c: char| c.is_ascii_alphabetic())
                && i > 0
                && t[i - 1] != "fn"
            {
                assert!(known.contains(&t[i]) || WORDS.contains(&t[i].as_str()), "{file}: {} is called before it is defined", t[i]);
            }
            // a name becomes known where the next item starts
            if t[i] == "fn" && i > 0 {
                let previous = t[..i].iter().rposition(|s| s == "fn").expect("a function stands above");
                known.insert(t[previous + 1].clone());
            }
        }
        let last = t.iter().rposition(|s| s == "fn").expect("a function");
        assert!(known.insert(t[last + 1].clone()), "{file}: {} is defined twice", t[last + 1]);
    }
    assert_eq!(known.len() - INTRINSICS.len(), gpukc_math::SOURCES.iter().map(|s| s.1.matches("\nfn ").count()).sum::<usize>());
}

#[test]
fn nothing_but_the_common_subset() {
    for (file, text) in gpukc_math::SOURCES {
        let t = tokens(text);
        let mut names: HashSet<&str> = HashSet::new();
        for i in 0..t.len() {
            let next = t.get(i + 1).map(String::as_str);
            let s = t[i].as_str();
            assert!(
                !["return", "loop", "break", "continue", "match", "pub", "struct", "[", "]", "#", "'", "\"", "?", "."].contains(&s),
                "{file}: {s}"
            );
            assert!(!(s == "else" && next == Some("if")), "{file}: else if");
            assert!(!("+-*/%&|^".contains(s) && next == Some("=")), "{file}: {s}=");
            assert!(!(s == ":" && next == Some(":")), "{file}: ::");
            if s.starts_with(|c: char| c.is_ascii_digit()) {
                let float = !s.starts_with("0x") && s.contains(['.', 'e']);
                let suffix = ["i32", "i64", "u32", "u64", "f32", "f64"].iter().any(|x| s.ends_with(x));
                assert!(float || suffix, "{file}: {s} has no type");
            }
            if s == "fn" {
                assert!(names.insert(&t[i + 1]), "{file}: {} twice", t[i + 1]);
            }
        }
        assert!(text.ends_with("}\n") && text.is_ascii(), "{file}");
        for line in text.lines() {
            assert!(line.len() <= 140, "{file}: {line}");
        }
    }
}

#[test]
fn every_function_is_documented() {
    for (file, text) in gpukc_math::SOURCES {
        let lines: Vec<&str> = text.lines().collect();
        for i in 1..lines.len() {
            if lines[i].starts_with("fn ") {
                assert!(lines[i - 1].starts_with("///"), "{file}: {}", lines[i]);
            }
        }
    }
}
