//! Fitting text into columns.

/// A terminal of the old kind, a quoted mail, a printed page: 100 columns fit.
pub(super) const WIDTH: usize = 100;

/// Lines of at most `width` columns, broken at spaces where that is possible. At least one line.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let mut word_left = word;
        let space = usize::from(used > 0);
        if used > 0 && used + space + columns(word) > width {
            lines.push(String::new());
            used = 0;
        } else if used > 0 {
            push(&mut lines, " ");
            used += 1;
        }
        // A word longer than a line is cut where the line ends.
        while used + columns(word_left) > width {
            let (head, tail) = split_at_columns(word_left, width - used);
            push(&mut lines, head);
            lines.push(String::new());
            used = 0;
            word_left = tail;
        }
        push(&mut lines, word_left);
        used += columns(word_left);
    }
    lines
}

/// A command over several lines that can be pasted as it is: broken only between arguments.
pub(super) fn shell_wrapped(command: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for part in
        command.split(" --").enumerate().map(|(at, p)| if at == 0 { p.into() } else { format!("--{p}") })
    {
        let part: String = part;
        if !line.is_empty() && columns(&line) + 1 + columns(&part) + 2 > width {
            lines.push(format!("{line} \\"));
            line = format!("  {part}");
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&part);
        }
    }
    lines.push(line);
    lines
}

fn push(lines: &mut [String], text: &str) {
    if let Some(last) = lines.last_mut() {
        last.push_str(text);
    }
}

/// The head takes at least one character, so that wrapping comes to an end.
fn split_at_columns(text: &str, columns: usize) -> (&str, &str) {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += width_of(c);
        if used > columns && at > 0 {
            return text.split_at(at);
        }
    }
    text.split_at(text.len())
}

/// How many columns a text takes on a terminal.
pub(super) fn columns(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

/// Two for the wide letters of East Asia and for pictures, one for the rest. (A combining mark takes none; counting
/// it as one makes a line too short, never too long.)
fn width_of(c: char) -> usize {
    match u32::from(c) {
        0x1100..=0x115F
        | 0x2E80..=0x303E
        | 0x3041..=0xA4CF
        | 0xAC00..=0xD7A3
        | 0xF900..=0xFAFF
        | 0xFE30..=0xFE6F
        | 0xFF00..=0xFF60
        | 0xFFE0..=0xFFE6
        | 0x1F300..=0x1FAFF
        | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_longer_than_asked_and_nothing_is_lost() {
        let long = "x".repeat(501);
        for text in
            ["", "one two three", "   spaces   inside ", long.as_str(), "\u{4f60}\u{597d}\u{4e16}\u{754c} ok"]
        {
            for width in [2, 3, 7, 80] {
                let lines = wrapped(text, width);
                assert!(lines.iter().all(|line| columns(line) <= width), "{text:?} in {width}: {lines:?}");
                let kept = |s: &str| s.replace(' ', "");
                assert_eq!(kept(&lines.concat()), kept(text));
            }
        }
    }

    #[test]
    fn a_command_can_be_pasted() {
        let command = "earmark resolve A --ruling done --state escalated --by 'NAME' --reason 'WHY'";
        let lines = shell_wrapped(command, 40);
        assert!(lines.iter().all(|line| columns(line) <= 40), "{lines:?}");
        let pasted = lines.join("\n").replace(" \\\n  ", " ");
        assert_eq!(pasted, command);
    }
}
