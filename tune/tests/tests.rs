//! Integration tests of the trainable lifecycle, in one binary.
