//! The rules of the games in pixels, as their pictures show them.

use std::collections::BTreeMap;

use pavlov_envs::{
    Env, NpRandom, Step,
    native::{PixelBreakout, PixelConfig, PixelFreeway, PixelGame, PixelPong, PixelSnake, PixelTMaze},
    wrappers::TimeLimit,
};

pub(crate) const SIDE: usize = 42;

/// Greys of what the tests look for.
const WHITE: u8 = 255;
const AGENT_PADDLE: u8 = 176;
const BRICKS: [u8; 2] = [110, 131];
const BODY: u8 = 127;
const FOOD: u8 = 191;
const CUE: u8 = 191;

/// A game and its last picture, in 42 x 42 greys.
pub(crate) struct Player<E> {
    pub(crate) env: E,
    pub(crate) obs: Vec<u8>,
    pub(crate) score: f64,
    steps: usize,
}

impl<E: Env<Obs = u8, Act = i64>> Player<E> {
    pub(crate) fn new(env: E, seed: u64) -> Self {
        let obs = vec![0; env.observation_space().width()];
        let mut player = Self { env, obs, score: 0.0, steps: 0 };
        player.env.reset(Some(seed), &mut player.obs).unwrap();
        player
    }

    pub(crate) fn step(&mut self, action: i64) -> Step {
        let step = self.env.step(&[action], &mut self.obs).unwrap();
        self.score += step.reward;
        self.steps += 1;
        step
    }

    /// Plays an episode to its end; gives the score.
    fn play(&mut self, mut policy: impl FnMut(&Self) -> i64) -> f64 {
        loop {
            let action = policy(self);
            let step = self.step(action);
            if step.terminated || step.truncated {
                return self.score;
            }
        }
    }

    fn at(&self, x: usize, y: usize) -> u8 {
        self.obs[y * SIDE + x]
    }

    fn count(&self, grey: u8) -> usize {
        self.obs.iter().filter(|pixel| **pixel == grey).count()
    }

    /// Column and row of the first pixel of this grey.
    fn find(&self, grey: u8) -> Option<[i64; 2]> {
        let place = self.obs.iter().position(|pixel| *pixel == grey)?;
        Some([place % SIDE, place / SIDE].map(|place| place as i64))
    }
}

pub(crate) fn single<G>(new: fn(PixelConfig) -> pavlov_envs::Result<PixelGame<G>>) -> PixelGame<G> {
    new(PixelConfig::default()).unwrap()
}

/// An action that brings `from` nearer to `to`: the second one for less, the third one for more.
fn towards(from: i64, to: i64) -> i64 {
    match to - from {
        ..0 => 1,
        0 => 0,
        1.. => 2,
    }
}

/// What a ball-tracking player of Breakout does; it aims at changing parts of the paddle.
fn track<E: Env<Obs = u8, Act = i64>>(player: &Player<E>) -> i64 {
    let Some([ball, _]) = player.find(WHITE) else { return 0 };
    let paddle = player.at_row(38, AGENT_PADDLE).unwrap();
    let aim = [3, 1, 5, 2, 4][player.steps / 97 % 5];
    let from = paddle + aim;
    // A move is 3 long.
    if (ball - from).abs() < 2 { 0 } else { towards(from, ball) }
}

impl<E: Env<Obs = u8, Act = i64>> Player<E> {
    fn at_row(&self, y: usize, grey: u8) -> Option<i64> {
        (0..SIDE).find(|&x| self.at(x, y) == grey).map(|x| x as i64)
    }

    fn at_column(&self, x: usize, grey: u8) -> Option<i64> {
        (3..SIDE).find(|&y| self.at(x, y) == grey).map(|y| y as i64)
    }
}

#[test]
fn a_ball_that_leaves_costs_a_life_and_the_third_ends_the_episode() {
    let mut game = Player::new(single(PixelBreakout::new), 1);
    let mut lives = vec![game.env.info("lives").unwrap()];
    loop {
        let [ball, row] = game.find(WHITE).unwrap();
        // Away from the ball.
        let step = game.step(if ball < 20 { 2 } else { 1 });
        let left = game.env.info("lives").unwrap();
        if left < lives[lives.len() - 1] {
            assert!(row >= 40, "the ball left from row {row}");
            lives.push(left);
        }
        assert_eq!(step.terminated, left == 0.0);
        if step.terminated {
            break;
        }
    }
    assert_eq!(lives, [3.0, 2.0, 1.0, 0.0]);
}

#[test]
fn every_brick_that_breaks_gives_1_and_stays_away() {
    for seed in 0..5 {
        let mut game = Player::new(TimeLimit::new(single(PixelBreakout::new), 2000), seed);
        game.play(|game| {
            let bricks = BRICKS.map(|grey| game.count(grey)).iter().sum::<usize>();
            assert_eq!(bricks % 12, 0);
            assert_eq!(bricks as f64 / 12.0, 42.0 - game.score, "seed {seed}, step {}", game.steps);
            track(game)
        });
    }
}

#[test]
fn the_paddle_returns_balls_and_who_tracks_them_breaks_the_wall() {
    let mut scores = vec![];
    for seed in 0..10 {
        let mut game = Player::new(TimeLimit::new(single(PixelBreakout::new), 2000), seed);
        scores.push(game.play(track));
        assert_eq!(game.env.info("lives"), Some(3.0), "seed {seed}: a ball was lost");
    }
    println!("Breakout by tracking: {scores:?}");
    assert!(scores.iter().all(|&score| score >= 40.0), "{scores:?}");
}

/// Follows the ball so that it meets the paddle `aim` squares from the paddle's top.
fn follow<E: Env<Obs = u8, Act = i64>>(game: &Player<E>, aim: i64) -> i64 {
    let Some([_, ball]) = game.find(WHITE) else { return 0 };
    let paddle = game.at_column(39, AGENT_PADDLE).unwrap();
    if (ball - paddle - aim).abs() < 2 { 0 } else { towards(paddle + aim, ball) }
}

#[test]
fn who_meets_the_ball_wins_against_the_opponent_who_returns_most_balls() {
    for aim in [1, 3, 5] {
        let mut scores = vec![];
        let mut returned = 0;
        for seed in 0..10 {
            let mut game = Player::new(TimeLimit::new(single(PixelPong::new), 2000), seed);
            let mut before = game.find(WHITE);
            let mut was_leftwards = false;
            scores.push(game.play(|game| {
                let now = game.find(WHITE);
                let (Some([now_x, _]), Some([x, _])) = (now, before) else { return 0 };
                returned += u32::from(was_leftwards && now_x > x && now_x < 10);
                was_leftwards = now_x < x;
                before = now;
                follow(game, aim)
            }));
        }
        println!("Pong by place {aim} of the paddle: {scores:?}, {returned} balls returned by the opponent");
        assert!(scores.iter().sum::<f64>() >= 30.0, "{scores:?}");
        assert!(returned > 50, "{returned}");
    }
}

#[test]
fn a_side_with_five_points_ends_pong() {
    for seed in 0..5 {
        let mut game = Player::new(single(PixelPong::new), seed);
        let mut points = [0, 0];
        loop {
            // Away from the ball.
            let ball = game.find(WHITE).map_or(0, |[_, y]| y);
            let step = game.step(if ball < 22 { 2 } else { 1 });
            points[0] += u32::from(step.reward == 1.0);
            points[1] += u32::from(step.reward == -1.0);
            assert_eq!(step.terminated, points.contains(&5), "seed {seed}");
            if step.terminated {
                break;
            }
        }
        assert_eq!(points[1], 5, "seed {seed}: who flees from the ball loses");
    }
}

#[test]
fn a_car_throws_the_chicken_back_by_a_lane_and_a_crossing_starts_again() {
    let mut hits = 0;
    let mut crossings = 0;
    for seed in 0..10 {
        let mut game = Player::new(TimeLimit::new(single(PixelFreeway::new), 500), seed);
        let row = |game: &Player<_>| game.at_column(20, WHITE).unwrap();
        assert_eq!(row(&game), 38);
        loop {
            let before = row(&game);
            let step = game.step(1);
            let now = row(&game);
            if step.reward == 1.0 {
                assert_eq!((before, now), (6, 38));
                crossings += 1;
            } else if now != before - 4 {
                assert_eq!(now, before);
                hits += 1;
            }
            if step.truncated {
                break;
            }
        }
    }
    println!("Freeway by going up: {crossings} crossings, {hits} hits in 10 episodes");
    assert!(crossings >= 50 && hits >= 50, "{crossings} crossings, {hits} hits");
}

/// To the food by moves that do not kill at once.
fn eat<E: Env<Obs = u8, Act = i64>>(game: &Player<E>) -> i64 {
    let cell = |[x, y]: [i64; 2]| [(x - 1) / 4, (y - 1) / 4];
    let (Some(head), Some(food)) = (game.find(WHITE), game.find(FOOD)) else { return 0 };
    let head = cell(head);
    let food = cell(food);
    let ways = [[0, -1], [1, 0], [0, 1], [-1, 0]];
    let is_free = |[x, y]: [i64; 2]| {
        let inside = (0..10).contains(&x) && (0..10).contains(&y);
        inside && game.at(1 + 4 * x as usize, 1 + 4 * y as usize) != BODY
    };
    let ahead = |way: usize| [head[0] + ways[way][0], head[1] + ways[way][1]];
    let far = |[x, y]: [i64; 2]| (x - food[0]).abs() + (y - food[1]).abs();
    let best = (0..4).filter(|&way| is_free(ahead(way))).min_by_key(|&way| far(ahead(way)));
    best.unwrap_or(0) as i64
}

#[test]
fn the_snake_grows_by_what_it_eats_and_dies_at_walls_and_bodies() {
    let mut scores = vec![];
    for seed in 0..10 {
        let mut game = Player::new(TimeLimit::new(single(PixelSnake::new), 1000), seed);
        let score = game.play(|game| {
            let length = (game.count(BODY) + game.count(WHITE)) / 16;
            assert_eq!(length as f64, 3.0 + game.score, "seed {seed}, step {}", game.steps);
            eat(game)
        });
        scores.push(score);
    }
    println!("Snake by going to the food: {scores:?}");
    assert!(scores.iter().sum::<f64>() >= 150.0, "{scores:?}");
    let mut game = Player::new(single(PixelSnake::new), 0);
    // The head is in column 5: four more cells to the right, then the wall.
    for _ in 0..4 {
        assert!(!game.step(1).terminated);
    }
    assert_eq!(game.step(1), Step { reward: -1.0, terminated: true, truncated: false });
    let refused = game.env.step(&[1], &mut game.obs).unwrap_err().to_string();
    assert_eq!(refused, "PixelSnake was stepped outside an episode; call `reset` first");
}

#[test]
fn a_snake_that_turns_back_goes_on() {
    let mut back = Player::new(single(PixelSnake::new), 3);
    let mut on = Player::new(single(PixelSnake::new), 3);
    assert_eq!(back.step(3), on.step(1));
    assert_eq!(back.obs, on.obs);
    // Up, and then back to the right: the body of three is not in the way.
    assert!(![0, 3, 2].map(|action| back.step(action).terminated).contains(&true));
}

/// Whether the cue is above the first cell; `None` where it is not shown.
fn cue<E: Env<Obs = u8, Act = i64>>(game: &Player<E>) -> Option<bool> {
    game.find(CUE).map(|[_, y]| y < 21)
}

#[test]
fn only_the_first_cell_shows_the_cue_and_the_right_end_is_where_it_was() {
    let mut seen = [[0; 2]; 2];
    for seed in 0..40 {
        for wrong in [false, true] {
            let mut game = Player::new(single(PixelTMaze::new), seed);
            let is_up = cue(&game).unwrap();
            let mut shown_again = Player::new(single(PixelTMaze::new), seed);
            shown_again.step(1);
            assert_eq!(cue(&shown_again), None);
            shown_again.step(3);
            assert_eq!(cue(&shown_again), Some(is_up));
            // To the right while that moves.
            loop {
                let before = game.obs.clone();
                game.step(1);
                assert_eq!(cue(&game), None);
                if before == game.obs {
                    break;
                }
            }
            let arm = if is_up == wrong { 2 } else { 0 };
            assert!(!game.step(arm).terminated && !game.step(arm).terminated);
            let last = game.step(arm);
            let end = if wrong { -1.0 } else { 1.0 };
            assert_eq!(last, Step { reward: end - 0.01, terminated: true, truncated: false });
            seen[usize::from(is_up)][usize::from(wrong)] += 1;
        }
    }
    assert!(seen.iter().flatten().all(|&count| count > 10), "{seen:?}");
}

#[test]
fn behind_the_first_cell_both_t_mazes_look_alike() {
    // The second picture by the first one without its cue, for a cue below and for one above.
    let mut pictures = BTreeMap::new();
    for seed in 0..40 {
        let mut game = Player::new(single(PixelTMaze::new), seed);
        let is_up = usize::from(cue(&game).unwrap());
        let first: Vec<u8> = game.obs.iter().map(|&pixel| if pixel == CUE { 0 } else { pixel }).collect();
        game.step(1);
        pictures.entry(first).or_insert([None, None])[is_up] = Some(game.obs);
    }
    assert_eq!(pictures.len(), 6, "corridors of 5 to 10 cells");
    assert!(pictures.values().all(|[down, up]| down.is_some() && down == up));
}

#[test]
fn sticky_actions_take_the_last_action_again() {
    let config = |p| PixelConfig { repeat_action_probability: p, ..PixelConfig::default() };
    // Always: the first action counts, and the maze ends nowhere else than without stickiness.
    let mut always = Player::new(PixelSnake::new(config(1.0)).unwrap(), 4);
    let mut never = Player::new(PixelSnake::new(config(0.0)).unwrap(), 4);
    for (given, taken) in [(0, 0), (1, 0), (3, 0), (2, 0)] {
        assert_eq!(always.step(given), never.step(taken));
        assert_eq!(always.obs, never.obs);
    }
    // A quarter of the time: the paddle of Pong goes on up although it should go down.
    let mut game = Player::new(PixelBreakout::new(config(0.25)).unwrap(), 4);
    let mut repeated = 0;
    game.step(1);
    for t in 0..400 {
        let before = game.at_row(39, AGENT_PADDLE).unwrap();
        let step = game.step([2, 1][t % 2]);
        let now = game.at_row(39, AGENT_PADDLE).unwrap();
        let is_at_side = before == 0 || before == 34;
        let meant = [3, -3][t % 2];
        repeated += usize::from(!is_at_side && now - before != meant);
        if step.terminated {
            game.env.reset(None, &mut game.obs).unwrap();
        }
    }
    assert!((50..200).contains(&repeated), "{repeated} of 400 actions were replaced");
}

/// What random play gets with the time limits of the ids, and what the documentation says it can get.
#[test]
fn scores_of_random_play_stay_within_the_documented_bounds() {
    fn check<E: Env<Obs = u8, Act = i64>>(make: impl Fn() -> E, limit: usize, [least, most]: [f64; 2]) {
        let mut scores = vec![];
        for seed in 0..100 {
            let mut random = NpRandom::new(seed + 1000);
            let mut game = Player::new(TimeLimit::new(make(), limit), seed);
            let actions = game.env.action_space();
            scores.push(game.play(|_| {
                let mut action = [0_i64];
                actions.sample(&mut random, &mut action);
                action[0]
            }));
        }
        let name = std::any::type_name::<E>();
        let mean = scores.iter().sum::<f64>() / scores.len() as f64;
        println!("{name}: random play has {mean:.2} on average");
        // The cost of a step of the maze is no binary fraction.
        assert!(
            scores.iter().all(|&score| score > least - 1e-9 && score < most + 1e-9),
            "{name}: {scores:?}"
        );
    }
    check(|| single(PixelBreakout::new), 2000, [0.0, 42.0]);
    check(|| single(PixelFreeway::new), 500, [0.0, 55.0]);
    check(|| single(PixelPong::new), 2000, [-5.0, 5.0]);
    check(|| single(PixelSnake::new), 1000, [-1.0, 97.0]);
    check(|| single(PixelTMaze::new), 100, [-2.0, 0.93]);
}
