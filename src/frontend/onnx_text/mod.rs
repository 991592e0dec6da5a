//! The textual syntax of ONNX.
