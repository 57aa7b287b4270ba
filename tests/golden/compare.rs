//! Comparison with a golden file: a readable difference, or the file written anew on request.

use crate::harness::repository_file;
use std::fs;

/// The variable that has the files written anew.
const WRITE: &str = "AGGREGATOR_WRITE_GOLDEN";
/// Equal lines shown around those that differ.
const CONTEXT: usize = 2;

/// Compares a text with a golden file, or writes the file.
pub fn assert_golden(file: &str, got: &str) {
    let path = repository_file("tests/data/golden").join(file);
    let got = if got.ends_with('\n') || got.is_empty() { got.to_string() } else { format!("{got}\n") };
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    if wanted == got {
        return;
    }
    if std::env::var_os(WRITE).is_some() {
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("folder of golden files");
        fs::write(&path, got).expect("golden file");
        return;
    }
    panic!(
        "tests/data/golden/{file} differs (- is the file, + what came now):\n{}\n\
         If that is meant, write the files anew with {WRITE}=1 cargo test --locked --test golden, and commit the difference.",
        difference(&wanted, &got)
    );
}

/// Lines that only one text has, with a few equal ones around them.
fn difference(wanted: &str, got: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (wanted.lines().collect(), got.lines().collect());
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let end = old[start..].iter().rev().zip(new[start..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (left, right) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    // Length of the longest common subsequence of what follows each pair of positions.
    let mut longest = vec![vec![0u32; right.len() + 1]; left.len() + 1];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            longest[i][j] =
                if left[i] == right[j] { longest[i + 1][j + 1] + 1 } else { longest[i + 1][j].max(longest[i][j + 1]) };
        }
    }
    let mut lines: Vec<(char, &str)> = old[..start].iter().map(|line| (' ', *line)).collect();
    let (mut i, mut j) = (0, 0);
    while i < left.len() || j < right.len() {
        if i < left.len() && j < right.len() && left[i] == right[j] {
            lines.push((' ', left[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < left.len() && (j == right.len() || longest[i + 1][j] >= longest[i][j + 1]) {
            lines.push(('-', left[i]));
            i += 1;
        } else {
            lines.push(('+', right[j]));
            j += 1;
        }
    }
    lines.extend(old[old.len() - end..].iter().map(|line| (' ', *line)));
    let near = |at: usize| {
        lines[at.saturating_sub(CONTEXT)..(at + CONTEXT + 1).min(lines.len())].iter().any(|(mark, _)| *mark != ' ')
    };
    let mut text = String::new();
    for (at, (mark, line)) in lines.iter().enumerate().filter(|(at, _)| near(*at)) {
        if at > 0 && !near(at - 1) {
            text.push_str(&format!("@ line {}\n", at + 1));
        }
        text.push_str(&format!("{mark} {line}\n"));
    }
    text
}

#[test]
fn a_difference_shows_what_changed_and_little_else() {
    let numbered = |from: u32, to: u32| (from..to).map(|number| format!("{number}\n")).collect::<String>();
    let (old, new) =
        (format!("{}a\nb\n{}", numbered(0, 9), numbered(9, 20)), numbered(0, 20).replace("15\n", "15\nx\n"));
    assert_eq!(
        difference(&old, &new),
        "@ line 8\n  7\n  8\n- a\n- b\n  9\n  10\n@ line 17\n  14\n  15\n+ x\n  16\n  17\n"
    );
}
