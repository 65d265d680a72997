//! Numbers as they are written: where one ends, and what is wrong with it. Their values are the checker's matter.

use crate::diagnostic::{Diagnostic, codes};
use crate::source::Span;
use crate::types::Type;

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The end of the number that starts at `start`, as rule `number` of the grammar has it.
pub(super) fn end(bytes: &[u8], start: usize) -> usize {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let digits = |mut at: usize| {
        while byte(at).is_ascii_digit() || byte(at) == b'_' {
            at += 1;
        }
        at
    };
    let mut at = start;
    if !(byte(at) == b'0' && matches!(byte(at + 1), b'x' | b'b' | b'o')) {
        at = digits(at);
        if byte(at) == b'.' && byte(at + 1) != b'.' && byte(at + 1) != b'_' && !byte(at + 1).is_ascii_alphabetic() {
            at = digits(at + 1);
        }
        at = exponent(bytes, at).unwrap_or(at);
    }
    while is_letter(byte(at)) {
        at += 1;
    }
    at
}

/// The end of `e-3` at `at`, if that is what stands there.
fn exponent(bytes: &[u8], at: usize) -> Option<usize> {
    let mut rest = bytes[at..].iter().copied().enumerate().peekable();
    rest.next_if(|(_, b)| matches!(b, b'e' | b'E'))?;
    rest.next_if(|(_, b)| matches!(b, b'+' | b'-'));
    while rest.next_if(|(_, b)| *b == b'_').is_some() {}
    let (mut last, _) = rest.next_if(|(_, b)| b.is_ascii_digit())?;
    while let Some((next, _)) = rest.next_if(|(_, b)| b.is_ascii_digit() || *b == b'_') {
        last = next;
    }
    Some(at + last + 1)
}

/// The parts of a number.
enum Form {
    Hexadecimal,
    Binary,
    Integer,
    Float,
}

/// What is wrong with a number, if anything is.
pub(super) fn problem(text: &str, span: Span) -> Option<Diagnostic> {
    let shown = super::shown(text);
    let malformed = |why: String| Some(Diagnostic::error(codes::NUMBER, span, format!("`{shown}` is not a number"), why));
    let (form, digits, suffix) = if let Some(rest) = text.strip_prefix("0x") {
        let (digits, suffix) = rest.split_at(rest.find(|c: char| c != '_' && !c.is_ascii_hexdigit()).unwrap_or(rest.len()));
        (Form::Hexadecimal, digits, suffix)
    } else if let Some(rest) = text.strip_prefix("0b") {
        let (digits, suffix) = rest.split_at(rest.find(|c: char| c != '_' && !c.is_ascii_digit()).unwrap_or(rest.len()));
        if let Some(digit) = digits.chars().find(|c| ('2'..='9').contains(c)) {
            return malformed(format!("`{digit}` is not a binary digit"));
        }
        (Form::Binary, digits, suffix)
    } else if text.starts_with("0o") {
        return malformed("there are no octal numbers".into());
    } else {
        let whole = text.find(|c: char| c != '_' && c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
        let end = exponent(text.as_bytes(), whole).unwrap_or(whole);
        let form = if end > whole || text[..whole].contains('.') { Form::Float } else { Form::Integer };
        (form, &text[..end], &text[end..])
    };
    if !digits.contains(|c: char| c.is_ascii_hexdigit()) {
        return malformed("digits are missing".into());
    }
    if suffix.is_empty() {
        return None;
    }
    let integer = !matches!(form, Form::Float);
    match Type::from_name(suffix) {
        Some(Type::Bool) => malformed("`bool` is not a type of numbers".into()),
        Some(ty) if ty.is_integer() && !integer => malformed(format!("`{ty}` holds no fractions")),
        Some(ty) if ty.is_float() && matches!(form, Form::Binary) => malformed(format!("a `{ty}` is not written in binary")),
        Some(_) => None,
        None if suffix.starts_with(['e', 'E']) && matches!(form, Form::Integer | Form::Float) => {
            malformed("the exponent has no digits".into())
        }
        None => {
            let problem = malformed(format!("`{}` is not a type", super::shown(suffix)))?;
            let Some(ty) = foreign_suffix(suffix, integer) else { return Some(problem) };
            let start = span.start + (text.len() - suffix.len()) as u32;
            Some(problem.suggest("a suffix is the name of a type", Span { start, ..span }, ty.name()))
        }
    }
}

/// The type that a suffix of another language means.
fn foreign_suffix(suffix: &str, integer: bool) -> Option<Type> {
    Some(match suffix {
        "f" | "F" => Type::F32,
        "h" | "H" => Type::F16,
        "d" | "D" => Type::F64,
        "u" | "U" if integer => Type::U32,
        "l" | "L" | "ll" | "LL" if integer => Type::I64,
        "ul" | "UL" | "ull" | "ULL" | "lu" | "LU" if integer => Type::U64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(text: &str) -> Option<String> {
        problem(text, Span::default()).map(|p| p.labels[0].text.clone())
    }

    #[test]
    fn numbers_end_where_the_grammar_says() {
        let ends = [
            ("0..n", 1),
            ("1.", 2),
            ("1.+x", 2),
            ("1.x", 1),
            ("1._5", 1),
            ("1_0.5e-1;", 8),
            ("2.0E+2)", 6),
            ("1e3..n", 3),
            ("1e-x", 2),
            ("1.0f64)", 6),
            ("0xFF-3", 4),
            ("0x0..n", 3),
            ("0b1.5", 3),
            ("3i32*2", 4),
            ("1e_5 ", 4),
            ("12abc", 5),
        ];
        for (text, length) in ends {
            assert_eq!(end(text.as_bytes(), 0), length, "{text}");
        }
    }

    #[test]
    fn well_formed_numbers() {
        for text in [
            "0",
            "007",
            "1_000.25",
            "1.",
            "1.5e-3",
            "1e3",
            "2.0E+2",
            "0xFF",
            "0x7f800000i32",
            "0b1_01u8",
            "1.0f64",
            "3i32",
            "3f32",
            "1e3f16",
            "1bf16",
        ] {
            assert_eq!(label(text), None, "{text}");
        }
    }

    #[test]
    fn malformed_numbers() {
        for (text, why) in [
            ("0x", "digits are missing"),
            ("0x_", "digits are missing"),
            ("0b", "digits are missing"),
            ("0b102", "`2` is not a binary digit"),
            ("0b1f32", "a `f32` is not written in binary"),
            ("0o17", "there are no octal numbers"),
            ("1e", "the exponent has no digits"),
            ("1.5e", "the exponent has no digits"),
            ("1.0i32", "`i32` holds no fractions"),
            ("1e3u8", "`u8` holds no fractions"),
            ("1bool", "`bool` is not a type of numbers"),
            ("1usize", "`usize` is not a type"),
            ("0xFFg", "`g` is not a type"),
        ] {
            assert_eq!(label(text).as_deref(), Some(why), "{text}");
        }
    }
}
