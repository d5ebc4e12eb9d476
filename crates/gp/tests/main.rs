//! Integration tests for surrogates and samples.

mod adversarial_gp;
mod evidence;
mod features;
mod function_samples;
mod kernels;
mod posterior;
mod weight_moments;
mod weights;
