//! Sizes and conditions of a kernel as C++: what a launcher computes on the host. Names are those that its function has.

use std::collections::BTreeMap;

use gpukc_codegen::formula::{Formula, Op};
use gpukc_dsl::arena::Arena;
use gpukc_dsl::program::{DimId, Expr, ExprId, ExprKind, Literal, ScalarId};
use gpukc_dsl::types::{BinaryOp, Builtin, Type, UnaryOp};

/// Functions of the namespace `gpukc_host` that the expressions below call: gk's arithmetic where C++'s is another.
const HELPERS: &str = "\
inline int64_t quotient(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? int64_t(0 - uint64_t(a)) : a / b; }
inline int64_t remainder(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
inline int64_t div_floor(int64_t a, int64_t b) { return quotient(a, b) - (remainder(a, b) != 0 && (a < 0) != (b < 0)); }
inline int64_t mod_floor(int64_t a, int64_t b) { return remainder(a, b) + (remainder(a, b) != 0 && (a < 0) != (b < 0) ? b : 0); }
inline int64_t minimum(int64_t a, int64_t b) { return b < a ? b : a; }
inline int64_t maximum(int64_t a, int64_t b) { return a < b ? b : a; }
";

/// The helpers that a text calls, and those that these call: compilers warn of others.
pub fn helpers(text: &str) -> String {
    let mut taken: Vec<&str> = Vec::new();
    for helper in HELPERS.lines().rev() {
        let head = helper.split('(').next().unwrap_or_default();
        let call = format!("{}(", head.rsplit(' ').next().unwrap_or_default());
        if taken.iter().any(|taken| taken.contains(&call)) || text.contains(&format!("gpukc_host::{call}")) {
            taken.insert(0, helper);
        }
    }
    taken.iter().map(|helper| format!("{helper}\n")).collect()
}

/// Names of dims and scalars.
#[derive(Default)]
pub struct Names {
    pub dims: BTreeMap<DimId, String>,
    pub scalars: BTreeMap<ScalarId, String>,
}

impl Names {
    fn dim(&self, id: DimId) -> Option<String> {
        self.dims.get(&id).cloned()
    }
    fn scalar(&self, id: ScalarId) -> Option<String> {
        self.scalars.get(&id).cloned()
    }
}

/// A size. `None` if it has something that is not spelled here.
pub fn formula(formula: &Formula, names: &Names) -> Option<String> {
    let (op, a, b) = match formula {
        Formula::Constant(value) => return Some(integer((*value).into())),
        Formula::Dim(id, _) => return names.dim(*id),
        Formula::Scalar(id, _) => return names.scalar(*id).map(|name| format!("int64_t({name})")),
        Formula::Expression(expression) => return expr(expression.exprs(), expression.root(), names),
        Formula::Binary(op, a, b) => (*op, self::formula(a, names)?, self::formula(b, names)?),
    };
    let call = |name: &str| Some(format!("{name}({a}, {b})"));
    match op {
        Op::Add => Some(format!("({a} + {b})")),
        Op::Sub => Some(format!("({a} - {b})")),
        Op::Mul => Some(format!("({a} * {b})")),
        Op::DivFloor => call("gpukc_host::div_floor"),
        Op::ModFloor => call("gpukc_host::mod_floor"),
        Op::DivTruncate => call("gpukc_host::quotient"),
        Op::Remainder => call("gpukc_host::remainder"),
        Op::Min => call("gpukc_host::minimum"),
        Op::Max => call("gpukc_host::maximum"),
    }
}

fn integer(value: i128) -> String {
    match i64::try_from(value) {
        // The smallest has no literal.
        Ok(i64::MIN) => "INT64_MIN".to_owned(),
        Ok(value) if value.unsigned_abs() < 1 << 31 => value.to_string(),
        _ => format!("{value}ll"),
    }
}

/// An expression over dims and scalars: integers, comparisons and logic. `None` if it has anything else.
pub fn expr(exprs: &Arena<Expr>, id: ExprId, names: &Names) -> Option<String> {
    let node = &exprs[id];
    let below = |id: ExprId| expr(exprs, id, names);
    match &node.kind {
        ExprKind::Literal(Literal::Bool(value)) => Some(value.to_string()),
        ExprKind::Literal(Literal::Int(value)) if i64::try_from(*value).is_ok() => Some(integer(*value)),
        ExprKind::Dim(id) => names.dim(*id),
        ExprKind::Scalar(id) if is_plain(node.ty) => names.scalar(*id),
        ExprKind::Unary(UnaryOp::Not, a) if node.ty == Type::Bool => Some(format!("!{}", below(*a)?)),
        ExprKind::Unary(UnaryOp::Negate, a) if node.ty == Type::I64 => Some(format!("-{}", below(*a)?)),
        // Only what keeps every value.
        ExprKind::Cast(a) if node.ty == Type::I64 && is_plain(exprs[*a].ty) => Some(format!("int64_t({})", below(*a)?)),
        ExprKind::If { condition, then, otherwise } if is_plain(node.ty) => {
            Some(format!("({} ? {} : {})", below(*condition)?, below(*then)?, below(*otherwise)?))
        }
        ExprKind::Binary(op, a, b) => binary(*op, exprs[*a].ty, below(*a)?, below(*b)?),
        ExprKind::Builtin(builtin, arguments) if node.ty == Type::I64 => {
            let arguments: Vec<String> = arguments.iter().map(|a| below(*a)).collect::<Option<_>>()?;
            match (builtin, &arguments[..]) {
                (Builtin::Min, [a, b]) => Some(format!("gpukc_host::minimum({a}, {b})")),
                (Builtin::Max, [a, b]) => Some(format!("gpukc_host::maximum({a}, {b})")),
                (Builtin::DivFloor, [a, b]) => Some(format!("gpukc_host::div_floor({a}, {b})")),
                (Builtin::ModFloor, [a, b]) => Some(format!("gpukc_host::mod_floor({a}, {b})")),
                (Builtin::Clamp, [x, lo, hi]) => Some(format!("gpukc_host::minimum(gpukc_host::maximum({x}, {lo}), {hi})")),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Types whose values C++ compares and widens as gk does.
fn is_plain(ty: Type) -> bool {
    matches!(ty, Type::Bool | Type::I8 | Type::I16 | Type::I32 | Type::I64 | Type::U8 | Type::U16 | Type::U32)
}

fn binary(op: BinaryOp, ty: Type, a: String, b: String) -> Option<String> {
    use BinaryOp::*;
    let compares = matches!(op, Eq | Ne | Lt | Le | Gt | Ge);
    match op {
        And | Or => Some(format!("({a} {} {b})", op.symbol())),
        _ if compares && is_plain(ty) => Some(format!("({a} {} {b})", op.symbol())),
        _ if compares && matches!(ty, Type::F32 | Type::F64) => None,
        Add | Sub | Mul if ty == Type::I64 => Some(format!("({a} {} {b})", op.symbol())),
        Div if ty == Type::I64 => Some(format!("gpukc_host::quotient({a}, {b})")),
        Rem if ty == Type::I64 => Some(format!("gpukc_host::remainder({a}, {b})")),
        _ => None,
    }
}
