//! Facts about this process and machine, e.g. host name and memory; most of them go into every result.

use std::fs;
use std::net::UdpSocket;
use std::sync::OnceLock;
use std::time::SystemTime;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::{Value, json};

/// Converts to local time; 1970 if the time is outside of the calendar's range.
pub(crate) fn local(time: SystemTime) -> Zoned {
    Timestamp::try_from(time).unwrap_or_default().to_zoned(TimeZone::system())
}

/// Formats a time as `2022-05-01_13-59-07`, like Ray's results and directory names.
pub(crate) fn date(now: &Zoned) -> String {
    now.strftime("%Y-%m-%d_%H-%M-%S").to_string()
}

/// Returns the host name, which is read once per process.
pub(crate) fn hostname() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

/// Returns the IP address that this machine uses for outgoing connections, found once per process; `127.0.0.1` without
/// a network. A UDP `connect` only chooses a route and sends nothing.
pub(crate) fn node_ip() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    let address = || {
        let socket = UdpSocket::bind(("0.0.0.0", 0)).ok()?;
        socket.connect(("8.8.8.8", 53)).ok()?;
        Some(socket.local_addr().ok()?.ip().to_string())
    };
    ADDRESS.get_or_init(|| address().unwrap_or_else(|| "127.0.0.1".into()))
}

/// Measures CPU and memory use of the machine between two readings of `/proc`.
#[derive(Debug, Default)]
pub(crate) struct SysUsage {
    last: Option<CpuTicks>,
}

/// Time that the CPUs were idle and in total, in clock ticks since boot.
#[derive(Clone, Copy, Debug)]
struct CpuTicks {
    idle: u64,
    total: u64,
}

impl SysUsage {
    /// Starts the measurement.
    pub(crate) fn start() -> Self {
        SysUsage { last: cpu_ticks() }
    }

    /// Returns `cpu_util_percent` (mean since the last reading) and `ram_util_percent` (current value); a value that
    /// `/proc` does not give is left out.
    pub(crate) fn read(&mut self) -> Value {
        let mut perf = json!({});
        let ticks = cpu_ticks();
        if let (Some(last), Some(now)) = (self.last, ticks)
            && now.total > last.total
        {
            let idle = now.idle.saturating_sub(last.idle) as f64 / (now.total - last.total) as f64;
            perf["cpu_util_percent"] = json!(100.0 * (1.0 - idle).clamp(0.0, 1.0));
        }
        self.last = ticks;
        if let Some(percent) = ram_util_percent() {
            perf["ram_util_percent"] = json!(percent);
        }
        perf
    }
}

/// Reads the first line of `/proc/stat`, which has the fields user, nice, system, idle, iowait, irq, softirq, steal.
fn cpu_ticks() -> Option<CpuTicks> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).take(8).filter_map(|n| n.parse().ok()).collect();
    Some(CpuTicks { idle: fields.get(3)? + fields.get(4)?, total: fields.iter().sum() })
}

/// Returns the used share of the machine's memory in percent.
fn ram_util_percent() -> Option<f64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let kib = |name: &str| number_after(&info, name).map(|kib| kib as f64);
    Some(100.0 * (1.0 - kib("MemAvailable:")? / kib("MemTotal:")?))
}

/// Returns the number that follows `name` at the start of a line.
fn number_after(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}
