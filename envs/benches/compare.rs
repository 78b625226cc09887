//! Steps per second of native environments beside Gymnasium's and EnvPool's, as a Markdown table:
//!
//!     cargo bench -p pavlov-envs --bench compare -- --python PYTHON [--rounds N] [--mujoco]
//!
//! PYTHON has gymnasium, envpool, minigrid, pettingzoo and mpe2. Without it the tables have our column only. A rate is steps per
//! second of processor time, of all threads together, so that a busy machine hardly shows; EnvPool works in one thread
//! besides its caller's. Random actions were drawn before; streams go on from one episode to the next. Each library gets the
//! number of copies of 64 and 1,024 that is better for it. Rounds take turns; medians count.
//!
//! The second table has the environments with several agents, one copy each, beside PettingZoo's; there, drawing legal
//! actions counts on both sides.
//!
//! With `--mujoco` it is MuJoCo's environments, beside `mj_step` in a loop in C, and the memory of many of them.

use std::{
    env,
    error::Error,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use pavlov_envs::{
    AnyVectorEnv, DType, Element, EnvConfig, NpRandom, StepOut, TypedMultiAgentEnv, make_multi_agent,
    make_vec, measure_multi_agent_speed,
};
use rustix::time::{ClockId, clock_gettime};

const IDS: [&str; 15] = [
    "CartPole-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "Acrobot-v1",
    "FrozenLake-v1",
    "FrozenLake8x8-v1",
    "Taxi-v4",
    "CliffWalking-v1",
    "CliffWalkingSlippery-v1",
    "Blackjack-v1",
    "LunarLander-v3",
    "BipedalWalker-v3",
    "BipedalWalkerHardcore-v3",
    "MiniGrid-DoorKey-8x8-v0",
];
const IDS_OF_SEVERAL: [&str; 12] = [
    "simple_v3",
    "simple_adversary_v3",
    "simple_crypto_v3",
    "simple_push_v3",
    "simple_reference_v3",
    "simple_speaker_listener_v4",
    "simple_spread_v3",
    "simple_tag_v3",
    "simple_world_comm_v3",
    "tictactoe_v3",
    "connect_four_v3",
    "go_v5",
];
/// Cheap ones first.
const MUJOCO: [&str; 11] = [
    "InvertedPendulum-v5",
    "InvertedDoublePendulum-v5",
    "Reacher-v5",
    "Swimmer-v5",
    "HalfCheetah-v5",
    "Hopper-v5",
    "Walker2d-v5",
    "Pusher-v5",
    "Ant-v5",
    "Humanoid-v5",
    "HumanoidStandup-v5",
];
const MUJOCO_COPIES: usize = 16;
const COPIES: [usize; 2] = [64, 1024];
const ROUND: Duration = Duration::from_millis(100);

fn main() -> Result<(), Box<dyn Error>> {
    let option = |name: &str| env::args().skip_while(|argument| argument != name).nth(1);
    let rounds: usize = option("--rounds").map_or(Ok(5), |rounds| rounds.parse())?;
    let mut driver = option("--python").map(|python| Driver::start(&python)).transpose()?;
    let others = driver.as_ref().map_or("no others".into(), |driver| driver.versions.clone());
    if env::args().any(|argument| argument == "--mujoco") {
        return mujoco(rounds, option("--python"), driver);
    }
    println!("M steps per second of processor time, medians of {rounds} rounds; {others}\n");
    println!("| environment | pavlov | Gymnasium | EnvPool | pavlov / Gymnasium | pavlov / EnvPool |");
    println!("|---|--:|--:|--:|--:|--:|");
    for id in IDS {
        let mut rates: [[Vec<f64>; COPIES.len()]; 3] = Default::default();
        for _ in 0..rounds {
            for (i, copies) in COPIES.into_iter().enumerate() {
                rates[0][i].push(ours(id, &EnvConfig::new(), copies)?);
                if let Some(driver) = &mut driver {
                    rates[1][i].push(driver.rate("gymnasium", id, copies)?);
                    rates[2][i].push(driver.rate("envpool", id, copies)?);
                }
            }
        }
        let [ours, gymnasium, envpool] =
            rates.map(|rates| rates.into_iter().filter_map(median).fold(f64::NAN, f64::max) / 1e6);
        let digits = if ours < 1.0 { 3 } else { 1 };
        println!(
            "| {id} | {ours:.digits$} | {gymnasium:.3} | {envpool:.3} | {:.0} | {:.0} |",
            ours / gymnasium,
            ours / envpool
        );
    }
    println!("\n| environment | pavlov | PettingZoo | pavlov / PettingZoo |");
    println!("|---|--:|--:|--:|");
    for id in IDS_OF_SEVERAL {
        let mut rates: [Vec<f64>; 2] = Default::default();
        for _ in 0..rounds {
            rates[0].push(ours_of_several(id)?);
            if let Some(driver) = &mut driver {
                rates[1].push(driver.rate("pettingzoo", id, 1)?);
            }
        }
        let [ours, others] = rates.map(|rates| median(rates).unwrap_or(f64::NAN) / 1e6);
        println!("| {id} | {ours:.2} | {others:.4} | {:.0} |", ours / others);
    }
    Ok(())
}

/// Steps per second of an environment of ours with several agents; a step is one of all that act.
fn ours_of_several(id: &str) -> pavlov_envs::Result<f64> {
    fn rate<O: Element>(id: &str) -> pavlov_envs::Result<f64> {
        let mut env = TypedMultiAgentEnv::<O, i64>::new(make_multi_agent(id, &EnvConfig::new())?)?;
        let start = processor_time();
        let steps = measure_multi_agent_speed(&mut env, ROUND)?.steps;
        Ok(steps as f64 / (processor_time() - start).as_secs_f64())
    }
    match make_multi_agent(id, &EnvConfig::new())?.obs_dtype() {
        DType::U8 => rate::<u8>(id),
        _ => rate::<f32>(id),
    }
}

/// The table of MuJoCo's environments, and the memory of many.
fn mujoco(rounds: usize, python: Option<String>, mut driver: Option<Driver>) -> Result<(), Box<dyn Error>> {
    let mut config = EnvConfig::new();
    config.insert("python".into(), python.into());
    let before = resident_mb()?;
    let mut many = make_vec("HalfCheetah-v5", &config, 1024)?;
    many.reset(None, bytemuck::cast_slice_mut(&mut vec![0.0_f64; 1024 * 17]))?;
    println!("1,024 HalfCheetahs, libmujoco included: {:.0} MB of memory\n", resident_mb()? - before);
    drop(many);
    let others = driver.as_ref().map_or("no others".into(), |driver| driver.versions.clone());
    println!(
        "CPU us per step, {MUJOCO_COPIES} copies, medians of {rounds} rounds (least in brackets), and of the ratios within a round; {others}\n"
    );
    println!(
        "| environment | `mj_step` alone | pavlov | EnvPool | Gymnasium | pavlov / `mj_step` | EnvPool / pavlov |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for id in MUJOCO {
        let mut costs: [Vec<f64>; 4] = Default::default();
        for _ in 0..rounds {
            costs[1].push(1e6 / ours(id, &config, MUJOCO_COPIES)?);
            if let Some(driver) = &mut driver {
                for (i, library) in [(0, "raw"), (2, "envpool"), (3, "gymnasium")] {
                    costs[i].push(1e6 / driver.rate(library, id, MUJOCO_COPIES)?);
                }
            }
        }
        let cells = costs.each_ref().map(|costs| {
            let least = costs.iter().copied().fold(f64::NAN, f64::min);
            format!("{:.1} ({least:.1})", median(costs.clone()).unwrap_or(f64::NAN))
        });
        let [raw, ours, envpool, _] = &costs;
        println!("| {id} | {} | {:.2} | {:.2} |", cells.join(" | "), ratio(ours, raw), ratio(envpool, ours));
    }
    Ok(())
}

/// Memory of this process.
fn resident_mb() -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    let kb: f64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kb / 1024.0)
}

/// The median of the ratios within a round, because the machine's speed changes from one round to the next.
fn ratio(above: &[f64], below: &[f64]) -> f64 {
    median(above.iter().zip(below).map(|(above, below)| above / below).collect()).unwrap_or(f64::NAN)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Processor time of this process so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Steps per second of a vector of ours.
fn ours(id: &str, config: &EnvConfig, copies: usize) -> pavlov_envs::Result<f64> {
    const ROWS: usize = 64;
    let mut env = make_vec(id, config, copies)?;
    let actions = draw_actions(&*env, ROWS);
    let row = actions.len() * 8 / ROWS;
    let actions: &[u8] = bytemuck::cast_slice(&actions);
    let act_bytes = copies * env.action_space().width() * env.act_dtype().size();
    // Words, so that rows of any scalar are aligned.
    let bytes = copies * env.observation_space().width() * env.obs_dtype().size();
    let mut obs = vec![0_u64; bytes.div_ceil(8)];
    let mut final_obs = vec![0_u64; bytes.div_ceil(8)];
    let obs = &mut bytemuck::cast_slice_mut(&mut obs)[..bytes];
    let final_obs = &mut bytemuck::cast_slice_mut(&mut final_obs)[..bytes];
    let mut rewards = vec![0.0; copies];
    let mut terminated = vec![false; copies];
    let mut truncated = vec![false; copies];
    let seeds: Vec<u64> = (0..copies as u64).collect();
    env.reset(Some(&seeds), obs)?;
    let start = processor_time();
    let mut steps = 0;
    let mut elapsed = Duration::ZERO;
    while elapsed < ROUND {
        for actions in actions.chunks_exact(row) {
            let out = StepOut {
                obs: &mut *obs,
                final_obs: &mut *final_obs,
                rewards: &mut rewards,
                terminated: &mut terminated,
                truncated: &mut truncated,
            };
            env.step(&actions[..act_bytes], None, out)?;
        }
        steps += ROWS * copies;
        elapsed = processor_time() - start;
    }
    Ok(steps as f64 / elapsed.as_secs_f64())
}

/// Rows of actions for all copies, each in whole words.
fn draw_actions(env: &dyn AnyVectorEnv, rows: usize) -> Vec<u64> {
    let mut random = NpRandom::new(1);
    let space = env.action_space();
    let copies = env.num_envs();
    let size = env.act_dtype().size();
    let width = space.width();
    let words = (copies * width * size).div_ceil(8);
    let mut actions = vec![0_u64; rows * words];
    for row in actions.chunks_exact_mut(words) {
        if size == 8 {
            for action in bytemuck::cast_slice_mut::<u64, i64>(row).chunks_exact_mut(width) {
                space.sample(&mut random, action);
            }
        } else {
            for action in bytemuck::cast_slice_mut::<u64, f32>(row).chunks_exact_mut(width) {
                space.sample(&mut random, action);
            }
        }
    }
    actions
}

/// The Python process that runs the others.
struct Driver {
    _process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// Of the libraries.
    versions: String,
}

impl Driver {
    fn start(python: &str) -> Result<Self, Box<dyn Error>> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/compare.py");
        let mut process = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{python}: {error}"))?;
        let requests = process.stdin.take().ok_or("the driver has no standard input")?;
        let mut answers = BufReader::new(process.stdout.take().ok_or("the driver has no standard output")?);
        let mut versions = String::new();
        answers.read_line(&mut versions)?;
        Ok(Self { _process: process, requests, answers, versions: versions.trim().into() })
    }

    /// Steps per second of a library's vector.
    fn rate(&mut self, library: &str, id: &str, copies: usize) -> Result<f64, Box<dyn Error>> {
        writeln!(self.requests, "{library} {id} {copies} {}", ROUND.as_secs_f64())?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        answer.trim().parse().map_err(|_| format!("{library}, {id}: the driver answered {answer:?}").into())
    }
}
