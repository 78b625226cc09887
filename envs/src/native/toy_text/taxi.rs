//! Taxi: pick up a passenger and drive to the destination.

use serde::{Deserialize, Serialize};

use super::{
    ansi::{self, colorize},
    table::{Outcome, SavedWalk, Table, Walk},
};
use crate::native::dynamics::{Dynamics, NativeEnv};
use crate::render::board::{self, Board, Field};
use crate::{Error, Frame, NpRandom, Result, Space, Step};

const ROWS: usize = 5;
const COLUMNS: usize = 5;
const STATES: usize = ROWS * COLUMNS * 5 * 4;
/// Fields of the stands between which passengers travel: red, green, yellow, blue.
const STANDS: [Field; 4] = [(0, 0), (0, 4), (4, 0), (4, 3)];
const IN_TAXI: usize = 4;
/// Gymnasium's map: a taxi can cross `:` but not `|`.
const MAP: [&[u8; 11]; ROWS] =
    [b"|R: | : :G|", b"| : | : : |", b"| : : : : |", b"| | : | : |", b"|Y| : |B: |"];

/// Settings of Taxi.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaxiConfig {
    /// Whether it rains: then a drive may go to either side instead of straight on.
    pub is_rainy: bool,
    /// Whether the passenger may change the destination, once, at the first move after the first pickup.
    pub fickle_passenger: bool,
    /// Probability of going where the action says in rain; the two sides share the rest.
    pub rainy_probability: f64,
    /// Probability that a fickle passenger changes the destination.
    pub fickle_probability: f64,
}

impl Default for TaxiConfig {
    fn default() -> Self {
        Self { is_rainy: false, fickle_passenger: false, rainy_probability: 0.8, fickle_probability: 0.3 }
    }
}

/// A Taxi environment (Dietterich 2000) without a time limit: 5 rows of 5 fields with walls and four stands.
///
/// | | |
/// |---|---|
/// | observation | ((5 row + column) 5 + passenger) 4 + destination; passenger 0 to 3 at a stand, 4 in the taxi |
/// | actions | 0 south, 1 north, 2 east, 3 west, 4 picks up, 5 drops off |
/// | reward | -1 per step, 20 for dropping the passenger at the destination, -10 for an illegal pickup or drop-off |
/// | start | the taxi on any field; the passenger at one stand, the destination at another |
/// | terminated | when the passenger is at the destination |
///
/// The action mask allows the actions that change the state; `info("prob")` is the probability of the last step's outcome.
pub type Taxi = NativeEnv<TaxiDynamics>;

/// Rules and state of [`Taxi`]: a walk in the table of its states, and whether the passenger may change their mind.
#[derive(Clone, Debug)]
pub struct TaxiDynamics {
    config: TaxiConfig,
    walk: Walk,
    /// Whether the passenger will change the destination in this episode.
    fickle: bool,
}

/// The parts of a state, which the table stores as one number.
#[derive(Clone, Copy, Debug, PartialEq)]
struct State {
    taxi: Field,
    passenger: usize,
    destination: usize,
}

impl State {
    fn decode(state: usize) -> Self {
        let field = state / 20;
        Self { taxi: (field / COLUMNS, field % COLUMNS), passenger: state / 4 % 5, destination: state % 4 }
    }

    fn encode(self) -> usize {
        ((self.taxi.0 * COLUMNS + self.taxi.1) * 5 + self.passenger) * 4 + self.destination
    }

    /// Field that a drive leads to; the taxi's own field when a wall or the edge is in the way.
    fn drive(self, action: usize) -> Field {
        let (row, column) = self.taxi;
        match action {
            0 => ((row + 1).min(ROWS - 1), column),
            1 => (row.saturating_sub(1), column),
            2 if MAP[row][2 * column + 2] == b':' => (row, column + 1),
            3 if MAP[row][2 * column] == b':' => (row, column - 1),
            _ => self.taxi,
        }
    }

    /// Field that rain can push the taxi to. As in Gymnasium, the wall that counts is the one on the far side of the new
    /// field.
    fn drift(self, action: usize) -> Field {
        let (row, column) = self.taxi;
        match action {
            2 => match (column + 1).min(COLUMNS - 1) {
                to if MAP[row][2 * to] == b':' => (row, to),
                _ => self.taxi,
            },
            3 => match column.saturating_sub(1) {
                to if MAP[row][2 * to + 2] == b':' => (row, to),
                _ => self.taxi,
            },
            _ => self.drive(action),
        }
    }

    fn stand(self) -> Option<usize> {
        STANDS.iter().position(|&stand| stand == self.taxi)
    }

    /// Outcome of picking up (action 4) or dropping off (5).
    fn serve(self, action: usize) -> Outcome {
        let to = |passenger, reward, terminated| Outcome {
            probability: 1.0,
            state: Self { passenger, ..self }.encode(),
            reward,
            terminated,
        };
        match (action, self.passenger, self.stand()) {
            (4, waiting, Some(stand)) if waiting == stand => to(IN_TAXI, -1.0, false),
            (5, IN_TAXI, Some(stand)) if stand == self.destination => to(stand, 20.0, true),
            (5, IN_TAXI, Some(stand)) => to(stand, -1.0, false),
            _ => to(self.passenger, -10.0, false),
        }
    }

    fn mask(self) -> [bool; 6] {
        std::array::from_fn(|action| match action {
            0..4 => self.drive(action) != self.taxi,
            4 => self.passenger < IN_TAXI && self.stand() == Some(self.passenger),
            _ => self.passenger == IN_TAXI && self.stand().is_some(),
        })
    }
}

impl Taxi {
    /// Creates an environment; call `reset` before the first step.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if a probability is outside 0..=1.
    pub fn new(config: TaxiConfig) -> Result<Self> {
        for (name, value) in [
            ("rainy_probability", config.rainy_probability),
            ("fickle_probability", config.fickle_probability),
        ] {
            if !(0.0..=1.0).contains(&value) {
                let message = format!("`{name}` is {value}, but it must be in 0..=1 (a probability)");
                return Err(Error::Config { env: "Taxi".into(), message });
            }
        }
        let starts: [bool; STATES] = std::array::from_fn(|state| {
            let State { passenger, destination, .. } = State::decode(state);
            passenger != IN_TAXI && passenger != destination
        });
        let table = Table::new(6, &starts, |state, action| {
            let state = State::decode(state);
            let to = |taxi, probability| Outcome {
                probability,
                state: State { taxi, ..state }.encode(),
                reward: -1.0,
                terminated: false,
            };
            let ahead = state.drive(action);
            if action >= 4 {
                return vec![state.serve(action)];
            }
            if !config.is_rainy {
                return vec![to(ahead, 1.0)];
            }
            let aside = (1.0 - config.rainy_probability) / 2.0;
            let (left, right) = match action {
                0 => (2, 3),
                1 => (3, 2),
                2 => (1, 0),
                _ => (0, 1),
            };
            // As in Gymnasium, a taxi that cannot go ahead is not pushed either.
            let pushed = |side| if ahead == state.taxi { state.taxi } else { state.drift(side) };
            vec![to(ahead, config.rainy_probability), to(pushed(left), aside), to(pushed(right), aside)]
        });
        Ok(Self::of(TaxiDynamics { config, walk: Walk::new(table), fickle: false }))
    }
}

impl Dynamics for TaxiDynamics {
    type Obs = i64;
    type Act = i64;
    type Saved = (SavedWalk, bool);

    fn name(&self) -> &str {
        "Taxi"
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
        self.fickle = self.config.fickle_passenger && random.random() < self.config.fickle_probability;
        Ok(())
    }

    fn advance(&mut self, action: &[i64], random: &mut NpRandom, obs: &mut [i64]) -> Step {
        let before = self.walk.state.map(State::decode);
        let step = self.walk.advance(action, random, obs);
        let after = State::decode(obs[0] as usize);
        if let Some(before) = before
            && self.fickle
            && before.passenger == IN_TAXI
            && before.taxi != after.taxi
        {
            self.fickle = false;
            let other = random.integers(0, 3) as usize;
            let destination = if other < before.destination { other } else { other + 1 };
            let state = State { destination, ..after }.encode();
            self.walk.state = Some(state);
            obs[0] = state as i64;
        }
        step
    }

    fn action_mask(&self, mask: &mut [bool]) -> bool {
        let Ok(mask) = <&mut [bool; 6]>::try_from(mask) else {
            return false;
        };
        // Before the first episode too, so that who asks learns that there are masks.
        *mask = self.walk.state.map_or([true; 6], |state| State::decode(state).mask());
        true
    }

    fn info(&self, key: &str) -> Option<f64> {
        self.walk.info(key)
    }

    /// Draws 536 x 456 pixels, Gymnasium's size, in pavlov's own style.
    fn draw(&mut self) -> Option<Frame> {
        const COLORS: [[u8; 3]; 4] = [[230, 120, 120], [120, 200, 120], [230, 220, 110], [120, 150, 230]];
        let mut board = Board::on_canvas((536, 456), (48, 128), (88, 56))?;
        for field in (0..ROWS * COLUMNS).map(|i| (i / COLUMNS, i % COLUMNS)) {
            let stand = STANDS.iter().position(|&stand| stand == field);
            board.tile(field, stand.map_or([225, 225, 220], |stand| COLORS[stand]));
        }
        for (row, column) in (0..ROWS * (COLUMNS - 1)).map(|i| (i / (COLUMNS - 1), i % (COLUMNS - 1))) {
            if MAP[row][2 * column + 2] == b'|' {
                board.wall_right_of((row, column));
            }
        }
        if let Some(State { taxi, passenger, destination }) = self.walk.state.map(State::decode) {
            board.flag(STANDS[destination]);
            board.disc(taxi, 0.4, [240, 180, 0]);
            board.disc(STANDS.get(passenger).copied().unwrap_or(taxi), 0.2, board::AGENT);
        }
        Some(board.into_frame())
    }

    fn fps(&self) -> f64 {
        4.0
    }

    fn text(&self) -> Option<String> {
        const EDGE: &str = "+---------+\n";
        let State { taxi, passenger, destination } = State::decode(self.walk.state?);
        let mut map = MAP.map(|row| row.map(|letter| char::from(letter).to_string()));
        let mut color = |(row, column): Field, code| {
            let letter = &mut map[row][2 * column + 1];
            if code == ansi::ON_GREEN && letter == " " {
                *letter = "_".into();
            }
            *letter = colorize(letter, code);
        };
        match STANDS.get(passenger) {
            Some(&stand) => {
                color(taxi, ansi::ON_YELLOW);
                color(stand, ansi::BOLD_BLUE);
            }
            None => color(taxi, ansi::ON_GREEN),
        }
        color(STANDS[destination], ansi::MAGENTA);
        let rows = map.map(|row| row.concat() + "\n").concat();
        let last = ["South", "North", "East", "West", "Pickup", "Dropoff"];
        Some([EDGE, &rows, EDGE, &ansi::last_action(&self.walk, &last)].concat())
    }

    fn save(&self) -> impl Serialize {
        (self.walk.save(), self.fickle)
    }

    fn load(&mut self, (walk, fickle): (SavedWalk, bool), running: bool) -> Result<()> {
        self.walk.load(walk, running)?;
        self.fickle = fickle;
        Ok(())
    }
}
