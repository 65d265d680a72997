//! Plans with one planted fault each: the verifier finds it.

use gpukc_codegen::error::Error;
use gpukc_codegen::kernel::{Argument, Scratch};
use gpukc_codegen::plan::{Expr, Launch, Memory, Node, Parameter, ParameterType, Plan, Unroll, call, int, name, verify::verify};
use gpukc_dsl::arena::Id;
use gpukc_dsl::types::Type;

fn launch(body: Vec<Node>) -> Launch {
    let parameter = |name: &str, ty, argument| Parameter { name: name.into(), ty, argument };
    Launch {
        entry: "entry".into(),
        schedule: "map",
        notes: Vec::new(),
        parameters: vec![
            parameter("x", ParameterType::Input(Type::F32), Argument::Array(Id::new(0))),
            parameter("y", ParameterType::Output(Type::F32), Argument::Array(Id::new(1))),
            parameter("n", ParameterType::Value(Type::I32), Argument::Scalar(Id::new(0))),
        ],
        grid: [1.into(), 1.into(), 1.into()],
        striding: false,
        block: [256, 1, 1],
        resident: None,
        cluster: 1,
        dynamic_shared: 0,
        overlapping: false,
        body,
    }
}

fn problem(launches: Vec<Launch>) -> String {
    match verify(&Plan { launches, ..Plan::default() }) {
        Ok(()) => "none".into(),
        Err(Error::Bug(message)) => message,
        Err(error) => panic!("{error}"),
    }
}

fn found(body: Vec<Node>, expected: &str) {
    let found = problem(vec![launch(body)]);
    assert!(found.contains(expected), "{found}");
}

fn set(name: &str, value: impl Into<Expr>, mutable: bool) -> Node {
    Node::Declare { ty: Type::I32.into(), name: name.into(), value: Some(value.into()), mutable }
}

fn when(condition: Expr, then: Vec<Node>) -> Node {
    Node::If { condition, then, otherwise: Vec::new() }
}

fn each(variable: &str, hi: impl Into<Expr>, unroll: Unroll, body: Vec<Node>) -> Node {
    let (lo, hi, step) = (int(0), hi.into(), int(1));
    Node::For { variable: variable.into(), ty: Type::I32.into(), lo, hi, step, unroll, body }
}

fn first_thread() -> Expr {
    name("threadIdx.x").binary("==", int(0))
}

#[test]
fn names() {
    found(vec![set("a", "b", false)], "b is not declared");
    found(vec![set("a", 1, false), set("a", 2, false)], "a is declared twice");
    found(vec![set("x", 1, false)], "x is declared twice");
    found(vec![each("i", 3, Unroll::Default, vec![]), set("a", "i", false)], "i is not declared");
    found(vec![each("i", 3, Unroll::Default, vec![]), each("i", 3, Unroll::Default, vec![])], "none");
}

#[test]
fn assignments() {
    let assign = |place: Expr| Node::Assign(place, Expr::Float(0.0, Type::F32));
    found(vec![assign(name("y").at(0))], "none");
    found(vec![assign(name("x").at(0))], "x is assigned to");
    found(vec![assign(name("n"))], "n is assigned to");
    found(vec![set("a", 1, false), assign(name("a"))], "a is assigned to");
    found(vec![set("a", 1, true), assign(name("a"))], "none");
}

#[test]
fn barriers() {
    found(vec![when(first_thread(), vec![Node::Barrier])], "not every thread reaches");
    found(vec![when(name("n").less(5), vec![Node::Barrier])], "none");
    found(vec![when(name("x").at("n").less(5), vec![Node::Barrier])], "none");
    found(vec![when(name("x").at("threadIdx.x").less(5), vec![Node::Barrier])], "not every thread reaches");
    found(vec![each("i", "threadIdx.x", Unroll::Default, vec![Node::Barrier])], "not every thread reaches");
    found(vec![each("i", "n", Unroll::Default, vec![Node::Barrier])], "none");
    found(vec![when(first_thread(), vec![Node::Return(None)]), Node::Barrier], "after a return");
    found(vec![when(name("n").less(5), vec![Node::Return(None)]), Node::Barrier], "none");
    found(vec![Node::Barrier, when(first_thread(), vec![Node::Return(None)])], "none");
    let leave = when(first_thread(), vec![Node::Return(None)]);
    found(vec![each("i", "n", Unroll::Default, vec![Node::Barrier, leave])], "after a return");
}

#[test]
fn barriers_behind_assignments() {
    // What is assigned at the end of a loop's body decides at its beginning.
    let grow = Node::Assign(name("a"), name("a") + name("threadIdx.x"));
    let body = vec![when(name("a").less(5), vec![Node::Barrier]), grow];
    found(vec![set("a", 1, true), each("i", "n", Unroll::Default, body)], "not every thread reaches");
    // Only some threads assign.
    let some = when(first_thread(), vec![Node::Assign(name("a"), int(2))]);
    found(vec![set("a", 1, true), some, when(name("a").less(2), vec![Node::Barrier])], "not every thread reaches");
    // Of a name that is free again, what it stood for before is nothing to what it stands for next.
    let varying = Node::Declare { ty: Type::I32.into(), name: "a".into(), value: Some(name("threadIdx.x")), mutable: false };
    let same = when(name("n").less(2), vec![set("a", 1, false), when(name("a").less(2), vec![Node::Barrier])]);
    found(vec![when(name("n").less(1), vec![varying.clone()]), same.clone()], "none");
    let other = when(name("n").less(2), vec![varying, when(name("a").less(2), vec![Node::Barrier])]);
    found(vec![same, other], "not every thread reaches");
    // What shared memory holds is the same for all who read the same place.
    let tile = Node::Array { ty: Type::I32.into(), name: "tile".into(), extents: vec![4], memory: Memory::Shared, zeroed: false };
    let store = Node::Assign(name("tile").at("threadIdx.x"), name("threadIdx.x"));
    let read = when(name("tile").at(0).less(2), vec![Node::Barrier]);
    found(vec![tile, store, Node::Barrier, read], "none");
}

#[test]
fn resources() {
    let shared = |name: &str, elements| Node::Array {
        ty: Type::F32.into(),
        name: name.into(),
        extents: vec![2, elements],
        memory: Memory::Shared,
        zeroed: false,
    };
    found(vec![shared("a", 6144)], "none");
    found(vec![shared("a", 3072), shared("b", 3073)], "bytes of static shared memory");
    let dynamic = |at| Node::Array {
        ty: Type::F32.into(),
        name: format!("at{at}"),
        extents: vec![100],
        memory: Memory::Dynamic(at),
        zeroed: false,
    };
    let of = |dynamic_shared, body| problem(vec![Launch { dynamic_shared, ..launch(body) }]);
    assert_eq!(of(800, vec![dynamic(0), dynamic(400)]), "none");
    assert!(of(799, vec![dynamic(0), dynamic(400)]).contains("dynamic shared memory"));
    assert!(of(800, vec![dynamic(0), dynamic(384)]).contains("dynamic shared memory"));
    for block in [[0, 1, 1], [1025, 1, 1], [1, 1, 65], [64, 64, 1]] {
        assert!(problem(vec![Launch { block, ..launch(vec![]) }]).contains("a block of"), "{block:?}");
    }
    assert!(problem(vec![Launch { resident: Some(9), ..launch(vec![]) }]).contains("resident"));
    assert!(problem(vec![launch(vec![]), launch(vec![])]).contains("two launches"));
}

#[test]
fn loops_and_references() {
    found(vec![each("i", "n", Unroll::Full, vec![])], "can't be unrolled completely");
    found(vec![each("i", 8, Unroll::Full, vec![])], "none");
    found(vec![each("i", 8, Unroll::By(0), vec![])], "no legal step");
    found(vec![set("a", call("index_ok", vec![int(0), int(1), int(0), name("n")]), false)], "no place has the number 0");
    let mut scratch = launch(vec![]);
    scratch.parameters[0].argument = Argument::Scratch(0);
    assert!(problem(vec![scratch]).contains("no scratch memory"));
    let published = |zeroed| {
        let mut launch = launch(vec![]);
        launch.parameters[1].ty = ParameterType::Published;
        launch.parameters[1].argument = Argument::Scratch(0);
        let scratch = vec![Scratch { name: "y".into(), bytes: 8.into(), zeroed }];
        verify(&Plan { launches: vec![launch], scratch, ..Plan::default() })
    };
    assert!(published(true).is_ok() && published(false).is_err());
}
