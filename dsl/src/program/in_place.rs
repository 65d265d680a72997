//! Which parameter of a kernel may give its memory to the result: the kernel computes each element of the result from the same
//! element of the parameter, so that nothing is read after it has been overwritten.

use std::collections::HashSet;

use super::{ArrayId, Bounds, ExprId, ExprKind, Kernel, Parameter, Statement, StatementKind, Subscript, VariableId, print};

/// The parameters in which a kernel of one result may be computed in place: those of the result's type and shape in which it is
/// element-wise. Each such parameter, and every `let` that depends on it, is read at the element that is being defined only,
/// outside of reductions, and by no statement that is not needed for the result.
pub fn in_place(kernel: &Kernel) -> Vec<ArrayId> {
    let parameters = kernel.parameters.iter().filter_map(|parameter| match *parameter {
        Parameter::Array(id) => Some(id),
        Parameter::Scalar(_) => None,
    });
    parameters.filter(|&id| refusal(kernel, id).is_none()).collect()
}

/// Why a parameter can't give its memory to the result, in one clause; none if it can.
pub fn refusal(kernel: &Kernel, parameter: ArrayId) -> Option<String> {
    let &[result] = kernel.results.as_slice() else {
        return Some(format!("`{}` has {} results", kernel.name, kernel.results.len()));
    };
    if !alike(kernel, parameter, result) {
        return Some(format!("{} has another type than the result, {}", declared(kernel, parameter), declared(kernel, result)));
    }
    other_elements(kernel, parameter, result)
}

fn alike(kernel: &Kernel, a: ArrayId, b: ArrayId) -> bool {
    kernel.arrays[a].element == kernel.arrays[b].element && shape(kernel, a) == shape(kernel, b)
}

/// The extents, as they are written.
fn shape(kernel: &Kernel, id: ArrayId) -> Vec<String> {
    kernel.arrays[id].shape.iter().map(|&extent| print::expr(kernel, extent)).collect()
}

fn declared(kernel: &Kernel, id: ArrayId) -> String {
    let array = &kernel.arrays[id];
    match shape(kernel, id).as_slice() {
        [] => format!("`{}: {}`", array.name, array.element),
        extents => format!("`{}: {}[{}]`", array.name, array.element, extents.join(", ")),
    }
}

/// Where the kernel reads elements of the parameter that are overwritten by then.
fn other_elements(kernel: &Kernel, parameter: ArrayId, result: ArrayId) -> Option<String> {
    let name = |id: ArrayId| &kernel.arrays[id].name;
    let parts = || Some(format!("no single statement defines all of `{}`", name(result)));
    let mut dependent = HashSet::from([parameter]);
    let mut done = false;
    for statement in &kernel.statements {
        let mut reads = Reads { kernel, statement, dependent: &dependent, any: false, apart: None };
        reads.expr(statement.value, false);
        statement.subscripts.iter().for_each(|subscript| reads.subscript(subscript, true));
        for range in &statement.variables {
            reads.expr(range.lo, true);
            reads.expr(range.hi, true);
        }
        let (any, apart) = (reads.any, reads.apart);
        if let Some((read, array)) = apart {
            let through = if array == parameter { String::new() } else { format!(", which depends on `{}`,", name(parameter)) };
            let (read, target) = (print::expr(kernel, read), target(kernel, statement));
            return Some(format!("`{read}`{through} is read for `{target}`, and may have been overwritten by then"));
        }
        if done && any {
            return Some(format!("`{}` is read again when `{}` has been computed", name(parameter), name(result)));
        }
        let whole = statement.kind == StatementKind::Define && identity(kernel, &statement.subscripts).is_some();
        if statement.array == result {
            // All of the result at once, or its other parts would be overwritten too early.
            if !whole || done {
                return parts();
            }
            done = true;
        } else if any {
            if !whole || !alike(kernel, statement.array, result) {
                let between = declared(kernel, statement.array);
                return Some(format!("{between}, which depends on `{}`, is not of the type of the result", name(parameter)));
            }
            dependent.insert(statement.array);
        }
    }
    if done { None } else { parts() }
}

/// The left side of a statement.
fn target(kernel: &Kernel, statement: &Statement) -> String {
    let subscripts: Vec<String> = statement.subscripts.iter().map(|subscript| print::expr(kernel, subscript.index)).collect();
    match subscripts.as_slice() {
        [] => kernel.arrays[statement.array].name.clone(),
        subscripts => format!("{}[{}]", kernel.arrays[statement.array].name, subscripts.join(", ")),
    }
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
    /// The first read elsewhere than at the element that it defines, and of what.
    apart: Option<(ExprId, ArrayId)>,
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
                    if inside || own.is_none() || own != identity(self.kernel, subscripts) {
                        self.apart.get_or_insert((id, *array));
                    }
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

    #[test]
    fn refusals_say_why() {
        let why = |text: &str| {
            let program = crate::check(&Source::new("t", text)).program.unwrap();
            let kernel = program.kernels.last().unwrap();
            let x = kernel.arrays.iter().find(|(_, array)| array.name == "x").unwrap().0;
            refusal(kernel, x).unwrap_or_default()
        };
        assert_eq!(why("kernel k(x: f32[n]) -> z: f32[n] { z[i] = x[i]; }"), "");
        assert_eq!(
            why("kernel k(x: f32[n]) -> z: f32[n] { z[i] = x[i] / sum[k] x[k]; }"),
            "`x[k]` is read for `z[i]`, and may have been overwritten by then"
        );
        assert_eq!(
            why("kernel k(x: f32[n]) -> z: f32[n] { let t[i] = x[i]; z[i] = t[n - 1 - i]; }"),
            "`t[n - 1 - i]`, which depends on `x`, is read for `z[i]`, and may have been overwritten by then"
        );
        assert_eq!(
            why("kernel k(x: f32[m, n]) -> f32 { sum[i, j] x[i, j] }"),
            "`x: f32[m, n]` has another type than the result, `out: f32`"
        );
        assert_eq!(why("kernel k(x: f32[n]) -> (y: f32[n], z: f32[n]) { y[i] = x[i]; z[i] = x[i]; }"), "`k` has 2 results");
        assert_eq!(
            why("kernel k(x: f32[2 * n], w: f32[n]) -> z: f32[2 * n] { z[2 * i] = w[i]; z[2 * i + 1] = w[i]; }"),
            "no single statement defines all of `z`"
        );
        assert_eq!(
            why("kernel k(x: f32[n]) -> z: f32[n] { let t[i] = x[i] as i32; z[i] = t[i] as f32; }"),
            "`t: i32[n]`, which depends on `x`, is not of the type of the result"
        );
    }
}
