//! Models made in code, as ONNX text without weights: for benches, tests and the large files of `cargo xtask fixtures`.

use std::fmt::Write;

/// Nodes in one block of [`residual_chain`].
const NODES_IN_BLOCK: usize = 10;

/// A residual convolutional network of about `nodes` nodes. Each block holds what real exports hold: a convolution
/// with normalisation and activation, and a reshape whose target is computed from the shape of its input.
pub(crate) fn residual_chain(nodes: usize) -> String {
    let blocks = nodes.div_ceil(NODES_IN_BLOCK);
    let mut stored = String::from(
        "int64 zero = {0}, int64[1] axis = {0}, int64[2] rest = {16, 1024}, int64[4] image = {0, 16, 32, 32}",
    );
    let mut body = String::new();
    for block in 0..blocks {
        let next = block + 1;
        let _ = write!(
            stored,
            ",\n  float[16, 16, 3, 3] w{block} = {{}}, float[16] s{block} = {{}}, float[16] b{block} = {{}}, \
             float[16] m{block} = {{}}, float[16] v{block} = {{}}"
        );
        let _ = write!(
            body,
            "  [block{block}/conv] c{block} = Conv <pads = [1, 1, 1, 1]> (x{block}, w{block})\n  \
             [block{block}/norm] n{block} = BatchNormalization (c{block}, s{block}, b{block}, m{block}, v{block})\n  \
             [block{block}/act] r{block} = Relu (n{block})\n  \
             sh{block} = Shape (r{block})\n  \
             ba{block} = Gather <axis = 0> (sh{block}, zero)\n  \
             bu{block} = Unsqueeze (ba{block}, axis)\n  \
             ta{block} = Concat <axis = 0> (bu{block}, rest)\n  \
             f{block} = Reshape (r{block}, ta{block})\n  \
             g{block} = Reshape (f{block}, image)\n  \
             [block{block}/add] x{next} = Add (g{block}, x{block})\n"
        );
    }
    format!(
        "<ir_version: 8, opset_import: [\"\" : 17]>\nresidual_chain (float[batch, 16, 32, 32] x0) => (float[batch, 16, 32, 32] \
         x{blocks})\n<\n  {stored}\n>\n{{\n{body}}}\n"
    )
}

/// Sizes of a [`decoder`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecoderSizes {
    /// Blocks.
    pub(crate) layers: usize,
    /// Width of the residual stream.
    pub(crate) width: usize,
    /// Attention heads.
    pub(crate) heads: usize,
    /// Rows of the token table.
    pub(crate) vocabulary: usize,
    /// Rows of the position table.
    pub(crate) positions: usize,
}

/// A decoder of the GPT-2 family, with its output layer stored apart from its token table.
pub(crate) fn decoder(sizes: DecoderSizes) -> String {
    let DecoderSizes { layers, width, heads, vocabulary, positions } = sizes;
    let (head, three, four) = (width / heads, 3 * width, 4 * width);
    let mut stored = format!(
        "float[{vocabulary}, {width}] wte = {{}}, float[{positions}, {width}] wpe = {{}}, \
         float[{width}, {vocabulary}] lm_head = {{}}, float[{width}] ln_f_w = {{}}, float[{width}] ln_f_b = {{}}, \
         int64[1] start = {{0}}, int64[1] axis1 = {{1}}, int64[1] axis0 = {{0}}, int64 one = {{1}}, \
         int64[4] split = {{0, 0, {heads}, {head}}}, int64[3] join = {{0, 0, {width}}}, float scale = {{8}}, \
         float half = {{0.5}}, float unit = {{1}}, float root2 = {{1.4142135}}"
    );
    let mut body = String::from(
        "  ids_shape = Shape (ids)\n  length = Gather <axis = 0> (ids_shape, axis1)\n  \
         pos = Slice (wpe, start, length, axis0)\n  tok = Gather <axis = 0> (wte, ids)\n  h0 = Add (tok, pos)\n",
    );
    for layer in 0..layers {
        let next = layer + 1;
        for (name, dims) in [
            ("ln_1_w", format!("{width}")),
            ("ln_1_b", format!("{width}")),
            ("attn_w", format!("{width}, {three}")),
            ("attn_b", format!("{three}")),
            ("proj_w", format!("{width}, {width}")),
            ("proj_b", format!("{width}")),
            ("ln_2_w", format!("{width}")),
            ("ln_2_b", format!("{width}")),
            ("fc_w", format!("{width}, {four}")),
            ("fc_b", format!("{four}")),
            ("out_w", format!("{four}, {width}")),
            ("out_b", format!("{width}")),
        ] {
            let _ = write!(stored, ",\n  float[{dims}] l{layer}_{name} = {{}}");
        }
        let text = "  [layer@/ln_1] @a = LayerNormalization (h@, l@_ln_1_w, l@_ln_1_b)
  [layer@/attn/qkv] @b = MatMul (@a, l@_attn_w)
  @c = Add (@b, l@_attn_b)
  @q, @k, @v = Split <axis = 2, num_outputs = 3> (@c)
  @q1 = Reshape (@q, split)
  @k1 = Reshape (@k, split)
  @v1 = Reshape (@v, split)
  @q2 = Transpose <perm = [0, 2, 1, 3]> (@q1)
  @k2 = Transpose <perm = [0, 2, 3, 1]> (@k1)
  @v2 = Transpose <perm = [0, 2, 1, 3]> (@v1)
  [layer@/attn/scores] @s = MatMul (@q2, @k2)
  @s1 = Div (@s, scale)
  @p = Softmax <axis = -1> (@s1)
  [layer@/attn/values] @o = MatMul (@p, @v2)
  @o1 = Transpose <perm = [0, 2, 1, 3]> (@o)
  @o2 = Reshape (@o1, join)
  [layer@/attn/proj] @o3 = MatMul (@o2, l@_proj_w)
  @o4 = Add (@o3, l@_proj_b)
  @r = Add (h@, @o4)
  [layer@/ln_2] @d = LayerNormalization (@r, l@_ln_2_w, l@_ln_2_b)
  [layer@/mlp/fc] @e = MatMul (@d, l@_fc_w)
  @e1 = Add (@e, l@_fc_b)
  @e2 = Div (@e1, root2)
  @e3 = Erf (@e2)
  @e4 = Add (@e3, unit)
  @e5 = Mul (@e1, @e4)
  @e6 = Mul (@e5, half)
  [layer@/mlp/out] @f = MatMul (@e6, l@_out_w)
  @f1 = Add (@f, l@_out_b)
";
        // `h@` is the stream itself; every other name that begins with the sign gets a letter before its number.
        let text = text.replace(" @", " t@_").replace("(@", "(t@_").replace('@', &layer.to_string());
        body.push_str(&text);
        let _ = writeln!(body, "  h{next} = Add (t{layer}_r, t{layer}_f1)");
    }
    let _ = write!(
        body,
        "  [ln_f] last = LayerNormalization (h{layers}, ln_f_w, ln_f_b)\n  [lm_head] logits = MatMul (last, lm_head)\n"
    );
    format!(
        "<ir_version: 8, opset_import: [\"\" : 18]>\ndecoder (int64[batch, seq] ids) => (float[batch, seq, {vocabulary}] \
         logits)\n<\n  {stored}\n>\n{{\n{body}}}\n"
    )
}
