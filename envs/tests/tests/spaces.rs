//! Rows, layouts, one-hot rows, membership and JSON of spaces.

use pavlov_envs::{DType, Layout, NpRandom, Space};

fn composite() -> Space {
    Space::dict([
        ("speed", Space::boxed(-1.0, 1.0, &[2])),
        ("gear", Space::Discrete { n: 3, start: 1 }),
        ("lamps", Space::Tuple(vec![Space::multi_binary(&[2]), Space::multi_discrete(&[2, 3])])),
    ])
}

#[test]
fn parts_of_a_dict_lie_in_the_order_of_their_names() {
    let layout = Layout::new(&composite());
    let places: Vec<_> =
        layout.leaves.iter().map(|leaf| (leaf.path.as_str(), leaf.row.clone(), leaf.flat.clone())).collect();
    assert_eq!(
        places,
        [("gear", 0..1, 0..3), ("lamps/0", 1..3, 3..5), ("lamps/1", 3..5, 5..10), ("speed", 5..7, 10..12)]
    );
    assert_eq!((composite().width(), composite().flat_width()), (7, 12));
    assert_eq!(composite().shape(), [7]);
}

#[test]
fn integers_become_one_hot_and_reals_stay() {
    let row = [3.0_f32, 1.0, 0.0, 0.0, 2.0, -0.5, 0.25];
    let rows = [row, row].concat();
    let mut out = [9.0; 24];
    composite().flatten_into(bytemuck::cast_slice(&rows), &mut out).unwrap();
    let expected = [0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, -0.5, 0.25];
    assert_eq!(out[..12], expected);
    assert_eq!(out[12..], expected);

    let mut out = [9.0; 4];
    Space::discrete(4).flatten_into(bytemuck::bytes_of(&2_i64), &mut out).unwrap();
    assert_eq!(out, [0.0, 0.0, 1.0, 0.0]);
    Space::discrete(4).flatten_into(bytemuck::bytes_of(&-1_i64), &mut out).unwrap();
    assert_eq!(out, [0.0; 4]);
    let error = Space::discrete(4).flatten_into(bytemuck::bytes_of(&2_i64), &mut [0.0; 3]).unwrap_err();
    assert!(error.to_string().contains("as many rows of 1 as of 4"), "{error}");
}

#[test]
fn a_composite_row_has_the_narrowest_type_that_holds_every_part() {
    let of = |parts: &[Space]| Space::Tuple(parts.to_vec()).dtype();
    let bits = Space::multi_binary(&[1]);
    let small = Space::discrete(9);
    let large = Space::discrete(1 << 25);
    let real = Space::real(&[1]);
    let double = Space::real(&[1]).with_dtype(DType::F64);
    assert_eq!(of(&[bits.clone(), Space::image(&[2])]), DType::U8);
    assert_eq!(of(&[bits.clone(), small.clone()]), DType::I64);
    assert_eq!(of(&[real.clone(), small.clone(), bits]), DType::F32);
    assert_eq!(of(&[real.clone(), large]), DType::F64);
    assert_eq!(of(&[real, double, small]), DType::F64);
}

#[test]
fn a_violation_names_the_element_and_the_rule() {
    let row = [3.0, 1.0, 0.0, 0.0, 2.0, -0.5, 0.25];
    assert!(composite().contains(&row));
    let with = |i: usize, value: f64| {
        let mut row = row;
        row[i] = value;
        composite().violation(&row).unwrap_or_default()
    };
    assert_eq!(with(0, 4.0), "element 0 is 4.0, outside 1..=3");
    assert_eq!(with(1, 2.0), "element 1 is 2.0, outside 0..=1");
    assert_eq!(with(4, 1.5), "element 4 is 1.5, which is no integer");
    assert_eq!(with(6, 1.25), "element 6 is 1.25, outside -1..=1");
    assert_eq!(with(5, f64::NAN), "element 5 is NaN, outside -1..=1");
    assert!(composite().violation(&row[1..]).unwrap().starts_with("the row has 6 scalars"));
}

/// `gymnasium.spaces.Box(0.0, 0.1)` rounds its bounds to `np.float32(0.1)`, which is above 0.1.
#[test]
fn the_bounds_of_a_box_are_members_in_its_scalar_type() {
    let space = Space::boxed(0.0, 0.1, &[1]);
    assert_eq!(space.violation(&[0.1_f32]), None);
    assert_eq!(space.violation(&[0.1_f64]), None);
    assert_eq!(space.violation(&[0.1_f32.next_up()]).unwrap(), "element 0 is 0.10000001, outside 0..=0.1");
    // 0.7 in single precision is below 0.7.
    assert_eq!(Space::boxed(0.7, 1.0, &[1]).violation(&[0.7_f32]), None);
    let double = Space::boxed(0.0, 0.1, &[1]).with_dtype(DType::F64);
    assert!(double.contains(&[0.1]) && !double.contains(&[f64::from(0.1_f32)]));
}

#[test]
fn samples_are_members() {
    let half_bounded = Space::bounded(&[0.0, f64::NEG_INFINITY], &[f64::INFINITY, 0.0]).unwrap();
    let one_value = Space::boxed(0.1, 0.1, &[2]);
    for space in [composite(), half_bounded, one_value, Space::image(&[3, 3]), Space::real(&[4])] {
        let mut random = NpRandom::new(1);
        let mut row = vec![0.0_f64; space.width()];
        for _ in 0..200 {
            space.sample(&mut random, &mut row);
            assert_eq!(space.violation(&row), None);
        }
    }
}

#[test]
fn spaces_survive_json_with_infinite_bounds() {
    for space in [composite(), Space::real(&[2]), Space::image(&[2]), Space::discrete(3)] {
        let text = serde_json::to_string(&space).unwrap();
        assert_eq!(serde_json::from_str::<Space>(&text).unwrap(), space, "{text}");
    }
    let text = serde_json::to_string(&Space::real(&[1])).unwrap();
    assert_eq!(text, r#"{"box":{"low":["-inf"],"high":["inf"],"shape":[1],"dtype":"f32"}}"#);
}

#[test]
fn integers_count_from_their_start_and_bits_have_dimensions() {
    let wheels = Space::MultiDiscrete { nvec: vec![3, 4], start: vec![1, -1] };
    assert!(wheels.contains(&[3_i64, 2]) && wheels.contains(&[1_i64, -1]));
    assert_eq!(wheels.violation(&[0_i64, 0]).unwrap(), "element 0 is 0, outside 1..=3");
    assert_eq!(wheels.violation(&[1_i64, 3]).unwrap(), "element 1 is 3, outside -1..=2");
    let mut flat = [9.0; 7];
    wheels.flatten_into(bytemuck::cast_slice(&[3_i64, -1]), &mut flat).unwrap();
    assert_eq!(flat, [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
    // The draws are those of the space from 0, as in `gymnasium.spaces.MultiDiscrete`.
    let from_zero = Space::multi_discrete(&[3, 4]);
    let [mut low, mut row] = [[0_i64; 2]; 2];
    let [mut a, mut b] = [NpRandom::new(5), NpRandom::new(5)];
    for _ in 0..50 {
        from_zero.sample(&mut a, &mut low);
        wheels.sample(&mut b, &mut row);
        assert_eq!(row, [low[0] + 1, low[1] - 1]);
    }
    let bits = Space::multi_binary(&[2, 3]);
    assert_eq!((bits.width(), bits.flat_width(), bits.shape()), (6, 6, vec![2, 3]));
    assert_eq!(format!("{wheels} {bits}"), "MultiDiscrete([3, 4], start=[1, -1]) MultiBinary([2, 3])");
    for (space, json) in [
        (wheels, r#"{"multi_discrete":{"nvec":[3,4],"start":[1,-1]}}"#),
        (from_zero, r#"{"multi_discrete":{"nvec":[3,4]}}"#),
        (bits, r#"{"multi_binary":{"n":[2,3]}}"#),
        (Space::multi_binary(&[4]), r#"{"multi_binary":{"n":4}}"#),
    ] {
        assert_eq!(serde_json::to_string(&space).unwrap(), json);
        assert_eq!(serde_json::from_str::<Space>(json).unwrap(), space);
    }
    let short = Space::MultiDiscrete { nvec: vec![3, 4], start: vec![1] };
    let message = short.validate().unwrap_err().to_string();
    assert!(message.contains("is 1 long, but it must be empty, or 2 long as `nvec`"), "{message}");
}

#[test]
fn spaces_read_well() {
    assert_eq!(
        composite().to_string(),
        "Dict(gear: Discrete(3, start=1), lamps: Tuple(MultiBinary(2), MultiDiscrete([2, 3])), speed: Box(-1, 1, [2], f32))"
    );
    assert_eq!(Space::bounded(&[0.0, 1.0], &[2.0, 2.0]).unwrap().to_string(), "Box([0, 1], 2, [2], f32)");
    let rounded = Space::boxed(f64::from(-4.8_f32), f64::from(4.8_f32), &[1]);
    assert_eq!(rounded.to_string(), "Box(-4.8, 4.8, [1], f32)");
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    let message = |space: Space| space.validate().unwrap_err().to_string();
    assert_eq!(
        Space::bounded(&[0.0, 2.0], &[1.0, 1.0]).unwrap_err().to_string(),
        "`low` of a box is 2 in element 1, but it must be at most `high`, which is 1 there"
    );
    assert!(message(Space::boxed(f64::NAN, 1.0, &[1])).contains("NaN in element 0"));
    assert_eq!(message(Space::discrete(0)), "`n` of a discrete space is 0, but it must be at least 1");
    let twice = Space::Dict(vec![("a".into(), Space::discrete(1)), ("a".into(), Space::discrete(1))]);
    assert!(message(twice).contains("each name once"));
    let short = Space::Box { low: vec![0.0], high: vec![1.0; 2], shape: vec![2], dtype: DType::F32 };
    assert_eq!(message(short), "`low` of a box is 1 long, but it must be 2 long (shape [2])");
}

#[test]
fn equal_bounds_are_written_once_from_thirty_three_on_and_others_one_by_one() {
    let text = |size: i64| serde_json::to_string(&Space::boxed(-1.0, 1.0, &[size as usize])).unwrap();
    assert!(text(32).contains("\"low\":[-1.0,"), "{}", text(32));
    assert!(text(33).contains("\"low\":{\"each\":-1.0,\"len\":33}"), "{}", text(33));
    let mut uneven = Space::boxed(-1.0, 1.0, &[40]);
    if let Space::Box { high, .. } = &mut uneven {
        high[39] = 2.0;
    }
    for space in [Space::boxed(-1.0, 1.0, &[33]), uneven] {
        let text = serde_json::to_string(&space).unwrap();
        assert_eq!(serde_json::from_str::<Space>(&text).unwrap(), space, "{text}");
    }
}

#[test]
fn a_file_may_not_ask_for_more_bounds_than_any_space_has() {
    let most = 1_usize << 30;
    let text = format!(
        r#"{{"box":{{"low":{{"each":0.0,"len":{}}},"high":[1.0],"shape":[1],"dtype":"f32"}}}}"#,
        most + 1
    );
    let message = serde_json::from_str::<Space>(&text).unwrap_err().to_string();
    assert!(message.contains("1073741825 bounds are given, but a space has at most 1073741824"), "{message}");
}

#[test]
fn a_part_of_a_layout_is_found_by_its_path() {
    let layout = Layout::new(&composite());
    assert_eq!(layout.leaf("lamps/1").map(|leaf| leaf.row.clone()), Some(3..5));
    assert_eq!(layout.leaf("speed").map(|leaf| leaf.flat.clone()), Some(10..12));
    assert!(layout.leaf("lamps").is_none() && layout.leaf("lamps/2").is_none());
}

#[test]
fn a_number_behind_the_last_option_is_no_one_hot_row() {
    let mut out = [9.0; 4];
    Space::discrete(4).flatten_into(bytemuck::bytes_of(&4_i64), &mut out).unwrap();
    assert_eq!(out, [0.0; 4]);
}

#[test]
fn integers_that_f32_holds_exactly_go_into_rows_of_f32_and_larger_ones_into_f64() {
    let of = |integers: Space| Space::Tuple(vec![Space::real(&[1]), integers]).dtype();
    // 2^24 is the last integer below which f32 has all of them.
    let most = 1_i64 << 24;
    for start in [0, 5] {
        assert_eq!(of(Space::Discrete { n: most - start, start }), DType::F32, "{start}");
        assert_eq!(of(Space::Discrete { n: most - start + 1, start }), DType::F64, "{start}");
        let several = |n: i64| Space::MultiDiscrete { nvec: vec![2, n], start: vec![0, start] };
        assert_eq!(of(several(most - start)), DType::F32, "{start}");
        assert_eq!(of(several(most - start + 1)), DType::F64, "{start}");
    }
    assert_eq!(of(Space::Discrete { n: 2, start: -most - 1 }), DType::F64);
}
