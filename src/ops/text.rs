//! Strings: `StringNormalizer`, `StringConcat`, `StringSplit`, `RegexFullMatch`, `TfIdfVectorizer`, and `Tokenizer` of
//! `com.microsoft`.

use super::table::Built;
use super::{Cost, CostCx, Fault, InferCx, NodeView, Operator, Work, WorkCx, broadcast};
use crate::ir::dim::Dim;
use crate::ir::element_type::ElementType;
use crate::ir::fact::Fact;
use crate::ir::shape::Shape;

/// What becomes of the shape.
#[derive(Clone, Debug)]
enum Kind {
    /// Words may be dropped.
    Normalize,
    Concat,
    /// Into at most so many words.
    Split(Option<Dim>),
    Match,
    /// So many n-grams are counted.
    Count(i64),
}

#[derive(Debug)]
struct Text {
    kind: Kind,
}

/// `StringNormalizer`, `StringConcat`, `StringSplit`, `RegexFullMatch`, `TfIdfVectorizer`, `Tokenizer`.
pub(super) fn text(node: &NodeView<'_>) -> Built {
    let kind = match node.op_type() {
        "StringConcat" => Kind::Concat,
        "StringSplit" => Kind::Split(node.int("maxsplit")?.filter(|&most| most >= 0).map(|most| Dim::from(most) + 1)),
        "Tokenizer" => Kind::Split(None),
        "RegexFullMatch" => Kind::Match,
        "TfIdfVectorizer" => {
            let indexes = node.ints("ngram_indexes")?.ok_or_else(|| node.missing("ngram_indexes"))?;
            let last = indexes.iter().copied().max().unwrap_or(-1);
            if let Some(wrong) = indexes.iter().find(|&&index| index < 0) {
                return Err(Fault::attribute(format!("attribute ngram_indexes holds {wrong}, allowed is 0 and more")));
            }
            Kind::Count(last.saturating_add(1))
        }
        _ => Kind::Normalize,
    };
    Ok(Box::new(Text { kind }))
}

impl Operator for Text {
    fn infer(&self, cx: &mut InferCx<'_>) -> Result<Vec<Fact>, Fault> {
        let input = cx.shape(0).cloned();
        let element = match &self.kind {
            Kind::Match => ElementType::Bool,
            Kind::Count(_) => ElementType::Float,
            Kind::Normalize | Kind::Concat | Kind::Split(_) => ElementType::String,
        };
        let shape = match (&self.kind, input.clone()) {
            (_, None) => None,
            (Kind::Match, input) => input,
            (Kind::Concat, _) => broadcast::inputs(cx, 0..2)?,
            (Kind::Split(most), Some(mut shape)) => {
                let words = if cx.is_empty(0) { Dim::ZERO } else { cx.fresh_dim(0, shape.rank(), 0, most.clone()) };
                shape.dims_mut().push(words);
                Some(shape)
            }
            (Kind::Normalize, Some(mut shape)) => {
                let axis = shape.rank().saturating_sub(1);
                let fits = shape.rank() == 1
                    || (shape.rank() == 2 && shape.dim(0).is_some_and(|rows| rows.is_eq(&Dim::ONE) != Some(false)));
                let Some(words) = shape.dims_mut().last_mut().filter(|_| fits) else {
                    return Err(Fault::shape(format!("the input must be [C] or [1, C], it has shape {shape}")));
                };
                let most = words.max(&Dim::ONE);
                *words = cx.fresh_dim(0, axis, 1, Some(most));
                Some(shape)
            }
            (Kind::Count(columns), Some(shape)) => match shape.dims() {
                [] | [_] => Some(Shape::new(vec![Dim::from(*columns)])),
                [rows, _] => Some(Shape::new(vec![rows.clone(), Dim::from(*columns)])),
                _ => return Err(Fault::shape(format!("the input must have rank 1 or 2, it has shape {shape}"))),
            },
        };
        let mut facts = vec![Fact::tensor(element, shape)];
        if matches!(self.kind, Kind::Split(_)) {
            facts.push(Fact::tensor(ElementType::Int64, input));
        }
        Ok(facts)
    }

    fn cost(&self, cx: &CostCx<'_>) -> Option<Cost> {
        Cost::moved(cx)
    }

    fn work(&self, cx: &WorkCx<'_>) -> Vec<Work> {
        vec![cx.moved()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{dims, microsoft, op, typed};

    fn words(shape: &[i128]) -> Fact {
        typed(ElementType::String, shape)
    }

    #[test]
    fn shapes_of_strings() {
        assert_eq!(op("StringConcat").dims(&[words(&[2, 1]), words(&[3])]), "2×3");
        assert_eq!(op("StringNormalizer").dims(&[words(&[1, 5])]), "1×y0.1");
        assert!(op("StringNormalizer").dims(&[words(&[2, 5])]).contains("must be [C] or [1, C]"));
        let facts = op("StringSplit").outputs(2).run(&[words(&[4])]).unwrap();
        assert_eq!((dims(&facts[0]), &facts[1]), ("4×y0.1".into(), &typed(ElementType::Int64, &[4])));
        assert_eq!(op("StringSplit").outputs(2).dims(&[words(&[0])]), "0×0");
        assert_eq!(microsoft("Tokenizer").dims(&[words(&[2, 1])]), "2×1×y0.2");
        assert_eq!(op("RegexFullMatch").run(&[words(&[4])]).unwrap(), [typed(ElementType::Bool, &[4])]);
    }

    #[test]
    fn a_vector_has_a_place_for_each_n_gram() {
        let node = || op("TfIdfVectorizer").ints("ngram_indexes", &[0, 4, 2]);
        assert_eq!(node().dims(&[words(&[9])]), "5");
        assert_eq!(node().dims(&[words(&[3, 9])]), "3×5");
        assert!(op("TfIdfVectorizer").ints("ngram_indexes", &[-1]).dims(&[words(&[9])]).contains("holds -1"));
    }
}
