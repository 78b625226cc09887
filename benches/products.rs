//! How fast the fused engine learns with layers of one width, beside oneDNN's matrix product of the same shape:
//! `cargo xtask bench products`.
//!
//! Both take turns every two milliseconds on one thread, and the median of the ratios counts, so a machine whose speed
//! changes alters them little. A machine that is busy alters them a lot.

mod support;

use std::{hint::black_box, time::Instant};

use pavlov::{
    envs::Space,
    torch::{self, Device, Kind, Tensor},
    trainer::{
        batch::{Column, SampleBatch},
        learner::{Learner, Loss, Value},
        models::{Activation, Dense, Init, Net, NetBuilder, PolicySpec, Rule, Spaces},
    },
};
use serde_json::json;
use support::{Args, FLOP, Outcome, median};

/// Layers one behind the other, so that reading observations counts little.
const LAYERS: usize = 8;
/// Times that both take their turn.
const TURNS: usize = 101;
const SHAPES: [(usize, usize); 7] =
    [(64, 64), (256, 64), (64, 256), (256, 256), (1024, 256), (256, 512), (256, 1024)];

fn main() -> Outcome<()> {
    let args = Args::parse()?;
    torch::set_num_threads(1);
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global()?;
    if !args.json {
        println!("{LAYERS} linear layers on one thread; GFLOP/s, and shares of oneDNN's in brackets");
        println!(
            "{:>6} {:>6} {:>16} {:>22} {:>8}",
            "rows", "width", "forward", "forward and backward", "oneDNN"
        );
    }
    for (rows, width) in SHAPES {
        let (mut learner, layers) = network(width)?;
        let options = (Kind::Float, Device::Cpu);
        let batch =
            SampleBatch::default().with(Column::OBS, Tensor::randn([rows as i64, width as i64], options));
        let obs = &batch.get(Column::OBS)?.clone();
        let mut forward = || {
            let values = learner.evaluate(obs, None, width, |net, x| on(&layers, net, x.obs()));
            black_box(values.map(|values| values[0]))
        };
        let [of_forward, share_of_forward, one_dnn] = beside_one_dnn(rows, width, LAYERS, || {
            let _ = forward();
        });
        // The first layer passes nothing on.
        let [of_both, share_of_both, _] = beside_one_dnn(rows, width, 3 * LAYERS - 1, || {
            let report = learner.gradient(&batch, |rows| {
                Ok(Loss::new(on(&layers, rows.online(), rows.obs()?.obs()).square().mean()))
            });
            let _ = black_box(report.map(|report| report.stats.names().len()));
        });
        if args.json {
            let line = json!({
                "rows": rows, "width": width, "forward_gflops": of_forward, "forward_share": share_of_forward,
                "both_gflops": of_both, "both_share": share_of_both, "onednn_gflops": one_dnn,
            });
            println!("{line}");
        } else {
            println!(
                "{rows:>6} {width:>6} {of_forward:>9.1} ({share_of_forward:.2}) {of_both:>15.1} ({share_of_both:.2}) {one_dnn:>8.1}"
            );
        }
    }
    Ok(())
}

fn network(width: usize) -> Outcome<(Learner, Vec<Dense>)> {
    let spec = PolicySpec {
        spaces: Spaces { observation_space: Space::real(&[width]), action_space: Space::discrete(2) },
        seed: 0,
        device: pavlov::trainer::Device::Cpu,
        fused: true,
        custom_model: None,
        own_obs: None,
        worker_index: 0,
        num_workers: 0,
    };
    let mut net = NetBuilder::new(&spec);
    let (_, layers) = net.group("all", Rule::adam(1e-3, 1e-8), |net| {
        let layer =
            |i: usize| net.dense(&format!("layer.{i}"), width, width, Activation::Linear, Init::Uniform);
        Ok((0..LAYERS).map(layer).collect())
    })?;
    Ok((net.finish()?, layers))
}

fn on<'t>(layers: &[Dense], net: Net<'t>, x: Value<'t>) -> Value<'t> {
    layers.iter().fold(x, |x, layer| layer.on(net, x))
}

/// GFLOP/s of `call`, which does so many products; their share of oneDNN's, and oneDNN's.
fn beside_one_dnn(rows: usize, width: usize, products: usize, mut call: impl FnMut()) -> [f64; 3] {
    let options = (Kind::Float, Device::Cpu);
    let size = [rows, width].map(|n| n as i64);
    let x = Tensor::rand(size, options);
    let weight = Tensor::rand([size[1]; 2], options);
    let x = x.to_mkldnn();
    let weight = weight.to_mkldnn();
    let bias = Tensor::zeros([size[1]], options);
    let _guard = torch::no_grad_guard();
    let flop = FLOP * (rows * width * width) as f64 / 1e9;
    let mut turns: [Vec<f64>; 3] = Default::default();
    for _ in 0..TURNS {
        let own = flop * products as f64 * calls_per_second(&mut call);
        let other = flop
            * calls_per_second(&mut || {
                let _ = black_box(x.mkldnn_linear(&weight, Some(&bias)));
            });
        [own, own / other, other].into_iter().zip(&mut turns).for_each(|(x, turns)| turns.push(x));
    }
    turns.map(|mut turns| median(&mut turns))
}

fn calls_per_second(call: &mut impl FnMut()) -> f64 {
    call();
    let start = Instant::now();
    let mut calls = 0.0;
    while start.elapsed().as_secs_f64() < 2e-3 {
        call();
        calls += 1.0;
    }
    calls / start.elapsed().as_secs_f64()
}
