//! Mutated inputs for everything that reads what others write: the parser, the checker with its prover, the formatter, the
//! compiler behind them, the recovery of text from a macro's tokens, the `.npy` reader and the cache's reader.
//!
//! A target ([`targets`]) is a function of bytes that panics if something is wrong. Inputs are sound ones of a small corpus,
//! changed a few times in ways that suit their structure ([`text`], [`tokens`], [`binary`]): the same for the same target and
//! number, on every machine. `cargo xtask fuzz TARGET --inputs N --jobs J` runs as many as asked ([`drive`]); `tests/smoke.rs`
//! runs some of each. The targets would serve libFuzzer as they are.

pub mod binary;
pub mod drive;
pub mod random;
pub mod shrink;
pub mod targets;
pub mod text;
pub mod tokens;
