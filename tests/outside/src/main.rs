use pavlov::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut trainer = Ppo::get_default_config().build("CartPole-v1")?;
    println!("action: {:?}", trainer.compute_single_action(&[0.0, 0.1, 0.0, -0.1])?);
    Ok(())
}
