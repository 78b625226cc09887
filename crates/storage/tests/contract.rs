//! What every backend promises.

use std::sync::Arc;
use std::thread;

use object_store::memory::InMemory;
use pavlov_storage::CloudStorage;
use pavlov_tune::storage::{Storage, check_storage};

use crate::server::Server;

#[test]
fn a_store_in_memory_keeps_the_contract() {
    check_storage(&CloudStorage::new("memory://", Arc::new(InMemory::new()))).unwrap();
}

#[test]
fn an_s3_server_keeps_the_contract_with_and_without_a_prefix() {
    let Some(server) = Server::start() else { return };
    check_storage(&*server.open("s3://pavlov")).unwrap();
    check_storage(&*server.open("s3a://pavlov/some/prefix/")).unwrap();
}

#[test]
fn prefixes_do_not_see_each_other_and_the_bucket_sees_all() {
    let Some(server) = Server::start() else { return };
    server.open("s3://pavlov/one").put("a", b"1".to_vec()).unwrap();
    server.open("s3://pavlov/one1").put("a", b"22".to_vec()).unwrap();
    let paths = |url: &str| -> Vec<String> {
        server.open(url).list("").unwrap().into_iter().map(|object| object.path).collect()
    };
    assert_eq!(paths("s3://pavlov/one"), ["a"]);
    assert_eq!(paths("s3://pavlov"), ["one/a", "one1/a"]);
}

#[test]
fn a_listing_goes_on_after_the_thousand_objects_of_a_page() {
    let Some(server) = Server::start() else { return };
    let storage = server.open("s3://pavlov/many");
    let names: Vec<String> = (0..1_005).map(|i| format!("dir/{i:04}")).collect();
    thread::scope(|scope| {
        for names in names.chunks(300) {
            let storage = &storage;
            scope.spawn(move || names.iter().for_each(|name| storage.put(name, vec![]).unwrap()));
        }
    });
    let found: Vec<String> = storage.list("dir").unwrap().into_iter().map(|object| object.path).collect();
    assert_eq!(found, names);
}

#[test]
fn a_reader_sees_the_old_object_or_the_new_one_while_it_is_replaced() {
    let Some(server) = Server::start() else { return };
    let storage = server.open("s3://pavlov");
    let scratch = tempfile::tempdir().unwrap();
    // Above 8 MiB: in parts.
    let file = scratch.path().join("file");
    let content = |round: u8| vec![round; 9_000_000];
    storage.put("a", content(0)).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 1..4 {
                std::fs::write(&file, content(round)).unwrap();
                storage.put_file("a", &file, crc32c::crc32c(&content(round))).unwrap();
            }
        });
        while !writer.is_finished() {
            let found = storage.get("a").unwrap().unwrap();
            assert_eq!(found, content(found[0]));
        }
    });
    assert_eq!(storage.get("a").unwrap().unwrap(), content(3));
}

#[test]
fn what_was_acknowledged_is_there_after_the_server_was_killed() {
    let Some(mut server) = Server::start() else { return };
    let storage = server.open("s3://pavlov");
    storage.put("a", b"kept".to_vec()).unwrap();
    storage.put("b", b"deleted".to_vec()).unwrap();
    storage.delete("b").unwrap();
    server.kill();
    server.restart();
    assert_eq!(storage.get("a").unwrap().as_deref(), Some(&b"kept"[..]));
    assert_eq!(storage.list("").unwrap().len(), 1);
}

#[test]
fn any_thread_may_call_also_one_inside_a_runtime_of_tokio() {
    let storage = Arc::new(CloudStorage::new("memory://", Arc::new(InMemory::new())));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { storage.put("a", b"x".to_vec()) }).unwrap();
    assert_eq!(storage.get("a").unwrap().as_deref(), Some(&b"x"[..]));
}
