//! Schedule hints: `@block`, `@tile`, `@unroll`. A schedule asks for those that it can honour. A kernel's hint speaks to all of its
//! launches and is honoured if one of them takes it; a hint that none takes is an error.

use gpukc_dsl::program::{Statement, VariableId};
use gpukc_dsl::source::Span;

use super::context::Lowering;
use crate::error::Error;

/// Hints that have been taken, by their place in the source.
#[derive(Default)]
pub struct Taken(Vec<Span>);

/// Most accesses of an array that a thread has in flight.
const MOST_UNROLLED: u32 = 16;

fn refusal(span: Span, hint: &str, why: &str) -> Error {
    Error::limit(span, format!("the hint {hint} can't be honoured: {why}"))
}

impl Lowering<'_> {
    /// The threads of a block that a statement asks for.
    pub fn block_hint(&mut self, statement: &Statement) -> Result<Option<u32>, Error> {
        let Some((threads, span)) = statement.attributes.block else { return Ok(None) };
        self.taken.0.push(span);
        match threads {
            threads if threads % 32 == 0 => Ok(Some(threads)),
            _ => Err(refusal(span, "@block", "a block is whole warps, so a multiple of 32 threads")),
        }
    }

    /// How many accesses a thread has in flight.
    pub fn unroll_hint(&mut self, statement: &Statement) -> Result<Option<u32>, Error> {
        let Some((factor, span)) = statement.attributes.unroll else { return Ok(None) };
        self.taken.0.push(span);
        match factor {
            factor if factor <= MOST_UNROLLED => Ok(Some(factor)),
            _ => Err(refusal(span, "@unroll", "a thread has registers for at most 16 accesses in flight")),
        }
    }

    /// The tile that a statement asks for, along these variables; those that it does not name are left open.
    pub fn tile_hint(&mut self, statement: &Statement, variables: &[VariableId]) -> Option<Vec<Option<i64>>> {
        let tile = &statement.attributes.tile;
        let named = |variable: &VariableId| {
            let name = &self.kernel.variables[*variable].name;
            tile.iter().find(|(hint, _, _)| hint == name).map(|(_, size, span)| (i64::from(*size), *span))
        };
        let found: Vec<_> = variables.iter().map(named).collect();
        self.taken.0.extend(found.iter().flatten().map(|(_, span)| *span));
        found.iter().any(Option::is_some).then(|| found.into_iter().map(|size| size.map(|(size, _)| size)).collect())
    }

    /// Why a schedule can't compute in the tile that a statement asks for.
    pub fn refuse_tile(&self, statement: &Statement, why: &str) -> Error {
        let span = statement.attributes.tile.first().map_or(statement.span, |(_, _, span)| *span);
        refusal(span, "@tile", why)
    }

    /// Refuses a hint that no launch has taken.
    pub fn refuse_hints_left(&self) -> Result<(), Error> {
        for statement in &self.kernel.statements {
            let attributes = &statement.attributes;
            let block =
                attributes.block.map(|(_, span)| (span, "@block", "no launch leaves the size of its blocks open; leave it out"));
            let unroll =
                attributes.unroll.map(|(_, span)| (span, "@unroll", "no launch has a loop to unroll by choice; leave it out"));
            let no_tile = "no launch has a tile along this variable; leave it out";
            let tile = attributes.tile.iter().map(|(_, _, span)| (*span, "@tile", no_tile));
            for (span, hint, why) in block.into_iter().chain(unroll).chain(tile) {
                if !self.taken.0.contains(&span) {
                    return Err(refusal(span, hint, why));
                }
            }
        }
        Ok(())
    }
}
