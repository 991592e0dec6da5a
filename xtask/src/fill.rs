//! Gives a stripped model payloads of the true size, all zeros: inside the file, or in a file beside it.

use std::error::Error;
use std::path::Path;

use dlcost::ir::element_type::ElementType;
use prost::Message;
use prost::bytes::Bytes;

use crate::layout::Layout;
use crate::messages::{GraphProto, ModelProto, StringStringEntryProto, TensorProto, TensorValuesProto};

/// Where the payloads go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Weights<'a> {
    /// `raw_data` of the model file.
    Inside,
    /// A file of this name in the same folder.
    Beside(&'a str),
}

/// Field numbers of the messages that are written around holes.
mod tag {
    pub(super) const MODEL_GRAPH: u32 = 7;
    pub(super) const GRAPH_INITIALIZER: u32 = 5;
    pub(super) const TENSOR_RAW_DATA: u32 = 9;
}

/// Payloads start at multiples of this in side files, as exporters lay them out.
const ALIGNMENT: u64 = 4096;

/// Writes `model` with payloads to `path`; gives their size in bytes.
pub(crate) fn write_filled(model: &[u8], weights: Weights<'_>, path: &Path) -> Result<u64, Box<dyn Error>> {
    let mut model = ModelProto::decode(Bytes::copy_from_slice(model))?;
    let mut graph = GraphProto::decode(model.graph.take().unwrap_or_default())?;
    let mut side = 0;
    let mut inside = 0;
    let mut written = Layout::default();
    for initializer in std::mem::take(&mut graph.initializer) {
        let mut tensor = TensorProto::decode(initializer.clone())?;
        let Some(size) = missing_bytes(&tensor, &initializer)? else {
            written.bytes_field(tag::GRAPH_INITIALIZER, &initializer);
            continue;
        };
        let mut content = Layout::default();
        match weights {
            Weights::Inside => {
                content.bytes(&tensor.encode_to_vec());
                let mut payload = Layout::default();
                payload.hole(size);
                content.field(tag::TENSOR_RAW_DATA, payload);
                inside += size;
            }
            Weights::Beside(name) => {
                let entries =
                    [("location", name.to_owned()), ("offset", side.to_string()), ("length", size.to_string())];
                tensor.external_data = entries.iter().map(|(key, value)| entry(key, value)).collect();
                tensor.data_location = Some(1);
                content.bytes(&tensor.encode_to_vec());
                side = (side + size).next_multiple_of(ALIGNMENT);
            }
        }
        written.field(tag::GRAPH_INITIALIZER, content);
    }
    let mut content = Layout::default();
    content.bytes(&graph.encode_to_vec());
    // Fields may stand in any order: what holds payloads comes last.
    content.append(written);
    let mut file = Layout::default();
    file.bytes(&model.encode_to_vec());
    file.field(tag::MODEL_GRAPH, content);
    file.write(path)?;
    if let Weights::Beside(name) = weights {
        let mut payloads = Layout::default();
        payloads.hole(side);
        payloads.write(&path.with_file_name(name))?;
    }
    Ok(inside.max(side))
}

fn entry(key: &str, value: &str) -> Bytes {
    let entry = StringStringEntryProto {
        key: Some(Bytes::copy_from_slice(key.as_bytes())),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
    };
    Bytes::from(entry.encode_to_vec())
}

/// The bytes that a float tensor without a payload would take; `None` for every other tensor.
fn missing_bytes(tensor: &TensorProto, message: &Bytes) -> Result<Option<u64>, Box<dyn Error>> {
    let element = tensor.data_type.and_then(ElementType::from_code).filter(|element| element.is_real());
    let Some(element) = element else { return Ok(None) };
    let stored = tensor.raw_data.is_some()
        || !tensor.external_data.is_empty()
        || TensorValuesProto::decode(message.clone())? != TensorValuesProto::default();
    if stored {
        return Ok(None);
    }
    let elements: u128 = tensor.dims.iter().map(|&dim| u128::try_from(dim).unwrap_or(0)).product();
    Ok(Some(u64::try_from(element.packed_bytes(elements))?))
}
