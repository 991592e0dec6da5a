//! A report with a bit of everything, for tests.

use std::collections::BTreeMap;

use crate::diagnostics::{Code, Level};
use crate::report::{
    Assumption, Bounds, ByteInterval, Coverage, Excerpt, Extent, Finding, Graph, Interval, Layer, LayerTime, Location,
    MemoryBytes, Model, Parameters, Passes, Port, Producer, Program, Replicas, Report, SCHEMA, Summary, Target,
    TensorType, Text, Throughput, TimeMs, Totals,
};

/// Two models, of which one could not be read.
pub(crate) fn report() -> Report {
    Report {
        schema: SCHEMA.to_owned(),
        dlcost: Program { version: "0.1.0".to_owned(), predictors: None },
        models: vec![good(), broken()],
        summary: Summary { files: 2, errors: 1, warnings: 1, notes: 1 },
    }
}

pub(crate) fn layer(key: &str, macs: Option<i128>, bytes: Option<i128>) -> Layer {
    Layer {
        key: key.into(),
        scope: Text::default(),
        name: key.into(),
        op: "Conv".into(),
        class: None,
        place: Location { file: "m.onnx".into(), node: Some(key.into()), ..Location::default() },
        output_shape: Some([32, 64, 56, 56].map(Extent::Number).to_vec()),
        parameters: 4096,
        macs,
        flops: Passes { forward: macs.map(|macs| macs * 2), backward: macs.map(|macs| macs * 4) },
        bytes,
        repeats: Some(1),
        at_bound: false,
        time_ms: None,
        share: None,
        saved_bytes: None,
        bound: None,
        kernels: None,
        model: None,
        in_domain: None,
        features: None,
    }
}

fn good() -> Model {
    let long = format!("/backbone/{}/conv", "stage/".repeat(30));
    let symbolic = vec![Extent::Symbolic("batch".to_owned()), Extent::Number(3), Extent::Symbolic("2*side".to_owned())];
    Model {
        path: "m.onnx".to_owned(),
        format: Some("onnx".to_owned()),
        name: "net".to_owned(),
        producer: Producer {
            name: "pytorch".to_owned(),
            version: "2.9".to_owned(),
            ir_version: Some(8),
            opsets: BTreeMap::from([("ai.onnx".to_owned(), 17)]),
        },
        target: target(),
        assumptions: vec![
            Assumption { key: "mode".to_owned(), value: "train".to_owned(), why: "nothing said".to_owned() },
            Assumption { key: "dim batch".to_owned(), value: "32".to_owned(), why: "training".to_owned() },
        ],
        graph: Some(Graph {
            nodes: 122,
            layers: 121,
            parameters: Parameters {
                total: 25_610_152,
                trainable: 25_557_032,
                non_trainable: 53_120,
                constants: 4,
                bytes: 102_442_450,
                constant_bytes: 16,
            },
            macs: Some(9_007_199_254_740_993 * 32),
            macs_formula: Some("9007199254740993*batch".to_owned()),
            flops: Passes { forward: Some(18_014_398_509_481_986 * 32), backward: None },
            bytes: Some(i128::from(u64::MAX) * 4),
            symbols: vec!["batch".to_owned(), "side".to_owned()],
            coverage: Coverage {
                layers_not_counted: 1,
                bytes_not_counted: Some(4_096),
                layers_at_bound: 0,
                macs_at_bound: Some(0),
                bytes_at_bound: Some(0),
            },
            loss: None,
        }),
        inputs: vec![Port { name: "x".to_owned(), dtype: Some("float".to_owned()), shape: Some(symbolic.clone()) }],
        outputs: vec![Port { name: "y".to_owned(), dtype: None, shape: None }],
        time_ms: Some(time()),
        bounds: Some(Bounds { compute: 0.25, memory: 0.7, launch: 0.05 }),
        throughput: Some(Throughput { samples_per_s: Some(2_170.0), tokens_per_s: None }),
        memory_bytes: Some(memory()),
        replicas: Some(Replicas {
            speedup: 6.9,
            efficiency: 0.86,
            all_reduce_ms: 12.0,
            mirrored_loss_ms: 3.1,
            step_ms_exchanging_always: None,
            bound: "interconnect".to_owned(),
            devices: Vec::new(),
        }),
        totals: Some(Totals {
            steps: 450_000,
            hours: 14.75,
            gpu_hours: 118.0,
            usd: Some(361.1),
            usd_per_gpu_hour: Some(3.06),
            price_source: Some("--price".to_owned()),
            energy_kwh: Some(28.3),
        }),
        layers: vec![
            layer("a", Some(1000), Some(1 << 20)),
            Layer {
                at_bound: true,
                time_ms: Some(LayerTime { forward: 0.42, backward: 0.9, p10: 0.8, p50: 1.32, p90: 2.2 }),
                share: Some(0.011),
                bound: Some("memory"),
                kernels: Some(3),
                model: Some("roofline".into()),
                ..layer(&long, Some(4_110_417_920), Some(1_234_567))
            },
            Layer {
                op: "com.example.Strange".into(), parameters: 0, output_shape: None, ..layer("層/é", None, None)
            },
        ],
        diagnostics: vec![shape_warning()],
        tensors: Some(BTreeMap::from([(
            "x".to_owned(),
            TensorType { dtype: Some("float".to_owned()), shape: Some(symbolic), upper_bound: None },
        )])),
        ..Model::default()
    }
}

fn target() -> Target {
    Target {
        gpu: Some("v100-sxm2-16gb".to_owned()),
        gpu_name: Some("Tesla V100-SXM2-16GB".to_owned()),
        mode: "train".to_owned(),
        batch: Some(32),
        global_batch: Some(256),
        accumulate: Some(1),
        precision: Some("fp32".to_owned()),
        optimizer: Some("sgd".to_owned()),
        runtime: Some("tensorflow@2.15".to_owned()),
        replicas: Some(8),
        hosts: Some(1),
        strategy: Some("mirrored".to_owned()),
        zero: Some(0),
        interconnect: Some("nvlink2".to_owned()),
        dims: BTreeMap::from([("batch".to_owned(), Some(32)), ("side".to_owned(), None)]),
    }
}

fn time() -> TimeMs {
    TimeMs {
        step: Interval { p10: 107.0, p50: 118.0, p90: 133.0 },
        forward: 31.0,
        backward: 68.0,
        optimizer: 4.0,
        overhead: 7.0,
        mirrored_loss: 3.1,
        all_reduce_exposed: 4.9,
        input_wait: 0.0,
    }
}

fn memory() -> MemoryBytes {
    let mib = |mib: u64| mib << 20;
    MemoryBytes {
        peak: ByteInterval { p10: mib(5_400), p50: mib(6_180), p90: mib(7_000) },
        peak_allocated: mib(4_396),
        peak_reserved: mib(5_566),
        parameters: mib(98),
        gradients: mib(98),
        optimizer: 0,
        saved_activations: mib(4_200),
        transient: 0,
        workspace: mib(1_170),
        communication: 0,
        kv_cache: 0,
        framework: mib(614),
        capacity: mib(16_160),
        fits: Some(true),
        largest_batch: Some(88),
    }
}

fn shape_warning() -> Finding {
    let code = Code::DeclaredShapeWrong;
    Finding {
        code: code.number().to_owned(),
        name: code.name().to_owned(),
        level: Level::Warning,
        message: "y is declared 2×3 and computed 2×4".to_owned(),
        places: vec![
            Location {
                file: "m.onnx".into(),
                graph: Some("main".into()),
                node: Some("relu".into()),
                tensor: Some("y".into()),
                byte_range: Some([17, 42]),
                ..Location::default()
            },
            Location { file: "m.onnx".into(), line: Some(3), column: Some(1), ..Location::default() },
        ],
        help: Some("remove the declaration".to_owned()),
        notes: vec!["the computed shape is used".to_owned()],
        unlisted: 0,
        excerpt: Some(Excerpt {
            first_line: 6,
            text: "a = Abs (x)\ny = Relu (a)\n".to_owned(),
            range: 12..13,
            label: "2×4".to_owned(),
        }),
    }
}

fn broken() -> Model {
    let code = Code::SyntaxError;
    let finding = Finding {
        code: code.number().to_owned(),
        name: code.name().to_owned(),
        level: Level::Error,
        message: "expected a name, found \u{1b}[31m".to_owned(),
        places: vec![Location { file: "bad.onnxtxt".into(), line: Some(7), column: Some(3), ..Location::default() }],
        help: None,
        notes: Vec::new(),
        unlisted: 0,
        excerpt: None,
    };
    Model {
        path: "bad.onnxtxt".to_owned(),
        target: Target { mode: "train".to_owned(), ..Target::default() },
        diagnostics: vec![finding],
        ..Model::default()
    }
}
