//! Small programs of every kind, their results compared with what the language page says.
mod common;
use common::*;

#[test]
fn saxpy() {
    let text = "kernel saxpy(a: f32, x: f32[n], y: f32[n]) -> z: f32[n] { z[i] = a * x[i] + y[i]; }";
    for n in [0, 1, 5, 1000, 70000] {
        let (x, y) = (noise(n, 1), noise(n, 2));
        let z = run(text, &[2.5.into(), x.clone().into(), y.clone().into()]);
        let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 2.5 * x + y).collect();
        assert_eq!(bits(z[0].values()), bits(&want));
    }
}
