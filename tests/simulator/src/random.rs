//! Random bytes from the seed.

use std::sync::Mutex;

use bursar_engine::ports::Random;
use bursar_tests::dice::Dice;

use crate::faults::PlantedBug;

#[derive(Debug)]
pub(crate) struct WorldRandom {
    dice: Mutex<Dice>,
    plant: Option<PlantedBug>,
    last_draw: Mutex<Option<Vec<u8>>>,
}

impl WorldRandom {
    pub(crate) fn new(seed: u64, plant: Option<PlantedBug>) -> Self {
        Self { dice: Mutex::new(Dice::new(seed)), plant, last_draw: Mutex::default() }
    }
}

impl Random for WorldRandom {
    fn fill(&self, bytes: &mut [u8]) -> std::io::Result<()> {
        let mut dice = self.dice.lock().unwrap();
        dice.fill(bytes);
        if self.plant == Some(PlantedBug::NonceReused) && bytes.len() == 32 {
            let mut last = self.last_draw.lock().unwrap();
            if let Some(last) = last.as_ref()
                && dice.chance(1, 8)
            {
                bytes.copy_from_slice(last);
            }
            *last = Some(bytes.to_vec());
        }
        Ok(())
    }
}
