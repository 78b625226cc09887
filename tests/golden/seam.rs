//! Gradients through several groups, frozen parameters and a target copy: a loss like that of soft actor-critic on random
//! networks, against libtorch's autograd in doubles, on both engines.

mod problem;

use pavlov::torch::Kind;
use pavlov::trainer::batch::Column;
use pavlov::trainer::learner::Loss;
use pavlov::trainer::learner::min;

use self::problem::{ACTOR, ALL, ALPHA, CRITICS, NOISE, Problem};
use crate::support::{floats, on_threads};

/// Within 1e-4 of the largest.
#[track_caller]
pub(crate) fn assert_near(found: &[f64], wanted: &[f64], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    let largest = wanted.iter().fold(1e-3_f64, |m, x| m.max(x.abs()));
    for (i, (f, w)) in found.iter().zip(wanted).enumerate() {
        assert!((f - w).abs() <= 1e-4 * largest, "{what} {i}: {f}, wanted {w}; the largest is {largest}");
    }
}

#[track_caller]
fn assert_zero(found: &[f64], what: &str) {
    assert!(found.iter().all(|&g| g == 0.0), "{what}: {found:?}");
}

#[test]
fn one_pass_over_a_sum_of_losses_gives_every_group_the_gradient_of_autograd() {
    for case in 0..12 {
        let rows = 1 + 83 * case as i64;
        let wanted = {
            let reference = Problem::new(case, rows, false).reference();
            reference.gradient(&reference.loss(ALL))
        };
        let [torch, fused] = [false, true].map(|fused| Problem::new(case, rows, fused).gradient(ALL));
        for (range, group) in
            Problem::new(case, rows, false).ranges().into_iter().zip(["actor", "critics", "alpha"])
        {
            let what = |engine: &str| format!("case {case}, {group} on {engine}, number");
            assert_near(&torch[range.clone()], &wanted[range.clone()], &what("libtorch"));
            assert_near(&fused[range.clone()], &wanted[range.clone()], &what("the fused engine"));
            assert_near(&fused[range.clone()], &torch[range], &what("both"));
        }
    }
}

#[test]
fn under_the_actors_loss_alone_the_frozen_critics_have_no_gradient_at_all() {
    for (case, rows) in [(1, 40), (2, 700), (3, 2600)] {
        for fused in [false, true] {
            let mut problem = Problem::new(case, rows, fused);
            let reference = problem.reference();
            let wanted = reference.gradient(&reference.loss(ACTOR));
            let [actor, critics, alpha] = problem.ranges();
            let found = problem.gradient(ACTOR);
            assert_zero(&found[critics.clone()], "critics");
            assert_zero(&found[alpha], "temperature");
            assert_near(&found[actor.clone()], &wanted[actor.clone()], "actor");
            assert!(found[actor].iter().any(|g| g.abs() > 1e-3), "a gradient worth comparing");

            // With live critics the same loss does reach them.
            let nets = &problem.nets;
            let live = problem.learner.gradient(&problem.batch, |rows| {
                let [action, _] = nets.act(rows, true, rows.obs()?.obs(), NOISE)?;
                Ok(Loss::new(-nets.q.min(rows.online(), rows.obs()?.obs().cat(action)).mean()))
            });
            live.expect("a gradient");
            assert!(floats(problem.learner.last_gradient())[critics].iter().any(|g| g.abs() > 1e-3));
        }
    }
}

#[test]
fn the_range_of_a_group_is_bit_equal_to_that_of_its_own_loss_alone() {
    for (case, rows) in [(4, 1), (5, 300), (6, 2600)] {
        for fused in [false, true] {
            let mut problem = Problem::new(case, rows, fused);
            let all = problem.gradient(ALL);
            for (range, parts) in problem.ranges().into_iter().zip([ACTOR, CRITICS, ALPHA]) {
                let alone = problem.gradient(parts);
                assert_eq!(alone[range.clone()], all[range.clone()], "case {case}, fused {fused}");
                assert_zero(&alone[..range.start], "before the group");
                assert_zero(&alone[range.end..], "behind the group");
            }
        }
    }
}

#[test]
fn the_gradient_of_some_groups_is_theirs_and_zero_elsewhere() {
    for (case, rows) in [(7, 300), (8, 2600)] {
        for fused in [false, true] {
            let mut problem = Problem::new(case, rows, fused);
            let all = problem.gradient(ALL);
            let actor = problem.actor;
            let alpha = problem.alpha;
            let q = problem.nets.q.groups.clone();
            for groups in [vec![actor], vec![q[1]], vec![alpha, q[0]], vec![actor, q[0], q[1], alpha], vec![]]
            {
                let some = problem.gradient_of(&groups);
                for group in [actor, q[0], q[1], alpha] {
                    let range = problem.learner.range(group);
                    if groups.contains(&group) {
                        assert_eq!(some[range.clone()], all[range], "{group:?} of {groups:?}");
                    } else {
                        assert_zero(&some[range], "a group that was not asked for");
                    }
                }
            }
        }
    }
}

#[test]
fn a_loss_is_told_which_groups_learn() {
    for fused in [false, true] {
        let mut problem = Problem::new(9, 50, fused);
        let actor = problem.actor;
        let nets = &problem.nets;
        let resting = problem.learner.groups_but(Some(actor));
        let report = problem.learner.gradient_of(&resting, &problem.batch, |rows| {
            let told = f64::from(rows.learns(actor))
                + 10.0 * f64::from(nets.q.groups.iter().all(|&q| rows.learns(q)));
            let loss = nets.loss(rows, CRITICS)?;
            Ok(loss.mean("told", rows.discounts()?.mean() * 0.0 + told))
        });
        assert_eq!(report.expect("a gradient").stats.read("told"), Some(10.0));
        let [range, ..] = problem.ranges();
        assert_zero(&floats(problem.learner.last_gradient())[range], "the actor rests");
    }
}

#[test]
fn gradients_of_several_groups_are_bit_equal_on_any_number_of_threads() {
    for fused in [false, true] {
        let on = |threads| on_threads(threads, || Problem::new(10, 3100, fused).gradient(ALL));
        let one = on(1);
        assert_eq!(on(2), one);
        assert_eq!(on(3), one);
    }
}

/// Whose parameters a critic has.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Whose {
    Frozen,
    Target,
}

#[test]
fn frozen_and_target_layers_pass_on_to_a_live_input_what_their_own_weights_say() {
    for (case, rows) in [(11, 60), (12, 900)] {
        let gradient = |fused: bool, whose: Whose| {
            let mut problem = Problem::new(case, rows, fused);
            let nets = &problem.nets;
            let report = problem.learner.gradient(&problem.batch, |rows| {
                let net = if whose == Whose::Target { rows.target() } else { rows.frozen() };
                let [action, _] = nets.act(rows, true, rows.obs()?.obs(), NOISE)?;
                let q = nets.q.on(net, rows.obs()?.obs().cat(action));
                Ok(Loss::sum([("loss", (min(q.clone()) + q[0].tanh()).mean())]))
            });
            let loss = report.expect("a gradient").stats.read("loss").expect("the loss");
            (loss, floats(problem.learner.last_gradient()))
        };
        let wanted = |whose: Whose| {
            let reference = Problem::new(case, rows, false).reference();
            let set = if whose == Whose::Target { &reference.target } else { &reference.frozen };
            let [action, _] = reference.act(&reference.online, reference.column(Column::OBS), NOISE);
            let q1 = reference.q(set, "q1", reference.column(Column::OBS), &action);
            let loss = (reference.min_q(set, Column::OBS, &action) + q1.tanh()).mean(Kind::Double);
            (loss.double_value(&[]), reference.gradient(&loss))
        };
        let [(_, of_frozen), (_, of_target)] = [Whose::Frozen, Whose::Target].map(wanted);
        let apart = of_frozen.iter().zip(&of_target).any(|(f, t)| (f - t).abs() > 1e-2);
        assert!(apart, "the target's weights are others");
        for whose in [Whose::Frozen, Whose::Target] {
            for fused in [false, true] {
                let (found_loss, found) = gradient(fused, whose);
                let (loss, slopes) = wanted(whose);
                assert!(
                    (found_loss - loss).abs() < 1e-5 * loss.abs().max(1.0),
                    "{found_loss}, wanted {loss}"
                );
                assert_near(&found, &slopes, &format!("case {case}, {whose:?}, fused {fused}, number"));
                let [actor, ..] = Problem::new(case, rows, fused).ranges();
                assert_zero(&found[actor.end..], "parameters that this use does not change");
            }
        }
    }
}

#[test]
fn a_target_copy_moves_towards_the_network_when_told_and_else_stays() {
    for fused in [false, true] {
        let mut problem = Problem::new(13, 20, fused);
        let sets = |problem: &Problem| {
            let state = problem.learner.state().expect("a state");
            ["weights", "target"]
                .map(|set| floats(&state.tensor(&format!("{set}.q1.out.weight")).expect("it")))
        };
        let [online, before] = sets(&problem);
        problem.learner.update_target(0.25);
        let [_, after] = sets(&problem);
        for ((o, b), a) in online.iter().zip(&before).zip(after) {
            assert!((a - (b + 0.25 * (o - b))).abs() < 1e-6, "{a} between {b} and {o}");
        }
        problem.learner.update_target(1.0);
        assert_eq!(sets(&problem), [online.clone(), online.clone()]);
        let nets = &problem.nets;
        let report =
            problem.learner.gradient(&problem.batch, |rows| nets.loss(rows, ALL)).expect("a gradient");
        problem.learner.step(&report);
        let [moved, target] = sets(&problem);
        assert!(moved != online && target == online);
    }
}
