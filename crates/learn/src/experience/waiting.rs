//! Steps whose n-step rows wait for the rewards of the next fragments.

use crate::base::{Result, State};

/// The last steps of each copy's running episode, whose rows look ahead beyond the end of the fragment.
///
/// Whoever samples keeps it from one fragment to the next and lends it as
/// [`Fragment::waiting`](crate::experience::Fragment::waiting); [`Fragment::transitions`](crate::experience::Fragment::transitions) takes the rows out once their rewards are known.
#[derive(Clone, Debug, Default)]
pub struct WaitingRows {
    pub(super) copies: Vec<WaitingSteps>,
}

/// Consecutive steps of one copy that wait, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingSteps {
    pub(super) obs: Vec<u8>,
    pub(super) actions: Vec<u8>,
    pub(super) masks: Vec<u8>,
    pub(super) rewards: Vec<f32>,
}

impl WaitingRows {
    /// Whether no row waits.
    pub fn is_empty(&self) -> bool {
        self.copies.iter().all(|steps| steps.rewards.is_empty())
    }

    /// Adds the rows to the state of a checkpoint.
    pub fn save(&self, state: &mut State) -> Result<()> {
        let joined = |part: fn(&WaitingSteps) -> &[u8]| {
            self.copies.iter().flat_map(part).copied().collect::<Vec<u8>>()
        };
        let rewards: Vec<f32> = self.copies.iter().flat_map(|steps| &steps.rewards).copied().collect();
        state.set("waiting", &self.copies.iter().map(|steps| steps.rewards.len()).collect::<Vec<_>>())?;
        state.set_array("obs", joined(|steps| &steps.obs));
        state.set_array("actions", joined(|steps| &steps.actions));
        state.set_array("masks", joined(|steps| &steps.masks));
        state.set_array("rewards", rewards);
        Ok(())
    }

    /// Reads the rows that [`save`](Self::save) added to a checkpoint.
    pub fn saved(state: &State) -> Result<Self> {
        let counts = state.get::<Vec<usize>>("waiting")?;
        let all: usize = counts.iter().sum();
        let [obs, actions, masks] = [state.array("obs")?, state.array("actions")?, state.array("masks")?]
            .map(|array| array.read::<u8>());
        let rewards = state.array("rewards")?.read::<f32>();
        let mut first = 0;
        let mut copies = Vec::with_capacity(counts.len());
        for count in counts {
            let of = |bytes: &[u8]| {
                let width = bytes.len() / all.max(1);
                bytes[first * width..][..count * width].to_vec()
            };
            let rewards = rewards[first..][..count].to_vec();
            copies.push(WaitingSteps { obs: of(obs), actions: of(actions), masks: of(masks), rewards });
            first += count;
        }
        Ok(Self { copies })
    }
}
