//! How many slots and entries a key index has, derived from its size.

use mainstem_store::formats::key_index::{ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE};

/// Slots and entries of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) slots: u32,
    /// Entry 0 is not used.
    pub(crate) entries: u32,
}

impl Size {
    pub(crate) fn slot_at(&self, slot: u32) -> u64 {
        HEADER_SIZE as u64 + u64::from(slot) * SLOT_SIZE as u64
    }

    pub(crate) fn entry_at(&self, number: u32) -> u64 {
        self.slot_at(self.slots) + u64::from(number) * ENTRY_SIZE as u64
    }
}

/// Every file has four entries for a slot. `None`: no file that was made so has this size.
pub(crate) fn slots_of(len: u64) -> Option<Size> {
    let bytes_for_slot = (SLOT_SIZE + 4 * ENTRY_SIZE) as u64;
    let body = len.checked_sub(HEADER_SIZE as u64)?;
    let slots = u32::try_from(body / bytes_for_slot).ok()?;
    let whole = slots > 0 && body % bytes_for_slot == 0;
    whole.then(|| Size { slots, entries: slots.saturating_mul(4) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_usual_size_has_five_million_slots() {
        assert_eq!(slots_of(420_000_040), Some(Size { slots: 5_000_000, entries: 20_000_000 }));
        assert_eq!(slots_of(420_000_041), None);
        assert_eq!(slots_of(40), None);
    }
}
