//! Devices by the names that a user gave.

use std::sync::Arc;

use super::{Cards, ChosenGpu};
use crate::device::{self, Device};
use crate::options::target::GpuName;

/// Looks up devices, each once: first among `own`, those of files that a configuration names, then in the catalogue.
///
/// # Errors
/// There is no such device, or a file of devices cannot be used.
pub fn choose(names: &[GpuName], own: &[Device]) -> Result<Vec<ChosenGpu>, String> {
    let mut chosen: Vec<ChosenGpu> = Vec::new();
    for name in names {
        for gpu in find(name, own)? {
            if !chosen.iter().any(|known| known.id() == gpu.id()) {
                chosen.push(gpu);
            }
        }
    }
    Ok(chosen)
}

/// What a name means: several devices where it is a file of them.
fn find(name: &GpuName, own: &[Device]) -> Result<Vec<ChosenGpu>, String> {
    Ok(match name {
        GpuName::File(path) => {
            let devices = device::load_user(path).map_err(|error| error.to_string())?;
            devices.into_iter().map(of_user).collect()
        }
        GpuName::Id(id) => match own.iter().find(|device| device.id.eq_ignore_ascii_case(id)) {
            Some(device) => vec![of_user(device.clone())],
            None => vec![of_catalogue(id)?],
        },
        GpuName::Together(names) => vec![together(names, own)?],
    })
}

/// Cards of one run, each of which has to be one device.
fn together(names: &[(u32, GpuName)], own: &[Device]) -> Result<ChosenGpu, String> {
    let (mut cards, mut notes, mut uncertain) = (Vec::new(), Vec::new(), false);
    for (count, name) in names {
        let found = find(name, own)?;
        let [gpu] = found.as_slice() else {
            let ids: Vec<&str> = found.iter().map(|gpu| &*gpu.device.id).collect();
            return Err(format!("a file among cards that are named together holds one device, not {}", ids.join(", ")));
        };
        cards.extend((0..*count).map(|_| Arc::clone(&gpu.device)));
        notes.extend(gpu.note.clone());
        uncertain |= gpu.uncertain;
    }
    notes.dedup();
    let first = cards.first().ok_or("a device is missing; `dlcost devices` lists them")?;
    let note = (!notes.is_empty()).then(|| notes.join("; "));
    Ok(ChosenGpu { device: Arc::clone(first), note, uncertain, cards: Cards::new(cards) })
}

fn of_catalogue(id: &str) -> Result<ChosenGpu, String> {
    let found = device::find(id).map_err(|error| error.to_string())?;
    Ok(ChosenGpu { note: found.note(), uncertain: found.uncertain, ..ChosenGpu::of(found.device.clone()) })
}

/// Figures that a user left out are assumed, which makes whatever is predicted with them less certain.
fn of_user(device: Device) -> ChosenGpu {
    let assumed = device.assumed.join(", ");
    let note = (!assumed.is_empty()).then(|| format!("its file does not give {assumed}, which are assumed"));
    ChosenGpu { uncertain: note.is_some(), note, ..ChosenGpu::of(device) }
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
    fn cards_of_one_run_are_one_choice() {
        let card = |count, id: &str| (count, GpuName::Id(id.to_owned()));
        let run = |names: &[(u32, GpuName)]| choose(&[GpuName::Together(names.to_vec())], &[]);
        let chosen = run(&[card(1, "rtx-3060-12gb"), card(2, "rtx-3090"), card(1, "RTX-3060-12GB")]).unwrap();
        assert_eq!(chosen.len(), 1);
        assert_eq!((chosen[0].id().as_str(), chosen[0].cards.count()), ("2*rtx-3060-12gb+2*rtx-3090", 4));
        assert!(run(&[card(1, "rtx-3090"), card(1, "rtx-3061")]).unwrap_err().contains("nearest: "));
        let aliases = run(&[card(1, "v100"), card(1, "a100")]).unwrap();
        assert!(aliases[0].note.as_ref().unwrap().contains("; "));
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
