//! Second opinions on a case.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use dlcost::frontend::onnx::model::Model;
use dlcost::ir::element_type::ElementType;
use serde_json::Value;

use crate::{messages, python};

/// What another program says.
#[derive(Clone, Debug)]
pub(super) enum Said {
    /// The outputs of the model, in its order.
    Outputs(Vec<Told>),
    /// The same of a program that does not ask whether a model is one.
    #[cfg_attr(not(feature = "tract"), expect(dead_code, reason = "onnxruntime asks"))]
    Inferred(Vec<Told>),
    /// Why it takes the model for wrong.
    Refused(String),
    /// Why it has no opinion.
    Silent(String),
}

/// An output.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    pub(super) element: Option<ElementType>,
    pub(super) dims: Vec<i64>,
    /// Elements of a small tensor of integers.
    pub(super) values: Option<Vec<i64>>,
}

/// Somebody to ask.
pub(super) trait Opinion {
    fn name(&self) -> &'static str;
    fn ask(&mut self, model: &Model) -> Result<Said, Box<dyn Error>>;
}

/// `onnxruntime` runs a model with inputs of small numbers, in a process that lives as long as this.
pub(super) struct OnnxRuntime {
    running: Option<Running>,
}

struct Running {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

const PROGRAM: &str = include_str!("serve.py");

/// Longest time of an answer: a kernel that hangs ends its process.
const PATIENCE: Duration = Duration::from_secs(20);

impl OnnxRuntime {
    pub(super) fn new() -> Self {
        Self { running: None }
    }

    fn start() -> Result<Running, Box<dyn Error>> {
        let mut child = Command::new("python3")
            .args(["-c", PROGRAM])
            .env("PYTHONPATH", python::onnxruntime()?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stdin = child.stdin.take().ok_or("no standard input")?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Ok(Running { child, stdin, lines })
    }

    /// Ends the process; the next question starts another.
    fn stop(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

impl Drop for OnnxRuntime {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Opinion for OnnxRuntime {
    fn name(&self) -> &'static str {
        "onnxruntime"
    }

    fn ask(&mut self, model: &Model) -> Result<Said, Box<dyn Error>> {
        let bytes = messages::model(model);
        let running = match &mut self.running {
            Some(running) => running,
            slot => slot.insert(Self::start()?),
        };
        let mut frame = u32::try_from(bytes.len())?.to_le_bytes().to_vec();
        frame.extend(bytes);
        let sent = running.stdin.write_all(&frame).and_then(|()| running.stdin.flush());
        let line = match sent {
            Ok(()) => running.lines.recv_timeout(PATIENCE),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        match line {
            Ok(line) => said(&serde_json::from_str(&line)?),
            Err(error) => {
                let why = if error == RecvTimeoutError::Timeout { "it takes too long" } else { "its process ended" };
                self.stop();
                Ok(Said::Silent(why.to_owned()))
            }
        }
    }
}

fn said(answer: &Value) -> Result<Said, Box<dyn Error>> {
    let text = |key: &str| answer.get(key).and_then(Value::as_str).map(one_line);
    if let Some(why) = text("none") {
        return Ok(Said::Silent(why));
    }
    if let Some(why) = text("refused") {
        // Operators without a kernel are no opinion on the model.
        let lacking = why.contains("NOT_IMPLEMENTED") || why.contains("not implemented");
        return Ok(if lacking { Said::Silent(why) } else { Said::Refused(why) });
    }
    let outputs = answer.get("outputs").and_then(Value::as_array).ok_or("an answer without outputs")?;
    Ok(Said::Outputs(outputs.iter().map(told).collect()))
}

fn told(output: &Value) -> Told {
    let numbers = |key: &str| -> Option<Vec<i64>> { output.get(key)?.as_array()?.iter().map(Value::as_i64).collect() };
    let element = output.get("element").and_then(Value::as_str).and_then(|name| {
        ElementType::from_name(match name {
            "float32" => "float",
            "float64" => "double",
            name => name,
        })
    });
    Told { element, dims: numbers("dims").unwrap_or_default(), values: numbers("values") }
}

/// A message without line breaks, error number and place in the source.
fn one_line(text: &str) -> String {
    let text = text.strip_prefix("[ONNXRuntimeError] : ").unwrap_or(text);
    let words = text.split_whitespace().filter(|word| !word.starts_with("/onnxruntime_src/"));
    words.collect::<Vec<_>>().join(" ")
}
