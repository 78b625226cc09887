fn main() {
    println!("cargo::rustc-link-arg=-Wl,-rpath,{}", std::env::var("DEP_PAVLOV_LIBTORCH_LIB").unwrap());
}
