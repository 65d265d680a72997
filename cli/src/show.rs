//! Values for people: results on standard output, abridged.

use half::{bf16, f16};

use gpukc_cli::tensor::kind;
use gpukc_cpu::Tensor;
use gpukc_dsl::types::Type;

/// Values shown along the last axis, and along each of the others.
const LAST: usize = 8;
const OTHERS: usize = 3;

/// One line: `y: f32[3] = [1.0, 2.0, 3.0]`.
pub fn summary(name: &str, tensor: &Tensor) -> String {
    let mut text = format!("{name}: {} = ", kind(tensor.element(), tensor.shape()));
    if tensor.is_empty() {
        text.push_str("[]");
    } else {
        values(tensor, 0, 0, &mut text);
    }
    text
}

fn values(tensor: &Tensor, axis: usize, at: usize, text: &mut String) {
    let shape = tensor.shape();
    let Some(&extent) = shape.get(axis) else {
        let size = tensor.element().size();
        text.push_str(&value(tensor.element(), &tensor.bytes()[at * size..][..size]));
        return;
    };
    let extent = extent as usize;
    let step: usize = shape[axis + 1..].iter().product::<i64>() as usize;
    let most = if axis + 1 == shape.len() { LAST } else { OTHERS };
    // The first ones and, if some are left out, the last.
    let shown = if extent <= most + 1 { extent } else { most };
    text.push('[');
    for index in 0..shown {
        if index > 0 {
            text.push_str(", ");
        }
        values(tensor, axis + 1, at + index * step, text);
    }
    if shown < extent {
        text.push_str(", …, ");
        values(tensor, axis + 1, at + (extent - 1) * step, text);
    }
    text.push(']');
}

fn value(element: Type, bytes: &[u8]) -> String {
    macro_rules! number {
        ($ty:ty) => {
            <$ty>::from_ne_bytes(bytes.try_into().unwrap_or_default())
        };
    }
    match element {
        Type::Bool => (bytes[0] != 0).to_string(),
        Type::I8 => number!(i8).to_string(),
        Type::I16 => number!(i16).to_string(),
        Type::I32 => number!(i32).to_string(),
        Type::I64 => number!(i64).to_string(),
        Type::U8 => number!(u8).to_string(),
        Type::U16 => number!(u16).to_string(),
        Type::U32 => number!(u32).to_string(),
        Type::U64 => number!(u64).to_string(),
        Type::F16 => format!("{:?}", f16::from_bits(number!(u16)).to_f32()),
        Type::Bf16 => format!("{:?}", bf16::from_bits(number!(u16)).to_f32()),
        Type::F32 => format!("{:?}", number!(f32)),
        Type::F64 => format!("{:?}", number!(f64)),
    }
}
