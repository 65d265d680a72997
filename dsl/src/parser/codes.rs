//! The codes of the parser's problems, with what `gpukc explain` says of each.

/// Every code of the parser: number, short title, explanation.
pub const TABLE: &[(u16, &str, &str)] = &[
    (
        1,
        "syntax error",
        "Something else is expected where the mark stands; the message says what.\n\n    y[i] = x[i] + ;   // a value after `+`",
    ),
    (
        2,
        "unexpected character",
        "Programs are UTF-8. Outside of comments they consist of ASCII characters: names are `[A-Za-z_][A-Za-z0-9_]*`, and there are \
         no strings. Dashes, quotes and spaces of word processors look like ASCII and are not.",
    ),
    (
        3,
        "reserved word as a name",
        "Keywords, element types, the reducers' names and `INF NAN PI` cannot be names.\n\n    kernel f(sum: f32[n]) …   // call it `total`",
    ),
    (
        4,
        "malformed number",
        "Numbers are written as in Rust: `12`, `1_000`, `0xff`, `0b101`, `1.5`, `1e-3`, with a suffix such as `3i32` or `1.0f64`.",
    ),
    (5, "comment without an end", "A `/*` has no matching `*/`. Comments of this kind nest, so that each `/*` needs its own."),
    (
        6,
        "nested too deeply",
        "Brackets, reductions in the term of another, unary operators and casts in a row, and `else if`s may stand 256 deep inside \
         one another, comments too. Name a part with `let`.",
    ),
    (
        7,
        "expression too long",
        "An expression has more than 4096 operators in a row. Name parts of it with `let`, or write a reduction.",
    ),
    (
        8,
        "chained comparison",
        "Comparisons do not chain. Combine two with `&&`.\n\n    0.0 < x[i] < 1.0\n    0.0 < x[i] && x[i] < 1.0",
    ),
    (
        9,
        "statement that only a fn has",
        "Loops, `let mut` and `if` statements belong into a `fn`. In a kernel, index variables loop, and `if` is a value.\n\n    \
         for i in 0..n { y[i] = x[i]; }   // y[i] = x[i];",
    ),
    (
        10,
        "if without a value",
        "An `if` that is used as a value needs an `else`, and a final expression without `;` in both blocks.\n\n    \
         let y = if x > 0.0 { x };              // and otherwise?\n    let y = if x > 0.0 { x } else { 0.0 };",
    ),
    (
        11,
        "value that is not used",
        "An expression stands where its value goes nowhere. Assign it, or make it the block's last expression, without `;`.",
    ),
    (
        12,
        "operator that does not accumulate",
        "Elements accumulate with `+= *= min= max= |= &=`; in a `fn`, variables change with `=`.\n\n    \
         h[k[i]] -= x[i];   // h[k[i]] += -x[i];",
    ),
    (13, "text too long", "A program has at most 64 MiB. What is longer is hardly a program; tables are inputs of a kernel."),
    (
        14,
        "attribute that may not stand here",
        "Attributes stand before a kernel or one of its statements.\n\n    @block(256) fn f(x: f32) -> f32 { x }   // before the kernel",
    ),
];

#[cfg(test)]
mod tests {
    use super::TABLE;
    use crate::parser::{LARGEST, NESTING, limits::OPERATORS};

    #[test]
    fn limits_are_those_that_hold() {
        for (code, limit) in [(6, NESTING), (7, OPERATORS), (13, LARGEST >> 20)] {
            let text = TABLE.iter().find(|entry| entry.0 == code).map_or("", |entry| entry.2);
            assert!(text.contains(&limit.to_string()), "GK{code:04}");
        }
        let (_, checker) = crate::check::codes::explain(crate::check::codes::TOO_DEEP).unwrap();
        assert!(checker.contains(&format!("{NESTING} levels")), "{checker}");
    }
}
