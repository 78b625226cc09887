//! Starts the workers of a Python environment.

use serde_json::json;

use super::{
    super::{
        PREFIX,
        choice::choose_workers,
        config::{PyConfig, Vectorization},
        episode::Episode,
        slabs::{CALLER_BYTES, Memory, Offsets, RowLayout},
        talk::{first_message, space, start_request},
        turns::Turns,
        worker::Worker,
    },
    Bridge,
};
use crate::{EnvConfig, Error, Result};

impl Bridge {
    /// Starts the workers and makes the copies; `id` is without `py:`.
    pub(in crate::python) fn start(id: &str, env_config: &EnvConfig, num_envs: usize) -> Result<Self> {
        let name = format!("{PREFIX}{id}");
        if num_envs == 0 {
            return Err(Error::shape("`num_envs`", 0, "at least 1"));
        }
        let config = PyConfig::decode(&name, env_config, num_envs)?;
        let failed = |message| Error::Python { env: name.clone(), message };
        let python = config.interpreter();
        let start = |index| Worker::start(index, &python, first_message(id, &config), config.start_timeout());

        let mut first = start(0).map_err(failed)?;
        let measure =
            config.num_workers.is_none() && config.vectorization == Vectorization::Loop && num_envs > 1;
        first.request(&json!({"do": "describe", "measure": measure})).map_err(failed)?;
        let about = first.line("describe").map_err(failed)?;
        let num_workers = match (config.num_workers, about["step_us"].as_f64()) {
            (Some(given), _) => given,
            (None, Some(step_us)) => {
                let (workers, reason) = choose_workers(num_envs, step_us);
                tracing::info!(env = name, num_envs, workers, "{reason}");
                workers
            }
            (None, None) => 1,
        };

        let observation_space = space(&name, "observation", &about["observation"])?;
        let action_space = space(&name, "action", &about["action"])?;
        let rows = RowLayout {
            num_envs,
            num_workers,
            obs_width: observation_space.width(),
            obs_dtype: observation_space.dtype(),
            act_width: action_space.width(),
            act_dtype: action_space.dtype(),
            num_masked: if about["has_mask"] == true { action_space.flat_width() } else { 0 },
            num_infos: config.info_keys.len(),
        };
        let (offsets, size) = Offsets::new(&rows);
        let memory = Memory::new(size).map_err(|error| failed(format!("{size} bytes of memory: {error}")))?;
        let most_steps = about["max_episode_steps"].as_u64().map(|steps| steps as usize);
        let mut bridge = Self {
            hosted: config.vectorization != Vectorization::Loop,
            render_fps: about["render_fps"].as_f64(),
            limit: most_steps,
            workers: vec![first],
            episodes: (0..num_envs).map(|_| Episode::new(most_steps, rows.act_bytes())).collect(),
            infos: vec![f64::NAN; num_envs * rows.num_infos],
            rewards: vec![0.0; num_envs],
            info_keys: config.info_keys.clone(),
            turns: (config.vectorization == Vectorization::Loop)
                .then(|| Turns::new(offsets.callers + (num_workers - 1) * CALLER_BYTES)),
            resets_are_seeded: false,
            options: None,
            failure: None,
            name: name.clone(),
            observation_space,
            action_space,
            memory,
            rows,
            offsets,
        };
        let nowhere = vec![-1_i64; 2 * num_workers];
        bridge.memory.write(offsets.at, bytemuck::cast_slice(&nowhere));
        for index in 1..num_workers {
            bridge.workers.push(start(index).map_err(failed)?);
        }
        for index in 0..num_workers {
            let own = bridge.first_row(index)..bridge.first_row(index + 1);
            let request = start_request(&bridge.memory, &bridge.offsets, &bridge.rows, index, own);
            bridge.workers[index].request(&request).map_err(failed)?;
        }
        for index in 0..num_workers {
            let made = bridge.workers[index].line("start").map_err(|message| {
                failed(
                    bridge
                        .position(index)
                        .map_or(message.clone(), |position| format!("copy {}: {message}", position.row)),
                )
            })?;
            if made["observation"] != about["observation"] || made["action"] != about["action"] {
                let message = format!("worker {index} made copies with other spaces than the first copy's");
                return Err(Error::Python { env: name, message });
            }
        }
        bridge.workers.iter_mut().for_each(|worker| worker.set_timeout(config.timeout()));
        Ok(bridge)
    }
}
