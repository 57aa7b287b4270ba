//! Certificates for DNS over TLS, made by OpenSSL.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes a self-signed certificate for `ns.test` and its key in a folder, `cert.pem` and `key.pem`; the certificate's file.
pub fn certify(home: &Path) -> PathBuf {
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| home.join(name));
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]);
    command.args(["-subj", "/CN=ns.test", "-addext", "subjectAltName=DNS:ns.test"]);
    command.args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"]).arg(&key).arg("-out").arg(&certificate);
    let output = command.output().unwrap_or_else(|error| panic!("openssl is missing ({error}); run make test"));
    assert!(output.status.success(), "{output:?}");
    certificate
}
