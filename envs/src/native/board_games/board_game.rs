//! Board games in which two players place marks in turn, and the first with a straight line of marks wins.

use crate::{DType, Error, Frame, MultiAgentEnv, MultiAgentOut, Result, Space, contract::state};

/// Rules of one board game.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) name: &'static str,
    pub(super) agents: [&'static str; 2],
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Number of marks in a straight line that win.
    pub(super) line: usize,
    pub(super) actions: usize,
    /// Returns the square in which an action puts its mark; `None` if the action is illegal.
    pub(super) square: fn(&[u8], usize) -> Option<usize>,
    pub(super) draw: fn(&[u8]) -> Option<Frame>,
}

/// A board game of two players, equal to PettingZoo 1.27: [`tictactoe`](Self::tictactoe) or
/// [`connect_four`](Self::connect_four).
///
/// | | |
/// |---|---|
/// | observation | `Dict(action_mask, observation)` of bytes: for each action whether it is legal (zeros while the other player is to move), then for each square, row by row, whether it holds the agent's own mark and whether it holds the opponent's |
/// | reward | 1 to the winner and -1 to the loser; 0 for a draw |
/// | illegal action | ends the game: -1 to its player, 0 to the other, and both flags for both, as in PettingZoo |
/// | terminated | both players, when a line is complete or the board is full |
/// | truncated | at an illegal action |
///
/// The games have no randomness.
#[derive(Clone, Debug)]
pub struct BoardGame {
    rules: &'static Rules,
    /// Marks by square: 0 if empty, otherwise 1 + the player.
    board: Vec<u8>,
    turn: usize,
    over: bool,
}

impl BoardGame {
    pub(super) fn new(rules: &'static Rules) -> Self {
        Self { rules, board: vec![0; rules.rows * rules.columns], turn: 0, over: true }
    }

    fn legal(&self, action: usize) -> bool {
        (self.rules.square)(&self.board, action).is_some()
    }

    /// Whether `mark` has a winning line through `square`.
    fn line_through(&self, square: usize, mark: u8) -> bool {
        let Rules { rows, columns, line, .. } = *self.rules;
        let row = (square / columns) as isize;
        let column = (square % columns) as isize;
        let run = |down: isize, right: isize| {
            (1..line as isize)
                .take_while(|steps| {
                    let row = row + steps * down;
                    let column = column + steps * right;
                    let on_board =
                        (0..rows as isize).contains(&row) && (0..columns as isize).contains(&column);
                    on_board && self.board[row as usize * columns + column as usize] == mark
                })
                .count()
        };
        [(0, 1), (1, 0), (1, 1), (1, -1)]
            .into_iter()
            .any(|(down, right)| 1 + run(down, right) + run(-down, -right) >= line)
    }

    /// Writes the output rows; `illegal` says that the last action was illegal and ended the game.
    fn write(&self, illegal: bool, out: MultiAgentOut<'_, u8>) {
        for (player, row) in out.obs.chunks_exact_mut(self.obs_width()).enumerate() {
            let (mask, squares) = row.split_at_mut(self.rules.actions);
            for (action, legal) in mask.iter_mut().enumerate() {
                *legal = u8::from(player == self.turn && self.legal(action));
            }
            let mine = 1 + player as u8;
            let others = 2 - player as u8;
            for (square, &mark) in squares.chunks_exact_mut(2).zip(&self.board) {
                square.copy_from_slice(&[u8::from(mark == mine), u8::from(mark == others)]);
            }
        }
        out.truncated.fill(illegal);
        out.terminated.fill(self.over);
        out.alive.fill(!self.over);
        for (player, acting) in out.acting.iter_mut().enumerate() {
            *acting = !self.over && player == self.turn;
        }
    }

    fn obs_width(&self) -> usize {
        self.rules.actions + 2 * self.board.len()
    }
}

impl MultiAgentEnv for BoardGame {
    type Obs = u8;
    type Act = i64;

    fn agents(&self) -> Vec<String> {
        self.rules.agents.map(str::to_owned).into()
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
        let Rules { rows, columns, actions, .. } = *self.rules;
        Space::dict([("observation", bits(&[rows, columns, 2])), ("action_mask", bits(&[actions]))])
    }

    fn action_space(&self, _agent: usize) -> Space {
        Space::discrete(self.rules.actions as i64)
    }

    fn reset(&mut self, _seed: Option<u64>, out: MultiAgentOut<'_, u8>) -> Result<()> {
        out.check(2, 2 * self.obs_width())?;
        self.board.fill(0);
        self.turn = 0;
        self.over = false;
        out.rewards.fill(0.0);
        self.write(false, out);
        Ok(())
    }

    fn step(&mut self, actions: &[i64], out: MultiAgentOut<'_, u8>) -> Result<()> {
        out.check(2, 2 * self.obs_width())?;
        let &[first, second] = actions else {
            return Err(Error::shape("`actions`", format_args!("{} long", actions.len()), "2 long"));
        };
        if self.over {
            return Err(Error::unsupported(self.rules.name, "running episode", "call `reset`"));
        }
        let action = [first, second][self.turn];
        if !(0..self.rules.actions as i64).contains(&action) {
            return Err(Error::invalid_action(self.rules.name, &[action], &self.action_space(self.turn)));
        }
        let player = self.turn;
        let other = 1 - self.turn;
        out.rewards.fill(0.0);
        let square = (self.rules.square)(&self.board, action as usize);
        match square {
            Some(square) => {
                let mark = 1 + player as u8;
                self.board[square] = mark;
                self.turn = other;
                let won = self.line_through(square, mark);
                if won {
                    out.rewards[player] = 1.0;
                    out.rewards[other] = -1.0;
                }
                self.over = won || !self.board.contains(&0);
            }
            None => {
                out.rewards[player] = -1.0;
                self.over = true;
                // PettingZoo selects the first agent after an illegal action and writes the mask for that one.
                self.turn = 0;
            }
        }
        self.write(square.is_none(), out);
        Ok(())
    }

    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> bool {
        if mask.len() != self.rules.actions {
            return false;
        }
        for (action, legal) in mask.iter_mut().enumerate() {
            *legal = !self.over && agent == self.turn && self.legal(action);
        }
        true
    }

    fn render_fps(&self) -> Option<f64> {
        Some(1.0)
    }

    fn render(&mut self) -> Result<Option<Frame>> {
        Ok((self.rules.draw)(&self.board))
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        Some(state::save(self.rules.name, &(&self.board, self.turn, self.over)))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let (board, turn, over): (Vec<u8>, _, _) = state::load(self.rules.name, state)?;
        if board.len() != self.board.len() || board.iter().any(|&mark| mark > 2) || turn > 1 {
            return Err(Error::state("it is no board of this game; it is damaged or of another version"));
        }
        *self = Self { rules: self.rules, board, turn, over };
        Ok(())
    }
}
