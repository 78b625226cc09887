//! Recurrent layers: libtorch's own formulas, episodes that begin within sequences, and what acting and learning agree on.

use pavlov::prelude::*;
use pavlov::torch::{Device, Kind, Tensor};
use pavlov::trainer::Callbacks;
use pavlov::trainer::batch::{Column, SampleBatch, TrainBatch};
use pavlov::trainer::learner::{Learner, Loss, Rows};
use pavlov::trainer::models::{NetBuilder, PolicySpec, Recurrent, Rule};
use pavlov::trainer::plan::minibatches;
use pavlov::trainer::rng::Stream;
use pavlov::trainer::state::State;
use pulp::Arch;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::support::{
    assert_close, bytes, discrete_spaces, floats, number, numbers, on_threads, quiet, spec, tiny_ppo,
    worker_set,
};

const INPUTS: usize = 3;
const UNITS: usize = 4;

/// Cell and engine: whether it is an LSTM, and whether the fused engine runs it.
const KINDS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

/// A recurrent layer of [`UNITS`] units whose biases are not zero, and the learner around it.
fn recurrent((lstm, fused): (bool, bool)) -> (Recurrent, Learner) {
    recurrent_of(UNITS, (lstm, fused))
}

fn recurrent_of(units: usize, (lstm, fused): (bool, bool)) -> (Recurrent, Learner) {
    let spec = PolicySpec { seed: 3, ..spec(&discrete_spaces(INPUTS, 2), fused) };
    let mut net = NetBuilder::new(&spec);
    let lay_out = |net: &mut NetBuilder<'_>| {
        Ok(if lstm { net.lstm("layer", INPUTS, units) } else { net.gru("layer", INPUTS, units) })
    };
    let (_, layer) = net.group("all", Rule::adam(1e-3, 1e-8), lay_out).expect("a layer");
    let mut learner = net.finish().expect("a learner");
    let mut rng = Stream::new(1, "biases", 0);
    let mut weights = State::default();
    for name in learner.weights().array_names() {
        let old = learner.weights().tensor(name).expect("a parameter");
        let noise: Vec<f32> = (0..old.numel()).map(|_| 0.3 * rng.normal()).collect();
        weights.set_tensor(
            name,
            &(old.shallow_clone() + Tensor::from_slice(&noise).view(old.size().as_slice())),
        );
    }
    learner.set_weights(&weights).expect("weights that fit");
    (layer, learner)
}

fn normal(rng: &mut Stream, shape: &[i64]) -> Tensor {
    let n = shape.iter().product::<i64>();
    Tensor::from_slice(&(0..n).map(|_| rng.normal()).collect::<Vec<f32>>()).view(shape)
}

/// Sequences of these lengths; episodes begin at the rows in `begin`.
fn batch(lengths: &[usize], width: usize, begin: &[usize]) -> SampleBatch {
    let mut rng = Stream::new(2, "rows", 0);
    let rows = lengths.iter().sum::<usize>();
    let resets: Vec<f32> = (0..rows).map(|row| f32::from(begin.contains(&row))).collect();
    SampleBatch::default()
        .with(Column::OBS, normal(&mut rng, &[rows as i64, INPUTS as i64]))
        .with_f32s(Column::RESETS, &resets)
        .with_sequences(
            lengths.to_vec(),
            Column::STATE_IN,
            normal(&mut rng, &[lengths.len() as i64, width as i64]),
        )
}

/// The layer's first unit at every row.
fn outputs(layer: Recurrent, learner: &mut Learner, batch: &SampleBatch) -> Vec<f64> {
    let first = learner.per_row(batch, |rows| Ok(layer.on(rows.online(), rows.obs()?.obs()).narrow(0, 1)));
    first.expect("numbers").iter().map(|&x| f64::from(x)).collect()
}

#[test]
fn every_row_has_its_share_of_the_gradient_whatever_its_minibatch() {
    // The mean over minibatches of their gradients is the gradient of the whole batch: no row is left out, and none
    // weighs more because its minibatch is short.
    let layouts: [&[usize]; 5] = [
        &[20, 20, 10, 20, 20, 10],
        &[20, 20, 20, 20, 20, 20, 8],
        &[6, 6, 6, 2, 6, 6, 6, 2],
        &[20, 1],
        &[7, 1, 1, 20, 3],
    ];
    for (lengths, kind) in layouts.into_iter().flat_map(|lengths| KINDS.map(|kind| (lengths, kind))) {
        let (layer, mut learner) = recurrent(kind);
        let all = batch(lengths, if kind.0 { 2 * UNITS } else { UNITS }, &[3, 11]);
        let mut gradient_of = |rows: &SampleBatch| {
            let squares = learner.gradient(rows, |rows: &Rows<'_>| {
                Ok(Loss::new(layer.on(rows.online(), rows.obs()?.obs()).narrow(0, 1).square().mean()))
            });
            squares.expect("a gradient");
            learner.last_gradient().iter().map(|&x| f64::from(x)).collect::<Vec<_>>()
        };
        let whole = gradient_of(&all);
        for size in [1, 6, 13, 20, 32, 1000] {
            let parts = minibatches(&all, size);
            let gradients: Vec<Vec<f64>> = parts.iter().map(&mut gradient_of).collect();
            let mean: Vec<f64> = (0..whole.len())
                .map(|i| gradients.iter().map(|gradient| gradient[i]).sum::<f64>() / parts.len() as f64)
                .collect();
            assert_close(&mean, &whole, 1e-6);
        }
    }
}

/// The rows that a policy learned from, by the bits of what it observed: how often each.
#[derive(Clone, Default)]
struct Learned(Arc<Mutex<BTreeMap<Vec<u32>, usize>>>);

impl Callbacks for Learned {
    fn on_learn_on_batch(
        &mut self,
        _: &str,
        batch: &SampleBatch,
        _: &mut BTreeMap<String, f64>,
    ) -> Result<()> {
        let obs = batch.array::<f32>(Column::OBS)?;
        let mut seen = self.0.lock().expect("rows");
        for row in obs.outer_iter() {
            *seen.entry(row.iter().map(|x| x.to_bits()).collect()).or_default() += 1;
        }
        Ok(())
    }
}

#[test]
fn ppo_and_impala_learn_from_every_row_once_a_pass_whatever_the_sizes() {
    // Copies, steps of a fragment, longest sequence, rows of a minibatch. Before, the rows learned from in a pass were 420
    // of 500 (IMPALA's defaults), 120 of 128 (RecurrentPPO's), 936 of 1024, 32 of 40, 828 of 1024 and 70 of 100.
    let ppo = [
        (1, 128, 20, 128),
        (8, 128, 20, 1024),
        (2, 20, 6, 40),
        (1, 21, 20, 21),
        (16, 64, 20, 1024),
        (4, 25, 20, 100),
    ];
    let more = [(4, 25, 20, 30), (3, 50, 7, 64), (1, 128, 128, 64), (2, 64, 20, 128)];
    for (copies, steps, max_seq_len, minibatch) in ppo.into_iter().chain(more) {
        let mut ppo = Ppo { sgd_minibatch_size: minibatch, num_sgd_iter: 3, ..tiny_ppo() };
        let common = &mut ppo.common;
        common.train_batch_size = copies * steps;
        common.num_workers = 0;
        assert_learns_from_all(ppo, (copies, steps, max_seq_len), 3);
    }
    for (copies, steps, max_seq_len) in [(1, 50, 20), (3, 50, 20), (2, 21, 20), (5, 10, 20), (4, 25, 20)] {
        let mut impala = Impala { num_sgd_iter: 2, ..Impala::default() };
        let common = &mut impala.common;
        common.train_batch_size = 10 / copies.min(10) * copies * steps;
        common.num_workers = 0;
        assert_learns_from_all(impala, (copies, steps, max_seq_len), 2);
    }
}

#[track_caller]
fn assert_learns_from_all<T: Trainer>(
    mut settings: T,
    (copies, steps, max_seq_len): (usize, usize, usize),
    passes: usize,
) {
    let learned = Learned::default();
    let common = settings.common_mut();
    common.num_envs_per_worker = copies;
    common.rollout_fragment_length = steps;
    common.min_sample_timesteps_per_reporting = None;
    common.model.fcnet_hiddens = vec![4];
    common.model.use_lstm = true;
    common.model.lstm_cell_size = 3;
    common.model.max_seq_len = max_seq_len;
    let rows = common.train_batch_size;
    let hook = learned.clone();
    let builder = settings.builder("CartPole-v1").loggers(LoggerChoice::None).callbacks(move || hook.clone());
    let mut driver = builder.build().expect("a driver");
    let result = driver.train().expect("a result");
    let seen = learned.0.lock().expect("rows");
    let sizes = format!("{copies} copies x {steps} steps, sequences of {max_seq_len}");
    assert_eq!(seen.len(), rows, "{sizes}");
    assert!(seen.values().all(|&times| times == passes), "{sizes}");
    assert_eq!(number(&result, "num_agent_steps_trained"), rows as f64, "{sizes}");
}

#[test]
fn a_recurrent_layer_computes_what_libtorchs_does() {
    for (lstm, fused) in KINDS {
        let (layer, mut learner) = recurrent((lstm, fused));
        let width = if lstm { 2 * UNITS } else { UNITS };
        let batch = batch(&[5, 5, 5], width, &[]);
        let weights = learner.weights();
        let named = |name: &str| weights.tensor(&format!("layer.{name}")).expect("a parameter");
        let flat = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"].map(named);
        let x = batch.get(Column::OBS).expect("rows").to_tensor().view([3, 5, INPUTS as i64]);
        let state = batch.get(Column::STATE_IN).expect("memory").to_tensor().unsqueeze(0);
        let h = state.narrow(2, 0, UNITS as i64).contiguous();
        let wanted = if lstm {
            let c = state.narrow(2, UNITS as i64, UNITS as i64).contiguous();
            x.lstm(&[h, c], &flat, true, 1, 0.0, false, false, true).0
        } else {
            x.gru(&h, &flat, true, 1, 0.0, false, false, true).0
        };
        let wanted = floats(&wanted.reshape([15, UNITS as i64]).narrow(1, 0, 1));
        assert_close(&outputs(layer, &mut learner, &batch), &wanted, 1e-6);
    }
}

#[test]
fn an_episode_that_begins_within_a_sequence_begins_with_nothing_remembered() {
    for (lstm, fused) in KINDS {
        let (layer, mut learner) = recurrent((lstm, fused));
        let width = if lstm { 2 * UNITS } else { UNITS };
        let whole = batch(&[6], width, &[4]);
        let apart = |start: i64, len: usize, memory: Tensor| {
            let obs = whole.get(Column::OBS).expect("rows").to_tensor().narrow(0, start, len as i64);
            SampleBatch::default()
                .with(Column::OBS, obs)
                .with_f32s(Column::RESETS, &vec![0.0; len])
                .with_sequences(vec![len], Column::STATE_IN, memory)
        };
        let before = apart(0, 4, whole.get(Column::STATE_IN).expect("memory").to_tensor());
        let after = apart(4, 2, Tensor::zeros([1, width as i64], (Kind::Float, Device::Cpu)));
        let wanted = [outputs(layer, &mut learner, &before), outputs(layer, &mut learner, &after)].concat();
        assert_close(&outputs(layer, &mut learner, &whole), &wanted, 1e-6);
    }
}

#[test]
fn sequences_of_several_lengths_are_what_each_is_alone() {
    for fused in [false, true] {
        let (layer, mut learner) = recurrent((false, fused));
        let all = batch(&[4, 2, 3], UNITS, &[5]);
        let alone: Vec<f64> = [(0, 4), (4, 2), (6, 3)]
            .into_iter()
            .flat_map(|(start, len)| outputs(layer, &mut learner, &all.slice(start, len)))
            .collect();
        assert_close(&outputs(layer, &mut learner, &all), &alone, if fused { 0.0 } else { 1e-6 });
    }
}

/// The square of what the layer says, weighted differently in every row.
fn gradient(layer: Recurrent, learner: &mut Learner, batch: &SampleBatch) -> Vec<f64> {
    let report = learner.gradient(batch, |rows| {
        let x = layer.on(rows.online(), rows.obs()?.obs());
        Ok(Loss::sum([("loss", (x * rows.get(Column::REWARDS)?).square().mean())]))
    });
    report.expect("a gradient");
    floats(learner.last_gradient())
}

/// Many sequences, some of which are shorter; episodes begin here and there.
fn many(sequences: usize, width: usize) -> SampleBatch {
    let lengths: Vec<usize> = (0..sequences).map(|i| if i % 7 == 3 { 2 + i % 5 } else { 9 }).collect();
    let rows = lengths.iter().sum::<usize>();
    let begin: Vec<usize> = (0..rows).filter(|row| row % 13 == 5).collect();
    let weights: Vec<f32> = (0..rows).map(|row| (row % 11) as f32 / 5.0 - 1.0).collect();
    batch(&lengths, width, &begin).with_f32s(Column::REWARDS, &weights)
}

#[test]
fn the_fused_engines_gradient_through_time_is_libtorchs_and_has_the_same_bits_on_any_processor() {
    // Units that fill the vectors and units that do not; one sequence, a few, and more than a piece has.
    for (units, lstm) in [(UNITS, false), (UNITS, true), (16, false), (32, true)] {
        for sequences in [1, 5, 40] {
            let batch = many(sequences, if lstm { 2 * units } else { units });
            // Libtorch, then the fused engine with the widest vectors, and with one number at a time.
            let engines = [(false, Arch::new()), (true, Arch::new()), (true, Arch::Scalar)];
            let [torch, fused, scalar] = engines.map(|(fused, arch)| {
                let (layer, mut learner) = recurrent_of(units, (lstm, fused));
                learner.set_arch(arch);
                gradient(layer, &mut learner, &batch)
            });
            let largest = torch.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
            assert!(largest > 1e-3, "there is a gradient: {largest}");
            assert_close(&fused, &torch, 1e-4 * largest);
            assert!(
                scalar == fused,
                "another processor computes other bits: {units} units, {sequences} sequences"
            );
        }
    }
}

#[test]
fn the_fused_engine_computes_the_same_bits_through_time_on_any_number_of_threads() {
    for lstm in [false, true] {
        let [one, four] = [1, 4].map(|threads| {
            on_threads(threads, || {
                let batch = many(150, if lstm { 32 } else { 16 });
                let (layer, mut learner) = recurrent_of(16, (lstm, true));
                (gradient(layer, &mut learner, &batch), outputs(layer, &mut learner, &batch))
            })
        });
        assert!(one == four);
    }
}

#[test]
fn step_by_step_the_fused_engine_says_to_the_last_digit_what_it_says_of_whole_sequences() {
    // What a gated recurrent unit remembers is what it says.
    let (layer, mut learner) = recurrent((false, true));
    let said = |learner: &mut Learner, batch: &SampleBatch| -> [Vec<f64>; UNITS] {
        std::array::from_fn(|unit| {
            let numbers =
                learner.per_row(batch, |rows| Ok(layer.on(rows.online(), rows.obs()?.obs()).narrow(unit, 1)));
            numbers.expect("numbers").iter().map(|&x| f64::from(x)).collect()
        })
    };
    let all = batch(&[6, 6, 6], UNITS, &[3, 8]);
    let wanted = said(&mut learner, &all);
    let obs = all.get(Column::OBS).expect("rows").to_tensor();
    let resets = all.get(Column::RESETS).expect("resets").to_tensor();
    let mut memory = all.get(Column::STATE_IN).expect("memory").to_tensor();
    for t in 0..6 {
        let rows = Tensor::from_slice(&[t, t + 6, t + 12]);
        let step = SampleBatch::default()
            .with(Column::OBS, obs.index_select(0, &rows))
            .with(Column::RESETS, resets.index_select(0, &rows))
            .with_sequences(vec![1; 3], Column::STATE_IN, memory);
        let found = said(&mut learner, &step);
        for (found, wanted) in found.iter().zip(&wanted) {
            assert_eq!(found[..], [0, 6, 12].map(|first| wanted[first + t as usize]));
        }
        let columns: Vec<Tensor> = found.iter().map(|column| Tensor::from_slice(column)).collect();
        memory = Tensor::stack(&columns, 1).to_kind(Kind::Float);
    }
}

#[test]
fn the_gradient_through_time_is_the_slope() {
    for (lstm, fused) in KINDS {
        let (layer, mut learner) = recurrent((lstm, fused));
        let batch = batch(&[4, 3], if lstm { 2 * UNITS } else { UNITS }, &[2]);
        let loss = |learner: &mut Learner| {
            let report = learner
                .gradient(&batch, |rows| {
                    let x = layer.on(rows.online(), rows.obs()?.obs());
                    Ok(Loss::sum([("loss", x.square().mean())]))
                })
                .expect("a gradient");
            report.stats.read("loss").expect("the loss")
        };
        loss(&mut learner);
        let gradient = floats(learner.last_gradient());
        let weights = learner.weights();
        let mut at = 0;
        for name in weights.array_names() {
            let parameter = weights.tensor(name).expect("a parameter");
            let n = parameter.numel();
            // A number in the middle of each parameter, moved up and down.
            let i = n / 2;
            let moved = |by: f64, learner: &mut Learner| {
                let flat = parameter.copy().view([-1]);
                let _ = flat.get(i as i64).g_add_scalar_(by);
                let mut fresh = State::default();
                for known in weights.array_names() {
                    let tensor = if known == name {
                        flat.view(parameter.size().as_slice())
                    } else {
                        weights.tensor(known).expect("a parameter")
                    };
                    fresh.set_tensor(known, &tensor);
                }
                learner.set_weights(&fresh).expect("weights that fit");
                loss(learner)
            };
            let slope = (moved(1e-2, &mut learner) - moved(-1e-2, &mut learner)) / 2e-2;
            assert_close(&[gradient[at + i]], &[slope], 2e-4);
            at += n;
        }
    }
}

/// PPO that remembers, on the CartPole that has to.
fn remembering() -> Ppo {
    let mut ppo = tiny_ppo();
    ppo.common.rollout_fragment_length = 12;
    ppo.common.train_batch_size = 24;
    ppo.sgd_minibatch_size = 12;
    let model = &mut ppo.common.model;
    model.use_gru = true;
    model.lstm_cell_size = 8;
    model.max_seq_len = 5;
    ppo
}

#[test]
fn learning_sees_what_acting_computed() {
    for (lstm, fused) in KINDS {
        let mut ppo = Ppo { kl_coeff: 0.2, num_sgd_iter: 1, sgd_minibatch_size: 24, ..remembering() };
        let model = &mut ppo.common.model;
        model.use_gru = !lstm;
        model.use_lstm = lstm;
        model.fused = fused;
        // Episodes of about 10 steps begin within sequences of 5, and the last of 12 steps has 2.
        let mut trainer = quiet(ppo, "StatelessCartPole-v1").expect("a trainer");
        let result = trainer.train().expect("a result");
        // One step on all rows: the old policy is the new one, so every ratio is 1.
        let kl = number(&result, "info.learner.default_policy.learner_stats.kl");
        assert!(kl == 0.0 || (!fused && kl.abs() < 1e-6), "KL {kl}");
    }
}

#[test]
fn rows_are_sequences_with_what_was_remembered_before_each() {
    let workers = worker_set(&remembering(), "StatelessCartPole-v1").expect("workers");
    let sample = || workers.sample().and_then(TrainBatch::single).expect("a fragment");
    let first = sample();
    let second = sample();
    assert_eq!(first.sequences(), Some(&[5, 5, 2, 5, 5, 2][..]));
    let memory = numbers(&first, Column::STATE_IN);
    assert_eq!(memory.len(), 6 * 8);
    // Two copies begin their first episodes, then remember.
    assert!(memory[..8].iter().chain(&memory[24..32]).all(|&x| x == 0.0));
    assert!(memory[8..16].iter().any(|&x| x != 0.0));
    assert_eq!(numbers(&first, Column::RESETS)[0], 1.0);
    // The next fragment goes on where this one ended.
    let resets = numbers(&second, Column::RESETS);
    let goes_on = numbers(&second, Column::STATE_IN)[..8].iter().any(|&x| x != 0.0);
    assert_eq!(goes_on, resets[0] == 0.0);
}

#[test]
fn rollouts_that_remember_are_the_same_on_any_number_of_workers() {
    let rollouts = |num_workers: usize| {
        let mut ppo = remembering();
        let common = &mut ppo.common;
        common.num_workers = num_workers;
        common.num_envs_per_worker = 8 / num_workers.max(1);
        let workers = worker_set(&ppo, "StatelessCartPole-v1").expect("workers");
        let sample = |_| workers.sample().and_then(TrainBatch::single).expect("a fragment");
        (0..3).map(sample).collect::<Vec<_>>()
    };
    let alone = rollouts(0);
    let spread = rollouts(2);
    for (alone, spread) in alone.iter().zip(&spread) {
        assert_eq!(alone.sequences(), spread.sequences());
        assert!(bytes(alone, Column::ACTIONS) == bytes(spread, Column::ACTIONS));
        assert_close(&numbers(spread, Column::STATE_IN), &numbers(alone, Column::STATE_IN), 1e-6);
    }
}

#[test]
fn a_run_that_remembers_continues_bit_for_bit() {
    let home = tempfile::tempdir().expect("a directory");
    let losses = |results: &[Metrics]| -> Vec<f64> {
        results.iter().map(|r| number(r, "info.learner.default_policy.learner_stats.total_loss")).collect()
    };
    let train = |trainer: &mut Driver<Algorithm<Ppo>>, n: usize| -> Vec<Metrics> {
        (0..n).map(|_| trainer.train().expect("a result")).collect()
    };
    let mut whole = quiet(remembering(), "StatelessCartPole-v1").expect("a trainer");
    let wanted = losses(&train(&mut whole, 4));
    let mut first = quiet(remembering(), "StatelessCartPole-v1").expect("a trainer");
    let mut found = losses(&train(&mut first, 2));
    let saved = first.save_to(home.path().join("checkpoint")).expect("a checkpoint");
    let mut second = quiet(remembering(), "StatelessCartPole-v1").expect("a trainer");
    second.restore(&saved).expect("a restored run");
    found.extend(losses(&train(&mut second, 2)));
    assert_eq!(found, wanted);
}
