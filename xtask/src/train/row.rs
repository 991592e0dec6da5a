//! One measured layer of a table, with the types that its columns mean (`data/README.md` beside the tables).

use std::rc::Rc;

/// A measured layer, kernel or collective. Columns that are absent or null are `None`, sizes that are not given 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayerRow {
    pub(crate) source: Rc<str>,
    pub(crate) device: Rc<str>,
    pub(crate) framework: Rc<str>,
    pub(crate) family: Rc<str>,
    pub(crate) op: Rc<str>,
    pub(crate) pass: Rc<str>,
    pub(crate) precision: Rc<str>,
    pub(crate) optimizer: Rc<str>,
    pub(crate) activation: Rc<str>,
    pub(crate) padding: Rc<str>,
    pub(crate) strategy: Rc<str>,
    pub(crate) interconnect: Rc<str>,
    pub(crate) kernel: Rc<str>,
    pub(crate) notes: Rc<str>,
    pub(crate) row_group: Rc<str>,
    pub(crate) use_bias: bool,
    pub(crate) bidirectional: bool,
    pub(crate) trans_a: bool,
    pub(crate) trans_b: bool,
    pub(crate) sizes: Sizes,
    pub(crate) time_ms: f64,
    pub(crate) time_std_ms: Option<f64>,
}

impl std::fmt::Display for LayerRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ms: {} {}", self.time_ms, self.source, self.device)?;
        for text in
            [&self.family, &self.op, &self.pass, &self.precision, &self.optimizer, &self.activation, &self.padding]
        {
            if !text.is_empty() {
                write!(f, " {text}")?;
            }
        }
        write!(f, "{}", self.sizes)?;
        for text in [&self.kernel, &self.notes] {
            if !text.is_empty() {
                write!(f, "; {text}")?;
            }
        }
        Ok(())
    }
}

macro_rules! sizes {
    ($($name:ident),* $(,)?) => {
        /// Whole numbers of a row, by the names of their columns; 0 where one is not given.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub(crate) struct Sizes {
            $(pub(crate) $name: u64,)*
        }

        impl std::fmt::Display for Sizes {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $(if self.$name > 0 {
                    write!(f, concat!(" ", stringify!($name), "={}"), self.$name)?;
                })*
                Ok(())
            }
        }

        impl Sizes {
            /// Sets a column; `false` where there is no such column.
            pub(crate) fn set(&mut self, column: &str, value: u64) -> bool {
                match column {
                    $(stringify!($name) => self.$name = value,)*
                    _ => return false,
                }
                true
            }
        }
    };
}

sizes!(
    replicas,
    batch,
    in_channels,
    out_channels,
    in_d,
    in_h,
    in_w,
    kernel_d,
    kernel_h,
    kernel_w,
    stride_h,
    stride_w,
    pad_h,
    pad_w,
    dilation,
    groups,
    in_features,
    out_features,
    bmm_batch,
    m,
    n,
    k,
    rows,
    cols,
    numel,
    bytes,
    heads,
    kv_heads,
    head_dim,
    window,
    hidden,
    timesteps,
);
