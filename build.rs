//! Puts the directory of libtorch into the binaries of this package, and hands it on to its users.
//!
//! Cargo gives the link arguments of a build script to this package's own programs only. A program that
//! depends on `pavlov` reads `DEP_PAVLOV_LIBTORCH_LIB` in its own build script; the README shows the three lines.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Set by `cargo xtask executed`.
    println!("cargo::rustc-check-cfg=cfg(executed)");
    // Absent without the feature `torch`, and with `doc-only`, which builds nothing that runs.
    let Ok(lib) = std::env::var("DEP_PAVLOV_TORCH_LIBTORCH_LIB") else { return };
    println!("cargo::metadata=libtorch_lib={lib}");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
    if Path::new(&lib).join("libtorch_cuda.so").exists() {
        // Nothing calls libtorch_cuda by name, so the linker would drop it and CUDA would not be found.
        println!("cargo::rustc-link-arg=-Wl,--no-as-needed,-ltorch,--as-needed");
    }
}
