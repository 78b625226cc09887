//! Facts about this process and machine that go into every result.

use std::fs;
use std::net::UdpSocket;
use std::sync::OnceLock;
use std::time::SystemTime;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::{Value, json};

/// Local time; 1970 if the clock stands outside of the calendar.
pub(crate) fn local(time: SystemTime) -> Zoned {
    Timestamp::try_from(time).unwrap_or_default().to_zoned(TimeZone::system())
}

/// `2022-05-01_13-59-07`, as in Ray's results and directory names.
pub(crate) fn date(now: &Zoned) -> String {
    now.strftime("%Y-%m-%d_%H-%M-%S").to_string()
}

/// Asked for once per process.
pub(crate) fn hostname() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

/// The address this machine uses towards others, asked for once per process; a UDP `connect` chooses a route and sends
/// nothing.
pub(crate) fn node_ip() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    let address = || {
        let socket = UdpSocket::bind(("0.0.0.0", 0)).ok()?;
        socket.connect(("8.8.8.8", 53)).ok()?;
        Some(socket.local_addr().ok()?.ip().to_string())
    };
    ADDRESS.get_or_init(|| address().unwrap_or_else(|| "127.0.0.1".into()))
}

/// Machine load between two readings, from `/proc`.
#[derive(Debug, Default)]
pub(crate) struct SysUsage {
    last: Option<CpuTicks>,
}

#[derive(Clone, Copy, Debug)]
struct CpuTicks {
    idle: u64,
    total: u64,
}

impl SysUsage {
    pub(crate) fn start() -> Self {
        SysUsage { last: cpu_ticks() }
    }

    /// `{cpu_util_percent: mean since the last reading, ram_util_percent: now}`; what `/proc` does not tell is left out.
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

/// First line of `/proc/stat`: user nice system idle iowait irq softirq steal ...
fn cpu_ticks() -> Option<CpuTicks> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).take(8).filter_map(|n| n.parse().ok()).collect();
    Some(CpuTicks { idle: fields.get(3)? + fields.get(4)?, total: fields.iter().sum() })
}

fn ram_util_percent() -> Option<f64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let kib = |name: &str| -> Option<f64> {
        info.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
    };
    Some(100.0 * (1.0 - kib("MemAvailable:")? / kib("MemTotal:")?))
}
