//! Classical models of `ai.onnx.ml`: what goes in is N×F, what comes out has a row for each sample.

use bytes::Bytes;

use super::table::Built;
use super::{Cost, CostCx, Family, Fault, InferCx, NodeView, Operator, Role, Work, WorkCx};
use crate::frontend::onnx::model::AttributeValue;
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// Elementwise preprocessing; `None` keeps the element type.
#[derive(Debug)]
struct Preprocess {
    element: Option<ElementType>,
    /// Operations for each element.
    operations: i128,
}

/// `Scaler`, `Normalizer`, `Imputer`, `Binarizer`.
pub(super) fn preprocess(node: &NodeView<'_>) -> Built {
    let float = Some(ElementType::Float);
    let (element, operations) = match node.op_type() {
        "Scaler" => (float, 2),
        "Normalizer" => (float, 3),
        _ => (None, 1),
    };
    Ok(Box::new(Preprocess { element, operations }))
}

/// `LabelEncoder` and `CategoryMapper`: the type follows from the attributes that hold the values.
pub(super) fn mapper(node: &NodeView<'_>) -> Built {
    let element = match node.op_type() {
        "CategoryMapper" => None,
        _ if node.has("values_strings") => Some(ElementType::String),
        _ if node.has("values_int64s") => Some(ElementType::Int64),
        _ if node.has("values_floats") => Some(ElementType::Float),
        _ => node.tensor("values_tensor")?.and_then(|tensor| tensor.element),
    };
    if node.has("classes_strings") || node.op_type() == "CategoryMapper" {
        return Ok(Box::new(Swap));
    }
    Ok(Box::new(Preprocess { element, operations: 1 }))
}

impl Operator for Preprocess {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = self.element.or_else(|| cx.element(0));
        Ok(vec![Fact::tensor(element, cx.shape(0).cloned())])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let flops = cx.elements_out(0)? * self.operations;
        Cost::computed(cx, flops, &Dim::ZERO)
    }
}

/// Strings to integers, integers to strings.
#[derive(Debug)]
struct Swap;

impl Operator for Swap {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let element = cx.element(0).map(|element| match element {
            ElementType::String => ElementType::Int64,
            _ => ElementType::String,
        });
        Ok(vec![Fact::tensor(element, cx.shape(0).cloned())])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::moved(cx)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }
}

/// What a row of the input becomes.
#[derive(Debug)]
enum Row {
    /// So many numbers; `None` where the attributes do not say.
    Numbers(Option<i64>),
    /// A label, and so many scores.
    Label(ElementType, Option<i64>),
}

/// A model that is applied to each row.
#[derive(Debug)]
struct Model {
    row: Row,
    /// MACs for each row, by a weight of the attributes each.
    macs: i128,
    /// Comparisons and sums for each row.
    operations: i128,
    /// Bytes of the attributes that hold the model.
    bytes: i128,
    element: ElementType,
}

fn length(node: &NodeView<'_>, name: &str) -> i128 {
    let length = match node.value(name) {
        Some(AttributeValue::Floats(list)) => list.len(),
        Some(AttributeValue::Ints(list)) => list.len(),
        Some(AttributeValue::Strings(list)) => list.len(),
        Some(AttributeValue::Tensor(tensor)) => {
            return tensor.element_count().and_then(|count| i128::try_from(count).ok()).unwrap_or(0);
        }
        _ => 0,
    };
    i128::try_from(length).unwrap_or(i128::MAX)
}

fn count(length: i128) -> Option<i64> {
    i64::try_from(length).ok().filter(|&count| count > 0)
}

/// Type and number of the labels of a classifier.
fn labels(node: &NodeView<'_>) -> Result<(ElementType, i128), Fault> {
    let words: &[Bytes] = node.strings("classlabels_strings")?.unwrap_or_default();
    if !words.is_empty() {
        return Ok((ElementType::String, i128::try_from(words.len()).unwrap_or(i128::MAX)));
    }
    Ok((ElementType::Int64, length(node, "classlabels_ints").max(length(node, "classlabels_int64s"))))
}

/// `LinearClassifier`, `LinearRegressor`.
pub(super) fn linear(node: &NodeView<'_>) -> Built {
    let macs = length(node, "coefficients");
    let bias = length(node, "intercepts");
    let row = if node.op_type() == "LinearRegressor" {
        Row::Numbers(Some(node.int_or("targets", 1)?.max(1)))
    } else {
        let (element, classes) = labels(node)?;
        Row::Label(element, count(classes.max(bias)))
    };
    let bytes = macs.saturating_add(bias).saturating_mul(4);
    Ok(Box::new(Model { row, macs, operations: bias, bytes, element: ElementType::Float }))
}

/// `SVMClassifier`, `SVMRegressor`.
pub(super) fn support_vectors(node: &NodeView<'_>) -> Built {
    let macs = length(node, "support_vectors");
    let coefficients = length(node, "coefficients");
    let row = if node.op_type() == "SVMRegressor" {
        Row::Numbers(Some(1))
    } else {
        let (element, classes) = labels(node)?;
        Row::Label(element, count(classes))
    };
    let bytes = macs.saturating_add(coefficients).saturating_mul(4);
    Ok(Box::new(Model { row, macs, operations: coefficients.saturating_mul(2), bytes, element: ElementType::Float }))
}

/// `TreeEnsemble`, `TreeEnsembleClassifier`, `TreeEnsembleRegressor`. A row passes each tree on one path; how deep the
/// trees are is bounded by a balanced tree of as many nodes.
pub(super) fn trees(node: &NodeView<'_>) -> Built {
    let version_five = node.op_type() == "TreeEnsemble";
    let (nodes, roots) = if version_five {
        (length(node, "nodes_splits"), length(node, "tree_roots"))
    } else {
        let ids = node.ints("nodes_treeids")?.unwrap_or_default();
        let roots = ids.iter().zip(ids.iter().skip(1)).filter(|(tree, next)| tree != next).count();
        (length(node, "nodes_modes"), i128::try_from(roots).unwrap_or(0) + i128::from(!ids.is_empty()))
    };
    let per_tree = nodes.checked_div(roots).unwrap_or(0).max(1);
    let depth = i128::from(i128::BITS - per_tree.leading_zeros());
    let row = match node.op_type() {
        "TreeEnsembleClassifier" => {
            let (element, classes) = labels(node)?;
            Row::Label(element, count(classes))
        }
        _ => Row::Numbers(Some(node.int_or("n_targets", 1)?.max(1))),
    };
    let element = node.tensor("leaf_weights")?.and_then(|tensor| tensor.element).unwrap_or(ElementType::Float);
    // A feature, a threshold, two children and a mode for each node.
    let bytes = nodes.saturating_mul(29);
    Ok(Box::new(Model { row, macs: 0, operations: roots.saturating_mul(depth + 1), bytes, element }))
}

impl Operator for Model {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let rows = match cx.shape(0).map(Shape::dims) {
            Some([rows, _]) => rows.clone(),
            Some([_]) => Dim::ONE,
            Some(_) => {
                let shape = cx.shape(0).map(Shape::to_string).unwrap_or_default();
                return Err(Fault::shape(format!("the input must have rank 1 or 2, it has shape {shape}")));
            }
            None => cx.fresh_dim(0, 0, 0, None),
        };
        match self.row {
            Row::Numbers(numbers) => {
                let numbers = numbers.map_or_else(|| cx.fresh_dim(0, 1, 0, None), Dim::from);
                Ok(vec![Fact::tensor(self.element, Shape::new(vec![rows, numbers]))])
            }
            Row::Label(element, classes) => {
                let classes = classes.map_or_else(|| cx.fresh_dim(1, 1, 0, None), Dim::from);
                let scores = Shape::new(vec![rows.clone(), classes]);
                Ok(vec![Fact::tensor(element, Shape::new(vec![rows])), Fact::tensor(ElementType::Float, scores)])
            }
        }
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        let rows = cx.shape_out(0)?.dim(0)?;
        let macs = rows * self.macs;
        let flops = &macs * 2 + rows * self.operations;
        let moved = Cost::moved(cx)?;
        let bytes_read = &moved.bytes_read + self.bytes;
        Some(Cost { macs, flops, bytes_read, ..moved })
    }

    /// Linear models and support vectors multiply the rows with their weights.
    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        let family = || {
            let k = cx.input(0)?.dim_from_end(0)?;
            let n = u64::try_from(self.macs).ok()?.checked_div(k).filter(|&columns| columns > 0)?;
            Some(Family::Product { batch: 1, m: cx.output(0)?.dim(0)?, n, k })
        };
        cx.one(family())
    }
}

/// Columns put together, taken apart or marked.
#[derive(Debug)]
enum Columns {
    /// `ArrayFeatureExtractor`: some columns.
    Pick,
    /// `FeatureVectorizer`: columns of all inputs.
    Join(Option<i64>),
    /// `OneHotEncoder`: a new axis of so many categories.
    Mark(i64),
    /// `DictVectorizer`: a place for each word of a vocabulary.
    Vocabulary(i64),
}

/// `ArrayFeatureExtractor`, `FeatureVectorizer`, `OneHotEncoder`, `DictVectorizer`.
pub(super) fn columns(node: &NodeView<'_>) -> Built {
    let longest = |a: &str, b: &str| i64::try_from(length(node, a).max(length(node, b))).unwrap_or(i64::MAX);
    Ok(Box::new(match node.op_type() {
        "FeatureVectorizer" => {
            let widths = node.ints("inputdimensions")?;
            Columns::Join(widths.map(|widths| widths.into_iter().fold(0, i64::saturating_add)))
        }
        "OneHotEncoder" => Columns::Mark(longest("cats_int64s", "cats_strings")),
        "DictVectorizer" => Columns::Vocabulary(longest("int64_vocabulary", "string_vocabulary")),
        _ => Columns::Pick,
    }))
}

impl Operator for Columns {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let input = cx.shape(0).cloned();
        Ok(vec![match (self, input) {
            (Self::Pick, Some(shape)) => {
                let picked = cx.shape(1).map(Shape::elements);
                let [outer @ .., _] = shape.dims() else {
                    return Err(Fault::shape("the input must have rank 1 or more, it is a scalar"));
                };
                let axis = outer.len().max(1);
                let picked = picked.unwrap_or_else(|| cx.fresh_dim(0, axis, 0, None));
                let outer = if outer.is_empty() { vec![Dim::ONE] } else { outer.to_vec() };
                Fact::tensor(cx.element(0), outer.into_iter().chain([picked]).collect::<Shape>())
            }
            (Self::Join(widths), input) => {
                let rows = match input.as_ref().map(Shape::dims) {
                    Some([rows, _]) => rows.clone(),
                    Some([_]) => Dim::ONE,
                    _ => cx.fresh_dim(0, 0, 0, None),
                };
                let own = |place: usize| cx.shape(place).and_then(|shape| shape.dims().last().cloned());
                let sum = (0..cx.input_count()).try_fold(Dim::ZERO, |sum, place| Some(sum + own(place)?));
                let width = widths.map(Dim::from).or(sum).unwrap_or_else(|| cx.fresh_dim(0, 1, 0, None));
                Fact::tensor(ElementType::Float, Shape::new(vec![rows, width]))
            }
            (Self::Mark(categories), Some(shape)) => {
                let dims = shape.dims().iter().cloned().chain([Dim::from(*categories)]);
                Fact::tensor(ElementType::Float, dims.collect::<Shape>())
            }
            (Self::Vocabulary(words), _) => Fact::tensor(None, Shape::new(vec![Dim::ONE, Dim::from(*words)])),
            (Self::Mark(_), None) => Fact::tensor(ElementType::Float, None),
            (Self::Pick, None) => Fact::tensor(cx.element(0), None),
        }])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::moved(cx)
    }

    fn role(&self, input: usize) -> Role {
        if matches!(self, Self::Pick) && input == 1 { Role::Setting } else { Role::Data }
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }
}

/// `ZipMap`: a map of scores for each row.
#[derive(Debug)]
struct ZipMap;

/// `ZipMap`.
pub(super) fn zip_map(_node: &NodeView<'_>) -> Built {
    Ok(Box::new(ZipMap))
}

impl Operator for ZipMap {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let length = match cx.shape(0).map(Shape::dims) {
            Some([rows, _]) => Some(rows.clone()),
            Some([_]) => Some(Dim::ONE),
            _ => None,
        };
        Ok(vec![Fact::sequence(Fact::Map, length)])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::moved(cx)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }
}

/// `CastMap`: the values of a map as a row.
#[derive(Debug)]
struct CastMap {
    element: ElementType,
    /// Columns, where keys are places; else there is one for each key.
    columns: Option<i64>,
}

/// `CastMap`.
pub(super) fn cast_map(node: &NodeView<'_>) -> Built {
    let element = match node.string("cast_to")? {
        Some("TO_STRING") => ElementType::String,
        Some("TO_INT64") => ElementType::Int64,
        _ => ElementType::Float,
    };
    let sparse = node.string("map_form")? == Some("SPARSE");
    let columns = if sparse { Some(node.int_or("max_map", 1)?.max(0)) } else { None };
    Ok(Box::new(CastMap { element, columns }))
}

impl Operator for CastMap {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let columns = self.columns.map_or_else(|| cx.fresh_dim(0, 1, 0, None), Dim::from);
        Ok(vec![Fact::tensor(self.element, Shape::new(vec![Dim::ONE, columns]))])
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Some(Cost { bytes_written: cx.bytes_out()?, ..Cost::FREE })
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{TestNode, dims, float, op, typed};

    fn ml(name: &str) -> TestNode {
        op(name).domain("ai.onnx.ml").opset(3)
    }

    #[test]
    fn a_linear_classifier_gives_labels_and_scores() {
        let coefficients = AttributeValue::Floats(vec![0.0; 12]);
        let node = ml("LinearClassifier").attribute("coefficients", coefficients).ints("classlabels_ints", &[0, 1, 2]);
        let facts = node.outputs(2).run(&[float(&[5, 4])]).unwrap();
        assert_eq!(facts, [typed(ElementType::Int64, &[5]), float(&[5, 3])]);
        let coefficients = AttributeValue::Floats(vec![0.0; 12]);
        let cost =
            ml("LinearRegressor").attribute("coefficients", coefficients).int("targets", 3).cost(&[float(&[5, 4])]);
        assert_eq!(cost.macs.as_const(), Some(60));
    }

    #[test]
    fn trees_give_a_score_for_each_class() {
        let labels = AttributeValue::Strings(vec![Bytes::from_static(b"a"), Bytes::from_static(b"b")]);
        let node = ml("TreeEnsembleClassifier").attribute("classlabels_strings", labels).outputs(2);
        let facts = node.run(&[float(&[7, 4])]).unwrap();
        assert_eq!(facts, [typed(ElementType::String, &[7]), float(&[7, 2])]);
        assert_eq!(ml("TreeEnsembleRegressor").int("n_targets", 2).dims(&[float(&[7, 4])]), "7×2");
        assert!(ml("TreeEnsembleRegressor").dims(&[float(&[7, 4, 2])]).contains("rank 1 or 2"));
    }

    #[test]
    fn scores_become_a_map_for_each_row() {
        let facts = ml("ZipMap").run(&[float(&[5, 3])]).unwrap();
        assert_eq!(facts, [Fact::sequence(Fact::Map, Some(Dim::constant(5)))]);
    }

    #[test]
    fn a_map_becomes_a_row() {
        let node = ml("CastMap").string("map_form", "SPARSE").string("cast_to", "TO_INT64").int("max_map", 9);
        assert_eq!(node.run(&[Fact::Map]).unwrap(), [typed(ElementType::Int64, &[1, 9])]);
        assert_eq!(ml("CastMap").dims(&[Fact::Map]), "1×y0.1");
    }

    #[test]
    fn columns_are_joined_picked_and_marked() {
        let facts = ml("FeatureVectorizer").run(&[float(&[2, 3]), float(&[2, 4])]).unwrap();
        assert_eq!(dims(&facts[0]), "2×7");
        assert_eq!(ml("OneHotEncoder").ints("cats_int64s", &[1, 2, 3]).dims(&[float(&[2, 5])]), "2×5×3");
        let indices = typed(ElementType::Int64, &[2]);
        assert_eq!(ml("ArrayFeatureExtractor").dims(&[float(&[4, 9]), indices]), "4×2");
        assert_eq!(ml("Scaler").run(&[typed(ElementType::Int64, &[2, 5])]).unwrap(), [float(&[2, 5])]);
    }

    #[test]
    fn labels_change_their_type() {
        let node = ml("LabelEncoder").ints("values_int64s", &[1, 2]);
        assert_eq!(node.run(&[typed(ElementType::String, &[4])]).unwrap(), [typed(ElementType::Int64, &[4])]);
        assert_eq!(
            ml("CategoryMapper").run(&[typed(ElementType::Int64, &[4])]).unwrap(),
            [typed(ElementType::String, &[4])]
        );
    }
}
