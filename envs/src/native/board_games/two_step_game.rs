//! The two-step game: the first agent's first action decides which payoff matrix rewards both agents in the second step.

use crate::{Error, MultiAgentEnv, MultiAgentOut, Result, Space, contract::state};

const ID: &str = "two_step_game";

/// Payoff matrix of state 2B (Rashid et al. 2018, table 2): a row per action of the first agent, a column per action of the
/// second. State 2A pays 7 for every action.
const PAYOFFS: [[f64; 2]; 2] = [[0.0, 1.0], [1.0, 8.0]];

/// The two-step game of the QMIX paper (Rashid et al. 2018): two agents share the payoff of a matrix.
///
/// The best return is 8. VDN gets 7 only: a sum of one value per agent cannot represent that the 8 is worth the risk of 2B.
///
/// | | |
/// |---|---|
/// | observation | the state, for both agents: 0 first step, 1 second step in 2A, 2 second step in 2B |
/// | action | 0 or 1; in the first step 0 of the first agent leads to 2A and 1 to 2B, and the second agent's action does nothing |
/// | reward | half of the payoff, to each agent; 0 in the first step |
/// | terminated | both agents, after the second step |
/// | truncated | never |
///
/// The game is deterministic.
#[derive(Clone, Debug, Default)]
pub struct TwoStepGame {
    /// State of the running episode; `None` outside of an episode.
    state: Option<u8>,
}

impl TwoStepGame {
    /// Makes a game that needs a reset before its first step.
    pub fn new() -> Self {
        Self::default()
    }

    fn write(&self, obs: i64, pay: f64, out: MultiAgentOut<'_, i64>) {
        let goes_on = self.state.is_some();
        out.obs.fill(obs);
        out.rewards.fill(pay / 2.0);
        out.terminated.fill(!goes_on);
        out.truncated.fill(false);
        out.alive.fill(goes_on);
        out.acting.fill(goes_on);
    }
}

impl MultiAgentEnv for TwoStepGame {
    type Obs = i64;
    type Act = i64;

    fn agents(&self) -> Vec<String> {
        vec!["agent_0".into(), "agent_1".into()]
    }

    fn observation_space(&self, _agent: usize) -> Space {
        Space::discrete(3)
    }

    fn action_space(&self, _agent: usize) -> Space {
        Space::discrete(2)
    }

    fn reset(&mut self, _seed: Option<u64>, out: MultiAgentOut<'_, i64>) -> Result<()> {
        out.check(2, 2)?;
        self.state = Some(0);
        self.write(0, 0.0, out);
        Ok(())
    }

    fn step(&mut self, actions: &[i64], out: MultiAgentOut<'_, i64>) -> Result<()> {
        out.check(2, 2)?;
        let &[first, second] = actions else {
            return Err(Error::shape("`actions`", format_args!("{} long", actions.len()), "2 long"));
        };
        if let Some(action) = [first, second].into_iter().find(|action| !(0..2).contains(action)) {
            return Err(Error::invalid_action(ID, &[action], &Space::discrete(2)));
        }
        let (obs, pay) = match self.state {
            None => return Err(Error::unsupported(ID, "running episode", "call `reset`")),
            Some(0) => {
                self.state = Some(1 + first as u8);
                (1 + first, 0.0)
            }
            Some(second_state) => {
                self.state = None;
                let of_2b = PAYOFFS[first as usize][second as usize];
                (i64::from(second_state), if second_state == 1 { 7.0 } else { of_2b })
            }
        };
        self.write(obs, pay, out);
        Ok(())
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        Some(state::save(ID, &self.state))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let found = state::load::<Option<u8>>(ID, state)?;
        if found.is_some_and(|found| found > 2) {
            return Err(Error::state("it is no state of this game; it is damaged or of another version"));
        }
        self.state = found;
        Ok(())
    }
}
