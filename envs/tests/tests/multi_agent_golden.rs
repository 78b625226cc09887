//! mpe2's and PettingZoo's episodes, as `record_pettingzoo.py` recorded them from the real ones.

use pavlov_envs::{
    Element, MultiAgentEnv, MultiAgentRows,
    native::{BoardGame, ParticleAction, SimpleSpread, SimpleSpreadConfig, TwoStepGame},
};
use serde_json::Value;

use crate::{
    fixture::{Fixture, differ, f32s, f64s},
    frames::block_means,
};

#[test]
fn simple_spread_equals_mpe2() {
    let fixture = Fixture::open("simple_spread.jsonl");
    let exact = fixture.is_exact();
    for episode in &fixture.rows {
        let config: SimpleSpreadConfig = serde_json::from_value(episode["config"].clone()).unwrap();
        if episode["config"]["continuous_actions"] == true {
            replay_spread(SimpleSpread::<f32>::new(config).unwrap(), config, episode, f32s, exact);
        } else {
            let actions = |step: &Value| step.as_array().unwrap().iter().filter_map(Value::as_i64).collect();
            replay_spread(SimpleSpread::<i64>::new(config).unwrap(), config, episode, actions, exact);
        }
    }
}

fn replay_spread<A: ParticleAction>(
    mut env: SimpleSpread<A>,
    config: SimpleSpreadConfig,
    episode: &Value,
    actions: impl Fn(&Value) -> Vec<A>,
    exact: bool,
) {
    let mut rows = MultiAgentRows::new(&env);
    let assert_obs = |found: &[f32], recorded: &Value, place: &str| {
        let found = to_f64(found);
        let expected = to_f64(&f32s(recorded));
        assert_eq!(differ(&found, &expected, exact, 1e-6), None, "{place}");
    };
    let place = |t: usize| format!("{config:?}, step {t}");
    env.reset(episode["seed"].as_u64(), rows.out()).unwrap();
    assert_obs(&rows.obs, &episode["obs"][0], &place(0));
    let steps = episode["actions"].as_array().unwrap();
    assert_eq!(steps.len(), config.max_cycles);
    for (t, step) in steps.iter().enumerate() {
        assert!(rows.acting.iter().all(|acting| *acting) && rows.acting == rows.alive, "{}", place(t));
        env.step(&actions(step), rows.out()).unwrap();
        assert_obs(&rows.obs, &episode["obs"][t + 1], &place(t + 1));
        let rewards = f64s(&episode["rewards"][t]);
        assert_eq!(differ(&rows.rewards, &rewards, exact, 1e-6), None, "{}", place(t + 1));
        let last = t + 1 == steps.len();
        assert_eq!((rows.terminated.contains(&true), rows.truncated.contains(&true)), (false, last));
    }
    assert!(rows.is_over());
    env.reset(None, rows.out()).unwrap();
    assert_obs(&rows.obs, &episode["continued"], "the stream goes on");
}

#[test]
fn the_recorded_agents_collide() {
    let fixture = Fixture::open("simple_spread.jsonl");
    // Without contact the rewards of all agents are equal.
    let unequal = |rewards: &Value| f64s(rewards).windows(2).any(|pair| pair[0] != pair[1]);
    for episode in &fixture.rows[..3] {
        assert!(episode["rewards"].as_array().unwrap().iter().any(unequal), "seed {}", episode["seed"]);
    }
}

#[test]
fn collisions_cost_at_the_last_stage_of_the_curriculum_only() {
    let fixture = Fixture::open("simple_spread.jsonl");
    let rewards_at = |stage: usize| {
        let config = SimpleSpreadConfig { curriculum: true, ..Default::default() };
        let mut env = SimpleSpread::<i64>::new(config).unwrap();
        env.set_curriculum_stage(stage);
        // The stage is part of the state.
        let state = env.save_state().unwrap();
        let mut env = SimpleSpread::<i64>::new(config).unwrap();
        env.load_state(&state).unwrap();
        let mut rows = MultiAgentRows::new(&env);
        env.reset(fixture.rows[0]["seed"].as_u64(), rows.out()).unwrap();
        let steps = fixture.rows[0]["actions"].as_array().unwrap().iter().map(numbers);
        let rewards = steps.flat_map(|actions| {
            let actions: Vec<i64> = actions.into_iter().map(|action| action as i64).collect();
            env.step(&actions, rows.out()).unwrap();
            rows.rewards.clone()
        });
        rewards.collect::<Vec<f64>>()
    };
    let unequal = |rewards: &[f64]| rewards.chunks(3).any(|row| row[0] != row[1] || row[1] != row[2]);
    assert!(!unequal(&rewards_at(0)));
    assert!(unequal(&rewards_at(1)));
    assert_eq!(rewards_at(1), rewards_at(9), "there is none after it");
}

#[test]
fn tictactoe_equals_pettingzoo() {
    replay_games("tictactoe.jsonl", BoardGame::tictactoe(), 9);
}

#[test]
fn connect_four_equals_pettingzoo() {
    replay_games("connect_four.jsonl", BoardGame::connect_four(), 7);
}

fn replay_games(file: &str, mut env: BoardGame, actions: usize) {
    // A game won by each player, a draw, and an illegal move by each player.
    let mut seen = [false; 5];
    for (number, game) in Fixture::open(file).rows.iter().enumerate() {
        let mut rows = MultiAgentRows::new(&env);
        env.reset(None, rows.out()).unwrap();
        let moves = game["actions"].as_array().unwrap();
        for t in 0..=moves.len() {
            let place = format!("{file}, game {number}, move {t}");
            if t > 0 {
                let action = moves[t - 1].as_i64().unwrap();
                let mut both = [-1, -1];
                both[(t - 1) % 2] = action;
                env.step(&both, rows.out()).unwrap();
                let rewards: Vec<f64> = numbers(&game["rewards"][t - 1]);
                let flags: Vec<bool> =
                    game["flags"][t - 1].as_array().unwrap().iter().filter_map(Value::as_bool).collect();
                assert_eq!((&rows.rewards, &rows.terminated), (&rewards, &flags), "{place}");
            }
            let over = t == moves.len();
            // PettingZoo sets both flags of both players.
            let illegal = over && game["illegal"].as_bool().unwrap();
            assert_eq!(rows.truncated, [illegal; 2], "{place}");
            assert_eq!(rows.alive, [!over; 2], "{place}");
            assert_eq!(rows.acting, [!over && t % 2 == 0, !over && t % 2 == 1], "{place}");
            for agent in 0..2 {
                let obs: String = rows.obs(agent).iter().map(u8::to_string).collect();
                assert_eq!(obs, game["obs"][t][agent].as_str().unwrap(), "{place}, agent {agent}");
                let mut mask = vec![false; actions];
                assert!(env.action_mask(agent, &mut mask));
                let shown: Vec<bool> = rows.obs(agent)[..actions].iter().map(|&legal| legal == 1).collect();
                assert_eq!(mask, if over { vec![false; actions] } else { shown }, "{place}, agent {agent}");
            }
        }
        let last = (moves.len() + 1) % 2;
        let kind = match (game["illegal"].as_bool().unwrap(), rows.rewards[last]) {
            (true, reward) => {
                assert_eq!((reward, rows.rewards[1 - last]), (-1.0, 0.0));
                3 + last
            }
            (false, 1.0) => last,
            (false, _) => 2,
        };
        seen[kind] = true;
    }
    assert_eq!(seen, [true; 5], "{file}");
}

#[test]
fn pictures_of_simple_spread_look_like_mpe2s() {
    for row in &Fixture::open("simple_spread_frames.jsonl").rows {
        let mut env = SimpleSpread::<i64>::new(SimpleSpreadConfig::default()).unwrap();
        let mut rows = MultiAgentRows::new(&env);
        env.reset(row["seed"].as_u64(), rows.out()).unwrap();
        for _ in 0..row["steps"].as_u64().unwrap() {
            env.step(&[2, 2, 2], rows.out()).unwrap();
        }
        let frame = env.render().unwrap().unwrap();
        let number = |key: &str| row[key].as_u64().unwrap() as usize;
        assert_eq!((frame.width, frame.height), (number("width"), number("height")));
        let found = block_means(&frame, number("block"));
        let expected = numbers(&row["means"]);
        let worst = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert_eq!(found.len(), expected.len());
        // An edge one pixel aside changes a block of 35 x 35 by at most 255 / 35, and there are two edges.
        assert!(worst <= 15.0, "after {} steps: a block differs by {worst}", row["steps"]);
    }
}

#[test]
fn pictures_of_boards_show_the_marks_where_they_were_played() {
    let mut env = BoardGame::tictactoe();
    let mut rows = MultiAgentRows::new(&env);
    env.reset(None, rows.out()).unwrap();
    let empty = env.render().unwrap().unwrap();
    // Square 6 is the first row of the last column.
    env.step(&[6, 0], rows.out()).unwrap();
    env.step(&[0, 4], rows.out()).unwrap();
    let frame = env.render().unwrap().unwrap();
    let changed = |x: usize, y: usize| pixel(&empty, x, y) != pixel(&frame, x, y);
    let marked = (0..9).filter(|cell| {
        let left = cell / 3 * 333;
        let top = cell % 3 * 333;
        (left..left + 333).any(|x| (top..top + 333).any(|y| changed(x, y)))
    });
    assert_eq!(marked.collect::<Vec<_>>(), [4, 6]);

    let mut env = BoardGame::connect_four();
    let mut rows = MultiAgentRows::new(&env);
    env.reset(None, rows.out()).unwrap();
    env.step(&[2, 0], rows.out()).unwrap();
    env.step(&[0, 2], rows.out()).unwrap();
    let frame = env.render().unwrap().unwrap();
    assert_eq!((frame.width, frame.height), (891, 774));
    // The middle of a tile's hole: 117 pixels per tile, 10.5 / 13 of one from the edge.
    let chip = |row: usize, column: usize| pixel(&frame, 117 * column + 94, 117 * row + 94);
    let [r, g, b] = chip(5, 2);
    let [r2, g2, b2] = chip(4, 2);
    assert!(r > 150 && g < 100 && b < 100, "the first chip is red and lies at the bottom");
    assert!(r2.max(g2).max(b2) < 60, "the second is black and lies on it");
    assert_eq!(chip(3, 2), [255; 3]);
}

fn pixel(frame: &pavlov_envs::Frame, x: usize, y: usize) -> [u8; 3] {
    let at = 3 * (y * frame.width + x);
    frame.rgb[at..at + 3].try_into().unwrap()
}

fn numbers(values: &Value) -> Vec<f64> {
    values.as_array().unwrap().iter().filter_map(Value::as_f64).collect()
}

fn to_f64<T: Element>(row: &[T]) -> Vec<f64> {
    row.iter().map(|x| x.to_f64()).collect()
}

#[test]
fn the_two_step_game_pays_what_the_paper_says() {
    let mut game = TwoStepGame::new();
    let mut rows = MultiAgentRows::new(&game);
    // Rashid et al. 2018, table 2: the first agent's first action chooses the matrix.
    for (first, matrix) in [(0, [[7.0, 7.0], [7.0, 7.0]]), (1, [[0.0, 1.0], [1.0, 8.0]])] {
        for second in [0, 1] {
            for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                game.reset(None, rows.out()).unwrap();
                assert_eq!(rows.obs, [0, 0]);
                game.step(&[first, second], rows.out()).unwrap();
                assert_eq!((&rows.obs[..], &rows.rewards[..]), (&[1 + first; 2][..], &[0.0; 2][..]));
                game.step(&[a, b], rows.out()).unwrap();
                assert_eq!(rows.rewards.iter().sum::<f64>(), matrix[a as usize][b as usize]);
                assert_eq!(rows.terminated, [true; 2]);
            }
        }
    }
}
