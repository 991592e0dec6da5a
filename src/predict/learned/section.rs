//! One predictor: the kernels of a family by one group of software stacks.

use super::forest::Forest;
use super::offset::Offset;
use super::rates::Anchors;
use super::{Described, describe};
use crate::device::{Device, catalogue};
use crate::ops::work::Family;
use crate::predict::learned::row::Row;
use crate::predict::learned::setting::{Setting, Stack};
use crate::runtime::Kernel;

/// A predictor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Family and group of stacks: `product/serving`.
    pub name: String,
    /// Names of its features, in their order.
    pub features: Vec<String>,
    /// Devices that it has seen, in the order of their numbers.
    pub boards: Vec<String>,
    /// The stacks that were measured on each, a bit for each by its number: those that share a section were not measured on
    /// the same devices.
    pub stacks: Vec<u16>,
    /// For devices that it has seen: with the device's number as the last feature.
    pub seen: Model,
    /// For others, by their data sheets.
    pub unseen: Model,
    /// For others, by what was seen on them.
    pub anchored: Model,
    /// Where the features of the rows lay that it learned from.
    pub domain: Vec<Domain>,
    /// Ends of the interval as factors of the middle, on devices that it has seen.
    pub seen_interval: Interval,
    /// The same on others.
    pub unseen_interval: Interval,
    /// The same for each device that it has seen.
    pub by_board: Vec<Interval>,
    /// Kinds of kernels whose times scatter more or less than those of all.
    pub spreads: Vec<Spread>,
    /// How far each device that it has seen is from the models for others; empty where nothing is gained by it.
    pub offsets: Vec<Offsets>,
    /// Devices that it has not seen but for a few rows.
    pub tuned: Vec<Tuned>,
}

/// How far a device is from a model that does not know it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Offsets {
    /// From the model by data sheets.
    pub sheet: Offset,
    /// From the one by two rates.
    pub anchored: Offset,
}

/// What a few rows of a device told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// Its id.
    pub board: String,
    /// How much it is like each device that was seen.
    pub like: Vec<f32>,
    /// How far it is then from the model by data sheets.
    pub offset: Offset,
    /// The same for what measuring adds.
    pub protocol: f32,
}

impl Tuned {
    /// What trees say of the device: those by data sheets, and those that know devices, asked as if it were each of them.
    #[must_use]
    pub fn value(&self, by_sheet: f64, as_board: impl Fn(usize) -> f64) -> f64 {
        let like = self.like.iter().enumerate().filter(|(_, like)| **like != 0.0);
        by_sheet + like.map(|(board, like)| f64::from(*like) * (as_board(board) - by_sheet)).sum::<f64>()
    }
}

/// Trees for kernels, and for what measuring them added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// Logarithm of a kernel's time over its physical time.
    pub kernels: Forest,
    /// The same for the protocol of a measurement.
    pub protocol: Option<Forest>,
}

/// Ends of what a feature was.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Domain {
    pub low: f32,
    pub high: f32,
}

/// Factors of the middle.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Interval {
    pub low: f32,
    pub high: f32,
}

impl Default for Interval {
    /// What is said where nothing is known.
    fn default() -> Self {
        Self { low: 0.5, high: 2.0 }
    }
}

impl Interval {
    /// One that is so many times as wide, as logarithms go.
    #[must_use]
    pub fn wider(self, times: f64) -> Self {
        let [low, high] = [self.low, self.high].map(|end| libm::pow(f64::from(end), times) as f32);
        Self { low, high }
    }
}

/// How much more the times of a kind of kernels scatter than all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Pass, precision, and whether it is one of several products at once.
    pub kind: u16,
    /// So many times the width of an interval.
    pub times: f32,
}

impl Spread {
    /// The kind of a kernel.
    #[must_use]
    pub fn kind(kernel: &Kernel) -> u16 {
        let batched = matches!(kernel.family, Family::Product { batch, .. } if batch > 1);
        u16::from(super::pass_code(kernel.pass)) << 8 | (kernel.precision as u16) << 1 | u16::from(batched)
    }
}

/// Which of a section's models a device is asked of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// The device was measured.
    Seen,
    /// It was, but a little.
    Tuned,
    /// It was not, but two of its rates were.
    Anchored,
    /// Its data sheet is all.
    Sheet,
}

/// What a section says of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Milliseconds.
    pub p50: f64,
    /// Ends of its interval.
    pub interval: Interval,
    /// How the device is known.
    pub knowledge: Knowledge,
    /// The feature that lies farthest outside of what it learned from.
    pub outside: Option<Outside>,
}

/// A feature outside of what a section learned from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outside {
    /// Its place in the section's list.
    pub feature: usize,
    /// How far, in units of the feature, or in binary logarithms of a size. Infinite for a kind that was never seen.
    pub distance: f64,
}

/// Features that name a kind of work. What lies between two kinds that were seen is none of them.
const KINDS: [&str; 15] = [
    "pass",
    "precision",
    "stack",
    "depthwise",
    "transposed",
    "decode",
    "written-by",
    "small-cache",
    "gates",
    "directions",
    "function",
    "exchange",
    "joined-by",
    "left-transposed",
    "right-transposed",
];

/// Features that are sizes as they are, and no logarithms.
const SIZES: [&str; 7] =
    ["head-size", "kernel-height", "kernel-width", "stride", "stride-height", "dilation", "padding"];

/// What rounding to fewer bits moves a feature at most.
const ROUNDING: f64 = 1e-3;

impl Section {
    /// How a device is known.
    #[must_use]
    pub fn knowledge(&self, device: &Device, anchors: Anchors) -> Knowledge {
        if self.boards.contains(&device.id) {
            Knowledge::Seen
        } else if self.tuned(device).is_some() {
            Knowledge::Tuned
        } else if anchors == Anchors::Use && !device.reached.products.is_empty() {
            Knowledge::Anchored
        } else {
            Knowledge::Sheet
        }
    }

    /// What a few rows told of a device.
    #[must_use]
    pub fn tuned(&self, device: &Device) -> Option<&Tuned> {
        self.tuned.iter().find(|tuned| tuned.board == device.id)
    }

    /// The model for what is known of a device, and whether its features use what was seen on it.
    #[must_use]
    pub fn model(&self, knowledge: Knowledge) -> (&Model, Anchors) {
        match knowledge {
            Knowledge::Seen => (&self.seen, Anchors::Ignore),
            Knowledge::Anchored => (&self.anchored, Anchors::Use),
            Knowledge::Sheet | Knowledge::Tuned => (&self.unseen, Anchors::Ignore),
        }
    }

    /// Whether rows of a stack, or of one like it, are from a device.
    #[must_use]
    pub fn is_from(&self, stack: Stack, device: &str) -> bool {
        let mut boards = self.boards.iter().zip(&self.stacks);
        boards.any(|(board, stacks)| board == device && stacks & stack.alike() != 0)
    }

    /// How far a device is from the model that it is known by, going by those that are like it.
    #[must_use]
    pub fn offset(&self, device: &Device, knowledge: Knowledge) -> Offset {
        let devices = catalogue().devices();
        let known = self.boards.iter().zip(&self.offsets).filter_map(|(board, offsets)| {
            let device = devices.iter().find(|device| device.id == *board)?;
            Some((device, if knowledge == Knowledge::Anchored { offsets.anchored } else { offsets.sheet }))
        });
        match knowledge {
            Knowledge::Seen => Offset::default(),
            Knowledge::Tuned => self.tuned(device).map(|tuned| tuned.offset).unwrap_or_default(),
            Knowledge::Anchored | Knowledge::Sheet => Offset::like(device, known),
        }
    }

    /// The ends of 80 % of times, as factors of the middle.
    #[must_use]
    pub fn interval(&self, knowledge: Knowledge) -> Interval {
        if knowledge == Knowledge::Seen { self.seen_interval } else { self.unseen_interval }
    }

    /// The same for a kernel on a device: cards and kinds of work differ in how evenly they run.
    #[must_use]
    pub fn interval_on(&self, device: &Device, knowledge: Knowledge, kernel: &Kernel) -> Interval {
        if knowledge != Knowledge::Seen {
            return self.interval(knowledge);
        }
        let board = self.boards.iter().position(|board| *board == device.id);
        let interval = board.and_then(|at| self.by_board.get(at)).copied().unwrap_or(self.seen_interval);
        let spread = self.spreads.iter().find(|spread| spread.kind == Spread::kind(kernel));
        interval.wider(spread.map_or(1.0, |spread| f64::from(spread.times)))
    }

    /// Predicts a kernel; `None` where it belongs to another family, or to a kind that it has not seen.
    #[must_use]
    pub fn answer(&self, kernel: &Kernel, device: &Device, setting: Setting, anchors: Anchors) -> Option<Answer> {
        let knowledge = self.knowledge(device, anchors);
        self.answer_as(knowledge, kernel, device, setting, &self.offset(device, knowledge)).ok()
    }

    /// Predicts a kernel on a device that is known in a way, and is so far from the model.
    ///
    /// # Errors
    /// It has not seen this kind of work: the feature that says so.
    pub fn answer_as(
        &self,
        knowledge: Knowledge,
        kernel: &Kernel,
        device: &Device,
        setting: Setting,
        offset: &Offset,
    ) -> Result<Answer, Option<Outside>> {
        let (model, anchors) = self.model(knowledge);
        let mut described = describe(kernel, device, setting, anchors, Row::new()).ok_or(None)?;
        let outside = self.outside(&described);
        if outside.is_some_and(|outside| outside.distance.is_infinite()) {
            return Err(outside);
        }
        if knowledge == Knowledge::Seen {
            let board = self.boards.iter().position(|board| *board == device.id);
            described.row.add("board", board.map_or(-1.0, |at| at as f64));
        }
        let value = model.kernels.value(&described.row.values);
        let value = match self.tuned(device).filter(|_| knowledge == Knowledge::Tuned) {
            Some(tuned) => tuned.value(value, |board| self.seen.kernels.value(&described.as_board(board))),
            None => value,
        };
        let p50 = described.base_ms * libm::exp(value) * offset.factor(described.base_ms);
        Ok(Answer { p50, interval: self.interval_on(device, knowledge, kernel), knowledge, outside })
    }

    fn outside(&self, described: &Described) -> Option<Outside> {
        let distances = self.domain.iter().zip(&described.row.values).enumerate().map(|(feature, (domain, value))| {
            let is_of = |list: &[&str]| self.features.get(feature).is_some_and(|name| list.contains(&&**name));
            let scale = |value: f32| {
                let value = f64::from(value);
                if is_of(&SIZES) { libm::log2(value.max(1.0)) } else { value }
            };
            let (below, above) = (scale(domain.low) - scale(*value), scale(*value) - scale(domain.high));
            let is_kind = is_of(&KINDS);
            let strange = is_kind && !self.kinds(feature).any(|kind| (kind - value).abs() < 0.25);
            let distance = if strange { f64::INFINITY } else { below.max(above) - ROUNDING };
            Outside { feature, distance }
        });
        distances.filter(|outside| outside.distance > 0.0).max_by(|a, b| a.distance.total_cmp(&b.distance))
    }

    /// The values that a feature of few values had: cuts lie in the middle between two neighbours.
    fn kinds(&self, feature: usize) -> impl Iterator<Item = f32> + '_ {
        let cuts = self.seen.kernels.cuts.get(feature).map_or(&[][..], Vec::as_slice);
        let first = self.domain.get(feature).map_or(f32::NAN, |domain| domain.low);
        let rest = cuts.iter().scan(first, |last, cut| {
            *last = 2.0 * cut - *last;
            Some(*last)
        });
        std::iter::once(first).chain(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::learned::forest::Forest;

    /// A section that saw precisions 1 and 3 and sizes from 4 to 8.
    fn section() -> Section {
        let cuts = vec![vec![5.0, 6.5], vec![2.0]];
        let model = Model { kernels: Forest { cuts, ..Forest::default() }, protocol: None };
        Section {
            name: "product/serving".to_owned(),
            features: vec!["m".to_owned(), "precision".to_owned()],
            boards: Vec::new(),
            stacks: Vec::new(),
            seen: model.clone(),
            unseen: model.clone(),
            anchored: model,
            domain: vec![Domain { low: 4.0, high: 8.0 }, Domain { low: 1.0, high: 3.0 }],
            seen_interval: Interval { low: 0.9, high: 1.1 },
            unseen_interval: Interval { low: 0.7, high: 1.4 },
            by_board: Vec::new(),
            spreads: Vec::new(),
            offsets: Vec::new(),
            tuned: Vec::new(),
        }
    }

    fn outside(m: f32, precision: f32) -> Option<(usize, f64)> {
        let mut row = Row::new();
        row.values = vec![m, precision];
        let described = Described { family: "product", base_ms: 1.0, row };
        section().outside(&described).map(|outside| (outside.feature, (outside.distance * 100.0).round() / 100.0))
    }

    #[test]
    fn sizes_are_outside_by_how_far_they_are() {
        assert_eq!(outside(4.0, 1.0), None);
        assert_eq!(outside(8.0, 3.0), None);
        assert_eq!(outside(10.0, 3.0), Some((0, 2.0)));
        assert_eq!(outside(3.5, 3.0), Some((0, 0.5)));
    }

    #[test]
    fn kinds_of_work_have_widths_of_their_own() {
        use crate::device::{Precision, find};
        use crate::runtime::{Layout, Library, Pass};
        let device = find("v100-sxm2-16gb").unwrap().device;
        let kernel = |batch| Kernel {
            family: Family::Product { batch, m: 8, n: 8, k: 8 },
            pass: Pass::Forward,
            precision: Precision::Fp32,
            layout: Layout::ChannelsFirst,
            library: Library::Vendor,
            flops: 1.0,
            bytes_read: 1.0,
            bytes_written: 1.0,
            runs: 1.0,
        };
        let spreads = vec![Spread { kind: Spread::kind(&kernel(4)), times: 2.0 }];
        let section = Section { boards: vec![device.id.clone()], spreads, ..section() };
        let width = |knowledge, batch| section.interval_on(device, knowledge, &kernel(batch)).high;
        assert!((width(Knowledge::Seen, 1) - 1.1).abs() < 1e-6);
        assert!((width(Knowledge::Seen, 4) - 1.21).abs() < 1e-6);
        assert!((width(Knowledge::Sheet, 4) - 1.4).abs() < 1e-6);
    }

    #[test]
    fn a_kind_between_two_that_were_seen_was_not_seen() {
        assert_eq!(outside(5.0, 2.0), Some((1, f64::INFINITY)));
        assert_eq!(outside(20.0, 2.0), Some((1, f64::INFINITY)));
    }
}
