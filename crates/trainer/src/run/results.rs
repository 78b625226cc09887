//! The result of a training iteration.

use crate::base::notice;
use crate::plan::LearnerInfo;
use crate::run::episode_window::EpisodeWindow;
use crate::sample::WorkerSpec;
use crate::workers::{Counters, WorkerSet};
use pavlov_learn::base::{Error, Result, State};
use pavlov_tune::Metrics;
use serde_json::{Map, Value, json};

/// Number of steps per copy after which an environment without a finished episode is reported.
const ENDLESS: u64 = 10_000;

/// The warning about an environment without finished episodes, in the iteration in which the sampled steps go from
/// `before` to `now` and reach [`ENDLESS`] per copy.
fn endless(env: &str, copies: usize, before: u64, now: u64) -> Option<String> {
    let limit = ENDLESS * copies as u64;
    (before < limit && limit <= now).then(|| {
        format!(
            "no episode of {env} has ended in {ENDLESS} steps of each copy: returns are unknown and an evaluation would \
             not end. Give it a time limit: the wrapper `TimeLimit`, or `max_episode_steps` where it is registered"
        )
    })
}

/// Makes the results of a run from its counters and its most recent episodes, which are kept here.
#[derive(Debug, Default)]
pub(crate) struct Results {
    window: EpisodeWindow,
}

impl Results {
    /// Makes the result of an iteration. `before` has the counters at its start, `info` the reports of its learning
    /// steps.
    ///
    /// # Errors
    /// Returns [`Error::NotFinite`] if a statistic of a learner is not finite.
    pub(crate) fn of(
        &mut self,
        spec: &WorkerSpec,
        workers: &WorkerSet,
        before: &Counters,
        info: &LearnerInfo,
    ) -> Result<Metrics> {
        let common = &spec.names.common;
        let counters = workers.counters();
        let sampled = counters.num_env_steps_sampled;
        let trained = counters.num_env_steps_trained;
        let agents_sampled = counters.num_agent_steps_sampled;
        let agents_trained = counters.num_agent_steps_trained;
        let episodes = workers.ledger.take_episodes();
        let episodes_this_iter = episodes.len();
        self.window.add(episodes, common.metrics_num_episodes_for_smoothing);
        let endless = endless(spec.env.name(), common.total_envs(), before.num_env_steps_sampled, sampled);
        if let Some(text) = endless.filter(|_| self.window.is_empty()) {
            notice(&text);
        }
        let mut sampler_results = self.window.summarize(common.keep_per_episode_custom_metrics);
        sampler_results.insert("episodes_this_iter".into(), json!(episodes_this_iter));
        sampler_results.insert("sampler_perf".into(), Value::Object(workers.ledger.sampler_perf().report()));

        let counts = json!({
            "num_env_steps_sampled": sampled,
            "num_agent_steps_sampled": agents_sampled,
            "num_env_steps_trained": trained,
            "num_agent_steps_trained": agents_trained,
            "num_target_updates": counters.num_target_updates,
            "last_target_update_ts": counters.last_target_update_ts,
            "num_weight_syncs": counters.num_weight_syncs,
        });
        let mut block = Map::new();
        block.insert("learner".into(), Value::Object(of_learners(workers, info, sampled)?));
        if let Value::Object(counts) = &counts {
            block.extend(counts.clone());
        }
        block.insert("policy_lag".into(), json!(workers.ledger.policy_lag()));
        block.extend(workers.ledger.learner_queue_sizes().map(|sizes| ("learner_queue".into(), sizes)));

        let mut result = Metrics::new();
        result.extend(sampler_results.clone());
        result.insert("sampler_results".into(), sampler_results.into());
        result.insert("info".into(), Value::Object(block));
        result.insert("num_healthy_workers".into(), json!(workers.num_healthy_workers()));
        result.insert("num_remote_worker_restarts".into(), json!(workers.num_worker_restarts()));
        if workers.common().num_learners > 1 {
            result.insert("num_healthy_learners".into(), json!(workers.num_healthy_learners()));
            result.insert("num_learner_restarts".into(), json!(workers.num_learner_restarts()));
        }
        for (key, value) in [
            ("num_env_steps_sampled", sampled),
            ("num_agent_steps_sampled", agents_sampled),
            ("num_env_steps_trained", trained),
            ("num_agent_steps_trained", agents_trained),
            ("num_env_steps_sampled_this_iter", sampled - before.num_env_steps_sampled),
            ("num_env_steps_trained_this_iter", trained - before.num_env_steps_trained),
            ("num_agent_steps_sampled_this_iter", agents_sampled - before.num_agent_steps_sampled),
            ("num_agent_steps_trained_this_iter", agents_trained - before.num_agent_steps_trained),
            ("timesteps_this_iter", sampled - before.num_env_steps_sampled),
            ("timesteps_total", sampled),
            ("agent_timesteps_total", agents_sampled),
        ] {
            result.insert(key.into(), json!(value));
        }
        result.insert("timers".into(), Value::Object(workers.ledger.timers()));
        result.insert("counters".into(), counts);
        Ok(result)
    }
    /// Saves the most recent episodes.
    pub(crate) fn save(&self, state: &mut State) -> Result<()> {
        state.set("window", &self.window)
    }

    /// Restores the episodes that [`save`](Self::save) saved.
    pub(crate) fn restore(&mut self, state: &State) -> Result<()> {
        self.window = state.get("window")?;
        Ok(())
    }
}

/// The statistics that each policy reported while it learned in an iteration, and the current values of its
/// schedules.
fn of_learners(workers: &WorkerSet, info: &LearnerInfo, timestep: u64) -> Result<Map<String, Value>> {
    let mut learner = Map::new();
    for (id, info) in info.policies() {
        let means = info.means();
        let is_fault = |(name, value): &(&String, &f64)| {
            let is_undefined = value.is_nan() && info.may_be_undefined(name);
            !value.is_finite() && !is_undefined
        };
        if let Some((name, value)) = means.iter().find(is_fault) {
            let hint = "lower `lr`, set `grad_clip`, or scale rewards and observations".to_owned();
            let what = format!("the statistic `{name}` of the learner of `{id}`");
            return Err(Error::NotFinite { what, value: *value, step: timestep, hint });
        }
        let (current, engine) = workers.learners.lend(|policies, _| {
            let policy = policies.get_mut(id)?;
            let engine = policy.learner_mut().map(|learner| learner.engine());
            Ok::<_, Error>((policy.current_values(timestep), engine))
        })?;
        let mut stats = json!(means);
        if let Some(stats) = stats.as_object_mut() {
            stats.extend(current.into_iter().map(|(k, v)| (k, json!(v))));
        }
        let mut policy = Map::new();
        if let Some(engine) = engine {
            policy.insert("engine".into(), json!(engine));
            let processors = if engine == "fused" { "every processor" } else { "this kind of processor" };
            policy.insert("same_bits_on".into(), json!(processors));
        }
        policy.insert("learner_stats".into(), stats);
        policy.insert("custom_metrics".into(), json!(info.custom_means()));
        policy.insert("num_agent_steps_trained".into(), json!(info.rows()));
        if let Some(error) = info.mean_td_error() {
            policy.insert("mean_td_error".into(), json!(error));
        }
        learner.insert(id.into(), Value::Object(policy));
    }
    Ok(learner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_without_an_end_is_reported_once() {
        let reports =
            [(0, 19_999), (19_999, 20_001), (20_001, 40_000)].map(|(from, to)| endless("Maze", 2, from, to));
        assert_eq!(reports.iter().filter(|report| report.is_some()).count(), 1);
        let text = reports[1].as_deref().unwrap_or_default();
        assert!(
            text.contains("no episode of Maze has ended in 10000 steps") && text.contains("TimeLimit"),
            "{text}"
        );
    }
}
