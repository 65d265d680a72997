//! Which parameter of a kernel may give its memory to the result: the kernel computes each element of the result from the same
//! element of the parameter, so that nothing is read after it has been overwritten.

use std::collections::HashSet;

use super::{Array, ArrayId, Bounds, ExprId, ExprKind, Kernel, Parameter, Statement, StatementKind, Subscript, VariableId, print};

/// The parameters in which a kernel of one result may be computed in place: those of the result's type and shape in which it is
/// element-wise. Each such parameter, and every `let` that depends on it, is read at the element that is being defined only,
/// outside of reductions, and by no statement that is not needed for the result.
pub fn in_place(kernel: &Kernel) -> Vec<ArrayId> {
    let &[result] = kernel.results.as_slice() else { return Vec::new() };
    let parameters = kernel.parameters.iter().filter_map(|parameter| match *parameter {
        Parameter::Array(id) => Some(id),
        Parameter::Scalar(_) => None,
    });
    parameters.filter(|&id| alike(kernel, id, result) && is_element_wise(kernel, id, result)).collect()
}

fn alike(kernel: &Kernel, a: ArrayId, b: ArrayId) -> bool {
    let shape = |array: &Array| array.shape.iter().map(|&extent| print::expr(kernel, extent)).collect::<Vec<_>>();
    let (a, b) = (&kernel.arrays[a], &kernel.arrays[b]);
    a.element == b.element && shape(a) == shape(b)
}

fn is_element_wise(kernel: &Kernel, parameter: ArrayId, result: ArrayId) -> bool {
    let mut dependent = HashSet::from([parameter]);
    let mut done = false;
    for statement in &kernel.statements {
        let mut reads = Reads { kernel, statement, dependent: &dependent, any: false, apart: false };
        reads.expr(statement.value, false);
        statement.subscripts.iter().for_each(|subscript| reads.subscript(subscript, true));
        for range in &statement.variables {
            reads.expr(range.lo, true);
            reads.expr(range.hi, true);
        }
        let (any, apart) = (reads.any, reads.apart);
        if apart || (done && (any || statement.array == result)) {
            return false;
        }
        let whole = statement.kind == StatementKind::Define && identity(kernel, &statement.subscripts).is_some();
        if statement.array == result {
            // All of the result at once, or its other parts would be overwritten too early.
            if !whole {
                return false;
            }
            done = true;
        } else if any {
            if !whole || !alike(kernel, statement.array, result) {
                return false;
            }
            dependent.insert(statement.array);
        }
    }
    done
}

/// The variables, if the subscripts are distinct variables.
fn identity(kernel: &Kernel, subscripts: &[Subscript]) -> Option<Vec<VariableId>> {
    let mut variables = Vec::with_capacity(subscripts.len());
    for subscript in subscripts {
        match kernel.exprs[subscript.index].kind {
            ExprKind::Variable(variable) if subscript.bounds == Bounds::Proved && !variables.contains(&variable) => {
                variables.push(variable);
            }
            _ => return None,
        }
    }
    Some(variables)
}

/// How a statement reads some arrays.
struct Reads<'a> {
    kernel: &'a Kernel,
    statement: &'a Statement,
    dependent: &'a HashSet<ArrayId>,
    /// It reads them.
    any: bool,
    /// It reads them elsewhere than at the element that it defines.
    apart: bool,
}

impl Reads<'_> {
    /// `inside`: what is read here counts as elsewhere.
    fn expr(&mut self, id: ExprId, inside: bool) {
        match &self.kernel.exprs[id].kind {
            ExprKind::Literal(_) | ExprKind::Dim(_) | ExprKind::Variable(_) | ExprKind::Scalar(_) | ExprKind::Local(_) => {}
            ExprKind::Read { array, subscripts } => {
                if self.dependent.contains(array) {
                    self.any = true;
                    let own = identity(self.kernel, &self.statement.subscripts);
                    self.apart |= inside || own.is_none() || own != identity(self.kernel, subscripts);
                }
                subscripts.iter().for_each(|subscript| self.subscript(subscript, inside));
            }
            ExprKind::Reduce(reduce) => {
                for range in &reduce.variables {
                    self.expr(range.lo, true);
                    self.expr(range.hi, true);
                }
                reduce.filter.iter().for_each(|&filter| self.expr(filter, true));
                self.expr(reduce.body, true);
            }
            ExprKind::Unary(_, a) | ExprKind::Cast(a) => self.expr(*a, inside),
            ExprKind::Binary(_, a, b) => {
                self.expr(*a, inside);
                self.expr(*b, inside);
            }
            ExprKind::If { condition, then, otherwise } => {
                [condition, then, otherwise].into_iter().for_each(|&e| self.expr(e, inside))
            }
            ExprKind::Builtin(_, arguments) | ExprKind::Call(_, arguments) => arguments.iter().for_each(|&e| self.expr(e, inside)),
        }
    }

    fn subscript(&mut self, subscript: &Subscript, inside: bool) {
        self.expr(subscript.index, inside);
        if let Bounds::Constant(value) = subscript.bounds {
            self.expr(value, inside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    /// Names of the parameters, for the last kernel of a text.
    fn names(text: &str) -> Vec<String> {
        let checked = crate::check(&Source::new("t", text));
        let program = checked.program.unwrap_or_else(|| panic!("{:?}", checked.problems));
        let kernel = program.kernels.last().unwrap();
        in_place(kernel).into_iter().map(|id| kernel.arrays[id].name.clone()).collect()
    }

    #[test]
    fn element_wise_parameters_are_found() {
        assert_eq!(names("kernel k(a: f32, x: f32[n], y: f32[n]) -> z: f32[n] { z[i] = a * x[i] + y[i]; }"), ["x", "y"]);
        assert_eq!(names("kernel k(x: f32[n, m], b: f32[m]) -> z: f32[n, m] { z[i, j] = x[i, j] + b[j]; }"), ["x"]);
        assert_eq!(names("kernel k(x: f32[n]) -> z: f32[n] { let t[i] = x[i] * 2.0; z[i] = t[i] + x[i]; }"), ["x"]);
        assert_eq!(names("kernel k(x: f32[n], w: f32[n]) -> z: f32[n] { let s = sum[k] w[k]; z[i] = x[i] * s; }"), ["x"]);
        assert_eq!(
            names("kernel f(x: f32[n]) -> z: f32[n] { z[i] = x[i]; } kernel k(x: f32[n]) -> z: f32[n] { let t = f(x); z[i] = t[i]; }"),
            ["x"]
        );
    }

    #[test]
    fn everything_else_is_refused() {
        // Other elements: shifted, transposed, by a rule, in a reduction, through a `let`.
        assert!(names("kernel k(x: f32[n]) -> z: f32[n] { z[i] = x[n - 1 - i]; }").is_empty());
        assert!(names("kernel k(x: f32[n, n]) -> z: f32[n, n] { z[i, j] = x[j, i]; }").is_empty());
        assert!(names("kernel k(x: f32[n]) -> z: f32[n] { z[i] = x[i - 1 | clamp]; }").is_empty());
        assert!(names("kernel k(x: f32[n]) -> z: f32[n] { z[i] = x[i] / sum[k] x[k]; }").is_empty());
        assert!(names("kernel k(x: f32[n]) -> z: f32[n] { let t[i] = x[i]; z[i] = t[i - 1 | clamp]; }").is_empty());
        assert!(names("kernel k(x: f32[n]) -> z: f32[n] { z[i] = sum[k in 0..=i] x[k]; }").is_empty());
        // Another type, another shape, several statements or results.
        assert!(names("kernel k(x: i32[n]) -> z: f32[n] { z[i] = x[i] as f32; }").is_empty());
        assert!(
            names("kernel k(x: f32[2 * n], w: f32[n]) -> z: f32[2 * n] { z[2 * i] = x[2 * i] + w[i]; z[2 * i + 1] = x[2 * i + 1] * w[i]; }")
                .is_empty()
        );
        assert!(names("kernel k(x: f32[n]) -> (y: f32[n], z: f32[n]) { y[i] = x[i]; z[i] = x[i]; }").is_empty());
        assert!(names("kernel k(x: i32[n]) -> z: i32[n] { z[x[i]] += 1; }").is_empty());
    }
}
