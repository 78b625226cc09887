//! Rules over exploration.

use crate::doctor::records::of_policy;
use crate::doctor::{Finding, Records, Sure};

/// Where the scale of exploration of each kind stands in statistics and in settings: the statistic, the value it starts
/// with, the value it ends with, and its duration.
const DECAYS: [(&str, &str, &str, &str); 2] = [
    ("cur_epsilon", "initial_epsilon", "final_epsilon", "epsilon_timesteps"),
    ("cur_noise_scale", "initial_scale", "final_scale", "scale_timesteps"),
];

/// Finds exploration that was far from its end when the run ended.
pub(super) fn never_ended(records: &Records) -> Option<Finding> {
    if records.text("exploration_config.type") == Some("Random") {
        return Some(Finding::new(
            "exploration_never_ended",
            Sure::Possible,
            "`exploration_config.type` is \"Random\"",
            "training acts at random for the whole run, so its returns say nothing of the policy",
            "set it to \"EpsilonGreedy\", or look at evaluations alone",
        ));
    }
    DECAYS.iter().find_map(|(statistic, initial, last, duration)| {
        let [initial, ends, duration_is] =
            [initial, last, duration].map(|key| records.number(&format!("exploration_config.{key}")));
        let (initial, ends) = (initial?, ends?);
        records.statistic(statistic).into_iter().find_map(|(id, values)| {
            let (step, value) = values.last()?;
            let is_far = *value > ends + 0.5 * (initial - ends) && initial - ends > 0.1;
            (is_far && values.len() > 1).then(|| {
                Finding::new(
                    "exploration_never_ended",
                    Sure::Likely,
                    format!(
                        "{}`{statistic}` is {value:.2} after {step} steps, and ends at {ends}",
                        of_policy(id)
                    ),
                    "the run ends while most actions are still random",
                    format!(
                        "lower `exploration_config.{duration}` (it is {}), or train longer",
                        duration_is.unwrap_or_default()
                    ),
                )
            })
        })
    })
}

/// Finds a run that never explores: every action is the one with the highest value.
pub(super) fn never_began(records: &Records) -> Option<Finding> {
    let change = "set `exploration_config.initial_epsilon` to 1 and `final_epsilon` to 0.05";
    if records.setting("explore") == Some(&false.into()) {
        return Some(Finding::new(
            "exploration_never_began",
            Sure::Certain,
            "`explore` is false",
            "training takes the action that seems best and sees no other",
            "set it to true",
        ));
    }
    records.statistic("cur_epsilon").into_iter().find_map(|(id, values)| {
        let workers = records.text("exploration_config.type") == Some("PerWorkerEpsilonGreedy");
        let never = !workers && values.len() > 2 && values.iter().all(|(_, epsilon)| *epsilon == 0.0);
        // Layers of noise explore without epsilon.
        let noisy = records.setting("noisy") == Some(&true.into());
        let by_epsilon = records.text("exploration_config.type") == Some("EpsilonGreedy");
        (never && !noisy && by_epsilon).then(|| {
            Finding::new(
                "exploration_never_began",
                Sure::Certain,
                format!("{}`cur_epsilon` was 0 from the first result on", of_policy(id)),
                "training takes the action that seems best and sees no other",
                change,
            )
        })
    })
}
