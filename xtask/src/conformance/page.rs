//! `docs/conformance.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::Judged;
use super::cases::GROUPS;
use super::judge::{Mode, Verdict};
use crate::python::CASES_VERSION;

/// Cases by verdict.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) exact: usize,
    pub(super) symbolic: usize,
    pub(super) open: usize,
    pub(super) wrong: usize,
}

pub(super) fn totals<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Totals {
    verdicts.fold(Totals::default(), |mut totals, verdict| {
        match verdict {
            Verdict::Exact => totals.exact += 1,
            Verdict::Symbolic { .. } => totals.symbolic += 1,
            Verdict::Open { .. } => totals.open += 1,
            Verdict::Wrong(_) => totals.wrong += 1,
        }
        totals
    })
}

/// What decides the shape of an operator's outputs beside the shapes of its inputs.
const DECIDES: &[(&str, &str)] = &[
    ("AffineGrid", "the input that gives the size of the grid"),
    ("BlackmanWindow", "the input that gives the length"),
    ("CenterCropPad", "the input that gives the target"),
    ("Col2Im", "the input that gives the size of the image"),
    ("Compress", "how many conditions are true"),
    ("ConstantOfShape", "the input that gives the shape"),
    ("DFT", "the inputs that give length and axis"),
    ("Expand", "the input that gives the shape"),
    ("HammingWindow", "the input that gives the length"),
    ("HannWindow", "the input that gives the length"),
    ("If", "the condition: the branches give different shapes"),
    ("ImageDecoder", "height and width, which stand in the encoded picture"),
    ("Loop", "how often the body runs"),
    ("MaxUnpool", "the input that gives the shape"),
    ("MelWeightMatrix", "the inputs that give bins and spectrum"),
    ("NonMaxSuppression", "which boxes overlap a better one; at most all boxes, or as many as are asked for"),
    ("NonZero", "how many elements are not zero"),
    ("OneHot", "the input that gives the depth"),
    ("Pad", "the input that gives the pads"),
    ("Range", "the inputs that give the limits"),
    ("ReduceL1", "the input that gives the axes"),
    ("ReduceL2", "the input that gives the axes"),
    ("ReduceLogSum", "the input that gives the axes"),
    ("ReduceLogSumExp", "the input that gives the axes"),
    ("ReduceMax", "the input that gives the axes"),
    ("ReduceMean", "the input that gives the axes"),
    ("ReduceMin", "the input that gives the axes"),
    ("ReduceProd", "the input that gives the axes"),
    ("ReduceSum", "the input that gives the axes"),
    ("ReduceSumSquare", "the input that gives the axes"),
    ("Reshape", "the input that gives the shape"),
    ("Resize", "the input that gives scales or sizes"),
    ("STFT", "the inputs that give length and step of a frame"),
    ("SequenceAt", "the place in a sequence of different elements"),
    ("SequenceErase", "the place in a sequence of different elements"),
    ("SequenceInsert", "the place in a sequence of different elements"),
    ("Slice", "the inputs that give starts, ends and steps"),
    ("Split", "the input that gives the sizes"),
    ("SplitToSequence", "the input that gives the sizes"),
    ("Squeeze", "the input that gives the axes"),
    ("StringNormalizer", "which words are stop words; at most all words"),
    ("StringSplit", "how many words the texts have"),
    ("Tile", "the input that gives the repeats"),
    ("TopK", "the input that gives k"),
    ("Unique", "how many elements differ; at most all"),
    ("Unsqueeze", "the input that gives the axes"),
    ("Upsample", "the input that gives the scales"),
];

fn decides(operator: &str) -> Option<&'static str> {
    DECIDES.iter().find(|(name, _)| *name == operator).map(|(_, what)| *what)
}

fn title(mode: Mode) -> &'static str {
    match mode {
        Mode::SmallValues => "small values",
        Mode::IntegerValues => "small integers",
        Mode::ShapesOnly => "shapes alone",
    }
}

/// The page, and the operators that leave something open without a reason in it.
pub(super) fn write(judged: &[Judged]) -> (String, BTreeSet<String>) {
    let mut page = format!(
        "<!-- Made by `cargo xtask conformance`; do not edit. -->\n\n# Conformance\n\nThe {} backend cases of the `onnx` package \
         {CASES_VERSION}: types and shapes of what the models gave when they ran, against what is inferred without\nrunning \
         them. What a model declares for computed tensors is erased first, in subgraphs too. Of the inputs the shapes are\ntold, \
         and by column also the elements of tensors of at most 64: integers, booleans and floats (small values), integers\nalone, \
         or none.\n\n- exact: type and shape of every output, and each element of sequences\n- bounded: type and rank are right, \
         and the bounds of each open dim hold\n- open: the same, where something has no upper bound\n- wrong: anything else\n\n",
        judged.len()
    );
    write_totals(&mut page, judged);
    let mut without_reason = BTreeSet::new();
    for (index, mode) in Mode::ALL.into_iter().enumerate() {
        let _ = write!(
            page,
            "\n## Not exact with {}\n\n| operator | what decides | dims | cases |\n|---|---|---|---|\n",
            title(mode)
        );
        let mut rows: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for case in judged {
            let (operator, dims) = match case.verdicts.get(index) {
                Some(Verdict::Symbolic { operator, .. }) => (operator.as_str(), "bounded"),
                Some(Verdict::Open { operator, .. }) => (operator.as_str(), "open"),
                Some(Verdict::Wrong(_)) => ("", "wrong"),
                Some(Verdict::Exact) | None => continue,
            };
            rows.entry((operator, dims)).or_default().push(&case.location.name);
        }
        for ((operator, dims), cases) in rows {
            let reason = decides(operator).unwrap_or_else(|| {
                without_reason.insert(operator.to_owned());
                "unknown"
            });
            let cases: Vec<_> = cases.iter().map(|case| case.trim_start_matches("test_")).collect();
            let _ = writeln!(page, "| {operator} | {reason} | {dims} | {} |", cases.join(", "));
        }
    }
    (page, without_reason)
}

fn write_totals(page: &mut String, judged: &[Judged]) {
    page.push_str("| cases | told of the inputs | exact | bounded | open | wrong |\n|---|---|---|---|---|---|\n");
    let mut row = |label: &str, index: usize, mode: Mode, cases: &[&Judged]| {
        let totals = totals(cases.iter().filter_map(|case| case.verdicts.get(index)));
        let Totals { exact, symbolic, open, wrong } = totals;
        let _ =
            writeln!(page, "| {label} ({}) | {} | {exact} | {symbolic} | {open} | {wrong} |", cases.len(), title(mode));
    };
    let all: Vec<&Judged> = judged.iter().collect();
    for (index, mode) in Mode::ALL.into_iter().enumerate() {
        row("all", index, mode, &all);
    }
    for group in GROUPS {
        let cases: Vec<&Judged> = judged.iter().filter(|case| case.location.group == group).collect();
        for (index, mode) in Mode::ALL.into_iter().enumerate() {
            row(group, index, mode, &cases);
        }
    }
}
