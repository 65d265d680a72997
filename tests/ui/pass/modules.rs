//! Two kernels of one name in two modules, kernels in a function's body, kernels by a macro, a call without kernels, a file.
#![deny(warnings, missing_docs)]

/// One.
pub mod one {
    gpukc::gpu_kernel! {
        kernel f(x: f32[n]) -> y: f32[n] { y[i] = x[i] + 1.0; }
    }
}

/// Another, not public.
mod two {
    gpukc::gpu_kernel! {
        /// Documented.
        kernel f(x: i64[n, m]) -> (a: i64[n], b: i64) { a[i] = sum[j] x[i, j]; b = sum[i, j] x[i, j]; }
    }
}

/// Calls them.
pub fn call(gpu: &gpukc::Gpu) -> Result<i64, gpukc::Error> {
    gpukc::gpu_kernel! {
        const STEP: f32 = 2.0;
        fn half(x: f32) -> f32 { x / STEP }
        kernel halves(x: f32[n]) -> (y: f32[n], z: f32[n]) { y[i] = half(x[i]); z[i] = y[i]; }
    }
    let halves::Results { y, z } = halves(gpu, &gpu.upload(&[1.0])?)?;
    one::f::into(gpu, &y, &mut gpu.zeros([1])?)?;
    drop(z);
    let found = two::f(gpu, &gpukc::DeviceArray::new(gpu, [1, 2], &[1, 2])?)?;
    found.b.value()
}

macro_rules! maps {
    ($($(#[$about:meta])* $name:ident $value:literal)+) => {
        $(gpukc::gpu_kernel! { $(#[$about])* kernel $name(x: f32[n]) -> y: f32[n] { y[i] = x[i] + $value; } })+
    };
}
maps! {
    /// One "more".
    plus_one 1.0
    plus_two 2.0
}

gpukc::gpu_kernel! {}
gpukc::gpu_kernel! { const A: i64 = 1; }
gpukc::gpu_kernel!("kernels.gk");

/// Names of the file's kernel.
pub fn file(gpu: &gpukc::Gpu, x: &gpukc::DeviceArray<gpukc::half::bf16, 2>) -> Result<gpukc::DeviceArray<bool, 2>, gpukc::Error> {
    is_positive(gpu, x)
}

/// A path by other macros, and as texts may be written.
pub mod paths {
    macro_rules! kernels {
        ($path:literal) => {
            gpukc::gpu_kernel!($path);
        };
    }
    kernels!("kernels.gk");
    /// With a comma, and raw.
    pub mod raw {
        gpukc::gpu_kernel!(r"./kernels.gk",);
    }
}

/// Documentation in blocks.
pub mod blocks {
    gpukc::gpu_kernel! {
        /**
         * In a block.
         *
         * - A list.
         */
        kernel several(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }

        /** On one line. */ kernel one(x: f32[n]) -> y: f32[n] { y[i] = x[i]; }
    }
}
