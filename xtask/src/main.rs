//! Chores of the repository; `cargo xtask help` lists them.

mod generate;
mod truth;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let only = args.get(2).map(String::as_str);
    let misses = truth::run(std::path::Path::new("../shared"), only, args.get(3).is_some()).unwrap();
    println!("{misses} misses");
    let _ = generate::onnx_proto;
    std::process::exit(i32::from(misses > 0));
}
