//! Random numbers that are the same for the same seed.

/// A small generator (splitmix64): one step, one mix, no state to set up.
pub struct Dice(u64);

impl Dice {
    /// Creates a generator of numbers that depend only on the seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number of the sequence that the seed determines.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 up to but not including `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// Returns an id of the form that sessions have, a UUID of version 4.
    pub fn uuid(&mut self) -> String {
        let (a, b) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xffff,
            a & 0xfff,
            b >> 52,
            b & 0xffff_ffff_ffff
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let roll = |seed| (0..4).map(|_| 0).scan(Dice::new(seed), |dice, _: i32| Some(dice.below(1000)));
        assert_eq!(roll(7).collect::<Vec<_>>(), roll(7).collect::<Vec<_>>());
        assert_ne!(roll(7).collect::<Vec<_>>(), roll(8).collect::<Vec<_>>());
        let id = Dice::new(3).uuid();
        assert_eq!((id.len(), id.matches('-').count(), &id[14..15]), (36, 4, "4"));
    }
}
