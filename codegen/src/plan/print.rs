//! The stable text form of plans. Decisions stand out: memory, loops, widths, barriers, launch sizes.

use std::fmt::{self, Write};

use crate::emit::expr::{element_name, spell, type_name};
use crate::emit::scope::Scope;
use crate::formula::Formula;
use crate::kernel::Argument;
use crate::plan::{CudaType, Expr, Launch, Memory, Node, Parameter, ParameterType, Plan, Unroll};

/// A plan's text form.
pub fn print(plan: &Plan) -> String {
    plan.to_string()
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan {}", self.name)?;
        for (index, scratch) in self.scratch.iter().enumerate() {
            let zeroed = if scratch.zeroed { ", zeroed" } else { "" };
            writeln!(f, "  scratch {index} {}: {} bytes{zeroed}", scratch.name, scratch.bytes)?;
        }
        for (index, site) in self.sites.iter().enumerate() {
            writeln!(f, "  site {index}: {} axis {}", site.array, site.axis)?;
        }
        self.launches.iter().try_for_each(|launch| launch.fmt(f))
    }
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |extents: &[Formula]| extents.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        writeln!(f, "launch {} by {}", self.entry, self.schedule)?;
        let fewer = if self.striding { ", at most what runs at once" } else { "" };
        writeln!(f, "  grid {}{fewer}", list(&self.grid))?;
        let [x, y, z] = self.block;
        let resident = self.resident.map(|blocks| format!(", {blocks} resident")).unwrap_or_default();
        writeln!(f, "  block {x}, {y}, {z}{resident}")?;
        if self.cluster > 1 {
            writeln!(f, "  clusters of {} blocks", self.cluster)?;
        }
        if self.dynamic_shared > 0 {
            writeln!(f, "  dynamic shared memory {} bytes", self.dynamic_shared)?;
        }
        if self.overlapping {
            f.write_str("  overlaps the launch before\n")?;
        }
        self.parameters.iter().try_for_each(|parameter| writeln!(f, "  {parameter}"))?;
        f.write_str("  body\n")?;
        let mut printer = Printer { out: f, scope: Scope::of_launch(&self.parameters), indent: 4 };
        printer.nodes(&self.body)
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ty {
            ParameterType::Input(ty) => write!(f, "input {}: {}*", self.name, element_name(ty))?,
            ParameterType::Output(ty) => write!(f, "output {}: {}*", self.name, element_name(ty))?,
            ParameterType::Value(ty) => write!(f, "value {}: {}", self.name, element_name(ty))?,
            ParameterType::Report => write!(f, "report {}", self.name)?,
            ParameterType::Published => write!(f, "published {}", self.name)?,
        }
        match &self.argument {
            Argument::Array(id) => write!(f, " = array {}", id.index()),
            Argument::Scratch(index) => write!(f, " = scratch {index}"),
            Argument::Scalar(id) => write!(f, " = scalar {}", id.index()),
            Argument::Size(formula, _) => write!(f, " = {formula}"),
            Argument::Report => Ok(()),
        }
    }
}

struct Printer<'a, W: Write> {
    out: &'a mut W,
    scope: Scope,
    indent: usize,
}

impl<W: Write> Printer<'_, W> {
    fn line(&mut self, text: &str) -> fmt::Result {
        writeln!(self.out, "{:indent$}{text}", "", indent = self.indent)
    }

    fn spell(&self, expr: &Expr) -> String {
        spell(expr, &self.scope)
    }

    fn list(&self, exprs: &[Expr]) -> String {
        exprs.iter().map(|expr| self.spell(expr)).collect::<Vec<_>>().join(", ")
    }

    fn nodes(&mut self, nodes: &[Node]) -> fmt::Result {
        nodes.iter().try_for_each(|node| self.node(node))
    }

    fn block(&mut self, own: &[(&str, &CudaType)], nodes: &[Node]) -> fmt::Result {
        let depth = self.scope.depth();
        own.iter().for_each(|(name, ty)| self.scope.declare(name, ty));
        self.indent += 2;
        self.nodes(nodes)?;
        self.indent -= 2;
        self.scope.leave(depth);
        Ok(())
    }

    fn branch(&mut self, prefix: &str, condition: &Expr, then: &[Node], otherwise: &[Node]) -> fmt::Result {
        self.line(&format!("{prefix}if {}", self.spell(condition)))?;
        self.block(&[], then)?;
        match otherwise {
            [] => Ok(()),
            [Node::If { condition, then, otherwise }] => self.branch("else ", condition, then, otherwise),
            _ => {
                self.line("else")?;
                self.block(&[], otherwise)
            }
        }
    }

    fn node(&mut self, node: &Node) -> fmt::Result {
        match node {
            Node::Comment(_) => Ok(()),
            Node::Declare { ty, name, value, mutable } => {
                let word = if *mutable { "var" } else { "let" };
                let value = value.as_ref().map(|value| format!(" = {}", self.spell(value))).unwrap_or_default();
                self.line(&format!("{word} {name}: {}{value}", type_name(ty)))?;
                self.scope.declare(name, ty);
                Ok(())
            }
            Node::Array { ty, name, extents, memory, zeroed } => {
                let memory = match memory {
                    Memory::Registers => "registers".to_string(),
                    Memory::Shared => "shared".to_string(),
                    Memory::Dynamic(at) => format!("shared at {at}"),
                };
                let extents: String = extents.iter().map(|extent| format!("[{extent}]")).collect();
                let zeroed = if *zeroed { " zeroed" } else { "" };
                self.line(&format!("{memory} {name}: {}{extents}{zeroed}", type_name(ty)))?;
                self.scope.declare(name, ty);
                Ok(())
            }
            Node::Assign(place, value) => {
                let text = format!("{} = {}", self.spell(place), self.spell(value));
                self.line(&text)
            }
            Node::For { variable, ty, lo, hi, step, unroll, body } => {
                let (lo, hi, step) = (self.spell(lo), self.spell(hi), self.spell(step));
                let step = if step == "1" { String::new() } else { format!(" step {step}") };
                let unroll = match unroll {
                    Unroll::Default => String::new(),
                    Unroll::Full => " unrolled".into(),
                    Unroll::By(factor) => format!(" unrolled by {factor}"),
                };
                self.line(&format!("for {variable}: {} in {lo}..{hi}{step}{unroll}", type_name(ty)))?;
                self.block(&[(variable, ty)], body)
            }
            Node::While(condition, body) => {
                self.line(&format!("while {}", self.spell(condition)))?;
                self.block(&[], body)
            }
            Node::If { condition, then, otherwise } => self.branch("", condition, then, otherwise),
            Node::Barrier => self.line("barrier"),
            Node::Return(None) => self.line("return"),
            Node::Return(Some(value)) => self.line(&format!("return {}", self.spell(value))),
            Node::Call(function, arguments) => {
                let text = format!("call {}", self.spell(&Expr::Call(function.clone(), arguments.clone())));
                self.line(&text)
            }
            Node::Reduce { name, ty, helper, arguments, accumulator, term, body, value } => {
                let head = format!("let {name}: {} = {helper}({})", type_name(ty), self.list(arguments));
                self.line(&format!("{head} of {accumulator}, {term}"))?;
                let long = CudaType::Element(gpukc_dsl::types::Type::I64);
                let next = Node::Return(Some(value.clone()));
                let nodes: Vec<Node> = body.iter().cloned().chain([next]).collect();
                self.block(&[(accumulator, ty), (term, &long)], &nodes)?;
                self.scope.declare(name, ty);
                Ok(())
            }
            Node::Scope(body) => {
                self.line("scope")?;
                self.block(&[], body)
            }
        }
    }
}
