//! Keys about what a model runs on.

use toml::de::DeValue;

use super::{Entry, Reader, Settings, Wrong, at, integer, table, unknown, word};
use crate::device::{Device, load_user};
use crate::options::target as values;
use crate::options::target::GpuName;
use crate::target::choose;

/// The keys by the long names of `check`.
pub(super) const TARGET_KEYS: &[&str] = &[
    "gpu",
    "global-batch",
    "accumulate",
    "precision",
    "optimizer",
    "runtime",
    "attention",
    "replicas",
    "hosts",
    "strategy",
    "zero",
    "interconnect",
    "recompute",
    "samples",
    "epochs",
    "price",
    "input-ms",
    "input-samples-per-s",
    "predictors",
];

impl Reader {
    /// Reads a key about the target; false when it is none.
    pub(super) fn target_key(&self, key: &str, value: &Entry<'_>, settings: &mut Settings) -> Result<bool, Wrong> {
        let request = &mut settings.request;
        match key {
            "gpu" => settings.gpus = self.gpus(value)?,
            "global-batch" => request.global_batch = Some(number(value, crate::options::batch)?),
            "accumulate" => request.accumulate = Some(number(value, values::accumulate)?),
            "precision" => request.precision = Some(word(value, values::precision)?),
            "optimizer" => request.optimizer = Some(word(value, values::optimizer)?),
            "runtime" => request.runtime = Some(word(value, values::runtime)?),
            "attention" => request.attention = Some(word(value, values::attention)?),
            "replicas" => request.replicas = Some(number(value, values::replicas)?),
            "hosts" => request.hosts = Some(number(value, values::replicas)?),
            "strategy" => request.strategy = Some(word(value, values::strategy)?),
            "zero" => request.zero = Some(number(value, values::zero)?),
            "interconnect" => request.interconnect = Some(word(value, values::interconnect)?),
            "recompute" => request.recompute = Some(word(value, values::recompute)?),
            "samples" => request.samples = Some(number(value, values::samples)?),
            "epochs" => request.epochs = Some(number(value, values::epochs)?),
            "price" => request.price = Some(number(value, values::amount)?),
            "input-ms" => request.input_ms = Some(number(value, values::amount)?),
            "input-samples-per-s" => request.input_samples_per_s = Some(number(value, values::rate)?),
            "predictors" => {
                request.predictors = Some(word(value, |text| values::predictors(text, &self.folder))?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Names and files of devices, in one text or a list; each is looked up, so that a wrong one is named with its place.
    fn gpus(&self, value: &Entry<'_>) -> Result<Vec<GpuName>, Wrong> {
        let names = match value.get_ref() {
            DeValue::Array(items) => items.iter().map(|item| self.gpus(item)).collect::<Result<Vec<_>, _>>()?.concat(),
            _ => word(value, |text| {
                text.split(',').map(|name| values::gpu(name, &self.folder)).collect::<Result<Vec<_>, _>>()
            })?,
        };
        if names.is_empty() {
            return Err(at(value, "a device is missing; `dlcost devices` lists them".to_owned()));
        }
        choose(&names, &self.devices).map_err(|message| at(value, message))?;
        Ok(names)
    }

    /// The devices of the files that `[devices]` names.
    pub(super) fn devices(&self, value: &Entry<'_>) -> Result<Vec<Device>, Wrong> {
        let mut devices: Vec<Device> = Vec::new();
        for (key, value) in super::in_order(table(value, "[devices]")?) {
            if key.get_ref() != "files" {
                return Err(Wrong::at(key.span(), unknown("key", key.get_ref(), ["files"].into_iter())));
            }
            let DeValue::Array(files) = value.get_ref() else {
                return Err(at(value, "files are a list, as in: files = [\"cards.toml\"]".to_owned()));
            };
            for file in files.iter() {
                let read = |text: &str| load_user(&self.folder.join(text)).map_err(|error| error.to_string());
                for device in word(file, read)? {
                    if devices.iter().any(|known| known.id == device.id) {
                        return Err(at(file, format!("device '{}' stands in two files", device.id)));
                    }
                    devices.push(device);
                }
            }
        }
        Ok(devices)
    }
}

/// A number, read as the command line reads its text.
fn number<T>(value: &Entry<'_>, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Wrong> {
    let text = match value.get_ref() {
        DeValue::Float(float) => Some(float.as_str().to_owned()),
        _ => integer(value).map(|number| number.to_string()),
    };
    let text = text.ok_or_else(|| at(value, "the value is a number".to_owned()))?;
    read(&text).map_err(|message| at(value, message))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::read;
    use crate::options::target::GpuName;
    use crate::target::{Compute, Optimizer, Zero};

    fn bad(text: &str) -> String {
        read(Path::new("dlcost.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn every_key_of_the_target_is_read() {
        let text = "[defaults]\ngpu = ['v100', 't4,l4']\nglobal-batch = 64\nprecision = 'amp'\noptimizer = 'adam'\n\
            runtime = 'pytorch@2.1'\nattention = 'eager'\nreplicas = 8\nhosts = 2\nstrategy = 'ddp'\nzero = 1\naccumulate = 4\ninterconnect = 'pcie3'\n\
            recompute = 'sqrt'\nsamples = 1_000\nepochs = 3\nprice = 3.06\ninput-ms = 4\ninput-samples-per-s = 1e3\n";
        let defaults = read(Path::new("dlcost.toml"), text).unwrap().defaults;
        assert_eq!(defaults.gpus.len(), 3);
        assert_eq!(defaults.gpus.last(), Some(&GpuName::Id("l4".to_owned())));
        let request = defaults.request;
        assert_eq!((request.precision, request.optimizer), (Some(Compute::Amp), Some(Optimizer::Adam)));
        assert_eq!((request.samples, request.epochs, request.price), (Some(1000), Some(3), Some(3.06)));
        assert_eq!((request.input_ms, request.input_samples_per_s), (Some(4.0), Some(1000.0)));
        assert_eq!((request.replicas, request.hosts, request.global_batch), (Some(8), Some(2), Some(64)));
        assert_eq!((request.zero, request.accumulate), (Some(Zero::Optimizer), Some(4)));
    }

    #[test]
    fn wrong_targets_are_refused_at_their_place() {
        let unknown = bad("[defaults]\ngpu = 'v1000'\n");
        assert!(unknown.starts_with("dlcost.toml:2:7: no device is called 'v1000'; nearest: "), "{unknown}");
        assert!(bad("[defaults]\nprice = -1\n").starts_with("dlcost.toml:2:9: "));
        assert!(bad("[defaults]\nprice = nan\n").starts_with("dlcost.toml:2:9: "));
        assert!(bad("[defaults]\nreplicas = 1.5\n").starts_with("dlcost.toml:2:12: "));
        assert!(bad("[defaults]\nruntime = 'pytorhc'\n").contains("did you mean 'pytorch'"));
        assert!(bad("[defaults]\ngpu = []\n").contains("a device is missing"));
        let idle = "[[target]]\nmode = 'infer'\noptimizer = 'adam'\n";
        assert!(bad(idle).starts_with("dlcost.toml:1:1: optimizer adam has nothing to update"), "{}", bad(idle));
    }

    #[test]
    fn devices_of_files_are_known_wherever_they_stand() {
        let folder = tempfile::tempdir().unwrap();
        let card = "[device.mine]\nname = \"Mine\"\nmemory.gib = 16\nmemory.gb_s = 700\nplain.fp32 = 40\n";
        std::fs::write(folder.path().join("cards.toml"), card).unwrap();
        let path = folder.path().join("dlcost.toml");
        let config = read(&path, "[defaults]\ngpu = 'mine'\n[devices]\nfiles = ['cards.toml']\n").unwrap();
        assert_eq!(config.devices.len(), 1);
        assert!(read(&path, "[devices]\nfiles = ['none.toml']\n").unwrap_err().to_string().contains("none.toml: "));
        assert!(bad("[devices]\nfile = []\n").contains("did you mean 'files'?"));
    }
}
