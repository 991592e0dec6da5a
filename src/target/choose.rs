//! Devices by the names that a user gave.

use std::sync::Arc;

use super::ChosenGpu;
use crate::device::{self, Device};
use crate::options::target::GpuName;

/// Looks up devices, each once: first among `own`, those of files that a configuration names, then in the catalogue.
///
/// # Errors
/// There is no such device, or a file of devices cannot be used.
pub fn choose(names: &[GpuName], own: &[Device]) -> Result<Vec<ChosenGpu>, String> {
    let mut chosen: Vec<ChosenGpu> = Vec::new();
    for name in names {
        let found = match name {
            GpuName::File(path) => {
                let devices = device::load_user(path).map_err(|error| error.to_string())?;
                devices.into_iter().map(of_user).collect()
            }
            GpuName::Id(id) => match own.iter().find(|device| device.id.eq_ignore_ascii_case(id)) {
                Some(device) => vec![of_user(device.clone())],
                None => vec![of_catalogue(id)?],
            },
        };
        for gpu in found {
            if !chosen.iter().any(|known| known.device.id == gpu.device.id) {
                chosen.push(gpu);
            }
        }
    }
    Ok(chosen)
}

fn of_catalogue(id: &str) -> Result<ChosenGpu, String> {
    let found = device::find(id).map_err(|error| error.to_string())?;
    Ok(ChosenGpu { device: Arc::new(found.device.clone()), note: found.note(), uncertain: found.uncertain })
}

/// Figures that a user left out are assumed, which makes whatever is predicted with them less certain.
fn of_user(device: Device) -> ChosenGpu {
    let assumed = device.assumed.join(", ");
    let note = (!assumed.is_empty()).then(|| format!("its file does not give {assumed}, which are assumed"));
    ChosenGpu { uncertain: note.is_some(), note, device: Arc::new(device) }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn ids(names: &[&str]) -> Result<Vec<String>, String> {
        let names: Vec<GpuName> = names.iter().map(|name| GpuName::Id((*name).to_owned())).collect();
        choose(&names, &[]).map(|gpus| gpus.iter().map(|gpu| gpu.device.id.clone()).collect())
    }

    #[test]
    fn a_device_is_taken_once_however_it_is_called() {
        assert_eq!(ids(&["v100", "t4", "V100-SXM2-16GB"]).unwrap(), ["v100-sxm2-16gb", "t4"]);
        assert!(ids(&["4070-ti-supr"]).unwrap_err().contains("nearest: "));
    }

    #[test]
    fn an_alias_says_which_boards_it_could_mean() {
        let chosen = choose(&[GpuName::Id("a100".to_owned())], &[]).unwrap();
        assert!(chosen[0].note.as_ref().unwrap().contains("a100-sxm4-80gb"));
    }

    #[test]
    fn what_a_file_leaves_out_makes_a_device_uncertain() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("card.toml");
        let text = "[device.card]\nname = \"Card\"\nmemory.gib = 16\nmemory.gb_s = 700\nplain.fp32 = 40\n";
        std::fs::write(&path, text).unwrap();
        let chosen = choose(&[GpuName::File(path)], &[]).unwrap();
        assert!(chosen[0].uncertain && chosen[0].note.as_ref().unwrap().contains("assumed"));
        let own = [(*chosen[0].device).clone()];
        assert_eq!(choose(&[GpuName::Id("CARD".to_owned())], &own).unwrap()[0].device.id, "card");
        assert!(choose(&[GpuName::File(PathBuf::from("nowhere.toml"))], &[]).is_err());
    }
}
