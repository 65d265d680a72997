//! Unique readable C++ identifiers for gk names.
//!
//! gk allows any name; C++, CUDA and the prelude have taken some. A name that is free stays as it is; otherwise it receives
//! an underscore or a number.

use std::collections::HashSet;
use std::sync::OnceLock;

use crate::emit::library;

/// Longer names are cut, and told apart by a hash.
const LONGEST: usize = 200;

/// Hands out names that are legal, not reserved, and unique.
#[derive(Clone, Debug, Default)]
pub struct Namer {
    used: HashSet<String>,
}

impl Namer {
    /// Nothing is handed out yet.
    pub fn new() -> Namer {
        Namer::default()
    }

    /// A variable or parameter: `wish`, or what comes close to it. It may hide a function that no text of ours calls, so
    /// that `gamma` and `y0` stay as they are.
    pub fn local(&mut self, wish: &str) -> String {
        self.unique(wish, "_", is_reserved)
    }

    /// Any name, a `__device__` function's too.
    pub fn fresh(&mut self, wish: &str) -> String {
        self.unique(wish, "_", |name| is_reserved(name) || is_mathematical(name))
    }

    /// The name of a `__global__` function: `main` becomes `main_kernel`.
    pub fn entry(&mut self, wish: &str) -> String {
        self.unique(wish, "_kernel", |name| is_reserved(name) || is_mathematical(name) || has(&[FUNCTIONS], name))
    }

    /// Takes a name out of circulation.
    pub fn reserve(&mut self, name: &str) {
        self.used.insert(name.to_string());
    }

    /// Frees the name of something whose scope has ended.
    pub fn release(&mut self, name: &str) {
        self.used.remove(name);
    }

    fn unique(&mut self, wish: &str, suffix: &str, taken: impl Fn(&str) -> bool) -> String {
        let mut base = legal(wish);
        let renamed = taken(&base);
        if renamed {
            base += suffix;
        }
        let separator = if base.ends_with(|c: char| c.is_ascii_digit()) { "_" } else { "" };
        let numbered = (2u64..).map(|number| format!("{base}{separator}{number}"));
        let free = std::iter::once(base.clone()).chain(numbered).find(|n| !self.used.contains(n) && (renamed || !taken(n)));
        let name = free.unwrap_or(base);
        self.used.insert(name.clone());
        name
    }
}

/// Whether a name means something in every text: to C++, CUDA, the prelude, or as a macro of a common header.
fn is_reserved(name: &str) -> bool {
    const PREFIXES: [&str; 10] = ["atomic", "cuda", "cu", "nv", "CUDA", "FP_", "M_", "MAP_", "PROT_", "NV"];
    let continues = |rest: &str| rest.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
    static WORDS: OnceLock<HashSet<&str>> = OnceLock::new();
    let words = || [KEYWORDS, CUDA, MACROS, CALLED].into_iter().flat_map(str::split_ascii_whitespace);
    WORDS.get_or_init(|| words().chain(library::helper_names()).collect()).contains(name)
        || name.strip_suffix('f').is_some_and(|name| has(&[CALLED], name))
        || is_vector_type(name)
        || PREFIXES.iter().any(|prefix| name.strip_prefix(prefix).is_some_and(continues))
        || ["_MAX", "_MIN"].iter().any(|suffix| name.ends_with(suffix))
}

/// Whether `<math.h>` or CUDA has a function of that name, for double, float (`f`) or long double (`l`).
fn is_mathematical(name: &str) -> bool {
    has(&[MATHEMATICS], name) || name.strip_suffix(['f', 'l']).is_some_and(|name| has(&[MATHEMATICS], name))
}

fn has(lists: &[&str], name: &str) -> bool {
    lists.iter().flat_map(|list| list.split_ascii_whitespace()).any(|word| word == name)
}

/// `float4`, `make_uchar2` and their like.
fn is_vector_type(name: &str) -> bool {
    let name = name.strip_prefix("make_").unwrap_or(name);
    let Some(element) = name.strip_suffix(|c: char| ('1'..='4').contains(&c)) else { return false };
    let elements = "char uchar short ushort int uint long ulong longlong ulonglong float double dim half bfloat";
    elements.split_ascii_whitespace().any(|word| word == element)
}

/// `wish` as an identifier that C++ does not reserve by its form.
fn legal(wish: &str) -> String {
    let mut name = String::new();
    for c in wish.chars() {
        let c = if c.is_ascii_alphanumeric() { c } else { '_' };
        if c != '_' || !(name.is_empty() || name.ends_with('_')) {
            name.push(c);
        }
    }
    if name.is_empty() {
        name.push('x');
    }
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, 'x');
    }
    if name.len() > LONGEST {
        let hash =
            wish.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        name.truncate(LONGEST - 17);
        name = format!("{}_{hash:016x}", name.trim_end_matches('_'));
    }
    name
}

/// Keywords and alternative tokens of C++ up to C++20.
const KEYWORDS: &str = "
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const const_cast consteval constexpr constinit continue co_await co_return co_yield decltype default delete do
    double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace
    new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return
    short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef
    typeid typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq final override import module
";

/// Built-in names of CUDA.
const CUDA: &str = "
    threadIdx blockIdx blockDim gridDim warpSize dim3 clock clock64 printf malloc free assert memcpy memset trap brkpt
    umin umax llmin llmax ullmin ullmax mulhi mul24 umul24 half half2 bfloat16 nv_bfloat16
";

/// Mathematical functions that texts of ours call, also with `f` appended.
const CALLED: &str = "
    abs ceil copysign fabs floor fma fmax fmin fmod isfinite isinf isnan max min nearbyint rint round rsqrt signbit sqrt trunc
";

/// Functions of `<math.h>`, CUDA's extensions included; each also stands for itself with `f` and `l` appended.
const MATHEMATICS: &str = "
    abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 drem erf erfc
    erfcinv erfcx erfinv exp exp10 exp2 expm1 fabs fdim fdivide finite floor fma fmax fmin fmod frexp gamma hypot ilogb
    isfinite isgreater isgreaterequal isinf isless islessequal islessgreater isnan isnormal isunordered j0 j1 jn labs ldexp
    lgamma lgamma_r llabs llrint llround log log10 log1p log2 logb lrint lround max min modf nan nearbyint nextafter
    nexttoward norm norm3d norm4d normcdf normcdfinv pow pow10 powi rcbrt remainder remquo rhypot rint rnorm rnorm3d
    rnorm4d round roundeven rsqrt scalb scalbln scalbn signbit significand signgam sin sincos sincospi sinh sinpi sqrt tan
    tanh tgamma trunc y0 y1 yn
";

/// Macros and types of common headers, for texts that are compiled for the host.
const MACROS: &str = "
    std linux unix i386 NULL EOF NAN INFINITY HUGE_VAL HUGE_VALF HUGE_VALL BUFSIZ I MATH_ERRNO MATH_ERREXCEPT errno stdin
    stdout stderr major minor makedev size_t ssize_t ptrdiff_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t
    uint64_t intptr_t uintptr_t
";

/// C functions of common headers, whose names a further C function can't have.
const FUNCTIONS: &str = "
    main abort access alarm alloca atexit atof atoi atol bcmp bcopy bsearch bzero calloc chdir chmod chown close connect
    daylight div dup environ execv exit ffs fork getc getenv getline gets index ioctl isalnum isalpha isdigit islower
    isspace isupper kill ldiv link listen lockf longjmp lseek mblen memchr memcmp memmem memmove mmap mprotect munmap nice
    open pause perror pipe poll putc puts qsort raise rand random read realloc recv remove rename rewind rindex rmdir scanf
    select send setjmp shutdown signal sleep socket splice srand stat strcat strchr strcmp strcpy strlen strstr symlink sync
    syscall system tee time timezone tolower toupper truncate tzname uint ulong umask unlink ushort usleep wait write
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_readable_and_become_legal() {
        let mut namer = Namer::new();
        for (wish, name) in [
            ("x", "x"),
            ("x", "x2"),
            ("x", "x3"),
            ("x2", "x2_2"),
            ("int", "int_"),
            ("threadIdx", "threadIdx_"),
            ("a__b", "a_b"),
            ("_Hidden", "Hidden"),
            ("float4", "float4_"),
            ("y0", "y0_"),
            ("expf", "expf_"),
            ("Sum", "Sum_"),
            ("", "x4"),
            ("1st", "x1st"),
            ("cut", "cut"),
            ("cuFree", "cuFree_"),
        ] {
            assert_eq!(namer.fresh(wish), name);
        }
        assert_eq!(["y0", "gamma", "sqrtf", "int"].map(|wish| namer.local(wish)), ["y0", "gamma", "sqrtf_", "int_2"]);
    }

    #[test]
    fn entries_say_what_they_are() {
        let mut namer = Namer::new();
        let names = ["main", "operator", "__global__", "softmax", "softmax"].map(|wish| namer.entry(wish));
        assert_eq!(names, ["main_kernel", "operator_kernel", "global_", "softmax", "softmax2"]);
    }

    #[test]
    fn long_names_are_told_apart_by_a_hash() {
        let mut namer = Namer::new();
        let (a, b) = (namer.fresh(&("a".repeat(5000) + "x")), namer.fresh(&("a".repeat(5000) + "y")));
        assert!(a.len() <= LONGEST && b.len() <= LONGEST && a != b);
    }
}
