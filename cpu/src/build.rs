//! Compiles statements to instructions, with a call's dims and scalars as constants.
//!
//! Straight-line code is evaluated for all lanes, wanted or not: nothing in it can fail except checked reads, which take a
//! mask, and reads that are proved only under a guard give zero outside. Reductions and loops take a mask too.
//!
//! Instructions stand in scopes: the statement's, then one for each reduction and loop around. What does not depend on an
//! inner scope is computed outside it, once.

use std::collections::HashMap as StdMap;
use std::hash::{BuildHasherDefault, Hasher};

use gpukc_dsl::call::{Bindings, evaluate, scalar_bits};
use gpukc_dsl::program::*;
use gpukc_dsl::types::{BinaryOp, Builtin, Reducer, Type, UnaryOp};

use crate::code::*;
use crate::frame::{Layout, Reg};
use crate::lin::{Atom, Lin};
use crate::ops::{self, Fn1, Fn2, Fn3, Function as BuiltinFn, Unsupported};
use crate::reduce;
use crate::tensor::Store;

/// Quick: keys come from the program, and maps are small.
#[derive(Clone, Copy, Default)]
pub struct Quick(u64);
impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }
    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
    fn write_i64(&mut self, value: i64) {
        self.write_u64(value as u64);
    }
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }
}
/// A map with that hash.
pub type HashMap<K, V> = StdMap<K, V, BuildHasherDefault<Quick>>;

type Result<T> = std::result::Result<T, Unsupported>;

/// Reductions that stand in arrays of their own by now: the array, and the variables that subscript it.
pub type Replaced = HashMap<ExprId, (usize, Vec<VariableId>)>;

/// What all statements of a call share.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub program: &'a Program,
    pub kernel: &'a Kernel,
    pub bindings: &'a Bindings,
    /// Extents of all arrays, hidden ones included.
    pub extents: &'a [Vec<i64>],
    pub elements: &'a [Type],
    pub replaced: &'a Replaced,
    /// Ranges of all variables.
    pub ranges: &'a HashMap<VariableId, Ranged>,
    pub width: usize,
}

impl Context<'_> {
    /// The value of a bound, if it is a constant of the call.
    pub fn bound(&self, bound: Bound) -> Option<i64> {
        match bound {
            Bound::Const(value) => Some(value),
            Bound::Expr(expr) => self.constant(expr),
        }
    }
    /// The value of an expression over dims and scalars.
    pub fn constant(&self, expr: ExprId) -> Option<i64> {
        match evaluate(self.kernel, self.bindings, expr)? {
            Literal::Int(value) => Some(value as i64),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Val {
    Lin(Lin),
    Reg(Reg),
}

#[derive(Clone, Copy)]
enum Text {
    Kernel,
    Function(FunctionId),
}

#[derive(PartialEq, Eq, Hash)]
enum Key {
    Op(usize, Store, [Reg; 3], u8),
    Index(Index),
    Columns(Columns),
    Read(Read),
}

#[derive(Default)]
struct Scope {
    instrs: Vec<Instr>,
    known: HashMap<Key, Reg>,
}

#[derive(Clone)]
struct Lanes {
    counters: Vec<u32>,
    extents: Vec<i64>,
    /// The counter of the position in the whole box.
    flat: Option<u32>,
    columns: Vec<Option<u32>>,
    depth: usize,
}

struct Builder<'a> {
    context: Context<'a>,
    layout: Layout,
    depth_of: HashMap<Reg, usize>,
    counter_depth: Vec<usize>,
    constants: Vec<(Reg, u64)>,
    constant_regs: HashMap<(Store, u64), Reg>,
    scopes: Vec<Scope>,
    variables: HashMap<VariableId, Lin>,
    locals: Vec<Vec<Option<Val>>>,
    lanes: Option<Lanes>,
    guards: Vec<(Reg, bool)>,
}

/// One end of a range.
#[derive(Clone, Copy)]
pub enum Bound {
    Expr(ExprId),
    Const(i64),
}

/// A variable to be run through.
#[derive(Clone, Copy)]
pub struct Run {
    pub variable: VariableId,
    pub lo: Bound,
    pub hi: Bound,
}

impl From<&Ranged> for Run {
    fn from(ranged: &Ranged) -> Run {
        Run { variable: ranged.variable, lo: Bound::Expr(ranged.lo), hi: Bound::Expr(ranged.hi) }
    }
}

/// Where values go.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    /// Elements of an array.
    Array(usize, &'a [Subscript]),
    /// One after the other.
    Next,
}

/// What is evaluated.
#[derive(Clone, Copy)]
pub struct Value {
    /// Where it is false, nothing is.
    pub filter: Option<ExprId>,
    pub expr: ExprId,
    /// What the value is cast to.
    pub want: Type,
}

/// Compiles a statement. The last `lanes` variables run along the lanes, none if it is 0. With `nested`, ranges may depend
/// on earlier variables, and each variable has a scope of its own.
pub fn statement(context: Context, variables: &[Run], target: Target, value: Value, lanes: usize, nested: bool) -> Result<Step> {
    let mut builder = Builder {
        context,
        layout: Layout::default(),
        depth_of: HashMap::default(),
        counter_depth: Vec::new(),
        constants: Vec::new(),
        constant_regs: HashMap::default(),
        scopes: vec![Scope::default()],
        variables: HashMap::default(),
        locals: Vec::new(),
        lanes: None,
        guards: Vec::new(),
    };
    let mut code = Vec::new();
    let mut flat = None;
    let mut next = Lin::default();
    if nested {
        for (at, run) in variables.iter().enumerate() {
            let lo = builder.bound(run.lo)?;
            let hi = builder.bound(run.hi)?;
            let len = builder.len(&lo, &hi)?;
            let counter = builder.counter(at + 1);
            builder.variables.insert(run.variable, lo.add(&Lin::atom(Atom::Counter(counter)), 1));
            builder.scopes.push(Scope::default());
            code.push((counter, len));
        }
        if lanes > 0 {
            let counters = vec![code[code.len() - 1].0];
            let depth = code.len();
            builder.lanes = Some(Lanes { counters, extents: vec![0], flat: None, columns: vec![None], depth });
        }
    } else {
        let first = variables.len() - lanes;
        for (at, run) in variables.iter().enumerate() {
            let (lo, hi) = (context.bound(run.lo).unwrap_or(0), context.bound(run.hi).unwrap_or(0));
            let counter = builder.counter(usize::from(at >= first));
            let atom = Lin::atom(Atom::Counter(counter));
            next = next.scale(extent(lo, hi)).add(&atom, 1);
            builder.variables.insert(run.variable, Lin::constant(lo).add(&atom, 1));
            code.push((counter, Len::Const(extent(lo, hi))));
        }
        builder.scopes.push(Scope::default());
        if lanes > 0 {
            let counters = code[first..].iter().map(|v| v.0).collect();
            let extents = code[first..].iter().map(|v| if let Len::Const(n) = v.1 { n } else { 0 }).collect();
            let position = (lanes > 1).then(|| builder.counter(1));
            builder.lanes = Some(Lanes { counters, extents, flat: position, columns: vec![None; lanes], depth: 1 });
        }
    }
    let keep = match value.filter {
        Some(filter) => {
            let keep = builder.operand(Text::Kernel, filter)?;
            builder.guards.push((keep, true));
            Some(keep)
        }
        None => None,
    };
    let from = context.kernel.exprs[value.expr].ty;
    let result = builder.value(Text::Kernel, value.expr)?;
    let result = builder.cast(from, value.want, result)?;
    let result = builder.reg(result)?;
    let (place, ruled) = match target {
        Target::Array(array, subscripts) => builder.place(array, subscripts)?,
        Target::Next => (next, Vec::new()),
    };
    let (offset, _) = builder.lower(&place)?;
    if let (true, Some(lanes)) = (lanes > 1, &builder.lanes) {
        let columns = lanes.extents.iter().copied().zip(lanes.columns.iter().copied()).collect();
        flat = Some(Flat { counter: lanes.flat.unwrap_or(0), columns });
    }
    let scopes: Vec<Vec<Instr>> = builder.scopes.into_iter().map(|scope| scope.instrs).collect();
    let counters = builder.counter_depth.len();
    let Builder { layout, constants, .. } = builder;
    Ok(Step { layout, counters, constants, scopes, variables: code, lanes, flat, value: result, keep, place, offset, ruled, nested })
}

/// Whether the ranges are constants of the call.
pub fn is_boxed(context: Context, variables: &[Run]) -> bool {
    variables.iter().all(|run| context.bound(run.lo).is_some() && context.bound(run.hi).is_some())
}

/// `hi − lo`, not below zero.
pub fn extent(lo: i64, hi: i64) -> i64 {
    if hi > lo { hi.wrapping_sub(lo).max(0) } else { 0 }
}

impl<'a> Builder<'a> {
    fn depth(&self) -> usize {
        self.scopes.len() - 1
    }

    fn bound(&mut self, bound: Bound) -> Result<Lin> {
        match bound {
            Bound::Const(value) => Ok(Lin::constant(value)),
            Bound::Expr(expr) => self.integer(expr),
        }
    }

    fn counter(&mut self, depth: usize) -> u32 {
        self.counter_depth.push(depth);
        self.counter_depth.len() as u32 - 1
    }

    fn register(&mut self, store: Store, varying: bool, depth: usize) -> Reg {
        let reg = self.layout.add(store, varying);
        self.depth_of.insert(reg, depth);
        reg
    }

    fn depth_of(&self, reg: Reg) -> usize {
        self.depth_of.get(&reg).copied().unwrap_or(0)
    }

    fn literal(&mut self, ty: Type, value: Literal) -> Val {
        match value {
            Literal::Int(value) if ty == Type::I64 => Val::Lin(Lin::constant(value as i64)),
            value => Val::Reg(self.constant(Store::of(ty), scalar_bits(ty, value))),
        }
    }

    fn constant(&mut self, store: Store, bits: u64) -> Reg {
        if let Some(&reg) = self.constant_regs.get(&(store, bits)) {
            return reg;
        }
        let reg = self.register(store, false, 0);
        self.constant_regs.insert((store, bits), reg);
        self.constants.push((reg, bits));
        reg
    }

    /// Puts an instruction where its operands are known, unless the same is there already.
    fn emit(&mut self, key: Key, store: Store, varying: bool, depth: usize, instr: impl FnOnce(Reg) -> Instr) -> Reg {
        if let Some(&reg) = self.scopes[depth].known.get(&key) {
            return reg;
        }
        let reg = self.register(store, varying, depth);
        self.scopes[depth].instrs.push(instr(reg));
        self.scopes[depth].known.insert(key, reg);
        reg
    }

    fn operands(&self, operands: &[Reg]) -> (usize, bool) {
        let depth = operands.iter().map(|&reg| self.depth_of(reg)).max().unwrap_or(0);
        (depth, operands.iter().any(|&reg| self.layout.varies(reg)))
    }

    fn op1(&mut self, f: Fn1, store: Store, a: Reg) -> Reg {
        let (depth, varying) = self.operands(&[a]);
        let key = Key::Op(f as usize, store, [a; 3], 1);
        self.emit(key, store, varying, depth, |dst| Instr::Op1(f, dst.index, a.index))
    }

    fn op2(&mut self, f: Fn2, store: Store, a: Reg, b: Reg) -> Reg {
        let (depth, varying) = self.operands(&[a, b]);
        let key = Key::Op(f as usize, store, [a, b, b], 2);
        self.emit(key, store, varying, depth, |dst| Instr::Op2(f, dst.index, a.index, b.index))
    }

    fn op3(&mut self, f: Fn3, store: Store, a: Reg, b: Reg, c: Reg) -> Reg {
        let (depth, varying) = self.operands(&[a, b, c]);
        let key = Key::Op(f as usize, store, [a, b, c], 3);
        self.emit(key, store, varying, depth, |dst| Instr::Op3(f, dst.index, a.index, b.index, c.index))
    }

    fn select(&mut self, condition: Reg, then: Reg, otherwise: Reg) -> Reg {
        self.op3(ops::select(then.store), then.store, condition, then, otherwise)
    }

    fn and(&mut self, a: Reg, b: Reg) -> Result<Reg> {
        let (f, _) = ops::binary(BinaryOp::And, Type::Bool)?;
        Ok(if a == b { a } else { self.op2(f, Store::U8, a, b) })
    }

    /// The lanes that are evaluated here; none means all.
    fn mask(&mut self) -> Result<Option<Reg>> {
        let mut mask = None;
        for (reg, wanted) in self.guards.clone() {
            let reg = if wanted { reg } else { self.op1(ops::unary(UnaryOp::Not, Type::Bool)?, Store::U8, reg) };
            mask = Some(match mask {
                None => reg,
                Some(mask) => self.and(mask, reg)?,
            });
        }
        Ok(mask)
    }

    /// A register of a value.
    fn reg(&mut self, value: Val) -> Result<Reg> {
        match value {
            Val::Reg(reg) => Ok(reg),
            Val::Lin(lin) => self.materialise(&lin),
        }
    }

    fn materialise(&mut self, lin: &Lin) -> Result<Reg> {
        if let Some(value) = lin.as_constant() {
            return Ok(self.constant(Store::I64, value as u64));
        }
        if let (0, [(Atom::Reg(index), 1)]) = (lin.constant, &lin.terms[..]) {
            return Ok(Reg { store: Store::I64, index: *index });
        }
        let (index, depth) = self.lower(lin)?;
        let varying = index.varies();
        Ok(self.emit(Key::Index(index.clone()), Store::I64, varying, depth, |dst| Instr::Index(dst.index, index)))
    }

    fn lin(&self, value: Val) -> Lin {
        match value {
            Val::Lin(lin) => lin,
            Val::Reg(reg) => Lin::atom(Atom::Reg(reg.index)),
        }
    }

    /// An `i64` expression of the kernel.
    fn integer(&mut self, expr: ExprId) -> Result<Lin> {
        let value = self.value(Text::Kernel, expr)?;
        Ok(self.lin(value))
    }

    fn len(&mut self, lo: &Lin, hi: &Lin) -> Result<Len> {
        if let (Some(lo), Some(hi)) = (lo.as_constant(), hi.as_constant()) {
            return Ok(Len::Const(extent(lo, hi)));
        }
        let difference = hi.add(lo, -1);
        if let Some(len) = difference.as_constant() {
            return Ok(Len::Const(len.max(0)));
        }
        // Data may be so far apart that the difference wraps; a reversed range has no values all the same.
        let difference = match difference.terms.iter().any(|(atom, _)| matches!(atom, Atom::Reg(_))) {
            true => self.larger(lo, hi)?.add(lo, -1),
            false => difference,
        };
        let (index, _) = self.lower(&difference)?;
        if index.varies() {
            return Ok(Len::Column(self.materialise(&difference)?.index));
        }
        Ok(Len::Uniform(index))
    }

    fn larger(&mut self, a: &Lin, b: &Lin) -> Result<Lin> {
        let (a, b) = (self.materialise(a)?, self.materialise(b)?);
        let (less, _) = ops::binary(BinaryOp::Lt, Type::I64)?;
        let is_less = self.op2(less, Store::U8, a, b);
        let larger = self.select(is_less, b, a);
        Ok(self.lin(Val::Reg(larger)))
    }

    /// A linear form as an index, and the depth at which it is known.
    fn lower(&mut self, lin: &Lin) -> Result<(Index, usize)> {
        let mut index = Index { constant: lin.constant, ..Index::default() };
        let mut depth = 0;
        let mut columns: Vec<(i64, u32)> = Vec::new();
        let mut counter = None;
        let mut group = Vec::new();
        for &(atom, coefficient) in &lin.terms {
            match atom {
                Atom::Counter(c) => {
                    depth = depth.max(self.counter_depth[c as usize]);
                    match &self.lanes {
                        Some(lanes) if lanes.flat.is_none() && lanes.counters.last() == Some(&c) => {
                            index.stride = coefficient;
                            counter = Some(c);
                        }
                        Some(lanes) if lanes.flat.is_some() && lanes.counters.contains(&c) => {
                            group.push((c, coefficient));
                        }
                        _ => index.uniform.push((coefficient, Source::Counter(c))),
                    }
                }
                Atom::Reg(r) => {
                    let reg = Reg { store: Store::I64, index: r };
                    depth = depth.max(self.depth_of(reg));
                    if self.layout.varies(reg) {
                        columns.push((coefficient, r));
                    } else {
                        index.uniform.push((coefficient, Source::Reg(r)));
                    }
                }
            }
        }
        if let (false, Some(lanes)) = (group.is_empty(), self.lanes.clone()) {
            depth = depth.max(lanes.depth);
            // The box may look flat from here: each variable's step is as long as all of the next one's.
            let of = |c: u32| group.iter().find(|g| g.0 == c).map_or(0, |g| g.1);
            let mut step = None;
            let mut even = true;
            for (&c, &extent) in lanes.counters.iter().zip(&lanes.extents).rev() {
                if extent == 1 {
                    continue;
                }
                match step {
                    None => index.stride = of(c),
                    Some(step) if step != of(c) => even = false,
                    Some(_) => {}
                }
                step = Some(of(c).wrapping_mul(extent));
            }
            if even {
                counter = lanes.flat;
            } else {
                index.stride = 0;
                for (c, coefficient) in group {
                    let at = lanes.counters.iter().position(|&counter| counter == c).unwrap_or(0);
                    let column = match self.lanes.as_ref().and_then(|lanes| lanes.columns[at]) {
                        Some(column) => column,
                        None => {
                            let column = self.register(Store::I64, true, lanes.depth).index;
                            if let Some(lanes) = &mut self.lanes {
                                lanes.columns[at] = Some(column);
                            }
                            column
                        }
                    };
                    columns.push((coefficient, column));
                }
            }
        }
        match (&columns[..], index.stride) {
            ([], 0) => {}
            ([], stride) => index.uniform.extend(counter.map(|c| (stride, Source::Counter(c)))),
            ([(1, column)], 0) => index.column = Some(*column),
            _ => {
                let mut at = if index.stride != 0 { self.lanes.as_ref().map_or(0, |lanes| lanes.depth) } else { 0 };
                for &(_, column) in &columns {
                    at = at.max(self.depth_of(Reg { store: Store::I64, index: column }));
                }
                let counter = counter.filter(|_| index.stride != 0);
                columns.sort();
                let sum = Columns { dst: 0, stride: index.stride, counter, columns };
                let dst = self
                    .emit(Key::Columns(sum.clone()), Store::I64, true, at, |dst| Instr::Columns(Columns { dst: dst.index, ..sum }));
                index.stride = 0;
                index.column = Some(dst.index);
            }
        }
        index.uniform.sort();
        Ok((index, depth))
    }

    /// The offset into an array that dimensions in range decide, and the other dimensions.
    fn place(&mut self, array: usize, subscripts: &[Subscript]) -> Result<(Lin, Vec<Ruled>)> {
        let context = self.context;
        let extents = &context.extents[array];
        let mut pitch = 1i64;
        let mut flat = Lin::default();
        let mut ruled = Vec::new();
        for (axis, subscript) in subscripts.iter().enumerate().rev() {
            let extent = extents[axis];
            let lin = self.integer(subscript.index)?;
            let rule = match subscript.bounds {
                Bounds::Proved | Bounds::Assumed => None,
                Bounds::Checked => Some(Rule::Checked),
                Bounds::Clamp => Some(Rule::Clamp),
                Bounds::Wrap => Some(Rule::Wrap),
                Bounds::Mirror => Some(Rule::Mirror),
                Bounds::Symmetric => Some(Rule::Symmetric),
                Bounds::Constant(_) => Some(Rule::Constant),
                Bounds::Drop => Some(Rule::Drop),
            };
            match rule {
                None => flat = flat.add(&lin, pitch),
                Some(rule) => {
                    let (index, _) = self.lower(&lin)?;
                    let fill = match subscript.bounds {
                        Bounds::Constant(value) => {
                            let from = context.kernel.exprs[value].ty;
                            let value = self.value(Text::Kernel, value)?;
                            let value = self.cast(from, context.elements[array], value)?;
                            Some(self.reg(value)?)
                        }
                        _ => None,
                    };
                    let span = context.kernel.exprs[subscript.index].span;
                    ruled.push(Ruled { index, rule, extent, pitch, axis, span, fill });
                }
            }
            pitch = pitch.wrapping_mul(extent);
        }
        ruled.reverse();
        Ok((flat, ruled))
    }

    fn index_depth(&self, index: &Index) -> usize {
        let mut depth = 0;
        for &(_, source) in &index.uniform {
            depth = depth.max(match source {
                Source::Counter(c) => self.counter_depth[c as usize],
                Source::Reg(index) => self.depth_of(Reg { store: Store::I64, index }),
            });
        }
        if let Some(index) = index.column {
            depth = depth.max(self.depth_of(Reg { store: Store::I64, index }));
        }
        if index.stride != 0 {
            depth = depth.max(self.lanes.as_ref().map_or(0, |lanes| lanes.depth));
        }
        depth
    }

    fn read(&mut self, array: usize, subscripts: &[Subscript]) -> Result<Reg> {
        let (flat, ruled) = self.place(array, subscripts)?;
        self.read_at(array, &flat, ruled)
    }

    fn read_at(&mut self, array: usize, flat: &Lin, ruled: Vec<Ruled>) -> Result<Reg> {
        let (flat, mut depth) = self.lower(flat)?;
        let mut varying = flat.varies();
        let fails =
            ruled.iter().any(|dim| dim.rule == Rule::Checked || (dim.extent == 0 && !matches!(dim.rule, Rule::Constant | Rule::Drop)));
        for dim in &ruled {
            varying |= dim.index.varies() || dim.fill.is_some_and(|fill| self.layout.varies(fill));
            depth = depth.max(self.index_depth(&dim.index));
            depth = depth.max(dim.fill.map_or(0, |fill| self.depth_of(fill)));
        }
        let mut mask = None;
        if fails {
            depth = self.depth();
            mask = self.mask()?;
            varying |= mask.is_some_and(|mask| self.layout.varies(mask));
        }
        let store = Store::of(self.context.elements[array]);
        let dst = Reg { store, index: 0 };
        let read = Read { dst, array, flat, ruled, mask: mask.map(|mask| mask.index) };
        Ok(self.emit(Key::Read(read.clone()), store, varying, depth, |dst| Instr::Read(Box::new(Read { dst, ..read }))))
    }

    fn cast(&mut self, from: Type, to: Type, value: Val) -> Result<Val> {
        if from == to {
            return Ok(value);
        }
        let a = self.reg(value)?;
        Ok(Val::Reg(self.op1(ops::cast(from, to), Store::of(to), a)))
    }

    fn arena(&self, text: Text) -> &'a gpukc_dsl::arena::Arena<Expr> {
        match text {
            Text::Kernel => &self.context.kernel.exprs,
            Text::Function(id) => &self.context.program.functions[id].exprs,
        }
    }

    fn operand(&mut self, text: Text, expr: ExprId) -> Result<Reg> {
        let value = self.value(text, expr)?;
        self.reg(value)
    }

    /// The value of an expression.
    fn value(&mut self, text: Text, id: ExprId) -> Result<Val> {
        let node = &self.arena(text)[id];
        let context = self.context;
        if let Text::Kernel = text {
            if let Some((array, variables)) = context.replaced.get(&id) {
                let mut flat = Lin::default();
                for (&variable, &extent) in variables.iter().zip(&context.extents[*array]) {
                    let ranged = context.ranges[&variable];
                    let lo = context.constant(ranged.lo).unwrap_or(0);
                    flat = flat.scale(extent).add(&self.variables[&variable], 1).add(&Lin::constant(lo), -1);
                }
                let reg = self.read_at(*array, &flat, Vec::new())?;
                return Ok(Val::Reg(reg));
            }
            let foldable = matches!(
                node.kind,
                ExprKind::Binary(..) | ExprKind::Unary(..) | ExprKind::Builtin(..) | ExprKind::If { .. } | ExprKind::Cast(_)
            );
            if foldable
                && !node.ty.is_float()
                && let Some(value) = evaluate(context.kernel, context.bindings, id)
            {
                return Ok(self.literal(node.ty, value));
            }
        }
        let ty = node.ty;
        match &node.kind {
            ExprKind::Literal(value) => Ok(self.literal(ty, *value)),
            ExprKind::Dim(dim) => Ok(Val::Lin(Lin::constant(context.bindings.dims[dim.index()]))),
            ExprKind::Variable(variable) => match self.variables.get(variable) {
                Some(lin) => Ok(Val::Lin(lin.clone())),
                None => {
                    let name = &context.kernel.variables[*variable].name;
                    Err(Unsupported(format!("the variable {name} outside its scope")))
                }
            },
            ExprKind::Scalar(scalar) => Ok(self.literal(ty, context.bindings.scalars[scalar.index()])),
            ExprKind::Local(local) => {
                let value = self.locals.last().and_then(|locals| locals.get(local.index()).cloned().flatten());
                value.ok_or_else(|| Unsupported("a local before it is set".into()))
            }
            ExprKind::Read { array, subscripts } => {
                let reg = self.read(array.index(), subscripts)?;
                Ok(Val::Reg(reg))
            }
            ExprKind::Reduce(reduce) => Ok(Val::Reg(self.reduce(id, reduce)?)),
            ExprKind::Unary(op, a) => {
                let a = self.value(text, *a)?;
                if let (UnaryOp::Negate, Type::I64) = (op, ty) {
                    return Ok(Val::Lin(self.lin(a).scale(-1)));
                }
                let a = self.reg(a)?;
                Ok(Val::Reg(self.op1(ops::unary(*op, ty)?, Store::of(ty), a)))
            }
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let a = self.operand(text, *a)?;
                self.guards.push((a, *op == BinaryOp::And));
                let b = self.operand(text, *b);
                self.guards.pop();
                let (f, _) = ops::binary(*op, Type::Bool)?;
                Ok(Val::Reg(self.op2(f, Store::U8, a, b?)))
            }
            ExprKind::Binary(op, a, b) => {
                let from = self.arena(text)[*a].ty;
                let a = self.value(text, *a)?;
                let b = self.value(text, *b)?;
                if from == Type::I64 {
                    let (a, b) = (self.lin(a.clone()), self.lin(b.clone()));
                    match (op, a.as_constant(), b.as_constant()) {
                        (BinaryOp::Add, ..) => return Ok(Val::Lin(a.add(&b, 1))),
                        (BinaryOp::Sub, ..) => return Ok(Val::Lin(a.add(&b, -1))),
                        (BinaryOp::Mul, Some(a), _) => return Ok(Val::Lin(b.scale(a))),
                        (BinaryOp::Mul, _, Some(b)) => return Ok(Val::Lin(a.scale(b))),
                        _ => {}
                    }
                }
                let (a, b) = (self.reg(a)?, self.reg(b)?);
                let (f, swap) = ops::binary(*op, from)?;
                let (a, b) = if swap { (b, a) } else { (a, b) };
                Ok(Val::Reg(self.op2(f, Store::of(ty), a, b)))
            }
            ExprKind::Cast(a) => {
                let from = self.arena(text)[*a].ty;
                let a = self.value(text, *a)?;
                self.cast(from, ty, a)
            }
            ExprKind::If { condition, then, otherwise } => {
                let condition = self.operand(text, *condition)?;
                self.guards.push((condition, true));
                let then = self.operand(text, *then);
                self.guards.pop();
                self.guards.push((condition, false));
                let otherwise = self.operand(text, *otherwise);
                self.guards.pop();
                Ok(Val::Reg(self.select(condition, then?, otherwise?)))
            }
            ExprKind::Builtin(builtin, arguments) => {
                let from = self.arena(text)[arguments[0]].ty;
                let mut regs = Vec::with_capacity(3);
                for &argument in arguments {
                    regs.push(self.operand(text, argument)?);
                }
                let found = if from.is_integer() && matches!(builtin, Builtin::IsNan | Builtin::IsInf) {
                    return Ok(Val::Reg(self.constant(Store::U8, 0)));
                } else if from.is_integer() && *builtin == Builtin::IsFinite {
                    return Ok(Val::Reg(self.constant(Store::U8, 1)));
                } else {
                    ops::builtin(*builtin, from)?
                };
                let reg = match (found, &regs[..]) {
                    (BuiltinFn::One(f), [a]) => self.op1(f, Store::of(ty), *a),
                    (BuiltinFn::Two(f), [a, b]) => self.op2(f, Store::of(ty), *a, *b),
                    (BuiltinFn::Three(f), [a, b, c]) => self.op3(f, Store::of(ty), *a, *b, *c),
                    _ => return Err(Unsupported(format!("{builtin} of {} arguments", regs.len()))),
                };
                Ok(Val::Reg(reg))
            }
            ExprKind::Call(function, arguments) => {
                let mut locals = Vec::with_capacity(arguments.len());
                for &argument in arguments {
                    locals.push(Some(self.value(text, argument)?));
                }
                self.call(*function, locals)
            }
        }
    }

    fn call(&mut self, id: FunctionId, mut locals: Vec<Option<Val>>) -> Result<Val> {
        let function = &self.context.program.functions[id];
        locals.resize(function.locals.len(), None);
        self.locals.push(locals);
        let result = self.block(id, &function.body).and_then(|()| self.value(Text::Function(id), function.value));
        self.locals.pop();
        result
    }

    fn local(&mut self, local: LocalId) -> &mut Option<Val> {
        let top = self.locals.len() - 1;
        &mut self.locals[top][local.index()]
    }

    fn block(&mut self, id: FunctionId, statements: &'a [LocalStatement]) -> Result<()> {
        let text = Text::Function(id);
        for statement in statements {
            match statement {
                LocalStatement::Set(local, value) => {
                    let value = self.value(text, *value)?;
                    *self.local(*local) = Some(value);
                }
                LocalStatement::If(condition, then, otherwise) => {
                    let condition = self.operand(text, *condition)?;
                    let top = self.locals.len() - 1;
                    let before = self.locals[top].clone();
                    self.guards.push((condition, true));
                    let result = self.block(id, then);
                    self.guards.pop();
                    result?;
                    let after = std::mem::replace(&mut self.locals[top], before);
                    self.guards.push((condition, false));
                    let result = self.block(id, otherwise);
                    self.guards.pop();
                    result?;
                    for (at, then) in after.into_iter().enumerate() {
                        let otherwise = self.locals[top][at].clone();
                        self.locals[top][at] = match (then, otherwise) {
                            (Some(then), Some(otherwise)) if then == otherwise => Some(then),
                            (Some(then), Some(otherwise)) => {
                                let (then, otherwise) = (self.reg(then)?, self.reg(otherwise)?);
                                Some(Val::Reg(self.select(condition, then, otherwise)))
                            }
                            _ => None,
                        };
                    }
                }
                LocalStatement::While(condition, body) => {
                    self.repeat(id, body, |builder| builder.operand(text, *condition).map(Some), None)?;
                }
                LocalStatement::For(local, lo, hi, body) => {
                    let ty = self.context.program.functions[id].locals[*local].ty;
                    let lo = self.value(text, *lo)?;
                    let hi = self.value(text, *hi)?;
                    let (lo64, hi64) = (self.cast(ty, Type::I64, lo)?, self.cast(ty, Type::I64, hi)?);
                    let (lo64, hi64) = (self.lin(lo64), self.lin(hi64));
                    let len = self.len(&lo64, &hi64)?;
                    // The counter's depth is that of the loop's own scope.
                    let counter = self.counter(self.scopes.len());
                    let here = lo64.add(&Lin::atom(Atom::Counter(counter)), 1);
                    match len {
                        Len::Column(column) => {
                            let bound = Reg { store: Store::I64, index: column };
                            let at = Lin::atom(Atom::Counter(counter));
                            let condition = |builder: &mut Self| {
                                let at = builder.materialise(&at)?;
                                let (f, _) = ops::binary(BinaryOp::Lt, Type::I64)?;
                                let holds = builder.op2(f, Store::U8, at, bound);
                                let here = builder.cast(Type::I64, ty, Val::Lin(here))?;
                                *builder.local(*local) = Some(here);
                                Ok(Some(holds))
                            };
                            self.repeat(id, body, condition, Some((counter, None)))?;
                        }
                        len => {
                            let trips = match len {
                                Len::Const(n) => Index { constant: n, ..Index::default() },
                                Len::Uniform(index) => index,
                                Len::Column(_) => Index::default(),
                            };
                            let condition = |builder: &mut Self| {
                                let here = builder.cast(Type::I64, ty, Val::Lin(here))?;
                                *builder.local(*local) = Some(here);
                                Ok(None)
                            };
                            self.repeat(id, body, condition, Some((counter, Some(trips))))?;
                        }
                    }
                    *self.local(*local) = None;
                }
            }
        }
        Ok(())
    }

    /// A loop: what its body assigns lives in registers of its own from here on.
    fn repeat(
        &mut self,
        id: FunctionId,
        body: &'a [LocalStatement],
        condition: impl FnOnce(&mut Self) -> Result<Option<Reg>>,
        counter: Option<(u32, Option<Index>)>,
    ) -> Result<()> {
        let mask = self.mask()?;
        let top = self.locals.len() - 1;
        let mut assigned = Vec::new();
        collect_assigned(body, &mut assigned);
        assigned.retain(|local| self.locals[top][local.index()].is_some());
        let mut varying = mask.is_some_and(|mask| self.layout.varies(mask));
        for value in self.locals[top].clone().into_iter().flatten() {
            varying |= match &value {
                Val::Reg(reg) => self.layout.varies(*reg),
                Val::Lin(lin) => self.lower(lin)?.0.varies(),
            };
        }
        if let Some((_, None)) = counter {
            varying = true;
        }
        let function = &self.context.program.functions[id];
        let depth = self.depth();
        let mut carried = Vec::new();
        for &local in &assigned {
            let value = self.locals[top][local.index()].clone();
            let Some(value) = value else { continue };
            let from = self.reg(value)?;
            let store = Store::of(function.locals[local].ty);
            let reg = self.register(store, varying, depth + 1);
            self.scopes[depth].instrs.push(Instr::Op1(ops::copy(store), reg.index, from.index));
            self.locals[top][local.index()] = Some(Val::Reg(reg));
            carried.push((local, reg));
        }
        self.scopes.push(Scope::default());
        let holds = condition(self)?;
        let condition = std::mem::take(&mut self.scopes[depth + 1].instrs);
        let active = holds.map(|_| self.register(Store::U8, varying, depth + 1));
        let guards = self.guards.clone();
        if let Some(active) = active {
            self.guards = vec![(active, true)];
        }
        self.block(id, body)?;
        let mut moves = Vec::new();
        for &(local, reg) in &carried {
            let Some(value) = self.locals[top][local.index()].clone() else { continue };
            let value = self.reg(value)?;
            if value == reg {
                continue;
            }
            let next = self.register(reg.store, varying, depth + 1);
            let instr = match active {
                Some(active) => Instr::Op3(ops::select(reg.store), next.index, active.index, value.index, reg.index),
                None => Instr::Op1(ops::copy(reg.store), next.index, value.index),
            };
            self.scopes[depth + 1].instrs.push(instr);
            moves.push(Instr::Op1(ops::copy(reg.store), reg.index, next.index));
        }
        self.guards = guards;
        let mut body = self.scopes.pop().map(|scope| scope.instrs).unwrap_or_default();
        body.extend(moves);
        for (local, reg) in carried {
            self.depth_of.insert(reg, depth);
            self.locals[top][local.index()] = Some(Val::Reg(reg));
        }
        let (counter, trips) = match counter {
            Some((counter, trips)) => (Some(counter), trips),
            None => (None, None),
        };
        self.scopes[depth].instrs.push(Instr::Loop(Box::new(Loop {
            counter,
            trips,
            condition,
            holds: holds.map(|reg| reg.index),
            active: active.map(|reg| reg.index),
            mask: mask.map(|reg| reg.index),
            body,
        })));
        Ok(())
    }

    /// Whether lanes differ in a reduction's value.
    fn mentions_lanes(&mut self, expr: ExprId) -> Result<bool> {
        if self.lanes.is_none() {
            return Ok(false);
        }
        for variable in crate::plan::mentioned(self.context, expr) {
            if let Some(lin) = self.variables.get(&variable).cloned()
                && self.lower(&lin)?.0.varies()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn reduce(&mut self, id: ExprId, reduce: &'a Reduce) -> Result<Reg> {
        let context = self.context;
        let row = !self.mentions_lanes(id)?;
        let mut mask = self.mask()?;
        if let (true, Some(reg)) = (row, mask)
            && self.layout.varies(reg)
        {
            let depth = self.depth_of(reg);
            let f: Fn1 = reduce::any_lane;
            let key = Key::Op(f as usize, Store::U8, [reg; 3], 1);
            mask = Some(self.emit(key, Store::U8, false, depth, |dst| Instr::Op1(f, dst.index, reg.index)));
        }
        let depth = self.depth();
        let inner = depth + 1;
        // Ranges, all known outside.
        let mut least = Vec::new();
        let mut lens = Vec::new();
        for ranged in &reduce.variables {
            let lo = self.integer(ranged.lo)?;
            let hi = self.integer(ranged.hi)?;
            lens.push(self.len(&lo, &hi)?);
            least.push(lo);
        }
        let ragged = lens.iter().any(|len| matches!(len, Len::Column(_)));
        let ragged_inside = lens.iter().skip(1).any(|len| matches!(len, Len::Column(_)));
        let counters: Vec<u32> = lens.iter().map(|_| self.counter(inner)).collect();
        let mut digits = Vec::new();
        for (at, ranged) in reduce.variables.iter().enumerate() {
            let atom = if ragged_inside {
                let column = self.register(Store::I64, true, inner);
                digits.push(column.index);
                Atom::Reg(column.index)
            } else {
                Atom::Counter(counters[at])
            };
            self.variables.insert(ranged.variable, least[at].add(&Lin::atom(atom), 1));
        }
        let least_index = match &least[..] {
            [lo] => Some(self.lower(lo)?.0),
            _ => None,
        };
        let saved_lanes = self.lanes.clone();
        let mut flat = None;
        if row {
            let extents: Option<Vec<i64>> = lens.iter().map(|len| if let Len::Const(n) = len { Some(*n) } else { None }).collect();
            let position = match &extents {
                Some(extents) if extents.len() > 1 && extents[extents.len() - 1] < context.width as i64 / 2 => {
                    Some(self.counter(inner))
                }
                _ => None,
            };
            flat = position;
            self.lanes = Some(Lanes {
                counters: counters.clone(),
                extents: extents.unwrap_or_else(|| vec![0; counters.len()]),
                flat: position,
                columns: vec![None; counters.len()],
                depth: inner,
            });
        }
        self.scopes.push(Scope::default());
        let saved_guards = self.guards.clone();
        let mut active = None;
        if ragged {
            let reg = self.register(Store::U8, true, inner);
            active = Some(reg);
            self.guards = vec![(reg, true)];
        } else if let Some(mask) = mask {
            self.guards = if row { Vec::new() } else { vec![(mask, true)] };
        }
        let mut keep = active;
        if let Some(filter) = reduce.filter {
            let filter = self.operand(Text::Kernel, filter)?;
            self.guards.push((filter, true));
            keep = Some(match active {
                Some(active) => self.and(active, filter)?,
                None => filter,
            });
        }
        let body_ty = context.kernel.exprs[reduce.body].ty;
        let scan = matches!(reduce.order, Order::Scan(_));
        let factors = match &context.kernel.exprs[reduce.body].kind {
            ExprKind::Binary(BinaryOp::Mul, a, b) if reduce.fused && body_ty.is_float() && !scan => Some((*a, *b)),
            _ => None,
        };
        let (a, b) = match factors {
            Some((a, b)) => {
                let a = self.operand(Text::Kernel, a)?;
                (a, Some(self.operand(Text::Kernel, b)?))
            }
            None => (self.operand(Text::Kernel, reduce.body)?, None),
        };
        // Comparisons of narrow values happen in wider ones.
        let selects = matches!(reduce.reducer, Reducer::Min | Reducer::Max | Reducer::Argmin | Reducer::Argmax);
        let wide = match body_ty.widened() {
            Type::Bool => Type::I32,
            wide => wide,
        };
        let term_ty = if selects { wide } else { body_ty };
        let a = if term_ty != body_ty { self.op1(ops::cast(body_ty, term_ty), Store::of(term_ty), a) } else { a };
        self.guards = saved_guards;
        let body = self.scopes.pop().map(|scope| scope.instrs).unwrap_or_default();
        let lanes = if row { std::mem::replace(&mut self.lanes, saved_lanes) } else { None };
        let flat = flat.and(lanes).map(|lanes| Flat {
            counter: lanes.flat.unwrap_or(0),
            columns: lanes.extents.iter().copied().zip(lanes.columns.iter().copied()).collect(),
        });
        let ty = context.kernel.exprs[id].ty;
        let exact = !body_ty.is_float() || !matches!(reduce.reducer, Reducer::Sum | Reducer::Prod);
        let order = match &reduce.order {
            _ if exact => OrderCode::Exact,
            Order::Sharing(free) => OrderCode::Sharing(wanted_runs(context, free)),
            // A scan that the plan has not taken out.
            Order::Scan(scan) => OrderCode::Scan { forward: scan.direction == Direction::Forward },
            _ => OrderCode::Canonical,
        };
        let found_ty = if term_ty != body_ty && ty == body_ty { term_ty } else { ty };
        let dst = self.register(Store::of(found_ty), !row, depth);
        let run = reduce::function(reduce.reducer, term_ty, b.is_some(), row)?;
        self.scopes[depth].instrs.push(Instr::Reduce(Box::new(ReduceCode {
            run,
            row,
            dst,
            variables: counters.into_iter().zip(lens).collect(),
            digits,
            flat,
            body,
            a,
            b,
            keep: keep.map(|reg| reg.index),
            active: active.map(|reg| reg.index),
            mask: mask.map(|reg| reg.index),
            order,
            least: least_index,
        })));
        if found_ty == ty {
            return Ok(dst);
        }
        // No terms give the narrow type's own limit.
        let mut found = dst;
        if !ty.is_float() {
            let (lo, hi) = ty.integer_range();
            let [lo, hi] = [lo, hi].map(|limit| scalar_bits(found_ty, Literal::Int(limit)));
            let (lo, hi) = (self.constant(dst.store, lo), self.constant(dst.store, hi));
            if let BuiltinFn::Three(clamp) = ops::builtin(Builtin::Clamp, found_ty)? {
                found = self.op3(clamp, dst.store, dst, lo, hi);
            }
        }
        Ok(self.op1(ops::cast(found_ty, ty), Store::of(ty), found))
    }
}

/// `W` of a sharing reduction.
fn wanted_runs(context: Context, free: &[VariableId]) -> i64 {
    const MOST: i64 = 1 << 20;
    let mut outputs = 1i64;
    for variable in free {
        let Some(ranged) = context.ranges.get(variable) else { continue };
        if let (Some(lo), Some(hi)) = (context.constant(ranged.lo), context.constant(ranged.hi)) {
            outputs = outputs.saturating_mul(extent(lo, hi).max(1)).min(MOST);
        }
    }
    (MOST / outputs).max(1)
}

fn collect_assigned(statements: &[LocalStatement], out: &mut Vec<LocalId>) {
    for statement in statements {
        match statement {
            LocalStatement::Set(local, _) => {
                if !out.contains(local) {
                    out.push(*local);
                }
            }
            LocalStatement::While(_, body) | LocalStatement::For(_, _, _, body) => collect_assigned(body, out),
            LocalStatement::If(_, then, otherwise) => {
                collect_assigned(then, out);
                collect_assigned(otherwise, out);
            }
        }
    }
}
