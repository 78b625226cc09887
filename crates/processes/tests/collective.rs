//! What workers call together: values by hand, the same bits everywhere, and what happens when one is gone.

use std::thread;
use std::time::Duration;

use pavlov_processes::{Collective, Error, ReduceOp, Result, SocketCollective};

/// What each member of a world returns, by rank.
fn all<R: Send>(world: usize, run: impl Fn(&SocketCollective) -> R + Sync) -> Vec<R> {
    let members = SocketCollective::world(world).unwrap();
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = members.into_iter().map(|member| scope.spawn(move || run(&member))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// A value that no other rank or place has, and whose sums round.
fn value(rank: usize, place: usize) -> f32 {
    ((rank * 7919 + place * 104_729) % 65_537) as f32 * 0.1 - 3000.0
}

#[test]
fn all_reduce_is_the_sum_in_the_order_of_ranks_with_the_same_bits_everywhere() {
    for world in 1..=4 {
        for len in [0, 1, 2, 3, 10_007, 1_000_000] {
            let sums = all(world, |member| {
                let mut values: Vec<f32> = (0..len).map(|place| value(member.rank(), place)).collect();
                member.all_reduce(&mut values, ReduceOp::Sum).unwrap();
                values
            });
            let by_hand =
                |place: usize| (1..world).fold(value(0, place), |sum, rank| sum + value(rank, place));
            for sum in sums {
                let differs = (0..len).find(|place| sum[*place].to_bits() != by_hand(*place).to_bits());
                assert_eq!(differs, None, "{world} workers, {len} values");
            }
        }
    }
}

#[test]
fn a_mean_is_the_sum_divided_by_the_number_of_workers() {
    // (1 + 2 + 4) / 3 and (0.5 + 1 + 2) / 3, exact to rounding in double precision.
    for values in all(3, |member| {
        let mut values = [1.0, 0.5].map(|value| value * f64::from(1 << member.rank()));
        member.all_reduce_f64(&mut values, ReduceOp::Mean).unwrap();
        values
    }) {
        assert_eq!(values, [7.0 / 3.0, 3.5 / 3.0]);
    }
}

#[test]
fn broadcast_copies_from_its_root_and_all_gather_keeps_ranks_and_lengths() {
    let gathered = all(3, |member| {
        let mut bytes = [member.rank() as u8; 300_000];
        member.broadcast(&mut bytes, 1).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 1));
        member.barrier().unwrap();
        member.all_gather(&vec![member.rank() as u8; 100 * member.rank()]).unwrap()
    });
    for each in gathered {
        assert_eq!(each, [vec![], vec![1; 100], vec![2; 200]]);
    }
}

#[test]
fn a_world_of_one_changes_nothing() {
    let alone = SocketCollective::alone();
    let mut values = [0.1, f32::MIN_POSITIVE];
    alone.all_reduce(&mut values, ReduceOp::Mean).unwrap();
    assert_eq!(values, [0.1, f32::MIN_POSITIVE]);
    assert_eq!(alone.all_gather(b"own").unwrap(), [b"own"]);
    alone.broadcast(&mut [0], 0).unwrap();
    alone.barrier().unwrap();
    assert_eq!((alone.rank(), alone.world_size()), (0, 1));
}

#[test]
fn a_worker_that_is_gone_is_an_error_with_its_number_for_those_who_wait_and_for_later_calls() {
    // 4 MB are more than a socket holds: the others are in the middle of sending when worker 2 goes.
    let errors = all(4, |member| -> Vec<String> {
        let mut values = vec![1.0; 1_000_000];
        member.all_reduce(&mut values, ReduceOp::Sum).unwrap();
        if member.rank() == 2 {
            thread::sleep(Duration::from_millis(100));
            return vec![];
        }
        let first = member.all_reduce(&mut values, ReduceOp::Sum).unwrap_err();
        assert!(matches!(first, Error::WorkerLost { call: "all_reduce", .. }), "{first}");
        vec![first.to_string(), member.barrier().unwrap_err().to_string()]
    });
    let said: Vec<&String> = errors.iter().filter_map(|errors| errors.first()).collect();
    assert_eq!(said.len(), 3);
    assert!(said.contains(&&"`all_reduce` needs worker 2, which is gone".to_string()), "{said:?}");
    for errors in errors.iter().filter(|errors| !errors.is_empty()) {
        assert_eq!(errors[1], format!("the collective is of no more use since an error: {}", errors[0]));
    }
}

#[test]
fn calls_that_differ_are_named_instead_of_waited_for() {
    let differ = |one: &(dyn Fn(&SocketCollective) -> Result<()> + Sync),
                  other: &(dyn Fn(&SocketCollective) -> Result<()> + Sync)| {
        let errors =
            all(2, |member| if member.rank() == 0 { one(member) } else { other(member) }.unwrap_err());
        errors.into_iter().map(|error| error.to_string()).collect::<Vec<_>>()
    };
    let way_out = "; all workers make the same calls, with as many values, in the same order";
    let reduce =
        |len: usize| move |member: &SocketCollective| member.all_reduce(&mut vec![0.0; len], ReduceOp::Sum);
    assert_eq!(
        differ(&reduce(10), &|member| member.barrier()),
        [
            format!(
                "worker 1 calls `barrier` where this worker calls `all_reduce` (Sum) of 10 values{way_out}"
            ),
            format!(
                "worker 0 calls `all_reduce` (Sum) of 10 values where this worker calls `barrier`{way_out}"
            ),
        ]
    );
    // As many bytes and more than a socket holds.
    let errors =
        differ(&reduce(400_000), &|member| member.all_reduce_f64(&mut vec![0.0; 200_000], ReduceOp::Sum));
    assert!(errors[0].starts_with("worker 1 calls `all_reduce_f64` (Sum) of 200000 values"), "{errors:?}");
    assert!(errors[1].starts_with("worker 0 calls `all_reduce` (Sum) of 400000 values"), "{errors:?}");
    let errors = differ(&|member| member.broadcast(&mut [0], 0), &|member| member.broadcast(&mut [0], 1));
    assert!(errors[0].starts_with("worker 1 calls `broadcast` of 1 bytes from worker 1"), "{errors:?}");
}
