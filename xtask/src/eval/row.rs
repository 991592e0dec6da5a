//! One row of a table of whole networks, with the types that its columns mean.

use std::collections::HashMap;

use dlcost::engine::Mode;

/// A value of a table.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    /// Text.
    Text(String),
    /// A number of any width.
    Number(f64),
    /// A truth value.
    Truth(bool),
}

/// The columns of a row that are not null.
pub(super) type Cells = HashMap<String, Cell>;

/// How much of a step was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it; in inference the forward pass is all.
    Step,
    /// The forward pass.
    Forward,
    /// Forward and backward pass, no update of weights.
    ForwardBackward,
}

/// Whose memory was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryKind {
    /// What the allocator had handed out.
    Allocated,
    /// What the driver showed for the process: context, workspaces and cache included.
    Process,
}

/// One network in one configuration.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Name of the file that the row is from, without its ending.
    pub(super) table: String,
    /// From 1, in the order of the table's parts.
    pub(super) number: usize,
    pub(super) source: String,
    /// The network, as the source names it.
    pub(super) model: String,
    /// Its line of architectures.
    pub(super) family: String,
    /// Path under the folder of model files.
    pub(super) model_file: Option<String>,
    pub(super) device: String,
    /// Framework and version, as the source puts it.
    pub(super) framework: String,
    pub(super) runtime: String,
    pub(super) mode: Mode,
    pub(super) part: Part,
    pub(super) precision: String,
    pub(super) replicas: u32,
    pub(super) hosts: u32,
    pub(super) strategy: Option<String>,
    /// Samples on one device.
    pub(super) batch: u64,
    /// `3x224x224`, or words.
    pub(super) input: Option<String>,
    /// Tokens of a sample.
    pub(super) tokens: Option<u64>,
    pub(super) optimizer: Option<String>,
    pub(super) layout: Option<String>,
    /// One step of all replicas.
    pub(super) time_ms: Option<f64>,
    pub(super) memory_mib: Option<f64>,
    pub(super) memory_kind: MemoryKind,
    /// Whether it ran at all.
    pub(super) fits: Option<bool>,
    pub(super) notes: String,
}

impl Row {
    /// Reads a row; the error says which column makes it useless.
    pub(super) fn read(table: &str, number: usize, cells: &Cells) -> Result<Self, String> {
        let columns = Columns(cells);
        let required = |name: &str| columns.text(name).ok_or_else(|| format!("no {name}"));
        let mode = match required("mode")?.as_str() {
            "train" => Mode::Train,
            "infer" => Mode::Infer,
            other => return Err(format!("mode '{other}'")),
        };
        let part = match columns.text("part").as_deref() {
            None | Some("step") => Part::Step,
            // What runs in inference is the forward pass and nothing else.
            Some("forward") if mode == Mode::Infer => Part::Step,
            Some("forward") => Part::Forward,
            Some("forward_backward") => Part::ForwardBackward,
            Some(other) => return Err(format!("part '{other}'")),
        };
        let row = Self {
            table: table.to_owned(),
            number,
            source: required("source")?,
            model: required("model")?,
            family: columns.text("family").unwrap_or_default(),
            model_file: columns.text("model_file"),
            device: required("device")?,
            framework: columns.text("framework").unwrap_or_default(),
            runtime: required("runtime")?,
            mode,
            part,
            precision: required("precision")?,
            replicas: columns.count("replicas")?.map_or(Ok(1), u32::try_from).map_err(|_| "replicas")?,
            hosts: columns.count("hosts")?.map_or(Ok(1), u32::try_from).map_err(|_| "hosts")?,
            strategy: columns.text("strategy"),
            batch: columns.count("batch")?.ok_or("no batch")?,
            input: columns.text("input"),
            tokens: columns.count("seq_len")?,
            optimizer: columns.text("optimizer"),
            layout: columns.text("layout"),
            time_ms: columns.size("time_ms")?,
            memory_mib: columns.size("memory_mib")?,
            memory_kind: match columns.text("memory_kind").as_deref() {
                Some("allocated") => MemoryKind::Allocated,
                _ => MemoryKind::Process,
            },
            fits: columns.truth("fits"),
            notes: columns.text("notes").unwrap_or_default(),
        };
        Ok(row)
    }

    /// `row 7 of timm: resnet50 on rtx-3090, batch 256`.
    pub(super) fn title(&self) -> String {
        format!("row {} of {}: {} on {}, batch {}", self.number, self.table, self.model, self.device, self.batch)
    }

    /// `infer`, `train`, or `forward` for the forward pass of training: what is compared must be the same thing.
    pub(super) fn pass(&self) -> &'static str {
        match (self.mode, self.part) {
            (Mode::Infer, _) => "infer",
            (Mode::Train, Part::Forward) => "forward",
            (Mode::Train, _) => "train",
        }
    }

    /// Channels, height and width of the images; `None` where the samples are none or their size is not given.
    pub(super) fn image(&self) -> Option<[u64; 3]> {
        let numbers: Vec<u64> = self.input.as_ref()?.split('x').map(str::parse).collect::<Result<_, _>>().ok()?;
        match numbers[..] {
            // TensorFlow's order: no network here has images of four rows.
            [height, width, channels] if channels <= 4 && height > 4 => Some([channels, height, width]),
            [channels, height, width] => Some([channels, height, width]),
            _ => None,
        }
    }
}

struct Columns<'c>(&'c Cells);

impl Columns<'_> {
    fn text(&self, name: &str) -> Option<String> {
        match self.0.get(name)? {
            Cell::Text(text) => Some(text.clone()),
            Cell::Number(_) | Cell::Truth(_) => None,
        }
    }

    fn truth(&self, name: &str) -> Option<bool> {
        match self.0.get(name)? {
            Cell::Truth(truth) => Some(*truth),
            Cell::Number(_) | Cell::Text(_) => None,
        }
    }

    fn number(&self, name: &str) -> Option<f64> {
        match self.0.get(name)? {
            Cell::Number(number) => Some(*number).filter(|number| !number.is_nan()),
            Cell::Truth(_) | Cell::Text(_) => None,
        }
    }

    /// A whole number from 1. Some writers keep them as floating numbers, because a column has nulls.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn count(&self, name: &str) -> Result<Option<u64>, String> {
        match self.number(name) {
            None => Ok(None),
            Some(number) if (1.0..=1e15).contains(&number) && number.fract() == 0.0 => Ok(Some(number as u64)),
            Some(number) => Err(format!("{name} {number}")),
        }
    }

    /// A finite number above 0.
    fn size(&self, name: &str) -> Result<Option<f64>, String> {
        match self.number(name) {
            Some(number) if number <= 0.0 || number.is_infinite() => Err(format!("{name} {number}")),
            number => Ok(number),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Cells from pairs of column and value; numbers and truth values are recognised.
    pub(in crate::eval) fn cells(pairs: &[(&str, &str)]) -> Cells {
        let cell = |text: &str| match (text.parse::<f64>(), text.parse::<bool>()) {
            (Ok(number), _) => Cell::Number(number),
            (_, Ok(truth)) => Cell::Truth(truth),
            _ => Cell::Text(text.to_owned()),
        };
        pairs.iter().map(|(name, value)| ((*name).to_owned(), cell(value))).collect()
    }

    /// A row of ResNet-50 with some columns set.
    pub(in crate::eval) fn row(pairs: &[(&str, &str)]) -> Row {
        let mut all = cells(&[
            ("source", "timm"),
            ("model", "resnet50"),
            ("family", "resnet"),
            ("model_file", "timm/resnet50.onnx"),
            ("device", "rtx-3090"),
            ("framework", "pytorch 2.1.0 cuda 12.1 (timm)"),
            ("runtime", "pytorch"),
            ("mode", "infer"),
            ("precision", "amp"),
            ("batch", "256"),
        ]);
        all.extend(cells(pairs));
        Row::read("timm", 1, &all).unwrap()
    }

    #[test]
    fn a_forward_pass_is_all_of_inference_and_a_part_of_training() {
        assert_eq!(row(&[("part", "forward")]).part, Part::Step);
        let training = row(&[("part", "forward"), ("mode", "train")]);
        assert_eq!((training.part, training.pass()), (Part::Forward, "forward"));
        assert_eq!(row(&[("part", "forward_backward"), ("mode", "train")]).pass(), "train");
    }

    #[test]
    fn images_are_read_in_either_order_of_axes_and_words_are_none() {
        assert_eq!(row(&[("input", "3x224x192")]).image(), Some([3, 224, 192]));
        assert_eq!(row(&[("input", "224x192x3")]).image(), Some([3, 224, 192]));
        assert_eq!(row(&[("input", "512 tokens")]).image(), None);
        assert_eq!(row(&[("input", "512x256")]).image(), None);
        assert_eq!(row(&[]).image(), None);
    }

    #[test]
    fn counts_that_a_writer_kept_as_floating_numbers_are_counts() {
        assert_eq!(row(&[("seq_len", "512.0")]).tokens, Some(512));
        assert_eq!(row(&[("seq_len", "NaN")]).tokens, None);
    }

    #[test]
    fn a_row_with_a_value_that_cannot_be_is_refused_by_its_column() {
        let mut broken = cells(&[("source", "s"), ("model", "m"), ("device", "d"), ("runtime", "pytorch")]);
        broken.extend(cells(&[("mode", "infer"), ("precision", "fp32"), ("batch", "0")]));
        assert_eq!(Row::read("t", 1, &broken).unwrap_err(), "batch 0");
        broken.extend(cells(&[("batch", "4"), ("time_ms", "-1")]));
        assert_eq!(Row::read("t", 1, &broken).unwrap_err(), "time_ms -1");
    }
}
