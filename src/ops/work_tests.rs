//! Work items, kept tensors and backward work of nodes of known sizes. That the items sum to what is counted is checked
//! for every node here; what is kept was read off the derivative formulas of `PyTorch` 2.10.

use crate::ir::element_type::ElementType;
use crate::ops::testing::{Priced, float, ints, microsoft, op, reals, typed};
use crate::ops::work::Convolution;
use crate::ops::work::Function;
use crate::ops::{Family, Gradient, Saved};

const PLANE: Convolution = Convolution {
    batch: 2,
    in_channels: 8,
    out_channels: 16,
    input: [1, 14, 12],
    output: [1, 7, 12],
    kernel: [1, 3, 1],
    stride: [1, 2, 1],
    dilation: [1, 1, 1],
    groups: 4,
    transposed: false,
    axes: 2,
};

#[test]
fn convolution_has_its_sizes_and_a_product_for_each_operand() {
    let node = || op("Conv").int("group", 4).ints("strides", &[2, 1]).ints("pads", &[1, 0, 1, 0]);
    let inputs = [float(&[2, 8, 14, 12]), float(&[16, 2, 3, 1]), float(&[16])];
    let priced = node().priced(&inputs, &[0, 1, 2]);
    assert_eq!(priced.family(), Family::Convolution(PLANE));
    assert_eq!(priced.saved, Saved::inputs(0..2));
    let bias = Family::Reduce { rows: 16, cols: 2 * 7 * 12 };
    let convolution = Family::Convolution(PLANE);
    let all = [(convolution, Gradient::Data), (convolution, Gradient::Weight), (bias, Gradient::Weight)];
    assert_eq!(priced.gradients(), all);
    let (data, weight) = (&priced.backward[0].0, &priced.backward[1].0);
    assert_eq!(data.flops, 2.0 * PLANE.macs());
    assert_eq!([data.bytes_read, data.bytes_written], [4.0 * (2688.0 + 96.0), 4.0 * 2688.0]);
    assert_eq!([weight.bytes_read, weight.bytes_written], [4.0 * (2688.0 + 2688.0), 4.0 * 96.0]);
    // The first layer: its data needs no gradient. A frozen weight does not free the input.
    assert_eq!(node().priced(&inputs, &[1]).gradients(), [(convolution, Gradient::Weight)]);
    assert_eq!(node().priced(&inputs, &[0]).saved, Saved::inputs(0..2));
    let frozen = node().priced(&inputs, &[]);
    assert_eq!((frozen.saved, frozen.backward.len()), (Saved::NOTHING, 0));
}

#[test]
fn convolutions_of_one_and_three_axes_and_transposed_ones_keep_their_axes_apart() {
    let line = op("Conv").priced(&[float(&[1, 4, 10]), float(&[6, 4, 3])], &[]);
    let Family::Convolution(sizes) = line.family() else { panic!() };
    assert_eq!((sizes.input, sizes.output, sizes.kernel), ([1, 1, 10], [1, 1, 8], [1, 1, 3]));
    let volume = op("Conv").priced(&[float(&[1, 4, 5, 6, 7]), float(&[6, 4, 1, 2, 3])], &[]);
    let Family::Convolution(sizes) = volume.family() else { panic!() };
    assert_eq!((sizes.input, sizes.output, sizes.kernel), ([5, 6, 7], [5, 5, 5], [1, 2, 3]));
    let wider = op("ConvTranspose").ints("strides", &[2, 2]).int("group", 2);
    let wider = wider.priced(&[float(&[1, 4, 5, 5]), float(&[4, 3, 2, 2])], &[0, 1]);
    let Family::Convolution(sizes) = wider.family() else { panic!() };
    assert_eq!((sizes.in_channels, sizes.out_channels, sizes.transposed), (4, 6, true));
    assert_eq!((sizes.output, sizes.macs()), ([1, 10, 10], 1200.0));
    assert_eq!(wider.works[0].flops, 2.0 * sizes.macs());
}

#[test]
fn deformable_convolution_samples_first() {
    let inputs = [float(&[1, 2, 5, 5]), float(&[3, 2, 3, 3]), float(&[1, 18, 3, 3]), float(&[3])];
    let priced = op("DeformConv").priced(&inputs, &[0, 1, 2, 3]);
    let [Family::Elementwise { elements, .. }, Family::Convolution(_)] = priced.families()[..] else { panic!() };
    assert_eq!(elements, 2 * 9 * 9);
    assert_eq!(priced.works[0].flops, 7.0 * 162.0);
    assert_eq!(priced.gradients().len(), 4);
}

#[test]
fn linear_layer_is_one_product_over_all_rows() {
    let (x, w) = (float(&[4, 10, 64]), float(&[64, 32]));
    let priced = op("MatMul").priced(&[x, w], &[0, 1]);
    assert_eq!(priced.family(), Family::Product { batch: 1, m: 40, n: 32, k: 64 });
    let data = Family::Product { batch: 1, m: 40, n: 64, k: 32 };
    let weight = Family::Product { batch: 1, m: 64, n: 32, k: 40 };
    assert_eq!(priced.gradients(), [(data, Gradient::Data), (weight, Gradient::Weight)]);
    let written: Vec<_> = priced.backward.iter().map(|(work, _)| work.bytes_written).collect();
    assert_eq!(written, [4.0 * 2560.0, 4.0 * 2048.0]);
    assert_eq!(priced.saved, Saved::inputs(0..2));
}

#[test]
fn products_of_two_batches_stay_apart_and_shared_matrices_sum_their_gradients() {
    let (q, k) = (float(&[2, 3, 10, 16]), float(&[2, 3, 16, 12]));
    let priced = op("MatMul").priced(&[q.clone(), k], &[0]);
    assert_eq!(priced.family(), Family::Product { batch: 6, m: 10, n: 12, k: 16 });
    // Only what the left one needs.
    assert_eq!(priced.saved, Saved::input(1));
    let shared = op("MatMul").priced(&[q, float(&[1, 3, 16, 12])], &[1]);
    let product = Family::Product { batch: 6, m: 16, n: 12, k: 10 };
    let sum = Family::Reduce { rows: 576, cols: 2 };
    assert_eq!(shared.gradients(), [(product, Gradient::Weight), (sum, Gradient::Weight)]);
    let vectors = op("MatMul").priced(&[float(&[7]), float(&[7])], &[]);
    assert_eq!(vectors.family(), Family::Product { batch: 1, m: 1, n: 1, k: 7 });
    let turned = microsoft("FusedMatMul").int("transB", 1);
    let turned = turned.priced(&[float(&[5, 7]), float(&[9, 7])], &[]);
    assert_eq!(turned.family(), Family::Product { batch: 1, m: 5, n: 9, k: 7 });
}

#[test]
fn gemm_sums_the_gradient_of_its_bias() {
    let inputs = [float(&[32, 100]), float(&[10, 100]), float(&[10])];
    let priced = op("Gemm").int("transB", 1).priced(&inputs, &[0, 1, 2]);
    assert_eq!(priced.family(), Family::Product { batch: 1, m: 32, n: 10, k: 100 });
    assert_eq!(priced.gradients()[2], (Family::Reduce { rows: 10, cols: 32 }, Gradient::Weight));
    let flops: f64 = priced.backward.iter().map(|(work, _)| work.flops).sum();
    assert_eq!(flops, 4.0 * 32_000.0 + 320.0);
}

#[test]
fn pools_keep_their_input_and_the_places_of_maxima() {
    let image = [float(&[2, 8, 8, 8])];
    let max = op("MaxPool").ints("kernel_shape", &[2, 2]).ints("strides", &[2, 2]).priced(&image, &[0]);
    assert_eq!(max.family(), Family::Pool { elements: 256, window: 4, average: false });
    assert_eq!(max.saved, Saved::input(0).and(Saved::extra(8 * 256)));
    let places = op("MaxPool").ints("kernel_shape", &[2, 2]).outputs(2).priced(&image, &[0]);
    assert_eq!(places.saved, Saved::input(0).and(Saved::output(1)));
    let average = op("AveragePool").ints("kernel_shape", &[8, 8]).priced(&image, &[0]);
    assert_eq!(
        (average.family(), average.saved),
        (Family::Pool { elements: 16, window: 64, average: true }, Saved::input(0))
    );
    let mean = op("GlobalAveragePool").priced(&image, &[0]);
    assert_eq!((mean.family(), mean.saved), (Family::Reduce { rows: 16, cols: 64 }, Saved::NOTHING));
    assert_eq!(
        mean.gradients(),
        [(Family::Elementwise { elements: 1024, function: Function::Arithmetic }, Gradient::All)]
    );
}

#[test]
fn normalisations_keep_their_input_and_statistics() {
    let weights = |count: usize| std::iter::repeat_n(float(&[8]), count);
    let with = |count: usize| [float(&[2, 8, 5, 5])].into_iter().chain(weights(count)).collect::<Vec<_>>();
    let batch = op("BatchNormalization").int("training_mode", 1).outputs(3).priced(&with(4), &[0, 1, 2]);
    assert_eq!(batch.family(), Family::BatchNorm { rows: 50, channels: 8 });
    assert_eq!(batch.saved, Saved::inputs(0..2).and(Saved::extra(64)));
    assert_eq!(batch.gradients(), [(batch.family(), Gradient::All)]);
    let work = &batch.backward[0].0;
    assert_eq!([work.bytes_read, work.bytes_written], [4.0 * (400.0 * 2.0 + 8.0 + 16.0) + 64.0, 4.0 * 416.0]);
    let group = op("GroupNormalization").int("num_groups", 4).priced(&with(2), &[0, 1, 2]);
    assert_eq!((group.family(), group.saved.extra_bytes), (Family::LayerNorm { rows: 8, cols: 50 }, 64));
    let instance = op("InstanceNormalization").priced(&with(2), &[0]);
    assert_eq!((instance.family(), instance.saved.extra_bytes), (Family::LayerNorm { rows: 16, cols: 25 }, 128));
    let rows = [float(&[4, 10, 64]), float(&[64]), float(&[64])];
    let layer = op("LayerNormalization").priced(&rows, &[0, 1, 2]);
    assert_eq!(layer.family(), Family::LayerNorm { rows: 40, cols: 64 });
    assert_eq!(layer.saved, Saved::inputs(0..3).and(Saved::extra(320)));
    let square = op("RMSNormalization").opset(23).priced(&rows[..2], &[0, 1]);
    assert_eq!(square.saved, Saved::inputs(0..2).and(Saved::extra(160)));
}

#[test]
fn rows_of_softmax_and_reductions_follow_the_axes() {
    let scores = [float(&[2, 3, 10, 12])];
    let softmax = op("Softmax").priced(&scores, &[0]);
    assert_eq!((softmax.family(), softmax.saved), (Family::Softmax { rows: 60, cols: 12 }, Saved::output(0)));
    let flattened = op("Softmax").opset(11).priced(&scores, &[]);
    assert_eq!(flattened.family(), Family::Softmax { rows: 2, cols: 360 });
    let sum = op("ReduceSum").priced(&[scores[0].clone(), ints(&[2, 3])], &[0]);
    assert_eq!((sum.family(), sum.saved), (Family::Reduce { rows: 6, cols: 120 }, Saved::NOTHING));
    let most = op("ReduceMax").priced(&[scores[0].clone(), ints(&[3])], &[0]);
    assert_eq!(most.saved, Saved::input(0).and(Saved::output(0)));
    let place = op("ArgMax").int("axis", 1).priced(&scores, &[0]);
    assert_eq!((place.family(), place.saved), (Family::Reduce { rows: 240, cols: 3 }, Saved::NOTHING));
    assert!(place.backward.is_empty());
}

#[test]
fn rows_of_a_table_are_an_embedding() {
    let tokens = typed(ElementType::Int64, &[4, 10]);
    let rows = op("Gather").priced(&[float(&[1000, 64]), tokens], &[0]);
    assert_eq!(rows.family(), Family::Embedding { rows: 40, cols: 64, table: 1000 });
    assert_eq!(rows.saved, Saved::input(1));
    assert_eq!(rows.backward[0].0.bytes_written, 4.0 * 64_000.0);
    let one = op("Gather").priced(&[float(&[3, 2, 8]), typed(ElementType::Int64, &[])], &[0]);
    assert_eq!((one.family(), one.saved), (Family::Copy { elements: 16 }, Saved::NOTHING));
}

#[test]
fn what_only_moves_keeps_nothing_and_views_do_nothing() {
    let image = float(&[2, 8, 4, 4]);
    let turned = op("Transpose").priced(std::slice::from_ref(&image), &[0]);
    assert_eq!((turned.family(), turned.saved), (Family::Copy { elements: 256 }, Saved::NOTHING));
    assert_eq!(turned.gradients(), [(Family::Copy { elements: 256 }, Gradient::All)]);
    let view = op("Reshape").priced(&[image.clone(), ints(&[-1])], &[0]);
    assert!(view.works.is_empty() && view.backward.is_empty());
    assert!(op("Shape").priced(std::slice::from_ref(&image), &[]).works.is_empty());
    assert!(op("Dropout").opset(11).priced(&[image], &[0]).works.is_empty());
    let wider = op("Expand").priced(&[float(&[1, 8]), ints(&[4, 8])], &[0]);
    assert_eq!(wider.family(), Family::Copy { elements: 32 });
    assert_eq!(wider.gradients(), [(Family::Reduce { rows: 8, cols: 4 }, Gradient::All)]);
}

#[test]
fn functions_of_an_element_keep_what_their_slope_needs() {
    let kept = |name: &str| op(name).priced(&[float(&[4, 8])], &[0]).saved;
    for name in ["Relu", "LeakyRelu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Reciprocal"] {
        assert_eq!(kept(name), Saved::output(0), "{name}");
    }
    for name in ["Elu", "Gelu", "HardSwish", "HardSigmoid", "Softplus", "Mish", "Abs", "Log", "Erf", "Clip"] {
        assert_eq!(kept(name), Saved::input(0), "{name}");
    }
    for name in ["Neg", "Floor", "Sign"] {
        assert_eq!(kept(name), Saved::NOTHING, "{name}");
    }
    assert_eq!(kept("Softsign"), Saved::input(0).and(Saved::extra(128)));
    let slopes = op("PRelu").priced(&[float(&[4, 8]), float(&[8])], &[0, 1]);
    assert_eq!(slopes.saved, Saved::inputs(0..2));
    let sum = (Family::Reduce { rows: 8, cols: 4 }, Gradient::Weight);
    assert_eq!(
        slopes.gradients(),
        [(Family::Elementwise { elements: 32, function: Function::Arithmetic }, Gradient::All), sum]
    );
}

#[test]
fn functions_of_two_elements_keep_the_other_one() {
    let (x, y) = (float(&[4, 8]), float(&[8]));
    let pair = |name: &str, needs: &[usize]| -> Priced { op(name).priced(&[x.clone(), y.clone()], needs) };
    assert_eq!(pair("Add", &[0, 1]).saved, Saved::NOTHING);
    // The gradient of a sum goes on as it is; that of a bias is summed.
    assert_eq!(pair("Add", &[0]).backward, []);
    assert_eq!(pair("Add", &[0, 1]).gradients(), [(Family::Reduce { rows: 8, cols: 4 }, Gradient::Weight)]);
    assert_eq!(pair("Mul", &[0]).saved, Saved::input(1));
    assert_eq!(pair("Mul", &[0, 1]).saved, Saved::inputs(0..2));
    assert_eq!(pair("Mul", &[0, 1]).gradients().len(), 2);
    assert_eq!(pair("Div", &[0]).saved, Saved::input(1));
    assert_eq!(pair("Div", &[1]).saved, Saved::inputs(0..2));
    assert_eq!(pair("Pow", &[1]).saved, Saved::inputs(0..2).and(Saved::output(0)));
    assert_eq!(op("Pow").priced(&[x.clone(), reals(&[2.0])], &[0]).saved, Saved::input(0));
    assert_eq!(pair("Max", &[0]).saved, Saved::inputs(0..2));
    assert_eq!(pair("Greater", &[0]).saved, Saved::NOTHING);
    let choice = [typed(ElementType::Bool, &[4, 8]), x.clone(), y.clone()];
    assert_eq!(op("Where").priced(&choice, &[1, 2]).saved, Saved::input(0));
}

#[test]
fn dropout_keeps_a_mask_unless_it_drops_nothing() {
    let node = |ratio: f64| {
        let inputs = [float(&[4, 8]), reals(&[ratio]), typed(ElementType::Bool, &[])];
        op("Dropout").priced(&inputs, &[0])
    };
    assert_eq!(node(0.5).saved, Saved::extra(32));
    assert!(node(0.0).works.is_empty() && node(0.0).saved == Saved::NOTHING);
}

#[test]
fn einsum_sorts_its_indices_into_batch_rows_columns_and_sum() {
    let node = |equation: &str| op("Einsum").string("equation", equation);
    let scores = node("bhqd,bhkd->bhqk").priced(&[float(&[2, 3, 10, 16]), float(&[2, 3, 12, 16])], &[0, 1]);
    assert_eq!(scores.family(), Family::Product { batch: 6, m: 10, n: 12, k: 16 });
    assert_eq!((scores.saved, scores.backward.len()), (Saved::inputs(0..2), 2));
    let linear = node("...k,kn->...n").priced(&[float(&[4, 10, 64]), float(&[64, 32])], &[1]);
    assert_eq!(linear.family(), Family::Product { batch: 1, m: 40, n: 32, k: 64 });
    assert_eq!(linear.saved, Saved::input(0));
    let three = node("ab,bc,cd->ad").priced(&[float(&[2, 3]), float(&[3, 4]), float(&[4, 5])], &[0, 1, 2]);
    let products = [Family::Product { batch: 1, m: 2, n: 4, k: 3 }, Family::Product { batch: 1, m: 2, n: 5, k: 4 }];
    assert_eq!(three.families(), products);
    assert_eq!((three.saved, three.backward.len()), (Saved::inputs(0..3).and(Saved::extra(32)), 4));
    assert_eq!(node("ij->ji").priced(&[float(&[2, 3])], &[]).family(), Family::Copy { elements: 6 });
    assert_eq!(node("ij->i").priced(&[float(&[2, 3])], &[]).family(), Family::Reduce { rows: 2, cols: 3 });
}

#[test]
fn attention_is_one_item_and_keeps_its_operands() {
    let flat = op("Attention").opset(23).int("q_num_heads", 8).int("kv_num_heads", 2).int("is_causal", 1);
    let priced = flat.priced(&[float(&[2, 10, 64]), float(&[2, 12, 16]), float(&[2, 12, 16])], &[0, 1, 2]);
    let family =
        Family::Attention { batch: 2, heads: 8, kv_heads: 2, queries: 10, keys: 12, head_dim: 8, causal: true };
    assert_eq!(priced.family(), family);
    assert_eq!(priced.saved, Saved::inputs(0..4).and(Saved::output(0)).and(Saved::extra(4 * 160)));
    assert_eq!(priced.gradients(), [(family, Gradient::All)]);
    let work = &priced.backward[0].0;
    assert_eq!(work.flops, 2.5 * priced.works[0].flops);
    assert_eq!([work.bytes_read, work.bytes_written], [4.0 * (3.0 * 1280.0 + 768.0), 4.0 * (1280.0 + 768.0)]);
}

#[test]
fn attention_with_its_projection_is_a_product_first() {
    let node = microsoft("Attention").int("num_heads", 4);
    let priced = node.priced(&[float(&[2, 10, 64]), float(&[64, 192]), float(&[192])], &[0, 1, 2]);
    let projection = Family::Product { batch: 1, m: 20, n: 192, k: 64 };
    let attention =
        Family::Attention { batch: 2, heads: 4, kv_heads: 4, queries: 10, keys: 10, head_dim: 16, causal: false };
    assert_eq!(priced.families(), [projection, attention]);
    assert_eq!(priced.works[0].flops, 2.0 * 20.0 * 192.0 * 64.0 + 20.0 * 192.0);
    let kept = Saved::extra(20 * 192 * 4 + 4 * 80);
    assert_eq!(priced.saved, Saved::inputs(0..2).and(Saved::output(0)).and(kept));
    let gradients = priced.gradients();
    assert_eq!(gradients[0], (attention, Gradient::All));
    assert_eq!(gradients[3], (Family::Reduce { rows: 192, cols: 20 }, Gradient::Weight));
}

#[test]
fn other_attentions_find_their_sizes() {
    let multi = microsoft("MultiHeadAttention").int("num_heads", 4);
    let multi = multi.priced(&[float(&[2, 10, 64]), float(&[2, 12, 64]), float(&[2, 12, 64])], &[]);
    let Family::Attention { queries, keys, head_dim, .. } = multi.family() else { panic!() };
    assert_eq!((queries, keys, head_dim), (10, 12, 16));
    let groups = microsoft("GroupQueryAttention").int("num_heads", 8).int("kv_num_heads", 2);
    let inputs = [
        float(&[2, 1, 64]),
        float(&[2, 1, 16]),
        float(&[2, 1, 16]),
        float(&[2, 2, 31, 8]),
        float(&[2, 2, 31, 8]),
        typed(ElementType::Int32, &[2]),
        typed(ElementType::Int32, &[]),
    ];
    // No cache comes out: the keys follow from what was counted.
    let groups = groups.priced(&inputs, &[]);
    let Family::Attention { heads, kv_heads, keys, .. } = groups.family() else { panic!() };
    assert_eq!((heads, kv_heads, keys), (8, 2, 32));
    let linear = op("LinearAttention").opset(24).int("q_num_heads", 4).int("kv_num_heads", 2);
    let linear = linear.string("update_rule", "linear");
    let linear = linear.priced(&[float(&[2, 10, 32]), float(&[2, 10, 16]), float(&[2, 10, 24])], &[0]);
    assert_eq!(linear.family(), Family::Product { batch: 2 * 6, m: 10, n: 12, k: 8 });
}

#[test]
fn recurrent_layer_has_its_gates_and_keeps_them() {
    let node = op("LSTM").string("direction", "bidirectional").int("hidden_size", 16).outputs(3);
    let priced = node.priced(&[float(&[5, 2, 8]), float(&[2, 64, 8]), float(&[2, 64, 16])], &[0, 1, 2]);
    let family = Family::Recurrent { batch: 2, steps: 5, inputs: 8, hidden: 16, gates: 4, directions: 2 };
    assert_eq!(priced.family(), family);
    assert_eq!(priced.saved.extra_bytes, 5 * 2 * 2 * 16 * 5 * 4);
    assert_eq!(priced.gradients(), [(family, Gradient::All)]);
}

#[test]
fn losses_keep_logarithms_and_labels() {
    let labels = typed(ElementType::Int64, &[4]);
    let loss = op("SoftmaxCrossEntropyLoss").priced(&[float(&[4, 10]), labels.clone()], &[0]);
    assert_eq!(loss.families(), [Family::Softmax { rows: 4, cols: 10 }, Family::Reduce { rows: 1, cols: 4 }]);
    assert_eq!(loss.saved, Saved::inputs(1..3).and(Saved::extra(160 + 4)));
    let plain = op("NegativeLogLikelihoodLoss").priced(&[float(&[4, 10]), labels], &[0]);
    assert_eq!(plain.saved, Saved::inputs(0..3).and(Saved::extra(4)));
}

#[test]
fn choices_sort_and_put_their_gradient_back() {
    let top = op("TopK").outputs(2).priced(&[float(&[6, 50]), ints(&[5])], &[0]);
    assert_eq!((top.family(), top.saved), (Family::Sort { rows: 6, cols: 50 }, Saved::output(1)));
    assert_eq!(top.gradients(), [(Family::Copy { elements: 300 }, Gradient::All)]);
    let boxes = op("NonMaxSuppression").priced(&[float(&[2, 100, 4]), float(&[2, 3, 100])], &[]);
    assert_eq!(boxes.family(), Family::Sort { rows: 6, cols: 100 });
}

#[test]
fn interpolation_computes_where_it_is_not_nearest() {
    let sizes = [Some(float(&[1, 4, 8, 8])), None, None, Some(ints(&[1, 4, 16, 16]))];
    let node = |mode: &str| op("Resize").string("mode", mode).priced_optional(&sizes, &[0]);
    assert_eq!(node("nearest").family(), Family::Copy { elements: 1024 });
    assert_eq!(
        (node("linear").family(), node("linear").saved),
        (Family::Elementwise { elements: 1024, function: Function::Arithmetic }, Saved::NOTHING)
    );
    assert_eq!(
        node("linear").gradients(),
        [(Family::Elementwise { elements: 1024, function: Function::Arithmetic }, Gradient::All)]
    );
}

#[test]
fn margins_of_nothing_are_a_view_and_reflected_ones_keep_their_input() {
    let padded = |mode: &str| {
        let node = op("Pad").string("mode", mode);
        node.priced(&[float(&[1, 2, 4, 4]), ints(&[0, 0, 1, 1, 0, 0, 1, 1])], &[0]).saved
    };
    assert_eq!(padded("reflect"), Saved::input(0));
    assert_eq!(padded("constant"), Saved::NOTHING);
}
