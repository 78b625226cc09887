//! Go: two players surround points of a board with stones.

use serde::{Deserialize, Serialize};

mod picture;
mod position;

use crate::{DType, Error, Frame, MultiAgentEnv, MultiAgentOut, Result, Space, contract::state};
use position::Position;

const NAME: &str = "go_v5";
/// Number of history planes of an observation, two for each of the last eight moves.
const HISTORY: usize = 16;
const PLANES: usize = HISTORY + 1;
const LARGEST_BOARD: usize = 25;

/// Settings of Go, by PettingZoo's names.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GoConfig {
    /// Rows and columns of the board, in 1..=25.
    pub board_size: usize,
    /// Points added to white's score.
    pub komi: f64,
    /// Width and height of pictures, in pixels.
    pub screen_height: usize,
}

impl Default for GoConfig {
    fn default() -> Self {
        Self { board_size: 19, komi: 7.5, screen_height: 800 }
    }
}

/// The game Go, equal to PettingZoo 1.27's `go_v5`, for the agents `black_0` and `white_0`.
///
/// | | |
/// |---|---|
/// | observation | `Dict(action_mask, observation)` of bytes: for each action whether it is legal (zeros while the other player is to move), then for each point, row by row, 17 planes: for each of the last eight moves, newest first, whether the player of that move has a stone there after the move and whether the opponent has; then 1 for white |
/// | action | a point, row by row, or `board_size * board_size` to pass |
/// | reward | 1 to the winner and -1 to the loser; a tie counts as a win for white, as in PettingZoo |
/// | illegal action | ends the game: -1 to its player, 0 to the other, and both flags for both, as in PettingZoo |
/// | terminated | both players, after two passes in a row |
/// | truncated | at an illegal action only; players who never pass play for ever |
///
/// A single stone that was just captured may not be recaptured at once (ko); longer repetitions are legal, as in
/// PettingZoo. Stones and surrounded points count (area scoring). The game has no randomness.
#[derive(Clone, Debug)]
pub struct Go {
    config: GoConfig,
    position: Position,
    /// History planes of the last eight moves, 16 bytes per point.
    history: Vec<u8>,
    /// Player whose action mask is shown.
    turn: usize,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Phase {
    Running,
    BothPassed,
    /// The game was ended by an illegal action, or has not begun.
    Stopped,
}

impl Go {
    /// Creates a game; call `reset` before the first step.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `board_size` is not in 1..=25 or `komi` is not finite.
    pub fn new(config: GoConfig) -> Result<Self> {
        let GoConfig { board_size, komi, .. } = config;
        let problem = if !(1..=LARGEST_BOARD).contains(&board_size) {
            format!("`board_size` is {board_size}, but it must be in 1..={LARGEST_BOARD}")
        } else if !komi.is_finite() {
            format!("`komi` is {komi}, but it must be finite")
        } else {
            return Ok(Self {
                config,
                position: Position::new(board_size),
                history: vec![0; board_size * board_size * HISTORY],
                turn: 0,
                phase: Phase::Stopped,
            });
        };
        Err(Error::Config { env: NAME.into(), message: problem })
    }

    fn points(&self) -> usize {
        self.position.board.len()
    }

    fn obs_width(&self) -> usize {
        self.points() + 1 + PLANES * self.points()
    }

    /// Whether an action is legal for the player whose mask is shown; after both passed, only a pass is legal.
    fn is_legal(&self, action: usize) -> bool {
        match self.phase {
            Phase::BothPassed => action == self.points(),
            _ => self.position.legal[action],
        }
    }

    fn play(&mut self, action: usize, rewards: &mut [f64]) {
        let player = self.turn;
        self.position.play(action);
        for (planes, &stone) in self.history.chunks_exact_mut(HISTORY).zip(&self.position.board) {
            planes.copy_within(..HISTORY - 2, 2);
            planes[0] = u8::from(stone == 1 + player as u8);
            planes[1] = u8::from(stone == 2 - player as u8);
        }
        self.turn = 1 - player;
        if self.position.passes >= 2 {
            self.phase = Phase::BothPassed;
            let black_wins = self.position.lead_of_black() as f64 - self.config.komi > 0.0;
            rewards.copy_from_slice(if black_wins { &[1.0, -1.0] } else { &[-1.0, 1.0] });
        }
    }

    fn write(&self, out: MultiAgentOut<'_, u8>) {
        for (player, row) in out.obs.chunks_exact_mut(self.obs_width()).enumerate() {
            let (mask, planes) = row.split_at_mut(self.points() + 1);
            for (action, legal) in mask.iter_mut().enumerate() {
                *legal = u8::from(player == self.turn && self.is_legal(action));
            }
            for (planes, history) in planes.chunks_exact_mut(PLANES).zip(self.history.chunks_exact(HISTORY)) {
                planes[..HISTORY].copy_from_slice(history);
                planes[HISTORY] = player as u8;
            }
        }
        let running = self.phase == Phase::Running;
        out.truncated.fill(self.phase == Phase::Stopped);
        out.terminated.fill(!running);
        out.alive.fill(running);
        for (player, acting) in out.acting.iter_mut().enumerate() {
            *acting = running && player == self.turn;
        }
    }
}

impl MultiAgentEnv for Go {
    type Obs = u8;
    type Act = i64;

    fn agents(&self) -> Vec<String> {
        vec!["black_0".into(), "white_0".into()]
    }

    fn observation_space(&self, _agent: usize) -> Space {
        let bits = |shape: &[usize]| {
            let size = shape.iter().product();
            Space::Box {
                low: vec![0.0; size],
                high: vec![1.0; size],
                shape: shape.to_vec(),
                dtype: DType::U8,
            }
        };
        let n = self.config.board_size;
        Space::dict([("observation", bits(&[n, n, PLANES])), ("action_mask", bits(&[n * n + 1]))])
    }

    fn action_space(&self, _agent: usize) -> Space {
        Space::discrete(self.points() as i64 + 1)
    }

    fn reset(&mut self, _seed: Option<u64>, out: MultiAgentOut<'_, u8>) -> Result<()> {
        out.check(2, 2 * self.obs_width())?;
        self.position.clear();
        self.history.fill(0);
        self.turn = 0;
        self.phase = Phase::Running;
        out.rewards.fill(0.0);
        self.write(out);
        Ok(())
    }

    fn step(&mut self, actions: &[i64], out: MultiAgentOut<'_, u8>) -> Result<()> {
        out.check(2, 2 * self.obs_width())?;
        let &[black, white] = actions else {
            return Err(Error::shape("`actions`", format_args!("{} long", actions.len()), "2 long"));
        };
        if self.phase != Phase::Running {
            return Err(Error::unsupported(NAME, "running episode", "call `reset`"));
        }
        let action = [black, white][self.turn];
        if !(0..=self.points() as i64).contains(&action) {
            return Err(Error::invalid_action(NAME, &[action], &self.action_space(self.turn)));
        }
        out.rewards.fill(0.0);
        if self.is_legal(action as usize) {
            self.play(action as usize, out.rewards);
        } else {
            out.rewards[self.turn] = -1.0;
            self.phase = Phase::Stopped;
            // PettingZoo selects the first agent after an illegal action and writes the mask for that one.
            self.turn = 0;
        }
        self.write(out);
        Ok(())
    }

    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> bool {
        if mask.len() != self.points() + 1 {
            return false;
        }
        for (action, legal) in mask.iter_mut().enumerate() {
            *legal = self.phase == Phase::Running && agent == self.turn && self.is_legal(action);
        }
        true
    }

    fn render_fps(&self) -> Option<f64> {
        Some(2.0)
    }

    fn render(&mut self) -> Result<Option<Frame>> {
        Ok(picture::draw(&self.position.board, self.config.board_size, self.config.screen_height))
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        let Position { board, to_play, ko, passes, .. } = &self.position;
        Some(state::save(NAME, &(board, &self.history, to_play, ko, passes, self.turn, self.phase)))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let (board, history, to_play, ko, passes, turn, phase): (
            Vec<u8>,
            Vec<u8>,
            _,
            Option<usize>,
            _,
            _,
            _,
        ) = state::load(NAME, state)?;
        if board.len() != self.points() || history.len() != self.history.len() {
            return Err(Error::state(format!(
                "it holds a board of {} points, but this one has {}; load it with the same `board_size`",
                board.len(),
                self.points()
            )));
        }
        let is_bad = board.iter().any(|&stone| stone > 2) || history.iter().any(|&bit| bit > 1);
        if is_bad || to_play > 1 || turn > 1 || ko.is_some_and(|point| point >= board.len()) {
            return Err(Error::state("it is no board of this game; it is damaged or of another version"));
        }
        let position = &mut self.position;
        position.board = board;
        position.to_play = to_play;
        position.ko = ko;
        position.passes = passes;
        position.update();
        self.history = history;
        self.turn = turn;
        self.phase = phase;
        Ok(())
    }
}
