//! Unit tests of the examples, and random expressions against direct evaluation.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn free(name: &str, lo: i128) -> Dim {
    Dim::from(&Symbol::new(name, SymbolKind::Free, lo, None))
}

fn names(name: &str) -> Option<Dim> {
    Some(match name {
        "Z" => free("Z", 0),
        "I" => Dim::from(&Symbol::new("I", SymbolKind::Opaque, i128::MIN, None)),
        "K" => Dim::from(&Symbol::new("K", SymbolKind::Data, 0, Some(free("N", 1) * free("H", 1)))),
        "B" => Dim::from(&Symbol::new("B", SymbolKind::Data, -3, Some(Dim::from(7)))),
        "nope" => return None,
        _ => free(name, 1),
    })
}

fn d(text: &str) -> Dim {
    Dim::parse(text, &names).unwrap()
}

#[track_caller]
fn shows(text: &str, expected: &str) {
    let dim = d(text);
    assert_eq!(dim.to_string(), expected, "{text}");
    assert_eq!(d(expected), dim, "{expected}");
}

#[test]
fn prints_sums() {
    shows("5+N", "N+5");
    shows("2*N", "2*N");
    shows("seq*batch*12", "12*batch*seq");
    shows("1 + N*H*3 - N*2", "3*H*N-2*N+1");
    shows("5-N", "-N+5");
    shows("H*H*N", "H^2*N");
    shows("(H+1)^2", "H^2+2*H+1");
    shows("N-N", "0");
    shows("-3", "-3");
    shows("--N", "N");
    shows("-N^2", "-N^2");
    shows("2*(N+1)*(N-1)", "2*N^2-2");
}

#[test]
fn rounds_quotients_to_one_form() {
    shows("H//2", "floor(H/2)");
    shows("floor((H-1)/2)+1", "ceil(H/2)");
    assert_eq!(d("floor((H-1)/2)+1"), d("ceil(H/2)"));
    shows("(H+3)/4", "ceil(H/4)");
    shows("(H+1)/3", "floor((H+1)/3)");
    shows("ceil(ceil(H/2)/2)", "ceil(H/4)");
    shows("((H/2)/2)/2", "floor(H/8)");
    shows("floor((floor((H-1)/2)+1-1)/2)+1", "ceil(H/4)");
    shows("(2*H+3)/4", "ceil(H/2)");
    shows("(4*H+2*N+7)/4", "H+ceil(N/2)+1");
    shows("H/(-2)", "floor(-H/2)");
    shows("H%4", "H-4*floor(H/4)");
    shows("mod(H,4)/4", "0");
    shows("(B+3)/11", "0");
    shows("-7/2", "-4");
    shows("-7%3", "2");
    shows("7/-2", "-4");
}

#[test]
fn divides_by_symbols() {
    shows("(batch*12)/(batch*4)", "3");
    shows("(batch*seq*12)/(batch)", "12*seq");
    shows("(batch*seq+batch)/(seq+1)", "batch");
    shows("(N*H+H+3)/N", "H+floor((H+3)/N)");
    shows("(N*H)/(N*M)", "floor(H/M)");
    shows("(H-1)/H", "0");
    shows("mod(H,N)", "-N*floor(H/N)+H");
    shows("floor(floor(H/N)/M)", "floor(H/(M*N))");
    shows("N/(H+M)", "floor(N/(H+M))");
    shows("N/(-H)", "floor(-N/H)");
    assert_eq!(d("N^2-H^2").exact_div(&d("N-H")), Some(d("N+H")));
    assert_eq!(d("N^2+H^2").exact_div(&d("N-H")), None);
    assert_eq!(d("6*N").exact_div(&Dim::from(4)), None);
    assert_eq!(d("6*N").exact_div(&Dim::from(3)), Some(d("2*N")));
    assert_eq!(d("6*N").exact_div(&Dim::ZERO), None);
    assert_eq!(Dim::ZERO.exact_div(&d("N")), Some(Dim::ZERO));
    assert_eq!(d("floor(H/2)*N+N").exact_div(&d("floor(H/2)+1")), Some(d("N")));
}

#[test]
fn division_by_zero_is_opaque() {
    for dim in [d("N").floor_div(&Dim::ZERO), d("N").ceil_div(&Dim::ZERO), Dim::ONE.modulo(&Dim::ZERO)] {
        assert!(!dim.is_free(), "{dim}");
        assert_eq!(dim.eval(&|_| None), None);
    }
    assert_eq!(d("N/Z").eval(&|s| Some(i128::from(s.name() == "N"))), None);
}

#[test]
fn folds_minimum_and_maximum() {
    shows("min(H,H+3)", "H");
    shows("max(H,H+3)", "H+3");
    shows("max(H-1,0)", "H-1");
    shows("max(Z-1,0)", "max(Z-1,0)");
    shows("min(N,min(H,N),5,3)", "min(H,N,3)");
    shows("min(N*H,N)", "N");
    shows("max(H,floor(H/2))", "H");
    shows("max(K,H*N)", "H*N");
    shows("min(B,7)", "B");
    shows("max(1,min(H,2))", "min(H,2)");
    shows("max(3)", "3");
}

#[test]
fn compares_only_what_is_proven() {
    assert_eq!(d("N+1").compare(&d("N")), Some(Ordering::Greater));
    assert_eq!(d("N").compare(&d("2*N")), Some(Ordering::Less));
    assert_eq!(d("N").compare(&d("N*H")), None);
    assert_eq!(d("N*H").is_ge(&d("N")), Some(true));
    assert_eq!(d("N").compare(&d("H")), None);
    assert_eq!(d("N").is_eq(&Dim::ZERO), Some(false));
    assert_eq!(d("K").is_ge(&d("N*H+1")), Some(false));
    assert_eq!(d("H%4").is_ge(&Dim::from(4)), Some(false));
    assert_eq!(d("2*floor(H/2)").is_ge(&d("H+1")), Some(false));
    assert_eq!(d("Z").is_ge(&Dim::ZERO), Some(true));
    assert_eq!(d("Z").is_eq(&Dim::ZERO), None);
}

#[test]
fn bounds() {
    assert_eq!(d("N").range(), (Some(1), None));
    assert_eq!(d("2*B+1").range(), (Some(-5), Some(15)));
    assert_eq!(d("H%4").range(), (Some(0), Some(3)));
    assert_eq!(d("I").range(), (None, None));
    assert_eq!(d("I^2").range(), (Some(0), None));
    assert_eq!(d("2*K+1").upper_bound(), Some(d("2*N*H+1")));
    assert_eq!(d("N-K").upper_bound(), Some(d("N")));
    assert_eq!(d("M-2*B").upper_bound(), Some(d("M+6")));
    assert_eq!(d("floor(K/2)*M").upper_bound(), Some(d("floor(N*H/2)*M")));
    assert_eq!(d("min(I,M)").upper_bound(), Some(d("M")));
    assert_eq!(d("max(I,M)").upper_bound(), None);
    assert_eq!(d("I+1").upper_bound(), None);
}

#[test]
fn saturates() {
    let big = Dim::constant(i128::MAX);
    assert_eq!(&big + 1, big);
    assert_eq!(&big * &big, big);
    assert_eq!(-(&big) - 5, -&big);
    assert_eq!(Dim::constant(i128::MIN), -&big);
    let coef = d("N") * &big;
    assert_eq!(&coef + &coef, coef);
    assert_eq!(d("N").floor_div(&big).floor_div(&big).eval(&|_| Some(7)), Some(0));
    assert_eq!((-&big).floor_div(&Dim::constant(-1)), big);
    assert_eq!(d("N").pow(2).eval(&|_| Some(i128::MIN)), Some(i128::MAX));
}

#[test]
fn substitutes_and_walks() {
    let dim = d("floor((N+H)/4)+min(N,M)");
    let two = dim.substitute(&|s| (s.name() == "N").then(|| Dim::from(2)));
    assert_eq!(two, d("floor((H+2)/4)+min(2,M)"));
    assert_eq!(dim.substitute(&|_| None), dim);
    let mut seen = Vec::new();
    dim.for_each_symbol(&mut |s| seen.push(s.name().to_owned()));
    seen.sort();
    assert_eq!(seen, ["H", "M", "N", "N"]);
    assert!(dim.is_free() && !d("K").is_free());
    assert!(dim.contains_symbol(d("N").as_symbol().unwrap()) && !d("N").contains_symbol(d("H").as_symbol().unwrap()));
}

#[test]
fn names_that_need_quotes() {
    for name in ["batch size", "min", "", "a`b\\c", "é", "9x", "a-b", "x.y_1"] {
        let dim = free(name, 1) * 2 + 1;
        assert_eq!(Dim::parse(&dim.to_string(), &|n| Some(free(n, 1))), Ok(dim.clone()), "{dim}");
    }
    assert_eq!(free("x.y_1", 1).to_string(), "x.y_1");
    assert_eq!(free("a`b", 1).to_string(), "`a\\`b`");
    assert_eq!(format!("{:>4}", d("N")), "   N");
}

#[test]
fn reports_errors() {
    let fails = |text: &str, offset: usize, part: &str| {
        let error = Dim::parse(text, &names).unwrap_err();
        assert_eq!(error.offset, offset, "{text}: {error}");
        assert!(error.to_string().contains(part), "{text}: {error}");
    };
    fails("", 0, "the end");
    fails("N+", 2, "the end");
    fails("N+nope", 2, "\"nope\"");
    fails("N)", 1, "')'");
    fails("(N", 2, "\")\"");
    fails("N N", 2, "'N'");
    fails("170141183460469231731687303715884105728", 0, "too large");
    fails("N/0", 1, "zero");
    fails("mod(N, 0)", 7, "zero");
    fails("ceil(N/2+1)", 8, "single quotient");
    fails("min", 3, "\"(\"");
    fails("`a", 0, "backquote");
    fails("N^H", 2, "integer");
    fails("N^5000", 2, "exponent");
    fails("é", 0, "'é'");
    fails(&"(".repeat(100), 65, "nested");
    fails(&"1+".repeat(3000), 4096, "longer");
    assert_eq!(d(&("-".repeat(4000) + "N")), d("N"));
}

#[test]
fn repeated_operations_stay_small_and_fast() {
    let start = Instant::now();
    let (mut square, mut product, mut deep, mut low, mut long, mut steps) =
        (d("N+1"), d("N"), d("H"), d("Z"), d("N"), d("H"));
    for i in 0..10_000_i128 {
        square = &square * &square + 1;
        product *= &d("N");
        deep = (&deep + &d("N")).floor_div(&d("M"));
        low = low.min(&(free(&format!("s{i}"), 0) * 3 - 5));
        long += free(&format!("s{i}"), 0);
        steps = (&steps - 1).floor_div(&Dim::from(2)) + 1;
        for dim in [&square, &product, &deep, &low, &long, &steps] {
            assert!(dim.nodes() <= 2000 && dim.depth() <= 24 && dim.terms().len() <= 256);
        }
    }
    // Growth without bound would take hours; a loaded machine takes a minute.
    assert!(start.elapsed() < Duration::from_secs(600), "{:?}", start.elapsed());
}

#[test]
fn wide_products_are_fast() {
    let start = Instant::now();
    let wide: Dim = (0..200).map(|i| free(&format!("s{i}"), 1)).sum();
    for _ in 0..300 {
        let product = &wide * &wide;
        assert!(product.as_symbol().is_some_and(|s| s.kind() == SymbolKind::Opaque));
        let _ = wide.floor_div(&(&wide + 1)).min(&wide);
        let _ = wide.modulo(&d("N"));
    }
    let narrow: Dim = (0..60).map(|i| free(&format!("s{i}"), 1)).sum();
    for _ in 0..30 {
        assert!((&narrow * &narrow).as_symbol().is_some());
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[test]
fn opaque_names_are_stable() {
    let wide: Dim = (0..200).map(|i| free(&format!("s{i}"), 1)).sum();
    let product = &wide * &wide;
    assert_eq!(product, &wide * &wide);
    let name = product.to_string();
    assert!(name.starts_with("expr_") && name.len() == 21, "{name}");
    assert_eq!(product.range().0, Some(40_000));
}

#[test]
fn bounds_by_chains_of_symbols_stay_shallow() {
    let mut last = free("c", 1);
    for i in 0..10_000 {
        last = Dim::from(&Symbol::new(&format!("c{i}"), SymbolKind::Free, 1, Some(last)));
    }
    drop(last);
}

#[test]
fn tape_shares_expressions() {
    let tape = Tape::compile(&[d("floor(H/2)+1"), d("floor(H/2)*N"), d("floor(H/2)"), d("7")]);
    // H, 2, floor, 1st sum, N, 2nd sum, 7
    assert_eq!(tape.len(), 7);
    assert!(!tape.is_empty() && Tape::compile(&[]).is_empty());
    let values = tape.eval(&|s| (s.name() == "H").then_some(9));
    assert_eq!(values, [Some(5), None, Some(4), Some(7)]);
}

// Random expressions against direct evaluation.

#[derive(Clone, Debug)]
enum Tree {
    Int(i128),
    Sym(usize),
    Op(&'static str, Box<Tree>, Box<Tree>),
}

/// Name, kind, lower and upper bound of the values that tests bind.
const SYMBOLS: [(&str, SymbolKind, i128, i128); 6] = [
    ("H", SymbolKind::Free, 1, 40),
    ("N", SymbolKind::Free, 1, 9),
    ("Z", SymbolKind::Free, 0, 9),
    ("min", SymbolKind::Free, -4, 4),
    ("B", SymbolKind::Data, -3, 7),
    ("I", SymbolKind::Opaque, -9, 9),
];

fn symbol(i: usize) -> Symbol {
    let (name, kind, lo, hi) = SYMBOLS[i];
    match name {
        "B" => Symbol::new(name, kind, lo, Some(Dim::from(hi))),
        "I" => Symbol::new(name, kind, i128::MIN, None),
        _ => Symbol::new(name, kind, lo, None),
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![(-6_i128..13).prop_map(Tree::Int), (0..SYMBOLS.len()).prop_map(Tree::Sym)];
    leaf.prop_recursive(5, 24, 2, |inner| {
        let ops = prop::sample::select(vec!["+", "-", "*", "/", "/", "ceil", "mod", "min", "max"]);
        (ops, inner.clone(), inner).prop_map(|(op, a, b)| Tree::Op(op, a.into(), b.into()))
    })
}

fn build(tree: &Tree) -> Dim {
    match tree {
        Tree::Int(c) => Dim::from(*c),
        Tree::Sym(i) => Dim::from(&symbol(*i)),
        Tree::Op(op, a, b) => {
            let (a, b) = (build(a), build(b));
            match *op {
                "+" => a + b,
                "-" => a - b,
                "*" => a * b,
                "/" => a.floor_div(&b),
                "ceil" => a.ceil_div(&b),
                "mod" => a.modulo(&b),
                "min" => a.min(&b),
                _ => a.max(&b),
            }
        }
    }
}

fn reference(tree: &Tree, values: &[i128]) -> Option<i128> {
    Some(match tree {
        Tree::Int(c) => *c,
        Tree::Sym(i) => values[*i],
        Tree::Op(op, a, b) => {
            let (a, b) = (reference(a, values)?, reference(b, values)?);
            let floor = |a: i128, b: i128| {
                let q = a.checked_div(b)?;
                Some(if q * b != a && (a < 0) != (b < 0) { q - 1 } else { q })
            };
            match *op {
                "+" => a.checked_add(b)?,
                "-" => a.checked_sub(b)?,
                "*" => a.checked_mul(b)?,
                "/" => floor(a, b)?,
                "ceil" => -floor(-a, b)?,
                "mod" => a - b * floor(a, b)?,
                "min" => a.min(b),
                _ => a.max(b),
            }
        }
    })
}

fn bindings() -> impl Strategy<Value = Vec<i128>> {
    SYMBOLS.iter().map(|(_, _, lo, hi)| *lo..=*hi).collect::<Vec<_>>()
}

fn lookup(values: &[i128]) -> impl Fn(&Symbol) -> Option<i128> {
    move |s| SYMBOLS.iter().position(|x| x.0 == s.name()).map(|i| values[i])
}

fn has_result_symbols(dim: &Dim) -> bool {
    let mut found = false;
    dim.for_each_symbol(&mut |s| found |= s.name().starts_with("expr_"));
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn canonical_form_keeps_the_value(tree in tree(), all in prop::collection::vec(bindings(), 8)) {
        let dim = build(&tree);
        for values in &all {
            let Some(expected) = reference(&tree, values) else { continue };
            let value = dim.eval(&lookup(values));
            if !has_result_symbols(&dim) {
                prop_assert_eq!(value, Some(expected), "{} at {:?}", &dim, values);
            }
            let (lo, hi) = dim.range();
            prop_assert!(lo.is_none_or(|lo| lo <= expected) && hi.is_none_or(|hi| expected <= hi), "{} {:?}", &dim, values);
            for (bound, sign) in [(dim.upper_bound(), 1), (dim.lower_bound(), -1)] {
                let Some(bound) = bound else { continue };
                prop_assert!(bound.is_free());
                if let Some(b) = bound.eval(&lookup(values)) {
                    prop_assert!(b * sign >= expected * sign, "{} bounded by {} at {:?}", &dim, &bound, values);
                }
            }
        }
    }

    #[test]
    fn text_reads_back(tree in tree()) {
        let dim = build(&tree);
        let mut known = BTreeMap::new();
        dim.for_each_symbol(&mut |s| { known.insert(s.name().to_owned(), Dim::from(s)); });
        let text = dim.to_string();
        prop_assert!(!text.contains(' '));
        prop_assert_eq!(Dim::parse(&text, &|n| known.get(n).cloned()), Ok(dim));
    }

    #[test]
    fn comparison_is_never_wrong(a in tree(), b in tree(), all in prop::collection::vec(bindings(), 8)) {
        let (x, y) = (build(&a), build(&b));
        for values in &all {
            let (Some(va), Some(vb)) = (reference(&a, values), reference(&b, values)) else { continue };
            if let Some(order) = x.compare(&y) { prop_assert_eq!(order, va.cmp(&vb), "{} {} {:?}", &x, &y, values); }
            if let Some(ge) = x.is_ge(&y) { prop_assert_eq!(ge, va >= vb, "{} {} {:?}", &x, &y, values); }
            if let Some(eq) = x.is_eq(&y) { prop_assert_eq!(eq, va == vb, "{} {} {:?}", &x, &y, values); }
            let quotient = x.exact_div(&y).filter(|q| vb != 0 && !has_result_symbols(q));
            if let Some(q) = quotient.and_then(|q| q.eval(&lookup(values))) { prop_assert_eq!(q * vb, va); }
        }
    }

    #[test]
    fn tape_gives_what_eval_gives(trees in prop::collection::vec(tree(), 1..6), values in bindings(), unbound in 0..SYMBOLS.len()) {
        let dims: Vec<Dim> = trees.iter().map(build).collect();
        let tape = Tape::compile(&dims);
        let all = lookup(&values);
        let some = |s: &Symbol| all(s).filter(|_| s.name() != SYMBOLS[unbound].0);
        for f in [&all as &dyn Fn(&Symbol) -> Option<i128>, &some] {
            let expected: Vec<_> = dims.iter().map(|d| d.eval(f)).collect();
            prop_assert_eq!(tape.eval(f), expected);
        }
    }

    #[test]
    fn substitution_is_evaluation(tree in tree(), values in bindings()) {
        let dim = build(&tree);
        let bound = dim.substitute(&|s| lookup(&values)(s).map(Dim::from));
        if let (Some(expected), Some(value)) = (dim.eval(&lookup(&values)), bound.as_const()) {
            prop_assert_eq!(value, expected, "{}", dim);
        }
        prop_assert_eq!(dim.substitute(&|_| None), dim);
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in "[-+*/%^(),`\\\\ 0-9NHminaxflorced.]{0,60}") {
        let _ = Dim::parse(&text, &names);
    }
}
