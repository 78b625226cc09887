//! Steps per second and allocations per step of CartPole, of the games in pixels and of MiniGrid, and processor time per step of
//! the environments on Box2D: `cargo bench -p pavlov-envs`.
//!
//! Actions are drawn beforehand, episodes of CartPole are some 22 steps long, and every reset is seeded, as in
//! training. The best round is what the code can do, the median what the machine let it do.

#[path = "../tests/counting/mod.rs"]
mod counting;

use std::{
    error::Error,
    hint::black_box,
    time::{Duration, Instant},
};

use counting::allocations_of_process;
use pavlov_envs::{
    Element, Env, EnvConfig, NpRandom, SpaceSampler, StepOut, SyncVectorEnv, ThreadVectorEnv, TypedVectorEnv,
    VectorEnv, make_vec,
    native::{BipedalWalker, BipedalWalkerConfig, CartPole, CartPoleConfig, CartPoleVector, LunarLander},
    wrappers::TimeLimit,
};
use rustix::time::{ClockId, clock_gettime};

/// Short rounds, so that some of them run undisturbed on a busy machine.
const ROUNDS: usize = 301;

fn main() -> Result<(), Box<dyn Error>> {
    let config = CartPoleConfig::default();
    println!("{:<34}{:>12}{:>12}{:>20}", "CartPole-v1", "best M/s", "median M/s", "allocations/step");
    scalar(config)?;
    for num_envs in [8, 1024] {
        vector(&format!("CartPoleVector, {num_envs}"), CartPoleVector::new(num_envs, 500, config))?;
    }
    let limited = || Ok(TimeLimit::new(CartPole::new(config), 500));
    for num_envs in [8, 1024] {
        vector(&format!("SyncVectorEnv, {num_envs}"), SyncVectorEnv::new(num_envs, limited)?)?;
    }
    let threads = std::thread::available_parallelism()?.get();
    let blocks = (0..threads).map(|_| CartPoleVector::new(16_384 / threads, 500, config)).collect();
    vector(&format!("ThreadVectorEnv, {threads} x {}", 16_384 / threads), ThreadVectorEnv::new(blocks)?)?;
    for game in ["PixelBreakout-v0", "PixelFreeway-v0", "PixelPong-v0", "PixelSnake-v0", "PixelTMaze-v0"] {
        for (settings, size, channels) in [("42 x 42 x 1", 42, 1), ("84 x 84 x 3", 84, 3)] {
            let config = [("size", size), ("channels", channels)];
            let config = config.map(|(key, value)| (key.to_owned(), value.into())).into_iter().collect();
            let copies = make_vec(game, &config, 8)?;
            vector(&format!("{game}, {settings}, 8"), TypedVectorEnv::<u8, i64>::new(copies)?)?;
        }
    }
    for task in ["DoorKey-8x8", "KeyCorridorS3R3", "MultiRoom-N6"] {
        let copies = make_vec(&format!("MiniGrid-{task}-v0"), &EnvConfig::new(), 8)?;
        vector(&format!("MiniGrid-{task}-v0, 8"), TypedVectorEnv::<i64, i64>::new(copies)?)?;
    }
    random_play("LunarLander-v3", LunarLander::<i64>::new(Default::default())?)?;
    let walker = |hardcore| BipedalWalker::new(BipedalWalkerConfig { hardcore });
    random_play("BipedalWalker-v3", walker(false))?;
    random_play("BipedalWalkerHardcore-v3", walker(true))?;
    Ok(())
}

/// Microseconds of processor time per step, resets included; their streams continue.
fn random_play<E: Env<Obs = f32>>(name: &str, env: E) -> pavlov_envs::Result<()> {
    const STEPS: usize = 256;
    let mut env = TimeLimit::new(env, 1000);
    let space = env.action_space();
    let mut sampler = SpaceSampler::new(&space, 1);
    let mut actions = vec![E::Act::default(); STEPS * space.width()];
    actions.chunks_exact_mut(space.width()).for_each(|action| sampler.sample(action));
    let mut obs = vec![0.0; env.observation_space().width()];
    env.reset(Some(0), &mut obs)?;
    let mut times = [0.0; ROUNDS];
    let before = allocations_of_process();
    for time in &mut times {
        let start = processor_time();
        for action in actions.chunks_exact(space.width()) {
            let step = env.step(action, &mut obs)?;
            if step.terminated | step.truncated {
                env.reset(None, &mut obs)?;
            }
        }
        *time = (processor_time() - start).as_secs_f64() * 1e6 / STEPS as f64;
    }
    let per_step = (allocations_of_process() - before) as f64 / (ROUNDS * STEPS) as f64;
    times.sort_by(f64::total_cmp);
    println!("{name:<34}{:>9.2} us{:>9.2} us{per_step:>20.6}", times[0], times[ROUNDS / 2]);
    Ok(())
}

/// Processor time of this thread so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn scalar(config: CartPoleConfig) -> pavlov_envs::Result<()> {
    let mut env = TimeLimit::new(CartPole::new(config), 500);
    let mut random = NpRandom::new(1);
    let actions: Vec<i64> = (0..4096).map(|_| random.integers(0, 2)).collect();
    let mut obs = [0.0; 4];
    let mut seed = 0;
    env.reset(Some(seed), &mut obs)?;
    measure("CartPole, one copy", 4096 * 16, || {
        for _ in 0..16 {
            for action in &actions {
                let step = env.step(std::slice::from_ref(action), &mut obs)?;
                if step.terminated | step.truncated {
                    seed += 1;
                    env.reset(Some(seed), &mut obs)?;
                }
            }
        }
        black_box(&obs);
        Ok(())
    })
}

fn vector<O: Element>(name: &str, mut env: impl VectorEnv<Obs = O, Act = i64>) -> pavlov_envs::Result<()> {
    const ROWS: usize = 64;
    let n = env.num_envs();
    let width = env.observation_space().width();
    let num_actions = env.action_space().flat_width() as i64;
    let mut random = NpRandom::new(1);
    let actions: Vec<i64> = (0..ROWS * n).map(|_| random.integers(0, num_actions)).collect();
    let seeds: Vec<u64> = (0..ROWS * n).map(|_| random.next_u64()).collect();
    let mut obs = vec![O::default(); width * n];
    let mut final_obs = vec![O::default(); width * n];
    let mut rewards = vec![0.0; n];
    let mut terminated = vec![false; n];
    let mut truncated = vec![false; n];
    env.reset(Some(&seeds[..n]), &mut obs)?;
    // Pictures take longer than a few numbers.
    let repeats = ((1 << 16) / (ROWS * n * width.div_ceil(64))).max(1);
    measure(name, repeats * ROWS * n, || {
        for _ in 0..repeats {
            for (actions, seeds) in actions.chunks_exact(n).zip(seeds.chunks_exact(n)) {
                let out = StepOut {
                    obs: &mut obs,
                    final_obs: &mut final_obs,
                    rewards: &mut rewards,
                    terminated: &mut terminated,
                    truncated: &mut truncated,
                };
                env.step(actions, Some(seeds), out)?;
            }
        }
        black_box(&obs);
        Ok(())
    })
}

fn measure(
    name: &str,
    steps: usize,
    mut round: impl FnMut() -> pavlov_envs::Result<()>,
) -> pavlov_envs::Result<()> {
    round()?;
    let mut rates = [0.0; ROUNDS];
    let before = allocations_of_process();
    for rate in &mut rates {
        let start = Instant::now();
        round()?;
        *rate = steps as f64 / start.elapsed().as_secs_f64() / 1e6;
    }
    let allocations = allocations_of_process() - before;
    rates.sort_by(f64::total_cmp);
    let per_step = allocations as f64 / (ROUNDS * steps) as f64;
    println!("{name:<34}{:>12.1}{:>12.1}{per_step:>20.6}", rates[ROUNDS - 1], rates[ROUNDS / 2]);
    Ok(())
}
