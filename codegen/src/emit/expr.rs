//! Expressions, with only the parentheses that they need or that a reader would miss; broken where they are too long.

use gpukc_dsl::types::Type;

use crate::emit::scope::Scope;
use crate::emit::{WIDTH, library, literals};
use crate::plan::{CudaType, Expr};

/// A type as CUDA spells it.
pub fn type_name(ty: &CudaType) -> String {
    match ty {
        CudaType::Element(ty) => element_name(*ty).into(),
        CudaType::Pack(ty, lanes) => format!("Pack<{}, {lanes}>", element_name(*ty)),
        CudaType::Best(ty) => format!("Best<{}>", element_name(*ty)),
        CudaType::Class(class, ty) => format!("{class}<{}>", element_name(*ty)),
    }
}

/// An element type as CUDA spells it.
pub fn element_name(ty: Type) -> &'static str {
    match ty {
        Type::Bool => "bool",
        Type::I8 => "signed char",
        Type::I16 => "short",
        Type::I32 => "int",
        Type::I64 => "long long",
        Type::U8 => "unsigned char",
        Type::U16 => "unsigned short",
        Type::U32 => "unsigned int",
        Type::U64 => "unsigned long long",
        Type::F16 => "f16",
        Type::Bf16 => "bf16",
        Type::F32 => "float",
        Type::F64 => "double",
    }
}

/// An expression on one line.
pub fn spell(expr: &Expr, scope: &Scope) -> String {
    Speller { scope, width: usize::MAX }.layout(&without_idle_casts(expr, scope), None, 0, 0)
}

/// An expression that becomes a value of type `ty`, on lines indented by `indent`, the first starting at `column`.
pub fn spell_as(expr: &Expr, ty: Option<Type>, scope: &Scope, indent: usize, column: usize) -> String {
    Speller { scope, width: WIDTH }.layout(&without_idle_casts(expr, scope), ty, indent, column)
}

/// The expression without casts to the type that an operand has anyhow.
fn without_idle_casts(expr: &Expr, scope: &Scope) -> Expr {
    let inner = |a: &Expr| Box::new(without_idle_casts(a, scope));
    let all = |exprs: &[Expr]| exprs.iter().map(|a| without_idle_casts(a, scope)).collect();
    match expr {
        Expr::Cast(ty, a) => match (ty, *inner(a)) {
            (CudaType::Element(ty), Expr::Int(value, own)) if ty.size() >= 4 && represents(*ty, value, own) => Expr::Int(value, *ty),
            (CudaType::Element(ty), a) if scope.type_of(&a) == Some(*ty) && !is_narrow_literal(&a) => a,
            (ty, a) => Expr::Cast(ty.clone(), Box::new(a)),
        },
        Expr::Int(..) | Expr::Float(..) | Expr::Bool(_) | Expr::Name(_) => expr.clone(),
        Expr::Element(array, indices) => Expr::Element(inner(array), all(indices)),
        Expr::Lane(pack, lane) => Expr::Lane(inner(pack), inner(lane)),
        Expr::Wide(ty, lanes, array, index) => Expr::Wide(*ty, *lanes, inner(array), inner(index)),
        Expr::Unary(op, a) => Expr::Unary(op, inner(a)),
        Expr::Binary(op, a, b) => Expr::Binary(op, inner(a), inner(b)),
        Expr::Conditional(a, b, c) => Expr::Conditional(inner(a), inner(b), inner(c)),
        Expr::Call(function, arguments) => {
            let arguments: Vec<Expr> = arguments.iter().map(narrow_literals_cast).collect();
            Expr::Call(function.clone(), all(&arguments))
        }
    }
}

/// A literal of a type that C++ has no suffix for: it is spelled as one of a wider type.
fn is_narrow_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Int(_, Type::I8 | Type::I16 | Type::U8 | Type::U16) | Expr::Float(_, Type::F16 | Type::Bf16))
}

fn represents(ty: Type, value: i128, own: Type) -> bool {
    let (lowest, highest) = ty.integer_range();
    ty.is_integer() && own.is_integer() && (lowest..=highest).contains(&value)
}

/// C++'s precedences; larger binds tighter.
const POSTFIX: u8 = 16;
const UNARY: u8 = 15;
const CONDITIONAL: u8 = 2;

fn binary_precedence(op: &str) -> u8 {
    match op {
        "*" | "/" | "%" => 13,
        "+" | "-" => 12,
        "<<" | ">>" => 11,
        "<" | "<=" | ">" | ">=" => 9,
        "==" | "!=" => 8,
        "&" => 7,
        "^" => 6,
        "|" => 5,
        "&&" => 4,
        _ => 3,
    }
}

fn precedence(expr: &Expr) -> u8 {
    match expr {
        Expr::Int(value, ty) if literals::integer(*value, *ty, true).starts_with('-') => UNARY,
        Expr::Float(value, ty) if literals::float(*value, *ty).starts_with('-') => UNARY,
        Expr::Int(..) | Expr::Float(..) | Expr::Bool(_) | Expr::Name(_) => POSTFIX,
        Expr::Element(..) | Expr::Lane(..) | Expr::Call(..) => POSTFIX,
        Expr::Unary(..) | Expr::Cast(..) | Expr::Wide(..) => UNARY,
        Expr::Binary(op, ..) => binary_precedence(op),
        Expr::Conditional(..) => CONDITIONAL,
    }
}

/// Whether an operand of `outer` reads better in parentheses that the grammar does not ask for: what `-Wparentheses` says.
fn confusing(outer: &str, inner: &Expr) -> bool {
    let Expr::Binary(inner, ..) = inner else { return false };
    let comparison = (8..=9).contains(&binary_precedence(inner));
    match outer {
        "||" => *inner == "&&",
        "<<" | ">>" => matches!(*inner, "+" | "-"),
        "&" => comparison || matches!(*inner, "+" | "-"),
        "^" => comparison || matches!(*inner, "+" | "-" | "&"),
        "|" => comparison || matches!(*inner, "+" | "-" | "&" | "^"),
        "==" | "!=" | "<" | "<=" | ">" | ">=" => comparison,
        _ => false,
    }
}

struct Speller<'a> {
    scope: &'a Scope,
    width: usize,
}

/// Which operand.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Left,
    Right,
}

impl Speller<'_> {
    /// `wanted`: the type that the context makes of the value.
    fn layout(&self, expr: &Expr, wanted: Option<Type>, indent: usize, column: usize) -> String {
        if self.width != usize::MAX {
            let flat = Speller { scope: self.scope, width: usize::MAX }.layout(expr, wanted, 0, 0);
            if column + flat.len() <= self.width {
                return flat;
            }
        }
        match expr {
            Expr::Int(value, ty) => {
                let bare = matches!(wanted, Some(Type::I64 | Type::U64 | Type::F32 | Type::F64));
                literals::integer(*value, *ty, bare)
            }
            Expr::Float(value, ty) => literals::float(*value, *ty),
            Expr::Bool(value) => value.to_string(),
            Expr::Name(name) => name.clone(),
            Expr::Element(array, indices) => self.element(array, indices),
            Expr::Lane(pack, lane) => format!("{}.at[{}]", self.tight(pack, POSTFIX), self.index(lane)),
            Expr::Wide(ty, lanes, array, index) => self.wide(*ty, *lanes, array, index),
            Expr::Unary(op, a) => self.unary(op, a),
            Expr::Cast(ty, a) => {
                let head = format!("({})", type_name(ty));
                let target = if let CudaType::Element(ty) = ty { Some(*ty) } else { None };
                let bare = target.filter(|_| matches!(**a, Expr::Int(..))).map(|_| Type::I64);
                let column = column + head.len();
                head + &self.enclosed(a, precedence(a) < UNARY, bare, indent, column)
            }
            Expr::Binary(op, a, b) => self.binary(op, a, b, indent, column),
            Expr::Conditional(condition, a, b) => self.conditional(condition, a, b, wanted, indent, column),
            Expr::Call(function, arguments) => self.call(function, arguments, indent),
        }
    }

    /// Starts a further line, unless all stands on one.
    fn line(&self, indent: usize) -> String {
        if self.width == usize::MAX { " ".into() } else { format!("\n{:indent$}", "") }
    }

    fn enclosed(&self, expr: &Expr, parentheses: bool, wanted: Option<Type>, indent: usize, column: usize) -> String {
        if parentheses {
            format!("({})", self.layout(expr, wanted, indent + 4, column + 1))
        } else {
            self.layout(expr, wanted, indent, column)
        }
    }

    /// On one line, in parentheses if it binds less tightly than `outer`.
    fn tight(&self, expr: &Expr, outer: u8) -> String {
        let flat = Speller { scope: self.scope, width: usize::MAX };
        flat.enclosed(expr, precedence(expr) < outer, None, 0, 0)
    }

    fn index(&self, expr: &Expr) -> String {
        Speller { scope: self.scope, width: usize::MAX }.layout(expr, Some(Type::I64), 0, 0)
    }

    fn element(&self, array: &Expr, indices: &[Expr]) -> String {
        let subscripts: String = indices.iter().map(|index| format!("[{}]", self.index(index))).collect();
        self.tight(array, POSTFIX) + &subscripts
    }

    fn wide(&self, ty: Type, lanes: u32, array: &Expr, index: &Expr) -> String {
        let constant = if self.scope.is_constant(array) { "const " } else { "" };
        let pack = type_name(&CudaType::Pack(ty, lanes));
        let array = self.tight(array, POSTFIX);
        match self.index(index).as_str() {
            "0" => format!("*({constant}{pack}*){array}"),
            index => format!("*({constant}{pack}*)&{array}[{index}]"),
        }
    }

    fn unary(&self, op: &str, a: &Expr) -> String {
        // The address of what a cast pointer points to is that pointer.
        if let ("&", Expr::Wide(ty, lanes, array, index)) = (op, a) {
            return self.wide(*ty, *lanes, array, index).trim_start_matches('*').to_string();
        }
        let operand = self.tight(a, UNARY);
        if op == "-" && operand.starts_with('-') { format!("-({operand})") } else { format!("{op}{operand}") }
    }

    fn binary(&self, op: &'static str, a: &Expr, b: &Expr, indent: usize, column: usize) -> String {
        // A chain of one precedence breaks before each of its operators.
        let mut links = vec![(op, b, a)];
        let mut first = a;
        while let Expr::Binary(inner, a, b) = first {
            if binary_precedence(inner) != binary_precedence(op) || confusing(op, first) {
                break;
            }
            links.push((inner, b, a));
            first = a;
        }
        let outer = links.last().map_or(op, |(op, ..)| op);
        let sibling = links.last().map(|(_, right, _)| *right);
        let mut out = self.operand(outer, first, sibling, Side::Left, indent, column);
        for (op, right, left) in links.into_iter().rev() {
            let (op, right) = cancelled(op, right);
            out += &self.line(indent + 4);
            out += op;
            out += " ";
            out += &self.operand(op, &right, Some(left), Side::Right, indent + 4, indent + 5 + op.len());
        }
        out
    }

    fn operand(&self, op: &str, expr: &Expr, sibling: Option<&Expr>, side: Side, indent: usize, column: usize) -> String {
        let wanted = match (op, side) {
            ("<<" | ">>", Side::Left) | ("&&" | "||", _) => None,
            ("<<" | ">>", Side::Right) => Some(Type::I64),
            (_, Side::Left) => sibling.filter(|right| has_type(right)).and_then(|right| self.scope.type_of(right)),
            _ => sibling.and_then(|sibling| self.scope.type_of(sibling)),
        };
        let outer = binary_precedence(op);
        let inner = precedence(expr);
        let loose = inner < outer || inner == outer && side == Side::Right && !matches!(op, "&&" | "||");
        let glued = op == "-" && side == Side::Right && self.index(expr).starts_with('-');
        self.enclosed(expr, loose || glued || confusing(op, expr), wanted, indent, column)
    }

    fn conditional(&self, c: &Expr, a: &Expr, b: &Expr, wanted: Option<Type>, indent: usize, column: usize) -> String {
        let known = |sibling| wanted.or_else(|| self.scope.type_of(sibling));
        let condition = self.enclosed(c, precedence(c) <= CONDITIONAL, None, indent, column);
        let of_then = if has_type(b) { known(b) } else { wanted };
        let then = self.enclosed(a, precedence(a) <= CONDITIONAL, of_then, indent + 4, indent + 6);
        let otherwise = self.layout(b, known(a), indent + 4, indent + 6);
        format!("{condition}{line}? {then}{line}: {otherwise}", line = self.line(indent + 4))
    }

    fn call(&self, function: &str, arguments: &[Expr], indent: usize) -> String {
        let (template, arguments) = match arguments.split_first() {
            Some((Expr::Int(value, _), rest)) if library::takes_constant(function) => (format!("<{value}>"), rest),
            _ => (String::new(), arguments),
        };
        let longest = arguments.iter().any(|argument| self.scope.type_of(argument) == Some(Type::I64));
        let spelled = arguments.iter().map(|argument| match argument {
            // The prelude's templates ask for one type: a literal takes that of its neighbour.
            Expr::Int(value, Type::I32) if longest && library::is_helper(function) => literals::integer(*value, Type::I64, false),
            Expr::Int(value, ty @ (Type::I8 | Type::I16 | Type::U8 | Type::U16)) => format!("({}){value}", element_name(*ty)),
            Expr::Float(value, ty @ (Type::F16 | Type::Bf16)) => {
                format!("({}){}", element_name(*ty), literals::float(*value, *ty))
            }
            argument => self.layout(argument, None, indent + 4, indent + 4),
        });
        let spelled: Vec<String> = spelled.collect();
        if self.width == usize::MAX || arguments.is_empty() {
            return format!("{function}{template}({})", spelled.join(", "));
        }
        let (line, last) = (self.line(indent + 4), self.line(indent));
        format!("{function}{template}({line}{}{last})", spelled.join(&format!(",{line}")))
    }
}

/// Whether C++ knows the type of an expression whose literals have no suffixes: not if it is made of literals alone.
fn has_type(expr: &Expr) -> bool {
    match expr {
        Expr::Int(..) => false,
        Expr::Conditional(_, a, b) | Expr::Binary(_, a, b) => has_type(a) || has_type(b),
        Expr::Unary(_, a) => has_type(a),
        _ => true,
    }
}

/// `c ? x : 7` of a narrow type is `c ? x : (short)7`: else C++ makes an int of it, which a template that asks for one type refuses.
fn narrow_literals_cast(expr: &Expr) -> Expr {
    match expr {
        Expr::Conditional(c, a, b) => {
            let side = |x: &Expr| match x {
                Expr::Int(_, ty) | Expr::Float(_, ty) if is_narrow_literal(x) => x.clone().cast(*ty),
                x => narrow_literals_cast(x),
            };
            Expr::Conditional(c.clone(), Box::new(side(a)), Box::new(side(b)))
        }
        expr => expr.clone(),
    }
}

/// `a + -5` is `a - 5`, and `a - -5` is `a + 5`.
fn cancelled(op: &'static str, right: &Expr) -> (&'static str, Expr) {
    let flipped = match (op, right) {
        ("+", _) => "-",
        ("-", _) => "+",
        _ => return (op, right.clone()),
    };
    match right {
        Expr::Int(value, ty) if *value < 0 && ty.integer_range().0 < *value => (flipped, Expr::Int(-value, *ty)),
        Expr::Float(value, ty) if *value < 0.0 => (flipped, Expr::Float(-value, *ty)),
        _ => (op, right.clone()),
    }
}
