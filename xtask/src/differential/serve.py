# Answers for `cargo xtask differential`: reads models from standard input, each behind its length in four bytes, and
# writes one line of JSON for each: what onnxruntime gives, or why it does not.
import json
import resource
import struct
import sys

import numpy
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as state

SMALL = 64
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
onnxruntime.set_default_logger_severity(4)
options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
options.intra_op_num_threads = 1
options.inter_op_num_threads = 1
options.log_severity_level = 4
NUMPY = {
    "float": numpy.float32, "double": numpy.float64, "float16": numpy.float16, "int64": numpy.int64,
    "int32": numpy.int32, "int16": numpy.int16, "int8": numpy.int8, "uint64": numpy.uint64, "uint32": numpy.uint32,
    "uint16": numpy.uint16, "uint8": numpy.uint8, "bool": numpy.bool_,
}


def feed(given):
    kind = NUMPY[given.type[len("tensor("):-1]]
    count = int(numpy.prod(given.shape, dtype=numpy.int64))
    return (numpy.arange(count) % 5 + 1).astype(kind).reshape(given.shape)


def told(output):
    if isinstance(output, list):
        return {"sequence": [told(element) for element in output]}
    if output is None:
        return {}
    answer = {"element": str(output.dtype), "dims": list(output.shape)}
    if output.dtype.kind in "iub" and output.size <= SMALL:
        answer["values"] = [int(value) for value in output.ravel()]
    return answer


def ask(model):
    stage = "load"
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        stage = "run"
        outputs = session.run(None, {given.name: feed(given) for given in session.get_inputs()})
        return {"outputs": [told(output) for output in outputs]}
    except (state.NotImplemented, MemoryError) as error:
        return {"none": str(error)}
    except Exception as error:
        return {"refused": str(error), "stage": stage}


while head := sys.stdin.buffer.read(4):
    answer = ask(sys.stdin.buffer.read(struct.unpack("<I", head)[0]))
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
