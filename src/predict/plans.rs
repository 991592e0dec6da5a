//! What a step does and holds, whatever the device: its kernels, and its tensors in time. Devices that run the same
//! kernels share it, and so do questions that come back to a batch.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::pricer::Pricer;
use crate::analysis::{Analysis, Figures};
use crate::passes::liveness::{Liveness, live};
use crate::passes::lower::{Forms, Lowering, Schedule, lower};
use crate::passes::strides::Strides;
use crate::target::Target;

/// Plans of one model, made when first asked for; the last ones are kept.
pub struct Plans<'a> {
    analysis: &'a Analysis,
    figures: Recent<Values, Figures>,
    schedules: Recent<(Values, Target), Schedule>,
    lives: Recent<(Values, Target), Liveness>,
    pricers: Recent<(), Pricer>,
    /// The same model with its batch free, where it is another analysis.
    free: Option<Box<Plans<'a>>>,
}

/// Values of the free dims.
type Values = BTreeMap<String, i128>;

/// Layers that all plans of a sort that are kept have together: a few tens of megabytes.
const KEPT_LAYERS: usize = 1_000_000;

/// Batches whose figures are kept: kernels and tensors of one are made together.
const FIGURES: usize = 2;

/// Devices whose prices are kept.
const PRICERS: usize = 8;

impl<'a> Plans<'a> {
    /// No plans yet.
    #[must_use]
    pub fn new(analysis: &'a Analysis) -> Self {
        let kept = (KEPT_LAYERS / analysis.layers.len().max(1)).clamp(4, 64);
        Self {
            analysis,
            figures: Recent::new(kept.min(FIGURES)),
            schedules: Recent::new(kept),
            lives: Recent::new(kept),
            pricers: Recent::new(PRICERS),
            free: None,
        }
    }

    /// These plans, and the analysis of the same model with its batch free, where there is one.
    #[must_use]
    pub fn with_free(self, free: Option<&'a Analysis>) -> Self {
        Self { free: free.map(|free| Box::new(Self::new(free))), ..self }
    }

    /// Plans for any batch; `None` where the file or the shape of an input fixes it.
    #[must_use]
    pub fn free(&self) -> Option<&Self> {
        let bound = &self.analysis.bound;
        let batch = bound.batch.as_deref()?;
        if bound.free.iter().any(|symbol| symbol.name() == batch) {
            return Some(self);
        }
        self.free.as_deref()
    }

    /// The model.
    #[must_use]
    pub fn analysis(&self) -> &'a Analysis {
        self.analysis
    }

    /// Figures of layers.
    #[must_use]
    pub fn figures(&self, values: &Values) -> Rc<Figures> {
        self.figures.get(|known, _| known == values, || values.clone(), || self.analysis.at(values))
    }

    /// The model on a target.
    #[must_use]
    pub fn lowering<'t>(&self, target: &'t Target) -> Lowering<'t>
    where
        'a: 't,
    {
        Lowering { analysis: self.analysis, operations: self.analysis.operations(target.attention), target }
    }

    /// Prices of kernels on the target's device.
    #[must_use]
    pub fn pricer(&self, target: &Target) -> Rc<Pricer> {
        self.pricers.get(|(), pricer| pricer.is_for(target), || (), || Pricer::new(target))
    }

    /// The kernels of a step; `None` where a size that they depend on is not known.
    #[must_use]
    pub fn schedule(&self, values: &Values, target: &Target) -> Option<Rc<Schedule>> {
        self.schedules.find(
            |known, _| is_of(known, values, target),
            || (values.clone(), target.clone()),
            || self.with_forms(values, target, |lowering, forms| lower(lowering, forms, &Strides::of(lowering, forms))),
        )
    }

    /// The tensors of a step in time; `None` where a size that they depend on is not known.
    #[must_use]
    pub fn live(&self, values: &Values, target: &Target) -> Option<Rc<Liveness>> {
        self.lives.find(
            |known, _| is_of(known, values, target),
            || (values.clone(), target.clone()),
            || self.with_forms(values, target, |lowering, forms| live(lowering, forms, &Strides::of(lowering, forms))),
        )
    }

    fn with_forms<T>(
        &self,
        values: &Values,
        target: &Target,
        make: impl FnOnce(&Lowering<'_>, &Forms<'_>) -> T,
    ) -> Option<T> {
        let figures = self.figures(values);
        if !figures.unbound.is_empty() {
            return None;
        }
        let (sizes, lowering) = (self.analysis.sizes(values), self.lowering(target));
        Some(make(&lowering, &Forms::of(&lowering, &figures, &sizes)))
    }
}

fn is_of((values, target): &(Values, Target), wanted: &Values, on: &Target) -> bool {
    values == wanted && target.runs_like(on)
}

/// The results that were asked for last, the latest in front.
struct Recent<K, T> {
    list: RefCell<VecDeque<(K, Rc<T>)>>,
    most: usize,
}

impl<K, T> Recent<K, T> {
    fn new(most: usize) -> Self {
        Self { list: RefCell::default(), most }
    }

    fn get(&self, is_it: impl Fn(&K, &T) -> bool, key: impl FnOnce() -> K, make: impl FnOnce() -> T) -> Rc<T> {
        let known = self.known(is_it);
        known.unwrap_or_else(|| self.add(key(), make()))
    }

    fn find(
        &self,
        is_it: impl Fn(&K, &T) -> bool,
        key: impl FnOnce() -> K,
        make: impl FnOnce() -> Option<T>,
    ) -> Option<Rc<T>> {
        let known = self.known(is_it);
        known.or_else(|| Some(self.add(key(), make()?)))
    }

    fn known(&self, is_it: impl Fn(&K, &T) -> bool) -> Option<Rc<T>> {
        let mut list = self.list.borrow_mut();
        let place = list.iter().position(|(key, made)| is_it(key, made))?;
        let found = list.remove(place)?;
        let result = Rc::clone(&found.1);
        list.push_front(found);
        Some(result)
    }

    fn add(&self, key: K, made: T) -> Rc<T> {
        let result = Rc::new(made);
        let mut list = self.list.borrow_mut();
        list.push_front((key, Rc::clone(&result)));
        list.truncate(self.most);
        result
    }
}
