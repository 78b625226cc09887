//! The games in pixels: what they draw, save and refuse.

use pavlov_envs::{
    Env, EnvConfig, Frame, NpRandom, check_env, make_vec,
    native::{PixelBreakout, PixelConfig, PixelFreeway, PixelGame, PixelPong, PixelSnake, PixelTMaze},
};
use serde_json::json;

use crate::{
    pixel::{Player, SIDE, single},
    states::edited,
};

/// The ids of all games in pixels.
fn ids() -> Vec<String> {
    let ids: Vec<String> = pavlov_envs::ids().into_iter().filter(|id| id.starts_with("Pixel")).collect();
    assert!(ids.len() >= 5, "{ids:?}");
    ids
}

/// Plays at random without a time limit; gives the digest of all pictures, rewards and flags (FNV-1a), and the score.
fn random_play<E: Env<Obs = u8, Act = i64>>(env: E, seed: u64, steps: usize) -> (u64, f64) {
    let actions = env.action_space();
    let mut player = Player::new(env, seed);
    let mut random = NpRandom::new(seed);
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    add(&player.obs);
    for _ in 0..steps {
        let mut action = [0_i64];
        actions.sample(&mut random, &mut action);
        let step = player.step(action[0]);
        add(&player.obs);
        add(&step.reward.to_bits().to_le_bytes());
        add(&[u8::from(step.terminated)]);
        if step.terminated {
            player.env.reset(None, &mut player.obs).unwrap();
            add(&player.obs);
        }
    }
    (digest, player.score)
}

/// The digests were printed by this test; nothing in the games depends on the machine.
#[test]
fn pictures_rewards_and_ends_are_the_same_on_every_machine() {
    let grey = PixelConfig::default();
    let sticky = PixelConfig { repeat_action_probability: 0.25, size: 84, channels: 3 };
    let mut found = vec![];
    for config in [grey, sticky] {
        let breakout = random_play(PixelBreakout::new(config).unwrap(), 1, 1000);
        let freeway = random_play(PixelFreeway::new(config).unwrap(), 1, 1000);
        let pong = random_play(PixelPong::new(config).unwrap(), 1, 1000);
        let snake = random_play(PixelSnake::new(config).unwrap(), 1, 1000);
        let maze = random_play(PixelTMaze::new(config).unwrap(), 1, 1000);
        found.extend([breakout, freeway, pong, snake, maze].map(|(digest, _)| digest));
    }
    let expected = [
        0x3350_c572_7da6_1094,
        0xcd26_2c69_ea24_0c0a,
        0x62e7_a6fa_1b34_b6e6,
        0x637d_3df2_cbae_58af,
        0x9c20_7d26_9faf_6ad1,
        0x0058_281b_b450_e8ca,
        0xd264_d59c_23a7_c3ca,
        0x37fd_a83a_d467_79c2,
        0x4e12_09b8_3ee3_aabe,
        0x4dac_825d_c217_55f6_u64,
    ];
    assert_eq!(found, expected, "{found:#x?}");
}

/// Every pixel of an observation of 84 x 84 x 3 against those of a picture drawn anew and of an observation in greys.
fn check_pixels(large: &[u8], small: &[u8], frame: &Frame, place: &str) {
    assert_eq!((frame.width, frame.height), (420, 420));
    for (at, pixel) in large.chunks_exact(3).enumerate() {
        let x = at % 84 / 2;
        let y = at / 84 / 2;
        let drawn = &frame.rgb[3 * (420 * 10 * y + 10 * x)..][..3];
        assert_eq!(pixel, drawn, "{place}: column {x}, row {y}");
        let [red, green, blue] = [pixel[0], pixel[1], pixel[2]].map(u32::from);
        let luma = (299 * red + 587 * green + 114 * blue + 500) / 1000;
        assert_eq!(u32::from(small[y * SIDE + x]), luma, "{place}: column {x}, row {y}");
    }
}

#[test]
fn observations_of_every_size_show_what_a_picture_drawn_anew_shows() {
    fn check<G>(new: fn(PixelConfig) -> pavlov_envs::Result<PixelGame<G>>)
    where
        PixelGame<G>: Env<Obs = u8, Act = i64>,
    {
        let config = PixelConfig { size: 84, channels: 3, ..PixelConfig::default() };
        let mut large = Player::new(new(config).unwrap(), 5);
        let mut small = Player::new(single(new), 5);
        let mut random = NpRandom::new(2);
        let actions = small.env.action_space();
        for t in 0..600 {
            let frame = large.env.render().unwrap().unwrap();
            let place = format!("{}, step {t}", std::any::type_name::<PixelGame<G>>());
            check_pixels(&large.obs, &small.obs, &frame, &place);
            let mut action = [0_i64];
            actions.sample(&mut random, &mut action);
            let step = small.step(action[0]);
            assert_eq!(step, large.step(action[0]), "{place}");
            if step.terminated {
                let frame = large.env.render().unwrap().unwrap();
                check_pixels(&large.obs, &small.obs, &frame, &place);
                small.env.reset(Some(t), &mut small.obs).unwrap();
                large.env.reset(Some(t), &mut large.obs).unwrap();
            }
        }
    }
    check(PixelBreakout::new);
    check(PixelFreeway::new);
    check(PixelPong::new);
    check(PixelSnake::new);
    check(PixelTMaze::new);
}

#[test]
fn a_state_saved_in_mid_episode_goes_on_to_the_same_pictures() {
    fn check<G>(new: fn(PixelConfig) -> pavlov_envs::Result<PixelGame<G>>)
    where
        PixelGame<G>: Env<Obs = u8, Act = i64>,
    {
        let config = PixelConfig { repeat_action_probability: 0.3, ..PixelConfig::default() };
        for (seed, steps) in [(1, 3), (2, 40), (3, 150)] {
            let mut player = Player::new(new(config).unwrap(), seed);
            let mut random = NpRandom::new(seed);
            let actions = player.env.action_space();
            let go = |player: &mut Player<PixelGame<G>>, random: &mut NpRandom| {
                let mut action = [0_i64];
                actions.sample(random, &mut action);
                let step = player.step(action[0]);
                if step.terminated {
                    player.env.reset(None, &mut player.obs).unwrap();
                }
                (step, player.obs.clone())
            };
            for _ in 0..steps {
                go(&mut player, &mut random);
            }
            let state = player.env.save_state().unwrap();
            let mut other = Player::new(new(config).unwrap(), 99);
            other.env.load_state(&state).unwrap();
            assert_eq!(other.env.render().unwrap(), player.env.render().unwrap());
            let mut same_random = random.clone();
            for t in 0..300 {
                assert_eq!(go(&mut player, &mut random), go(&mut other, &mut same_random), "step {t}");
            }
        }
    }
    check(PixelBreakout::new);
    check(PixelFreeway::new);
    check(PixelPong::new);
    check(PixelSnake::new);
    check(PixelTMaze::new);
}

#[test]
fn games_in_pixels_keep_the_contract_at_the_least_and_the_greatest_size() {
    for (size, channels) in [(42, 1), (84, 3)] {
        let config = PixelConfig { size, channels, repeat_action_probability: 0.25 };
        check_env(&mut PixelBreakout::new(config).unwrap()).unwrap();
        check_env(&mut PixelFreeway::new(config).unwrap()).unwrap();
        check_env(&mut PixelPong::new(config).unwrap()).unwrap();
        check_env(&mut PixelSnake::new(config).unwrap()).unwrap();
        check_env(&mut PixelTMaze::new(config).unwrap()).unwrap();
    }
}

#[test]
fn settings_of_games_in_pixels_are_checked() {
    let message = |id: &str, config: serde_json::Value| {
        let config: EnvConfig = serde_json::from_value(config).unwrap();
        make_vec(id, &config, 1).map(|_| ()).unwrap_err().to_string()
    };
    for id in &ids() {
        assert_eq!(message(id, json!({"size": 64})), "`size` is 64, but it must be 42 or 84");
        assert_eq!(
            message(id, json!({"channels": 4})),
            "`channels` is 4, but it must be 1 (greys) or 3 (colours)"
        );
        assert_eq!(
            message(id, json!({"repeat_action_probability": -0.5})),
            "`repeat_action_probability` is -0.5, but it must be in 0..=1"
        );
        let near = "no setting `chanels`; nearest: `channels`";
        assert!(message(id, json!({"chanels": 1})).contains(near));
        let config: EnvConfig = serde_json::from_value(json!({"size": 84, "channels": 3})).unwrap();
        let env = make_vec(id, &config, 2).unwrap();
        assert_eq!(env.observation_space().shape(), [84, 84, 3]);
    }
}

#[test]
fn damaged_games_are_refused() {
    let mut game = Player::new(single(PixelBreakout::new), 1);
    let state = game.env.save_state().unwrap();
    let mut refused = |state: &[u8], part: &str| {
        let message = game.env.load_state(state).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    };
    // Place, speed and last place of the ball, then the paddle, the bricks and the lives.
    type Breakout = ([[i32; 2]; 3], i32, u64, u32);
    let damaged =
        edited(&state, |(.., (_, game)): &mut (NpRandom, bool, bool, (Option<i64>, Option<Breakout>))| {
            assert_eq!(game.map(|game| game.1), Some(17));
            game.as_mut().unwrap().1 = 99;
        });
    refused(&damaged, "is no game of PixelBreakout; it is damaged");
    // A number where a flag is expected.
    let damaged =
        edited(&state, |(.., running, _): &mut (NpRandom, bool, u8, (Option<i64>, Option<Breakout>))| {
            *running = 7;
        });
    refused(&damaged, "a field cannot be read");
    refused(&state[..state.len() - 1], "ends too early");
    let pong = Player::new(single(PixelPong::new), 1).env.save_state().unwrap();
    refused(&pong, "saved by \"PixelPong\"");
}
