//! Rows and columns in memory: types, shapes, what is refused.

use ndarray::{Array2, array};
use pavlov_data::{Block, Column, DataType, Dataset, Schema};
use serde::Serialize;
use serde_json::{Value, json};

use super::{all, size};

fn refused(items: Value) -> String {
    Dataset::from_items(items.as_array().unwrap()).unwrap_err().to_string()
}

#[test]
fn types_and_shapes_come_from_all_rows_in_memory() {
    let items = json!([
        {"int": 1, "mixed": 1, "gaps": null, "flag": true, "name": "a", "pair": [1, 2], "grid": [[1.5], [2]]},
        {"int": 2, "mixed": 2.5, "gaps": 7, "flag": false, "name": "b", "pair": [3, 4], "grid": [[3], [4]], "late": 5}
    ]);
    let dataset = Dataset::from_items(items.as_array().unwrap()).unwrap();
    assert_eq!(
        dataset.schema().unwrap(),
        Schema::new([
            ("int", DataType::Int, vec![]),
            ("mixed", DataType::Float, vec![]),
            ("gaps", DataType::Float, vec![]),
            ("flag", DataType::Bool, vec![]),
            ("name", DataType::Text, vec![]),
            ("pair", DataType::Int, vec![2]),
            ("grid", DataType::Float, vec![2, 1]),
            ("late", DataType::Float, vec![]),
        ])
    );
    assert_eq!(
        dataset.schema().unwrap().to_string(),
        "int: int, mixed: float, gaps: float, flag: bool, name: text, pair: int[2], grid: float[2, 1], late: float"
    );
    let block = dataset.blocks().unwrap().next().unwrap().unwrap();
    assert_eq!(block.int("pair").unwrap(), &array![[1, 2], [3, 4]].into_dyn());
    assert_eq!(block.float("grid").unwrap(), array![[[1.5], [2.0]], [[3.0], [4.0]]].into_dyn());
    assert!(block.float("gaps").unwrap()[0].is_nan() && block.float("late").unwrap()[0].is_nan());
    assert_eq!(block.bool("flag").unwrap(), &array![true, false].into_dyn());
    assert_eq!(block.text("name").unwrap(), ["a", "b"]);
    let rows = dataset.take(9).unwrap();
    assert_eq!(Value::from(rows[0].clone())["grid"], json!([[1.5], [2.0]]));
    assert_eq!(Value::from(rows[0].clone())["gaps"], Value::Null);
    assert_eq!(Value::from(rows[1].clone())["pair"], json!([3, 4]));
}

#[test]
fn rows_are_what_serde_serialises() {
    #[derive(Serialize)]
    struct Step {
        obs: [f32; 2],
        action: u8,
    }
    let steps = (0..3).map(|action| Step { obs: [0.5, f32::from(action)], action });
    let dataset = Dataset::from_items(steps).unwrap();
    assert_eq!(dataset.schema().unwrap().to_string(), "obs: float[2], action: int");
    let numbers = Dataset::from_items([4, 5]).unwrap();
    assert_eq!(Value::from(numbers.take(1).unwrap().remove(0)), json!({"item": 4}));
    let none = Dataset::from_items(Vec::<i64>::new()).unwrap();
    assert_eq!((none.count().unwrap(), none.schema().unwrap()), (0, Schema::default()));
}

#[test]
fn values_that_fit_no_column_are_refused_with_row_and_column() {
    for (items, message) in [
        (
            json!([{"x": 1}, {"x": "a"}]),
            "row 2, column `x`: the value is \"a\", but the column is int: give its type with a schema",
        ),
        (
            json!([{"x": true}, {"x": 1}]),
            "row 2, column `x`: the value is 1, but the column is bool: give its type with a schema",
        ),
        (
            json!([{"x": "a"}, {"x": null}]),
            "row 2, column `x`: the value is missing, but the column is text: only a float column may miss values",
        ),
        (
            json!([{"x": null}, {"x": "a"}]),
            "row 2, column `x`: the value is \"a\", but it is missing in the rows before: only a float column may miss values",
        ),
        (
            json!([{"x": [1, 2]}, {"x": [1, 2, 3]}]),
            "row 2, column `x`: the value has the shape [3], but the rows before or the schema have [2]: all rows need one shape",
        ),
        (
            json!([{"x": [1, 2]}, {"x": 1}]),
            "row 2, column `x`: the value has the shape [], but the rows before or the schema have [2]: all rows need one shape",
        ),
        (
            json!([{"x": [[1, 2], [3]]}]),
            "row 1, column `x`: its arrays have 2 and 1 values, but they must be of equal length: pad them",
        ),
        (
            json!([{"x": [1, [2]]}]),
            "row 1, column `x`: the array holds both single values and arrays, but all rows need one shape",
        ),
        (
            json!([{"x": ["a"]}]),
            "row 1, column `x`: \"a\" stands in an array, but arrays are of numbers or truth values",
        ),
        (
            json!([{"x": {"y": 1}}]),
            "row 1, column `x`: the value is an object, but it must be a number, a truth value, a text or an array: \
             give each of its parts a column",
        ),
        (
            json!([{"x": 9_223_372_036_854_775_808_u64}]),
            "row 1, column `x`: the value is 9223372036854775808, but whole numbers end at 9223372036854775807",
        ),
        (
            json!([{"x": null}]),
            "rows in memory, column `x`: none of the first rows has a value: give its type with a schema",
        ),
    ] {
        assert_eq!(refused(items), message);
    }
}

#[test]
fn columns_are_arrays_whose_first_axis_is_the_row() {
    let image = Array2::from_shape_fn((3, 2), |(row, pixel)| (10 * row + pixel) as f32);
    let columns = [("image", Column::from(image.clone())), ("label", vec![7_i64, 8, 9].into())];
    let dataset = Dataset::from_columns(columns).unwrap();
    assert_eq!(dataset.schema().unwrap().to_string(), "image: float[2], label: int");
    let batch = dataset.iter_batches(size(2)).unwrap().nth(1).unwrap().unwrap();
    assert_eq!(batch.float("image").unwrap(), array![[20.0, 21.0]].into_dyn());
    // Another memory layout, the same rows.
    let turned = Dataset::from_columns([("image", image.t().to_owned())]).unwrap();
    let batch = turned.iter_batches(size(2)).unwrap().next().unwrap().unwrap();
    assert_eq!(batch.float("image").unwrap(), array![[0.0, 10.0, 20.0], [1.0, 11.0, 21.0]].into_dyn());
    let blocks = [Block::new([("id", vec![1, 2])]).unwrap(), Block::new([("id", vec![3])]).unwrap()];
    assert_eq!(all(&Dataset::from_blocks(blocks).unwrap()), [1, 2, 3]);
}

#[test]
fn columns_that_make_no_rows_are_refused() {
    let refused = |columns: Vec<(&str, Column)>| Block::new(columns).unwrap_err().to_string();
    assert_eq!(
        refused(vec![("x", vec![1.0, 2.0].into()), ("y", vec![1].into())]),
        "dataset: column `y` has 1 rows, but column `x` has 2"
    );
    assert_eq!(
        refused(vec![("x", vec![1.0].into()), ("x", vec![1].into())]),
        "dataset: there are two columns `x`"
    );
    assert_eq!(
        refused(vec![("x", ndarray::arr0(1.0).into())]),
        "dataset: column `x` is a single value, but it must have an axis of rows"
    );
    let block = Block::new([("x", vec!["a"])]).unwrap();
    assert_eq!(
        block.float("x").unwrap_err().to_string(),
        "dataset: column `x` is text, but float is asked for"
    );
    assert_eq!(block.int("y").unwrap_err().to_string(), "dataset: there is no column `y`; the columns are x");
}

#[test]
fn a_dataset_shows_where_it_comes_from_and_not_what_it_holds() {
    let dataset = Dataset::from_items([json!({"secret": 12345})]).unwrap();
    assert_eq!(format!("{dataset:?}"), "Dataset(1 rows in memory (secret: int))");
    assert_eq!(format!("{:?}", Dataset::read_csv(["a.csv", "b"])), "Dataset(Csv [\"a.csv\", \"b\"])");
}
