//! Hands the directory of libtorch on: only direct dependants of torch-sys learn it from Cargo.

use std::env;
use std::path::Path;
use std::process::exit;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let has = |feature: &str| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    if !has("TORCH") || has("DOC_ONLY") {
        return;
    }
    let lib = env::var("DEP_TCH_LIBTORCH_LIB").unwrap_or_default();
    // Programs get the directory itself, so that they run after the checkout and its `.libtorch` have gone.
    match Path::new(&lib).canonicalize() {
        Ok(lib) => {
            println!("cargo::rerun-if-changed={}", lib.display());
            println!("cargo::metadata=libtorch_lib={}", lib.display());
            // For this crate's tests, and the examples in its documentation.
            println!("cargo::rustc-link-arg=-Wl,-rpath,{}", lib.display());
        }
        Err(error) => {
            println!(
                "cargo::error=libtorch is not at `{lib}` ({error}); run `cargo xtask setup`, or set LIBTORCH"
            );
            exit(1);
        }
    }
}
