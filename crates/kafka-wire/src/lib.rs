//! Every message of Kafka 4.4, declared: bounded borrowing decode, encode with holes for file slices.
