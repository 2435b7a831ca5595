//! RecordBatch v2: view, validate, build, compress.
