//! A program as text: one line per statement in index notation, with every type, cast, order and bound that the checker
//! decided. Stable, for snapshots; not gk.

use super::*;
use std::fmt::Write;

/// The text of a program.
pub fn print(program: &Program) -> String {
    let mut out = String::new();
    for (_, function) in program.functions.iter() {
        self::function(program, function, &mut out);
    }
    for kernel in &program.kernels {
        self::kernel(program, kernel, &mut out);
    }
    out
}

/// Names and expressions to print from.
struct Printer<'p> {
    exprs: &'p Arena<Expr>,
    kernel: Option<&'p Kernel>,
    locals: Option<&'p Arena<Local>>,
    program: Option<&'p Program>,
    /// Whether types, bounds and orders are marked.
    marks: bool,
}

/// The text of an expression over dims, scalars and variables, as it would be written.
pub fn expr(kernel: &Kernel, id: ExprId) -> String {
    Printer { exprs: &kernel.exprs, kernel: Some(kernel), locals: None, program: None, marks: false }.text(id, 0)
}

fn kernel(program: &Program, kernel: &Kernel, out: &mut String) {
    let p = Printer { exprs: &kernel.exprs, kernel: Some(kernel), locals: None, program: Some(program), marks: true };
    let parameters: Vec<String> = kernel
        .parameters
        .iter()
        .map(|parameter| match *parameter {
            Parameter::Scalar(id) => format!("{}: {}", kernel.scalars[id].name, kernel.scalars[id].ty),
            Parameter::Array(id) => p.array(id),
        })
        .collect();
    let results: Vec<String> = kernel.results.iter().map(|&id| p.array(id)).collect();
    let _ = writeln!(out, "kernel {}({}) -> ({})", kernel.name, parameters.join(", "), results.join(", "));
    if kernel.attributes != Attributes::default() {
        let _ = writeln!(out, "  {}", attributes(&kernel.attributes).trim_end());
    }
    for (_, dim) in kernel.dims.iter() {
        let _ = writeln!(out, "  dim {} = axis {} of {}", dim.name, dim.axis, kernel.arrays[dim.array].name);
    }
    for (id, array) in kernel.arrays.iter().filter(|(_, array)| array.role == Role::Let) {
        let _ = array;
        let _ = writeln!(out, "  let {}", p.array(id));
    }
    for condition in &kernel.conditions {
        let reason = match &condition.reason {
            ConditionReason::Where(text) => format!("where {text}"),
            ConditionReason::Extent(array, axis) => format!("extent {axis} of {}", kernel.arrays[*array].name),
            ConditionReason::NotNegative(array, axis, _) => format!("extent {axis} of {} is not negative", kernel.arrays[*array].name),
            ConditionReason::InRange(array, axis, value) => {
                format!("index {} on axis {axis} of {}", p.text(*value, 0), kernel.arrays[*array].name)
            }
        };
        let _ = writeln!(out, "  require {}  // {reason}", p.text(condition.holds, 0));
    }
    for statement in &kernel.statements {
        let _ = writeln!(out, "  {}", p.statement(statement));
    }
}

fn attributes(attributes: &Attributes) -> String {
    let mut out = String::new();
    let flags = [
        (attributes.fast_math, "@fast_math "),
        (attributes.deterministic, "@deterministic "),
        (attributes.tf32, "@tf32 "),
        (attributes.exact, "@exact "),
    ];
    flags.iter().filter(|(on, _)| *on).for_each(|(_, text)| out.push_str(text));
    if let Some((block, _)) = attributes.block {
        let _ = write!(out, "@block({block}) ");
    }
    if !attributes.tile.is_empty() {
        let tiles: Vec<String> = attributes.tile.iter().map(|(name, size, _)| format!("{name} = {size}")).collect();
        let _ = write!(out, "@tile({}) ", tiles.join(", "));
    }
    if let Some((unroll, _)) = attributes.unroll {
        let _ = write!(out, "@unroll({unroll}) ");
    }
    out
}

fn function(program: &Program, function: &Function, out: &mut String) {
    let p = Printer { exprs: &function.exprs, kernel: None, locals: Some(&function.locals), program: Some(program), marks: true };
    let parameters: Vec<String> =
        function.locals.iter().take(function.parameters).map(|(_, local)| format!("{}: {}", local.name, local.ty)).collect();
    let _ = writeln!(out, "fn {}({}) -> {}", function.name, parameters.join(", "), function.result);
    for (id, local) in function.locals.iter().skip(function.parameters) {
        let _ = writeln!(out, "  local {}: {}", p.local(id), local.ty);
    }
    p.locals(&function.body, 1, out);
    let _ = writeln!(out, "  {}", p.text(function.value, 0));
}

impl Printer<'_> {
    fn array(&self, id: ArrayId) -> String {
        let Some(kernel) = self.kernel else { return String::new() };
        let array = &kernel.arrays[id];
        let shape: Vec<String> = array.shape.iter().map(|&extent| self.text(extent, 0)).collect();
        match shape.len() {
            0 => format!("{}: {}", array.name, array.element),
            _ => format!("{}: {}[{}]", array.name, array.element, shape.join(", ")),
        }
    }

    fn local(&self, id: LocalId) -> String {
        match self.locals {
            Some(locals) => format!("{}.{}", locals[id].name, id.index()),
            None => format!("{id:?}"),
        }
    }

    fn variable(&self, id: VariableId) -> String {
        self.kernel.map_or_else(|| format!("{id:?}"), |kernel| kernel.variables[id].name.clone())
    }

    fn locals(&self, statements: &[LocalStatement], depth: usize, out: &mut String) {
        let indent = "  ".repeat(depth);
        for statement in statements {
            match statement {
                LocalStatement::Set(local, value) => {
                    let _ = writeln!(out, "{indent}{} = {}", self.local(*local), self.text(*value, 0));
                }
                LocalStatement::While(condition, body) => {
                    let _ = writeln!(out, "{indent}while {}", self.text(*condition, 0));
                    self.locals(body, depth + 1, out);
                }
                LocalStatement::For(local, lo, hi, body) => {
                    let _ = writeln!(out, "{indent}for {} in {}..{}", self.local(*local), self.text(*lo, 0), self.text(*hi, 0));
                    self.locals(body, depth + 1, out);
                }
                LocalStatement::If(condition, then, otherwise) => {
                    let _ = writeln!(out, "{indent}if {}", self.text(*condition, 0));
                    self.locals(then, depth + 1, out);
                    if !otherwise.is_empty() {
                        let _ = writeln!(out, "{indent}else");
                        self.locals(otherwise, depth + 1, out);
                    }
                }
            }
        }
    }

    fn ranges(&self, ranges: &[Ranged]) -> String {
        let all: Vec<String> = ranges
            .iter()
            .map(|ranged| format!("{} in {}..{}", self.variable(ranged.variable), self.text(ranged.lo, 0), self.text(ranged.hi, 0)))
            .collect();
        all.join(", ")
    }

    fn statement(&self, statement: &Statement) -> String {
        let Some(kernel) = self.kernel else { return String::new() };
        let array = &kernel.arrays[statement.array];
        let left = self.element(&array.name, &statement.subscripts);
        let op = match statement.kind {
            StatementKind::Define => "=".to_string(),
            StatementKind::Accumulate { op, from_identity: true } => format!("{op} (from identity)"),
            StatementKind::Accumulate { op, .. } => op.to_string(),
        };
        let over = if statement.variables.is_empty() { String::new() } else { format!("for {}: ", self.ranges(&statement.variables)) };
        let marks = if statement.attributes == kernel.attributes { String::new() } else { attributes(&statement.attributes) };
        format!("{marks}{over}{left}: {} {op} {}", array.element, self.text(statement.value, 0))
    }

    fn element(&self, name: &str, subscripts: &[Subscript]) -> String {
        if subscripts.is_empty() {
            return name.to_string();
        }
        let all: Vec<String> = subscripts.iter().map(|subscript| self.subscript(subscript)).collect();
        format!("{name}[{}]", all.join(", "))
    }

    fn subscript(&self, subscript: &Subscript) -> String {
        let index = self.text(subscript.index, 0);
        let mark = match &subscript.bounds {
            Bounds::Proved => return index,
            Bounds::Checked if !self.marks => return index,
            Bounds::Checked => "checked".to_string(),
            Bounds::Assumed => "assume".to_string(),
            Bounds::Clamp => "clamp".to_string(),
            Bounds::Wrap => "wrap".to_string(),
            Bounds::Mirror => "mirror".to_string(),
            Bounds::Symmetric => "symmetric".to_string(),
            Bounds::Drop => "drop".to_string(),
            Bounds::Constant(value) => self.text(*value, 0),
        };
        format!("{index} | {mark}")
    }

    fn order(&self, reduce: &Reduce) -> String {
        let order = match &reduce.order {
            Order::Exact => "exact".to_string(),
            Order::Canonical => "canonical".to_string(),
            Order::Sharing(free) => {
                let free: Vec<String> = free.iter().map(|&variable| self.variable(variable)).collect();
                format!("sharing {}", free.join(" "))
            }
            Order::Scan(scan) => {
                let direction = if scan.direction == Direction::Forward { "forward" } else { "backward" };
                let ends = if scan.inclusive { "inclusive" } else { "exclusive" };
                format!("scan along {}, {direction}, {ends}", self.variable(scan.along))
            }
        };
        if reduce.fused { format!("{order}, fused") } else { order }
    }

    /// An expression; `above` is the precedence around it.
    fn text(&self, id: ExprId, above: u8) -> String {
        let expr = &self.exprs[id];
        let (text, own) = match &expr.kind {
            ExprKind::Binary(..) => return self.chain(id, above),
            ExprKind::Literal(value) => (self.literal(*value, expr.ty), 20),
            ExprKind::Dim(dim) => (self.kernel.map_or_else(|| format!("{dim:?}"), |kernel| kernel.dims[*dim].name.clone()), 20),
            ExprKind::Scalar(id) => (self.kernel.map_or_else(|| format!("{id:?}"), |kernel| kernel.scalars[*id].name.clone()), 20),
            ExprKind::Variable(variable) => (self.variable(*variable), 20),
            ExprKind::Local(local) => (self.local(*local), 20),
            ExprKind::Read { array, subscripts } => {
                let name = self.kernel.map_or_else(String::new, |kernel| kernel.arrays[*array].name.clone());
                (self.element(&name, subscripts), 20)
            }
            ExprKind::Reduce(reduce) => (self.reduce(reduce, expr.ty), 0),
            ExprKind::Unary(op, a) => {
                let symbol = if *op == UnaryOp::Negate { "-" } else { "!" };
                (format!("{symbol}{}", self.text(*a, 12)), 12)
            }
            ExprKind::Cast(a) if !self.marks => return self.text(*a, above),
            ExprKind::Cast(a) => (format!("{} as {}", self.text(*a, 11), expr.ty), 1),
            ExprKind::If { condition, then, otherwise } => {
                let [condition, then, otherwise] = [condition, then, otherwise].map(|&id| self.text(id, 0));
                (format!("if {condition} {{ {then} }} else {{ {otherwise} }}"), 0)
            }
            ExprKind::Builtin(builtin, arguments) => (self.call(builtin.name(), arguments), 20),
            ExprKind::Call(function, arguments) => {
                let name = self.program.map_or_else(|| "fn".to_string(), |program| program.functions[*function].name.clone());
                (self.call(&name, arguments), 20)
            }
        };
        if own < above { format!("({text})") } else { text }
    }

    /// Operators down the left side, without recursion.
    fn chain(&self, id: ExprId, above: u8) -> String {
        let mut links = Vec::new();
        let mut left = id;
        let mut around = above;
        while let ExprKind::Binary(op, a, b) = &self.exprs[left].kind {
            let own = op.precedence();
            links.push((*op, *b, own < around));
            left = *a;
            around = if op.is_comparison() { own + 1 } else { own };
        }
        let mut text = self.text(left, around);
        for (op, b, wrapped) in links.into_iter().rev() {
            text = format!("{text} {} {}", op.symbol(), self.text(b, op.precedence() + 1));
            if wrapped {
                text = format!("({text})");
            }
        }
        text
    }

    fn call(&self, name: &str, arguments: &[ExprId]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|&argument| self.text(argument, 0)).collect();
        format!("{name}({})", arguments.join(", "))
    }

    fn reduce(&self, reduce: &Reduce, ty: Type) -> String {
        let filter = reduce.filter.map_or_else(String::new, |filter| format!(" if {}", self.text(filter, 0)));
        let nested = matches!(self.exprs[reduce.body].kind, ExprKind::Reduce(_) | ExprKind::Cast(_));
        let body = self.text(reduce.body, if nested { 0 } else { 10 });
        let mark = if self.marks { format!("<{ty}, {}>", self.order(reduce)) } else { String::new() };
        format!("{}{mark}[{}{filter}] {body}", reduce.reducer, self.ranges(&reduce.variables))
    }

    fn literal(&self, value: Literal, ty: Type) -> String {
        let text = match value {
            Literal::Bool(value) => return value.to_string(),
            Literal::Int(value) => value.to_string(),
            Literal::Float(value) if value.is_nan() => "NAN".to_string(),
            Literal::Float(value) if value.is_infinite() => if value > 0.0 { "INF" } else { "-INF" }.to_string(),
            Literal::Float(value) => shortest(value, ty),
        };
        if self.marks && ty != Type::I64 { format!("{text}{ty}") } else { text }
    }
}

/// The shortest decimal that is the value in its type.
fn shortest(value: f64, ty: Type) -> String {
    match ty {
        Type::F64 => format!("{value:?}"),
        _ => format!("{:?}", value as f32),
    }
}
