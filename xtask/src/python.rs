//! Python packages that chores read: unpacked by pip into a folder under `target/`, once for each version.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::root;

/// The last version of the `onnx` package that ships the node cases of its backend tests.
pub(crate) const CASES_VERSION: &str = "1.22.0";

/// The version of the `onnx` package whose operators are known here.
pub(crate) const OPERATORS_VERSION: &str = "1.23.2";

/// Packages of Keras with their versions and the module that exports layers.
pub(crate) const KERAS: [(&str, &str, &str); 2] = [
    ("keras", "3.15.1", "keras/layers/__init__.py"),
    ("tf_keras", "2.21.0", "tf_keras/api/_v2/keras/layers/__init__.py"),
];

/// The folder with a version of a package alone, without what it imports.
pub(crate) fn unpacked(package: &str, version: &str) -> Result<PathBuf, Box<dyn Error>> {
    let folder = root().join("target").join(package).join(version);
    if !folder.join(package).is_dir() {
        install(&format!("{package}=={version}"), &folder, &["--no-deps"])?;
    }
    Ok(folder)
}

/// The folder with a version of the `onnx` package and what it imports; installed when it is not there.
pub(crate) fn onnx(version: &str) -> Result<PathBuf, Box<dyn Error>> {
    let folder = root().join("target/onnx").join(version);
    if !folder.join("onnx").is_dir() {
        install(&format!("onnx=={version}"), &folder, &[])?;
    }
    Ok(folder)
}

/// The version of `onnxruntime` that is asked for a second opinion.
const ONNXRUNTIME_VERSION: &str = "1.32.0";

/// The folder with `onnxruntime` and what it imports; installed when it is not there.
pub(crate) fn onnxruntime() -> Result<PathBuf, Box<dyn Error>> {
    let folder = root().join("target/onnxruntime").join(ONNXRUNTIME_VERSION);
    if !folder.join("onnxruntime").is_dir() {
        install(&format!("onnxruntime=={ONNXRUNTIME_VERSION}"), &folder, &[])?;
    }
    Ok(folder)
}

/// What a Python program prints that imports a version of the `onnx` package.
pub(crate) fn output_of(program: &str, version: &str) -> Result<String, Box<dyn Error>> {
    let output = Command::new("python3").args(["-c", program]).env("PYTHONPATH", onnx(version)?).output()?;
    if !output.status.success() {
        return Err(format!("python3 with onnx {version}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Installs into a folder of its own, which appears when it is complete.
fn install(package: &str, folder: &Path, options: &[&str]) -> Result<(), Box<dyn Error>> {
    let partial = folder.with_extension("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    println!("pip install {package} into {}", folder.display());
    let output = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"])
        .arg(&partial)
        .args(options)
        .arg(package)
        .output()
        .map_err(|error| format!("python3 is needed to install {package}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "pip cannot install {package}; without a network, put its unpacked wheel into {}\n{}",
            folder.display(),
            said.trim()
        )
        .into());
    }
    fs::rename(partial, folder)?;
    Ok(())
}
