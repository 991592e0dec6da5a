//! Model, graphs, functions and nodes.

use std::collections::HashSet;

use super::MAX_GRAPH_DEPTH;
use super::lexer::{Lexer, unescape, unescape_pragma};
use crate::frontend::onnx::model::{FunctionDef, GraphDef, Model, Name, NodeDef, OpsetImport};
use crate::ir::place::Span;

/// After this many failures the rest is not read: the text is then hardly meant to be a model, and each recovery may
/// look at all of the rest.
const MAX_ERRORS: usize = 100;

/// Something that the text syntax does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Where it stands, in bytes.
    pub span: Span,
    /// What is wrong.
    pub message: String,
    /// What to write instead, where that is known.
    pub help: Option<String>,
}

/// Reads a model. After an error the parser goes on at the next statement, so the model holds all that could be read.
#[must_use]
pub fn parse(text: &str) -> (Model, Vec<SyntaxError>) {
    let mut parser =
        Parser { lex: Lexer::new(text), errors: Vec::new(), names: HashSet::new(), last_error: 0, failures: 0 };
    let model = parser.model();
    (model, parser.errors)
}

/// The error is already recorded.
pub(super) struct Failed;

pub(super) type Parsed<T> = Result<T, Failed>;

pub(super) struct Parser<'a> {
    pub(super) lex: Lexer<'a>,
    errors: Vec<SyntaxError>,
    names: HashSet<Name>,
    /// Offset of the last error; recovery goes on no earlier than its line.
    pub(super) last_error: usize,
    failures: usize,
}

/// What the header of a model or a function may say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HeaderOf {
    Model,
    Function,
}

#[derive(Default)]
struct Header {
    model: Model,
    overload: String,
}

impl<'a> Parser<'a> {
    pub(super) fn intern(&mut self, name: &str) -> Name {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let name = Name::from(name);
        self.names.insert(name.clone());
        name
    }

    pub(super) fn span_from(&self, start: usize) -> Span {
        Span::new(start as u64, self.lex.pos() as u64)
    }

    /// Offset of the next token.
    pub(super) fn start(&mut self) -> usize {
        self.lex.skip_trivia();
        self.lex.pos()
    }

    pub(super) fn error(&mut self, start: usize, end: usize, message: String, help: Option<String>) -> Failed {
        self.last_error = start;
        self.failures += 1;
        let span = Span::new(start as u64, end as u64);
        // Recovery may read a line twice.
        if !self.gave_up() && self.errors.last().is_none_or(|last| last.span.start != span.start) {
            self.errors.push(SyntaxError { span, message, help });
        }
        Failed
    }

    /// Whether there were so many failures that the rest is not read.
    pub(super) fn gave_up(&self) -> bool {
        self.failures > MAX_ERRORS
    }

    /// One past the character at an offset.
    fn char_end(&self, start: usize) -> usize {
        start + self.lex.text().get(start..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8)
    }

    /// Records that something else stands here than `what`.
    pub(super) fn expected(&mut self, what: &str) -> Failed {
        let start = self.start();
        let mut ahead = self.lex.clone();
        let found = match (ahead.bare_name(), ahead.rest().chars().next()) {
            (Some(word), _) => format!("`{}`", word.chars().take(40).collect::<String>()),
            (None, Some('"')) => "a string".to_owned(),
            (None, Some(c)) => {
                ahead.set_pos(ahead.pos() + c.len_utf8());
                format!("`{c}`")
            }
            (None, None) => "end of file".to_owned(),
        };
        let end = ahead.pos();
        self.error(start, end, format!("expected {what}, found {found}"), None)
    }

    pub(super) fn expect(&mut self, token: &str) -> Parsed<()> {
        if self.lex.eat_str(token) { Ok(()) } else { Err(self.expected(&format!("`{token}`"))) }
    }

    /// A string in quotes, if one stands here.
    pub(super) fn quoted(&mut self) -> Parsed<Option<String>> {
        let start = self.start();
        match self.lex.quoted() {
            None => Ok(None),
            Some(Ok(text)) => Ok(Some(unescape(text))),
            Some(Err(())) => Err(self.error(start, start + 1, "this string does not end".to_owned(), None)),
        }
    }

    pub(super) fn string(&mut self) -> Parsed<String> {
        match self.quoted()? {
            Some(text) => Ok(text),
            None => Err(self.expected("a string in double quotes")),
        }
    }

    /// A name, bare or quoted, if one stands here.
    pub(super) fn optional_name(&mut self) -> Parsed<Option<Name>> {
        if let Some(name) = self.quoted()? {
            return Ok(Some(self.intern(&name)));
        }
        Ok(self.lex.bare_name().map(|name| self.intern(name)))
    }

    pub(super) fn name(&mut self, what: &str) -> Parsed<Name> {
        match self.optional_name()? {
            Some(name) => Ok(name),
            None => Err(self.expected(what)),
        }
    }

    pub(super) fn integer(&mut self) -> Parsed<i64> {
        let start = self.start();
        match self.lex.number() {
            Some(number) if !number.real => self.integer_of(start, number.text),
            _ => {
                self.lex.set_pos(start);
                Err(self.expected("an integer"))
            }
        }
    }

    pub(super) fn integer_of(&mut self, start: usize, text: &str) -> Parsed<i64> {
        text.parse().map_err(|_| {
            let end = self.lex.pos();
            self.error(start, end, format!("`{text}` does not fit in 64 bits"), None)
        })
    }

    fn model(&mut self) -> Model {
        let mut header = Header::default();
        if self.lex.eat('<') {
            // A failure in the header is recorded; the graph is looked for all the same.
            let _ = self.header(HeaderOf::Model, &mut header);
        }
        let mut model = header.model;
        model.graph = self.graph_with_recovery(0);
        while self.lex.peek().is_some() {
            let start = self.lex.pos();
            match self.function() {
                Ok(function) => model.functions.push(function),
                Err(Failed) => self.skip_to_function(start),
            }
        }
        model
    }

    fn header(&mut self, of: HeaderOf, header: &mut Header) -> Parsed<()> {
        self.list('>', |parser| parser.header_entry(of, header))
    }

    fn header_entry(&mut self, of: HeaderOf, header: &mut Header) -> Parsed<()> {
        let start = self.start();
        let Some(key) = self.lex.identifier() else {
            return Err(self.expected("a key such as `ir_version` or `opset_import`"));
        };
        let end = self.lex.pos();
        self.expect(":")?;
        let model = &mut header.model;
        match (key, of) {
            ("opset_import", _) => model.opset_imports.extend(self.opset_imports()?),
            ("domain", _) => model.domain = self.string()?,
            ("doc_string", _) => model.doc_string = self.string()?,
            ("overload", HeaderOf::Function) => header.overload = self.string()?,
            ("ir_version", HeaderOf::Model) => model.ir_version = Some(self.integer()?),
            ("model_version", HeaderOf::Model) => model.model_version = Some(self.integer()?),
            ("producer_name", HeaderOf::Model) => model.producer_name = self.string()?,
            ("producer_version", HeaderOf::Model) => model.producer_version = self.string()?,
            ("metadata_props", HeaderOf::Model) => {
                let pairs = self.pairs()?;
                header.model.metadata.extend(pairs);
            }
            _ => {
                let known = match of {
                    HeaderOf::Model => {
                        "ir_version, opset_import, producer_name, producer_version, domain, model_version, \
                         doc_string, metadata_props"
                    }
                    HeaderOf::Function => "domain, overload, opset_import, doc_string",
                };
                return Err(self.error(
                    start,
                    end,
                    format!("unknown key `{key}`"),
                    Some(format!("the keys here are {known}")),
                ));
            }
        }
        Ok(())
    }

    fn opset_imports(&mut self) -> Parsed<Vec<OpsetImport>> {
        let mut imports = Vec::new();
        self.expect("[")?;
        self.list(']', |parser| {
            let domain = parser.string()?;
            parser.expect(":")?;
            let version = parser.integer()?;
            imports.push(OpsetImport { domain: parser.intern(&domain), version });
            Ok(())
        })?;
        Ok(imports)
    }

    /// `["key": "value", ...]`.
    pub(super) fn pairs(&mut self) -> Parsed<Vec<(Name, Name)>> {
        let mut pairs = Vec::new();
        self.expect("[")?;
        self.list(']', |parser| {
            let key = parser.string()?;
            parser.expect(":")?;
            let value = parser.string()?;
            pairs.push((parser.intern(&key), parser.intern(&value)));
            Ok(())
        })?;
        Ok(pairs)
    }

    fn graph_with_recovery(&mut self, depth: usize) -> GraphDef {
        let start = self.start();
        let mut graph = GraphDef::default();
        let signature = self.graph_signature(&mut graph);
        // The body is read even when the signature is broken: most diagnostics are about nodes.
        if (signature.is_ok() || self.skip_to_body()) && self.lex.eat('{') {
            self.body(&mut graph.nodes, &mut graph.metadata, depth);
        }
        graph.span = self.span_from(start);
        graph
    }

    /// A graph that is the value of an attribute; `depth` counts the graphs around it, the main graph among them.
    pub(super) fn graph(&mut self, depth: usize) -> Parsed<GraphDef> {
        let start = self.start();
        if depth > MAX_GRAPH_DEPTH {
            let end = self.char_end(start);
            return Err(self.error(
                start,
                end,
                format!("subgraphs are nested deeper than {MAX_GRAPH_DEPTH} graphs"),
                None,
            ));
        }
        let mut graph = GraphDef::default();
        self.graph_signature(&mut graph)?;
        self.expect("{")?;
        self.body(&mut graph.nodes, &mut graph.metadata, depth);
        graph.span = self.span_from(start);
        Ok(graph)
    }

    fn graph_signature(&mut self, graph: &mut GraphDef) -> Parsed<()> {
        graph.name = self.name("the name of a graph")?;
        self.expect("(")?;
        let GraphDef { inputs, outputs, value_info, initializers, sparse_initializers, .. } = graph;
        self.list(')', |parser| {
            let item = parser.value_info()?;
            if let Some(tensor) = parser.initializer(&item)? {
                initializers.push(tensor);
            }
            inputs.push(item);
            Ok(())
        })?;
        self.expect("=>")?;
        self.expect("(")?;
        self.list(')', |parser| {
            outputs.push(parser.value_info()?);
            Ok(())
        })?;
        if self.lex.eat('<') {
            self.list('>', |parser| {
                let item = parser.value_info()?;
                if let Some(tensor) = parser.sparse_initializer(&item)? {
                    sparse_initializers.push(tensor);
                } else if let Some(tensor) = parser.initializer(&item)? {
                    initializers.push(tensor);
                } else {
                    value_info.push(item);
                }
                Ok(())
            })?;
        }
        if self.lex.peek() == Some('{') { Ok(()) } else { Err(self.expected("`{`")) }
    }

    /// Nodes up to and with `}`.
    fn body(&mut self, nodes: &mut Vec<NodeDef>, metadata: &mut Vec<(Name, Name)>, depth: usize) {
        let open = self.lex.pos().saturating_sub(1);
        self.lex.take_pragmas();
        loop {
            let start = self.start();
            let mut of_node = Vec::new();
            for pragma in self.lex.take_pragmas() {
                if let Some(text) = pragma.strip_prefix("node ") {
                    of_node = self.pragma_pairs(text);
                } else if let Some(text) = pragma.strip_prefix("graph ") {
                    *metadata = self.pragma_pairs(text);
                }
            }
            if self.lex.eat('}') {
                return;
            }
            if self.lex.rest().is_empty() {
                self.error(open, open + 1, "this `{` is not closed".to_owned(), None);
                return;
            }
            match self.node(depth) {
                Ok(mut node) => {
                    node.metadata = of_node;
                    nodes.push(node);
                }
                Err(Failed) => self.skip_to_node(start),
            }
        }
    }

    /// Pairs of a pragma. It is a comment to others, so text that does not parse is left alone.
    fn pragma_pairs(&mut self, text: &str) -> Vec<(Name, Name)> {
        let mut lex = Lexer::new(text);
        let mut pairs = Vec::new();
        let mut open = lex.eat('[');
        while open {
            let Some(Ok(key)) = lex.quoted() else { break };
            if !lex.eat(':') {
                break;
            }
            let Some(Ok(value)) = lex.quoted() else { break };
            pairs.push((self.intern(&unescape_pragma(key)), self.intern(&unescape_pragma(value))));
            open = lex.eat(',');
        }
        pairs
    }

    fn node(&mut self, depth: usize) -> Parsed<NodeDef> {
        let start = self.start();
        let mut node = NodeDef::default();
        if self.lex.eat('[') {
            node.name = self.optional_name()?.unwrap_or_default();
            self.expect("]")?;
        }
        node.outputs = self.names()?;
        let equals = self.start();
        if self.lex.eat_str("=>") || !self.lex.eat('=') {
            self.lex.set_pos(equals);
            return Err(self.expected("`,` or `=`"));
        }
        (node.domain, node.op_type) = self.operator()?;
        if self.lex.eat(':') {
            node.overload = self.name("an overload")?;
        }
        if self.lex.eat('<') {
            node.attributes = self.attributes(depth)?;
        }
        self.expect("(")?;
        node.inputs = self.names()?;
        if !self.lex.eat(')') {
            return Err(self.expected("`,` or `)`"));
        }
        node.span = self.span_from(start);
        if self.lex.eat('<') {
            node.attributes.extend(self.attributes(depth)?);
            node.span = self.span_from(start);
        }
        Ok(node)
    }

    /// Names between commas. A comma with nothing before it leaves a name out; one at the end is passed over.
    fn names(&mut self) -> Parsed<Vec<Name>> {
        let mut names = Vec::new();
        loop {
            let name = self.optional_name()?;
            let more = self.lex.eat(',');
            if name.is_some() || more {
                names.push(name.unwrap_or_default());
            }
            if !more {
                return Ok(names);
            }
        }
    }

    /// `domain.Operator`.
    fn operator(&mut self) -> Parsed<(Name, Name)> {
        if let Some(first) = self.quoted()? {
            let first = self.intern(&first);
            if !self.lex.eat('.') {
                return Ok((Name::default(), first));
            }
            return Ok((first, self.name("an operator")?));
        }
        let mut path = String::new();
        while let Some(part) = self.lex.operator_part() {
            path.push_str(part);
            if !part.ends_with('.') && self.lex.peek() != Some('.') {
                break;
            }
        }
        let (domain, operator) = path.rsplit_once('.').unwrap_or(("", &path));
        if operator.is_empty()
            && path.ends_with('.')
            && let Some(quoted) = self.quoted()?
        {
            return Ok((self.intern(domain), self.intern(&quoted)));
        }
        if operator.is_empty() {
            return Err(self.expected("an operator"));
        }
        Ok((self.intern(domain), self.intern(operator)))
    }

    fn function(&mut self) -> Parsed<FunctionDef> {
        let start = self.start();
        let mut header = Header::default();
        if self.lex.eat('<') {
            self.header(HeaderOf::Function, &mut header)?;
        }
        let mut function = FunctionDef {
            name: self.name("the name of a function")?,
            domain: self.intern(&header.model.domain),
            overload: self.intern(&header.overload),
            opset_imports: header.model.opset_imports,
            ..FunctionDef::default()
        };
        if self.lex.eat('<') {
            let FunctionDef { attributes, attribute_defaults, .. } = &mut function;
            self.list('>', |parser| parser.formal_attribute(attributes, attribute_defaults))?;
        }
        self.expect("(")?;
        let FunctionDef { inputs, outputs, value_info, .. } = &mut function;
        self.formals(inputs, value_info)?;
        self.expect("=>")?;
        self.expect("(")?;
        self.formals(outputs, value_info)?;
        if self.lex.eat('<') {
            self.list('>', |parser| {
                value_info.push(parser.value_info()?);
                Ok(())
            })?;
        }
        self.expect("{")?;
        self.body(&mut function.nodes, &mut Vec::new(), 0);
        function.span = self.span_from(start);
        Ok(function)
    }
}
