use proptest::prelude::*;

use super::{PrintOptions, SyntaxError, parse, print_model, print_node};
use crate::frontend::onnx::model::*;
use crate::ir::element_type::ElementType;

const HEADER: &str = "<ir_version: 8, opset_import: [\"\" : 17]>\n";

fn model(text: &str) -> Model {
    let (model, errors) = parse(text);
    assert_eq!(errors, [], "in {text}");
    // What is printed is read back to the same tree.
    let printed = print_model(&model, &PrintOptions::default());
    let (again, errors) = parse(&printed);
    assert_eq!(errors, [], "in {printed}");
    assert_eq!(tree(&model), tree(&again), "{printed}");
    model
}

/// The tree without its places.
fn tree(model: &Model) -> String {
    let text = format!("{model:#?}");
    let mut lines = text.lines();
    let mut kept = String::new();
    while let Some(line) = lines.next() {
        if line.trim() == "span: Span {" {
            lines.by_ref().take(3).for_each(drop);
        } else {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

fn graph_of(rest: &str) -> GraphDef {
    model(&format!("{HEADER}g (float[N] x) => (float y) {rest}")).graph
}

fn nodes(body: &str) -> Vec<NodeDef> {
    graph_of(&format!("{{ {body} }}")).nodes
}

fn value(text: &str) -> AttributeValue {
    nodes(&format!("y = Op <a{text}> (x)")).remove(0).attributes.remove(0).value
}

fn errors(text: &str) -> Vec<SyntaxError> {
    parse(text).1
}

fn error_of(body: &str) -> String {
    let (_, errors) = parse(&format!("{HEADER}g (float[N] x) => (float y) {{ {body} }}"));
    errors.first().map(|error| error.message.clone()).unwrap_or_default()
}

fn strings(names: &[Name]) -> Vec<&str> {
    names.iter().map(|name| &**name).collect()
}

fn initializer(text: &str) -> TensorDef {
    graph_of(&format!("<{text}> {{ y = Op (x) }}")).initializers.remove(0)
}

#[test]
fn header() {
    let text = "# c\n<ir_version: 8, producer_name: \"p\", producer_version: \"v\", domain: \"d\", model_version: -3,
        doc_string: \"a\nb\\\"\", opset_import: [\"\" : 17, \"ai.onnx.ml\":3], metadata_props: [\"k\": \"v\"]>
        \"a graph\" (x) => () <> {}";
    let model = model(text);
    assert_eq!(model.ir_version, Some(8));
    assert_eq!(model.model_version, Some(-3));
    assert_eq!((&*model.producer_name, &*model.producer_version, &*model.domain), ("p", "v", "d"));
    assert_eq!(model.doc_string, "a\nb\"");
    assert_eq!(model.opset_imports.get(1), Some(&OpsetImport { domain: "ai.onnx.ml".into(), version: 3 }));
    assert_eq!(model.metadata, [("k".into(), "v".into())]);
    assert_eq!(&*model.graph.name, "a graph");
    assert_eq!(parse("g (x) => (y) { y = Op (x) }").0.ir_version, None);
}

#[test]
fn types() {
    let text = "g (float a, float[] b, float[2, N, ?, \"a b\", -1] c, seq(float[N]) d, optional(seq(int64)) e,
        map(string, float[]) f, sparse_tensor(float[2]) h, i, bfloat16 float, undefined[3] j, opaque() k) => () {}";
    let types: Vec<_> = model(text).graph.inputs.into_iter().map(|input| input.ty).collect();
    let tensor = |element, shape| TypeDef::Tensor(TensorTypeDef { element, shape });
    let float = Some(ElementType::Float);
    assert_eq!(types[0], Some(tensor(float, Some(vec![]))));
    assert_eq!(types[1], Some(tensor(float, None)));
    let dims = vec![
        DimDef::Value(2),
        DimDef::Param("N".into()),
        DimDef::Unknown,
        DimDef::Param("a b".into()),
        DimDef::Value(-1),
    ];
    assert_eq!(types[2], Some(tensor(float, Some(dims))));
    assert!(matches!(types[3], Some(TypeDef::Sequence(_))));
    assert!(matches!(types[4], Some(TypeDef::Optional(_))));
    assert!(matches!(types[5], Some(TypeDef::Map(Some(ElementType::String), _))));
    assert!(matches!(types[6], Some(TypeDef::SparseTensor(_))));
    assert_eq!(types[7], None);
    assert_eq!(types[8], Some(tensor(Some(ElementType::Bfloat16), Some(vec![]))));
    assert_eq!(types[9], Some(tensor(None, Some(vec![DimDef::Value(3)]))));
    assert_eq!(types[10], Some(TypeDef::Opaque));
}

#[test]
fn initializers() {
    let graph = graph_of("<float[2] v, float[2] w = {1, -2.5}, int64[3] s = {}, string[1] t = {\"q\"}, z> {}");
    assert_eq!(graph.value_info.len(), 2);
    assert_eq!(graph.initializers.len(), 3);
    assert_eq!(graph.initializers[0].reals(2), Some(vec![1.0, -2.5]));
    assert!(matches!(graph.initializers[1].data, Payload::Missing));
    assert_eq!(graph.initializers[2].strings(1).map(|s| s.len()), Some(1));
    let external = initializer("float[2] w = [\"location\": \"f\", \"offset\": \"4\"]");
    assert!(matches!(external.data, Payload::External(data) if data.get("offset") == Some("4")));
    assert!(matches!(initializer("float[2] w = ...").data, Payload::Missing));
    assert!(matches!(initializer("float[2] w = ").data, Payload::Missing));
    assert_eq!(initializer("int4[3] w = {-1, 7, -8}").integers(3), Some(vec![-1, 7, -8]));
    assert_eq!(initializer("uint2[5] w = {0, 1, 2, 3, 1}").integers(5), Some(vec![0, 1, 2, 3, 1]));
    assert_eq!(initializer("float16[1] w = {15360}").reals(1), Some(vec![1.0]));
    assert_eq!(initializer("uint64[1] w = {18446744073709551615}").integers(1), Some(vec![i64::MAX]));
    assert_eq!(initializer("bool[2] w = {1, 0}").integers(2), Some(vec![1, 0]));
    assert_eq!(initializer("double w = {0.1}").reals(1), Some(vec![0.1]));
    assert_eq!(initializer("float[3] w = {inf, -inf, 1e-40}").reals(3).map(|v| v[1]), Some(f64::NEG_INFINITY));
    // The length is not the parser's to judge.
    assert_eq!(initializer("float[2] w = {1}").reals(2), None);
    let with_default = model("g (float[2] w = {1, 2}) => () {}").graph;
    assert_eq!((with_default.inputs.len(), with_default.initializers.len()), (1, 1));
    let sparse = graph_of("<sparse_tensor(float[4]) w = (float[1] {2.5}, int64[1] {3})> {}");
    assert_eq!(sparse.sparse_initializers[0].dims, [4]);
    assert_eq!(&*sparse.sparse_initializers[0].values.name, "w");
}

#[test]
fn node_forms() {
    let node = nodes("[n/1] y, , z = a.b.Op:o <k = 1> (x, \"\", \"/a b\", ) <l = 2>").remove(0);
    assert_eq!((&*node.name, &*node.domain, &*node.op_type, &*node.overload), ("n/1", "a.b", "Op", "o"));
    assert_eq!(strings(&node.outputs), ["y", "", "z"]);
    assert_eq!(strings(&node.inputs), ["x", "", "/a b"]);
    assert_eq!(node.attributes.len(), 2);
    let node = nodes("= Op (, x)").remove(0);
    assert_eq!((node.outputs.len(), strings(&node.inputs)), (0, vec!["", "x"]));
    assert_eq!(strings(&nodes("y = Op (,)").remove(0).inputs), [""]);
    let node = nodes("y = pkg.torch.2.1.0 . Op (x)").remove(0);
    assert_eq!((&*node.domain, &*node.op_type), ("pkg.torch.2.1.0", "Op"));
    assert_eq!(&*nodes("y = a.b.\"1 2\" (x)")[0].op_type, "1 2");
    let node = nodes("y = \"a/b\".\"O p\":\"o v\" (/l/conv.weight, 12, x::y)").remove(0);
    assert_eq!((&*node.domain, &*node.op_type, &*node.overload), ("a/b", "O p", "o v"));
    assert_eq!(strings(&node.inputs), ["/l/conv.weight", "12", "x::y"]);
    assert_eq!(nodes("[] y = Op (x)\n # c\n z = Op (y) w = Op (z)").len(), 3);
}

#[test]
fn attribute_values() {
    use AttributeValue as V;
    assert!(matches!(value(" = 5"), V::Int(5)));
    assert!(matches!(value(": float = 5"), V::Float(5.0)));
    assert!(matches!(value(" = -1.5e2"), V::Float(-150.0)));
    assert!(matches!(value(" = -inf"), V::Float(f) if f == f32::NEG_INFINITY));
    assert!(matches!(value(" = NaN"), V::Float(f) if f.is_nan()));
    assert!(matches!(value(" = -9223372036854775808"), V::Int(i64::MIN)));
    assert!(matches!(value(r#" = "a\"b\\c""#), V::String(s) if s == "a\"b\\c"));
    assert!(matches!(value(" = hex\"ff00\""), V::String(s) if *s == b"\xff\x00"[..]));
    assert!(matches!(value(" = [1, -2]"), V::Ints(list) if list == [1, -2]));
    assert!(matches!(value(" = [1.5, 2]"), V::Floats(list) if list == [1.5, 2.0]));
    assert!(matches!(value(": floats = [1, 2.5]"), V::Floats(list) if list == [1.0, 2.5]));
    assert!(matches!(value(": ints = []"), V::Ints(list) if list.is_empty()));
    assert!(matches!(value(": int = [1]"), V::Ints(list) if list == [1]));
    assert!(matches!(value(" = [\"a\", \"b\"]"), V::Strings(list) if list.len() == 2));
    assert!(matches!(value(" = float[2] {1, 2}"), V::Tensor(t) if t.reals(2) == Some(vec![1.0, 2.0])));
    assert!(matches!(value(" = int64 {5}"), V::Tensor(t) if t.dims.is_empty()));
    assert!(matches!(value(": tensor = float[2] \"n n\" = {1, 2}"), V::Tensor(t) if &*t.name == "n n"));
    assert!(matches!(value(" = float[2] n"), V::Tensor(t) if &*t.name == "n"));
    assert!(matches!(value(" = float[2] n = [\"location\": \"f\"]"), V::Tensor(_)));
    assert!(matches!(value(" = float[2]"), V::Type(TypeDef::Tensor(_))));
    assert!(matches!(value(": type_protos = [float[2], seq(float)]"), V::Types(list) if list.len() == 2));
    assert!(matches!(value(": tensors = [float {1}, float {2}]"), V::Tensors(list) if list.len() == 2));
    assert!(matches!(value(" = sparse_tensor(float[4]) = (float[1] {1}, int64[1] {3})"), V::SparseTensor(_)));
    assert!(matches!(value(" = @b"), V::Reference { kind: 0, .. }));
    assert!(matches!(value(": ints = @\"b c\""), V::Reference { kind: 7, .. }));
    assert!(matches!(value(" = g () => (float z) { z = Op (x) }"), V::Graph(g) if g.nodes.len() == 1));
    assert!(matches!(value(" = \"g h\" () => (z) <float[1] w = {1}> { z = Op (w) }"), V::Graph(_)));
    assert!(matches!(value(" = inf () => (z) {}"), V::Graph(_)));
    assert!(matches!(value(" = [g () => () {}, h () => () {}]"), V::Graphs(list) if list.len() == 2));
}

#[test]
fn functions() {
    let text = format!(
        "{HEADER}g (x) => (y) {{ y = d.f (x) }}
        <domain: \"d\", overload: \"o\", opset_import: [\"\" : 17], doc_string: \"t\">
        f <a, \"b c\", d: int, e: float = 1.5> (float x, z) => (y) <float[2] w> {{ y = Op <k: int = @a> (x) }}
        h () => () {{}}"
    );
    let model = model(&text);
    assert_eq!(model.functions.len(), 2);
    let function = &model.functions[0];
    assert_eq!((&*function.name, &*function.domain, &*function.overload), ("f", "d", "o"));
    assert_eq!(strings(&function.attributes), ["a", "b c"]);
    assert_eq!(function.attribute_defaults.len(), 2);
    assert_eq!(strings(&function.inputs), ["x", "z"]);
    assert_eq!(function.value_info.len(), 2);
}

#[test]
fn metadata_comments() {
    let graph = graph_of(
        "{\n#@graph [\"g\": \"1\"]\n#@node [\"k\": \"a\\nb\", \"l\": \"\\\"\"]\ny = Op (x)\n#@node broken\nz = Op (y) }",
    );
    assert_eq!(graph.metadata.len(), 1);
    assert_eq!(graph.nodes[0].metadata, [("k".into(), "a\nb".into()), ("l".into(), "\"".into())]);
    assert!(graph.nodes[1].metadata.is_empty());
}

#[test]
fn spans() {
    let text = "g (float x) => (y) { y = Op <a = 1> (x) }";
    let model = model(text);
    let at = |span: crate::ir::place::Span| &text[span.start as usize..span.end as usize];
    let node = &model.graph.nodes[0];
    assert_eq!(at(model.graph.span), text);
    assert_eq!(at(node.span), "y = Op <a = 1> (x)");
    assert_eq!(at(node.attributes[0].span), "a = 1");
    assert_eq!(at(model.graph.inputs[0].span), "float x");
}

#[test]
fn messages() {
    assert_eq!(error_of("y = Op (x"), "expected `,` or `)`, found `}`");
    assert_eq!(error_of("y = (x)"), "expected an operator, found `(`");
    assert_eq!(error_of("y = Op <a: int = 1.5> (x)"), "attribute `a` is declared `int` but its value is `float`");
    assert_eq!(error_of("y = Op <a = []> (x)"), "an empty list needs its kind");
    assert_eq!(error_of("y = Op <a = [1, 2.5]> (x)"), "the values of a list must be of one kind");
    assert_eq!(error_of("y = Op <a = 1e39> (x)"), "`1e39` is out of the range of `float`");
    assert_eq!(error_of("y = Op <a = int8[1] {300}> (x)"), "`300` does not fit `int8`");
    assert_eq!(error_of("y = Op <a = \"> (x)"), "this string does not end");
    assert_eq!(error_of("y = Op <a = bool {true}> (x)"), "`true` is not an element of `bool`");
    let help = |text: &str| errors(text).into_iter().next().and_then(|error| error.help);
    assert_eq!(help("g (flaot[2] x) => () {}"), Some("did you mean `float`?".to_owned()));
    assert_eq!(help("g (float32[2] x) => () {}"), Some("did you mean `float`?".to_owned()));
    assert!(help("<ir_versoin: 8> g () => () {}").is_some());
    assert_eq!(errors("").len(), 1);
    assert_eq!(errors("g (x) => (y) { y = Op (x)")[0].message, "this `{` is not closed");
}

#[test]
fn goes_on_after_errors() {
    let text = "<ir_version: 8, foo: 3, opset_import: [\"\" : 17]>
g (flaot[2] x, float[3] w) => (float y)
{
   a = Op <k = 1, l = , m = 2> (x)
   b = Op (a
   c = Op <body = s () => (z) {
      q = Op (x
      z = Op (q)
   }> (b)
   d = Op )c(
   [n] e = Op <k = {1}> (d)
   f = Op <t = float[2] {1, 2> (e)
   y = Op (f)
}
<domain: \"d\">
f (x => (y) {}
<domain: \"e\">
h (x) => (y) { y = Op (x) }
";
    let (model, errors) = parse(text);
    let lines: Vec<_> =
        errors.iter().map(|error| text[..error.span.start as usize].matches('\n').count() + 1).collect();
    // A bracket that is missing at the end of a line shows at the first token of the next one.
    assert_eq!(lines, [1, 2, 4, 6, 8, 10, 11, 12, 16], "{errors:#?}");
    let outputs: Vec<_> = model.graph.nodes.iter().flat_map(|node| strings(&node.outputs)).collect();
    // A node keeps what could be read of it.
    assert_eq!(outputs, ["a", "c", "e", "f", "y"]);
    assert_eq!(model.opset_imports.len(), 1);
    assert_eq!(model.graph.inputs.len(), 1);
    assert_eq!(model.functions.len(), 1);
}

#[test]
fn nesting_is_limited() {
    let deep = |count: usize| {
        let open = "y = If <b = s () => () {".repeat(count);
        let close = "}> (x)".repeat(count);
        errors(&format!("g () => () {{ {open}{close} }}"))
    };
    assert_eq!(deep(32), []);
    assert!(deep(33).iter().any(|error| error.message.contains("nested deeper")));
    assert!(!deep(100_000).is_empty());
    let types = format!("g ({}float{} x) => () {{}}", "seq(".repeat(100_000), ")".repeat(100_000));
    assert!(errors(&types)[0].message.contains("nested deeper"));
    assert!(!errors(&"<".repeat(100_000)).is_empty());
    assert!(!errors(&"g (x) => (y) { y = Op < \\\"\n".repeat(50_000)).is_empty());
}

#[test]
fn excerpts() {
    let node =
        nodes("[n] y = d.Op <k = [1, 2, 3, 4], t = float[3] {1, 2, 3}, b = s () => () {}, s = \"a\nb\"> (x, \"\")");
    let options = PrintOptions { max_elements: 2, ..PrintOptions::default() };
    assert_eq!(
        print_node(&node[0], &options),
        "[n] y = d.Op <k = [1, 2, ...], t = float[3] {1.0, 2.0, ...}, b = s () => () {...}, s = \"a\\nb\"> (x, \"\")"
    );
}

#[test]
fn long_payloads_are_left_out() {
    let (model, _) = parse("g () => () <float[3] w = {1, 2, 3}, float[1] v = {0.1}> {}");
    let printed = print_model(&model, &PrintOptions { max_elements: 2, ..PrintOptions::default() });
    assert!(printed.contains("float[3] w = {}"), "{printed}");
    assert!(printed.contains("float[1] v = {0.1}"), "{printed}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_is_survived(text in "\\PC{0,80}") {
        let _ = parse(&text);
    }

    #[test]
    fn any_tokens_are_survived(tokens in prop::collection::vec(prop::sample::select(vec![
        "g", "(", ")", "{", "}", "<", ">", "[", "]", "=", "=>", ",", ":", "float", "seq(", "\"s\"", "\"", "1", "-2.5",
        "@", "\n", "x", "y = Op (x)\n", "...", "\\", "#@node [", "é", "a: ints = [", "w = {1", ".",
    ]), 0..60)) {
        let (model, _) = parse(&tokens.join(" "));
        let _ = print_model(&model, &PrintOptions::default());
        let (model, _) = parse(&format!("g (x) => (y) {{ {}", tokens.concat()));
        // What was read of a broken text is written as a text that is whole.
        let (again, errors) = parse(&print_model(&model, &PrintOptions::default()));
        prop_assert_eq!(errors, []);
        prop_assert_eq!(tree(&model), tree(&again));
    }

    #[test]
    fn any_names_and_values_come_back(
        names in prop::collection::vec("\\PC{0,12}|[a-z/.:#\"\\\\]{1,8}|[a-z1]{1,2}[.][a-z1]{1,2}|float|seq|inf", 3),
        floats in prop::collection::vec(any::<u32>().prop_map(f32::from_bits).prop_filter("payload", |f| !f.is_nan()), 0..5),
        ints in prop::collection::vec(any::<i64>(), 1..5),
        bytes in prop::collection::vec(any::<u8>(), 0..12),
        element in prop::sample::select(ElementType::ALL.to_vec()),
    ) {
        prop_assume!(element != ElementType::String && element != ElementType::Bool);
        let name = |index: usize| Name::from(names[index].as_str());
        let attribute = |value| AttributeDef { name: name(1), value, span: Default::default() };
        let elements = bytes.len() as i64 * 8 / i64::from(element.bits());
        let size = elements as usize * element.bits() as usize / 8;
        let reals = matches!(element, ElementType::Complex64 | ElementType::Complex128 | ElementType::Float | ElementType::Double);
        let data = if elements == 0 || reals { Payload::Missing } else { Payload::Raw(bytes[..size].to_vec().into()) };
        let node = NodeDef {
            name: name(0), op_type: name(0), domain: name(2), inputs: vec![name(0), name(1)],
            outputs: vec![name(2)], metadata: vec![(name(0), name(1))],
            attributes: vec![
                attribute(AttributeValue::Floats(floats)), attribute(AttributeValue::Ints(ints)),
                attribute(AttributeValue::String(bytes.clone().into())),
                attribute(AttributeValue::Tensor(TensorDef {
                    name: name(0), element: Some(element), dims: vec![elements], data, span: Default::default(),
                })),
                attribute(AttributeValue::Reference { name: name(1), kind: 3 }),
            ],
            ..NodeDef::default()
        };
        let mut model = Model::default();
        model.graph.nodes.push(node);
        let printed = print_model(&model, &PrintOptions::default());
        let (again, errors) = parse(&printed);
        prop_assert_eq!(errors, [], "{}", printed);
        prop_assert_eq!(tree(&model), tree(&again), "{}", printed);
    }
}
