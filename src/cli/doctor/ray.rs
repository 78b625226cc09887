//! Lines of `pavlov doctor` about Ray and the cluster at `RAY_ADDRESS`.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::line::{Line, Status};

const SCRIPT: &str = include_str!("ray.py");

/// Output of the Python script `ray.py`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    version: Option<String>,
    machines: Option<Vec<Machine>>,
    error: Option<String>,
}

/// State of one machine of the cluster, as a worker would find it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Machine {
    address: String,
    processor: String,
    torch: Option<String>,
    has_libtorch: bool,
    error: Option<String>,
}

/// Checks the Ray of `PAVLOV_PYTHON` (default `python3`), and the cluster if `RAY_ADDRESS` names one. `lib` is the path of
/// the libtorch in use, `libtorch` its version.
pub(super) fn ray(lib: Option<&Path>, libtorch: Option<&str>) -> Vec<Line> {
    let python = std::env::var("PAVLOV_PYTHON").ok().filter(|python| !python.is_empty());
    let python = python.unwrap_or_else(|| "python3".into());
    let address = std::env::var("RAY_ADDRESS").ok().filter(|address| !["", "local"].contains(&&**address));
    let ray = version(&python, ask(&python, lib.and_then(Path::parent)), address.is_some());
    match (ray, address) {
        (Ok((line, said)), Some(address)) => vec![line, cluster(&address, &said, libtorch)],
        (Ok((line, _)) | Err(line), _) => vec![line],
    }
}

/// Runs the script in `python`; workers may find libtorch in `folder`, too. `None` if the script fails.
fn ask(python: &str, folder: Option<&Path>) -> Option<Said> {
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT]).args(folder).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    serde_json::from_slice(&output.stdout).ok()
}

fn version(python: &str, said: Option<Said>, is_asked_for: bool) -> Result<(Line, Said), Line> {
    const WHAT: &str = "Ray";
    const REMEDY: &str = "`pip install ray` into a Python, and name it by PAVLOV_PYTHON";
    let said = said.unwrap_or_default();
    let Some(version) = &said.version else {
        return Err(if is_asked_for {
            Line::bad(WHAT, Status::Warn, format!("none in {python}, and RAY_ADDRESS is set"), REMEDY)
        } else {
            Line::ok(WHAT, format!("none in {python}; needed for `--workers ray:N` alone"))
        });
    };
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let numbers: [u32; 2] = [parts.next().unwrap_or(0), parts.next().unwrap_or(0)];
    if !([2, 60]..[3, 0]).contains(&numbers) {
        let found = format!("{version} in {python}, but workers need 2.60 or a later 2.x");
        return Err(Line::bad(WHAT, Status::Warn, found, REMEDY));
    }
    Ok((Line::ok(WHAT, format!("{version} in {python}")), said))
}

fn cluster(address: &str, said: &Said, libtorch: Option<&str>) -> Line {
    const WHAT: &str = "Ray cluster";
    let bad = |found, remedy: &str| Line::bad(WHAT, Status::Warn, found, remedy);
    let machines = match (&said.error, &said.machines) {
        (Some(error), _) => {
            let remedy = if error.to_lowercase().contains("version mismatch") {
                "name an interpreter with the cluster's versions by PAVLOV_PYTHON"
            } else {
                "start one with `ray start --head`; if it asks for a token, set RAY_AUTH_MODE=token and the same \
                          RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH everywhere"
            };
            return bad(format!("none to join at {address}: {error}"), remedy);
        }
        (_, machines) => machines.as_deref().unwrap_or_default(),
    };
    let lacks = |what: &dyn Fn(&Machine) -> Option<String>| {
        let found =
            machines.iter().find_map(|machine| Some(format!("{} {}", machine.address, what(machine)?)));
        found.map(|found| format!("{} machine(s) at {address}; {found}", machines.len()))
    };
    if let Some(found) = lacks(&|machine| Some(format!("ran nothing: {}", machine.error.as_ref()?))) {
        return bad(found, "look at that machine, or start its part of the cluster again with `ray start`");
    }
    let own = std::env::consts::ARCH;
    let processor = |machine: &Machine| machine.processor.replace("arm64", "aarch64");
    if let Some(found) = lacks(&|machine| {
        let other = Some(processor(machine)).filter(|there| there != own);
        other.map(|there| format!("is of another kind, {there}, and this executable is for {own}"))
    }) {
        return bad(found, "workers there cannot start: use machines of one kind");
    }
    if let Some(found) = lacks(&|machine| match (&machine.torch, machine.has_libtorch) {
        (None, false) => Some("has no libtorch".into()),
        (Some(torch), false) if libtorch.is_some_and(|own| torch.split('+').next() != Some(own)) => {
            Some(format!("has torch {torch}, which is not the version of libtorch here"))
        }
        _ => None,
    }) {
        let version = libtorch.map(|version| format!("=={version}")).unwrap_or_default();
        return bad(
            found,
            &format!(
                "`pip install torch{version}` there, or put libtorch's folder `lib` into LD_LIBRARY_PATH"
            ),
        );
    }
    Line::ok(WHAT, format!("{} machine(s) at {address}, all with libtorch", machines.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: serde_json::Value) -> Said {
        serde_json::from_value(text).expect("what the script says")
    }

    #[test]
    fn a_python_without_ray_or_with_another_one_is_told_what_to_install() {
        let of = |version: &str| version_line(serde_json::json!({"version": version}));
        assert!(
            of("2.44.1").unwrap_err().contains("2.44.1 in python3, but workers need 2.60 or a later 2.x")
        );
        assert!(of("3.0.0").is_err() && of("2.61.0").is_ok() && of("2.60.0").is_ok());
        assert_eq!(
            version_line(serde_json::json!({})).unwrap_err(),
            "none in python3; needed for `--workers ray:N` alone"
        );
        let asked = super::version("python3", None, true).unwrap_err();
        assert_eq!((asked.status, &*asked.found), (Status::Warn, "none in python3, and RAY_ADDRESS is set"));
    }

    #[test]
    fn the_script_answers_through_a_pipe_and_writes_no_file_that_another_user_could_have_made_a_link() {
        let home = tempfile::tempdir().expect("a directory");
        let other = home.path().join("other");
        std::fs::write(&other, "mine").expect("written");
        let link = std::env::temp_dir().join(format!("pavlov-doctor-{}.json", std::process::id()));
        std::os::unix::fs::symlink(&other, &link).expect("a link");
        // The script prints an object with and without Ray.
        let said = ask("python3", None);
        let kept = link.is_symlink();
        let content = std::fs::read_to_string(&other).expect("text");
        std::fs::remove_file(&link).ok();
        assert!(said.is_some());
        assert!(kept && content == "mine", "{content}");
    }

    fn version_line(text: serde_json::Value) -> Result<String, String> {
        super::version("python3", Some(said(text)), false)
            .map(|(line, _)| line.found)
            .map_err(|line| line.found)
    }

    #[test]
    fn what_a_machine_of_the_cluster_lacks_is_said_with_the_way_out() {
        let own = std::env::consts::ARCH;
        let of = |machine: serde_json::Value| {
            let whole = serde_json::json!({"address": "10.0.0.1", "processor": own, "has_libtorch": true});
            let line =
                cluster("head:1", &said(serde_json::json!({"machines": [whole, machine]})), Some("2.13.0"));
            (
                line.status,
                line.remedy.iter().fold(line.found.clone(), |text, remedy| format!("{text}; {remedy}")),
            )
        };
        for (machine, part) in [
            (
                serde_json::json!({"processor": "riscv64"}),
                "is of another kind, riscv64, and this executable is for",
            ),
            (serde_json::json!({"processor": own}), "has no libtorch; `pip install torch==2.13.0` there"),
            (
                serde_json::json!({"processor": own, "torch": "2.4.1+cpu"}),
                "has torch 2.4.1+cpu, which is not the version of libtorch here",
            ),
            (serde_json::json!({"error": "timed out"}), "ran nothing: timed out; look at that machine"),
        ] {
            let mut machine = machine;
            machine["address"] = "10.0.0.2".into();
            let (status, text) = of(machine);
            assert!(
                status == Status::Warn && text.contains(&format!("2 machine(s) at head:1; 10.0.0.2 {part}")),
                "{text}"
            );
        }
        let (status, text) =
            of(serde_json::json!({"address": "10.0.0.2", "processor": own, "torch": "2.13.0+cpu"}));
        assert_eq!((status, &*text), (Status::Ok, "2 machine(s) at head:1, all with libtorch"));
        let none = cluster("head:1", &said(serde_json::json!({"error": "refused"})), None);
        assert_eq!((none.status, &*none.found), (Status::Warn, "none to join at head:1: refused"));
    }
}
