//! All examples, by name and file, for a macro that does something with each.

macro_rules! examples {
    ($then:ident) => {
        $then! {
            blur "../examples/blur.rs"
            dot_product "../examples/dot_product.rs"
            heat "../examples/heat.rs"
            histogram "../examples/histogram.rs"
            kmeans "../examples/kmeans.rs"
            mandelbrot "../examples/mandelbrot.rs"
            matmul "../examples/matmul.rs"
            reduction "../examples/reduction.rs"
            softmax "../examples/softmax.rs"
            transpose "../examples/transpose.rs"
            vector_add "../examples/vector_add.rs"
        }
    };
}
