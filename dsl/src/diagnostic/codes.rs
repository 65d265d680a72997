//! The codes of problems, with what `gpukc explain` says of each. The hundreds name the stage: see [`super::Code`].

/// What a code stands for.
#[derive(Clone, Copy, Debug)]
pub struct Explanation {
    /// The number, `203` for `GK0203`.
    pub code: u16,
    /// A few words.
    pub title: &'static str,
    /// What is wrong, in general.
    pub text: &'static str,
    /// A program with this problem, and the program as it should be; none where it would be very long.
    pub example: Option<(&'static str, &'static str)>,
}

/// Declares codes as constants and as a table.
macro_rules! codes {
    ($($name:ident = $code:literal, $title:literal, $text:literal $(, $wrong:literal => $right:literal)?;)+) => {
        $(#[doc = $title] pub const $name: u16 = $code;)+
        /// Every code, in order.
        pub const TABLE: &[Explanation] = &[$(
            Explanation { code: $code, title: $title, text: $text, example: codes!(@example $($wrong => $right)?) },
        )+];
    };
    (@example) => { None };
    (@example $wrong:literal => $right:literal) => { Some(($wrong, $right)) };
}

codes! {
    SYNTAX = 1, "text that does not follow the grammar",
        "Something is missing, or stands where it does not belong. The message says what could stand there; a bracket that is not closed is shown too.",
        "kernel f(x: f32[n]) -> y: f32[n] {\n    y[i] = (x[i] + 1.0;\n}"
        => "kernel f(x: f32[n]) -> y: f32[n] {\n    y[i] = x[i] + 1.0;\n}";
    CHARACTER = 2, "character that means nothing here",
        "Outside of comments a program is made of ASCII. Word processors and web pages like to replace minus signs, quotes and spaces.",
        "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i] − 1.0; }"
        => "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i] - 1.0; }";
    RESERVED = 3, "reserved word as a name",
        "Keywords, element types, reducers and `INF NAN PI` can't be names. Any other word can, words of C++ and CUDA too.",
        "kernel f(sum: f32[n]) -> y: f32[n] { y[i] = 1.0; }"
        => "kernel f(total: f32[n]) -> y: f32[n] { y[i] = 1.0; }";
    NUMBER = 4, "malformed number",
        "Numbers are written as in Rust: `1_000`, `0xFF`, `0b101`, `1.5e-3`, with a type as suffix if need be: `3i32`, `1.0f64`.",
        "kernel f(x: f32[n]) -> y: f32[n] { y[i] = 1.0f * x[i]; }"
        => "kernel f(x: f32[n]) -> y: f32[n] { y[i] = 1.0f32 * x[i]; }";
    COMMENT = 5, "comment without an end",
        "Comments `/* */` nest: each `/*` needs a `*/` of its own.",
        "/* one /* two */\nconst N: i64 = 3;"
        => "/* one /* two */ */\nconst N: i64 = 3;";
    NESTING = 6, "nested too deeply",
        "Brackets, blocks, reductions and comments may stand 256 deep in one another, and so many signs or casts in a row. Name a part with `let`.";
    LENGTH = 7, "expression or kernel too long",
        "An expression may hold 4,096 operators in a row: name parts of it with `let`, or write a reduction. A kernel may have 4,096 statements, and 1,024 parameters, results and conditions each.";
    CHAIN = 8, "comparisons in a row",
        "Comparisons do not chain: compare twice and join with `&&`.",
        "kernel f(x: f32[n]) -> y: bool[n] { y[i] = 0.0 < x[i] < 1.0; }"
        => "kernel f(x: f32[n]) -> y: bool[n] { y[i] = 0.0 < x[i] && x[i] < 1.0; }";
    SEQUENTIAL = 9, "statement that only a `fn` has",
        "A kernel says what each element is; it has no loops, no variables that change, and no statements in braces. Scalar code that needs them is a `fn`.",
        "kernel f(x: f32[n]) -> y: f32[n] {\n    for i in 0..n { y[i] = 2.0 * x[i]; }\n}"
        => "kernel f(x: f32[n]) -> y: f32[n] {\n    y[i] = 2.0 * x[i];\n}";
    NO_VALUE = 10, "`if` without a value",
        "An `if` that gives a value has an `else`, and each of its blocks ends with a value.",
        "fn f(x: f32) -> f32 {\n    let y = if x > 0.0 { x };\n    y\n}"
        => "fn f(x: f32) -> f32 {\n    let y = if x > 0.0 { x } else { 0.0 };\n    y\n}";
    UNUSED_VALUE = 11, "value that goes nowhere",
        "A value stands last in its block; a loop, and an `if` that others follow, has none.",
        "fn f(x: f32) -> f32 {\n    if x > 0.0 { x }\n    x\n}"
        => "fn f(x: f32) -> f32 {\n    if x > 0.0 { x } else { 0.0 }\n}";
    OPERATOR = 12, "operator that does not accumulate",
        "What accumulates is `+= *= min= max= |= &=`: in these the order does not matter.",
        "kernel f(k: u8[n]) -> h: i32[256] { h[k[i]] -= 1; }"
        => "kernel f(k: u8[n]) -> h: i32[256] { h[k[i]] += -1; }";
    TOO_LONG = 13, "text that is too long",
        "A file may hold 4 MiB.";
    ATTRIBUTE_PLACE = 14, "attribute in a wrong place",
        "Attributes stand before kernels and their statements.",
        "@exact\nfn f(x: f32) -> f32 { x }"
        => "@exact\nkernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }";
    INTERNAL = 91, "internal error of the compiler",
        "The checker made a program that breaks its own rules. This is a fault of the compiler, not of the text: please report it with the text.";
    UNKNOWN_NAME = 101, "unknown name",
        "A name is used that nothing in scope defines: no parameter, dim, result, `let`, constant or index variable.",
        "kernel f(value: f32[n]) -> y: f32[n] { y[i] = valeu[i]; }"
        => "kernel f(value: f32[n]) -> y: f32[n] { y[i] = value[i]; }";
    UNKNOWN_FUNCTION = 102, "unknown function",
        "A call names neither a built-in function nor a `fn` of the file.",
        "kernel f(x: f32[n]) -> y: f32[n] { y[i] = sine(x[i]); }"
        => "kernel f(x: f32[n]) -> y: f32[n] { y[i] = sin(x[i]); }";
    ALREADY_BOUND = 103, "name already bound",
        "Names are never shadowed: an index variable, `let` or parameter needs a name that is not in use where it stands.",
        "kernel f(x: f32[m, n]) -> y: f32[m, n] { y[i, j] = x[i, j] / sum[j] x[i, j]; }"
        => "kernel f(x: f32[m, n]) -> y: f32[m, n] { y[i, j] = x[i, j] / sum[k] x[i, k]; }";
    WRONG_KIND = 105, "name of another kind",
        "A name is used as something that it is not: an array without subscripts, a scalar with subscripts.",
        "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x + 1.0; }"
        => "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i] + 1.0; }";
    RECURSION = 106, "recursion",
        "A `fn`, `kernel` or `const` may not use itself, neither directly nor through others. In a `fn` write a `while` or `for` loop.",
        "fn f(x: f32) -> f32 { if x > 1.0 { f(x / 2.0) } else { x } }"
        => "fn f(x: f32) -> f32 {\n    let mut y = x;\n    while y > 1.0 { y = y / 2.0; }\n    y\n}";
    DUPLICATE_ITEM = 107, "item defined twice",
        "Two items of a file have the same name.",
        "fn g(x: f32) -> f32 { x }\nfn g(y: f32) -> f32 { 2.0 * y }"
        => "fn g(x: f32) -> f32 { x }\nfn h(y: f32) -> f32 { 2.0 * y }";
    OUTSIDE_TERM = 108, "index variable used after its term",
        "A reduction's body is one term: it takes in `* / %` and ends before `+ -`, comparisons and logic, as Σ does on paper. Parentheses make the body longer.",
        "kernel f(a: f32[n], b: f32[n]) -> f32 { sum[k] a[k] - b[k] }"
        => "kernel f(a: f32[n], b: f32[n]) -> f32 { sum[k] (a[k] - b[k]) }";
    RANK = 201, "wrong number of subscripts",
        "An array takes one subscript for each dimension.",
        "kernel f(a: f32[m, n]) -> y: f32[m] { y[i] = a[i]; }"
        => "kernel f(a: f32[m, n]) -> y: f32[m] { y[i] = sum[j] a[i, j]; }";
    NO_RANGE = 202, "index variable without a range",
        "A variable without a stated range takes the extent of the dimensions that it subscripts alone and without a boundary rule. Here there is none.",
        "kernel f(x: f32[n]) -> f32 { sum[j] x[j | 0.0] }"
        => "kernel f(x: f32[n]) -> f32 { sum[j in 0..n] x[j | 0.0] }";
    RANGES_DIFFER = 203, "index variable with two ranges",
        "A variable without a stated range subscripts, alone, dimensions whose extents are not provably the same. State the range, or give the arrays one dim.",
        "kernel f(a: f32[m], b: f32[n]) -> f32 { sum[i] a[i] * b[i] }"
        => "kernel f(a: f32[n], b: f32[n]) -> f32 { sum[i] a[i] * b[i] }";
    OUT_OF_RANGE = 204, "subscript out of range",
        "A subscript leaves the array for some extents and index values; the message gives them. A boundary rule says what to read there; a `where` condition or an `if` rules it out.",
        "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i - 1]; }"
        => "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i - 1 | clamp]; }";
    UNDECIDED = 205, "subscript that could not be proved",
        "The compiler can neither prove this subscript to be in range nor find a counterexample, so it is checked when the kernel runs. A `where` condition or an `if` may let it be proved; a boundary rule settles it; `| assume` takes the check out.",
        "kernel f(x: f32[n]) -> y: f32[n] where n % 2 == 0 { y[i] = x[(i | 1)]; }"
        => "kernel f(x: f32[n]) -> y: f32[n] where n % 2 == 0 { y[i] = x[i - i % 2 + 1]; }";
    BOUNDARY_RULE = 206, "boundary rule that does not apply",
        "`| clamp`, `| wrap`, `| mirror`, `| symmetric`, a constant and `| assume` go with reads; `| drop` goes with the left side of an accumulation; the left side of a definition takes none.",
        "kernel f(x: f32[n], k: i32[n]) -> y: f32[n] { y[i] = x[k[i] | drop]; }"
        => "kernel f(x: f32[n], k: i32[n]) -> y: f32[n] { y[i] = x[k[i] | 0.0]; }";
    DIVISION_INSIDE = 207, "division inside a reduction's body",
        "The division belongs to the body, so each term is divided. If the result should be divided once, put the reduction in parentheses.",
        "kernel f(x: f32[9]) -> f32 { sum[k] x[k] / 9.0 }"
        => "kernel f(x: f32[9]) -> f32 { (sum[k] x[k]) / 9.0 }";
    BAD_RANGE = 208, "range that is not allowed here",
        "The range of a `let` starts at 0 and depends on dims and scalars alone, as the extent of an array must be known at the call.",
        "kernel f(x: f32[n]) -> f32 {\n    let t[i in 1..n] = x[i];\n    sum[i] t[i]\n}"
        => "kernel f(x: f32[n]) -> f32 {\n    let t[i in 0..n - 1] = x[i + 1];\n    sum[i] t[i]\n}";
    NEGATIVE_EXTENT = 209, "negative extent",
        "The extent of an array is negative for some extents of the parameters, or always; the message gives them. A `where` condition rules them out.",
        "kernel f(x: f32[n]) -> y: f32[n - 1] { y[i] = x[i + 1] - x[i]; }"
        => "kernel f(x: f32[n]) -> y: f32[n - 1] where n >= 1 { y[i] = x[i + 1] - x[i]; }";
    NOT_AN_INDEX = 210, "subscript that is not an integer",
        "Subscripts, dims and the ends of ranges are integers. Cast a float with `as i64`.",
        "kernel f(x: f32[n], k: f32[n]) -> y: f32[n] { y[i] = x[k[i] | clamp]; }"
        => "kernel f(x: f32[n], k: f32[n]) -> y: f32[n] { y[i] = x[floor(k[i]) as i64 | clamp]; }";
    ARG_VARIABLES = 211, "argmin and argmax take one variable",
        "The result of `argmin` and `argmax` is the value of their one index variable.",
        "kernel f(x: f32[m, n]) -> i64 { argmax[i, j] x[i, j] }"
        => "kernel f(x: f32[m, n]) -> k: i64[m] { k[i] = argmax[j] x[i, j]; }";
    TOO_MANY_DIMENSIONS = 212, "more than 8 dimensions",
        "Arrays have 1 to 8 dimensions.",
        "kernel f(x: f32[1, 1, 1, 1, 1, 1, 1, 1, n]) -> f32 { 0.0 }"
        => "kernel f(x: f32[1, 1, 1, 1, 1, 1, 1, n]) -> f32 { 0.0 }";
    TOO_LARGE = 213, "array larger than any memory",
        "The extents of an array multiply to more than 2^63 bytes.",
        "kernel f(x: f32[0x7FFFFFFFFFFF, 0x7FFFFFFFFFFF]) -> f32 { x[0, 0] }"
        => "kernel f(x: f32[0x7FFF, 0x7FFF]) -> f32 { x[0, 0] }";
    UNKNOWN_TYPE = 301, "unknown type",
        "The element types are bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64.",
        "kernel f(x: float) -> f32 { x }"
        => "kernel f(x: f32) -> f32 { x }";
    MIXED_TYPES = 302, "mixed types",
        "The operands of an operator have one type; there are no implicit conversions between integers and floats, or between signed and unsigned. Cast one of them.",
        "kernel f(x: f32[n], k: i32[n]) -> y: f32[n] { y[i] = x[i] + k[i]; }"
        => "kernel f(x: f32[n], k: i32[n]) -> y: f32[n] { y[i] = x[i] + (k[i] as f32); }";
    NEEDS_CAST = 303, "value of another type",
        "A store, and an argument of a function, may widen without loss (i32 to i64, u32 to i64, f32 to f64) and may round f32 to f16 or bf16; everything else needs `as`.",
        "kernel f(x: f32[n]) -> y: i32[n] { y[i] = x[i]; }"
        => "kernel f(x: f32[n]) -> y: i32[n] { y[i] = x[i] as i32; }";
    LITERAL_RANGE = 304, "literal that its type can't hold",
        "A literal takes the type that it needs, and must fit it, sign included.",
        "kernel f(x: i32[n]) -> y: i64[n] { y[i] = x[i] + 3000000000; }"
        => "kernel f(x: i32[n]) -> y: i64[n] { y[i] = (x[i] as i64) + 3000000000; }";
    NOT_DEFINED_FOR = 305, "operation that the type does not have",
        "Arithmetic goes with numbers, `& | ^` with integers and bools, `<< >>` with integers, `&& || !` with bools, mathematical functions and `mean` with floats, unary `-` with signed numbers.",
        "kernel f(x: i32[n]) -> y: f32[n] { y[i] = sqrt(x[i]); }"
        => "kernel f(x: i32[n]) -> y: f32[n] { y[i] = sqrt(x[i] as f32); }";
    NOT_BOOL = 306, "condition that is not a bool",
        "The conditions of `if`, `while`, filters and `where`, the operands of `&&` and `||`, and the bodies of `any`, `all` and `count` are bools.",
        "kernel f(x: f32[n]) -> y: f32[n] { y[i] = if x[i] { 1.0 } else { 0.0 }; }"
        => "kernel f(x: f32[n]) -> y: f32[n] { y[i] = if x[i] != 0.0 { 1.0 } else { 0.0 }; }";
    ARGUMENT_COUNT = 307, "wrong number of arguments",
        "A call gives one argument for each parameter.",
        "kernel f(x: f32[n]) -> y: f32[n] { y[i] = atan2(x[i]); }"
        => "kernel f(x: f32[n]) -> y: f32[n] { y[i] = atan2(x[i], 1.0); }";
    NOT_CONSTANT = 309, "not a constant",
        "Dims, conditions, the value of a `const`, a constant boundary value and the argument of an attribute are made of literals, constants, dims and scalar parameters where there are any, operators, casts and built-in functions. In dims, conditions and ranges on a left side a scalar `let` of these stands for its value, and a `fn` without loops and `if` statements for its result.",
        "fn g(x: f32) -> f32 { 2.0 * x }\nconst C: f32 = g(1.0);"
        => "const C: f32 = 2.0 * 1.0;";
    BAD_CAST = 310, "cast that does not exist",
        "`as` casts as Rust does: between numbers, and from bool to integers. For a bool from a number, compare: `x != 0`; for a float from a bool, `b as i32 as f32`.",
        "kernel f(x: f32[n]) -> y: bool[n] { y[i] = x[i] as bool; }"
        => "kernel f(x: f32[n]) -> y: bool[n] { y[i] = x[i] != 0.0; }";
    NOT_DEFINED = 401, "result that nothing defines",
        "Every result is defined exactly once.",
        "kernel f(x: f32[n]) -> (y: f32[n], z: f32[n]) { y[i] = x[i]; }"
        => "kernel f(x: f32[n]) -> (y: f32[n], z: f32[n]) { y[i] = x[i]; z[i] = -x[i]; }";
    DEFINED_TWICE = 402, "defined twice",
        "Elements of an array are defined by two statements, or twice by one. The message gives one of them.",
        "kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i]; y[0] = 1.0; }"
        => "kernel f(x: f32[n]) -> y: f32[n] { y[i] = if i == 0 { 1.0 } else { x[i] }; }";
    NOT_COVERED = 403, "elements that nothing defines",
        "Together, the statements that define an array must define every element exactly once.",
        "kernel f(a: f32[n]) -> y: f32[2 * n] { y[2 * i] = a[i]; }"
        => "kernel f(a: f32[n]) -> y: f32[2 * n] { y[2 * i] = a[i]; y[2 * i + 1] = 0.0 * a[i]; }";
    NOT_AFFINE = 404, "left side that is not affine",
        "The left side of a definition holds index variables, literals and sums of multiples of them, so that every element is defined exactly once. To store through an index array, accumulate.",
        "kernel f(k: i32[n], w: f32[n]) -> h: f32[16] { h[k[i]] = w[i]; }"
        => "kernel f(k: i32[n], w: f32[n]) -> h: f32[16] { h[k[i]] += w[i]; }";
    NOT_HERE = 405, "construct that is not allowed here",
        "Array reads and reductions stand only in a kernel's statements; a block inside an expression holds nothing but `let`s and a value.",
        "fn f(x: f32) -> f32 { sum[i in 0..3] x }"
        => "fn f(x: f32) -> f32 {\n    let mut s = 0.0;\n    for i in 0..3 { s += x; }\n    s\n}";
    CANT_DEFINE = 406, "name that can't be defined here",
        "A statement defines a result; parameters and intermediates can't be assigned. An intermediate array is introduced by `let`.",
        "kernel f(x: f32[n]) -> y: f32[n] { x[i] = 1.0; y[i] = x[i]; }"
        => "kernel f(x: f32[n]) -> y: f32[n] { let t[i] = x[i] + 1.0; y[i] = t[i]; }";
    READ_TOO_EARLY = 407, "array read before it is defined",
        "Definitions refer only to what stands above them, and no array is read while it is being defined. A running sum is a reduction with a range.",
        "kernel f(x: f32[n]) -> y: f32[n] { y[i] = y[i - 1 | 0.0] + x[i]; }"
        => "kernel f(x: f32[n]) -> y: f32[n] { y[i] = sum[j in 0..=i] x[j]; }";
    NOT_MUTABLE = 408, "assignment to a name that is not mutable",
        "Only a local introduced by `let mut` can be assigned.",
        "fn f(x: f32) -> f32 {\n    let y = x;\n    y = 2.0;\n    y\n}"
        => "fn f(x: f32) -> f32 {\n    let mut y = x;\n    y = 2.0;\n    y\n}";
    RESULT_FORM = 409, "results and final expression that don't go together",
        "A kernel with an unnamed result `-> T` ends with an expression without a semicolon; named results `-> y: T` are defined by statements, and an array needs a name.",
        "kernel f(x: f32[n]) -> f32[n] { y[i] = 2.0 * x[i]; }"
        => "kernel f(x: f32[n]) -> y: f32[n] { y[i] = 2.0 * x[i]; }";
    ACCUMULATION = 410, "accumulation that is not allowed",
        "`+= *= min= max=` go with numbers, `|= &=` with integers and bools; an array is accumulated into by one statement, before it is read.",
        "kernel f(k: u8[n]) -> h: bool[256] { h[k[i]] += true; }"
        => "kernel f(k: u8[n]) -> h: bool[256] { h[k[i]] |= true; }";
    UNKNOWN_ATTRIBUTE = 501, "unknown attribute",
        "The attributes are @fast_math @deterministic @tf32 @exact @accumulate(f64) @block(n) @tile(i = n, …) @unroll(n).",
        "@fast\nkernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }"
        => "@fast_math\nkernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }";
    ATTRIBUTE_ARGUMENTS = 502, "wrong arguments of an attribute",
        "@block and @unroll take one positive integer, @tile takes `variable = integer` pairs, @accumulate takes f64, the others take nothing.",
        "@block(0)\nkernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }"
        => "@block(128)\nkernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }";
    ATTRIBUTE_TWICE = 503, "attribute given twice",
        "Each attribute stands at most once before a kernel or statement.",
        "@exact @exact\nkernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }"
        => "@exact\nkernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }";
    ARGUMENT_KIND = 601, "argument that the kernel does not take",
        "An array parameter takes an array of the same element type and rank, given by its name; a scalar parameter takes a value.",
        "kernel g(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }\nkernel f(x: f64[n]) -> y: f64[n] { let t = g(x); y[i] = t[i]; }"
        => "kernel g(x: f64[n]) -> y: f64[n] { y[i] = x[i]; }\nkernel f(x: f64[n]) -> y: f64[n] { let t = g(x); y[i] = t[i]; }";
    RESULT_COUNT = 602, "wrong number of results",
        "`let p = k(x);` takes one result, `let (a, b) = k(x);` two, in the order of the kernel's results.",
        "kernel g(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }\nkernel f(x: f32[n]) -> y: f32[n] { let (t, u) = g(x); y[i] = t[i]; }"
        => "kernel g(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }\nkernel f(x: f32[n]) -> y: f32[n] { let t = g(x); y[i] = t[i]; }";
    EXTENTS_DIFFER = 603, "extents that can't agree",
        "Two dims that the called kernel takes to be the same are never the same here.",
        "kernel g(x: f32[n], z: f32[n]) -> y: f32[n] { y[i] = x[i] + z[i]; }\nkernel f(x: f32[n], z: f32[n + 1]) -> y: f32[n] { let t = g(x, z); y[i] = t[i]; }"
        => "kernel g(x: f32[n], z: f32[n]) -> y: f32[n] { y[i] = x[i] + z[i]; }\nkernel f(x: f32[n], z: f32[n]) -> y: f32[n] { let t = g(x, z); y[i] = t[i]; }";
    KERNEL_IN_EXPRESSION = 604, "kernel call inside an expression",
        "A kernel is called by a `let` of its own, without subscripts.",
        "kernel g(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }\nkernel f(x: f32[n]) -> y: f32[n] { y[i] = g(x) + 1.0; }"
        => "kernel g(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }\nkernel f(x: f32[n]) -> y: f32[n] { let p = g(x); y[i] = p[i] + 1.0; }";
    PRECONDITION = 605, "precondition that never holds",
        "No call satisfies the `where` conditions; or a called kernel's conditions fail wherever the caller's hold.",
        "kernel f(x: f32[n]) -> y: f32[n] where n >= 4, n < 2 { y[i] = x[i]; }"
        => "kernel f(x: f32[n]) -> y: f32[n] where n >= 2, n < 4 { y[i] = x[i]; }";
    CALL_TIME_EXTENT = 606, "extent that is not known at the call",
        "The extents of arrays are made of dims, scalar parameters and literals, so that memory can be reserved before anything runs.",
        "kernel g(x: f32[n], k: i64) -> y: f32[k] { y[i] = x[i | 0.0]; }\nkernel f(x: f32[n], k: i64[n]) -> f32 { let s = sum[i] k[i]; let t = g(x, s); sum[i] t[i] }"
        => "kernel g(x: f32[n], k: i64) -> y: f32[k] { y[i] = x[i | 0.0]; }\nkernel f(x: f32[n], s: i64) -> f32 { let t = g(x, s); sum[i] t[i] }";
    EXPANSION = 607, "kernel calls that expand too far",
        "A called kernel is expanded where it is called, and so are those that it calls. With all of them, a kernel may have 4,096 statements.";
}

/// What a code stands for, if it is one.
pub fn explain(code: u16) -> Option<&'static Explanation> {
    TABLE.iter().find(|entry| entry.code == code)
}

impl Explanation {
    /// The text and the examples, each indented, as they are shown to people.
    pub fn full_text(&self) -> String {
        let indented = |program: &str| program.lines().map(|line| format!("    {line}\n")).collect::<String>();
        match self.example {
            None => self.text.to_string(),
            Some((wrong, right)) => {
                format!("{}\n\nWrong:\n\n{}\nRight:\n\n{}", self.text, indented(wrong), indented(right).trim_end())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check;
    use crate::source::Source;

    /// Codes without an example, and why.
    const WITHOUT: [(u16, &str); 5] = [
        (NESTING, "very long"),
        (LENGTH, "very long"),
        (TOO_LONG, "very long"),
        (INTERNAL, "no text shows it"),
        (EXPANSION, "very long"),
    ];

    #[test]
    fn examples_have_the_problem_and_no_other() {
        for Explanation { code, example, .. } in TABLE {
            let Some((wrong, right)) = example else {
                assert!(WITHOUT.iter().any(|(other, _)| other == code), "GK{code:04} has no example");
                continue;
            };
            let codes =
                |text: &str| check(&Source::new("example", text)).problems.iter().map(|problem| problem.code.0).collect::<Vec<_>>();
            assert_eq!(codes(wrong), [*code], "{wrong}");
            assert_eq!(codes(right), [] as [u16; 0], "{right}");
        }
    }

    #[test]
    fn codes_are_in_order() {
        assert!(TABLE.windows(2).all(|pair| pair[0].code < pair[1].code));
    }
}
