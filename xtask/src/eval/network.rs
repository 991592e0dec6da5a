//! Which model file a row is about.
//!
//! A table names a file for most of its networks. Where that file is there and is an ONNX file, it is taken. Else a
//! stand-in is looked for: by the named file where that is a Keras file, by the name of the network where none is
//! named. A stand-in has the layers of the network and may differ in trifles that its comment gives.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::row::Row;

/// ONNX files with the layers of a Keras file.
const OF_KERAS_FILES: &[(&str, &str)] = &[
    // No auxiliary head, as in the Keras file; torchvision's has one.
    ("keras/applications/InceptionV3.json", "timm/inception_v3.onnx"),
    // Keras has biases in its convolutions and the stride in the first 1 x 1 one.
    ("keras/applications/ResNet50.json", "torchvision/resnet50.onnx"),
    ("keras/applications/ResNet152.json.gz", "torchvision/resnet152.onnx"),
    ("keras/applications/VGG16.json", "torchvision/vgg16.onnx"),
    // The dense layers are convolutions there, of the same weights.
    ("keras/practicum/vgg16_slim_conv.json", VGG16_SLIM),
    ("keras/practicum/vgg16_keras_224.json", "torchvision/vgg16.onnx"),
];

/// A network of which no folder of model files has a copy, in `xtask` itself.
const VGG16_SLIM: &str = "stand-ins/vgg16_slim.onnxtxt";

/// Where a file of [`ModelFiles::find`] lies.
pub(super) fn path_of(folder: &Path, file: &str) -> PathBuf {
    if file == VGG16_SLIM { Path::new(env!("CARGO_MANIFEST_DIR")).join(file) } else { folder.join(file) }
}

/// Files of networks for which a table names none.
const OF_NETWORKS: &[(&str, &str)] = &[
    // The network of 2014 with 61 M parameters; the one of 2012 is wider in places.
    ("alexnet", "torchvision/alexnet.onnx"),
    // Without auxiliary heads.
    ("googlenet-v1", "torchvision/googlenet.onnx"),
    ("inception4", "timm/inception_v4.onnx"),
    ("resnet-v2-50", "timm/resnetv2_50.onnx"),
    // Its experts pick rows in another way: README-lang.md.
    ("switchxl4", "transformers/switch-xl4.onnx"),
];

/// The model files that are there.
#[derive(Debug, Default)]
pub(super) struct ModelFiles(BTreeSet<String>);

impl ModelFiles {
    /// Looks for ONNX files in a folder and the folders in it.
    pub(super) fn of(folder: &Path) -> std::io::Result<Self> {
        let mut files = BTreeSet::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !entry.path().is_dir() {
                files.insert(name);
                continue;
            }
            for file in fs::read_dir(entry.path())? {
                files.insert(format!("{name}/{}", file?.file_name().to_string_lossy()));
            }
        }
        files.retain(|file| file.ends_with(".onnx"));
        files.insert(VGG16_SLIM.to_owned());
        Ok(Self(files))
    }

    /// Path of the file of a row's network, under the folder; `None` when there is none.
    pub(super) fn find(&self, row: &Row) -> Option<&str> {
        let there = |file: &str| self.0.get(file).map(String::as_str);
        let of = |table: &[(&'static str, &'static str)], name: &str| {
            table.iter().find(|(key, _)| *key == name).map(|(_, file)| *file)
        };
        match &row.model_file {
            Some(named) => there(named).or_else(|| there(of(OF_KERAS_FILES, named)?)),
            None => there(of(OF_NETWORKS, &row.model)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;

    impl ModelFiles {
        /// One file.
        pub(in crate::eval) fn with(file: &str) -> Self {
            Self(BTreeSet::from([file.to_owned()]))
        }
    }

    #[test]
    fn a_named_file_is_taken_where_it_is_there_and_never_replaced_by_another_network() {
        let mut files = ModelFiles::with("timm/resnet50.onnx");
        files.0.insert("torchvision/vgg16.onnx".to_owned());
        assert_eq!(files.find(&row(&[])), Some("timm/resnet50.onnx"));
        assert_eq!(files.find(&row(&[("model_file", "timm/resnet51.onnx")])), None);
        let keras = row(&[("model_file", "keras/practicum/vgg16_slim_conv.json")]);
        assert_eq!(files.find(&keras), None);
        files.0.insert(VGG16_SLIM.to_owned());
        assert_eq!(files.find(&keras), Some(VGG16_SLIM));
        assert!(path_of(Path::new("models"), VGG16_SLIM).is_file());
    }
}
