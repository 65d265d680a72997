//! What the parser makes of every construct, where it finds mistakes, and what it survives.

use gpukc_dsl::ast::*;
use gpukc_dsl::diagnostic::{Diagnostic, json::json, render::human};
use gpukc_dsl::parser::parse;
use gpukc_dsl::source::{Source, Span};
use gpukc_dsl::types::UnaryOp;

// ---- a short form of trees

fn items(text: &str) -> Vec<Item> {
    let source = Source::new("test.gk", text);
    let (file, problems) = parse(&source);
    assert!(problems.is_empty(), "{}", human(&source, &problems, false));
    file.items
}

fn kernel(text: &str) -> Kernel {
    match items(text).pop() {
        Some(Item::Kernel(kernel)) => kernel,
        other => panic!("not a kernel: {other:?}"),
    }
}

fn function(text: &str) -> Function {
    match items(text).pop() {
        Some(Item::Function(function)) => function,
        other => panic!("not a function: {other:?}"),
    }
}

/// The short form of an expression.
fn tree(text: &str) -> String {
    expr(&kernel(&format!("kernel k(x: f32[n]) -> f32 {{ {text} }}")).value.expect("a value"))
}

/// The short form of a kernel's statement.
fn statement_tree(text: &str) -> String {
    statement(&kernel(&format!("kernel k(x: f32[n]) -> y: f32[n] {{ {text} }}")).statements[0])
}

/// The short form of a function's body.
fn body(text: &str) -> String {
    block(&function(&format!("fn f(x: f32) -> f32 {{ {text} }}")).body)
}

fn expr(e: &Expr) -> String {
    match &e.kind {
        ExprKind::Number(text) | ExprKind::Name(text) => text.clone(),
        ExprKind::Bool(value) => value.to_string(),
        ExprKind::Path(ty, item) => format!("{}::{}", ty.text, item.text),
        ExprKind::Paren(inside) => format!("(paren {})", expr(inside)),
        ExprKind::Index { array, subscripts } => format!("{}[{}]", array.text, join(subscripts, subscript)),
        ExprKind::Call { function, arguments } => format!("{}({})", function.text, join(arguments, expr)),
        ExprKind::Reduce { reducer, variables, filter, body } => {
            let filter = filter.as_ref().map_or(String::new(), |filter| format!(" if {}", expr(filter)));
            format!("({}[{}{filter}] {})", reducer.0, join(variables, variable), expr(body))
        }
        ExprKind::Unary(op, _, inside) => format!("({} {})", if *op == UnaryOp::Not { "!" } else { "-" }, expr(inside)),
        ExprKind::Binary(op, _, left, right) => format!("({} {} {})", op.symbol(), expr(left), expr(right)),
        ExprKind::Cast(inside, ty) => format!("(as {} {})", expr(inside), ty.text),
        ExprKind::If { condition, then, otherwise } => format!("(if {} {} {})", expr(condition), block(then), block(otherwise)),
        ExprKind::Error => "error".into(),
    }
}

fn join<T>(parts: &[T], form: impl Fn(&T) -> String) -> String {
    parts.iter().map(form).collect::<Vec<_>>().join(", ")
}

fn range(r: &Range) -> String {
    format!(" in {}{}{}", expr(&r.lo), if r.inclusive { "..=" } else { ".." }, expr(&r.hi))
}

fn variable(v: &IndexVariable) -> String {
    v.name.text.clone() + &v.range.as_ref().map_or(String::new(), range)
}

fn subscript(s: &Subscript) -> String {
    let rule = match &s.rule {
        None => String::new(),
        Some(Rule::Name(name)) => format!(" | rule {}", name.text),
        Some(Rule::Value(value)) => format!(" | value {}", expr(value)),
    };
    expr(&s.index) + &s.range.as_ref().map_or(String::new(), range) + &rule
}

fn target(t: &Target) -> String {
    t.name.text.clone() + &t.subscripts.as_ref().map_or(String::new(), |list| format!("[{}]", join(list, subscript)))
}

fn type_expr(t: &TypeExpr) -> String {
    t.element.text.clone() + &t.dims.as_ref().map_or(String::new(), |dims| format!("[{}]", join(dims, expr)))
}

fn parameter(p: &Parameter) -> String {
    format!("{}: {}", p.name.text, type_expr(&p.ty))
}

fn attribute(a: &Attribute) -> String {
    let argument =
        |(key, value): &(Option<Name>, Expr)| key.as_ref().map_or(String::new(), |key| format!("{} = ", key.text)) + &expr(value);
    format!("@{}({}) ", a.name.text, join(&a.arguments, argument))
}

fn statement(s: &Statement) -> String {
    let ty = |ty: &Option<TypeExpr>| ty.as_ref().map_or(String::new(), |ty| format!(": {}", type_expr(ty)));
    let attributes: String = s.attributes.iter().map(attribute).collect();
    attributes
        + &match &s.kind {
            StatementKind::Define { target: t, value } => format!("{} = {}", target(t), expr(value)),
            StatementKind::Let { target: t, ty: stated, value } => format!("let {}{} = {}", target(t), ty(stated), expr(value)),
            StatementKind::LetCall { names, value } => {
                format!("let ({}) = {}", join(names, |name| name.text.clone()), expr(value))
            }
            StatementKind::Accumulate { target: t, op, value } => format!("{} {} {}", target(t), op, expr(value)),
        }
}

fn block(b: &Block) -> String {
    let mut parts: Vec<String> = b.statements.iter().map(local).collect();
    parts.extend(b.value.as_ref().map(expr));
    format!("{{{}}}", parts.join(" "))
}

fn local(s: &LocalStatement) -> String {
    match &s.kind {
        LocalStatementKind::Let { mutable, name, ty, value } => {
            let ty = ty.as_ref().map_or(String::new(), |ty| format!(": {}", type_expr(ty)));
            format!("let {}{}{ty} = {};", if *mutable { "mut " } else { "" }, name.text, expr(value))
        }
        LocalStatementKind::Assign { name, value } => format!("{} = {};", name.text, expr(value)),
        LocalStatementKind::While { condition, body } => format!("while {} {}", expr(condition), block(body)),
        LocalStatementKind::For { name, range: r, body } => format!("for {}{} {}", name.text, range(r), block(body)),
        LocalStatementKind::If { condition, then, otherwise } => {
            format!("if {} {}", expr(condition), block(then))
                + &otherwise.as_ref().map_or(String::new(), |b| format!(" else {}", block(b)))
        }
    }
}

/// Lines, columns and codes of what is wrong with a text.
fn wrong(text: &str) -> Vec<(usize, usize, u16)> {
    let source = Source::new("test.gk", text);
    let place = |problem: &Diagnostic| {
        let at = source.position(problem.span().start as usize);
        (at.line, at.column, problem.code.0)
    };
    parse(&source).1.iter().map(place).collect()
}

/// The first message about a text.
fn message(text: &str) -> String {
    let source = Source::new("test.gk", text);
    parse(&source).1.first().map_or("fine".into(), |problem| problem.message.clone())
}

/// Column and code of the first problem of a statement that stands on a line of its own.
fn wrong_statement(text: &str) -> (usize, u16) {
    let wrong = wrong(&format!("kernel k(x: f32[n]) -> y: f32[n] {{\n{text}\n}}\n"));
    assert_eq!(wrong.len(), 1, "{text}: {wrong:?}");
    assert_eq!(wrong[0].0, 2, "{text}: {wrong:?}");
    (wrong[0].1, wrong[0].2)
}

// ---- items

#[test]
fn a_whole_kernel() {
    let k = kernel(
        "/// Weighted mean\n///   of each row.\n@block(256) @tile(i = 64, j = 2 * 32,) @accumulate(f64) @exact\n\
         kernel average(x: f32[m, n], w: bf16[n], s: i64,) -> (y: f32[m], z: f32[(n + 1) / 2]) where n % 4 == 0, m <= 1024 { y[i] = s; z[i] = 1; }",
    );
    assert_eq!(k.doc, ["Weighted mean", "  of each row."]);
    let attributes: String = k.attributes.iter().map(attribute).collect();
    assert_eq!(attributes, "@block(256) @tile(i = 64, j = (* 2 32)) @accumulate(f64) @exact() ");
    assert_eq!(k.name.text, "average");
    assert_eq!(join(&k.parameters, parameter), "x: f32[m, n], w: bf16[n], s: i64");
    let Results::Named(results) = &k.results else { panic!() };
    assert_eq!(join(results, parameter), "y: f32[m], z: f32[(/ (paren (+ n 1)) 2)]");
    assert_eq!(join(&k.conditions, expr), "(== (% n 4) 0), (<= m 1024)");
    assert_eq!(k.statements.len(), 2);
    assert!(k.value.is_none());
}

#[test]
fn results_of_every_form() {
    let unnamed = kernel("kernel k() -> f32[3] { x }").results;
    assert!(matches!(unnamed, Results::Unnamed(ty) if type_expr(&ty) == "f32[3]"));
    let one = kernel("kernel k() -> y: f32 { y = 1; }").results;
    assert!(matches!(one, Results::Named(list) if join(&list, parameter) == "y: f32"));
    let unknown = kernel("kernel k(x: quad) -> float { x }").results;
    assert!(matches!(unknown, Results::Unnamed(ty) if type_expr(&ty) == "float"), "names of types are the checker's matter");
}

#[test]
fn functions_and_constants() {
    let all = items("const C: i64 = 2 * 3;\n/// g\nfn g(x: f32, y: f32) -> f32 { x }\nkernel k() -> f32 { C }");
    assert_eq!(all.len(), 3);
    assert!(matches!(&all[0], Item::Constant(c) if c.name.text == "C" && type_expr(&c.ty) == "i64" && expr(&c.value) == "(* 2 3)"));
    assert!(matches!(&all[1], Item::Function(f) if f.doc == ["g"] && f.parameters.len() == 2 && type_expr(&f.result) == "f32"));
}

#[test]
fn documents_and_comments() {
    let text = "// a\n/// b\n// c\n/// d\nfn f() -> f32 { // e\n /// f\n 1 /* g /* h */ */ } //// i\n/// j";
    let source = Source::new("t", text);
    let (file, problems) = parse(&source);
    assert!(problems.is_empty());
    assert!(matches!(&file.items[0], Item::Function(f) if f.doc == ["b", "d"]));
    let comments: Vec<&str> = file.comments.iter().map(|&span| source.slice(span)).collect();
    assert_eq!(comments, ["// a", "// c", "// e", "/// f", "/* g /* h */ */", "//// i", "/// j"]);
}

#[test]
fn other_peoples_line_ends() {
    let text = "\u{feff}// head\r\n/// doc\r\nkernel f(x: f32[n]) -> y: f32[n] {\r\n\ty[i] =\r\n\t\tx[i]; // tail\r\n}";
    let source = Source::new("t", text);
    let (file, problems) = parse(&source);
    assert!(problems.is_empty());
    assert!(matches!(&file.items[0], Item::Kernel(k) if k.doc == ["doc"]));
    assert_eq!(file.comments.iter().map(|&span| source.slice(span)).collect::<Vec<_>>(), ["// head", "// tail"]);
    assert_eq!(items("").len(), 0);
    assert_eq!(items(" // nothing\n").len(), 0);
}

#[test]
fn names_of_other_languages() {
    for name in [
        "int",
        "float",
        "threadIdx",
        "I",
        "main",
        "operator",
        "__global__",
        "_",
        "for_",
        "sum_",
        "f32x",
        "kernels",
        "INFO",
        "iff",
        "type",
        "Mean",
    ] {
        let k = kernel(&format!("kernel {name}({name}: f32[{name}]) -> f32 {{ sum[q] {name}[q] }}"));
        assert_eq!(k.name.text, name);
    }
}

// ---- statements

#[test]
fn statements_of_a_kernel() {
    for (text, form) in [
        ("y[i, j] = x[i];", "y[i, j] = x[i]"),
        ("y = 1;", "y = 1"),
        ("y[2 * i + 1, 0] = 1;", "y[(+ (* 2 i) 1), 0] = 1"),
        ("let s = 1;", "let s = 1"),
        ("let s: f64 = 1;", "let s: f64 = 1"),
        ("let t[i, j] = 1;", "let t[i, j] = 1"),
        ("let t[i]: f64 = 1;", "let t[i]: f64 = 1"),
        ("let t[i in 0..n - 1, j in 0..=2] = 1;", "let t[i in 0..(- n 1), j in 0..=2] = 1"),
        ("let (a, b) = f(x);", "let (a, b) = f(x)"),
        ("let (a) = f(x);", "let (a) = f(x)"),
        ("@tf32 @unroll(4) let c[i] = 1;", "@tf32() @unroll(4) let c[i] = 1"),
        ("h[k[i]] += 1;", "h[k[i]] += 1"),
        ("h[k[i] | drop] *= 2;", "h[k[i] | rule drop] *= 2"),
        ("h[k] min= 1;", "h[k] min= 1"),
        ("h[k] max = 1;", "h[k] max= 1"),
        ("h[k]max=1;", "h[k] max= 1"),
        ("h[k] |= true;", "h[k] |= true"),
        ("h[k]&=true;", "h[k] &= true"),
        ("h[k] min= min(1, 2);", "h[k] min= min(1, 2)"),
        ("h += 1;", "h += 1"),
    ] {
        assert_eq!(statement_tree(text), form, "{text}");
    }
}

#[test]
fn spans_end_with_the_last_token() {
    let text = "kernel  k ( x : f32 [ n ] ) -> y : f32 [ n ]  { y [ i ]  = x [ i /* a */ | clamp /* b */ ] + 1 /* c */ ; }  ";
    let source = Source::new("t", text);
    let (file, _) = parse(&source);
    let Item::Kernel(k) = &file.items[0] else { panic!() };
    let slice = |span: Span| source.slice(span);
    assert_eq!(slice(k.span), text.trim_end());
    assert_eq!(slice(k.parameters[0].ty.span), "f32 [ n ]");
    assert_eq!(slice(k.statements[0].span), "y [ i ]  = x [ i /* a */ | clamp /* b */ ] + 1 /* c */ ;");
    let StatementKind::Define { target, value } = &k.statements[0].kind else { panic!() };
    assert_eq!(slice(target.span), "y [ i ]");
    assert_eq!(slice(value.span), "x [ i /* a */ | clamp /* b */ ] + 1");
    let ExprKind::Binary(_, operator, left, _) = &value.kind else { panic!() };
    assert_eq!(slice(*operator), "+");
    let ExprKind::Index { subscripts, .. } = &left.kind else { panic!() };
    assert_eq!(slice(subscripts[0].index.span), "i");
    assert_eq!(slice(subscripts[0].span), "i /* a */ | clamp");
}

#[test]
fn scalar_code() {
    for (text, form) in [
        ("let mut n: i32 = 0; n = n + 1; n", "{let mut n: i32 = 0; n = (+ n 1); n}"),
        ("while n < 3 && x > 0 { n = n + 1; } x", "{while (&& (< n 3) (> x 0)) {n = (+ n 1);} x}"),
        ("for i in 0i32..=5i32 { x = i; } x", "{for i in 0i32..=5i32 {x = i;} x}"),
        ("if c { a = b; } x", "{if c {a = b;} x}"),
        ("if c { a = b; } else { a = c; } x", "{if c {a = b;} else {a = c;} x}"),
        ("if c { a = b; } else if d { a = c; } else { a = e; } x", "{if c {a = b;} else {if d {a = c;} else {a = e;}} x}"),
        ("if c { a = b; } else if d { a = c; } x", "{if c {a = b;} else {if d {a = c;}} x}"),
        ("if c { 1 } else { 2 }", "{(if c {1} {2})}"),
        ("if c { 1 } else if d { 2 } else { 3 }", "{(if c {1} {(if d {2} {3})})}"),
        ("if c { 1 } else { 2 } * 3 + 4", "{(+ (* (if c {1} {2}) 3) 4)}"),
        ("if c { 1 } else { 2 } as f64", "{(as (if c {1} {2}) f64)}"),
        ("if c { a = 1; } -a", "{if c {a = 1;} (- a)}"),
        ("let z = if c { let t = 2; t * t } else { 0 }; z", "{let z = (if c {let t = 2; (* t t)} {0}); z}"),
        ("while c { if d { a = 1; } else { a = 2; } } a", "{while c {if d {a = 1;} else {a = 2;}} a}"),
        ("x += 1; x -= 2; x *= a + b; x", "{x = (+ x 1); x = (- x 2); x = (* x (+ a b)); x}"),
        ("x <<= 1; x ^= 2; x", "{x = (<< x 1); x = (^ x 2); x}"),
        ("if (if a { b } else { c }) { x = 1; }; x", "{if (paren (if a {b} {c})) {x = 1;} x}"),
    ] {
        assert_eq!(body(text), form, "{text}");
    }
}

// ---- expressions

#[test]
fn precedence_is_that_of_rust() {
    for (text, form) in [
        ("a + b * c", "(+ a (* b c))"),
        ("a - b - c", "(- (- a b) c)"),
        ("a / b * c % d", "(% (* (/ a b) c) d)"),
        ("a * b + c / d - e % f", "(- (+ (* a b) (/ c d)) (% e f))"),
        ("a << 1 + 2", "(<< a (+ 1 2))"),
        ("a | 1 ^ 3 & b", "(| a (^ 1 (& 3 b)))"),
        ("a & 1 == 0", "(== (& a 1) 0)"),
        ("a < 0 || b < 0 && c != 5", "(|| (< a 0) (&& (< b 0) (!= c 5)))"),
        ("a == b && c || d && !e", "(|| (&& (== a b) c) (&& d (! e)))"),
        ("-a >> 1", "(>> (- a) 1)"),
        ("!a & b", "(& (! a) b)"),
        ("-a * b", "(* (- a) b)"),
        ("a - -b", "(- a (- b))"),
        ("--a", "(- (- a))"),
        ("- -a", "(- (- a))"),
        ("!!a", "(! (! a))"),
        ("-1.5 as i32", "(as (- 1.5) i32)"),
        ("300.0 as u8 as i32", "(as (as 300.0 u8) i32)"),
        ("a * b as f32 * c", "(* (* a (as b f32)) c)"),
        ("a as u8 + 250 as u8", "(+ (as a u8) (as 250 u8))"),
        ("a as i32 < b", "(< (as a i32) b)"),
        ("a as i32 << b", "(<< (as a i32) b)"),
        ("(a + b) * c", "(* (paren (+ a b)) c)"),
        ("a - (b - c)", "(- a (paren (- b c)))"),
        ("a<=b", "(<= a b)"),
        ("a>>b>=c", "(>= (>> a b) c)"),
        ("a&&b", "(&& a b)"),
        ("a & b && c | d || e", "(|| (&& (& a b) (| c d)) e)"),
    ] {
        assert_eq!(tree(text), form, "{text}");
    }
}

#[test]
fn a_reduction_takes_one_term() {
    for (text, form) in [
        ("sum[k] a[k] * b[k] + c", "(+ (sum[k] (* a[k] b[k])) c)"),
        ("sum[k] a[k] - b[k]", "(- (sum[k] a[k]) b[k])"),
        ("2.0 * sum[l] a[l] * b[l] + d[j]", "(+ (* 2.0 (sum[l] (* a[l] b[l]))) d[j])"),
        ("sum[l] a[l] / b[l] % c as f32 * d", "(sum[l] (* (% (/ a[l] b[l]) (as c f32)) d))"),
        ("mean[i] x[i] as f32", "(mean[i] (as x[i] f32))"),
        ("(mean[i] x[i]) as f32", "(as (paren (mean[i] x[i])) f32)"),
        ("-sum[i] x[i] * 2", "(- (sum[i] (* x[i] 2)))"),
        ("sum[i] -x[i] * 2", "(sum[i] (* (- x[i]) 2))"),
        ("sum[i] x[i] < 3", "(< (sum[i] x[i]) 3)"),
        ("sum[i] x[i] << 3 & 1", "(& (<< (sum[i] x[i]) 3) 1)"),
        ("any[i] a[i] && b", "(&& (any[i] a[i]) b)"),
        ("sum[i] max[j] x[i, j] * y[j] + 1", "(+ (sum[i] (max[j] (* x[i, j] y[j]))) 1)"),
        ("sum[i] if a[i] { b[i] } else { 0 } * 2", "(sum[i] (* (if a[i] {b[i]} {0}) 2))"),
        ("sum[i, j in 0..n, k if a[k] > 0] b[i]", "(sum[i, j in 0..n, k if (> a[k] 0)] b[i])"),
        ("max[j in i - 2..=i + 2] x[j]", "(max[j in (- i 2)..=(+ i 2)] x[j])"),
        ("sum[k in s[i]..s[i + 1]] x[k]", "(sum[k in s[i]..s[(+ i 1)]] x[k])"),
        ("sum[di in -1..=1, dj in -1..=1] x[i + di | clamp]", "(sum[di in (- 1)..=1, dj in (- 1)..=1] x[(+ i di) | rule clamp])"),
        ("sum[j in a | b..c] x[j]", "(sum[j in (| a b)..c] x[j])"),
        ("count[i] (x[i] > 0)", "(count[i] (paren (> x[i] 0)))"),
        ("max[i] (-q[i])", "(max[i] (paren (- q[i])))"),
        ("min[i] x[i] + min(a, b)", "(+ (min[i] x[i]) min(a, b))"),
        ("max [ i ] x[i]", "(max[i] x[i])"),
        ("argmin[i] x[i]", "(argmin[i] x[i])"),
        ("argmax[i] x[i] - prod[i] x[i]", "(- (argmax[i] x[i]) (prod[i] x[i]))"),
        ("all[i] x[i]", "(all[i] x[i])"),
        ("sum[i]x[i]", "(sum[i] x[i])"),
    ] {
        assert_eq!(tree(text), form, "{text}");
    }
}

#[test]
fn subscripts_and_boundary_rules() {
    for (text, form) in [
        ("x[i, j]", "x[i, j]"),
        ("x[i - 1 | 0.0, j | clamp]", "x[(- i 1) | value 0.0, j | rule clamp]"),
        ("x[i | -1.5]", "x[i | value (- 1.5)]"),
        ("x[i | INF]", "x[i | rule INF]"),
        ("x[i | 2 * c]", "x[i | value (* 2 c)]"),
        ("x[(i | 1) | wrap]", "x[(paren (| i 1)) | rule wrap]"),
        ("x[(i | 1)]", "x[(paren (| i 1))]"),
        ("x[i & 1 ^ 2 << 3]", "x[(^ (& i 1) (<< 2 3))]"),
        ("x[y[i | 0] | mirror]", "x[y[i | value 0] | rule mirror]"),
        ("x[f(a | b)]", "x[f((| a b))]"),
        ("x[if a | b { i } else { j }]", "x[(if (| a b) {i} {j})]"),
        ("x[sum[k if a | b] k | assume]", "x[(sum[k if (| a b)] k) | rule assume]"),
        ("x[i|symmetric]", "x[i | rule symmetric]"),
    ] {
        assert_eq!(tree(text), form, "{text}");
    }
}

#[test]
fn primaries_of_every_kind() {
    for (text, form) in [
        ("true", "true"),
        ("!false", "(! false)"),
        ("INF + NAN + PI", "(+ (+ INF NAN) PI)"),
        ("f32::MAX", "f32::MAX"),
        ("f16 :: EPSILON", "f16::EPSILON"),
        ("i64::MIN as f32", "(as i64::MIN f32)"),
        ("f()", "f()"),
        ("f(a, b,)", "f(a, b)"),
        ("f (a)[0]", ""),
        ("if a { b } else { c }", "(if a {b} {c})"),
        ("if a { b } else { c } - d", "(- (if a {b} {c}) d)"),
        ("1 + if a { b } else if c { d } else { e } + 2", "(+ (+ 1 (if a {b} {(if c {d} {e})})) 2)"),
        ("if a { if b { 1 } else { 2 } } else { 3 }", "(if a {(if b {1} {2})} {3})"),
        ("if a { if b { 1 } else { 2 } * 3 } else { 3 }", "(if a {(* (if b {1} {2}) 3)} {3})"),
    ] {
        if form.is_empty() {
            assert_ne!(message(&format!("kernel k() -> f32 {{ {text} }}")), "fine", "{text}");
        } else {
            assert_eq!(tree(text), form, "{text}");
        }
    }
}

#[test]
fn numbers_of_every_form() {
    for text in [
        "0",
        "12",
        "1_000",
        "1.5",
        "1.",
        "1_0.5e-1",
        "1e3",
        "2.0E+2",
        "0xFF",
        "0xD6E8_FEB8",
        "0b1",
        "1.0f64",
        "3i32",
        "3f32",
        "0x7f800000i32",
        "1e-7f16",
        "18446744073709551616",
    ] {
        assert_eq!(tree(text), text);
        assert_eq!(tree(&format!("{text}+a")), format!("(+ {text} a)"));
    }
    assert_eq!(tree("sum[j in 0..n]x[j]"), "(sum[j in 0..n] x[j])");
    assert_eq!(tree("sum[j in 0x0..=1]x[j]"), "(sum[j in 0x0..=1] x[j])");
    assert_eq!(tree("sum[j in 1...5]x[j]".replace("...", ". ..").as_str()), "(sum[j in 1...5] x[j])");
    assert_eq!(tree("-9223372036854775808"), "(- 9223372036854775808)");
    assert_eq!(tree("1-1"), "(- 1 1)");
    assert_eq!(tree("1e1-1"), "(- 1e1 1)");
    assert_eq!(tree("0x1e-1"), "(- 0x1e 1)");
}

#[test]
fn white_space_does_not_matter() {
    let tight = "kernel f(x:i64[n],z:f64[n])->(a:i64[n],h:f64[n])where n>=1,n<9{let t[i in 0..n]:f64=-z[i];a[i]=sum[j in 0..=i if x[j]>0]x[j]*2+if i<2{1}else{f32::MAX as i64};h[x[i]|drop]min=z[i-1|0.5];}";
    let mut loose = String::new();
    for c in tight.chars() {
        let sign = !c.is_ascii_alphanumeric() && !matches!(c, '.' | ' ');
        let joined = matches!((loose.chars().last(), c), (Some('-' | '=' | '>' | '<' | ':' | '.'), '>' | '=' | ':'))
            && (loose.ends_with('-') || loose.ends_with(':') || c == '=');
        loose += if sign && !joined { "\n/**/ " } else { "" };
        loose.push(c);
    }
    let loose = loose.replace('(', "( ").replace('[', "[ ");
    let forms = |text: &str| {
        let k = kernel(text);
        format!("{} {}", join(&k.conditions, expr), join(&k.statements, statement))
    };
    assert_eq!(forms(tight), forms(&loose));
    assert!(forms(tight).contains("h[x[i] | rule drop] min= z[(- i 1) | value 0.5]"));
}

// ---- mistakes

#[test]
fn the_offending_token() {
    for (text, column, code) in [
        ("    y[i] = x[i] +;", 18, 1),
        ("y[i] = x[i] x[j];", 13, 1),
        ("y[i] = (x[i];", 13, 1),
        ("y[i] = x[i;", 11, 1),
        ("y[i] = ;", 8, 1),
        ("y[i] == x[i];", 6, 1),
        ("y[i] = if a = b { 1 } else { 2 };", 13, 1),
        ("y[i] = x[i | 1 | 2];", 16, 1),
        ("y[i] = x[];", 10, 1),
        ("y[i] = sum(k) x[k];", 11, 1),
        ("y[i] = sum[k] + 1;", 15, 1),
        ("y[i] = sum[k + 1] x[k];", 14, 1),
        ("y[i] = x[k in 0..3];", 12, 1),
        ("y[i] = a and b;", 10, 1),
        ("y[i] = x[i] as;", 15, 1),
        ("y[i] = x[i] as 3;", 16, 1),
        ("f(x);", 5, 1),
        ("let = 3;", 5, 1),
        ("let (a, b = f(x);", 11, 1),
        (";", 1, 1),
        ("y[i] = 1.x;", 9, 1),
        ("y[i] =\u{a0}x[i];", 7, 2),
        ("y[i] = \u{1F600};", 8, 2),
        ("größe = 1;", 1, 2),
        ("y[i] = 2 × x[i];", 10, 2),
        ("y[u8] = x[u8];", 3, 3),
        ("let sum = 1;", 5, 3),
        ("let t[PI] = 1;", 7, 3),
        ("y[i] = sum[max] x[max];", 12, 3),
        ("mean = 1;", 1, 3),
        ("y[i] = sum + 1;", 8, 3),
        ("y[i] = x[i] + f32;", 15, 3),
        ("y[i] = 1usize;", 8, 4),
        ("y[i] = 0b12;", 8, 4),
        ("y[i] = 1.5i32;", 8, 4),
        ("y[i] = a < b < c;", 14, 8),
        ("y[i] = a == b != c;", 15, 8),
        ("for i in 0..n { y[i] = 1; }", 1, 9),
        ("let mut s = 1;", 5, 9),
        ("if n > 0 { y[i] = 1; }", 17, 9),
        ("y[i] = if a { s = 1; 2 } else { 3 };", 15, 9),
        ("y[i] = if a { 1 };", 8, 10),
        ("y[i] = if a { 1 } else { };", 26, 10),
        ("y[i] = if a { 1 } else if b { 2 };", 24, 10),
        ("y[i] -= 1;", 6, 12),
        ("y[i] <<= 1;", 6, 12),
    ] {
        assert_eq!(wrong_statement(text), (column, code), "{text}");
    }
}

#[test]
fn mistakes_in_headers_and_functions() {
    for (text, place) in [
        ("kernel f(sum: f32[n]) -> y: f32[n] {\n    y[i] = 1.0;\n}\n", (1, 10, 3)),
        ("kernel max(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }", (1, 8, 3)),
        ("kernel f(x: f32[n] -> y: f32[n] { y[i] = x[i]; }", (1, 20, 1)),
        ("kernel f(x: f32[n]) { }", (1, 21, 1)),
        ("kernel f(x f32) -> f32 { 1 }", (1, 12, 1)),
        ("kernel f(x: f32[]) -> f32 { 1 }", (1, 17, 1)),
        ("kernel f() -> f32 where { 1 }", (1, 25, 1)),
        ("kernel (x: f32) -> f32 { 1 }", (1, 8, 1)),
        ("kernel kernel() -> f32 { 1 }", (1, 8, 3)),
        ("kernal f() -> f32 { 1 }", (1, 1, 1)),
        ("kernel", (1, 7, 1)),
        ("kernel f(", (1, 10, 1)),
        ("kernel f() -> f32 { 1", (1, 22, 1)),
        ("kernel f() -> f32 { 1 } }", (1, 25, 1)),
        ("const A: f32 = 3", (1, 17, 1)),
        ("const A = 3;", (1, 9, 1)),
        ("fn f(x: f32) { x }", (1, 14, 1)),
        ("fn f(x: f32) -> f32 { return x; }", (1, 30, 1)),
        ("fn f(x: f32) -> f32 { let y = x\n y }", (2, 2, 1)),
        ("fn f(x: f32) -> f32 { y[0] = 1; x }", (1, 28, 1)),
        ("fn f(x: f32) -> f32 { if x > 0 { 1 } }", (1, 23, 10)),
        ("fn f(x: f32) -> f32 { if x > 0 { 1 } else { 2 } 3 }", (1, 34, 11)),
        ("fn f(x: f32) -> f32 { while x > 0 { 1 } 3 }", (1, 37, 11)),
        ("fn f(x: f32) -> f32 { x max= 1; x }", (1, 25, 12)),
        ("fn f(x: f32) -> f32 { while x > 0 { x = x - 1 } x }", (1, 47, 1)),
        ("@exact fn f(x: f32) -> f32 { x }", (1, 1, 14)),
        ("kernel f() -> f32 { @exact 1 }", (1, 21, 14)),
        ("/* a /* b */", (1, 1, 5)),
        ("kernel f() -> f32 { 1 } //\n$", (2, 1, 2)),
    ] {
        assert_eq!(wrong(text), [place], "{text}: {}", message(text));
    }
}

#[test]
fn positions_count_characters() {
    let lines = "kernel f(x: f32[h]) -> y: f32[h] {\n    // äß€\n    y[i] =\n/* \u{1F600} */ +x[i];\n}\n";
    assert_eq!(wrong(lines), [(4, 9, 1)]);
    assert_eq!(wrong(&format!("\u{feff}{}", lines.replace('\n', "\r\n"))), [(4, 9, 1)]);
}

#[test]
fn one_mistake_gives_one_error() {
    let text = "\
kernel a(x: f32[n]) -> y: f32[n] {
    let s = 1
    let t = x[0] +;
    let u = if n > 1 { 1 } else { 2 ;
    y[i] = s;
}
kernel b(x f32[n]) -> y: f32[n] {
    y[i] = = 1;
    y[i] = 2;
}
kernel c(x: f32[n]) -> y: f32[n] {
    y[i] = (1;

kernel d(x: f32[n]) -> y: f32[n] {
    y[i] = x[i]
}
fn e(x: f32) -> f32 {
    let a = ;
    while a < 3 { a = ; }
    if a { b } else { c; }
    for k in 0..3 { a = a; }
    a a
}
kernel good(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }
";
    let lines: Vec<usize> = wrong(text).iter().map(|place| place.0).collect();
    assert_eq!(lines, [3, 3, 4, 7, 8, 12, 16, 18, 19, 20, 22]);
    let (file, _) = parse(&Source::new("t", text));
    assert_eq!(file.items.len(), 1, "only the good kernel has a tree");
}

#[test]
fn messages_name_what_could_stand_there() {
    for (text, says) in [
        ("kernel f() -> f32 { 1 +; }", "expected an expression, found `;`"),
        ("kernel f() -> f32 { (1 }", "expected an operator or `)`, found `}`"),
        ("kernel f() -> f32 { 1", "expected `}`, found the end of the text"),
        ("kernel f() -> y: f32 { y = 1 }", "expected `;`, found `}`"),
        ("kernel f() -> f32 { f(1 2) }", "expected an operator, `)` or `,`, found `2`"),
        ("kernel f() -> f32 { x[1 2] }", "expected an operator, `,`, `]` or `|`, found `2`"),
        ("kernel f() -> f32 { else }", "expected a statement, found the keyword `else`"),
        ("hello", "expected an item (`kernel`, `fn` or `const`), found `hello`"),
        ("kernel f(sum: f32) -> f32 { 1 }", "`sum` is reserved"),
    ] {
        assert_eq!(message(text), says, "{text}");
    }
}

// ---- hostile texts

fn in_kernel(text: &str) -> String {
    format!("kernel k(x: f32[n]) -> f32 {{ {text} }}")
}

#[test]
fn what_is_nested_too_deeply_is_refused() {
    for n in [5_000, 100_000] {
        for text in [
            in_kernel(&format!("{}1{}", "(".repeat(n), ")".repeat(n))),
            in_kernel(&format!("{}i{}", "x[".repeat(n), "]".repeat(n))),
            in_kernel(&format!("{}i{}", "abs(".repeat(n), ")".repeat(n))),
            in_kernel(&format!("{}1", "-".repeat(n))),
            in_kernel(&format!("{}1", "! ".repeat(n))),
            in_kernel(&format!("1{}", " as f32".repeat(n))),
            in_kernel(&format!("{}1", "sum[i] ".repeat(n))),
            in_kernel(&format!("{}1", "sum[i] -2 * ".repeat(n))),
            in_kernel(&format!("{}1{}", "if a { ".repeat(n), " } else { 2 }".repeat(n))),
            in_kernel(&format!("{}a{}", "if ".repeat(n), " { 1 } else { 2 }".repeat(n))),
            in_kernel(&format!("if a {{ 1 }} {} else {{ 2 }}", "else if a { 1 }".repeat(n))),
            in_kernel(&"(".repeat(n)),
            "/*".repeat(n),
            format!("/{}{}", "*/*".repeat(n), "*/".repeat(n)),
            format!("fn f(x: f32) -> f32 {{ {}x = 1; {} x }}", "while a { ".repeat(n), "}".repeat(n)),
            format!("kernel f() -> f32 {}", "{".repeat(n)),
        ] {
            let codes: Vec<u16> = wrong(&text).iter().map(|place| place.2).collect();
            // Deep `if`s in a condition are no nesting for the eye: they are found out in their own way.
            assert!(codes == [6] || codes == [5], "{}…: {codes:?}", &text[..60]);
        }
    }
}

#[test]
fn what_is_nested_within_reason_is_accepted() {
    let n = 200;
    for text in [
        format!("{}1{}", "(".repeat(n), ")".repeat(n)),
        format!("{}i{}", "x[".repeat(n), "]".repeat(n)),
        format!("{}1", "-".repeat(n)),
        format!("1{}", " as f32".repeat(n)),
        format!("{}1", "sum[i] ".repeat(n)),
        format!("{}1{}", "if a { ".repeat(n), " } else { 2 }".repeat(n)),
        format!("if a {{ 1 }} {} else {{ 2 }}", "else if a { 1 }".repeat(n)),
    ] {
        assert_eq!(wrong(&in_kernel(&text)), [], "{}…", &text[..30]);
    }
}

#[test]
fn long_sums_are_accepted_and_longer_ones_refused() {
    let sum = |n: usize, term: &str| in_kernel(&vec![term; n].join(" + "));
    for n in [300, 1_000, 4_000] {
        for term in ["x[i]", "a * b * c", "sum[k] x[k]", "(if a { b } else { c })", "-a as f32", "f(x[i + 1], 2)"] {
            assert_eq!(wrong(&sum(n, term)), [], "{n} times {term}");
        }
    }
    for n in [5_000, 20_000, 100_000] {
        let wrong = wrong(&sum(n, "x[i]"));
        assert!(matches!(wrong[..], [(1, _, 7)]), "{wrong:?}");
    }
    // Long rows in brackets in long rows add up.
    let nested = (0..200).fold("x".to_string(), |inner, _| format!("({inner}{})", " + x".repeat(30)));
    assert!(matches!(wrong(&in_kernel(&nested))[..], [(1, _, 7)]));
    // Many statements do not.
    let many = "let a = b + c * d;\n".repeat(10_000);
    assert_eq!(wrong(&in_kernel(&format!("{many} 1"))), []);
}

#[test]
fn long_names_and_numbers() {
    let name = "a".repeat(65_536);
    assert_eq!(tree(&name), name);
    let number = "1".repeat(65_536);
    assert_eq!(tree(&number), number);
    assert!(message(&in_kernel(&format!("1 {name}"))).len() < 200, "messages show the beginning");
    assert!(message(&in_kernel(&format!("1{name}"))).len() < 200);
}

#[test]
fn many_mistakes_take_no_long_time_and_are_cut_off() {
    let many = "kernel f(x: f32[n]) -> y: f32[n] { y[i] = 3 +; }\n".repeat(20_000);
    assert_eq!(wrong(&many).len(), 100);
    let many = "y[i] = 3 +;\n".repeat(20_000);
    assert_eq!(wrong(&in_kernel(&many)).len(), 100);
    assert_eq!(wrong(&"$ ".repeat(20_000)).len(), 100);
}

#[test]
fn rubbish_is_refused_politely() {
    // A small generator, so that the same texts come every time.
    let mut seed = 1u64;
    let mut next = |n: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % n
    };
    let good = "/// d\n@block(64) kernel f(x: f32[n], k: i32[n]) -> (y: f32[n], h: f32[9]) where n > 1 { let t[i in 0..n] = if x[i] < 1.5e3 { -x[i | 0.0] } else { sum[j in 0..=i if k[j] != 0] x[j] * 2.0 }; y[i] = t[i]; h[k[i] | drop] max= f32::MAX; }\nfn g(x: f32) -> f32 { let mut s: f32 = 0; for i in 0..3 { s = s + x; } while s > 1 { s -= 1; } if s > 0 { s } else { 0 } }\nconst C: i64 = 0x1F;";
    assert_eq!(wrong(good), []);
    let pieces = [
        "(", ")", "[", "]", "{", "}", ";", "=", "+", "-", "..", "|", "@", "kernel", "fn", "if", "else", "sum", "1.5", "é", "\u{a0}",
        "/*", "*/", "\"", "\0",
    ];
    for _ in 0..1_000 {
        let mut text: Vec<char> = good.chars().collect();
        for _ in 0..=next(4) {
            let at = next(text.len());
            let other = next(text.len());
            match next(3) {
                0 => drop(text.drain(at..(at + 1 + next(9)).min(text.len()))),
                1 => drop(text.splice(at..at, pieces[next(pieces.len())].chars())),
                _ => text.swap(at, other),
            }
        }
        let text: String = text.into_iter().collect();
        let source = Source::new("t", text);
        let (_, problems) = parse(&source);
        human(&source, &problems, false);
        for problem in &problems {
            json(&source, problem);
        }
    }
}

// ---- how problems look

#[test]
fn drawn_for_people() {
    let source = Source::new("blur.gk", "kernel blur(x: f32[n]) -> y: f32[n] {\n    y[i] = (x[i] + 1;\n}\n");
    let (_, problems) = parse(&source);
    let expected = "\
error[GK0001]: expected an operator or `)`, found `;`
 --> blur.gk:2:21
  |
2 |     y[i] = (x[i] + 1;
  |            -        ^ expected an operator or `)`
  |            |
  |            this `(` is not closed
";
    assert_eq!(human(&source, &problems, false), expected);
    assert!(human(&source, &problems, true).contains("\u{1b}["));
    assert_eq!(human(&source, &[], false), "");
}

#[test]
fn types_are_no_names() {
    for (text, help) in [
        ("kernel bool(x: f32[n]) -> f32 { 1.0 }", "types are no names; another will do: `bool_`"),
        ("fn f32(x: f32) -> f32 { x }", "types are no names; another will do: `f32_`"),
        ("kernel k(f32) -> f32 { 1.0 }", "a parameter is written `x: f32[m, n]`: the name, a `:`, the type"),
    ] {
        let (_, problems) = parse(&Source::new("t.gk", text));
        assert!(problems[0].message.starts_with("a type where a name should be: `"), "{}", problems[0].message);
        assert!(problems[0].help.iter().any(|said| said == help), "{text}: {:?}", problems[0].help);
    }
}

#[test]
fn suggestions_help_and_counts() {
    let source = Source::new("a.gk", "x\ny\r\nz");
    let first = Diagnostic::error(101, Span::new(2, 3), "one", "here").label(Span::new(0, 1), "there").help("think");
    let first = first.suggest_edits("put it in parentheses", vec![(Span::new(2, 2), "(".into()), (Span::new(3, 3), ")".into())]);
    let second = Diagnostic::error(102, Span::new(6, 6), "two", "");
    let third = Diagnostic::warning(103, Span::default(), "three", "");
    let expected = "\
error[GK0101]: one
 --> a.gk:2:1
  |
1 | x
  | - there
2 | y
  | ^ here
  |
  = help: think
help: put it in parentheses
  |
2 | (y)
  | + +

error[GK0102]: two
 --> a.gk:3:2
  |
3 | z
  |  ^

warning[GK0103]: three
 --> a.gk:1:1
  |
1 | x
  | ^

error: 2 errors and 1 warning found
";
    assert_eq!(human(&source, &[first, second, third], false), expected);
}

#[test]
fn printed_for_programs() {
    let source = Source::new("a \"b\"\\.gk", "// ä\nä x\ty");
    let problem = Diagnostic::error(301, Span::new(9, 10), "no `x`\n\u{1}", "here").label(Span::new(0, 2), "and\there");
    let problem = problem
        .help("cast it")
        .suggest_edits("like this", vec![(Span::new(9, 9), "(".into()), (Span::new(10, 10), ") as f32".into())]);
    assert_eq!(
        json(&source, &problem),
        concat!(
            r#"{"severity": "error", "code": "GK0301", "message": "no `x`\n\u0001", "help": "cast it; like this: `ä (x) as f32 y`", "#,
            r#""file": "a \"b\"\\.gk", "line": 2, "column": 3, "end_line": 2, "end_column": 4, "labels": ["#,
            r#"{"line": 2, "column": 3, "end_line": 2, "end_column": 4, "text": "here"}, "#,
            r#"{"line": 1, "column": 1, "end_line": 1, "end_column": 3, "text": "and\there"}]}"#
        )
    );
    assert!(
        json(&source, &Diagnostic::warning(1, Span::default(), "m", ""))
            .contains(r#""severity": "warning", "code": "GK0001", "message": "m", "help": null"#)
    );
}
