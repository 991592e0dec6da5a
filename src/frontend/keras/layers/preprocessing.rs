//! Preprocessing of images, features, text and sound, as far as shapes go.

use super::super::builder::{Attributes, flag, int, text, texts};
use super::super::call::Call;
use super::super::json::Json;
use super::super::layer::{Generation, Outputs, Refusal};
use super::Cx;
use super::core::dims;
use crate::frontend::onnx::model::Name;
use crate::ir::element_type::ElementType;

/// What a preprocessing layer does to a shape.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    /// Nothing in inference.
    Nothing,
    /// So many operations for each element.
    Each(i64),
    /// Height and width are given.
    Sized(i64),
    /// Features become indices or are counted.
    Encodes,
    Text,
    Spectrum,
    Mel,
}

fn does(class: &str) -> Option<Does> {
    Some(match class {
        "Rescaling" => Does::Each(2),
        "Solarization" | "AutoContrast" | "Equalization" | "ContrastLimitedAdaptiveHistogramEqualization" => {
            Does::Each(3)
        }
        "Resizing" => Does::Sized(7),
        "CenterCrop" | "RandomCrop" => Does::Sized(0),
        "RandomHeight" | "RandomWidth" | "AugMix" | "RandAugment" | "CutMix" | "MixUp" | "MaxNumBoundingBoxes" => {
            Does::Nothing
        }
        "CategoryEncoding" | "Discretization" | "Hashing" | "HashedCrossing" | "IntegerLookup" | "StringLookup" => {
            Does::Encodes
        }
        "TextVectorization" => Does::Text,
        "STFTSpectrogram" => Does::Spectrum,
        "MelSpectrogram" => Does::Mel,
        _ if is_random(class) => Does::Nothing,
        _ => return None,
    })
}

/// Layers that change images in training alone.
fn is_random(class: &str) -> bool {
    matches!(
        class.strip_prefix("Random"),
        Some(
            "Flip"
                | "Rotation"
                | "Zoom"
                | "Translation"
                | "Contrast"
                | "Brightness"
                | "ColorDegeneration"
                | "ColorJitter"
                | "ElasticTransform"
                | "Erasing"
                | "GaussianBlur"
                | "Grayscale"
                | "Hue"
                | "Invert"
                | "Perspective"
                | "Posterization"
                | "Saturation"
                | "Sharpness"
                | "Shear"
        )
    )
}

/// Whether a class is a preprocessing layer.
pub(super) fn knows(class: &str) -> bool {
    does(class).is_some()
}

/// A preprocessing layer.
pub(super) fn layer<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    match does(layer.class).unwrap_or(Does::Nothing) {
        Does::Nothing => {
            let mut outputs = Vec::new();
            for (index, tensor) in call.tensors().into_iter().enumerate() {
                let part = if index == 0 { String::new() } else { index.to_string() };
                let attributes = vec![("free", flag(true)), layer.class_attribute()];
                outputs.push(layer.keras(&part, "Shaped", vec![tensor], attributes));
            }
            Ok(outputs)
        }
        Does::Each(operations) => {
            let input = layer.input(call)?;
            Ok(vec![layer.keras("", "Shaped", vec![input], vec![("operations", int(operations))])])
        }
        Does::Sized(operations) => sized(layer, call, operations),
        Does::Encodes => encodes(layer, call),
        Does::Text => vectorized(layer, call),
        Does::Spectrum => spectrum(layer, call),
        Does::Mel => mel(layer, call),
    }
}

fn sized<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>, operations: i64) -> Outputs {
    let input = layer.input(call)?;
    // Keras 3 crops at random in training only.
    if layer.class == "RandomCrop" && layer.generation() == Generation::Three {
        let attributes = vec![("free", flag(true)), layer.class_attribute()];
        return Ok(vec![layer.keras("", "Shaped", vec![input], attributes)]);
    }
    let (height, width) = (layer.positive("height")?.to_string(), layer.positive("width")?.to_string());
    let front = "front3".to_owned();
    let formulas = if layer.channels_last() {
        [front, height, width, "l1".to_owned()]
    } else {
        [front, "l3".to_owned(), height, width]
    };
    let attributes = vec![dims(&formulas), ("operations", int(operations)), layer.class_attribute()];
    Ok(vec![layer.keras("", "Shaped", vec![input], attributes)])
}

fn encode(layer: Cx<'_, '_, '_, '_, '_>, inputs: Vec<Name>, mode: &str, tokens: i64) -> Name {
    let attributes: Attributes = vec![("mode", text(mode)), ("tokens", int(tokens))];
    layer.keras("", "Encode", inputs, attributes)
}

fn encodes<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let default = if layer.class == "CategoryEncoding" { "multi_hot" } else { "int" };
    let mode = layer.text("output_mode").unwrap_or(default);
    if mode == "int" {
        return Ok(vec![encode(layer, vec![input], mode, 0)]);
    }
    let tokens = tokens(layer)?;
    Ok(vec![encode(layer, vec![input], mode, tokens)])
}

/// How many values a feature can have.
fn tokens(layer: Cx<'_, '_, '_, '_, '_>) -> Result<i64, Refusal> {
    match layer.class {
        "CategoryEncoding" => return layer.positive("num_tokens"),
        "Hashing" | "HashedCrossing" => return layer.positive("num_bins"),
        "Discretization" => {
            let bounds = layer.value("bin_boundaries").and_then(Json::list).map(<[Json<'_>]>::len);
            return match bounds {
                Some(bounds) => Ok(i64::try_from(bounds).unwrap_or(i64::MAX).saturating_add(1)),
                None => layer.positive("num_bins"),
            };
        }
        _ => {}
    }
    if layer.flag("pad_to_max_tokens", false)
        && let Some(most) = layer.integer("max_tokens")?
    {
        return Ok(most);
    }
    if let Some(size) = layer.integer("vocabulary_size")? {
        return Ok(size);
    }
    let words = layer.value("vocabulary").and_then(Json::list).map_or(0, <[Json<'_>]>::len);
    let unknown = layer.integer_or("num_oov_indices", 1)?;
    Ok(i64::try_from(words).unwrap_or(i64::MAX).saturating_add(unknown))
}

fn vectorized<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let mode = layer.text("output_mode").unwrap_or("int");
    if mode == "int" {
        let length = layer.integer("output_sequence_length")?.map_or("?".to_owned(), |length| length.to_string());
        let attributes = vec![dims(&["d0".to_owned(), length]), ("element", text("int64")), layer.class_attribute()];
        return Ok(vec![layer.keras("", "Shaped", vec![input], attributes)]);
    }
    let tokens = tokens(layer)?;
    let attributes = vec![dims(&["d0".to_owned(), tokens.to_string()]), ("element", text("float32"))];
    Ok(vec![layer.keras("", "Shaped", vec![input], attributes)])
}

/// `STFTSpectrogram`: convolutions with stored sines and cosines.
fn spectrum<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let mode = layer.text("mode").unwrap_or("log");
    let frame = layer.integer_or("frame_length", 256)?.max(1);
    let step = layer.integer("frame_step")?.unwrap_or(frame / 2).max(1);
    let length = layer.integer("fft_length")?.unwrap_or(frame);
    let bins = length / 2 + 1;
    let parts: &[&str] = match mode {
        "real" => &["real_kernel"],
        "imag" => &["imag_kernel"],
        _ => &["real_kernel", "imag_kernel"],
    };
    let mut inputs = vec![input];
    let mut stored = Vec::new();
    for part in parts {
        inputs.push(layer.weight_of(part, true, Some(vec![frame, 1, bins])));
        stored.push(format!("{frame},1,{bins}"));
    }
    let last = layer.channels_last();
    let time = if last { "d1" } else { "d2" };
    let frames = if layer.text("padding") == Some("same") {
        format!("({time}+{})/{step}", step - 1)
    } else {
        format!("({time}-{frame})/{step}+1")
    };
    let each = if matches!(mode, "angle" | "stft" | "complex") { bins * 2 } else { bins };
    let formulas = match (last, layer.flag("expand_dims", false)) {
        (true, false) => vec!["d0".to_owned(), frames, format!("d2*{each}")],
        (true, true) => vec!["d0".to_owned(), frames, each.to_string(), "d2".to_owned()],
        (false, false) => vec!["d0".to_owned(), format!("d1*{each}"), frames],
        (false, true) => vec!["d0".to_owned(), "d1".to_owned(), frames, each.to_string()],
    };
    let operations = frame.saturating_mul(2 * parts.len() as i64).saturating_add(3);
    let attributes =
        vec![dims(&formulas), ("operations", int(operations)), ("stored", texts(stored)), layer.class_attribute()];
    Ok(vec![layer.keras("", "Shaped", inputs, attributes)])
}

fn mel<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let input = layer.input(call)?;
    let (bins, stride) = (layer.integer_or("num_mel_bins", 128)?, layer.integer_or("sequence_stride", 256)?.max(1));
    let length = layer.integer_or("fft_length", 2048)?.max(2);
    // A transform of each frame, by its logarithm, spread over the bins.
    let rounds = i64::from(length.unsigned_abs().ilog2());
    let operations = length.saturating_mul(5 * rounds + 3) / bins.max(1) + length;
    let formulas = ["front1".to_owned(), bins.to_string(), format!("l1/{stride}+1")];
    let attributes = vec![dims(&formulas), ("operations", int(operations)), layer.class_attribute()];
    Ok(vec![layer.keras("", "Shaped", vec![input], attributes)])
}

/// `DenseFeatures`: columns side by side.
pub(super) fn dense_features<'j>(layer: Cx<'_, '_, '_, '_, 'j>, call: &Call<'j, Name>) -> Outputs {
    let columns = layer.value("feature_columns").and_then(Json::list).unwrap_or_default();
    let mut width = 0_i64;
    let mut tables = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        let config = column.get("config");
        let inner = config.and_then(|config| config.get("categorical_column")).and_then(|column| column.get("config"));
        let whole = |from: Option<&Json<'_>>, key: &str| from.and_then(|from| from.given(key)).and_then(Json::integer);
        let vocabulary = inner.and_then(|config| config.get("vocabulary_list")).and_then(Json::list);
        let listed = vocabulary.and_then(|words| i64::try_from(words.len()).ok());
        let oov = whole(inner, "num_oov_buckets").unwrap_or(0);
        let buckets = ["number_buckets", "hash_bucket_size", "num_buckets", "vocabulary_size"]
            .iter()
            .find_map(|key| whole(inner, key))
            .or(listed)
            .map(|count| count.saturating_add(oov));
        width = width.saturating_add(match column.get("class_name").and_then(Json::text) {
            Some("NumericColumn") => {
                let dims = config.and_then(|config| config.get("shape")).and_then(Json::list).unwrap_or_default();
                dims.iter().filter_map(Json::integer).fold(1, i64::saturating_mul)
            }
            Some("EmbeddingColumn") => {
                let (Some(buckets), Some(dimension)) = (buckets, whole(config, "dimension")) else {
                    return super::unknown(layer, call);
                };
                tables.push((index, vec![buckets, dimension]));
                dimension
            }
            Some("IndicatorColumn") => match buckets {
                Some(buckets) => buckets,
                None => return super::unknown(layer, call),
            },
            Some("BucketizedColumn") => {
                let bounds =
                    config.and_then(|config| config.get("boundaries")).and_then(Json::list).unwrap_or_default();
                i64::try_from(bounds.len()).unwrap_or(i64::MAX).saturating_add(1)
            }
            _ => return super::unknown(layer, call),
        });
    }
    let mut inputs = vec![layer.input(call)?];
    let mut stored = Vec::new();
    for (index, shape) in tables {
        stored.push(shape.iter().map(i64::to_string).collect::<Vec<_>>().join(","));
        inputs.push(layer.stored(&format!("embedding_weights_{index}"), ElementType::Float, true, Some(shape)));
    }
    let formulas = ["d0".to_owned(), width.to_string()];
    let attributes =
        vec![dims(&formulas), ("element", text("float32")), ("stored", texts(stored)), layer.class_attribute()];
    Ok(vec![layer.keras("", "Shaped", inputs, attributes)])
}
