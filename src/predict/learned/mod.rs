//! Learned predictors: features of a kernel on a device, and the trees that say how far its time is from physics. The same
//! code makes features in training (`xtask`) and here.

pub mod convolution;
pub mod file;
pub mod forest;
pub mod offset;
pub mod predictors;
pub mod rates;
pub mod row;
pub mod rows;
pub mod section;
pub mod setting;
pub mod tiles;

mod attention;
mod collective;
mod products;
mod recurrent;

use crate::device::{Device, Precision};
use crate::ops::work::{Convolution, Exchange, Family, Function};
use crate::runtime::{Kernel, Layout, Library, Pass};
use rates::{Anchors, Rates};
use row::Row;
use setting::{Setting, Stack};

/// A kernel as a predictor sees it.
#[derive(Clone, Debug)]
pub struct Described {
    /// The predictor's family, one file each.
    pub family: &'static str,
    /// Its physical time, ms.
    pub base_ms: f64,
    /// Its features.
    pub row: Row,
}

impl Described {
    /// Its features as a model wants them that knows devices: on the one of a number.
    #[must_use]
    pub fn as_board(&self, board: usize) -> Vec<f32> {
        self.row.values.iter().copied().chain(std::iter::once(board as f32)).collect()
    }
}

/// The predictor's family of a kernel; `None` for families that no predictor learns.
#[must_use]
pub fn family(family: &Family) -> Option<&'static str> {
    Some(match family {
        Family::Convolution(_) => "convolution",
        Family::Product { .. } => "product",
        Family::Attention { .. } => "attention",
        Family::Recurrent { .. } => "recurrent",
        Family::Elementwise { .. } => "elementwise",
        Family::Softmax { .. } => "softmax",
        Family::LayerNorm { .. } => "layer-norm",
        Family::BatchNorm { .. } => "batch-norm",
        Family::Pool { .. } => "pool",
        Family::Embedding { .. } => "embedding",
        Family::Collective { .. } => "collective",
        _ => return None,
    })
}

/// The name of the predictor that learns a kernel of a stack: its family and its stack's group, three-dimensional
/// convolutions apart; `None` for families that no predictor learns.
#[must_use]
pub fn section_name(kernel: &Kernel, stack: Stack) -> Option<String> {
    let name = family(&kernel.family)?;
    let volumes = matches!(kernel.family, Family::Convolution(convolution) if convolution.axes > 2);
    Some(format!("{name}/{}{}", stack.group(), if volumes { "-3d" } else { "" }))
}

/// Describes a kernel on a device; `None` for families that no predictor learns.
#[must_use]
pub fn describe(
    kernel: &Kernel,
    device: &Device,
    setting: Setting,
    anchors: Anchors,
    mut row: Row,
) -> Option<Described> {
    let family = family(&kernel.family)?;
    let rates = Rates::of(device, kernel.precision, anchors);
    let base_ms = match kernel.family {
        Family::Convolution(convolution) => convolution::describe(&mut row, kernel, &convolution, &rates),
        Family::Product { batch, m, n, k } => products::describe(&mut row, kernel, [batch, m, n, k], &rates, setting),
        Family::Attention { .. } => attention::describe(&mut row, kernel, &rates, setting)?,
        Family::Recurrent { .. } => recurrent::describe(&mut row, kernel, &rates)?,
        Family::Collective { .. } => collective::describe(&mut row, kernel, device, setting)?,
        _ => rows::describe(&mut row, kernel, &rates),
    };
    row.add("pass", f64::from(pass_code(kernel.pass)));
    row.add("element-bytes", element_bytes(kernel.precision));
    row.add("precision", f64::from(kernel.precision as u8));
    row.add("stack", f64::from(setting.stack as u8));
    if !matches!(kernel.family, Family::Convolution(_) | Family::Attention { .. } | Family::Collective { .. }) {
        row.flag("before-volta", matches!(&*device.board.architecture, "kepler" | "maxwell" | "pascal"));
        row.flag("amd", device.is_amd());
    }
    Some(Described { family, base_ms, row })
}

/// Names of the features of a family, in their order.
#[must_use]
pub fn feature_names(wanted: &str) -> Vec<&'static str> {
    let convolution = Convolution {
        batch: 1,
        in_channels: 1,
        out_channels: 1,
        input: [1; 3],
        output: [1; 3],
        kernel: [1; 3],
        stride: [1; 3],
        dilation: [1; 3],
        groups: 1,
        transposed: false,
        axes: 2,
    };
    let attention =
        Family::Attention { batch: 1, heads: 1, kv_heads: 1, queries: 1, keys: 1, head_dim: 1, causal: false };
    let families = [
        Family::Convolution(convolution),
        Family::Product { batch: 1, m: 1, n: 1, k: 1 },
        attention,
        Family::Recurrent { batch: 1, steps: 1, inputs: 1, hidden: 1, gates: 1, directions: 1 },
        Family::Elementwise { elements: 1, function: Function::Arithmetic },
        Family::Softmax { rows: 1, cols: 1 },
        Family::LayerNorm { rows: 1, cols: 1 },
        Family::BatchNorm { rows: 1, channels: 1 },
        Family::Pool { elements: 1, window: 1, average: false },
        Family::Embedding { rows: 1, cols: 1, table: 1 },
        Family::Collective { exchange: Exchange::AllReduce, bytes: 1, devices: 2, hosts: 1 },
    ];
    let found = families.into_iter().find(|of| family(of) == Some(wanted));
    let described = found.and_then(|family| {
        let kernel = Kernel {
            family,
            pass: Pass::Forward,
            precision: Precision::Fp32,
            layout: Layout::ChannelsFirst,
            library: Library::Vendor,
            flops: 1.0,
            bytes_read: 1.0,
            bytes_written: 1.0,
            runs: 1.0,
        };
        let device = crate::device::catalogue().devices().first()?;
        describe(&kernel, device, Setting::of(Stack::Pytorch2), Anchors::Ignore, Row::with_names())
    });
    described.map(|described| described.row.names().to_vec()).unwrap_or_default()
}

/// Bytes of an element that is computed in a precision.
#[must_use]
pub fn element_bytes(precision: Precision) -> f64 {
    match precision {
        Precision::Fp64 => 8.0,
        Precision::Fp32 | Precision::Tf32 => 4.0,
        Precision::Fp16 | Precision::Bf16 => 2.0,
        Precision::Fp8 | Precision::Int8 => 1.0,
    }
}

fn pass_code(pass: Pass) -> u8 {
    match pass {
        Pass::Forward => 0,
        Pass::Backward => 1,
        Pass::BackwardData => 2,
        Pass::BackwardWeight => 3,
        Pass::Update => 4,
    }
}
