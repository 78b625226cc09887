//! A program outside the checkout, as the README tells a user to write it.

use pavlov::prelude::*;

fn main() -> Result<()> {
    let mut trainer = Ppo::get_default_config().builder("CartPole-v1").loggers(LoggerChoice::None).build()?;
    let action = trainer.compute_single_action(&[0.0_f32, 0.1, 0.0, -0.1], false)?;
    println!("the action of an untrained policy: {action:?}");
    Ok(())
}
