//! The GPUs of this machine, as `nvidia-smi` reports them.

use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::base::{Error, Result};

/// Program that NVIDIA's driver brings.
const NVIDIA_SMI: &str = "nvidia-smi";

/// One GPU and its memory in MiB.
#[derive(Clone, Debug, PartialEq)]
struct Gpu {
    index: usize,
    uuid: String,
    used: f64,
    total: f64,
}

/// Waits until the memory of a GPU is free. Call it in a trial that follows another one on the same GPU, since memory
/// is released a little later than the process ends.
///
/// `gpu_id` is an index or a UUID; `None` stands for the first GPU in `CUDA_VISIBLE_DEVICES`, else the first of the
/// machine. The GPU is queried up to `retry` times, `delay` apart, until the used share of its memory is at most
/// `target_util` (Ray's default: 0.01).
///
/// # Errors
/// Returns [`Error::Config`] if there is no GPU `gpu_id`, and [`Error::Missing`] if none is named and the machine has none.
/// Fails if `nvidia-smi` cannot be run, or if the memory is still in use after the last try.
pub fn wait_for_gpu(gpu_id: Option<&str>, target_util: f64, retry: u32, delay: Duration) -> Result<()> {
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let first = visible.as_deref().and_then(|ids| ids.split(',').next()).filter(|id| !id.is_empty());
    let gpu_id = gpu_id.or(first);
    let mut utilised = 0.0;
    for attempt in 0..retry.max(1) {
        if attempt > 0 {
            thread::sleep(delay);
        }
        let gpus = query(NVIDIA_SMI)?;
        let gpu = choose(&gpus, gpu_id)?;
        utilised = gpu.used / gpu.total;
        if utilised <= target_util {
            return Ok(());
        }
        tracing::info!("waiting for GPU {}: {:.1} % of its memory are used", gpu.index, 100.0 * utilised);
    }
    Err(Error::other(format!(
        "GPU {} still uses {:.1} % of its memory after {retry} tries; end what runs on it, or raise `target_util` \
         ({target_util})",
        gpu_id.unwrap_or("0"),
        100.0 * utilised
    )))
}

/// Returns the number of GPUs; 0 if there are none or `nvidia-smi` cannot be run.
pub(crate) fn count() -> usize {
    query(NVIDIA_SMI).map_or(0, |gpus| gpus.len())
}

/// Returns the GPU with this index or UUID, or the first one.
fn choose<'a>(gpus: &'a [Gpu], gpu_id: Option<&str>) -> Result<&'a Gpu> {
    let found = match gpu_id {
        None => gpus.first(),
        Some(id) => match id.trim().parse::<usize>() {
            Ok(index) => gpus.iter().find(|gpu| gpu.index == index),
            Err(_) => gpus.iter().find(|gpu| gpu.uuid == id.trim()),
        },
    };
    found.ok_or_else(|| {
        let known: Vec<String> = gpus.iter().map(|gpu| format!("{} ({})", gpu.index, gpu.uuid)).collect();
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        let rule = format!("the GPUs of this machine are: {known}");
        match gpu_id {
            Some(id) => Error::config("gpu_id", id, rule),
            None => Error::missing("gpu_id", rule),
        }
    })
}

/// Runs the program `tool`, which is `nvidia-smi`, and returns the GPUs of this machine.
fn query(tool: &str) -> Result<Vec<Gpu>> {
    let output = Command::new(tool)
        .args(["--query-gpu=index,uuid,memory.used,memory.total", "--format=csv,noheader,nounits"])
        .output()
        .map_err(|error| {
            let way_out = "it comes with NVIDIA's driver; without a GPU leave `wait_for_gpu` out";
            Error::other(format!("cannot ask for the GPUs: {tool}: {error}; {way_out}"))
        })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout);
        return Err(Error::other(format!("cannot ask for the GPUs: {tool}: {}", said.trim())));
    }
    parse(&String::from_utf8_lossy(&output.stdout))
}

/// Parses the CSV lines of `nvidia-smi`: index, UUID, used and total memory.
fn parse(text: &str) -> Result<Vec<Gpu>> {
    let gpu = |line: &str| {
        let mut fields = line.split(',').map(str::trim);
        Some(Gpu {
            index: fields.next()?.parse().ok()?,
            uuid: fields.next()?.to_string(),
            used: fields.next()?.parse().ok()?,
            total: fields.next()?.parse().ok().filter(|total| *total > 0.0)?,
        })
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            gpu(line).ok_or_else(|| {
                Error::other(format!("nvidia-smi said `{line}`: not index, uuid, used, total"))
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Output of `nvidia-smi --query-gpu=index,uuid,memory.used,memory.total --format=csv,noheader,nounits`.
    const TWO: &str = "0, GPU-7f5e, 0, 143771\n1, GPU-90aa, 71885, 143771\n";

    #[test]
    fn a_gpu_is_found_by_index_and_by_uuid() {
        let gpus = parse(TWO).unwrap();
        assert_eq!(choose(&gpus, None).unwrap().index, 0);
        assert_eq!(choose(&gpus, Some("1")).unwrap().used, 71885.0);
        assert_eq!(choose(&gpus, Some("GPU-90aa")).unwrap().index, 1);
        let message = choose(&gpus, Some("2")).unwrap_err().to_string();
        assert_eq!(message, "`gpu_id` is 2, but the GPUs of this machine are: 0 (GPU-7f5e), 1 (GPU-90aa)");
    }

    #[test]
    fn an_answer_that_is_no_table_is_told() {
        let message = parse("No devices were found").unwrap_err().to_string();
        assert!(message.contains("No devices were found"), "{message}");
    }

    #[test]
    fn a_machine_without_the_vendors_tool_gets_an_error_with_the_way_out() {
        let message = query("nvidia-smi-that-is-not-there").unwrap_err().to_string();
        assert!(message.starts_with("cannot ask for the GPUs: nvidia-smi-that-is-not-there: "), "{message}");
        assert!(message.ends_with("without a GPU leave `wait_for_gpu` out"), "{message}");
    }
}
