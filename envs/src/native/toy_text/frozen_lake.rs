//! FrozenLake: cross a slippery lake without falling into a hole.

use serde::{Deserialize, Serialize};

use super::{
    ansi::{self, colorize},
    table::{Outcome, SavedWalk, Table, Walk},
};
use crate::native::dynamics::{Dynamics, NativeEnv};
use crate::render::board::{self, Board};
use crate::{Error, Frame, NpRandom, Result, Space, Step};

const MAP_4X4: [&str; 4] = ["SFFF", "FHFH", "FFFH", "HFFG"];
const MAP_8X8: [&str; 8] =
    ["SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"];

/// Settings of FrozenLake.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FrozenLakeConfig {
    /// A custom map: rows of `S` (start), `F` (frozen), `H` (hole) and `G` (goal); overrides `map_name`.
    pub desc: Option<Vec<String>>,
    /// Name of a built-in map: `4x4` or `8x8`.
    pub map_name: String,
    /// Whether steps can slip to either side.
    pub is_slippery: bool,
    /// Probability of the intended direction on slippery ice; the two sides share the rest.
    pub success_rate: f64,
    /// Rewards for reaching the goal, a hole, and frozen ice.
    pub reward_schedule: [f64; 3],
}

impl Default for FrozenLakeConfig {
    fn default() -> Self {
        Self {
            desc: None,
            map_name: "4x4".into(),
            is_slippery: true,
            success_rate: 1.0 / 3.0,
            reward_schedule: [1.0, 0.0, 0.0],
        }
    }
}

impl FrozenLakeConfig {
    fn map(&self) -> Result<Vec<Vec<u8>>> {
        let rows: Vec<&str> = match (&self.desc, self.map_name.as_str()) {
            (Some(desc), _) => desc.iter().map(String::as_str).collect(),
            (None, "4x4") => MAP_4X4.to_vec(),
            (None, "8x8") => MAP_8X8.to_vec(),
            (None, name) => {
                return Err(refuse(format!(
                    "`map_name` is {name:?}, but it must be \"4x4\" or \"8x8\"; a map of your own goes into `desc`"
                )));
            }
        };
        let width = rows.first().map_or(0, |row| row.len());
        if width == 0 || rows.iter().any(|row| row.len() != width) {
            return Err(refuse(format!(
                "`desc` is {rows:?}, but it must be rows of one length, at least one letter each"
            )));
        }
        if let Some(letter) = rows.iter().flat_map(|row| row.chars()).find(|letter| !"SFHG".contains(*letter))
        {
            return Err(refuse(format!(
                "`desc` has a {letter:?}, but fields must be S (start), F (frozen), H (hole) or G (goal)"
            )));
        }
        if !rows.iter().any(|row| row.contains('S')) {
            return Err(refuse(format!("`desc` is {rows:?}, but it must have an S, where episodes start")));
        }
        Ok(rows.into_iter().map(|row| row.as_bytes().to_vec()).collect())
    }
}

fn refuse(message: String) -> Error {
    Error::Config { env: "FrozenLake".into(), message }
}

/// A FrozenLake environment without a time limit.
///
/// | | |
/// |---|---|
/// | observation | the number of the field, width * row + column |
/// | actions | 0 left, 1 down, 2 right, 3 up |
/// | reward | by `reward_schedule`: 1 at the goal, otherwise 0 |
/// | start | on an `S` |
/// | terminated | at the goal or in a hole |
///
/// `info("prob")` is the probability of the last transition.
pub type FrozenLake = NativeEnv<FrozenLakeDynamics>;

/// Rules and state of [`FrozenLake`]: its map, and a walk in the table of its fields.
#[derive(Clone, Debug)]
pub struct FrozenLakeDynamics {
    map: Vec<Vec<u8>>,
    walk: Walk,
}

impl FrozenLake {
    /// Creates an environment; call `reset` before the first step.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the map is invalid, or if `success_rate` is outside 0..=1.
    pub fn new(config: FrozenLakeConfig) -> Result<Self> {
        let map = config.map()?;
        let rate = config.success_rate;
        if !(0.0..=1.0).contains(&rate) {
            return Err(refuse(format!("`success_rate` is {rate}, but it must be in 0..=1 (a probability)")));
        }
        let columns = map[0].len();
        let letters = map.concat();
        let starts: Vec<bool> = letters.iter().map(|&letter| letter == b'S').collect();
        let table = Table::new(4, &starts, |state, action| {
            if matches!(letters[state], b'G' | b'H') {
                return vec![Outcome { probability: 1.0, state, reward: 0.0, terminated: true }];
            }
            let to = |action, probability| {
                let state = neighbour(state, action, map.len(), columns);
                let [goal, hole, frozen] = config.reward_schedule;
                let (reward, terminated) = match letters[state] {
                    b'G' => (goal, true),
                    b'H' => (hole, true),
                    _ => (frozen, false),
                };
                Outcome { probability, state, reward, terminated }
            };
            let aside = (1.0 - rate) / 2.0;
            if config.is_slippery {
                vec![to((action + 3) % 4, aside), to(action, rate), to((action + 1) % 4, aside)]
            } else {
                vec![to(action, 1.0)]
            }
        });
        Ok(Self::of(FrozenLakeDynamics { map, walk: Walk::new(table) }))
    }

    /// Creates a random map for [`FrozenLakeConfig::desc`] on which the goal can be reached: Gymnasium's
    /// `generate_random_map(size, p, seed)`, where `p` is the probability of frozen ice.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `size` is below 2, or if `p` is not above 0.
    pub fn random_map(size: usize, p: f64, seed: u64) -> Result<Vec<String>> {
        if size < 2 {
            return Err(refuse(format!("`size` of a random map is {size}, but it must be at least 2")));
        }
        if p.is_nan() || p <= 0.0 {
            return Err(refuse(format!(
                "`p` of a random map is {p}, but it must be above 0 (a probability)"
            )));
        }
        let p = p.min(1.0);
        let mut random = NpRandom::new(seed);
        loop {
            let mut map: Vec<Vec<u8>> =
                (0..size).map(|_| (0..size).map(|_| b"FH"[random.choice(&[p, 1.0 - p])]).collect()).collect();
            map[0][0] = b'S';
            map[size - 1][size - 1] = b'G';
            if goal_is_reachable(&map) {
                return Ok(map.into_iter().map(|row| row.into_iter().map(char::from).collect()).collect());
            }
        }
    }
}

fn goal_is_reachable(map: &[Vec<u8>]) -> bool {
    let rows = map.len();
    let columns = map[0].len();
    let mut seen = vec![false; rows * columns];
    let mut frontier = vec![0];
    while let Some(state) = frontier.pop() {
        match map[state / columns][state % columns] {
            b'G' => return true,
            b'H' => {}
            _ if seen[state] => {}
            _ => frontier.extend((0..4).map(|action| neighbour(state, action, rows, columns))),
        }
        seen[state] = true;
    }
    false
}

fn neighbour(state: usize, action: usize, rows: usize, columns: usize) -> usize {
    let row = state / columns;
    let column = state % columns;
    let (row, column) = match action {
        0 => (row, column.saturating_sub(1)),
        1 => ((row + 1).min(rows - 1), column),
        2 => (row, (column + 1).min(columns - 1)),
        _ => (row.saturating_sub(1), column),
    };
    row * columns + column
}

impl Dynamics for FrozenLakeDynamics {
    type Obs = i64;
    type Act = i64;
    type Saved = SavedWalk;

    fn name(&self) -> &str {
        "FrozenLake"
    }

    fn observation_space(&self) -> Space {
        self.walk.observation_space()
    }

    fn action_space(&self) -> Space {
        self.walk.action_space()
    }

    fn takes(&self, action: &[i64]) -> bool {
        self.walk.takes(action)
    }

    fn start(&mut self, random: &mut NpRandom, obs: &mut [i64]) -> Result<()> {
        self.walk.start(random, obs);
        Ok(())
    }

    fn advance(&mut self, action: &[i64], random: &mut NpRandom, obs: &mut [i64]) -> Step {
        self.walk.advance(action, random, obs)
    }

    fn info(&self, key: &str) -> Option<f64> {
        self.walk.info(key)
    }

    /// Draws at most 64 pixels per field and 512 in total per side, as Gymnasium does, in pavlov's own style.
    fn draw(&mut self) -> Option<Frame> {
        let rows = self.map.len();
        let columns = self.map[0].len();
        let size = ((512 / columns).clamp(1, 64), (512 / rows).clamp(1, 64));
        let mut board = Board::new(rows, columns, size)?;
        for (state, letter) in self.map.concat().into_iter().enumerate() {
            let field = (state / columns, state % columns);
            board.tile(field, if letter == b'H' { [40, 70, 120] } else { [221, 236, 246] });
            match letter {
                b'G' => board.flag(field),
                b'S' => board.disc(field, 0.1, [120, 150, 190]),
                _ => {}
            }
        }
        if let Some(state) = self.walk.state {
            board.disc((state / columns, state % columns), 0.3, board::AGENT);
        }
        Some(board.into_frame())
    }

    fn fps(&self) -> f64 {
        4.0
    }

    fn text(&self) -> Option<String> {
        let state = self.walk.state?;
        let mut text = ansi::last_action(&self.walk, &["Left", "Down", "Right", "Up"]);
        let columns = self.map[0].len();
        for (field, &letter) in self.map.iter().flatten().enumerate() {
            let letter = char::from(letter).to_string();
            text += &if field == state { colorize(&letter, ansi::ON_RED) } else { letter };
            if field % columns == columns - 1 {
                text.push('\n');
            }
        }
        Some(text)
    }

    fn save(&self) -> impl Serialize {
        self.walk.save()
    }

    fn load(&mut self, saved: SavedWalk, running: bool) -> Result<()> {
        self.walk.load(saved, running)
    }
}
