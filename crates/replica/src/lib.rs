//! One replica's rules: high watermark, in-sync set, leader epochs, without IO.
