//! Certificates for DNS over TLS and for HTTPS, made by OpenSSL.

use super::write_file;
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

/// Runs OpenSSL in a folder.
fn openssl(home: &Path, arguments: &[&str]) {
    let output = Command::new("openssl").args(arguments).current_dir(home).output();
    let output = output.unwrap_or_else(|error| panic!("openssl is missing ({error}); run make test"));
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

/// Makes an authority, `NAME.pem` with `NAME.key`.
pub fn found(home: &Path, name: &str) {
    let (certificate, key, subject) = (format!("{name}.pem"), format!("{name}.key"), format!("/CN={name}"));
    let curve = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
    openssl(home, &[&curve[..], &["-subj", &subject, "-keyout", &key, "-out", &certificate]].concat());
}

/// Makes a certificate that an authority has signed, `NAME.pem` with `NAME.key`.
pub fn sign(home: &Path, authority: &str, name: &str, alternatives: &str) {
    let [certificate, key, request, extra] = ["pem", "key", "csr", "ext"].map(|kind| format!("{name}.{kind}"));
    let (ca, ca_key, subject) = (format!("{authority}.pem"), format!("{authority}.key"), format!("/CN={name}"));
    write_file(&home.join(&extra), &format!("subjectAltName={alternatives}\nbasicConstraints=critical,CA:FALSE\n"));
    let curve = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    openssl(home, &[&curve[..], &["-subj", &subject, "-keyout", &key, "-out", &request]].concat());
    let by = ["-CA", &ca, "-CAkey", &ca_key, "-CAcreateserial", "-days", "2", "-extfile", &extra];
    openssl(home, &[&["x509", "-req", "-in", &request, "-out", &certificate][..], &by].concat());
}
