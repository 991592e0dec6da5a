//! Values of the options that say what a model runs on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{batch, choice};
use crate::device::{Interconnect, find_interconnect};
use crate::predict::learned::predictors::Predictors;
use crate::runtime::{Attention, RUNTIMES, Runtime, Version};
use crate::target::{Compute, Optimizer, Recompute, Strategy, Zero};

/// Most replicas that are taken: the largest machines that train one model are smaller.
const MOST_REPLICAS: u32 = 1 << 20;

/// Most samples and epochs that are taken: their product is a number of steps.
const MOST_SAMPLES: u64 = 10_000_000_000_000;
const MOST_EPOCHS: u64 = 1_000_000;

/// The largest price, time and rate that is taken: a thousand million dollars, eleven days, samples a second.
const MOST: f64 = 1e9;

/// A device as `--gpu` names it. Which devices there are depends on the configuration, so that names are looked up when
/// that has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuName {
    /// An id or another name.
    Id(String),
    /// A file of devices, all of which are meant.
    File(PathBuf),
    /// Cards on which the replicas of one run sit, with how many of each.
    Together(Vec<(u32, GpuName)>),
}

/// Most cards that are named together.
const MOST_CARDS: u32 = 1024;

/// Parses one value of `--gpu`; files are looked up in `folder`. Cards of one run are joined by plus, with a number and a
/// star in front of those that are there several times: `2*rtx-3090+card.toml`.
///
/// # Errors
/// A name is empty, or a number is none.
pub fn gpu(text: &str, folder: &Path) -> Result<GpuName, String> {
    // A file may have such a name.
    if !text.contains(['+', '*']) || is_file_of_devices(text) && folder.join(text.trim()).exists() {
        return one_gpu(text, folder);
    }
    let mut left = MOST_CARDS;
    let card = |part: &str| {
        let (count, name) = part.split_once('*').unwrap_or(("1", part));
        let refusal = || format!("'{}' is not a number of cards from 1 to {MOST_CARDS}", count.trim());
        let count = count.trim().parse().ok().filter(|count| (1..=left).contains(count)).ok_or_else(refusal)?;
        left -= count;
        Ok((count, one_gpu(name, folder)?))
    };
    Ok(GpuName::Together(text.split('+').map(card).collect::<Result<_, String>>()?))
}

fn one_gpu(text: &str, folder: &Path) -> Result<GpuName, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("a device is missing; `dlcost devices` lists them".to_owned());
    }
    Ok(if is_file_of_devices(text) { GpuName::File(folder.join(text)) } else { GpuName::Id(text.to_owned()) })
}

fn is_file_of_devices(text: &str) -> bool {
    Path::new(text.trim()).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}

/// Parses the value of `--precision`.
///
/// # Errors
/// The precision is unknown.
pub fn precision(text: &str) -> Result<Compute, String> {
    choice(text, &Compute::ALL, &[])
}

/// Parses the value of `--optimizer`.
///
/// # Errors
/// The optimizer is unknown.
pub fn optimizer(text: &str) -> Result<Optimizer, String> {
    choice(text, &Optimizer::ALL, &[])
}

/// Parses the value of `--attention`.
///
/// # Errors
/// The way is unknown.
pub fn attention(text: &str) -> Result<Attention, String> {
    choice(text, &Attention::ALL, &[])
}

/// Parses the value of `--strategy`.
///
/// # Errors
/// The strategy is unknown.
pub fn strategy(text: &str) -> Result<Strategy, String> {
    choice(text, &Strategy::ALL, &[])
}

/// Parses the value of `--zero`.
///
/// # Errors
/// There is no such stage.
pub fn zero(text: &str) -> Result<Zero, String> {
    let known = Zero::ALL.into_iter().find(|(stage, _)| *stage == text.trim());
    known.map(|(_, zero)| zero).ok_or_else(|| format!("'{text}' is not a stage of ZeRO: 0, 1, 2 or 3"))
}

/// Parses the value of `--recompute`.
///
/// # Errors
/// The way is unknown.
pub fn recompute(text: &str) -> Result<Recompute, String> {
    choice(text, &Recompute::ALL, &[])
}

/// Parses the value of `--interconnect`.
///
/// # Errors
/// The interconnect is unknown.
pub fn interconnect(text: &str) -> Result<&'static Interconnect, String> {
    find_interconnect(text)
}

/// Parses the value of `--runtime`: a name, with `@VERSION` where one is meant. A version is `2`, `1.13` or `2.5.1`; of
/// the last the patch does not count, and one number alone means the newest minor version of it.
///
/// # Errors
/// The runtime is unknown or the version is none.
pub fn runtime(text: &str) -> Result<(&'static Runtime, Option<Version>), String> {
    let (name, version) = text.split_once('@').map_or((text, None), |(name, version)| (name, Some(version)));
    let known = RUNTIMES.map(|runtime| (runtime.name, runtime));
    let runtime = choice(name, &known, &[])?;
    let version = version.map(|version| {
        parse_version(version).ok_or_else(|| format!("'{version}' is not a version such as 2, 1.13 or 2.5.1"))
    });
    Ok((runtime, version.transpose()?))
}

fn parse_version(text: &str) -> Option<Version> {
    // What a build adds behind a sign (`2.1.0+cu118`) says nothing about what it launches.
    let text = text.split(['+', '-']).next()?;
    let numbers: Vec<u32> = text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    match numbers.as_slice() {
        [major] => Some((*major, Runtime::NEWEST_MINOR)),
        [major, minor] | [major, minor, _] => Some((*major, *minor)),
        _ => None,
    }
}

/// Parses the value of `--replicas` or `--hosts`.
///
/// # Errors
/// The text is no number from 1, or a number that no machine has.
pub fn replicas(text: &str) -> Result<u32, String> {
    let refusal = || format!("'{text}' is not a number from 1 to {MOST_REPLICAS}");
    text.parse().ok().filter(|count| (1..=MOST_REPLICAS).contains(count)).ok_or_else(refusal)
}

/// Parses the value of `--accumulate`.
///
/// # Errors
/// The text is no number from 1, or a number that no step has.
pub fn accumulate(text: &str) -> Result<u32, String> {
    replicas(text)
}

/// Parses the value of `--samples`.
///
/// # Errors
/// The text is no number from 1, or one that no data set has.
pub fn samples(text: &str) -> Result<u64, String> {
    let samples = batch(text).ok().filter(|samples| *samples <= MOST_SAMPLES);
    samples.ok_or_else(|| format!("'{text}' is not a number of samples from 1 to {MOST_SAMPLES}"))
}

/// Parses the value of `--epochs`.
///
/// # Errors
/// The text is no number from 1, or one that nobody waits for.
pub fn epochs(text: &str) -> Result<u64, String> {
    let epochs = batch(text).ok().filter(|epochs| *epochs <= MOST_EPOCHS);
    epochs.ok_or_else(|| format!("'{text}' is not a number of epochs from 1 to {MOST_EPOCHS}"))
}

/// Parses the value of `--price` or `--input-ms`: a number from 0.
///
/// # Errors
/// The text is no such number, or a larger one than there is.
pub fn amount(text: &str) -> Result<f64, String> {
    let amount = number(text).filter(|number| (0.0..=MOST).contains(number));
    amount.ok_or_else(|| format!("'{text}' is not a number from 0 to {MOST}"))
}

/// Parses the value of `--input-samples-per-s`: a number above 0.
///
/// # Errors
/// The text is no such number, or a larger or smaller one than there is.
pub fn rate(text: &str) -> Result<f64, String> {
    let rate = number(text).filter(|number| (1.0 / MOST..=MOST).contains(number));
    rate.ok_or_else(|| format!("'{text}' is not a number above 0 and up to {MOST}"))
}

/// Reads the predictors of the folder that `--predictors` names, looked up in `folder`.
///
/// # Errors
/// The folder holds none, or a file of it cannot be used.
pub fn predictors(text: &str, folder: &Path) -> Result<Arc<Predictors>, String> {
    Predictors::of_folder(&folder.join(text)).map(Arc::new).map_err(|error| error.to_string())
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_known_or_the_nearest_is_named() {
        assert_eq!(precision("amp"), Ok(Compute::Amp));
        assert_eq!(optimizer("adamw"), Ok(Optimizer::AdamW));
        assert_eq!(attention("fused"), Ok(Attention::Fused));
        assert_eq!(strategy("parameter-server"), Ok(Strategy::ParameterServer));
        assert_eq!(recompute("sqrt"), Ok(Recompute::Sqrt));
        assert!(precision("fp61").unwrap_err().contains("did you mean 'fp16'"));
        assert!(optimizer("adan").unwrap_err().contains("did you mean 'adam'"));
        assert!(strategy("mirored").unwrap_err().contains("did you mean 'mirrored'"));
        assert!(interconnect("nvlnk3").unwrap_err().contains("nvlink3"));
    }

    #[test]
    fn runtimes_take_versions_of_one_to_three_numbers() {
        let of = |text: &str| runtime(text).map(|(runtime, version)| (runtime.name, version));
        assert_eq!(of("pytorch"), Ok(("pytorch", None)));
        assert_eq!(of("pytorch@1.13"), Ok(("pytorch", Some((1, 13)))));
        assert_eq!(of("pytorch@2.5.1"), Ok(("pytorch", Some((2, 5)))));
        assert_eq!(of("pytorch@2.1.0+cu118"), Ok(("pytorch", Some((2, 1)))));
        assert_eq!(of("tensorflow@2"), Ok(("tensorflow", Some((2, Runtime::NEWEST_MINOR)))));
        for wrong in ["pytorch@", "pytorch@x", "pytorch@1.2.3.4", "pytorch@-1"] {
            assert!(of(wrong).unwrap_err().contains("is not a version"), "{wrong}");
        }
        assert!(of("pytorc@2").unwrap_err().contains("did you mean 'pytorch'"));
    }

    #[test]
    fn numbers_are_finite_and_not_negative() {
        assert_eq!(amount("3.06"), Ok(3.06));
        assert_eq!(amount("0"), Ok(0.0));
        assert!(rate("0").is_err());
        for wrong in ["-1", "nan", "inf", "1e999", "1e300", "1e10", "", "3 dollars"] {
            assert!(amount(wrong).is_err() && rate(wrong).is_err(), "{wrong}");
        }
        assert_eq!(replicas("8"), Ok(8));
        for wrong in ["0", "-1", "1.5", "99999999", "4294967296"] {
            assert!(replicas(wrong).is_err(), "{wrong}");
        }
        assert_eq!((accumulate("8"), zero("2")), (Ok(8), Ok(Zero::Gradients)));
        assert!(accumulate("0").is_err() && zero("4").unwrap_err().contains("0, 1, 2 or 3"));
        assert!(rate("1e-300").is_err() && samples("18446744073709551615").is_err() && epochs("9999999").is_err());
        assert!(samples("0").is_err() && epochs("x").unwrap_err().contains("epochs"));
    }

    #[test]
    fn a_gpu_is_an_id_or_a_file_of_its_folder() {
        assert_eq!(gpu(" v100 ", Path::new("here")), Ok(GpuName::Id("v100".to_owned())));
        assert_eq!(gpu("card.TOML", Path::new("here")), Ok(GpuName::File(PathBuf::from("here/card.TOML"))));
        assert!(gpu("", Path::new("")).is_err());
    }

    #[test]
    fn cards_are_joined_by_plus() {
        let id = |id: &str| GpuName::Id(id.to_owned());
        let file = GpuName::File(PathBuf::from("here/card.toml"));
        let three = GpuName::Together(vec![(2, id("rtx-3090")), (1, file)]);
        assert_eq!(gpu("2*rtx-3090 + card.toml", Path::new("here")), Ok(three));
        assert_eq!(gpu("8*v100", Path::new("")), Ok(GpuName::Together(vec![(8, id("v100"))])));
        for wrong in ["v100+", "+v100", "2*", "v100++t4"] {
            assert!(gpu(wrong, Path::new("")).unwrap_err().contains("a device is missing"), "{wrong}");
        }
        for wrong in ["0*v100", "x*v100", "*v100", "-1*v100", "1000*v100+25*t4", "99999999999*v100"] {
            assert!(gpu(wrong, Path::new("")).unwrap_err().contains("is not a number of cards"), "{wrong}");
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a+b.toml"), "").unwrap();
        assert_eq!(gpu("a+b.toml", folder.path()), Ok(GpuName::File(folder.path().join("a+b.toml"))));
    }
}
