//! What Rust sees of a kernel, taken from the syntax tree, so that wrong programs have it too.

use std::collections::HashSet;

use gpukc_dsl::ast::{self, Item, Results, TypeExpr};
use gpukc_dsl::parser;
use gpukc_dsl::program::{Kernel, Program, in_place};
use gpukc_dsl::source::{Source, Span as Place};
use gpukc_dsl::types::Type;
use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;

/// A kernel's signature.
pub struct Signature {
    /// Its name in gk.
    pub name: String,
    /// Its name in Rust, where the user wrote it.
    pub ident: Ident,
    /// Its doc comment.
    pub doc: Vec<String>,
    /// The text from `kernel` to the results and conditions, on one line.
    pub header: String,
    /// Parameters in order.
    pub parameters: Vec<Value>,
    /// Results in order.
    pub results: Vec<Value>,
    /// The numbers of the parameters that calls in place are made for; and why the result can't be computed there, if it can't.
    pub in_place: Vec<(usize, Option<String>)>,
}

/// A parameter or a result.
pub struct Value {
    /// Its name in gk.
    pub name: String,
    /// Its name in Rust.
    pub ident: Ident,
    /// Its name as a variable: in small letters, for others may be constants where the macro stands, which no variable can hide.
    pub variable: Ident,
    /// Its element type.
    pub element: Type,
    /// The number of dims; `None` of a scalar.
    pub rank: Option<usize>,
}

impl Value {
    fn named(&self) -> (&str, Span) {
        (&self.name, self.ident.span())
    }
}

impl Signature {
    /// Of all kernels whose signatures can be read. `token` gives the token of a place.
    pub fn all(source: &Source, program: Option<&Program>, token: impl Fn(Place) -> Span) -> Vec<Signature> {
        let (file, _) = parser::parse(source);
        let mut signatures: Vec<Signature> = Vec::new();
        for item in &file.items {
            let Item::Kernel(kernel) = item else { continue };
            let checked = program.and_then(|program| program.kernel(&kernel.name.text));
            let signature = signature(source, kernel, checked, &token);
            // A second kernel of a name has its error; Rust need not give another.
            signatures.extend(signature.filter(|new| signatures.iter().all(|known| known.name != new.name)));
        }
        let names = distinct(signatures.iter().map(|signature| (signature.name.as_str(), signature.ident.span())), str::to_owned);
        signatures.iter_mut().zip(names).for_each(|(signature, name)| signature.ident = name);
        signatures
    }

    /// Its function as documentation names it, from inside of its module.
    pub fn link(&self) -> String {
        format!("[`{0}`](fn@super::{0})", self.ident.unraw())
    }
}

fn signature(source: &Source, kernel: &ast::Kernel, checked: Option<&Kernel>, token: impl Fn(Place) -> Span) -> Option<Signature> {
    let value = |name: &ast::Name, ty: &TypeExpr| {
        let ident = ident(&name.text, token(name.span));
        Some(Value {
            name: name.text.clone(),
            variable: ident.clone(),
            ident,
            element: Type::from_name(&ty.element.text)?,
            rank: ty.dims.as_ref().map(Vec::len),
        })
    };
    let mut parameters: Vec<Value> = kernel.parameters.iter().map(|p| value(&p.name, &p.ty)).collect::<Option<_>>()?;
    let mut results: Vec<Value> = match &kernel.results {
        Results::Unnamed(ty) => vec![value(&ast::Name { text: "out".into(), span: ty.span }, ty)?],
        Results::Named(named) => named.iter().map(|p| value(&p.name, &p.ty)).collect::<Option<_>>()?,
    };
    let fields = distinct(results.iter().map(Value::named), str::to_owned);
    let variables = distinct(parameters.iter().chain(&results).map(Value::named), str::to_ascii_lowercase);
    results.iter_mut().zip(fields).for_each(|(value, field)| value.ident = field);
    parameters.iter_mut().chain(&mut results).zip(variables).for_each(|(value, variable)| value.variable = variable);
    let in_place = in_place_parameters(checked, &parameters, &results);
    let start = kernel.attributes.last().map_or(kernel.span.start, |attribute| attribute.span.end);
    Some(Signature {
        name: kernel.name.text.clone(),
        ident: ident(&kernel.name.text, token(kernel.name.span)),
        doc: kernel.doc.clone(),
        header: header(source.slice(Place { start, end: kernel.span.end })),
        parameters,
        results,
        in_place,
    })
}

/// Rust names for gk names, all different: Rust has fewer (`self` and `self_` are one), and a wrong kernel may have one twice. Names
/// that can stay do; others get underscores until they are free.
fn distinct<'a>(names: impl Iterator<Item = (&'a str, Span)>, spelled: impl Fn(&str) -> String) -> Vec<Ident> {
    let mut names: Vec<(usize, (&str, Span))> = names.enumerate().collect();
    names.sort_by_key(|(_, (name, span))| ident(&spelled(name), *span).unraw() != *name);
    let mut taken = HashSet::new();
    let mut found = Vec::with_capacity(names.len());
    for (at, (name, span)) in names {
        let mut text = spelled(name);
        while !taken.insert(ident(&text, span)) {
            text.push('_');
        }
        found.push((at, ident(&text, span)));
    }
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, name)| name).collect()
}

/// Of a kernel that is wrong: all that may be meant.
fn in_place_parameters(checked: Option<&Kernel>, parameters: &[Value], results: &[Value]) -> Vec<(usize, Option<String>)> {
    let arrays = parameters.iter().enumerate().filter(|(_, parameter)| parameter.rank.is_some());
    let first = |at: usize| parameters[..at].iter().all(|before| before.name != parameters[at].name);
    match (checked, results) {
        (Some(kernel), _) => {
            let known = |name: &str| kernel.arrays.iter().find(|(_, array)| array.name == name).map(|(id, _)| id);
            arrays.filter_map(|(at, parameter)| Some((at, in_place::refusal(kernel, known(&parameter.name)?)))).collect()
        }
        (None, [result]) => {
            let alike = |value: &Value| value.rank == result.rank && value.element == result.element;
            arrays.filter(|(at, value)| alike(value) && first(*at)).map(|(at, _)| (at, None)).collect()
        }
        (None, _) => Vec::new(),
    }
}

/// The text before the body, comments left out, with single blanks.
fn header(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or(""));
    let text: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let text = text.join(" ");
    let end = text.find('{').unwrap_or(text.len());
    let mut header = text[..end].trim_end().to_owned();
    // Tokens that had lost their places are joined by blanks.
    for (apart, together) in [(" (", "("), ("( ", "("), (" )", ")"), (" [", "["), ("[ ", "["), (" ]", "]"), (" ,", ","), (" :", ":")] {
        header = header.replace(apart, together);
    }
    header.replace("->(", "-> (").replace("where(", "where (")
}

/// A gk name as a Rust name.
pub fn ident(name: &str, span: Span) -> Ident {
    match name {
        // These can't be raw.
        "self" | "Self" | "super" | "crate" | "_" => Ident::new(&format!("{name}_"), span),
        // A keyword since the edition of 2024.
        "gen" => Ident::new_raw(name, span),
        _ if syn::parse_str::<Ident>(name).is_ok() => Ident::new(name, span),
        _ => Ident::new_raw(name, span),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<Signature> {
        let source = Source::new("t", text);
        let checked = gpukc_dsl::check(&source);
        Signature::all(&source, checked.program.as_ref(), |_| Span::call_site())
    }

    #[test]
    fn signatures_are_read() {
        let found = of(
            "/// Doc.\n@block(128)\nkernel k(type: f32, x: bf16[n,\n m]) // why\n -> (a: f32, b: u8[n]) where n > 1 { a = type; b[i] = 1; }",
        );
        let [k] = found.as_slice() else { panic!("{}", found.len()) };
        assert_eq!(k.header, "kernel k(type: f32, x: bf16[n, m]) -> (a: f32, b: u8[n]) where n > 1");
        assert_eq!(k.parameters[0].ident.to_string(), "r#type");
        assert_eq!((k.parameters[1].element, k.parameters[1].rank), (Type::Bf16, Some(2)));
        assert_eq!((k.results.len(), k.results[0].rank, k.doc.as_slice()), (2, None, &["Doc.".to_owned()][..]));
    }

    #[test]
    fn wrong_kernels_have_signatures() {
        let found = of("kernel k(x: f32[n]) -> y: f32[n] { y[i] = x[i + 1]; } kernel k(x: f32[n]) -> f32 { 1.0 }");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].in_place, [(0, None)]);
    }

    #[test]
    fn variables_are_in_small_letters() {
        let found = of("kernel k(N: i64, n: i64, self: i64, Self: i64, x: f32[m]) -> X: f32[m] { X[i] = x[i]; }");
        let values = found[0].parameters.iter().chain(&found[0].results);
        let names: Vec<String> = values.map(|value| value.variable.to_string()).collect();
        assert_eq!(names, ["n_", "n", "self_", "self__", "x", "x_"]);
    }

    #[test]
    fn names_that_are_one_in_rust_are_told_apart() {
        let found = of("kernel self(x: f32[n]) -> (super: f32, super_: f32, Self: f32) { super = 1.0; super_ = 2.0; Self = 3.0; } \
             kernel self_(x: f32[n]) -> f32 { 1.0 }");
        let names: Vec<String> = found.iter().map(|kernel| kernel.ident.to_string()).collect();
        assert_eq!(names, ["self__", "self_"]);
        let fields: Vec<String> = found[0].results.iter().map(|value| value.ident.to_string()).collect();
        assert_eq!(fields, ["super__", "super_", "Self_"]);
    }

    /// The kernel is wrong, and says so; Rust need not say more.
    #[test]
    fn names_that_are_there_twice_are_told_apart() {
        let found = of("kernel k(x: f32[n], x: f32[n]) -> x: f32[n] { x[i] = 1.0; } kernel l() -> (a: f32, a: f32) { a = 1.0; }");
        assert_eq!(found[0].in_place, [(0, None)]);
        assert_eq!([&found[1].results[0], &found[1].results[1]].map(|value| value.ident.to_string()), ["a", "a_"]);
    }

    #[test]
    fn names_that_rust_reserves() {
        let text = |name| ident(name, Span::call_site()).to_string();
        assert_eq!([text("self"), text("match"), text("x"), text("_")], ["self_", "r#match", "x", "__"]);
    }
}
