//! See the README; filled in below.
