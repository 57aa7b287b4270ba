//! Comparison with a golden file: a readable difference, or the file written anew on request.

use crate::harness::repository_file;
use regex::Regex;
use serde_json::Value;
use std::fs;

/// The variable that has the files written anew.
const WRITE: &str = "AGGREGATOR_WRITE_GOLDEN";
/// Equal lines shown around those that differ.
const CONTEXT: usize = 2;

/// Compares a text with a golden file, or writes the file.
pub fn assert_golden(file: &str, got: &str) {
    assert_goldens(&[(file.to_owned(), got.to_owned())]);
}

/// Compares texts with their golden files, or writes the files; all that differ are shown.
pub fn assert_goldens(texts: &[(String, String)]) {
    let faults: Vec<String> = texts.iter().filter_map(|(file, got)| compare(file, got)).collect();
    assert!(
        faults.is_empty(),
        "{}\nIf that is meant, write the files anew with {WRITE}=1 cargo test --locked --test golden, and commit the difference.",
        faults.join("\n")
    );
}

/// Describes how a text differs from its golden file; none if it does not, or the file was written.
fn compare(file: &str, got: &str) -> Option<String> {
    let path = repository_file("tests/data/golden").join(file);
    let got = if got.ends_with('\n') || got.is_empty() { got.to_string() } else { format!("{got}\n") };
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    if wanted == got {
        return None;
    }
    if std::env::var_os(WRITE).is_some() {
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("folder of golden files");
        fs::write(&path, got).expect("golden file");
        return None;
    }
    Some(format!("tests/data/golden/{file} differs (- is the file, + what came now):\n{}", difference(&wanted, &got)))
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

//--- What differs from run to run ---

/// Patterns of text that changes with time and chance, and their replacements. `SPAN` is a span of time in any form.
const VARYING: [(&str, &str); 11] = [
    (r#"<figure class="plot".*?<b>([^<]*)</b>.*?</figure>"#, "CHART of $1"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "MOMENT"),
    (r"\bSPAN ago", "SPAN ago"),
    (r"\b(in|up|for|for another) SPAN\b", "$1 SPAN"),
    (r"\b(HOME/\S*state), \d+(\.\d+)? ([KM]i)?B", "$1, SIZE"),
    (r"\b(healthy</span>) \d+(\.\d+)? ([KM]i)?B", "$1 SIZE"),
    (r"(in |>)\d+(\.\d+)? (ms|s)\b", "${1}TIME ${3}"),
    (r"(<dt>publications</dt><dd>)\d+", "${1}COUNT"),
    (r"\?v=[0-9a-f]{8}", "?v=ASSETS"),
    (r"\b(aggregator,? (version )?)\d+\.\d+\.\d+( \((unknown|[0-9a-f]{7,40})\))?", "${1}VERSION"),
    (r#"commit="[^"]*",version="[^"]*""#, r#"commit="COMMIT",version="VERSION""#),
];
/// The same of text that changes with the machine.
const OF_MACHINES: [(&str, &str); 2] = [
    (r"\bmemory \S+ \S+ of \S+ [KMGT]iB", "memory SIZE of SIZE"),
    (r"(open files is|of which|room for) \d+", "$1 COUNT"),
];
const SPAN: &str = r"(?:\d+d\d\dh|\d+h\d\dm|\d+m\d\ds|\d+s)";

/// Keys of JSON whose numbers change with time and chance.
const VARYING_KEYS: [&str; 16] = [
    "uptime_seconds",
    "refreshed_seconds_ago",
    "expires_in_seconds",
    "partial_in_seconds",
    "next_refresh",
    "next_audit",
    "last_written",
    "success",
    "configured",
    "generation",
    "at",
    "gone_at",
    "oldest_at",
    "since",
    "until",
    "milliseconds",
];

/// Keys of JSON whose numbers change with the machine.
const KEYS_OF_MACHINES: [&str; 4] = ["budget", "open_files", "set_apart", "connections"];

/// Replaces what differs from run to run by fixed words.
pub struct Words {
    words: Vec<(String, &'static str)>,
    varying: Vec<(Regex, &'static str)>,
    /// True if time changes the text.
    is_timed: bool,
    /// Blanks between columns.
    columns: Regex,
}

impl Words {
    /// The words for addresses, paths and serials of this run.
    pub fn new(words: &[(&str, &'static str)]) -> Words {
        let pattern = |(pattern, word): (&str, &'static str)| {
            (Regex::new(&pattern.replace("SPAN", SPAN)).expect("a pattern"), word)
        };
        Words {
            words: words.iter().map(|(text, word)| (text.to_string(), *word)).collect(),
            varying: VARYING.into_iter().chain(OF_MACHINES).map(pattern).collect(),
            is_timed: true,
            columns: Regex::new(r"(\S) {2,}").expect("a pattern"),
        }
    }

    /// The words for what does not change with time, only from place to place.
    pub fn of_places(words: &[(&str, &'static str)]) -> Words {
        let all = Words::new(words);
        let varying = all.varying.into_iter().skip(VARYING.len()).collect();
        Words { varying, is_timed: false, ..all }
    }

    /// A text with words in it. Where one stands in a table the columns are two blanks apart, whatever their width.
    pub fn text(&self, text: &str) -> String {
        let mut lines = String::new();
        for line in text.split_inclusive('\n') {
            let mut with_words = line.to_owned();
            for (from, to) in &self.words {
                with_words = with_words.replace(from, to);
            }
            for (pattern, word) in &self.varying {
                with_words = pattern.replace_all(&with_words, *word).into_owned();
            }
            if with_words != line && !line.starts_with(' ') && self.is_timed {
                with_words = self.columns.replace_all(&with_words, "$1  ").into_owned();
            }
            lines.push_str(&with_words);
        }
        lines
    }

    /// JSON in many lines with words in it; what else a verb prints is text.
    pub fn json(&self, text: &str) -> String {
        let mut values = Vec::new();
        for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
            let Ok(mut value) = value else { return self.text(text) };
            vary(&mut value, &KEYS_OF_MACHINES);
            if self.is_timed {
                vary(&mut value, &VARYING_KEYS);
            }
            values.push(format!("{value:#}\n"));
        }
        self.text(&values.concat())
    }
}

/// Replaces numbers that change with time and chance.
fn vary(value: &mut Value, keys: &[&str]) {
    match value {
        Value::Object(object) => {
            if object.contains_key("last_written") && object.contains_key("bytes") {
                object.insert("bytes".to_owned(), "VARIES".into());
            }
            // A transfer that has just ended is counted for a moment.
            if object.contains_key("histories") && object.contains_key("used") {
                object.insert("transfers".to_owned(), "VARIES".into());
                object.insert("used".to_owned(), "VARIES".into());
            }
            for (key, value) in object.iter_mut() {
                if value.is_number() && keys.contains(&key.as_str()) {
                    *value = "VARIES".into();
                } else if (key == "version" || key == "commit") && value.is_string() {
                    *value = "VERSION".into();
                }
                vary(value, keys);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| vary(value, keys)),
        _ => {}
    }
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
