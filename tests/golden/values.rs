//! Every operation of a `Value` against libtorch's autograd in doubles, forwards and backwards, on both engines.

use pavlov::torch::{Kind, Reduction, Tensor};
use pavlov::trainer::Array;
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::learner::Loss;
use pavlov::trainer::learner::{Value, min};
use pavlov::trainer::models::{Activation, Init, Rule};
use pavlov::trainer::policy::ActionDist;
use pavlov::trainer::rng::Stream;

use crate::support::{column, floats, learner, on_both_engines, rows};

/// Weights of the numbers of a result, so that each has another gradient.
const FACTORS: Column = Column::new("factors");
const INDEX: Column = Column::new("index");

/// Numbers of sizes from 1e-6 to 1e2 on both sides of 0, and those at which operations have kinks.
fn numbers() -> Vec<f32> {
    let sizes = (0..33_u8).map(|i| 10_f32.powf(f32::from(i) / 4.0 - 6.0));
    let kinks = [0.0, -0.5, 0.75, 1.0, -1.0, -0.499_999, 0.750_001];
    sizes.flat_map(|x| [x, -x]).chain(kinks).collect()
}

fn normal(seed: u64, shape: &[i64]) -> Tensor {
    let mut rng = Stream::new(seed, "numbers", 0);
    let n = shape.iter().product::<i64>();
    Tensor::from_slice(&(0..n).map(|_| rng.normal()).collect::<Vec<f32>>()).view(shape)
}

fn leaf(numbers: &Tensor) -> Tensor {
    numbers.to_kind(Kind::Double).detach().set_requires_grad(true)
}

/// The gradient, zero where nothing flowed back.
fn gradient(leaf: &Tensor) -> Vec<f64> {
    let grad = leaf.grad();
    floats(&if grad.defined() { grad } else { leaf.zeros_like() })
}

#[track_caller]
fn assert_agree(found: &[f64], wanted: &[f64], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (i, (f, w)) in found.iter().zip(wanted).enumerate() {
        assert!((f - w).abs() <= 1e-5 * w.abs().max(0.1), "{what}, number {i}: {f}, wanted {w}");
    }
}

/// `f` of a row of parameters `a` and one of parameters `b` is what `reference` says, and so is the gradient by every one
/// of them.
fn agrees<F>(name: &str, [a, b]: [&[f32]; 2], f: F, reference: impl Fn(&Tensor, &Tensor) -> Tensor)
where
    F: for<'t> Fn(Value<'t>, Value<'t>) -> Value<'t> + Sync,
{
    let [x, y] = [a, b].map(|numbers| leaf(&column(numbers).unsqueeze(0)));
    let wanted = reference(&x, &y);
    let factors = normal(3, &[1, wanted.numel() as i64]) * 0.3 + 1.0;
    (&wanted * factors.to_kind(Kind::Double)).sum(Kind::Double).backward();
    for fused in [false, true] {
        let rule = Rule::adam(1e-3, 1e-8);
        let (mut learner, (a, b)) = learner(1, fused, rule, |net| (net.free("a", a), net.free("b", b)));
        let obs = rows(&[[0.0]]);
        let values =
            learner.evaluate(&Array::from(&obs), None, wanted.numel(), |net, _| f(a.on(net), b.on(net)));
        let values: Vec<f64> = values.expect("values").iter().map(|&x| f64::from(x)).collect();
        assert_agree(&values, &floats(&wanted), &format!("{name}, fused {fused}"));
        let batch = SampleBatch::default().with(Column::OBS, obs).with(FACTORS, factors.shallow_clone());
        let report = learner.gradient(&batch, |rows| {
            let of = f(a.on(rows.online()), b.on(rows.online()));
            Ok(Loss::new((of * rows.get(FACTORS)?).sum_columns().mean()))
        });
        report.expect("a gradient");
        let slopes = [gradient(&x), gradient(&y)].concat();
        assert_agree(
            &floats(learner.last_gradient()),
            &slopes,
            &format!("gradient of {name}, fused {fused}"),
        );
    }
}

#[test]
fn operations_on_one_number_are_autograds() {
    type Operation = for<'t> fn(Value<'t>) -> Value<'t>;
    type Reference = fn(&Tensor) -> Tensor;
    let operations: &[(&str, Operation, Reference)] = &[
        ("exp", |x| x.exp(), |x| x.exp()),
        ("log", |x| x.log(), |x| x.log()),
        ("sqrt", |x| x.sqrt(), |x| x.sqrt()),
        ("square", |x| x.square(), |x| x.square()),
        ("abs", |x| x.abs(), |x| x.abs()),
        ("x * sign", |x| x * x.sign(), |x| x * x.detach().sign()),
        ("tanh", |x| x.tanh(), |x| x.tanh()),
        ("sigmoid", |x| x.sigmoid(), |x| x.sigmoid()),
        ("softplus", |x| x.softplus(), |x| x.softplus()),
        ("relu", |x| x.relu(), |x| x.relu()),
        ("elu", |x| x.activate(Activation::Elu), |x| x.elu()),
        ("swish", |x| x.activate(Activation::Swish), |x| x.silu()),
        ("clamp", |x| x.clamp(-0.5, 0.75), |x| x.clamp(-0.5, 0.75)),
        ("clamp_max", |x| x.clamp_max(0.75), |x| x.clamp_max(0.75)),
        ("huber", |x| x.huber(), |x| x.huber_loss(&x.zeros_like(), Reduction::None, 1.0)),
        ("x * detach", |x| x * x.detach(), |x| x * x.detach()),
        ("-x", |x| -x, |x| -x),
        ("x + 1.5", |x| x + 1.5, |x| x + 1.5),
        ("x - 1.5", |x| x - 1.5, |x| x - 1.5),
        ("x * 1.5", |x| x * 1.5, |x| x * 1.5),
        ("x / 1.5", |x| x / 1.5, |x| x / 1.5),
        ("1.5 + x", |x| 1.5 + x, |x| x + 1.5),
        ("1.5 - x", |x| 1.5 - x, |x| x * -1.0 + 1.5),
        ("1.5 * x", |x| 1.5 * x, |x| x * 1.5),
        ("used twice", |x| x * x.sigmoid() + x, |x| x * x.sigmoid() + x),
    ];
    for &(name, operation, reference) in operations {
        let domain = |&x: &f32| match name {
            "exp" => x.abs() < 80.0,
            "log" | "sqrt" => x > 0.0,
            _ => true,
        };
        let numbers: Vec<f32> = numbers().into_iter().filter(domain).collect();
        agrees(name, [&numbers, &[0.0]], |x, _| operation(x), |x, _| reference(x));
    }
}

#[test]
fn operations_on_two_numbers_are_autograds() {
    type Operation = for<'t> fn(Value<'t>, Value<'t>) -> Value<'t>;
    type Reference = fn(&Tensor, &Tensor) -> Tensor;
    let operations: &[(&str, Operation, Reference)] = &[
        ("add", |a, b| a + b, |a, b| a + b),
        ("sub", |a, b| a - b, |a, b| a - b),
        ("mul", |a, b| a * b, |a, b| a * b),
        ("div", |a, b| a / b, |a, b| a / b),
        ("minimum", |a, b| a.minimum(b), |a, b| a.minimum(b)),
        ("maximum", |a, b| a.maximum(b), |a, b| a.maximum(b)),
        ("min", |a, b| min([a, b, a * 0.5]), |a, b| a.minimum(b).minimum(&(a * 0.5))),
        ("sum", |a, b| [a, b, a].into_iter().sum(), |a, b| a + b + a),
        ("cat", |a, b| a.cat(b), |a, b| Tensor::cat(&[a, b], 1)),
        ("of itself", |a, b| a * a / (a * a + b * b), |a, b| a * a / (a * a + b * b)),
    ];
    let left: Vec<f32> = numbers().into_iter().filter(|&x| x != 0.0).collect();
    let mut right = left.clone();
    // Some are equal, most are far apart.
    right[8..].rotate_left(5);
    for &(name, operation, reference) in operations {
        agrees(name, [&left, &right], operation, reference);
        if name != "cat" {
            agrees(&format!("{name}, one column on the left"), [&left[60..61], &right], operation, reference);
            agrees(
                &format!("{name}, one column on the right"),
                [&left, &right[60..61]],
                operation,
                reference,
            );
        }
    }
}

/// The mean over quantiles `i` and samples `j` of `|level_i - (y_j < x_i)| huber(y_j - x_i)`.
fn quantile_huber(x: &Tensor, samples: &Tensor) -> Tensor {
    let n = x.size()[1];
    let mut sum = x.narrow(1, 0, 1) * 0.0;
    for i in 0..n {
        let level = (i as f64 + 0.5) / n as f64;
        let error = samples.detach() - x.narrow(1, i, 1);
        let weight = (error.lt(0).to_kind(Kind::Double) - level).abs();
        let huber = error.huber_loss(&error.zeros_like(), Reduction::None, 1.0);
        sum += (weight * huber).mean_dim(1, true, Kind::Double);
    }
    sum / n as f64
}

#[test]
fn any_number_of_columns_is_sorted_on_both_engines() {
    for columns in 1..40_i64 {
        // Many numbers stand in a row more than once.
        let x = (normal(columns as u64, &[19, columns]) * 4.0).round();
        let sorted = x.sort(-1, false).0;
        let place = (columns / 2) as usize;
        let batch = SampleBatch::default().with(Column::OBS, x);
        for found in on_both_engines(&batch, |rows| {
            let sorted = rows.get(Column::OBS)?.sort_columns();
            Ok(sorted.narrow(place, 1) + sorted.narrow(0, 1) * 100.0)
        }) {
            let wanted = sorted.select(1, place as i64) + sorted.select(1, 0) * 100.0;
            assert_eq!(found, floats(&wanted), "{columns} columns");
        }
    }
}

#[test]
fn operations_on_rows_are_autograds() {
    // x of four columns, v of one, parameters, an index and a mask.
    type Operation = for<'t> fn([Value<'t>; 5]) -> Value<'t>;
    type Reference = fn([&Tensor; 5]) -> Tensor;
    let operations: &[(&str, Operation, Reference)] = &[
        ("log_softmax", |[x, ..]| x.log_softmax(), |[x, ..]| x.log_softmax(-1, Kind::Double)),
        ("logsumexp", |[x, ..]| x.logsumexp(), |[x, ..]| x.logsumexp(-1, true)),
        (
            "logsumexp beside its operand",
            |[x, v, ..]| (x * v).logsumexp() - x,
            |[x, v, ..]| (x * v).logsumexp(-1, true) - x,
        ),
        (
            "sort_columns",
            |[x, v, ..]| x.cat(v).sort_columns().narrow(1, 3) * v,
            |[x, v, ..]| Tensor::cat(&[x, v], 1).detach().sort(-1, false).0.narrow(1, 1, 3) * v,
        ),
        (
            "quantile_huber",
            |[x, v, free, ..]| (x * 2.0).quantile_huber(free.cat(v)),
            |[x, v, free, ..]| quantile_huber(&(x * 2.0), &Tensor::cat(&[free, v], 1)),
        ),
        ("quantile_huber of one value", |[x, ..]| x.quantile_huber(x), |[x, ..]| quantile_huber(x, x)),
        (
            "columns and a column",
            |[x, v, ..]| (x + v) * v - v / (x.exp() + v.square()),
            |[x, v, ..]| (x + v) * v - v / (x.exp() + v.square()),
        ),
        (
            "minimum and maximum with a column",
            |[x, v, ..]| x.minimum(v) * v.maximum(x),
            |[x, v, ..]| x.minimum(v) * v.maximum(x),
        ),
        (
            "one number",
            |[x, v, ..]| (x - x.mean()) / (v.square().mean() + 1.0) + v.mean() * x.mean(),
            |[x, v, ..]| {
                let mean = |x: &Tensor| x.mean(Kind::Double);
                (x - mean(x)) / (mean(&v.square()) + 1.0) + mean(v) * mean(x)
            },
        ),
        ("mean of several columns", |[x, ..]| x.mean(), |[x, ..]| x.mean(Kind::Double)),
        ("parameters beside rows", |[x, _, free, ..]| x * free, |[x, _, free, ..]| x * free),
        ("gather", |[x, _, _, index, _]| x.gather(index), |[x, _, _, index, _]| x.gather(1, index, false)),
        (
            "gather the largest",
            |[x, ..]| x.square().gather(x.argmax()),
            |[x, ..]| x.square().gather(1, &x.argmax(1, true), false),
        ),
        (
            "gather_block",
            |[x, v, ..]| x.square().gather_block(v.detach().sign().relu(), 2),
            |[x, v, ..]| {
                let index = v.detach().sign().relu().to_kind(Kind::Int64).view([-1, 1, 1]);
                x.square().view([-1, 2, 2]).gather(1, &index.expand([-1, 1, 2], false), false).squeeze_dim(1)
            },
        ),
        (
            "expectation",
            |[x, ..]| x.square().expectation(-2.0, 10.0),
            |[x, ..]| {
                (x.square() * Tensor::from_slice(&[-2.0, 2.0, 6.0, 10.0])).sum_dim_intlist(
                    1,
                    true,
                    Kind::Double,
                )
            },
        ),
        (
            "sum_columns",
            |[x, ..]| x.square().sum_columns(),
            |[x, ..]| x.square().sum_dim_intlist(1, true, Kind::Double),
        ),
        (
            "mean_columns",
            |[x, ..]| x - x.square().mean_columns(),
            |[x, ..]| x - x.square().mean_dim(1, true, Kind::Double),
        ),
        (
            "narrow",
            |[x, ..]| x.narrow(1, 2) * x.narrow(0, 2),
            |[x, ..]| x.narrow(1, 1, 2) * x.narrow(1, 0, 2),
        ),
        (
            "cat",
            |[x, v, free, ..]| v.cat(x.cat(free)).square(),
            |[x, v, free, ..]| Tensor::cat(&[v, x, free], 1).square(),
        ),
        (
            "masked",
            |[x, v, _, _, mask]| x.masked(mask).log_softmax().gather(v.detach().sign().relu()),
            |[x, v, _, _, mask]| {
                let index = v.detach().sign().relu().to_kind(Kind::Int64);
                x.masked_fill(&mask.logical_not(), -1e9)
                    .log_softmax(-1, Kind::Double)
                    .gather(1, &index, false)
            },
        ),
        (
            "detached",
            |[x, v, ..]| x.detach() * v + (x * v).detach(),
            |[x, v, ..]| x.detach() * v + (x * v).detach(),
        ),
    ];
    // A number of rows that fills no vectors.
    const ROWS: i64 = 37;
    let index: Vec<i64> = (0..ROWS).map(|i| i % 4).collect();
    // The first two actions are always legal.
    let mask: Vec<bool> = (0..ROWS).flat_map(|i| [true, true, i % 2 == 0, i % 3 == 0]).collect();
    let batch = SampleBatch::default()
        .with(Column::OBS, normal(1, &[ROWS, 3]))
        .with(FACTORS, normal(2, &[ROWS]) * 0.3 + 1.0)
        .with(INDEX, Tensor::from_slice(&index))
        .with(Column::ACTION_MASK, Tensor::from_slice(&mask).view([ROWS, 4]));
    let get = |column| batch.get(column).expect("the column").to_tensor();
    for &(name, operation, reference) in operations {
        for fused in [false, true] {
            let rule = Rule::adam(1e-3, 1e-8);
            let (mut learner, (x, v, free)) = learner(3, fused, rule, |net| {
                let x = net.dense("x", 3, 4, Activation::Linear, Init::Orthogonal(1.0));
                let v = net.dense("v", 3, 1, Activation::Linear, Init::Uniform);
                (x, v, net.free("free", &[0.5, -1.0, 2.0, 0.0]))
            });
            let weights = learner.weights();
            let names = ["x.weight", "x.bias", "v.weight", "v.bias", "free"];
            let leaves = names.map(|name| leaf(&weights.tensor(name).expect("a parameter")));
            let obs = get(Column::OBS).to_kind(Kind::Double);
            let rows = [
                &obs.linear(&leaves[0], Some(&leaves[1])),
                &obs.linear(&leaves[2], Some(&leaves[3])),
                &leaves[4].unsqueeze(0).expand([ROWS, 4], false),
                &get(INDEX).unsqueeze(1),
                &get(Column::ACTION_MASK),
            ];
            let factors = get(FACTORS).to_kind(Kind::Double).unsqueeze(1);
            let wanted = (reference(rows) * factors).mean(Kind::Double);
            wanted.backward();

            let report = learner.gradient(&batch, |rows| {
                let net = rows.online();
                let x = x.on(net, rows.obs()?.obs());
                let v = v.on(net, rows.obs()?.obs());
                let free = free.on(net);
                let of = operation([x, v, free, rows.get(INDEX)?, rows.get(Column::ACTION_MASK)?]);
                Ok(Loss::sum([("loss", (of * rows.get(FACTORS)?).mean())]))
            });
            let found = report.expect("a gradient").stats.read("loss").expect("the loss");
            assert_agree(&[found], &floats(&wanted), &format!("{name}, fused {fused}"));
            let slopes = leaves.iter().flat_map(gradient).collect::<Vec<_>>();
            let what = format!("gradient of {name}, fused {fused}");
            assert_agree(&floats(learner.last_gradient()), &slopes, &what);
        }
    }
}

#[test]
fn columns_of_integers_and_flags_count_as_numbers_on_both_engines() {
    let integers = Column::new("integers");
    let flags = Column::new("flags");
    let bytes = Column::new("bytes");
    let batch = SampleBatch::default()
        .with(Column::OBS, column(&[0.5, -1.5, 2.0]))
        .with(integers, Tensor::from_slice(&[3_i64, -1, 2]))
        .with(flags, Tensor::from_slice(&[true, false, true]))
        .with(bytes, Tensor::from_slice(&[255_u8, 0, 7]));
    // Means 4/3 and 262/3.
    for found in on_both_engines(&batch, |rows| {
        let integers = rows.get(integers)?;
        let bytes = rows.get(bytes)?;
        let sum = (1.0 - rows.get(flags)?) * rows.get(Column::OBS)?;
        Ok(integers - integers.mean() + sum + (bytes - bytes.mean()))
    }) {
        let rest = -4.0 / 3.0 - 262.0 / 3.0;
        crate::support::assert_close(&found, &[258.0 + rest, -2.5 + rest, 9.0 + rest], 1e-4);
    }
}

#[test]
fn the_first_of_equal_numbers_is_the_largest_on_both_engines() {
    let batch = SampleBatch::default()
        .with(Column::OBS, rows(&[[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [-5.0, -4.0, -3.0]]));
    for found in on_both_engines(&batch, |rows| Ok(rows.get(Column::OBS)?.argmax() + 0.0)) {
        assert_eq!(found, [1.0, 0.0, 2.0]);
    }
}

#[test]
fn entropies_of_masked_logits_are_those_of_the_legal_ones_and_illegal_ones_get_no_gradient() {
    // One row of five logits; which are legal.
    let logits = [0.3_f32, -40.0, 2.0, 60.0, -1.0];
    let dist = ActionDist::Categorical { n: 5 };
    for legal in [&[0, 2, 4][..], &[1], &[1, 3], &[0, 1, 2, 3, 4], &[2, 4]] {
        let mask: Vec<bool> = (0..5).map(|i| legal.contains(&i)).collect();
        let batch = SampleBatch::default()
            .with(Column::OBS, rows(&[[0.0]]))
            .with(Column::ACTION_MASK, Tensor::from_slice(&mask).view([1, 5]));
        let x = leaf(&column(&legal.iter().map(|&i| logits[i]).collect::<Vec<_>>()));
        let logp = x.log_softmax(0, Kind::Double);
        let wanted = -(logp.exp() * logp).sum(Kind::Double);
        wanted.backward();
        let mut slopes = [0.0; 5];
        legal.iter().zip(gradient(&x)).for_each(|(&i, slope)| slopes[i] = slope);
        for fused in [false, true] {
            let (mut learner, free) = learner(1, fused, Rule::adam(1e-3, 1e-8), |net| net.free("x", &logits));
            let report = learner.gradient(&batch, |rows| {
                let pi = dist.at(rows.obs()?.masked(free.on(rows.online())));
                Ok(Loss::sum([("entropy", pi.entropy().mean())]))
            });
            let found = report.expect("a gradient").stats.read("entropy").expect("the entropy");
            assert_agree(&[found], &floats(&wanted), &format!("entropy of {legal:?}, fused {fused}"));
            let found = floats(learner.last_gradient());
            assert_agree(&found, &slopes, &format!("its gradient, {legal:?}, fused {fused}"));
            for i in (0..5).filter(|i| !legal.contains(i)) {
                assert_eq!(found[i], 0.0, "logit {i}, legal {legal:?}, fused {fused}");
            }
        }
    }
}
