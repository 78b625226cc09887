//! Words and numbers as the page shows them.

/// The thin space that parts thousands.
const THIN: char = '\u{202f}';

/// Escapes a text for HTML and SVG, between tags and within quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Other control characters are not allowed in a page; the direction of a text is nothing for a file to change.
            c if (c.is_control() && !matches!(c, '\n' | '\t')) || is_direction(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

fn is_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes a number with at most `digits` significant digits, without zeros at its end.
fn significant(x: f64, digits: usize) -> String {
    if x == 0.0 {
        return "0".into();
    }
    if !x.is_finite() {
        return "not a number".into();
    }
    let scientific = format!("{x:.*e}", digits - 1);
    let exponent: i32 = scientific.rsplit_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-5..15).contains(&exponent) {
        let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
        return trim(&format!("{x:.decimals$}"));
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    format!("{}e{exponent}", trim(mantissa))
}

/// Writes a number for a sentence or a table: four significant digits, and all digits before the point.
pub(super) fn number(x: f64) -> String {
    if x.abs() >= 1000.0 && x.abs() < 1e15 { count(x) } else { significant(x, 4) }
}

/// Writes a number rounded to an integer, with thousands parted.
pub(super) fn count(x: f64) -> String {
    if !x.is_finite() {
        return significant(x, 4);
    }
    let digits = format!("{:.0}", x.abs());
    let sign = if x <= -0.5 { "-" } else { "" };
    let mut out = String::from(sign);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(THIN);
        }
        out.push(digit);
    }
    out
}

/// Writes a number for an axis: three significant digits, with k, M or G.
pub(super) fn short(x: f64) -> String {
    for (size, letter) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if x.abs() >= size && x.abs() < 1e13 {
            return format!("{}{letter}", significant(x / size, 3));
        }
    }
    significant(x, 3)
}

/// Writes a time of so many seconds.
pub(super) fn seconds(s: f64) -> String {
    match s {
        s if s < 9.5 => format!("{} s", significant(s, 2)),
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{} h", significant(s / 3600.0, 2)),
        s => format!("{} days", significant(s / 86_400.0, 2)),
    }
}

/// Writes a count and its noun: `1 run`, `3 runs`.
pub(super) fn counted(n: usize, noun: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {noun}{s}", count(n as f64))
}

/// Writes a setting's value as JSON, without quotes around a text.
pub(super) fn value(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Shortens a text to `most` characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_few_digits_and_parted_thousands() {
        assert_eq!(
            [count(20_480.0), count(999.6), count(-1234.0)],
            ["20\u{202f}480", "1\u{202f}000", "-1\u{202f}234"]
        );
        assert_eq!(
            [short(20_480.0), short(0.0), short(0.00898), short(1_250_000.0)],
            ["20.5k", "0", "0.00898", "1.25M"]
        );
        assert_eq!(
            [number(0.026_71), number(5e-7), number(500.0), number(f64::NAN)],
            ["0.02671", "5e-7", "500", "not a number"]
        );
        assert_eq!(
            [seconds(0.43), seconds(61.0), seconds(600.0), seconds(7200.0)],
            ["0.43 s", "61 s", "10 min", "2 h"]
        );
    }

    #[test]
    fn no_text_can_open_a_tag_or_leave_an_attribute() {
        assert_eq!(escape("<script>'\"&\u{0}\u{202e}"), "&lt;script&gt;&#39;&quot;&amp;\u{fffd}\u{fffd}");
    }
}
