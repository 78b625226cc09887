//! A small game of pictures: a ball falls, and a paddle below has to be there in time.

use pavlov::envs::{self, Env, NpRandom, Space, Step};

const SIDE: usize = 10;

/// Pictures of 10 x 10 bytes: 255 where the ball and the paddle are. Actions: left, stay, right. The last of nine steps
/// gives 1 if the ball is caught, else -1.
#[derive(Clone, Debug)]
pub(crate) struct Catch {
    rng: NpRandom,
    ball: [usize; 2],
    paddle: usize,
}

impl Catch {
    pub(crate) fn new() -> Self {
        Self { rng: NpRandom::new(0), ball: [0, 0], paddle: 0 }
    }

    fn draw(&self, picture: &mut [u8]) {
        picture.fill(0);
        let [row, column] = self.ball;
        picture[row * SIDE + column] = 255;
        picture[(SIDE - 1) * SIDE + self.paddle] = 255;
    }
}

impl Env for Catch {
    type Obs = u8;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::image(&[SIDE, SIDE, 1])
    }

    fn action_space(&self) -> Space {
        Space::discrete(3)
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [u8]) -> envs::Result<()> {
        if let Some(seed) = seed {
            self.rng = NpRandom::new(seed);
        }
        let mut column = || self.rng.integers(0, SIDE as i64) as usize;
        self.ball = [0, column()];
        self.paddle = column();
        self.draw(obs);
        Ok(())
    }

    fn step(&mut self, action: &[i64], obs: &mut [u8]) -> envs::Result<Step> {
        self.paddle = (self.paddle + action[0] as usize).saturating_sub(1).min(SIDE - 1);
        self.ball[0] += 1;
        self.draw(obs);
        let landed = self.ball[0] == SIDE - 1;
        let caught = self.ball[1] == self.paddle;
        let reward = if landed { if caught { 1.0 } else { -1.0 } } else { 0.0 };
        Ok(Step { reward, terminated: landed, truncated: false })
    }
}
