//! YAML, by Debian's python3-yaml: files of deploy/ as values.

use super::process::run;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints every document of a file as one JSON list; a key that stands twice in a mapping is an error.
const READER: &str = "
import json, sys, yaml
class Strict(yaml.SafeLoader): pass
def mapping(loader, node):
    keys = [key.value for key, _ in node.value if key.tag != 'tag:yaml.org,2002:merge']
    for key in keys:
        if keys.count(key) > 1: raise ValueError(f'{key} twice, {node.start_mark}')
    return loader.construct_mapping(node, deep=True)
Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
print(json.dumps(list(yaml.load_all(open(sys.argv[1]), Strict)), default=str))
";

/// Debian's Python, whatever else is in the path.
pub const PYTHON: &str = "/usr/bin/python3";

/// A file of the repository.
pub fn repository_file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The text of a file of the repository.
pub fn repository_text(path: &str) -> String {
    std::fs::read_to_string(repository_file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All documents of a YAML file of the repository.
pub fn read_yaml(path: &str) -> Vec<Value> {
    let output = run_tool(Command::new(PYTHON).args(["-c", READER]).arg(repository_file(path)));
    serde_json::from_str(&output).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Runs a tool that must succeed. Returns what it said on standard output.
pub fn run_tool(command: &mut Command) -> String {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = run(command).unwrap_or_else(|error| panic!("{name} is missing ({error}); run make test"));
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}\n{}{}", said(&output.stdout), said(&output.stderr));
    said(&output.stdout)
}
