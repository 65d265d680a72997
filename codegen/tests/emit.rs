//! The spelling of plans, on plans made by hand.

use gpukc_codegen::emit::{DeviceFunction, emit, expr, scope::Scope};
use gpukc_codegen::formula::Formula;
use gpukc_codegen::kernel::Argument;
use gpukc_codegen::plan::{
    CudaType, Expr, Launch, Memory, Node, Parameter, ParameterType, Plan, Unroll, call, int, long, name, verify::verify,
};
use gpukc_dsl::arena::Id;
use gpukc_dsl::types::Type;

fn spelled(expr: Expr) -> String {
    let mut scope = Scope::default();
    for (name, ty) in [("i", Type::I32), ("n", Type::I64), ("x", Type::F32), ("u", Type::U64), ("ok", Type::Bool)] {
        scope.declare(name, &ty.into());
    }
    expr::spell(&expr, &scope)
}

fn op(a: impl Into<Expr>, op: &'static str, b: impl Into<Expr>) -> Expr {
    Expr::Binary(op, Box::new(a.into()), Box::new(b.into()))
}

fn minus(a: impl Into<Expr>) -> Expr {
    Expr::Unary("-", Box::new(a.into()))
}

#[test]
fn parentheses() {
    for (expr, text) in [
        (op(op("a", "+", "b"), "*", "c"), "(a + b) * c"),
        (op("a", "+", op("b", "*", "c")), "a + b * c"),
        (op(op("a", "+", "b"), "+", "c"), "a + b + c"),
        (op("a", "+", op("b", "+", "c")), "a + (b + c)"),
        (op("a", "-", op("b", "-", "c")), "a - (b - c)"),
        (op(op("a", "/", "b"), "*", "c"), "a / b * c"),
        (op("a", "/", op("b", "*", "c")), "a / (b * c)"),
        (op(op("a", "&&", "b"), "||", "c"), "(a && b) || c"),
        (op(op("a", "||", "b"), "&&", "c"), "(a || b) && c"),
        (op("a", "&&", op("b", "&&", "c")), "a && b && c"),
        (op("a", "<<", op("b", "+", 1)), "a << (b + 1)"),
        (op(op("a", "+", "b"), "<<", "c"), "(a + b) << c"),
        (op(op("a", "&", "b"), "==", 0), "(a & b) == 0"),
        (op("a", "&", op("b", "==", 0)), "a & (b == 0)"),
        (op(op("a", "&", "b"), "|", "c"), "(a & b) | c"),
        (op(op("a", "<", "b"), "==", "c"), "(a < b) == c"),
        (op(name("a").choose("b", "c"), "+", 1), "(a ? b : c) + 1"),
        (name("a").choose("b", name("c").choose("d", "e")), "a ? b : c ? d : e"),
        (name("a").choose("b", "c").choose("d", "e"), "(a ? b : c) ? d : e"),
        (op("a", "+", "b").cast(Type::F32), "(float)(a + b)"),
        (op(name("a").cast(Type::F32), "*", "b"), "(float)a * b"),
        (name("a").cast(Type::F32).cast(Type::I64), "(long long)(float)a"),
        (Expr::Unary("!", Box::new(op("a", "<", "b"))), "!(a < b)"),
        (name("p").at(op("i", "+", 1)).at(0).lane(2), "p[i + 1][0].at[2]"),
    ] {
        assert_eq!(spelled(expr), text);
    }
}

#[test]
fn signs_never_touch() {
    for (expr, text) in [
        (minus(minus("a")), "-(-a)"),
        (minus(int(-5)), "-(-5)"),
        (op("a", "-", minus("b")), "a - (-b)"),
        (op("a", "-", op(minus("b"), "*", "c")), "a - (-b * c)"),
        (op("a", "+", minus("b")), "a + -b"),
        (op("a", "+", int(-5)), "a - 5"),
        (op("a", "-", int(-5)), "a + 5"),
        (op("a", "-", Expr::Float(-0.5, Type::F32)), "a + 0.5f"),
        (op("a", "-", Expr::Float(-0.0, Type::F32)), "a - (-0.0f)"),
        (op("a", "-", long(i64::MIN)), "a - (-9223372036854775807ll - 1)"),
        (op("a", "*", int(-1)), "a * -1"),
    ] {
        assert_eq!(spelled(expr), text);
    }
}

#[test]
fn idle_casts_are_left_out() {
    for (expr, text) in [
        (name("n").cast(Type::I64), "n"),
        (name("i").cast(Type::I64), "(long long)i"),
        ((name("n") - name("i")).cast(Type::I64), "n - i"),
        (int(5).cast(Type::I64) * name("i"), "5ll * i"),
        (name("threadIdx.x").cast(Type::U32), "threadIdx.x"),
        (call("minimum", vec![(name("i") - int(2)).cast(Type::I32), int(256)]), "minimum(i - 2, 256)"),
        (Expr::Float(2.5, Type::F32).cast(Type::I32), "(int)2.5f"),
    ] {
        assert_eq!(spelled(expr), text);
    }
}

#[test]
fn literals_have_the_suffix_that_they_need() {
    for (expr, text) in [
        (op("n", "*", long(4)), "n * 4"),
        (op("i", "*", long(4)), "i * 4ll"),
        (op("unknown", "*", long(4)), "unknown * 4ll"),
        (op(long(1), "<<", "n"), "1ll << n"),
        (op("n", "<<", long(1)), "n << 1"),
        (op(op("n", "*", long(3)), "+", long(4)), "n * 3 + 4"),
        (op("x", "*", Expr::Float(0.1f32.into(), Type::F32)), "x * 0.1f"),
        (op("u", ">>", Expr::Int(3, Type::U64)), "u >> 3ull"),
        (call("minimum", vec![name("n"), int(5)]), "minimum(n, 5ll)"),
        (call("maximum", vec![name("n"), long(5)]), "maximum(n, 5ll)"),
        (call("minimum", vec![name("c"), Expr::Int(-5, Type::I8)]), "minimum(c, (signed char)-5)"),
        (call("butterfly", vec![int(32), name("x"), call("Sum", vec![])]), "butterfly<32>(x, Sum())"),
        (call("minimum_f16", vec![name("h"), Expr::Float(1.0, Type::F16)]), "minimum_f16(h, (f16)0x3c00)"),
    ] {
        assert_eq!(spelled(expr), text);
    }
}

fn parameter(name: &str, ty: ParameterType, argument: Argument) -> Parameter {
    Parameter { name: name.into(), ty, argument }
}

fn declare(ty: impl Into<CudaType>, name: &str, value: Expr) -> Node {
    Node::Declare { ty: ty.into(), name: name.into(), value: Some(value), mutable: false }
}

/// A tile in shared memory, wide accesses, a serial reduction, a device function that calls another.
fn everything() -> (Plan, Vec<DeviceFunction>) {
    let n = Formula::Dim(Id::new(0), "n".into());
    let x = name("x");
    let wide = |array: &str, index: Expr| Expr::Wide(Type::F32, 4, Box::new(name(array)), Box::new(index));
    let body = vec![
        Node::Array { ty: Type::F32.into(), name: "tile".into(), extents: vec![8, 36], memory: Memory::Shared, zeroed: false },
        Node::Array { ty: Type::F32.into(), name: "sums".into(), extents: vec![4], memory: Memory::Registers, zeroed: true },
        declare(Type::I64, "first", name("blockIdx.x").cast(Type::I64) * int(1024)),
        Node::Comment("Neighbouring elements move together.".into()),
        declare(CudaType::Pack(Type::F32, 4), "pack", wide("x", name("first") + name("threadIdx.x") * int(4))),
        Node::Assign(wide("tile", int(0)), name("pack")),
        Node::Barrier,
        Node::For {
            variable: "part".into(),
            ty: Type::I32.into(),
            lo: int(0),
            hi: int(4),
            step: int(1),
            unroll: Unroll::Full,
            body: vec![Node::Assign(name("sums").at("part"), name("sums").at("part") + call("gelu", vec![name("pack").lane("part")]))],
        },
        Node::If { condition: name("threadIdx.x").binary("!=", int(0)), then: vec![Node::Return(None)], otherwise: vec![] },
        Node::Reduce {
            name: "total".into(),
            ty: Type::F32.into(),
            helper: "canonical",
            arguments: vec![int(2), name("n"), Expr::Float(0.0, Type::F32), call("Sum", vec![])],
            accumulator: "so_far".into(),
            term: "term".into(),
            body: vec![declare(Type::F32, "value", x.clone().at("term"))],
            value: call("fmaf", vec![name("value"), name("value"), name("so_far")]),
        },
        Node::If {
            condition: name("n").less(int(5)),
            then: vec![Node::Assign(name("y").at(int(0)), name("total"))],
            otherwise: vec![Node::If {
                condition: name("n").less(int(9)),
                then: vec![Node::Assign(name("y").at(int(0)), minus("total"))],
                otherwise: vec![Node::Assign(name("y").at(int(1)), Expr::Float(f64::INFINITY, Type::F32))],
            }],
        },
        Node::Assign(
            name("y").at(name("first") + name("threadIdx.x")),
            op(
                op("total", "*", call("minimum", vec![x.clone().at(name("first") + int(1)), name("sums").at(int(1))])),
                "+",
                op("total", "*", call("minimum", vec![x.at(name("first") + int(2)), name("sums").at(int(3))])),
            ),
        ),
    ];
    let launch = Launch {
        entry: "everything".into(),
        schedule: "map",
        notes: vec!["Does a bit of everything.".into()],
        parameters: vec![
            parameter("x", ParameterType::Input(Type::F32), Argument::Array(Id::new(0))),
            parameter("n", ParameterType::Value(Type::I64), Argument::Size(n.clone(), Type::I64)),
            parameter("y", ParameterType::Output(Type::F32), Argument::Array(Id::new(1))),
        ],
        grid: [n.div_ceil(1024), 1.into(), 1.into()],
        striding: false,
        block: [256, 1, 1],
        resident: Some(4),
        cluster: 1,
        dynamic_shared: 0,
        overlapping: false,
        body,
    };
    let function = |name: &str, value: Expr| DeviceFunction {
        name: name.into(),
        result: Type::F32.into(),
        parameters: vec![(Type::F32.into(), "x".into())],
        body: vec![Node::Return(Some(value))],
        doc: vec![format!("The function {name}.")],
    };
    let functions = vec![
        function("gelu", op("x", "*", call("half", vec![name("x")]))),
        function("half", op("x", "*", Expr::Float(0.5, Type::F32))),
        function("unused", name("x")),
    ];
    let summary = vec!["kernel everything(x: f32[n]) -> y: f32[n] {".into(), "}".into()];
    (Plan { name: "everything".into(), summary, launches: vec![launch], ..Plan::default() }, functions)
}

#[test]
fn a_text_reads_as_if_written_by_hand() {
    let (plan, functions) = everything();
    assert_eq!(verify(&plan), Ok(()));
    let text = emit(&plan, &functions);
    let expected = include_str!("emit/everything.cu");
    let version = format!("gpukc {}", env!("CARGO_PKG_VERSION"));
    assert!(text == expected.replace("gpukc VERSION", &version), "tests/emit/everything.cu should be:\n{text}");
}

#[test]
fn a_plan_has_a_text_form() {
    let (plan, _) = everything();
    let text = plan.to_string();
    assert!(text == include_str!("emit/everything.plan"), "tests/emit/everything.plan should be:\n{text}");
}

#[test]
fn comments_stay_comments() {
    let (mut plan, functions) = everything();
    plan.summary = vec!["evil \\".into(), "one\ntwo */ int x;".into(), "three\rint y; \\\r\nfour".into()];
    let text = emit(&plan, &functions);
    assert!(text.contains("// evil \\ .\n// one\n// two */ int x;\n// three\n// int y; \\ .\n// four\n"), "{text}");
}
