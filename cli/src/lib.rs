//! What the `gpukc` command and its fuzz target share: `.npy` files, and room for what they hold.

pub mod npy;
pub mod tensor;
