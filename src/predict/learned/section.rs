//! One predictor: the kernels of a family by one group of software stacks.

use super::forest::Forest;
use super::rates::Anchors;
use super::{Described, describe};
use crate::device::Device;
use crate::predict::learned::row::Row;
use crate::predict::learned::setting::Setting;
use crate::runtime::Kernel;

/// A predictor.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Family and group of stacks: `product/serving`.
    pub name: String,
    /// Names of its features, in their order.
    pub features: Vec<String>,
    /// Devices that it has seen, in the order of their numbers.
    pub boards: Vec<String>,
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

/// Which of a section's models a device is asked of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// The device was measured.
    Seen,
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
    /// The first feature that lies outside of what it learned from.
    pub outside: Option<String>,
}

impl Section {
    /// How a device is known.
    #[must_use]
    pub fn knowledge(&self, device: &Device, anchors: Anchors) -> Knowledge {
        if self.boards.contains(&device.id) {
            Knowledge::Seen
        } else if anchors == Anchors::Use && !device.reached.products.is_empty() {
            Knowledge::Anchored
        } else {
            Knowledge::Sheet
        }
    }

    /// The model for what is known of a device, and whether its features use what was seen on it.
    #[must_use]
    pub fn model(&self, knowledge: Knowledge) -> (&Model, Anchors) {
        match knowledge {
            Knowledge::Seen => (&self.seen, Anchors::Ignore),
            Knowledge::Anchored => (&self.anchored, Anchors::Use),
            Knowledge::Sheet => (&self.unseen, Anchors::Ignore),
        }
    }

    /// The ends of 80 % of times, as factors of the middle.
    #[must_use]
    pub fn interval(&self, knowledge: Knowledge) -> Interval {
        if knowledge == Knowledge::Seen { self.seen_interval } else { self.unseen_interval }
    }

    /// Predicts a kernel; `None` where it belongs to another family.
    #[must_use]
    pub fn answer(&self, kernel: &Kernel, device: &Device, setting: Setting, anchors: Anchors) -> Option<Answer> {
        let knowledge = self.knowledge(device, anchors);
        let (model, anchors) = self.model(knowledge);
        let mut described = describe(kernel, device, setting, anchors, Row::new())?;
        let outside = self.outside(&described);
        if let Some(board) = self.boards.iter().position(|board| *board == device.id) {
            described.row.add("board", board as f64);
        }
        let p50 = described.base_ms * libm::exp(model.kernels.value(&described.row.values));
        let interval = self.interval(knowledge);
        Some(Answer { p50, interval, knowledge, outside })
    }

    fn outside(&self, described: &Described) -> Option<String> {
        let pairs = self.domain.iter().zip(&described.row.values);
        let at = pairs.into_iter().position(|(domain, value)| *value < domain.low || *value > domain.high)?;
        self.features.get(at).cloned()
    }
}
