//! Python environments through the bridge beside Gymnasium's vector environments, ale-py's and EnvPool:
//!
//!     cargo bench -p pavlov-envs --bench bridge -- --python PYTHON [--rounds N] [--copies N] [PART ..]
//!
//! PYTHON has `gymnasium ale-py mujoco box2d envpool imageio pygame-ce`. PART picks contestants: a part of the
//! environment's id or of the contestant's name.
//!
//! All contestants of an environment stay alive and take turns; the numbers are medians over the rounds. CPU time is
//! that of all processes of a contestant and does not depend on what else the machine does.

use std::{
    error::Error,
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use pavlov_envs::{AnyVectorEnv, Element, EnvConfig, NpRandom, python::PyVec};
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut setup = Setup { python: "python3".into(), rounds: 5, copies: 16, wanted: vec![] };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} wants a value"));
        match argument.as_str() {
            "--bench" => {}
            "--python" => setup.python = value()?,
            "--rounds" => setup.rounds = value()?.parse()?,
            "--copies" => setup.copies = value()?.parse()?,
            _ => setup.wanted.push(argument),
        }
    }
    let Setup { rounds, copies, .. } = setup;
    println!("{copies} copies, {rounds} rounds, medians; CPU: microseconds of all processes per env step.\n");
    println!("| environment | contestant | steps/s | CPU us/step | above the first |\n|---|---|--:|--:|--:|");
    for id in ["CartPole-v1", "LunarLander-v3", "HalfCheetah-v5", "ALE/Pong-v5"] {
        compare(id, &setup)?;
    }
    Ok(())
}

struct Setup {
    python: String,
    rounds: usize,
    copies: usize,
    /// Parts of environments' ids or contestants' names; all when there are none.
    wanted: Vec<String>,
}

/// Who plays an environment.
enum Kind {
    /// What `bridge.py` calls by this name.
    Peer(&'static str),
    /// The bridge with an `env_config`, and whether every episode is seeded.
    Bridge(Value, bool),
}

fn contestants(id: &str, setup: &Setup) -> Vec<(String, Kind)> {
    let Setup { python, copies, .. } = setup;
    let loops = |workers: usize| json!({"num_workers": workers, "python": python});
    let mut list = vec![
        ("Gymnasium SyncVectorEnv".into(), Kind::Peer("sync")),
        ("Gymnasium AsyncVectorEnv".into(), Kind::Peer("async")),
        ("EnvPool, 2 threads".into(), Kind::Peer("envpool")),
        (format!("bridge, 1 x {copies}"), Kind::Bridge(loops(1), false)),
        (format!("bridge, 2 x {}", copies / 2), Kind::Bridge(loops(2), false)),
    ];
    if id == "CartPole-v1" {
        let name = format!("bridge, 2 x {}, every episode seeded", copies / 2);
        list.push((name, Kind::Bridge(loops(2), true)));
    }
    if id.starts_with("ALE/") {
        list.push(("ale-py AtariVectorEnv, 2 threads".into(), Kind::Peer("ale")));
        let config =
            json!({"vectorization": "vector_entry_point", "kwargs": {"num_threads": 2}, "python": python});
        list.push(("bridge, AtariVectorEnv hosted, 2 threads".into(), Kind::Bridge(config, false)));
    }
    list
}

struct Playing {
    name: String,
    contestant: Box<dyn Contestant>,
    /// Seconds and CPU seconds of every round.
    times: Vec<(f64, f64)>,
}

fn compare(id: &str, setup: &Setup) -> Outcome<()> {
    let vector_steps = match id {
        "CartPole-v1" => 1000,
        "ALE/Pong-v5" => 25,
        _ => 200,
    };
    let python_id = if id.starts_with("ALE/") { format!("py:ale_py:{id}") } else { format!("py:{id}") };
    let mut playing: Vec<Playing> = vec![];
    for (name, kind) in contestants(id, setup) {
        let wanted = |part: &String| format!("{id} {name}").contains(part.as_str());
        if setup.wanted.is_empty() || setup.wanted.iter().any(wanted) {
            let contestant = match kind {
                Kind::Peer(kind) => Box::new(Peer::start(kind, id, setup)?),
                Kind::Bridge(config, seeded) => bridged(&python_id, config, setup.copies, seeded)?,
            };
            playing.push(Playing { name, contestant, times: vec![] });
        }
    }
    for round in 0..=setup.rounds {
        for Playing { contestant, times, .. } in &mut playing {
            let time = contestant.play(vector_steps)?;
            // The first round warms up.
            if round > 0 {
                times.push(time);
            }
        }
    }
    let steps = (vector_steps * setup.copies) as f64;
    for Playing { name, times, .. } in &playing {
        let wall = median(times.iter().map(|time| time.0));
        let cpu = median(times.iter().map(|time| time.1));
        let above = median(times.iter().zip(&playing[0].times).map(|(time, first)| time.1 - first.1));
        let per_step = |cpu: f64| cpu / steps * 1e6;
        println!("| {id} | {name} | {:.0} | {:.2} | {:+.2} |", steps / wall, per_step(cpu), per_step(above));
    }
    Ok(())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

trait Contestant {
    /// Seconds and CPU seconds of so many vector steps.
    fn play(&mut self, steps: usize) -> Outcome<(f64, f64)>;
}

/// A program in Python.
struct Peer {
    child: Child,
    /// `None` once the program was told to end.
    inbox: Option<ChildStdin>,
    outbox: BufReader<ChildStdout>,
}

impl Peer {
    fn start(kind: &str, id: &str, setup: &Setup) -> Outcome<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/bridge.py");
        let mut command = Command::new(&setup.python);
        command.args([script, kind, id, &setup.copies.to_string()]).env("OMP_NUM_THREADS", "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let inbox = child.stdin.take();
        let outbox = child.stdout.take();
        let outbox = BufReader::new(outbox.ok_or("no stdout")?);
        let mut peer = Self { child, inbox, outbox };
        while peer.line()?.trim() != "ready" {}
        Ok(peer)
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        match self.outbox.read_line(&mut line)? {
            0 => Err(format!("bridge.py ended: {}", self.child.wait()?).into()),
            _ => Ok(line),
        }
    }
}

impl Contestant for Peer {
    fn play(&mut self, steps: usize) -> Outcome<(f64, f64)> {
        writeln!(self.inbox.as_mut().ok_or("no stdin")?, "{steps}")?;
        let line = self.line()?;
        let (wall, cpu) = line.trim().split_once(' ').ok_or("no numbers")?;
        Ok((wall.parse()?, cpu.parse()?))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.inbox = None;
        let _ = self.child.wait();
    }
}

/// A vector environment of this process.
struct Bridged<O, A> {
    env: PyVec<O, A>,
    actions: Vec<Vec<A>>,
    seeds: Option<Vec<u64>>,
    obs: Vec<O>,
    final_obs: Vec<O>,
    at: usize,
}

fn bridged(id: &str, config: Value, copies: usize, seeded: bool) -> Outcome<Box<dyn Contestant>> {
    let config: EnvConfig = serde_json::from_value(config)?;
    Ok(if id.contains("HalfCheetah") {
        Box::new(Bridged::<f64, f32>::start(id, &config, copies, seeded)?)
    } else if id.contains("Pong") {
        Box::new(Bridged::<u8, i64>::start(id, &config, copies, seeded)?)
    } else {
        Box::new(Bridged::<f32, i64>::start(id, &config, copies, seeded)?)
    })
}

impl<O: Element, A: Element> Bridged<O, A> {
    fn start(id: &str, config: &EnvConfig, copies: usize, seeded: bool) -> Outcome<Self> {
        let mut env = PyVec::<O, A>::new(id, config, copies)?;
        let space = AnyVectorEnv::action_space(&env).clone();
        let mut random = NpRandom::new(1);
        let batch = |_| {
            let mut row = vec![A::default(); copies * space.width()];
            row.chunks_exact_mut(space.width()).for_each(|row| space.sample(&mut random, row));
            row
        };
        let actions = (0..64).map(batch).collect();
        let seeds: Vec<u64> = (0..copies as u64).collect();
        let mut obs = vec![O::default(); copies * AnyVectorEnv::observation_space(&env).width()];
        pavlov_envs::VectorEnv::reset(&mut env, Some(&seeds), &mut obs)?;
        let final_obs = obs.clone();
        Ok(Self { env, actions, seeds: seeded.then_some(seeds), obs, final_obs, at: 0 })
    }
}

impl<O: Element, A: Element> Contestant for Bridged<O, A> {
    fn play(&mut self, steps: usize) -> Outcome<(f64, f64)> {
        let copies = self.env.num_envs();
        let mut rewards = vec![0.0; copies];
        let mut terminated = vec![false; copies];
        let mut truncated = vec![false; copies];
        let mut pids: Vec<String> = self.env.worker_pids().iter().map(u32::to_string).collect();
        pids.push("self".into());
        let cpu = cpu_seconds(&pids)?;
        let start = Instant::now();
        for _ in 0..steps {
            let out = pavlov_envs::StepOut {
                obs: &mut self.obs,
                final_obs: &mut self.final_obs,
                rewards: &mut rewards,
                terminated: &mut terminated,
                truncated: &mut truncated,
            };
            let actions = &self.actions[self.at % 64];
            pavlov_envs::VectorEnv::step(&mut self.env, actions, self.seeds.as_deref(), out)?;
            self.at += 1;
        }
        Ok((start.elapsed().as_secs_f64(), cpu_seconds(&pids)? - cpu))
    }
}

/// Of all threads alive, from the scheduler's own nanoseconds.
fn cpu_seconds(pids: &[String]) -> Outcome<f64> {
    let mut nanoseconds = 0;
    for pid in pids {
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            let stat = fs::read_to_string(task?.path().join("schedstat"))?;
            nanoseconds += stat.split(' ').next().unwrap_or("0").parse::<u64>()?;
        }
    }
    Ok(nanoseconds as f64 / 1e9)
}
