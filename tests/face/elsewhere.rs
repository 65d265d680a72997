//! Macros with kernels, for another file to call.

/// A kernel that stands here.
macro_rules! whole {
    () => {
        gpukc::gpu_kernel! {
            kernel whole(x: f32[n], y: f32[n]) -> z: f32[n] { z[i] = x[i] + y[i]; }
        }
    };
}

/// A kernel that stands partly here.
macro_rules! partly {
    ($name:ident, $type:ident) => {
        gpukc::gpu_kernel! {
            kernel $name(x: $type[n], y: $type[n]) -> z: $type[n] { z[i] = x[i] + y[i]; }
        }
    };
}
