//! Errors of other crates in the traits that users implement: `?` passes them on, and what they say is not lost.

use std::error::Error as StdError;
use std::io;
use std::path::Path;

use pavlov::envs;
use pavlov::prelude::*;
use pavlov::trainer::policy::{Act, Policy, Seen};
use pavlov::tune::{self, TrialContext};

type Boxed = Box<dyn StdError + Send + Sync>;

fn file() -> io::Result<u64> {
    Err(io::Error::new(io::ErrorKind::NotFound, "the map is gone"))
}

fn json() -> serde_json::Result<u64> {
    serde_json::from_str("{")
}

fn any() -> Result<u64, Boxed> {
    Err("no simulator".into())
}

/// Fails in each method, by the error of another crate.
#[derive(Clone, Debug)]
struct Fails;

impl Env for Fails {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::real(&[1])
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset(&mut self, seed: Option<u64>, _: &mut [f32]) -> envs::Result<()> {
        if seed.is_some() {
            file()?
        } else {
            json()?
        };
        Ok(())
    }

    fn step(&mut self, _: &[i64], _: &mut [f32]) -> envs::Result<Step> {
        any()?;
        Ok(Step { reward: 0.0, terminated: false, truncated: false })
    }
}

impl Callbacks for Fails {
    fn on_trainer_init(&mut self) -> Result<()> {
        file()?;
        json()?;
        any()?;
        Ok(())
    }
}

impl Policy for Fails {
    fn compute_actions(&mut self, _: Seen<'_>, _: Act<'_>) -> Result<()> {
        any()?;
        Ok(())
    }
}

impl Trainable for Fails {
    fn setup(&mut self, _: &Config, _: &TrialContext) -> tune::Result<()> {
        Ok(())
    }

    fn step(&mut self) -> tune::Result<Metrics> {
        Ok(serde_json::from_value(serde_json::json!({"x": file()? + json()? + any()?}))?)
    }

    fn save_checkpoint(&mut self, dir: &Path) -> tune::Result<()> {
        std::fs::write(dir.join("missing").join("file"), "")?;
        Ok(())
    }

    fn load_checkpoint(&mut self, dir: &Path) -> tune::Result<()> {
        std::fs::read(dir.join("missing"))?;
        Ok(())
    }
}

#[test]
fn every_trait_passes_errors_of_other_crates_on_with_their_sources() {
    let mut env = Fails;
    let obs = &mut [0.0];
    let Err(envs::Error::Other(source)) = Env::reset(&mut env, Some(1), obs) else {
        panic!("an error of files")
    };
    assert_eq!(source.downcast::<io::Error>().expect("it").kind(), io::ErrorKind::NotFound);
    let Err(envs::Error::Other(source)) = Env::reset(&mut env, None, obs) else { panic!("an error of JSON") };
    assert!(source.is::<serde_json::Error>());
    let error = Env::step(&mut env, &[0], obs).map(drop).expect_err("an error");
    assert_eq!(error.to_string(), "no simulator");

    let mut driver = Driver::new(Fails, Config::new()).expect("a driver");
    let Err(tune::Error::Trainable { source }) = driver.train() else { panic!("an error of files") };
    assert_eq!(source.downcast::<io::Error>().expect("it").to_string(), "the map is gone");

    let run = tiny().builder("CartPole-v1").callbacks(|| Fails).loggers(LoggerChoice::None).build();
    assert_eq!(run.map(drop).expect_err("an error").to_string(), "the map is gone");
}

fn tiny() -> Ppo {
    crate::support::tiny_ppo()
}

#[test]
fn the_front_door_takes_every_error_and_keeps_its_own() {
    fn all() -> pavlov::Result<()> {
        pavlov::registry::algorithm("PPPO")?;
        Ok(())
    }
    assert!(all().expect_err("unknown").to_string().contains("no algorithm \"PPPO\""));
    let own = || Error::config("lr", 0, "it must be above 0");
    assert!(matches!(Error::other(own()), Error::Config { .. }));
    assert!(matches!(Error::from(Boxed::from(own())), Error::Config { .. }));
    assert!(matches!(tune::Error::other(tune::Error::TrialStopped), tune::Error::TrialStopped));
    // From the trainer to a sweep and back nothing is wrapped twice.
    let there = tune::Error::from(Error::from(io::Error::other("full")));
    let tune::Error::Trainable { source } = there else { panic!("{there:?}") };
    assert!(source.is::<io::Error>());
}

#[test]
fn debug_shows_the_sentence_and_the_variant() {
    let own = Error::config("lr", 0, "it must be above 0");
    assert_eq!(format!("{own:?}"), "`lr` is 0, but it must be above 0 [Config]");
    let unknown = envs::spec("CartPol-v1").map(drop).expect_err("no such environment");
    assert!(format!("{unknown:?}").ends_with("[UnknownEnv]"), "{unknown:?}");
    let there = format!("{:?}", Error::from(unknown));
    assert!(
        there.starts_with("no environment \"CartPol-v1\"") && there.ends_with("[Env(UnknownEnv)]"),
        "{there}"
    );
    let sweep = Error::from(tune::Error::missing("metric", "name one"));
    assert_eq!(format!("{sweep:?}"), "`metric` is missing: name one [Tune(Missing)]");
    let registry = pavlov::registry::algorithm("PPPO").map(drop).expect_err("unknown");
    assert!(format!("{registry:?}").ends_with("[Unknown]"), "{registry:?}");
}
