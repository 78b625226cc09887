//! Random streams without a seed.

use pavlov_envs::{
    SyncVectorEnv, VectorEnv,
    native::{CartPoleConfig, CartPoleVector, FrozenLake},
};

use crate::rows::Rows;

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
