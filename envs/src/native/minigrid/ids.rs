//! The ids of MiniGrid 3.2.0, each with its class and settings.

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    door_tasks::{DoorKey, FourRooms},
    goal_tasks::{Crossing, DistShift, DynamicObstacles, Empty, LavaGap},
    hall_tasks::{Memory, Playground, RedBlueDoors},
    multi_room::{LockedRoom, MultiRoom},
    object_tasks::{Fetch, GoToDoor, GoToObject, PutNear},
    room_tasks::{BlockedUnlockPickup, KeyCorridor, ObstructedMaze, ObstructedPair, Unlock, UnlockPickup},
    settings::{Common, Settings},
    task::Task,
};
use crate::{
    EnvConfig, EnvSpec, Error, Result, registry::env_config::decode_config, registry::nearest::nearest,
};

/// A task and the common settings, decoded for one id.
pub(super) type Decoded = (Arc<dyn Task>, Common);

/// An environment class of MiniGrid.
#[derive(Clone, Copy)]
struct Class {
    summary: &'static str,
    decode: fn(&str, &EnvConfig) -> Result<Decoded>,
}

fn decode<T>(id: &str, config: &EnvConfig) -> Result<Decoded>
where
    T: Task + Default + Serialize + DeserializeOwned + 'static,
{
    let Settings::<T> { task, common } = decode_config(id, config)?;
    Ok((Arc::new(task), common))
}

const fn class<T>(summary: &'static str) -> Class
where
    T: Task + Default + Serialize + DeserializeOwned + 'static,
{
    Class { summary, decode: decode::<T> }
}

const BLOCKED_UNLOCK_PICKUP: Class =
    class::<BlockedUnlockPickup>("move a ball from a locked door, unlock it and pick up a box");
const CROSSING: Class = class::<Crossing>("cross rivers of lava, or walls, through their gaps");
const DIST_SHIFT: Class = class::<DistShift>("reach the goal past strips of lava");
const DOOR_KEY: Class = class::<DoorKey>("fetch a key, unlock a door and reach the goal");
const DYNAMIC_OBSTACLES: Class = class::<DynamicObstacles>("reach the goal between balls that move");
const EMPTY: Class = class::<Empty>("reach the goal in an empty room");
const FETCH: Class = class::<Fetch>("pick up the object that the mission names");
const FOUR_ROOMS: Class = class::<FourRooms>("reach the goal in one of four rooms");
const GO_TO_DOOR: Class = class::<GoToDoor>("go to the door that the mission names and say so");
const GO_TO_OBJECT: Class = class::<GoToObject>("go to the object that the mission names and say so");
const KEY_CORRIDOR: Class =
    class::<KeyCorridor>("find a key in one room, and a ball behind the door it opens");
const LAVA_GAP: Class = class::<LavaGap>("pass the gap in a strip of lava");
const LOCKED_ROOM: Class = class::<LockedRoom>("find the key of a locked room in another and reach the goal");
const MEMORY: Class = class::<Memory>("remember an object, and go to its like at the end of a hallway");
const MULTI_ROOM: Class = class::<MultiRoom>("open doors from room to room and reach the goal");
const OBSTRUCTED_PAIR: Class = class::<ObstructedPair>("find a ball behind a locked and obstructed door");
const OBSTRUCTED_MAZE: Class = class::<ObstructedMaze<false>>(FIND_BALL);
const OBSTRUCTED_MAZE_V1: Class = class::<ObstructedMaze<true>>(FIND_BALL);
const FIND_BALL: &str = "find a ball in a maze of locked and obstructed doors, with keys in boxes";
const PLAYGROUND: Class = class::<Playground>("nine rooms full of objects, and nothing to do");
const PUT_NEAR: Class = class::<PutNear>("put one object near another, as the mission says");
const RED_BLUE_DOORS: Class = class::<RedBlueDoors>("open a red door, then a blue one");
const UNLOCK: Class = class::<Unlock>("fetch a key and unlock a door");
const UNLOCK_PICKUP: Class = class::<UnlockPickup>("unlock a door and pick up the box behind it");

/// Returns all ids as name (between `MiniGrid-` and the version), version, class, and settings that differ from the
/// class's defaults.
fn table() -> Vec<(&'static str, u32, Class, Value)> {
    let lava = |size: i32, n: i32| json!({"size": size, "num_crossings": n});
    let walls = |size: i32, n: i32| json!({"size": size, "num_crossings": n, "obstacle_type": "wall"});
    let size = |size: i32| json!({"size": size});
    let anywhere = |size: i32| json!({"size": size, "agent_start_pos": null});
    let balls = |size: i32, n: i32| json!({"size": size, "n_obstacles": n});
    let balls_anywhere = |size: i32, n: i32| json!({"size": size, "n_obstacles": n, "agent_start_pos": null});
    let objects = |size: i32, n: i32| json!({"size": size, "numObjs": n});
    let corridor = |size: i32, rows: i32| json!({"room_size": size, "num_rows": rows});
    let random_length = |size: i32| json!({"size": size, "random_length": true});
    let rooms = |n: i32, size: i32| json!({"minNumRooms": n, "maxNumRooms": n, "maxRoomSize": size});
    let pair = |in_box: bool| json!({"key_in_box": in_box, "blocked": false});
    let maze = |agent: i32, in_box: bool, blocked: bool, quarters: i32, visited: i32| {
        json!({
            "agent_room": [agent, 1], "key_in_box": in_box, "blocked": blocked,
            "num_quarters": quarters, "num_rooms_visited": visited,
        })
    };
    let same = || json!({});
    vec![
        ("BlockedUnlockPickup", 0, BLOCKED_UNLOCK_PICKUP, same()),
        ("LavaCrossingS9N1", 0, CROSSING, lava(9, 1)),
        ("LavaCrossingS9N2", 0, CROSSING, lava(9, 2)),
        ("LavaCrossingS9N3", 0, CROSSING, lava(9, 3)),
        ("LavaCrossingS11N5", 0, CROSSING, lava(11, 5)),
        ("SimpleCrossingS9N1", 0, CROSSING, walls(9, 1)),
        ("SimpleCrossingS9N2", 0, CROSSING, walls(9, 2)),
        ("SimpleCrossingS9N3", 0, CROSSING, walls(9, 3)),
        ("SimpleCrossingS11N5", 0, CROSSING, walls(11, 5)),
        ("DistShift1", 0, DIST_SHIFT, json!({"strip2_row": 2})),
        ("DistShift2", 0, DIST_SHIFT, json!({"strip2_row": 5})),
        ("DoorKey-5x5", 0, DOOR_KEY, size(5)),
        ("DoorKey-6x6", 0, DOOR_KEY, size(6)),
        ("DoorKey-8x8", 0, DOOR_KEY, size(8)),
        ("DoorKey-16x16", 0, DOOR_KEY, size(16)),
        ("Dynamic-Obstacles-5x5", 0, DYNAMIC_OBSTACLES, balls(5, 2)),
        ("Dynamic-Obstacles-Random-5x5", 0, DYNAMIC_OBSTACLES, balls_anywhere(5, 2)),
        ("Dynamic-Obstacles-6x6", 0, DYNAMIC_OBSTACLES, balls(6, 3)),
        ("Dynamic-Obstacles-Random-6x6", 0, DYNAMIC_OBSTACLES, balls_anywhere(6, 3)),
        ("Dynamic-Obstacles-8x8", 0, DYNAMIC_OBSTACLES, same()),
        ("Dynamic-Obstacles-16x16", 0, DYNAMIC_OBSTACLES, balls(16, 8)),
        ("Empty-5x5", 0, EMPTY, size(5)),
        ("Empty-Random-5x5", 0, EMPTY, anywhere(5)),
        ("Empty-6x6", 0, EMPTY, size(6)),
        ("Empty-Random-6x6", 0, EMPTY, anywhere(6)),
        ("Empty-8x8", 0, EMPTY, same()),
        ("Empty-16x16", 0, EMPTY, size(16)),
        ("Fetch-5x5-N2", 0, FETCH, objects(5, 2)),
        ("Fetch-6x6-N2", 0, FETCH, objects(6, 2)),
        ("Fetch-8x8-N3", 0, FETCH, same()),
        ("FourRooms", 0, FOUR_ROOMS, same()),
        ("GoToDoor-5x5", 0, GO_TO_DOOR, same()),
        ("GoToDoor-6x6", 0, GO_TO_DOOR, size(6)),
        ("GoToDoor-8x8", 0, GO_TO_DOOR, size(8)),
        ("GoToObject-6x6-N2", 0, GO_TO_OBJECT, same()),
        ("GoToObject-8x8-N2", 0, GO_TO_OBJECT, objects(8, 2)),
        ("KeyCorridorS3R1", 0, KEY_CORRIDOR, corridor(3, 1)),
        ("KeyCorridorS3R2", 0, KEY_CORRIDOR, corridor(3, 2)),
        ("KeyCorridorS3R3", 0, KEY_CORRIDOR, corridor(3, 3)),
        ("KeyCorridorS4R3", 0, KEY_CORRIDOR, corridor(4, 3)),
        ("KeyCorridorS5R3", 0, KEY_CORRIDOR, corridor(5, 3)),
        ("KeyCorridorS6R3", 0, KEY_CORRIDOR, corridor(6, 3)),
        ("LavaGapS5", 0, LAVA_GAP, size(5)),
        ("LavaGapS6", 0, LAVA_GAP, size(6)),
        ("LavaGapS7", 0, LAVA_GAP, size(7)),
        ("LockedRoom", 0, LOCKED_ROOM, same()),
        ("MemoryS17Random", 0, MEMORY, random_length(17)),
        ("MemoryS13Random", 0, MEMORY, random_length(13)),
        ("MemoryS13", 0, MEMORY, size(13)),
        ("MemoryS11", 0, MEMORY, size(11)),
        ("MemoryS9", 0, MEMORY, size(9)),
        ("MemoryS7", 0, MEMORY, size(7)),
        ("MultiRoom-N2-S4", 0, MULTI_ROOM, rooms(2, 4)),
        // In MiniGrid, version 0 has six rooms in spite of its name.
        ("MultiRoom-N4-S5", 0, MULTI_ROOM, rooms(6, 5)),
        ("MultiRoom-N4-S5", 1, MULTI_ROOM, rooms(4, 5)),
        ("MultiRoom-N6", 0, MULTI_ROOM, same()),
        ("ObstructedMaze-1Dl", 0, OBSTRUCTED_PAIR, pair(false)),
        ("ObstructedMaze-1Dlh", 0, OBSTRUCTED_PAIR, pair(true)),
        ("ObstructedMaze-1Dlhb", 0, OBSTRUCTED_PAIR, same()),
        ("ObstructedMaze-2Dl", 0, OBSTRUCTED_MAZE, maze(2, false, false, 1, 4)),
        ("ObstructedMaze-2Dlh", 0, OBSTRUCTED_MAZE, maze(2, true, false, 1, 4)),
        ("ObstructedMaze-2Dlhb", 0, OBSTRUCTED_MAZE, maze(2, true, true, 1, 4)),
        ("ObstructedMaze-1Q", 0, OBSTRUCTED_MAZE, maze(1, true, true, 1, 5)),
        ("ObstructedMaze-2Q", 0, OBSTRUCTED_MAZE, maze(2, true, true, 2, 11)),
        ("ObstructedMaze-Full", 0, OBSTRUCTED_MAZE, same()),
        ("ObstructedMaze-2Dlhb", 1, OBSTRUCTED_MAZE_V1, maze(2, true, true, 1, 4)),
        ("ObstructedMaze-1Q", 1, OBSTRUCTED_MAZE_V1, maze(1, true, true, 1, 5)),
        ("ObstructedMaze-2Q", 1, OBSTRUCTED_MAZE_V1, maze(2, true, true, 2, 11)),
        ("ObstructedMaze-Full", 1, OBSTRUCTED_MAZE_V1, same()),
        ("Playground", 0, PLAYGROUND, same()),
        ("PutNear-6x6-N2", 0, PUT_NEAR, same()),
        ("PutNear-8x8-N3", 0, PUT_NEAR, objects(8, 3)),
        ("RedBlueDoors-6x6", 0, RED_BLUE_DOORS, size(6)),
        ("RedBlueDoors-8x8", 0, RED_BLUE_DOORS, same()),
        ("Unlock", 0, UNLOCK, same()),
        ("UnlockPickup", 0, UNLOCK_PICKUP, same()),
    ]
}

fn full_id(name: &str, version: u32) -> String {
    format!("MiniGrid-{name}-v{version}")
}

/// Decodes the task of an id; settings in `config` override those of the id.
pub(super) fn look_up(id: &str, config: &EnvConfig) -> Result<Decoded> {
    let of_id = |(name, version, ..): &(&str, u32, Class, Value)| full_id(name, *version) == id;
    let Some((_, _, class, own)) = table().into_iter().find(of_id) else {
        let known: Vec<String> = specs().into_iter().map(|spec| spec.id).collect();
        let nearest = nearest(id, known.iter().map(String::as_str)).map(str::to_owned);
        return Err(Error::UnknownEnv { id: id.into(), nearest });
    };
    let mut config = config.clone();
    for (key, value) in own.as_object().into_iter().flatten() {
        config.entry(key).or_insert_with(|| value.clone());
    }
    (class.decode)(id, &config)
}

/// Returns the registry description of every id.
pub(super) fn specs() -> Vec<EnvSpec> {
    let spec = |(name, version, class, own): (&str, u32, Class, Value)| {
        let id = full_id(name, version);
        // The table's settings always decode: a test makes every id.
        let decoded = own.as_object().and_then(|own| (class.decode)(&id, own).ok());
        let max_episode_steps = decoded.map(|(task, _)| task.max_steps() as usize);
        EnvSpec { id, summary: class.summary.into(), max_episode_steps, reward_threshold: None }
    };
    table().into_iter().map(spec).collect()
}
