//! Cards that are named together: the replicas of one run sit on them, one on each.

use std::sync::Arc;

use crate::device::Device;

/// Cards of one run, in the order in which they were named; none where a device is named alone.
#[derive(Clone, Debug, Default)]
pub struct Cards(Vec<Arc<Device>>);

impl Cards {
    /// These cards.
    #[must_use]
    pub fn new(cards: Vec<Arc<Device>>) -> Self {
        Self(cards)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Whether a device was named alone.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One by one.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Device>> {
        self.0.iter()
    }

    /// Each kind once, with how many there are of it.
    #[must_use]
    pub fn kinds(&self) -> Vec<(u32, &Arc<Device>)> {
        let mut kinds: Vec<(u32, &Arc<Device>)> = Vec::new();
        for card in &self.0 {
            match kinds.iter_mut().find(|(_, known)| known.id == card.id) {
                Some((count, _)) => *count += 1,
                None => kinds.push((1, card)),
            }
        }
        kinds
    }

    /// `2*rtx-3090+rtx-3060`, as `--gpu` takes it.
    #[must_use]
    pub fn id(&self) -> String {
        self.joined(|device| &device.id, "*", "+")
    }

    /// `2 GeForce RTX 3090 + GeForce RTX 3060`.
    #[must_use]
    pub fn name(&self) -> String {
        self.joined(|device| &device.name, " ", " + ")
    }

    fn joined(&self, text: fn(&Device) -> &str, times: &str, plus: &str) -> String {
        let kind = |(count, device): (u32, &Arc<Device>)| {
            let text = text(device);
            if count == 1 { text.to_owned() } else { format!("{count}{times}{text}") }
        };
        self.kinds().into_iter().map(kind).collect::<Vec<_>>().join(plus)
    }
}
