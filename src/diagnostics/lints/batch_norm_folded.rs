//! `batch-norm-folded`: training is asked for, and the exporter has put batch normalisation into the convolutions.

use super::LintCx;
use crate::diagnostics::{Code, Diagnostic};
use crate::ir::graph::{Node, Origin, TensorId};
use crate::ir::place::Place;

/// Convolutions that must bear the mark: one may be somebody's name for something else.
const LEAST: usize = 2;

pub(super) fn check(cx: &LintCx<'_>) -> Option<Diagnostic> {
    if !cx.trains() {
        return None;
    }
    let convolutions = cx.analysis.program.nodes().map(|(_, _, node)| node).filter(|node| is_convolution(node));
    let folded: Vec<Place> = convolutions.filter(|node| is_folded(cx, node)).map(|node| node.place).collect();
    if folded.len() < LEAST {
        return None;
    }
    let message = format!(
        "{} convolutions have batch normalisation folded into their weights, as exporters do for inference; time and \
         memory of the backward pass are those of the folded network",
        folded.len()
    );
    let help = "export the model in training mode (torch.onnx.export with training=TrainingMode.TRAINING and \
                do_constant_folding=False), or ask for --mode infer";
    let mut diagnostic = Diagnostic::new(Code::BatchNormFolded, message).help(help);
    diagnostic.places = folded;
    Some(diagnostic)
}

fn is_convolution(node: &Node) -> bool {
    matches!(&*node.op, "Conv" | "ConvTranspose" | "com.microsoft.FusedConv" | "com.microsoft.nchwc.Conv")
}

/// Whether a convolution's bias bears a name that no layer gave it. A folded bias is a new tensor, and exporters name it
/// after the weight, by a running number, or after what they did.
fn is_folded(cx: &LintCx<'_>, node: &Node) -> bool {
    let name = |input: usize| node.inputs.get(input).copied().flatten().and_then(|tensor| stored_name(cx, tensor));
    let (Some(weight), Some(bias)) = (name(1), name(2)) else { return false };
    let after_weight = bias.strip_prefix(weight).is_some_and(|rest| rest == "_bias");
    let numbered = |name: &str| name.starts_with("onnx::Conv");
    after_weight
        || (numbered(weight) && numbered(bias))
        || bias.ends_with("_bias_fused_bn")
        || bias.starts_with("ConvBnFusion_BN_B_")
}

/// The name of a tensor that is stored.
fn stored_name<'a>(cx: &LintCx<'a>, tensor: TensorId) -> Option<&'a str> {
    let tensor = cx.analysis.program.tensor(tensor)?;
    matches!(tensor.origin, Origin::Stored(_)).then_some(&*tensor.name)
}
