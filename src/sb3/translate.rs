//! Arguments as settings. Most become settings of the same value, by the table; the others are here.

use serde_json::{Value, json};

use super::policy;
use super::replay_buffer;
use super::table::{Class, Kind, Refused};
use super::values::{number, schedule, temperature};
use super::work::{ANY_SPAN, Span, Translated, Work};
use crate::presets;
use crate::tune::Config;

/// Translates the arguments of a class. Those that are not given have its defaults; `copies` is the number of environments,
/// and `span` the steps of the run, if they are known.
#[must_use]
pub fn translate(class: &Class, policy: &str, given: &Config, copies: u64, span: Option<Span>) -> Translated {
    let mut all = class.filled(given);
    let refused = class.check(given);
    let defaults = class.filled(&Config::new());
    for Refused { argument, .. } in &refused {
        if let Some(default) = defaults.get(argument) {
            all.insert(argument.clone(), default.clone());
        }
    }
    let base = class.preset.as_deref().map(|name| presets::preset(name).expect("a preset of the table"));
    let config = base.map(|preset| preset.config).unwrap_or_default();
    let to = Translated { config, refused, ..Translated::default() };
    let mut work = Work { class, all, copies, span: span.unwrap_or(ANY_SPAN), to };
    for name in work.all.keys().cloned().collect::<Vec<_>>() {
        if !work.by_name(&name) {
            work.by_table(&name);
        }
    }
    work.whole();
    policy::translate(&mut work, policy);
    work.to
}

impl Work<'_> {
    /// Translates an argument by its row: each setting gets its value.
    fn by_table(&mut self, name: &str) {
        let Some(row) = self.class.argument(name).filter(|row| row.only.is_none()) else { return };
        let given = self.all[name].clone();
        for path in &row.becomes {
            match self.value(row.kind, &given) {
                Some(value) if row.kind == Kind::Schedule => self.scheduled(name, path, value),
                Some(value) => self.to.set(name, path, value),
                // None of these is null here.
                None if row.kind == Kind::Auto || name == "seed" => {}
                None => self.to.set(name, path, Value::Null),
            }
        }
    }

    fn value(&self, kind: Kind, given: &Value) -> Option<Value> {
        match kind {
            Kind::Whole => number(given).map(|number| json!(number as i64)),
            Kind::Schedule => number(given).map(Value::from).or_else(|| Some(self.points(given))),
            Kind::Number | Kind::Auto => number(given).map(Value::from),
            _ => Some(given.clone()),
        }
    }

    /// Returns the values of a function as `[[step, value], ...]`, with steps that grow.
    fn points(&self, given: &Value) -> Value {
        let values = schedule(given).map(Vec::as_slice).unwrap_or_default();
        let (first, last) = self.span;
        let (span, parts) = ((last - first).max(1), values.len().saturating_sub(1).max(1) as u64);
        let mut points: Vec<(u64, &Value)> = Vec::new();
        for (at, value) in (0..).zip(values) {
            let step = first + span * at / parts;
            points.pop_if(|(last, _)| *last == step);
            points.push((step, value));
        }
        json!(points)
    }

    /// Sets a number, or the schedule in its place.
    fn scheduled(&mut self, name: &str, path: &str, value: Value) {
        let schedule = format!("{path}_schedule");
        self.to.config.remove(path);
        self.to.config.remove(&schedule);
        self.to.set(name, if value.is_array() { &schedule } else { path }, value);
    }

    /// Translates an argument whose setting has another value than the argument. Returns false for all others, which the table
    /// translates.
    fn by_name(&mut self, name: &str) -> bool {
        let value = self.all[name].clone();
        match name {
            "n_steps" if self.is_on_policy() => {
                self.to.set(name, "rollout_fragment_length", self.whole_number(name));
                self.to.set("n_envs * n_steps", "train_batch_size", self.rows());
            }
            "batch_size" if self.is_on_policy() => {
                // There all rows are one minibatch then.
                let (rows, asked) = (self.rows(), self.whole_number(name));
                let label = if asked > rows { "batch_size, one minibatch" } else { name };
                self.to.set(label, "sgd_minibatch_size", asked.min(rows));
            }
            "clip_range_vf" if value.is_null() => {}
            "clip_range_vf" => {
                self.to.set(name, "vf_clip", "clipped");
                self.to.set(name, "vf_clip_param", value);
            }
            "normalize_advantage" => {
                let how = if value == true { "minibatch_sample" } else { "none" };
                self.to.set(name, "normalize_advantages", how);
            }
            "use_rms_prop" if value == true => self.to.set(name, "opt_type", "rmsprop"),
            "rms_prop_eps" if self.all["use_rms_prop"] == false => {}
            "use_rms_prop" | "policy_kwargs" | "replay_buffer_kwargs" => {}
            "replay_buffer_class" => replay_buffer::translate(self),
            "use_sde" if value == false => {}
            "sde_sample_freq" | "use_sde_at_warmup" => self.sde(name, &value),
            "learning_starts" => {
                let starts = self.whole_number(name);
                self.to.set(name, "replay_buffer_config.learning_starts", starts.max(1));
                let is_random = !(self.uses_sde() && self.all["use_sde_at_warmup"] == true);
                self.explores(name, if is_random { starts } else { 0 });
            }
            // Other arguments have its settings.
            "action_noise" | "exploration_initial_eps" | "exploration_final_eps" | "gradient_steps" => {}
            "exploration_fraction" => self.epsilon(),
            "train_freq" => self.rhythm(),
            "ent_coef" if !self.is_on_policy() => match temperature(&value) {
                Some(first) => self.to.set(name, "initial_alpha", first),
                // There a coefficient that is a number is not learned.
                None => {
                    self.to.set(name, "initial_alpha", number(&value));
                    self.to.set(name, "optimization.entropy_learning_rate", 0.0);
                }
            },
            _ => return false,
        }
        true
    }

    /// Translates an argument of gSDE beside `use_sde`.
    fn sde(&mut self, name: &str, value: &Value) {
        let freq = number(value).filter(|steps| *steps > 0.0);
        match (self.uses_sde(), freq) {
            (true, Some(steps)) => self.to.set(name, name, steps as u64),
            // `learning_starts` sets the random steps.
            (true, None) if *value == true => self.to.set(name, "exploration_config.random_timesteps", 0),
            (true, None) => {}
            (false, None) if *value != true => {}
            (false, _) => self.refuse(name, "it belongs to gSDE; give `use_sde=True`, or leave it out"),
        }
    }

    /// Sets how the first steps, which are random, and the later ones explore.
    fn explores(&mut self, name: &str, random: u64) {
        let mut config = match self.class.name.as_str() {
            "DQN" => return,
            "TD3" | "DDPG" => noise(self.all["action_noise"].get("noise").unwrap_or(&Value::Null)),
            _ => json!({"type": "StochasticSampling"}),
        };
        config["random_timesteps"] = random.into();
        self.to.config.shift_remove("exploration_config");
        for (key, value) in config.as_object().into_iter().flatten() {
            let argument = if key == "random_timesteps" { name } else { "action_noise" };
            self.to.set(argument, &format!("exploration_config.{key}"), value.clone());
        }
    }

    /// Sets the fall of epsilon in the first part of the run.
    fn epsilon(&mut self) {
        let number = |name| self.number(name).unwrap_or_default();
        let (first, last) = self.span;
        let end = first + ((last - first) as f64 * number("exploration_fraction")) as u64;
        let mut points = vec![json!([end, number("exploration_final_eps")])];
        if end > first {
            points.insert(0, json!([first, number("exploration_initial_eps")]));
        }
        let config = json!({"type": "EpsilonGreedy", "epsilon_schedule": points});
        self.to.set("exploration_*", "exploration_config", config);
    }

    /// Translates `train_freq` and `gradient_steps`: the steps between two times of learning, and the number of updates.
    fn rhythm(&mut self) {
        let given = self.all["train_freq"].clone();
        let is_in_steps = given.as_array().is_none_or(|pair| pair.len() == 2 && pair[1] == "step");
        if !is_in_steps {
            self.refuse("train_freq", "learning follows steps, not episodes; give a number of steps");
        }
        let default = self.class.filled(&Config::new())["train_freq"].clone();
        let steps = given.get(0).unwrap_or(&given);
        let freq = number(if is_in_steps { steps } else { &default }).unwrap_or(1.0);
        let rows = self.number("batch_size").unwrap_or_default();
        let capacity = self.number("buffer_size").unwrap_or_default();
        if capacity < rows {
            self.refuse("buffer_size", format!("it must be at least {rows} (`batch_size`)"));
        }
        let steps = freq * self.copies as f64;
        let updates = self.number("gradient_steps").unwrap_or(1.0);
        if updates == 0.0 {
            let why = "a model that never learns cannot be trained; give 1 or more";
            self.refuse("gradient_steps", why);
        }
        let updates = match updates {
            0.0 => 1.0,
            updates if updates < 0.0 => steps,
            updates => updates,
        };
        self.to.set("train_freq", "rollout_fragment_length", freq as u64);
        self.to.set("gradient_steps, train_freq", "training_intensity", updates * rows / steps);
    }

    /// Sets what follows from the class as a whole.
    fn whole(&mut self) {
        let rows = self.rows();
        let name = self.class.name.clone();
        match name.as_str() {
            "A2C" => {
                self.to.set(&name, "sgd_minibatch_size", rows);
                self.to.set(&name, "num_sgd_iter", 1);
            }
            "MaskablePPO" => self.to.set(&name, "mask_actions", true),
            "IMPALA" => self.to.set(&name, "min_sample_timesteps_per_reporting", rows),
            _ => {}
        }
        if self.all.get("normalize_advantage") == Some(&true.into()) {
            self.refuse_one_row(rows);
        }
    }

    /// Refuses to normalise advantages over one row.
    fn refuse_one_row(&mut self, rows: u64) {
        let alone = "advantages are normalised, and one row has nothing to be compared with";
        if rows == 1 {
            let why = format!(
                "there is 1 environment: {alone}; take more steps or environments, or `normalize_advantage=False`"
            );
            self.refuse("n_steps", why);
        } else if self.number("batch_size") == Some(1.0) {
            self.refuse("batch_size", format!("{alone}; take 2 or more, or `normalize_advantage=False`"));
        }
    }
}

/// Returns the exploration of `{"type": "normal", "sigma": ..}` or `{"type": "ornstein-uhlenbeck", "sigma": .., "theta": ..,
/// "dt": ..}`, whose size stays. Without noise, actions are as the policy gives them.
fn noise(noise: &Value) -> Value {
    let number = |key, default| noise.get(key).and_then(Value::as_f64).unwrap_or(default);
    let mut config = if noise.get("type").is_some_and(|name| name == "ornstein-uhlenbeck") {
        // One step there: noise += theta * -noise * dt + sigma * sqrt(dt) * normal, for actions in [-1, 1]; the range is 2.
        let dt = number("dt", 1e-2);
        json!({
            "type": "OrnsteinUhlenbeckNoise",
            "ou_base_scale": 0.5,
            "ou_theta": number("theta", 0.15) * dt,
            "ou_sigma": number("sigma", 0.0) * dt.sqrt(),
        })
    } else {
        json!({"type": "GaussianNoise", "stddev": number("sigma", 0.0)})
    };
    for (key, value) in
        [("initial_scale", json!(1.0)), ("final_scale", json!(1.0)), ("scale_timesteps", json!(1))]
    {
        config[key] = value;
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sb3::table::PARSED;

    #[test]
    fn a_train_freq_in_episodes_is_refused_and_the_number_of_updates_still_counts() {
        let class = Class::named("TD3").unwrap();
        let given = json!({"train_freq": [1, "episode"], "gradient_steps": 4});
        let translated = translate(class, "MlpPolicy", &given.as_object().unwrap().clone().into(), 1, None);
        assert_eq!(translated.refused.len(), 1);
        assert_eq!(translated.config["rollout_fragment_length"], 1);
        assert_eq!(translated.config["training_intensity"], 4.0 * 256.0);
    }

    #[test]
    fn the_defaults_of_a_class_translate_to_the_settings_of_its_preset() {
        for class in PARSED.classes.iter().filter(|class| class.name == class.algorithm) {
            let Some(name) = &class.preset else { continue };
            let preset = presets::preset(name).unwrap().config;
            let translated = translate(class, "MlpPolicy", &Config::new(), 1, None);
            assert_eq!(translated.refused, []);
            for (key, value) in &preset {
                // Noise is an argument there, and the presets have that of its examples.
                if key != "exploration_config" {
                    assert_eq!(&translated.config[key], value, "{name}: {key}");
                }
            }
        }
    }
}
