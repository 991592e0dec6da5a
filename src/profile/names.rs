//! What the name of a line says it ran: nodes, several that are fused among them, or work that the runtime added.

/// What a line is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject<'n> {
    /// Nodes.
    Nodes(Vec<Part<'n>>),
    /// Work that is in no node of the model.
    Added(Kind),
}

/// A piece of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'n> {
    /// A node.
    Node(&'n str),
    /// All nodes from one to another, in running order; each end is a name or several.
    Range(&'n str, &'n str),
}

/// Why a line has no nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Another layout or precision for a layer that wants it so.
    Reformat,
    /// A copy between tensors, or between host and device.
    Copy,
    /// Made by a compiler that keeps no names.
    Opaque,
    /// A loop or branch whose body has lines of its own.
    ControlFlow,
    /// No node of the model has such a name.
    Unmatched,
}

impl Kind {
    /// The word of the JSON report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reformat => "reformat",
            Self::Copy => "copy",
            Self::Opaque => "opaque",
            Self::ControlFlow => "control_flow",
            Self::Unmatched => "unmatched",
        }
    }
}

const RANGE: &str = "{ForeignNode[";
const RANGE_END: &str = "]}";

/// Operators that runtimes add.
const ADDED_OPERATORS: [(&str, Kind); 4] = [
    ("MemcpyFromHost", Kind::Copy),
    ("MemcpyToHost", Kind::Copy),
    ("ReorderInput", Kind::Reformat),
    ("ReorderOutput", Kind::Reformat),
];

/// Reads the name of a line. A name that the model knows is a node, whatever it looks like.
pub(super) fn subject<'n>(name: &'n str, op: Option<&str>, is_node: &dyn Fn(&str) -> bool) -> Subject<'n> {
    if is_node(name) {
        return Subject::Nodes(vec![Part::Node(name)]);
    }
    if let Some((_, kind)) = ADDED_OPERATORS.iter().find(|(added, _)| op == Some(*added)) {
        return Subject::Added(*kind);
    }
    if name.starts_with("Reformatting CopyNode") {
        return Subject::Added(Kind::Reformat);
    }
    if name.ends_with(" copy") || name.starts_with("copied_") || is_transfer(name) {
        return Subject::Added(Kind::Copy);
    }
    if name.starts_with("__my") {
        return Subject::Added(Kind::Opaque);
    }
    Subject::Nodes(parts(name, is_node))
}

/// `[HostToDeviceCopy 0]`.
fn is_transfer(name: &str) -> bool {
    let inner = name.rsplit_once('[').and_then(|(_, last)| last.strip_suffix(']')).unwrap_or_default();
    inner.split(' ').next().is_some_and(|word| word.ends_with("Copy"))
}

fn parts<'n>(name: &'n str, is_node: &dyn Fn(&str) -> bool) -> Vec<Part<'n>> {
    let mut parts = Vec::new();
    let mut rest = name;
    // Ends of ranges hold the signs that join nodes, so ranges are cut out first.
    while let Some((before, behind)) = rest.split_once(RANGE) {
        parts.extend(nodes(before, is_node).map(Part::Node));
        let (range, behind) = behind.split_once(RANGE_END).unwrap_or((behind, ""));
        match range.split_once("...") {
            Some((from, to)) => parts.push(Part::Range(from, to)),
            None => parts.extend(nodes(range, is_node).map(Part::Node)),
        }
        rest = behind;
    }
    parts.extend(nodes(rest, is_node).map(Part::Node));
    parts
}

/// The names in `conv + bn`, `a || b`, `PWN(PWN(sigmoid), mul)` and `fused conv`.
pub(super) fn nodes<'n>(text: &'n str, is_node: &dyn Fn(&str) -> bool) -> impl Iterator<Item = &'n str> {
    let pieces = text.split(" + ").flat_map(|piece| piece.split(" || ")).flat_map(|piece| piece.split(", "));
    pieces.map(|piece| bare(piece.trim(), is_node)).filter(|piece| !piece.is_empty())
}

/// What a runtime wraps around a name at most, one in the other; each is a walk over the name.
const MOST_WRAPS: usize = 64;

/// A name without what a runtime wraps around it.
fn bare<'n>(piece: &'n str, is_node: &dyn Fn(&str) -> bool) -> &'n str {
    let mut piece = piece;
    for _ in 0..MOST_WRAPS {
        if is_node(piece) {
            return piece;
        }
        let opened = ["PWN(", "fused ", "+ ", "|| "].iter().find_map(|wrap| piece.strip_prefix(wrap));
        let closes = || piece.matches(')').count() > piece.matches('(').count();
        match opened.or_else(|| piece.strip_suffix(')').filter(|_| closes())) {
            Some(shorter) => piece = shorter,
            None => return piece,
        }
    }
    piece
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Subject<'_> {
        subject(name, None, &|name| ["conv1", "bn1", "relu", "m(x)", "PWN(odd)", "a copy"].contains(&name))
    }

    fn nodes_of(name: &str) -> Vec<&str> {
        let Subject::Nodes(parts) = of(name) else { panic!("{name}") };
        parts.iter().map(|part| if let Part::Node(name) = part { name } else { panic!("{part:?}") }).copied().collect()
    }

    #[test]
    fn fused_names_are_several_nodes() {
        assert_eq!(nodes_of("conv1 + bn1 + relu"), ["conv1", "bn1", "relu"]);
        assert_eq!(nodes_of("conv1 || bn1"), ["conv1", "bn1"]);
        assert_eq!(nodes_of("PWN(PWN(relu), m(x))"), ["relu", "m(x)"]);
        assert_eq!(nodes_of("conv1 + PWN(relu)"), ["conv1", "relu"]);
        assert_eq!(nodes_of("fused conv1"), ["conv1"]);
        assert_eq!(nodes_of("PWN(odd)"), ["PWN(odd)"]);
        assert_eq!(nodes_of("(Unnamed Layer* 3) [Shuffle] + conv1"), ["(Unnamed Layer* 3) [Shuffle]", "conv1"]);
        assert_eq!(nodes_of(&")".repeat(9)), [""; 0]);
    }

    #[test]
    fn what_is_wrapped_without_end_takes_no_longer_than_it_is_long() {
        let name = format!("{}relu{}", "PWN(".repeat(1 << 18), ")".repeat(1 << 18));
        assert_eq!(nodes_of(&name).len(), 1);
    }

    #[test]
    fn a_foreign_node_is_a_range() {
        assert_eq!(
            of("{ForeignNode[w + (Unnamed Layer* 64) [Shuffle].../enc/Add]}"),
            Subject::Nodes(vec![Part::Range("w + (Unnamed Layer* 64) [Shuffle]", "/enc/Add")])
        );
        assert_eq!(
            of("conv1 + {ForeignNode[bn1...relu]}"),
            Subject::Nodes(vec![Part::Node("conv1"), Part::Range("bn1", "relu")])
        );
        assert_eq!(nodes_of("{ForeignNode[relu]}"), ["relu"]);
    }

    #[test]
    fn what_the_runtime_added_is_no_node() {
        for (name, kind) in [
            ("Reformatting CopyNode for Input Tensor 0 to conv1 + bn1", Kind::Reformat),
            ("[HostToDeviceCopy 0]", Kind::Copy),
            ("/Shape [DeviceToShapeHostCopy]", Kind::Copy),
            ("input.4 copy", Kind::Copy),
            ("__myl_FcAdd_myl0_3", Kind::Opaque),
            ("__mye1234", Kind::Opaque),
        ] {
            assert_eq!(of(name), Subject::Added(kind), "{name}");
        }
        assert_eq!(nodes_of("a copy"), ["a copy"]);
        let copy = subject("Memcpy_token_3", Some("MemcpyFromHost"), &|_| false);
        assert_eq!(copy, Subject::Added(Kind::Copy));
    }
}
