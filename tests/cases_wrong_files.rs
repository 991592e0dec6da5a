//! Whole-program answers to CASES.md, group 7: wrong input, files that are no model or only a part of one. The process
//! always survives and says what is wrong.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use dlcost::diagnostics::Level;
use dlcost::report::{Finding, Model};
use support::{
    Folder, Proto, assert_says, assert_silent, at_level, bytes, float_value, macs, model, named, node, only_error,
    opset,
};

/// The one error about a file of which nothing can be read.
#[track_caller]
fn unreadable<'m>(model: &'m Model, name: &str) -> &'m Finding {
    assert!(model.graph.is_none(), "no figures: {model:#?}");
    assert!(model.layers.is_empty() && model.outputs.is_empty());
    assert_eq!(model.diagnostics.len(), 1, "{:#?}", model.diagnostics);
    only_error(model, name)
}

const POINTER: &str = "version https://git-lfs.github.com/spec/v1\n\
    oid sha256:abababababababababababababababababababababababababababababababab\nsize 102442450\n";

/// Case 96.
#[test]
fn a_git_lfs_pointer_is_named_with_digest_and_size() {
    let model = bytes(POINTER.as_bytes());
    let error = unreadable(&model, "lfs-pointer");
    assert_says(error, &["Git LFS pointer", "sha256 abab", "102,442,450 bytes"]);
    assert!(error.help.as_deref().unwrap().contains("git lfs pull"));
    for name in ["model.onnx", "model.onnxtxt", "model.json", "model.keras"] {
        let (status, printed) = Folder::new().status(name, POINTER.as_bytes());
        assert_eq!(status, 1, "{printed}");
        assert!(printed.contains("lfs-pointer"), "{printed}");
    }
}

/// Case 96: the side file.
#[test]
fn a_side_file_that_is_a_pointer_is_named() {
    let folder = Folder::with(&[("w.bin", POINTER.as_bytes())]);
    let model = folder
        .check(&opset(18, r#"g (float[1, 4] x) => (y) <float[4, 4] W = ["location": "w.bin"]> { y = MatMul (x, W) }"#));
    let found = named(&model, "lfs-pointer");
    assert_eq!(found.len(), 1, "{:#?}", model.diagnostics);
    assert_says(found[0], &["w.bin", "Git LFS pointer"]);
    assert!(found[0].help.as_deref().unwrap().contains("git lfs pull"));
    assert_eq!(macs(&model), 16);
}

/// Case 97.
#[test]
fn a_web_page_is_named_with_its_title() {
    for page in [
        "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body></body></html>",
        "<html lang=\"en\">\n<head>\n<TITLE>\n  Sign in\n</TITLE></head></html>",
        "\u{feff}\n  <!doctype HTML><html><head><meta charset=utf-8><title data-x=\"1\">Sign in</title>",
    ] {
        for name in ["model.onnx", "model.onnxtxt"] {
            let (status, printed) = Folder::new().status(name, page.as_bytes());
            assert_eq!(status, 1);
            assert!(printed.contains("HTML page") && printed.contains("\"Sign in\""), "{printed}");
        }
        assert_says(unreadable(&bytes(page.as_bytes()), "not-a-model"), &["HTML page", "\"Sign in\""]);
    }
    assert_says(unreadable(&bytes(b"<html><body>no title</body></html>"), "not-a-model"), &["HTML page"]);
}

/// Case 97: bodies of errors.
#[test]
fn error_bodies_of_downloads_are_named() {
    for (body, words) in [
        (
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
            &["XML", "AccessDenied"][..],
        ),
        ("<Error><Code>NoSuchKey</Code></Error>", &["XML", "NoSuchKey"]),
        ("{\"error\": \"Repository not found\"}", &["JSON", "Repository not found"]),
        ("{\"code\": \"AccessDenied\", \"message\": \"Request has expired\"}", &["JSON", "Request has expired"]),
        ("Entry not found, please check the address that was given", &["text"]),
        ("Not Found", &["text"]),
    ] {
        assert_says(unreadable(&bytes(body.as_bytes()), "not-a-model"), words);
    }
}

/// The bytes of a model with a stored weight of 16 x 4.
fn with_weight() -> Vec<u8> {
    let weight = Proto::new().ints(1, &[16, 4]).int(2, 1).bytes(8, "W").bytes(9, [0; 256]);
    let graph = Proto::new()
        .message(1, &node("MatMul", &["x", "W"], &["y"]))
        .bytes(2, "g")
        .message(5, &weight)
        .message(11, &float_value("x", &[1, 16]))
        .message(12, &float_value("y", &[1, 4]));
    model(18, &graph).0
}

/// Case 98.
#[test]
fn a_download_that_stopped_inside_a_weight_is_named_with_field_and_offset() {
    let whole = with_weight();
    assert_silent(&bytes(&whole));
    let model = bytes(&whole[..200]);
    let error = unreadable(&model, "truncated-file");
    assert_says(error, &["field raw_data of initializer \"W\"", "byte 200", "promises"]);
}

/// Case 98: every cut.
#[test]
fn no_cut_of_a_file_panics_or_passes_as_the_whole() {
    let whole = with_weight();
    for cut in 0..whole.len() {
        let model = bytes(&whole[..cut]);
        let errors = at_level(&model, Level::Error);
        assert!(!errors.is_empty(), "cut at byte {cut}: {model:#?}");
        assert!(errors.len() == 1, "cut at byte {cut}: {errors:#?}");
    }
}

/// Case 99.
#[test]
fn an_empty_file_is_an_error() {
    assert_says(unreadable(&bytes(b""), "empty-file"), &["empty", "0 bytes"]);
    for name in ["model.onnx", "model.onnxtxt"] {
        let (status, printed) = Folder::new().status(name, b"");
        assert_eq!(status, 1);
        assert!(printed.contains("the file is empty") && !printed.contains("FLOPs"), "{printed}");
    }
}

/// Case 99: bytes without content.
#[test]
fn a_file_without_a_graph_is_an_error() {
    for content in [&b"\n"[..], b"   \n\t\n", b"\0\0\0\0\0\0\0\0", b"\x08\x08", b"\xff\xff\xff\xff"] {
        let model = bytes(content);
        assert_eq!(at_level(&model, Level::Error).len(), 1, "{content:?}: {:#?}", model.diagnostics);
        assert!(model.graph.is_none(), "{content:?}");
    }
}

fn tar() -> Vec<u8> {
    let mut bytes = vec![0; 1024];
    bytes[..10].copy_from_slice(b"model.onnx");
    bytes[257..262].copy_from_slice(b"ustar");
    bytes
}

/// Case 100.
#[test]
fn files_of_other_kinds_are_known_by_their_first_bytes() {
    let header = b"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    let safetensors = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat();
    let padded = [&(header.len() as u64 + 8).to_le_bytes()[..], header, b"        ", &[0; 4]].concat();
    let metadata = [&23u64.to_le_bytes()[..], b"{ \"__metadata__\": {} } "].concat();
    for (content, words) in [
        (b"PK\x03\x04\x14\0\0\0\0\0archive/data.pkl\x80\x02".to_vec(), "PyTorch archive"),
        (b"PK\x03\x04\x14\0\0\0\0\0model/data.pkl\x80\x02}q\0.".to_vec(), "PyTorch archive"),
        (b"PK\x03\x04\x14\0\0\0\0\0readme.txt".to_vec(), "zip archive"),
        (b"\x80\x02}q\0(X\x05\0\0\0".to_vec(), "pickle"),
        (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.".to_vec(), "pickle"),
        (b"\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94.".to_vec(), "pickle"),
        (b"\x80\x05\x95\x10\0\0\0\0\0\0\0}\x94.".to_vec(), "pickle"),
        (b"\x80\x02ccollections\nOrderedDict\n".to_vec(), "pickle"),
        (b"\x80\x03c__main__\nNet\n".to_vec(), "pickle"),
        (b"\x80\x02N.".to_vec(), "pickle"),
        (safetensors, "safetensors"),
        (padded, "safetensors"),
        (metadata, "safetensors"),
        (b"\x1c\0\0\0TFL3\0\0".to_vec(), "TensorFlow Lite"),
        (b"\x1f\x8b\x08\0\0\0\0\0".to_vec(), "gzip"),
        (tar(), "tar archive"),
        (b"ptrt\0\0\0\0plan".to_vec(), "TensorRT plan"),
        (b"ftrt\0\0\0\0plan".to_vec(), "TensorRT plan"),
        (b"GGUF\x03\0\0\0".to_vec(), "GGUF"),
        (b"\x93NUMPY\x01\0".to_vec(), "NumPy"),
    ] {
        let model = bytes(&content);
        let error = unreadable(&model, "not-a-model");
        assert_says(error, &["this is", words]);
        assert!(error.help.is_some(), "{error:#?}");
    }
}

/// Case 100: what to do instead.
#[test]
fn a_pytorch_archive_is_told_to_be_exported() {
    let (status, printed) = Folder::new().status("model.onnx", b"PK\x03\x04\x14\0\0\0\0\0model/data.pkl\x80\x02}q\0.");
    assert_eq!(status, 1);
    assert!(printed.contains("PyTorch archive") && printed.contains("torch.onnx"), "{printed}");
}
