//! The table of diagnostic codes. A code never changes its meaning; new ones are added at the end of their group.

use std::fmt;

/// How grave a diagnostic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Worth knowing.
    Note,
    /// Probably not what was meant; the figures stand.
    Warning,
    /// The model is broken or the figures cannot be given; exit status 1.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

macro_rules! codes {
    ($($variant:ident $number:literal $name:literal $level:ident $summary:literal;)*) => {
        /// A diagnostic code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $summary] $variant,)*
        }

        impl Code {
            /// Every code in the order of its number.
            pub const ALL: &[Code] = &[$(Code::$variant,)*];

            /// The number as text: `DL0204`.
            #[must_use]
            pub fn number(self) -> &'static str {
                match self { $(Self::$variant => concat!("DL", $number),)* }
            }

            /// The kebab-case name: `undefined-tensor`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The level where nothing else is configured.
            #[must_use]
            pub fn default_level(self) -> Level {
                match self { $(Self::$variant => Level::$level,)* }
            }

            /// One sentence on what the code says.
            #[must_use]
            pub fn summary(self) -> &'static str {
                match self { $(Self::$variant => $summary,)* }
            }

            /// The explain page in Markdown: what, why, example, fix.
            #[must_use]
            pub fn page(self) -> &'static str {
                match self { $(Self::$variant => include_str!(concat!("pages/", $name, ".md")),)* }
            }
        }
    };
}

codes! {
    InternalError "0001" "internal-error" Error "the program itself failed";
    LfsPointer "0101" "lfs-pointer" Error "the file is a Git LFS pointer, not the model";
    NotAModel "0102" "not-a-model" Error "the file is something else than a model that dlcost reads";
    TruncatedFile "0103" "truncated-file" Error "the file ends in the middle";
    EmptyFile "0104" "empty-file" Error "the file is empty";
    MalformedFile "0105" "malformed-file" Error "the bytes are not what the format allows";
    MissingExternalData "0106" "missing-external-data" Warning "a side file with weights is not there";
    ExternalDataEscapesFolder "0107" "external-data-escapes-folder" Error "external data lies outside the model's folder";
    ExternalDataInvalid "0108" "external-data-invalid" Error "offset or length of external data does not fit";
    WeightsStripped "0109" "weights-stripped" Note "the file holds no weight values";
    SyntaxError "0110" "syntax-error" Error "the text cannot be read";
    OtherEncoding "0111" "other-encoding" Error "the model is in a form of protobuf that is not read";
    NestedTooDeep "0112" "nested-too-deep" Error "graphs are nested deeper than the limit";
    NewerIrVersion "0113" "newer-ir-version" Warning "the file's format version is newer than known";
    PayloadSize "0114" "payload-size" Error "stored bytes and dims of a tensor disagree";
    TooManyNodes "0115" "too-many-nodes" Error "the graph passes the node budget";
    BrokenProfile "0116" "broken-profile" Error "the layer profile cannot be read";
    UnknownOperator "0201" "unknown-operator" Error "no operator of this name exists in its domain";
    UnknownDomain "0202" "unknown-domain" Warning "the operator's domain has no rules here";
    DuplicateName "0203" "duplicate-name" Error "two producers give a tensor one name";
    UndefinedTensor "0204" "undefined-tensor" Error "a tensor is read that nothing produces";
    CyclicGraph "0205" "cyclic-graph" Error "nodes wait for each other";
    UnsortedNodes "0206" "unsorted-nodes" Warning "a node stands before the one it reads from";
    MissingOpsetImport "0207" "missing-opset-import" Error "the model does not import the operator set it uses";
    ConflictingOpsetImports "0208" "conflicting-opset-imports" Error "one domain is imported in two versions";
    NewerOpset "0209" "newer-opset" Warning "the operator set is newer than known";
    InvalidAttribute "0210" "invalid-attribute" Error "an attribute has a value or type that is not allowed";
    WrongArity "0211" "wrong-arity" Error "a node has too few or too many inputs or outputs";
    DeprecatedOperator "0212" "deprecated-operator" Note "the operator was withdrawn by the operator set that is imported";
    RecursiveFunction "0213" "recursive-function" Error "a function calls itself";
    OperatorWithoutRule "0214" "operator-without-rule" Warning "the operator exists but has no rule here";
    NonstandardAttribute "0215" "nonstandard-attribute" Warning "an attribute is written in a form that runtimes refuse";
    UnknownLayer "0216" "unknown-layer" Warning "a Keras layer has no rule here";
    ShapeMismatch "0301" "shape-mismatch" Error "shapes do not fit together";
    DeclaredShapeWrong "0302" "declared-shape-wrong" Warning "the file declares another shape than the one computed";
    UnboundDim "0303" "unbound-dim" Warning "a free dim has no value, so numbers that need it are missing";
    TypeMismatch "0304" "type-mismatch" Error "an element type does not fit";
    NegativeDim "0306" "negative-dim" Warning "a declared dim is negative";
    TensorTooLarge "0307" "tensor-too-large" Error "a tensor has more elements than any machine can address";
    DataDependentShape "0308" "data-dependent-shape" Note "a shape depends on values that only a run knows";
    BatchRebound "0309" "batch-rebound" Warning "the batch of the file was replaced";
    BatchBakedIn "0310" "batch-baked-in" Error "the graph holds the batch as a number";
    UnknownShape "0311" "unknown-shape" Warning "a shape cannot be computed";
    RuntimesDiffer "0312" "runtimes-differ" Note "standard and runtimes round differently";
    ZeroDim "0313" "zero-dim" Note "a dim is zero";
    ConflictingBinding "0314" "conflicting-binding" Error "one symbol has two values";
    UnusedBinding "0315" "unused-binding" Warning "an option binds a name that the model does not have";
    DeclaredSymbolDiffers "0316" "declared-symbol-differs" Note "the file names a dim otherwise than computed";
    CostAtBound "0401" "cost-at-bound" Note "part of the cost rests on upper bounds";
    NotCounted "0402" "not-counted" Warning "some nodes have no cost, so totals are lower bounds";
    OutOfMemory "0501" "out-of-memory" Error "the device has less memory than the model needs";
    BatchNormFolded "0502" "batch-norm-folded" Warning "a model to be trained has lost its batch normalisation";
    EmbeddingDominates "0503" "embedding-dominates" Note "most parameters are embedding tables with dense gradients";
    QuadraticAttention "0504" "quadratic-attention" Note "attention over long sequences takes much of time or memory";
    ReplicasDoNotPay "0601" "replicas-do-not-pay" Warning "several replicas do little more than one";
    MirroredLossDominates "0602" "mirrored-loss-dominates" Note "the loss over mirrored replicas takes much of the step";
    LaunchBound "0701" "launch-bound" Warning "most of the time goes into launching kernels";
    SmallBatch "0702" "small-batch" Note "a larger batch would use the device far better";
    Fp32OnTensorCores "0703" "fp32-on-tensor-cores" Warning "most of the time is fp32 work that tensor cores could do";
    MisalignedChannels "0704" "misaligned-channels" Warning "sizes of weights do not fit tensor cores";
    SlowHalfPrecision "0705" "slow-half-precision" Warning "16 bits were chosen on a card that is not faster with them";
    OptimizerDominates "0706" "optimizer-dominates" Note "the update of the weights takes much of the step";
    PrecisionNotSupported "0707" "precision-not-supported" Warning "the device has no arithmetic of the precision, or no framework trains in it";
    OutsideTrainingDomain "0708" "outside-training-domain" Note "kernels are unlike those that the predictors learned from";
}

impl Code {
    /// Finds a code by number (`DL0204`, case-insensitive) or name.
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.number().eq_ignore_ascii_case(text) || code.name() == text)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number(), self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn numbers_and_names_are_unique_and_sorted() {
        for pair in Code::ALL.windows(2) {
            assert!(pair[0].number() < pair[1].number(), "{} {}", pair[0], pair[1]);
        }
        let mut names: Vec<_> = Code::ALL.iter().map(|code| code.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
    }

    #[test]
    fn codes_are_found_by_number_and_name() {
        assert_eq!(Code::find("dl0204"), Some(Code::UndefinedTensor));
        assert_eq!(Code::find("undefined-tensor"), Some(Code::UndefinedTensor));
        assert_eq!(Code::find("nothing"), None);
    }
}
