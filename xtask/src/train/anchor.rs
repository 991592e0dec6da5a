//! Rates that were seen on cards: those of the catalogue, or those of a file in the form of `anchors.csv`
//! (`device,quantity,value`; `gemm_fp16_tflops`, `copy_gbs`).

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

use dlcost::device::{Device, Found, Reached, find};
use dlcost::predict::learned::rates::Anchors;

/// The devices that rows name, with what is to be known of them.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    /// Rates of a file, in place of those of the catalogue.
    file: Option<HashMap<String, Reached>>,
    known: HashMap<String, Option<&'static Device>>,
}

/// What `--anchors` says: whether rates are used, and on which devices.
pub(crate) fn anchors(text: Option<&str>) -> Result<(Anchors, Devices), Box<dyn Error>> {
    match text {
        None => Ok((Anchors::Use, Devices::default())),
        Some("none") => Ok((Anchors::Ignore, Devices::default())),
        Some(path) => Ok((Anchors::Use, Devices { file: Some(read(Path::new(path))?), ..Devices::default() })),
    }
}

fn read(path: &Path) -> Result<HashMap<String, Reached>, Box<dyn Error>> {
    let mut file = csv::Reader::from_path(path).map_err(|error| format!("--anchors {}: {error}", path.display()))?;
    let headers = file.headers()?.clone();
    let column = |name: &str| {
        let at = headers.iter().position(|header| header == name);
        at.ok_or_else(|| format!("--anchors {}: no column {name}", path.display()))
    };
    let [device, quantity, value] = [column("device")?, column("quantity")?, column("value")?];
    let mut found: HashMap<String, Reached> = HashMap::new();
    for record in file.records() {
        let record = record?;
        let text = |at: usize| record.get(at).unwrap_or_default().trim();
        let value: f64 =
            text(value).parse().map_err(|_| format!("{}: {} is no number", path.display(), text(value)))?;
        let reached = found.entry(text(device).to_owned()).or_default();
        let products = &mut reached.products;
        match text(quantity) {
            "copy_gbs" => reached.copy_gb_s = Some(value),
            "gemm_fp64_tflops" => products.fp64 = Some(value),
            "gemm_fp32_tflops" => products.fp32 = Some(value),
            "gemm_tf32_tflops" => products.tf32 = Some(value),
            "gemm_fp16_tflops" => products.fp16 = Some(value),
            "gemm_bf16_tflops" => products.bf16 = Some(value),
            "gemm_fp8_tflops" => products.fp8 = Some(value),
            "gemm_int8_tflops" => products.int8 = Some(value),
            other => return Err(format!("{}: quantity {other} is not known", path.display()).into()),
        }
    }
    Ok(found)
}

impl Devices {
    /// A device by its id; `None` where the catalogue has none of the name.
    pub(crate) fn find(&mut self, id: &str) -> Option<&'static Device> {
        if let Some(known) = self.known.get(id) {
            return *known;
        }
        let mut device = match find(id) {
            Ok(Found { device, .. }) => Some(device),
            Err(_) => None,
        };
        if let (Some(file), Some(of_catalogue)) = (&self.file, device) {
            let reached = file.get(id).copied().unwrap_or_default();
            // One for each device of a run, as long as the program runs.
            device = Some(Box::leak(Box::new(Device { reached, ..of_catalogue.clone() })));
        }
        self.known.insert(id.to_owned(), device);
        device
    }
}
