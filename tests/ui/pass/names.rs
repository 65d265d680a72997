//! Names of Rust's prelude and of its primitive types mean something else here, and modules are called as crates are.
#![deny(warnings, missing_docs)]
#![allow(dead_code, non_camel_case_types, unused_macros)]

struct Result;
struct Ok;
struct Err;
struct Some;
struct None;
struct Option;
struct String;
struct Vec;
struct Debug;
struct f32;
struct usize;
macro_rules! panic { () => {} }
mod core {}
mod std {}
mod alloc {}

gpukc::gpu_kernel! {
    /// All names that a macro might take for granted.
    kernel moments(gpu: f32, stream: bool, x: f32[n]) -> (mu: f32, var: f32[n]) {
        let m = mean[k] x[k];
        mu = m;
        var[i] = if stream { gpu } else { x[i] - m };
    }
    kernel KERNEL(x: f32[n]) -> Results: f32[n] { Results[i] = x[i]; }
    kernel self(x: f32[n]) -> (super: f32[n], super_: f32) { super[i] = x[i]; super_ = 1.0; }
    kernel self_(r#type: f32[n]) -> y: f32[n] { y[i] = type[i] + r#type[i]; }
    kernel r(self: i32, type: f32[match], crate: f32[match]) -> dyn: f32[match] {
        dyn[i] = type[i] + crate[i] * self as f32;
    }
}
