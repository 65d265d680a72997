//! The codes of the checker's problems, with what `gpukc explain` says of each.

/// Declares codes as constants and as a table.
macro_rules! codes {
    ($($name:ident = $code:literal, $title:literal, $text:literal;)+) => {
        $(#[doc = $title] pub const $name: u16 = $code;)+
        /// Every code of the checker: number, short title, explanation.
        pub const TABLE: &[(u16, &str, &str)] = &[$(($code, $title, $text)),+];
    };
}

codes! {
    INTERNAL = 91, "internal error of the compiler",
        "The checker made a program that breaks its own rules. This is a fault of the compiler, not of the text: please report it with the text.";
    TOO_DEEP = 90, "nested too deeply",
        "Expressions may nest 256 levels deep (chains such as `a + b + c + …` count as one). Split a deeper one with `let`.";
    UNKNOWN_NAME = 101, "unknown name",
        "A name is used that nothing in scope defines: no parameter, dim, result, `let`, constant or index variable.\n\n    kernel f(value: f32[n]) -> y: f32[n] { y[i] = valeu[i]; }   // `value`?";
    UNKNOWN_FUNCTION = 102, "unknown function",
        "A call names neither a built-in function nor a `fn` or `kernel` of the file.\n\n    y[i] = sine(x[i]);   // `sin`";
    ALREADY_BOUND = 103, "name already bound",
        "Names are never shadowed: an index variable, `let` or parameter needs a name that is not in use where it stands.\n\n    y[i, j] = x[i, j] / sum[j] x[i, j];   // the inner index needs another name: sum[k] x[i, k]";
    RESERVED = 104, "reserved name",
        "Keywords, element types, reducers and `INF NAN PI` can't be used as names.\n\n    kernel f(sum: f32[n]) …   // call it `total`";
    WRONG_KIND = 105, "name of another kind",
        "A name is used as something that it is not: an array without subscripts, a scalar with subscripts, a function as a value.\n\n    y[i] = x + 1.0;   // x is an array: x[i] + 1.0";
    RECURSION = 106, "recursion",
        "A `fn`, `kernel` or `const` may not use itself, neither directly nor through others. Write a `while` or `for` loop.\n\n    fn f(x: f32) -> f32 { f(x) }";
    DUPLICATE_ITEM = 107, "item defined twice",
        "Two items of a file, or two parameters of a function, have the same name.\n\n    fn g(x: f32) -> f32 { x }\n    fn g(y: f32) -> f32 { y }";
    OUTSIDE_TERM = 108, "index variable used after its term",
        "A reduction's body is one term: it takes in `* / %` and ends before `+ -`, comparisons and logic, as Σ does on paper. Parentheses make the body longer.\n\n    sum[k] a[k] - b[k]     // k is unbound in b[k]\n    sum[k] (a[k] - b[k])";
    RANK = 201, "wrong number of subscripts",
        "An array takes one subscript per dimension.\n\n    kernel f(a: f32[m, n]) -> y: f32[m] { y[i] = a[i]; }   // a[i, j]";
    NO_RANGE = 202, "index variable without a range",
        "A variable without a stated range takes the extent of the dimensions that it subscripts alone and without a boundary rule. Here there is none.\n\n    sum[j] x[j | 0.0]           // which j?\n    sum[j in 0..n] x[j | 0.0]";
    RANGES_DIFFER = 203, "index variable with two ranges",
        "A variable without a stated range subscripts, alone, dimensions whose extents are not provably the same. State the range, or give the arrays one dim.\n\n    kernel f(a: f32[m], b: f32[n]) -> f32 { sum[i] a[i] * b[i] }   // b: f32[m], or sum[i in 0..m]";
    OUT_OF_RANGE = 204, "subscript out of range",
        "A subscript leaves the array for some extents and index values; the message gives them. A boundary rule says what to read there, a `where` condition or an `if` rules it out.\n\n    y[i] = x[i - 1];           // x[-1] when i = 0\n    y[i] = x[i - 1 | clamp];";
    UNDECIDED = 205, "subscript that could not be proved",
        "The compiler can neither prove this subscript to be in range nor find a counterexample, so it is checked when the kernel runs. A `where` condition or an `if` may let it be proved; a boundary rule settles it; `| assume` takes the check out.";
    BOUNDARY_RULE = 206, "boundary rule that does not apply",
        "`| clamp`, `| wrap`, `| mirror`, `| symmetric`, a constant and `| assume` go with reads; `| drop` goes with the left side of an accumulation; the left side of a definition takes none.";
    DIVISION_INSIDE = 207, "division inside a reduction's body",
        "The division belongs to the body, so each term is divided. If the result should be divided once, put the reduction in parentheses.\n\n    sum[k] x[k] / 9.0      // nine divisions\n    (sum[k] x[k]) / 9.0    // one";
    BAD_RANGE = 208, "range that is not allowed here",
        "The range of a `let` starts at 0 and depends on dims and scalars alone, as the extent of an array must be known at the call. Other ranges are integers over dims, scalars, outer and earlier variables and array reads.";
    NEGATIVE_EXTENT = 209, "negative extent",
        "A result's dim is negative for some extents of the parameters; the message gives them. A `where` condition rules them out.\n\n    kernel f(x: f32[n]) -> y: f32[n - 1] where n >= 1 { y[i] = x[i + 1] - x[i]; }";
    NOT_AN_INDEX = 210, "subscript that is not an integer",
        "Subscripts, dims and bounds of ranges are integers. Cast a float with `as i64`.";
    ARG_VARIABLES = 211, "argmin and argmax take one variable",
        "The result of `argmin` and `argmax` is the value of their one index variable.";
    TOO_MANY_DIMENSIONS = 212, "more than 8 dimensions",
        "Arrays have 1 to 8 dimensions.";
    UNKNOWN_TYPE = 301, "unknown type",
        "The element types are bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64.";
    MIXED_TYPES = 302, "mixed types",
        "The operands of an operator have one type; there are no implicit conversions between integers and floats, or between signed and unsigned. Cast one of them.\n\n    x[i] + k[i]            // f32 + i32\n    x[i] + (k[i] as f32)";
    NEEDS_CAST = 303, "value of another type",
        "A store, and an argument of a function, may widen without loss (i32 to i64, u32 to i64, f32 to f64) and may round f32 to f16 or bf16; everything else needs `as`.\n\n    kernel f(x: f32[n]) -> y: i32[n] { y[i] = x[i] as i32; }";
    LITERAL_RANGE = 304, "literal that its type can't hold",
        "A literal takes the type that it needs, and must fit it, sign included.\n\n    x[i] + 3000000000    // x holds i32";
    NOT_DEFINED_FOR = 305, "operation that the type does not have",
        "Arithmetic goes with numbers, `& | ^` with integers and bools, `<< >>` with integers, `&& || !` with bools, mathematical functions and `mean` with floats, unary `-` with signed numbers.";
    NOT_BOOL = 306, "condition that is not a bool",
        "The conditions of `if`, `while`, filters and `where`, the operands of `&&` and `||`, and the bodies of `any`, `all` and `count` are bools.";
    ARGUMENT_COUNT = 307, "wrong number of arguments",
        "A call gives one argument per parameter.";
    BAD_LITERAL = 308, "malformed literal",
        "Numbers are written as in Rust: `1_000`, `0xFF`, `0b101`, `1.5e-3`, with a type as suffix if need be: `3i32`, `1.0f64`.";
    NOT_CONSTANT = 309, "not a constant",
        "The value of a `const`, a constant boundary value and the argument of an attribute are made of literals, other constants, operators and casts.";
    BAD_CAST = 310, "cast that does not exist",
        "`as` casts as Rust does: between numbers, and from bool to integers. For a bool from a number, compare: `x != 0`; for a float from a bool, `b as i32 as f32`.";
    NOT_DEFINED = 401, "result that nothing defines",
        "Every result is defined exactly once.\n\n    kernel f(x: f32[n]) -> (y: f32[n], z: f32[n]) { y[i] = x[i]; }   // and z?";
    DEFINED_TWICE = 402, "defined twice",
        "Elements of an array are defined by two statements, or twice by one. The message gives one of them.";
    NOT_COVERED = 403, "elements that nothing defines",
        "Together, the statements that define an array must define every element exactly once.\n\n    kernel f(a: f32[n]) -> y: f32[2 * n] { y[2 * i] = a[i]; }   // and y[2 * i + 1]?";
    NOT_AFFINE = 404, "left side that is not affine",
        "The left side of a definition holds index variables, literals and sums of multiples of them, so that every element is defined exactly once. To store through an index array, accumulate: `h[k[i]] += e`.";
    NOT_HERE = 405, "construct that is not allowed here",
        "Statements in braces, `while`, `for` and assignments stand only in a `fn`; array reads and reductions only in a kernel's statements.";
    CANT_DEFINE = 406, "name that can't be defined here",
        "A statement defines a result; parameters and intermediates can't be assigned. An intermediate array is introduced by `let`.";
    READ_TOO_EARLY = 407, "array read before it is defined",
        "Definitions refer only to what stands above them, and no array is read while it is being defined.\n\n    y[i] = y[i - 1] + x[i];   // a running sum is sum[j in 0..=i] x[j]";
    NOT_MUTABLE = 408, "assignment to a name that is not mutable",
        "Only a local introduced by `let mut` can be assigned.";
    RESULT_FORM = 409, "results and final expression that don't go together",
        "A kernel with an unnamed result `-> T` ends with an expression without semicolon; named results `-> y: T` are defined by statements.";
    ACCUMULATION = 410, "accumulation that is not allowed",
        "`+= *= min= max=` go with numbers, `|= &=` with integers and bools; an array is accumulated into once, before it is read.";
    UNKNOWN_ATTRIBUTE = 501, "unknown attribute",
        "The attributes are @fast_math @deterministic @tf32 @exact @accumulate(f64) @block(n) @tile(i = n, …) @unroll(n).";
    ATTRIBUTE_ARGUMENTS = 502, "wrong arguments of an attribute",
        "@block and @unroll take one positive integer, @tile takes `variable = integer` pairs, @accumulate takes f64, the others take nothing.";
    ATTRIBUTE_TWICE = 503, "attribute given twice",
        "Each attribute stands at most once before a kernel or statement.";
    ARGUMENT_KIND = 601, "argument that the kernel does not take",
        "An array parameter takes an array of the same element type and rank, given by its name; a scalar parameter takes a value.";
    RESULT_COUNT = 602, "wrong number of results",
        "`let p = k(x);` takes one result, `let (a, b) = k(x);` two, in the order of the kernel's results.";
    EXTENTS_DIFFER = 603, "extents that can't agree",
        "Two dims that the called kernel takes to be the same are never the same here.";
    KERNEL_IN_EXPRESSION = 604, "kernel call inside an expression",
        "A kernel is called by a `let` of its own, without subscripts: `let p = softmax(x);`.";
    PRECONDITION = 605, "precondition that never holds",
        "The called kernel's `where` condition fails for all extents.";
    CALL_TIME_EXTENT = 606, "extent that is not known at the call",
        "The extents of arrays are made of dims, scalar parameters and literals, so that memory can be reserved before anything runs.";
}

/// Title and explanation of a code, the checker's or the parser's.
pub fn explain(code: u16) -> Option<(&'static str, &'static str)> {
    TABLE.iter().chain(crate::parser::codes::TABLE).find(|entry| entry.0 == code).map(|entry| (entry.1, entry.2))
}
