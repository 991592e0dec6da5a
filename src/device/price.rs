//! List prices of devices: `predictors/prices.toml`. A price is of a provider, a machine and a month, and says so.

use std::path::Path;
use std::sync::OnceLock;

use super::form::{self, DeviceError, Figure, Section, Wrong};

const TEXT: &str = include_str!("../../predictors/prices.toml");
const PATH: &str = "predictors/prices.toml";

const USD: Figure = Figure { key: "usd", least: 0.01, most: 1000.0, unit: "USD" };

/// What an hour of one device costs on demand.
#[derive(Clone, Debug, PartialEq)]
pub struct ListPrice {
    /// Id of the device.
    pub device: String,
    /// US dollars.
    pub usd_per_hour: f64,
    /// Whose page, which machine, which region.
    pub source: String,
    /// Year and month of the price.
    pub date: String,
    /// Whether the host comes on top.
    pub gpu_only: bool,
}

impl ListPrice {
    /// Where the price is from, in words.
    #[must_use]
    pub fn origin(&self) -> String {
        let without = if self.gpu_only { ", without its host" } else { "" };
        format!("{}, on demand{without}, {}, recalled", self.source, self.date)
    }
}

/// The list price of a device, where one is known.
#[must_use]
pub fn list_price(id: &str) -> Option<&'static ListPrice> {
    prices().iter().find(|price| price.device == id)
}

fn prices() -> &'static [ListPrice] {
    static ALL: OnceLock<Vec<ListPrice>> = OnceLock::new();
    // A test reads the file that is built in, so nothing is ever left out here.
    ALL.get_or_init(|| parse(TEXT).unwrap_or_default())
}

fn parse(text: &str) -> Result<Vec<ListPrice>, DeviceError> {
    form::parse(Path::new(PATH), text, |document| {
        document.only(&["price"])?;
        let entries = document.section("price", "price")?.ok_or_else(|| document.lacks("price"))?;
        entries.sections("price")?.into_iter().map(|(id, entry)| read(id, &entry)).collect()
    })
}

fn read(id: &str, entry: &Section<'_, '_>) -> Result<ListPrice, Wrong> {
    entry.only(&[USD.key, "source", "date", "gpu_only"])?;
    let date = entry.text("date")?.ok_or_else(|| entry.lacks("date"))?;
    if !is_month(date) {
        return Err(Wrong::at(entry.span_of("date"), format!("'{date}' is not a month such as 2025-06")));
    }
    Ok(ListPrice {
        device: id.to_owned(),
        usd_per_hour: entry.number(&USD)?.ok_or_else(|| entry.lacks(USD.key))?,
        source: entry.text("source")?.ok_or_else(|| entry.lacks("source"))?.to_owned(),
        date: date.to_owned(),
        gpu_only: entry.truth("gpu_only")?,
    })
}

fn is_month(text: &str) -> bool {
    let number = |text: &str, digits: usize| -> Option<u32> {
        (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
    };
    text.split_once('-').is_some_and(|(year, month)| {
        number(year, 4).is_some_and(|year| year >= 2006)
            && number(month, 2).is_some_and(|month| (1..=12).contains(&month))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{catalogue, find};

    #[test]
    fn every_price_is_of_a_device_that_is_known() {
        let prices = parse(TEXT).unwrap();
        assert!(prices.len() > 10);
        for price in &prices {
            assert!(catalogue().devices().iter().any(|device| device.id == price.device), "{}", price.device);
            assert_eq!(prices.iter().filter(|other| other.device == price.device).count(), 1);
        }
    }

    #[test]
    fn usual_cards_have_a_price_and_say_whose() {
        for alias in ["k80", "p100", "v100", "t4", "a100", "l4", "h100", "h200", "b200", "m60", "a10"] {
            assert!(list_price(&find(alias).unwrap().device.id).is_some(), "{alias}");
        }
        let price = list_price("v100-sxm2-16gb").unwrap();
        assert_eq!(price.origin(), "Amazon EC2 p3.2xlarge, us-east-1, on demand, 2024-01, recalled");
        assert_eq!(list_price("gtx-1080-ti"), None);
    }

    #[test]
    fn a_wrong_price_is_named_with_its_place() {
        let bad = |text: &str| parse(text).unwrap_err().to_string();
        let negative = bad("[price.t4]\nusd = -1\nsource = 'x'\ndate = '2025-06'\n");
        assert!(negative.contains(":2:7: price.usd = -1 cannot be"), "{negative}");
        assert!(bad("[price.t4]\nusd = 1\nsource = 'x'\ndate = '2025-13'\n").contains("is not a month"));
        assert!(bad("[price.t4]\nusd = 1\ndate = '2025-06'\n").contains("'price.source' is missing"));
        assert!(
            bad("[price.t4]\nusd = 1\nsource = 'x'\ndate = '2025-06'\ncurrency = 'EUR'\n").contains("unknown field")
        );
    }
}
