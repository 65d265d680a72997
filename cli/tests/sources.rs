//! `--in NAME=SOURCE`: every form of it, and files that say what is not so.

mod common;

use std::fs;

use common::{Done, Place, floats, npy};

const COPY: &str = "\
kernel copy(x: f32[m, n]) -> y: f32[m, n] { y[i, j] = x[i, j]; }
kernel line(x: f64[n], a: i32) -> y: f64[n] { y[i] = x[i] * (a as f64); }
kernel bits(x: bool[n], a: bool) -> y: bool[n] { y[i] = x[i] && a; }
kernel scaled(x: f16[n], a: f16) -> y: f16[n] { y[i] = x[i] * a; }
kernel half(x: bf16[n], z: f16[n]) -> y: f32[n] { y[i] = x[i] + z[i]; }
";

struct Sources(Place);

impl Sources {
    fn new() -> Sources {
        let place = Place::new();
        place.file("copy.gk", COPY);
        Sources(place)
    }
    fn run(&self, kernel: &str, inputs: &[&str]) -> Done {
        let mut arguments = vec!["run", "copy.gk", "--kernel", kernel, "--device", "cpu"];
        inputs.iter().for_each(|input| arguments.extend(["--in", input]));
        self.0.run(&arguments)
    }
    /// The result of a kernel for these inputs.
    #[track_caller]
    fn gives(&self, kernel: &str, inputs: &[&str], result: &str) {
        let done = self.run(kernel, inputs).expect(0, &[]);
        assert_eq!(done.out.trim(), format!("y: {result}"));
    }
    /// One line that says what is wrong with the file.
    #[track_caller]
    fn refuses(&self, bytes: &[u8], words: &[&str]) {
        self.0.file("bad.npy", bytes);
        let done = self.run("copy", &["x=bad.npy"]).expect(4, words);
        assert!(done.err.lines().count() == 1 && done.err.contains("bad.npy"), "{done:#?}");
    }
}

/// A file with any header.
fn file(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    match version {
        1 => bytes.extend((header.len() as u16).to_le_bytes()),
        _ => bytes.extend((header.len() as u32).to_le_bytes()),
    }
    bytes.extend(header.bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn every_form() {
    let all = Sources::new();
    all.gives("line", &["x=arange:3", "a=-0x10"], "f64[3] = [-0.0, -16.0, -32.0]");
    all.gives("line", &["x=ones:2", "a=1_000"], "f64[2] = [1000.0, 1000.0]");
    all.gives("copy", &["x=zeros:2x2"], "f32[2, 2] = [[0.0, 0.0], [0.0, 0.0]]");
    all.gives("copy", &["x=ones:0x7"], "f32[0, 7] = []");
    all.gives("bits", &["x=arange:3", "a=true"], "bool[3] = [false, true, true]");
    all.gives("bits", &["x=ones:2", "a=false"], "bool[2] = [false, false]");
    for kind in ["rand", "randn"] {
        let source = |seed: &str| format!("x={kind}:5x5{seed}");
        let first = all.run("copy", &[&source(":7")]).expect(0, &[]).out;
        assert_eq!(first, all.run("copy", &[&source(":7")]).out);
        assert_ne!(first, all.run("copy", &[&source("")]).out);
    }
    all.run("line", &["x=randn:3", "a=rand:1"]).expect(2, &["scalar"]);
    all.run("bits", &["x=randn:3", "a=true"]).expect(4, &["randn makes floats"]);
    all.run("bits", &["x=ones:3", "a=1"]).expect(4, &["bool"]);
    all.run("line", &["x=ones:3", "a=2147483648"]).expect(4, &["i32"]);
    all.run("line", &["x=ones:3", "a=2.5"]).expect(4, &["i32"]);
    // So must floats.
    all.gives("scaled", &["x=ones:2", "a=65504"], "f16[2] = [65504.0, 65504.0]");
    all.gives("scaled", &["x=ones:2", "a=-inf"], "f16[2] = [-inf, -inf]");
    all.run("scaled", &["x=ones:3", "a=65536"]).expect(4, &["`a` is f16, and 65536 is not"]);
    all.run("scaled", &["x=ones:3", "a=-1e400"]).expect(4, &["`a` is f16, and -1e400 is not"]);
    for malformed in ["rand:", "rand:3x", "rand:3:", "zeros:3:1", "random:3", "rand:3 x4"] {
        all.run("copy", &[&format!("x={malformed}")]).expect(2, &[malformed.split(':').next().unwrap()]);
    }
    // Through links, from a folder, from a pipe's end.
    all.0.file("x.npy", npy("<f4", "(1, 2)", &floats(&[1.5, -2.0])));
    all.gives("copy", &["x=./x.npy"], "f32[1, 2] = [[1.5, -2.0]]");
    all.run("copy", &["x=."]).expect(4, &["folder"]);
    all.run("copy", &["x=no/such.npy"]).expect(4, &["no/such.npy"]);
}

#[test]
fn files_of_every_kind() {
    let all = Sources::new();
    let place = &all.0;
    let big: Vec<u8> = [1f64, 2.0].iter().flat_map(|value| value.to_be_bytes()).collect();
    place.file("big.npy", npy(">f8", "(2,)", &big));
    place.file("a.npy", npy(">i4", "()", &7i32.to_be_bytes()));
    all.gives("line", &["x=big.npy", "a=a.npy"], "f64[2] = [7.0, 14.0]");
    let fortran = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }";
    for version in [1, 2, 3] {
        place.file("turned.npy", file(version, fortran, &floats(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0])));
        all.gives("copy", &["x=turned.npy"], "f32[2, 3] = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]");
    }
    // Any non-zero byte is true; what comes after the data is nobody's.
    place.file("bits.npy", npy("|b1", "(3,)", &[0, 2, 255, 9, 9, 9]));
    all.gives("bits", &["x=bits.npy", "a=true"], "bool[3] = [false, true, true]");
    place.file("bf.npy", npy("<u2", "(1,)", &0x3fc0u16.to_le_bytes()));
    place.file("half.npy", npy("<f2", "(1,)", &0x3c00u16.to_le_bytes()));
    all.gives("half", &["x=bf.npy", "z=half.npy"], "f32[1] = [2.5]");
    all.run("half", &["x=half.npy", "z=half.npy"]).expect(4, &["float16", "bf16"]);
    // Results are files of the same form, scalars without dimensions.
    let arguments =
        ["run", "copy.gk", "--kernel", "half", "--in", "x=bf.npy", "--in", "z=half.npy", "--device", "cpu", "--out", "y=y.npy"];
    place.run(&arguments).expect(0, &[]);
    assert!(fs::read(place.path("y.npy")).unwrap().ends_with(&2.5f32.to_le_bytes()));
}

#[test]
fn headers_that_lie() {
    let all = Sources::new();
    let header = |descr: &str, shape: &str| format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let good = file(1, &header("<f4", "(2, 2)"), &floats(&[0.0; 4]));
    all.0.file("good.npy", &good);
    all.gives("copy", &["x=good.npy"], "f32[2, 2] = [[0.0, 0.0], [0.0, 0.0]]");
    for length in [0, 5, 6, 8, 9, 30, good.len() - 1] {
        all.refuses(&good[..length], &[]);
    }
    all.refuses(&file(4, &header("<f4", "(2, 2)"), &[0; 16]), &["version 4"]);
    all.refuses(&file(0, &header("<f4", "(2, 2)"), &[0; 16]), &["version 0"]);
    let mut longer = good.clone();
    longer[6] = 2;
    longer.splice(8..10, [255, 255, 255, 127]);
    all.refuses(&longer, &["header would have 2147483647 bytes"]);
    all.refuses(&file(1, &header("<f4", "(2, 3)"), &[0; 16]), &["needs 24 bytes", "16"]);
    all.refuses(&file(1, &header("<f4", "(-2, 2)"), &[0; 16]), &["damaged"]);
    all.refuses(&file(1, &header("<f4", "(4294967296, 4294967296)"), &[0; 16]), &["larger than any memory"]);
    all.refuses(&file(1, &header("<f4", "(3037000500, 3037000500)"), &[0; 16]), &["larger than any memory"]);
    all.refuses(&file(1, &header("<f4", "(99999999999999999999, 1)"), &[0; 16]), &["damaged"]);
    all.refuses(&file(1, &header("<f8", "(2, 2)"), &[0; 32]), &["float64 (f64)", "no silent casts"]);
    all.refuses(&file(1, &header("|O", "(2, 2)"), &[0; 32]), &["`|O`"]);
    all.refuses(&file(1, &header("\x1b[2J\0", "(2, 2)"), &[0; 32]), &["type `\u{fffd}[2J\u{fffd}`"]);
    all.refuses(&file(1, &header("<f4", "(2, 2"), &[0; 16]), &["damaged"]);
    all.refuses(&file(1, &"(".repeat(60_000), &[0; 16]), &["damaged"]);
    all.refuses(&file(1, &header("<f4", &format!("({})", "1, ".repeat(200))), &[0; 16]), &["damaged"]);
    // A good file of another rank.
    all.0.file("rank.npy", file(1, &header("<f4", "(4,)"), &[0; 16]));
    all.run("copy", &["x=rank.npy"]).expect(4, &["x has 2 dimensions, 1 was given"]);
}
