//! Chores of the repository; `cargo xtask help` lists them.

mod generate;

fn main() {
    println!("{}", generate::onnx_proto(std::path::Path::new("grammar/onnx.proto")).unwrap());
}
