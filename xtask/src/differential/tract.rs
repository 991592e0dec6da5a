//! tract as a second opinion: what it infers for a model, never run. It says why a model cannot be read or analysed, but
//! not whether the model or its own operators are at fault, so a failure is no opinion.

use std::error::Error;
use std::io::{ErrorKind, Read, Write};

use dlcost::ir::element_type::ElementType;
use serde_json::{Value, json};
use tract_onnx::prelude::{DatumType, Framework, InferenceModelExt, TractResult};

use super::ours::caught;

/// Answers on standard output for each model on standard input, until there is none.
pub(super) fn serve() -> Result<(), Box<dyn Error>> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut length = [0; 4];
    loop {
        match input.read_exact(&mut length) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        let mut bytes = vec![0; usize::try_from(u32::from_le_bytes(length))?];
        input.read_exact(&mut bytes)?;
        let answer = match caught(|| told(&bytes)) {
            Ok(Ok(outputs)) => json!({ "inferred": outputs }),
            Ok(Err(error)) => json!({ "none": error.root_cause().to_string() }),
            Err(panic) => json!({ "none": format!("it panics: {panic}") }),
        };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
}

fn told(mut bytes: &[u8]) -> TractResult<Vec<Value>> {
    let model = tract_onnx::onnx().model_for_read(&mut bytes)?.into_typed()?;
    let mut outputs = Vec::new();
    for outlet in model.output_outlets()? {
        let fact = model.outlet_fact(*outlet)?;
        let dims: Option<Vec<i64>> =
            fact.shape.as_concrete().map(|dims| dims.iter().filter_map(|&dim| dim.try_into().ok()).collect());
        // A shape that it leaves open is no opinion on the output.
        let element = dims.is_some().then(|| element(fact.datum_type)).flatten();
        outputs.push(json!({ "element": element.map(|element| element.to_string()), "dims": dims }));
    }
    Ok(outputs)
}

fn element(datum: DatumType) -> Option<ElementType> {
    Some(match datum.unquantized() {
        DatumType::Bool => ElementType::Bool,
        DatumType::U8 => ElementType::Uint8,
        DatumType::U16 => ElementType::Uint16,
        DatumType::U32 => ElementType::Uint32,
        DatumType::U64 => ElementType::Uint64,
        DatumType::I8 => ElementType::Int8,
        DatumType::I16 => ElementType::Int16,
        DatumType::I32 => ElementType::Int32,
        // Its symbolic integers are 64-bit ones of the file.
        DatumType::I64 | DatumType::TDim => ElementType::Int64,
        DatumType::F16 => ElementType::Float16,
        DatumType::F32 => ElementType::Float,
        DatumType::F64 => ElementType::Double,
        _ => return None,
    })
}
