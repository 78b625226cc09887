//! PPO and SAC learn on the first GPU and on the CPU, and the losses of the first iterations are compared.
//!
//! It says `no GPU` where libtorch finds none. Run it with `cargo run --release --example gpu`; `num_gpus = 1` is all that
//! learning on a GPU takes.

use pavlov::prelude::*;
use pavlov::torch::Cuda;

/// The learner's statistics of each iteration.
fn train<T: Trainer>(mut settings: T, env: &str, num_gpus: usize) -> Result<Vec<Metrics>> {
    let common = settings.common_mut();
    common.num_gpus = num_gpus;
    common.seed = Some(0);
    common.num_workers = 0;
    let mut trainer = settings.builder(env).loggers(LoggerChoice::None).build()?;
    (0..3).map(|_| Ok(trainer.train()?)).collect()
}

/// Prints the numbers of both, and fails if one is off by more than 2 % of its size (and by more than 0.02).
fn compare<T: Trainer>(settings: T, env: &str, names: &[&str]) -> Result<()> {
    let on_gpu = train(settings.clone(), env, 1)?;
    let on_cpu = train(settings, env, 0)?;
    for (i, (gpu, cpu)) in on_gpu.iter().zip(&on_cpu).enumerate() {
        for name in names {
            let of = |result: &Metrics| {
                result["info"]["learner"]["default_policy"]["learner_stats"][name]
                    .as_f64()
                    .unwrap_or(f64::NAN)
            };
            let gpu = of(gpu);
            let cpu = of(cpu);
            println!("{} iteration {} {name}: {gpu:.6} on the GPU, {cpu:.6} on the CPU", T::NAME, i + 1);
            assert!((gpu - cpu).abs() <= 0.02_f64.max(0.02 * cpu.abs()), "they differ by more than rounding");
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    if !Cuda::is_available() {
        println!("no GPU");
        return Ok(());
    }
    let ppo = Ppo { num_sgd_iter: 2, ..Ppo::get_default_config() };
    compare(ppo, "CartPole-v1", &["total_loss", "vf_loss", "entropy", "kl"])?;
    let mut sac = Sac::get_default_config();
    sac.off_policy.replay_buffer_config.learning_starts = 256;
    sac.common.min_sample_timesteps_per_reporting = Some(300);
    compare(sac, "Pendulum-v1", &["critic_loss", "actor_loss", "alpha_loss"])
}
