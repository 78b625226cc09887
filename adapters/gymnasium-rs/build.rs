//! Puts the directory of libtorch into the programs here that train, as pavlov's README tells.

fn main() {
    // Absent where pavlov is not among the dependencies: only tests and examples need it.
    if let Ok(lib) = std::env::var("DEP_PAVLOV_LIBTORCH_LIB") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
    }
}
