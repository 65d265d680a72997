//! What code costs, roughly, in nanoseconds: to choose which way the lanes run.

use crate::build::Context;
use crate::code::*;

/// What starting an instruction costs.
const START: f64 = 15.0;
/// Values of a range that is not known yet.
const UNKNOWN: f64 = 16.0;

fn known(len: &Len) -> f64 {
    if let Len::Const(n) = len { *n as f64 } else { UNKNOWN }
}

/// The cost of a whole step.
pub fn of(step: &Step, context: Context) -> f64 {
    let lens: Vec<f64> = step.variables.iter().map(|(_, len)| known(len)).collect();
    let first = lens.len() - step.lanes;
    let outer: f64 = lens[..first].iter().product();
    let inner: f64 = lens[first..].iter().product();
    let chunks = (inner / context.width as f64).ceil().max(1.0);
    let n = (inner / chunks).max(1.0);
    let last = step.scopes.len() - 1;
    let mut cost = outer * chunks * (100.0 + block(&step.scopes[last], n, context));
    for scope in &step.scopes[..last] {
        cost += outer * block(scope, 1.0, context);
    }
    cost
}

fn block(instrs: &[Instr], n: f64, context: Context) -> f64 {
    instrs.iter().map(|instr| one(instr, n, context)).sum()
}

fn one(instr: &Instr, n: f64, context: Context) -> f64 {
    match instr {
        Instr::Op1(..) | Instr::Op2(..) | Instr::Op3(..) | Instr::Index(..) => START + 0.15 * n,
        Instr::Columns(_) => START + 0.6 * n,
        Instr::Read(read) => {
            let moving = || read.ruled.iter().map(|dim| &dim.index).chain([&read.flat]);
            let stride: i64 = read.flat.stride + read.ruled.iter().map(|dim| dim.index.stride * dim.pitch).sum::<i64>();
            START
                + if moving().any(|index| index.column.is_some()) {
                    1.5 * n
                } else if !moving().any(Index::varies) {
                    0.0
                } else if stride == 1 {
                    0.12 * n
                } else {
                    1.0 * n
                }
        }
        Instr::Reduce(code) if code.row => {
            let terms: f64 = code.variables.iter().map(|(_, len)| known(len)).product();
            let most = if code.flat.is_some() || code.variables.len() == 1 {
                terms
            } else {
                code.variables.last().map_or(1.0, |(_, len)| known(len))
            };
            let n = most.min(context.width as f64).max(1.0);
            let chain = if matches!(code.order, OrderCode::Sharing(_)) { 1.3 } else { 0.12 };
            200.0 + (terms / n).max(1.0) * (block(&code.body, n, context) + START + chain * n)
        }
        Instr::Reduce(code) => {
            let terms: f64 = code.variables.iter().map(|(_, len)| known(len)).product();
            START + terms * (block(&code.body, n, context) + START + 0.12 * n)
        }
        Instr::Loop(code) => {
            let trips = code.trips.as_ref().filter(|trips| trips.uniform.is_empty()).map_or(UNKNOWN, |trips| trips.constant as f64);
            trips * (block(&code.condition, n, context) + block(&code.body, n, context))
        }
    }
}
