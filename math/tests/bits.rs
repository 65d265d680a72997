//! The results to the last bit, as checksums: the same on every processor, with or without fused instructions.
//!
//! A change of a function changes its checksum: print the table with `cargo test --test bits -- --nocapture`, and
//! expect every snapshot of results elsewhere to change too.

use gpukc_math::{f32 as s, f64 as d};

/// FNV-1a over the results, all NaNs being one.
struct Sum(u64);

impl Sum {
    fn add(&mut self, bits: u64) {
        self.0 = (self.0 ^ bits).wrapping_mul(0x100000001b3);
        self.0 ^= self.0 >> 31;
    }
    fn single(&mut self, x: f32) {
        self.add(if x.is_nan() { 1 } else { x.to_bits() as u64 });
    }
    fn double(&mut self, x: f64) {
        self.add(if x.is_nan() { 1 } else { x.to_bits() });
    }
}

const N: u64 = 20_000;

/// Any bit pattern, and numbers of moderate size, in turn.
fn double(i: u64) -> f64 {
    let x = i.wrapping_mul(0x9e3779b97f4a7c15);
    let x = (x ^ (x >> 29)).wrapping_mul(0xbf58476d1ce4e5b9);
    match i % 3 {
        0 => f64::from_bits(x ^ (x >> 32)),
        1 => (x as i64) as f64 / 9223372036854775808.0,
        _ => (x as i64) as f64 / 92233720368547758.0,
    }
}

fn single(i: u64) -> f32 {
    let x = i.wrapping_mul(0x9e3779b97f4a7c15) >> 32;
    match i % 3 {
        0 => f32::from_bits(x as u32),
        1 => (x as i32) as f32 / 2147483648.0,
        _ => (x as i32) as f32 / 21474836.0,
    }
}

#[test]
fn checksums() {
    let mut bad = 0;
    macro_rules! check {
        ($($name:ident $args:tt $module:ident $type:ident $want:literal)*) => {$(
            let mut sum = Sum(0xcbf29ce484222325);
            for i in 0..N {
                sum.$type(check!(@call $args $module $name $type i));
            }
            println!("        {} {} {} {} {:#018x}", stringify!($name), $args, stringify!($module), stringify!($type), sum.0);
            bad += (sum.0 != $want) as u32;
        )*};
        (@call 1 $module:ident $name:ident $type:ident $i:ident) => { $module::$name($type($i)) };
        (@call 2 $module:ident $name:ident $type:ident $i:ident) => { $module::$name($type($i), $type($i / 3 + 7)) };
    }
    check! {
        exp_f32 1 s single 0x71302c8d559fdb18
        exp2_f32 1 s single 0xa9ac9f625e111637
        expm1_f32 1 s single 0x7c95695c4f04fe7f
        log_f32 1 s single 0x137b6a73a019a1af
        log2_f32 1 s single 0x52c8d6badfc7afb9
        log10_f32 1 s single 0x1893bc35bfda119c
        log1p_f32 1 s single 0xd2bc7ff32fd7535c
        sin_f32 1 s single 0xd8b02cf2ded80fd1
        cos_f32 1 s single 0x28343dbdbf53e68d
        tan_f32 1 s single 0x1d9ce7401c953b76
        asin_f32 1 s single 0xf8f24507cfeaa75c
        acos_f32 1 s single 0xa9b501627d17daa1
        atan_f32 1 s single 0xca49863f6c56fa9b
        sinh_f32 1 s single 0x398ad76edb58afd4
        cosh_f32 1 s single 0xe48f0679f98108c6
        tanh_f32 1 s single 0x8e81f10486022b1a
        erf_f32 1 s single 0xed0814d0f26c8d08
        erfc_f32 1 s single 0x2af47e75091954f6
        cbrt_f32 1 s single 0x6ecd835b3647deb5
        rsqrt_f32 1 s single 0xbf01c0fce37d8555
        round_f32 1 s single 0x1809f9949ff86060
        pow_f32 2 s single 0x1558b330e2398c81
        atan2_f32 2 s single 0xf4e44c65c80b2a60
        hypot_f32 2 s single 0x9ebc1bc16cd0f020
        fmod_f32 2 s single 0xb7c23f4967e6482b
        exp_f64 1 d double 0xbd176df14e1400db
        exp2_f64 1 d double 0xec72d95ee1938930
        expm1_f64 1 d double 0xbf879a686eddd1f8
        log_f64 1 d double 0xa5136401800e0f07
        log2_f64 1 d double 0xd8b0fa4d18880e7b
        log10_f64 1 d double 0x2434f1852d8ba179
        log1p_f64 1 d double 0x09f5a9c36baae7e8
        sin_f64 1 d double 0xebee0901159bcdbe
        cos_f64 1 d double 0xfd82e699029290b6
        tan_f64 1 d double 0x4714bce335cbaa41
        asin_f64 1 d double 0xf8fd96c32c4e82b5
        acos_f64 1 d double 0xa827f93e30fadf1b
        atan_f64 1 d double 0x6bb7ce61a1ffeeb8
        sinh_f64 1 d double 0x1e12fe6b19b5bc3b
        cosh_f64 1 d double 0xd9cbe90ef95f47d0
        tanh_f64 1 d double 0x5cfe70be58b89ab0
        erf_f64 1 d double 0xc5f7ab88fd39bd55
        erfc_f64 1 d double 0xf20082c4986d185e
        cbrt_f64 1 d double 0xf9cf40dd8330d725
        rsqrt_f64 1 d double 0xd1854d1d9d0fe0a5
        round_f64 1 d double 0x5a08cda9cf9fdfe3
        pow_f64 2 d double 0xa905f5864cc17b68
        atan2_f64 2 d double 0x2f26490877a96bdb
        hypot_f64 2 d double 0xa67e84dd0bd490fd
        fmod_f64 2 d double 0xce156921df71753d
    }
    assert_eq!(bad, 0, "functions changed");
}
