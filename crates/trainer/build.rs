//! Hands the directory of libtorch on, which Cargo tells to direct dependants of pavlov-learn alone. Tells the crate how far
//! it is optimised.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=PAVLOV_OPT_LEVEL={}", env::var("OPT_LEVEL").unwrap_or_default());
    // Absent without the feature `torch`, and with `doc-only`, which builds nothing that runs.
    let Ok(lib) = env::var("DEP_PAVLOV_LEARN_LIBTORCH_LIB") else { return };
    println!("cargo::metadata=libtorch_lib={lib}");
    // For this crate's tests, and the examples in its documentation.
    println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
}
