//! ScalingConfig: the arithmetic by hand, after Ray 2.9's `ScalingConfig`.

use pavlov_train::ScalingConfig;
use pavlov_tune::{Bundle, Resources};
use serde_json::{Value, json};

fn bundle<const N: usize>(amounts: [(&str, f64); N]) -> Bundle {
    amounts.map(|(name, amount)| (name.to_string(), amount)).into()
}

fn bundles(config: &ScalingConfig) -> Vec<Bundle> {
    config.as_placement_group_factory().unwrap().bundles().to_vec()
}

#[test]
fn by_default_the_trainer_has_one_cpu_and_no_workers() {
    let config = ScalingConfig::default();
    assert_eq!(bundles(&config), [bundle([("CPU", 1.0)])]);
    assert_eq!(config.total_resources(), bundle([("CPU", 1.0)]));
}

#[test]
fn a_worker_has_one_cpu_or_with_use_gpu_one_gpu_and_no_cpu() {
    let config = ScalingConfig::workers(3);
    assert_eq!((config.num_cpus_per_worker(), config.num_gpus_per_worker()), (1.0, 0.0));
    assert_eq!(config.total_resources(), bundle([("CPU", 4.0)]));
    let config = ScalingConfig { use_gpu: true, ..config };
    assert_eq!((config.num_cpus_per_worker(), config.num_gpus_per_worker()), (0.0, 1.0));
    let gpu = bundle([("GPU", 1.0)]);
    assert_eq!(bundles(&config), [bundle([("CPU", 1.0)]), gpu.clone(), gpu.clone(), gpu]);
    assert_eq!(config.total_resources(), bundle([("CPU", 1.0), ("GPU", 3.0)]));
}

#[test]
fn given_amounts_stand_zero_ones_vanish_and_use_gpu_adds_one() {
    let config = ScalingConfig {
        trainer_resources: Some(bundle([("CPU", 0.0)])),
        use_gpu: true,
        resources_per_worker: Some(bundle([("CPU", 2.0), ("license", 0.5), ("disk", 0.0)])),
        ..ScalingConfig::workers(4)
    };
    assert!(config.validate().is_ok());
    assert_eq!((config.num_cpus_per_worker(), config.num_gpus_per_worker()), (2.0, 1.0));
    assert_eq!(config.additional_resources_per_worker(), bundle([("license", 0.5)]));
    assert_eq!(config.total_resources(), bundle([("CPU", 8.0), ("GPU", 4.0), ("license", 2.0)]));
    let worker = bundle([("CPU", 2.0), ("GPU", 1.0), ("license", 0.5)]);
    assert_eq!(bundles(&config), [vec![Bundle::new()], vec![worker; 4]].concat());
}

#[test]
fn from_its_request_comes_a_scaling_that_asks_for_the_same() {
    for config in [
        ScalingConfig::default(),
        ScalingConfig::workers(3),
        ScalingConfig { use_gpu: true, ..ScalingConfig::workers(2) },
        ScalingConfig { trainer_resources: Some(Bundle::new()), ..ScalingConfig::workers(2) },
    ] {
        let request = config.as_placement_group_factory().unwrap();
        let again = ScalingConfig::from_placement_group_factory(&request).unwrap();
        assert_eq!(again.as_placement_group_factory().unwrap(), request);
        assert_eq!((again.num_workers, again.use_gpu), (config.num_workers, config.use_gpu));
        assert!(again.validate().is_ok());
    }
}

#[test]
fn workers_say_what_and_how_many_they_are_once() {
    let scaling = |text: Value| serde_json::from_value::<ScalingConfig>(text).unwrap();
    let four = scaling(json!({"workers": "ray:4", "placement_strategy": "SPREAD"}));
    assert_eq!((four.world_size(), four.is_on_ray()), (Some(4), true));
    // Workers on the cluster take nothing of what the sweep has.
    assert_eq!(bundles(&four), [bundle([("CPU", 1.0)])]);
    assert!(four.validate().is_ok());
    let here = scaling(json!({"workers": "procs", "num_workers": 2}));
    assert_eq!((here.world_size(), here.is_on_ray(), bundles(&here).len()), (Some(2), false, 3));
    for (text, message) in [
        (
            json!({"workers": "threads:2"}),
            "`scaling_config.workers` is \"threads:2\", but workers that train together are processes: choose \"procs\" or \"ray\"",
        ),
        (
            json!({"workers": "ray"}),
            "`scaling_config.workers` is \"ray\", but it does not say how many: write \"ray:4\", or set `num_workers`",
        ),
        (
            json!({"workers": "ray:4", "num_workers": 3}),
            "`scaling_config.workers` is \"ray:4\", but `num_workers` is 3: leave one of them out",
        ),
        (
            json!({"workers": "procs:4", "placement_strategy": "PACK"}),
            "`scaling_config.placement_strategy` is \"PACK\", but only workers on Ray are placed: set `workers` to \"ray\", or leave it out",
        ),
    ] {
        assert_eq!(scaling(text).validate().unwrap_err().to_string(), message);
    }
}

#[test]
fn requests_for_nothing_and_unequal_workers_are_refused() {
    let nothing = ScalingConfig { trainer_resources: Some(Bundle::new()), ..ScalingConfig::default() };
    assert_eq!(
        nothing.validate().unwrap_err().to_string(),
        "resource request [{}]: at least one bundle must ask for something"
    );
    let unequal = ["CPU", "CPU", "GPU"].map(|name| bundle([(name, 1.0)])).to_vec();
    assert_eq!(
        ScalingConfig::from_placement_group_factory(&Resources::new(unequal).unwrap())
            .unwrap_err()
            .to_string(),
        r#"resource request {"CPU": 1.0}: each worker must get the same, but another one gets {"GPU": 1.0}"#
    );
}
