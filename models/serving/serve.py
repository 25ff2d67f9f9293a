#!/usr/bin/env python3
"""A model in a Python program, by ctypes: reads a log from stdin, prints a line of predictions a row.

    ctrc models/adult.ctr --emit=lib
    python3 models/serving/serve.py ./libadult.so adult checkpoint < adult.test
"""
import ctypes
import sys


class Model:
    """path: of libMODEL.so; name: the model's, with which its functions begin. Threads may share an object: ctypes
    lets go of the interpreter's lock while a call runs."""

    def __init__(self, path, name, checkpoint):
        self.lib, self.name, self.handle = ctypes.CDLL(path), name, ctypes.c_void_p()
        self.function("predictions").restype = ctypes.c_size_t
        self.function("prediction_name").restype = ctypes.c_char_p
        message = ctypes.create_string_buffer(1024)
        if self.function("open")(checkpoint.encode(), ctypes.byref(self.handle), message, ctypes.c_size_t(1024)):
            raise RuntimeError(message.value.decode())
        self.width = self.function("predictions")(self.handle)
        self.names = [self.function("prediction_name")(self.handle, ctypes.c_size_t(i)).decode()
                      for i in range(self.width)]

    def function(self, what):
        return getattr(self.lib, f"{self.name}_{what}")

    def predict(self, rows):
        """rows: bytes as in a log file. A list of predictions a row, and the message about the first bad row, whose
        predictions are nan; None if there is none."""
        n, message = ctypes.c_size_t(rows.count(b"\n") + 1), ctypes.create_string_buffer(1024)
        out = (ctypes.c_float * (n.value * self.width))()
        code = self.function("predict")(self.handle, rows, ctypes.c_size_t(len(rows)), out, ctypes.byref(n), message,
                                        ctypes.c_size_t(1024))
        if code > 1:
            raise RuntimeError(message.value.decode())
        values = [list(out[i * self.width:(i + 1) * self.width]) for i in range(n.value)]
        return values, message.value.decode() or None

    def close(self):
        self.function("close")(self.handle)


if __name__ == "__main__":
    model = Model(*sys.argv[1:4])
    lines, wrong = model.predict(sys.stdin.buffer.read())
    for line in lines:
        print(",".join(f"{v:.9g}" for v in line))
    if wrong:
        print(wrong, file=sys.stderr)
    model.close()
