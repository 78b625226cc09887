//! Blackjack: come closer to 21 than the dealer, but not beyond.

use serde::{Deserialize, Serialize};

use crate::native::dynamics::{Dynamics, NativeEnv};
use crate::render::draw::{self, Canvas};
use crate::{Error, Frame, NpRandom, Result, Space, Step};

/// Settings of Blackjack; the defaults are those of `Blackjack-v1`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlackjackConfig {
    /// Whether a win with a natural (ace and ten) pays 1.5; no effect if `sab` is set.
    pub natural: bool,
    /// Whether the rules are those of Sutton and Barto's book, where a natural (ace and ten) beats every hand but a
    /// natural.
    pub sab: bool,
}

impl Default for BlackjackConfig {
    fn default() -> Self {
        Self { natural: false, sab: true }
    }
}

/// The cards of one player, reduced to what the rules need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hand {
    cards: u64,
    /// Sum of the cards with aces as 1.
    sum: i64,
    has_ace: bool,
}

impl Hand {
    fn draw(&mut self, random: &mut NpRandom) -> i64 {
        // Ace to ten, and three face cards that count as ten.
        let card = (random.integers(0, 13) + 1).min(10);
        self.cards += 1;
        self.sum += card;
        self.has_ace |= card == 1;
        card
    }

    fn has_usable_ace(self) -> bool {
        self.has_ace && self.sum + 10 <= 21
    }

    fn value(self) -> i64 {
        if self.has_usable_ace() { self.sum + 10 } else { self.sum }
    }

    fn is_bust(self) -> bool {
        self.value() > 21
    }

    fn score(self) -> i64 {
        if self.is_bust() { 0 } else { self.value() }
    }

    fn is_natural(self) -> bool {
        self.cards == 2 && self.value() == 21
    }
}

/// A Blackjack environment: example 5.1 of Sutton and Barto's book, with an infinite deck.
///
/// | | |
/// |---|---|
/// | observation | the player's sum, the dealer's open card (ace is 1), whether the player has an ace that counts as 11 |
/// | actions | 0 sticks, 1 takes a card |
/// | reward | 1 for a win, 0 for a draw, -1 for a loss, at the end |
/// | start | two cards each |
/// | terminated | the player sticks or goes beyond 21 |
pub type Blackjack = NativeEnv<BlackjackDynamics>;

/// Rules and state of [`Blackjack`]: the hands of the player and of the dealer.
#[derive(Clone, Debug)]
pub struct BlackjackDynamics {
    config: BlackjackConfig,
    player: Hand,
    dealer: Hand,
    open_card: i64,
}

impl Blackjack {
    /// Creates a game; call `reset` before the first step.
    pub fn new(config: BlackjackConfig) -> Self {
        let (player, dealer) = Default::default();
        Self::of(BlackjackDynamics { config, player, dealer, open_card: 0 })
    }
}

impl BlackjackDynamics {
    fn observe(&self, obs: &mut [i64]) {
        let usable = i64::from(self.player.has_usable_ace());
        obs.copy_from_slice(&[self.player.value(), self.open_card, usable]);
    }

    /// Lets the dealer draw to 17 or more and returns the player's reward.
    fn play_out(&mut self, random: &mut NpRandom) -> f64 {
        while self.dealer.value() < 17 {
            self.dealer.draw(random);
        }
        let reward = (self.player.score() - self.dealer.score()).signum() as f64;
        match self.config {
            BlackjackConfig { sab: true, .. } if self.player.is_natural() && !self.dealer.is_natural() => 1.0,
            BlackjackConfig { sab: false, natural: true } if self.player.is_natural() && reward == 1.0 => 1.5,
            _ => reward,
        }
    }
}

impl Dynamics for BlackjackDynamics {
    type Obs = i64;
    type Act = i64;
    type Saved = (Hand, Hand, i64);

    fn name(&self) -> &str {
        "Blackjack"
    }

    fn observation_space(&self) -> Space {
        Space::Tuple(vec![Space::discrete(32), Space::discrete(11), Space::discrete(2)])
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn takes(&self, action: &[i64]) -> bool {
        matches!(action, [0 | 1])
    }

    fn start(&mut self, random: &mut NpRandom, obs: &mut [i64]) -> Result<()> {
        (self.player, self.dealer) = Default::default();
        self.open_card = self.dealer.draw(random);
        self.dealer.draw(random);
        self.player.draw(random);
        self.player.draw(random);
        // Gymnasium draws a random suit, and a face for a ten, for its pictures.
        random.integers(0, 4);
        if self.open_card == 10 {
            random.integers(0, 3);
        }
        self.observe(obs);
        Ok(())
    }

    fn advance(&mut self, action: &[i64], random: &mut NpRandom, obs: &mut [i64]) -> Step {
        let (reward, terminated) = if action == [0] {
            (self.play_out(random), true)
        } else {
            self.player.draw(random);
            let bust = self.player.is_bust();
            (if bust { -1.0 } else { 0.0 }, bust)
        };
        self.observe(obs);
        Step { reward, terminated, truncated: false }
    }

    /// Draws 384 x 376 pixels, Gymnasium's size, in pavlov's own style: the dealer's card above, the player's sum
    /// below, and a disc beside it for an ace that counts as 11.
    fn draw(&mut self) -> Option<Frame> {
        let mut canvas = Canvas::new(384, 376)?;
        canvas.polygon(&[(0.0, 0.0), (384.0, 0.0), (384.0, 376.0), (0.0, 376.0)], [196, 216, 158]);
        canvas.polygon(&[(132.0, 204.0), (252.0, 204.0), (252.0, 344.0), (132.0, 344.0)], [250, 250, 246]);
        draw_number(&mut canvas, self.open_card, 274.0);
        draw_number(&mut canvas, self.player.value(), 104.0);
        if self.player.has_usable_ace() {
            canvas.circle((310.0, 104.0), 16.0, [200, 60, 60]);
        }
        Some(canvas.into_frame())
    }

    fn fps(&self) -> f64 {
        4.0
    }

    fn save(&self) -> impl Serialize {
        (self.player, self.dealer, self.open_card)
    }

    fn load(&mut self, (player, dealer, open_card): (Hand, Hand, i64), _running: bool) -> Result<()> {
        for Hand { sum, .. } in [player, dealer] {
            if !(0..=31).contains(&sum) {
                return Err(Error::state(format!(
                    "a hand counts {sum}, but a hand counts 0 to 31; it is damaged"
                )));
            }
        }
        if !(0..=10).contains(&open_card) {
            return Err(Error::state(format!(
                "the open card is {open_card}, but there is none; it is damaged"
            )));
        }
        *self = Self { config: self.config, player, dealer, open_card };
        Ok(())
    }
}

/// Draws a number of one or two digits, horizontally centred, `y` pixels above the lower edge of the picture.
fn draw_number(canvas: &mut Canvas, number: i64, y: f32) {
    /// Bit mask of each digit's strokes: top, upper right, lower right, bottom, lower left, upper left, middle.
    const STROKES: [u8; 10] = [0x3f, 0x06, 0x5b, 0x4f, 0x66, 0x6d, 0x7d, 0x07, 0x7f, 0x6f];
    const ENDS: [[(f32, f32); 2]; 7] = [
        [(-1.0, 2.0), (1.0, 2.0)],
        [(1.0, 2.0), (1.0, 0.0)],
        [(1.0, 0.0), (1.0, -2.0)],
        [(-1.0, -2.0), (1.0, -2.0)],
        [(-1.0, 0.0), (-1.0, -2.0)],
        [(-1.0, 2.0), (-1.0, 0.0)],
        [(-1.0, 0.0), (1.0, 0.0)],
    ];
    let mut digit = |digit: i64, x: f32| {
        for (i, ends) in ENDS.iter().enumerate() {
            if STROKES[digit as usize % 10] >> i & 1 == 1 {
                canvas.line(&ends.map(|(dx, dy)| (x + 16.0 * dx, y + 16.0 * dy)), 6.0, draw::BLACK);
            }
        }
    };
    if number < 10 {
        digit(number, 192.0);
    } else {
        digit(number / 10, 166.0);
        digit(number % 10, 218.0);
    }
}
