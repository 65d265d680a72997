//! The examples run, on the CPU or on the GPU that there is; and how users keep their kernels' texts.
#![allow(dead_code, unused_attributes)]

#[macro_use]
#[path = "common/examples.rs"]
mod list;

macro_rules! run_each {
    ($($name:ident $file:literal)+) => {
        $(
            #[path = $file]
            mod $name;

            #[test]
            fn $name() -> Result<(), gpukc::Error> {
                $name::main()
            }
        )+

        /// A new example runs as well.
        #[test]
        fn all_are_here() {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
            let files = std::fs::read_dir(folder).expect("examples").map(|entry| entry.expect("an entry").file_name());
            let files = files.filter_map(|name| name.to_str().and_then(|name| name.strip_suffix(".rs").map(str::to_owned)));
            let mut files: Vec<String> = files.collect();
            files.sort();
            let mut here = vec![$(stringify!($name).to_owned()),+];
            here.sort();
            assert_eq!(files, here);
        }
    };
}

examples!(run_each);

#[test]
fn texts_are_kept() {
    // Beside the source, as users have them.
    insta::with_settings!({ snapshot_path => "examples", prepend_module_to_snapshot => false }, {
        gpukc::snapshot!(vector_add::vector_add);
        gpukc::snapshot!(plan softmax::softmax);
    });
}
