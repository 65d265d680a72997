//! The state of a lowering: the plan so far, and the launch that is being written: its parameters, names, bindings and nodes.

use std::collections::{BTreeMap, BTreeSet};

use gpukc_dsl::program::{Array, ArrayId, ExprId, FunctionId, Kernel, Program, Ranged, ScalarId, Statement, VariableId};
use gpukc_dsl::source::Span;
use gpukc_dsl::types::Type;

use super::Lowered;
use super::hints::Taken;
use super::place::{Place, Places};
use super::read::Staged;
use super::unused::drop_unused;
use crate::emit::DeviceFunction;
use crate::emit::names::Namer;
use crate::error::Error;
use crate::facts::Facts;
use crate::formula::{Formula, Op};
use crate::kernel::{Argument, Scratch, Site};
use crate::plan::{CudaType, Expr, Launch, Memory, Node, Parameter, ParameterType, Plan, append, int, long, name, shared};
use crate::size;
use crate::target::Target;

/// Bytes of an array that a level-2 cache may no longer hold as a whole.
const LARGE: i64 = 1 << 24;

/// See the module.
pub struct Lowering<'a> {
    pub program: &'a Program,
    pub kernel: &'a Kernel,
    pub target: Target,
    pub facts: &'a Facts,
    pub places: Places,
    pub plan: Plan,
    pub functions: Vec<DeviceFunction>,
    /// User functions lowered so far and the names they got.
    pub function_names: BTreeMap<FunctionId, String>,
    pub file_namer: Namer,
    // The launch that is being written.
    pub namer: Namer,
    parameters: Vec<Parameter>,
    /// Names that parameters will have, by what the source calls them.
    reserved: BTreeMap<String, String>,
    written: Vec<ArrayId>,
    /// What each bound index variable is, of the index type.
    pub variables: BTreeMap<VariableId, Expr>,
    /// On-chip arrays: what their element at the current position is.
    pub chip: BTreeMap<ArrayId, Expr>,
    /// Expressions that have been computed already, e.g. a read that a wide load covers.
    pub computed: BTreeMap<ExprId, Expr>,
    /// Variables that run together as one: neighbouring elements of every array that mentions them.
    pub flat: Option<Flat>,
    /// The left side's variables, where elements are computed one after another and `let`s at the same place share what is known.
    pub element: Option<Vec<Ranged>>,
    /// Boundary rules have nothing to do at the moment: every read lies inside.
    pub interior: bool,
    /// Subscripts of arrays, by axis, that have been found in range for all that a loop goes over.
    pub in_range: BTreeSet<(ArrayId, usize, ExprId)>,
    /// Extents that are not zero wherever an element is computed.
    pub nonempty: Vec<Formula>,
    /// Reads that a tile in shared memory serves, and where the element lies in the tile.
    pub staged: BTreeMap<ExprId, Staged>,
    pub tile_position: BTreeMap<VariableId, Expr>,
    /// The pack that collects neighbouring results at the moment.
    pub output_pack: Option<Expr>,
    /// Hints that schedules have honoured.
    pub taken: Taken,
    /// The large arrays that the last launch over them has touched, and whether it went from the end.
    touched: BTreeSet<ArrayId>,
    backwards: bool,
    blocks: Vec<Block>,
}

/// Variables, slowest first, that number contiguous elements together, and their common position.
#[derive(Clone, Debug)]
pub struct Flat {
    pub variables: Vec<Ranged>,
    pub position: Expr,
}

#[derive(Default)]
struct Block {
    nodes: Vec<Node>,
    /// Names whose scope this block is.
    names: Vec<String>,
    /// Values of inlined `let`s, by what they were computed from.
    locals: Vec<(String, Expr)>,
}

impl<'a> Lowering<'a> {
    pub fn new(
        program: &'a Program,
        kernel: &'a Kernel,
        target: Target,
        facts: &'a Facts,
        places: Places,
        taken: &[String],
    ) -> Result<Self, Error> {
        let plan = Plan { name: kernel.name.clone(), ..Plan::default() };
        let mut lowering = Lowering {
            program,
            kernel,
            target,
            facts,
            places,
            plan,
            functions: Vec::new(),
            function_names: BTreeMap::new(),
            file_namer: Namer::new(),
            namer: Namer::new(),
            parameters: Vec::new(),
            reserved: BTreeMap::new(),
            written: Vec::new(),
            variables: BTreeMap::new(),
            chip: BTreeMap::new(),
            computed: BTreeMap::new(),
            flat: None,
            element: None,
            interior: false,
            in_range: BTreeSet::new(),
            nonempty: Vec::new(),
            staged: BTreeMap::new(),
            tile_position: BTreeMap::new(),
            output_pack: None,
            taken: Taken::default(),
            touched: BTreeSet::new(),
            backwards: false,
            blocks: Vec::new(),
        };
        // Functions have their names before any launch hands out its own.
        super::function::library_names().for_each(|name| lowering.file_namer.reserve(name));
        for (id, function) in program.functions.iter() {
            let fresh = lowering.file_namer.fresh(&function.name);
            lowering.function_names.insert(id, fresh);
        }
        taken.iter().for_each(|name| lowering.file_namer.reserve(name));
        // Numbered in the order of groups, in which a hoisted array may stand before one that the program declares.
        let mut stored: Vec<(usize, &Array)> = Vec::new();
        for (id, array) in kernel.arrays.iter() {
            if let Place::Scratch(index) = lowering.places.of(id) {
                stored.push((index, array));
            }
        }
        stored.sort_by_key(|(index, _)| *index);
        for (_, array) in stored {
            let bytes = lowering.elements(array)?.times(array.element.size() as i64);
            lowering.plan.scratch.push(Scratch { name: array.name.clone(), bytes, zeroed: false });
        }
        Ok(lowering)
    }

    /// The number of elements of an array.
    pub fn elements(&self, array: &Array) -> Result<Formula, Error> {
        array.shape.iter().try_fold(Formula::Constant(1), |n, extent| Ok(n.times(self.formula(*extent)?)))
    }

    /// The formula of an extent or a bound.
    pub fn formula(&self, id: ExprId) -> Result<Formula, Error> {
        size::formula(self.kernel, self.facts, id)
            .ok_or_else(|| Error::limit(self.kernel.exprs[id].span, "this extent is too involved to launch a kernel from"))
    }

    /// The number of values of a range.
    pub fn extent(&self, range: &Ranged) -> Result<Formula, Error> {
        size::extent(self.kernel, self.facts, range)
            .ok_or_else(|| Error::limit(self.kernel.exprs[range.hi].span, "this range is too involved to launch a kernel from"))
    }

    /// The product of the ranges' extents.
    pub fn points(&self, ranges: &[Ranged]) -> Result<Formula, Error> {
        ranges.iter().try_fold(Formula::Constant(1), |n, range| Ok(n.times(self.extent(range)?)))
    }

    /// The type of index variables and offsets in the text.
    pub fn index_type(&self) -> Type {
        if self.facts.narrow { Type::I32 } else { Type::I64 }
    }

    /// An integer of the index type.
    pub fn index_constant(&self, value: i64) -> Expr {
        if self.facts.narrow || i32::try_from(value).is_ok() { int(value) } else { long(value) }
    }

    // ---- launches

    /// Starts a launch that writes these arrays.
    pub fn begin_launch(&mut self, written: &[ArrayId]) {
        self.namer = self.file_namer.clone();
        self.parameters.clear();
        self.written = written.to_vec();
        self.variables.clear();
        self.chip.clear();
        self.computed.clear();
        self.in_range.clear();
        self.flat = None;
        self.element = None;
        self.nonempty.clear();
        self.blocks = vec![Block::default()];
        self.reserve_names();
    }

    /// Names of the source come before names of ours: an array called `row` keeps its name, whatever a loop is called.
    fn reserve_names(&mut self) {
        let kernel = self.kernel;
        let scalars = kernel.scalars.iter().map(|(_, scalar)| scalar.name.clone());
        let dims = kernel.dims.iter().map(|(_, dim)| dim.name.clone());
        let in_memory = |id: &ArrayId| matches!(self.places.of(*id), Place::Memory | Place::Scratch(_));
        let arrays = kernel.arrays.iter().filter(|(id, _)| in_memory(id)).map(|(_, array)| array.name.replace('.', "_"));
        let wishes: Vec<String> = scalars.chain(dims).chain(arrays).collect();
        self.reserved = wishes.into_iter().map(|wish| (wish.clone(), self.namer.local(&wish))).collect();
    }

    /// Every element of the launch has a value of each of these variables.
    pub fn computes_over(&mut self, ranges: &[Ranged]) {
        let extents = ranges.iter().filter_map(|range| {
            let from_zero = size::formula(self.kernel, self.facts, range.lo)?.constant() == Some(0);
            from_zero.then(|| size::formula(self.kernel, self.facts, range.hi)).flatten()
        });
        self.nonempty = extents.collect();
    }

    /// Says which statements the launch computes, before it asks for [`Lowering::block_number`]: where the launch before went over one of the same
    /// large arrays, this one starts at the other end, whose elements are still in the level-2 cache.
    /// Gives whether that decides it.
    pub fn passes_over<'s>(&mut self, statements: impl IntoIterator<Item = &'s Statement>) -> bool {
        let (defined, values): (Vec<ArrayId>, Vec<ExprId>) = statements.into_iter().map(|s| (s.array, s.value)).unzip();
        let mut touched = self.arrays_read(values);
        touched.extend(defined);
        touched.retain(|array| {
            let array = &self.kernel.arrays[*array];
            let bytes = self.elements(array).map(|n| n.times(array.element.size() as i64));
            bytes.is_ok_and(|bytes| self.facts.at_least(&bytes, LARGE))
        });
        let again = !touched.is_disjoint(&self.touched);
        self.backwards = again && !self.backwards;
        self.touched = touched;
        again
    }

    /// Lets blocks go from the end for another reason.
    pub fn go_from_end(&mut self) {
        self.backwards = true;
    }

    /// The block's number along the grid, from the end where that helps the cache.
    pub fn block_number(&self) -> Expr {
        if self.backwards { name("gridDim.x").binary("-", int(1)).binary("-", name("blockIdx.x")) } else { name("blockIdx.x") }
    }

    /// What to say of it.
    pub fn block_order_note(&self) -> Option<String> {
        self.backwards.then(|| "Blocks go from the end, where the launch before has left its elements in the cache.".into())
    }

    /// Ends the launch. `suffix` tells the launches of one kernel apart.
    pub fn end_launch(&mut self, suffix: &str, schedule: &'static str, notes: Vec<String>, grid: [Formula; 3], block: [u32; 3]) {
        let stem = if suffix.is_empty() { self.kernel.name.clone() } else { format!("{}_{suffix}", self.kernel.name) };
        let entry = self.file_namer.entry(&stem);
        let mut body = self.blocks.pop().map(|block| block.nodes).unwrap_or_default();
        let wanted = drop_unused(&mut body);
        let mut parameters = std::mem::take(&mut self.parameters);
        parameters.retain(|parameter| wanted.contains(&parameter.name) || !matches!(parameter.ty, ParameterType::Value(_)));
        parameters.sort_by_key(Parameter::rank);
        let mut launch = Launch::new((entry, schedule, notes), (grid, block), parameters, body);
        shared::place(&mut launch);
        if self.target.has_dependent_launches() {
            launch.overlap();
        }
        self.plan.launches.push(launch);
    }

    /// The plan and its functions.
    pub fn finish(mut self, spans: Vec<Span>) -> Result<Lowered, Error> {
        self.add_library_functions()?;
        self.plan.summary = self.kernel.doc.clone();
        Ok(Lowered { plan: self.plan, functions: self.functions, spans })
    }

    // ---- parameters

    fn parameter(&mut self, wish: &str, ty: ParameterType, argument: Argument) -> Expr {
        if let Some(found) = self.parameters.iter().find(|p| p.argument == argument) {
            return name(found.name.clone());
        }
        let fresh = self.reserved.remove(wish).unwrap_or_else(|| self.namer.local(wish));
        self.parameters.push(Parameter { name: fresh.clone(), ty, argument });
        name(fresh)
    }

    /// The pointer to an array that exists in memory.
    pub fn pointer(&mut self, id: ArrayId) -> Expr {
        let array = &self.kernel.arrays[id];
        let argument = match self.places.of(id) {
            Place::Scratch(index) => Argument::Scratch(index),
            _ => Argument::Array(id),
        };
        let ty = if self.written.contains(&id) { ParameterType::Output(array.element) } else { ParameterType::Input(array.element) };
        let wish = array.name.replace('.', "_");
        self.parameter(&wish, ty, argument)
    }

    /// A new scratch memory of the plan's own.
    pub fn scratch(&mut self, wish: &str, bytes: Formula) -> usize {
        self.plan.scratch.push(Scratch { name: wish.into(), bytes, zeroed: false });
        self.plan.scratch.len() - 1
    }

    /// The pointer to a scratch memory of the plan's own.
    pub fn scratch_pointer(&mut self, index: usize, element: Type, written: bool) -> Expr {
        let wish = self.plan.scratch[index].name.clone();
        let ty = if written { ParameterType::Output(element) } else { ParameterType::Input(element) };
        self.parameter(&wish, ty, Argument::Scratch(index))
    }

    /// Zeros through which blocks tell each other of what they have found.
    pub fn published(&mut self, wish: &str, words: Formula) -> Expr {
        let index = self.scratch(wish, words.times(8));
        self.plan.scratch[index].zeroed = true;
        self.parameter(wish, ParameterType::Published, Argument::Scratch(index))
    }

    /// The value of a scalar parameter.
    pub fn scalar(&mut self, id: ScalarId) -> Expr {
        let scalar = &self.kernel.scalars[id];
        let wish = scalar.name.clone();
        self.parameter(&wish, ParameterType::Value(scalar.ty), Argument::Scalar(id))
    }

    /// The pointer to the report.
    pub fn report(&mut self) -> Expr {
        self.parameter("report", ParameterType::Report, Argument::Report)
    }

    /// A new checked place.
    pub fn site(&mut self, site: Site) -> Expr {
        let number = self.plan.sites.iter().position(|s| *s == site).unwrap_or_else(|| {
            self.plan.sites.push(site);
            self.plan.sites.len() - 1
        });
        Expr::Int(number as i128, Type::U32)
    }

    /// A formula's value, of the index type. Constants and dims stand for themselves, sums and products of few of them are
    /// spelled out; anything else the host computes and passes under the name `wish`.
    pub fn size(&mut self, formula: &Formula, wish: &str) -> Expr {
        match formula {
            Formula::Constant(value) => self.index_constant(*value),
            Formula::Dim(_, dim) => self.size_parameter(&dim.clone(), formula),
            Formula::Binary(Op::Mul, a, b) if simple(a) && simple(b) => self.size(a, wish) * self.size(b, wish),
            _ => self.size_parameter(wish, formula),
        }
    }

    fn size_parameter(&mut self, wish: &str, formula: &Formula) -> Expr {
        let ty = self.index_type();
        self.parameter(wish, ParameterType::Value(ty), Argument::Size(formula.clone(), ty))
    }

    /// The extent of an array's axis, of the index type.
    pub fn array_extent(&mut self, id: ArrayId, axis: usize) -> Result<Expr, Error> {
        let array = &self.kernel.arrays[id];
        let formula = self.formula(array.shape[axis])?;
        Ok(self.size(&formula, &format!("{}_extent{axis}", array.name.replace('.', "_"))))
    }

    // ---- nodes

    /// Appends a node.
    pub fn push(&mut self, node: Node) {
        if let Some(block) = self.blocks.last_mut() {
            append(&mut block.nodes, node);
        }
    }

    /// Collects what `write` appends, as the body of a loop or branch.
    pub fn block<R>(&mut self, write: impl FnOnce(&mut Self) -> Result<R, Error>) -> Result<(Vec<Node>, R), Error> {
        self.blocks.push(Block::default());
        let result = write(self);
        let block = self.blocks.pop().unwrap_or_default();
        block.names.iter().for_each(|name| self.namer.release(name));
        Ok((block.nodes, result?))
    }

    /// A name that is free until the current block ends.
    fn scoped(&mut self, wish: &str) -> String {
        let fresh = self.namer.local(wish);
        if let Some(block) = self.blocks.last_mut() {
            block.names.push(fresh.clone());
        }
        fresh
    }

    /// A name for a variable that is declared before blocks which are written first; they must not declare it too.
    pub fn reserve(&mut self, wish: &str) -> String {
        self.scoped(wish)
    }

    /// Gives a reserved name back.
    pub fn release(&mut self, fresh: &str) {
        self.namer.release(fresh);
        if let Some(block) = self.blocks.last_mut() {
            block.names.retain(|name| name != fresh);
        }
    }

    /// Declares a variable by its reserved name.
    pub fn declare(&mut self, fresh: String, ty: impl Into<CudaType>, value: Option<Expr>) -> Expr {
        self.push(Node::Declare { ty: ty.into(), name: fresh.clone(), value, mutable: true });
        name(fresh)
    }

    /// Declares a constant local and gives its name.
    pub fn local(&mut self, wish: &str, ty: impl Into<CudaType>, value: Expr) -> Expr {
        let fresh = self.scoped(wish);
        self.push(Node::Declare { ty: ty.into(), name: fresh.clone(), value: Some(value), mutable: false });
        name(fresh)
    }

    /// Declares a variable that is assigned later.
    pub fn variable(&mut self, wish: &str, ty: impl Into<CudaType>, value: Option<Expr>) -> Expr {
        let fresh = self.scoped(wish);
        self.push(Node::Declare { ty: ty.into(), name: fresh.clone(), value, mutable: true });
        name(fresh)
    }

    /// Declares a register array.
    pub fn registers(&mut self, wish: &str, ty: impl Into<CudaType>, extents: Vec<u32>) -> Expr {
        self.array(wish, ty, extents, Memory::Registers)
    }

    /// Declares a shared array.
    pub fn shared(&mut self, wish: &str, ty: impl Into<CudaType>, extents: Vec<u32>) -> Expr {
        self.array(wish, ty, extents, Memory::Shared)
    }

    fn array(&mut self, wish: &str, ty: impl Into<CudaType>, extents: Vec<u32>, memory: Memory) -> Expr {
        let fresh = self.scoped(wish);
        self.push(Node::Array { ty: ty.into(), name: fresh.clone(), extents, memory, zeroed: false });
        name(fresh)
    }

    /// A loop `for (ty wish = lo; wish < hi; wish += step)`.
    pub fn each(
        &mut self,
        wish: &str,
        ty: Type,
        [lo, hi, step]: [Expr; 3],
        unroll: crate::plan::Unroll,
        write: impl FnOnce(&mut Self, Expr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if let (Some(first), Some(end), Some(step)) = (lo.constant(), hi.constant(), step.constant()) {
            // One round is no loop.
            if first < end && end <= first + step {
                return write(self, lo);
            }
        }
        let variable = self.namer.local(wish);
        let (body, ()) = self.block(|lowering| write(lowering, name(variable.clone())))?;
        self.namer.release(&variable);
        self.push(Node::For { variable, ty: ty.into(), lo, hi, step, unroll, body });
        Ok(())
    }

    /// A branch without an other side.
    pub fn when(&mut self, condition: Expr, write: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        let (then, ()) = self.block(write)?;
        self.push(Node::If { condition, then, otherwise: Vec::new() });
        Ok(())
    }

    /// A branch, or no branch where there is no condition.
    pub fn when_some(&mut self, condition: Option<Expr>, write: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        match condition {
            Some(condition) => self.when(condition, write),
            None => write(self),
        }
    }

    /// A value computed before in this or an enclosing block.
    pub fn recall(&self, key: &str) -> Option<Expr> {
        self.blocks.iter().rev().flat_map(|block| &block.locals).find(|(k, _)| k == key).map(|(_, value)| value.clone())
    }

    /// Remembers a value for the rest of this block.
    pub fn remember(&mut self, key: String, value: Expr) {
        if let Some(block) = self.blocks.last_mut() {
            block.locals.push((key, value));
        }
    }
}

fn simple(formula: &Formula) -> bool {
    match formula {
        Formula::Constant(_) | Formula::Dim(..) => true,
        Formula::Binary(Op::Mul, a, b) => simple(a) && simple(b),
        _ => false,
    }
}
