//! Puts the directory of libtorch into the programs of this crate's tests and documentation: where the whole workspace is
//! built, the trainer below this crate has libtorch.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Absent without the trainer's feature `torch`, and with `doc-only`, which builds nothing that runs.
    if let Ok(lib) = std::env::var("DEP_PAVLOV_TORCH_LIBTORCH_LIB") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
    }
}
