//! Programs, changed token by token.

use crate::random::Random;

/// What is put in beside tokens of other programs: everything that the grammar knows, numbers at the edges of their types, and
/// what is no token at all.
const WORDS: &[&str] = &[
    "kernel",
    "fn",
    "const",
    "let",
    "mut",
    "in",
    "if",
    "else",
    "while",
    "for",
    "as",
    "where",
    "true",
    "false",
    "INF",
    "NAN",
    "PI",
    "bool",
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
    "f16",
    "bf16",
    "f32",
    "f64",
    "f32::MAX",
    "i64::MIN",
    "sum",
    "prod",
    "min",
    "max",
    "any",
    "all",
    "count",
    "mean",
    "argmin",
    "argmax",
    "clamp",
    "wrap",
    "mirror",
    "symmetric",
    "drop",
    "assume",
    "exp",
    "sqrt",
    "mul_add",
    "div_floor",
    "mod_floor",
    "pow",
    "sign",
    "is_nan",
    "erf",
    "@block(256)",
    "@tile(i = 64, j = 64)",
    "@unroll(4)",
    "@exact",
    "@tf32",
    "@fast_math",
    "@deterministic",
    "@accumulate(f64)",
    "@",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ";",
    ":",
    "->",
    "=",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "<<",
    ">>",
    "+",
    "-",
    "*",
    "/",
    "%",
    "&",
    "|",
    "^",
    "&&",
    "||",
    "!",
    "..",
    "..=",
    "+=",
    "*=",
    "min=",
    "max=",
    "&=",
    "|=",
    ".",
    "::",
    "0",
    "1",
    "2",
    "3",
    "7",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "2147483648",
    "0xffff_ffff",
    "0b101",
    "1e400",
    "1e-400",
    "1.0",
    "0.5f16",
    "1.5e",
    "0x",
    "3i8",
    "300u8",
    "1__0",
    "//",
    "/*",
    "*/",
    "///",
    "\n",
    " ",
    "\r\n",
    "\t",
    "\u{feff}",
    "\0",
    "é",
    "線",
    "'",
    "\"",
    "\\",
    "`",
    "#",
    "$",
    "x",
    "n",
    "i",
    "f32[n]",
    "f32[0]",
    "i32[9223372036854775807, 9]",
    "x[i + 1]",
    "x[i - 1 | clamp]",
    "sum[k] x[k]",
    "0..n",
    "0..=i",
    "i..n",
];

/// Sound programs, cut into items and those into tokens.
pub struct Corpus {
    items: Vec<Vec<String>>,
}

impl Corpus {
    /// The programs that `build.rs` has found in the repository.
    pub fn built_in() -> Corpus {
        let programs: &[&[u8]] = &include!(concat!(env!("OUT_DIR"), "/corpus.rs"));
        let texts = programs.iter().map(|program| String::from_utf8_lossy(program).replace("\r\n", "\n"));
        let cut = |text: String| text.split("\n\n").map(tokens).filter(|item| (3..400).contains(&item.len())).collect::<Vec<_>>();
        Corpus { items: texts.flat_map(cut).collect() }
    }

    /// Some items together, changed a few times.
    pub fn input(&self, random: &mut Random) -> Vec<u8> {
        let mut tokens = Vec::new();
        for _ in 0..[1, 1, 1, 2, 3][random.below(5)] {
            tokens.extend(random.pick(&self.items).iter().cloned());
            tokens.push("\n".to_owned());
        }
        // Some are left as they are: those that check come furthest.
        for _ in 0..random.below(6) {
            self.change(&mut tokens, random);
        }
        let mut bytes = tokens.concat().into_bytes();
        if random.one_in(20) {
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len() + 1);
                match random.below(3) {
                    0 => bytes.insert(at, random.bits() as u8),
                    1 => bytes.truncate(at),
                    _ => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
                }
            }
        }
        bytes
    }

    fn change(&self, tokens: &mut Vec<String>, random: &mut Random) {
        let other = random.pick(&self.items);
        let range = random.range(tokens.len());
        match random.below(12) {
            0 => drop(tokens.drain(range)),
            1 => drop(tokens.splice(range.start..range.start, [self.word(random)])),
            2 | 3 => drop(tokens.splice(range.start..(range.start + 1).min(tokens.len()), [self.word(random)])),
            // Something of the same kind in place of it: what still parses.
            4..7 => {
                let places: Vec<usize> = (0..tokens.len()).filter(|&at| is_word(&tokens[at])).collect();
                if !places.is_empty() {
                    let at = *random.pick(&places);
                    let alike = |token: &&String| is_word(token) && is_number(token) == is_number(&tokens[at]);
                    let found: Vec<String> = other.iter().chain(tokens.iter()).filter(alike).cloned().collect();
                    tokens[at] = random.pick(&found).clone();
                }
            }
            7 => {
                let piece = other[random.range(other.len())].to_vec();
                tokens.splice(range, piece);
            }
            8 => {
                let piece = tokens[range.clone()].to_vec();
                let times = if random.one_in(10) { random.below(300) } else { 1 + random.below(3) };
                tokens.splice(range.start..range.start, (0..times).flat_map(|_| piece.clone()));
            }
            9 => {
                let to = random.below(tokens.len() + 1 - range.len());
                let piece: Vec<String> = tokens.drain(range).collect();
                tokens.splice(to..to, piece);
            }
            10 => {
                let depth = if random.one_in(10) { random.below(400) } else { 1 + random.below(4) };
                let (open, close) =
                    *random.pick(&[("(", ")"), ("-", ""), ("{", "}"), ("sum[k] ", ""), ("if true {", "} else { 0 }"), ("/*", "*/")]);
                tokens.insert(range.end, close.repeat(depth));
                tokens.insert(range.start, open.repeat(depth));
            }
            _ => {
                let all: Vec<String> = tokens[range.clone()].iter().rev().cloned().collect();
                tokens.splice(range, all);
            }
        }
    }

    fn word(&self, random: &mut Random) -> String {
        if random.one_in(3) {
            let item = random.pick(&self.items);
            return random.pick(item).clone();
        }
        let word = *random.pick(WORDS);
        if random.one_in(2) { format!(" {word} ") } else { word.to_owned() }
    }
}

fn is_word(token: &str) -> bool {
    token.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
}

fn is_number(token: &str) -> bool {
    token.starts_with(|first: char| first.is_ascii_digit())
}

/// Words, numbers, runs of blanks, comments to the end of their line, and single signs.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let same = |test: &dyn Fn(char) -> bool| rest.find(|other| !test(other)).unwrap_or(rest.len());
        let end = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            _ if first.is_alphanumeric() || first == '_' => same(&|other| other.is_alphanumeric() || other == '_'),
            _ if first.is_whitespace() => same(&char::is_whitespace),
            _ => first.len_utf8(),
        };
        tokens.push(rest[..end].to_owned());
        rest = &rest[end..];
    }
    tokens
}
