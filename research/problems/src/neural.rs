//! Small neural networks, trained by hand-written gradients.

mod adam;
mod perceptron;

pub(crate) use adam::Adam;
pub(crate) use perceptron::{Perceptron, Sizes};
