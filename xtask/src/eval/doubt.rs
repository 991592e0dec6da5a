//! Rows that are known to be wrong, or to measure something else than a step of the named file. They are judged like
//! all others, and figures without them stand beside.

use std::collections::HashMap;

use super::row::Row;

/// Why a row is doubted; `None` for most. In the order of the rows.
pub(super) fn reasons(rows: &[Row]) -> Vec<Option<&'static str>> {
    let jumps = jumps(rows);
    rows.iter().zip(jumps).map(|(row, jump)| of_row(row).or(jump)).collect()
}

/// Networks of `gpumemnet-faketensor` whose memory is the same at every batch: their runs died before the first step
/// and kept what was seen until then.
const CONSTANT: &[&str] = &[
    "eva02_base_patch14_224",
    "eva02_base_patch16_clip_224",
    "fastvit_mci0",
    "focalnet_large_fl4",
    "resnet101_clip",
    "resnetaa50d",
    "sam2_hiera_tiny",
    "vit_base_mci_224",
    "vit_base_patch16_siglip_224",
    "vit_base_patch16_siglip_gap_256",
    "vit_base_patch32_clip_256",
];

/// What a row says by itself.
fn of_row(row: &Row) -> Option<&'static str> {
    let model = row.model.as_str();
    match row.source.as_str() {
        "gpumemnet-faketensor" if CONSTANT.contains(&model) => Some("memory is the same at every batch"),
        // Timm's script trains at the size for training; the table has that for testing. The slopes over the batch
        // are (224 / 288)² of what 288 pixels need.
        "gpumemnet-faketensor" if row.image() == Some([3, 288, 288]) && trained_at_224(model) => {
            Some("ran at 224 pixels, not 288")
        }
        "lambdalabs" if row.notes.contains("outlier") => Some("marked as an outlier by its table"),
        "lambdalabs" if model == "neumf" && row.replicas >= 4 && row.device.starts_with("h100") => {
            Some("more samples a second than the board can read")
        }
        "nvidia-dle" if model == "transformer-big" => Some("the batch is counted in tokens"),
        "nvidia-dle" if model == "gnmt-v2" && row.pass() == "infer" => Some("a search over many passes"),
        "nvidia-dle" if model == "neumf" => Some("judged in samples, not in steps"),
        "gavel" if model == "Transformer" => Some("mostly the loader, and other lengths than the file"),
        "sia" if matches!(model, "yolov3" | "neumf" | "deepspeech2") => {
            Some("mostly the loader, and other lengths than the file")
        }
        "lambda-tf"
            if model == "vgg16"
                && row.precision == "fp16"
                && row.pass() == "train"
                && row.device.starts_with("a100") =>
        {
            Some("a gap in the algorithms of that release")
        }
        "lambda-tf" if row.precision == "fp16" && row.replicas > 1 && !row.framework.contains("XLA") => {
            Some("bound by the host")
        }
        "tf2-practicum" | "tf1-quadro-p2000" if row.notes.contains("recommended=0") => {
            Some("not recommended by its table")
        }
        _ => None,
    }
}

fn trained_at_224(model: &str) -> bool {
    ["convnextv2_", "convnext_atto", "convnext_femto", "convnext_pico"].iter().any(|start| model.starts_with(start))
}

/// Memory that grew by more than the batch did, or shrank, from a smaller batch of the same network: what a process
/// holds beside its activations does not depend on the batch, so a row like this saw something else too.
fn jumps(rows: &[Row]) -> Vec<Option<&'static str>> {
    /// Reads of the driver differ by this much from run to run.
    const NOISE: f64 = 0.03;
    let series = |row: &Row| row.source == "gpumemnet-faketensor";
    let mut networks: HashMap<&str, Vec<&Row>> = HashMap::new();
    for row in rows.iter().filter(|row| series(row)) {
        networks.entry(&row.model).or_default().push(row);
    }
    let doubt = |row: &Row| {
        let memory = row.memory_mib?;
        let smaller = networks.get(row.model.as_str())?.iter().filter(|other| other.batch < row.batch);
        for (other, before) in smaller.filter_map(|other| Some((other, other.memory_mib?))) {
            #[allow(clippy::cast_precision_loss)]
            let grown = row.batch as f64 / other.batch as f64;
            if memory > before * grown * (1.0 + NOISE) {
                return Some("memory grew by more than the batch");
            }
            if memory < before * (1.0 - NOISE) {
                return Some("less memory than at a smaller batch");
            }
        }
        None
    };
    rows.iter().map(|row| series(row).then(|| doubt(row)).flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;

    fn memory(batch: &str, mib: &str) -> Row {
        row(&[("source", "gpumemnet-faketensor"), ("mode", "train"), ("batch", batch), ("memory_mib", mib)])
    }

    #[test]
    fn only_the_row_that_jumps_is_doubted() {
        let rows = [memory("8", "4549"), memory("16", "5069"), memory("32", "39577"), memory("64", "7000")];
        let expected =
            [None, None, Some("memory grew by more than the batch"), Some("less memory than at a smaller batch")];
        assert_eq!(reasons(&rows), expected);
    }

    #[test]
    fn a_size_that_did_not_run_is_doubted_only_where_the_table_gives_it() {
        let at = |size: &str| row(&[("source", "gpumemnet-faketensor"), ("model", "convnextv2_tiny"), ("input", size)]);
        assert_eq!(of_row(&at("3x288x288")), Some("ran at 224 pixels, not 288"));
        assert_eq!(of_row(&at("3x224x224")), None);
    }
}
