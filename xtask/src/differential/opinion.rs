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

/// A program to ask, in a process that lives until it hangs or ends: one that takes all memory takes its own.
pub(super) struct Opinion {
    pub(super) name: &'static str,
    command: fn() -> Result<Command, Box<dyn Error>>,
    running: Option<Running>,
}

/// The process reads models, each behind its length in four bytes, and writes a line of JSON for each.
struct Running {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

/// Longest time of an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// `onnxruntime`, which runs a model with inputs of small numbers.
pub(super) fn onnxruntime() -> Opinion {
    let command = || {
        let mut command = Command::new("python3");
        command.args(["-c", include_str!("serve.py")]).env("PYTHONPATH", python::onnxruntime()?);
        Ok(command)
    };
    Opinion { name: "onnxruntime", command, running: None }
}

/// tract, which this program has in it: what it infers for a model, never run.
#[cfg(feature = "tract")]
pub(super) fn tract() -> Opinion {
    let command = || {
        let mut command = Command::new("sh");
        let limited = "ulimit -v 8388608; exec \"$0\" differential --answer";
        command.args(["-c", limited]).arg(std::env::current_exe()?);
        Ok(command)
    };
    Opinion { name: "tract", command, running: None }
}

impl Running {
    fn start(mut command: Command) -> Result<Self, Box<dyn Error>> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let stdin = child.stdin.take().ok_or("no standard input")?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Ok(Self { child, stdin, lines })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Opinion {
    pub(super) fn ask(&mut self, model: &Model) -> Result<Said, Box<dyn Error>> {
        let bytes = messages::model(model);
        let running = match &mut self.running {
            Some(running) => running,
            slot => slot.insert(Running::start((self.command)()?)?),
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
                self.running = None;
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
    let outputs = |key: &str| Some(answer.get(key)?.as_array()?.iter().map(told).collect());
    let inferred = || outputs("inferred").map(Said::Inferred);
    Ok(outputs("outputs").map(Said::Outputs).or_else(inferred).ok_or("an answer without outputs")?)
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
