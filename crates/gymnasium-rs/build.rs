//! Puts the directory of libtorch into the example that trains, as pavlov's README tells.

fn main() {
    // Absent without the feature `train`.
    if let Ok(lib) = std::env::var("DEP_PAVLOV_LIBTORCH_LIB") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
    }
}
