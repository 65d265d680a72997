//! The invariants of a typed program, numbered. A broken one is a fault of the checker, never of the program's text.

use super::*;

/// A numbered invariant and how it is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The invariant's number.
    pub number: u32,
    /// What is wrong.
    pub what: String,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "invariant {}: {}", self.number, self.what)
    }
}

type Verdict = Result<(), String>;

/// Checks all invariants of a program.
pub fn program(program: &Program) -> Result<(), Broken> {
    program.kernels.iter().try_for_each(kernel)?;
    let numbered = |what| Broken { number: 12, what };
    program.functions.iter().try_for_each(|(id, function)| functions_call_earlier_ones(id, function).map_err(numbered))
}

/// Checks all invariants of a kernel.
pub fn kernel(kernel: &Kernel) -> Result<(), Broken> {
    let checks: [fn(&Kernel) -> Verdict; 11] = [
        parts_come_first,
        operands_have_one_type,
        no_arithmetic_on_storage_types,
        literals_fit,
        subscripts_match_ranks,
        indices_are_i64,
        conditions_are_bool,
        variables_are_in_scope,
        values_have_the_element_type,
        arrays_are_defined_before_they_are_read,
        ranges_are_independent,
    ];
    for (at, check) in checks.iter().enumerate() {
        check(kernel).map_err(|what| Broken { number: at as u32 + 1, what })?;
    }
    Ok(())
}

fn all(kernel: &Kernel, f: impl Fn(ExprId, &Expr) -> Option<String>) -> Verdict {
    match kernel.exprs.iter().find_map(|(id, expr)| f(id, expr)) {
        Some(what) => Err(what),
        None => Ok(()),
    }
}

/// 1. An expression stands in its arena after everything that it is made of.
fn parts_come_first(kernel: &Kernel) -> Verdict {
    let mut children = Vec::new();
    for (id, expr) in kernel.exprs.iter() {
        children.clear();
        crate::check::walk::children(&expr.kind, &mut children);
        if let Some(child) = children.iter().find(|&&child| child >= id) {
            return Err(format!("expression {id:?} is made of {child:?}"));
        }
    }
    Ok(())
}

/// 2. The operands of an operator, and the sides of an `if`, have one type; comparisons and logic give bool.
fn operands_have_one_type(kernel: &Kernel) -> Verdict {
    all(kernel, |id, expr| {
        let ty = |id: ExprId| kernel.exprs[id].ty;
        let fine = match &expr.kind {
            ExprKind::Binary(op, a, b) if op.is_comparison() => ty(*a) == ty(*b) && expr.ty == Type::Bool,
            ExprKind::Binary(BinaryOp::And | BinaryOp::Or, a, b) => {
                ty(*a) == Type::Bool && ty(*b) == Type::Bool && expr.ty == Type::Bool
            }
            ExprKind::Binary(_, a, b) => ty(*a) == ty(*b) && ty(*a) == expr.ty,
            ExprKind::Unary(_, a) => ty(*a) == expr.ty,
            ExprKind::If { condition, then, otherwise } => {
                ty(*condition) == Type::Bool && ty(*then) == expr.ty && ty(*otherwise) == expr.ty
            }
            ExprKind::Cast(a) => ty(*a) != expr.ty,
            _ => true,
        };
        (!fine).then(|| format!("types of expression {id:?}: {:?}", expr.kind))
    })
}

/// 3. Arithmetic never happens in a storage type.
fn no_arithmetic_on_storage_types(kernel: &Kernel) -> Verdict {
    all(kernel, |id, expr| match &expr.kind {
        ExprKind::Binary(_, a, _) if kernel.exprs[*a].ty.is_storage() => {
            Some(format!("expression {id:?} computes in {}", kernel.exprs[*a].ty))
        }
        ExprKind::Unary(..) if expr.ty.is_storage() => Some(format!("expression {id:?} computes in {}", expr.ty)),
        _ => None,
    })
}

/// 4. A literal is a value of its type.
fn literals_fit(kernel: &Kernel) -> Verdict {
    all(kernel, |id, expr| {
        let ExprKind::Literal(value) = &expr.kind else { return None };
        let fits = match *value {
            Literal::Bool(_) => expr.ty == Type::Bool,
            Literal::Int(value) => {
                let (lo, hi) = expr.ty.integer_range();
                expr.ty.is_integer() && lo <= value && value <= hi
            }
            Literal::Float(_) => expr.ty.is_float(),
        };
        (!fits).then(|| format!("literal {id:?} is {value:?}, of type {}", expr.ty))
    })
}

/// 5. Reads and left sides have one subscript per dimension.
fn subscripts_match_ranks(kernel: &Kernel) -> Verdict {
    all(kernel, |id, expr| match &expr.kind {
        ExprKind::Read { array, subscripts } if kernel.arrays[*array].rank() != subscripts.len() => {
            Some(format!("rank of read {id:?}"))
        }
        _ => None,
    })?;
    match kernel.statements.iter().find(|s| kernel.arrays[s.array].rank() != s.subscripts.len()) {
        Some(statement) => Err(format!("rank of the left side of `{}`", kernel.arrays[statement.array].name)),
        None => Ok(()),
    }
}

/// 6. Subscripts, ranges and extents are i64; constant boundary values have the element type.
fn indices_are_i64(kernel: &Kernel) -> Verdict {
    let is_i64 = |id: ExprId| kernel.exprs[id].ty == Type::I64;
    let ranges_fit = |ranges: &[Ranged]| ranges.iter().all(|ranged| is_i64(ranged.lo) && is_i64(ranged.hi));
    all(kernel, |id, expr| {
        let fine = match &expr.kind {
            ExprKind::Read { array, subscripts } => subscripts.iter().all(|subscript| {
                let value = match subscript.bounds {
                    Bounds::Constant(value) => kernel.exprs[value].ty == kernel.arrays[*array].element,
                    _ => true,
                };
                is_i64(subscript.index) && value
            }),
            ExprKind::Reduce(reduce) => ranges_fit(&reduce.variables),
            _ => true,
        };
        (!fine).then(|| format!("an index of expression {id:?} is not i64"))
    })?;
    let extents = kernel.arrays.iter().all(|(_, array)| array.shape.iter().all(|&extent| is_i64(extent)));
    let left = kernel.statements.iter().all(|s| ranges_fit(&s.variables) && s.subscripts.iter().all(|s| is_i64(s.index)));
    if extents && left { Ok(()) } else { Err("an extent or a left side is not i64".into()) }
}

/// 7. Conditions of the call are bool and made of dims, scalars and literals; so are extents.
fn conditions_are_bool(kernel: &Kernel) -> Verdict {
    for condition in &kernel.conditions {
        if kernel.exprs[condition.holds].ty != Type::Bool || !crate::check::walk::at_call(kernel, condition.holds) {
            return Err(format!("condition {:?}", condition.reason));
        }
    }
    let extents = kernel.arrays.iter().flat_map(|(_, array)| array.shape.iter());
    match extents.copied().find(|&extent| !crate::check::walk::at_call(kernel, extent)) {
        Some(extent) => Err(format!("extent {extent:?} is not known at the call")),
        None => Ok(()),
    }
}

/// 8. Variables are used only in their statement, or in the body and filter of their reduction, and bound once on the way.
fn variables_are_in_scope(kernel: &Kernel) -> Verdict {
    for statement in &kernel.statements {
        let mut scope: Vec<VariableId> = statement.variables.iter().map(|ranged| ranged.variable).collect();
        for ranged in &statement.variables {
            scoped(kernel, ranged.lo, &[])?;
            scoped(kernel, ranged.hi, &[])?;
        }
        for subscript in &statement.subscripts {
            scoped(kernel, subscript.index, &scope)?;
        }
        scoped(kernel, statement.value, &scope)?;
        scope.sort_unstable();
        scope.dedup();
        if scope.len() != statement.variables.len() {
            return Err("a variable is bound twice on a left side".into());
        }
    }
    Ok(())
}

fn scoped(kernel: &Kernel, root: ExprId, scope: &[VariableId]) -> Verdict {
    let mut work = vec![(root, scope.to_vec())];
    let mut children = Vec::new();
    while let Some((id, scope)) = work.pop() {
        match &kernel.exprs[id].kind {
            ExprKind::Variable(variable) if !scope.contains(variable) => {
                return Err(format!("variable `{}` is out of scope", kernel.variables[*variable].name));
            }
            ExprKind::Reduce(reduce) => {
                let mut inner = scope.clone();
                for ranged in &reduce.variables {
                    if inner.contains(&ranged.variable) {
                        return Err(format!("variable `{}` is bound twice", kernel.variables[ranged.variable].name));
                    }
                    inner.push(ranged.variable);
                    work.extend([(ranged.lo, scope.clone()), (ranged.hi, scope.clone())]);
                }
                work.extend(reduce.filter.map(|filter| (filter, inner.clone())));
                work.push((reduce.body, inner));
            }
            kind => {
                children.clear();
                crate::check::walk::children(kind, &mut children);
                work.extend(children.iter().map(|&child| (child, scope.clone())));
            }
        }
    }
    Ok(())
}

/// 9. A definition's value has the element type, an accumulation's the widened element type; a reduction's body has the
///    accumulator's.
fn values_have_the_element_type(kernel: &Kernel) -> Verdict {
    for statement in &kernel.statements {
        let element = kernel.arrays[statement.array].element;
        let wanted = if statement.kind == StatementKind::Define { element } else { element.widened() };
        if kernel.exprs[statement.value].ty != wanted {
            return Err(format!("the value of `{}`", kernel.arrays[statement.array].name));
        }
    }
    all(kernel, |id, expr| {
        let ExprKind::Reduce(reduce) = &expr.kind else { return None };
        let body = kernel.exprs[reduce.body].ty;
        let fine = match reduce.reducer {
            Reducer::Sum | Reducer::Prod | Reducer::Min | Reducer::Max => body == expr.ty,
            Reducer::Any | Reducer::All => body == Type::Bool && expr.ty == Type::Bool,
            Reducer::Count => body == Type::Bool && expr.ty == Type::I64,
            Reducer::Argmin | Reducer::Argmax => expr.ty == Type::I64 && reduce.variables.len() == 1,
            Reducer::Mean => false,
        };
        let product = matches!(kernel.exprs[reduce.body].kind, ExprKind::Binary(BinaryOp::Mul, ..)) && expr.ty.is_float();
        let fused = !reduce.fused || product && !matches!(reduce.order, Order::Scan(_));
        (!(fine && fused)).then(|| format!("reduction {id:?}"))
    })
}

/// 10. A statement reads only parameters and arrays that all statements before it have defined, never its own.
fn arrays_are_defined_before_they_are_read(kernel: &Kernel) -> Verdict {
    let mut last = std::collections::HashMap::new();
    for (at, statement) in kernel.statements.iter().enumerate() {
        last.insert(statement.array, at);
    }
    for (at, statement) in kernel.statements.iter().enumerate() {
        let mut roots: Vec<ExprId> = statement.subscripts.iter().map(|subscript| subscript.index).collect();
        roots.push(statement.value);
        for root in roots {
            let mut wrong = None;
            crate::check::walk::each(kernel, root, |id| {
                if let ExprKind::Read { array, .. } = &kernel.exprs[id].kind {
                    let ready = kernel.arrays[*array].role == Role::Parameter || last.get(array).is_some_and(|&last| last < at);
                    if !ready {
                        wrong = Some(*array);
                    }
                }
            });
            if let Some(array) = wrong {
                return Err(format!("`{}` is read before it is complete", kernel.arrays[array].name));
            }
        }
    }
    Ok(())
}

/// 11. The ranges of one reduction do not depend on one another; a scan has one variable.
fn ranges_are_independent(kernel: &Kernel) -> Verdict {
    all(kernel, |id, expr| {
        let ExprKind::Reduce(reduce) = &expr.kind else { return None };
        let depends = reduce.variables.iter().any(|ranged| {
            let ends = [ranged.lo, ranged.hi];
            reduce.variables.iter().any(|other| ends.iter().any(|&end| crate::check::walk::mentions(kernel, end, other.variable)))
        });
        let scan = matches!(reduce.order, Order::Scan(_)) && reduce.variables.len() != 1;
        (depends || scan).then(|| format!("ranges of reduction {id:?}"))
    })
}

/// 12. A function calls only functions that stand before it.
fn functions_call_earlier_ones(id: FunctionId, function: &Function) -> Verdict {
    let later = function.exprs.iter().any(|(_, expr)| matches!(expr.kind, ExprKind::Call(called, _) if called >= id));
    if later { Err(format!("`{}` calls a later function", function.name)) } else { Ok(()) }
}
