//! tract as a second opinion: what it infers for a model, never run. It says why a model cannot be read or analysed, but
//! not whether the model or its own operators are at fault, so a failure is no opinion.

use std::error::Error;

use dlcost::frontend::onnx::model::Model;
use dlcost::ir::element_type::ElementType;
use tract_onnx::prelude::{DatumType, Framework, InferenceModelExt, TractResult};

use super::opinion::{Opinion, Said, Told};
use super::ours::caught;
use crate::messages;

/// tract, in this process.
pub(super) struct Tract;

impl Opinion for Tract {
    fn name(&self) -> &'static str {
        "tract"
    }

    fn ask(&mut self, model: &Model) -> Result<Said, Box<dyn Error>> {
        let bytes = messages::model(model);
        Ok(match caught(|| told(&bytes)) {
            Ok(Ok(outputs)) => Said::Inferred(outputs),
            Ok(Err(error)) => {
                let root = error.root_cause().to_string();
                Said::Silent(root.split_whitespace().collect::<Vec<_>>().join(" "))
            }
            Err(panic) => Said::Silent(format!("it panics: {panic}")),
        })
    }
}

fn told(mut bytes: &[u8]) -> TractResult<Vec<Told>> {
    let model = tract_onnx::onnx().model_for_read(&mut bytes)?.into_typed()?;
    let mut outputs = Vec::new();
    for outlet in model.output_outlets()? {
        let fact = model.outlet_fact(*outlet)?;
        let dims = fact.shape.as_concrete().map(|dims| dims.iter().filter_map(|&dim| dim.try_into().ok()).collect());
        // A shape that it leaves open is no opinion on the output.
        let element = dims.is_some().then(|| element(fact.datum_type)).flatten();
        outputs.push(Told { element, dims: dims.unwrap_or_default(), values: None });
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
