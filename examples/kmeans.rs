//! k-means clustering: distances, the nearest center, and means of what belongs to each. `cargo run --example kmeans`

use gpukc::{DeviceArray, Error, Gpu};

gpukc::gpu_kernel! {
    /// The nearest of `k` centers for each point.
    kernel nearest(x: f32[n, d], center: f32[k, d]) -> label: i64[n] where k > 0 {
        let distance[i in 0..n, c in 0..k] = sum[j] (x[i, j] - center[c, j]) * (x[i, j] - center[c, j]);
        label[i] = argmin[c] distance[i, c];
    }

    /// The mean of the points of each label; a center without points stays where it is.
    kernel means(x: f32[n, d], label: i64[n], center: f32[k, d]) -> next: f32[k, d] {
        let members[c in 0..k] = count[i in 0..n] (label[i] == c);
        let total[c in 0..k, j in 0..d] = sum[i in 0..n if label[i] == c] x[i, j];
        next[c, j] = if members[c] > 0 { total[c, j] / members[c] as f32 } else { center[c, j] };
    }
}

pub(crate) fn main() -> Result<(), Error> {
    let gpu = Gpu::any()?;
    // Three clouds around known places.
    let places = [[0.0f32, 0.0], [10.0, 0.0], [0.0, 10.0]];
    let shake = |i: usize| ((i * 7919) % 101) as f32 / 101.0 - 0.5;
    let points: Vec<f32> = (0..600).flat_map(|i| [places[i % 3][0] + shake(i), places[i % 3][1] + shake(i + 50)]).collect();
    let x = DeviceArray::new(&gpu, [600, 2], &points)?;

    let mut center = DeviceArray::new(&gpu, [3, 2], &[1.0, 1.0, 5.0, 1.0, 1.0, 5.0])?;
    for _ in 0..10 {
        let label = nearest(&gpu, &x, &center)?;
        center = means(&gpu, &x, &label, &center)?;
    }

    let center = center.to_vec()?;
    for (found, place) in center.chunks(2).zip(places) {
        assert!((found[0] - place[0]).abs() < 0.1 && (found[1] - place[1]).abs() < 0.1, "{center:?}");
    }
    println!("{gpu:?}: {center:?}");
    Ok(())
}
