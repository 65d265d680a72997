//! Counting into bins, with what to do about values outside; and an index out of range, which is an error and no crash.
//! `cargo run --example histogram`

use gpukc::{Error, ErrorKind, Gpu};

gpukc::gpu_kernel! {
    /// How many values fall into each of 10 bins of width 10; others are left out.
    kernel histogram(value: i32[n]) -> h: i32[10] {
        h[div_floor(value[i], 10) as i64 | drop] += 1;
    }

    /// The same for values that are known to fit: where they don't, the call fails.
    kernel strict(value: i32[n]) -> h: i32[10] {
        h[div_floor(value[i], 10) as i64] += 1;
    }
}

pub(crate) fn main() -> Result<(), Error> {
    let gpu = Gpu::any()?;
    let values: Vec<i32> = (0..1000).map(|i| (i * 37) % 120 - 10).collect();
    let values = gpu.upload(&values)?;

    let h = histogram(&gpu, &values)?.to_vec()?;
    println!("{gpu:?}: {h:?}");
    assert!(h.iter().all(|&count| (80..=90).contains(&count)));

    let error = strict(&gpu, &values).and_then(|h| h.to_vec()).expect_err("-10 is in no bin");
    assert_eq!(error.kind(), ErrorKind::IndexOutOfRange);
    println!("{error:?}");
    Ok(())
}
