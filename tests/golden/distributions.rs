//! Action distributions: the tensors' formulas against hand values, and what is drawn on the host against the tensors.

use std::f64::consts::LN_2;

use pavlov::torch::{Kind, Tensor};
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::learner::Value;
use pavlov::trainer::policy::{ActionDist, ActionRows};
use pavlov::trainer::rng::Stream;
use pavlov::trainer::{normalize, unsquash};

use crate::support::{assert_close, assert_frequency, floats, on_both_engines, rows};

/// Logits of the probabilities 1/6, 1/3, 1/2.
fn sixths() -> [f32; 3] {
    [0.0, 2.0_f32.ln(), 3.0_f32.ln()]
}

/// What a distribution says of each row, on libtorch and on the fused engine; they agree.
fn of_rows<F>(inputs: &Tensor, other: &Tensor, actions: &Tensor, f: F) -> Vec<f64>
where
    F: for<'t> Fn(Value<'t>, Value<'t>, Value<'t>) -> Value<'t> + Sync,
{
    let other_inputs = Column::new("other");
    let batch = SampleBatch::default();
    let batch = batch.with(Column::ACTION_DIST_INPUTS, inputs.shallow_clone());
    let batch =
        batch.with(other_inputs, other.shallow_clone()).with(Column::ACTIONS, actions.shallow_clone());
    let [torch, fused] = on_both_engines(&batch, |rows| {
        let inputs = rows.get(Column::ACTION_DIST_INPUTS)?;
        Ok(f(inputs, rows.get(other_inputs)?, rows.get(Column::ACTIONS)?))
    });
    assert_close(&fused, &torch, 2e-6);
    torch
}

fn logp(dist: &ActionDist, inputs: &Tensor, actions: &Tensor) -> Vec<f64> {
    of_rows(inputs, inputs, actions, |inputs, _, actions| dist.at(inputs).logp(actions))
}

fn entropy(dist: &ActionDist, inputs: &Tensor) -> Vec<f64> {
    of_rows(inputs, inputs, inputs, |inputs, _, _| dist.at(inputs).entropy())
}

fn kl(dist: &ActionDist, inputs: &Tensor, other: &Tensor) -> Vec<f64> {
    of_rows(inputs, other, inputs, |inputs, other, _| dist.at(inputs).kl(&dist.at(other)))
}

#[test]
fn diagonal_gaussian_matches_the_golden_values() {
    let dist = ActionDist::DiagGaussian { dim: 1 };
    let inputs = rows(&[&[0.5, -0.3]]);
    let other = rows(&[&[0.2, 0.1]]);
    assert_close(&logp(&dist, &inputs, &rows(&[&[1.0]])), &[-0.846703], 1e-6);
    assert_close(&entropy(&dist, &inputs), &[1.118939], 1e-6);
    assert_close(&kl(&dist, &inputs, &other), &[0.161507], 1e-6);
}

#[test]
fn components_of_a_gaussian_add_up() {
    let one = ActionDist::DiagGaussian { dim: 1 };
    let two = ActionDist::DiagGaussian { dim: 2 };
    let inputs = rows(&[&[0.5, 0.5, -0.3, -0.3]]);
    let other = rows(&[&[0.2, 0.2, 0.1, 0.1]]);
    assert_close(&logp(&two, &inputs, &rows(&[&[1.0, 1.0]])), &[2.0 * -0.846703], 2e-6);
    assert_close(&entropy(&two, &inputs), &[2.0 * 1.118939], 2e-6);
    assert_close(&kl(&two, &inputs, &other), &[2.0 * 0.161507], 2e-6);
    assert_eq!((one.num_inputs(), two.num_inputs(), two.action_width()), (2, 4, 2));
}

#[test]
fn squashed_gaussian_matches_the_golden_values() {
    // Before squashing 0.3: the action is tanh(0.3) = 0.291313.
    let dist = ActionDist::SquashedGaussian { dim: 1, log_std_min: -5.0 };
    let inputs = rows(&[&[0.1, -1.0]]);
    assert_close(&logp(&dist, &inputs, &rows(&[&[0.3_f32.tanh()]])), &[0.021961], 2e-6);
}

#[test]
fn squashed_gaussian_bounds_its_log_standard_deviation() {
    // 9 counts as 2 and -9 as -5; the entropy before squashing is ln std + 1.418939.
    let dist = ActionDist::SquashedGaussian { dim: 1, log_std_min: -5.0 };
    let inputs = rows(&[&[0.0, 9.0], &[0.0, -9.0]]);
    assert_close(&entropy(&dist, &inputs), &[3.418939, -3.581061], 1e-5);
}

#[test]
fn categorical_matches_hand_values() {
    // Entropy ln(6)/6 + ln(3)/3 + ln(2)/2 = 1.011404; KL to the uniform distribution is ln 3 minus that.
    let dist = ActionDist::Categorical { n: 3 };
    let inputs = rows(&[&sixths(), &sixths(), &sixths()]);
    let uniform = rows(&[&[5.0; 3], &[5.0; 3], &[5.0; 3]]);
    let logp = logp(&dist, &inputs, &Tensor::from_slice(&[0_i64, 1, 2]));
    assert_close(&logp, &[-1.791759, -1.098612, -LN_2], 1e-6);
    assert_close(&entropy(&dist, &inputs), &[1.011404; 3], 1e-6);
    assert_close(&kl(&dist, &inputs, &uniform), &[0.087208; 3], 1e-6);
}

#[test]
fn multi_categorical_adds_up_its_choices() {
    // (1/4, 3/4) and (1/6, 1/3, 1/2): logp of (1, 2) is ln(3/4) + ln(1/2); entropy 0.562335 + 1.011404.
    let dist = ActionDist::MultiCategorical { nvec: vec![2, 3] };
    let logits = [&[0.0, 3.0_f32.ln()], &sixths()[..]].concat();
    let inputs = rows(&[&logits]);
    let uniform = rows(&[&[0.0; 5]]);
    assert_close(&logp(&dist, &inputs, &Tensor::from_slice(&[1_i64, 2]).view([1, 2])), &[-0.980829], 1e-6);
    assert_close(&entropy(&dist, &inputs), &[1.573739], 1e-6);
    // ln 2 - 0.562335 + ln 3 - 1.011404
    assert_close(&kl(&dist, &inputs, &uniform), &[0.218020], 1e-6);
}

const DRAWS: usize = 20_000;

/// The same parameters for every row, one stream per row; `explore` as given.
fn draw(dist: &ActionDist, row: &[f32], explore: bool) -> (Tensor, Tensor, Vec<f32>) {
    let inputs: Vec<f32> = row.repeat(DRAWS);
    let mut rngs: Vec<Stream> = (0..DRAWS as u64).map(|i| Stream::new(7, "draw", i)).collect();
    let mut logp = vec![0.0; DRAWS];
    let width = dist.action_width();
    let actions = match dist {
        ActionDist::Categorical { .. } | ActionDist::MultiCategorical { .. } => {
            let mut actions = vec![0_i64; DRAWS * width];
            dist.sample(&inputs, &mut rngs, explore, ActionRows::Int(&mut actions), &mut logp);
            Tensor::from_slice(&actions)
        }
        _ => {
            let mut actions = vec![0.0_f32; DRAWS * width];
            dist.sample(&inputs, &mut rngs, explore, ActionRows::Float(&mut actions), &mut logp);
            Tensor::from_slice(&actions)
        }
    };
    let inputs = Tensor::from_slice(&inputs).view([DRAWS as i64, -1]);
    (actions.view([DRAWS as i64, width as i64]), inputs, logp)
}

fn families() -> Vec<(ActionDist, Vec<f32>)> {
    vec![
        (ActionDist::Categorical { n: 3 }, sixths().to_vec()),
        (ActionDist::MultiCategorical { nvec: vec![2, 3] }, [&[0.0, 3.0_f32.ln()], &sixths()[..]].concat()),
        (ActionDist::DiagGaussian { dim: 2 }, vec![0.5, -1.0, -0.3, 0.4]),
        (ActionDist::SquashedGaussian { dim: 2, log_std_min: -5.0 }, vec![0.1, -0.4, -1.0, -0.5]),
    ]
}

#[test]
fn the_log_probability_of_a_draw_on_the_host_is_that_of_the_tensors() {
    for (dist, row) in families() {
        let (actions, inputs, logp) = draw(&dist, &row, true);
        let actions = if dist.action_width() == 1 { actions.view([-1]) } else { actions };
        // Squashing loses digits near the bounds: 1 - a^2 is formed in f32.
        let tolerance = if matches!(dist, ActionDist::SquashedGaussian { .. }) { 2e-3 } else { 2e-6 };
        let batch =
            SampleBatch::default().with(Column::ACTION_DIST_INPUTS, inputs).with(Column::ACTIONS, actions);
        for learned in on_both_engines(&batch, |rows| {
            Ok(dist.at(rows.get(Column::ACTION_DIST_INPUTS)?).logp(rows.get(Column::ACTIONS)?))
        }) {
            let logp: Vec<f64> = logp.iter().map(|&l| f64::from(l)).collect();
            assert_close(&learned, &logp, tolerance);
        }
    }
}

#[test]
fn without_exploration_the_most_likely_action_is_taken() {
    for ((dist, row), mode) in families().into_iter().zip([
        vec![2.0],
        vec![1.0, 2.0],
        vec![0.5, -1.0],
        vec![0.1_f64.tanh(), (-0.4_f64).tanh()],
    ]) {
        let (actions, _, _) = draw(&dist, &row, false);
        assert_close(&floats(&actions.get(0)), &mode, 1e-6);
        assert_eq!(actions, actions.get(0).unsqueeze(0).expand_as(&actions), "{dist:?}");
    }
}

#[test]
fn draws_of_categories_have_their_probabilities() {
    let (actions, _, _) = draw(&ActionDist::Categorical { n: 3 }, &sixths(), true);
    for (action, p) in [(0, 1.0 / 6.0), (1, 1.0 / 3.0), (2, 0.5)] {
        assert_frequency(DRAWS, actions.eq(action).sum(Kind::Int64).int64_value(&[]) as usize, p);
    }
    let dist = ActionDist::MultiCategorical { nvec: vec![2, 3] };
    let (actions, _, _) = draw(&dist, &families()[1].1, true);
    let hits = |choice: i64, value: i64| actions.select(1, choice).eq(value);
    let count = |t: Tensor| t.sum(Kind::Int64).int64_value(&[]) as usize;
    assert_frequency(DRAWS, count(hits(0, 1)), 0.75);
    assert_frequency(DRAWS, count(hits(1, 1)), 1.0 / 3.0);
    // The choices are independent.
    assert_frequency(DRAWS, count(hits(0, 1).logical_and(&hits(1, 2))), 0.75 * 0.5);
}

#[test]
fn draws_of_gaussians_have_their_mean_and_deviation() {
    let (actions, _, _) = draw(&ActionDist::DiagGaussian { dim: 2 }, &[0.5, -1.0, -0.3, 0.4], true);
    let n = DRAWS as f64;
    for (component, mean, log_std) in [(0, 0.5, -0.3_f64), (1, -1.0, 0.4)] {
        let x = floats(&actions.select(1, component));
        let std = log_std.exp();
        let found = x.iter().sum::<f64>() / n;
        assert!((found - mean).abs() < 4.0 * std / n.sqrt(), "mean {found}");
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        // The variance of the squared deviation of a normal number is 2 std^4.
        let bound = 4.0 * std * std * (2.0 / n).sqrt();
        assert!((variance - std * std).abs() < bound, "variance {variance}, wanted {}", std * std);
    }
}

#[test]
fn squashed_draws_are_tanh_of_gaussian_draws() {
    let row = [0.1, -0.4, -1.0, -0.5];
    let (plain, _, _) = draw(&ActionDist::DiagGaussian { dim: 2 }, &row, true);
    let (squashed, _, _) = draw(&ActionDist::SquashedGaussian { dim: 2, log_std_min: -5.0 }, &row, true);
    assert_close(&[(plain.tanh() - squashed).abs().max().double_value(&[])], &[0.0], 1e-6);
}

#[test]
fn a_row_draws_from_its_own_stream_only() {
    let dist = ActionDist::Categorical { n: 3 };
    let draw = |order: &[u64]| {
        let mut rngs: Vec<Stream> = order.iter().map(|&i| Stream::new(7, "draw", i)).collect();
        let mut actions = vec![0_i64; order.len()];
        let inputs = sixths().repeat(order.len());
        let mut logp = vec![0.0; order.len()];
        dist.sample(&inputs, &mut rngs, true, ActionRows::Int(&mut actions), &mut logp);
        actions
    };
    let all = draw(&[0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(draw(&[6, 3]), [all[6], all[3]]);
}

#[test]
fn unsquash_stretches_to_the_bounds_and_normalize_undoes_it() {
    for (action, wanted) in [(-1.0, 300.0), (0.0, 400.0), (0.5, 450.0), (1.0, 500.0), (1.5, 500.0)] {
        assert_eq!(unsquash(action, 300.0, 500.0), wanted);
    }
    assert_eq!(normalize(450.0, 300.0, 500.0), 0.5);
}
