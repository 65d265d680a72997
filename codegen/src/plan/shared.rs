//! Shared memory of a launch: what it needs, and where arrays lie that need more than the static 48 KB.

use crate::plan::{CudaType, Launch, Memory, Node};

/// Static shared memory that every architecture grants a block.
pub const STATIC_BYTES: usize = 48 * 1024;

/// Bytes that an array of shared memory takes, padding to 16 included.
pub fn bytes(ty: &CudaType, extents: &[u32]) -> usize {
    let elements = extents.iter().fold(1_usize, |product, extent| product.saturating_mul(*extent as usize));
    elements.saturating_mul(size_of(ty)).saturating_add(15) / 16 * 16
}

fn size_of(ty: &CudaType) -> usize {
    match ty {
        CudaType::Element(ty) => ty.size(),
        CudaType::Pack(ty, lanes) => ty.size() * *lanes as usize,
        CudaType::Best(_) => 16,
        CudaType::Class(_, ty) => 12 * ty.size().max(8),
    }
}

/// Moves the shared arrays of a launch that needs more than static memory to dynamic memory, one after the other.
pub fn place(launch: &mut Launch) {
    let mut total = 0;
    each_shared(&mut launch.body, &mut |_, bytes| total += bytes);
    if total <= STATIC_BYTES {
        return;
    }
    let mut at = 0;
    each_shared(&mut launch.body, &mut |memory, bytes| {
        *memory = Memory::Dynamic(at);
        at = at.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    });
    launch.dynamic_shared = at;
}

fn each_shared(nodes: &mut [Node], visit: &mut impl FnMut(&mut Memory, usize)) {
    for node in nodes {
        match node {
            Node::Array { ty, extents, memory: memory @ Memory::Shared, .. } => {
                let bytes = bytes(ty, extents);
                visit(memory, bytes);
            }
            Node::For { body, .. } | Node::While(_, body) | Node::Scope(body) | Node::Reduce { body, .. } => each_shared(body, visit),
            Node::If { then, otherwise, .. } => {
                each_shared(then, visit);
                each_shared(otherwise, visit);
            }
            _ => {}
        }
    }
}
