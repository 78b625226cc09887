//! Native environments right at their bounds and one ulp beside them, where a constant that is off by one ulp shows.
//!
//! Numbers are those of the source of Gymnasium 1.4 and mpe2 1.1, written again here. States are chosen so that no
//! sine or logarithm decides, or so that it cancels: the tests hold with every C library.

use pavlov_envs::{
    Env, MultiAgentEnv, MultiAgentRows, NpRandom, Space,
    native::{
        Acrobot, AcrobotConfig, Blackjack, BlackjackConfig, CartPole, CartPoleConfig, MountainCar,
        MountainCarConfig, MountainCarContinuous, MountainCarContinuousConfig, ParticleAction, Pendulum,
        PendulumConfig, SimpleSpread, SimpleSpreadConfig, Taxi, TaxiConfig,
    },
};

use crate::{
    fixture::Fixture,
    states::{Particles, edited, fields},
};

/// State, reward and `terminated` after one step from a state.
macro_rules! step {
    ($env:ident($config:expr), $state:expr, $action:expr) => {{
        let mut env = $env::new($config);
        env.set_state($state);
        let mut obs = [0.0; 6];
        let width = env.observation_space().width();
        let step = env.step(&[$action], &mut obs[..width]).unwrap();
        assert!(!step.truncated);
        (env.state(), step.reward, step.terminated)
    }};
}

/// Whether a space has these bounds: single-precision numbers, as Gymnasium keeps them.
fn assert_bounds(space: &Space, low: &[f32], high: &[f32]) {
    let wide = |bound: &[f32]| bound.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
    assert_eq!(*space, Space::bounded(&wide(low), &wide(high)).unwrap());
}

/// Whether a space has these bounds and their negatives.
fn assert_symmetric(space: &Space, high: &[f32]) {
    assert_bounds(space, &high.iter().map(|x| -x).collect::<Vec<_>>(), high);
}

/// `x_threshold = 2.4`, `theta_threshold_radians = 12 * 2 * math.pi / 360`; at rest neither moves in one step.
#[test]
fn cartpole_falls_one_ulp_beyond_its_thresholds() {
    const THETA: f64 = 0.209_439_510_239_319_53;
    for sign in [1.0, -1.0] {
        for (x, theta, fallen) in [
            (2.4, 0.0, false),
            (2.4_f64.next_up(), 0.0, true),
            (0.0, THETA, false),
            (0.0, THETA.next_up(), true),
        ] {
            let config = CartPoleConfig { sutton_barto_reward: true };
            let (state, reward, terminated) = step!(CartPole(config), [sign * x, 0.0, sign * theta, 0.0], 1);
            assert_eq!((state[0], state[2]), (sign * x, sign * theta));
            assert_eq!((reward, terminated), (if fallen { -1.0 } else { 0.0 }, fallen), "{x}, {theta}");
        }
    }
    let space = CartPole::new(CartPoleConfig::default()).observation_space();
    assert_symmetric(&space, &[4.8, f32::INFINITY, 0.418_879_03, f32::INFINITY]);
}

/// `goal_position = 0.5`; a car whose speed is what gravity takes stops, and stays where it is.
#[test]
fn mountain_car_arrives_at_its_goal_and_not_one_ulp_before() {
    let config = MountainCarConfig::default;
    for (position, arrived) in [(0.5, true), (0.5_f64.next_down(), false)] {
        let speed = (3.0 * position).cos() * 0.0025;
        let end = step!(MountainCar(config()), [position, speed], 1);
        assert_eq!(end, ([position, 0.0], -1.0, arrived));
    }
    let ([_, speed], _, arrived) = step!(MountainCar(config()), [0.52, 0.03], 2);
    assert!(arrived);
    for (goal_velocity, arrived) in [(speed, true), (speed.next_up(), false)] {
        assert_eq!(step!(MountainCar(MountainCarConfig { goal_velocity }), [0.52, 0.03], 2).2, arrived);
    }
}

/// `min_position = -1.2`, `max_position = 0.6`, `max_speed = 0.07`, `force = 0.001`, `gravity = 0.0025`; the cosine
/// of 0 is 1.
#[test]
fn mountain_car_is_as_fast_and_as_far_out_as_its_bounds() {
    let step = |position: f64, speed: f64, action| {
        step!(MountainCar(MountainCarConfig::default()), [position, speed], action).0
    };
    assert_eq!(step(-1.0, 0.07, 2), [-1.0 + 0.07, 0.07]);
    assert_eq!(step(0.0, -0.07, 0), [-0.07, -0.07]);
    assert_eq!(step(0.59, 0.07, 2)[0], 0.6);
    assert_eq!(step(-1.19, -0.07, 0), [-1.2, 0.0]);
    for (action, push) in [(0, -0.001), (1, 0.0), (2, 0.001)] {
        assert_eq!(step(0.0, 0.0, action), [push - 0.0025, push - 0.0025]);
    }
    for space in [
        MountainCar::new(MountainCarConfig::default()).observation_space(),
        MountainCarContinuous::new(MountainCarContinuousConfig::default()).observation_space(),
    ] {
        assert_bounds(&space, &[-1.2, -0.07], &[0.6, 0.07]);
    }
}

/// `goal_position = 0.45`, `power = 0.0015`, `max_speed = 0.07`: in double precision in the first step, in single
/// precision from then on.
#[test]
fn mountain_car_continuous_arrives_at_its_goal_and_not_one_ulp_before() {
    let config = MountainCarContinuousConfig::default;
    let pull = |position: f64| 0.0025 * (3.0 * position).cos();
    for (position, arrived) in [(0.45, true), (0.45_f64.next_down(), false)] {
        let speed = f64::from(pull(position) as f32);
        let (_, reward, terminated) = step!(MountainCarContinuous(config()), [position, speed, 0.0], 0.0);
        assert_eq!((reward, terminated), (if arrived { 100.0 } else { 0.0 }, arrived), "{position}");
    }
    for (position, arrived) in [(0.45_f32, true), (0.45_f32.next_down(), false)] {
        let angle = f64::from((3.0 * f64::from(position)) as f32);
        let start = [f64::from(position), f64::from((0.0025 * angle.cos()) as f32), 1.0];
        let end = step!(MountainCarContinuous(config()), start, 0.0);
        assert_eq!((end.0, end.2), ([f64::from(position), 0.0, 1.0], arrived));
    }
    // A force that is cut is a Python float, and so is the greatest speed.
    let pushed = 0.0015 - pull(0.5);
    for (start, action, speed) in [(0.0, 2.0, pushed), (0.07, 1.0, 0.07)] {
        for (goal_velocity, arrived) in [(speed, true), (speed.next_up(), false)] {
            let config = MountainCarContinuousConfig { goal_velocity };
            assert_eq!(step!(MountainCarContinuous(config), [0.5, start, 0.0], action).2, arrived, "{speed}");
        }
    }
    // One step from where the cosine is 1: a force that is not cut is a single-precision number, and so is the push.
    for (action, speed) in [
        (1.0_f32, 0.0015_f32 - 0.0025),
        (-1.0, -0.0015 - 0.0025),
        (1.0_f32.next_up(), -0.001),
        ((-1.0_f32).next_down(), -0.004),
        (1.5, -0.001),
    ] {
        let reward = -(f64::from(action) * f64::from(action) * 0.1);
        let end = step!(MountainCarContinuous(config()), [0.0, 0.0, 1.0], action);
        assert_eq!((end.0[1], end.1), (f64::from(speed), reward), "{action}");
    }
    assert_symmetric(&MountainCarContinuous::new(config()).action_space(), &[1.0]);
}

#[test]
fn actions_outside_the_spaces_are_refused() {
    macro_rules! refuses {
        ($env:ident($config:ident), $width:literal, $actions:expr) => {
            let mut env = $env::new($config::default());
            env.reset(Some(0), &mut [0.0; $width]).unwrap();
            for action in $actions {
                assert!(env.step(&[action], &mut [0.0; $width]).is_err(), "{action}");
            }
        };
    }
    refuses!(CartPole(CartPoleConfig), 4, [-1, 2, i64::MIN]);
    refuses!(MountainCar(MountainCarConfig), 2, [-1, 3]);
    refuses!(Acrobot(AcrobotConfig), 6, [-1, 3]);
    refuses!(MountainCarContinuous(MountainCarContinuousConfig), 2, [f32::NAN, f32::INFINITY]);
    refuses!(Pendulum(PendulumConfig), 3, [f32::NAN, f32::NEG_INFINITY]);
}

/// `max_speed = 8`, `max_torque = 2.0`, `dt = 0.05`, `g = 10.0`, costs `0.1 * thdot**2 + 0.001 * u**2`.
#[test]
fn pendulum_cuts_speed_and_torque_at_their_bounds() {
    let config = PendulumConfig::default;
    for (action, torque) in [
        (2.0, 2.0),
        (2.0_f32.next_up(), 2.0),
        (2.0_f32.next_down(), 2.0_f32.next_down()),
        (-2.0, -2.0),
        ((-2.0_f32).next_down(), -2.0),
    ] {
        let (state, reward, _) = step!(Pendulum(config()), [0.0, 0.0, 0.0], action);
        assert_eq!(state[2], f64::from(torque));
        assert_eq!(state[1], f64::from(3.0 * torque) * 0.05);
        assert_eq!(reward, -f64::from(0.001 * (torque * torque)));
    }
    for speed in [8.0, -8.0] {
        let (state, reward, _) = step!(Pendulum(config()), [0.0, speed, 0.0], speed as f32);
        assert_eq!(state[..2], [speed * 0.05, speed]);
        // 0.1 * 8**2 and the single-precision 0.001 * 2**2.
        assert_eq!(reward, -(6.4 + f64::from(0.004_f32)));
    }
    // The sine of pi / 2 is 1.
    let (state, ..) = step!(Pendulum(config()), [std::f64::consts::FRAC_PI_2, 0.0, 0.0], 0.0);
    assert_eq!(state[1], 15.0 * 0.05);
    let mut pendulum = Pendulum::new(config());
    assert_symmetric(&pendulum.observation_space(), &[1.0, 1.0, 8.0]);
    assert_symmetric(&pendulum.action_space(), &[2.0]);
    pendulum.reset(Some(0), &mut [0.0; 3]).unwrap();
    assert_eq!(pendulum.state()[2], 0.0, "no torque yet");
}

/// `MAX_VEL_1 = 4 * pi`, `MAX_VEL_2 = 9 * pi`.
#[test]
fn acrobot_is_at_most_as_fast_as_its_bounds_and_reaches_them() {
    const MOST: [f64; 2] = [12.566_370_614_359_172, 28.274_333_882_308_138];
    let angles = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5];
    let mut reached = [[f64::INFINITY, f64::NEG_INFINITY]; 2];
    for start in angles.iter().flat_map(|&upper| angles.map(|lower| [upper, lower])) {
        for sign in [-1.0, 1.0] {
            let state = [start[0], start[1], sign * MOST[0], sign * MOST[1]];
            let (end, ..) = step!(Acrobot(AcrobotConfig::default()), state, 1);
            for ([least, most], &speed) in reached.iter_mut().zip(&end[2..]) {
                *least = least.min(speed);
                *most = most.max(speed);
            }
        }
    }
    assert_eq!(reached, MOST.map(|most| [-most, most]));
    let space = Acrobot::new(AcrobotConfig::default()).observation_space();
    assert_symmetric(&space, &[1.0, 1.0, 1.0, 1.0, MOST[0] as f32, MOST[1] as f32]);
}

/// `-cos(s[0]) - cos(s[1] + s[0]) > 1.0`.
#[test]
fn acrobot_ends_one_ulp_above_its_height_and_not_at_it() {
    let swing = |upper: f64, lower: f64| {
        let ([upper, lower, ..], reward, terminated) =
            step!(Acrobot(AcrobotConfig::default()), [upper, lower, 0.0, 0.0], 1);
        assert_eq!(reward, if terminated { 0.0 } else { -1.0 });
        (-upper.cos() - (lower + upper).cos(), terminated)
    };
    let mut ends = vec![];
    for lower in (0..20).map(|i| f64::from(i) / 100.0) {
        // Let go at rest, the tip is at 1 m one step after the upper link was between these angles.
        let mut below = 2.0_f64;
        let mut above = 2.5_f64;
        assert!(swing(below, lower).0 < 1.0 && swing(above, lower).0 > 1.0);
        while below.next_up() < above {
            let middle = (below + above) / 2.0;
            *(if swing(middle, lower).0 > 1.0 { &mut above } else { &mut below }) = middle;
        }
        let near = (-50..50_i64).map(|ulps| f64::from_bits(below.to_bits().wrapping_add_signed(ulps)));
        ends.extend(near.map(|upper| swing(upper, lower)));
    }
    for height in [1.0_f64, 1.0_f64.next_up()] {
        assert!(ends.iter().any(|end| end.0 == height), "no angle gives {height}");
    }
    for (height, terminated) in ends {
        assert_eq!(terminated, height > 1.0, "{height}");
    }
}

/// Numpy's single-precision sines, of the angles at the start only, are polynomials of this crate.
#[test]
fn acrobot_starts_have_the_bits_of_numpys_single_precision_sines() {
    let row = &Fixture::open("acrobot_starts.jsonl").rows[0];
    let mut env = Acrobot::new(AcrobotConfig::default());
    let mut obs = [0.0; 6];
    let mut digest = 0_u64;
    for seed in 0..row["seeds"].as_u64().unwrap() {
        env.reset(Some(seed), &mut obs).unwrap();
        for sine in &obs[..4] {
            digest = digest.wrapping_mul(31).wrapping_add(u64::from(sine.to_bits()));
        }
    }
    assert_eq!(digest, row["digest"].as_u64().unwrap());
}

/// `rainy_probability: float = 0.8`, `fickle_probability: float = 0.3`; Blackjack sticks or takes a card.
#[test]
fn defaults_and_spaces_of_toy_text_are_gymnasiums() {
    let taxi = TaxiConfig::default();
    assert_eq!((taxi.rainy_probability, taxi.fickle_probability), (0.8, 0.3));
    for probability in [0.0_f64.next_down(), 1.0_f64.next_up()] {
        assert!(Taxi::new(TaxiConfig { rainy_probability: probability, ..taxi }).is_err());
    }
    for probability in [0.0, 1.0] {
        assert!(Taxi::new(TaxiConfig { rainy_probability: probability, ..taxi }).is_ok());
    }
    let blackjack = Blackjack::new(BlackjackConfig::default());
    assert_eq!(blackjack.action_space(), Space::discrete(2));
    let parts = [32, 11, 2].map(Space::discrete);
    assert_eq!(blackjack.observation_space(), Space::Tuple(parts.into()));
}

/// Position and velocity.
type Body = [[f64; 2]; 2];

/// Bodies, rewards and the flag of the first agent after one step of two agents from given bodies.
fn spread<A: ParticleAction>(
    config: SimpleSpreadConfig,
    bodies: [Body; 2],
    landmarks: [[f64; 2]; 2],
    actions: &[A],
) -> ([Body; 2], Vec<f64>, bool) {
    let mut env = SimpleSpread::<A>::new(SimpleSpreadConfig { n: 2, ..config }).unwrap();
    let mut rows = MultiAgentRows::new(&env);
    env.reset(Some(0), rows.out()).unwrap();
    let state = env.save_state().unwrap();
    let placed = edited(&state, |(_, _, agents, positions, ..): &mut Particles| {
        for (agent, [position, velocity]) in agents.iter_mut().zip(bodies) {
            agent.0 = position;
            agent.1 = velocity;
        }
        positions.copy_from_slice(&landmarks);
    });
    env.load_state(&placed).unwrap();
    env.step(actions, rows.out()).unwrap();
    let (_, _, agents, ..): Particles = fields(&env.save_state().unwrap());
    let body = |i: usize| [agents[i].0, agents[i].1];
    ([body(0), body(1)], rows.rewards.clone(), rows.terminated[0])
}

const FAR: [f64; 2] = [9.0, 9.0];
const STILL: [f64; 2] = [0.0, 0.0];

/// `CAPTURE_RADIUS = 0.1`: a landmark is covered when the nearest agent is less than that away.
#[test]
fn simple_spread_is_done_one_ulp_inside_the_capture_radius() {
    let config = SimpleSpreadConfig { terminate_on_success: true, local_ratio: 0.0, ..Default::default() };
    for (distance, done) in [(0.1, false), (0.1_f64.next_down(), true), (0.0, true)] {
        let bodies = [[[distance, 0.0], STILL], [FAR, STILL]];
        let (_, rewards, terminated) = spread(config, bodies, [[0.0; 2]; 2], &[0_i64, 0]);
        // Two landmarks in one place.
        assert_eq!((rewards, terminated), (vec![-2.0 * distance; 2], done));
    }
}

/// Agents of `size = 0.15` touch at 0.3; `contact_force = 1e2`, `contact_margin = 1e-3`. Velocities are what mpe2
/// 1.1.1 gave for these positions.
#[test]
fn simple_spread_agents_collide_one_ulp_nearer_than_their_sizes() {
    let config = SimpleSpreadConfig::default();
    let apart = |at: [f64; 2]| {
        let (bodies, rewards, _) =
            spread(config, [[[0.0; 2], STILL], [at, STILL]], [[0.0; 2]; 2], &[0_i64, 0]);
        assert_eq!([bodies[0][0], bodies[1][0]], [[0.0; 2], at]);
        assert_eq!(bodies[0][1], bodies[1][1].map(|x| -x));
        (bodies[1][1], rewards[0])
    };
    // log(1 + exp(0)) is log(2): no exponential is rounded.
    assert_eq!(apart([0.3, 0.0]), ([0.006_931_471_805_599_454, 0.0], 0.0));
    assert_eq!(apart([0.3_f64.next_down(), 0.0]).1, -0.5);
    // So deep that the exponential does not count.
    for (distance, speed) in [
        (0.08, 2.199_999_999_999_999_7),
        (0.1, 2.0),
        (0.11, 1.900_000_000_000_000_1),
        (0.18, 1.200_000_000_000_000_2),
    ] {
        assert_eq!(apart([0.0, distance]), ([0.0, speed], -0.5));
    }
}

/// `dt = 0.1`, `damping = 0.25`, `sensitivity = 5.0`, `mass = 1.0`; velocities are what mpe2 1.1.1 gave.
#[test]
fn simple_spread_agents_move_and_slow_down() {
    let config = SimpleSpreadConfig::default();
    let bodies = [[[0.0, 0.0], [0.7, -0.3]], [FAR, [0.11, 1.3]]];
    let (bodies, ..) = spread(config, bodies, [[0.0; 2]; 2], &[2_i64, 3]);
    assert_eq!(bodies[0], [[0.069_999_999_999_999_99, -0.03], [1.025, -0.224_999_999_999_999_98]]);
    assert_eq!(bodies[1], [[9.011, 9.13], [0.0825, 0.475_000_000_000_000_1]]);
    let at_rest = [[[0.0, 0.0], STILL], [FAR, STILL]];
    for (actions, first, second) in [([1_i64, 4], [-0.5, 0.0], [0.0, 0.5]), ([2, 3], [0.5, 0.0], [0.0, -0.5])]
    {
        let (bodies, ..) = spread(config, at_rest, [[0.0; 2]; 2], &actions);
        assert_eq!([bodies[0][1], bodies[1][1]], [first, second]);
    }
    let actions = [0.0_f32, 0.0, 1.0, 0.5, 1.0, 0.0, 1.0, 0.0, 0.0, 0.25];
    let (bodies, ..) = spread(config, at_rest, [[0.0; 2]; 2], &actions);
    assert_eq!([bodies[0][1], bodies[1][1]], [[0.5, 0.25], [-0.5, 0.125]]);
    let env = SimpleSpread::<f32>::new(config).unwrap();
    assert_bounds(&env.action_space(0), &[0.0; 5], &[1.0; 5]);
    assert_eq!(env.curriculum_stage(), 0);
}

/// `np_random.uniform(-1, +1, world.dim_p)`: numpy's `low + (high - low) * random()`, agents before landmarks.
#[test]
fn simple_spread_starts_have_the_bits_of_numpys_doubles() {
    let mut env = SimpleSpread::<i64>::new(SimpleSpreadConfig { n: 2, ..Default::default() }).unwrap();
    let mut rows = MultiAgentRows::new(&env);
    env.reset(Some(0), rows.out()).unwrap();
    let (_, _, agents, landmarks, ..): Particles = fields(&env.save_state().unwrap());
    let agents = agents.iter().flat_map(|agent| [agent.0, agent.1]);
    let found: Vec<f64> = agents.chain(landmarks).flatten().collect();
    let mut random = NpRandom::new(0);
    let mut next = || -1.0 + 2.0 * random.random();
    let first = [next(), next()];
    let second = [next(), next()];
    let landmarks = [next(), next(), next(), next()];
    assert_eq!(found, [&first[..], &STILL, &second, &STILL, &landmarks].concat());
    let below = SimpleSpreadConfig { local_ratio: 0.0_f64.next_down(), ..Default::default() };
    let above = SimpleSpreadConfig { local_ratio: 1.0_f64.next_up(), ..Default::default() };
    assert!([below, above].iter().all(|&config| SimpleSpread::<i64>::new(config).is_err()));
}
