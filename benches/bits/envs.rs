//! The environments of the cases.

use pavlov::{
    envs::{
        self, Element, IntoEnvCreator, MultiAgentEnv, MultiAgentOut,
        native::{CartPole, CartPoleConfig},
        wrappers::TimeLimit,
    },
    prelude::*,
};

/// The environment of that name: one of those below, or a registered id.
pub(crate) fn env_creator(name: &str) -> EnvCreator {
    match name {
        // Ends now by itself and now by the limit.
        "cut CartPole" => {
            (|| TimeLimit::new(CartPole::new(CartPoleConfig::default()), 20)).into_env_creator()
        }
        "choices" => (|| Drift::<i64>::new(Space::multi_discrete(&[3, 2, 4]))).into_env_creator(),
        "components" => (|| Drift::<f32>::new(Space::boxed(-1.0, 1.0, &[3]))).into_env_creator(),
        "turns" => EnvCreator::multi_agent(Turns::new),
        id => id.into_env_creator(),
    }
}

/// Numbers of an observation of `choices` and `components`.
pub(crate) const WIDTH: usize = 5;

/// Observations that drift, and are pushed by the sum of an action's components; it ends far from the middle, or is cut.
struct Drift<A> {
    actions: Space,
    random: u64,
    at: [f32; WIDTH],
    action: std::marker::PhantomData<A>,
}

impl<A: Element> Drift<A> {
    fn new(actions: Space) -> Self {
        Self { actions, random: 0, at: [0.0; WIDTH], action: std::marker::PhantomData }
    }

    fn restart(&mut self, seed: Option<u64>) {
        self.random = seed.unwrap_or(self.random);
        self.at = [0.0; WIDTH];
        self.drift(0.0);
    }

    fn drift(&mut self, push: f32) {
        for (i, x) in self.at.iter_mut().enumerate() {
            self.random =
                self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *x += (self.random >> 40) as f32 / (1 << 24) as f32 - 0.5 + push * i as f32;
        }
    }
}

impl<A: Element> Env for Drift<A> {
    type Obs = f32;
    type Act = A;

    fn observation_space(&self) -> Space {
        Space::real(&[WIDTH])
    }

    fn action_space(&self) -> Space {
        self.actions.clone()
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [f32]) -> envs::Result<()> {
        self.restart(seed);
        obs.copy_from_slice(&self.at);
        Ok(())
    }

    fn step(&mut self, action: &[A], obs: &mut [f32]) -> envs::Result<Step> {
        let sum: f64 = action.iter().map(|x| x.to_f64()).sum();
        self.drift(0.1 * (sum as f32 - 1.0));
        obs.copy_from_slice(&self.at);
        let far = self.at.iter().fold(0.0_f32, |far, x| far.max(x.abs()));
        Ok(Step { reward: 1.0 - f64::from(far), terminated: far > 3.0, truncated: false })
    }

    fn max_episode_steps(&self) -> Option<usize> {
        Some(15)
    }
}

/// Three agents that drift. `a` and `c` act in even steps, `b` in odd ones; `a` is done in step 7, and the others are cut in step
/// 12.
struct Turns {
    drifts: [Drift<i64>; 3],
    t: usize,
}

impl Turns {
    const ENDS: [usize; 3] = [7, 12, 12];

    fn new() -> Self {
        Self { drifts: [(); 3].map(|()| Drift::new(Space::discrete(3))), t: 0 }
    }

    fn acts(&self, agent: usize) -> bool {
        self.t < Self::ENDS[agent] && (self.t % 2 == 1) == (agent == 1)
    }

    fn write(&self, out: MultiAgentOut<'_, f32>) {
        for (agent, drift) in self.drifts.iter().enumerate() {
            let end = Self::ENDS[agent];
            let sees = if self.t <= end { drift.at } else { [0.0; WIDTH] };
            out.obs[WIDTH * agent..][..WIDTH].copy_from_slice(&sees);
            out.rewards[agent] =
                if (1..=end).contains(&self.t) { 1.0 - f64::from(drift.at[agent]) } else { 0.0 };
            out.terminated[agent] = self.t == end && agent == 0;
            out.truncated[agent] = self.t == end && agent != 0;
            out.alive[agent] = self.t < end;
            out.acting[agent] = self.acts(agent);
        }
    }
}

impl MultiAgentEnv for Turns {
    type Obs = f32;
    type Act = i64;

    fn agents(&self) -> Vec<String> {
        ["a", "b", "c"].map(String::from).to_vec()
    }

    fn observation_space(&self, _agent: usize) -> Space {
        Space::real(&[WIDTH])
    }

    fn action_space(&self, agent: usize) -> Space {
        self.drifts[agent].actions.clone()
    }

    fn reset(&mut self, seed: Option<u64>, out: MultiAgentOut<'_, f32>) -> envs::Result<()> {
        self.t = 0;
        for (agent, drift) in self.drifts.iter_mut().enumerate() {
            drift.restart(seed.map(|seed| seed.wrapping_add(agent as u64)));
        }
        self.write(out);
        Ok(())
    }

    fn step(&mut self, actions: &[i64], out: MultiAgentOut<'_, f32>) -> envs::Result<()> {
        for (agent, action) in actions.iter().enumerate() {
            if self.acts(agent) {
                self.check_action(agent, &actions[agent..=agent])?;
                self.drifts[agent].drift(0.1 * (action - 1) as f32);
            }
        }
        self.t += 1;
        self.write(out);
        Ok(())
    }
}
