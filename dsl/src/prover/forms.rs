//! Subscripts in the forms that the reference lists: what is decided is right, and little is left undecided.

use super::fuzz::{Random, Run};
use crate::check::check;
use crate::program::ExprId;
use crate::source::Source;
use std::collections::HashMap;

/// A program whose one subscript may carry a rule.
struct Form {
    extent: &'static str,
    left: &'static str,
    condition: &'static str,
    index: String,
    around: String,
}

impl Form {
    fn text(&self, rule: &str) -> String {
        let read = format!("x[{}{rule}]", self.index);
        let value = self.around.replace("READ", &read);
        let Form { extent, left, condition, .. } = self;
        format!("kernel f(k: i64, x: f32[{extent}], a: f32[n], b: f32[m]) -> y: f32[{left}]{condition} {{ y[i] = {value}; }}")
    }
}

const EXTENTS: [&str; 10] = ["n", "n", "m", "n * m", "2 * n", "n / 2", "(n + 1) / 2", "n + m", "n + 3", "4"];
const CONDITIONS: [&str; 10] = [
    "",
    "",
    "",
    " where n >= 1",
    " where n % 2 == 0",
    " where n % 4 == 0, m >= 2",
    " where m <= n",
    " where n == 2 * m",
    " where n > m",
    " where n >= m, m >= 1",
];

/// A sum of multiples of variables, dims and products of the two.
fn linear(random: &mut Random, reduced: bool) -> String {
    let variables: &[&str] =
        if reduced { &["i", "j", "j", "i * m", "i * n", "2 * i"] } else { &["i", "i", "2 * i", "3 * i", "i * m"] };
    let mut text = random.pick(variables).to_string();
    for _ in 0..random.below(3) {
        let sign = random.pick(&["+", "+", "-"]);
        let term = match random.below(4) {
            0 => random.pick(variables).to_string(),
            1 => random.pick(&["n", "m", "n / 2", "2 * m"]).to_string(),
            _ => random.pick(&["1", "1", "2", "3"]).to_string(),
        };
        text = format!("{text} {sign} {term}");
    }
    text
}

fn index(random: &mut Random, extent: &str, reduced: bool) -> String {
    let inner = linear(random, reduced);
    let literal = random.pick(&["2", "3", "4"]);
    let divisor = random.pick(&["2", "3", "4", "n", "m"]);
    match random.below(14) {
        0..4 => inner,
        4 => format!("({inner}) / {literal}"),
        5 => format!("({inner}) % {divisor}"),
        6 => format!("mod_floor({inner}, {extent})"),
        7 => format!("clamp({inner}, 0, {extent} - 1)"),
        8 => format!("max(min({inner}, {extent} - 1), 0)"),
        9 => format!("{extent} - 1 - ({inner})"),
        10 => format!("i / {divisor} * {divisor} + ({inner}) % {divisor}"),
        11 => format!("i - i % {literal} + ({inner}) % {literal}"),
        12 => format!("div_floor({inner}, {divisor})"),
        _ => format!("i / {divisor} + {}", if reduced { "j" } else { "i % 2" }),
    }
}

fn form(random: &mut Random) -> Form {
    let (extent, left) = (EXTENTS[random.below(10) as usize], EXTENTS[random.below(10) as usize]);
    let condition = CONDITIONS[random.below(10) as usize];
    let reduced = random.below(2) == 0;
    let index = index(random, extent, reduced);
    let guard = match random.below(4) {
        0 => format!("{index} >= 0 && {index} < {extent}"),
        1 => format!("{index} < {extent}"),
        2 => "i >= 1 && i + 1 < n".to_string(),
        _ => format!("i < {}", random.pick(&["n", "m", "n / 2"])),
    };
    let range = random.pick(&["0..n", "0..m", "0..=i", "i..n", "0..3", "0..n / 2", "max(i - 1, 0)..min(i + 2, n)", "1..m"]);
    let around = match (reduced, random.below(3)) {
        (true, 0) => format!("sum[j in {range}] READ"),
        (true, 1) => format!("sum[j in {range} if {guard}] READ"),
        (true, _) => format!("sum[j in {range}] (if {guard} {{ READ }} else {{ 0.0 }})"),
        (false, 0) => format!("if {guard} {{ READ }} else {{ 0.0 }}"),
        (false, _) => "READ".to_string(),
    };
    Form { extent, left, condition, index, around }
}

/// Whether the subscript leaves its array for some values of `n` and `m`.
fn leaves(text: &str, dims: impl Iterator<Item = (i64, i64)>) -> bool {
    let checked = check(&Source::new("forms", text));
    let program = checked.program.unwrap_or_else(|| panic!("{text}: {:?}", checked.problems));
    let kernel = &program.kernels[0];
    let mut outside = false;
    for (n, m) in dims {
        let dims = kernel.dims.iter().map(|(_, dim)| if dim.name == "n" { n } else { m }).collect();
        let mut run = Run { kernel, dims, k: 0, variables: HashMap::new(), text, outside: false };
        let extents: Vec<ExprId> = kernel.arrays.iter().flat_map(|(_, array)| array.shape.clone()).collect();
        if extents.into_iter().all(|extent| run.value(extent) >= 0) && kernel.conditions.iter().all(|c| run.value(c.holds) != 0) {
            let ranged = kernel.statements[0].variables[0];
            for value in 0..run.value(ranged.hi) {
                run.variables.insert(ranged.variable, value);
                run.value(kernel.statements[0].value);
            }
        }
        outside |= run.outside;
    }
    outside
}

fn small() -> impl Iterator<Item = (i64, i64)> {
    (0..=6).flat_map(|n| (0..=6).map(move |m| (n, m)))
}

/// The values of `n` and `m` that a message names; one that it leaves out does not matter.
fn named(message: &str) -> impl Iterator<Item = (i64, i64)> {
    let value = |name: &str| {
        let place = message.rfind(&format!("{name} = "))? + name.len() + 3;
        let digits: String = message[place..].chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<i64>().ok()
    };
    let all = |value: Option<i64>| value.map_or((0..=12).collect::<Vec<_>>(), |value| vec![value]);
    let (ns, ms) = (all(value("n")), all(value("m")));
    ns.into_iter().flat_map(move |n| ms.clone().into_iter().map(move |m| (n, m)))
}

#[test]
fn listed_forms_are_decided() {
    let mut random = Random(std::env::var("GPUKC_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1));
    let count: usize = std::env::var("GPUKC_FUZZ").ok().and_then(|count| count.parse().ok()).unwrap_or(300);
    let show = std::env::var_os("GPUKC_FUZZ_SHOW").is_some();
    let (mut proved, mut refuted, mut undecided) = (0, 0, 0);
    for _ in 0..count {
        let form = form(&mut random);
        let text = form.text("");
        let checked = check(&Source::new("forms", text.as_str()));
        let codes: Vec<u16> = checked.problems.iter().map(|problem| problem.code.0).collect();
        let plain = form.text(" | assume");
        match codes.as_slice() {
            [] => {
                assert!(!leaves(&plain, small()), "proved, and wrong: {text}");
                proved += 1;
            }
            [204, ..] => {
                let message = &checked.problems[0].message;
                assert!(leaves(&plain, named(message)), "refuted, and right: {text}\n{message}");
                refuted += 1;
            }
            [205, ..] => {
                assert!(!leaves(&plain, small()), "not refuted: {text}");
                undecided += 1;
                if show {
                    println!("{text}");
                }
            }
            other => panic!("{other:?}: {text}"),
        }
    }
    println!("proved {proved}, refuted {refuted}, undecided {undecided}");
    assert!(undecided * 50 <= count, "{undecided} of {count} are undecided");
}
