//! A row of features: numbers under names, in the order in which they are added.

/// Features of one kernel on one device. All are relative: a device that no predictor has seen is not told by them.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// What is known of the kernel.
    pub values: Vec<f32>,
    names: Option<Vec<&'static str>>,
}

impl Row {
    /// An empty row of numbers only.
    #[must_use]
    pub fn new() -> Self {
        Self { values: Vec::with_capacity(64), names: None }
    }

    /// An empty row that keeps the names too.
    #[must_use]
    pub fn with_names() -> Self {
        Self { values: Vec::new(), names: Some(Vec::new()) }
    }

    /// Names in the order of the values; empty where they were not kept.
    #[must_use]
    pub fn names(&self) -> &[&'static str] {
        self.names.as_deref().unwrap_or_default()
    }

    /// Adds a number.
    pub fn add(&mut self, name: &'static str, value: f64) {
        self.values.push(value as f32);
        if let Some(names) = &mut self.names {
            names.push(name);
        }
    }

    /// Adds the binary logarithm of a size or ratio; 2⁻³⁰ stands for everything below.
    pub fn log(&mut self, name: &'static str, value: f64) {
        self.add(name, libm::log2(value.max(1e-9)));
    }

    /// Adds a condition.
    pub fn flag(&mut self, name: &'static str, condition: bool) {
        self.add(name, f64::from(u8::from(condition)));
    }

    /// Adds how far a size is a multiple of powers of two: 0 for odd ones, 8 for multiples of 256.
    pub fn alignment(&mut self, name: &'static str, size: u64) {
        self.add(name, f64::from(size.max(1).trailing_zeros().min(8)));
    }
}
