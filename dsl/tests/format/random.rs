//! Programs with random white space and comments between their tokens, and names of random length.

use super::{formatted, texts};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % bound
    }
}

/// The tokens of a program, without its comments.
fn tokens(text: &str) -> Vec<&str> {
    const SIGNS: [&str; 22] = [
        "..=", "<<=", ">>=", "->", "::", "..", "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "+=", "-=", "*=", "/=", "%=", "&=",
        "|=", "^=",
    ];
    let word = |text: &str| text.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
            continue;
        } else if first.is_ascii_digit() {
            let mut end = word(rest);
            if rest[end..].starts_with('.') && !rest[end + 1..].starts_with(|c: char| c == '.' || c.is_ascii_alphabetic()) {
                end += 1 + word(&rest[end + 1..]);
            }
            if rest[..end].ends_with('e') && !rest.starts_with("0x") && rest[end..].starts_with(['+', '-']) {
                end += 1 + word(&rest[end + 1..]);
            }
            end
        } else if first == '_' || first.is_ascii_alphabetic() {
            word(rest)
        } else {
            SIGNS.iter().find(|sign| rest.starts_with(**sign)).map_or(1, |sign| sign.len())
        };
        found.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    found
}

#[test]
fn any_spacing_and_any_comments() {
    let odd = "@tile(i = 64, j) kernel k(x: f32[n, 2 * n]) -> (y: f32[n], z: f32) where n % 4 == 0, n > 1 {
        let (a, b) = moments(x); let t[i in 0..n - 1, j]: f64 = x[i | 0.0, j | clamp];
        @exact y[i] = if a > 0.0 { -x[i, 0] } else if b { !1 } else { sum[k in 0..=i, l if k > l] x[k, l] as f64 * f32::MAX };
        h[k[i] | drop] min= f(a, (b + 1.0e-5) * 2.0, c - d - e); z = 1.0; }
        const A: i64 = 1; const B: i64 = 2;
        fn f(x: f64) -> f64 { let mut s = 0.0; for i in 0..4 { s += x; } while s < x { if s > 1.0 { s = 2.0; } else { } }
        if x > 0.0 { s } else { let u = 1.0; u } }
        kernel empty() -> f32 { }";
    let mut programs: Vec<String> = texts("tests/cases", ".gk").into_iter().map(|(_, text)| text).collect();
    programs.extend(std::iter::repeat_n(odd.to_owned(), 40));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for program in &programs {
        let tokens = tokens(program);
        for density in [0, 2, 4, 20, 60] {
            // Names of other lengths, for other places where lines end.
            let times = 1 + random.below(12);
            let mut text = String::new();
            for (nth, token) in tokens.iter().enumerate() {
                text.push_str(["", " ", " ", "\n", "\n\n\n", "\t \r\n"][random.below(if density == 0 { 3 } else { 6 })]);
                while density > 0 && random.below(density) == 0 {
                    let comment = random.below(9);
                    // A division is no comment.
                    text.push_str(if text.ends_with('/') { " " } else { "" });
                    text.push_str(&match comment {
                        0 => format!("// line {nth}\n"),
                        1 => format!(" //{nth}  \r\n\n"),
                        2 => format!("/* block {nth} */"),
                        3 => format!("/* block {nth} */\n"),
                        4 => format!("\n/* lines {nth}\n      /* nested */\n */"),
                        5 => format!("/// documents {nth}\n"),
                        6 => format!("\n\n/**/ // {nth}\n\n\n"),
                        7 => format!(" /* lines {nth}\n   more */ "),
                        _ => format!(" /* a */ /* long block comment of the token with the number {nth} */ \n"),
                    });
                }
                // A space where two tokens would become one, or a comment.
                if text.ends_with(|c: char| !" \n(),;[]{}".contains(c)) {
                    text.push(' ');
                }
                let name = token.len() == 1 && token.starts_with(|c: char| c.is_ascii_alphabetic());
                text.push_str(&token.repeat(if name { times } else { 1 }));
            }
            formatted(&text);
        }
    }
}
