//! Filling in `{{names}}`. What is filled in is never read again, whatever it looks like.

/// The template with every name replaced. A line that comes to nothing vanishes.
pub(crate) fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut filled = String::with_capacity(2 * template.len());
    for line in template.lines() {
        let text = fill_line(line, values);
        if line.is_empty() || !text.is_empty() {
            filled.push_str(&text);
            filled.push('\n');
        }
    }
    filled
}

fn fill_line(line: &str, values: &[(&str, String)]) -> String {
    let mut pieces = line.split("{{");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_once("}}").expect("our templates close their names");
        let value = values.iter().find(|(known, _)| *known == name);
        text.push_str(&value.expect("our templates name what they are given").1);
        text.push_str(rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_in_is_not_read_again_and_an_empty_line_of_values_vanishes() {
        let values = [("a", "{{b}}".to_owned()), ("b", String::new())];
        assert_eq!(fill("x={{a}}/{{a}}\n\n{{b}}\n{{b}}!\n", &values), "x={{b}}/{{b}}\n\n!\n");
    }
}
