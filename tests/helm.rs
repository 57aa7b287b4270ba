//! The Helm chart and the kustomizations of deploy/, rendered by helm and kubectl, and their objects against the schemas of
//! Kubernetes and of the Prometheus operator, against the program, and against each other. No API server is asked.

mod harness;

use aggregator::config::Config;
use harness::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CHART: &str = "deploy/helm/aggregator";
/// The oldest and the newest Kubernetes whose schemas there are; the oldest is that of the chart's kubeVersion.
const KUBERNETES: [&str; 2] = ["1.25.0", "1.37.0"];
/// A configuration with a path in it that a secret brings, and the port of the host's network.
const HOST_CONFIG: &str = "config=[server]\nlisten = [\"0.0.0.0:53\"]\n[metrics]\nlisten = \"0.0.0.0:9153\"\n[zones]\n\
    \"dc.test\" = \"10.1.0.10\"\n";

/// Something that scripts/install-release-tools has fetched.
fn tool(path: &str) -> PathBuf {
    let path = target_file("release-tools").join(path);
    assert!(path.exists(), "{} is missing; run make test, which fetches it", path.display());
    path
}

/// What helm makes of the chart with these options.
fn template(options: &[&str]) -> Output {
    let mut command = Command::new(tool("bin/helm"));
    command.args(["template", "one"]).arg(repository_file(CHART)).args(["--namespace", "dns"]).args(options);
    command.output().expect("helm")
}

/// The objects that helm makes of the chart with these options.
fn objects(options: &[&str]) -> Vec<Value> {
    let output = template(options);
    assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    objects_in(&output.stdout)
}

/// The objects of some YAML.
fn objects_in(text: &[u8]) -> Vec<Value> {
    let folder = Folder::new();
    let path = folder.path().join("objects.yaml");
    std::fs::write(&path, text).expect("a file");
    let found = read_yaml(path.to_str().expect("a path in UTF-8"));
    found.into_iter().filter(|object| !object.is_null()).collect()
}

/// The one object of a kind; of a kind and a name where there are several.
fn one<'o>(objects: &'o [Value], kind: &str, name: &str) -> &'o Value {
    let found: Vec<&Value> = objects
        .iter()
        .filter(|object| object["kind"] == kind && (name.is_empty() || object["metadata"]["name"] == name))
        .collect();
    let [found] = found[..] else { panic!("{} objects {kind} {name}", found.len()) };
    found
}

/// Has the schemas look at objects: a field that they do not know is an error, too.
fn check_schema(objects: &[Value]) -> Result<(), String> {
    let folder = Folder::new();
    let path = folder.path().join("objects.json");
    let (own, others): (Vec<&Value>, Vec<&Value>) =
        objects.iter().partition(|object| object["apiVersion"] == "monitoring.coreos.com/v1");
    write_file(&path, &others.iter().map(|object| format!("---\n{object}\n")).collect::<String>());
    for version in KUBERNETES {
        let mut command = Command::new(tool("python/bin/kubernetes-validate"));
        let output = command.args(["--strict", "-k", version]).arg(&path).output().expect("kubernetes-validate");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        // It says so of each object.
        let passed = said.matches(" passed for resource ").count();
        if !output.status.success() || passed != others.len() {
            return Err(format!("{version}: {passed} of {} passed\n{said}", others.len()));
        }
    }
    for object in own {
        let kind = object["kind"].as_str().expect("a kind");
        let schema = format!(
            "npm/node_modules/@kubernetes-models/prometheus-operator/_schemas/\
             ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoringV1{kind}.js"
        );
        let script = format!(
            "import {{ validate }} from '{}'; const fine = validate({object}); \
             console.log(fine ? 'fine' : JSON.stringify(validate.errors));",
            tool(&schema).display()
        );
        let said = run_tool(Command::new("node").args(["--input-type=module", "--eval", &script]));
        if said.trim() != "fine" {
            return Err(format!("{kind}: {said}"));
        }
    }
    Ok(())
}

/// A configuration as the program takes it, without a warning.
fn config_of(map: &Value) -> Config {
    let text = map["data"]["config.toml"].as_str().expect("a configuration");
    let config = Config::parse(Path::new("ConfigMap"), text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    assert_eq!(config.warning_lines(), Vec::<String>::new(), "{text}");
    config
}

/// The networks that a policy lets pods query, against the primaries of a configuration.
fn assert_egress_fits(policy: &Value, config: &Config) {
    let to = policy["spec"]["egress"][0]["to"].as_array().expect("peers");
    let open: BTreeSet<String> =
        to.iter().map(|peer| peer["ipBlock"]["cidr"].as_str().expect("a network").to_string()).collect();
    let primaries = config.zones.iter().flat_map(|zone| &zone.primaries);
    assert_eq!(open, primaries.map(|primary| format!("{}/32", primary.address.ip())).collect());
}

#[test]
fn the_chart_gives_valid_objects() {
    run_tool(Command::new(tool("bin/helm")).args(["lint", "--strict"]).arg(repository_file(CHART)));
    let monitored = ["--set", "serviceMonitor.enabled=true", "--set", "prometheusRule.enabled=true"];
    let variants: [(&[&str], usize); 6] = [
        (&[], 6),
        (&["--set", "kind=Deployment"], 6),
        (&monitored, 8),
        (&["--set", "networkPolicy.enabled=false,podDisruptionBudget.enabled=false,service.type=ClusterIP"], 4),
        (&["--set", "hostNetwork=true,ports.dns=53,replicas=2", "--set-literal", HOST_CONFIG], 6),
        (
            &[
                "--set",
                "secretFiles=keys,secretEnvironment=words,pullSecrets={pull},restartOnChange=true,nodeSelector.disk=fast,\
                 state.storageClass=fast,image.tag=1.2.3,service.loadBalancerClass=x,podAnnotations.a=b",
                "--set-json",
                "tolerations=[{\"key\":\"dns\",\"operator\":\"Exists\"}]",
                "--set-json",
                "service.loadBalancerSourceRanges=[\"10.0.0.0/8\"]",
                "--set-json",
                "networkPolicy.egress=[{\"ports\":[{\"port\":853,\"protocol\":\"TCP\"}]}]",
            ],
            6,
        ),
    ];
    for (options, count) in variants {
        let objects = objects(options);
        assert_eq!(objects.len(), count, "{options:?}");
        assert_eq!(check_schema(&objects), Ok(()), "{options:?}");
    }
    // The schemas would have found mistakes, also those of values.
    let mut broken = objects(&monitored);
    let place = |objects: &[Value], kind: &str| objects.iter().position(|one| one["kind"] == kind).expect("a kind");
    let replicas = place(&broken, "StatefulSet");
    broken[replicas]["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = json!({});
    assert!(check_schema(&broken).is_err_and(|said| said.contains("readynessProbe")));
    broken = objects(&monitored);
    let monitor = place(&broken, "ServiceMonitor");
    broken[monitor]["spec"]["endpoints"][0]["interval"] = json!(15);
    assert!(check_schema(&broken).is_err_and(|said| said.contains("ServiceMonitor")));
}

#[test]
fn objects_of_the_chart_fit_each_other() {
    for kind in ["StatefulSet", "Deployment"] {
        let kind_option = format!("kind={kind}");
        let objects = objects(&["--set", &kind_option, "--set", "serviceMonitor.enabled=true"]);
        let (replicas, service) = (one(&objects, kind, ""), one(&objects, "Service", "one-aggregator"));
        let (pods, monitor) = (one(&objects, "Service", "one-aggregator-pods"), one(&objects, "ServiceMonitor", ""));
        let (budget, policy) = (one(&objects, "PodDisruptionBudget", ""), one(&objects, "NetworkPolicy", ""));
        let pod = &replicas["spec"]["template"];
        let labels = pod["metadata"]["labels"].as_object().expect("labels");
        for selector in [
            &replicas["spec"]["selector"]["matchLabels"],
            &service["spec"]["selector"],
            &pods["spec"]["selector"],
            &budget["spec"]["selector"]["matchLabels"],
            &policy["spec"]["podSelector"]["matchLabels"],
            &pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
        ] {
            let selector = selector.as_object().expect("a selector");
            assert!(selector.len() == 2 && selector.iter().all(|(key, value)| labels.get(key) == Some(value)));
        }
        // Prometheus finds the metrics of each pod once, under the job that the rules name.
        let wanted = monitor["spec"]["selector"]["matchLabels"].as_object().expect("labels");
        let has_all = |one: &Value| wanted.iter().all(|(key, value)| one["metadata"]["labels"].get(key) == Some(value));
        assert!(has_all(pods) && !has_all(service));
        let job = monitor["spec"]["jobLabel"].as_str().expect("a label");
        assert_eq!(pods["metadata"]["labels"][job], "aggregator");
        assert_eq!(monitor["spec"]["endpoints"][0]["port"], pods["spec"]["ports"][0]["name"]);

        let container = &pod["spec"]["containers"][0];
        let ports = container["ports"].as_array().expect("ports");
        let port = |name: &Value| {
            let found = ports.iter().find(|port| port["name"] == *name).unwrap_or_else(|| panic!("no port {name}"));
            u16::try_from(found["containerPort"].as_u64().expect("a number")).expect("a port")
        };
        for given in service["spec"]["ports"].as_array().expect("ports") {
            assert!(given["port"] == 53 && port(&given["targetPort"]) == 5353, "{given}");
        }
        let config = config_of(one(&objects, "ConfigMap", ""));
        assert!(config.listen.dns.iter().all(|address| address.port() == port(&json!("dns-udp"))));
        assert!(config.metrics.listen.iter().all(|address| address.port() == port(&json!("metrics"))));
        assert_egress_fits(policy, &config);

        // What is mounted is there: state on a volume of the pod's own, or for its life.
        let names = |list: &Value| -> BTreeSet<String> {
            let list = list.as_array().into_iter().flatten();
            list.map(|one| one["name"].as_str().expect("a name").to_string()).collect()
        };
        let mut volumes = names(&pod["spec"]["volumes"]);
        if kind == "StatefulSet" {
            assert_eq!(replicas["spec"]["volumeClaimTemplates"][0]["metadata"]["name"], "state");
            assert_eq!(replicas["spec"]["serviceName"], pods["metadata"]["name"]);
            assert!(volumes.insert("state".to_string()), "the state twice");
        }
        assert_eq!(names(&container["volumeMounts"]), volumes);
        let security = &container["securityContext"];
        assert_eq!(security["capabilities"], json!({ "drop": ["ALL"], "add": ["NET_BIND_SERVICE"] }));
        assert!(security["readOnlyRootFilesystem"] == true && security["allowPrivilegeEscalation"] == false);
        assert!(pod["spec"]["securityContext"]["runAsNonRoot"] == true);
        assert_eq!(container["image"], format!("registry.example.com/aggregator:{}", env!("CARGO_PKG_VERSION")));
        assert!(container["readinessProbe"]["httpGet"]["path"] == "/readyz");
        assert!(container["livenessProbe"]["httpGet"]["path"] == "/healthz");
    }
}

#[test]
fn the_chart_has_the_rules_of_deploy_prometheus() {
    let render = |runbooks: &str| {
        let option = format!("prometheusRule.runbooks={runbooks}");
        let objects = objects(&["--set", "prometheusRule.enabled=true", "--set", &option]);
        one(&objects, "PrometheusRule", "")["spec"].clone()
    };
    let files = ["deploy/prometheus/rules.yml", "deploy/prometheus/alerts.yml"].map(|file| read_yaml(file).remove(0));
    let groups: Vec<Value> = files.iter().flat_map(|file| file["groups"].as_array().expect("groups").clone()).collect();
    let spec = render("");
    assert_eq!(spec, json!({ "groups": groups }));
    let folder = Folder::new();
    let path = folder.path().join("rules.yml");
    write_file(&path, &spec.to_string());
    run_tool(Command::new(program_path("promtool")).args(["check", "rules"]).arg(&path));
    let runbooks = |spec: &Value| spec.to_string().matches("\"runbook\":\"").count();
    let linked = render("https://git.example.com/aggregator/");
    let count =
        linked.to_string().matches("\"runbook\":\"https://git.example.com/aggregator/docs/runbooks.md#").count();
    assert!(count > 30 && count == runbooks(&spec), "{count} of {}", runbooks(&spec));
}

#[test]
fn values_that_make_no_sense_are_refused() {
    for (option, said) in [
        ("kind=DaemonSet", "kind"),
        ("replicas=0", "replicas"),
        ("replica=2", "replica"),
        ("ports.dns=70000", "dns"),
        ("service.type=ExternalName", "type"),
        ("networkPolicy.primaries={10.1.0.10}", "primaries"),
        ("resources.limits.memory=much", "memory"),
        ("serviceMonitor.enabled=maybe", "enabled"),
        ("state.size=big", "size"),
        ("config=", "config"),
        // Those that only the templates see.
        ("ports.dns=5354", "listens nowhere on port 5354"),
        ("ports.metrics=9154", "listens nowhere on port 9154"),
        ("podDisruptionBudget.minAvailable=2", "must be below replicas"),
    ] {
        let output = template(&["--set", option]);
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && problem.contains(said), "{option}: {problem}");
    }
}

/// The paths of everything that a schema of values describes; resources are handed on whole.
fn described(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if inner["properties"].is_object() && path != ".resources" {
            described(inner, &path, found);
        } else {
            found.insert(path);
        }
    }
}

/// Every value stands in values.yaml with its default, is described, and does something.
#[test]
fn values_schema_and_templates_are_complete() {
    let schema: Value = serde_json::from_str(&repository_text(&format!("{CHART}/values.schema.json"))).expect("JSON");
    let mut wanted = BTreeSet::new();
    described(&schema, "", &mut wanted);
    // Helm's own, for charts that hold this one.
    assert!(wanted.remove(".global"));
    let [values] = &read_yaml(&format!("{CHART}/values.yaml"))[..] else { panic!("one document") };
    let templates: String = std::fs::read_dir(repository_file(CHART).join("templates"))
        .expect("a folder")
        .map(|entry| std::fs::read_to_string(entry.expect("an entry").path()).expect("a template"))
        .collect();
    for path in &wanted {
        let pointer = path.replace('.', "/");
        assert!(values.pointer(&pointer).is_some(), "values.yaml has no {path}");
        assert!(templates.contains(&format!(".Values{path}")), "no template uses {path}");
    }
    let mut given = BTreeSet::new();
    paths_of(values, "", &wanted, &mut given);
    assert_eq!(given, wanted, "values.yaml has what the schema does not know");
}

/// The paths of values, down to those that a schema describes.
fn paths_of(value: &Value, path: &str, ends: &BTreeSet<String>, found: &mut BTreeSet<String>) {
    match value.as_object() {
        Some(inner) if !ends.contains(path) => {
            inner.iter().for_each(|(name, value)| paths_of(value, &format!("{path}.{name}"), ends, found));
        }
        _ => {
            found.insert(path.to_string());
        }
    }
}

#[test]
fn the_archive_of_the_chart_gives_the_same() {
    let folder = Folder::new();
    // Of sources that have no git, too.
    run_tool(
        Command::new(repository_file("image/chart"))
            .env("OUTPUT", folder.path())
            .env("SOURCE_DATE_EPOCH", "1700000000"),
    );
    let archive = folder.path().join(format!("aggregator-{}.tgz", env!("CARGO_PKG_VERSION")));
    let mut command = Command::new(tool("bin/helm"));
    command.args(["template", "one"]).arg(&archive).args([
        "--namespace",
        "dns",
        "--set",
        "prometheusRule.enabled=true",
    ]);
    let output = command.output().expect("helm");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(objects_in(&output.stdout), objects(&["--set", "prometheusRule.enabled=true"]));
}

#[test]
fn kustomize_takes_the_base_and_the_overlay() {
    let build = |folder: &str| {
        let text = run_tool(Command::new(tool("bin/kubectl")).arg("kustomize").arg(repository_file(folder)));
        let objects = objects_in(text.as_bytes());
        assert_eq!(check_schema(&objects), Ok(()), "{folder}");
        objects
    };
    let mut base = build("deploy/kubernetes");
    let mut plain = read_yaml("deploy/kubernetes/aggregator.yaml");
    for objects in [&mut base, &mut plain] {
        objects.sort_by_key(|object| object["kind"].to_string());
    }
    assert_eq!(base, plain);

    let overlay = build("deploy/kubernetes-overlay");
    assert_eq!(overlay.len(), base.len());
    let deployment = one(&overlay, "Deployment", "aggregator");
    assert_eq!(deployment["spec"]["replicas"], 3);
    let image = deployment["spec"]["template"]["spec"]["containers"][0]["image"].as_str().expect("an image");
    assert_eq!(image, format!("ghcr.io/example/aggregator:{}", env!("CARGO_PKG_VERSION")));
    let map = one(&overlay, "ConfigMap", "aggregator");
    assert_eq!(map["data"]["config.toml"], repository_text("deploy/kubernetes-overlay/config.toml"));
    assert_egress_fits(one(&overlay, "NetworkPolicy", ""), &config_of(map));
    assert_eq!(one(&overlay, "PodDisruptionBudget", "")["spec"]["minAvailable"], 2);
    // What the overlay does not name stays.
    assert_eq!(
        one(&overlay, "NetworkPolicy", "")["spec"]["ingress"],
        one(&base, "NetworkPolicy", "")["spec"]["ingress"]
    );
}
