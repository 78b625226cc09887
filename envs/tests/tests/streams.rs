//! Random streams without a seed.

use pavlov_envs::{
    EnvConfig, SyncVectorEnv, VectorEnv, make_vec,
    native::{CartPoleConfig, CartPoleVector, FrozenLake},
};

use crate::rows::Rows;

/// Gymnasium seeds a stream without a seed from the operating system's entropy.
#[test]
fn unseeded_copies_begin_with_streams_of_their_own() {
    const N: usize = 64;
    for id in [
        "CartPole-v1",
        "MountainCar-v0",
        "MountainCarContinuous-v0",
        "Pendulum-v1",
        "Acrobot-v1",
        "Taxi-v4",
        "Blackjack-v1",
        "PixelBreakout-v0",
        "PixelFreeway-v0",
        "PixelPong-v0",
        "PixelSnake-v0",
        "PixelTMaze-v0",
    ] {
        let first = || {
            let mut env = make_vec(id, &EnvConfig::new(), N).unwrap();
            let width = env.observation_space().width() * env.obs_dtype().size();
            let mut words = vec![0_u64; (N * width).div_ceil(8)];
            let obs = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..N * width];
            env.reset(None, obs).unwrap();
            obs.chunks(width).map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        let rows = first();
        let again = first();
        assert!(rows.iter().any(|row| *row != rows[0]), "{id}: all copies start alike");
        assert!(rows != again, "{id}: two vectors start alike");
    }
}

#[test]
fn unseeded_walks_from_one_start_part() {
    const N: usize = 64;
    let lake = FrozenLake::new(Default::default()).unwrap();
    let mut env = SyncVectorEnv::new(N, || Ok(lake.clone())).unwrap();
    let mut rows = Rows::filled(N, 1, 0);
    env.reset(None, &mut rows.obs).unwrap();
    assert_eq!(rows.obs, [0; N]);
    env.step(&[1; N], None, rows.out()).unwrap();
    assert!(rows.obs.iter().any(|&field| field != rows.obs[0]), "{:?}", rows.obs);
}

#[test]
fn a_state_keeps_a_stream_without_a_seed() {
    let mut env = CartPoleVector::new(2, 500, CartPoleConfig::default());
    let mut went = [0.0; 8];
    let mut again = [0.0; 8];
    env.reset(None, &mut went).unwrap();
    let state = env.save_state().unwrap().unwrap();
    env.reset(None, &mut went).unwrap();
    let mut other = CartPoleVector::new(2, 500, CartPoleConfig::default());
    other.load_state(&state).unwrap();
    other.reset(None, &mut again).unwrap();
    assert_eq!(went, again);
}
