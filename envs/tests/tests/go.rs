//! Go as PettingZoo plays it: recorded games, captures, ko, and what is refused.

use pavlov_envs::{
    EnvConfig, MultiAgentEnv, MultiAgentRows, check_multi_agent_env, make_multi_agent,
    native::{Go, GoConfig},
};
use serde_json::{Value, json};

use crate::fixture::Fixture;

fn board(board_size: usize) -> (Go, MultiAgentRows<u8>) {
    let mut env = Go::new(GoConfig { board_size, ..GoConfig::default() }).unwrap();
    let mut rows = MultiAgentRows::new(&env);
    env.reset(None, rows.out()).unwrap();
    (env, rows)
}

/// Black and white play these points in turn.
fn play(env: &mut Go, rows: &mut MultiAgentRows<u8>, points: &[i64]) {
    for &point in points {
        env.step(&[point; 2], rows.out()).unwrap();
    }
}

fn floats(values: &Value) -> Vec<f64> {
    values.as_array().unwrap().iter().filter_map(Value::as_f64).collect()
}

/// Eight observed bits in a byte, the first one highest.
fn packed(row: &[u8]) -> String {
    let byte = |bits: &[u8]| bits.iter().enumerate().fold(0, |byte, (i, bit)| byte | bit << (7 - i));
    row.chunks(8).map(|bits| format!("{:02x}", byte(bits))).collect()
}

#[test]
fn recorded_games_of_pettingzoo_are_played_again() {
    for (number, game) in Fixture::open("go.jsonl").rows.iter().enumerate() {
        let komi = game["komi"].as_f64().unwrap();
        let mut env = Go::new(GoConfig { board_size: 5, komi, ..GoConfig::default() }).unwrap();
        let mut rows = MultiAgentRows::new(&env);
        env.reset(None, rows.out()).unwrap();
        let moves = game["actions"].as_array().unwrap();
        for t in 0..=moves.len() {
            let place = format!("game {number}, move {t}");
            if t > 0 {
                let mut both = [-1; 2];
                both[(t - 1) % 2] = moves[t - 1].as_i64().unwrap();
                env.step(&both, rows.out()).unwrap();
                assert_eq!(rows.rewards, floats(&game["rewards"][t - 1]), "{place}");
            }
            let over = t == moves.len();
            assert_eq!(rows.terminated, [over; 2], "{place}");
            let illegal = over && game["illegal"].as_bool().unwrap();
            assert_eq!(rows.truncated, [illegal; 2], "{place}");
            assert_eq!(rows.acting, [0, 1].map(|agent| !over && t % 2 == agent), "{place}");
            for agent in 0..2 {
                assert_eq!(
                    packed(rows.obs(agent)),
                    game["obs"][t][agent].as_str().unwrap(),
                    "{place}, {agent}"
                );
                let mut mask = [false; 26];
                assert!(env.action_mask(agent, &mut mask));
                let shown = rows.obs(agent)[..26].iter().map(|&legal| legal == 1 && !over);
                assert!(shown.eq(mask), "{place}, {agent}");
            }
        }
    }
}

/// Black's last stone takes the one to its left, and stands as that one did:
///
/// ```text
/// . X O .        . X O .
/// X O . O        X . X O
/// . X O .        . X O .
/// . . . X        . . . X
/// ```
#[test]
fn a_stone_taken_alone_is_not_taken_back_at_once() {
    let (mut env, mut rows) = board(4);
    play(&mut env, &mut rows, &[1, 2, 4, 7, 9, 10, 15, 5]);
    play(&mut env, &mut rows, &[6]);
    // White's stone at 5 is gone, and 5 is the ko.
    let mut mask = [false; 17];
    assert!(env.action_mask(1, &mut mask) && !mask[5] && mask[16]);
    let state = env.save_state().unwrap();
    // After two moves elsewhere white may.
    play(&mut env, &mut rows, &[12, 14]);
    assert!(env.action_mask(1, &mut mask) && mask[5]);
    // The ko is part of the state.
    let (mut loaded, _) = board(4);
    loaded.load_state(&state).unwrap();
    assert!(loaded.action_mask(1, &mut mask) && !mask[5]);
    play(&mut env, &mut rows, &[5]);
    assert_eq!(rows.obs(0)[17 + 17 * 6..][..2], [0, 0], "black's stone at 6 is taken");
}

#[test]
fn suicide_is_illegal_unless_it_captures() {
    let (mut env, mut rows) = board(3);
    // White at 1 and 3 makes the corner 0 deadly for black.
    play(&mut env, &mut rows, &[8, 1, 7, 3]);
    let mut mask = [false; 10];
    assert!(env.action_mask(0, &mut mask) && !mask[0] && mask[2]);
    // Black at 2, 4 leaves the stone at 1 with the corner as its last liberty.
    play(&mut env, &mut rows, &[2, 9, 4, 9]);
    assert!(env.action_mask(0, &mut mask) && mask[0]);
    play(&mut env, &mut rows, &[0]);
    let stone = |point: usize| &rows.obs(0)[10 + 17 * point..][..2];
    assert_eq!((stone(0), stone(1)), (&[1, 0][..], &[0, 0][..]));
}

#[test]
fn white_wins_an_empty_board_and_an_equal_score() {
    for (komi, rewards) in [(0.5, [-1.0, 1.0]), (0.0, [-1.0, 1.0]), (-0.5, [1.0, -1.0])] {
        let mut env = Go::new(GoConfig { board_size: 2, komi, ..GoConfig::default() }).unwrap();
        let mut rows = MultiAgentRows::new(&env);
        env.reset(None, rows.out()).unwrap();
        play(&mut env, &mut rows, &[4, 4]);
        assert_eq!((rows.rewards.as_slice(), rows.is_over()), (&rewards[..], true));
    }
}

#[test]
fn go_keeps_the_contract_on_small_and_large_boards() {
    for board_size in [1, 2, 5, 9] {
        check_multi_agent_env(&mut board(board_size).0)
            .unwrap_or_else(|error| panic!("{board_size}: {error}"));
    }
}

#[test]
fn boards_and_states_that_do_not_fit_are_refused() {
    let message =
        |settings: Value| make_multi_agent("go_v5", settings.as_object().unwrap()).unwrap_err().to_string();
    for size in [0, 26] {
        let expected = format!("env_config of go_v5: `board_size` is {size}, but it must be in 1..=25");
        assert_eq!(message(json!({"board_size": size})), expected);
    }
    let nan = GoConfig { komi: f64::NAN, ..GoConfig::default() };
    assert!(Go::new(nan).unwrap_err().to_string().contains("`komi` is NaN, but it must be finite"));
    assert_eq!(make_multi_agent("go_v5", &EnvConfig::new()).unwrap().action_space(0).flat_width(), 362);

    let (mut env, mut rows) = board(5);
    let error = env.step(&[26, 0], rows.out()).unwrap_err().to_string();
    assert_eq!(error, "action 26 is not in Discrete(26) of go_v5");
    let other = board(4).0.save_state().unwrap();
    let error = env.load_state(&other).unwrap_err().to_string();
    assert!(error.contains("a board of 16 points, but this one has 25"), "{error}");
    play(&mut env, &mut rows, &[25, 25]);
    assert_eq!(
        env.step(&[0, 0], rows.out()).unwrap_err().to_string(),
        "go_v5 has no running episode; call `reset`"
    );
}

#[test]
fn pictures_of_go_show_the_stones_where_they_were_played() {
    let (mut env, mut rows) = board(5);
    // Row 0, column 1, which PettingZoo draws in column 0 and row 1; then row 4, column 0.
    play(&mut env, &mut rows, &[1, 20]);
    let frame = env.render().unwrap().unwrap();
    assert_eq!((frame.width, frame.height), (800, 800));
    let pixel = |column: usize, row: usize| {
        // Beside the crossing of the lines.
        let at = 3 * ((160 * row + 90) * frame.width + 160 * column + 90);
        [frame.rgb[at], frame.rgb[at + 1], frame.rgb[at + 2]]
    };
    assert_eq!((pixel(0, 1), pixel(4, 0)), ([0; 3], [255; 3]));
    assert!(![[0; 3], [255; 3]].contains(&pixel(2, 2)));
}
