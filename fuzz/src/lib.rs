//! Fuzz targets: each is a plain function over bytes, so that the same code runs under libFuzzer and as a test over the corpus.
