//! Statements: one a line, indented by four.

use std::collections::HashMap;

use gpukc_dsl::types::Type;

use crate::emit::WIDTH;
use crate::emit::expr::{spell, spell_as, type_name};
use crate::emit::header::prose;
use crate::emit::scope::{Scope, root};
use crate::plan::{CudaType, Expr, Memory, Node, Unroll, walk_nodes};

/// Writes the body of a function.
pub struct Writer {
    out: String,
    indent: usize,
    scope: Scope,
    /// What `return` converts to.
    result: Option<CudaType>,
    /// Bytes that wide accesses ask of an array.
    alignments: HashMap<String, usize>,
}

impl Writer {
    /// A body with these names in scope.
    pub fn new(scope: Scope, result: Option<CudaType>) -> Writer {
        Writer { out: String::new(), indent: 4, scope, result, alignments: HashMap::new() }
    }
    /// The text.
    pub fn finish(self) -> String {
        self.out
    }

    /// Arrays that are accessed in packs must be aligned for them.
    pub fn find_alignments(&mut self, nodes: &[Node]) {
        walk_nodes(nodes, &mut |expr| {
            if let (Expr::Wide(ty, lanes, ..), Some(name)) = (expr, root(expr)) {
                let bytes = ty.size() * *lanes as usize;
                let alignment = self.alignments.entry(name.into()).or_default();
                *alignment = bytes.max(*alignment);
            }
        });
    }

    /// Statements in the current scope.
    pub fn nodes(&mut self, nodes: &[Node]) {
        nodes.iter().for_each(|node| self.node(node));
    }

    pub fn line(&mut self, text: &str) {
        self.out += &format!("{:indent$}{text}\n", "", indent = self.indent);
    }

    /// `prefix expr suffix` on a line, or on several where it is too long.
    fn expression_line(&mut self, prefix: &str, expr: &Expr, ty: Option<Type>, suffix: &str) {
        let flat = spell_as(expr, ty, &self.scope, self.indent, 0);
        let width = self.indent + prefix.len() + suffix.len();
        let assigned = prefix.ends_with("= ");
        if assigned && width + flat.len() > WIDTH && 2 * prefix.len() > WIDTH && !flat.contains('\n') {
            self.line(prefix.trim_end());
            return self.line(&format!("    {flat}{suffix}"));
        }
        let spelled = spell_as(expr, ty, &self.scope, self.indent, width);
        self.line(&format!("{prefix}{spelled}{suffix}"));
    }

    fn block(&mut self, nodes: &[Node]) {
        let depth = self.scope.depth();
        self.indent += 4;
        self.nodes(nodes);
        self.indent -= 4;
        self.scope.leave(depth);
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Comment(text) => {
                let lines: Vec<String> = text.lines().map(str::to_string).collect();
                prose(&lines, self.indent).lines().for_each(|line| self.line(line));
            }
            Node::Declare { ty, name, value, mutable } => self.declare(ty, name, value.as_ref(), *mutable),
            Node::Array { ty, name, extents, memory, zeroed } => self.array(ty, name, extents, *memory, *zeroed),
            Node::Assign(place, value) => self.assign(place, value),
            Node::For { variable, ty, lo, hi, step, unroll, body } => {
                self.repeat(variable, ty, [lo, hi, step], *unroll, body);
            }
            Node::While(condition, body) => {
                self.expression_line("while (", condition, None, ") {");
                self.block(body);
                self.line("}");
            }
            Node::If { condition, then, otherwise } => self.branch("", condition, then, otherwise),
            Node::Barrier => self.line("__syncthreads();"),
            Node::Return(None) => self.line("return;"),
            Node::Return(Some(value)) => {
                let ty = self.result.as_ref().and_then(element);
                self.expression_line("return ", value, ty, ";");
            }
            Node::Call(function, arguments) => {
                self.expression_line("", &Expr::Call(function.clone(), arguments.clone()), None, ";");
            }
            Node::Reduce { .. } => self.reduce(node),
            Node::Scope(body) => {
                self.line("{");
                self.block(body);
                self.line("}");
            }
        }
    }

    fn declare(&mut self, ty: &CudaType, name: &str, value: Option<&Expr>, mutable: bool) {
        let constant = if mutable || value.is_none() { "" } else { "const " };
        match value {
            Some(value) => {
                self.expression_line(&format!("{constant}{} {name} = ", type_name(ty)), value, element(ty), ";");
            }
            None => self.line(&format!("{} {name};", type_name(ty))),
        }
        self.scope.declare(name, ty);
    }

    fn array(&mut self, ty: &CudaType, name: &str, extents: &[u32], memory: Memory, zeroed: bool) {
        if let Memory::Dynamic(at) = memory {
            return self.dynamic_array(ty, name, extents, at);
        }
        let shared = memory == Memory::Shared;
        let natural = match ty {
            CudaType::Element(ty) => ty.size(),
            CudaType::Pack(ty, lanes) => ty.size() * *lanes as usize,
            CudaType::Best(_) | CudaType::Class(..) => 16,
        };
        let alignment = self.alignments.get(name).filter(|bytes| **bytes > natural);
        let alignment = alignment.map(|bytes| format!("__align__({bytes}) ")).unwrap_or_default();
        let extents: String = extents.iter().map(|extent| format!("[{extent}]")).collect();
        let memory = if shared { "__shared__ " } else { "" };
        let value = if zeroed && !shared { " = {}" } else { "" };
        self.line(&format!("{memory}{alignment}{} {name}{extents}{value};", type_name(ty)));
        self.scope.declare(name, ty);
    }

    /// A pointer to rows, which is subscripted as the array would be; a reference, where there is one element.
    fn dynamic_array(&mut self, ty: &CudaType, name: &str, extents: &[u32], at: u32) {
        let ty_name = type_name(ty);
        let place = if at == 0 { "block_memory".to_string() } else { format!("&block_memory[{at}]") };
        if extents.is_empty() {
            self.line(&format!("{ty_name}& {name} = *({ty_name}*){place};"));
            return self.scope.declare(name, ty);
        }
        let rows: String = extents.iter().skip(1).map(|extent| format!("[{extent}]")).collect();
        let (declared, cast) = match rows.as_str() {
            "" => (format!("* {name}"), "*".to_string()),
            rows => (format!(" (*{name}){rows}"), format!(" (*){rows}")),
        };
        self.line(&format!("{ty_name}{declared} = ({ty_name}{cast}){place};"));
        self.scope.declare(name, ty);
    }

    fn assign(&mut self, place: &Expr, value: &Expr) {
        let target = spell(place, &self.scope);
        let ty = self.scope.type_of(place);
        match value {
            Expr::Binary(op @ ("+" | "-" | "*" | "/" | "%" | "&" | "|" | "^" | "<<" | ">>"), left, right) if **left == *place => {
                self.expression_line(&format!("{target} {op}= "), right, ty, ";");
            }
            _ => self.expression_line(&format!("{target} = "), value, ty, ";"),
        }
    }

    fn repeat(&mut self, variable: &str, ty: &CudaType, [lo, hi, step]: [&Expr; 3], unroll: Unroll, body: &[Node]) {
        match unroll {
            Unroll::Default => {}
            Unroll::Full => self.line("#pragma unroll"),
            Unroll::By(factor) => self.line(&format!("#pragma unroll {factor}")),
        }
        let depth = self.scope.depth();
        let start = spell_as(lo, element(ty), &self.scope, self.indent, 0);
        self.scope.declare(variable, ty);
        let end = spell(&Expr::Binary("<", Box::new(Expr::Name(variable.into())), Box::new(hi.clone())), &self.scope);
        let advance = match step {
            Expr::Int(1, _) => format!("{variable}++"),
            step => format!("{variable} += {}", spell_as(step, element(ty), &self.scope, self.indent, 0)),
        };
        let head = [format!("{} {variable} = {start};", type_name(ty)), format!("{end};"), advance];
        let flat = format!("for ({}) {{", head.join(" "));
        if self.indent + flat.len() <= WIDTH {
            self.line(&flat);
        } else {
            self.line("for (");
            head.iter().for_each(|part| self.line(&format!("    {part}")));
            self.line(") {");
        }
        self.block(body);
        self.line("}");
        self.scope.leave(depth);
    }

    fn branch(&mut self, prefix: &str, condition: &Expr, then: &[Node], otherwise: &[Node]) {
        if let ([Node::Return(None)], [], "") = (then, otherwise, prefix) {
            return self.expression_line("if (", condition, None, ") return;");
        }
        self.expression_line(&format!("{prefix}if ("), condition, None, ") {");
        self.block(then);
        match otherwise {
            [] => self.line("}"),
            [Node::If { condition, then, otherwise }] => self.branch("} else ", condition, then, otherwise),
            _ => {
                self.line("} else {");
                self.block(otherwise);
                self.line("}");
            }
        }
    }

    fn reduce(&mut self, node: &Node) {
        let Node::Reduce { name, ty, helper, arguments, accumulator, term, body, value } = node else { return };
        let (levels, arguments) = match arguments.split_first() {
            Some((Expr::Int(levels, _), rest)) => (Some(levels.to_string()), rest),
            _ => (None, &arguments[..]),
        };
        let identity = arguments.iter().rev().find(|argument| !matches!(argument, Expr::Call(..)));
        let explicit = if identity.is_some_and(|identity| says(identity, ty)) { None } else { Some(type_name(ty)) };
        let template: Vec<String> = levels.into_iter().chain(explicit).collect();
        let template = if template.is_empty() { String::new() } else { format!("<{}>", template.join(", ")) };
        let spelled: Vec<String> = arguments.iter().map(|argument| spell(argument, &self.scope)).collect();
        let result = type_name(ty);
        let head = format!("const {result} {name} = {helper}{template}(");
        let rest = format!("{}, [&]({result} {accumulator}, long long {term}) {{", spelled.join(", "));
        let flat = self.indent + head.len() + rest.len() <= WIDTH;
        if flat {
            self.line(&(head + &rest));
        } else {
            self.line(&head);
            self.indent += 4;
            self.line(&rest);
        }
        self.step(ty, [accumulator, term], body, value);
        if flat {
            self.line("});");
        } else {
            self.line("}");
            self.indent -= 4;
            self.line(");");
        }
        self.scope.declare(name, ty);
    }

    /// The body of the function that takes a term into an accumulator.
    fn step(&mut self, ty: &CudaType, [accumulator, term]: [&String; 2], body: &[Node], value: &Expr) {
        let depth = self.scope.depth();
        self.scope.declare(accumulator, ty);
        self.scope.declare(term, &CudaType::Element(Type::I64));
        let outer = self.result.replace(ty.clone());
        self.indent += 4;
        self.nodes(body);
        self.expression_line("return ", value, element(ty), ";");
        self.indent -= 4;
        self.result = outer;
        self.scope.leave(depth);
    }
}

/// Whether a literal's spelling gives it this type.
fn says(literal: &Expr, ty: &CudaType) -> bool {
    match literal {
        Expr::Int(_, own) => *ty == CudaType::Element(*own) && own.size() >= 4,
        Expr::Float(_, own) => *ty == CudaType::Element(*own) && own.size() >= 4,
        Expr::Bool(_) => *ty == CudaType::Element(Type::Bool),
        _ => false,
    }
}

fn element(ty: &CudaType) -> Option<Type> {
    if let CudaType::Element(ty) = ty { Some(*ty) } else { None }
}
