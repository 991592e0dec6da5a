//! Features of what devices exchange.

use super::row::Row;
use super::setting::{Link, Setting};
use crate::device::{Device, find_interconnect};
use crate::ops::work::Family;
use crate::runtime::Kernel;

/// The shortest exchange, and what each further device adds, ms.
const SHORTEST_MS: f64 = 8e-3;
const EACH_MS: f64 = 2e-3;

/// What PCIe carries between devices, and a network between hosts, bytes a ms.
const PCIE: f64 = 10e6;
const NETWORK: f64 = 12e6;

/// Adds the features of an exchange; its physical time, ms.
pub(super) fn describe(row: &mut Row, kernel: &Kernel, device: &Device, setting: Setting) -> Option<f64> {
    let Family::Collective { exchange, bytes: size, devices, hosts } = kernel.family else { return None };
    let bytes = size as f64;
    let board = find_interconnect(&device.links.interconnect).ok();
    let own = board.map_or(PCIE, |link| link.gb_s * f64::from(device.links.count.max(1)) * 1e6);
    let inside = match setting.link {
        Link::Board | Link::All => own,
        Link::Pcie => own.min(2.0 * PCIE),
        Link::Pairs if devices > 2 => own.min(2.0 * PCIE),
        Link::Pairs => own,
    };
    let slowest = if hosts > 1 { inside.min(NETWORK * f64::from(devices / hosts.max(1)).max(1.0)) } else { inside };
    let moved = bytes * exchange.passes(devices) / slowest;
    let base = SHORTEST_MS + EACH_MS * f64::from(devices) + moved;
    row.log("moved/base", moved / base);
    row.log("bytes", bytes);
    row.log("bytes-each", bytes / f64::from(devices.max(1)));
    row.log("link", slowest);
    row.log("devices", f64::from(devices));
    row.log("hosts", f64::from(hosts.max(1)));
    row.add("exchange", f64::from(exchange as u8));
    row.add("joined-by", f64::from(setting.link as u8));
    row.alignment("bytes-multiple", size / 512);
    Some(base)
}
