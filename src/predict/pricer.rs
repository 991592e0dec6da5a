//! Prices kernels on a device: by the learned predictor that comes nearest to what a runtime launches there, and by the
//! roofline where none does. Physics bounds what a predictor says.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use super::floor::floor_ms;
use super::learned::offset::Offset;
use super::learned::predictors::Predictors;
use super::learned::rates::Anchors;
use super::learned::row::Row;
use super::learned::section::{Answer, Knowledge, Outside, Section};
use super::learned::setting::{Reach, Setting, Stack, stacks};
use super::learned::{self, describe};
use super::{Price, roofline};
use crate::device::{Device, Precision, catalogue};
use crate::ir::hash::HashMap;
use crate::ops::work::Family;
use crate::report::Interval;
use crate::runtime::{Kernel, Layout, Library, Pass, Runtime};
use crate::target::Target;

/// Prices kernels on one device under one runtime; what was priced once is kept.
pub struct Pricer {
    device: Arc<Device>,
    runtime: &'static Runtime,
    predictors: Arc<Predictors>,
    known: RefCell<HashMap<Key, Price>>,
    footings: RefCell<Footings>,
}

/// How the predictors of a family and a stack are asked; `None` where they know nothing that is like the device.
type Footings = HashMap<(&'static str, Stack), Option<Rc<Footing>>>;

/// How a predictor is asked about a device.
#[derive(Clone, Debug)]
struct Footing {
    /// The device that it is asked about. Physics leads from there to the one that is priced: trees jump where a figure
    /// changes, physics does not, and a device with better figures must not be slower.
    device: Arc<Device>,
    knowledge: Knowledge,
    near: Near,
    /// How far such devices are from the section's model.
    offset: Offset,
}

/// How near what a predictor has seen comes to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Near {
    /// Other chips.
    Other,
    /// Another board of its chip.
    Chip,
    /// It.
    Itself,
}

/// Who priced a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PredictorId {
    /// Physics alone.
    Roofline,
    /// A learned predictor: family and group of stacks.
    Learned {
        /// `product`.
        family: &'static str,
        /// `serving`.
        group: &'static str,
    },
}

impl fmt::Display for PredictorId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Roofline => formatter.write_str(roofline::MODEL),
            Self::Learned { family, group } => write!(formatter, "{family}/{group}"),
        }
    }
}

/// All that the price of one launch depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    family: Family,
    pass: Pass,
    precision: Precision,
    layout: Layout,
    library: Library,
    numbers: [u64; 3],
}

impl Key {
    fn of(kernel: &Kernel) -> Self {
        let Kernel { family, pass, precision, layout, library, flops, bytes_read, bytes_written, runs: _ } = *kernel;
        let numbers = [flops, bytes_read, bytes_written].map(f64::to_bits);
        Self { family, pass, precision, layout, library, numbers }
    }
}

/// A predictor that was chosen for a kernel, with how it is asked.
struct Choice<'p> {
    section: &'p Section,
    setting: Setting,
    kernel: Kernel,
    footing: Rc<Footing>,
    answer: Answer,
}

impl Pricer {
    /// A pricer for a target.
    #[must_use]
    pub fn new(target: &Target) -> Self {
        let device = Arc::clone(&target.device);
        let (runtime, predictors) = (target.runtime, Arc::clone(&target.predictors));
        Self { device, runtime, predictors, known: RefCell::default(), footings: RefCell::default() }
    }

    /// Whether it prices for a target.
    #[must_use]
    pub fn is_for(&self, target: &Target) -> bool {
        Arc::ptr_eq(&self.device, &target.device)
            && self.runtime.name == target.runtime.name
            && Arc::ptr_eq(&self.predictors, &target.predictors)
    }

    /// The price of one launch.
    #[must_use]
    pub fn price(&self, kernel: &Kernel) -> Price {
        let key = Key::of(kernel);
        if let Some(price) = self.known.borrow().get(&key) {
            return *price;
        }
        let price = self.fresh(kernel);
        self.known.borrow_mut().insert(key, price);
        price
    }

    fn fresh(&self, kernel: &Kernel) -> Price {
        let floor = floor_ms(kernel, &self.device);
        let rough = roofline::price(kernel, &self.device);
        let [p10, p50] = [rough.time_ms.p10, rough.time_ms.p50].map(|ms| ms.max(floor));
        let physics = Price { time_ms: Interval { p10, p50, p90: rough.time_ms.p90.max(floor) }, ..rough };
        let family = learned::family(&kernel.family).filter(|family| self.predictors.knows(family));
        let Some(family) = family.filter(|_| !stacks(kernel, self.runtime, &self.device).is_empty()) else {
            return physics;
        };
        let name = |outside: Option<Outside>| self.predictors.feature(family, outside?.feature);
        match self.choose(kernel) {
            Ok(choice) => {
                let outside = name(choice.answer.outside);
                let other = &choice.footing.device;
                let same = Arc::ptr_eq(other, &self.device);
                let ratio = if same { 1.0 } else { physics.time_ms.p50 / roofline::price(kernel, other).time_ms.p50 };
                let time_ms = bounded(&choice, physics.time_ms, ratio, floor);
                let model = choice.id(family);
                Price { time_ms, model, in_domain: Some(outside.is_none()), outside, ..physics }
            }
            Err(outside) => Price { in_domain: Some(false), outside: name(outside).or(Some("device")), ..physics },
        }
    }

    /// The features of a kernel as the predictor that prices it sees them; none where physics alone does.
    #[must_use]
    pub fn features(&self, kernel: &Kernel) -> Option<(PredictorId, Vec<(&'static str, f32)>)> {
        let family = learned::family(&kernel.family)?;
        let choice = self.choose(kernel).ok()?;
        let (_, anchors) = choice.section.model(choice.answer.knowledge);
        let described = describe(&choice.kernel, &choice.footing.device, choice.setting, anchors, Row::with_names())?;
        let names = described.row.names().iter().copied();
        Some((choice.id(family), names.zip(described.row.values.iter().copied()).collect()))
    }

    /// The predictor that knows most of a kernel: among those that have seen such sizes, or nearly such, one that has seen the
    /// device before one that has not; then the nearest stack. Where none has seen this kind of work, the feature that says
    /// so.
    fn choose(&self, kernel: &Kernel) -> Result<Choice<'_>, Option<Outside>> {
        let family = learned::family(&kernel.family).ok_or(None)?;
        let (mut best, mut unseen): (Option<(_, Choice<'_>)>, _) = (None, None);
        for &(stack, reach) in stacks(kernel, self.runtime, &self.device) {
            let Some(section) = self.predictors.of_kernel(kernel, stack) else { continue };
            let Some(footing) = self.footing(family, section, stack) else { continue };
            if reach == Reach::Measured && footing.near == Near::Other {
                continue;
            }
            let near = footing.near;
            let choice = match ask(kernel, section, stack, footing) {
                Ok(choice) => choice,
                Err(outside) => {
                    unseen = unseen.or(outside);
                    continue;
                }
            };
            let distance = choice.answer.outside.map_or(0.0, |outside| outside.distance);
            let rank = (distance < NEARLY, near, distance <= 0.0);
            if best.as_ref().is_none_or(|(most, _)| rank > *most) {
                best = Some((rank, choice));
            }
            if rank == (true, Near::Itself, true) {
                break;
            }
        }
        best.map(|(_, choice)| choice).ok_or(unseen)
    }

    /// How a section is asked about the device; `None` where it knows nothing that is like it.
    fn footing(&self, family: &'static str, section: &Section, stack: Stack) -> Option<Rc<Footing>> {
        let key = (family, stack);
        if let Some(known) = self.footings.borrow().get(&key) {
            return known.clone();
        }
        let footing = Footing::of(&self.device, section, stack).map(Rc::new);
        self.footings.borrow_mut().insert(key, footing.clone());
        footing
    }
}

/// How far sizes may lie outside of what a predictor has seen and still be nearly like it: half of a doubling.
const NEARLY: f64 = 0.5;

/// Asks a section about a kernel, in a precision that it has seen: the two of 16 bits run at one speed on most cards.
fn ask<'p>(
    kernel: &Kernel,
    section: &'p Section,
    stack: Stack,
    footing: Rc<Footing>,
) -> Result<Choice<'p>, Option<Outside>> {
    let setting = Setting::near(stack, kernel, &footing.device);
    let ask = |precision: Precision| {
        let kernel = Kernel { precision, ..*kernel };
        let answer = section.answer_as(footing.knowledge, &kernel, &footing.device, setting, &footing.offset)?;
        Ok((kernel, answer))
    };
    let other = match kernel.precision {
        Precision::Fp16 => Some(Precision::Bf16),
        Precision::Bf16 => Some(Precision::Fp16),
        _ => None,
    };
    // Where the device has units for both.
    let rate = |precision: Precision| footing.device.matrix_tflops(precision);
    let other = other.filter(|other| (rate(*other) / rate(kernel.precision) - 1.0).abs() < 0.1);
    let told =
        ask(kernel.precision).or_else(|outside| other.map_or(Err(outside), ask).map_err(|_: Option<Outside>| outside));
    let (kernel, answer) = told?;
    let interval = if footing.near == Near::Itself { answer.interval } else { section.unseen_interval };
    Ok(Choice { section, setting, kernel, footing, answer: Answer { interval, ..answer } })
}

impl Footing {
    fn of(device: &Arc<Device>, section: &Section, stack: Stack) -> Option<Self> {
        let devices = catalogue().devices();
        let has_seen = |id: &str| section.is_from(stack, id);
        let on = |device: &Device| Arc::new(device.clone());
        let footing = |device: Arc<Device>, knowledge, near| {
            let offset = section.offset(&device, knowledge);
            Some(Self { device, knowledge, near, offset })
        };
        let named = devices.iter().find(|known| known.id == device.id);
        let is_known = named.is_some_and(|known| known == &**device);
        if is_known && section.knowledge(device, Anchors::Ignore) == Knowledge::Tuned {
            return footing(Arc::clone(device), Knowledge::Tuned, Near::Chip);
        }
        if has_seen(&device.id) {
            let asked = if is_known { Arc::clone(device) } else { on(named?) };
            let near = if is_known { Near::Itself } else { Near::Chip };
            return footing(asked, Knowledge::Seen, near);
        }
        let nearest = |is_alike: &dyn Fn(&Device) -> bool| {
            let alike = devices.iter().filter(|known| is_alike(known));
            alike.min_by_key(|known| known.board.sms.abs_diff(device.board.sms))
        };
        let said = |text: &str, other: &str| text != "unknown" && text == other;
        let same_chip = |known: &Device| said(&device.board.chip, &known.board.chip);
        if let Some(sibling) = nearest(&|known| same_chip(known) && has_seen(&known.id)) {
            return footing(on(sibling), Knowledge::Seen, Near::Chip);
        }
        let sheet = |device: Arc<Device>| {
            let anchored = !device.reached.products.is_empty();
            let knowledge = if anchored { Knowledge::Anchored } else { Knowledge::Sheet };
            footing(device, knowledge, Near::Other)
        };
        if is_known || named.is_none() && !device.reached.products.is_empty() {
            return sheet(Arc::clone(device));
        }
        let same_kind = |known: &Device| said(&device.board.architecture, &known.board.architecture);
        let alike = named.or_else(|| nearest(&same_chip)).or_else(|| nearest(&same_kind))?;
        if has_seen(&alike.id) {
            return footing(on(alike), Knowledge::Seen, Near::Other);
        }
        sheet(on(alike))
    }
}

impl Choice<'_> {
    fn id(&self, family: &'static str) -> PredictorId {
        PredictorId::Learned { family, group: self.setting.stack.group() }
    }
}

/// A predictor's answer within what physics allows. Away from what it learned from, it fades to physics.
fn bounded(choice: &Choice<'_>, physics: Interval, ratio: f64, floor: f64) -> Interval {
    let Answer { p50, interval, outside, .. } = &choice.answer;
    let trust = outside.map_or(1.0, |outside| 1.0 / (1.0 + outside.distance * outside.distance));
    let between = |learned: f64, physical: f64| libm::pow(learned, trust) * libm::pow(physical, 1.0 - trust);
    let middle = between(p50 * ratio, physics.p50).max(floor);
    let low = between(f64::from(interval.low), physics.p10 / physics.p50).min(1.0);
    let high = between(f64::from(interval.high), physics.p90 / physics.p50).max(1.0);
    Interval { p10: (middle * low).max(floor), p50: middle, p90: middle * high }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::find;
    use crate::ops::work::{Convolution, Function};
    use crate::predict::Bound;
    use crate::runtime::RUNTIMES;

    fn pricer_on(device: Device) -> Pricer {
        let (device, runtime) = (Arc::new(device), Runtime::find("pytorch").unwrap_or(RUNTIMES[0]));
        let predictors = Predictors::built_in();
        Pricer { device, runtime, predictors, known: RefCell::default(), footings: RefCell::default() }
    }

    fn pricer(id: &str) -> Pricer {
        pricer_on(find(id).unwrap().device.clone())
    }

    fn kernel(family: Family, precision: Precision, flops: f64, elements: f64) -> Kernel {
        Kernel {
            family,
            pass: Pass::Forward,
            precision,
            layout: Layout::ChannelsFirst,
            library: Library::Vendor,
            flops,
            bytes_read: learned::element_bytes(precision) * elements * 2.0 / 3.0,
            bytes_written: learned::element_bytes(precision) * elements / 3.0,
            runs: 1.0,
        }
    }

    /// A product of square matrices.
    fn product(precision: Precision, size: u64) -> Kernel {
        let family = Family::Product { batch: 1, m: size, n: size, k: size };
        kernel(family, precision, 2.0 * (size as f64).powi(3), 3.0 * (size * size) as f64)
    }

    fn convolution(precision: Precision, dilation: u64) -> Kernel {
        let convolution = Convolution {
            batch: 32,
            in_channels: 64,
            out_channels: 64,
            input: [1, 56, 56],
            output: [1, 56, 56],
            kernel: [1, 3, 3],
            stride: [1; 3],
            dilation: [1, dilation, dilation],
            groups: 1,
            transposed: false,
            axes: 2,
        };
        let elements = 2.0 * 32.0 * 64.0 * 56.0 * 56.0;
        kernel(Family::Convolution(convolution), precision, 2.0 * convolution.macs(), elements)
    }

    #[test]
    fn a_kernel_that_was_measured_gets_a_learned_price_and_a_narrower_interval() {
        let price = pricer("v100").price(&product(Precision::Fp32, 4096));
        assert!(matches!(price.model, PredictorId::Learned { family: "product", .. }), "{price:?}");
        assert_eq!((price.in_domain, price.outside), (Some(true), None));
        let physics = roofline::price(&product(Precision::Fp32, 4096), find("v100").unwrap().device);
        assert!(price.time_ms.p90 / price.time_ms.p10 < physics.time_ms.p90 / physics.time_ms.p10, "{price:?}");
        // 137 GFLOP at 15.7 TFLOPS.
        assert!((8.7..14.0).contains(&price.time_ms.p50), "{price:?}");
    }

    #[test]
    fn a_kind_that_nobody_measured_is_priced_by_physics_and_named() {
        let fp64 = product(Precision::Fp64, 1024);
        let price = pricer("h100").price(&fp64);
        assert_eq!(
            (price.model, price.in_domain, price.outside),
            (PredictorId::Roofline, Some(false), Some("precision"))
        );
        assert_eq!(price.time_ms, roofline::price(&fp64, find("h100").unwrap().device).time_ms);
        let copy = kernel(Family::Copy { elements: 1 << 20 }, Precision::Fp32, 0.0, (1 << 20) as f64);
        let price = pricer("h100").price(&copy);
        assert_eq!((price.model, price.in_domain, price.outside), (PredictorId::Roofline, None, None));
    }

    #[test]
    fn far_from_what_was_measured_the_price_fades_to_physics() {
        let pricer = pricer("v100");
        let outside = convolution(Precision::Fp32, 30);
        let (price, physics) = (pricer.price(&outside), roofline::price(&outside, &pricer.device));
        assert_eq!(price.in_domain, Some(false), "{price:?}");
        assert!(["dilation", "padding"].map(Some).contains(&price.outside), "{price:?}");
        assert!((price.time_ms.p50 / physics.time_ms.p50 - 1.0).abs() < 0.05, "{price:?} {physics:?}");
        assert!((price.time_ms.p90 / price.time_ms.p50 - physics.time_ms.p90 / physics.time_ms.p50).abs() < 0.05);
    }

    #[test]
    fn no_price_is_below_what_physics_allows() {
        for device in catalogue().devices() {
            let pricer = pricer_on(device.clone());
            for precision in Precision::ALL {
                for kernel in [product(precision, 64), product(precision, 2048), convolution(precision, 1)] {
                    let time = pricer.price(&kernel).time_ms;
                    let floor = floor_ms(&kernel, device);
                    assert!(
                        floor <= time.p10 && time.p10 <= time.p50 && time.p50 <= time.p90,
                        "{} {time:?}",
                        device.id
                    );
                }
            }
        }
    }

    #[test]
    fn a_card_of_a_user_is_led_to_by_physics_from_the_one_that_is_like_it() {
        let known = find("v100").unwrap().device;
        let own = |gb_s: f64| {
            let mut device = Device { id: "mine".to_owned(), ..known.clone() };
            device.memory.gb_s = gb_s;
            device.reached = crate::device::Reached::default();
            pricer_on(device)
        };
        let streamed = kernel(
            Family::Elementwise { elements: 1 << 26, function: Function::Arithmetic },
            Precision::Fp32,
            6e7,
            f64::from(1 << 27),
        );
        let mut last = f64::INFINITY;
        for gb_s in [300.0, 450.0, 600.0, 601.0, 900.0, 1800.0] {
            let price = own(gb_s).price(&streamed);
            assert!(matches!(price.model, PredictorId::Learned { .. }) && price.bound == Bound::Memory, "{price:?}");
            assert!(price.time_ms.p50 <= last, "{gb_s}: {price:?}");
            last = price.time_ms.p50;
        }
        // A card of a kind that nobody knows.
        let mut strange = own(900.0).device.as_ref().clone();
        (strange.board.chip, strange.board.architecture) = ("X1".to_owned(), "unheard-of".to_owned());
        let price = pricer_on(strange).price(&streamed);
        assert_eq!((price.model, price.in_domain, price.outside), (PredictorId::Roofline, Some(false), Some("device")));
    }

    #[test]
    fn features_are_those_of_the_predictor_that_prices() {
        let pricer = pricer("v100");
        let (id, features) = pricer.features(&product(Precision::Fp32, 1024)).unwrap();
        assert_eq!(id, pricer.price(&product(Precision::Fp32, 1024)).model);
        assert!(features.contains(&("m", 10.0)), "{features:?}");
        assert!(pricer.features(&product(Precision::Fp64, 1024)).is_none());
    }
}
