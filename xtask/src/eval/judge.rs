//! Answers for all rows: every question once, files side by side on all cores.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dlcost::predict::learned::predictors::Predictors;

use super::price::{Analysed, Price};
use super::question::{Form, Question, Target, Unpriced};

/// An answer, or why there is none.
pub(super) type Answer = Result<Price, Unpriced>;

/// Answers of all questions.
pub(super) type Answers = HashMap<Question, Answer>;

/// Prices all questions on the files of a folder.
pub(super) fn answers<'q>(
    folder: &Path,
    predictors: &Arc<Predictors>,
    questions: impl Iterator<Item = &'q Question>,
) -> Answers {
    let mut forms: BTreeMap<&Form, Vec<&Target>> = BTreeMap::new();
    for question in questions {
        forms.entry(&question.form).or_default().push(&question.target);
    }
    for targets in forms.values_mut() {
        targets.sort();
        targets.dedup();
    }
    let mut jobs: Vec<(&Form, Vec<&Target>)> = forms.into_iter().collect();
    // The longest first, so that no core is left alone with one at the end.
    jobs.sort_by_key(|(_, targets)| std::cmp::Reverse(targets.len()));
    let next = AtomicUsize::new(0);
    let answers: Mutex<Answers> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((form, targets)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = of_form(folder, predictors, form, targets);
                    if let Ok(mut answers) = answers.lock() {
                        answers.extend(found);
                    }
                }
            });
        }
    });
    answers.into_inner().unwrap_or_default()
}

fn of_form(folder: &Path, predictors: &Arc<Predictors>, form: &Form, targets: &[&Target]) -> Vec<(Question, Answer)> {
    let analysed = Analysed::new(folder, form);
    let answer = |target: &Target| analysed.as_ref().map_err(Clone::clone)?.price(target, predictors);
    let question = |target: &Target| Question { form: form.clone(), target: target.clone() };
    targets.iter().map(|target| (question(target), answer(target))).collect()
}
