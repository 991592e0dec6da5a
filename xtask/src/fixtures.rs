//! `cargo xtask fixtures`: binary test files from ONNX text, and files of the size of real models, full of holes.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use dlcost::frontend::onnx_text::parse;

use crate::fill::{Weights, write_filled};
use crate::synthetic::{DecoderSizes, decoder, residual_chain};
use crate::{Outcome, messages, root, shared};

/// Sizes of GPT-2 medium; with an output layer of its own it stores 1.6 GB.
const GPT2_MEDIUM: DecoderSizes =
    DecoderSizes { layers: 24, width: 1024, heads: 16, vocabulary: 50_257, positions: 1024 };

/// Sizes of GPT-2 XL; with an output layer of its own it stores 6.5 GB.
const GPT2_XL: DecoderSizes = DecoderSizes { layers: 48, width: 1600, heads: 25, vocabulary: 50_257, positions: 1024 };

/// Makes testdata/*.onnx from the ONNX text beside it, or large sparse files.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Make the large files instead
    #[arg(long)]
    large: bool,
    /// Folder to write to [default: testdata; with --large target/fixtures]
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Runs the chore.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let default = if arguments.large { default_large_folder() } else { root().join("testdata") };
    let out = arguments.out.clone().unwrap_or(default);
    fs::create_dir_all(&out)?;
    if arguments.large {
        large(&out)?
    } else {
        small(&out)?
    }
    Ok(true)
}

/// Where the large files lie.
pub(crate) fn default_large_folder() -> PathBuf {
    root().join("target/fixtures")
}

/// The binary form of every text in `testdata`.
fn small(out: &Path) -> Result<(), Box<dyn Error>> {
    let mut texts: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(root().join("testdata"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "onnxtxt") {
            texts.push(path);
        }
    }
    texts.sort();
    for path in texts {
        let name = path.file_stem().unwrap_or_default();
        let file = out.join(name).with_extension("onnx");
        fs::write(&file, binary(&fs::read_to_string(&path)?).map_err(|error| format!("{}: {error}", path.display()))?)?;
        println!("{}", file.display());
    }
    Ok(())
}

/// The large files, each with what `cargo xtask large` measures on it.
fn large(out: &Path) -> Result<(), Box<dyn Error>> {
    let resnet = fs::read(root().join("testdata/resnet50.onnx"))?;
    filled(&resnet, Weights::Inside, &out.join("resnet50-100mb.onnx"))?;
    filled(&binary(&decoder(GPT2_MEDIUM))?, Weights::Inside, &out.join("gpt2-medium-1.6gb.onnx"))?;
    filled(&binary(&decoder(GPT2_XL))?, Weights::Beside("gpt2-xl-6gb.bin"), &out.join("gpt2-xl-6gb.onnx"))?;
    // The same sizes as an exporter writes them: more nodes, longer names.
    let exported = shared().join("models/transformers");
    if let Ok(model) = fs::read(exported.join("gpt2-medium.onnx")) {
        filled(&model, Weights::Inside, &out.join("gpt2-medium-exported.onnx"))?;
    }
    if let Ok(model) = fs::read(exported.join("gpt2-xl.onnx")) {
        filled(&model, Weights::Beside("gpt2-xl-exported.bin"), &out.join("gpt2-xl-exported.onnx"))?;
    }
    for (name, nodes) in [("1k", 1_000), ("10k", 10_000), ("100k", 100_000)] {
        let file = out.join(format!("chain-{name}.onnx"));
        fs::write(&file, binary(&residual_chain(nodes))?)?;
        println!("{}: {nodes} nodes", file.display());
    }
    Ok(())
}

fn filled(model: &[u8], weights: Weights<'_>, file: &Path) -> Result<(), Box<dyn Error>> {
    let bytes = write_filled(model, weights, file)?;
    println!("{}: {bytes} bytes of weights", file.display());
    Ok(())
}

/// The binary form of a text.
fn binary(text: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let (model, errors) = parse(text);
    match errors.first() {
        None => Ok(messages::model(&model)),
        Some(error) => Err(format!("byte {}: {}", error.span.start, error.message).into()),
    }
}
