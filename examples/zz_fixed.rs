use pavlov::{
    prelude::*,
    trainer::{
        models::Activation,
        replay::{OffPolicy, ReplayBufferConfig, ReplayKind},
    },
};
const BATCH: usize = 64;
fn main() {
    let mut a = std::env::args().skip(1);
    let extended = a.next().as_deref() == Some("1");
    let n: usize = a.next().unwrap().parse().unwrap();
    let mut driver = settings(extended).builder("CartPole-v1").loggers(LoggerChoice::None).build().unwrap();
    for _ in 0..n {
        driver.train().unwrap();
    }
    println!("done");
}
fn settings(extended: bool) -> Dqn {
    let kind = if extended { ReplayKind::PrioritizedReplayBuffer } else { ReplayKind::ReplayBuffer };
    let mut dqn = Dqn {
        lr: 1e-3,
        grad_clip: Some(10.0),
        off_policy: OffPolicy {
            replay_buffer_config: ReplayBufferConfig {
                kind,
                capacity: 50_000,
                learning_starts: 1000,
                ..ReplayBufferConfig::default()
            },
            ..Dqn::get_default_config().off_policy
        },
        double_q: extended,
        dueling: extended,
        hiddens: Vec::new(),
        ..Dqn::get_default_config()
    };
    dqn.common.seed = Some(1);
    dqn.common.rollout_fragment_length = 1;
    dqn.common.train_batch_size = BATCH;
    dqn.common.model.fcnet_hiddens = vec![64, 64];
    dqn.common.model.fcnet_activation = Activation::Relu;
    dqn
}
