//! Parameter groups: clipped by their own norms, stepped at their own rates, left alone when a report does not name them;
//! and what is refused where a network is laid out or a loss says what it cannot.

use pavlov::torch::Tensor;
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::learner::OptimizerConfig;
use pavlov::trainer::learner::{Learner, Loss};
use pavlov::trainer::models::{Activation, Free, Group, Init, NetBuilder, Rule};
use pavlov::trainer::policy::PolicySpec;
use pavlov::trainer::settings::{Piecewise, Schedule};

use crate::support::{assert_close, column, discrete_spaces, floats, learner, refused, rows, spec};

/// Groups `a`, `b` and `c` of two free parameters each, all 1 at first. The gradient is the observation.
struct Three {
    learner: Learner,
    groups: Vec<Group>,
    free: Vec<Free>,
}

fn sgd(lr: impl Into<Schedule>) -> Rule {
    Rule { optimizer: OptimizerConfig::Sgd { momentum: 0.0 }, lr: lr.into(), grad_clip: None }
}

fn specified(fused: bool) -> PolicySpec {
    spec(&discrete_spaces(6, 2), fused)
}

impl Three {
    fn new(fused: bool, rules: [Rule; 3]) -> Self {
        let spec = specified(fused);
        let mut net = NetBuilder::new(&spec);
        let lay_out = |(name, rule): (&str, Rule)| {
            net.group(name, rule, |net| Ok(net.free(&format!("{name}.x"), &[1.0, 1.0]))).expect("a group")
        };
        let (groups, free) = ["a", "b", "c"].into_iter().zip(rules).map(lay_out).unzip();
        Self { learner: net.finish().expect("a learner"), groups, free }
    }

    /// Takes the gradient by these groups, clips and steps; the norms that were reported.
    fn step(&mut self, groups: &[usize], obs: [f32; 6]) -> Vec<(&'static str, f64)> {
        let batch = SampleBatch::default().with(Column::OBS, rows(&[obs]));
        let groups: Vec<Group> = groups.iter().map(|&i| self.groups[i]).collect();
        let free = &self.free;
        let report = self.learner.gradient_of(&groups, &batch, |rows| {
            let all = free[0].on(rows.online()).cat(free[1].on(rows.online())).cat(free[2].on(rows.online()));
            Ok(Loss::new((all * rows.get(Column::OBS)?).sum_columns().mean()))
        });
        let mut report = report.expect("a gradient");
        self.learner.clip(&mut report);
        self.learner.step(&report);
        report.stats.names().iter().copied().zip(report.stats.values()).collect()
    }

    fn parameters(&self) -> Vec<f64> {
        floats(self.learner.params().flat())
    }

    /// Parameters, moments and count of the `i`-th group.
    fn group(&self, i: usize) -> (Vec<f64>, Vec<f64>, Vec<f64>, u64) {
        let state = self.learner.state().expect("a state");
        let optimizer =
            state.nested("optimizer").and_then(|all| all.nested(["a", "b", "c"][i])).expect("its own");
        let moment = |name: &str| floats(&optimizer.tensor(name).expect("a moment"));
        let parameters = self.parameters()[self.learner.range(self.groups[i])].to_vec();
        (parameters, moment("first"), moment("second"), optimizer.get("steps").expect("a count"))
    }
}

#[test]
fn every_group_is_clipped_by_its_own_norm_and_reports_it_under_its_name() {
    // (3, 4) has norm 5 and a bound of 1: (0.6, 0.8). (0.3, 0.4) has norm 0.5 and a bound of 2. (30, 40) has none.
    for fused in [false, true] {
        let rules = [sgd(1.0).clip(Some(1.0)), sgd(1.0).clip(Some(2.0)), sgd(1.0)];
        let mut three = Three::new(fused, rules);
        let norms = three.step(&[0, 1, 2], [3.0, 4.0, 0.3, 0.4, 30.0, 40.0]);
        assert_eq!(norms.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["a_grad_gnorm", "b_grad_gnorm"]);
        assert_close(&norms.iter().map(|(_, norm)| *norm).collect::<Vec<_>>(), &[5.0, 0.5], 1e-6);
        let gradient = floats(three.learner.last_gradient());
        assert_close(&gradient, &[0.6, 0.8, 0.3, 0.4, 30.0, 40.0], 2e-6);
        // One step of size 1 from 1.
        assert_close(&three.parameters(), &[0.4, 0.2, 0.7, 0.6, -29.0, -39.0], 2e-6);
    }
}

#[test]
fn a_group_that_is_not_in_the_report_moves_neither_parameters_nor_moments_nor_count() {
    for fused in [false, true] {
        let adam = || Rule::adam(0.1, 1e-8).clip(Some(1.0));
        let mut three = Three::new(fused, [adam(), adam(), adam()]);
        let obs = [0.5, -0.2, 0.1, 0.3, -0.4, 0.2];
        three.step(&[0, 1, 2], obs);
        let before = [0, 1, 2].map(|i| three.group(i));
        let norms = three.step(&[0, 2], obs);
        assert_eq!(norms.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["a_grad_gnorm", "c_grad_gnorm"]);
        let after = [0, 1, 2].map(|i| three.group(i));
        assert_eq!(after[1], before[1], "it rested, and its moments are not zero: {before:?}");
        assert!(after[1].1.iter().all(|m| *m != 0.0));
        for i in [0, 2] {
            assert!(after[i].0 != before[i].0 && after[i].1 != before[i].1 && after[i].3 == 2);
        }
        // Then it goes on as one that never heard of that step.
        three.step(&[1], obs);
        let mut other = Three::new(fused, [adam(), adam(), adam()]);
        (0..2).for_each(|_| drop(other.step(&[0, 1, 2], obs)));
        assert_eq!([0, 1, 2].map(|i| three.group(i)), [0, 1, 2].map(|i| other.group(i)));
        assert_eq!((three.learner.steps(), other.learner.steps()), (3, 2));
    }
}

#[test]
fn every_group_steps_at_what_its_own_schedule_says_of_the_learners_timestep() {
    // From 1 to 0 in 100 steps; 0.5 until 40, then up to 1.5 at 60; always 2.
    let schedules = [
        Schedule::Piecewise(Piecewise::linear(1.0, 0.0, 100)),
        Schedule::Piecewise(Piecewise(vec![(40, 0.5), (60, 1.5)])),
        Schedule::Constant(2.0),
    ];
    for fused in [false, true] {
        for (timestep, rates) in
            [(0, [1.0, 0.5, 2.0]), (25, [0.75, 0.5, 2.0]), (50, [0.5, 1.0, 2.0]), (300, [0.0, 1.5, 2.0])]
        {
            let mut three = Three::new(fused, schedules.clone().map(sgd));
            three.learner.set_timestep(timestep);
            three.step(&[0, 1, 2], [1.0, -1.0, 1.0, -1.0, 1.0, -1.0]);
            let wanted: Vec<f64> = rates.iter().flat_map(|rate| [1.0 - rate, 1.0 + rate]).collect();
            assert_close(&three.parameters(), &wanted, 1e-6);
        }
    }
}

#[test]
fn a_group_without_parameters_learns_nothing_and_disturbs_no_other() {
    let spec = specified(true);
    for fused in [false, true] {
        let spec = PolicySpec { fused, ..spec.clone() };
        let mut net = NetBuilder::new(&spec);
        let (empty, ()) =
            net.group("empty", Rule::adam(0.1, 1e-8).clip(Some(1.0)), |_| Ok(())).expect("a group");
        let (_, free) = net.group("a", sgd(0.5), |net| Ok(net.free("x", &[1.0]))).expect("a group");
        let mut learner = net.finish().expect("a learner");
        let batch = SampleBatch::default().with(Column::OBS, column(&[3.0]));
        let report = learner
            .gradient(&batch, |rows| Ok(Loss::new((free.on(rows.online()) * rows.get(Column::OBS)?).mean())));
        let mut report = report.expect("a gradient");
        learner.clip(&mut report);
        learner.step(&report);
        assert!(learner.range(empty).is_empty());
        assert_eq!(report.stats.read("empty_grad_gnorm"), Some(0.0));
        assert_close(&floats(learner.params().flat()), &[-0.5], 1e-6);
        let state = learner.state().expect("a state");
        learner.set_state(&state).expect("its own state");
    }
}

#[test]
fn a_learner_of_several_groups_goes_on_from_its_state_bit_for_bit() {
    for fused in [false, true] {
        let make = || {
            let rmsprop = OptimizerConfig::Rmsprop { alpha: 0.99, eps: 1e-8, momentum: 0.9, centered: false };
            let slow = Rule { optimizer: rmsprop, lr: 0.01.into(), grad_clip: None };
            Three::new(fused, [Rule::adam(0.1, 1e-8), slow, sgd(0.1)])
        };
        let obs = |i: u8| [0.5, -0.2, 0.1, 0.3, -0.4, 0.2].map(|x: f32| x * f32::from(i));
        let mut three = make();
        (1..4).for_each(|i| drop(three.step(&[0, 1], obs(i))));
        let mut restored = make();
        restored.learner.set_state(&three.learner.state().expect("a state")).expect("its own state");
        assert_eq!(restored.learner.steps(), 3);
        for i in 4..7 {
            three.step(&[0, 1, 2], obs(i));
            restored.step(&[0, 1, 2], obs(i));
        }
        assert_eq!([0, 1, 2].map(|i| three.group(i)), [0, 1, 2].map(|i| restored.group(i)));
        // The noise of losses goes on as well.
        assert_eq!(three.learner.rng().normal(), restored.learner.rng().normal());
    }
}

#[test]
fn a_parameter_outside_of_all_groups_is_refused_by_name() {
    let spec = specified(true);
    let lay_out =
        |net: &mut NetBuilder<'_>, name: &str| net.dense(name, 6, 2, Activation::Linear, Init::Uniform);
    for order in [["lost", "a", "b"], ["a", "lost", "b"], ["a", "b", "lost"]] {
        let mut net = NetBuilder::new(&spec);
        for name in order {
            if name == "lost" {
                lay_out(&mut net, name);
            } else {
                net.group(name, sgd(1.0), |net| Ok(lay_out(net, name))).expect("a group");
            }
        }
        refused(net.finish(), &["the parameter `lost.weight`", "it is in no group", "`NetBuilder::group`"]);
    }
    let mut none = NetBuilder::new(&spec);
    none.free("lost", &[0.0]);
    refused(none.finish(), &["the parameter `lost`", "it is in no group"]);
}

#[test]
fn a_group_inside_a_group_is_refused_by_name() {
    let spec = specified(true);
    let mut net = NetBuilder::new(&spec);
    let nested = net.group("outer", sgd(1.0), |net| {
        net.free("x", &[0.0]);
        net.group("inner", sgd(1.0), |net| Ok(net.free("y", &[0.0])))
    });
    let parts = ["the parameter group `outer`", "group `inner` was opened inside it", "one after the other"];
    refused(nested.map(|_| ()), &parts);
}

#[test]
fn a_loss_of_several_columns_is_refused_with_the_way_out() {
    let batch = SampleBatch::default().with(Column::OBS, rows(&[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]));
    for fused in [false, true] {
        let (mut learner, layer) = learner(2, fused, Rule::adam(1e-3, 1e-8), |net| {
            net.dense("x", 2, 4, Activation::Linear, Init::Uniform)
        });
        let before = floats(learner.params().flat());
        let several =
            learner.gradient(&batch, |rows| Ok(Loss::new(layer.on(rows.online(), rows.obs()?.obs()))));
        refused(several, &["the loss's `total`", "it has 4 columns", "take its `mean()`"]);
        // A column per row is no number either.
        let per_row = learner
            .gradient(&batch, |rows| Ok(Loss::new(layer.on(rows.online(), rows.obs()?.obs()).sum_columns())));
        refused(per_row, &["the loss's `total`", "it has 1 column", "take its `mean()`"]);
        assert_eq!(floats(learner.params().flat()), before);
        let again =
            learner.gradient(&batch, |rows| Ok(Loss::new(layer.on(rows.online(), rows.obs()?.obs()).mean())));
        again.expect("a gradient after the mistakes");
    }
}

#[test]
fn a_column_that_a_loss_misses_is_named() {
    let batch = SampleBatch::default().with(Column::OBS, column(&[1.0]));
    for fused in [false, true] {
        let (mut learner, ()) = learner(1, fused, Rule::adam(1e-3, 1e-8), |_| ());
        let loss = learner.gradient(&batch, |rows| Ok(Loss::new(rows.get(Column::ADVANTAGES)?.mean())));
        refused(loss, &["advantages", "obs"]);
    }
}

/// Asks for a target copy that was not laid out.
fn ask_for_a_target(fused: bool) {
    let (mut learner, free) = learner(1, fused, Rule::adam(1e-3, 1e-8), |net| net.free("x", &[0.0]));
    let batch = SampleBatch::default().with(Column::OBS, Tensor::from_slice(&[0.0_f32]));
    let _ = learner.per_row(&batch, |rows| Ok(free.on(rows.target())));
}

#[test]
#[should_panic(expected = "the network has no target copy: call `NetBuilder::target` in `build`")]
fn a_target_copy_that_is_not_there_is_a_bug_in_a_loss_on_libtorch() {
    ask_for_a_target(false);
}

#[test]
#[should_panic(expected = "the network has no target copy: call `NetBuilder::target` in `build`")]
fn a_target_copy_that_is_not_there_is_a_bug_in_a_loss_on_the_fused_engine() {
    ask_for_a_target(true);
}
