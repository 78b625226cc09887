//! Adding and removing policies while a run trains.

use crate::agents::{Policies, PolicyChange, PolicyEdit};
use crate::base::DEFAULT_POLICY;
use crate::run::algorithm::Algorithm;
use crate::run::resolve::validate;
use crate::run::trainer::Trainer;
use crate::run::training::Run;
use crate::settings::ReplayMode;
use crate::workers::Learners;
use pavlov_learn::base::{Error, Result, State};
use pavlov_tune::Config;
use std::collections::BTreeMap;

impl<T: Trainer> Algorithm<T> {
    /// Adds a policy with new weights. The settings in `config` override the run's for this policy, as in
    /// `multiagent.policies`.
    ///
    /// Everything that the run has learned, counted and stored stays. The workers are made again: every environment
    /// copy begins a new episode, and fragments that were sampled ahead are dropped. Checkpoints keep the change: a
    /// restored run has the policies of its checkpoint. Callbacks add policies by
    /// [`RunHandle::add_policy`](crate::RunHandle::add_policy).
    /// ```no_run
    /// # use pavlov_trainer::{Algorithm, Result, Trainer, settings::PolicyMapping, state::State};
    /// # use pavlov_trainer::{PolicyChange};
    /// # fn freeze<T: Trainer>(run: &mut Algorithm<T>) -> Result<()> {
    /// // A copy of `main` in its current state plays on as `frozen` and does not learn.
    /// let change = PolicyChange {
    ///     policy_mapping_fn: Some(PolicyMapping::from([("player_1", "main"), ("player_2", "frozen")])),
    ///     policies_to_train: Some(vec!["main".into()]),
    /// };
    /// run.add_policy("frozen", Default::default(), change)?;
    /// let mut weights = State::default();
    /// weights.nest("frozen", run.get_weights()?.nested("main")?);
    /// run.set_weights(&weights.into())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Config`] if there is a policy of that id, or if the policy does not fit its agents, and
    /// [`Error::State`] if the algorithm is not set up; the run is unchanged then. If the workers cannot be made
    /// again, the run is over: restore its last checkpoint.
    pub fn add_policy(&mut self, id: &str, config: Config, change: PolicyChange) -> Result<()> {
        self.edit_policies(&[PolicyEdit { id: id.into(), added: Some(config), change }])
    }

    /// Removes a policy with its weights and its replay buffer; see [`add_policy`](Self::add_policy). If agents act
    /// by this policy, `change` must give them other policies.
    ///
    /// # Errors
    /// Fails as [`add_policy`](Self::add_policy) does, and returns [`Error::Config`] if there is no policy of that id
    /// or an agent would be left without one.
    pub fn remove_policy(&mut self, id: &str, change: PolicyChange) -> Result<()> {
        self.edit_policies(&[PolicyEdit { id: id.into(), added: None, change }])
    }

    pub(super) fn edit_policies(&mut self, edits: &[PolicyEdit]) -> Result<()> {
        if edits.is_empty() {
            return Ok(());
        }
        let run = self.run()?;
        let mut settings = self.settings.clone();
        let env_info = run.spec().names.env_info.clone();
        let multi = &mut settings.common_mut().multiagent;
        if multi.replay_mode == ReplayMode::Lockstep {
            let rule = "rows of a policy that is added later would stand at other places; leave it out to add or remove policies";
            return Err(Error::config("multiagent.replay_mode", "\"lockstep\"", rule));
        }
        if multi.policies.is_empty() {
            multi.policies = [(DEFAULT_POLICY.to_owned(), Config::new())].into();
        }
        edits.iter().try_for_each(|edit| edit.apply(multi))?;
        validate(&mut settings, &env_info.agents[0].spaces)?;
        let policies = self.code.policies(&settings, &env_info.agents)?;
        check_stay(&run.spec().policies, &policies, edits)?;
        policies.check(&env_info.agents)?;
        // Afterwards workers have everything that was learned.
        run.workers().sync_weights()?;
        let saved = run.state()?;
        let learners = run.workers().learners.clone();
        // Ends the old workers, to make room for the new ones.
        self.run = None;
        let mut run = self.make_run(&settings, &self.env, env_info)?;
        run.take_over(saved, &learners)?;
        self.settings = settings;
        self.run = Some(run);
        self.policies_changed = true;
        Ok(())
    }
}

/// Returns an error if the run's policies come from code ([`Trainer::policies`]), because settings cannot describe a
/// change of these.
fn check_stay(old: &Policies, new: &Policies, edits: &[PolicyEdit]) -> Result<()> {
    fn names(policies: &Policies) -> BTreeMap<&str, &'static str> {
        policies.classes().map(|(id, class)| (id.as_str(), class.name())).collect()
    }
    let new = names(new);
    let stays = |id, name| edits.iter().any(|edit| edit.id == id) || new.get(id) == Some(&name);
    match names(old).into_iter().find(|&(id, name)| !stays(id, name)) {
        None => Ok(()),
        Some((id, class)) => {
            let rule = format!(
                "policies are added and removed where the settings name them (`multiagent.policies`), but `{id}` ({class}) comes \
                 from code: `Trainer::policies`"
            );
            Err(Error::config("add_policy", format_args!("{:?}", edits[0].id), rule))
        }
    }
}

/// Names of the parts of a saved run that hold rows of all policies; they are dropped when the policies change.
const OF_ALL_POLICIES: [&str; 3] = ["ahead", "fragments", "minibatches"];
/// Keys that are removed from the part `run` of a saved run when the policies change.
const KEPT: [&str; 3] = ["ahead", "keeps_fragments", "keeps_minibatches"];

impl Run {
    /// Continues the run with changed policies, from `saved`, the state before the change.
    fn take_over(&mut self, saved: Vec<(String, State)>, learners: &Learners) -> Result<()> {
        let mut parts: BTreeMap<String, State> = self.state()?.into_iter().collect();
        for (name, mut part) in saved {
            match name.as_str() {
                "policies" => {
                    let own = &parts[&name];
                    for id in own.nests().filter(|id| !part.has(id)).map(str::to_owned).collect::<Vec<_>>() {
                        part.nest(&id, own.nested(&id)?);
                    }
                }
                "run" => KEPT.iter().for_each(|key| part.remove(key)),
                name if OF_ALL_POLICIES.contains(&name) => continue,
                name if name.starts_with("worker") && part.has("sampler") => {
                    let mut sampler = part.nested("sampler")?;
                    sampler.set("new_policies", &true)?;
                    part = State::default();
                    part.nest("sampler", sampler);
                }
                _ => {}
            }
            parts.insert(name, part);
        }
        self.workers().learners.take_over(learners);
        self.set_state(|name| {
            parts.get(name).cloned().ok_or_else(|| Error::state(name, "it is no part of the run"))
        })
    }
}
