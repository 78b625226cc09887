//! Freeway: cross a road without being hit.

use serde::{Deserialize, Serialize};

use super::{
    Game, Outcome, PixelGame,
    screen::{BLACK, Color, SIDE, Screen, WHITE},
};
use crate::NpRandom;

/// The game Freeway: cross a road of eight lanes as often as you can.
///
/// | | |
/// |---|---|
/// | actions | 0 stay, 1 up, 2 down; a move is one lane |
/// | reward | 1 for each crossing |
/// | score of an episode | 0 to 55 in the 500 steps of `PixelFreeway-v0` |
/// | terminated | never |
///
/// The picture has 42 x 42 squares. The chicken is 2 x 2, starts in row 38 and walks up and down in columns 20 and 21; in
/// row 2 it has crossed, and starts again. Between are eight lanes, 4 rows high, with a car of 8 x 2 in each. The upper four
/// cars go to the right, the lower four to the left, by 2/4, 3/4, 4/4 and 6/4 squares per step from the verges to the middle
/// of the road. A car that leaves at one side comes back at the other: its round is 48 squares long. An episode begins with
/// every car at a random place. A car that touches the chicken throws it back by one lane.
pub type PixelFreeway = PixelGame<Freeway>;

const LANES: usize = 8;
const LANE: i32 = 4;
const LANES_TOP: i32 = 5;
/// Speed of the car in each lane, in quarters of a square per step; positive is to the right.
const SPEEDS: [i32; LANES] = [2, 3, 4, 6, -6, -4, -3, -2];
const QUARTERS: i32 = 4;
const CAR: [i32; 2] = [8, 2];
/// Length of a car's round, in quarters of a square.
const AROUND: i32 = 48 * QUARTERS;

const CHICKEN: [i32; 2] = [2, 2];
const CHICKEN_LEFT: i32 = 20;
const START: i32 = 38;
const GOAL: i32 = 2;

const PAVEMENT: Color = Color::new(80, 80, 80);
const CARS: [Color; 2] = [Color::new(220, 180, 60), Color::new(70, 150, 220)];

/// The rules and state of [`PixelFreeway`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Freeway {
    /// Row of the chicken's top.
    chicken: i32,
    /// Distance of each lane's car from column 0, in quarters of a square.
    cars: [i32; LANES],
}

/// Top left corners of a lane's car: it is drawn twice, since it leaves at one side while it enters at the other.
fn places(lane: usize, quarters: i32) -> [[i32; 2]; 2] {
    let top = LANES_TOP + LANE * lane as i32 + 1;
    [0, AROUND].map(|around| [(quarters - around).div_euclid(QUARTERS), top])
}

impl Freeway {
    fn paint_cars(&self, screen: &mut Screen, colors: [Color; 2]) {
        for (lane, &quarters) in self.cars.iter().enumerate() {
            let color = colors[lane % 2];
            places(lane, quarters).into_iter().for_each(|place| screen.fill(place, CAR, color));
        }
    }

    fn paint_chicken(&self, screen: &mut Screen, color: Color) {
        screen.fill([CHICKEN_LEFT, self.chicken], CHICKEN, color);
    }

    fn is_hit(&self) -> bool {
        self.cars.iter().enumerate().any(|(lane, &quarters)| {
            places(lane, quarters).iter().any(|&[x, y]| {
                (x - CHICKEN_LEFT < CHICKEN[0] && CHICKEN_LEFT - x < CAR[0])
                    && (y - self.chicken < CHICKEN[1] && self.chicken - y < CAR[1])
            })
        })
    }
}

impl Game for Freeway {
    const NAME: &'static str = "PixelFreeway";
    const ACTIONS: i64 = 3;

    fn start(random: &mut NpRandom) -> Self {
        let cars = std::array::from_fn(|_| random.integers(0, i64::from(AROUND)) as i32);
        Self { chicken: START, cars }
    }

    fn draw(&self, screen: &mut Screen) {
        screen.fill([0, 0], [SIDE, LANES_TOP - 1], PAVEMENT);
        screen.fill([0, START], [SIDE, SIDE - START], PAVEMENT);
        self.paint_cars(screen, CARS);
        self.paint_chicken(screen, WHITE);
    }

    fn advance(&mut self, action: i64, _: &mut NpRandom, screen: &mut Screen) -> Outcome {
        self.paint_cars(screen, [BLACK; 2]);
        self.paint_chicken(screen, if self.chicken == START { PAVEMENT } else { BLACK });
        let way = [0, -LANE, LANE][action as usize];
        self.chicken = (self.chicken + way).min(START);
        for (quarters, speed) in self.cars.iter_mut().zip(SPEEDS) {
            *quarters = (*quarters + speed).rem_euclid(AROUND);
        }
        let crossed = self.chicken == GOAL;
        if crossed {
            self.chicken = START;
        } else if self.is_hit() {
            self.chicken = (self.chicken + LANE).min(START);
        }
        self.paint_cars(screen, CARS);
        self.paint_chicken(screen, WHITE);
        Outcome { reward: if crossed { 1.0 } else { 0.0 }, terminated: false }
    }

    fn is_sound(&self) -> bool {
        (GOAL + 1..=START).contains(&self.chicken)
            && (self.chicken - GOAL) % LANE == 0
            && self.cars.iter().all(|quarters| (0..AROUND).contains(quarters))
    }
}
