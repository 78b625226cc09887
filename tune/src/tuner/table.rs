//! Text in columns.

use serde_json::Value;

/// Longer cells are cut.
const WIDEST: usize = 48;

/// A value for a table cell: numbers to six digits, texts without quotes.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.to_string(),
            (None, Some(real)) => shorten(real),
            (None, None) => number.to_string(),
        },
        other => other.to_string(),
    }
}

fn shorten(real: f64) -> String {
    let size = real.abs();
    if size != 0.0 && !(1e-4..1e6).contains(&size) {
        return format!("{real:.3e}");
    }
    let digits = (5 - size.max(1.0).log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{real:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// Rows of equally many cells as lines of aligned columns; columns with nothing below their head are left out.
pub(super) fn align(mut rows: Vec<Vec<String>>) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    for cell in rows.iter_mut().flatten() {
        if cell.chars().count() > WIDEST {
            *cell = cell.chars().take(WIDEST - 1).chain(['…']).collect();
        }
    }
    let used: Vec<usize> =
        (0..columns).filter(|column| rows.iter().skip(1).any(|row| !row[*column].is_empty())).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in &rows {
        let cells = used.iter().map(|column| format!("{:<1$}", row[*column], width(*column)));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_short_and_columns_stand_under_each_other() {
        let shown: Vec<String> =
            [json!(3), json!(0.1), json!(123.456789), json!(1e-5), json!(195.0), json!("PPO"), json!(null)]
                .iter()
                .map(cell)
                .collect();
        assert_eq!(shown, ["3", "0.1", "123.457", "1.000e-5", "195", "PPO", ""]);
        let row = |cells: [&str; 3]| cells.map(String::from).to_vec();
        let text =
            align(vec![row(["trial", "lr", "empty"]), row(["a", "0.1", ""]), row(["bcdefg", "1", ""])]);
        assert_eq!(text, "trial   lr\na       0.1\nbcdefg  1\n");
    }
}
